/* jobsched/scheduler.h: the scheduler: options, life, control, questions.
 * Included by <jobsched.h>. */
#ifndef JOBSCHED_SCHEDULER_H
#define JOBSCHED_SCHEDULER_H

#include <jobsched/event.h>
#include <jobsched/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The scheduler ------------------------------------------------------ */

typedef struct jobsched_options {
    size_t struct_size;
    const char *lock; /* URL of the lock backend: "single:" (default), "sqlite:/path/to/file.db",
                          or another scheme that is registered or installed */
    const char *name_space;      /* separates users of one backend; NULL: "default" */
    const char *node_name;       /* shown to people; NULL: host name and process id */
    const char *app_version;     /* of the application, shown in the list of nodes; NULL: "" */
    int64_t lease_ms;            /* 0 is 30 s; 300 ms to 1 h */
    int64_t request_timeout_ms;  /* bound of one backend request; 0 is a sixth of the lease, at most
                                   5 s */
    int64_t misfire_after_ms;    /* an occurrence later than this is missed; 0 is 10 s */
    uint32_t workers;            /* threads that run callbacks; 0 is 4; at most 1,024 */
    uint32_t history_count;      /* ledger rows kept per job; 0 is 1,000; at most 10,000,000 */
    int64_t history_age_ms;      /* ledger rows older than this go too; 0 is 30 days */
    const jobsched_clock *clock; /* NULL: the operating system's */
    const jobsched_allocator *allocator; /* NULL: malloc */
    const jobsched_executor *executor;   /* NULL: own worker threads */
    jobsched_observer_fn observer;       /* NULL: none */
    void *observer_data;
    const struct jobsched_backend *const
        *backends;              /* drivers tried after single: and before those that can be loaded,
                                   ended by NULL; for static linking and for backends of your own
                                   (jobsched/backend.h). NULL: none */
    const char *zone_directory; /* zone files are looked for here first; NULL: only in TZDIR and
                                   /usr/share/zoneinfo */
    const char *overrides;      /* file of "job.NAME.KEY = VALUE" lines, each as a call of
                                   jobsched_override(); NULL: none */
    int32_t control_only;       /* not 0: asks and commands only. It enters no node, and
                                   jobsched_add() and jobsched_start() answer ESTATE */
    int32_t leader; /* not 0: leader mode. Only the node that leads the namespace claims;
                                   the others stand by. All nodes should say the same */
} jobsched_options;

/* Sets one option from text, by the name that docs/settings.md lists ("lease",
 * "30s"). The text is borrowed: it must stay valid until jobsched_open().
 * EINVAL  unknown key, or a value that is not allowed; the error names both. */
JOBSCHED_API int jobsched_set(jobsched_options *options, const char *key, const char *value);

/* Sets every option whose environment variable is present (JOBSCHED_LOCK,
 * JOBSCHED_LEASE, ...). The environment must not change until jobsched_open(). */
JOBSCHED_API int jobsched_set_from_environment(jobsched_options *options);

/* As jobsched_set, for a job ("timeout", "5m"). Borrowed until jobsched_add(). */
JOBSCHED_API int jobsched_job_set(jobsched_job_spec *spec, const char *key, const char *value);

/* Opens a scheduler and its lock backend; creates or migrates the backend's
 * schema. Blocks at most request_timeout_ms or so. Nothing fires before
 * jobsched_start(). options may be NULL.
 * EINVAL      an option is out of its range.
 * ENOBACKEND  unknown scheme, or its library is not installed; the text says which.
 * ENOTFOUND   control_only, and there is no store yet.
 * EUNREACHABLE, EACCESS, ESCHEMA, EDATALOST, EFULL  as the backend says. */
JOBSCHED_API int jobsched_open(const jobsched_options *options, jobsched **out_scheduler);

/* Random, 32 hexadecimal digits, another for each open scheduler: as node records show it.
 * Borrowed, valid as long as the scheduler. */
JOBSCHED_API const char *jobsched_node_id(const jobsched *scheduler);

/* Overrides one setting of a job that is registered later, from text: "job.NAME.schedule",
 * "0 4 * * *"; the keys behind NAME are those of jobsched_job_set(), without "name". What comes
 * later replaces what came before, the file of options.overrides included. The cluster sees an
 * edited definition, so all nodes should say the same. Overrides of jobs that are not registered
 * when the scheduler is started are told by OVERRIDE_UNKNOWN.
 * EINVAL, EPARSE  the key or the value; the error names both and what is allowed.
 * ESTATE          the job is registered already. */
JOBSCHED_API int jobsched_override(jobsched *scheduler, const char *key, const char *value);

