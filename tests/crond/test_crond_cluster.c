/* test_crond_cluster.c: several elected-crond processes on one crontab and one sqlite: lock. What
 * the library promises must arrive at the commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crond/processes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static size_t start(world *self, const char *node, const char *more)
{
    char arguments[256];

    (void)snprintf(arguments, sizeof arguments, "--lock sqlite:%s --node %s %s",
                   world_path(self, "jobs.db"), node, more);
    return world_start(self, arguments);
}

/* The instant of " NAME=" in a line of the log; 0: there is none. */
static int64_t instant_in(const char *line, const char *name)
{
    struct tm utc;
    const char *at = strstr(line, name);

    memset(&utc, 0, sizeof utc);
    if (at == NULL || strptime(at + strlen(name), "%Y-%m-%dT%H:%M:%S", &utc) == NULL) {
        return 0;
    }
    return (int64_t)timegm(&utc) * 1000;
}

/* How many instants of the job between these two the logs say were skipped: on a machine that is
 * slow enough even a job of a millisecond is not done before it is due again. */
static int64_t count_skipped(const world *self, const char *job, int64_t step_ms, int64_t after_ms,
                             int64_t before_ms)
{
    char *log = world_read(self, "err"), wanted[64];
    int64_t skipped = 0;

    (void)snprintf(wanted, sizeof wanted, " job=\"%s\" ", job);
    for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, " event=occurrence.skipped ") != NULL && strstr(line, wanted) != NULL) {
            int64_t at_ms = instant_in(line, " scheduled="), last_ms = instant_in(line, " last=");

            assert_true(at_ms > 0);
            for (last_ms = last_ms == 0 ? at_ms : last_ms; at_ms <= last_ms; at_ms += step_ms) {
                skipped += at_ms > after_ms && at_ms < before_ms;
            }
        }
    }
    free(log);
    return skipped;
}

/* All starts of a job: one instant after the other on its grid, none twice and none left out without
 * a word (G1, G9), with tokens that grow (G2). */
static void assert_each_once(const world *self, const char *job, int64_t step_ms)
{
    size_t count = 0;
    int64_t left_out = 0;
    run_line *starts = world_runs(self, job, "start", &count);

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(starts[i].scheduled_ms % step_ms, 0);
        if (i > 0) {
            assert_true(starts[i].scheduled_ms > starts[i - 1].scheduled_ms);
            assert_true(starts[i].token > starts[i - 1].token);
            left_out += (starts[i].scheduled_ms - starts[i - 1].scheduled_ms) / step_ms - 1;
        }
    }
    assert_true(count > 0);
    assert_int_equal(left_out, count_skipped(self, job, step_ms, starts[0].scheduled_ms,
                                             starts[count - 1].scheduled_ms));
    free(starts);
}

/* G1, G2, G9, and G7: a third process comes and goes meanwhile. */
static void test_each_line_fires_once_in_the_cluster(void **state)
{
    world *self = *state;
    size_t a, b, c;

    world_write(self, "tab",
                "# name: one\n* * * * * * true\n# name: two\n*/2 * * * * * true\n"
                "# name: three\n@every 3s echo x\n");
    a = start(self, "a", "");
    b = start(self, "b", "");
    world_ready(self, a);
    world_ready(self, b);
    world_until_runs(self, "one", "start", 3);
    c = start(self, "c", "");
    world_until_runs(self, "one", "start", 6);
    world_stop(self, c);
    world_until_runs(self, "one", "start", 9);
    world_stop(self, a);
    world_until_runs(self, "one", "start", 12);
    world_stop(self, b);
    assert_each_once(self, "one", 1000);
    assert_each_once(self, "two", 2000);
    assert_each_once(self, "three", 3000);
}

static size_t index_of(const char *node)
{
    return (size_t)(node[0] - 'a');
}

static int is_marked(const world *self, const void *data)
{
    (void)data;
    return access(world_path(self, "mark"), F_OK) == 0;
}

/* G10 and G15: the job of a killed process starts elsewhere at its next instant, long before the
 * lease of the default 30 s is over; the run that was cut off is told as interrupted, once. */
