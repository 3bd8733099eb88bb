/* spawn.h: starts a shell with a command, from any thread of a process with threads. */
#ifndef ELECTED_CROND_SPAWN_H
#define ELECTED_CROND_SPAWN_H

#include <sys/types.h>

typedef struct spawn_request {
    const char *shell;
    const char *command;
    const char *directory; /* NULL: where elected-crond is */
    char *const *environment;
    int has_input; /* 0: standard input is /dev/null */
} spawn_request;

typedef struct spawned {
    pid_t pid;     /* also the process group */
    int pid_fd;    /* readable when the shell has ended; -1: this kernel has none */
    int input_fd;  /* to write to, never blocks; -1: none */
    int output_fd; /* standard output and error, in their order; never blocks */
    int go_fd;     /* the shell waits for spawn_go() */
    int status_fd;
} spawned;

/* Makes the process, which waits before the first instruction of the shell, so that the caller can
 * note that it exists. The process has a group of its own, default signal dispositions, an empty
 * signal mask, no descriptor but the three, and is killed when the calling thread ends.
 * -1 with errno set. */
int spawn_prepare(const spawn_request *request, spawned *out_spawned);

/* Lets it go. -1 with errno set when the shell could not be started; *out_what says which step. The
 * process is then gone, but not yet reaped. */
int spawn_go(spawned *child, const char **out_what);

#endif
