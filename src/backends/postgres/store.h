/* store.h: what the files of the postgresql: backend share.
 *
 * Layers, lowest first: error.c, memory.c, url.c, watch.c; lane.c (a connection and the time it
 * may take), session.c (what a new connection is told and asked), params.c and rows.c (what goes
 * with a statement and comes back), query.c (statements); schema.c; node.c (our node, and the
 * session that holds its liveness lock); the operations (announce.c, claim.c, finish.c, reap.c,
 * control.c); driver.c. What the server does is in sql/.
 *
 * Locks: lanes CLAIM and ADMIN are used by one thread at a time (the contract says so). Lane KEEP
 * holds the node's liveness lock in its session, so the keeper thread of node.c uses it as well:
 * whoever does holds store->keep_lock. store->lock guards the watches only; nobody holds it while
 * calling libpq. The order of locks is: keep_lock, then lock. */
#ifndef JSI_POSTGRES_STORE_H
#define JSI_POSTGRES_STORE_H

#include <jobsched/backend.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define JSI_PG_VERSION 1

/* Identifiers of PostgreSQL are at most so long. */
#define JSI_PG_SCHEMA_BYTES 63

#define JSI_PG_GRACE_DEFAULT_MS 500
#define JSI_PG_GRACE_MAX_MS     60000

/* claim() has the most parameters. */
#define JSI_PG_PARAMS_MAX 24

/* sql/ has these as literals. */
_Static_assert(JOBSCHED_OUTCOME_WAITING == 0 && JOBSCHED_OUTCOME_RUNNING == 1 &&
                   JOBSCHED_OUTCOME_SUCCEEDED == 2 && JOBSCHED_OUTCOME_CANCELLED == 4 &&
                   JOBSCHED_OUTCOME_INTERRUPTED == 7 && JOBSCHED_OUTCOME_SKIPPED_OVERLAP == 8 &&
                   JOBSCHED_OUTCOME_SKIPPED_PAUSED == 9 && JOBSCHED_RECOVER_RERUN == 1 &&
                   JOBSCHED_KIND_SCHEDULED == 0 && JOBSCHED_KIND_CATCH_UP == 1 &&
                   JOBSCHED_KIND_TRIGGER == 2 && JOBSCHED_KIND_RERUN == 3 &&
                   JOBSCHED_CLAIM_SKIP == 100 && JOBSCHED_HELD_SKIP == 0 &&
                   JOBSCHED_HELD_ALLOW == 2 && JOBSCHED_VERB_PAUSE == 1 &&
                   JOBSCHED_VERB_RESUME == 2 && JOBSCHED_VERB_TRIGGER == 3 &&
                   JOBSCHED_VERB_CANCEL == 4 && JOBSCHED_VERB_REMOVE == 5 &&
                   JOBSCHED_WAITING_MAX == 10000,
               "the numbers in sql/ are those of the contract");
_Static_assert(JOBSCHED_ANSWER_GRANTED == 1 && JOBSCHED_ANSWER_HELD == 2 &&
                   JOBSCHED_ANSWER_DONE == 3 && JOBSCHED_ANSWER_MOVED == 4 &&
                   JOBSCHED_ANSWER_EARLY == 5 && JOBSCHED_ANSWER_PAUSED == 6 &&
                   JOBSCHED_ANSWER_STALE == 7 && JOBSCHED_ANSWER_REMOVED == 8 &&
                   JOBSCHED_ANSWER_UNKNOWN == 9 && JOBSCHED_ANSWER_FULL == 10 &&
                   JOBSCHED_ANSWER_BUSY == 11 && JOBSCHED_LEASE_KEPT == 1 &&
                   JOBSCHED_LEASE_GONE == 2 && JOBSCHED_LEASE_CANCEL == 3 &&
                   JOBSCHED_FOUND_INTERRUPTED == 1 && JOBSCHED_FOUND_RERUN == 2 &&
                   JOBSCHED_FOUND_TRIGGER == 3,
               "the answers in sql/ are those of the contract");

struct jsi_pg_store;

/* Text that grows, from the allocator. failed stays set until it is cleared. */
struct jsi_pg_text {
    const jobsched_allocator *allocator;
    char *bytes;
    size_t used, capacity;
    int failed; /* memory ran out; what was appended since is missing */
};

