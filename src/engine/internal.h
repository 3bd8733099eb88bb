/* internal.h: the engine's objects.
 *
 * One lock, s->lock, guards everything here that is not marked otherwise, and it is never held
 * while calling out (job, observer, backend, executor). The injected clock and allocator, and the
 * backend's vouch(), which never waits, are called with it held. zones_lock is never held together with it.
 *
 * The work is done by steps; threads.c only calls them in turn, so a simulator can, too:
 *   jsi_tick     decides what is due; run deadlines; no I/O          (tick thread)
 *   jsi_elect    announce, finish, claim: lane CLAIM                 (elector thread)
 *   jsi_keep     heartbeat, renew, reap: lane KEEP                   (keeper thread)
 *   jsi_work     calls one callback                                  (worker threads)
 *   jsi_deliver  hands one event to the observer                     (event thread)
 *
 * Functions whose name ends in _locked need s->lock held; all others take it themselves. */
#ifndef JSI_INTERNAL_H
#define JSI_INTERNAL_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mutant.h"
#include "engine/due.h"
#include "engine/limits.h"
#include "engine/replace.h"
#include "engine/timesync.h"
#include "engine/told.h"

#include <jobsched/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* One question to the backend, from the moment it is decided until it is answered. */
typedef struct jsi_ask {
    jsi_link link; /* in s->ready or s->held */
    struct jsi_job *job;
    int64_t scheduled_ms;
    int64_t after_ms;
    int64_t skip_first_ms;
    uint64_t skip_count;
    int64_t decided_ms;         /* a job's own: when jsi_decide filled it */
    int64_t not_before_mono_ms; /* in s->held: when to ask again */
    int32_t kind;               /* enum jobsched_kind or JOBSCHED_CLAIM_SKIP */
    int32_t skip_outcome;
    int32_t when_held;
    bool unresolved; /* it was sent and no answer came: ask exactly this again */
    bool extra;      /* a trigger or rerun, allocated on its own; else the job's own ask */
    char request[JOBSCHED_REQUEST_BYTES + 1];
} jsi_ask;

enum jsi_phase {
    JSI_JOB_NEW,      /* to be announced; in s->unannounced once started */
    JSI_JOB_IDLE,     /* nothing to wait for: disabled, never, removed, withdrawn */
    JSI_JOB_ARMED,    /* in s->due */
    JSI_JOB_READY,    /* its ask is in s->ready */
    JSI_JOB_CLAIMING, /* its ask is with the backend */
    JSI_JOB_ANNOUNCING,
    JSI_JOB_LOOKING, /* what is in force: in s->looking(_later), or with the backend */
    JSI_JOB_STOOD    /* another definition is in force: in s->stood */
};

typedef struct jsi_job {
    /* fixed */
    char *name;
    char *definition;
    char *text; /* of the schedule */
    char *timezone;
    const jobsched_calendar **calendars; /* the spec's list; what it names is kept by schedule */
    jobsched_schedule *schedule; /* guarded by s->lock: jobsched_zones_reload exchanges it */
    jobsched_job_spec spec;      /* its texts point to the copies above */
    int64_t lease_ms;
    int64_t delay_ms; /* of "@after D"; else 0 */

    /* guarded by s->lock */
    jsi_link link; /* in s->unannounced, s->looking, s->looking_later or s->stood */
    jsi_due_entry due;
    /* NULL: it acts under its own definition. Else generation, mark_ms, next_ms are of this one */
    jsi_predecessor *predecessor;
    jsi_ask ask;
    uint32_t references;  /* the table, each run, each extra ask, each batch it is in */
    uint32_t active_runs; /* of those in s->active */
    enum jsi_phase phase;
    double average_run_ms; /* once has_run */
    bool has_run;
    bool withdrawn;
    bool leads;                   /* the reserved job, whose run is leadership (leader.c); fixed */
    bool announced;               /* the backend may know that this node registers it */
    bool looks_again;             /* it stood down before this look */
    bool waits;                   /* next_ms was refused as held, and is to be asked again */
    bool replaces;                /* announced, and to replace what is in force, or was: pending */
    uint64_t replaced_generation; /* what was in force when it was announced */
    int64_t settles_since_ms;     /* by the backend's clock; 0: it does not */
    uint64_t generation;          /* 0: not announced yet, or another definition is in force */
    int64_t last_end_ms; /* of the last run anywhere, as far as we know; JOBSCHED_NONE: none */
    int64_t mark_ms;     /* all occurrences up to here are accounted for, as far as we know */
    int64_t next_ms;     /* the first occurrence after mark_ms; JOBSCHED_NONE when there is none */
} jsi_job;