/* Registers a job on this node and, while started, announces and arms it. Strings
 * in spec are copied; user_data is handed to user_data_free after the last run (and
 * stays the caller's when this call fails).
 * out_next_at_ms (may be NULL) receives the first instant after now at which the
 * schedule is due. May be called from a callback. The clock for "after now" is
 * this node's; the cluster may know of a missed earlier occurrence.
 * EINVAL  also for names that begin with "jobsched:", which are reserved.
 * EEXIST  a job of that name is registered on this scheduler.
 * EPARSE  the schedule; see jobsched_last_error().
 * ENEVER  the schedule can never match and allow_never is not set. */
JOBSCHED_API int jobsched_add(jobsched *scheduler, const jobsched_job_spec *spec,
                              int64_t *out_next_at_ms);

/* Reads zone data anew, as after an update of the system's: every job of this node goes on from
 * its mark by the new data. (Calendars keep the data they were parsed with.) Blocks for reading.
 * Jobs whose zone cannot be read keep the data they have, and the first such error is returned. */
JOBSCHED_API int jobsched_zones_reload(jobsched *scheduler);

/* Unregisters a job on this node only: it is no longer offered here, while other
 * nodes that registered it go on. A run that goes on here is not disturbed.
 * May be called from a callback.
 * ENOTFOUND  no such job here. */
JOBSCHED_API int jobsched_withdraw(jobsched *scheduler, const char *job);

/* Starts ticking; returns at once. Starting twice is harmless.
 * ESTATE  after jobsched_stop(), a scheduler is not started again.
 * EOS     a thread could not be created; nothing was started. */
JOBSCHED_API int jobsched_start(jobsched *scheduler);

/* Stops ticking and claiming; returns at once. Runs go on. May be called from a
 * callback. */
JOBSCHED_API int jobsched_stop(jobsched *scheduler);

/* Stops, then waits until every run of this node has ended and is in the ledger,
 * at most timeout_ms. Runs that are still going on in the last fifth of that
 * time (at most 5 s) are asked to stop with JOBSCHED_STOP_SHUTDOWN.
 * ETIMEDOUT   runs remain; jobsched_last_error() names them, and observers get
 *             one RUN_LEFT event each.
 * EREENTRANT  called from a callback of this scheduler. */
JOBSCHED_API int jobsched_drain(jobsched *scheduler, int64_t timeout_ms);

/* Stops, waits a short bounded time for library threads, leaves the cluster, and
 * releases the handle, which must not be used afterwards; other threads must
 * have left all calls on it. Call jobsched_drain() first for a clean end: a run
 * that still goes on is told JOBSCHED_STOP_LEASE_LOST, is recorded as
 * interrupted, and what it holds is freed when its callback returns.
 * ETIMEDOUT   the handle is released, but callbacks still go on.
 * EREENTRANT  called from a callback of this scheduler; nothing was released. */
JOBSCHED_API int jobsched_close(jobsched *scheduler);

/* Makes the scheduler look at its clock and queues again. Calls coalesce.
 * Needed only after moving an injected clock. */
JOBSCHED_API int jobsched_wakeup(jobsched *scheduler);

/* ---- Control ------------------------------------------------------------ */

/* What a control call achieved. */
typedef struct jobsched_control_result {
    size_t struct_size;
    int32_t changed;     /* 0: the job was already so */
    int32_t running;     /* a run goes on; the fields below tell of it */
    uint64_t token;      /* pause: no later grant has a larger one until resume */
    int64_t since_at_ms; /* when that run was granted */
    uint64_t run_token;
    char node[JOBSCHED_NAME_BYTES + 1]; /* where it runs */
    char reserved[7];
} jobsched_control_result;

/* These act on the job in the whole cluster, in the same atomic place as the
 * claim, also for jobs that other nodes registered. They block for at most the
 * request timeout. out_result may be NULL, else JOBSCHED_INIT it.
 * ENOTFOUND     the cluster knows no such job.
 * EUNREACHABLE, EUNKNOWN and the other backend codes: nothing is promised. */

/* No occurrence is granted from now on; due ones are recorded as skipped. */
JOBSCHED_API int jobsched_pause(jobsched *scheduler, const char *job,
                                jobsched_control_result *out_result);
JOBSCHED_API int jobsched_resume(jobsched *scheduler, const char *job,
                                 jobsched_control_result *out_result);

/* Fires the job once, now, apart from its schedule, on some node that has it. A
 * request id (1 to 100 bytes, NULL: a fresh one) makes a repeated call harmless:
 * the same id never fires twice. A paused job is not triggered: ESTATE. While a run of
 * the job goes on, its overlap policy decides: it is skipped (the default), waits, or
 * runs beside it; the ledger says which. */
JOBSCHED_API int jobsched_trigger(jobsched *scheduler, const char *job, const char *request,
                                  jobsched_control_result *out_result);

