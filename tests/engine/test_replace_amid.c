/* What may come between while a changed definition takes the place of another one (G9, G14): others
 * that claim, later registrations, lost answers, a definition that is not understood, leader mode,
 * the end of the job or of the node. Whatever it is, each occurrence is accounted for once, and
 * one definition holds in the end. */
#include "support/old_build.h"

#include <stdio.h>

enum { LEASE_MS = 30000 };

static size_t told(struct world *world, int kind)
{
    return event_log_count(&world->events, kind, "job");
}

/* The mark with which the new definition began: its first claim names it. */
static int64_t cut_of(struct world *world)
{
    for (size_t i = 0; i < world->fake.asked_count; i++) {
        if (world->fake.asked[i].claim.generation == 2) {
            return world->fake.asked[i].claim.after_ms;
        }
    }
    fail_msg("nothing was claimed under the new definition");
    return 0;
}

/* What somebody else does just before an announcement that would replace on condition. */
struct amid {
    struct world *world;
    void (*acts)(struct world *world);
    int left; /* so many times */
};

static void before_replacing(struct fake_backend *fake, enum fake_operation operation, void *items,
                             size_t count)
{
    struct amid *amid = fake->hook_data;
    const jobsched_announcement *item = items;
    if (operation == FAKE_ANNOUNCE && count == 1 && item->replace == JOBSCHED_REPLACE_IF &&
        amid->left > 0) {
        amid->left--;
        amid->acts(amid->world);
    }
}

static void hook(struct world *world, struct amid *amid, void (*acts)(struct world *world))
{
    *amid = (struct amid){.world = world, .acts = acts, .left = 1};
    world->fake.hook_data = amid;
    world->fake.before = before_replacing;
}

static void next_comes_due(struct world *world)
{
    test_clock_advance(&world->clock, 2000);
}

static void others_go_on(struct world *world)
{
    test_clock_advance(&world->clock, 2000);
    old_build_skip(world, 1, old_build_job(world)->mark_ms, old_build_job(world)->mark_ms + 2000);
}

/* G9: an occurrence that comes due just before the definition is replaced is not lost, whether this
 * node or another one takes it. */
static void test_what_comes_due_between(void **state)
{
    (void)state;
    void (*const all[])(struct world *) = {next_comes_due, others_go_on};
    for (size_t i = 0; i < 2; i++) {
        for (int times = 1; times < 4; times++) {
            struct world world;
            struct world_job job;
            struct amid amid;
            jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
            old_build_put(&world, &spec);
            hook(&world, &amid, all[i]);
            amid.left = times;
            test_clock_advance(&world.clock, 5000);
            spec.schedule = "@every 1h";
            old_build_start(&world, &spec);
            world_run(&world, 8000); /* it waits a moment each time */
            assert_equal(amid.left, 0);
            assert_equal(old_build_job(&world)->generation, 2);
            assert_null(old_build_job(&world)->predecessor);
            int64_t cut_ms = old_build_job(&world)->mark_ms; /* nothing is due by the new one yet */
            assert_true(cut_ms >= WORLD_BEGIN_MS + 5000 + 2000 * times);
            assert_equal(world_calls_of(&world, "job", -1), 2 + (i == 0 ? (size_t)times : 0));
            world_run(&world, 3600000);
            old_build_check(&world, "@every 2s", "@every 1h", cut_ms);
            world_close(&world);
        }
    }
}

static void another_registers(struct world *world)
{
    old_build_announce(world, "schedule=another", 0);
}

static void same_registers(struct world *world)
{
    old_build_announce(world, old_build_job(world)->definition, 0);
}

static void another_and_back(struct world *world)
{
    another_registers(world);
    same_registers(world);
}

/* G14: who asked first does not replace what was put in force after that; where it is its own text,
 * it goes on under that. There is no fight. */