enum jsi_run_state {
    JSI_RUN_QUEUED,  /* waits for a worker */
    JSI_RUN_CALLING, /* inside the callback */
    JSI_RUN_PENDING, /* the callback returned JOBSCHED_PENDING */
    JSI_RUN_BACKOFF, /* waits for its next attempt */
    JSI_RUN_ENDED    /* its outcome waits to be written */
};

/* jobsched_run.lease_until_mono_ms of a lease that ended: it never comes back. */
#define JSI_LEASE_LOST INT64_MIN

struct jobsched_run {
    /* fixed once granted */
    struct jobsched *s;
    jsi_job *job;
    uint64_t token;
    int64_t scheduled_ms;
    int32_t kind;
    uint32_t grant_attempt;
    int32_t recover; /* as it was claimed: enum jobsched_recover */

    /* read without the lock by jobsched_run_should_stop */
    _Atomic int64_t lease_until_mono_ms;
    _Atomic int stop_reason;
    _Atomic uint32_t attempt; /* calls of the callback so far */

    /* guarded by s->lock */
    jsi_link link;      /* in s->active */
    jsi_link work_link; /* in s->work, s->finishing */
    jsi_link stop_link; /* in s->stops */
    uint32_t references;
    enum jsi_run_state state;
    bool with_host; /* given to the executor, which has not called it yet or has */
    bool finish_called;
    bool orphan; /* jobsched_close gave up waiting: whoever ends it buries it */
    int finish_result;
    int code;
    int outcome;
    uint64_t keep_round;       /* the last heartbeat round that asked about it */
    int64_t called_at_mono_ms; /* the latest attempt; 0: never */
    int64_t timeout_at_mono_ms;
    int64_t retry_at_mono_ms;
    uint64_t progress_done, progress_total;
    char note[JOBSCHED_NOTE_BYTES + 1];
};

enum jsi_state { JSI_OPEN, JSI_STARTED, JSI_STOPPED, JSI_CLOSING };

typedef struct jsi_thread {
    pthread_t thread;
    struct jobsched *s;
    bool started, exited, abandoned;
} jsi_thread;

/* The options with defaults filled in and texts copied. */
typedef struct jsi_settings {
    char *lock, *name_space, *node_name, *app_version, *zone_directory, *overrides;
    int64_t lease_ms, request_timeout_ms, misfire_after_ms, history_age_ms;
    uint32_t workers, history_count;
    bool control_only, leader;
} jsi_settings;

/* What a definition's text tells of a job that may not be registered here. */
typedef struct jsi_definition {
    char schedule[JOBSCHED_DEFINITION_BYTES + 1];
    char timezone[JOBSCHED_DEFINITION_BYTES + 1];
    bool disabled;
    int32_t dst_gap, dst_overlap;
} jsi_definition;

enum { JSI_THREAD_TICK, JSI_THREAD_ELECT, JSI_THREAD_KEEP, JSI_THREAD_EVENT, JSI_THREAD_COUNT };

struct jobsched {
    /* fixed at open */
    jobsched_allocator allocator;
    jobsched_clock clock;
    jobsched_executor executor; /* submit is NULL: own workers */
    jobsched_observer_fn observer;
    void *observer_data;
    jsi_settings settings;
    pid_t owner; /* the process that opened it */
    char node_id[33];
    const jobsched_backend *driver;
    void *library; /* of a loaded driver */
    void *backend;
    jobsched_backend_config config;

    _Atomic int64_t vouched_mono_ms; /* as last answered, see jsi_backend_vouched_ms() */
    _Atomic uint32_t vouching;       /* calls that ask; the highest bit: no more may */

    /* Serialises the use of zones; never held together with lock. */
    pthread_mutex_t zones_lock;
    struct jsi_zone_cache *zones;

    pthread_mutex_t lock;
    /* what each waits for: something due or moved; something to ask or write; a run; an event; the
     * end of runs and threads; the admin lane */
    pthread_cond_t tick_cond, elect_cond, work_cond, event_cond, idle_cond, admin_cond;
    int keep_fd; /* the keeper sleeps on it, beside the backend's descriptor (base/wake.h) */