/* One connection. */
struct jsi_pg_lane {
    struct jsi_pg_store *store;
    PGconn *conn;              /* NULL: to be made by the next call */
    int kind;                  /* enum jobsched_lane */
    int for_keeper;            /* lane KEEP, in use by the keeper thread: gives way to the engine */
    int64_t budget_ms;         /* of the call under way */
    int64_t started_ms;        /* of the call, monotonic */
    int64_t waited_ms;         /* of the budget, as counted by poll() */
    PGresult *result;          /* of the last statement */
    char state[6];             /* SQLSTATE of the last failure, or "" */
    char notice[6];            /* SQLSTATE of the last error that came unasked, or "" */
    struct jsi_pg_text sql;    /* the statement */
    struct jsi_pg_text values; /* its parameters, each ended by a zero byte */
    size_t offsets[JSI_PG_PARAMS_MAX];
    int param_count, in_array;
};

/* Where a node's heartbeat was when it was last seen to move. */
struct jsi_pg_watch {
    char node[40];
    int64_t beat;
    int64_t since_ms; /* monotonic */
    unsigned round;   /* of the last listing that had it */
};

struct jsi_pg_store {
    jobsched_backend_config config; /* its strings are borrowed, as the contract says */
    char *url;                      /* for libpq; "": its environment and defaults */
    char schema[JSI_PG_SCHEMA_BYTES + 1];
    int64_t grace_ms;
    struct jsi_pg_lane lanes[JOBSCHED_LANE_COUNT];
    _Atomic int64_t chunk;              /* how many jobs one statement may lock */
    int64_t rerun_after, trigger_after; /* lane KEEP only: where reap's listing goes on */
    int64_t sweep_after;                /* and its sweep */

    /* The keeper thread and lane KEEP, see node.c. */
    pthread_mutex_t keep_lock;
    pthread_t keeper;
    int keeper_runs;
    int stopping;            /* guarded by keep_lock */
    int wake;                /* an eventfd; -1: none */
    _Atomic int keep_wanted; /* calls that wait for lane KEEP */

    pthread_mutex_t lock; /* guards all below */
    struct jsi_pg_watch *watches;
    size_t watch_count, watch_capacity;
    unsigned watch_round;
};

/* The whole DDL, line by line, with @S@ for the quoted schema; ends with NULL. */
extern const char *const jsi_pg_ddl[];

/* ---- error.c ---- */

/* Records what a failed statement says, and returns our code. sent: the server may have acted on
 * it although no answer came. */
int jsi_pg_fail_result(struct jsi_pg_lane *lane, int sent);

/* The same for a connection that could not be made. */
int jsi_pg_fail_connect(struct jsi_pg_lane *lane);

/* The time of the call is over. */
int jsi_pg_fail_time(struct jsi_pg_lane *lane, int sent);

/* The first line of a text without control characters, to be shown inside a message. */
void jsi_pg_one_line(char *out, size_t bytes, const char *text);

/* ---- memory.c: all through the allocator; NULL with ENOMEM recorded ---- */

void *jsi_pg_allocate(const jobsched_allocator *allocator, size_t size);
void jsi_pg_free(const jobsched_allocator *allocator, void *pointer);
void *jsi_pg_grow(const jobsched_allocator *allocator, void *array, size_t count, size_t *capacity,
                  size_t element_bytes);

void jsi_pg_text_clear(struct jsi_pg_text *text);
void jsi_pg_text_add(struct jsi_pg_text *text, const char *bytes, size_t length);
void jsi_pg_text_free(struct jsi_pg_text *text);

/* Appends a template with @S@ replaced by the quoted schema. */
void jsi_pg_text_expand(struct jsi_pg_text *text, const char *template, const char *schema);

/* ---- url.c ---- */

/* Takes our parameters out of the configured URL, into store->url, schema and grace_ms. */
int jsi_pg_url(struct jsi_pg_store *store);

/* ---- watch.c: heartbeats; takes store->lock ---- */

/* Notes a heartbeat that was seen. */
void jsi_pg_watch(struct jsi_pg_store *store, const char *node, const char *beat, int64_t mono_ms);

/* A listing of all nodes: forgets the ones that it did not have. */
void jsi_pg_watch_begin(struct jsi_pg_store *store);
void jsi_pg_watch_end(struct jsi_pg_store *store);

/* Adds three parameters: who is watched, at which heartbeats, and for how long they stood. */
void jsi_pg_watch_params(struct jsi_pg_lane *lane);

/* ---- lane.c ---- */

int64_t jsi_pg_mono(const struct jsi_pg_store *store);

/* Starts the budget of a call, or of opening; and what is left of it. */
void jsi_pg_budget(struct jsi_pg_lane *lane, int64_t timeout_ms);
int64_t jsi_pg_budget_left(const struct jsi_pg_lane *lane);

/* Connects without a session: session.c does the rest. */
int jsi_pg_connect(struct jsi_pg_lane *lane);
void jsi_pg_disconnect(struct jsi_pg_lane *lane);

/* Whether the other side has ended the connection; looks at the socket and does not wait. */
int jsi_pg_is_cut(struct jsi_pg_lane *lane);

