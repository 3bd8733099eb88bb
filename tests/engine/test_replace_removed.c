/* A removal that comes while a changed definition is to take the place of another one: it holds
 * (G6), until somebody registers a larger version after it (G14). */
#include "support/old_build.h"

static size_t told(struct world *world, int kind)
{
    return event_log_count(&world->events, kind, "job");
}

static void somebody_removes(struct world *world)
{
    jobsched_command command = {.verb = JOBSCHED_VERB_REMOVE, .job = "job"};
    jobsched_control_result result;
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->control(world->fake.inner, &call, &command, &result),
                 0);
}

enum moment { BEFORE, BEFORE_LOOKING, BEFORE_CLAIMING, BEFORE_REPLACING, MOMENTS };

/* Somebody removes the job just before the node's next step of a kind. */
struct removal {
    struct world *world;
    enum moment moment;
    bool done;
};

static void remove_then(struct fake_backend *fake, enum fake_operation operation, void *items,
                        size_t count)
{
    struct removal *removal = fake->hook_data;
    bool conditional = operation == FAKE_ANNOUNCE && count == 1 &&
                       ((const jobsched_announcement *)items)->replace == JOBSCHED_REPLACE_IF;
    bool now = (removal->moment == BEFORE_LOOKING && operation == FAKE_JOBS) ||
               (removal->moment == BEFORE_CLAIMING && operation == FAKE_CLAIM) ||
               (removal->moment == BEFORE_REPLACING && conditional);
    if (now && !removal->done) {
        removal->done = true;
        somebody_removes(removal->world);
    }
}

/* Version 1 is in force and has something due; this node registers version 3. */
static void run(struct world *world, struct world_job *job, struct removal *removal,
                enum moment moment, bool leader)
{
    *job = (struct world_job){.calls = 0};
    *removal = (struct removal){.world = world, .moment = moment};
    world_init(world, "fake:");
    if (leader) {
        assert_equal(jobsched_set(&world->options, "leader", "yes"), 0);
    }
    world_open(world);
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 2s");
    spec.version = 1;
    old_build_put(world, &spec);
    if (moment == BEFORE) {
        removal->done = true;
        somebody_removes(world);
    }
    world->fake.hook_data = removal;
    world->fake.before = remove_then;
    test_clock_advance(&world->clock, moment == BEFORE_CLAIMING ? 5000 : 1000);
    spec.schedule = "@every 7s";
    spec.version = 3;
    world_start(world);
    world_add(world, &spec);
    world_run(world, 20000);
    assert_true(removal->done);
}

/* G6: a removal that comes after this node has asked is not undone by its larger version, whatever the
 * node does at that moment; that is told once, and not asked again and again. One that came before is
 * undone. */
static void test_a_removal_holds(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * MOMENTS; i++) {
        struct world world;
        struct world_job job;
        struct removal removal;
        enum moment moment = (enum moment)(i / 2);
        run(&world, &job, &removal, moment, i % 2 == 1);
        uint64_t announced = fake_backend_calls(&world.fake, FAKE_ANNOUNCE);
        world_run(&world, 100000);
        assert_equal(job.calls > 0, moment == BEFORE);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_REMOVED), moment != BEFORE);
        assert_equal(old_build_job(&world)->generation != 0, moment == BEFORE);
        assert_null(old_build_job(&world)->predecessor);
        assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), announced);
        world_close(&world);
    }
}

/* G14: another node registers the job after the removal: the same, a smaller version, which this one's
 * then replaces as any other, a larger, or another text under the same, which is a conflict. A leader does
 * not yield because of what is removed. */
static void test_who_was_removed_comes_back(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        bool same;
        uint64_t generation;
    } rows[] = {{3, true, 2}, {2, false, 3}, {4, false, 0}, {3, false, 0}};
    for (int i = 0; i < 8; i++) {
        struct world world;
        struct world_job job;
        struct removal removal;
        bool leader = i % 2 == 1;
        run(&world, &job, &removal, BEFORE_REPLACING, leader);
        assert_equal(jobsched_is_leader(world.s), leader);
        world_run(&world, 100000);
        assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_LEADER_LOST, NULL), 0);
        assert_equal(job.calls, 0);
        uint64_t version = rows[i / 2].version, generation = rows[i / 2].generation;
        const char *text =
            rows[i / 2].same ? old_build_job(&world)->definition : "schedule=another";
        (void)old_build_announce(&world, text, version);
        world_run(&world, 100000);
        assert_equal(old_build_job(&world)->generation, generation);
        assert_equal(job.calls > 0, generation != 0);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), generation == 0);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), i / 2 == 3);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_REMOVED), 1);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_BACK_IN_FORCE), rows[i / 2].same);
        world_close(&world);
    }
}

/* G6: and if that one is removed, too, this node's does not come back by itself. */
static void test_a_second_removal_holds(void **state)
{
    (void)state;
    for (int leader = 0; leader < 2; leader++) {
        struct world world;
        struct world_job job;
        struct removal removal;
        run(&world, &job, &removal, BEFORE_REPLACING, leader);
        removal.done = false; /* once more, when this node is to replace the one in between */
        (void)old_build_announce(&world, "schedule=another", 2);
        world_run(&world, 200000);
        assert_true(removal.done);
        assert_equal(job.calls, 0);
        assert_equal(old_build_job(&world)->generation, 0);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_REMOVED), 2);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_removal_holds),
        cmocka_unit_test(test_who_was_removed_comes_back),
        cmocka_unit_test(test_a_second_removal_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
