/* world.h: the cluster, its clocks, its network and its troubles, in one process and one thread.
 * True time is world->now_ms; every other clock is computed from it. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "sim/arena.h"
#include "sim/check.h"
#include "sim/fiber.h"
#include "sim/model.h"
#include "sim/random.h"
#include "sim/walk.h"

#include <jobsched/backend.h>

#include <stdio.h>

/* 2027-01-15T08:00:00Z. */
#define SIM_BEGIN_MS INT64_C(1800000000000)

enum {
    SIM_NODES_MAX = 16,
    SIM_DEFS = 4, /* the last is an override of the first */
    SIM_EPISODES_MAX = 1024,
    SIM_REQUEST_TIMEOUT_MS = 1000,
    SIM_NOTICE_MS = 20
};

/* The kinds of trouble: name, text. */
#define SIM_TROUBLE_MAP(X)                                                                         \
    X(LATENCY, "latency")           /* round trips of up to the request timeout */                 \
    X(LOST_REQUEST, "lost-request") /* never arrives; the outcome is unknown */                    \
    X(LOST_REPLY, "lost-reply")     /* took effect; the outcome is unknown */                      \
    X(LATE, "late")                 /* takes effect after the client has given up */               \
    X(DUPLICATE, "duplicate")       /* takes effect twice */                                       \
    X(ERRORS, "errors")             /* refused with some code, nothing changed */                  \
    X(OUTAGE, "outage")             /* the server answers nobody */                                \
    X(PARTITION, "partition")       /* it does not answer some */                                  \
    X(SERVER_CLOCK, "server-clock") /* its clock is stepped, both ways */                          \
    X(FAILOVER, "failover")         /* it forgets its latest part */                               \
    X(SESSION, "session")           /* it drops the session of a live node */                      \
    X(NODE_CLOCK, "node-clock")     /* a node's wall clock is stepped, both ways */                \
    X(FREEZE, "freeze")             /* a process stands still, its clocks go on */                 \
    X(CRASH, "crash")               /* at any step, also amid a request */                         \
    X(RESTART, "restart")           /* clean: stop, drain, close, open */                          \
    X(ROLLOUT, "rollout")           /* new schedules node by node, sometimes back */               \
    X(CONTROL, "control")           /* pause, resume, trigger, cancel, remove */                   \
    X(STARVE, "starve")             /* a node's threads get their turn late */                     \
    X(SLOW_REPLY, "slow-reply")     /* replies take most of the request timeout */                 \
    X(SUSPEND, "suspend")           /* a machine sleeps: its monotonic clock runs on, its          \
                                       session ends, its wall clock is wrong when it wakes */

enum sim_trouble {
#define SIM_TROUBLE_ENUM_(name, text) SIM_##name,
    SIM_TROUBLE_MAP(SIM_TROUBLE_ENUM_)
#undef SIM_TROUBLE_ENUM_
        SIM_TROUBLES
};
#define SIM_ALL_TROUBLES ((1u << SIM_TROUBLES) - 1)

enum sim_mix { SIM_DENSE, SIM_SPARSE, SIM_YEAR };

struct sim_config {
    uint64_t seed;
    enum sim_mix mix;
    int nodes, jobs; /* 0: as the mix says */
    int64_t horizon_ms;
    int64_t quiet_ms;    /* after it, without trouble */
    uint32_t pool;       /* the kinds that are drawn for stretches of trouble */
    uint32_t troubles;   /* those of them that happen */
    const char *dropped; /* SIM_EPISODES_MAX characters, '1': the episode does not happen */
    const char *without; /* the same for jobs: '1': the job is not registered */
    FILE *trace;         /* NULL: none */
};

/* One definition of a job. */
struct sim_def {
    struct walk walk;
    char text[256];
    int64_t jitter_ms, grace_ms, timeout_ms, lease_ms;
    int64_t run_low_ms, run_high_ms; /* how long its callback takes */
    uint32_t misfire_limit, recover_limit, attempts;
    int32_t misfire, overlap, recover;
    int fail_percent;
    bool stubborn; /* its callback does not stop when asked */
};

struct sim_job {
    char name[16];
    bool versioned;
    bool overridden; /* each second revision is an operator's, by settings */
    struct sim_def defs[SIM_DEFS];
};

/* One stretch of trouble. */
struct sim_episode {
    int64_t at_ms, until_ms;
    uint32_t kinds;
    uint32_t nodes; /* that it concerns, as bits */
    int percent;    /* of requests */
    uint64_t salt;
};

struct sim_node;

/* One call of a callback that goes on. */
struct sim_exec {
    struct sim_exec *next;
    jobsched_run *run;
    int job;
    uint64_t token;
    int64_t began_ms, until_ms;
    int result;
    bool told; /* that its lease is lost */
};

/* A callback's user data. */
struct sim_registration {
    struct sim_node *node;
    int job, revision;
};

