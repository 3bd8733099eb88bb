/* test_crond.c: elected-crond as a whole, in real processes: what it runs, how often, with what
 * around it, and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crond/processes.h"

#include <jobsched.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void assert_in_file(const world *self, const char *name, const char *text, int expected)
{
    char *all = world_read(self, name);

    if ((strstr(all, text) != NULL) != expected) {
        print_message("looked for '%s' in:\n%s\n", text, all);
    }
    assert_int_equal(strstr(all, text) != NULL, expected);
    free(all);
}

/* A bad line is told with its place, and the others run (G8: nothing is run on a guess). */
static void test_bad_line_does_not_stop_the_others(void **state)
{
    world *self = *state;
    size_t index;

    world_write(self, "tab", "* * 99 * * * bad\n# name: good\n* * * * * * true\n@every 1x worse\n");
    index = world_start(self, "--lock single:");
    world_until_runs(self, "good", "end", 2);
    world_stop(self, index);
    assert_in_file(self, "err", "/tab:1:5: ", 1);
    assert_in_file(self, "err", "/tab:4:9: ", 1);
    assert_in_file(self, "err", "errors=2", 1);
    assert_in_file(self, "runs", "bad", 0);
}

static void test_nothing_usable_is_refused(void **state)
{
    world *self = *state;

    world_write(self, "tab", "* * 99 * * * bad\n");
    assert_int_equal(world_wait(self, world_start(self, "--lock single:")), 2);
    assert_in_file(self, "err", "no usable line", 1);
    assert_int_equal(unlink(world_path(self, "tab")), 0);
    assert_int_equal(world_wait(self, world_start(self, "--lock single:")), 1);
    assert_in_file(self, "err", "No such file", 1);
    assert_int_equal(world_wait(self, world_start(self, "--lock single: --lease 1y")), 2);
    assert_in_file(self, "err", "--lease: ", 1);
    assert_int_equal(world_wait(self, world_start(self, "--no-such-option")), 2);
    assert_int_equal(world_wait(self, world_start(self, "--drain -1 --lock single:")), 2);
    assert_int_equal(world_wait(self, world_start(self, "")), 2);
    assert_in_file(self, "err", "no lock is given", 1);
    world_write(self, "tab", "@daily true\n");
    (void)unlink(world_path(self, "runs"));
    assert_int_equal(mkdir(world_path(self, "runs"), 0700), 0);
    assert_int_equal(world_wait(self, world_start(self, "--lock single:")), 1);
    assert_in_file(self, "err", "/runs' cannot be opened: ", 1);
    assert_int_equal(rmdir(world_path(self, "runs")), 0);
}

/* Whatever goes wrong with the lock, its password is not shown. */
static void test_password_is_never_shown(void **state)
{
    static const char *const urls[] = {"nosuch://me:s3cr3t@host/db?password=s3cr3t",
                                       "s3cr3t:me@host"};
    world *self = *state;
    char arguments[600];

    world_write(self, "tab", "@daily true\n");
    (void)snprintf(arguments, sizeof arguments, "--lock-file %s", world_path(self, "lock"));
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        world_write(self, "lock", urls[i]);
        assert_int_equal(world_wait(self, world_start(self, arguments)), 1);
        assert_in_file(self, "err", i == 0 ? "'nosuch'" : "for the lock URL", 1);
        assert_in_file(self, "err", "s3cr3t", 0);
    }
}

/* On the command line, where everybody can read it, a password is refused; a file or the environment
 * takes any URL. */
