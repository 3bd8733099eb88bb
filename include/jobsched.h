/* jobsched.h: the contract with applications.
 *
 * jobsched runs cron and interval jobs exactly once across all instances of a
 * service. What this header does not declare is not API.
 *
 * Conventions
 *  - Results are 0 (JOBSCHED_OK) or a negative JOBSCHED_E... code. The detail of
 *    the last failure on the calling thread is jobsched_last_error().
 *  - Instants are milliseconds since 1970-01-01T00:00:00Z (names end in _at_ms or
 *    _ms as documented); spans are milliseconds (names end in _ms).
 *  - Structs that the caller fills begin with struct_size; call JOBSCHED_INIT()
 *    on them. Zero in any other field means the documented default, for ever.
 *  - Outputs come last, are named out_*, and stay untouched on failure.
 *  - A returned const pointer is borrowed. A handle given through out_* is yours
 *    and has a function to release it; releasing NULL does nothing.
 *  - Every function may be called from any thread unless it says otherwise.
 *  - After fork() the child must not use handles of its parent: every call on
 *    them answers JOBSCHED_EFORK. A child that needs a scheduler of its own execs
 *    first, or is forked before the parent opens one: a client library may not
 *    survive a fork, and then jobsched_open() answers JOBSCHED_EFORK, too. */
#ifndef JOBSCHED_H
#define JOBSCHED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define JOBSCHED_API                         __attribute__((visibility("default")))
#define JOBSCHED_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define JOBSCHED_API
#define JOBSCHED_PRINTF(format_at, first_at)
#endif

#define JOBSCHED_VERSION_MAJOR 0
#define JOBSCHED_VERSION_MINOR 1
#define JOBSCHED_VERSION_PATCH 0
#define JOBSCHED_VERSION       "0.1.0"

/* The version of the library that runs, which may differ from JOBSCHED_VERSION
 * (the version of the header that was compiled in). */
JOBSCHED_API const char *jobsched_version(void);

/* Clears a struct and stamps its size, so that a later library knows which
 * fields the caller was compiled with. */
#define JOBSCHED_INIT(pointer)                                                                     \
    (memset((pointer), 0, sizeof *(pointer)), (void)((pointer)->struct_size = sizeof *(pointer)))

/* ---- Results ------------------------------------------------------------ */

/* One table makes code, name and text. The numbers are ABI. */
#define JOBSCHED_ERROR_MAP(X)                                                                      \
    X(OK, 0, "success")                                                                            \
    X(EINVAL, -1, "invalid argument")                                                              \
    X(ENOMEM, -2, "out of memory")                                                                 \
    X(EPARSE, -3, "text is not well-formed")                                                       \
    X(ENEVER, -4, "the schedule can never match")                                                  \
    X(EEXIST, -5, "already exists")                                                                \
    X(ENOTFOUND, -6, "not found")                                                                  \
    X(ESTATE, -7, "not allowed in this state")                                                     \
    X(EREENTRANT, -8, "not allowed inside a job callback")                                         \
    X(ETIMEDOUT, -9, "the deadline passed")                                                        \
    X(ECANCELED, -10, "cancelled")                                                                 \
    X(EFORK, -11, "not allowed in a forked child of the process")                                  \
    X(ENOTSUP, -12, "not supported")                                                               \
    X(EOS, -13, "the operating system refused a resource")                                         \
    X(EINTERNAL, -14, "an internal invariant does not hold")                                       \
    X(ENOBACKEND, -15, "no lock backend for this URL")                                             \
    X(EUNREACHABLE, -16, "the lock backend cannot be reached; nothing was promised")               \
    X(EUNKNOWN, -17, "no answer in time; the outcome is unknown")                                  \
    X(EREFUSED, -18, "the lock backend refused by policy")                                         \
    X(EACCESS, -19, "the lock backend denied access")                                              \
    X(ESCHEMA, -20, "the lock backend holds a schema this version cannot use")                     \
    X(EDATALOST, -21, "the lock backend lost or damaged its data")                                 \
    X(EFULL, -22, "the lock backend has no space left")                                            \
    X(ELEASELOST, -23, "the lease is lost")

