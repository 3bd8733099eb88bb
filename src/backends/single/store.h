/* store.h: the data of one single: handle, shared by the files of this folder only.
 * Locks: everything in struct store but config, lock_fd and the mutex itself is guarded
 * by store->mutex; functions that take a store expect it to be held by the caller. */
#ifndef JSI_SINGLE_STORE_H
#define JSI_SINGLE_STORE_H

#include <jobsched/backend.h>

#include <pthread.h>

/* A place in a circular list whose head is a link of its own. */
struct link {
    struct link *previous, *next;
};

/* One row of the ledger. */
struct row {
    struct link in_store;       /* store->rows: all rows in the order of their making */
    struct link in_fence;       /* fence->rows: the same for one job */
    struct link in_fence_state; /* fence->open or fence->closed */
    struct link in_store_state; /* store->pending, store->closed, or (RUNNING) none */
    struct fence *fence;
    char *note; /* NULL for "" */
    int64_t first_ms, last_ms;
    uint64_t count;
    uint64_t token;
    int64_t started_ms, finished_ms; /* JOBSCHED_NONE where there is none */
    uint64_t progress_done, progress_total;
    uint32_t attempt, recover_limit;
    int32_t kind, outcome, code, recover;
    int32_t cancel; /* somebody asked the run to stop */
    char request[]; /* "" but for triggers */
};

/* One job. */
struct fence {
    struct fence *next; /* in the same bucket */
    struct link rows, open, closed;
    struct row *paused_range; /* the last row of paused occurrences, while it exists */
    uint64_t closed_count;
    uint64_t hash;
    uint64_t version, generation, token;
    int64_t mark_ms, last_end_ms;
    char *definition;
    int32_t paused, removed;
    int32_t registered; /* this node registers it; and with a definition that is not in force */
    int32_t dissents;
    char name[];
};

struct store {
    jobsched_backend_config config;
    pthread_mutex_t mutex;
    struct fence **buckets; /* NULL until the first job */
    size_t bucket_count;    /* a power of two */
    size_t fence_count;
    struct link rows, pending;
    struct link closed; /* in the order in which they ended: the age bound takes from the front */
    int64_t since_ms, beat_ms, offset_ms; /* what nodes() tells */
    int lock_fd;                          /* see alone.c; -1: none */
    int warned;                           /* NOT_ALONE was told; lane KEEP only once open */
};

#define LINK_OWNER(pointer, type, member)                                                          \
    ((type *)(void *)((char *)(void *)(pointer)-offsetof(type, member)))

void jsi_single_list_init(struct link *head);
int jsi_single_list_empty(const struct link *head);

/* NULL when there is none. */
struct fence *jsi_single_fence_find(const struct store *store, const char *name);

/* A fence that is not yet entered anywhere, or NULL with ENOMEM recorded. */
struct fence *jsi_single_fence_new(struct store *store, const char *name, const char *definition);
void jsi_single_fence_enter(struct store *store, struct fence *fence);

/* Memory through the configured allocator; NULL with ENOMEM recorded. */
char *jsi_single_copy(const struct store *store, const char *text);
void jsi_single_release(const struct store *store, void *pointer);

/* What a call answers whose item number i of count ended with that code: ENOMEM would promise
 * that nothing was changed, but the items before it took effect. */
int jsi_single_batch_code(int code, size_t i, size_t count);

/* A row of the job as WAITING, entered in all lists; NULL with ENOMEM recorded. */
struct row *jsi_single_row_new(struct store *store, struct fence *fence, const char *request);

/* Sets the outcome and moves the row to the lists where rows of that outcome belong.
 * now_ms becomes the instant of the end if the outcome is an end. */
void jsi_single_row_become(struct store *store, struct row *row, int32_t outcome, int64_t now_ms);

/* The row of a trigger, or NULL. */
struct row *jsi_single_row_find(const struct fence *fence, const char *request);

/* Whether the row was interrupted and may be granted again. */
int jsi_single_row_wants_rerun(const struct row *row);

/* Drops ended rows beyond the job's bounds. */
void jsi_single_prune(struct store *store, struct fence *fence, int64_t now_ms);

/* Drops ended rows of all jobs beyond the age bound, a bounded number of them. */
void jsi_single_prune_aged(struct store *store, int64_t now_ms);

/* Frees all fences and rows. */
void jsi_single_store_clear(struct store *store);

/* claim.c, read.c: operations of the driver. */
int jsi_single_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count);
int jsi_single_reap(void *backend, jobsched_call *call,
                    int (*visit)(const jobsched_finding *finding, void *visit_data),
                    void *visit_data);
int jsi_single_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                    jobsched_run_visit_fn visit, void *visit_data);

/* A copy to be released, or ENOMEM. */
int jsi_single_copy_row(struct store *store, const struct row *row,
                        jobsched_run_record **out_record);

/* list.c: what may be asked of it. */
int jsi_single_find(void *backend, jobsched_call *call, const char *job, const char *request,
                    jobsched_run_visit_fn visit, void *visit_data);
int jsi_single_jobs(void *backend, jobsched_call *call, const char *job,
                    jobsched_job_visit_fn visit, void *visit_data);
int jsi_single_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                     void *visit_data);
int jsi_single_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count);
int jsi_single_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                     void *visit_data);

/* alone.c: a lock file that tells whether another process does the same. Not under the mutex. */
void jsi_single_alone_enter(struct store *store);
void jsi_single_alone_check(struct store *store);
int jsi_single_alone_others(const struct store *store); /* 1: there are. -1: cannot be told */
void jsi_single_alone_leave(struct store *store);
/* Whether there are two processes of one program that do, and which; as above. */
int jsi_single_alone_pair(int64_t out_pids[2]);

#endif