static void test_a_later_registration_holds(void **state)
{
    (void)state;
    static const struct {
        void (*acts)(struct world *world);
        bool in_force;
    } rows[] = {{another_registers, false}, {same_registers, true}, {another_and_back, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;
        struct world_job job;
        struct amid amid;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        old_build_put(&world, &spec);
        hook(&world, &amid, rows[i].acts);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 1h";
        old_build_start(&world, &spec);
        world_run(&world, 1000);
        assert_equal(job.calls, 2);
        assert_null(old_build_job(&world)->predecessor);
        assert_equal(old_build_job(&world)->generation != 0, rows[i].in_force);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), !rows[i].in_force);
        uint64_t announced = fake_backend_calls(&world.fake, FAKE_ANNOUNCE);
        assert_equal(announced, 2);
        world_run(&world, 3600000);
        assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), announced);
        assert_equal(job.calls > 2, rows[i].in_force);
        world_close(&world);
    }
}

static void smaller_version_registers(struct world *world)
{
    old_build_announce(world, "schedule=another", 2);
}

static void equal_version_registers(struct world *world)
{
    old_build_announce(world, "schedule=another", 3);
}

static void larger_version_registers(struct world *world)
{
    old_build_announce(world, "schedule=another", 4);
}

/* G14: with versions, the largest holds, whatever came between; of two texts under one version the
 * later, and that is told. */
static void test_versions_decide(void **state)
{
    (void)state;
    static const struct {
        void (*acts)(struct world *world);
        bool in_force, conflict;
    } rows[] = {{smaller_version_registers, true, false},
                {equal_version_registers, false, true},
                {larger_version_registers, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;
        struct world_job job;
        struct amid amid;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        spec.version = 1;
        old_build_put(&world, &spec);
        hook(&world, &amid, rows[i].acts);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 1h";
        spec.version = 3;
        old_build_start(&world, &spec);
        world_run(&world, 1000);
        assert_equal(job.calls, 2);
        assert_equal(old_build_job(&world)->generation, rows[i].in_force ? 3 : 0);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_CONFLICT), rows[i].conflict);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), !rows[i].in_force);
        world_close(&world);
    }
}

/* G8, G9, G14: an answer that is lost at any step changes nothing: what is due is fired once, and the
 * definition is put in force once. */
static void test_lost_answers(void **state)
{
    (void)state;
    static const enum fake_operation operations[] = {FAKE_ANNOUNCE, FAKE_JOBS, FAKE_CLAIM,
                                                     FAKE_FINISH};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        for (int calls = 1; calls < 4; calls++) {
            for (int kind = 0; kind < 3; kind++) {
                struct world world;
                struct world_job job;
                jobsched_job_spec spec = old_build_begin(&world, &job, "@every 4s");
                old_build_put(&world, &spec);
                test_clock_advance(&world.clock, 9000);
                spec.schedule = "@every 7s";
                fake_backend_fail(&world.fake, operations[i],
                                  kind > 0 ? JOBSCHED_EUNKNOWN : JOBSCHED_EUNREACHABLE, calls,
                                  kind == 2);
                old_build_start(&world, &spec);
                world_run(&world, 60000);
                assert_equal(old_build_job(&world)->generation, 2);
                old_build_check(&world, "@every 4s", "@every 7s", cut_of(&world));
                for (size_t j = 1; j < world.call_count; j++) {
                    assert_true(world.calls[j].scheduled_ms > world.calls[j - 1].scheduled_ms);
                    assert_true(world.calls[j].token > world.calls[j - 1].token);
                }
                world_close(&world);
            }
        }
    }
}

/* Loses the reply to what replaces, and then another registers. */
static void lose_and_register(struct fake_backend *fake, enum fake_operation operation, void *items,
                              size_t count)
{
    struct amid *amid = fake->hook_data;
    const jobsched_announcement *item = items;
    if (operation != FAKE_ANNOUNCE || count != 1 || item->replace != JOBSCHED_REPLACE_IF) {
        return;
    }
    if (amid->left == 1) {
        fake_backend_fail(fake, FAKE_ANNOUNCE, JOBSCHED_EUNKNOWN, 1, true);
    } else if (amid->left == 0) {
        amid->acts(amid->world);
    }
    amid->left--;
}

/* G14: the repetition of an announcement whose answer was lost never replaces what was registered
 * after it. */
