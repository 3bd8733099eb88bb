/* check.h: the checker: what must hold whatever happened (G1 to G10, G14, G15, and that the ledger is
 * the schedule). It has its own idea of schedules (walk.h), definitions, pauses and marks, never
 * calls the engine but to ask a run what any callback may ask, and is told what happened by two
 * witnesses: the store, at each atomic step, and the callbacks. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/model.h"

enum { CHECK_RUNS_MAX = 200, CHECK_RECENT = 64, CHECK_UNKNOWN = 64 };

/* A grant, until it is forgotten: its row is closed, and its callback has ended. */
struct check_run {
    uint64_t token, number;
    int64_t scheduled_ms, lease_ms;
    int64_t granted_ms, started_ms, ended_ms, over_ms, cancel_ms; /* true time; 0: not yet */
    int32_t result;
    bool closed;    /* its row is no longer RUNNING */
    bool forgotten; /* closed by a failover, so its owner may not know yet */
    bool retries;   /* its callback has ended, but not for the last time */
    bool overlaps;  /* it may go on beside others */
};

struct check_trigger {
    char request[MODEL_REQUEST_BYTES];
    bool granted, resolved;
    int64_t sent_ms, accepted_ms; /* 0: not known to be */
};

struct check_cut {
    uint64_t token;
    int64_t scheduled_ms, at_ms;
    int told;
    bool excused; /* the store forgot whether it had told */
};

struct check_begin {
    uint64_t token;
    int64_t scheduled_ms;
    int kind;
};

/* What was said of a job, and what a failover may bring back. */
struct check_said {
    bool known;
    int revision; /* of the definition in force */
    uint64_t version;
};

struct check_job {
    struct check_said said, copied;
    int64_t mark_ms; /* all up to here is accounted for */
    int64_t last_end_ms;
    uint64_t token;
    /* A call has returned, and nothing was sent since that takes it back. */
    bool paused, removed;
    int64_t paused_ms, removed_ms, resume_sent_ms, pause_sent_ms, remove_sent_ms, cancel_sent_ms,
        changed_ms;
    size_t run_count, trigger_at, cut_at, begin_at;
    struct check_run runs[CHECK_RUNS_MAX];
    struct check_trigger triggers[CHECK_RECENT];
    struct check_cut cuts[CHECK_RECENT];
    struct check_begin begins[CHECK_RECENT];
};

/* What a process said, or was answered, of a job's definition. */
struct check_stand {
    bool put;         /* it was told that its own is in force */
    bool settles;     /* it asked to replace the one in force, and was told to wait */
    int64_t stood_ms; /* it told that it stands down; 0: it does not */
    int64_t asked_ms; /* when it was first answered that it has to wait; 0: never */
};

/* A claim whose outcome its process does not know. */
struct check_unknown {
    bool used;
    int32_t kind;
    int64_t scheduled_ms;
    char job[16], request[24];
};

struct check_leader {
    uint64_t number, token;
    int64_t over_ms; /* 0: not yet */
};

struct check {
    struct check_leader leader;
    struct check_job jobs[MODEL_JOBS_MAX];
    int64_t server_high_ms; /* the latest the server's clock has shown */
    int64_t behind_ms;      /* when it was last seen behind that */
    int64_t copied_ms;      /* what comes back in a failover is of this time */
    int64_t forgot_ms;      /* when it last came back */
    bool forgets;           /* it is coming back */
};

struct sim_world;
struct sim_node;
struct sim_def;

/* From the store, at each atomic step. */
void check_announced(struct sim_world *world, int job, uint64_t number,
                     const jobsched_announcement *item, bool replaces);
void check_granted(struct sim_world *world, int job, uint64_t number, const jobsched_claim *claim,
                   const char *request);
void check_skipped(struct sim_world *world, int job, int64_t first_ms, int64_t last_ms,
                   uint64_t count, int32_t outcome, uint64_t number);
void check_ended(struct sim_world *world, int job, const struct model_row *row, int32_t outcome);
/* Its owner ended it as interrupted, so nobody tells it of another. */
void check_said_itself(struct sim_world *world, int job, uint64_t token);
void check_copied(struct sim_world *world);
void check_forgot(struct sim_world *world, bool begins);

/* From the processes. */
void check_began(struct sim_world *world, int job, uint64_t number, const jobsched_run *run);
void check_returned(struct sim_world *world, int job, uint64_t number, const jobsched_run *run,
                    int result);
/* The answer has arrived. */
void check_answered(struct sim_node *node, const jobsched_announcement *items, size_t count);
/* Around a request that claims: in leader mode nobody else does. */
void check_claims(struct sim_node *node, const jobsched_claim *claims, size_t count);
void check_claimed(struct sim_node *node, const jobsched_claim *claims, size_t count, int code);
void check_process_over(struct sim_world *world, uint64_t number);
void check_event(struct sim_world *world, uint64_t number, const jobsched_event *event);
void check_control_sent(struct sim_world *world, int verb, int job, const char *request);
void check_control_done(struct sim_world *world, int verb, int job, const char *request, int code);

/* At the end, after the quiet time. */
void check_end(struct sim_world *world);

/* For check_*.c. */
const struct sim_def *check_def_in_force(const struct sim_world *world, int job);
int check_revision_of(const struct sim_world *world, int job, uint64_t number);
void check_definition(struct sim_world *world, int job, uint64_t number);
void check_definitions_forgot(struct sim_world *world);
void check_definitions_end(struct sim_world *world);
void check_stands(struct sim_world *world, uint64_t number, const jobsched_event *event);
void check_led(struct sim_world *world, uint64_t number, uint64_t token);
void check_led_over(struct sim_world *world, uint64_t number);
void check_leader_forgot(struct sim_world *world);
void check_leader_end(struct sim_world *world);
struct check_run *check_run_of(struct check_job *job, uint64_t token);
struct check_trigger *check_trigger_of(struct check_job *job, const char *request);
/* Forgets a run that nothing can be said of any more. */
void check_sweep(struct check_job *job, struct check_run *run);
/* How long a dead owner can go unnoticed where there is no trouble. */
int64_t check_notice_ms(const struct sim_world *world, int64_t lease_ms);
/* Whether that much time has passed since an instant, and without trouble. */
bool check_is_overdue(const struct sim_world *world, int64_t since_ms, int64_t span_ms);

#endif
