/* The way of a fire (G1, G4, G9, G11): each occurrence once, in order, on the schedule's own grid;
 * herds in batches that this node can run; jitter; disabled jobs. The same over the scripted
 * backend and over single:. */
#include "support/world.h"

#include <stdio.h>

#define BOTH(test)                                                                                 \
    {.name = #test " (fake:)", .test_func = test, .initial_state = (void *)"fake:"},               \
    {                                                                                              \
        .name = #test " (single:)", .test_func = test, .initial_state = (void *)"single:"          \
    }

/* G1, G2, G9: one call per occurrence, at its instant, tokens grow, the ledger agrees. */
static void test_each_occurrence_fires_once(void **state)
{
    struct world world;
    struct world_job second = {0}, minute = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &second, "second", "@every 1s");
    world_add(&world, &spec);
    spec = world_spec(&world, &minute, "minute", "* * * * *");
    world_add(&world, &spec);
    world_run(&world, 600000);
    assert_equal(second.calls, 600);
    assert_equal(minute.calls, 10);
    int64_t last_ms = WORLD_BEGIN_MS;
    uint64_t token = 0;
    for (size_t i = 0; i < world.call_count; i++) {
        const struct world_call *call = &world.calls[i];
        assert_equal(call->at_backend_ms, call->scheduled_ms);
        assert_equal(call->kind, JOBSCHED_KIND_SCHEDULED);
        if (call->job == &second) {
            assert_equal(call->scheduled_ms, last_ms + 1000);
            assert_true(call->token > token);
            last_ms = call->scheduled_ms;
            token = call->token;
        }
    }
    world_check_accounted(&world, "second", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_check_accounted(&world, "minute", "* * * * *", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
    assert_equal(second.freed, 1);
    assert_equal(minute.freed, 1);
}

/* Rivals' bug 6: the next instant follows from the scheduled one, never from now. A node that
 * looks late, at odd instants, still fires each occurrence of the grid once. */
static void test_late_looks_keep_the_grid(void **state)
{
    struct world world;
    struct world_job job = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &job, "grid", "@every 1s");
    world_add(&world, &spec);
    (void)world_settle(&world);
    static const int64_t spans_ms[] = {1300, 10, 990, 2750, 1, 3333, 999, 1001, 5777, 400};
    for (int i = 0; i < 200; i++) {
        world_jump(&world, spans_ms[i % 10]);
    }
    int64_t expected = (world_now(&world) - WORLD_BEGIN_MS) / 1000;
    assert_equal(job.calls, expected);
    for (size_t i = 0; i < world.call_count; i++) {
        assert_equal(world.calls[i].scheduled_ms, WORLD_BEGIN_MS + 1000 * ((int64_t)i + 1));
    }
    world_check_accounted(&world, "grid", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* Rivals' bug 6: a look a little early does not fire twice. */
static void test_early_look_fires_nothing(void **state)
{
    struct world world;
    struct world_job job = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &job, "early", "@every 10s");
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_jump(&world, 9990);
    assert_equal(job.calls, 0);
    world_jump(&world, 9);
    assert_equal(job.calls, 0);
    world_jump(&world, 1);
    assert_equal(job.calls, 1);
    world_jump(&world, 10);
    assert_equal(job.calls, 1);
    world_close(&world);
}

enum { HERD = 10000 };

struct herd {
    struct world *world;
    uint64_t granted, most_executing;
};

/* What is granted and not ended never exceeds what the workers get through within the window, if
 * each run took but a millisecond. */
static void check_room(struct fake_backend *fake, enum fake_operation operation, void *items,
                       size_t count)
{
    struct herd *herd = fake->hook_data;
    const jobsched_claim *claims = items;
    if (operation == FAKE_CLAIM) {
        uint64_t executing = herd->world->s->executing;
        for (size_t i = 0; i < count; i++) {
            executing += claims[i].answer == JOBSCHED_ANSWER_GRANTED;
            herd->granted += claims[i].answer == JOBSCHED_ANSWER_GRANTED;
        }
        herd->most_executing = executing > herd->most_executing ? executing : herd->most_executing;
    }
}

static void add_herd(struct world *world, struct world_job *jobs, int count, int result)
{
    char name[32];
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "job-%05d", i);
        jobs[i].result = result;
        jobsched_job_spec spec = world_spec(world, &jobs[i], name, "* * * * *");
        world_add(world, &spec);
        jobs[i].name = "herd";
    }
}

