/* Leases (G2, G5, G10; rivals' bugs 10, 15, 19, 21): the deadline counts from when the request was sent;
 * a lost lease is seen by the run itself, at once and for good; renewals keep pace with the
 * shortest lease, survive failures, and reach every run. */
#include "support/world.h"

enum { LEASE_MS = 30000, SAFE_MS = LEASE_MS - JSI_LEASE_MARGIN_MAX_MS };

struct hooks {
    struct world *world;
    enum fake_operation slow; /* takes slow_ms, of which the store's own step is in the middle */
    int64_t slow_ms;
    int32_t lease_answer; /* given to all renewals instead of the store's */
    bool cancels;         /* another node cancels the job between the next grant and its answer */
};

static void before(struct fake_backend *fake, enum fake_operation operation, void *items,
                   size_t count)
{
    struct hooks *hooks = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == hooks->slow) {
        test_clock_advance(&hooks->world->clock, hooks->slow_ms);
    }
}

static void cancel_elsewhere(struct fake_backend *fake)
{
    jobsched_command command = {.verb = JOBSCHED_VERB_CANCEL, .job = "job"};
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN, .timeout_ms = 1000};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    assert_equal(jobsched_backend_single()->control(fake->inner, &call, &command, &result), 0);
    assert_equal(result.running, 1);
}

static void after(struct fake_backend *fake, enum fake_operation operation, void *items,
                  size_t count)
{
    struct hooks *hooks = fake->hook_data;
    if (operation == FAKE_CLAIM && hooks->cancels) {
        hooks->cancels = false;
        cancel_elsewhere(fake);
    }
    if (operation == hooks->slow) {
        test_clock_advance(&hooks->world->clock, hooks->slow_ms);
    }
    for (size_t i = 0; operation == FAKE_RENEW && hooks->lease_answer != 0 && i < count; i++) {
        ((jobsched_lease *)items)[i].answer = hooks->lease_answer;
    }
}

/* A job of one pending run, granted at the end of this. */
static void begin(struct world *world, struct hooks *hooks, struct world_job *job, int64_t lease_ms)
{
    world_begin(world, "fake:");
    *hooks = (struct hooks){.world = world, .slow = FAKE_OPERATIONS};
    world->fake.before = before;
    world->fake.after = after;
    world->fake.hook_data = hooks;
    job->result = JOBSCHED_PENDING;
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1h");
    spec.lease_ms = lease_ms;
    world_add(world, &spec);
    (void)world_settle(world);
}

static void grant(struct world *world, struct world_job *job)
{
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

/* G5: the round trip of the claim belongs to the lease's time: it began when it was sent. */
static void test_deadline_counts_from_the_claims_sending(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    hooks.slow = FAKE_CLAIM;
    hooks.slow_ms = 2000;
    grant(&world, &job);
    hooks.slow_ms = 0;
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS - 4000);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    end(&world, &job);
}

/* G5: and so does that of a renewal. */
static void test_deadline_counts_from_the_renewals_sending(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS);
    hooks.slow = FAKE_RENEW;
    hooks.slow_ms = 1500;
    test_clock_advance(&world.clock, 10000);
    (void)jsi_keep(world.s);
    hooks.slow_ms = 0;
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS - 3000);
    end(&world, &job);
}

/* G5: the promised part ends before the lease does: a tenth of it, at most half a second. */
static void test_margin_is_a_tenth_up_to_half_a_second(void **state)
{
    (void)state;
    static const int64_t leases_ms[] = {300, 1000, 5000, 60000};
    static const int64_t safe_ms[] = {270, 900, 4500, 59500};
    for (int i = 0; i < 4; i++) {
        struct world world;
        struct hooks hooks;
        struct world_job job = {0};
        begin(&world, &hooks, &job, leases_ms[i]);
        grant(&world, &job);
        assert_equal(jobsched_run_lease_left_ms(job.pending), safe_ms[i]);
        end(&world, &job);
    }
}

/* G5: a process that was frozen: the run sees the loss by itself, before any thread of ours has
 * run; a renewal that succeeds afterwards does not bring the lease back. */
