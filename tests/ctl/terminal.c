/* terminal.c: a program on a terminal of its own, which is its session's, so that keys reach it as
 * signals. Everything has a bound. No locks. */
#include "ctl/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16, LOOK_MS = 100, LOOKS_MAX = 600 };

static int spawn(struct terminal *terminal, const char *program, const char *line,
                 char *const *environment, char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    int failed = 1;

    /* Whoever runs the tests in the background may have it ignored. */
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGINT);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    if (posix_spawnattr_init(&attributes) == 0) {
        /* The first terminal that a session opens becomes its own. */
        failed = posix_spawnattr_setflags(&attributes,
                                          POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF) != 0 ||
                 posix_spawnattr_setsigdefault(&attributes, &usual) != 0 ||
                 posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, line, O_RDWR, 0) != 0 ||
                 posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO) != 0 ||
                 posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO) != 0 ||
                 posix_spawn(&terminal->pid, program, &actions, &attributes, argv, environment);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed ? -1 : 0;
}

int terminal_start(struct terminal *terminal, const char *program, const char *const *environment,
                   const char *const *arguments)
{
    char line[64];
    char *argv[ARGUMENTS_MAX + 2] = {(char *)program};
    char *variables[ARGUMENTS_MAX + 1] = {NULL};

    for (int i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++) {
        argv[i + 1] = (char *)arguments[i];
    }
    for (int i = 0; i < ARGUMENTS_MAX && environment[i] != NULL; i++) {
        variables[i] = (char *)environment[i];
    }
    memset(terminal, 0, sizeof *terminal);
    terminal->fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal->fd < 0) {
        return -1;
    }
    if (grantpt(terminal->fd) != 0 || unlockpt(terminal->fd) != 0 ||
        ptsname_r(terminal->fd, line, sizeof line) != 0 ||
        spawn(terminal, program, line, variables, argv) != 0) {
        (void)close(terminal->fd);
        return -1;
    }
    return 0;
}

/* Reads what is there within LOOK_MS. Returns 0, or -1 when there will be no more: on Linux that is
 * an error, once the last who had the terminal open is gone. */
static int look(struct terminal *terminal)
{
    struct pollfd event = {.fd = terminal->fd, .events = POLLIN};
    char over[1024];
    size_t room = SHOWN_BYTES - terminal->bytes;
    ssize_t got;

    if (poll(&event, 1, LOOK_MS) <= 0) {
        return 0;
    }
    got = room > 0 ? read(terminal->fd, terminal->shown + terminal->bytes, room)
                   : read(terminal->fd, over, sizeof over);
    if (got <= 0) {
        return -1;
    }
    terminal->bytes += room > 0 ? (size_t)got : 0;
    terminal->shown[terminal->bytes] = '\0';
    return 0;
}

static int times_shown(const struct terminal *terminal, const char *text)
{
    int times = 0;

    for (const char *at = terminal->shown; (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    return times;
}

int terminal_until(struct terminal *terminal, const char *text, int times)
{
    int ended = 0;

    for (int i = 0; i < LOOKS_MAX && !ended && times_shown(terminal, text) < times; i++) {
        ended = look(terminal) != 0;
    }
    return times_shown(terminal, text) >= times ? 0 : -1;
}

int terminal_type(struct terminal *terminal, const char *keys)
{
    size_t bytes = strlen(keys);

    return write(terminal->fd, keys, bytes) == (ssize_t)bytes ? 0 : -1;
}

int terminal_end(struct terminal *terminal)
{
    int ended = 0;

    for (int i = 0; i < LOOKS_MAX && !ended; i++) {
        ended = look(terminal) != 0;
    }
    if (!ended) {
        (void)kill(terminal->pid, SIGKILL);
    }
    (void)close(terminal->fd);
    return waitpid(terminal->pid, &terminal->status, 0) == terminal->pid && ended ? 0 : -1;
}
