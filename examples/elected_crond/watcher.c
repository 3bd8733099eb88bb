/* watcher.c: the process that ends the commands of a dead elected-crond.
 * Locks: none; a message is one write of less than PIPE_BUF bytes, which is atomic. */
#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* More runs at once than the most workers (1,024); one more would only lose its watcher. */
#define GROUPS_MAX 2048

typedef struct message {
    int32_t add;
    int32_t group;
} message;

/* A stopped watcher must not hold the end of elected-crond. */
#define STOP_LOOKS 100
#define LOOK_NS    10000000

static int watcher_fd = -1;
static pid_t watcher_pid;

static void note(pid_t *groups, size_t *count, const message *told)
{
    if (told->add) {
        if (*count < GROUPS_MAX) {
            groups[(*count)++] = told->group;
        }
        return;
    }
    for (size_t i = 0; i < *count; i++) {
        if (groups[i] == told->group) {
            groups[i] = groups[--*count];
            return;
        }
    }
}

/* Killed and not asked: the jobs may start elsewhere at this moment. */
static void watch(int fd)
{
    static pid_t groups[GROUPS_MAX];
    size_t count = 0;
    message told;

    for (;;) {
        ssize_t got = read(fd, &told, sizeof told);

        if (got == (ssize_t)sizeof told) {
            note(groups, &count, &told);
        } else if (got == 0) {
            break;
        } else if (got > 0 || errno != EINTR) {
            _exit(1);
        }
    }
    for (size_t i = 0; i < count; i++) {
        (void)kill(-groups[i], SIGKILL);
    }
    _exit(0);
}

/* In a session of its own, out of reach of the terminal's signals and of a kill of the whole group;
 * and holding on to no descriptor or folder of elected-crond. */
static void become_watcher(int fd)
{
    sigset_t all;
    int null = open("/dev/null", O_RDWR);

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "crond-watcher");
    if (chdir("/") != 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || dup2(fd, 3) < 0 || close_range(4, ~0U, 0) != 0) {
        _exit(1);
    }
    watch(3);
}

int watcher_start(void)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        become_watcher(ends[0]);
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return -1;
    }
    watcher_fd = ends[1];
    watcher_pid = pid;
    return 0;
}

static int tell(int add, pid_t group)
{
    message told = {add, (int32_t)group};
    ssize_t put;

    if (watcher_fd < 0) {
        return 0;
    }
    do {
        put = write(watcher_fd, &told, sizeof told);
    } while (put < 0 && errno == EINTR);
    return put == (ssize_t)sizeof told ? 0 : -1;
}

int watcher_add(pid_t group)
{
    return tell(1, group);
}

int watcher_remove(pid_t group)
{
    return tell(0, group);
}

void watcher_stop(void)
{
    struct timespec span = {0, LOOK_NS};

    if (watcher_fd < 0) {
        return;
    }
    (void)close(watcher_fd);
    for (int i = 0; i < STOP_LOOKS && waitpid(watcher_pid, NULL, WNOHANG) == 0; i++) {
        (void)nanosleep(&span, NULL);
    }
}
