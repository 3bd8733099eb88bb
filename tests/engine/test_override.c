/* Settings of jobs that operators change without a build: what is overridden, what is refused and
 * how that is told (file, line, key, allowed range), and that the cluster sees an edit (G14). */
#include "support/live.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/jobsched-overrides-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_equal(fwrite(text, 1, bytes, file), bytes);
    assert_equal(fclose(file), 0);
}

static const jsi_job *job_of(struct world *world, const char *name)
{
    return jsi_map_find(&world->s->jobs, name);
}

/* Every field of the job can be changed but its name; the later word holds; other jobs are left
 * alone; and the definition is that of the edited job. */
static void test_overrides_are_applied(void **state)
{
    (void)state;
    struct world world;
    struct world_job jobs[2] = {{0}};
    world_init(&world, "fake:");
    static const char text[] = "# nightly\n"
                               "\n"
                               "job.back.up.schedule = 0 4 * * *\r\n"
                               "  job.back.up.timezone=Europe/Berlin  \n"
                               "job.back.up.enabled = no\n"
                               "job.back.up.misfire = all\n"
                               "job.back.up.version = 9\n"
                               "job.back.up.timeout = 5m";
    write_file(text, sizeof text - 1);
    assert_equal(jobsched_set(&world.options, "overrides", path), 0);
    world_open(&world);
    assert_equal(jobsched_override(world.s, "job.back.up.misfire", "skip"), 0);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &jobs[0], "back.up", "not even a schedule");
    spec.misfire = JOBSCHED_MISFIRE_ONCE;
    world_add(&world, &spec);
    spec = world_spec(&world, &jobs[1], "other", "@every 1s");
    world_add(&world, &spec);
    const jsi_job *job = job_of(&world, "back.up");
    assert_string_equal(job->text, "0 4 * * *");
    assert_string_equal(job->timezone, "Europe/Berlin");
    assert_equal(job->spec.disabled, 1);
    assert_equal(job->spec.misfire, JOBSCHED_MISFIRE_SKIP);
    assert_equal(job->spec.version, 9);
    assert_equal(job->spec.timeout_ms, 300000);
    assert_non_null(strstr(job->definition, "schedule=0 4 * * *\ntimezone=Europe/Berlin\n"
                                            "misfire=1,"));
    assert_non_null(strstr(job->definition, "disabled=1"));
    assert_equal(job_of(&world, "other")->spec.disabled, 0);
    world_run(&world, 3000);
    assert_equal(jobs[1].calls, 3);
    assert_fails(jobsched_override(world.s, "job.other.enabled", "no"), JOBSCHED_ESTATE,
                 "'other' is registered already");
    assert_equal(jobsched_withdraw(world.s, "other"), 0);
    assert_equal(jobsched_override(world.s, "job.other.enabled", "no"), 0);
    world_add(&world, &spec);
    assert_equal(job_of(&world, "other")->spec.disabled, 1);
    world_close(&world);
}

/* A spec from an older program has fewer fields than can be overridden. */
static void test_older_callers_are_overridden_too(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    assert_equal(jobsched_override(world.s, "job.job.calendar_policy", "next"), 0);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    spec.struct_size = offsetof(jobsched_job_spec, dst_gap);
    world_add(&world, &spec);
    assert_equal(job_of(&world, "job")->spec.calendar_policy, 1);
    world_close(&world);
}

/* What is wrong is refused at once, with the key and what is allowed. */
static void test_bad_overrides_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        int code;
        const char *text;
    } rows[] = {
        {"lease", "30s", JOBSCHED_EINVAL, "'lease' is not of the form 'job.NAME.KEY'"},
        {"job.x", "30s", JOBSCHED_EINVAL, "'job.x' is not of the form"},
        {"job.x.", "30s", JOBSCHED_EINVAL, "form"},
        {"job..lease", "30s", JOBSCHED_EINVAL, "form"},
        {"job.x.nonsense", "1", JOBSCHED_EINVAL, "no setting 'nonsense'"},
        {"job.x.name", "y", JOBSCHED_EINVAL, "identity"},
        {"job.x.lease", "1ms", JOBSCHED_EINVAL, "outside 300ms-3600000ms"},
        {"job.x.misfire", "twice", JOBSCHED_EINVAL, "once, skip, all"},
        {"job.x.schedule", "75 * * * *", JOBSCHED_EPARSE, "value 75 is outside 0-59"},
        {"job.x.timezone", "No/Where", JOBSCHED_EPARSE, "No/Where"},
        {"job.\x01.lease", "30s", JOBSCHED_EINVAL, "control character"},
        {"job.jobsched:leader.lease", "30s", JOBSCHED_EINVAL, "reserved"},
        {NULL, "30s", JOBSCHED_EINVAL, "NULL"},
        {"job.x.lease", NULL, JOBSCHED_EINVAL, "NULL"},
    };
    struct world world;
    world_begin(&world, "fake:");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_fails(jobsched_override(world.s, rows[i].key, rows[i].value), rows[i].code,
                     rows[i].text);
    }
    char key[JOBSCHED_NAME_BYTES + 32];
    (void)snprintf(key, sizeof key, "job.%0*d.lease", JOBSCHED_NAME_BYTES + 1, 7);
    assert_fails(jobsched_override(world.s, key, "30s"), JOBSCHED_EINVAL, "longer than 200 bytes");
    for (int i = 0; i < JSI_OVERRIDES_MAX; i++) {
        assert_equal(jobsched_override(world.s, "job.x.lease", "30s"), 0);
    }
    assert_fails(jobsched_override(world.s, "job.x.lease", "30s"), JOBSCHED_EINVAL,
                 "more than 2000");
    world_close(&world);
}

