/* campaign.h: a cluster under attack, and its own idea of the truth. Everything is on one thread. */
#ifndef CAMPAIGN_CAMPAIGN_H
#define CAMPAIGN_CAMPAIGN_H

#include "fleet.h"
#include "rollout_judge.h"

#include "support/proxy.h"

enum {
    SLOTS = 4, /* nodes that live at a time */
    STABLE = 96,
    PAUSED = 4, /* the last of the stable ones: they are paused and resumed */
    ROLLED = 6, /* their schedule changes with each roll-out */
    TRIGGERED = 3,
    ROLLOUTS_MAX = ROLLED_VERSIONS_MAX,
    PAUSES_MAX = 10000,
    REQUESTS_MAX = 20000,
    LEASE_MS = 3000
};

enum { ROLLOUTS_ONLY = 1000 };

enum fault {
    FAULT_KILL = 1, /* not 0, so that it can be an option's value */
    FAULT_FREEZE,
    FAULT_LEAVE,
    FAULT_CUT,
    FAULT_TRAP,
    FAULT_HOLE,
    FAULT_DROP,
    FAULT_SLOW,
    FAULT_FORGET_SERVER,
    FAULT_FORGET_CLIENT,
    FAULT_SESSIONS,
    FAULT_SERVER_KILL,
    FAULT_SERVER_FREEZE,
    FAULT_STORE_LOCK,
    FAULTS
};

typedef struct slot {
    fleet_node *node;
    proxy *link; /* NULL: none */
    char url[320];
    int fault; /* what it suffers; -1: nothing */
    int64_t until_ms;
} slot;

typedef struct paused {
    char job[24];
    uint64_t token;
    int64_t from_us, to_us;
} paused;

typedef struct campaign {
    fleet *f;
    uint64_t random;
    int only;       /* a fault, ROLLOUTS_ONLY, or -1: everything */
    size_t scanned; /* records */
    int open_runs[FLEET_NODES_MAX];
    slot slots[SLOTS];
    int store_fault; /* of the store or its server; -1: none */
    int64_t store_until_ms;
    void *lock;
    fleet_node *leaving[FLEET_NODES_MAX];
    size_t leaving_count;
    uint64_t faults[FAULTS];
    uint64_t not_left; /* processes that were asked to leave and had to be killed */
    /* jobs: first the stable ones, then the rolled, then the triggered */
    check_job jobs[STABLE + ROLLED + TRIGGERED];
    char version_text[32];
    /* roll-outs */
    rollout_cuts cuts[ROLLED];
    size_t observed;
    size_t version;
    size_t roll_left;     /* slots that still have the one before */
    int64_t roll_from_ms; /* monotonic: when the first of them gets the new one */
    bool rolled[SLOTS];
    /* control */
    jobsched *control;
    int pause_state[PAUSED];
    int64_t pause_until_ms[PAUSED];
    paused pauses[PAUSES_MAX];
    size_t pause_count;
    size_t pause_open[PAUSED];
    char requests[REQUESTS_MAX][16];
    size_t request_count;
    bool request_pending;
    uint64_t cancels, control_failures;
} campaign;

uint64_t campaign_random(campaign *c, uint64_t below);

/* chaos.c: nodes and what happens to them. */
void chaos_begin(campaign *c);
void chaos_step(campaign *c); /* ends faults that are over, begins others */
/* One kind only, often: KILL (of nodes in the midst of a run), CUT, SESSIONS, SERVER_KILL (and its
 * start at once). */
void chaos_step_only(campaign *c);
void chaos_reap(campaign *c);
void chaos_heal(campaign *c);
void chaos_end(campaign *c); /* all nodes leave */
const char *chaos_name(int fault);
void chaos_replace(campaign *c, size_t i, bool kill); /* by a node of the jobs file as it is */
void chaos_fell(campaign *c); /* kills all nodes; the slots are empty until they are replaced */

/* rollout.c */
void rollout_jobs(campaign *c); /* writes the jobs file of the version */
void rollout_step(campaign *c);
void rollout_finish(campaign *c);  /* what is left of a roll-out; no slot suffers anything */
void rollout_observe(campaign *c); /* notes which version of one of them is in force */

/* control.c */
void control_begin(campaign *c);
void control_step(campaign *c);
void control_heal(campaign *c); /* resumes all, until it is answered */
typedef struct control_report {
    uint64_t pauses, pause_faults, triggers, trigger_faults, cancelled;
} control_report;
void control_judge(campaign *c, const check_row *rows, size_t count, control_report *out);

#endif
