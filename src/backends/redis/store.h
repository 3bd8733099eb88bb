/* store.h: what the files of the redis: backend share.
 *
 * Layers, lowest first: error.c, memory.c, url.c, watch.c; connect.c (a socket), lane.c (bytes out
 * and replies in, within the time of the call), request.c and reply.c (what goes out and comes
 * back); server.c and session.c (what a new connection is told and asked); known.c (what is said again to a store
 * that forgot); call.c (scripts, and what is done when they refuse); push.c (the subscription); the
 * operations (announce.c, claim.c, finish.c, reap.c, control.c, runs.c, list.c, check.c); driver.c.
 * What the server does is in lua/.
 *
 * Of hiredis only the parser of replies is used, which is the same in 0.14 and in 1.x. Its
 * connections know no deadline for a whole call, raise SIGPIPE and can be hung by signals; so the
 * sockets are ours, written to with MSG_NOSIGNAL, and any thread may call.
 *
 * Locks: a lane is used by one thread at a time (the contract says so). What lanes share is in the
 * second half of the store, guarded by store->lock. Nobody holds that lock while talking to the
 * server or calling the host. */
#ifndef JSI_REDIS_STORE_H
#define JSI_REDIS_STORE_H

#include <jobsched/backend.h>

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>

/* Jobs in one script: the server serves nobody else meanwhile (3 to 6 ms, measured). */
#define JSI_REDIS_CHUNK 125

/* Numbers in scripts are doubles. */
#define JSI_REDIS_EXACT_MAX INT64_C(9007199254740992)

#define JSI_REDIS_ID_BYTES   33
#define JSI_REDIS_BORN_BYTES 64
#define JSI_REDIS_SHA_BYTES  41

#define JSI_REDIS_HOSTS_MAX  16 /* sentinels; three to seven are usual */
#define JSI_REDIS_HOST_BYTES 256
#define JSI_REDIS_PORT_BYTES 8

/* The scripts have these as literals. */
_Static_assert(JOBSCHED_OUTCOME_WAITING == 0 && JOBSCHED_OUTCOME_RUNNING == 1 &&
                   JOBSCHED_OUTCOME_SUCCEEDED == 2 && JOBSCHED_OUTCOME_CANCELLED == 4 &&
                   JOBSCHED_OUTCOME_INTERRUPTED == 7 && JOBSCHED_OUTCOME_SKIPPED_OVERLAP == 8 &&
                   JOBSCHED_OUTCOME_SKIPPED_PAUSED == 9 && JOBSCHED_OUTCOME_SKIPPED_MISFIRE == 10 &&
                   JOBSCHED_RECOVER_RERUN == 1 && JOBSCHED_KIND_SCHEDULED == 0 &&
                   JOBSCHED_KIND_CATCH_UP == 1 && JOBSCHED_KIND_TRIGGER == 2 &&
                   JOBSCHED_KIND_RERUN == 3 && JOBSCHED_CLAIM_SKIP == 100 &&
                   JOBSCHED_HELD_SKIP == 0 && JOBSCHED_HELD_ALLOW == 2 &&
                   JOBSCHED_VERB_PAUSE == 1 && JOBSCHED_VERB_RESUME == 2 &&
                   JOBSCHED_VERB_TRIGGER == 3 && JOBSCHED_VERB_CANCEL == 4 &&
                   JOBSCHED_VERB_REMOVE == 5,
               "the numbers in lua/ are those of the contract");
