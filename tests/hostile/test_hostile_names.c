/* test_hostile_names.c: names of jobs, namespaces, nodes, versions and requests, and notes, that are
 * made to be taken for something else: every byte value, and words of SQL, Lua, the Redis protocol,
 * formats, shells, JSON and terminals; through the whole library into each backend and back.
 * Guards G13 (nothing that is printed or logged has a control byte) and, for each name, that it is
 * that name and no other: one fire for one trigger (G1), one row in the ledger (G9).
 * (tests/backend/cf_names.c does it for the operations of each backend.) */
#include "hostile/hostile.h"

#include <stdio.h>
#include <string.h>

static const char *const fragments[] = {
    "'; DROP TABLE runs; --",
    "' OR '1'='1",
    "\"; DROP SCHEMA jobsched CASCADE; --",
    "$1",
    "$$; SELECT pg_terminate_backend(pid) FROM pg_stat_activity; $$",
    "E'\\047",
    "\\",
    "\\'",
    "{\"a\",NULL}",
    "NULL",
    "(1,2)",
    "?1",
    "x'00'",
    "%",
    "_",
    "]] redis.call('FLUSHALL') --[[",
    "' .. redis.call('FLUSHALL') .. '",
    "return 1",
    "*1 $8 FLUSHALL",
    "{a}:meta",
    "}:meta",
    "a:b:c",
    "%s%n%x",
    "%1$s",
    "$(touch /tmp/hostile)",
    "`touch /tmp/hostile`",
    "; touch /tmp/hostile",
    "&& touch /tmp/hostile",
    "../../etc/passwd",
    "{\"job\":\"x\"}",
    "\" level=error event=\"x",
    "<script>alert(1)</script>",
    "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x95\xb0",
    "\342\200\256desrever", /* a right-to-left override: ugly, and still only a name */
    " leading and trailing ",
    "A", /* beside "a" */
    "a",
};

enum { FRAGMENTS = sizeof fragments / sizeof fragments[0] };

static void check_clean(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        assert_true(*at >= 0x20 && *at != 0x7f);
        assert_true(*at != 0xc2 || at[1] >= 0xa0);
    }
}

/* ---- every byte ------------------------------------------------------------------- */

static int open_as(const char *name_space, const char *node, const char *version)
{
    jobsched_options options;
    jobsched *s = NULL;
    int result;

    JOBSCHED_INIT(&options);
    options.name_space = name_space;
    options.node_name = node;
    options.app_version = version;
    result = jobsched_open(&options, &s);
    if (result == 0) {
        assert_equal(jobsched_close(s), 0);
    }
    return result;
}

static void try_name(struct host *host, const char *name, int good)
{
    const int results[] = {host_add(host, name), open_as(name, NULL, NULL),
                           open_as(NULL, name, NULL), open_as(NULL, NULL, name)};

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        assert_equal(results[i], good ? 0 : JOBSCHED_EINVAL);
    }
    if (!good) {
        check_clean(jobsched_last_error()->message);
        return;
    }
    wait_for(jobsched_trigger(host->s, name, name, NULL) == 0);
    assert_equal(jobsched_withdraw(host->s, name), 0);
}

static void test_every_byte(void **state)
{
    (void)state;
    struct host host = {0};
    assert_equal(jobsched_open(NULL, &host.s), 0);
    assert_equal(jobsched_start(host.s), 0);
    for (int byte = 1; byte < 256; byte++) {
        char name[8] = {'n', (char)byte, 'x', '\0'};

        try_name(&host, name, byte >= 0x20 && byte < 0x7f);
        /* The second half of a character that is well-formed for 0x80 to 0xbf. */
        (void)snprintf(name, sizeof name, "n\xc2%cx", byte);
        try_name(&host, name, byte >= 0xa0 && byte <= 0xbf);
    }
    assert_equal(jobsched_close(host.s), 0);
}

/* ---- words ------------------------------------------------------------------------ */

static int note_own_name(struct host *host, jobsched_run *run)
{
    (void)host;
    return jobsched_run_note(run, jobsched_run_job(run));
}

/* What the ledger says of one job. */
struct reading {
    const char *job, *node;
    int rows, wrong;
};

static int read_row(const jobsched_run_record *record, void *data)
{
    struct reading *reading = data;

    reading->rows++;
    reading->wrong +=
        strcmp(record->job, reading->job) != 0 || strcmp(record->note, reading->job) != 0 ||
        strcmp(record->request, reading->job) != 0 || strcmp(record->node, reading->node) != 0 ||
        record->outcome != JOBSCHED_OUTCOME_SUCCEEDED;
    return 0;
}

