/* store.h: what the files of the postgresql: backend share.
 *
 * Layers, lowest first: error.c, memory.c, url.c, watch.c, known.c; connect.c and lane.c (a
 * connection and the time it may take), params.c and rows.c (what goes with a statement and comes
 * back), query.c (statements), pooler.c and session.c (what a new connection is told and asked);
 * schema.c; node.c (our node, and the session that holds its liveness lock), held.c (what it says
 * again), keeper.c (who watches it); the operations (announce.c, claim.c, finish.c, reap.c,
 * control.c, ask.c, check.c); driver.c. What the server does is in sql/.
 *
 * Locks: lanes CLAIM and ADMIN are used by one thread at a time (the contract says so). Lane KEEP
 * holds the node's liveness lock in its session, so the keeper thread of keeper.c uses it as well:
 * whoever does has taken it (store->keep.busy, see jsi_pg_keep_begin). store->keep_lock guards
 * store->keep, store->lock the watches and what is known; nobody holds either while calling libpq,
 * or both. */
#ifndef JSI_POSTGRES_STORE_H
#define JSI_POSTGRES_STORE_H

#include <jobsched/backend.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define JSI_PG_VERSION 1

/* What our functions raise, besides JS001 (version) to JS004. Of a class that promises that nothing
 * was changed. */
#define JSI_PG_OTHER_SERVER "55JS5" /* it is not the one that this connection has greeted */
#define JSI_PG_OLD_SESSION  "55JS6" /* there is a newer connection for this */

/* Identifiers of PostgreSQL are at most so long. */
#define JSI_PG_SCHEMA_BYTES 63

#define JSI_PG_GRACE_DEFAULT_MS 500
#define JSI_PG_GRACE_MAX_MS     60000

/* claim() has the most parameters. */
#define JSI_PG_PARAMS_MAX 25

/* Longest text that says which server it is: two numbers and a timeline. */
#define JSI_PG_INCARNATION_BYTES 40

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
struct jsi_pg_attempt; /* a connection that is being made, see connect.c */

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
    PGconn *conn; /* NULL: to be made by the next call */
    struct jsi_pg_attempt *attempt;
    int kind;                  /* enum jobsched_lane */
    int64_t epoch;             /* of the store, as this connection was told */
    int64_t nonce;             /* of this connection: see check_node() in sql/node.sql */
    int is_stale;              /* the server is another one: to be greeted again */
    int is_greeting;           /* it is being greeted */
    int commands;              /* the server knows that this handle's verbs come from here */
    int for_keeper;            /* lane KEEP, in use by the keeper thread: ends when that has to */
    int64_t budget_ms;         /* of the call under way */
    int64_t started_ms;        /* of the call, monotonic */
    int64_t waited_ms;         /* of the budget, as counted by poll() */
    PGresult *result;          /* of the last statement */
    char state[6];             /* SQLSTATE of the last failure, or "" */
    int is_down;               /* what the last failure to connect says of the server, see below */
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

/* A run that goes on here, as far as this backend has been told: what a server that has forgotten
 * it is told again. */
struct jsi_pg_grant {
    struct jsi_pg_grant *next; /* in its bucket */
    uint64_t hash, token;
    int64_t scheduled_ms, after_ms, started_ms, lease_ms;
    uint32_t attempt, recover_limit;
    int32_t kind, recover;
    const char *request; /* of a trigger, behind the name; else NULL */
    char job[];
};

/* A claim whose outcome is not known. */
struct jsi_pg_asked {
    int64_t scheduled_ms;
    char *job;
    char *request; /* of a trigger; else NULL */
};

/* What is known of the session that shows this node alive. Guarded by keep_lock; only who has lane
 * KEEP changes it. */
struct jsi_pg_keep {
    int busy;         /* somebody has lane KEEP */
    int entered;      /* it lives, as far as is known: lane KEEP's, or that of held */
    int entering;     /* the server is being asked to make another one that: looks say nothing */
    PGconn *held;     /* it, while a statement on it has had no answer in time; else NULL */
    int look_fd;      /* a duplicate of its socket, which any thread may look at; -1: none */
    int64_t alive_ms; /* monotonic: when it was last known to live */
    int64_t lost_ms;  /* monotonic: when it ended at the earliest; JOBSCHED_NONE: it did not */
    int64_t doubt_ms; /* monotonic: since when runs may be others', because the node came back too
                         late; until all have been asked about; JOBSCHED_NONE: it did not */
    int doubt_ends;   /* they have been; with the next call the engine knows the answers */
    int said;         /* the server ended it itself, and said that it stops */
    int was_down;     /* since then nobody answered there: its end is that of the server */
    int told;         /* a call has answered that it is lost */
    int64_t began_ms; /* monotonic: when lane KEEP was taken for what is done with it now */
    int recovers;     /* the keeper thread is to enter the node again */
    unsigned entries; /* how often the node was entered */
    unsigned round_entries; /* the same, as the round of renewals began */
    int amid_round;         /* the last renewal was full: more of the round follow */
    unsigned tries;         /* how often it failed to */
    int failure;            /* and why */
    char message[JOBSCHED_MESSAGE_BYTES];
};

