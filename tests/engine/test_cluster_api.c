/* What the application may ask about the cluster (G6, G9, G14): jobs with their next instant by
 * the definition in force, nodes, the end of a trigger, what an operator should mend; and handles
 * that only ask and command. */
#include "support/world.h"

#include <stdio.h>

enum { LISTED_MAX = 16 };

struct listed {
    size_t count;
    jobsched_job_record jobs[LISTED_MAX];
    char schedules[LISTED_MAX][64], timezones[LISTED_MAX][64];
    jobsched_run_record run;
    struct {
        char id[40];
        int level;
        char message[JOBSCHED_MESSAGE_BYTES];
    } checks[LISTED_MAX];
};

static int take_job(const jobsched_job_record *record, void *user_data)
{
    struct listed *listed = user_data;
    (void)snprintf(listed->schedules[listed->count], 64, "%s", record->schedule);
    (void)snprintf(listed->timezones[listed->count], 64, "%s", record->timezone);
    listed->jobs[listed->count++] = *record;
    return 0;
}

static int take_node(const jobsched_node_record *record, void *user_data)
{
    const jobsched *s = *(jobsched **)user_data;
    assert_string_equal(record->id, jobsched_node_id(s));
    assert_string_equal(record->name, "this-node");
    assert_equal(record->jobs, 1);
    return 7;
}

static int take_run(const jobsched_run_record *record, void *user_data)
{
    struct listed *listed = user_data;
    listed->run = *record;
    listed->count++;
    return 0;
}

static int take_check(const jobsched_check_record *record, void *user_data)
{
    struct listed *listed = user_data;
    (void)snprintf(listed->checks[listed->count].id, 40, "%s", record->id);
    (void)snprintf(listed->checks[listed->count].message, JOBSCHED_MESSAGE_BYTES, "%s",
                   record->message);
    listed->checks[listed->count++].level = record->level;
    return 0;
}

/* As another node of the cluster that has other jobs. */
static void announce_elsewhere(struct world *world, const char *job, const char *definition,
                               uint64_t version)
{
    jobsched_announcement item = {.job = job, .definition = definition, .version = version};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world->fake.inner, &call, &item, 1), 0);
}

static void control(struct world *world, int verb, const char *job)
{
    jobsched_command command = {.verb = verb, .job = job, .request = "request"};
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN, .timeout_ms = 1000};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    assert_equal(jobsched_backend_single()->control(world->fake.inner, &call, &command, &result),
                 0);
}

static const struct {
    const char *job, *definition;
    const char *schedule, *timezone;
    int64_t next_ms; /* after the beginning, which is a Friday at 08:00 UTC */
    int verb;
    const char *why;
} next_rows[] = {
    {"a", "schedule=0 9 * * *\ntimezone=\ndisabled=0\ndst=0,0\n", "0 9 * * *", "", 3600000, 0,
     "UTC"},
    {"b", "schedule=0 12 * * *\ntimezone=Asia/Kolkata\ndisabled=0\ndst=0,0\n", "0 12 * * *",
     "Asia/Kolkata", 81000000, 0, "in its zone"},
    {"c", "schedule=0 9 * * *\ntimezone=\ndisabled=1\ndst=0,0\n", "0 9 * * *", "", JOBSCHED_NONE, 0,
     "disabled"},
    {"d", "schedule=0 9 * * *\ntimezone=\ndisabled=0\n", "0 9 * * *", "", JOBSCHED_NONE,
     JOBSCHED_VERB_PAUSE, "paused"},
    {"e", "schedule=0 9 * * *\ntimezone=\ndisabled=0\n", "0 9 * * *", "", JOBSCHED_NONE,
     JOBSCHED_VERB_REMOVE, "removed"},
    {"f", "something else", "", "", JOBSCHED_NONE, 0, "a definition that is none of ours"},
    {"g", "schedule=0 9 * * *\ntimezone=No/Where\ndisabled=0\n", "0 9 * * *", "No/Where",
     JOBSCHED_NONE, 0, "a zone that is not installed"},
    {"h", "schedule=@every 7s\ntimezone=\ndisabled=0\n", "@every 7s", "", -1, 0,
     "registered here as well, under another definition"},
    {"i", "schedule=H H * * *\ntimezone=\ndisabled=0\n", "H H * * *", "", -1, 0,
     "with the key of the job"},
    {"j", "schedule=@after 5m\ntimezone=\ndisabled=0\n", "@after 5m", "", 300000, 0,
     "counted from the mark, since no run has ended"},
};

