/* store.h: what the files of the sqlite: backend share.
 *
 * Layers, lowest first: error.c, memory.c, url.c; query.c (statements); schema.c; lane.c
 * (connections and transactions); live.c (the lock file), watch.c (heartbeats); node.c (our row,
 * and who is dead); fence.c; the operations (announce.c, claim.c, finish.c, reap.c, control.c,
 * list.c, check.c); driver.c.
 *
 * Locks: a lane is used by one thread at a time (the contract says so). What lanes share is in
 * the second half of the store, guarded by store->lock. Nobody holds that lock while calling
 * SQLite, the notice function, or a visitor. The order of locks is: the database's write lock,
 * then store->lock. */
#ifndef JSI_SQLITE_STORE_H
#define JSI_SQLITE_STORE_H

#include "sql.h"

#include <jobsched/backend.h>

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

/* "jsch": how we know our own files. */
#define JSI_SQLITE_APPLICATION 0x6a736368
#define JSI_SQLITE_VERSION     2

/* sql.h has these as literals. */
_Static_assert(JOBSCHED_OUTCOME_WAITING == 0 && JOBSCHED_OUTCOME_RUNNING == 1 &&
                   JOBSCHED_OUTCOME_SUCCEEDED == 2 && JOBSCHED_OUTCOME_CANCELLED == 4 &&
                   JOBSCHED_OUTCOME_INTERRUPTED == 7 && JOBSCHED_OUTCOME_SKIPPED_OVERLAP == 8 &&
                   JOBSCHED_RECOVER_RERUN == 1,
               "the numbers in sql.h are the stored outcomes");

struct jsi_sqlite_store;

/* A lock file and what tells it from another under the same name. */
struct jsi_sqlite_live {
    int fd; /* -1: none */
    int64_t dev, ino;
};

/* What one transaction has found out about a node. */
struct jsi_sqlite_verdict {
    int64_t node;
    int64_t stood_ms; /* how long we have watched its heartbeat stand still */
    int proven;       /* its row or its lock is gone */
};

/* How many nodes a transaction remembers; more only cost a second look. */
#define JSI_SQLITE_VERDICTS 16

/* One connection with its transaction. */
struct jsi_sqlite_lane {
    struct jsi_sqlite_store *store;
    sqlite3 *db; /* NULL: to be opened by the next call */
    sqlite3_stmt *statements[JSI_SQL_COUNT];
    int kind;           /* enum jobsched_lane */
    int broken;         /* the connection is to be replaced before its next use */
    unsigned epoch;     /* of the store when this connection was opened */
    int64_t budget_ms;  /* of the call under way */
    int64_t started_ms; /* of the call, monotonic */
    int64_t slept_us;   /* of the budget, while waiting for others */
    int waits;          /* counted in store->waiting */
    int64_t now_ms;     /* the store's clock in this transaction */
    int64_t mono_ms;    /* ours, taken while nobody else could write */
    int64_t node;       /* our node row in this transaction; 0: none yet */
    int64_t entered;    /* our node row was made by this transaction; commit makes it known */
    int beaten;         /* this transaction has moved our heartbeat */
    int check_node;     /* after a change of files: look whether our row is still there */
    struct jsi_sqlite_live
        relocked; /* a new lock file; the end of this transaction makes it ours */
    struct jsi_sqlite_verdict verdicts[JSI_SQLITE_VERDICTS];
    unsigned verdict_count;
};

/* Where a node's heartbeat was when it was last seen to move. */
struct jsi_sqlite_watch {
    int64_t node;
    int64_t beat;
    int64_t since_ms; /* monotonic */
    unsigned round;   /* of the last listing that had it */
};