static void test_frozen_run_sees_the_loss_for_good(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    test_clock_advance(&world.clock, SAFE_MS - 1);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    assert_equal(jobsched_run_lease_left_ms(job.pending), 1);
    test_clock_advance(&world.clock, 1);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(jobsched_run_lease_left_ms(job.pending), 0);
    uint64_t renewals = world.fake.calls[FAKE_RENEW];
    (void)jsi_keep(world.s);
    assert_equal(world.fake.calls[FAKE_RENEW], renewals + 1);
    world_run(&world, 60000);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(jobsched_run_lease_left_ms(job.pending), 0);
    assert_equal(job.stopped, 1);
    assert_equal(job.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    end(&world, &job);
}

/* The same when the renewal is the first to run after the freeze: it may not bring it back either,
 * since the run may have looked in between. */
static void test_late_renewal_does_not_revive(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    test_clock_advance(&world.clock, SAFE_MS);
    (void)jsi_keep(world.s);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    end(&world, &job);
}

/* A renewal whose reply comes after the deadline it would have extended comes too late. */
static void test_renewal_that_took_too_long_is_no_renewal(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    hooks.slow = FAKE_RENEW;
    hooks.slow_ms = SAFE_MS / 2;
    test_clock_advance(&world.clock, 10000);
    (void)jsi_keep(world.s);
    hooks.slow_ms = 0;
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    end(&world, &job);
}

/* Without renewals the loss is told at the deadline, by the tick alone; the outcome is "lease lost"
 * whatever the callback returns. */
static void test_loss_is_told_at_the_deadline(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    world_run(&world, SAFE_MS - 1);
    assert_equal(job.stopped, 0);
    world_run(&world, 1);
    assert_equal(job.stopped, 1);
    const struct event_copy *told = event_log_find(&world.events, JOBSCHED_EVENT_RUN_STOPPING, 0);
    assert_non_null(told);
    assert_equal(told->event.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    assert_equal(told->event.at_ms, WORLD_BEGIN_MS + SAFE_MS);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_LEASE_LOST);
    world_ledger_free(&ledger);
    assert_equal(world.s->stats.lease_lost, 1);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_RUN_STOPPING, "job"), 1);
    world_close(&world);
}

/* Rivals' bug 10: failed renewals are repeated well within the lease, and one success is enough. */
static void test_failed_renewals_are_repeated(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    for (int i = 0; i < 20; i++) {
        fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNKNOWN, 5, i % 2);
        world_run(&world, 25000);
        assert_equal(jobsched_run_should_stop(job.pending), 0);
    }
    assert_at_most(20 * 5 + 20, world.fake.calls[FAKE_RENEW]);
    assert_at_most(20, event_log_count(&world.events, JOBSCHED_EVENT_BACKEND_RECOVERED, NULL));
    end(&world, &job);
}

/* GONE: the store says that the run is not ours any more: told at once, and for good. */
static void test_gone_is_told_at_once(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    hooks.lease_answer = JOBSCHED_LEASE_GONE;
    world_run(&world, 10000);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(jobsched_run_lease_left_ms(job.pending), 0);
    assert_equal(job.stopped, 1);
    hooks.lease_answer = 0;
    world_run(&world, 30000);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    end(&world, &job);
}

/* CANCEL: the run is asked to stop by the next heartbeat, keeps its lease meanwhile, and a lost
 * lease overrides it. */
static void test_cancel_is_heard(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    assert_equal(jobsched_cancel(world.s, "job", &result), 0);
    assert_equal(result.running, 1);
    assert_equal(result.run_token, jobsched_run_token(job.pending));
    (void)world_settle(&world);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_CANCELLED);
    assert_equal(job.stop_reason, JOBSCHED_STOP_CANCELLED);
    world_run(&world, 60000);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_CANCELLED);
    assert_equal(job.stopped, 1);
    test_clock_advance(&world.clock, LEASE_MS);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    (void)world_settle(&world);
    assert_equal(job.stopped, 1); /* told once */
    end(&world, &job);
}

/* Rivals' bug 19: a cancellation does not lose the race with the dispatch. One that another node
 * makes before this node has heard of its grant is heard with the first heartbeat; one that is heard
 * before a worker has come to the run keeps it from being called at all. Both reported a run. */
