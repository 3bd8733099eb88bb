/* One definition at a time (G14): a node whose definition is replaced stands down and says so; both
 * sides hear of two texts under one version, and neither of them fights; one whose own definition
 * is in force goes on, also after a roll-back that reached another node first. */
#include "support/world.h"

#include <stdio.h>

enum { LEASE_MS = 30000 };

/* As another node does it, past this scheduler. */
static jobsched_announcement announce_elsewhere(struct world *world, const char *definition,
                                                uint64_t version)
{
    jobsched_announcement item = {.job = "job", .definition = definition, .version = version};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world->fake.inner, &call, &item, 1), 0);
    return item;
}

static void begin(struct world *world, struct world_job *job, uint64_t version)
{
    world_begin(world, "fake:");
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1s");
    spec.version = version;
    world_add(world, &spec);
    (void)world_settle(world);
}

static const char *own_text(struct world *world)
{
    return ((const jsi_job *)jsi_map_find(&world->s->jobs, "job"))->definition;
}

static size_t told(struct world *world, int kind)
{
    return event_log_count(&world->events, kind, "job");
}

/* G14: two builds claim to be the same version. Who replaced the other hears of it at once, who
 * was replaced when its next claim is refused; and then there is peace. */
static void test_both_sides_hear_of_a_conflict(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_init(&world, "fake:");
    world_open(&world);
    announce_elsewhere(&world, "another build", 5);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    spec.version = 5;
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), 1);
    assert_non_null(strstr(event_log_find(&world.events, JOBSCHED_EVENT_JOB_CONFLICT, 0)->message,
                           "version 5: this node's"));
    world_run(&world, 5000);
    assert_equal(job.calls, 5);
    assert_equal(announce_elsewhere(&world, "another build", 5).conflict, 1);
    world_run(&world, 2000);
    assert_equal(job.calls, 5);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), 2);
    assert_non_null(strstr(event_log_find(&world.events, JOBSCHED_EVENT_JOB_CONFLICT, 1)->message,
                           "another node's"));
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    world_run(&world, 10 * LEASE_MS);
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 2);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), 2);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    assert_equal(job.calls, 5);
    world_close(&world);
}

/* G14: without versions the later registration wins, and that is no conflict; nor is a larger
 * version, and the node says which of the two it was. */
static void test_standing_down_says_why(void **state)
{
    (void)state;
    static const struct {
        uint64_t own, other;
        const char *text;
    } rows[] = {{0, 0, "a later definition"}, {0, 3, "a larger version"}, {3, 4, "a larger"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, rows[i].own);
        world_run(&world, 3000);
        announce_elsewhere(&world, "another", rows[i].other);
        world_run(&world, 3000);
        assert_equal(job.calls, 3);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), 0);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
        assert_non_null(
            strstr(event_log_find(&world.events, JOBSCHED_EVENT_JOB_STOOD_DOWN, 0)->message,
                   rows[i].text));
        world_close(&world);
    }
}

/* G14: replaced and put back while this node did not look: its definition is in force under a
 * generation that it did not know. It goes on under that one, without announcing anything, and
 * from the mark that came with it. */
static void test_own_definition_is_adopted(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, 0);
    world_run(&world, 3000);
    announce_elsewhere(&world, "another", 0);
    announce_elsewhere(&world, own_text(&world), 0);
    world_run(&world, 3000);
    assert_equal(job.calls, 6);
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 0);
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* G14: a roll-back that another node registered puts this node's definition in force again: it is
 * noticed within about a lease, told, and nothing that came due meanwhile is fired by it twice. */
static void test_who_stood_down_comes_back(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, 0);
    world_run(&world, 3000);
    announce_elsewhere(&world, "another", 0);
    world_run(&world, 3 * LEASE_MS);
    assert_equal(job.calls, 3);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    int64_t back_ms = announce_elsewhere(&world, own_text(&world), 0).mark_ms;
    world_run(&world, LEASE_MS + 1000);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_BACK_IN_FORCE), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    assert_true(job.calls > 3);
    for (size_t i = 3; i < world.call_count; i++) {
        assert_true(world.calls[i].scheduled_ms > back_ms);
    }
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 1);
    world_close(&world);
}

/* G14: a job that is only triggered hears of it through its trigger, which is run all the same. */
static void test_triggers_find_the_new_generation(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    spec.disabled = 1;
    world_add(&world, &spec);
    (void)world_settle(&world);
    announce_elsewhere(&world, "another", 0);
    announce_elsewhere(&world, own_text(&world), 0);
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    world_run(&world, LEASE_MS);
    assert_equal(job.calls, 1);
    announce_elsewhere(&world, "another", 0);
    assert_equal(jobsched_trigger(world.s, "job", "not for us", NULL), 0);
    world_run(&world, LEASE_MS);
    assert_equal(job.calls, 1);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    uint64_t claims = fake_backend_calls(&world.fake, FAKE_CLAIM);
    world_run(&world, 5 * LEASE_MS); /* it is found at each beat, and left to others */
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), claims);
    world_close(&world);
}