struct jsi_sqlite_store {
    jobsched_backend_config config; /* its strings are borrowed, as the contract says */
    char *path;                     /* absolute */
    char *vfs;                      /* NULL: SQLite's default */
    char *live_path;
    struct jsi_sqlite_lane lanes[JOBSCHED_LANE_COUNT];
    int64_t rerun_after, trigger_after; /* lane KEEP only: where reap's listing goes on */
    int64_t sweep_after;                /* lane KEEP only: and where its sweep does */
    int64_t registrant_after;           /* lane KEEP only: the same for registrations */

    pthread_mutex_t lock; /* guards all below */
    struct jsi_sqlite_live live;
    struct jsi_sqlite_live former; /* the one before: kept locked, see node.c */
    int64_t node;   /* our node row; its byte in the lock file is locked. 0: none yet */
    int waiting;    /* lanes that wait for the database */
    unsigned epoch; /* grows when the database file was found to be another one */
    struct jsi_sqlite_watch *watches;
    size_t watch_count, watch_capacity;
    unsigned watch_round;
};

/* ---- error.c ---- */

/* Records what SQLite says about its last failure on this lane and returns our code. Marks the
 * lane broken where a new connection is needed. */
int jsi_sqlite_fail(struct jsi_sqlite_lane *lane, int result);

/* The same for COMMIT, which may leave the outcome unknown. */
int jsi_sqlite_fail_commit(struct jsi_sqlite_lane *lane, int result);

/* The same for a failed system call on a file of ours. */
int jsi_sqlite_fail_file(int system_errno, const char *what, const char *path);

/* ---- url.c ---- */

/* Splits the URL. The results are from the allocator. */
int jsi_sqlite_url(const jobsched_allocator *allocator, const char *url, char **out_path,
                   char **out_vfs);

/* ---- memory.c: all through the allocator; NULL with ENOMEM recorded ---- */

void *jsi_sqlite_allocate(const jobsched_allocator *allocator, size_t size);
char *jsi_sqlite_join(const jobsched_allocator *allocator, const char *left, const char *right);
void jsi_sqlite_free(const jobsched_allocator *allocator, void *pointer);

/* Room for one more element in an array that doubles, or NULL with ENOMEM recorded and the old
 * array intact. */
void *jsi_sqlite_grow(const jobsched_allocator *allocator, void *array, size_t count,
                      size_t *capacity, size_t element_bytes);

/* ---- query.c: one use of a prepared statement ---- */

struct jsi_query {
    struct jsi_sqlite_lane *lane;
    sqlite3_stmt *statement; /* NULL: could not be prepared */
    int at;                  /* parameters bound so far */
    int result;              /* of SQLite, first failure wins */
};

/* Texts are borrowed until the query is closed or run. */
void jsi_query_open(struct jsi_query *query, struct jsi_sqlite_lane *lane, enum jsi_sql sql);
void jsi_query_int(struct jsi_query *query, int64_t value);
void jsi_query_uint(struct jsi_query *query, uint64_t value); /* bits kept, 64 of them */
void jsi_query_text(struct jsi_query *query, const char *text);
void jsi_query_null(struct jsi_query *query);

/* 1: a row. 0: no more. Negative: failed, recorded. The query stays open. */
int jsi_query_row(struct jsi_query *query);
void jsi_query_close(struct jsi_query *query);

/* Runs to the end and closes. */
int jsi_query_run(struct jsi_query *query);

int64_t jsi_query_get_int(const struct jsi_query *query, int column);
uint64_t jsi_query_get_uint(const struct jsi_query *query, int column);
int64_t jsi_query_get_ms(const struct jsi_query *query, int column);       /* NULL: JOBSCHED_NONE */
const char *jsi_query_get_text(const struct jsi_query *query, int column); /* never NULL */
void jsi_query_copy_text(const struct jsi_query *query, int column, char *target, size_t size);

void jsi_query_forget(struct jsi_sqlite_lane *lane); /* finalizes all statements */

/* ---- schema.c ---- */

/* Checks the file, makes it a WAL database, and creates or migrates the schema. */
int jsi_sqlite_schema(struct jsi_sqlite_lane *lane);