_Static_assert(JOBSCHED_ANSWER_GRANTED == 1 && JOBSCHED_ANSWER_HELD == 2 &&
                   JOBSCHED_ANSWER_DONE == 3 && JOBSCHED_ANSWER_MOVED == 4 &&
                   JOBSCHED_ANSWER_EARLY == 5 && JOBSCHED_ANSWER_PAUSED == 6 &&
                   JOBSCHED_ANSWER_STALE == 7 && JOBSCHED_ANSWER_REMOVED == 8 &&
                   JOBSCHED_ANSWER_UNKNOWN == 9 && JOBSCHED_ANSWER_FULL == 10 &&
                   JOBSCHED_ANSWER_BUSY == 11 && JOBSCHED_LEASE_KEPT == 1 &&
                   JOBSCHED_LEASE_GONE == 2 && JOBSCHED_LEASE_CANCEL == 3 &&
                   JOBSCHED_FOUND_INTERRUPTED == 1 && JOBSCHED_FOUND_RERUN == 2 &&
                   JOBSCHED_FOUND_TRIGGER == 3 && JOBSCHED_WAITING_MAX == 10000,
               "the answers in lua/ are those of the contract");

/* The names are those of the files in lua/. */
enum jsi_redis_script {
    JSI_SCRIPT_common,
    JSI_SCRIPT_enter,
    JSI_SCRIPT_assert,
    JSI_SCRIPT_announce,
    JSI_SCRIPT_withdraw,
    JSI_SCRIPT_claim,
    JSI_SCRIPT_finish,
    JSI_SCRIPT_renew,
    JSI_SCRIPT_reap,
    JSI_SCRIPT_control,
    JSI_SCRIPT_runs,
    JSI_SCRIPT_find,
    JSI_SCRIPT_jobs,
    JSI_SCRIPT_nodes,
    JSI_SCRIPT_leave,
    JSI_SCRIPT_COUNT
};

/* Line by line, each ended by NULL. */
extern const char *const *const jsi_redis_scripts[JSI_SCRIPT_COUNT];

struct jsi_redis_store;

/* Bytes that grow, from the allocator. failed stays set until they are cleared. */
struct jsi_redis_text {
    const jobsched_allocator *allocator;
    char *bytes;
    size_t used, capacity;
    int failed; /* memory ran out; what was appended since is missing */
};

struct jsi_redis_host {
    const char *host, *port;
};

/* How the parser counts the parts of a reply. */
#if HIREDIS_MAJOR >= 1
typedef size_t jsi_redis_parts;
#else
typedef int jsi_redis_parts;
#endif

/* One connection. Not to be moved while it has a reader. */
struct jsi_redis_lane {
    struct jsi_redis_store *store;
    int kind; /* enum jobsched_lane */
    int fd;   /* -1: to be made by the next call */
    redisReader *reader;
    redisReplyObjectFunctions parts; /* what the reader makes replies with */
    void *(*make_array)(const redisReadTask *task, jsi_redis_parts count); /* of the parser */
    uint64_t nonce;                           /* of this connection, as the node's record has it */
    char stamp[JSI_REDIS_BORN_BYTES + 24];    /* born and epoch of the store that it has entered */
    char asserted[JSI_REDIS_BORN_BYTES + 24]; /* the same, of the one that was told what we know */
    int64_t budget_ms;                        /* of the call under way */
    int64_t started_ms;                       /* of the call, monotonic */
    int64_t waited_ms;                        /* of the budget, as counted by poll() */
    int64_t sent_ms;                          /* monotonic, when the request under way went out */
    int writes;       /* an answer that does not come leaves the outcome unknown */
    int sent;         /* bytes of it have gone out */
    size_t arguments; /* of the command that is being made */
    struct jsi_redis_text body, out;
    int entered;                     /* at any time before */
    redisReply *reply;               /* the last one */
    struct jsi_redis_lookup *lookup; /* of a host's name, that has not ended yet */
    size_t sentinel;                 /* the one that answered last */
};

/* Since when all looks at the server's clock agree, and between what they say it is ahead of ours. */
struct jsi_redis_span {
    int64_t from_ms; /* monotonic */
    int64_t low_ms, high_ms;
};

