/* Looks at which definition is in force (G9, G14) where the lane, the operating system or the store
 * gets in their way: that is told, holds nothing else up, and loses nothing. */
#include "support/old_build.h"

#include <stdio.h>
#include <sys/resource.h>

static size_t told(struct world *world, int kind)
{
    return event_log_count(&world->events, kind, NULL);
}

/* G14: where the definition in force cannot be looked at, so that a job waits, that is told, at a
 * bounded pace; and its end is told. */
static void test_a_failed_look_is_told(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 1h");
    old_build_put(&world, &spec);
    fake_backend_fail(&world.fake, FAKE_JOBS, JOBSCHED_EACCESS, FAKE_FOR_EVER, false);
    spec.schedule = "@every 2s";
    old_build_start(&world, &spec);
    assert_equal(told(&world, JOBSCHED_EVENT_BACKEND_ACCESS), 1);
    const char *message = event_log_find(&world.events, JOBSCHED_EVENT_BACKEND_ACCESS, 0)->message;
    assert_non_null(strstr(message, "definition in force"));
    world_run(&world, 60000);
    assert_equal(job.calls, 0);
    assert_at_most(told(&world, JOBSCHED_EVENT_BACKEND_ACCESS), 7);
    assert_equal(told(&world, JOBSCHED_EVENT_BACKEND_RECOVERED), 0);
    fake_backend_fail(&world.fake, FAKE_JOBS, 0, 0, false);
    world_run(&world, 40000);
    assert_true(job.calls > 0);
    assert_equal(told(&world, JOBSCHED_EVENT_BACKEND_RECOVERED), 1);
    world_close(&world);
}

/* A look that hangs until its deadline. */
static void hang(struct fake_backend *fake, enum fake_operation operation, void *items,
                 size_t count)
{
    (void)items;
    (void)count;
    struct world *world = fake->hook_data;
    if (operation == FAKE_JOBS) {
        assert_true(fake_backend_calls(fake, FAKE_CLAIM) > 0); /* what is due comes first */
        test_clock_advance(&world->clock, world->s->settings.request_timeout_ms);
    }
}

/* G11: a lane on which looks hang holds up nothing that is due: claims come first in a round, and a
 * look is repeated less and less. */
static void test_a_look_that_hangs_holds_nothing_up(void **state)
{
    (void)state;
    struct world world;
    struct world_job job, other = {0};
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 1h");
    old_build_put(&world, &spec);
    jobsched_job_spec more = world_spec(&world, &other, "other", "@every 10s");
    old_build_start(&world, &more);
    fake_backend_fail(&world.fake, FAKE_JOBS, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    world.fake.hook_data = &world;
    world.fake.before = hang;
    test_clock_advance(&world.clock, 10000);
    spec.schedule = "@every 2s";
    world_add(&world, &spec);
    (void)jsi_tick(world.s);
    int64_t again_ms;
    (void)jsi_elect(world.s, &again_ms); /* in one round: the claim, and then the look */
    assert_true(jsi_work(world.s));
    assert_equal(other.calls, 1);
    assert_equal(fake_backend_calls(&world.fake, FAKE_JOBS), 1);
    world_run(&world, 300000);
    assert_true(fake_backend_calls(&world.fake, FAKE_JOBS) > 8);
    assert_at_most(fake_backend_calls(&world.fake, FAKE_JOBS), 6 + 300 / 30);
    world_check_accounted(&world, "other", "@every 10s", WORLD_BEGIN_MS, world_now(&world) - 20000);
    world_close(&world);
}

static void job_cannot_be_read(struct fake_backend *fake, enum fake_operation operation,
                               void *items, size_t count)
{
    (void)count;
    if (operation == FAKE_JOBS && items != NULL && strcmp(items, "job") == 0) {
        fake_backend_fail(fake, FAKE_JOBS, JOBSCHED_EDATALOST, 1, false);
    }
}

/* G14: a job that alone cannot be looked at does not keep others from it. */
static void test_one_that_fails_lets_others_pass(void **state)
{
    (void)state;
    struct world world;
    struct world_job job, other = {0};
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
    jobsched_job_spec more = world_spec(&world, &other, "other", "@every 2s");
    jobsched_announcement items[] = {{.job = "job", .definition = "another"},
                                     {.job = "other", .definition = "another"}};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world.fake.inner, &call, items, 2), 0);
    world.fake.before = job_cannot_be_read;
    old_build_start(&world, &spec);
    world_add(&world, &more);
    world_run(&world, 10000);
    assert_equal(job.calls, 0);
    assert_true(other.calls >= 3);
    world.fake.before = NULL;
    world_run(&world, 40000);
    assert_true(job.calls >= 1);
    world_close(&world);
}

/* Its zone is the old definition's alone, so it is not in the cache. */
static void begin_in_zone(struct world *world, struct world_job *job)
{
    *job = (struct world_job){.calls = 0};
    world_init(world, "fake:");
    world->options.zone_directory = TEST_DATA "/zoneinfo-slim";
    world_open(world);
    old_build_announce(world,
                       "schedule=*/2 * * * * *\ntimezone=America/New_York\nmisfire=0,100,0\n"
                       "overlap=0\nrecover=0,3\njitter=0\ndisabled=0\ndst=0,0\n"
                       "calendars=0,0000000000000000\n",
                       0);
}

