/* command.h: runs one command to its end: input, output, stopping. */
#ifndef ELECTED_CROND_COMMAND_H
#define ELECTED_CROND_COMMAND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longest piece of an output line; longer lines are cut into several. */
#define COMMAND_PIECE_BYTES 2000
#define COMMAND_LAST_BYTES  160

enum command_stop {
    COMMAND_GO_ON = 0,
    COMMAND_STOP = 1,     /* SIGTERM now, SIGKILL after the grace that was told with it */
    COMMAND_STOP_FAST = 2 /* SIGTERM now, SIGKILL after COMMAND_FAST_MS at the latest */
};

/* For a run whose lease is lost, or the second signal: long enough for a trap of the shell. */
#define COMMAND_FAST_MS 200

typedef struct command {
    const char *label; /* in front of each line of output */
    const char *shell;
    const char *text;
    const char *directory; /* NULL: where elected-crond is */
    const char *input;     /* NULL: none */
    size_t input_bytes;
    char *const *environment;

    /* Told when the command has a process, before it does anything. */
    void (*started)(void *data, pid_t pid);
    /* Asked at least every 100 ms; enum command_stop. May rise, never fall. */
    int (*should_stop)(void *data, int64_t *out_grace_ms);
    void *data;
} command;

typedef struct command_result {
    int status;                        /* as waitpid() gives it; -1: it was never started */
    int stopped;                       /* it was sent a signal by us: enum command_stop */
    char what[64];                     /* what could not be started, when it was not */
    int number;                        /* and its errno */
    char last[COMMAND_LAST_BYTES + 1]; /* the last line of output that is not empty */
} command_result;

/* Runs it and waits, until the shell has ended and nobody holds its output any more: so a command
 * that goes on in the background is still the same run. */
void command_run(const command *request, command_result *out_result);

#endif
