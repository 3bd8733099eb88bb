/* model.h: a lock backend as small as the contract (jobsched/backend.h) allows, in memory: the
 * reference against which the engine is simulated. Written from the contract's comments; shares no
 * code with src/backends. It knows nothing of the network: an operation here is the atomic step.
 *
 * Who is alive: a node's session, if the world has sessions, proves by its end that the process is
 * gone (after a grace); else a holder is dead when its heartbeat stood still for the run's whole
 * lease on the asker's monotonic clock.
 *
 * A failover that forgets brings back an older copy: a new epoch (the high part of tokens), a floor
 * (marks move up to it), a quarantine of the longest lease, runs of the copy are interrupted, and
 * every node has to announce its jobs again. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <jobsched/backend.h>

#include <stdbool.h>

enum {
    MODEL_JOBS_MAX = 64, /* one of them is that which is led */
    MODEL_OPEN_MAX = 96,
    MODEL_TRIGGERS_MAX = 32, /* the model's JOBSCHED_WAITING_MAX */
    MODEL_CLOSED_KEPT = 32,
    MODEL_NODES_MAX = 96,
    MODEL_REQUEST_BYTES = 64,
    MODEL_EPOCH_BITS = 40
};

struct model_row {
    int64_t first_ms, last_ms;
    uint64_t count, token;
    int64_t started_ms, lease_ms;
    uint64_t owner; /* a node's number */
    uint32_t attempt, recover_limit;
    int32_t kind, outcome, code, recover;
    bool cancel, untold, wants_rerun;
    char request[MODEL_REQUEST_BYTES];
};

struct model_fence {
    bool exists, paused, removed, paused_range;
    char definition[JOBSCHED_DEFINITION_BYTES + 1];
    uint64_t version, generation, token;
    int64_t mark_ms, last_end_ms;
    int64_t paused_last_ms; /* end of the paused range that may grow */
    size_t open_count;
    struct model_row open[MODEL_OPEN_MAX]; /* RUNNING, WAITING, and INTERRUPTED with news in it */
    size_t closed_at, request_at;          /* of rings */
    struct model_row closed[MODEL_CLOSED_KEPT];
    char requests[MODEL_CLOSED_KEPT][MODEL_REQUEST_BYTES]; /* of triggers that have ended */
};

struct model_node {
    uint64_t number; /* 0: a free place */
    uint64_t beat;
    bool session;
    int64_t gone_at_ms; /* when its session ended, by true time */
    char name[32];
};

struct model_state {
    uint64_t epoch;
    int64_t quarantine_until_ms; /* true time */
    size_t fence_count;
    struct model_fence fences[MODEL_JOBS_MAX];
};

/* What a reader is told of a fence: it may change while the answer is on its way. */
struct model_view {
    jobsched_job_record record;
    char definition[JOBSCHED_DEFINITION_BYTES + 1];
};

struct sim_world;
struct model {
    struct sim_world *world;
    struct model_state now;
    struct model_state *copy; /* what a failover brings back */
    struct model_node nodes[MODEL_NODES_MAX];
    int64_t grace_ms; /* -1: no sessions */
    int64_t lease_max_ms;
    size_t news; /* rows that reap() may have to tell of, at least; a hint for skipping */
};

/* One process's view. Outlives it: a request may arrive late. */
struct model_handle {
    struct model_handle *next;
    struct model *model;
    uint64_t number;
    int64_t (*mono_ms)(void *ctx);
    void *ctx;
    bool left;
    uint64_t nonce_sent[JOBSCHED_LANE_COUNT], nonce_seen[JOBSCHED_LANE_COUNT];
    uint64_t announced[MODEL_JOBS_MAX]; /* epoch + 1 in which it announced the job */
    struct {
        uint64_t number, beat;
        int64_t since_mono_ms;
    } seen[MODEL_NODES_MAX];
};

/* Enters and leaves; leaving interrupts what still runs. */
void model_enter(struct model *model, struct model_handle *handle, const char *name);
void model_leave(struct model *model, struct model_handle *handle);

void model_announce(struct model_handle *handle, jobsched_call *call, jobsched_announcement *items,
                    size_t count);
void model_claim(struct model_handle *handle, jobsched_call *call, jobsched_claim *items,
                 size_t count);
void model_finish(struct model_handle *handle, jobsched_call *call, jobsched_finish *items,
                  size_t count);
void model_renew(struct model_handle *handle, jobsched_call *call, jobsched_lease *items,
                 size_t count);
/* Returns how many findings there are. */
size_t model_reap(struct model_handle *handle, jobsched_call *call, jobsched_finding *findings,
                  size_t limit);
int model_control(struct model_handle *handle, jobsched_call *call, const jobsched_command *command,
                  jobsched_control_result *out_result);
/* What the fences say now: fills at most limit views, and returns how many; 0 where the job is
 * given and there is none. */
size_t model_jobs(struct model_handle *handle, jobsched_call *call, const char *job,
                  struct model_view *views, size_t limit);
int model_runs(struct model_handle *handle, jobsched_call *call, const char *job, uint64_t limit,
               jobsched_run_visit_fn visit, void *visit_data);

/* What the world does to it. */
void model_session_end(struct model *model, uint64_t number);
void model_copy(struct model *model);
void model_failover(struct model *model);

/* For model_*.c. */
struct model_fence *model_fence_of(struct model *model, const char *job);
int model_index(const struct model *model, const char *job);
struct model_node *model_node_of(struct model *model, uint64_t number);
bool model_is_dead(struct model_handle *handle, const struct model_row *row);
void model_interrupt(struct model *model, struct model_fence *fence, struct model_row *row);
/* Ends a row: it leaves the open ones unless there is news in it. */
void model_end(struct model *model, struct model_fence *fence, struct model_row *row,
               int32_t outcome);
void model_close(struct model_fence *fence, struct model_row *row);
struct model_row *model_add(struct model *model, struct model_fence *fence);
void model_settle(struct model_handle *handle, struct model_fence *fence);
bool model_known_request(const struct model_fence *fence, const char *request);
bool model_rerun_due(const struct model_row *row);
void model_beat(struct model_handle *handle);

#endif
