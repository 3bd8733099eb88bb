/* store.h: a lock backend driven without a scheduler, by the public contract. Whatever fails ends
 * the program with the reason. */
#ifndef TESTS_BENCH_STORE_H
#define TESTS_BENCH_STORE_H

#include <jobsched/backend.h>

/* One open node. Not for several threads at once. */
typedef struct store_node {
    const jobsched_backend *driver;
    void *backend;
    char id[33];
    jobsched_backend_config config;
} store_node;

/* A job as its announcer knows it. */
typedef struct store_job {
    char name[32];
    uint64_t generation;
    int64_t mark_ms;
    uint64_t token; /* of the run that goes on */
} store_job;

int64_t store_mono_ms(void *ctx);
int64_t store_wall_ms(void *ctx);

/* Opens a node on the store of that URL. */
void store_open(store_node *node, const char *url, const char *name_space, int64_t lease_ms);
void store_close(store_node *node);

/* "sqlite" of "sqlite:/path". */
void store_scheme(const char *url, char *out_scheme, size_t bytes);

/* Announces jobs job0 to jobN-1. */
void store_announce(store_node *node, store_job *jobs, size_t count);

/* Fills a claim of the occurrence one millisecond after the job's mark. */
jobsched_claim store_claim(const store_job *job);

/* Puts claims to the store, in as many calls as the batch asks for. Returns how many were
 * granted; those jobs' marks and tokens move on. */
size_t store_ask(store_node *node, store_job *jobs, jobsched_claim *claims, size_t count,
                 size_t batch);

/* Ends the runs of all jobs. */
void store_finish(store_node *node, const store_job *jobs, size_t count, size_t batch);
void store_renew(store_node *node, const store_job *jobs, size_t count);
void store_reap(store_node *node);

#endif
