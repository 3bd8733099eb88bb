/* test_hostile_answers.c: a backend that answers what means nothing, in every operation with answers.
 * Guards G1, G5, G8 (an error is never taken for an election that was won or lost, nor for a lease
 * that was kept) and G9: whatever was asked is asked again, and ends once. */
#include "support/world.h"

struct lies {
    enum fake_operation operation; /* which one lies */
    int32_t answer;
    int left;
    int no_token; /* claims are granted without one */
};

static void lie(struct fake_backend *fake, enum fake_operation operation, void *items, size_t count)
{
    struct lies *lies = fake->hook_data;

    if (operation != lies->operation || count == 0 || lies->left == 0) {
        return;
    }
    lies->left--;
    if (operation == FAKE_CLAIM && lies->no_token) {
        ((jobsched_claim *)items)[count - 1].token = 0;
    } else if (operation == FAKE_CLAIM) {
        ((jobsched_claim *)items)[count - 1].answer = lies->answer;
    } else if (operation == FAKE_FINISH) {
        ((jobsched_finish *)items)[count - 1].answer = lies->answer;
    } else {
        ((jobsched_lease *)items)[count - 1].answer = lies->answer;
    }
}

static void begin(struct world *world, struct world_job *job, struct lies *lies,
                  const char *schedule)
{
    world_begin(world, "fake:");
    world->fake.after = lie;
    world->fake.hook_data = lies;
    jobsched_job_spec spec = world_spec(world, job, "job", schedule);
    world_add(world, &spec);
    (void)world_settle(world);
}

static const int32_t nonsense[] = {0, -1, 99, 12, INT32_MIN, INT32_MAX};

enum { NONSENSE = sizeof nonsense / sizeof nonsense[0] };

/* A claim that took effect, whose answer is unreadable: granted again, run once, accounted for. */
static void test_a_claim_is_asked_again(void **state)
{
    (void)state;
    for (size_t i = 0; i <= NONSENSE; i++) {
        struct world world;
        struct world_job job = {0};
        struct lies lies = {.operation = FAKE_CLAIM,
                            .left = 1,
                            .answer = i < NONSENSE ? nonsense[i] : 0,
                            .no_token = i == NONSENSE};
        begin(&world, &job, &lies, "0 * * * * *");
        int64_t from_ms = world_now(&world);
        world_run(&world, 150000);
        assert_equal(lies.left, 0);
        assert_equal(job.calls, 2);
        assert_equal(event_log_count(&world.events, EVENT_ANY_FAILURE, NULL), 1);
        world_check_accounted(&world, "job", "0 * * * * *", from_ms, from_ms + 120000);
        world_close(&world);
    }
}

/* A renewal that is not answered renews nothing: the run is told before its lease is over. */
static void test_a_renewal_counts_only_when_it_is_answered(void **state)
{
    (void)state;
    for (size_t i = 0; i < NONSENSE; i++) {
        struct world world;
        struct world_job job = {.result = JOBSCHED_PENDING};
        struct lies lies = {.operation = FAKE_RENEW, .left = INT32_MAX, .answer = nonsense[i]};
        begin(&world, &job, &lies, "@every 1h");
        assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
        (void)world_settle(&world);
        assert_non_null(job.pending);
        int64_t lease_ms = world.s->settings.lease_ms;
        world_run(&world, lease_ms);
        assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
        assert_equal(jobsched_run_finish(job.pending, 0), 0);
        lies.left = 0;
        world_run(&world, 1000);
        world_close(&world);
    }
}

/* A few unreadable answers between good ones harm no run. */
static void test_a_run_outlives_some_nonsense(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    struct lies lies = {.operation = FAKE_RENEW, .left = 1, .answer = 99};
    begin(&world, &job, &lies, "@every 1h");
    assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
    world_run(&world, 4 * world.s->settings.lease_ms);
    assert_equal(lies.left, 0);
    assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_NONE);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 1000);
    world_close(&world);
}

static void test_a_finish_is_asked_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < NONSENSE; i++) {
        struct world world;
        struct world_job job = {0};
        struct lies lies = {.operation = FAKE_FINISH, .left = 2, .answer = nonsense[i]};
        begin(&world, &job, &lies, "@every 1h");
        assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
        world_run(&world, 20000);
        assert_equal(lies.left, 0);
        assert_equal(job.calls, 1);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SUCCEEDED), 1);
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* ---- an answer that comes after the stop ------------------------------------------ */

static void stop_and_put_off(struct fake_backend *fake, enum fake_operation operation, void *items,
                             size_t count)
{
    struct world *world = fake->hook_data;

    if (operation == FAKE_CLAIM && count == 1 && world->s->state == JSI_STARTED) {
        jobsched_claim *claim = items;
        claim->answer = *(int32_t *)world->options.observer_data;
        claim->wait_ms = 5;
        assert_equal(jobsched_stop(world->s), 0);
    }
}

/* A trigger that is to be asked again later, told while we stop: nobody would ask it again, so a
 * drain must not wait for it until its deadline (G11; seen on Postgres, whose BUSY is common). */
static void test_what_is_put_off_while_stopping_is_dropped(void **state)
{
    (void)state;
    static const int32_t answers[] = {JOBSCHED_ANSWER_BUSY, JOBSCHED_ANSWER_HELD};
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        struct world_job job = {0};
        struct lies none = {.operation = FAKE_OPERATIONS};
        int32_t answer = answers[i];
        begin(&world, &job, &none, "@every 1h");
        world.options.observer_data = &answer;
        world.fake.hook_data = &world;
        world.fake.after = stop_and_put_off;
        jobsched_job_spec spec = world_spec(&world, &job, "waits", "@every 1h");
        spec.overlap = JOBSCHED_OVERLAP_QUEUE;
        world_add(&world, &spec);
        (void)world_settle(&world);
        assert_equal(jobsched_trigger(world.s, "waits", NULL, NULL), 0);
        (void)world_settle(&world);
        world_run(&world, 5000);
        assert_equal(jobsched_drain(world.s, 0), 0);
        assert_equal(job.calls, 0);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claim_is_asked_again),
        cmocka_unit_test(test_a_renewal_counts_only_when_it_is_answered),
        cmocka_unit_test(test_a_run_outlives_some_nonsense),
        cmocka_unit_test(test_a_finish_is_asked_again),
        cmocka_unit_test(test_what_is_put_off_while_stopping_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