    /* all below guarded by lock */
    enum jsi_state state;
    uint32_t references;    /* the owner, and each run that outlives jobsched_close */
    uint32_t failures_told; /* since failures_from_mono_ms */
    jsi_map jobs;
    jsi_due due;
    jsi_link overrides; /* of override.c, oldest first */
    size_t override_count;
    jsi_link unannounced;   /* jsi_job.link */
    jsi_link looking;       /* jsi_job.link: their definitions in force are to be looked at */
    jsi_link looking_later; /* jsi_job.link: the same, from looking_later_mono_ms on */
    jsi_link stood;         /* jsi_job.link: others' definitions are in force */
    jsi_link withdrawing;   /* of announce.c: registrations to be taken back */
    int64_t look_mono_ms;   /* s->looking rests until then */
    int64_t looking_later_mono_ms;
    int64_t standby_look_mono_ms; /* when who does not lead looks again at what is to be replaced */
    size_t predecessors;          /* jobs that have one */
    int64_t stood_look_mono_ms;   /* when s->stood is looked at again */
    jsi_link ready;               /* jsi_ask.link: to be claimed, oldest first */
    jsi_link held;                /* jsi_ask.link: asks that are to be repeated at their instant */
    size_t extra_asks;

    jsi_timesync sync;
    int64_t wall_minus_mono_ms; /* as last seen by the tick: a change is a clock step */
    int64_t ticked_at_mono_ms;  /* -1: never */
    bool tick_again, elect_again, keep_now;
    bool keep_sleeps;            /* on keep_fd */
    bool leader_fresh;           /* this node has just come to lead, and has not caught up */
    bool leader_shy;             /* it was asked to hand over, or yields: others go first */
    int64_t leads_mono_ms;       /* since when it leads */
    int64_t leader_look_mono_ms; /* when it looks at all jobs again */
    bool strays; /* a job was withdrawn whose asks or runs may outlive it: a later job of its name
                    may be granted the same run "again" */

    jsi_job *leader_job;      /* NULL: no leader mode. The table holds its reference */
    jobsched_run *leader_run; /* while this node leads; in s->active */

    jsi_link active;    /* jobsched_run.link: granted and not yet in the ledger */
    jsi_link work;      /* jobsched_run.work_link: to be called */
    jsi_link finishing; /* jobsched_run.work_link: outcome to be written */
    jsi_link stops;     /* jobsched_run.stop_link: on_stop to be called */
    uint64_t active_count;
    uint64_t runs_written; /* outcomes so far: idle_cond tells of each */
    size_t claiming;       /* claims that are with the backend: each may become an active run */
    uint64_t executing;    /* runs that occupy, or wait for, a worker */
    int64_t next_run_event_mono_ms; /* no run deadline before this */
    double average_run_ms;
    uint64_t ask_factor; /* asks sent per run that there is room for */

    jsi_link events; /* struct jsi_event.link */
    size_t event_count;
    uint64_t events_lost; /* since the last EVENTS_DROPPED event */

    jsi_outage claim_outage, keep_outage, look_outage; /* of lanes CLAIM, KEEP; of looks */
    int64_t failures_from_mono_ms;                     /* since when failures_told counts */
    uint64_t failures_untold;                          /* since the last that was told */
    jsi_notices notices[JSI_NOTICE_KINDS];
    int64_t retry_at_mono_ms; /* lane CLAIM rests until then */
    int64_t beat_at_mono_ms;
    int64_t lost_at_mono_ms; /* from when on the store may pass this node's runs on, whatever their
                                  leases: nothing is claimed before a renewal succeeds.
                                  JOBSCHED_NONE: only the leases count */
    int64_t lost_told_mono_ms; /* when that was last told; INT64_MIN: never */
    uint64_t keep_round;
    bool admin_busy;
    bool events_end; /* no further event comes: the event thread may end */
    uint64_t request_counter, zone_reloads;

    jsi_thread threads[JSI_THREAD_COUNT];
    jsi_thread *workers; /* settings.workers of them, or NULL */

    jobsched_stats stats; /* counters only */