static void test_a_repetition_replaces_nobody(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    struct amid amid;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
    old_build_put(&world, &spec);
    hook(&world, &amid, another_registers);
    world.fake.before = lose_and_register;
    test_clock_advance(&world.clock, 1000);
    spec.schedule = "@every 7s";
    old_build_start(&world, &spec);
    world_run(&world, 5000);
    assert_equal(old_build_job(&world)->generation, 0);
    assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
    assert_equal(job.calls, 0);
    jobsched_announcement item = old_build_announce(&world, "schedule=another", 0);
    assert_equal(item.generation, 3); /* the old one, this node's, and that of the other */
    world_close(&world);
}

/* G14: what an older definition has due is not known where its text is not understood: it is replaced
 * all the same, and that is told. */
static void test_what_is_not_understood(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"another kind of client", "another kind of client"},
        {"schedule=@every 2s\ntimezone=\nmisfire=0,100,0\noverlap=0\nrecover=0,3\njitter=0\n"
         "disabled=0\ndst=0,0\ncalendars=0,0000000000000001\n",
         "calendars"},
        {"schedule=@every 2s\ntimezone=\nmisfire=9,100,0\noverlap=0\nrecover=0,3\njitter=0\n"
         "disabled=0\ndst=0,0\ncalendars=0,0000000000000000\n",
         "misfire 9"},
        {"schedule=@every 2s\ntimezone=\nmisfire=0,100,0\noverlap=0\nrecover=0,3\njitter=0\n"
         "disabled=0\ndst=0,0\ncalendars=0,0000000000000000\nmoon=full\n",
         "another kind of client"},
        {"schedule=@moon full\ntimezone=\nmisfire=0,100,0\noverlap=0\nrecover=0,3\njitter=0\n"
         "disabled=0\ndst=0,0\ncalendars=0,0000000000000000\n",
         "@moon"},
        {"schedule=0 3 * * *\ntimezone=Moon/Sea\nmisfire=0,100,0\noverlap=0\nrecover=0,3\n"
         "jitter=0\ndisabled=0\ndst=0,0\ncalendars=0,0000000000000000\n",
         "Moon/Sea"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct world world;
        struct world_job job;
        struct amid amid;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 7s");
        old_build_announce(&world, texts[i][0], 0);
        hook(&world, &amid, next_comes_due);
        test_clock_advance(&world.clock, 5000);
        old_build_start(&world, &spec);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_UNSETTLED), 1);
        const char *message =
            event_log_find(&world.events, JOBSCHED_EVENT_JOB_UNSETTLED, 0)->message;
        if (strstr(message, texts[i][1]) == NULL) {
            fail_msg("row %zu: %s", i, message);
        }
        world_run(&world, 10000);
        assert_true(job.calls >= 1);
        world_close(&world);
    }
}

/* G9: calendars of the old definition are understood where they are given here, too. */
static void test_calendars_that_are_given_here(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        struct world world;
        struct world_job job;
        jobsched_calendar *friday = NULL, *never = NULL;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        assert_equal(jobsched_calendar_parse("exclude 2027-01-15", NULL, &friday), 0);
        assert_equal(jobsched_calendar_parse("exclude 2031-01-15", NULL, &never), 0);
        const jobsched_calendar *const fridays[] = {friday, NULL};
        const jobsched_calendar *const nevers[] = {never, NULL};
        spec.calendars = fridays;
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 7s";
        spec.calendars = same ? fridays : nevers;
        old_build_start(&world, &spec);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(job.calls, 0); /* the old one excludes this Friday */
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_UNSETTLED), same ? 0 : 1);
        world_close(&world);
        jobsched_calendar_free(friday);
        jobsched_calendar_free(never);
    }
}

/* G14: a backend that cannot tell what is in force is not asked: it replaces at once. */
static void test_a_backend_that_cannot_tell(void **state)
{
    (void)state;
    jobsched_backend driver = **fake_backend_drivers();
    driver.jobs = NULL;
    const jobsched_backend *const drivers[] = {&driver, NULL};
    struct world world;
    struct world_job job = {0};
    world_init(&world, "fake:");
    world.options.backends = drivers;
    world_open(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 2s");
    old_build_put(&world, &spec);
    test_clock_advance(&world.clock, 5000);
    spec.schedule = "@every 7s";
    old_build_start(&world, &spec);
    assert_equal(job.calls, 0);
    assert_equal(old_build_job(&world)->generation, 2);
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 1);
    world_close(&world);
}