/* Asks the job's runs to stop, wherever they are (JOBSCHED_STOP_CANCELLED), by
 * their node's next heartbeat. */
JOBSCHED_API int jobsched_cancel(jobsched *scheduler, const char *job,
                                 jobsched_control_result *out_result);

/* Removes the job from the cluster: no node is granted an occurrence again until
 * somebody registers it with a larger version after that; a node that had asked
 * for its larger version before, and waits for what is due by the one in force,
 * has not. Also withdraws it here. */
JOBSCHED_API int jobsched_remove(jobsched *scheduler, const char *job,
                                 jobsched_control_result *out_result);

/* ---- Questions ---------------------------------------------------------- */

/* When the job is due next on this node; JOBSCHED_NONE when never.
 * ENOTFOUND  no such job here. */
JOBSCHED_API int jobsched_next_run(jobsched *scheduler, const char *job, int64_t *out_at_ms);

/* In leader mode (jobsched_options.leader): 1 while this node leads, by this machine's monotonic
 * clock and so before any other node can lead; else 0, also without leader mode. Changes are told
 * by LEADER_GAINED and LEADER_LOST. Who leads holds the only run of the job "jobsched:leader":
 * jobsched_cancel() of it makes the leader hand over. */
JOBSCHED_API int jobsched_is_leader(jobsched *scheduler);

/* Runs and waiting work of this node. */
typedef struct jobsched_stats {
    size_t struct_size;
    uint64_t jobs;        /* registered here */
    uint64_t runs_active; /* granted and not yet in the ledger */
    uint64_t granted, succeeded, failed, cancelled, timed_out, lease_lost; /* runs since open */
    uint64_t skipped;        /* occurrences this node recorded as skipped */
    uint64_t elsewhere;      /* claims that another node had won */
    uint64_t claim_requests; /* round trips */
    uint64_t backend_errors;
    uint64_t events_dropped;
    int64_t clock_offset_ms;  /* the backend's clock minus this node's wall clock */
    int64_t last_tick_age_ms; /* since the tick last looked; -1 before the first */
    int32_t backend_ok;       /* the last request was answered */
    int32_t reserved;
} jobsched_stats;
JOBSCHED_API int jobsched_stats_read(jobsched *scheduler, jobsched_stats *out_stats);

/* One row of the ledger: one occurrence, or a counted range of skipped ones. */
typedef struct jobsched_run_record {
    const char *job;
    const char *node;        /* "" when never granted */
    const char *note;        /* what the run reported last, or "" */
    const char *request;     /* of a trigger, or "" */
    int64_t scheduled_at_ms; /* the first, for a range */
    int64_t last_at_ms;      /* the last, for a range; else as scheduled_at_ms */
    uint64_t count;          /* occurrences in the row: 1 but for ranges */
    uint64_t token;
    int64_t started_at_ms;  /* granted; JOBSCHED_NONE when never */
    int64_t finished_at_ms; /* JOBSCHED_NONE while running or waiting */
    uint64_t progress_done, progress_total;
    uint32_t attempt; /* grants of this occurrence: 1, more after reruns */
    int32_t kind;     /* enum jobsched_kind */
    int32_t outcome;  /* enum jobsched_outcome */
    int32_t code;     /* what the callback returned */
} jobsched_run_record;

/* Return 0 to go on, anything else to end the listing. Texts are valid during
 * the call only. Must not call jobsched. */
typedef int (*jobsched_run_visit_fn)(const jobsched_run_record *record, void *user_data);

/* Reads the cluster's ledger: the rows of one job (NULL: all), newest first, at
 * most limit (0 is 100). Blocks for at most the request timeout. */
JOBSCHED_API int jobsched_runs(jobsched *scheduler, const char *job, uint64_t limit,
                               jobsched_run_visit_fn visit, void *user_data);

/* One job of the cluster, as the backend knows it. */
typedef struct jobsched_job_record {
    const char *job;
    const char *definition; /* in force: lines of "key=value"; for reading, never parse it */
    const char *schedule;   /* in force; "" when the definition does not tell */
    const char *timezone;   /* "" is UTC */
    uint64_t version;
    uint64_t generation;
    uint64_t token;     /* the last one granted; 0: none yet */
    int64_t mark_at_ms; /* the latest occurrence that is accounted for */
    int64_t next_at_ms; /* the next after it by the definition in force; JOBSCHED_NONE: never, or
                            paused, removed or disabled */
    int64_t last_end_at_ms; /* of the last run; JOBSCHED_NONE: none ended yet */
    int32_t paused;
    int32_t removed;  /* a tombstone */
    uint64_t nodes;   /* live nodes that register it; 0 and not removed: it is orphaned */
    uint64_t dissent; /* those of them whose definition is not the one in force */
    uint64_t running; /* runs that go on */
    uint64_t waiting; /* triggers that wait */
    /* the newest row of the ledger that has ended */
    int32_t has_last;
    int32_t last_outcome; /* enum jobsched_outcome */
    int64_t last_scheduled_at_ms;
    int64_t last_started_at_ms; /* JOBSCHED_NONE: never granted */
    int64_t last_finished_at_ms;
    const char *last_node; /* "" when never granted */
    /* one of the runs that go on */
    const char *running_node; /* "" when none does */
    int64_t running_since_at_ms;
    uint64_t running_token;
} jobsched_job_record;
typedef int (*jobsched_job_visit_fn)(const jobsched_job_record *record, void *user_data);