enum jobsched_code {
#define JOBSCHED_ERROR_ENUM_(name, number, text) JOBSCHED_##name = (number),
    JOBSCHED_ERROR_MAP(JOBSCHED_ERROR_ENUM_)
#undef JOBSCHED_ERROR_ENUM_
};

/* Returned by a job callback only: the run goes on, and jobsched_run_finish() will end it. It
 * counts as running meanwhile. An unlikely number, so that a callback which fails with 1
 * has failed. */
#define JOBSCHED_PENDING 0x50454e44

/* "There is none": no next or previous occurrence. Larger than any instant. */
#define JOBSCHED_NONE INT64_MAX

/* What exactly is wrong with a schedule text (jobsched_error.reason). */
#define JOBSCHED_SYNTAX_MAP(X)                                                                     \
    X(NONE, 0, "no schedule error")                                                                \
    X(EMPTY, 1, "nothing but blanks")                                                              \
    X(TOO_LONG, 2, "longer than the limit")                                                        \
    X(BAD_CHAR, 3, "a byte that no schedule may contain")                                          \
    X(FIELD_COUNT, 4, "fewer than five or more than seven fields")                                 \
    X(RANGE, 5, "a value outside the field")                                                       \
    X(NAME, 6, "an unknown or misplaced name")                                                     \
    X(SYNTAX, 7, "a part is missing or unexpected")                                                \
    X(STEP, 8, "a step that is zero, not a number, or too large")                                  \
    X(REVERSED, 9, "a range whose end is before its start")                                        \
    X(NTH, 10, "an occurrence in the month that is not 1 to 5 or L")                               \
    X(DAY_SPEC, 11, "a misused day form (L, W or ?)")                                              \
    X(MACRO, 12, "an unknown macro, or text after one")                                            \
    X(NOT_TIME, 13, "not a time schedule")                                                         \
    X(DURATION, 14, "not a duration")                                                              \
    X(INSTANT, 15, "not an instant")                                                               \
    X(ZONE, 16, "an unknown or ill-formed time zone")                                              \
    X(ZONE_TWICE, 17, "a time zone in the text and beside it")                                     \
    X(NO_KEY, 18, "H or ~ without a job key")

enum jobsched_syntax {
#define JOBSCHED_SYNTAX_ENUM_(name, number, text) JOBSCHED_SYNTAX_##name = (number),
    JOBSCHED_SYNTAX_MAP(JOBSCHED_SYNTAX_ENUM_)
#undef JOBSCHED_SYNTAX_ENUM_
};

#define JOBSCHED_MESSAGE_BYTES 512

/* The detail of a failure. Grows only at its end. */
typedef struct jobsched_error {
    int code;          /* JOBSCHED_E... */
    int system_errno;  /* errno where the operating system was the cause, else 0 */
    int reason;        /* JOBSCHED_SYNTAX_... when code is EPARSE, else 0 */
    int has_range;     /* whether low and high hold the allowed range */
    int64_t position;  /* byte offset in the offending text; -1 where there is none */
    int64_t low, high; /* the allowed range, both included, when has_range is set */
    const char *field; /* name of the offending field or setting, or "" */
    char message[JOBSCHED_MESSAGE_BYTES]; /* one line, without a password */
} jobsched_error;

/* The detail of the last failure on the calling thread. Never NULL, valid until
 * the next failing call on this thread. Only meaningful after a call failed. */
JOBSCHED_API const jobsched_error *jobsched_last_error(void);

/* "EPARSE" and "text is not well-formed"; never NULL, also for foreign numbers. */
JOBSCHED_API const char *jobsched_code_name(int code);
JOBSCHED_API const char *jobsched_code_text(int code);

/* ---- What the host may inject ------------------------------------------- */

/* Memory. All three functions are required, must be thread-safe, and follow
 * malloc, realloc and free. The struct is copied; ctx must outlive the handle. */
