/* jobsched/job.h: what a job is, and what its callback can ask and tell.
 * Included by <jobsched.h>. */
#ifndef JOBSCHED_JOB_H
#define JOBSCHED_JOB_H

#include <jobsched/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Jobs and runs ------------------------------------------------------ */

typedef struct jobsched jobsched;         /* one scheduler: one node of the cluster */
typedef struct jobsched_run jobsched_run; /* one execution of a callback under one grant */

/* A job. Returns 0 for success, JOBSCHED_ECANCELED when it stopped because it was
 * asked to, JOBSCHED_PENDING to end later through jobsched_run_finish(), and any
 * other value for failure. Runs on a worker thread with all signals blocked. */
typedef int (*jobsched_run_fn)(jobsched_run *run, void *user_data);

/* Told once when a run is first asked to stop (see jobsched_run_should_stop), on
 * the event thread while the run goes on. Optional. */
typedef void (*jobsched_stop_fn)(jobsched_run *run, int reason, void *user_data);

enum jobsched_misfire {
    JOBSCHED_MISFIRE_ONCE = 0, /* default: once some were missed, only the latest that is due, if
                                  within the grace; it stands for all before it */
    JOBSCHED_MISFIRE_SKIP = 1, /* none of the missed occurrences */
    JOBSCHED_MISFIRE_ALL = 2   /* each missed occurrence, oldest first, at most misfire_limit */
};

enum jobsched_overlap {
    JOBSCHED_OVERLAP_SKIP = 0,  /* default: an occurrence due while a run goes on is skipped */
    JOBSCHED_OVERLAP_QUEUE = 1, /* the latest such occurrence waits for the run to end */
    JOBSCHED_OVERLAP_ALLOW = 2  /* runs of the job may overlap */
};

enum jobsched_recover {
    JOBSCHED_RECOVER_LEAVE = 0, /* default: an interrupted run stays interrupted (at most once) */
    JOBSCHED_RECOVER_RERUN = 1  /* it is run again under a larger token (at least once) */
};

/* Why an occurrence is fired. */
#define JOBSCHED_KIND_MAP(X)                                                                       \
    X(SCHEDULED, 0, "scheduled")                                                                   \
    X(CATCH_UP, 1, "catch-up") X(TRIGGER, 2, "trigger") X(RERUN, 3, "rerun")

enum jobsched_kind {
#define JOBSCHED_KIND_ENUM_(name, number, text) JOBSCHED_KIND_##name = (number),
    JOBSCHED_KIND_MAP(JOBSCHED_KIND_ENUM_)
#undef JOBSCHED_KIND_ENUM_
};
JOBSCHED_API const char *jobsched_kind_name(int kind);

/* How an occurrence ended; what the ledger says. The numbers are stored. */
#define JOBSCHED_OUTCOME_MAP(X)                                                                    \
    X(WAITING, 0, "waiting")                                                                       \
    X(RUNNING, 1, "running")                                                                       \
    X(SUCCEEDED, 2, "succeeded")                                                                   \
    X(FAILED, 3, "failed")                                                                         \
    X(CANCELLED, 4, "cancelled")                                                                   \
    X(TIMED_OUT, 5, "timed-out")                                                                   \
    X(LEASE_LOST, 6, "lease-lost")                                                                 \
    X(INTERRUPTED, 7, "interrupted")                                                               \
    X(SKIPPED_OVERLAP, 8, "skipped-overlap")                                                       \
    X(SKIPPED_PAUSED, 9, "skipped-paused")                                                         \
    X(SKIPPED_MISFIRE, 10, "skipped-misfire")

enum jobsched_outcome {
#define JOBSCHED_OUTCOME_ENUM_(name, number, text) JOBSCHED_OUTCOME_##name = (number),
    JOBSCHED_OUTCOME_MAP(JOBSCHED_OUTCOME_ENUM_)
#undef JOBSCHED_OUTCOME_ENUM_
};
JOBSCHED_API const char *jobsched_outcome_name(int outcome);

/* Why a run is asked to stop; 0 means it is not. */
#define JOBSCHED_STOP_MAP(X)                                                                       \
    X(NONE, 0, "none")                                                                             \
    X(LEASE_LOST, 1, "lease-lost")                                                                 \
    X(CANCELLED, 2, "cancelled")                                                                   \
    X(TIMED_OUT, 3, "timed-out")                                                                   \
    X(SHUTDOWN, 4, "shutdown")

enum jobsched_stop_reason {
#define JOBSCHED_STOP_ENUM_(name, number, text) JOBSCHED_STOP_##name = (number),
    JOBSCHED_STOP_MAP(JOBSCHED_STOP_ENUM_)
#undef JOBSCHED_STOP_ENUM_
};
JOBSCHED_API const char *jobsched_stop_reason_name(int reason);