/* G11: 10,000 jobs at one instant: announced by the thousand, claimed in batches, each fired once,
 * never more at a time than this node can soon run. */
static void test_herd_is_claimed_in_batches(void **state)
{
    (void)state;
    static struct world_job jobs[HERD];
    memset(jobs, 0, sizeof jobs);
    struct world world;
    struct herd herd = {.world = &world};
    world_begin(&world, "fake:");
    world.fake.after = check_room;
    world.fake.hook_data = &herd;
    add_herd(&world, jobs, HERD, 0);
    (void)world_settle(&world);
    assert_equal(world.fake.calls[FAKE_ANNOUNCE], HERD / JOBSCHED_BATCH_MAX);
    assert_equal(world.fake.largest[FAKE_ANNOUNCE], JOBSCHED_BATCH_MAX);
    assert_equal(world.fake.calls[FAKE_CLAIM], 0);
    world_jump(&world, 60000);
    for (int i = 0; i < HERD; i++) {
        assert_equal(jobs[i].calls, 1);
    }
    assert_equal(herd.granted, HERD);
    assert_at_most(herd.most_executing, JSI_WORKERS_DEFAULT * JSI_WINDOW_MS);
    assert_at_most(world.fake.largest[FAKE_CLAIM], JOBSCHED_BATCH_MAX);
    assert_equal(world.fake.items[FAKE_FINISH], HERD);
    /* The window opened once runs were seen to be short. */
    assert_at_most(100, world.fake.largest[FAKE_CLAIM]);
    world_close(&world);
}

/* G11, and what spreads a herd over a cluster: runs that do not end keep this node from claiming
 * more than it has hands (and a window while it knows nothing yet). */
static void test_busy_node_leaves_the_rest_to_others(void **state)
{
    (void)state;
    static struct world_job jobs[1000];
    memset(jobs, 0, sizeof jobs);
    struct world world;
    world_begin(&world, "fake:");
    add_herd(&world, jobs, 1000, JOBSCHED_PENDING);
    (void)world_settle(&world);
    world_jump(&world, 60000);
    uint64_t granted = world.s->stats.granted;
    assert_at_most(granted, 2 * JSI_WORKERS_DEFAULT);
    assert_at_most(JSI_WORKERS_DEFAULT, granted);
    world_run(&world, 5000);
    assert_equal(world.s->stats.granted, granted);
    /* As hands get free, the rest follows; none is lost, though by then it is long due. */
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 1000; i++) {
            if (jobs[i].pending != NULL) {
                jobsched_run *run = jobs[i].pending;
                jobs[i].pending = NULL;
                assert_equal(jobsched_run_finish(run, 0), 0);
            }
        }
        (void)world_settle(&world);
    }
    for (int i = 0; i < 1000; i++) {
        assert_equal(jobs[i].calls, 1);
    }
    world_close(&world);
}

/* Jitter is below its bound, the same on every node, differs between names and instants, and moves
 * the call but not the instant. */
static void test_jitter_is_stable_and_bounded(void **state)
{
    enum { JITTER_MS = 20000 };
    int64_t delays[2][30];
    for (int node = 0; node < 2; node++) {
        struct world world;
        struct world_job job = {0}, other = {0};
        world_begin(&world, *state);
        jobsched_job_spec spec = world_spec(&world, &job, "jittered", "* * * * *");
        spec.jitter_ms = JITTER_MS;
        world_add(&world, &spec);
        spec = world_spec(&world, &other, "other", "* * * * *");
        spec.jitter_ms = JITTER_MS;
        world_add(&world, &spec);
        world_run(&world, 30 * 60000 + JITTER_MS);
        assert_equal(job.calls, 30);
        int same = 0, index = 0;
        int64_t other_delays[30] = {0};
        for (size_t i = 0, j = 0; i < world.call_count; i++) {
            int64_t delay_ms = world.calls[i].at_backend_ms - world.calls[i].scheduled_ms;
            assert_at_most(0, delay_ms);
            assert_at_most(delay_ms, JITTER_MS - 1);
            assert_equal(world.calls[i].kind, JOBSCHED_KIND_SCHEDULED);
            if (world.calls[i].job == &job) {
                delays[node][index++] = delay_ms;
            } else {
                other_delays[j++] = delay_ms;
            }
        }
        for (int i = 0; i < 30; i++) {
            same += delays[node][i] == other_delays[i];
        }
        assert_at_most(same, 3);
        world_check_accounted(&world, "jittered", "* * * * *", WORLD_BEGIN_MS,
                              WORLD_BEGIN_MS + 30 * 60000);
        world_close(&world);
    }
    int64_t least = JITTER_MS, most = 0;
    for (int i = 0; i < 30; i++) {
        assert_equal(delays[0][i], delays[1][i]);
        least = delays[0][i] < least ? delays[0][i] : least;
        most = delays[0][i] > most ? delays[0][i] : most;
    }
    assert_at_most(JITTER_MS / 2, most - least); /* it spreads */
}