/* Where a node's heartbeat was when it was last seen to move. */
struct jsi_redis_watch {
    char node[JSI_REDIS_ID_BYTES];
    char beat[24];
    int64_t since_ms; /* monotonic */
    unsigned round;   /* of the last listing that had it */
};

/* A job that this node has announced. */
struct jsi_redis_known {
    struct jsi_redis_known *next; /* in its bucket */
    uint64_t hash;
    size_t slot;
    char *definition;
    uint64_t version, generation;
    uint64_t renumbered; /* of the same definition in the store as it is now; 0: the same */
    int64_t mark_ms;
    int64_t flags_id; /* the newest row when the flags were so */
    int in_force, paused, removed;
    char name[];
};

/* A run that this node has been granted and that has not ended. */
struct jsi_redis_grant {
    char *job; /* NULL: a free slot */
    uint64_t token;
    int64_t scheduled_ms, started_ms, lease_ms;
    uint32_t attempt, limit;
    int32_t kind, recover;
    char request[JOBSCHED_REQUEST_BYTES + 1];
};

struct jsi_redis_store {
    jobsched_backend_config config; /* its strings are borrowed, as the contract says */
    char *url;                      /* decoded, in pieces that the pointers below point into */
    const char *user, *password;    /* NULL: none */
    size_t url_bytes;
    struct jsi_redis_host hosts[JSI_REDIS_HOSTS_MAX];
    size_t host_count;   /* 0: a unix socket. More than one: sentinels */
    const char *primary; /* the name by which the sentinels know it; NULL: no sentinels */
    const char *sentinel_user, *sentinel_password;
    const char *socket;
    int64_t database;
    char *meta_key; /* "{jobsched:NAMESPACE}:meta" */
    char sha[JSI_SCRIPT_COUNT][JSI_REDIS_SHA_BYTES];
    int loaded; /* sha is filled; set while opening */
    struct jsi_redis_lane lanes[JOBSCHED_LANE_COUNT];
    uint64_t claim_number;                   /* lane CLAIM only */
    char rerun_after[24], trigger_after[24]; /* lane KEEP only: where listings go on */
    char sweep_after[24];                    /* the same, of the sweep of aged rows */
    /* Lane KEEP only: interrupted runs that we were told of. The next request says so. */
    uint64_t batch, told_batch;
    size_t told_count;
    struct jsi_redis_lane push; /* the subscription; lane KEEP only */
    int64_t push_at_ms;         /* monotonic; not made again before */
    int64_t push_delay_ms;

    pthread_mutex_t lock;            /* guards all below */
    uint64_t nonce;                  /* the last one that was given out */
    char born[JSI_REDIS_BORN_BYTES]; /* the store that we know; "": none yet */
    int64_t epoch, id;               /* the latest that we know of it */
    int64_t mark_ms;                 /* the latest instant that was granted to us */
    int64_t lease_max_ms;            /* the longest lease that was asked for */
    int64_t told_epoch;              /* of the last loss that was told */
    int64_t told_future_ms;          /* of the last mark that was told to lie in the future */
    int told_push;                   /* that changes are not pushed */
    char jobs_asserted[JSI_REDIS_BORN_BYTES + 24]; /* the store that has been told our jobs */
    size_t jobs_asserted_at;                       /* how many places of them */
    struct jsi_redis_known **known, **buckets;
    size_t known_count, known_slots, known_capacity, known_free, bucket_count;
    struct jsi_redis_grant *grants;
    size_t grant_slots, grant_capacity;
    /* The last look at the server's clock, and two spans in which it has run in step with ours. */
    int looked, look_is_wide;
    int64_t look_got_ms;
    struct jsi_redis_span in_step[2]; /* the older one first */
    struct jsi_redis_watch *watches;
    size_t watch_count, watch_capacity;
    unsigned watch_round;
};

/* ---- error.c ---- */

/* Records what an error reply says and returns our code. */
int jsi_redis_fail_reply(struct jsi_redis_lane *lane, const char *text);