/* Tells of all jobs of the cluster, sorted by name, tombstones included, or of one job. Those with
 * reserved names (as "jobsched:leader") are told of only by their name. Visitors as in
 * jobsched_runs(). next_at_ms does not regard calendars, unless this scheduler registers
 * the same definition: only who registers a job has them. Blocks for at most the request timeout.
 * ENOTFOUND  the cluster knows no such job.
 * ENOTSUP    the backend cannot tell. */
JOBSCHED_API int jobsched_jobs(jobsched *scheduler, const char *job_or_null,
                               jobsched_job_visit_fn visit, void *user_data);

/* Waits until the trigger of this request id (jobsched_trigger) has ended, and visits its row of
 * the ledger once. An interrupted one has ended, also where it is to be run again.
 * ENOTFOUND   there is no such trigger of the job, or it is too old for the ledger.
 * ETIMEDOUT   it still waits or runs.
 * EREENTRANT  called from a callback, which it may be waiting for.
 * ENOTSUP     the backend cannot tell.
 * EUNREACHABLE, EUNKNOWN  as in the last try: it is tried until the time is over. */
JOBSCHED_API int jobsched_wait(jobsched *scheduler, const char *job, const char *request,
                               int64_t timeout_ms, jobsched_run_visit_fn visit, void *user_data);

/* One live node of the cluster. */
typedef struct jobsched_node_record {
    const char *id; /* random per start */
    const char *name;
    const char *app_version;
    int64_t since_at_ms;
    int64_t beat_at_ms;      /* its last heartbeat, by the backend's clock */
    int64_t clock_offset_ms; /* the backend's clock minus the node's, as the node measured it */
    uint64_t jobs;           /* that it registers */
    uint64_t runs;           /* that go on there */
    uint64_t dissent;        /* jobs that it registers with a definition that is not in force */
} jobsched_node_record;
typedef int (*jobsched_node_visit_fn)(const jobsched_node_record *record, void *user_data);

/* Tells of all nodes that are not known to be dead, sorted by name. Visitors as in
 * jobsched_runs(). Blocks for at most the request timeout. ENOTSUP as in jobsched_jobs(). */
JOBSCHED_API int jobsched_nodes(jobsched *scheduler, jobsched_node_visit_fn visit, void *user_data);

/* One thing that was looked at. */
typedef struct jobsched_check_record {
    const char *id; /* stable, like "redis.eviction" */
    int32_t level;  /* INFO: it is well. WARNING: it should be mended. ERROR: it must be */
    int32_t reserved;
    const char *message; /* one line: what was found, and what to do about it */
} jobsched_check_record;
typedef int (*jobsched_check_visit_fn)(const jobsched_check_record *record, void *user_data);

/* Looks for what an operator should know or mend: in the backend (its own ids), and in the
 * cluster: "cluster.clock" (a node's clock is far off), "cluster.dissent" (nodes disagree on a
 * definition), "cluster.orphaned" (nobody registers a job, or nobody as it is in force),
 * "cluster.future-mark" (a job is accounted for up to an instant that is still to come). One
 * visit at least for each thing that was looked at, also when it is well. Visitors as in
 * jobsched_runs(). Blocks for a few request timeouts at most. */
JOBSCHED_API int jobsched_check(jobsched *scheduler, jobsched_check_visit_fn visit,
                                void *user_data);

typedef int (*jobsched_text_visit_fn)(const char *text, void *user_data);

/* Visits the statements that create or bring up to date the schema of what a lock URL names, in
 * their order, for those whose administrator must apply them. Opens nothing. There is no
 * scheduler here that could have options, so drivers are looked for among single: and those that
 * can be loaded; whoever links a driver statically, or has one of its own, calls the driver's
 * schema() instead, which needs no open store either (<jobsched/backend.h>, for example
 * jobsched_backend_postgresql()->schema(url, visit, user_data)).
 * ENOTSUP     a backend without a schema.
 * ENOBACKEND  as jobsched_open(). */
JOBSCHED_API int jobsched_schema(const char *url, jobsched_text_visit_fn visit, void *user_data);

#ifdef __cplusplus
}
#endif

#endif