    /* the elector's own, no lock: one batch */
    jobsched_claim *claims;
    jobsched_finish *finishes;
    jobsched_announcement *announcements;
    void **batch; /* what each item is about */
    const char **names;
    jobsched_run **runs;
    /* the keeper's own, no lock: one batch */
    jobsched_lease *leases;
    jobsched_run **leased;
    char (*lease_notes)[JOBSCHED_NOTE_BYTES + 1];
};

/* ---- time --------------------------------------------------------------- */

static inline int64_t jsi_mono(const jobsched *s)
{
    return s->clock.mono_ms(s->clock.ctx);
}

static inline int64_t jsi_now_locked(const jobsched *s)
{
    return jsi_timesync_now(&s->sync, jsi_mono(s));
}

static inline int64_t jsi_earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* What becomes of an occurrence of the job while another run holds it. */
static inline int32_t jsi_when_held(const jsi_job *job)
{
    switch (jsi_policies(job)->overlap) {
    case JOBSCHED_OVERLAP_QUEUE:
        /* A long run is no reason to hold up a new definition. */
        return job->predecessor == NULL ? JOBSCHED_HELD_WAIT : JOBSCHED_HELD_SKIP;
    case JOBSCHED_OVERLAP_ALLOW:
        return JOBSCHED_HELD_ALLOW;
    default:
        return JOBSCHED_HELD_SKIP;
    }
}

/* ---- settings.c, registry.c ---------------------------------------------- */

int jsi_settings_init(jsi_settings *out_settings, const jobsched_options *options,
                      const jobsched_allocator *allocator);
void jsi_settings_fini(jsi_settings *settings, const jobsched_allocator *allocator);

/* 1 to 200 bytes of UTF-8 without control characters. */
int jsi_name_check(const char *field, const char *name);

/* Finds the driver of a URL's scheme; *out_library is to be closed after use, or NULL. */
int jsi_registry_find(const char *url, const jobsched_backend *const *given,
                      const jobsched_backend **out_driver, void **out_library);
void jsi_registry_close(void *library);

/* ---- job.c --------------------------------------------------------------- */

int jsi_job_new(jobsched *s, const jobsched_job_spec *spec, jsi_job **out_job);

/* Parses the job's schedule again, for jobsched_zones_reload. Needs the lock not held. */
int jsi_job_parse(jobsched *s, const jsi_job *job, jobsched_schedule **out_schedule);
int jsi_spec_parse(jobsched *s, const jobsched_job_spec *spec, jobsched_schedule **out_schedule);

/* Gives back one reference, and frees the job (calling user_data_free) with the last. Needs the
 * lock NOT held. */
void jsi_job_release(jobsched *s, jsi_job *job);

/* What the functions below, and jsi_definition_understand(), can make a job of. */
int jsi_spec_check(const jobsched_job_spec *spec);

/* Waits for the next occurrence after job->mark_ms, if there is anything to wait for. */
void jsi_job_rearm_locked(jobsched *s, jsi_job *job);

/* Enters a job in the table, to be announced. The table takes over the caller's reference. */
int jsi_job_enter_locked(jobsched *s, jsi_job *job);

/* Takes a job out of whatever it waits for. */
void jsi_job_disarm_locked(jobsched *s, jsi_job *job);

/* ---- definition.c -------------------------------------------------------- */

int jsi_definition_make(const jobsched *s, jsi_job *job); /* sets job->definition */
/* Makes a predecessor of the job out of the text of a definition. Fails for want of memory only.
 * Needs the lock not held, and a reference to the job. */
int jsi_definition_understand(jobsched *s, const jsi_job *job, const char *text,
                              jsi_predecessor **out_predecessor);
/* Never fails: what the text does not tell is "" and 0. */
void jsi_definition_read(const char *text, jsi_definition *out_definition);
/* The next occurrence of a job of the cluster by a definition. Needs the lock not held. */
int64_t jsi_definition_next(jobsched *s, const jsi_definition *definition,
                            const jobsched_job_record *record);

/* ---- override.c ------------------------------------------------------------ */

/* Reads the file that the settings name. */
int jsi_overrides_read(jobsched *s);
/* Changes a spec that has all fields; its texts are then borrowed from the scheduler. */
int jsi_override_apply(jobsched *s, jobsched_job_spec *spec);
void jsi_override_tell_unknown_locked(jobsched *s);
void jsi_overrides_fini(jobsched *s);

