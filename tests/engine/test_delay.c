/* Fixed delays, "@after" (G1, G4, G9): measured from the end of the last run, whatever made it run and
 * wherever; never missed, never overlapping. The same over the scripted backend and over single:. */
#include "support/world.h"

#define BOTH(test)                                                                                 \
    {.name = #test " (fake:)", .test_func = test, .initial_state = (void *)"fake:"},               \
    {                                                                                              \
        .name = #test " (single:)", .test_func = test, .initial_state = (void *)"single:"          \
    }

static void begin(struct world *world, const char *lock, struct world_job *job)
{
    world_begin(world, lock);
    job->result = JOBSCHED_PENDING;
    jobsched_job_spec spec = world_spec(world, job, "job", "@after 10s");
    world_add(world, &spec);
    (void)world_settle(world);
}

static void end(struct world *world, struct world_job *job)
{
    assert_non_null(job->pending);
    assert_equal(jobsched_run_finish(job->pending, 0), 0);
    job->pending = NULL;
    (void)world_settle(world);
}

static void test_delay_counts_from_the_end(void **state)
{
    static const int64_t lengths_ms[] = {0, 7000, 10000, 10001, 3600000, 1};
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job);
    int64_t last_end_ms = WORLD_BEGIN_MS;
    for (int i = 0; i < 6; i++) {
        world_run(&world, 9000);
        assert_equal(job.calls, i);
        world_run(&world, 2000);
        assert_equal(job.calls, i + 1);
        /* Instants are whole seconds: late by less than one, never early. */
        int64_t delay_ms = world.calls[i].at_backend_ms - last_end_ms;
        assert_at_most(10000, delay_ms);
        assert_at_most(delay_ms, 10999);
        world_run(&world, lengths_ms[i]);
        end(&world, &job);
        last_end_ms = world_now(&world);
    }
    assert_equal(world.s->stats.skipped, 0);
    world_close(&world);
}

/* A node that was frozen, or a cluster that was down, owes one run and no more. */
static void test_outage_owes_one_run(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job);
    world_jump(&world, 3600000);
    assert_equal(job.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_SCHEDULED);
    end(&world, &job);
    world_run(&world, 9000);
    assert_equal(job.calls, 1);
    assert_equal(world.s->stats.skipped, 0);
    world_run(&world, 2000);
    assert_equal(job.calls, 2);
    end(&world, &job);
    world_close(&world);
}

/* A triggered run counts, too: while it goes on nothing else starts, and the delay begins anew. */
static void test_triggered_run_counts(void **state)
{
    struct world world;
    struct world_job job = {0};
    begin(&world, *state, &job);
    world_run(&world, 5000);
    assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    end(&world, &job);
    world_run(&world, 9000);
    assert_equal(job.calls, 1);
    world_run(&world, 2000);
    assert_equal(job.calls, 2);
    end(&world, &job);
    world_close(&world);
}

/* The end of a run of another node is heard of by asking, and moves this node's instant. */
static void test_end_elsewhere_counts(void **state)
{
    (void)state;
    const jobsched_backend *store = jobsched_backend_single();
    struct world world;
    struct world_job job = {0};
    begin(&world, "fake:", &job);
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN};
    jobsched_command trigger = {.verb = JOBSCHED_VERB_TRIGGER, .job = "job", .request = "theirs"};
    assert_equal(store->control(world.fake.inner, &call, &trigger, NULL), 0);
    jobsched_claim claim = {.job = "job",
                            .request = "theirs",
                            .generation = 1,
                            .kind = JOBSCHED_KIND_TRIGGER,
                            .lease_ms = 30000};
    assert_equal(store->claim(world.fake.inner, &call, &claim, 1), 0);
    assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
    world_run(&world, 30000);
    assert_equal(job.calls, 0);
    jobsched_finish finish = {
        .job = "job", .note = "", .token = claim.token, .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    assert_equal(store->finish(world.fake.inner, &call, &finish, 1), 0);
    world_run(&world, 9000);
    assert_equal(job.calls, 0);
    world_run(&world, 2000);
    assert_equal(job.calls, 1);
    end(&world, &job);
    world_close(&world);
}

/* A lost reply does not make two of one. */
static void test_lost_reply_runs_once(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, "fake:", &job);
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 3, lost);
        world_run(&world, 30000);
        assert_equal(job.calls, 1);
        end(&world, &job);
        world_run(&world, 9000);
        assert_equal(job.calls, 1);
        world_run(&world, 2000);
        assert_equal(job.calls, 2);
        end(&world, &job);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_delay_counts_from_the_end),
        BOTH(test_outage_owes_one_run),
        BOTH(test_triggered_run_counts),
        cmocka_unit_test(test_end_elsewhere_counts),
        cmocka_unit_test(test_lost_reply_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