static void test_cancel_amid_the_dispatch_is_heard(void **state)
{
    (void)state;
    for (int called = 0; called < 2; called++) {
        struct world world;
        struct hooks hooks;
        struct world_job job = {0};
        int64_t again_ms;
        begin(&world, &hooks, &job, 0);
        hooks.cancels = called;
        assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
        (void)jsi_elect(world.s, &again_ms);
        assert_equal(world.s->active_count, 1);
        if (called) {
            world_run(&world, LEASE_MS / JSI_BEATS_PER_LEASE);
            assert_equal(job.calls, 1);
            assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_CANCELLED);
            assert_equal(job.stop_reason, JOBSCHED_STOP_CANCELLED);
            assert_equal(jobsched_run_finish(job.pending, JOBSCHED_ECANCELED), 0);
        } else {
            jobsched_control_result result;
            JOBSCHED_INIT(&result);
            assert_equal(jobsched_cancel(world.s, "job", &result), 0);
            assert_equal(result.running, 1);
            (void)jsi_keep(world.s);
        }
        (void)world_settle(&world);
        assert_equal(job.calls, called);
        assert_equal(world.s->active_count, 0);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_CANCELLED);
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* Rivals' bugs 10 and 21: a stop ends no heartbeat. A run that goes on amid it, asked to stop or
 * not, keeps its lease for as long as it takes, also when renewals fail now and then, and its outcome
 * is written. */
static void test_stop_keeps_leases_and_outcomes(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct world world;
        struct hooks hooks;
        struct world_job job = {0};
        begin(&world, &hooks, &job, 0);
        grant(&world, &job);
        assert_equal(jobsched_stop(world.s), 0);
        if (asked) {
            assert_fails(jobsched_drain(world.s, 0), JOBSCHED_ETIMEDOUT, "'job' (token 1)");
        }
        for (int i = 0; i < 20; i++) {
            fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, 2, false);
            world_run(&world, LEASE_MS);
            assert_equal(jobsched_run_should_stop(job.pending),
                         asked ? JOBSCHED_STOP_SHUTDOWN : JOBSCHED_STOP_NONE);
            assert_at_most(SAFE_MS / 3, jobsched_run_lease_left_ms(job.pending));
        }
        fake_backend_fail(&world.fake, FAKE_FINISH, JOBSCHED_EUNREACHABLE, 2, false);
        assert_equal(jobsched_run_finish(job.pending, 0), 0);
        world_run(&world, 5000);
        assert_equal(jobsched_drain(world.s, 0), 0);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_SUCCEEDED);
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* The pace of heartbeats follows the shortest lease that is held, in both directions. */
static void test_pace_follows_the_shortest_lease(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 3000);
    uint64_t beats = world.fake.calls[FAKE_RENEW];
    world_run(&world, 60000);
    assert_equal(world.fake.calls[FAKE_RENEW] - beats, 6); /* a third of 30 s */
    grant(&world, &job);
    beats = world.fake.calls[FAKE_RENEW];
    world_run(&world, 60000);
    assert_at_most(59, world.fake.calls[FAKE_RENEW] - beats);
    assert_at_most(world.fake.calls[FAKE_RENEW] - beats, 61);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 2000);
    beats = world.fake.calls[FAKE_RENEW];
    world_run(&world, 60000);
    assert_equal(world.fake.calls[FAKE_RENEW] - beats, 6);
    world_close(&world);
}

enum { MANY = 2500 };

struct roll {
    bool seen[MANY + 1];
    size_t twice;
};

static void take_roll(struct fake_backend *fake, enum fake_operation operation, void *items,
                      size_t count)
{
    struct roll *roll = fake->hook_data;
    const jobsched_lease *leases = items;
    for (size_t i = 0; operation == FAKE_RENEW && i < count; i++) {
        uint64_t token = leases[i].token;
        roll->twice += token > MANY || roll->seen[token];
        roll->seen[token <= MANY ? token : 0] = true;
    }
}

