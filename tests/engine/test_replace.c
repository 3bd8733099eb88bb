/* A changed definition takes the place of another one (G14), and what that one has due is not lost
 * (G9): it is fired, or closed, under the older definition and by its policies, before the newer one
 * begins. */
#include "support/old_build.h"

#include <stdio.h>

/* The old definition is in force since WORLD_BEGIN_MS, and nobody who has it lives. */
/* G9, G14: what is due is fired exactly once, under the old generation, whatever its jitter; then the
 * new definition is in force, and its first instant is after that cut. */
static void test_what_is_due_is_fired_first(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 4s");
    spec.jitter_ms = 3000;
    old_build_put(&world, &spec);
    test_clock_advance(&world.clock, 9000);
    spec.schedule = "@every 7s";
    spec.jitter_ms = 0;
    old_build_start(&world, &spec);
    assert_equal(job.calls, 2);
    assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 4000);
    assert_equal(world.calls[1].scheduled_ms, WORLD_BEGIN_MS + 8000);
    for (size_t i = 0; i < world.fake.asked_count; i++) {
        assert_equal(world.fake.asked[i].claim.generation, 1);
        assert_equal(world.fake.asked[i].claim.answer, JOBSCHED_ANSWER_GRANTED);
    }
    assert_equal(old_build_job(&world)->generation, 2);
    assert_equal(old_build_job(&world)->mark_ms, WORLD_BEGIN_MS + 9000);
    assert_null(old_build_job(&world)->predecessor);
    assert_equal(world.s->predecessors, 0);
    assert_equal(fake_backend_calls(&world.fake, FAKE_JOBS), 1);
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 2);
    world_run(&world, 60000);
    old_build_check(&world, "@every 4s", "@every 7s", WORLD_BEGIN_MS + 9000);
    assert_equal(world.fake.asked[world.fake.asked_count - 1].claim.generation, 2);
    world_close(&world);
}

/* G9: a backlog follows the misfire policy of the definition that had it due, in counted ranges. */
static void test_a_backlog_follows_the_old_policy(void **state)
{
    (void)state;
    static const struct {
        int32_t misfire, overlap;
        uint32_t limit;
        int64_t grace_ms, span_ms;
        size_t calls;
        uint64_t missed;
    } rows[] = {
        {JOBSCHED_MISFIRE_ONCE, JOBSCHED_OVERLAP_SKIP, 0, 0, 3600500, 1, 1799},
        {JOBSCHED_MISFIRE_SKIP, JOBSCHED_OVERLAP_SKIP, 0, 0, 3600500, 5, 1795},
        {JOBSCHED_MISFIRE_ALL, JOBSCHED_OVERLAP_ALLOW, 9, 0, 3600500, 9, 1791},
        {JOBSCHED_MISFIRE_ALL, JOBSCHED_OVERLAP_QUEUE, 0, 0, 3600500, 100, 1700},
        {JOBSCHED_MISFIRE_ONCE, JOBSCHED_OVERLAP_SKIP, 0, 1000, 3601900, 0, 1800},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        jobsched_job_spec old = spec;
        old.misfire = rows[i].misfire;
        old.misfire_limit = rows[i].limit;
        old.misfire_grace_ms = rows[i].grace_ms;
        old.overlap = rows[i].overlap;
        old_build_put(&world, &old);
        test_clock_advance(&world.clock, rows[i].span_ms);
        spec.schedule = "@every 5s";
        spec.misfire = JOBSCHED_MISFIRE_SKIP;
        old_build_start(&world, &spec);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        uint64_t missed = world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        world_ledger_free(&ledger);
        if (world.call_count != rows[i].calls || missed != rows[i].missed) {
            fail_msg("row %zu: %zu calls, %llu missed", i, world.call_count,
                     (unsigned long long)missed);
        }
        assert_equal(old_build_job(&world)->generation, 2);
        world_run(&world, 20000);
        old_build_check(&world, "@every 2s", "@every 5s", WORLD_BEGIN_MS + rows[i].span_ms);
        world_close(&world);
    }
}

static int stay(struct world_job *job, jobsched_run *run)
{
    job->pending = run;
    return JOBSCHED_PENDING;
}

/* G9, G11: a run that goes on does not hold up the new definition, also where its overlap policy was
 * to wait: what it keeps from running is closed as skipped. */
static void test_a_long_run_holds_up_nothing(void **state)
{
    (void)state;
    static const int32_t policies[] = {JOBSCHED_OVERLAP_SKIP, JOBSCHED_OVERLAP_QUEUE};
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 3s");
        job.body = stay;
        spec.overlap = policies[i];
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 10000);
        spec.schedule = "@every 1h";
        old_build_start(&world, &spec);
        assert_equal(job.calls, 1);
        assert_equal(old_build_job(&world)->generation, 2);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_OVERLAP), 2);
        world_ledger_free(&ledger);
        assert_equal(jobsched_run_finish(job.pending, JOBSCHED_OK), 0);
        (void)world_settle(&world);
        old_build_check(&world, "@every 3s", "@every 1h", WORLD_BEGIN_MS + 10000);
        world_close(&world);
    }
}

/* G9, G11: missed occurrences each of which is to run wait for each other, but a new definition does
 * not wait for them for long. */