static void test_job_of_a_killed_process_goes_on_elsewhere(void **state)
{
    world *self = *state;
    size_t count = 0;
    run_line *starts;
    char *log, *told;

    world_write(self, "tab",
                "# name: long\n@every 2s [ -e $MARK ] && exit 0; : > $MARK; sleep 1000; true\n");
    assert_int_equal(setenv("MARK", world_path(self, "mark"), 1), 0);
    world_ready(self, start(self, "a", ""));
    world_ready(self, start(self, "b", ""));
    world_until(self, is_marked, NULL, "the first command at work");
    starts = world_runs(self, "long", "start", &count);
    assert_int_equal(count, 1);
    assert_int_equal(kill(self->pids[index_of(starts[0].node)], SIGKILL), 0);
    assert_int_equal(world_wait(self, index_of(starts[0].node)), 128 + SIGKILL);
    free(starts);
    world_until_runs(self, "long", "end", 1);
    starts = world_runs(self, "long", "start", &count);
    assert_true(count >= 2);
    assert_string_not_equal(starts[1].node, starts[0].node);
    assert_true(starts[1].token > starts[0].token);
    assert_true(starts[1].scheduled_ms - starts[0].scheduled_ms < 20000);
    free(starts);
    world_until_text(self, "err", "event=run.interrupted");
    log = world_read(self, "err");
    told = strstr(log, "event=run.interrupted");
    assert_null(strstr(told + 1, "event=run.interrupted"));
    free(log);
}

static int is_gone(const world *self, const void *data)
{
    const pid_t *pid = data;

    (void)self;
    return kill(*pid, 0) != 0 && errno == ESRCH;
}

/* One process is stopped beyond its lease, and goes on when the other has taken over. Returns how
 * long it took until it had ended its command. */
static int64_t lose_lease(world *self)
{
    size_t count = 0, first = self->started, owner;
    run_line *starts, *ends;
    int64_t awake_ms, took_ms;
    char name[2] = "a";

    world_forget(self);
    for (size_t i = 0; i < 2; i++) {
        name[0] = (char)('a' + (int)(first + i));
        world_ready(self, start(self, name, "--lease 9s"));
    }
    world_until(self, is_marked, NULL, "the first command at work");
    starts = world_runs(self, "long", "start", &count);
    owner = index_of(starts[0].node);
    assert_int_equal(kill(self->pids[owner], SIGSTOP), 0);
    world_until_runs(self, "long", "start", 2);
    awake_ms = test_mono_ms();
    assert_int_equal(kill(self->pids[owner], SIGCONT), 0);
    world_until_text(self, "runs", "\tlease-lost\n");
    took_ms = test_mono_ms() - awake_ms;
    ends = world_runs(self, "long", "end", &count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(ends[i].outcome,
                            ends[i].token == starts[0].token ? "lease-lost" : "succeeded");
    }
    world_until(self, is_gone, &starts[0].pid, "the end of the command without a lease");
    free(starts);
    free(ends);
    for (size_t i = 0; i < 2; i++) {
        world_stop(self, first + i);
    }
    return took_ms;
}

/* G5: a process that was stopped beyond its lease ends its command as soon as it goes on, and does
 * not count it. The other one has taken the job over meanwhile. */
static void test_lost_lease_ends_the_command(void **state)
{
    enum { CHANCES = 3, MERE_STOP_MS = 5000 };
    static const char tab[] = "# name: long\n@every 1s [ -e $MARK ] && exit 0; : > $MARK; "
                              "trap '' TERM; sleep 1000; true\n";
    world *self = *state;
    int64_t took_ms = MERE_STOP_MS;

    world_write(self, "tab", tab);
    assert_int_equal(setenv("MARK", world_path(self, "mark"), 1), 0);
    assert_int_equal(setenv("JOBSCHED_REQUEST_TIMEOUT", "3s", 1), 0);
    /* A machine that stalls just then is given another chance. */
    for (int i = 0; i < CHANCES && took_ms >= MERE_STOP_MS; i++) {
        took_ms = lose_lease(self);
    }
    assert_int_equal(unsetenv("JOBSCHED_REQUEST_TIMEOUT"), 0);
    assert_true(took_ms < MERE_STOP_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_line_fires_once_in_the_cluster, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_job_of_a_killed_process_goes_on_elsewhere, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_lost_lease_ends_the_command, world_setup,
                                        world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
