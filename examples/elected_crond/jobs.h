/* jobs.h: the lines of the crontab as jobs of a scheduler. */
#ifndef ELECTED_CROND_JOBS_H
#define ELECTED_CROND_JOBS_H

#include "crontab.h"

#include <jobsched.h>

#include <stdatomic.h>

/* What every job knows. */
typedef struct crond {
    jobsched *scheduler;
    const char *name_space, *node;
    char **environment;        /* of commands, before the crontab's settings */
    int64_t shutdown_grace_ms; /* between SIGTERM and SIGKILL while elected-crond shuts down */
    atomic_int hurry;          /* the second signal: commands end now */
    atomic_size_t hurried;     /* commands that were sent a signal because of it */
    crontab *table;            /* in force; main thread only */
    unsigned char *installed;  /* by entry of table: the scheduler has it */
} crond;

typedef struct jobs_change {
    size_t added, changed, removed, unchanged, refused;
} jobs_change;

/* Makes fresh the table in force, which then owns it: withdraws what it lacks, adds what is new,
 * and leaves alone what is the same. What the scheduler refuses is told to stderr under path and
 * counted. -1: out of memory, and nothing was changed. */
int jobs_apply(crond *self, crontab *fresh, const char *path, jobs_change *out_change);

#endif
