/* The end of what proves that this node lives (G1, G5): a backend may say from when on it may pass
 * runs on although their leases last. Runs are told before, nothing is claimed meanwhile, and a
 * renewal that comes in time changes it all back. */
#include "support/world.h"

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

struct race {
    struct world *world;
    bool mended; /* a renewal succeeds before the claim's answer is seen */
    bool twice;  /* another failure names a later instant */
    bool armed;
};

/* The session is lost while the claim is under way. */
static void during_claim(struct fake_backend *fake, enum fake_operation operation, void *items,
                         size_t count)
{
    struct race *race = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == FAKE_CLAIM && race->armed) {
        race->armed = false;
        lose(race->world, race->mended ? 1 : FAKE_FOR_EVER);
        if (race->twice) {
            int64_t later_ms = test_clock_mono(&race->world->clock) + 10 * GRACE_MS;
            atomic_store(&fake->lost_at_mono_ms, later_ms);
            (void)pthread_mutex_lock(&race->world->s->lock);
            race->world->s->keep_now = true;
            (void)pthread_mutex_unlock(&race->world->s->lock);
            (void)jsi_keep(race->world->s);
        }
        if (race->mended) {
            (void)pthread_mutex_lock(&race->world->s->lock);
            race->world->s->keep_now = true;
            (void)pthread_mutex_unlock(&race->world->s->lock);
            (void)jsi_keep(race->world->s);
        }
    }
}

/* G5: a grant that comes out of a claim sent before the loss was seen ends with the others. */
static void test_a_grant_amid_the_loss_ends_with_it(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_run *first = job.pending;
    struct race race = {.world = &world, .armed = true, .twice = true};
    world.fake.hook_data = &race;
    world.fake.after = during_claim;
    assert_equal(jobsched_trigger(world.s, "job", "amid", NULL), 0);
    int64_t again_ms;
    (void)jsi_elect(world.s, &again_ms);
    (void)jsi_work(world.s); /* before the keeper has another chance */
    assert_equal(job.calls, 2);
    assert_equal(jobsched_run_lease_left_ms(job.pending), GRACE_MS - JSI_LOST_MARGIN_MS);
    test_clock_advance(&world.clock, GRACE_MS - JSI_LOST_MARGIN_MS);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
}

/* G5: and one whose loss has been mended meanwhile is asked about at once, not at the next beat:
 * the renewal that mended it did not know of the run. */
static void test_a_grant_amid_a_mended_loss_is_verified(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_run *first = job.pending;
    struct race race = {.world = &world, .armed = true, .mended = true};
    world.fake.hook_data = &race;
    world.fake.after = during_claim;
    uint64_t before = atomic_load(&world.fake.items[FAKE_RENEW]);
    assert_equal(jobsched_trigger(world.s, "job", "amid", NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    /* The failed renewal and the one that mended it had one run each, and then both were asked. */
    assert_equal(atomic_load(&world.fake.items[FAKE_RENEW]) - before, 4);
    assert_equal(jobsched_run_lease_left_ms(job.pending), SAFE_MS);
    assert_equal(jobsched_run_finish(first, 0), 0);
    end(&world, &job);
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
        cmocka_unit_test(test_a_grant_amid_the_loss_ends_with_it),
        cmocka_unit_test(test_a_grant_amid_a_mended_loss_is_verified),
        cmocka_unit_test(test_the_earliest_instant_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
