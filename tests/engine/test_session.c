/* The end of what proves that this node lives (G1, G5): a backend may say from when on it may pass
 * runs on although their leases last. Runs are told before, nothing is claimed meanwhile, and a
 * renewal that comes in time changes it all back. */
#include "support/world.h"

#include <poll.h>

enum { LEASE_MS = 30000, SAFE_MS = LEASE_MS - JSI_LEASE_MARGIN_MAX_MS, GRACE_MS = 500 };

/* A job with one pending run. */
static void begin(struct world *world, struct world_job *job)
{
    world_begin(world, "fake:");
    job->result = JOBSCHED_PENDING;
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1h");
    spec.overlap = JOBSCHED_OVERLAP_ALLOW;
    world_add(world, &spec);
    (void)world_settle(world);
    assert_equal(jobsched_trigger(world->s, "job", NULL, NULL), 0);
    (void)world_settle(world);
    assert_non_null(job->pending);
}

static void end(struct world *world, struct world_job *job)
{
    assert_equal(jobsched_run_finish(job->pending, 0), 0);
    (void)world_settle(world);
    world_close(world);
}

/* The session ends now: renewals fail so many times, and the store may take over after the grace. */
static void lose(struct world *world, int failures)
{
    atomic_store(&world->fake.lost_at_mono_ms, test_clock_mono(&world->clock) + GRACE_MS);
    fake_backend_fail(&world->fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, failures, false);
    (void)pthread_mutex_lock(&world->s->lock);
    jsi_wake_keep_locked(world->s); /* as the descriptor does */
    (void)pthread_mutex_unlock(&world->s->lock);
    (void)jsi_keep(world->s);
}

/* G5: the run is told before the instant that the backend named, though its lease would last for
 * half a minute; the run itself sees it, whatever the threads do. */
static void test_runs_are_told_before_the_store_takes_over(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS);
    lose(&world, FAKE_FOR_EVER);
    assert_equal(jobsched_run_lease_left_ms(job.pending), GRACE_MS - JSI_LOST_MARGIN_MS);
    test_clock_advance(&world.clock, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    test_clock_advance(&world.clock, 1);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    (void)world_settle(&world);
    assert_equal(job.stopped, 1);
    assert_equal(job.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    world_run(&world, LEASE_MS);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST); /* for good */
    end(&world, &job);
}

/* G5: the tick is woken for it, so that on_stop is called before the instant, too. */
static void test_the_tick_comes_in_time(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    lose(&world, FAKE_FOR_EVER);
    world_run(&world, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
    assert_equal(job.stopped, 0);
    world_run(&world, JSI_LOST_MARGIN_MS - 1);
    assert_equal(job.stopped, 1);
    end(&world, &job);
}

/* G5: a renewal that succeeds before restores the lease, and nobody is told anything. It is tried
 * again and again, far more often than beats come. */
static void test_a_renewal_in_time_restores_the_lease(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    uint64_t before = fake_backend_calls(&world.fake, FAKE_RENEW);
    lose(&world, 2);
    world_run(&world, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
    assert_equal(fake_backend_calls(&world.fake, FAKE_RENEW) - before, 3);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    world_run(&world, LEASE_MS);
    assert_equal(job.stopped, 0);
    end(&world, &job);
}

/* G1, G5: while the session is lost nothing is claimed; once it is back what was due is. */
static void test_nothing_is_claimed_without_a_session(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    lose(&world, FAKE_FOR_EVER);
    uint64_t before = fake_backend_calls(&world.fake, FAKE_CLAIM);
    assert_equal(jobsched_trigger(world.s, "job", "later", NULL), 0);
    world_run(&world, 10000);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), before);
    assert_equal(job.calls, 1);
    jobsched_run *first = job.pending;
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    (void)pthread_mutex_lock(&world.s->lock);
    world.s->elect_again = false;
    jsi_wake_keep_locked(world.s);
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)jsi_keep(world.s);
    assert_true(world.s->elect_again); /* nothing else would wake the elector */
    world_run(&world, 10000);
    assert_equal(job.calls, 2);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* G11: a loss that is told and mended within one millisecond: what was claimed in it would be doubtful
 * for as long as it lasts, and asked for again without end. It waits for the next. */
static void test_nothing_is_claimed_in_the_instant_of_a_loss(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_run *first = job.pending;
    lose(&world, 1);
    (void)pthread_mutex_lock(&world.s->lock);
    world.s->keep_now = true;
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)jsi_keep(world.s);
    assert_true(world.s->lost_at_mono_ms == JOBSCHED_NONE);
    uint64_t before = fake_backend_calls(&world.fake, FAKE_CLAIM);
    assert_equal(jobsched_trigger(world.s, "job", "soon", NULL), 0);
    (void)world_settle(&world);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), before);
    world_run(&world, 1000);
    assert_equal(job.calls, 2);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), before + 1);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* ---- a grant that is heard of late ------------------------------------------ */

