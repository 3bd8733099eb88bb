/* process.h: runs jobschedctl and keeps what it printed. */
#ifndef TESTS_CTL_PROCESS_H
#define TESTS_CTL_PROCESS_H

#include <stddef.h>

#define OUTPUT_BYTES 65536

struct output {
    int status; /* of exit; -1 when it did not end by itself */
    size_t out_bytes, err_bytes;
    char out[OUTPUT_BYTES + 1]; /* what was printed, cut, with a NUL behind */
    char err[OUTPUT_BYTES + 1];
};

/* arguments are those behind the program's name, ended by NULL. zones is TZDIR, or NULL for none.
 * Returns 0, or -1 when nothing could be started. */
int process_run(const char *program, const char *zones, const char *const *arguments,
                struct output *output);

#endif