/* G14: the next instant comes from the definition in force, also of jobs that are registered
 * elsewhere only, with their zone; it is none where the job will not run by its schedule. */
static void test_next_instants_come_from_the_definition(void **state)
{
    (void)state;
    enum { ROWS = sizeof next_rows / sizeof next_rows[0] };
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "h", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    for (size_t i = 0; i < ROWS; i++) {
        announce_elsewhere(&world, next_rows[i].job, next_rows[i].definition, 0);
        if (next_rows[i].verb != 0) {
            control(&world, next_rows[i].verb, next_rows[i].job);
        }
    }
    struct listed listed = {.count = 0};
    assert_equal(jobsched_jobs(world.s, NULL, take_job, &listed), 0);
    assert_equal(listed.count, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        int64_t next_ms = listed.jobs[i].next_at_ms;
        assert_string_equal(listed.schedules[i], next_rows[i].schedule);
        assert_string_equal(listed.timezones[i], next_rows[i].timezone);
        if (next_rows[i].next_ms < 0) {
            jobsched_schedule_options options;
            jobsched_schedule *schedule;
            char key[16];
            (void)snprintf(key, sizeof key, "test/%s", next_rows[i].job);
            JOBSCHED_INIT(&options);
            options.key = key;
            assert_equal(jobsched_schedule_parse(next_rows[i].schedule, &options, &schedule), 0);
            assert_equal(next_ms, jobsched_schedule_next(schedule, WORLD_BEGIN_MS));
            jobsched_schedule_free(schedule);
        } else if (next_rows[i].next_ms == JOBSCHED_NONE) {
            assert_equal(next_ms, JOBSCHED_NONE);
        } else {
            assert_equal(next_ms, WORLD_BEGIN_MS + next_rows[i].next_ms);
        }
    }
    listed.count = 0;
    assert_equal(jobsched_jobs(world.s, "b", take_job, &listed), 0);
    assert_equal(listed.count, 1);
    assert_fails(jobsched_jobs(world.s, "nobody", take_job, &listed), JOBSCHED_ENOTFOUND,
                 "'nobody'");
    assert_fails(jobsched_jobs(world.s, "", take_job, &listed), JOBSCHED_EINVAL, "empty");
    assert_fails(jobsched_jobs(world.s, NULL, NULL, NULL), JOBSCHED_EINVAL, "visit");
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(world.s, &stats), 0);
    assert_equal(stats.backend_errors, 0); /* "no such job" is an answer */
    world_close(&world);
}

/* Only who registers a job has its calendars, so there they count. */
static void test_calendars_count_where_they_are_known(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    jobsched_calendar *calendar;
    assert_equal(jobsched_calendar_parse("exclude 2027-01-16", NULL, &calendar), 0);
    const jobsched_calendar *calendars[] = {calendar, NULL};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "0 9 * * *");
    spec.calendars = calendars;
    world_add(&world, &spec);
    world_run(&world, 2 * 3600000);
    struct listed listed = {.count = 0};
    assert_equal(jobsched_jobs(world.s, "job", take_job, &listed), 0);
    assert_equal(listed.jobs[0].next_at_ms, WORLD_BEGIN_MS + 3600000 + 2 * 86400000);
    jobsched_calendar_free(calendar);
    world_close(&world);
}