/* ---- decide.c ------------------------------------------------------------ */

/* Fills job->ask with what to ask about job->next_ms at this instant. Pure. */
void jsi_decide(const jobsched *s, jsi_job *job, int64_t now_ms);

/* The stable delay of an occurrence, below spec.jitter_ms. */
int64_t jsi_jitter(const jsi_job *job, int64_t scheduled_ms);

/* ---- tick.c -------------------------------------------------------------- */

/* Returns the monotonic instant at which it wants to be called again. */
int64_t jsi_tick(jobsched *s);

/* ---- elect.c, announce.c, fire.c, answer.c, ask.c -------------------------------------------- */

/* One round. Returns true if there may be more to do at once; else *out_again_mono_ms is when to
 * look again without being woken (JOBSCHED_NONE: never). */
bool jsi_elect(jobsched *s, int64_t *out_again_mono_ms);

/* announce.c: further rounds, which return how much was done. */
size_t jsi_withdraw(jobsched *s);
size_t jsi_announce(jobsched *s);
size_t jsi_look(jobsched *s);
int64_t jsi_look_pause_locked(const jobsched *s, int code); /* after one that ended so */
/* When jsi_look() wants to be called again; JOBSCHED_NONE: not by itself. */
int64_t jsi_look_next_locked(const jobsched *s);
/* Another definition is, or may be, in force: looks which. The job waits for nothing else. */
void jsi_look_locked(jobsched *s, jsi_job *job);
/* kind: the event that tells it, with this message (NULL: not told). */
void jsi_stand_down_locked(jobsched *s, jsi_job *job, int kind, const char *message);
int64_t jsi_stood_span_ms(const jobsched *s);
/* The job was withdrawn here: the backend is told, too. */
void jsi_withdrawn_locked(jobsched *s, const jsi_job *job);
void jsi_withdrawals_fini(jobsched *s);

/* Claims what is due and starts what is granted, as one batch. Returns how many were asked. */
size_t jsi_fire(jobsched *s);

/* The backend failed: lane CLAIM rests, longer each time. */
void jsi_rest_locked(jobsched *s);

/* Whether this node has a run for a grant already: the claim was repeated, or asked for twice. */
bool jsi_run_is_active_locked(const jobsched *s, const jsi_ask *ask, uint64_t token);

/* Applies one answered claim. run is the prepared run of a claim that asked for one; returns
 * true if it was used. */
bool jsi_answer_locked(jobsched *s, jsi_ask *ask, const jobsched_claim *claim, jobsched_run *run,
                       int64_t sent_mono_ms);

/* Queues a trigger or rerun of a job of this node, unless it is queued already. */
int jsi_ask_extra_locked(jobsched *s, jsi_job *job, int kind, int64_t scheduled_ms,
                         const char *request);
/* Forgets an ask that needs no answer any more. Returns a job whose reference the caller must
 * release once the lock is dropped, or NULL. */
jsi_job *jsi_ask_drop_locked(jobsched *s, jsi_ask *ask);
/* Forgets everything that is due; what has an unknown outcome stays until it is known. */
void jsi_ask_drop_due_locked(jobsched *s);
/* A run of this job ended here: whatever waits for that is asked again at once. */
void jsi_ask_kick_locked(jobsched *s, jsi_job *job);

/* ---- leader.c ------------------------------------------------------------ */

#define JSI_RESERVED_PREFIX "jobsched:"
bool jsi_is_reserved(const char *job);
int jsi_reserved_check(const char *job);

int jsi_leader_init(jobsched *s);
/* Whether this node may look at what is due: without leader mode each may. */
bool jsi_leads_locked(const jobsched *s);
void jsi_leader_granted_locked(jobsched *s, jobsched_run *run);
void jsi_leader_stopped_locked(jobsched *s, jobsched_run *run, int reason);
/* Lets others lead, at once. */
void jsi_leader_resign_locked(jobsched *s);
/* Waits for job->next_ms, unless this node leads. */
void jsi_leader_arm_locked(jobsched *s, jsi_job *job);
/* Who leads lets others lead where it has not all definitions in force. */
void jsi_leader_yield_locked(jobsched *s);
int64_t jsi_leader_next_locked(const jobsched *s); /* when this or jsi_leader_refresh() is due */
/* Rounds of the elector: catches up with what others did while they led; and looks now and then. */
size_t jsi_leader_catch_up(jobsched *s);
size_t jsi_leader_refresh(jobsched *s);