/* Whether the version that this transaction sees is ours. */
int jsi_sqlite_schema_check(struct jsi_sqlite_lane *lane);

/* ---- lane.c ---- */

int jsi_sqlite_connect(struct jsi_sqlite_lane *lane, int create);
void jsi_sqlite_disconnect(struct jsi_sqlite_lane *lane);

/* Starts the budget of a call, or of opening; and what is left of it. */
void jsi_sqlite_budget(struct jsi_sqlite_lane *lane, int64_t timeout_ms);
int64_t jsi_sqlite_budget_left(const struct jsi_sqlite_lane *lane);

/* Begins a write: when it returns 0, nobody else can write, now_ms and mono_ms are taken, and
 * (but on lane ADMIN) our node row exists. Else nothing has begun. */
int jsi_sqlite_begin(struct jsi_sqlite_lane *lane, jobsched_call *call);
int jsi_sqlite_begin_read(struct jsi_sqlite_lane *lane, jobsched_call *call);

/* Commits when result is 0, else rolls back and keeps the recorded error. Returns the code of
 * the whole operation. */
int jsi_sqlite_end(struct jsi_sqlite_lane *lane, jobsched_call *call, int result);

/* One more wait for somebody else's lock; 0 when the budget is used up. */
int jsi_sqlite_pause(struct jsi_sqlite_lane *lane, int tries);

/* ---- live.c: the lock file ---- */

int jsi_sqlite_live_open(struct jsi_sqlite_store *store, struct jsi_sqlite_live *out_live);
void jsi_sqlite_live_close(struct jsi_sqlite_live *live);

/* Locks a node's byte. 1: ours. 0: somebody else's. Negative: failed, recorded. */
int jsi_sqlite_live_lock(struct jsi_sqlite_store *store, const struct jsi_sqlite_live *live,
                         int64_t node);
void jsi_sqlite_live_unlock(const struct jsi_sqlite_live *live, int64_t node);

/* 1 when the lock proves that the node's process is gone. */
int jsi_sqlite_live_free(const struct jsi_sqlite_live *live, int64_t node, int64_t dev,
                         int64_t ino);

/* Shows others that somebody here waits for the database; and whether somebody elsewhere does. */
void jsi_sqlite_live_wait(const struct jsi_sqlite_live *live, int waits);
int jsi_sqlite_live_waited(const struct jsi_sqlite_live *live);

/* 1 when the file under the lock file's name is not the one we hold. */
int jsi_sqlite_live_moved(const struct jsi_sqlite_store *store, const struct jsi_sqlite_live *live);

/* ---- watch.c: heartbeats; the caller holds store->lock ---- */

/* Notes a heartbeat and returns for how long it has been seen standing still. */
int64_t jsi_sqlite_watch(struct jsi_sqlite_store *store, int64_t node, int64_t beat,
                         int64_t mono_ms);

/* A listing of all nodes: forgets the ones that it did not have. */
void jsi_sqlite_watch_begin(struct jsi_sqlite_store *store);
void jsi_sqlite_watch_end(struct jsi_sqlite_store *store);

/* ---- node.c ---- */

/* Inserts our row with its byte locked. keep_id: under the id we had, if it is free. */
int jsi_sqlite_node_enter(struct jsi_sqlite_lane *lane, int keep_id);

/* Moves our heartbeat, once per transaction; enters again where somebody forgot us. */
int jsi_sqlite_node_beat(struct jsi_sqlite_lane *lane);

/* Takes the lock anew where somebody has deleted or replaced the lock file. */
void jsi_sqlite_node_relock(struct jsi_sqlite_lane *lane);

/* After commit or rollback: makes ours what was entered or locked anew, or lets it go. */
void jsi_sqlite_node_settle(struct jsi_sqlite_lane *lane, int kept);

/* Judges a node by the four JSI_SQL_ALIVE columns that begin at first. */
struct jsi_sqlite_verdict jsi_sqlite_node_judge(struct jsi_sqlite_lane *lane, int64_t node,
                                                const struct jsi_query *query, int first);