/* The connection failed, or the time of the call is over. system_errno 0: closed by the server. */
int jsi_redis_fail_lost(struct jsi_redis_lane *lane, int system_errno);
int jsi_redis_fail_time(struct jsi_redis_lane *lane);
int jsi_redis_fail_connect(struct jsi_redis_lane *lane, int system_errno, const char *detail);

/* A reply that no script of ours gives. */
int jsi_redis_fail_form(struct jsi_redis_lane *lane, const char *what);
int jsi_redis_fail_version(struct jsi_redis_lane *lane, const char *version);

/* A right that scripts need is missing. */
int jsi_redis_fail_right(struct jsi_redis_lane *lane, const char *command, const char *text);

/* Where the server is, without user and password. */
void jsi_redis_place(const struct jsi_redis_store *store, char *out, size_t bytes);

/* Tells people something. */
void jsi_redis_errno_text(int system_errno, char *out, size_t bytes);
/* kind: as for config.notice() */
void jsi_redis_notice(struct jsi_redis_store *store, int kind, const char *format, ...)
    JOBSCHED_PRINTF(3, 4);

/* ---- memory.c: all through the allocator; NULL with ENOMEM recorded ---- */

void *jsi_redis_allocate(const jobsched_allocator *allocator, size_t size);
void jsi_redis_free(const jobsched_allocator *allocator, void *pointer);
void *jsi_redis_grow(const jobsched_allocator *allocator, void *array, size_t count,
                     size_t *capacity, size_t element_bytes);

void jsi_redis_text_clear(struct jsi_redis_text *text);
void jsi_redis_text_add(struct jsi_redis_text *text, const char *bytes, size_t length);
void jsi_redis_text_free(struct jsi_redis_text *text);

/* ---- url.c ---- */

/* Takes the configured URL apart. */
int jsi_redis_url(struct jsi_redis_store *store);

/* "{jobsched:NAMESPACE}:" with a word behind it, from the allocator; NULL with ENOMEM recorded. */
char *jsi_redis_key(const struct jsi_redis_store *store, const char *word);

/* ---- watch.c; takes store->lock ---- */

/* The server's clock was looked at: now_ms came between sent_ms and got_ms. */
void jsi_redis_watch_clock(struct jsi_redis_store *store, int64_t sent_ms, int64_t got_ms,
                           int64_t now_ms);

/* A node's heartbeat was seen; it was age_ms old. */
void jsi_redis_watch(struct jsi_redis_store *store, const char *node, const char *beat,
                     int64_t age_ms);

/* A listing of all nodes: forgets the ones that it did not have. */
void jsi_redis_watch_begin(struct jsi_redis_store *store);
void jsi_redis_watch_end(struct jsi_redis_store *store);

/* Adds what is watched to a request: the count, then node, beat and how long it has stood. */
void jsi_redis_watch_add(struct jsi_redis_lane *lane);

/* ---- known.c; takes store->lock ---- */

/* id: of the newest row when the answer was given. */
void jsi_redis_know_announced(struct jsi_redis_store *store, const jobsched_announcement *item,
                              int64_t id);
void jsi_redis_know_claimed(struct jsi_redis_store *store, const jobsched_claim *item, int64_t id,
                            int64_t now_ms);
void jsi_redis_know_ended(struct jsi_redis_store *store, const char *job, uint64_t token);
void jsi_redis_know_withdrawn(struct jsi_redis_store *store, const char *job);
void jsi_redis_know_commanded(struct jsi_redis_store *store, const jobsched_command *command,
                              int64_t id);

/* The definition has another number since a loss of data; and which one to claim under. */
void jsi_redis_know_renumbered(struct jsi_redis_store *store, const char *job, uint64_t generation);
uint64_t jsi_redis_known_generation(struct jsi_redis_store *store, const char *job,
                                    uint64_t generation);

size_t jsi_redis_known_jobs(struct jsi_redis_store *store);