static rlim_t limit_files(rlim_t soft)
{
    struct rlimit limit;
    assert_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = soft;
    assert_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* G9: a zone file that cannot be read for want of descriptors is no text that is not understood: what
 * the old definition has due waits for it, as long as a short trouble lasts, and is not lost. */
static void test_short_of_descriptors(void **state)
{
    (void)state;
    for (int lasts = 0; lasts < 2; lasts++) {
        struct world world;
        struct world_job job;
        begin_in_zone(&world, &job);
        jobsched_job_spec spec = world_spec(&world, &job, "job", "*/7 * * * * *");
        test_clock_advance(&world.clock, 5000);
        rlim_t before = limit_files(0);
        old_build_start(&world, &spec);
        world_run(&world, lasts ? JSI_SETTLE_WAIT_MS + 1000 : JSI_SETTLE_WAIT_MS - 2000);
        (void)limit_files(before);
        uint64_t looks = fake_backend_calls(&world.fake, FAKE_JOBS);
        size_t untold = event_log_count(&world.events, JOBSCHED_EVENT_JOB_UNSETTLED, NULL);
        world_run(&world, 20000);
        assert_at_most(looks, JSI_SETTLE_WAIT_MS / JSI_LOOK_LATER_MS + 2);
        assert_equal(untold, lasts);
        assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_JOB_UNSETTLED, NULL), lasts);
        const jsi_job *known = jsi_map_find(&world.s->jobs, "job");
        assert_equal(known->generation, 2);
        if (!lasts) {
            old_build_check(&world, "*/2 * * * * *", "*/7 * * * * *", WORLD_BEGIN_MS + 12000);
        }
        world_close(&world);
    }
}

static void a_larger_one_comes(struct fake_backend *fake, enum fake_operation operation,
                               void *items, size_t count)
{
    const jobsched_announcement *item = items;
    if (operation == FAKE_ANNOUNCE && count == 1 && item->replace == JOBSCHED_REPLACE_IF) {
        old_build_announce(fake->hook_data, "another kind of client, too", 4);
    }
}

/* G14: a definition that is not understood is told as replaced only by the node that replaced it. */
static void test_who_did_not_replace_tells_nothing(void **state)
{
    (void)state;
    for (int comes = 0; comes < 2; comes++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 7s");
        old_build_announce(&world, "another kind of client", 1);
        world.fake.hook_data = &world;
        world.fake.before = comes ? a_larger_one_comes : NULL;
        spec.version = 3;
        old_build_start(&world, &spec);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), comes);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_UNSETTLED), !comes);
        world_close(&world);
    }
}

static void all_is_stale(struct fake_backend *fake, enum fake_operation operation, void *items,
                         size_t count)
{
    (void)fake;
    jobsched_claim *claims = items;
    for (size_t i = 0; operation == FAKE_CLAIM && i < count; i++) {
        claims[i].generation = 99;
    }
}

/* G11: a store that calls each claim stale, and each time shows the same definition in force, is
 * asked at a bounded pace: under a predecessor, and under the job's own. */
static void test_stale_claims_are_paced(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        old_build_put(&world, &spec);
        spec.schedule = own ? spec.schedule : "@every 7s";
        world.fake.before = all_is_stale;
        test_clock_advance(&world.clock, 5000);
        old_build_start(&world, &spec);
        world_run(&world, 10000);
        assert_equal(job.calls, 0);
        assert_true(fake_backend_calls(&world.fake, FAKE_JOBS) >= 10);
        assert_at_most(fake_backend_calls(&world.fake, FAKE_JOBS), 10000 / JSI_LOOK_LATER_MS + 10);
        world_close(&world);
    }
}

struct reloader {
    struct world *world;
    int left;
};

/* The look has its answer, and makes something of it. */
static void *allocate_and_reload(void *ctx, size_t size)
{
    struct reloader *reloader = ctx;
    if (size == sizeof(jsi_predecessor) && reloader->left > 0) {
        reloader->left--;
        assert_equal(jobsched_zones_reload(reloader->world->s), 0);
    }
    return test_memory_allocate(&reloader->world->memory, size);
}

static void *reallocate(void *ctx, void *pointer, size_t size)
{
    struct reloader *reloader = ctx;
    return test_memory_reallocate(&reloader->world->memory, pointer, size);
}

static void release(void *ctx, void *pointer)
{
    struct reloader *reloader = ctx;
    test_memory_release(&reloader->world->memory, pointer);
}

/* G12, G14: zones that are reloaded while an old definition is being read make it be read again. */
static void test_zones_are_reloaded_amid_a_look(void **state)
{
    (void)state;
    uint64_t looks[2];
    for (int reloads = 0; reloads < 2; reloads++) {
        struct world world;
        struct reloader reloader = {.world = &world, .left = reloads};
        struct world_job job = {.calls = 0};
        world_init(&world, "fake:");
        world.allocator.allocate = allocate_and_reload;
        world.allocator.reallocate = reallocate;
        world.allocator.release = release;
        world.allocator.ctx = &reloader;
        world_open(&world);
        jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 2s");
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 7s";
        old_build_start(&world, &spec);
        world_run(&world, 10000);
        assert_equal(reloader.left, 0);
        assert_true(job.calls >= 3);
        looks[reloads] = fake_backend_calls(&world.fake, FAKE_JOBS);
        world_close(&world);
    }
    assert_equal(looks[1], looks[0] + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_look_is_told),
        cmocka_unit_test(test_a_look_that_hangs_holds_nothing_up),
        cmocka_unit_test(test_one_that_fails_lets_others_pass),
        cmocka_unit_test(test_short_of_descriptors),
        cmocka_unit_test(test_who_did_not_replace_tells_nothing),
        cmocka_unit_test(test_stale_claims_are_paced),
        cmocka_unit_test(test_zones_are_reloaded_amid_a_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