typedef struct jobsched_allocator {
    size_t struct_size;
    void *ctx;
    void *(*allocate)(void *ctx, size_t size);
    void *(*reallocate)(void *ctx, void *pointer, size_t size);
    void (*release)(void *ctx, void *pointer);
} jobsched_allocator;

/* Time. wall_ms is civil time since the epoch, mono_ms never goes back. Both are
 * called often, from any thread, also with internal locks held: they must not
 * block nor call jobsched. After moving an artificial clock call
 * jobsched_wakeup(). The struct is copied; ctx must outlive the handle. */
typedef struct jobsched_clock {
    size_t struct_size;
    void *ctx;
    int64_t (*wall_ms)(void *ctx);
    int64_t (*mono_ms)(void *ctx);
} jobsched_clock;

/* Where callbacks run. submit() must arrange that work(arg) is called exactly
 * once, soon, on any thread, and return 0; any other value refuses it, and the
 * run ends as failed. It must not call work() itself and must not block.
 * capacity is how many runs the host can take at once (0: as many as workers).
 * The struct is copied; ctx must outlive the handle. */
typedef struct jobsched_executor {
    size_t struct_size;
    void *ctx;
    int (*submit)(void *ctx, void (*work)(void *arg), void *arg);
    uint64_t capacity;
} jobsched_executor;

/* ---- Schedules, without a scheduler ------------------------------------- */

/* An immutable parsed schedule; may be used by many threads at once. */
typedef struct jobsched_schedule jobsched_schedule;

/* A list of days and times that are excluded from schedules. Immutable; may be used by
 * many schedules and threads at once. */
typedef struct jobsched_calendar jobsched_calendar;

typedef struct jobsched_calendar_options {
    size_t struct_size;
    const char *timezone;                /* of dates and times; NULL: that of each schedule */
    const jobsched_allocator *allocator; /* NULL: malloc */
    const char *zone_directory;          /* as for schedules */
} jobsched_calendar_options;

/* Parses rules, one per line or separated by ';': "exclude WHAT" or "include WHAT", where
 * WHAT is all, a date (2027-12-25), a range of dates (2027-12-24..2027-12-26), days of
 * every year (12-25, 12-24..01-06), weekdays (SAT,SUN), a window of time (22:00..06:00) or
 * "cron" and a cron expression (the minutes at which it matches). '#' begins a comment.
 * Later rules win; what no rule names is included.
 * EPARSE  jobsched_last_error() has reason, field and position. */
JOBSCHED_API int jobsched_calendar_parse(const char *text, const jobsched_calendar_options *options,
                                         jobsched_calendar **out_calendar);

/* Schedules that use the calendar go on using it. */
JOBSCHED_API void jobsched_calendar_free(jobsched_calendar *calendar);

/* Whether an instant is included: 1 or 0. Without a zone of its own the calendar is read
 * in UTC. */
JOBSCHED_API int jobsched_calendar_includes(const jobsched_calendar *calendar, int64_t at_ms);

/* What becomes of an occurrence that a calendar excludes. A move never reaches the
 * occurrence before or after it: that one then stands for both. */
enum jobsched_calendar_policy {
    JOBSCHED_CALENDAR_SKIP = 0,        /* default: nothing */
    JOBSCHED_CALENDAR_NEXT = 1,        /* it fires at the first included instant after it */
    JOBSCHED_CALENDAR_NEXT_DAY = 2,    /* at the same time on the next included day */
    JOBSCHED_CALENDAR_PREVIOUS_DAY = 3 /* at the same time on the included day before */
};

/* What becomes of a wall clock time that a change of the clocks leaves out. The default
 * depends on the cron text: a schedule whose second, minute or hour has a '*', a range
 * or a step follows elapsed time (SKIP), any other fires once a day (RUN_AFTER). */
enum jobsched_dst_gap {
    JOBSCHED_DST_GAP_DEFAULT = 0,
    JOBSCHED_DST_GAP_RUN_AFTER = 1, /* it fires once, when the clock jumps */
    JOBSCHED_DST_GAP_SKIP = 2
};