/* Errors in a file name it, the line, the key, and what is allowed; and nothing is opened. */
static void test_file_errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes; /* 0: all */
        int code;
        const char *where, *what;
    } rows[] = {
        {"job.x.lease = 30s\n\njob.x.misfire = 5\n", 0, JOBSCHED_EINVAL,
         "line 3:", "'misfire': '5' is not one of"},
        {"job.x.lease\n", 0, JOBSCHED_EINVAL, "line 1:", "'KEY = VALUE'"},
        {"# c\nlease = 30s", 0, JOBSCHED_EINVAL, "line 2:", "'job.NAME.KEY'"},
        {"job.x.schedule = 75 * * * *", 0, JOBSCHED_EPARSE, "line 1:", "0-59"},
        {"job.x.lease = 5ms", 0, JOBSCHED_EINVAL, "line 1:", "300ms-3600000ms"},
        {"job.x.lease = 30s\n\0job.x.lease = 30s", 36, JOBSCHED_EINVAL, "line 2:", "NUL"},
    };
    struct world world;
    world_init(&world, "fake:");
    world.options.overrides = path;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes = rows[i].bytes != 0 ? rows[i].bytes : strlen(rows[i].text);
        write_file(rows[i].text, bytes);
        assert_fails(jobsched_open(&world.options, &world.s), rows[i].code, rows[i].what);
        assert_non_null(strstr(jobsched_last_error()->message, path));
        assert_non_null(strstr(jobsched_last_error()->message, rows[i].where));
    }
    assert_true(jobsched_last_error()->position >= 0);
    write_file("job.x.lease = 5ms", 17);
    assert_equal(jobsched_open(&world.options, &world.s), JOBSCHED_EINVAL);
    assert_equal(jobsched_last_error()->low, 300);
    assert_equal(fake_backend_calls(&world.fake, FAKE_OPEN), 0);
    world.options.overrides = "/nonexistent/overrides";
    assert_fails(jobsched_open(&world.options, &world.s), JOBSCHED_EOS, "/nonexistent/overrides");
    world.options.overrides = "/tmp";
    assert_fails(jobsched_open(&world.options, &world.s), JOBSCHED_EOS, "cannot be read");
    char *large = calloc(1, JSI_OVERRIDES_BYTES_MAX + 1);
    assert_non_null(large);
    memset(large, '#', JSI_OVERRIDES_BYTES_MAX + 1);
    write_file(large, JSI_OVERRIDES_BYTES_MAX + 1);
    world.options.overrides = path;
    assert_fails(jobsched_open(&world.options, &world.s), JOBSCHED_EINVAL, "longer than 1048576");
    write_file(large, JSI_OVERRIDES_BYTES_MAX);
    world_open(&world);
    free(large);
    world_close(&world);
}

/* Each allocation of an open with a file and in leader mode fails in turn: ENOMEM, and all of it is
 * given back. */
static void test_open_without_memory(void **state)
{
    (void)state;
    struct world world;
    static const char text[] = "job.x.schedule = 0 4 * * *\njob.y.lease = 30s\n";
    write_file(text, sizeof text - 1);
    world_init(&world, "fake:");
    world.options.overrides = path;
    world.options.leader = 1;
    int code = JOBSCHED_ENOMEM;
    int64_t failures = -1;
    for (; code != 0; failures++) {
        assert_at_most(failures, 1000);
        int64_t live = atomic_load(&world.memory.live);
        atomic_store(&world.memory.fail_at, atomic_load(&world.memory.asked) + failures + 1);
        code = jobsched_open(&world.options, &world.s);
        if (code != 0) {
            assert_equal(code, JOBSCHED_ENOMEM);
            assert_equal(atomic_load(&world.memory.live), live);
        }
    }
    atomic_store(&world.memory.fail_at, -1);
    assert_true(failures > 10);
    assert_equal(jobsched_is_leader(world.s), 0);
    world_close(&world);
}

/* A name that no job has may be a slip: observers hear of each once, when all should be there. */
static void test_unknown_names_are_told_once_started(void **state)
{
    (void)state;
    struct event_log events;
    struct world_job job = {0};
    struct world unused = {.s = NULL};
    jobsched_options options;
    jobsched *s;
    JOBSCHED_INIT(&options);
    event_log_init(&events);
    options.observer = event_log_observe;
    options.observer_data = &events;
    assert_equal(jobsched_open(&options, &s), 0);
    assert_equal(jobsched_override(s, "job.there.enabled", "no"), 0);
    assert_equal(jobsched_override(s, "job.slip.enabled", "no"), 0);
    assert_equal(jobsched_override(s, "job.slip.misfire", "skip"), 0);
    jobsched_job_spec spec = world_spec(&unused, &job, "there", "@every 1h");
    assert_equal(jobsched_add(s, &spec, NULL), 0);
    assert_equal(jobsched_start(s), 0);
    wait_for(event_log_count(&events, JOBSCHED_EVENT_OVERRIDE_UNKNOWN, "slip") == 1);
    assert_equal(jobsched_close(s), 0);
    assert_equal(event_log_count(&events, JOBSCHED_EVENT_OVERRIDE_UNKNOWN, NULL), 1);
    event_log_fini(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overrides_are_applied),
        cmocka_unit_test(test_older_callers_are_overridden_too),
        cmocka_unit_test(test_bad_overrides_are_refused),
        cmocka_unit_test(test_file_errors_name_the_line),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_unknown_names_are_told_once_started),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file) != 0 ? 1 : 0;
}