static void test_password_is_refused_on_the_command_line(void **state)
{
    static const char *const urls[] = {
        "nosuch://me:s3cr3t@host/db",       "nosuch://:s3cr3t@host",           "nosuch://me:s3cr3t",
        "nosuch://host/db?password=s3cr3t", "nosuch://host?passwor%64=s3cr3t", "me:s3cr3t@host"};
    static const char *const plain[] = {"nosuch://me@host:6379/db", "nosuch://[::1]:6379,host:1/0",
                                        "nosuch:///db?host=/run"};
    world *self = *state;
    char arguments[1200];

    world_write(self, "tab", "@daily true\n");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        (void)snprintf(arguments, sizeof arguments, "--lock %s", urls[i]);
        assert_int_equal(world_wait(self, world_start(self, arguments)), 2);
    }
    assert_in_file(self, "err", "JOBSCHED_LOCK or a --lock-file", 1);
    assert_in_file(self, "err", "s3cr3t", 0);
    assert_in_file(self, "err", "no backend", 0);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        (void)snprintf(arguments, sizeof arguments, "--lock %s", plain[i]);
        assert_int_equal(world_wait(self, world_start(self, arguments)), 1);
    }
    world_write(self, "lock", "\nsingle:\n");
    (void)snprintf(arguments, sizeof arguments, "--lock-file %s", world_path(self, "lock"));
    assert_int_equal(world_wait(self, world_start(self, arguments)), 2);
    assert_in_file(self, "err", "is empty", 1);
    (void)snprintf(arguments, sizeof arguments, "--lock single: -L %s", world_path(self, "lock"));
    assert_int_equal(world_wait(self, world_start(self, arguments)), 2);
    assert_int_equal(world_wait(self, world_start(self, "-L /nonexistent/lock")), 2);
    assert_in_file(self, "err", "'/nonexistent/lock' cannot be read", 1);
}

/* The lock may be in a file, whose first line is the URL and nothing else. */
static void test_lock_from_a_file(void **state)
{
    world *self = *state;
    char arguments[600];
    size_t index;

    world_write(self, "tab", "@daily true\n");
    world_write(self, "lock", "single:\nredis://nowhere\n");
    (void)snprintf(arguments, sizeof arguments, "--lock-file %s", world_path(self, "lock"));
    index = world_start(self, arguments);
    world_ready(self, index);
    assert_in_file(self, "err", "elects with 'single:'", 1);
    assert_int_equal(kill(self->pids[index], SIGTERM), 0);
    assert_int_equal(world_wait(self, index), 0);
}

static void test_check_tells_all_and_runs_nothing(void **state)
{
    world *self = *state;

    world_write(self, "tab", "# name: fine\n@daily true\nMAILTO=root\n");
    assert_int_equal(world_wait(self, world_start(self, "--check")), 0);
    assert_in_file(self, "out", "fine", 1);
    assert_in_file(self, "out", "1 jobs, 0 errors, 1 warnings", 1);
    assert_in_file(self, "err", "/tab:3:1: warning: ", 1);
    world_write(self, "tab", "* * 99 * * bad\n* * * * * true\n@never x\n");
    assert_int_equal(world_wait(self, world_start(self, "-c")), 2);
    assert_in_file(self, "err", "/tab:1:5: ", 1);
    assert_in_file(self, "err", "\n    * * 99 * * bad\n        ^\n", 1);
    assert_in_file(self, "err", "/tab:3:1: ", 1);
    assert_int_equal(unlink(world_path(self, "tab")), 0);
    assert_int_equal(world_wait(self, world_start(self, "-c")), 1);
    assert_int_equal(world_wait(self, world_start(self, "--help")), 0);
    assert_in_file(self, "out", "Usage: elected-crond", 1);
    assert_int_equal(world_wait(self, world_start(self, "--version")), 0);
    assert_int_equal(access(world_path(self, "runs"), F_OK), -1);
}

/* The command gets the settings above its line, the run's own variables, its input, and nothing that
 * belongs to elected-crond (G13): no blocked or ignored signals, no descriptors, no lock URL. */