/* G14: in leader mode only the leader claims what is due; who stands by looks again now and then, and
 * replaces once nothing is due; or claims it itself once it leads. */
static void test_who_stands_by_waits(void **state)
{
    (void)state;
    for (int leads = 0; leads < 2; leads++) {
        struct world world;
        struct world_job job = {0};
        world_init(&world, "fake:");
        assert_equal(jobsched_set(&world.options, "leader", "yes"), 0);
        world_open(&world);
        jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 3600000);
        /* Another node leads. */
        jobsched_announcement item = {.job = "jobsched:leader",
                                      .definition = world.s->leader_job->definition};
        jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
        const jobsched_backend *single = jobsched_backend_single();
        assert_equal(single->announce(world.fake.inner, &call, &item, 1), 0);
        test_clock_advance(&world.clock, 1);
        jobsched_claim claim = {.job = "jobsched:leader",
                                .generation = item.generation,
                                .after_ms = item.mark_ms,
                                .scheduled_ms = item.mark_ms + 1,
                                .lease_ms = LEASE_MS,
                                .delay_ms = 1,
                                .when_held = JOBSCHED_HELD_WAIT,
                                .kind = JOBSCHED_KIND_SCHEDULED};
        assert_equal(single->claim(world.fake.inner, &call, &claim, 1), 0);
        assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
        spec.schedule = "@every 2h";
        old_build_start(&world, &spec);
        world_run(&world, 20000);
        assert_equal(job.calls, 0);
        assert_equal(old_build_job(&world)->generation, 1);
        uint64_t looks = fake_backend_calls(&world.fake, FAKE_JOBS);
        assert_true(looks >= 20);
        assert_at_most(looks, 2 * 20 + 3);
        if (leads) {
            jobsched_finish finish = {.job = "jobsched:leader",
                                      .note = "",
                                      .token = claim.token,
                                      .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
            assert_equal(single->finish(world.fake.inner, &call, &finish, 1), 0);
        } else {
            old_build_skip(&world, 1, WORLD_BEGIN_MS, WORLD_BEGIN_MS + 3600000);
        }
        world_run(&world, 2000);
        assert_equal(job.calls, leads);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_null(old_build_job(&world)->predecessor);
        world_close(&world);
    }
}

static void always_pending(struct fake_backend *fake, enum fake_operation operation, void *items,
                           size_t count)
{
    (void)fake;
    jobsched_announcement *item = items;
    if (operation == FAKE_ANNOUNCE && count == 1 && strcmp(item->job, "job") == 0) {
        item->replace = JOBSCHED_REPLACE_ASK;
    }
}

/* G11: a backend that puts it off for ever is asked at a bounded pace, and other jobs go on. */
static void test_no_round_without_a_pause(void **state)
{
    (void)state;
    struct world world;
    struct world_job job, other = {0};
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 1h");
    old_build_put(&world, &spec);
    world.fake.before = always_pending;
    spec.schedule = "@every 2h";
    old_build_start(&world, &spec);
    jobsched_job_spec more = world_spec(&world, &other, "other", "@every 1s");
    world_add(&world, &more);
    world_run(&world, 10000);
    assert_equal(other.calls, 10);
    uint64_t announced = fake_backend_calls(&world.fake, FAKE_ANNOUNCE);
    assert_true(announced >= 10);
    assert_at_most(announced, 10000 / JSI_LOOK_LATER_MS + 10);
    world_close(&world);
}

/* G14: triggers are not asked about meanwhile: they are for who has the definition in force. */
static void test_triggers_are_left_alone(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
    old_build_put(&world, &spec);
    test_clock_advance(&world.clock, 3000);
    spec.schedule = "@every 1h";
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 3, false);
    old_build_start(&world, &spec);
    assert_non_null(old_build_job(&world)->predecessor);
    assert_equal(jobsched_trigger(world.s, "job", "one", NULL), 0);
    assert_equal(world.s->extra_asks, 0);
    world_run(&world, LEASE_MS);
    assert_equal(world_calls_of(&world, "job", JOBSCHED_KIND_TRIGGER), 1);
    assert_equal(world_calls_of(&world, "job", JOBSCHED_KIND_SCHEDULED), 1);
    world_close(&world);
}