enum sim_lane { SIM_ELECT, SIM_KEEP, SIM_ADMIN, SIM_LANES };
enum sim_wait { SIM_FREE, SIM_REQUEST, SIM_REPLY };
enum sim_operation {
    SIM_ANNOUNCE,
    SIM_CLAIM,
    SIM_FINISH,
    SIM_RENEW,
    SIM_REAP,
    SIM_CONTROL_CALL,
    SIM_RUNS,
    SIM_JOBS
};

struct sim_request {
    enum sim_operation operation;
    jobsched_call *call;
    void *items;
    size_t count;
    jobsched_control_result *result;
    int code;
    uint64_t nonce, epoch;
    char (*texts)[MODEL_REQUEST_BYTES]; /* of findings */
    const char *job;                    /* asked about; NULL: all */
};

struct sim_thread {
    struct fiber fiber;
    enum sim_wait wait;
    bool busy, more;
    bool broken;        /* its connection was ended while it waits */
    uint64_t ticket;    /* of the wait: what else comes for an older one is void */
    int64_t again_ms;   /* monotonic: when the step wants to be called */
    int64_t starved_ms; /* true time: it does not get its turn before */
    struct sim_request request;
};

enum sim_state { SIM_DOWN, SIM_UP, SIM_DRAINING, SIM_CLOSING };

struct sim_node {
    struct sim_world *world;
    int index;
    enum sim_state state;
    uint64_t number; /* of the process: it grows over all nodes */
    int release;
    char name[32];
    char url[32];

    int64_t wall_offset_ms, mono_base_ms;
    int64_t ppm;

    struct arena arena;
    jobsched_allocator allocator;
    jobsched *s;
    struct model_handle *handle;
    struct sim_registration registrations[MODEL_JOBS_MAX];
    struct sim_exec *execs;
    struct sim_thread threads[SIM_LANES];
    struct model_view views[MODEL_JOBS_MAX]; /* what it was told last */
    struct check_stand stands[MODEL_JOBS_MAX];
    struct check_unknown unknown[CHECK_UNKNOWN];
    enum sim_lane running; /* the thread whose fiber runs */
    int64_t next_ms;       /* true time: when it wants to be looked at, but for heartbeats */
    int64_t beat_ms;       /* true time: its next heartbeat */
    int64_t look_ms;       /* true time: when it looks again at what it stands down for */
    int64_t tick_starved_ms, work_starved_ms; /* as for threads */
    int64_t thaw_ms;                          /* frozen until then; 0: not frozen */
    int64_t drain_until_ms, drain_ask_ms;     /* true time */
    bool asked_to_stop, closed;               /* while it leaves */
    int64_t contact_ms;                       /* last contact with the server, true time */
    int64_t lost_at_ms; /* monotonic: its session was seen to end, and its grace with it */
    int crash_in;       /* steps to a crash; 0: none */
    int freeze_in;      /* steps to a standstill; 0: none */
    int64_t freeze_ms;  /* how long it will last */
    bool crashes;       /* amid a step: as soon as the thread has yielded */
    int wanted_release; /* after the restart */
    int64_t down_ms;    /* how long it stays down */
    struct {
        int verb, job;
        char request[24];
    } commands[16];
    size_t command_at, command_count;
};

enum sim_event_kind {
    SIM_EVENT_RESUME,  /* number: a process; a: lane, b: ticket */
    SIM_EVENT_MESSAGE, /* a request whose client has given up or died */
    SIM_EVENT_EXEC,    /* number: a process; a: job, b: token */
    SIM_EVENT_LOOK,    /* number: a process */
    SIM_EVENT_OPEN,    /* a: node */
    SIM_EVENT_BEGIN,   /* a: episode */
    SIM_EVENT_END,     /* a: episode */
    SIM_EVENT_ACT      /* a: episode, b: what, c: node */
};

struct sim_event {
    int64_t at_ms;
    uint64_t order;
    enum sim_event_kind kind;
    int a, c;
    uint64_t b, number;
    void *data;
};

struct sim_world {
    struct sim_config config;
    int64_t now_ms, server_offset_ms, end_ms;
    int64_t lease_ms;
    bool led;     /* leader mode */
    bool vouches; /* the store's driver tells whether the session is there still */
    int base_latency_ms;
    struct sim_job jobs[MODEL_JOBS_MAX];
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_episode episodes[SIM_EPISODES_MAX];
    int episode_count;
    struct model model;
    struct model_handle *handles;
    struct check check;
    struct sim_random random; /* for what happens on the way */

    struct sim_event *heap;
    size_t heap_count, heap_capacity;
    uint64_t order;
    uint64_t process_number, request_number;
    int *releases; /* of each process, by its number */
    size_t release_capacity;