static void observe(const jobsched_event *event, void *data)
{
    const char *const texts[] = {event->job, event->node, event->message};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (const char *at = texts[i]; *at != '\0'; at++) {
            (void)atomic_fetch_add((_Atomic int *)data, (unsigned char)*at < 0x20 || *at == 0x7f);
        }
    }
}

/* One scheduler whose namespace, node and jobs have such names; all are triggered by such requests. */
static void live_among(struct subject *subject, const char *name_space)
{
    struct host host = {.subject = subject, .body = note_own_name};
    _Atomic int unclean = 0;
    jobsched_options options;
    char own_space[JOBSCHED_NAME_BYTES + 1];

    host_options(subject, &options);
    (void)snprintf(own_space, sizeof own_space, "%s %s", subject->name_space, name_space);
    options.lease_ms = 30000; /* a machine that stands still for some seconds ends no run */
    options.request_timeout_ms = 10000;
    options.name_space = own_space;
    options.node_name = name_space;
    options.observer = observe;
    options.observer_data = (void *)&unclean;
    assert_equal(jobsched_open(&options, &host.s), 0);
    for (size_t i = 0; i < FRAGMENTS; i++) {
        assert_equal(host_add(&host, fragments[i]), 0);
    }
    assert_equal(host_add(&host, "bystander"), 0);
    assert_equal(jobsched_start(host.s), 0);
    for (size_t i = 0; i < FRAGMENTS; i++) {
        wait_for(jobsched_trigger(host.s, fragments[i], fragments[i], NULL) == 0);
    }
    wait_for(host.calls == FRAGMENTS);
    assert_equal(jobsched_drain(host.s, LIVE_BOUND_MS), 0);
    for (size_t i = 0; i < FRAGMENTS; i++) {
        struct reading reading = {.job = fragments[i], .node = name_space};

        assert_equal(jobsched_runs(host.s, fragments[i], 0, read_row, &reading), 0);
        if (reading.rows != 1 || reading.wrong != 0) {
            print_error("'%s' on %s: %d rows, %d wrong\n", fragments[i], subject->scheme,
                        reading.rows, reading.wrong);
        }
        assert_equal(reading.rows, 1);
        assert_equal(reading.wrong, 0);
    }
    assert_equal(host_rows(&host, "bystander", -1), 0);
    assert_equal(jobsched_pause(host.s, "bystander", NULL), 0);
    assert_equal(jobsched_close(host.s), 0);
    assert_equal(host.calls, FRAGMENTS);
    assert_equal(unclean, 0);
}

static void test_fragments_are_only_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        for (size_t j = 0; j < FRAGMENTS; j += 9) {
            live_among(&subjects[i], fragments[j]);
        }
    }
}

/* ---- notes ------------------------------------------------------------------------ */

static int note_nonsense(struct host *host, jobsched_run *run)
{
    (void)host;
    return jobsched_run_note(run, "\x1b[2J\x07two\nlines\377\302\2331m \xe2\x82");
}

static int check_note(const jobsched_run_record *record, void *data)
{
    *(int *)data += strcmp(record->note, "?[2J?two?lines??1m ??") == 0;
    return 0;
}

static void test_notes_are_one_clean_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        struct host host = {.subject = &subjects[i], .body = note_nonsense};
        jobsched_options options;
        int clean = 0;

        host_options(&subjects[i], &options);
        options.lease_ms = 30000;
        options.request_timeout_ms = 10000;
        assert_equal(jobsched_open(&options, &host.s), 0);
        assert_equal(host_add(&host, "job"), 0);
        assert_equal(jobsched_start(host.s), 0);
        wait_for(jobsched_trigger(host.s, "job", NULL, NULL) == 0);
        wait_for(host.calls == 1);
        assert_equal(jobsched_drain(host.s, LIVE_BOUND_MS), 0);
        assert_equal(jobsched_runs(host.s, "job", 0, check_note, &clean), 0);
        assert_equal(clean, 1);
        assert_equal(jobsched_close(host.s), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_fragments_are_only_names),
        cmocka_unit_test(test_notes_are_one_clean_line),
    };

    return cmocka_run_group_tests(tests, subjects_set_up, subjects_tear_down) ? 1 : 0;
}