/* The job is withdrawn, or the scheduler stopped, while it acts under the old definition, with a
 * claim whose outcome is unknown: that is asked again as it was, and nothing is fired twice. */
static void test_the_end_comes_amid(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "@every 7s";
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 2, true);
        old_build_start(&world, &spec);
        assert_non_null(old_build_job(&world)->predecessor);
        assert_true(old_build_job(&world)->ask.unresolved);
        if (stops) {
            assert_equal(jobsched_stop(world.s), 0);
        } else {
            assert_equal(jobsched_withdraw(world.s, "job"), 0);
        }
        world_run(&world, 10000);
        assert_equal(job.calls, 1);
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 2000);
        for (size_t i = 0; i < world.fake.asked_count; i++) {
            assert_equal(world.fake.asked[i].claim.generation, 1);
            assert_equal(world.fake.asked[i].claim.scheduled_ms, WORLD_BEGIN_MS + 2000);
        }
        world_close(&world);
        assert_equal(job.freed, 1);
    }
}

/* New zone data amid: the old definition is read again. */
static void test_zones_are_reloaded_amid(void **state)
{
    (void)state;
    struct world world;
    struct world_job job;
    jobsched_job_spec spec = old_build_begin(&world, &job, "@every 2s");
    old_build_put(&world, &spec);
    test_clock_advance(&world.clock, 5000);
    spec.schedule = "@every 7s";
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 1, false);
    old_build_start(&world, &spec);
    const jsi_predecessor *before = old_build_job(&world)->predecessor;
    assert_non_null(before);
    assert_equal(jobsched_zones_reload(world.s), 0);
    assert_true(old_build_job(&world)->predecessor->outdated);
    uint64_t looks = fake_backend_calls(&world.fake, FAKE_JOBS);
    world_run(&world, 30000);
    assert_true(fake_backend_calls(&world.fake, FAKE_JOBS) > looks);
    assert_equal(old_build_job(&world)->generation, 2);
    old_build_check(&world, "@every 2s", "@every 7s", cut_of(&world));
    world_close(&world);
}

/* G8: without memory for it the old definition is read again later, and nothing is lost. */
static void test_no_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t at = 0; failed; at++) {
        struct world world;
        struct world_job job;
        jobsched_job_spec spec = old_build_begin(&world, &job, "*/2 * * * * *");
        old_build_put(&world, &spec);
        test_clock_advance(&world.clock, 5000);
        spec.schedule = "*/7 * * * * *";
        world_start(&world);
        world_add(&world, &spec);
        world.memory.fail_count = 2;
        atomic_store(&world.memory.fail_at, atomic_load(&world.memory.asked) + at);
        world_run(&world, 2000);
        failed = atomic_load(&world.memory.failed) > 0;
        atomic_store(&world.memory.fail_at, -1);
        world_run(&world, 20000);
        assert_equal(old_build_job(&world)->generation, 2);
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 2000);
        assert_equal(world.calls[1].scheduled_ms, WORLD_BEGIN_MS + 4000);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_UNSETTLED), 0);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_comes_due_between),
        cmocka_unit_test(test_a_later_registration_holds),
        cmocka_unit_test(test_versions_decide),
        cmocka_unit_test(test_lost_answers),
        cmocka_unit_test(test_a_repetition_replaces_nobody),
        cmocka_unit_test(test_what_is_not_understood),
        cmocka_unit_test(test_calendars_that_are_given_here),
        cmocka_unit_test(test_a_backend_that_cannot_tell),
        cmocka_unit_test(test_who_stands_by_waits),
        cmocka_unit_test(test_no_round_without_a_pause),
        cmocka_unit_test(test_triggers_are_left_alone),
        cmocka_unit_test(test_the_end_comes_amid),
        cmocka_unit_test(test_zones_are_reloaded_amid),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