static void test_command_has_the_right_surroundings(void **state)
{
    static const char format[] =
        "A = ' one  two '\nHOME=%s\nJOBSCHED_MINE=kept\n"
        "# name: env\n@every 1s echo \"a=<$A> mine=$JOBSCHED_MINE lock=<$JOBSCHED_LOCK>\"; "
        "echo \"job=$JOBSCHED_JOB token=$JOBSCHED_TOKEN attempt=$JOBSCHED_ATTEMPT "
        "kind=$JOBSCHED_KIND at=$JOBSCHED_SCHEDULED_AT\"; pwd; exit 0\n"
        "# name: input\n@every 1s cat; echo after%%first%%se\\%%cond\n"
        "# name: signals\n@every 1s grep -E '^Sig(Blk|Ign)' /proc/self/status | tr '\\t' ' '\n"
        "# name: files\n@every 1s for f in /proc/self/fd/*; do echo \"fd=$f.\"; done; "
        "readlink /proc/self/fd/0\n"
        "# name: group\n@every 1s set -- $(cat /proc/$$/stat); "
        "[ \"$5\" = \"$$\" ] && echo own group\n"
        "SHELL=/bin/bash\n# name: shell\n@every 1s echo \"shell=$SHELL ${BASH_VERSION:+bash}\"\n";
    world *self = *state;
    char tab[2048];
    size_t index;

    (void)snprintf(tab, sizeof tab, format, self->folder);
    world_write(self, "tab", tab);
    assert_int_equal(setenv("JOBSCHED_LOCK", "single:", 1), 0);
    index = world_start(self, "--workers 2");
    assert_int_equal(unsetenv("JOBSCHED_LOCK"), 0);
    world_until_text(self, "out", "]: shell=");
    world_until_text(self, "out", "]: own group\n");
    world_until_text(self, "out", "]: /dev/null\n");
    world_until_text(self, "out", "]: after\n");
    world_until_text(self, "out", "SigIgn: ");
    world_until_text(self, "out", ": job=env");
    world_stop(self, index);
    assert_in_file(self, "out", ": a=< one  two > mine=kept lock=<>\n", 1);
    assert_in_file(self, "out", ": job=env token=1 attempt=1 kind=scheduled at=20", 1);
    assert_in_file(self, "out", self->folder, 1);
    assert_in_file(self, "out", "]: first\n", 1);
    assert_in_file(self, "out", "]: se%cond\n", 1);
    assert_in_file(self, "out", "]: after\n", 1);
    assert_in_file(self, "out", "SigBlk: 0000000000000000\n", 1);
    assert_in_file(self, "out", "SigIgn: 0000000000000000\n", 1);
    assert_in_file(self, "out", "fd=/proc/self/fd/2.\n", 1);
    assert_in_file(self, "out", "fd=/proc/self/fd/4.\n", 0);
    assert_in_file(self, "out", "fd=/proc/self/fd/9.\n", 0);
    assert_in_file(self, "out", "]: /dev/null\n", 1);
    assert_in_file(self, "out", "]: own group\n", 1);
    assert_in_file(self, "out", "]: shell=/bin/bash bash\n", 1);
}

/* G9: the exit status is the outcome, and the last words are kept with it. */
static void test_exit_status_is_the_outcome(void **state)
{
    world *self = *state;
    size_t index, count = 0;
    run_line *ends;

    world_write(self, "tab",
                "# name: good\n@every 1s true\n"
                "# name: one\n@every 1s echo first; echo last words >&2; exit 1\n"
                "# name: seven\n@every 1s exit 7\n"
                "# name: shot\n@every 1s kill -KILL $$\n"
                "SHELL=/no/such/shell\n# name: lost\n@every 1s true\n");
    index = world_start(self, "--lock single: --workers 8");
    world_until_runs(self, "good", "end", 2);
    world_until_text(self, "err", "exit status 1: last words");
    world_until_text(self, "err", "exit status 7");
    world_until_text(self, "err", "killed by signal 9 (SIGKILL)");
    world_until_text(self, "err", "the shell could not be started: No such file");
    world_stop(self, index);
    ends = world_runs(self, NULL, "end", &count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(ends[i].outcome,
                            strcmp(ends[i].job, "good") == 0 ? "succeeded" : "failed");
    }
    free(ends);
}

/* What a comment sets for the job above its line reaches the library and the command. */
static void test_settings_of_a_job_count(void **state)
{
    world *self = *state;
    size_t index;

    world_write(self, "tab",
                "# name: slow\n# jobsched: timeout=500ms\n@every 1s sleep 1000; true\n"
                "# name: stubborn\n# jobsched: attempts=3 backoff=10ms\n"
                "@every 1s echo attempt $JOBSCHED_ATTEMPT; [ $JOBSCHED_ATTEMPT = 3 ]\n");
    index = world_start(self, "--lock single:");
    world_until_text(self, "runs", "\ttimed-out\n");
    world_until_text(self, "out", ": attempt 3\n");
    world_until_text(self, "runs", "\tsucceeded\n");
    world_stop(self, index);
    assert_in_file(self, "out", ": attempt 1\n", 1);
    assert_in_file(self, "out", ": attempt 4\n", 0);
}

