/* processes.h: real elected-crond processes in a folder of their own, for tests. */
#ifndef TEST_CROND_PROCESSES_H
#define TEST_CROND_PROCESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longest wait for anything; far beyond what a loaded machine needs. Nothing sleeps for it. */
#define PATIENCE_MS 60000

/* Made by world_setup() as the state of a cmocka test, removed by world_teardown(), which also
 * kills every process that was started and everything these left behind: the test's process adopts
 * their orphans. */
typedef struct world {
    char folder[64]; /* short, so that paths fit */
    pid_t pids[16];  /* 0: gone */
    size_t started;
} world;

int world_setup(void **state);
int world_teardown(void **state);

/* "FOLDER/name", valid until eight more were asked for. */
const char *world_path(const world *self, const char *name);

void world_write(const world *self, const char *name, const char *text);

/* The whole file, "" when there is none; to be freed. */
char *world_read(const world *self, const char *name);

/* A descriptor that elected-crond inherits, as from a careless parent, and must not hand on. */
#define WORLD_LEAKED_FD 9

/* Starts elected-crond with the arguments (split at blanks) and the crontab "tab"; output and log
 * go to "out" and "err", the runs log to "runs", shared by all processes of the world. Returns an
 * index. It is only ready when world_ready() has found it so. */
size_t world_start(world *self, const char *arguments);
void world_ready(world *self, size_t index);

/* Waits for the process to end and returns its exit status, or 128 and the signal. */
int world_wait(world *self, size_t index);

/* Forgets what the processes so far have written and logged. */
void world_forget(const world *self);

/* Shows what they have logged. */
void world_show(const world *self);

/* Sends SIGTERM and expects a clean end; shows the log when it is none. */
void world_stop(world *self, size_t index);

/* Polls a condition, at most PATIENCE_MS; fails the test when it does not come true. */
typedef int (*condition_fn)(const world *self, const void *data);
void world_until(const world *self, condition_fn holds, const void *data, const char *what);

/* Waits until the file holds the text. */
void world_until_text(const world *self, const char *name, const char *text);

/* One line of the runs log. */
typedef struct run_line {
    char event[8], job[128], node[64], outcome[32];
    int64_t scheduled_ms, wall_ms;
    uint64_t token;
    pid_t pid;
} run_line;

/* The lines of one job (NULL: all) with that event (NULL: all), in the order of the file; to be
 * freed. */
run_line *world_runs(const world *self, const char *job, const char *event, size_t *out_count);

/* Waits until the job has so many lines with that event. */
void world_until_runs(const world *self, const char *job, const char *event, size_t count);

int64_t test_mono_ms(void);

#endif
