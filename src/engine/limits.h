/* limits.h: every bound of the engine, with its reason (G11). */
#ifndef JSI_LIMITS_H
#define JSI_LIMITS_H

enum {
    /* Below this a lease would be lost to ordinary scheduling delays of a busy machine. */
    JSI_LEASE_MIN_MS = 300,
    /* Above this a frozen owner would block its job for longer than an operator sleeps. */
    JSI_LEASE_MAX_MS = 3600 * 1000,
    JSI_LEASE_DEFAULT_MS = 30 * 1000,

    /* Heartbeats per lease: two may get lost before the lease is in danger. */
    JSI_BEATS_PER_LEASE = 3,
    /* The default request timeout is lease / this, so that a failed heartbeat can be repeated
     * within the lease. */
    JSI_REQUESTS_PER_LEASE = 6,
    JSI_REQUEST_TIMEOUT_MAX_MS = 5 * 1000,

    /* A run is told of a lost lease this much (a tenth of the lease, at most this) before its
     * end, so that it is told before anybody else can be granted the job (G5). */
    JSI_LEASE_MARGIN_MAX_MS = 500,

    /* Where the store may pass runs on at a known instant (jobsched_call.lost_at_mono_ms), they are
     * told this much before: a fifth of the shortest grace of a shipped backend (500 ms), and far
     * more than the tick and the event thread take on a busy machine. */
    JSI_LOST_MARGIN_MS = 100,

    /* Between two rounds of the keeper that the backend's descriptor asks for: soon at first,
     * doubling while it is readable again at once. So a flood of pushes, or a descriptor that stays
     * readable or hung up, costs four rounds a second, and a cancellation amid it that much. */
    JSI_PUSH_GAP_FIRST_MS = 10,
    JSI_PUSH_GAP_MAX_MS = 250,

    JSI_MISFIRE_AFTER_DEFAULT_MS = 10 * 1000,
    JSI_MISFIRE_LIMIT_DEFAULT = 100,
    JSI_MISFIRE_LIMIT_MAX = 10 * 1000,
    /* Occurrences counted in one go for a range row: 3 ms of work under the lock. A longer
     * range becomes several rows. */
    JSI_SKIP_COUNT_MAX = 100 * 1000,

    JSI_ATTEMPTS_MAX = 1000,
    JSI_RECOVER_LIMIT_DEFAULT = 3,
    JSI_RECOVER_LIMIT_MAX = 100,
    JSI_BACKOFF_DEFAULT_MS = 1000,
    JSI_BACKOFF_MAX_DEFAULT_MS = 60 * 1000,

    JSI_WORKERS_DEFAULT = 4,
    JSI_WORKERS_MAX = 1024,
    /* Beyond free workers a node claims what it can run within this span. */
    JSI_WINDOW_MS = 100,

    JSI_HISTORY_COUNT_DEFAULT = 1000,
    JSI_HISTORY_COUNT_MAX = 10 * 1000 * 1000,

    /* Waiting events: about 2 MiB. A stuck observer costs this much and no more. */
    JSI_EVENTS_MAX = 4096,
    /* Waiting triggers and reruns that this node knows of. More are found again at the next
     * heartbeat. */
    JSI_EXTRA_ASKS_MAX = 10 * 1000,

    /* Longest sleep of the tick: a step of the wall clock is noticed within this. */
    JSI_TICK_SLEEP_MAX_MS = 1000,
    /* A wall clock that moved against the monotonic one by more than this has been stepped. */
    JSI_CLOCK_STEP_MS = 200,

    /* Retry of a failed backend: 50 ms, doubling up to this. Short, since everything waits. */
    JSI_RETRY_FIRST_MS = 50,
    JSI_RETRY_MAX_MS = 2000,

    /* A file beyond this is not one that people write by hand; it is read whole at open. */
    JSI_OVERRIDES_MAX = 2000,
    JSI_OVERRIDES_BYTES_MAX = 1024 * 1024,

    /* How often those that stand by ask whether somebody leads: a takeover after a clean stop
     * takes this long, and each of them costs two requests a second. */
    JSI_LEADER_AGAIN_MS = 500,
    /* Who leads without the definition in force of some job lets others lead after this. If nobody
     * else does, nothing is fired for two seconds each time. */
    JSI_LEADER_YIELD_MS = 30 * 1000,
    /* How often the leader reads all jobs, in one request: so long may a definition that another node
     * put in force wait for it, if its own has nothing due. */
    JSI_LEADER_LOOK_MS = 60 * 1000,

    /* Definitions in force that one round of the elector looks at, so that claims come in between.
     * Jobs that stand down are looked at again every lease, but not more often than this and not
     * more than so many at a time: after a roll-out of 10,000 jobs that is 2 a second and node. */
    JSI_LOOKS_MAX = 16,
    /* Looks that fail are repeated after a second, doubling up to this: on a lane that hangs each
     * holds up the elector for a request timeout. */
    JSI_LOOK_FAILED_FIRST_MS = 1000,
    JSI_LOOK_FAILED_MAX_MS = 30 * 1000,
    JSI_STOOD_LOOK_MIN_MS = 10 * 1000,
    JSI_STOOD_LOOKS_MAX = 64,
    /* A definition that could not be put in force, since something came between, is tried again
     * after this: what comes between are occurrences, at most one a second. */
    JSI_LOOK_LATER_MS = 50,
    /* How long a new definition waits for missed occurrences of the older one, each of which is to
     * run ("all"): many short runs get through, long ones are not waited for. And for a zone file
     * of the older one that cannot be read: an error that passes has passed by then. */
    JSI_SETTLE_WAIT_MS = 10 * 1000,

    /* jobsched_wait() polls: soon at first, since most runs are short; a cluster of waiters is no
     * load at the last. */
    JSI_WAIT_FIRST_MS = 20,
    JSI_WAIT_MAX_MS = 1000,

    /* jobsched_check(): a clock this far off makes logs hard to read side by side; NTP keeps one
     * within a fraction of it. And a mark may be ahead by what two readings differ. */
    JSI_CLOCK_FAR_MS = 2000,
    JSI_MARK_AHEAD_MS = 2000,

    /* At most so many events of failed calls in such a span, for a backend that fails and recovers
     * again and again. */
    JSI_FAILURES_TOLD_MAX = 20,
    JSI_FAILURES_TOLD_SPAN_MS = 60 * 1000,
    /* And so many of each kind of a backend's notices, which a server's own words may be. */
    JSI_NOTICES_TOLD_MAX = 10,

    /* How long jobsched_close() waits for library threads beyond two request timeouts. */
    JSI_CLOSE_GRACE_MS = 1000,
    /* And for the observer then, which is the host's: a busy machine must not cost it the last events. */
    JSI_CLOSE_EVENTS_MS = 3000,
    /* The last part of a drain, in which runs are asked to stop. */
    JSI_DRAIN_STOP_MAX_MS = 5000
};

/* 100 years: longer spans are mistakes, and sums of instants stay far from overflow. */
#define JSI_SPAN_MAX_MS            INT64_C(3155760000000)
#define JSI_HISTORY_AGE_DEFAULT_MS INT64_C(2592000000) /* 30 days */

#endif