static void test_a_backlog_is_waited_for_a_while(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 20s");
        job.body = stay;
        spec.misfire = JOBSCHED_MISFIRE_ALL;
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 75000); /* 20, 40 and 60: all missed */
        spec.schedule = "@every 1h";
        old_build_start(&world, &spec);
        for (int i = 1; i < 3; i++) {
            assert_equal(job.calls, ends ? i : 1);
            assert_equal(old_build_job(&world)->generation, 1);
            if (ends) {
                assert_equal(jobsched_run_finish(job.pending, JOBSCHED_OK), 0);
            }
            world_run(&world, 3000);
        }
        assert_equal(old_build_job(&world)->generation, ends ? 2 : 1);
        world_run(&world, JSI_SETTLE_WAIT_MS - 3000);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(job.calls, ends ? 3 : 1);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_OVERLAP), ends ? 0 : 3);
        world_ledger_free(&ledger);
        assert_equal(jobsched_run_finish(job.pending, JOBSCHED_OK), 0);
        (void)world_settle(&world);
        world_close(&world);
    }
}

/* G9: a fixed delay that is due is fired; one whose run goes on has nothing due. */
static void test_a_fixed_delay_is_replaced(void **state)
{
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@after 5s");
        job.body = goes_on ? stay : NULL;
        uint64_t generation = old_build_put(&world, &spec).generation;
        jobsched_claim claim = {.job = "job",
                                .generation = generation,
                                .scheduled_ms = WORLD_BEGIN_MS + 5000,
                                .after_ms = WORLD_BEGIN_MS,
                                .lease_ms = 30000,
                                .delay_ms = 5000,
                                .kind = JOBSCHED_KIND_SCHEDULED};
        jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
        test_clock_advance(&world.clock, 6000);
        if (goes_on) { /* elsewhere */
            const jobsched_backend *single = jobsched_backend_single();
            assert_equal(single->claim(world.fake.inner, &call, &claim, 1), 0);
            assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
            test_clock_advance(&world.clock, 6000);
        }
        spec.schedule = "@every 1h";
        old_build_start(&world, &spec);
        assert_equal(job.calls, goes_on ? 0 : 1);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(old_build_job(&world)->delay_ms, 0);
        world_run(&world, 60000);
        assert_equal(job.calls, goes_on ? 0 : 1);
        world_close(&world);
    }
}

/* G6, G9: a paused job's occurrences are closed as paused, and it stays paused. */
static void test_a_paused_job_stays_paused(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
    old_build_put(&world, &spec);
    assert_equal(jobsched_pause(world.s, "job", NULL), 0);
    test_clock_advance(&world.clock, 100500);
    spec.schedule = "@every 5s";
    old_build_start(&world, &spec);
    assert_equal(old_build_job(&world)->generation, 2);
    world_run(&world, 20000);
    assert_equal(job.calls, 0);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_PAUSED), 50 + 4);
    world_ledger_free(&ledger);
    old_build_check(&world, "@every 2s", "@every 5s", WORLD_BEGIN_MS + 100500);
    world_close(&world);
}

/* G9: what the old definition had disabled is not due; what the new one disables was. */
static void test_disabled(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        spec.disabled = old;
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 3s";
        spec.disabled = !old;
        old_build_start(&world, &spec);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(job.calls, old ? 0 : 2);
        world_run(&world, 10000);
        assert_equal(job.calls, old ? 4 : 2);
        world_close(&world);
    }
}

/* G15: a run of the old definition keeps the recover policy that it was claimed with. */
static void test_a_run_keeps_its_recover_policy(void **state)
{
    (void)state;
    for (int rerun = 0; rerun < 2; rerun++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        job.body = stay;
        spec.recover = rerun ? JOBSCHED_RECOVER_RERUN : JOBSCHED_RECOVER_LEAVE;
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 3000);
        spec.schedule = "@every 1h";
        spec.recover = rerun ? JOBSCHED_RECOVER_LEAVE : JOBSCHED_RECOVER_RERUN;
        old_build_start(&world, &spec);
        assert_equal(world.fake.asked[0].claim.recover,
                     rerun ? JOBSCHED_RECOVER_RERUN : JOBSCHED_RECOVER_LEAVE);
        fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
        world_run(&world, 40000);
        assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
        assert_equal(jobsched_run_finish(job.pending, JOBSCHED_OK), 0);
        (void)world_settle(&world);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.rows[0].outcome,
                     rerun ? JOBSCHED_OUTCOME_INTERRUPTED : JOBSCHED_OUTCOME_LEASE_LOST);
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* G14: triggers wait in the store until the new definition is in force, and run then. */
static void test_a_trigger_waits_for_it(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 1h");
    old_build_put(&world, &spec);
    assert_equal(jobsched_trigger(world.s, "job", "one", NULL), 0);
    spec.schedule = "@every 2h";
    old_build_start(&world, &spec);
    world_run(&world, 30000);
    assert_equal(job.calls, 1);
    assert_equal(world.fake.asked[0].claim.generation, 2);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_due_is_fired_first),
        cmocka_unit_test(test_a_backlog_follows_the_old_policy),
        cmocka_unit_test(test_a_long_run_holds_up_nothing),
        cmocka_unit_test(test_a_backlog_is_waited_for_a_while),
        cmocka_unit_test(test_a_fixed_delay_is_replaced),
        cmocka_unit_test(test_a_paused_job_stays_paused),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_a_run_keeps_its_recover_policy),
        cmocka_unit_test(test_a_trigger_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