static pid_t pid_of_start(const world *self, const char *job)
{
    size_t count = 0;
    run_line *starts = world_runs(self, job, "start", &count);
    pid_t pid = count == 0 ? 0 : starts[count - 1].pid;

    free(starts);
    return pid;
}

static size_t count_runs(const world *self, const char *job, const char *event)
{
    size_t count = 0;

    free(world_runs(self, job, event, &count));
    return count;
}

static void reload(world *self, size_t index, const char *tab, const char *told)
{
    if (tab != NULL) {
        world_write(self, "tab", tab);
    }
    assert_int_equal(kill(self->pids[index], SIGHUP), 0);
    world_until_text(self, "err", told);
}

/* G7 within one process: a reload adds and withdraws what changed, and disturbs neither what is the
 * same nor what is running; an unreadable file changes nothing. */
static void test_reload_changes_only_what_changed(void **state)
{
    world *self = *state;
    size_t index;
    pid_t pid;

    /* The long command holds the FIFO open and ends when the test says so. */
    assert_int_equal(mkfifo(world_path(self, "gate"), 0600), 0);
    world_write(self, "tab",
                "# name: stays\n@every 1s true\n# name: goes\n@every 1s true\n"
                "# name: long\n@every 1s read x < $GATE; echo long ends\n");
    assert_int_equal(setenv("GATE", world_path(self, "gate"), 1), 0);
    index = world_start(self, "--lock single: --workers 8");
    world_until_runs(self, "long", "start", 1);
    world_until_runs(self, "goes", "end", 1);
    pid = pid_of_start(self, "long");
    reload(self, index,
           "# name: new\n@every 1s true\n# name: stays\n  @every  1s true\nbad line\n"
           "# name: long\n@every 1s echo changed\n",
           "added=1 changed=1 removed=1 unchanged=1 errors=1");
    assert_in_file(self, "err", "/tab:5:", 1);
    world_until_runs(self, "new", "end", 1);
    assert_int_equal(kill(pid, 0), 0);
    assert_in_file(self, "out", "changed", 0); /* G4: not beside the one that runs */
    assert_int_equal(unlink(world_path(self, "tab")), 0);
    reload(self, index, NULL, "the jobs stay as they were");
    reload(self, index, "bad line\n", "no usable line; the jobs stay");
    world_until_runs(self, "new", "end", count_runs(self, "new", "end") + 1);
    world_write(self, "gate", "go\n");
    world_until_text(self, "out", ": long ends\n");
    world_until_text(self, "out", ": changed\n");
    pid = (pid_t)count_runs(self, "goes", "start");
    world_until_runs(self, "stays", "end", count_runs(self, "stays", "end") + 2);
    assert_int_equal(count_runs(self, "goes", "start"), pid);
    world_stop(self, index);
}

/* The test's process adopts whatever elected-crond leaves behind, so it is done when it has no child.
 */