/* A disabled job and one that never matches are never due, can be asked about, and cost no claim. */
static void test_disabled_and_never_are_not_due(void **state)
{
    struct world world;
    struct world_job disabled = {0}, never = {0};
    int64_t next_ms = 0;
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &disabled, "disabled", "* * * * *");
    spec.disabled = 1;
    assert_equal(jobsched_add(world.s, &spec, &next_ms), 0);
    assert_equal(next_ms, JOBSCHED_NONE);
    spec = world_spec(&world, &never, "never", "0 0 30 2 *");
    assert_fails(jobsched_add(world.s, &spec, NULL), JOBSCHED_ENEVER, "0 0 30 2 *");
    spec.allow_never = 1;
    world_add(&world, &spec);
    world_run(&world, 600000);
    assert_equal(disabled.calls + never.calls, 0);
    assert_equal(world.s->stats.claim_requests, 0);
    assert_equal(jobsched_next_run(world.s, "disabled", &next_ms), 0);
    assert_equal(next_ms, JOBSCHED_NONE);
    assert_equal(jobsched_trigger(world.s, "disabled", NULL, NULL), 0);
    (void)world_settle(&world);
    assert_equal(disabled.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_TRIGGER);
    world_close(&world);
}

/* What jobsched_add and jobsched_next_run tell of the next instant; a one-shot fires once. */
static void test_next_run_and_one_shot(void **state)
{
    struct world world;
    struct world_job job = {0}, once = {0};
    int64_t next_ms = 0;
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &job, "five", "*/5 * * * *");
    assert_equal(jobsched_add(world.s, &spec, &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 300000);
    assert_equal(jobsched_next_run(world.s, "five", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 300000);
    spec = world_spec(&world, &once, "once", "@at 2027-01-15T08:10:00Z");
    world_add(&world, &spec);
    world_run(&world, 301000);
    assert_equal(jobsched_next_run(world.s, "five", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 600000);
    assert_fails(jobsched_next_run(world.s, "six", &next_ms), JOBSCHED_ENOTFOUND, "'six'");
    world_run(&world, 3600000);
    assert_equal(once.calls, 1);
    assert_equal(jobsched_next_run(world.s, "once", &next_ms), 0);
    assert_equal(next_ms, JOBSCHED_NONE);
    world_close(&world);
}

/* G7: a withdrawn job is no longer offered here; registered again it goes on from the fence's mark,
 * and what lay between is not fired twice. */
static void test_withdraw_and_add_again(void **state)
{
    struct world world;
    struct world_job first = {0}, second = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &first, "again", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 5000);
    assert_equal(first.calls, 5);
    assert_fails(jobsched_add(world.s, &spec, NULL), JOBSCHED_EEXIST, "'again'");
    assert_equal(first.freed, 0); /* a job that was refused stays the caller's */
    assert_equal(jobsched_withdraw(world.s, "again"), 0);
    assert_equal(first.freed, 1);
    assert_fails(jobsched_withdraw(world.s, "again"), JOBSCHED_ENOTFOUND, "'again'");
    world_run(&world, 3000);
    assert_equal(first.calls, 5);
    spec = world_spec(&world, &second, "again", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 2000);
    /* 6, 7 and 8 s were due while nobody offered the job, and are not yet missed. */
    assert_equal(second.calls, 5);
    world_check_accounted(&world, "again", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
    assert_equal(second.freed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_each_occurrence_fires_once),
        BOTH(test_late_looks_keep_the_grid),
        BOTH(test_early_look_fires_nothing),
        cmocka_unit_test(test_herd_is_claimed_in_batches),
        cmocka_unit_test(test_busy_node_leaves_the_rest_to_others),
        BOTH(test_jitter_is_stable_and_bounded),
        BOTH(test_disabled_and_never_are_not_due),
        BOTH(test_next_run_and_one_shot),
        BOTH(test_withdraw_and_add_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
