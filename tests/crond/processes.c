/* processes.c: starts, watches and cleans up elected-crond processes. Asserts on the test's thread,
 * of which there is only one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crond/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 24
#define LOOK_MS   10

int64_t test_mono_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_briefly(void)
{
    struct timespec span = {0, LOOK_MS * 1000000};

    (void)nanosleep(&span, NULL);
}

const char *world_path(const world *self, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof paths[0], "%s/%s", self->folder, name);
    return path;
}

int world_setup(void **state)
{
    world *self = calloc(1, sizeof *self);

    if (self == NULL || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return -1;
    }
    (void)strcpy(self->folder, "/tmp/test_crond.XXXXXX");
    *state = self;
    return mkdtemp(self->folder) == NULL ? -1 : 0;
}

/* Everything that is left is a child by now: kills it, whatever it is. */
static void kill_orphans(void)
{
    char path[64], text[4096] = "";
    FILE *file;
    pid_t pid;

    do {
        (void)snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
        text[0] = '\0';
        file = fopen(path, "r");
        if (file != NULL) {
            text[fread(text, 1, sizeof text - 1, file)] = '\0';
            (void)fclose(file);
        }
        for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
            (void)kill((pid_t)strtol(word, NULL, 10), SIGKILL);
        }
        pid = waitpid(-1, NULL, 0);
    } while (pid > 0);
}

