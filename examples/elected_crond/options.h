/* options.h: the command line of elected-crond. */
#ifndef ELECTED_CROND_OPTIONS_H
#define ELECTED_CROND_OPTIONS_H

#include <stdint.h>

enum crond_exit {
    CROND_OK = 0,
    CROND_FAILED = 1, /* could not start, or runs were left */
    CROND_USAGE = 2   /* wrong use, or nothing usable in the crontab */
};

typedef struct crond_options {
    const char *file;
    const char *lock; /* may be in line */
    const char *lock_file;
    const char *node;
    const char *name_space;
    const char *lease;
    const char *workers;
    const char *runs_log;
    int64_t drain_ms;
    int check;
    int least_level; /* enum log_level */
    char line[4096]; /* the first of lock_file */
} crond_options;

/* Reads the command line. -1 to go on, else the exit status to leave with. What it writes must stay
 * where it is: it points into itself. */
int options_read(int argc, char **argv, crond_options *out_options);

#endif