/* G11: thousands of runs are renewed in batches, each once per beat, all in time. */
static void test_thousands_are_renewed_in_batches(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    static struct roll roll;
    static jobsched_run *runs[MANY];
    begin(&world, &hooks, &job, 0);
    world.s->settings.workers = MANY;
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    jobsched_job_spec spec = world_spec(&world, &job, "many", "@every 1s");
    spec.overlap = JOBSCHED_OVERLAP_ALLOW;
    spec.misfire = JOBSCHED_MISFIRE_ALL;
    spec.misfire_limit = MANY;
    world_add(&world, &spec);
    (void)world_settle(&world);
    jobsched_run *last = NULL;
    size_t count = 0;
    test_clock_advance(&world.clock, MANY * 1000);
    for (int pass = 0; pass < 10 * MANY && count < MANY; pass++) {
        int64_t again_ms;
        (void)jsi_tick(world.s);
        (void)jsi_elect(world.s, &again_ms);
        while (jsi_work(world.s)) {
            assert_ptr_not_equal(job.pending, last);
            last = runs[count++] = job.pending;
        }
    }
    assert_equal(world.s->active_count, MANY);
    memset(&roll, 0, sizeof roll);
    world.fake.before = take_roll;
    world.fake.hook_data = &roll;
    uint64_t beats = world.fake.calls[FAKE_RENEW];
    world.fake.after = NULL;
    test_clock_advance(&world.clock, 10000);
    (void)jsi_keep(world.s);
    assert_equal(world.fake.calls[FAKE_RENEW] - beats, 3);
    assert_equal(world.fake.largest[FAKE_RENEW], JOBSCHED_BATCH_MAX);
    assert_equal(roll.twice, 0);
    for (size_t i = 1; i <= MANY; i++) {
        assert_true(roll.seen[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_equal(jobsched_run_lease_left_ms(runs[i]), SAFE_MS);
    }
    world.fake.before = NULL;
    for (size_t i = 0; i < MANY; i++) {
        assert_equal(jobsched_run_finish(runs[i], 0), 0);
    }
    assert_equal(jobsched_withdraw(world.s, "many"), 0);
    (void)world_settle(&world);
    assert_equal(world.fake.largest[FAKE_FINISH], JOBSCHED_BATCH_MAX);
    world.s->settings.workers = JSI_WORKERS_DEFAULT; /* as many as there is room for threads */
    world_close(&world);
}

/* Notes and progress travel with the heartbeat, so others can follow a long run. */
static void test_progress_is_published_while_running(void **state)
{
    (void)state;
    struct world world;
    struct hooks hooks;
    struct world_job job = {0};
    begin(&world, &hooks, &job, 0);
    grant(&world, &job);
    assert_equal(jobsched_run_note(job.pending, "half way"), 0);
    assert_equal(jobsched_run_progress(job.pending, 50, 100), 0);
    world_run(&world, 10000);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_RUNNING);
    assert_equal(ledger.rows[0].progress_done, 50);
    assert_equal(ledger.rows[0].progress_total, 100);
    world_ledger_free(&ledger);
    end(&world, &job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline_counts_from_the_claims_sending),
        cmocka_unit_test(test_deadline_counts_from_the_renewals_sending),
        cmocka_unit_test(test_margin_is_a_tenth_up_to_half_a_second),
        cmocka_unit_test(test_frozen_run_sees_the_loss_for_good),
        cmocka_unit_test(test_late_renewal_does_not_revive),
        cmocka_unit_test(test_renewal_that_took_too_long_is_no_renewal),
        cmocka_unit_test(test_loss_is_told_at_the_deadline),
        cmocka_unit_test(test_failed_renewals_are_repeated),
        cmocka_unit_test(test_gone_is_told_at_once),
        cmocka_unit_test(test_cancel_is_heard),
        cmocka_unit_test(test_cancel_amid_the_dispatch_is_heard),
        cmocka_unit_test(test_stop_keeps_leases_and_outcomes),
        cmocka_unit_test(test_pace_follows_the_shortest_lease),
        cmocka_unit_test(test_thousands_are_renewed_in_batches),
        cmocka_unit_test(test_progress_is_published_while_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