/* And of one that comes twice. By default BOTH for a schedule that follows elapsed
 * time, FIRST for any other. */
enum jobsched_dst_overlap {
    JOBSCHED_DST_OVERLAP_DEFAULT = 0,
    JOBSCHED_DST_OVERLAP_FIRST = 1,
    JOBSCHED_DST_OVERLAP_BOTH = 2
};

typedef struct jobsched_schedule_options {
    size_t struct_size;
    const char *timezone;                /* NULL: the prefix in the text, else UTC */
    const char *key;                     /* picks the values of H and ~; NULL: those are refused */
    const jobsched_allocator *allocator; /* NULL: malloc */
    uint64_t text_bytes_max;             /* 0: 256 */
    const char *zone_directory;          /* zone files are looked for here first, then in TZDIR and
                                            /usr/share/zoneinfo; NULL: only there */
    int32_t dst_gap;                     /* enum jobsched_dst_gap */
    int32_t dst_overlap;                 /* enum jobsched_dst_overlap */
    const jobsched_calendar *const *calendars; /* all must include an instant; ended by NULL; kept
                                                  alive as long as needed. NULL: none */
    int32_t calendar_policy;                   /* enum jobsched_calendar_policy */
    int32_t reserved;
} jobsched_schedule_options;

/* Parses cron text (5, 6 or 7 fields, macros), "@every D [from I]", "@at I" or "@after D"
 * (D after the end of the last run, wherever it was: as there are no occurrences without
 * runs, jobsched_schedule_next() then takes its argument for that end, and the backward
 * questions have no answer); docs/schedules.md has the whole language. The text is copied.
 * A schedule that is well-formed but can never match is accepted here: see
 * jobsched_schedule_is_never().
 * EPARSE  jobsched_last_error() has reason, field, position and allowed range. */
JOBSCHED_API int jobsched_schedule_parse(const char *text, const jobsched_schedule_options *options,
                                         jobsched_schedule **out_schedule);
JOBSCHED_API void jobsched_schedule_free(jobsched_schedule *schedule);

/* The first occurrence strictly after, or the last strictly before, an instant;
 * JOBSCHED_NONE when there is none between the years 1970 and 2199. Bounded,
 * allocates nothing, reads no clock. */
JOBSCHED_API int64_t jobsched_schedule_next(const jobsched_schedule *schedule, int64_t after_ms);
JOBSCHED_API int64_t jobsched_schedule_previous(const jobsched_schedule *schedule,
                                                int64_t before_ms);

/* Whether the instant is an occurrence: 1 or 0. */
JOBSCHED_API int jobsched_schedule_matches(const jobsched_schedule *schedule, int64_t at_ms);

/* Whether the schedule has no occurrence at all: 1 or 0. Known since parsing. With calendars 0 is
 * no promise: a search that found none within its bound has proved nothing. */
JOBSCHED_API int jobsched_schedule_is_never(const jobsched_schedule *schedule);

/* Canonical text: parsed again with the same gap and overlap policy (and with a
 * text_bytes_max that allows for its length), it means the same instants. Picks of H and
 * ~ are resolved. Returns the length of the whole text, of which as much as fits is
 * written, ended by NUL, as snprintf does. */
JOBSCHED_API size_t jobsched_schedule_format(const jobsched_schedule *schedule, char *out_text,
                                             size_t size);

/* The same in plain English: "at 03:00 on the last Friday of each month, Europe/Berlin".
 * The wording may change with any release. */
JOBSCHED_API size_t jobsched_schedule_explain(const jobsched_schedule *schedule, char *out_text,
                                              size_t size);

