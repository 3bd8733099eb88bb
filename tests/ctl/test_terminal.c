/* test_terminal.c: jobschedctl on a terminal, as people use it: what it asks before it removes a job,
 * what it colours, and what it shows again and again (issue 5). This process is the only node of the
 * cluster that it acts on. */
#include "ctl/terminal.h"

#include <jobsched.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ENVIRONMENT_MAX 8
#define CLEARED         "\033[H\033[2J"
#define ODD             "gr\xc3\xbcn \xe2\x80\xae'"
#define POLLS_MAX       6000 /* of 10 ms */

static char directory[] = "/tmp/test-terminal-XXXXXX";
static char lock[128];
static jobsched *cluster;
static struct terminal terminal;

/* ---- The cluster ---- */

static int succeed(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static int add(const char *name)
{
    jobsched_job_spec spec;

    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = "0 3 1 1 *";
    spec.run = succeed;
    return jobsched_add(cluster, &spec, NULL);
}

static int look(const jobsched_job_record *job, void *user_data)
{
    int *removed = user_data;

    *removed = job->removed != 0;
    return 0;
}

/* 0 or 1; -1: there is no such job. */
static int is_removed(const char *job)
{
    int removed = -1;

    (void)jobsched_jobs(cluster, job, look, &removed);
    return removed;
}

static int set_up(void **state)
{
    static const char *const names[] = {"first", "second", ODD};
    jobsched_options options;

    (void)state;
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    (void)snprintf(lock, sizeof lock, "JOBSCHED_LOCK=sqlite:%s/jobs.db", directory);
    JOBSCHED_INIT(&options);
    options.lock = strchr(lock, '=') + 1;
    options.node_name = "here";
    if (jobsched_open(&options, &cluster) != 0 || jobsched_start(cluster) != 0) {
        print_error("%s\n", jobsched_last_error()->message);
        return -1;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (add(names[i]) != 0) {
            return -1;
        }
        for (int polls = 0; is_removed(names[i]) != 0; polls++) {
            if (polls == POLLS_MAX) {
                return -1;
            }
            (void)poll(NULL, 0, 10);
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    static const char *const suffixes[] = {"", "-live", "-wal", "-shm"};
    char path[160];

    (void)state;
    (void)jobsched_close(cluster);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/jobs.db%s", directory, suffixes[i]);
        (void)unlink(path);
    }
    return rmdir(directory);
}

/* ---- The terminal ---- */

/* variable: one more, or NULL. */
static void start(const char *term, const char *variable, const char *const *arguments)
{
    const char *environment[ENVIRONMENT_MAX] = {lock, "LC_ALL=C"};
    int used = 2;

    if (term != NULL) {
        environment[used++] = term;
    }
    environment[used] = variable;
    assert_int_equal(terminal_start(&terminal, JOBSCHEDCTL, environment, arguments), 0);
}

/* The status of exit, after all was shown. */
static int end(void)
{
    if (terminal_end(&terminal) != 0 || !WIFEXITED(terminal.status)) {
        print_error("status %d: %s\n", terminal.status, terminal.shown);
        return -1;
    }
    return WEXITSTATUS(terminal.status);
}

static void expect(const char *text)
{
    if (strstr(terminal.shown, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, terminal.shown);
    }
}

static void expect_not(const char *text)
{
    if (strstr(terminal.shown, text) != NULL) {
        fail_msg("'%s' is in: %s", text, terminal.shown);
    }
}

static int answer(const char *job, const char *keys)
{
    const char *const arguments[] = {"remove", job, NULL};

    start("TERM=xterm", NULL, arguments);
    assert_int_equal(terminal_until(&terminal, "' from the whole cluster? [y/N] ", 1), 0);
    assert_int_equal(is_removed(job), 0); /* nothing before the answer */
    assert_int_equal(terminal_type(&terminal, keys), 0);
    return end();
}

/* ---- Tests ---- */

/* G6: what takes a job out of the cluster is done after a yes, and after nothing else. */
static void test_remove_asks_and_takes_only_yes(void **state)
{
    static const char *const refusals[] = {"n\n", "\n", "N\n", "no\n", "x\n", " y\n", "\004"};

    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        assert_int_equal(answer("first", refusals[i]), 4);
        expect("not confirmed: nothing was done");
        assert_int_equal(is_removed("first"), 0);
    }
    assert_int_equal(answer("first", "y\n"), 0);
    expect("'first' removed");
    assert_int_equal(is_removed("first"), 1);
    assert_int_equal(answer(ODD, "Yes\n"), 0);
    expect("remove 'gr\\u00fcn \\u202e'' from"); /* the question is text, too */
    assert_int_equal(is_removed(ODD), 1);
}

/* Who is sure, only tries, or does what can be taken back is not asked. */
static void test_what_is_not_asked_about(void **state)
{
    static const char *const lines[][5] = {{"pause", "second"},
                                           {"resume", "second"},
                                           {"cancel", "second"},
                                           {"remove", "second", "--dry-run"},
                                           {"remove", "second", "--yes"}};

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(is_removed("second"), 0);
        start("TERM=xterm", NULL, lines[i]);
        assert_int_equal(end(), 0);
        expect_not("[y/N]");
    }
    assert_int_equal(is_removed("second"), 1);
}