/* ---- keep.c -------------------------------------------------------------- */

/* One round, if it is time. Returns when to look again. */
int64_t jsi_keep(jobsched *s);

/* The store told that it may pass this node's runs on from that instant; a renewal succeeded. */
void jsi_keep_lost_locked(jobsched *s, int64_t lost_at_mono_ms);
void jsi_keep_alive_locked(jobsched *s);
/* Whether the backend vouches for this node's runs; if it does not, that is as if it had told. */
bool jsi_keep_is_vouched_locked(jobsched *s);
bool jsi_keep_may_claim_locked(jobsched *s);
/* Whether a claim sent then may have been granted to a node that was taken for dead since. */
bool jsi_keep_is_doubtful_locked(jobsched *s, int64_t sent_mono_ms);

/* ---- run.c, end.c, call_job.c, work.c, room.c ------------------------------------- */

jobsched_run *jsi_run_new(jobsched *s);               /* one reference, no job yet */
void jsi_run_release(jobsched *s, jobsched_run *run); /* needs the lock not held */

/* Makes a prepared run an active one. */
void jsi_run_granted_locked(jobsched *s, jobsched_run *run, jsi_job *job,
                            const jobsched_claim *claim, int64_t sent_mono_ms);
/* Queues a granted run, or its next attempt, for a worker. Needs the lock not held. */
void jsi_run_submit(jobsched *s, jobsched_run *run);
void jsi_run_renewed_locked(jobsched *s, jobsched_run *run, int64_t sent_mono_ms);
/* Ends all leases before that instant, unless they are renewed first. */
void jsi_run_lost_locked(jobsched *s, int64_t lost_at_mono_ms);
void jsi_run_stop_locked(jobsched *s, jobsched_run *run, int reason);
/* The tick must look at the runs again at this instant. */
void jsi_run_expect_locked(jobsched *s, int64_t at_mono_ms);
/* Timeouts, lease ends, retries that are due; puts retries on *out_retries (work_link). */
void jsi_run_deadlines_locked(jobsched *s, int64_t mono_ms, jsi_link *out_retries);
/* A callback, or jobsched_run_finish, gave a result. */
void jsi_run_result_locked(jobsched *s, jobsched_run *run, int result);
/* The outcome is written (or refused): the run leaves the node. The caller releases the run once
 * the lock is dropped. */
void jsi_run_written_locked(jobsched *s, jobsched_run *run, int answer, int64_t now_ms);

/* Frees an orphaned run that has ended, and its share of the scheduler. Needs the lock not held. */
void jsi_run_bury(jobsched *s, jobsched_run *run);
/* Gives one attempt of a queued run to the callback, on the calling thread. */
void jsi_run_execute(jobsched *s, jobsched_run *run);

int jsi_call_run(jobsched_run *run);
void jsi_call_stop(jobsched_run *run, int reason);
void jsi_call_user_data_free(const jobsched_job_spec *spec);
/* Whether the calling thread is inside a callback or observer of this scheduler. */
bool jsi_call_is_inside(const jobsched *s);
/* Around calls out: enter returns what leave is to restore. */
const jobsched *jsi_call_enter(const jobsched *s);
void jsi_call_leave(const jobsched *before);

/* Executes one run of the own workers' queue. Returns false if there was none. */
bool jsi_work(jobsched *s);

/* Milliseconds of callbacks that this node should still claim; 0: none. */
double jsi_room_ms_locked(const jobsched *s);
/* What a run of the job is expected to take of that. */
double jsi_cost_ms(const jobsched *s, const jsi_job *job);
/* An attempt of the run has just ended. */
void jsi_room_learn_locked(jobsched *s, const jobsched_run *run);

/* ---- observer.c ----------------------------------------------------------- */

/* An event with the fields that most share filled in. job and run may be NULL. */
jobsched_event jsi_event(int kind, const jsi_job *job, const jobsched_run *run);
void jsi_emit_locked(jobsched *s, const jobsched_event *event);
void jsi_emit(jobsched *s, const jobsched_event *event);
bool jsi_deliver(jobsched *s);
void jsi_events_fini(jobsched *s);