/* What a change of the clocks did to an occurrence (bits). */
enum jobsched_occurrence_flag {
    JOBSCHED_OCCURRENCE_SHIFTED = 1,     /* its wall clock time does not exist: it fires when the
                                            clock jumps */
    JOBSCHED_OCCURRENCE_MERGED = 2,      /* more than one wall clock time fires here, once */
    JOBSCHED_OCCURRENCE_REPEATS = 4,     /* its wall clock time comes again; that is suppressed */
    JOBSCHED_OCCURRENCE_SECOND_PASS = 8, /* its wall clock time came before */
    JOBSCHED_OCCURRENCE_AFTER_GAP = 16,  /* wall clock times since the occurrence before this one
                                            do not exist; they are suppressed */
    JOBSCHED_OCCURRENCE_MOVED = 32       /* by a calendar; nominal_local_ms is what was excluded */
};

/* "Local" numbers are what the wall clock shows, counted as if it were UTC. */
typedef struct jobsched_occurrence {
    size_t struct_size;
    int64_t at_ms;
    int64_t nominal_local_ms; /* the wall clock time that the schedule names */
    int64_t local_ms;         /* the wall clock time at at_ms; differs when SHIFTED */
    int32_t offset_s;         /* of the zone at at_ms, seconds east of UTC */
    uint32_t flags;           /* enum jobsched_occurrence_flag */
} jobsched_occurrence;

/* Tells what there is to know of the occurrence at an instant.
 * ENOTFOUND  the instant is no occurrence. */
JOBSCHED_API int jobsched_schedule_occurrence(const jobsched_schedule *schedule, int64_t at_ms,
                                              jobsched_occurrence *out_occurrence);

/* The time zone, and the version of the zone data it was read from, like "2026f" ("" for
 * UTC and where the files do not tell). Valid as long as the schedule. */
JOBSCHED_API const char *jobsched_schedule_zone(const jobsched_schedule *schedule);
JOBSCHED_API const char *jobsched_schedule_zone_version(const jobsched_schedule *schedule);

/* From this instant on the zone data says nothing, and the last known offset is used;
 * JOBSCHED_NONE (the rule) when the data has no end. */
JOBSCHED_API int64_t jobsched_schedule_uncertain_after(const jobsched_schedule *schedule);

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
    JOBSCHED_MISFIRE_ONCE = 0, /* default: only the latest missed occurrence, if within the grace */
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

/* ---- Events ------------------------------------------------------------- */

/* One table makes the kinds, their stable names, and their log levels. */
#define JOBSCHED_EVENT_MAP(X)                                                                      \
    X(STARTED, 1, INFO, "scheduler.started")                                                       \
    X(STOPPED, 2, INFO, "scheduler.stopped")                                                       \
    X(GRANTED, 10, DEBUG, "run.granted")                                                           \
    X(RUN_STARTED, 11, INFO, "run.started")                                                        \
    X(ATTEMPT_FAILED, 12, WARNING, "run.attempt-failed")                                           \
    X(RUN_STOPPING, 13, WARNING, "run.stopping")                                                   \
    X(RUN_FINISHED, 14, INFO, "run.finished")                                                      \
    X(FINISH_REFUSED, 15, ERROR, "run.finish-refused")                                             \
    X(RUN_LEFT, 16, ERROR, "run.left-behind")                                                      \
    X(SKIPPED, 20, INFO, "occurrence.skipped")                                                     \
    X(ELSEWHERE, 21, DEBUG, "occurrence.elsewhere")                                                \
    X(INTERRUPTED, 22, WARNING, "run.interrupted")                                                 \
    X(JOB_STOOD_DOWN, 30, WARNING, "job.stood-down")                                               \
    X(JOB_REMOVED, 31, WARNING, "job.removed")                                                     \
    X(BACKEND_FAILED, 40, ERROR, "backend.failed")                                                 \
    X(BACKEND_RECOVERED, 41, INFO, "backend.recovered")                                            \
    X(CLOCK_JUMPED, 42, WARNING, "clock.jumped")                                                   \
    X(EVENTS_DROPPED, 43, WARNING, "events.dropped")                                               \
    X(NOT_ALONE, 44, WARNING, "single.not-alone")                                                  \
    X(BACKEND_NOTICE, 45, INFO, "backend.notice")                                                  \
    X(BACKEND_CLOCK_JUMPED, 46, WARNING, "backend.clock-jumped")