/* What there is to say again, by place; some places may be free. Runs come behind jobs. */
void jsi_redis_known_slots(struct jsi_redis_store *store, size_t *out_jobs, size_t *out_grants);
void jsi_redis_known_add(struct jsi_redis_lane *lane, size_t jobs, size_t first, size_t count);
void jsi_redis_known_free(struct jsi_redis_store *store);

/* ---- connect.c ---- */

/* Makes lane->fd within the lane's time. */
int jsi_redis_connect(struct jsi_redis_lane *lane);
int jsi_redis_connect_to(struct jsi_redis_lane *lane, const char *host, const char *port);

/* resolve.c: the addresses of a host, within the lane's time; freeaddrinfo() is the caller's. */
struct addrinfo;
int jsi_redis_resolve(struct jsi_redis_lane *lane, const char *host, const char *port,
                      struct addrinfo **out_found);
void jsi_redis_lookup_free(struct jsi_redis_lane *lane);

/* sentinel.c: asks the sentinels where the primary is, on the lane's connection, which is closed
 * again. */
int jsi_redis_ask_sentinels(struct jsi_redis_lane *lane, char *out_host, char *out_port);

/* ---- lane.c ---- */

int64_t jsi_redis_mono(const struct jsi_redis_store *store);

/* Starts the time of a call, or of opening; and what is left of it. */
void jsi_redis_budget(struct jsi_redis_lane *lane, int64_t timeout_ms);
int64_t jsi_redis_budget_left(const struct jsi_redis_lane *lane);

/* Waits until the socket can be read (POLLIN) or written (POLLOUT). 0: the time is over. */
int jsi_redis_wait(struct jsi_redis_lane *lane, short events);

void jsi_redis_disconnect(struct jsi_redis_lane *lane);

/* Whether the other side has ended the connection; does not wait. Only between requests. */
int jsi_redis_is_cut(const struct jsi_redis_lane *lane);

/* Sends lane->out. After a failure of these two the connection is gone. */
int jsi_redis_send(struct jsi_redis_lane *lane);

/* A parser of what this connection receives, which takes no more memory than an answer can need. */
redisReader *jsi_redis_reader(struct jsi_redis_lane *lane);

/* The next reply, in lane->reply until the one after it. An error reply is no failure here. */
int jsi_redis_receive(struct jsi_redis_lane *lane);

/* ---- request.c: commands in the protocol's form, into lane->out ---- */

void jsi_redis_begin(struct jsi_redis_lane *lane); /* of a command */
void jsi_redis_add(struct jsi_redis_lane *lane, const char *text);
void jsi_redis_add_bytes(struct jsi_redis_lane *lane, const char *bytes, size_t length);
void jsi_redis_add_int(struct jsi_redis_lane *lane, int64_t value);
void jsi_redis_add_unsigned(struct jsi_redis_lane *lane, uint64_t value);
void jsi_redis_add_exact(struct jsi_redis_lane *lane, int64_t value); /* within 2^53 */
void jsi_redis_end(struct jsi_redis_lane *lane);

/* One command of plain words, ended by NULL, and its reply. */
int jsi_redis_ask(struct jsi_redis_lane *lane, ...);

/* ---- reply.c: never fails; what is missing reads as 0 or "" ---- */

const redisReply *jsi_redis_at(const redisReply *reply, size_t index); /* NULL: there is none */
size_t jsi_redis_count(const redisReply *reply);
int64_t jsi_redis_int(const redisReply *reply, size_t index);
uint64_t jsi_redis_unsigned(const redisReply *reply, size_t index); /* also from text */
const char *jsi_redis_text(const redisReply *reply, size_t index);
void jsi_redis_copy(const redisReply *reply, size_t index, char *out, size_t bytes);

/* ---- server.c ---- */

/* The value of a line "name:value" of what INFO answers; "" where there is none. */
void jsi_redis_info(const char *info, const char *name, char *out, size_t bytes);