/* Notes the heartbeats of all nodes, and forgets the ones that are no more. out_nodes (may be
 * NULL) gets what is known of each, from the allocator. */
struct jsi_sqlite_listed {
    struct jsi_sqlite_verdict verdict;
    int64_t lease_ms;
};
int jsi_sqlite_node_list(struct jsi_sqlite_lane *lane, struct jsi_sqlite_listed **out_nodes,
                         size_t *out_count);
int jsi_sqlite_node_is_dead(const struct jsi_sqlite_verdict *verdict, int64_t lease_ms);

/* ---- fence.c ---- */

struct jsi_fence {
    int64_t id, mark_ms, seq, last_end_ms;
    uint64_t token, generation;
    int paused, removed;
};

/* 1: read. 0: there is none. Negative: failed. */
int jsi_fence_read(struct jsi_sqlite_lane *lane, const char *job, struct jsi_fence *out_fence);
int jsi_fence_store(struct jsi_sqlite_lane *lane, const struct jsi_fence *fence);

/* The run that keeps others from being granted. */
struct jsi_holder {
    uint64_t token;
    int64_t since_ms;
    char node[JOBSCHED_NAME_BYTES + 1];
};

/* Looks for live holders of a job and makes the dead ones INTERRUPTED. Fills the one with the
 * smallest (newest: the largest) token. 1: there is one. 0: none. Negative: failed. */
int jsi_fence_holder(struct jsi_sqlite_lane *lane, int64_t fence, int newest,
                     struct jsi_holder *out_holder);

/* Makes a run INTERRUPTED and puts it on the list of what reap has to tell. */
int jsi_fence_interrupt(struct jsi_sqlite_lane *lane, int64_t run, const char *note);

/* Deletes what the ledger of one job has beyond its bounds; a bounded number at a time. */
int jsi_fence_prune(struct jsi_sqlite_lane *lane, int64_t fence, int64_t seq);

/* Rows and grants of a job between two prunings: a power of two, so that most calls skip it. */
#define JSI_PRUNE_EVERY 32

/* ---- list.c: who registers what ---- */

int jsi_sqlite_register(struct jsi_sqlite_lane *lane, int64_t fence,
                        const jobsched_announcement *item);
int jsi_sqlite_unregister(struct jsi_sqlite_lane *lane, int64_t node);

/* Drops what nodes registered that are gone for good; a bounded number at a time. */
int jsi_sqlite_sweep_registrations(struct jsi_sqlite_lane *lane);

/* ---- control.c ---- */

/* A row of JSI_SQL_RECORD; its texts are valid until the next row. */
void jsi_sqlite_read_record(const struct jsi_query *query, jobsched_run_record *out_record);

/* ---- the operations ---- */

int jsi_sqlite_announce(void *backend, jobsched_call *call, jobsched_announcement *items,
                        size_t count);
int jsi_sqlite_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count);
int jsi_sqlite_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count);
int jsi_sqlite_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms,
                     jobsched_lease *items, size_t count);
int jsi_sqlite_reap(void *backend, jobsched_call *call,
                    int (*visit)(const jobsched_finding *finding, void *visit_data),
                    void *visit_data);
int jsi_sqlite_control(void *backend, jobsched_call *call, const jobsched_command *command,
                       jobsched_control_result *out_result);
int jsi_sqlite_find(void *backend, jobsched_call *call, const char *job, const char *request,
                    jobsched_run_visit_fn visit, void *visit_data);
int jsi_sqlite_jobs(void *backend, jobsched_call *call, const char *job,
                    jobsched_job_visit_fn visit, void *visit_data);
int jsi_sqlite_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                     void *visit_data);
int jsi_sqlite_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count);
int jsi_sqlite_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                     void *visit_data);
int jsi_sqlite_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                    jobsched_run_visit_fn visit, void *visit_data);

#endif