static int all_gone(const world *self, const void *data)
{
    (void)self;
    (void)data;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* G11: the first SIGTERM lets a command end, in time, and it counts. */
static void test_sigterm_lets_commands_end(void **state)
{
    world *self = *state;
    size_t index;

    assert_int_equal(mkfifo(world_path(self, "gate"), 0600), 0);
    assert_int_equal(setenv("GATE", world_path(self, "gate"), 1), 0);
    world_write(self, "tab", "# name: long\n@every 1s read x < $GATE; echo ends\n");
    index = world_start(self, "--lock single:");
    world_until_runs(self, "long", "start", 1);
    assert_int_equal(kill(self->pids[index], SIGTERM), 0);
    world_until_text(self, "err", "crond.stopping");
    assert_int_equal(count_runs(self, "long", "end"), 0);
    world_write(self, "gate", "go\n");
    assert_int_equal(world_wait(self, index), 0);
    assert_in_file(self, "out", ": ends\n", 1); /* also the last line is written */
    assert_int_equal(count_runs(self, "long", "start"), 1);
    assert_in_file(self, "runs", "\tsucceeded\n", 1);
}

/* G11: a command that would not end is asked and then killed before the drain's deadline, with all
 * it started, and recorded; so the end is still a clean one. */
static void test_drain_ends_commands_in_time(void **state)
{
    world *self = *state;
    int64_t begun_ms;
    size_t index;

    world_write(self, "tab",
                "# name: polite\n"
                "@every 1s trap 'echo asked; exit 3' TERM; echo polite is up; sleep 1000 & wait\n"
                "# name: deaf\n@every 1s trap '' TERM; echo deaf is up; sleep 1000; sleep 1000\n");
    /* They are asked after 20 s, and 2.5 s each remain for that and for the record of their ends. */
    index = world_start(self, "--lock single: --drain 25");
    world_until_text(self, "out", ": polite is up\n");
    world_until_text(self, "out", ": deaf is up\n");
    begun_ms = test_mono_ms();
    world_stop(self, index);
    assert_true(test_mono_ms() - begun_ms < 40000);
    assert_in_file(self, "out", ": asked\n", 1);
    assert_int_equal(count_runs(self, NULL, "end"), 2);
    assert_in_file(self, "runs", "\tcancelled\n", 1);
    assert_in_file(self, "err", "killed by signal 9 (SIGKILL)", 1);
    world_until(self, all_gone, NULL, "the end of all that the commands started");
}

/* G11: with the second signal it ends at once, and says that this was not a clean end. */
static void test_second_signal_ends_at_once(void **state)
{
    world *self = *state;
    int64_t begun_ms;
    size_t index;

    world_write(self, "tab",
                "# name: deaf\n@every 1s trap '' TERM; echo deaf is up; sleep 1000; sleep 1000\n");
    index = world_start(self, "--lock single: --drain 1000");
    world_until_text(self, "out", ": deaf is up\n");
    begun_ms = test_mono_ms();
    assert_int_equal(kill(self->pids[index], SIGTERM), 0);
    world_until_text(self, "err", "crond.stopping");
    assert_int_equal(kill(self->pids[index], SIGINT), 0);
    assert_int_equal(world_wait(self, index), 1);
    assert_true(test_mono_ms() - begun_ms < 30000);
    world_until(self, all_gone, NULL, "the end of all that the commands started");
}

/* G4 and G10 need it: when elected-crond is killed its jobs may start elsewhere, so nothing that it
 * started goes on, also not what its commands started in turn. */
static void test_kill_leaves_no_command_behind(void **state)
{
    world *self = *state;
    size_t index;

    world_write(
        self, "tab",
        "# name: direct\n@every 1s echo direct is up; exec sleep 1000\n"
        "# name: nested\n@every 1s (echo nested is up; sleep 1000; true) & sleep 1000; true\n"
        "# name: deaf\n@every 1s trap '' HUP TERM; echo deaf is up; sleep 1000; true\n");
    index = world_start(self, "--lock single:");
    world_until_text(self, "out", ": direct is up\n");
    world_until_text(self, "out", ": nested is up\n");
    world_until_text(self, "out", ": deaf is up\n");
    assert_int_equal(kill(self->pids[index], SIGKILL), 0);
    assert_int_equal(world_wait(self, index), 128 + SIGKILL);
    world_until(self, all_gone, NULL, "the end of all commands");
}

/* The pid of the watcher of an elected-crond, whose main thread has started it. */
static pid_t find_watcher(pid_t parent)
{
    char path[64], text[1024] = "", name[32];
    pid_t found = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)parent, (long)parent);
    file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        (void)snprintf(path, sizeof path, "/proc/%s/comm", word);
        file = fopen(path, "re");
        if (file != NULL && fgets(name, sizeof name, file) != NULL &&
            strcmp(name, "crond-watcher\n") == 0) {
            found = (pid_t)strtol(word, NULL, 10);
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    return found;
}

typedef struct watched {
    pid_t parent, *watcher;
} watched;

static int has_watcher(const world *self, const void *data)
{
    const watched *wanted = data;

    (void)self;
    *wanted->watcher = find_watcher(wanted->parent);
    return *wanted->watcher > 0;
}

/* The same with the watcher killed before: for the commands themselves the kernel stands in. And
 * without its watcher elected-crond goes on. */
