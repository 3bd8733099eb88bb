/* A backend that offers only what the contract requires (G8, G14): the rest is refused by name, jobs
 * run all the same, and a node whose definition is not in force stands down although it cannot
 * look which one is. One that lacks what is required is refused at once. */
#include "support/world.h"

#include <stddef.h>

static int take_job(const jobsched_job_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

static int take_node(const jobsched_node_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

static int take_run(const jobsched_run_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

static int take_check(const jobsched_check_record *record, void *user_data)
{
    (void)record;
    ++*(int *)user_data;
    return 0;
}

static jobsched_backend required_only(void)
{
    jobsched_backend driver = **fake_backend_drivers();
    driver.find = NULL;
    driver.jobs = NULL;
    driver.nodes = NULL;
    driver.withdraw = NULL;
    driver.check = NULL;
    driver.watch = NULL;
    driver.schema = NULL;
    return driver;
}

static void test_optional_operations_are_refused_by_name(void **state)
{
    (void)state;
    jobsched_backend driver = required_only();
    const jobsched_backend *const drivers[] = {&driver, NULL};
    struct world world;
    struct world_job job = {0};
    world_init(&world, "fake:");
    world.options.backends = drivers;
    world_open(&world);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 3000);
    assert_equal(job.calls, 3);
    assert_fails(jobsched_jobs(world.s, NULL, take_job, NULL), JOBSCHED_ENOTSUP,
                 "'fake' cannot list jobs");
    assert_fails(jobsched_nodes(world.s, take_node, NULL), JOBSCHED_ENOTSUP,
                 "'fake' cannot list nodes");
    assert_fails(jobsched_wait(world.s, "job", "request", 0, take_run, NULL), JOBSCHED_ENOTSUP,
                 "'fake' cannot find a trigger");
    int checks = 0;
    assert_equal(jobsched_check(world.s, take_check, &checks), 0); /* what it can look at is told */
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    world_run(&world, 2000);
    assert_equal(job.calls, 3);
    world_close(&world);
}

static void test_stands_down_without_a_look(void **state)
{
    (void)state;
    jobsched_backend driver = required_only();
    const jobsched_backend *const drivers[] = {&driver, NULL};
    struct world world;
    struct world_job job = {0};
    world_init(&world, "fake:");
    world.options.backends = drivers;
    world_open(&world);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 2000);
    jobsched_announcement item = {.job = "job", .definition = "another build", .version = 9};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world.fake.inner, &call, &item, 1), 0);
    world_run(&world, 5000);
    assert_equal(job.calls, 2);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_JOB_STOOD_DOWN, "job"), 1);
    world_close(&world);
}

/* Each required operation in turn. */
static void test_required_operations_must_be_there(void **state)
{
    (void)state;
    const size_t required[] = {
        offsetof(jobsched_backend, open),   offsetof(jobsched_backend, close),
        offsetof(jobsched_backend, claim),  offsetof(jobsched_backend, announce),
        offsetof(jobsched_backend, finish), offsetof(jobsched_backend, renew),
        offsetof(jobsched_backend, reap),   offsetof(jobsched_backend, control),
        offsetof(jobsched_backend, runs)};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        jobsched_backend driver = required_only();
        /* All of them are pointers to functions, and NULL is all zeros. */
        memset((char *)&driver + required[i], 0, sizeof driver.open);
        const jobsched_backend *const drivers[] = {&driver, NULL};
        jobsched_options options;
        JOBSCHED_INIT(&options);
        options.lock = "fake:0";
        options.backends = drivers;
        jobsched *s = NULL;
        assert_fails(jobsched_open(&options, &s), JOBSCHED_ENOBACKEND,
                     "'fake' lacks its scheme or an operation");
        assert_null(s);
    }
}

/* What is asked for must have a place to go. */
static void test_questions_without_a_place_for_the_answer(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, "single:");
    assert_fails(jobsched_next_run(world.s, "job", NULL), JOBSCHED_EINVAL, "out_at_ms");
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optional_operations_are_refused_by_name),
        cmocka_unit_test(test_stands_down_without_a_look),
        cmocka_unit_test(test_required_operations_must_be_there),
        cmocka_unit_test(test_questions_without_a_place_for_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