#define JOBSCHED_NAME_BYTES 200 /* longest job, namespace or node name */

typedef struct jobsched_job_spec {
    size_t struct_size;
    const char *name;     /* required: the job's only identity in the cluster; 1 to 200 bytes of
                             UTF-8 without control characters */
    const char *schedule; /* required: see jobsched_schedule_parse. The key of its H and ~ is
                             "NAMESPACE/NAME" */
    const char *timezone; /* NULL: UTC */
    jobsched_run_fn run;  /* required */
    void *user_data;
    void (*user_data_free)(void *user_data); /* after the last run; NULL: not freed */
    jobsched_stop_fn on_stop;                /* NULL: none */
    uint64_t version; /* of the definition; the highest in the cluster is in force. 0: unversioned,
                         the latest different registration is in force */
    int32_t misfire;  /* enum jobsched_misfire */
    int32_t overlap;  /* enum jobsched_overlap */
    int32_t recover;  /* enum jobsched_recover */
    uint32_t misfire_limit;   /* for MISFIRE_ALL: 0 is 100; at most 10,000 */
    int64_t misfire_grace_ms; /* for MISFIRE_ONCE: how late is too late; 0: never too late */
    uint32_t recover_limit;   /* for RECOVER_RERUN: reruns of one occurrence; 0 is 3; at most 100 */
    uint32_t attempts;        /* calls of the callback in one run until it succeeds; 0 is 1; at most
                                 1,000 */
    int64_t backoff_ms;     /* before the second attempt, doubling up to backoff_max_ms; 0 is 1 s */
    int64_t backoff_max_ms; /* 0 is 60 s */
    int64_t timeout_ms;     /* after which the run is asked to stop; 0: none */
    int64_t jitter_ms;      /* delays each occurrence by a stable pseudo-random span below this, and
                            never beyond the next occurrence; 0: none */
    int64_t lease_ms;       /* 0: that of the scheduler. One that is not a few request timeouts
                            long can be lost to a single slow request */
    int32_t disabled;       /* not 0: registered, never due by its schedule; can be triggered */
    int32_t allow_never;    /* not 0: accept a schedule that can never match */
    int32_t dst_gap;        /* enum jobsched_dst_gap */
    int32_t dst_overlap;    /* enum jobsched_dst_overlap */
    const jobsched_calendar *const *calendars; /* exclusions, ended by NULL; NULL: none. All must
                                                  include an instant. Kept as long as needed */
    int32_t calendar_policy;                   /* enum jobsched_calendar_policy */
    int32_t reserved;
} jobsched_job_spec;

/* ---- Inside a run ------------------------------------------------------- */

/* Borrowed, valid while the run is. */
JOBSCHED_API const char *jobsched_run_job(const jobsched_run *run);
JOBSCHED_API int64_t jobsched_run_scheduled_at_ms(const jobsched_run *run);
JOBSCHED_API int jobsched_run_kind(const jobsched_run *run);

/* 1 for the first call of the callback in this run. */
JOBSCHED_API uint32_t jobsched_run_attempt(const jobsched_run *run);

/* The fencing token: larger than that of every earlier grant of this job. Hand it
 * to the systems the job writes to, so that they can refuse an older one. */
JOBSCHED_API uint64_t jobsched_run_token(const jobsched_run *run);

/* How long the lease lasts, by this machine's monotonic clock; 0 once lost. The
 * scheduler renews it while the run goes on. It ends sooner if the store loses the
 * proof that this node lives (postgresql: its session, and a short grace): so ask
 * jobsched_run_should_stop() again between steps, however long this says. */
JOBSCHED_API int64_t jobsched_run_lease_left_ms(const jobsched_run *run);

/* 0, or the reason (enum jobsched_stop_reason) why the run should end now. Once
 * it is not 0 it stays so; JOBSCHED_STOP_LEASE_LOST overrides other reasons and
 * is told before any other node can be granted the job. Cheap: call it often. */
JOBSCHED_API int jobsched_run_should_stop(const jobsched_run *run);

/* A line that is kept in the ledger with the run (cut at 200 bytes). */
JOBSCHED_API int jobsched_run_note(jobsched_run *run, const char *text);
JOBSCHED_API int jobsched_run_progress(jobsched_run *run, uint64_t done, uint64_t total);

/* Ends a run whose callback returned JOBSCHED_PENDING, with what the callback
 * would have returned. Exactly once, from any thread, also before the callback
 * has returned. The run must not be used afterwards. */
JOBSCHED_API int jobsched_run_finish(jobsched_run *run, int result);

#ifdef __cplusplus
}
#endif

#endif
