/* hostile.h: schedulers on every backend that there is, for tests of what goes wrong around them.
 * single: and sqlite: always; postgresql: and redis: where JOBSCHED_TEST_POSTGRESQL and
 * JOBSCHED_TEST_REDIS name a server. */
#ifndef HOSTILE_HOSTILE_H
#define HOSTILE_HOSTILE_H

#include "support/live.h"
#include "support/test_memory.h"

#include <jobsched/backend.h>

enum { SUBJECTS_MAX = 4 };

struct subject {
    char lock[512];
    char name_space[64];
    const char *scheme;
    int lives;
};

/* A host with one job that counts its runs; on more than one thread. */
struct host {
    struct subject *subject;
    jobsched *s;
    _Atomic int calls, freed, failed_inside;
    int (*body)(struct host *host, jobsched_run *run); /* NULL: returns 0 */
};

/* The subjects of this process, which live in a folder that the group's teardown removes. */
extern struct subject subjects[SUBJECTS_MAX];
extern size_t subject_count;
int subjects_set_up(void **state);
int subjects_tear_down(void **state);

/* Options for the subject, with a namespace that no life before had; strings are borrowed. */
void host_options(struct subject *subject, jobsched_options *out_options);

/* Registers "job", which is never due by itself. Returns the library's code. */
int host_add(struct host *host, const char *name);

/* How many entries a folder under /proc/self has. */
int count_entries(const char *path);

/* Rows of the ledger with that job and outcome, and in all (outcome -1); -1: it could not be read. */
int host_rows(struct host *host, const char *job, int outcome);

#endif