static void test_nodes_are_told(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(strlen(jobsched_node_id(world.s)), 32);
    assert_equal(jobsched_nodes(world.s, take_node, &world.s), 0);
    assert_fails(jobsched_nodes(world.s, NULL, NULL), JOBSCHED_EINVAL, "visit");
    fake_backend_fail(&world.fake, FAKE_NODES, JOBSCHED_EUNREACHABLE, 1, false);
    assert_fails(jobsched_nodes(world.s, take_node, &world.s), JOBSCHED_EUNREACHABLE, "script");
    world_close(&world);
}

static jobsched_job_record look(struct world *world, const char *job)
{
    struct listed listed = {.count = 0};
    assert_equal(jobsched_jobs(world->s, job, take_job, &listed), 0);
    assert_equal(listed.count, 1);
    return listed.jobs[0];
}

/* G7. Rivals' bug 20: a node's list of jobs is its own. Jobs that it does not have, or has no more,
 * are neither removed nor touched by its start, its work, its withdrawals and its stop. */
static void test_a_list_ends_no_job_of_others(void **state)
{
    (void)state;
    struct world world;
    struct world_job mine = {0}, former = {0};
    world_begin(&world, "fake:");
    announce_elsewhere(&world, "theirs", "schedule=@every 1h\n", 0);
    announce_elsewhere(&world, "their-paused", "schedule=@every 1h\n", 0);
    control(&world, JOBSCHED_VERB_PAUSE, "their-paused");
    jobsched_job_record theirs = look(&world, "theirs"), paused = look(&world, "their-paused");
    jobsched_job_spec spec = world_spec(&world, &mine, "mine", "@every 10s");
    world_add(&world, &spec);
    spec = world_spec(&world, &former, "former", "@every 10s");
    world_add(&world, &spec);
    world_run(&world, 60000);
    assert_equal(jobsched_withdraw(world.s, "former"), 0); /* a deploy that has it no more */
    world_run(&world, 60000);
    assert_equal(jobsched_stop(world.s), 0);
    world_run(&world, 60000);
    assert_equal(mine.calls, 12);
    assert_equal(world.fake.calls[FAKE_CONTROL], 0);
    const jobsched_job_record before[] = {theirs, paused},
                              after[] = {look(&world, "theirs"), look(&world, "their-paused")};
    for (int i = 0; i < 2; i++) {
        assert_equal(after[i].removed, 0);
        assert_equal(after[i].paused, before[i].paused);
        assert_equal(after[i].mark_at_ms, before[i].mark_at_ms);
        assert_equal(after[i].generation, before[i].generation);
        assert_equal(after[i].token, 0);
    }
    assert_equal(look(&world, "former").removed, 0);
    assert_equal(look(&world, "former").mark_at_ms, WORLD_BEGIN_MS + 60000);
    world_close(&world);
}

struct stepper {
    struct world *world;
    int64_t step_ms; /* per look */
    int finishes;    /* the look before which the run is made and ended; 0: never */
    int looks;
};

/* Time passes, and the other threads work, before each look. */
static void before_look(struct fake_backend *fake, enum fake_operation operation, void *items,
                        size_t count)
{
    struct stepper *stepper = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == FAKE_FIND) {
        test_clock_advance(&stepper->world->clock, stepper->step_ms);
        if (++stepper->looks == stepper->finishes) {
            (void)world_settle(stepper->world);
        }
    }
}

/* G6: the wait ends with the run, and the row is the trigger's. */
static void test_wait_tells_the_outcome(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = 5};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    struct stepper stepper = {.world = &world, .step_ms = 10, .finishes = 3};
    world.fake.hook_data = &stepper;
    world.fake.before = before_look;
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    struct listed listed = {.count = 0};
    assert_equal(jobsched_wait(world.s, "job", "re", 10000, take_run, &listed), 0);
    assert_equal(stepper.looks, 3);
    assert_equal(listed.count, 1);
    assert_equal(listed.run.outcome, JOBSCHED_OUTCOME_FAILED);
    assert_equal(listed.run.code, 5);
    assert_equal(jobsched_wait(world.s, "job", "re", 0, take_run, &listed), 0); /* is over */
    world_close(&world);
}