/* Waits until the socket can be read (POLLIN) or written (POLLOUT). 0: the time is over, or the
 * keeper is to give way. */
int jsi_pg_wait(struct jsi_pg_lane *lane, short events);

/* ---- params.c: parameters of the next statement ---- */

void jsi_pg_params(struct jsi_pg_lane *lane); /* none yet */
void jsi_pg_param_int(struct jsi_pg_lane *lane, int64_t value);
void jsi_pg_param_unsigned(struct jsi_pg_lane *lane, uint64_t value); /* as decimal digits */
void jsi_pg_param_text(struct jsi_pg_lane *lane, const char *text);
void jsi_pg_array_begin(struct jsi_pg_lane *lane);
void jsi_pg_array_end(struct jsi_pg_lane *lane);
/* Between these two the others add elements; text that is not UTF-8 is made so, NULL is NULL. */
void jsi_pg_history_params(struct jsi_pg_lane *lane); /* two: the ledger's bounds */

/* ---- query.c ---- */

/* Runs a statement in which @S@ is the schema, with the parameters added since jsi_pg_params().
 * Its rows are in lane->result until the next one. writes: an answer that does not come leaves the
 * outcome unknown. */
int jsi_pg_query(struct jsi_pg_lane *lane, const char *sql, int writes);

/* The same, several statements without parameters; @S@ stays as it is. */
int jsi_pg_script(struct jsi_pg_lane *lane, const char *sql);

/* Row by row: starts; next (1: a row in lane->result, 0: no more, negative: failed). After a row
 * the rest can be left alone: the connection is then given up. */
int jsi_pg_stream(struct jsi_pg_lane *lane, const char *sql);
int jsi_pg_stream_next(struct jsi_pg_lane *lane);

int jsi_pg_is_state(const struct jsi_pg_lane *lane, const char *state);

/* Fails unless the result has so many rows. */
int jsi_pg_expect(const struct jsi_pg_lane *lane, size_t rows);

/* The result of a part of a batch: what promises that nothing was changed must not be said once
 * earlier parts (done items) have been. */
int jsi_pg_part(int result, size_t done);

/* ---- rows.c: a value of lane->result ---- */

int jsi_pg_rows(const struct jsi_pg_lane *lane);
int64_t jsi_pg_int(const struct jsi_pg_lane *lane, int row, int column); /* NULL: 0 */
uint64_t jsi_pg_bits(const struct jsi_pg_lane *lane, int row, int column);
int64_t jsi_pg_ms(const struct jsi_pg_lane *lane, int row, int column); /* NULL: JOBSCHED_NONE */
int jsi_pg_true(const struct jsi_pg_lane *lane, int row, int column);
const char *jsi_pg_get(const struct jsi_pg_lane *lane, int row, int column); /* never NULL */
void jsi_pg_copy(const struct jsi_pg_lane *lane, int row, int column, char *out, size_t bytes);

/* ---- session.c ---- */

/* Makes sure that the lane has a connection with our settings, to a server that we can use. */
int jsi_pg_session(struct jsi_pg_lane *lane);

/* Once, when the store is opened: makes or migrates the schema. */
int jsi_pg_session_first(struct jsi_pg_lane *lane);

/* ---- schema.c ---- */

int jsi_pg_schema(struct jsi_pg_lane *lane, int has_meta);
int jsi_pg_fail_version(const struct jsi_pg_store *store, int64_t version);

/* The statements that make the store, for people who apply them by hand: as many bytes of it as
 * fit, always ended by zero. Returns the length of the whole. */
JOBSCHED_API size_t jobsched_postgresql_ddl(const char *schema, char *out, size_t bytes);

/* ---- node.c ---- */

int jsi_pg_node_start(struct jsi_pg_store *store);
void jsi_pg_node_stop(struct jsi_pg_store *store);

/* Around each use of lane KEEP. The first makes sure that the node is entered. */
int jsi_pg_keep_begin(struct jsi_pg_store *store, jobsched_call *call);
void jsi_pg_keep_end(struct jsi_pg_store *store);

/* Lane KEEP's statement said that the node is not entered: enters it. The caller repeats. */
int jsi_pg_node_enter(struct jsi_pg_lane *lane);

/* The same, for the other lanes. */
int jsi_pg_node_enter_for(struct jsi_pg_lane *lane);

/* ---- the operations ---- */

int jsi_pg_announce(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count);
int jsi_pg_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count);
int jsi_pg_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count);
int jsi_pg_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count);
int jsi_pg_reap(void *backend, jobsched_call *call,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data);
int jsi_pg_control(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result);
int jsi_pg_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data);

/* An operation without items: reads the clock. */
int jsi_pg_clock(struct jsi_pg_lane *lane, jobsched_call *call);

#endif