/* For how long at least, by what INFO answers and its own clock, the server has run as the one that
 * it is: how far back from now nothing can have got lost. 0 where that is not known, as of one that
 * was promoted; below 0 where the clock was set back since. */
int64_t jsi_redis_uptime_ms(const char *info);

struct jsi_redis_server {
    char run[64];      /* its identity, which every start changes */
    int64_t uptime_ms; /* jsi_redis_uptime_ms() */
    int durable;       /* a restart forgets nothing that was answered */
};

/* Asks a server what it is. first: people are told what they should mend. */
int jsi_redis_inspect(struct jsi_redis_lane *lane, int first, struct jsi_redis_server *out);

/* ---- session.c ---- */

/* 0, or the failure that an error reply is; the connection is gone then. */
int jsi_redis_expect(struct jsi_redis_lane *lane);

/* Says who we are on a new connection. */
int jsi_redis_sign_in(struct jsi_redis_lane *lane);

/* Makes sure that the lane has a connection, to a server that we can use, which the node's record
 * knows. again: it must be entered anew even if it is there. */
int jsi_redis_session(struct jsi_redis_lane *lane, int again);

/* Loads the scripts into the server. */
int jsi_redis_load(struct jsi_redis_lane *lane);

/* ---- call.c ---- */

/* A script over many items. */
struct jsi_redis_job {
    enum jsi_redis_script script;
    int writes;
    size_t count; /* of items; 0: one script without any */
    /* Adds what the script gets besides the common part, for items first to first + count. */
    void (*add)(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count);
    /* Takes the reply to that. Negative: it is not as expected. */
    int (*take)(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count);
    void *data;
};

int jsi_redis_run(struct jsi_redis_lane *lane, jobsched_call *call,
                  const struct jsi_redis_job *job);

/* The next call tells the store once more what this node knows. */
void jsi_redis_assert_again(struct jsi_redis_lane *lane);

/* ---- push.c: lane KEEP ---- */

/* Takes away what was pushed. */
void jsi_redis_push_drain(struct jsi_redis_store *store);

/* Makes the subscription if there is none and it is time, within what is left of the call. */
void jsi_redis_push_tend(struct jsi_redis_store *store, int64_t left_ms);
void jsi_redis_push_close(struct jsi_redis_store *store);

/* Tells once that the user may not publish or subscribe. */
void jsi_redis_push_denied(struct jsi_redis_store *store, const char *what);

/* ---- the operations ---- */

int jsi_redis_announce(void *backend, jobsched_call *call, jobsched_announcement *items,
                       size_t count);
int jsi_redis_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count);
int jsi_redis_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count);
int jsi_redis_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms,
                    jobsched_lease *items, size_t count);
int jsi_redis_reap(void *backend, jobsched_call *call,
                   int (*visit)(const jobsched_finding *finding, void *visit_data),
                   void *visit_data);
int jsi_redis_control(void *backend, jobsched_call *call, const jobsched_command *command,
                      jobsched_control_result *out_result);
int jsi_redis_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                   jobsched_run_visit_fn visit, void *visit_data);

int jsi_redis_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count);
int jsi_redis_find(void *backend, jobsched_call *call, const char *job, const char *request,
                   jobsched_run_visit_fn visit, void *visit_data);
int jsi_redis_jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                   void *visit_data);
int jsi_redis_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                    void *visit_data);
int jsi_redis_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                    void *visit_data);
int jsi_redis_watch_fd(void *backend);

/* A mark that lies in the future stops its job until the clock has caught up: it is told. */
void jsi_redis_look_at_mark(struct jsi_redis_store *store, const char *job, int64_t mark_ms,
                            int64_t now_ms);

/* Takes a listing of heartbeats out of a reply. */
void jsi_redis_take_sights(struct jsi_redis_store *store, const redisReply *sights);

#endif