/* G8, G14: which definition is in force is not guessed: as long as the backend cannot tell, nothing
 * is fired and nothing is said. */
static void test_what_is_in_force_is_not_guessed(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, 0);
    world_run(&world, 3000);
    announce_elsewhere(&world, "another", 0);
    announce_elsewhere(&world, own_text(&world), 0);
    fake_backend_fail(&world.fake, FAKE_JOBS, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    world_run(&world, 5000);
    assert_equal(job.calls, 3);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 0);
    uint64_t looks = fake_backend_calls(&world.fake, FAKE_JOBS);
    assert_true(looks >= 2);
    assert_at_most(looks, 10); /* not again and again at once */
    fake_backend_fail(&world.fake, FAKE_JOBS, 0, 0, false);
    world_run(&world, 3000);
    assert_true(job.calls >= 5);
    world_close(&world);
}

/* G11: a control call that takes its time never holds up the elector, which looks later. */
static void test_looking_never_waits_for_the_admin_lane(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0}, other = {0};
    begin(&world, &job, 0);
    jobsched_job_spec spec = world_spec(&world, &other, "other", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 3000);
    announce_elsewhere(&world, "another", 0);
    announce_elsewhere(&world, own_text(&world), 0);
    world.s->admin_busy = true;
    world_run(&world, 3000);
    assert_equal(other.calls, 6);
    assert_equal(job.calls, 3);
    assert_equal(fake_backend_calls(&world.fake, FAKE_JOBS), 0);
    world.s->admin_busy = false;
    world_run(&world, 1000);
    assert_true(job.calls > 3);
    world_close(&world);
}

/* A thousand jobs are replaced by a roll-out: claims of the others come in between the looks. */
static void test_many_looks_leave_room(void **state)
{
    (void)state;
    enum { MANY = 200 };
    static char names[MANY][16];
    static struct world_job jobs[MANY];
    struct world world;
    world_begin(&world, "fake:");
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        jobs[i] = (struct world_job){.calls = 0};
        jobsched_job_spec spec = world_spec(&world, &jobs[i], names[i], "@every 10s");
        world_add(&world, &spec);
    }
    (void)world_settle(&world);
    for (int i = 1; i < MANY; i++) {
        jobsched_announcement item = {.job = names[i], .definition = "another"};
        jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
        assert_equal(jobsched_backend_single()->announce(world.fake.inner, &call, &item, 1), 0);
    }
    world_run(&world, 10000);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_JOB_STOOD_DOWN, NULL), MANY - 1);
    assert_equal(jobs[0].calls, 1);
    uint64_t looks = fake_backend_calls(&world.fake, FAKE_JOBS);
    world_run(&world, LEASE_MS + 1000); /* one look at those that stand down, bounded */
    assert_at_most(fake_backend_calls(&world.fake, FAKE_JOBS) - looks, JSI_STOOD_LOOKS_MAX);
    world_close(&world);
}

static int count_nodes(const jobsched_job_record *record, void *user_data)
{
    *(uint64_t *)user_data = record->nodes;
    return 0;
}

static uint64_t registered(struct world *world)
{
    uint64_t nodes = 77;
    assert_equal(jobsched_jobs(world->s, "job", count_nodes, &nodes), 0);
    return nodes;
}

/* A withdrawal reaches the backend, also where that fails at first; one that was registered again
 * meanwhile stays registered; one that was never announced is not told of. */
static void test_withdrawal_reaches_the_backend(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, 0);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    assert_equal(registered(&world), 1);
    fake_backend_fail(&world.fake, FAKE_WITHDRAW, JOBSCHED_EUNREACHABLE, 2, false);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    assert_equal(job.freed, 1); /* the job itself does not wait for that */
    (void)world_settle(&world);
    assert_equal(registered(&world), 1);
    world_run(&world, 10000);
    assert_equal(registered(&world), 0);
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(registered(&world), 1);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(registered(&world), 1);
    uint64_t withdrawn = atomic_load(&world.fake.items[FAKE_WITHDRAW]);
    jobsched_job_spec brief = world_spec(&world, &job, "brief", "@every 1s");
    world_add(&world, &brief);
    assert_equal(jobsched_withdraw(world.s, "brief"), 0);
    (void)world_settle(&world);
    assert_equal(atomic_load(&world.fake.items[FAKE_WITHDRAW]), withdrawn);
    assert_equal(jobsched_withdraw(world.s, "job"), 0); /* and one is left when all is closed */
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_sides_hear_of_a_conflict),
        cmocka_unit_test(test_standing_down_says_why),
        cmocka_unit_test(test_own_definition_is_adopted),
        cmocka_unit_test(test_who_stood_down_comes_back),
        cmocka_unit_test(test_triggers_find_the_new_generation),
        cmocka_unit_test(test_what_is_in_force_is_not_guessed),
        cmocka_unit_test(test_looking_never_waits_for_the_admin_lane),
        cmocka_unit_test(test_many_looks_leave_room),
        cmocka_unit_test(test_withdrawal_reaches_the_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
