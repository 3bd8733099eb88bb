/* terminal.h: runs jobschedctl on a terminal of its own: it is typed to, and what it shows is kept. */
#ifndef TESTS_CTL_TERMINAL_H
#define TESTS_CTL_TERMINAL_H

#include <stddef.h>
#include <sys/types.h>

#define SHOWN_BYTES 65536

struct terminal {
    int fd;
    pid_t pid;
    int status; /* as of waitpid(), after terminal_end() */
    size_t bytes;
    char shown[SHOWN_BYTES + 1]; /* from the beginning, cut, with a NUL behind */
};

/* Both lists end with NULL; arguments are those behind the program's name. Returns 0, or -1 when
 * nothing could be started. */
int terminal_start(struct terminal *terminal, const char *program, const char *const *environment,
                   const char *const *arguments);

/* Waits until the text was shown this often. Returns 0, or -1 when it was not before the program
 * ended, or within a minute. */
int terminal_until(struct terminal *terminal, const char *text, int times);

/* Also "\003" and "\004", as Ctrl-C and Ctrl-D. Returns 0 or -1. */
int terminal_type(struct terminal *terminal, const char *keys);

/* Waits for the program's end, for a minute; then it is killed. Returns 0 if it ended. */
int terminal_end(struct terminal *terminal);

#endif