static void test_kill_without_watcher_ends_the_commands(void **state)
{
    world *self = *state;
    size_t index;
    pid_t watcher = 0;
    watched wanted = {.watcher = &watcher};

    world_write(self, "tab",
                "# name: other\n@every 1s true\n"
                "# name: direct\n@every 1s echo direct is up; exec sleep 1000\n");
    index = world_start(self, "--lock single:");
    world_until_text(self, "out", ": direct is up\n");
    wanted.parent = self->pids[index];
    world_until(self, has_watcher, &wanted, "the watcher"); /* it gives itself its name */
    assert_int_equal(kill(watcher, SIGKILL), 0);
    world_until_runs(self, "other", "end", count_runs(self, "other", "end") + 2);
    assert_int_equal(kill(self->pids[index], SIGKILL), 0);
    assert_int_equal(world_wait(self, index), 128 + SIGKILL);
    world_until(self, all_gone, NULL, "the end of the commands");
}

/* G11: standard output that nobody reads stops neither the other jobs nor the end. */
static void test_stuck_output_does_not_hold_the_end(void **state)
{
    world *self = *state;
    size_t index;
    int64_t begun_ms;
    int fifo;

    assert_int_equal(mkfifo(world_path(self, "out"), 0600), 0);
    fifo = open(world_path(self, "out"), O_RDWR | O_CLOEXEC);
    assert_true(fifo >= 0);
    world_write(self, "tab",
                "# name: flood\n@every 1s yes 'all work and no play'\n"
                "# name: other\n@every 1s true\n");
    index = world_start(self, "--lock single: --drain 25");
    world_until_runs(self, "flood", "start", 1);
    world_until_runs(self, "other", "end", 3);
    begun_ms = test_mono_ms();
    world_stop(self, index);
    assert_true(test_mono_ms() - begun_ms < 40000);
    (void)close(fifo);
    assert_int_equal(unlink(world_path(self, "out")), 0);
}

static int never_run(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static int64_t next_backup(const char *name_space)
{
    jobsched_options options;
    jobsched_job_spec spec;
    jobsched *scheduler;
    int64_t next_ms = 0;

    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&spec);
    options.name_space = name_space;
    spec.name = "backup";
    spec.schedule = "H H * * *";
    spec.run = never_run;
    assert_int_equal(jobsched_open(&options, &scheduler), JOBSCHED_OK);
    assert_int_equal(jobsched_add(scheduler, &spec, &next_ms), JOBSCHED_OK);
    assert_int_equal(jobsched_close(scheduler), JOBSCHED_OK);
    return next_ms;
}

static void check_predicts(world *self, const char *arguments, const char *name_space)
{
    struct tm utc;
    time_t seconds;
    char expected[64];
    int64_t next_ms;

    world_write(self, "tab", "# name: backup\nH H * * * true\n");
    do { /* again if it has just passed */
        next_ms = next_backup(name_space);
        assert_int_equal(world_wait(self, world_start(self, arguments)), 0);
    } while (next_backup(name_space) != next_ms);
    seconds = (time_t)(next_ms / 1000);
    assert_non_null(gmtime_r(&seconds, &utc));
    assert_true(strftime(expected, sizeof expected, " %Y-%m-%dT%H:%M:%SZ ", &utc) > 0);
    assert_in_file(self, "out", expected, 1);
}

/* G14: H picks by namespace and name, and --check tells the very instant that the scheduler fires. */
static void test_check_tells_what_will_fire(void **state)
{
    check_predicts(*state, "--check", NULL);
    check_predicts(*state, "--check --namespace other", "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bad_line_does_not_stop_the_others, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_usable_is_refused, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_password_is_never_shown, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_password_is_refused_on_the_command_line, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_lock_from_a_file, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_check_tells_what_will_fire, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_check_tells_all_and_runs_nothing, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_command_has_the_right_surroundings, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_exit_status_is_the_outcome, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_settings_of_a_job_count, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_reload_changes_only_what_changed, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_sigterm_lets_commands_end, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_drain_ends_commands_in_time, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_second_signal_ends_at_once, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_kill_leaves_no_command_behind, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_kill_without_watcher_ends_the_commands, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_stuck_output_does_not_hold_the_end, world_setup,
                                        world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