/* G6: what is not known is not told: the time is over, there is no such trigger, or the backend
 * is away, which is no reason to give up before the time is over. */
static void test_wait_tells_what_it_does_not_know(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    struct listed listed = {.count = 0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_fails(jobsched_wait(world.s, "job", "re", 1000, take_run, &listed), JOBSCHED_ENOTFOUND,
                 "'re'");
    assert_fails(jobsched_wait(world.s, "job", NULL, 1000, take_run, &listed), JOBSCHED_EINVAL,
                 "request");
    assert_fails(jobsched_wait(world.s, "job", "re", -1, take_run, &listed), JOBSCHED_EINVAL,
                 "-1 ms");
    assert_fails(jobsched_wait(world.s, "job", "re", 1, NULL, NULL), JOBSCHED_EINVAL, "visit");
    struct stepper stepper = {.world = &world, .step_ms = 400};
    world.fake.hook_data = &stepper;
    world.fake.before = before_look;
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    assert_fails(jobsched_wait(world.s, "job", "re", 1000, take_run, &listed), JOBSCHED_ETIMEDOUT,
                 "is still waiting after 1000 ms");
    assert_equal(stepper.looks, 3);
    fake_backend_fail(&world.fake, FAKE_FIND, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    stepper.looks = 0;
    assert_fails(jobsched_wait(world.s, "job", "re", 1000, take_run, &listed),
                 JOBSCHED_EUNREACHABLE, "script");
    assert_equal(stepper.looks, 3);
    fake_backend_fail(&world.fake, FAKE_FIND, JOBSCHED_EUNKNOWN, 1, false);
    stepper = (struct stepper){.world = &world, .step_ms = 1, .finishes = 2};
    assert_equal(jobsched_wait(world.s, "job", "re", 1000, take_run, &listed), 0);
    assert_equal(listed.count, 1);
    fake_backend_fail(&world.fake, FAKE_FIND, JOBSCHED_EACCESS, 1, false);
    assert_fails(jobsched_wait(world.s, "job", "re", 1000, take_run, &listed), JOBSCHED_EACCESS,
                 "script");
    world_close(&world);
}

static int waits_inside(struct world_job *job, jobsched_run *run)
{
    struct listed listed = {.count = 0};
    (void)run;
    return jobsched_wait(job->world->s, "job", "re", 1000, take_run, &listed);
}

/* G11: a callback does not wait for what may need its own worker. */
static void test_wait_inside_a_callback_is_refused(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.body = waits_inside};
    struct listed listed = {.count = 0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    assert_equal(jobsched_add(world.s, &spec, NULL), JOBSCHED_EEXIST);
    (void)world_settle(&world);
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    (void)world_settle(&world);
    assert_equal(jobsched_wait(world.s, "job", "re", 0, take_run, &listed), 0);
    assert_equal(listed.run.code, JOBSCHED_EREENTRANT);
    world_close(&world);
}

static int pass_node(const jobsched_node_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

/* Without memory the questions say so, and leave nothing behind; a job whose schedule cannot be
 * parsed for want of it is told of without its next instant. */
static void test_questions_without_memory(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    announce_elsewhere(&world, "other", next_rows[1].definition, 0);
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    (void)world_settle(&world);
    struct listed warm = {.count = 0};
    assert_equal(jobsched_jobs(world.s, NULL, take_job, &warm), 0); /* zones stay cached */
    int64_t live = atomic_load(&world.memory.live);
    int refused = 0;
    for (int64_t fail_at = 0; fail_at < 20; fail_at++) {
        for (int question = 0; question < 4; question++) {
            struct listed listed = {.count = 0};
            atomic_store(&world.memory.fail_at, atomic_load(&world.memory.asked) + fail_at);
            int code = question == 0   ? jobsched_jobs(world.s, NULL, take_job, &listed)
                       : question == 1 ? jobsched_wait(world.s, "job", "re", 0, take_run, &listed)
                       : question == 2 ? jobsched_nodes(world.s, pass_node, NULL)
                                       : jobsched_check(world.s, take_check, &listed);
            assert_true(code == 0 || code == JOBSCHED_ENOMEM);
            assert_equal(atomic_load(&world.memory.live), live);
            refused += code != 0;
        }
    }
    atomic_store(&world.memory.fail_at, -1);
    assert_true(refused >= 2);
    world_close(&world);
}

static size_t checks_of(const struct listed *listed, const char *id, int level, const char *text)
{
    size_t found = 0;
    for (size_t i = 0; i < listed->count; i++) {
        found += strcmp(listed->checks[i].id, id) == 0 && listed->checks[i].level == level &&
                 strstr(listed->checks[i].message, text) != NULL;
    }
    return found;
}

/* A healthy cluster: each thing that was looked at is told of, and nothing is found. */
static void test_check_tells_that_all_is_well(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    struct listed listed = {.count = 0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(jobsched_check(world.s, take_check, &listed), 0);
    assert_equal(checks_of(&listed, "single.memory", JOBSCHED_LEVEL_INFO, ""), 1);
    assert_equal(checks_of(&listed, "cluster.clock", JOBSCHED_LEVEL_INFO, "1 nodes"), 1);
    assert_equal(checks_of(&listed, "cluster.dissent", JOBSCHED_LEVEL_INFO, "1 jobs"), 1);
    assert_equal(checks_of(&listed, "cluster.orphaned", JOBSCHED_LEVEL_INFO, "1 jobs"), 1);
    assert_equal(checks_of(&listed, "cluster.future-mark", JOBSCHED_LEVEL_INFO, "1 jobs"), 1);
    assert_fails(jobsched_check(world.s, NULL, NULL), JOBSCHED_EINVAL, "visit");
    world_close(&world);
}

/* G3, G14: clocks that are off, jobs that nobody runs, nodes that disagree, and a job that is
 * accounted for up to a later instant are each found and named. */
static void test_check_finds_what_is_wrong(void **state)
{
    (void)state;
    struct world world;
    struct world_job jobs[3] = {{0}};
    struct listed listed = {.count = 0};
    world_init(&world, "fake:");
    atomic_fetch_add(&world.clock.wall_minus_mono_ms, 90000); /* a node that is fast */
    world_open(&world);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &jobs[0], "withdrawn", "@every 1h");
    world_add(&world, &spec);
    spec = world_spec(&world, &jobs[1], "outrun", "@every 1h");
    spec.version = 3;
    world_add(&world, &spec);
    spec = world_spec(&world, &jobs[2], "future", "@every 1h");
    world_add(&world, &spec);
    world_run(&world, 20000); /* two beats: the offset is published */
    const char *withdrawn = "withdrawn";
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->withdraw(world.fake.inner, &call, &withdrawn, 1), 0);
    announce_elsewhere(&world, "outrun", "other", 4);
    announce_elsewhere(&world, "outrun", "mine", 3);
    atomic_fetch_sub(&world.clock.backend_minus_mono_ms, 3600000);
    assert_equal(jobsched_check(world.s, take_check, &listed), 0);
    assert_equal(checks_of(&listed, "cluster.clock", JOBSCHED_LEVEL_WARNING,
                           "'this-node' is 90000 ms ahead of"),
                 1);
    assert_equal(checks_of(&listed, "cluster.orphaned", JOBSCHED_LEVEL_WARNING,
                           "'withdrawn' is registered by no live node"),
                 1);
    assert_equal(checks_of(&listed, "cluster.orphaned", JOBSCHED_LEVEL_WARNING,
                           "'outrun' is registered by no live node as it is in force (version 4)"),
                 1);
    assert_equal(checks_of(&listed, "cluster.future-mark", JOBSCHED_LEVEL_ERROR, "'future'"), 1);
    assert_equal(checks_of(&listed, "cluster.clock", JOBSCHED_LEVEL_INFO, ""), 0);
    assert_equal(checks_of(&listed, "cluster.orphaned", JOBSCHED_LEVEL_INFO, ""), 0);
    world_close(&world);
}

/* G6: what only asks and commands has no threads, no jobs, and is no node. */
static void test_control_only_registers_and_starts_nothing(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_init(&world, "fake:");
    assert_equal(jobsched_set(&world.options, "control_only", "yes"), 0);
    world_open(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    assert_fails(jobsched_add(world.s, &spec, NULL), JOBSCHED_ESTATE, "control-only");
    assert_fails(jobsched_start(world.s), JOBSCHED_ESTATE, "control-only");
    announce_elsewhere(&world, "job", "schedule=@every 1h\ntimezone=\ndisabled=0\n", 0);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    assert_equal(jobsched_pause(world.s, "job", &result), 0);
    assert_equal(result.changed, 1);
    assert_equal(jobsched_resume(world.s, "job", NULL), 0);
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    struct listed listed = {.count = 0};
    assert_equal(jobsched_jobs(world.s, NULL, take_job, &listed), 0);
    assert_equal(listed.jobs[0].waiting, 1);
    assert_equal(jobsched_nodes(world.s, take_node, NULL), 0); /* visits nobody */
    atomic_fetch_add(&world.clock.wall_minus_mono_ms, -5000);
    listed.count = 0;
    assert_equal(jobsched_check(world.s, take_check, &listed), 0);
    assert_equal(checks_of(&listed, "cluster.clock", JOBSCHED_LEVEL_WARNING,
                           "this machine is 5000 ms behind"),
                 1);
    assert_equal(fake_backend_calls(&world.fake, FAKE_RENEW), 0);
    assert_equal(fake_backend_calls(&world.fake, FAKE_ANNOUNCE), 0);
    assert_equal(fake_backend_calls(&world.fake, FAKE_REAP), 0);
    world_close(&world);
}

static int take_text(const char *text, void *user_data)
{
    (void)text;
    (void)user_data;
    return 0;
}

/* A backend without a schema says so; one that is not there is named. */
static void test_schema_of_a_backend_without_one(void **state)
{
    (void)state;
    assert_fails(jobsched_schema("single:", take_text, NULL), JOBSCHED_ENOTSUP, "'single'");
    assert_fails(jobsched_schema("nowhere:x", take_text, NULL), JOBSCHED_ENOBACKEND, "'nowhere'");
    assert_fails(jobsched_schema(NULL, take_text, NULL), JOBSCHED_EINVAL, "url");
    assert_fails(jobsched_schema("single:", NULL, NULL), JOBSCHED_EINVAL, "visit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_instants_come_from_the_definition),
        cmocka_unit_test(test_calendars_count_where_they_are_known),
        cmocka_unit_test(test_nodes_are_told),
        cmocka_unit_test(test_a_list_ends_no_job_of_others),
        cmocka_unit_test(test_wait_tells_the_outcome),
        cmocka_unit_test(test_wait_tells_what_it_does_not_know),
        cmocka_unit_test(test_wait_inside_a_callback_is_refused),
        cmocka_unit_test(test_questions_without_memory),
        cmocka_unit_test(test_check_tells_that_all_is_well),
        cmocka_unit_test(test_check_finds_what_is_wrong),
        cmocka_unit_test(test_control_only_registers_and_starts_nothing),
        cmocka_unit_test(test_schema_of_a_backend_without_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