    int active[SIM_TROUBLES]; /* how many episodes of the kind go on */
    int percent;              /* of requests, while an episode goes on */
    uint32_t cut;             /* nodes that do not reach the server */
    int64_t trouble_ms;       /* when trouble was last seen */
    int64_t disturbed_ms;     /* the same, or a control call */
    int release;

    uint64_t hash;
    uint64_t steps, requests, runs, skips, occurrences, injected[SIM_TROUBLES];
    int violations;
    char violation[512]; /* the first */
};

/* ---- time ----------------------------------------------------------------------- */

int64_t sim_true_ms(const struct sim_world *world);
int64_t sim_server_ms(const struct sim_world *world);
int64_t sim_mono_ms(const struct sim_node *node);
/* The true time at which a node's monotonic clock shows an instant. */
int64_t sim_true_of_mono(const struct sim_node *node, int64_t mono_ms);

/* ---- plan.c, world.c -------------------------------------------------------------- */

void sim_plan(struct sim_world *world);
int sim_revision(const struct sim_world *world, int job, int release);
const struct sim_def *sim_def_of(const struct sim_world *world, int job, int revision);
/* Whether the revision is the first definition with a setting changed: its key and value. */
bool sim_override_of(const struct sim_world *world, int job, int revision, char out_key[40],
                     const char **out_value);
uint64_t sim_version_of(const struct sim_world *world, int job, int revision);
const char *sim_job_name(const struct sim_world *world, int job);

void sim_world_init(struct sim_world *world, const struct sim_config *config);
void sim_world_run(struct sim_world *world);
void sim_world_fini(struct sim_world *world);

void sim_push(struct sim_world *world, struct sim_event event);
void sim_note(struct sim_world *world, const char *what, uint64_t a, uint64_t b, uint64_t c);
void sim_violation(struct sim_world *world, const char *guarantee, const char *format, ...)
    JOBSCHED_PRINTF(3, 4);
/* Trouble goes on or has just been: what must happen in time is counted from here. */
void sim_trouble_now(struct sim_world *world);
/* What a process was built from, also when it is no more. */
int sim_release_of(const struct sim_world *world, uint64_t number);
bool sim_process_is_over(const struct sim_world *world, uint64_t number);
struct sim_node *sim_node_of_process(struct sim_world *world, uint64_t number);

/* ---- trouble.c --------------------------------------------------------------------- */

void sim_episode_begin(struct sim_world *world, int episode);
void sim_episode_end(struct sim_world *world, int episode);
void sim_act(struct sim_world *world, const struct sim_event *event);

/* ---- node.c, turns.c, run.c ----------------------------------------------------------------- */

void sim_node_init(struct sim_world *world, int index);
void sim_node_fini(struct sim_node *node);
void sim_node_open(struct sim_node *node);
void sim_node_crash(struct sim_node *node, int64_t down_ms);
/* The process is no more; another one comes after node->down_ms. */
void sim_node_over(struct sim_node *node);
void sim_node_restart(struct sim_node *node, int64_t down_ms, int release);
/* The node sees that its session has ended, as it would on a descriptor. */
void sim_node_session_lost(struct sim_node *node);
void sim_node_freeze(struct sim_node *node, int64_t span_ms);
/* Calls all steps until none has anything left to do now. */
void sim_node_settle(struct sim_node *node);
void sim_node_command(struct sim_node *node, int verb, int job, const char *request);
void sim_node_resume(struct sim_node *node, enum sim_lane lane);
/* Whether its heartbeats may be passed over: they would only say the same again. */
bool sim_node_is_quiet(const struct sim_node *node);
bool sim_node_is_frozen(const struct sim_node *node);
/* What a callback is told that asks now whether its lease is lost. Who was told stays told. */
bool sim_run_is_told(struct sim_world *world, uint64_t number, int job, uint64_t token);
int sim_run_callback(jobsched_run *run, void *user_data);
void sim_run_stop(jobsched_run *run, int reason, void *user_data);
void sim_exec_due(struct sim_node *node, int job, uint64_t token);
void sim_execs_drop(struct sim_node *node);
/* All callbacks of the node look whether they should stop. */
void sim_execs_look(struct sim_node *node);
bool sim_run_goes_on(struct sim_world *world, uint64_t number, int job, uint64_t token);

/* ---- driver.c, net.c ---------------------------------------------------------------- */

const jobsched_backend *const *sim_drivers(void);
/* Carries a request there and its answer back, through all trouble. */
int sim_carry(struct sim_node *node, enum sim_lane lane, struct sim_request *request);
/* The atomic step itself. */
void sim_perform(struct model_handle *handle, struct sim_request *request);
/* The client of the request is no more: what is on the way arrives, or not. */
void sim_detach(struct sim_node *node, const struct sim_request *request, int64_t arrives_ms);
void sim_message_arrive(struct sim_world *world, void *data, bool arrives);

#endif