struct jsi_pg_store {
    jobsched_backend_config config; /* its strings are borrowed, as the contract says */
    char *url;                      /* for libpq; "": its environment and defaults */
    char place[200];                /* host:port/database as the URL has them, for messages */
    char schema[JSI_PG_SCHEMA_BYTES + 1];
    int64_t grace_ms;
    int row_mode;            /* no sessions of our own: only heartbeats show who is alive */
    _Atomic int told_push;   /* that LISTEN or NOTIFY fails */
    _Atomic int pooled;      /* a pooler stands between, with sessions of our own */
    _Atomic int64_t epoch;   /* of the store, as last seen; -1: not yet */
    _Atomic int64_t said;    /* the epoch in which it was last told what we hold; -1: none yet */
    _Atomic unsigned unsaid; /* how often something came that it had not been told */
    _Atomic int64_t nonces;  /* that were given to connections */
    _Atomic int64_t claim_nonce; /* of lane CLAIM's */
    _Atomic int holds;           /* runs may be going on here: the session is watched closely */
    _Atomic unsigned lates;      /* how often the node came back too late */
    struct jsi_pg_lane lanes[JOBSCHED_LANE_COUNT];
    _Atomic int64_t chunk;              /* how many jobs one statement may lock */
    int64_t rerun_after, trigger_after; /* lane KEEP only: where reap's listing goes on */
    int64_t sweep_after;                /* and its sweep */

    /* The keeper thread and lane KEEP, see node.c and keeper.c. */
    pthread_mutex_t keep_lock;
    struct jsi_pg_keep keep;
    int watch_fd; /* an epoll descriptor that has that session's socket, and lost_fd; -1: none */
    int lost_fd;  /* an eventfd: readable from a loss to the next call; -1: none */
    pthread_t keeper;
    int keeper_runs;
    _Atomic int stopping;
    int wake; /* an eventfd; -1: none */