struct race {
    struct world *world;
    bool mended; /* a renewal succeeds before the claim's answer is seen */
    bool taken;  /* and the store has given the run to somebody else, who has ended it */
    bool frozen; /* nobody here has seen the loss: only vouch() can */
    bool armed;
};

static void keep_now(struct world *world)
{
    (void)pthread_mutex_lock(&world->s->lock);
    world->s->keep_now = true;
    (void)pthread_mutex_unlock(&world->s->lock);
    (void)jsi_keep(world->s);
}

static void take(struct fake_backend *fake, const jobsched_claim *claim)
{
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    jobsched_finish item = {.job = claim->job,
                            .note = "",
                            .token = claim->token,
                            .outcome = JOBSCHED_OUTCOME_INTERRUPTED};
    assert_equal(jobsched_backend_single()->finish(fake->inner, &call, &item, 1), 0);
}

/* The session is lost while the claim is under way. */
static void during_claim(struct fake_backend *fake, enum fake_operation operation, void *items,
                         size_t count)
{
    struct race *race = fake->hook_data;
    (void)count;
    if (operation != FAKE_CLAIM || !race->armed) {
        return;
    }
    race->armed = false;
    if (race->taken) {
        take(fake, items);
    }
    if (race->frozen) {
        atomic_store(&fake->ended_mono_ms, test_clock_mono(&race->world->clock));
        test_clock_advance(&race->world->clock, GRACE_MS);
        return;
    }
    lose(race->world, race->mended ? 1 : FAKE_FOR_EVER);
    if (race->mended) {
        test_clock_advance(&race->world->clock, GRACE_MS);
        keep_now(race->world);
    }
}

/* The claim of a second run, during which that happens. */
static void ask_amid(struct world *world, struct race *race)
{
    race->world = world;
    race->armed = true;
    world->fake.hook_data = race;
    world->fake.after = during_claim;
    assert_equal(jobsched_trigger(world->s, "job", "amid", NULL), 0);
}

/* How often the trigger was asked for, and whether each time the same run was granted. */
static int asked_amid(struct world *world)
{
    int count = 0;
    for (size_t i = 0; i < world->fake.asked_count; i++) {
        count += strcmp(world->fake.asked[i].request, "amid") == 0;
    }
    return count;
}

/* G1, G5: a grant that comes out of a claim sent before the loss was seen is not begun: the store
 * may pass it on before its lease ends. Once a renewal has succeeded it is asked for again. */
static void test_a_grant_amid_the_loss_is_asked_for_again(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_run *first = job.pending;
    struct race race = {.mended = false};
    ask_amid(&world, &race);
    world_run(&world, GRACE_MS);
    assert_equal(job.calls, 1);
    assert_equal(asked_amid(&world), 1);
    int64_t before_ms = test_clock_mono(&world.clock);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    keep_now(&world);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    assert_equal(asked_amid(&world), 2);
    assert_equal(jobsched_run_token(job.pending), 2); /* the same grant */
    /* Its lease is counted from the repetition. */
    assert_equal(test_clock_mono(&world.clock), before_ms);
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* G5: also one whose loss has been mended meanwhile: the renewal that mended it did not know of the
 * run. */
static void test_a_grant_amid_a_mended_loss_is_asked_for_again(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_run *first = job.pending;
    struct race race = {.mended = true};
    ask_amid(&world, &race);
    int64_t again_ms;
    (void)jsi_elect(world.s, &again_ms);
    (void)jsi_work(world.s);
    assert_equal(job.calls, 1);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    assert_equal(asked_amid(&world), 2);
    assert_equal(jobsched_run_token(job.pending), 2);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* G4, G5: and if it is gone by then, nobody begins it here. */
static void test_a_grant_that_was_passed_on_is_not_begun(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job);
        atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
        struct race race = {.mended = true, .taken = true, .frozen = frozen};
        ask_amid(&world, &race);
        int64_t again_ms;
        (void)jsi_elect(world.s, &again_ms);
        (void)jsi_work(world.s);
        assert_equal(job.calls, 1);
        atomic_store(&world.fake.ended_mono_ms, JOBSCHED_NONE); /* it is back */
        world_run(&world, 1000);
        assert_equal(job.calls, 1);
        assert_equal(asked_amid(&world), 2);
        end(&world, &job);
    }
}