enum jobsched_event_kind {
#define JOBSCHED_EVENT_ENUM_(name, number, level, text) JOBSCHED_EVENT_##name = (number),
    JOBSCHED_EVENT_MAP(JOBSCHED_EVENT_ENUM_)
#undef JOBSCHED_EVENT_ENUM_
};

enum jobsched_level {
    JOBSCHED_LEVEL_DEBUG = 0,
    JOBSCHED_LEVEL_INFO = 1,
    JOBSCHED_LEVEL_WARNING = 2,
    JOBSCHED_LEVEL_ERROR = 3
};

/* What happened. Texts are valid during the call only; absent ones are "". */
typedef struct jobsched_event {
    size_t struct_size;
    int32_t kind;  /* enum jobsched_event_kind */
    int32_t level; /* enum jobsched_level */
    int64_t at_ms; /* when, by the backend's clock */
    const char *job;
    const char *node;        /* the other node, where one is concerned (holder, dead owner) */
    const char *message;     /* one line for people; never parse it */
    int64_t scheduled_at_ms; /* of the occurrence; JOBSCHED_NONE where there is none */
    int64_t last_at_ms;      /* SKIPPED: end of the range; else as scheduled_at_ms */
    uint64_t count;          /* SKIPPED: occurrences in the range. EVENTS_DROPPED: events */
    uint64_t token;
    uint32_t attempt;
    int32_t run_kind;    /* enum jobsched_kind */
    int32_t outcome;     /* enum jobsched_outcome, where one is known */
    int32_t code;        /* what the callback returned, or a JOBSCHED_E... code */
    int32_t stop_reason; /* RUN_STOPPING */
    int32_t reserved;
} jobsched_event;

/* Called for every event, in order, one at a time, on the scheduler's event
 * thread. A slow observer delays only later events: when 4,096 wait, further
 * ones are counted and dropped, and EVENTS_DROPPED tells how many. */
typedef void (*jobsched_observer_fn)(const jobsched_event *event, void *user_data);

JOBSCHED_API const char *jobsched_event_name(int kind);

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
 * EUNREACHABLE, EACCESS, ESCHEMA, EDATALOST, EFULL  as the backend says. */
JOBSCHED_API int jobsched_open(const jobsched_options *options, jobsched **out_scheduler);

/* Registers a job on this node and, while started, announces and arms it. Strings
 * in spec are copied; user_data is handed to user_data_free after the last run (and
 * stays the caller's when this call fails).
 * out_next_at_ms (may be NULL) receives the first instant after now at which the
 * schedule is due. May be called from a callback. The clock for "after now" is
 * this node's; the cluster may know of a missed earlier occurrence.
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
 * the same id never fires twice. A paused job is not triggered: ESTATE. */
JOBSCHED_API int jobsched_trigger(jobsched *scheduler, const char *job, const char *request,
                                  jobsched_control_result *out_result);

/* Asks the job's runs to stop, wherever they are (JOBSCHED_STOP_CANCELLED), by
 * their node's next heartbeat. */
JOBSCHED_API int jobsched_cancel(jobsched *scheduler, const char *job,
                                 jobsched_control_result *out_result);

/* Removes the job from the cluster: no node is granted an occurrence again until
 * somebody registers it with a larger version. Also withdraws it here. */
JOBSCHED_API int jobsched_remove(jobsched *scheduler, const char *job,
                                 jobsched_control_result *out_result);

/* ---- Questions ---------------------------------------------------------- */

/* When the job is due next on this node; JOBSCHED_NONE when never.
 * ENOTFOUND  no such job here. */
JOBSCHED_API int jobsched_next_run(jobsched *scheduler, const char *job, int64_t *out_at_ms);

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

/* How long the lease certainly lasts, by this machine's monotonic clock; 0 once
 * lost. The scheduler renews it while the run goes on. */
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