    pthread_mutex_t lock;                           /* guards all below */
    char incarnation[JSI_PG_INCARNATION_BYTES + 1]; /* of the server, in that epoch; "": not yet */
    int64_t lsn;                                    /* how far its log was on the disk, at least */
    int64_t seen_ms;                                /* its clock, as last told; 0: not yet */
    struct jsi_pg_grant **grants;
    size_t grant_count, grant_buckets;
    struct jsi_pg_asked *asked;
    size_t asked_count, asked_capacity;
    const jobsched_claim *asking; /* the claims under way */
    size_t asking_count;
    int is_incomplete; /* there was no memory for one of these */
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

/* Whether a server that ends a connection with this SQLSTATE stops: for good, or after a crash. */
int jsi_pg_is_farewell(const char *state);

/* What a failure to connect says of the one server that there is. */
enum {
    JSI_PG_MAY_BE_UP = 0,
    JSI_PG_IS_REFUSED = 1, /* nobody is there, or it lets nobody in: as behind a firewall */
    JSI_PG_IS_DOWN = 2     /* nobody is there: the kernel of this host says so */
};

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

/* Takes our parameters out of the configured URL, into store->url, schema, grace_ms and
 * row_mode. */
int jsi_pg_url(struct jsi_pg_store *store);

/* ---- watch.c: heartbeats; takes store->lock ---- */

/* Notes a heartbeat that was seen. */
void jsi_pg_watch(struct jsi_pg_store *store, const char *node, const char *beat, int64_t mono_ms);

/* A listing of all nodes: forgets the ones that it did not have. */
void jsi_pg_watch_begin(struct jsi_pg_store *store);
void jsi_pg_watch_end(struct jsi_pg_store *store);

/* Adds three parameters: who is watched, at which heartbeats, and for how long they stood. */
void jsi_pg_watch_params(struct jsi_pg_lane *lane);

/* ---- known.c: what this node holds, and what it has seen of the server; takes store->lock ---- */

/* Around each claim: what is asked, then how it went. lane: has the connection that was asked. */
void jsi_pg_asking(struct jsi_pg_store *store, const jobsched_claim *items, size_t count);
void jsi_pg_answered(const struct jsi_pg_lane *lane, const jobsched_claim *items, size_t count,
                     int result, int64_t now_ms);

/* The server on a lane's connection has been told all that was known when store->unsaid was that. */
void jsi_pg_said(const struct jsi_pg_lane *lane, unsigned unsaid);

/* A run is not ours any more. */
void jsi_pg_ended(struct jsi_pg_store *store, const char *job, uint64_t token);

/* The clock of the server on a lane's connection; lsn: what of its log is on the disk, or 0. */
void jsi_pg_seen(const struct jsi_pg_lane *lane, int64_t now_ms, int64_t lsn);

/* Adds five parameters for hello(): the longest lease of what goes on here, the clock last seen, in
 * which epoch, on which server, and how far its log was. */
void jsi_pg_known_params(struct jsi_pg_lane *lane);

/* How far the server's log was at least; 0: that of the server on this connection is not known. */
int64_t jsi_pg_known_lsn(const struct jsi_pg_lane *lane);

/* It is greeted. Returns the epoch that was known before, or -2 when a newer one is known by now:
 * then the server on this connection is not the one to go on with. */
int64_t jsi_pg_known_server(struct jsi_pg_lane *lane, int64_t epoch, const char *incarnation,
                            int64_t lsn, int64_t now_ms);

/* Copies of all grants, to be freed by the caller; NULL: none, or no memory (then *out_count is not
 * 0). */
struct jsi_pg_grant **jsi_pg_known_grants(struct jsi_pg_store *store, size_t *out_count);

/* Adds five parameters for let_go(): jobs and tokens of all grants, and what is asked. Returns
 * whether that is all there is. */
int jsi_pg_known_all_params(struct jsi_pg_lane *lane);

void jsi_pg_known_free(struct jsi_pg_store *store);

/* ---- lane.c ---- */

int64_t jsi_pg_mono(const struct jsi_pg_store *store);

/* Starts the budget of a call, or of opening; and what is left of it. */
void jsi_pg_budget(struct jsi_pg_lane *lane, int64_t timeout_ms);
int64_t jsi_pg_budget_left(const struct jsi_pg_lane *lane);

void jsi_pg_disconnect(struct jsi_pg_lane *lane);

/* Whether the other side has ended the connection, by a look that takes nothing away. */
int jsi_pg_is_hung_up(const PGconn *conn);

/* Whether the other side has ended the connection; looks at the socket and does not wait. */
int jsi_pg_is_cut(struct jsi_pg_lane *lane);

/* Waits until a descriptor can be read (POLLIN) or written (POLLOUT). 0: the time is over, or the
 * keeper thread is to end. */
int jsi_pg_wait(struct jsi_pg_lane *lane, int fd, short events);

/* ---- connect.c ---- */

/* Connects without a session: session.c does the rest. What is not ready in time goes on being
 * made, for the next call. */
int jsi_pg_connect(struct jsi_pg_lane *lane);
void jsi_pg_connect_abandon(struct jsi_pg_lane *lane);

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

/* Reads the rest of what was asked, without waiting. 0: there is nothing left; 1: it is still to
 * come; negative: the connection has ended. */
int jsi_pg_drain(PGconn *conn);

/* Fails unless the result has so many rows. */
int jsi_pg_expect(const struct jsi_pg_lane *lane, size_t rows);

/* The result of a part of a batch: what promises that nothing was changed must not be said once
 * earlier parts (done items) have been. */
int jsi_pg_part(int result, size_t done);

/* ---- rows.c: a value of lane->result ---- */

int jsi_pg_rows(const struct jsi_pg_lane *lane);
int64_t jsi_pg_int(const struct jsi_pg_lane *lane, int row, int column); /* NULL: 0 */
uint64_t jsi_pg_bits(const struct jsi_pg_lane *lane, int row, int column);
uint64_t jsi_pg_unsigned(const struct jsi_pg_lane *lane, int row, int column);
int64_t jsi_pg_ms(const struct jsi_pg_lane *lane, int row, int column); /* NULL: JOBSCHED_NONE */

/* From one column's value to another's; the nearest that there is where it does not fit. */
int64_t jsi_pg_span(const struct jsi_pg_lane *lane, int row, int from_column, int until_column);
int jsi_pg_true(const struct jsi_pg_lane *lane, int row, int column);
/* A value as text: "" for NULL, and where there is none. */
const char *jsi_pg_value(const PGresult *result, int row, int column);
const char *jsi_pg_get(const struct jsi_pg_lane *lane, int row, int column); /* never NULL */
void jsi_pg_copy(const struct jsi_pg_lane *lane, int row, int column, char *out, size_t bytes);

/* ---- pooler.c ---- */

/* Behind a pooler: fails unless it gives each connection a session of its own. pid: of the server
 * process that the lane has now. */
int jsi_pg_pooler(struct jsi_pg_lane *lane, int64_t pid);
int jsi_pg_fail_pooler(const struct jsi_pg_lane *lane);

/* ---- session.c ---- */

/* Makes sure that the lane has a connection with our settings, to a server that we can use. */
int jsi_pg_session(struct jsi_pg_lane *lane);

/* A statement has failed. Whether what it found wrong (the node is not entered, the server or the
 * session is another one) is mended, so that it can be asked again: 0; else what failed. Takes lane
 * KEEP where it is needed. */
int jsi_pg_mend(struct jsi_pg_lane *lane, int result);

/* Once, when the store is opened: makes or migrates the schema. */
int jsi_pg_session_first(struct jsi_pg_lane *lane);

/* ---- steps.c ---- */

/* What leads the tables of that version to the next one; NULL: nothing does. */
const char *jsi_pg_step(int64_t from);

/* ---- schema.c ---- */

int jsi_pg_schema(struct jsi_pg_lane *lane, int has_meta);
int jsi_pg_fail_version(const struct jsi_pg_store *store, int64_t version);

/* ---- keeper.c ---- */

int jsi_pg_node_start(struct jsi_pg_store *store);
void jsi_pg_node_stop(struct jsi_pg_store *store);

/* There is something new for the keeper thread. */
void jsi_pg_keeper_wake(const struct jsi_pg_store *store);

/* Runs may be going on here from now on. */
void jsi_pg_holds(struct jsi_pg_store *store);

/* ---- node.c; the caller has lane KEEP, unless told otherwise ---- */

/* Around each use of lane KEEP: take it and give it back. The first makes sure that the node is
 * entered; the second passes the result on, and tells in call what a failure means for the node's
 * runs. call: NULL when nobody can be told. */
int jsi_pg_keep_begin(struct jsi_pg_store *store, jobsched_call *call, int64_t timeout_ms);
int jsi_pg_keep_end(struct jsi_pg_store *store, jobsched_call *call, int result);

/* Takes lane KEEP if nobody has it, for the keeper thread; and gives it back. */
int jsi_pg_keep_try(struct jsi_pg_store *store);
void jsi_pg_keep_leave(struct jsi_pg_store *store);

/* Gives the lane a new session that shows the node alive. */
int jsi_pg_node_return(struct jsi_pg_lane *lane);

/* The session that did so has ended, or is about to. */
void jsi_pg_node_lost(struct jsi_pg_lane *lane);

/* Notes that it lives, if a look says so. idle: no statement is under way on it. */
void jsi_pg_node_look(struct jsi_pg_store *store, int idle);

/* Around each renewal, once lane KEEP is taken; full: more of the same round follow. */
void jsi_pg_node_round(struct jsi_pg_store *store);
void jsi_pg_node_renewed(struct jsi_pg_store *store, int result, int full);

/* After a claim, any caller: fails with EUNKNOWN if what was granted may be somebody else's by now.
 * lates: store->lates before it was sent. */
int jsi_pg_node_check(struct jsi_pg_store *store, unsigned lates);

/* A statement on the lane has no answer in time. Returns whether it had that session, which is then
 * put aside: to end it would be to give the node up. */
int jsi_pg_node_hold(struct jsi_pg_lane *lane);

/* Lane KEEP's statement said that the node is not entered: enters it. The caller repeats. */
int jsi_pg_node_enter(struct jsi_pg_lane *lane);

/* held.c: tells a server that may have forgotten it what this node holds. The node is entered. */
int jsi_pg_say(struct jsi_pg_lane *lane);

/* The same, for the other lanes. Takes lane KEEP itself. */
int jsi_pg_node_enter_for(struct jsi_pg_lane *lane);

/* ---- push.c ---- */

/* Lane KEEP: from now on what others change wakes watch_fd, unless the server refuses. Fails only if
 * the session is lost meanwhile. */
int jsi_pg_listen(struct jsi_pg_lane *lane);

/* Tells the other nodes that something was changed, if that can be. lane->result is another one after
 * that, and the connection may be gone. */
void jsi_pg_push(struct jsi_pg_lane *lane);

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

int jsi_pg_find(void *backend, jobsched_call *call, const char *job, const char *request,
                jobsched_run_visit_fn visit, void *visit_data);
int jsi_pg_jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                void *visit_data);
int jsi_pg_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                 void *visit_data);
int jsi_pg_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count);
int jsi_pg_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                 void *visit_data);
int jsi_pg_watch_fd(void *backend);
int64_t jsi_pg_vouch(void *backend);
int jsi_pg_schema_text(const char *url, jobsched_text_visit_fn visit, void *visit_data);

/* An operation without items: reads the clock. */
int jsi_pg_clock(struct jsi_pg_lane *lane, jobsched_call *call);

#endif