/* ---- backend_call.c -------------------------------------------------------- */

/* Each also samples the clock, counts, and tells observers when the backend fails or is back.
 * Needs the lock not held. */
int jsi_backend_open(jobsched *s);
void jsi_backend_close(jobsched *s);
int jsi_backend_announce(jobsched *s, jobsched_announcement *items, size_t count);
int jsi_backend_claim(jobsched *s, jobsched_claim *items, size_t count, uint64_t grants_max);
int jsi_backend_finish(jobsched *s, jobsched_finish *items, size_t count, int64_t *out_now_ms);
int jsi_backend_renew(jobsched *s, int64_t clock_offset_ms, jobsched_lease *items, size_t count);
int jsi_backend_reap(jobsched *s, int (*visit)(const jobsched_finding *finding, void *visit_data),
                     void *visit_data);
/* The backend's descriptor to poll between calls on lane KEEP, or -1. The keeper's thread. */
int jsi_backend_watch(jobsched *s);
/* Until when runs may rely on their leases (G5); asks only if what was answered last is over. Any
 * thread, with or without the lock, also after jobsched_close. */
int64_t jsi_backend_vouched_ms(const jobsched *s, int64_t mono_ms);
/* Lets nobody ask any more. Returns whether nobody does, in time. */
bool jsi_backend_close_vouch(jobsched *s, int64_t wait_ms);
int jsi_backend_control(jobsched *s, const jobsched_command *command,
                        jobsched_control_result *out_result);
int jsi_backend_runs(jobsched *s, const char *job, uint64_t limit, jobsched_run_visit_fn visit,
                     void *visit_data);
int jsi_backend_find(jobsched *s, const char *job, const char *request, jobsched_run_visit_fn visit,
                     void *visit_data);
/* As jsi_backend_jobs, but told as an outage, and JSI_ADMIN_BUSY where others use the lane. */
#define JSI_ADMIN_BUSY 1
int jsi_backend_look(jobsched *s, const char *job, jobsched_job_visit_fn visit, void *visit_data);
int jsi_backend_withdraw(jobsched *s, const char *const *jobs, size_t count);
int jsi_backend_jobs(jobsched *s, const char *job, jobsched_job_visit_fn visit, void *visit_data);
int jsi_backend_nodes(jobsched *s, jobsched_node_visit_fn visit, void *visit_data);
int jsi_backend_check(jobsched *s, jobsched_check_visit_fn visit, void *visit_data);
int jsi_backend_schema(const jobsched_backend *driver, const char *url,
                       jobsched_text_visit_fn visit, void *visit_data);

/* ---- threads.c, api.c ------------------------------------------------------ */

/* Starts all threads, or none. */
int jsi_threads_start(jobsched *s);
/* In state JSI_CLOSING: waits at most wait_ms for the threads to end. Those that did not are
 * abandoned: they hold a reference to the scheduler and give it back when they end. Returns how
 * many. */
size_t jsi_threads_join(jobsched *s, int64_t wait_ms);
/* The same for the event thread, which goes on until then, to tell of all ends. */
size_t jsi_events_join(jobsched *s, int64_t wait_ms);
/* Waits until no call is on the admin lane, and lets none in any more. Returns whether that came
 * about in time. */
bool jsi_backend_close_admin(jobsched *s, int64_t wait_ms);

void jsi_wake_tick_locked(jobsched *s);
void jsi_wake_elect_locked(jobsched *s);
void jsi_wake_keep_locked(jobsched *s);
/* Lets the keeper look again at when its next beat is. */
void jsi_poke_keep_locked(jobsched *s);

/* Copies a caller's struct into one of this library's size: fields the caller does not know are
 * zero, fields this library does not know must be zero. */
int jsi_copy_struct(const char *what, void *out_struct, size_t out_bytes, const void *given);

int jsi_request_check(const char *request);
int jsi_timeout_check(int64_t timeout_ms);

/* First thing in every public call on a scheduler: EINVAL for NULL, EFORK in a child. */
int jsi_enter(const jobsched *s);
/* Drops all runs, asks and jobs. With the last reference only: nobody may be using them. */
void jsi_scheduler_empty(jobsched *s);
/* Frees the scheduler with the last reference. Needs the lock not held. */
void jsi_scheduler_release(jobsched *s);

#endif