int world_teardown(void **state)
{
    world *self = *state;
    DIR *folder;
    const struct dirent *entry;

    for (size_t i = 0; i < self->started; i++) {
        if (self->pids[i] > 0) {
            (void)kill(self->pids[i], SIGKILL);
            (void)kill(self->pids[i], SIGCONT);
            (void)waitpid(self->pids[i], NULL, 0);
        }
    }
    kill_orphans();
    folder = opendir(self->folder);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        (void)unlink(world_path(self, entry->d_name));
        if (entry->d_name[0] != '.') {
            (void)rmdir(world_path(self, entry->d_name));
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    (void)rmdir(self->folder);
    free(self);
    return 0;
}

void world_write(const world *self, const char *name, const char *text)
{
    FILE *file = fopen(world_path(self, name), "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

char *world_read(const world *self, const char *name)
{
    FILE *file = fopen(world_path(self, name), "re");
    size_t room = 65536, used = 0, got;
    char *text = malloc(room + 1);

    assert_non_null(text);
    while (file != NULL && (got = fread(text + used, 1, room - used, file)) > 0) {
        used += got;
        if (used == room) {
            room *= 2;
            text = realloc(text, room + 1);
            assert_non_null(text);
        }
    }
    text[used] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

static void redirect(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    if (file < 0 || dup2(file, fd) < 0) {
        _exit(125);
    }
    (void)close(file);
}

size_t world_start(world *self, const char *arguments)
{
    char copy[512], runs[600], tab[600];
    char *words[WORDS_MAX];
    size_t count = 0, index = self->started;
    pid_t pid;

    assert_true(index < sizeof self->pids / sizeof *self->pids);
    (void)snprintf(copy, sizeof copy, "elected-crond %s", arguments);
    (void)snprintf(runs, sizeof runs, "--runs-log=%s", world_path(self, "runs"));
    (void)snprintf(tab, sizeof tab, "%s", world_path(self, "tab"));
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count < WORDS_MAX - 3);
        words[count++] = word;
    }
    words[count++] = runs;
    words[count++] = tab;
    words[count] = NULL;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        redirect(world_path(self, "out"), STDOUT_FILENO);
        redirect(world_path(self, "err"), STDERR_FILENO);
        (void)dup2(STDERR_FILENO, WORLD_LEAKED_FD);
        (void)execv(ELECTED_CROND, words);
        _exit(125);
    }
    self->pids[index] = pid;
    self->started++;
    return index;
}

void world_ready(world *self, size_t index)
{
    char text[64];

    (void)snprintf(text, sizeof text, "process %ld elects", (long)self->pids[index]);
    world_until_text(self, "err", text);
}

void world_forget(const world *self)
{
    static const char *const names[] = {"out", "err", "runs", "mark"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlink(world_path(self, names[i]));
    }
}

void world_show(const world *self)
{
    char *log = world_read(self, "err"), *runs = world_read(self, "runs");

    printf("%s\n%s\n", log, runs); /* print_message() cuts */
    free(log);
    free(runs);
}

void world_until(const world *self, condition_fn holds, const void *data, const char *what)
{
    int64_t until_ms = test_mono_ms() + PATIENCE_MS;

    while (!holds(self, data)) {
        if (test_mono_ms() > until_ms) {
            world_show(self);
            fail_msg("never came: %s", what);
        }
        pause_briefly();
    }
}

typedef struct ended {
    pid_t pid;
    int *status;
} ended;

static int has_ended(const world *self, const void *data)
{
    const ended *process = data;

    (void)self;
    return waitpid(process->pid, process->status, WNOHANG) == process->pid;
}

int world_wait(world *self, size_t index)
{
    int status = 0;
    ended process = {self->pids[index], &status};

    world_until(self, has_ended, &process, "the end of elected-crond");
    self->pids[index] = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void world_stop(world *self, size_t index)
{
    int status;

    assert_int_equal(kill(self->pids[index], SIGTERM), 0);
    status = world_wait(self, index);
    if (status != 0) {
        world_show(self);
        fail_msg("process %zu ended with status %d", index, status);
    }
}

typedef struct text_in_file {
    const char *name, *text;
} text_in_file;

static int has_text(const world *self, const void *data)
{
    const text_in_file *wanted = data;
    char *text = world_read(self, wanted->name);
    int found = strstr(text, wanted->text) != NULL;

    free(text);
    return found;
}

void world_until_text(const world *self, const char *name, const char *text)
{
    text_in_file wanted = {name, text};

    world_until(self, has_text, &wanted, text);
}

static int read_run_line(char *line, run_line *out)
{
    char *fields[9], *at = line;

    for (size_t i = 0; i < 9; i++) {
        fields[i] = strsep(&at, "\t");
        if (fields[i] == NULL) {
            return 0;
        }
    }
    (void)snprintf(out->event, sizeof out->event, "%s", fields[0]);
    (void)snprintf(out->job, sizeof out->job, "%s", fields[1]);
    out->scheduled_ms = strtoll(fields[2], NULL, 10);
    out->token = strtoull(fields[3], NULL, 10);
    (void)snprintf(out->node, sizeof out->node, "%s", fields[5]);
    out->pid = (pid_t)strtol(fields[6], NULL, 10);
    out->wall_ms = strtoll(fields[7], NULL, 10);
    (void)snprintf(out->outcome, sizeof out->outcome, "%s", fields[8]);
    return 1;
}

run_line *world_runs(const world *self, const char *job, const char *event, size_t *out_count)
{
    char *text = world_read(self, "runs"), *at = text, *end;
    size_t room = 64, count = 0;
    run_line *lines = malloc(room * sizeof *lines);

    assert_non_null(lines);
    /* A line without its end is still being written. */
    while ((end = strchr(at, '\n')) != NULL) {
        *end = '\0';
        if (count == room) {
            room *= 2;
            lines = realloc(lines, room * sizeof *lines);
            assert_non_null(lines);
        }
        assert_true(read_run_line(at, &lines[count]));
        if ((job == NULL || strcmp(lines[count].job, job) == 0) &&
            (event == NULL || strcmp(lines[count].event, event) == 0)) {
            count++;
        }
        at = end + 1;
    }
    free(text);
    *out_count = count;
    return lines;
}

typedef struct runs_wanted {
    const char *job, *event;
    size_t count;
} runs_wanted;

static int has_runs(const world *self, const void *data)
{
    const runs_wanted *wanted = data;
    size_t count = 0;

    free(world_runs(self, wanted->job, wanted->event, &count));
    return count >= wanted->count;
}

void world_until_runs(const world *self, const char *job, const char *event, size_t count)
{
    runs_wanted wanted = {job, event, count};

    world_until(self, has_runs, &wanted, event);
}