/* There is colour where a terminal knows what that is, and nobody objects. */
static void test_colour_is_for_terminals_that_have_it(void **state)
{
    static const struct {
        const char *term, *variable;
        int coloured;
    } rows[] = {
        {"TERM=xterm", NULL, 1},
        {"TERM=xterm", "NO_COLOR=", 1},
        {"TERM=xterm", "NO_COLOR=0", 0},
        {"TERM=dumb", NULL, 0},
        {NULL, NULL, 0},
    };
    static const struct {
        const char *words[4], *colour;
        int status;
    } lines[] = {
        {{"doctor"}, "\033[32mok", 0},
        {{"jobs", "--all"}, "\033[1mJOB", 0},
        {{"help", "jobs"}, "\033[1m", 0},
        {{"next", "61 * * * *"}, "\033[32m^", 2},
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (size_t line = 0; line < sizeof lines / sizeof lines[0]; line++) {
            start(rows[row].term, rows[row].variable, lines[line].words);
            assert_int_equal(end(), lines[line].status);
            if (rows[row].coloured) {
                expect(lines[line].colour);
            } else {
                expect_not("\033");
            }
        }
    }
    const char *const json[] = {"doctor", "--json", NULL};
    start("TERM=xterm", NULL, json);
    assert_int_equal(end(), 0);
    expect_not("\033");
}

/* With --watch the newest state is on a screen that is cleared for it, until the key that
 * interrupts; a screen that cannot be, and JSON, go on line by line. */
static void test_watch_shows_again_until_interrupted(void **state)
{
    static const struct {
        const char *term, *words[6], *shown;
        int clears;
    } rows[] = {
        {"TERM=xterm", {"jobs", "--all", "--watch", "1s"}, "second", 1},
        {"TERM=dumb", {"nodes", "-w", "1s"}, "here", 0},
        {"TERM=xterm", {"nodes", "-w", "1s", "--json"}, "\"here\"", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(rows[i].term, NULL, rows[i].words);
        assert_int_equal(terminal_until(&terminal, rows[i].shown, 3), 0);
        assert_int_equal(terminal_type(&terminal, "\003"), 0);
        assert_int_equal(terminal_end(&terminal), 0);
        assert_true(WIFSIGNALED(terminal.status) && WTERMSIG(terminal.status) == SIGINT);
        if (rows[i].clears) {
            assert_memory_equal(terminal.shown, CLEARED, sizeof CLEARED - 1);
            assert_int_equal(terminal_until(&terminal, CLEARED, 3), 0);
        } else {
            expect_not("\033[H");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colour_is_for_terminals_that_have_it),
        cmocka_unit_test(test_remove_asks_and_takes_only_yes),
        cmocka_unit_test(test_what_is_not_asked_about),
        cmocka_unit_test(test_watch_shows_again_until_interrupted),
    };
    int failures = cmocka_run_group_tests_name("terminal", tests, set_up, tear_down);

    return failures ? 1 : 0;
}
