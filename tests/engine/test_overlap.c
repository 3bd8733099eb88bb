/* Overlap (G4, G9): what becomes of occurrences that are due while a run of the job goes on: skipped,
 * the latest queued, or run beside it; scheduled, caught-up and triggered ones alike. The same over
 * the scripted backend and over single:. */
#include "support/world.h"

#define BOTH(test)                                                                                 \
    {.name = #test " (fake:)", .test_func = test, .initial_state = (void *)"fake:"},               \
    {                                                                                              \
        .name = #test " (single:)", .test_func = test, .initial_state = (void *)"single:"          \
    }

static void begin(struct world *world, const char *lock, struct world_job *job, int32_t overlap,
                  int32_t misfire)
{
    world_begin(world, lock);
    job->result = JOBSCHED_PENDING;
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 10s");
    spec.overlap = overlap;
    spec.misfire = misfire;
    world_add(world, &spec);
    (void)world_settle(world);
}

static void end_pending(struct world_job *job, int result)
{
    jobsched_run *run = job->pending;
    assert_non_null(run);
    job->pending = NULL;
    assert_equal(jobsched_run_finish(run, result), 0);
}

/* Skip: each is recorded by name, none is run later. */
static void test_skip_records_each(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job, JOBSCHED_OVERLAP_SKIP, JOBSCHED_MISFIRE_ONCE);
    world_run(&world, 55000);
    assert_equal(job.calls, 1);
    assert_equal(world.s->stats.skipped, 4);
    end_pending(&job, 0);
    world_run(&world, 4000);
    assert_equal(job.calls, 1);
    world_run(&world, 1000);
    assert_equal(job.calls, 2);
    end_pending(&job, 0);
    (void)world_settle(&world);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_OVERLAP), 4);
    assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SUCCEEDED), 2);
    world_ledger_free(&ledger);
    world_check_accounted(&world, "job", "@every 10s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* Queue: the latest waits, the ones it supersedes are closed as counted ranges, and it follows at
 * once when the run ends, as a scheduled run whatever the misfire policy says. */
static void test_queue_keeps_the_latest(void **state)
{
    for (int32_t misfire = 0; misfire <= JOBSCHED_MISFIRE_ALL; misfire++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, *state, &job, JOBSCHED_OVERLAP_QUEUE, misfire);
        world_run(&world, 55000);
        assert_equal(job.calls, 1);
        end_pending(&job, 0);
        (void)world_settle(&world);
        assert_equal(job.calls, 2);
        assert_equal(world.calls[1].scheduled_ms, WORLD_BEGIN_MS + 50000);
        assert_equal(world.calls[1].at_backend_ms, WORLD_BEGIN_MS + 55000);
        assert_equal(world.calls[1].kind, JOBSCHED_KIND_SCHEDULED);
        end_pending(&job, 0);
        (void)world_settle(&world);
        assert_equal(job.calls, 2);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_OVERLAP), 3);
        world_ledger_free(&ledger);
        world_check_accounted(&world, "job", "@every 10s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* Queue with a misfire threshold below the pace at which the holder is asked: what was held is not
 * taken for missed once a newer one supersedes it. */
static void test_queue_is_not_misfire(void **state)
{
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    world_init(&world, *state);
    world.options.misfire_after_ms = 1;
    world_open(&world);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    spec.overlap = JOBSCHED_OVERLAP_QUEUE;
    spec.misfire = JOBSCHED_MISFIRE_SKIP;
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_run(&world, 1000);
    assert_equal(job.calls, 1);
    world_run(&world, 1100); /* the second waits */
    for (int i = 0; i < 20; i++) {
        world_jump(&world, 333);
    }
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_MISFIRE), 0);
    assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_OVERLAP), 6);
    world_ledger_free(&ledger);
    end_pending(&job, 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    assert_equal(world.calls[1].scheduled_ms, WORLD_BEGIN_MS + 8000);
    end_pending(&job, 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* A holder is asked about at a bounded pace while an occurrence waits. */
static void test_waiting_is_no_load(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job, JOBSCHED_OVERLAP_QUEUE, JOBSCHED_MISFIRE_ONCE);
    world_run(&world, 25000);
    uint64_t claims = world.s->stats.claim_requests;
    world_run(&world, 60000);
    assert_at_most(world.s->stats.claim_requests - claims, 4 * 60 + 20);
    end_pending(&job, 0);
    world_run(&world, 1);
    end_pending(&job, 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* Allow: runs side by side, each with a token of its own. */
static void test_allow_runs_beside(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job, JOBSCHED_OVERLAP_ALLOW, JOBSCHED_MISFIRE_ONCE);
    jobsched_run *runs[3];
    for (int i = 0; i < 3; i++) {
        world_run(&world, i == 0 ? 10000 : 10000);
        assert_equal(job.calls, i + 1);
        runs[i] = job.pending;
    }
    assert_equal(world.s->active_count, 3);
    for (int i = 2; i >= 0; i--) {
        assert_equal(jobsched_run_token(runs[i]), i + 1);
        assert_equal(jobsched_run_finish(runs[i], 0), 0);
    }
    (void)world_settle(&world);
    world_check_accounted(&world, "job", "@every 10s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* Catching up "all" with overlap "skip": each missed one waits for the one before it, none is
 * skipped because the one before it still runs. */
static void test_catch_up_all_waits(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job, JOBSCHED_OVERLAP_SKIP, JOBSCHED_MISFIRE_ALL);
    world_jump(&world, 60000);
    for (int i = 0; i < 5; i++) {
        assert_equal(job.calls, i + 1);
        assert_equal(world.calls[i].scheduled_ms, WORLD_BEGIN_MS + 10000 * (i + 1));
        world_run(&world, 700);
        end_pending(&job, 0);
        (void)world_settle(&world);
    }
    assert_equal(world_calls_of(&world, "job", JOBSCHED_KIND_CATCH_UP), 5);
    /* The sixth was not missed when it was looked at, while the fifth ran: an overlap as any. */
    assert_equal(job.calls, 5);
    assert_equal(world.s->stats.skipped, 1);
    world_check_accounted(&world, "job", "@every 10s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* A run that goes on across an outage of the schedule: queue and misfire together lose nothing. */
static void test_long_run_and_outage(void **state)
{
    for (int32_t overlap = 0; overlap <= JOBSCHED_OVERLAP_ALLOW; overlap++) {
        for (int32_t misfire = 0; misfire <= JOBSCHED_MISFIRE_ALL; misfire++) {
            struct world world;
            struct world_job job = {0};
            begin(&world, *state, &job, overlap, misfire);
            world_run(&world, 15000);
            jobsched_run *first = job.pending;
            job.result = 0;
            world_jump(&world, 3600000);
            world_run(&world, 30000);
            assert_equal(jobsched_run_finish(first, 0), 0);
            world_run(&world, 30000);
            assert_equal(world.s->active_count, 0);
            world_check_accounted(&world, "job", "@every 10s", WORLD_BEGIN_MS, world_now(&world));
            for (size_t i = 1; i < world.call_count; i++) {
                assert_true(world.calls[i].token > world.calls[i - 1].token);
                assert_true(world.calls[i].scheduled_ms > world.calls[i - 1].scheduled_ms);
            }
            world_close(&world);
        }
    }
}

/* A trigger that comes while a run goes on obeys the job's overlap rule. */
static void test_trigger_obeys_overlap(void **state)
{
    for (int32_t overlap = 0; overlap <= JOBSCHED_OVERLAP_ALLOW; overlap++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, *state, &job, overlap, JOBSCHED_MISFIRE_ONCE);
        world_run(&world, 10000);
        jobsched_run *first = job.pending;
        assert_equal(jobsched_trigger(world.s, "job", "t", NULL), 0);
        (void)world_settle(&world);
        assert_equal(job.calls, overlap == JOBSCHED_OVERLAP_ALLOW ? 2 : 1);
        assert_equal(world.s->stats.skipped, overlap == JOBSCHED_OVERLAP_SKIP ? 1 : 0);
        assert_equal(jobsched_run_finish(first, 0), 0);
        (void)world_settle(&world);
        assert_equal(job.calls, overlap == JOBSCHED_OVERLAP_SKIP ? 1 : 2);
        if (overlap != JOBSCHED_OVERLAP_SKIP) {
            assert_equal(world.calls[1].kind, JOBSCHED_KIND_TRIGGER);
            end_pending(&job, 0);
            (void)world_settle(&world);
        }
        assert_equal(world.s->active_count, 0);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_skip_records_each),    BOTH(test_queue_keeps_the_latest),
        BOTH(test_queue_is_not_misfire), BOTH(test_waiting_is_no_load),
        BOTH(test_allow_runs_beside),    BOTH(test_catch_up_all_waits),
        BOTH(test_long_run_and_outage),  BOTH(test_trigger_obeys_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
