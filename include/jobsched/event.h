/* jobsched/event.h: what observers are told.
 * Included by <jobsched.h>. */
#ifndef JOBSCHED_EVENT_H
#define JOBSCHED_EVENT_H

#include <jobsched/job.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    X(JOB_CONFLICT, 32, WARNING, "job.conflict")                                                   \
    X(JOB_BACK_IN_FORCE, 33, INFO, "job.back-in-force")                                            \
    X(OVERRIDE_UNKNOWN, 34, WARNING, "override.unknown-job")                                       \
    X(JOB_UNSETTLED, 35, WARNING, "job.unsettled")                                                 \
    X(BACKEND_FAILED, 40, ERROR, "backend.failed")                                                 \
    X(BACKEND_RECOVERED, 41, INFO, "backend.recovered")                                            \
    X(CLOCK_JUMPED, 42, WARNING, "clock.jumped")                                                   \
    X(EVENTS_DROPPED, 43, WARNING, "events.dropped")                                               \
    X(NOT_ALONE, 44, WARNING, "single.not-alone")                                                  \
    X(BACKEND_NOTICE, 45, INFO, "backend.notice")                                                  \
    X(BACKEND_CLOCK_JUMPED, 46, WARNING, "backend.clock-jumped")                                   \
    X(BACKEND_MAY_HAVE_LOST, 47, ERROR, "backend.may-have-lost")                                   \
    X(BACKEND_WARNING, 48, WARNING, "backend.warning")                                             \
    X(LEADER_GAINED, 50, INFO, "leader.gained")                                                    \
    X(LEADER_LOST, 51, WARNING, "leader.lost")                                                     \
    X(BACKEND_UNREACHABLE, 60, ERROR, "backend.unreachable")                                       \
    X(BACKEND_UNKNOWN, 61, ERROR, "backend.unknown")                                               \
    X(BACKEND_REFUSED, 62, ERROR, "backend.refused")                                               \
    X(BACKEND_ACCESS, 63, ERROR, "backend.access")                                                 \
    X(BACKEND_SCHEMA, 64, ERROR, "backend.schema")                                                 \
    X(BACKEND_DATA_LOST, 65, ERROR, "backend.data-lost")                                           \
    X(BACKEND_FULL, 66, ERROR, "backend.full")

enum jobsched_event_kind {
#define JOBSCHED_EVENT_ENUM_(name, number, level, text) JOBSCHED_EVENT_##name = (number),
    JOBSCHED_EVENT_MAP(JOBSCHED_EVENT_ENUM_)
#undef JOBSCHED_EVENT_ENUM_
};

/* Whether an event of this kind tells that a call to the lock backend failed. Each class
 * of failure wants another remedy, so it has a kind of its own (60 to 79 are kept for
 * them); BACKEND_FAILED is what belongs to none. code holds the JOBSCHED_E... code. */
#define JOBSCHED_EVENT_IS_BACKEND_FAILURE(kind)                                                    \
    ((kind) == JOBSCHED_EVENT_BACKEND_FAILED || ((kind) >= 60 && (kind) <= 79))

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

#ifdef __cplusplus
}
#endif

#endif