/* ---- a backend that vouches ------------------------------------------------- */

/* G5: whether the session lives is looked at by the run's own question, no earlier than it must be:
 * so it is told in time though no thread of the engine has seen the end, and never while the
 * session lives. */
static void test_the_question_itself_finds_the_end(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    uint64_t before = atomic_load(&world.fake.vouch_calls);
    for (int i = 0; i < 20; i++) { /* alive: a look in each span of grace and margin */
        assert_equal(jobsched_run_should_stop(job.pending), 0);
        assert_equal(jobsched_run_should_stop(job.pending), 0);
        test_clock_advance(&world.clock, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
        assert_equal(jobsched_run_should_stop(job.pending), 0);
        assert_equal(atomic_load(&world.fake.vouch_calls) - before, i + 1);
        test_clock_advance(&world.clock, 1);
    }
    atomic_store(&world.fake.ended_mono_ms, test_clock_mono(&world.clock));
    assert_true(jobsched_run_lease_left_ms(job.pending) > LEASE_MS / 2);
    test_clock_advance(&world.clock, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    test_clock_advance(&world.clock, 1);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(jobsched_run_lease_left_ms(job.pending), 0);
    atomic_store(&world.fake.ended_mono_ms, JOBSCHED_NONE);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST); /* for good */
    end(&world, &job);
}

/* G5: a process that was frozen while its session was ended: the first question after it. */
static void test_a_frozen_process_is_told_by_its_first_question(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    atomic_store(&world.fake.ended_mono_ms, test_clock_mono(&world.clock));
    test_clock_advance(&world.clock, LEASE_MS / 10);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    end(&world, &job);
}

/* G5: where no run asks, the tick looks, and on_stop is called before the instant. */
static void test_the_tick_finds_the_end(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    assert_equal(jobsched_trigger(world.s, "job", "next", NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    int64_t alive_ms = test_clock_mono(&world.clock);
    atomic_store(&world.fake.ended_mono_ms, alive_ms);
    int64_t again_ms = 0;
    for (int i = 0; i < 100 && job.stopped == 0; i++) { /* no other step is called */
        again_ms = jsi_tick(world.s);
        while (jsi_deliver(world.s)) {
        }
        int64_t now_ms = test_clock_mono(&world.clock);
        test_clock_advance(&world.clock, job.stopped || again_ms <= now_ms ? 0 : again_ms - now_ms);
    }
    assert_equal(job.stopped, 1);
    assert_equal(job.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    assert_equal(test_clock_mono(&world.clock), alive_ms + GRACE_MS - JSI_LOST_MARGIN_MS);
    atomic_store(&world.fake.ended_mono_ms, JOBSCHED_NONE);
    end(&world, &job);
}

/* G5: also where nothing was to be vouched for when it looked last (the server was down, so nobody
 * could take the run), and there is again. */
static void test_the_tick_looks_again_once_there_is_a_proof(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    (void)jsi_tick(world.s);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    keep_now(&world);
    int64_t alive_ms = test_clock_mono(&world.clock);
    atomic_store(&world.fake.ended_mono_ms, alive_ms);
    for (int i = 0; i < 100 && job.stopped == 0; i++) { /* no other step is called */
        int64_t again_ms = jsi_tick(world.s);
        while (jsi_deliver(world.s)) {
        }
        int64_t now_ms = test_clock_mono(&world.clock);
        test_clock_advance(&world.clock, job.stopped || again_ms <= now_ms ? 0 : again_ms - now_ms);
    }
    assert_equal(job.stopped, 1);
    assert_equal(test_clock_mono(&world.clock), alive_ms + GRACE_MS - JSI_LOST_MARGIN_MS);
    atomic_store(&world.fake.ended_mono_ms, JOBSCHED_NONE);
    end(&world, &job);
}

/* G1, G5: while nobody vouches nothing is claimed, and the keeper is woken to mend that. */
static void test_nothing_is_claimed_unvouched(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    atomic_store(&world.fake.ended_mono_ms, test_clock_mono(&world.clock) - GRACE_MS);
    fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    uint64_t claims = fake_backend_calls(&world.fake, FAKE_CLAIM);
    uint64_t renewals = fake_backend_calls(&world.fake, FAKE_RENEW);
    assert_equal(jobsched_trigger(world.s, "job", "later", NULL), 0);
    world_run(&world, 1000);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), claims);
    assert_true(fake_backend_calls(&world.fake, FAKE_RENEW) > renewals);
    jobsched_run *first = job.pending;
    atomic_store(&world.fake.ended_mono_ms, JOBSCHED_NONE);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    world_run(&world, 1000);
    assert_equal(job.calls, 2);
    assert_equal(jobsched_run_should_stop(first), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* ---- a close amid the question ---------------------------------------------- */

static _Atomic int asking, may_answer;

static void hold_answer(struct fake_backend *fake)
{
    (void)fake;
    atomic_store(&asking, 1);
    while (!atomic_load(&may_answer)) {
        (void)poll(NULL, 0, 1);
    }
}

static void *ask(void *run)
{
    (void)jobsched_run_should_stop(run);
    return NULL;
}

static void *close_it(void *s)
{
    static int result;
    result = jobsched_close(s);
    return &result;
}

static void await(bool (*come)(struct world *world), struct world *world)
{
    for (int i = 0; i < 30000 && !come(world); i++) {
        (void)poll(NULL, 0, 1);
    }
    assert_true(come(world));
}

static bool is_asking(struct world *world)
{
    (void)world;
    return atomic_load(&asking) != 0;
}

static bool lets_none_ask(struct world *world)
{
    return atomic_load(&world->s->vouching) >> 31 != 0;
}

/* G5, G11: who asks amid a close keeps the backend open for that moment; a run that goes on after
 * the close, and asks, is told without it. */
static void test_nobody_asks_a_closed_backend(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    atomic_store(&world.fake.vouch_grace_ms, GRACE_MS);
    world.fake.vouch_hook = hold_answer;
    pthread_t asker, closer;
    assert_equal(pthread_create(&asker, NULL, ask, job.pending), 0);
    await(is_asking, &world);
    assert_equal(pthread_create(&closer, NULL, close_it, world.s), 0);
    await(lets_none_ask, &world);
    uint64_t closed_early = fake_backend_calls(&world.fake, FAKE_CLOSE);
    atomic_store(&may_answer, 1);
    void *result;
    assert_equal(pthread_join(asker, NULL), 0);
    assert_equal(pthread_join(closer, &result), 0);
    assert_equal(closed_early, 0);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLOSE), 1);
    assert_equal(*(int *)result, JOBSCHED_ETIMEDOUT); /* the run goes on */
    uint64_t before = atomic_load(&world.fake.vouch_calls);
    test_clock_advance(&world.clock, GRACE_MS);
    assert_equal(jsi_backend_vouched_ms(world.s, test_clock_mono(&world.clock)), INT64_MIN);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(atomic_load(&world.fake.vouch_calls), before);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world.s = NULL;
    world_close(&world);
}

/* G5: of two instants the earlier one holds, and a loss that reap is told counts as well. */
static void test_the_earliest_instant_holds(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    atomic_store(&world.fake.lost_at_mono_ms, test_clock_mono(&world.clock) + GRACE_MS);
    fake_backend_fail(&world.fake, FAKE_REAP, JOBSCHED_EUNREACHABLE, 1, false);
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_wake_keep_locked(world.s);
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)jsi_keep(world.s);
    assert_equal(jobsched_run_lease_left_ms(job.pending), GRACE_MS - JSI_LOST_MARGIN_MS);
    atomic_store(&world.fake.lost_at_mono_ms, test_clock_mono(&world.clock) + 10 * GRACE_MS);
    fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, 1, false);
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_wake_keep_locked(world.s);
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)jsi_keep(world.s);
    assert_equal(jobsched_run_lease_left_ms(job.pending), GRACE_MS - JSI_LOST_MARGIN_MS);
    world_run(&world, GRACE_MS - JSI_LOST_MARGIN_MS - 1);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    end(&world, &job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_are_told_before_the_store_takes_over),
        cmocka_unit_test(test_the_tick_comes_in_time),
        cmocka_unit_test(test_a_renewal_in_time_restores_the_lease),
        cmocka_unit_test(test_nothing_is_claimed_without_a_session),
        cmocka_unit_test(test_nothing_is_claimed_in_the_instant_of_a_loss),
        cmocka_unit_test(test_a_grant_amid_the_loss_is_asked_for_again),
        cmocka_unit_test(test_a_grant_amid_a_mended_loss_is_asked_for_again),
        cmocka_unit_test(test_a_grant_that_was_passed_on_is_not_begun),
        cmocka_unit_test(test_the_question_itself_finds_the_end),
        cmocka_unit_test(test_a_frozen_process_is_told_by_its_first_question),
        cmocka_unit_test(test_the_tick_finds_the_end),
        cmocka_unit_test(test_the_tick_looks_again_once_there_is_a_proof),
        cmocka_unit_test(test_nothing_is_claimed_unvouched),
        cmocka_unit_test(test_nobody_asks_a_closed_backend),
        cmocka_unit_test(test_the_earliest_instant_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
