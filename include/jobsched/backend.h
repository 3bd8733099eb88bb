/* jobsched/backend.h: the contract with backend authors.
 *
 * A backend keeps the fences, leases and ledger of a cluster. The ones that ship
 * with jobsched see this header and jobsched.h only, and so can yours. Any
 * backend can be put through the conformance suite (docs/backends.md).
 *
 * Stable per minor version; JOBSCHED_BACKEND_ABI says which layout was compiled.
 *
 * The data, per namespace
 *   fence  one per job: mark, last token, generation and definition, paused,
 *          removed, when the last run ended.
 *   run    one per occurrence (or counted range of skipped ones): the ledger. A
 *          row whose outcome is RUNNING is a holder of its job.
 *   node   one per open handle: a heartbeat counter, and whatever tells that the
 *          process behind it is alive.
 *
 * The mark is the latest scheduled instant that is accounted for: granted, or
 * recorded as skipped. It only grows. A claim names the mark it was computed
 * from (after_ms) and moves the mark to its own instant if and only if the mark
 * is still there. So an occurrence is granted at most once, and none between two
 * marks can be forgotten: whoever moves the mark accounts for all up to it.
 *
 * Who is alive. A run's lease lasts lease_ms from its grant and from each
 * heartbeat of its node. A backend may call an owner dead early only on proof
 * (the operating system says that the process is gone); without proof only after
 * watching the node's heartbeat stand still for the run's whole lease on the
 * *asking* node's monotonic clock, never by comparing wall clocks.
 *
 * Lanes. Each call carries a lane. Calls on one lane never overlap; calls on
 * different lanes may, and must not wait for each other longer than the store's
 * own atomic step takes. So a backend keeps one connection per lane. */
#ifndef JOBSCHED_BACKEND_H
#define JOBSCHED_BACKEND_H

#include <jobsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 is the layout of the first release; what came before it had none that lasted. */
#define JOBSCHED_BACKEND_ABI 1

/* Bounds that the engine keeps and a backend may rely on. */
#define JOBSCHED_BATCH_MAX        1000 /* items in one call */
#define JOBSCHED_REQUEST_BYTES    100  /* longest request id */
#define JOBSCHED_NOTE_BYTES       200  /* longest note */
#define JOBSCHED_DEFINITION_BYTES 1024 /* longest definition text */

/* A bound that the backend keeps: how many triggers of one job may wait. */
#define JOBSCHED_WAITING_MAX 10000

/* Records the detail of a failure for jobsched_last_error() and returns code, so
 * that a backend fails with "return jobsched_fail(...)". One impersonal line that
 * names the offending thing in single quotes; never a password. */
JOBSCHED_API int jobsched_fail(int code, int system_errno, const char *format, ...)
    JOBSCHED_PRINTF(3, 4);

enum jobsched_lane {
    JOBSCHED_LANE_CLAIM = 0, /* announce, claim, finish: the elector's thread */
    JOBSCHED_LANE_KEEP = 1,  /* renew, reap: the keeper's thread */
    JOBSCHED_LANE_ADMIN = 2, /* control and readers: any thread, one at a time */
    JOBSCHED_LANE_COUNT = 3
};

/* Every operation's frame. */
typedef struct jobsched_call {
    int32_t lane;
    int32_t reserved;
    int64_t timeout_ms;  /* in: the operation returns within this, whatever happens */
    uint64_t grants_max; /* in, claim only: at most so many runs are granted; 0: no bound */
    int64_t now_ms;      /* out, on success: the backend's clock, read inside the atomic step */
    /* out, lane KEEP, on failure: the instant by config.clock.mono_ms from which the
     * store may give this node's runs to others although their leases last, because it
     * saw, or may have seen, the end of what proves that this node lives (a session).
     * The engine stops the runs before, unless a renewal succeeds first (G5).
     * JOBSCHED_NONE, as it is given: the leases are all there is. */
    int64_t lost_at_mono_ms;
} jobsched_call;

typedef struct jobsched_backend_config {
    const char *url;        /* whole, with the scheme; may hold a password: never log it */
    const char *name_space; /* 1 to 200 bytes, as job names */
    const char *node_id;    /* 32 hexadecimal digits, random per open handle */
    const char *node_name;
    const char *app_version;
    int64_t lease_ms; /* the scheduler's default lease */
    int64_t request_timeout_ms;
    uint64_t history_count; /* ledger rows to keep per job: finished ones only, newest kept */
    int64_t history_age_ms;
    jobsched_allocator allocator; /* all memory of the backend comes from here */
    jobsched_clock clock;         /* the node's; mono_ms is for deadlines and watching heartbeats */
    /* Tells people something that is not the failure of a call. The kind is what alarms go
     * by, so it says how much it matters (any other counts as the first):
     *   JOBSCHED_EVENT_BACKEND_NOTICE         good to know
     *   JOBSCHED_EVENT_BACKEND_WARNING        should be mended: what check() says at that level
     *   JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST  the store has forgotten something, or may have;
     *       it answers, and has dealt with it (what cannot is EDATALOST)
     *   JOBSCHED_EVENT_NOT_ALONE              others use it who must not
     * Of each kind a few a minute reach the observer. Any thread; not from inside visit
     * callbacks. */
    void (*notice)(void *notice_data, int kind, const char *message);
    void *notice_data;
    /* Not 0: this handle only asks and commands (lane ADMIN). It enters no node, and
     * announce, withdraw, claim, finish, renew and reap are never called. Where there is
     * no store yet, open() makes none and answers ENOTFOUND: a slip in the URL is no reason
     * to make one. (Redis has nothing to make, so it just finds no jobs.) */
    int32_t control_only;
    int32_t reserved;
} jobsched_backend_config;

/* ---- announce ----------------------------------------------------------- */

/* What an announcement does where its text would replace another one that is in force.
 * What the other one has due, and nobody has claimed yet, must not be lost: so a node asks
 * first, reads what is in force (jobs()), claims or closes under that definition and its
 * generation what is due by it, and then replaces it on condition that nothing came
 * between. */
enum jobsched_replace {
    JOBSCHED_REPLACE_ANYWAY = 0, /* at once; what is due and unclaimed is forgotten */
    JOBSCHED_REPLACE_ASK = 1,    /* not at all: pending */
    JOBSCHED_REPLACE_IF = 2 /* if the generation is still replaces, the mark still after_ms, now
                                    still before before_ms, and no tombstone in force, since that
                                    came after the node asked; else not at all: pending */
};

typedef struct jobsched_announcement {
    /* in */
    const char *job;
    const char *definition; /* canonical text of schedule and policies; compared byte by byte */
    uint64_t version;       /* 0: unversioned */
    uint64_t replaces;      /* REPLACE_IF: the generation in force */
    int64_t after_ms;       /* REPLACE_IF: its mark */
    int64_t before_ms; /* REPLACE_IF: its first occurrence after that mark; JOBSCHED_NONE: none */
    int32_t replace;   /* enum jobsched_replace */
    /* out */
    int32_t pending;     /* this text would be put in force, and was not (then in_force is 0) */
    uint64_t generation; /* of the definition in force: to be named in claims */
    int64_t mark_ms;
    int64_t last_end_ms; /* when the last run ended; JOBSCHED_NONE when none has */
    int32_t in_force;    /* 0: another definition is in force, this node must stand down */
    int32_t paused;
    int32_t removed;  /* a tombstone is in force */
    int32_t conflict; /* this very call put this text in force under a version above 0, under which
                         another text was in force, or another node has asked to put another one:
                         two builds claim to be the same */
} jobsched_announcement;

/* ---- claim -------------------------------------------------------------- */

/* Besides enum jobsched_kind: accounts for a range of occurrences without
 * running them. Ledger outcome: skip_outcome, or SKIPPED_PAUSED (and the answer
 * PAUSED) while the job is paused; the rest is as for a grant. */
#define JOBSCHED_CLAIM_SKIP 100

#define JOBSCHED_ANSWER_MAP(X)                                                                     \
    X(NONE, 0, "none")       /* not answered; an operation that returns 0 leaves none */           \
    X(GRANTED, 1, "granted") /* token, attempt are set; the mark moved; a run row exists */        \
    X(HELD, 2, "held")       /* a run goes on elsewhere or here; holder fields are set */          \
    X(DONE, 3, "done")       /* accounted for already; mark_ms tells how far */                    \
    X(MOVED, 4, "moved")     /* the mark is not after_ms but before scheduled_ms */                \
    X(EARLY, 5, "early")     /* not due by the backend's clock; wait_ms tells how long */          \
    X(PAUSED, 6, "paused")   /* paused; the mark moved and the ledger says so */                   \
    X(STALE, 7, "stale")     /* another generation is in force */                                  \
    X(REMOVED, 8, "removed") /* a tombstone is in force */                                         \
    X(FULL, 10, "full")      /* would be granted, but grants_max is used up; nothing changed */    \
    X(BUSY, 11, "busy") /* somebody decides about it this instant; nothing changed; wait_ms */     \
    X(UNKNOWN, 9, "unknown") /* the backend knows no such job: announce it again */

enum jobsched_answer {
#define JOBSCHED_ANSWER_ENUM_(name, number, text) JOBSCHED_ANSWER_##name = (number),
    JOBSCHED_ANSWER_MAP(JOBSCHED_ANSWER_ENUM_)
#undef JOBSCHED_ANSWER_ENUM_
};
JOBSCHED_API const char *jobsched_answer_name(int answer);

/* What happens to a claim while another run holds the job. */
enum jobsched_when_held {
    JOBSCHED_HELD_SKIP = 0, /* record as SKIPPED_OVERLAP, move the mark, answer HELD */
    JOBSCHED_HELD_WAIT = 1, /* change nothing, answer HELD: the engine asks again */
    JOBSCHED_HELD_ALLOW = 2 /* grant beside it */
};

typedef struct jobsched_claim {
    /* in */
    const char *job;
    const char *request; /* TRIGGER: names the occurrence; else NULL */
    uint64_t generation;
    int64_t scheduled_ms; /* the occurrence; SKIP: the last of the range. TRIGGER: not used */
    int64_t after_ms;     /* the mark it was computed from; not used by TRIGGER and RERUN */
    int64_t lease_ms;
    int64_t delay_ms; /* of a fixed delay ("@after"): scheduled_ms is at least this long after the
                               last end; else 0 */
    int64_t skip_first_ms;  /* SKIP: the first of the range */
    uint64_t skip_count;    /* SKIP: how many occurrences the range has */
    int32_t skip_outcome;   /* SKIP: JOBSCHED_OUTCOME_SKIPPED_... */
    int32_t kind;           /* enum jobsched_kind or JOBSCHED_CLAIM_SKIP */
    int32_t when_held;      /* enum jobsched_when_held */
    int32_t recover;        /* enum jobsched_recover: kept with the run */
    uint32_t recover_limit; /* reruns of one occurrence; kept with the run */
    /* out */
    int32_t answer; /* enum jobsched_answer */
    uint64_t token;
    uint32_t attempt; /* 1 for the first grant of the occurrence, more for reruns */
    int32_t reserved;
    int64_t last_end_ms;   /* when the last run ended, JOBSCHED_NONE when none has; with mark_ms */
    int64_t mark_ms;       /* the mark after this claim; set with every answer but UNKNOWN */
    int64_t granted_ms;    /* GRANTED: the occurrence's instant (a trigger's own, for TRIGGER) */
    int64_t wait_ms;       /* EARLY: until due. HELD, BUSY: a hint when to ask again; 0: no idea */
    uint64_t holder_token; /* HELD */
    int64_t holder_since_ms;
    char holder[JOBSCHED_NAME_BYTES + 1]; /* HELD: name of the holder's node */
    char padding[7];
} jobsched_claim;

/* ---- renew, finish ------------------------------------------------------ */

enum jobsched_lease_answer {
    JOBSCHED_LEASE_KEPT = 1,  /* renew: still ours. finish: recorded (now, or by an earlier try) */
    JOBSCHED_LEASE_GONE = 2,  /* the run is not ours any more: nothing was changed */
    JOBSCHED_LEASE_CANCEL = 3 /* renew: still ours, and somebody asked it to stop */
};

typedef struct jobsched_lease {
    /* in */
    const char *job;
    const char *note; /* last reported, or "" */
    uint64_t token;
    uint64_t progress_done, progress_total;
    /* out */
    int32_t answer; /* enum jobsched_lease_answer */
    int32_t reserved;
} jobsched_lease;

typedef struct jobsched_finish {
    /* in */
    const char *job;
    const char *note;
    uint64_t token;
    uint64_t progress_done, progress_total;
    int32_t outcome; /* SUCCEEDED to INTERRUPTED */
    int32_t code;
    /* out */
    int32_t answer; /* enum jobsched_lease_answer */
    int32_t reserved;
} jobsched_finish;

/* ---- reap --------------------------------------------------------------- */

enum jobsched_found {
    JOBSCHED_FOUND_INTERRUPTED = 1, /* this call noticed the dead owner: told exactly once */
    JOBSCHED_FOUND_RERUN = 2,       /* interrupted, asked for a rerun, not yet granted */
    JOBSCHED_FOUND_TRIGGER = 3      /* triggered, not yet granted */
};

typedef struct jobsched_finding {
    int32_t found; /* enum jobsched_found */
    uint32_t attempt;
    const char *job;
    const char *node;    /* INTERRUPTED, RERUN: the dead owner */
    const char *request; /* TRIGGER */
    int64_t scheduled_ms;
    uint64_t token; /* INTERRUPTED, RERUN: of the run that was cut off */
} jobsched_finding;

/* ---- control and readers ------------------------------------------------ */

enum jobsched_verb {
    JOBSCHED_VERB_PAUSE = 1,
    JOBSCHED_VERB_RESUME = 2,
    JOBSCHED_VERB_TRIGGER = 3,
    JOBSCHED_VERB_CANCEL = 4,
    JOBSCHED_VERB_REMOVE = 5
};

typedef struct jobsched_command {
    int32_t verb;
    int32_t reserved;
    const char *job;
    const char *request; /* TRIGGER */
} jobsched_command;

/* ---- the driver --------------------------------------------------------- */

enum jobsched_capability {
    JOBSCHED_CAPABILITY_CLUSTER = 1, /* other processes can share it */
    JOBSCHED_CAPABILITY_DURABLE = 2  /* fences survive the last process */
};

/* Result of an operation: 0, with every item answered; or a negative code through
 * jobsched_fail(), with no item's answer meant. EUNREACHABLE, EACCESS, EREFUSED,
 * EFULL, ESCHEMA, EDATALOST, ENOMEM promise that nothing was changed; EUNKNOWN
 * that this is not known. The engine then asks the very same again later, so
 * every operation is idempotent in the way its comment says. Items of one call
 * are treated in their order and each on its own: a refusal of one changes
 * nothing for the others. The call as a whole is atomic or a prefix. */
typedef struct jobsched_backend {
    uint32_t abi;          /* JOBSCHED_BACKEND_ABI */
    uint32_t capabilities; /* enum jobsched_capability */
    const char *scheme;    /* lower case, as in the URL */

    /* Required. Opens or creates the store, checks or migrates its schema (safely
     * while others do the same), and enters this node. Everything in config is
     * borrowed for as long as the backend is open. On failure nothing is left
     * behind and *out_backend is untouched.
     * EINVAL  the URL, with the offending part named.
     * EFORK   what the store's library shares within a process was inherited from
     *         the parent, so it cannot be used in this one. */
    int (*open)(const jobsched_backend_config *config, void **out_backend);

    /* Required. Leaves the cluster and frees all. Runs that are still RUNNING under
     * this node's name become interrupted, at once or when somebody looks. Never
     * concurrent with other calls. NULL is ignored. */
    void (*close)(void *backend);

    /* Required. Lane CLAIM. For each job: creates the fence if it is missing, with
     * the mark at now, and decides which definition is in force:
     *   none stored, or equal version and text          -> in force, no change
     *   larger version; or equal version, other text    -> as replace says, pending, or
     *        becomes the one in force: generation + 1, mark = max(mark, now), a tombstone
     *        is lifted if the version is larger. A removed job has nothing due, so ASK
     *        replaces its definition at once; IF does not (enum jobsched_replace)
     *   smaller version                                 -> not in force
     * Starting changes nothing else: neither pauses, nor marks, nor runs (G7). Also
     * notes that this node registers the job, with this text and version.
     * Idempotent. */
    int (*announce)(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count);

    /* Required. Lane CLAIM. The election. Per item, in one atomic step:
     *   no fence                                        -> UNKNOWN
     *   this node already runs exactly this occurrence  -> GRANTED again, same token
     *   tombstone                                       -> REMOVED
     *   generation differs                              -> STALE
     * kinds SCHEDULED, CATCH_UP, SKIP:
     *   scheduled_ms <= mark                            -> DONE
     *   mark != after_ms                                -> MOVED
     *   delay_ms > 0, and a live holder                 -> HELD, nothing changes
     *   delay_ms > 0, and scheduled_ms < max(mark, last end) + delay_ms -> MOVED
     *   scheduled_ms > now                              -> EARLY
     *   paused                -> ledger as SKIPPED_PAUSED (extends a directly preceding paused
     *        range), mark; PAUSED. A SKIP too, whatever its skip_outcome: its range with its count
     *   SKIP                                            -> ledger row, mark; GRANTED, token 0
     * kind TRIGGER: the waiting row of that request, else of a finished one -> DONE, of an
     *   unknown one -> DONE; paused -> PAUSED, nothing changes
     * kind RERUN: the row of scheduled_ms if it is INTERRUPTED, asked for a rerun, has had fewer
     *   than recover_limit of them, and was not cancelled; else DONE; paused -> PAUSED, nothing
     *   changes
     * then for all kinds that run:
     *   a live holder, and when_held is not ALLOW       -> HELD, as when_held says (a TRIGGER with
     *        SKIP becomes SKIPPED_OVERLAP; a RERUN always waits)
     *   holders found dead are made INTERRUPTED on the way (reap still reports them)
     *   grants_max runs are granted by this call already  -> FULL
     *   else token + 1, the row is RUNNING, the mark moves  -> GRANTED
     * A grant counts as a heartbeat of this node, also when it is repeated: the
     * engine counts the lease from when it asked last. Idempotent through the second
     * rule: the engine repeats a claim whose answer was lost. Must survive a crash
     * of the store right after the answer (durable before answered). */
    int (*claim)(void *backend, jobsched_call *call, jobsched_claim *items, size_t count);

    /* Required. Lane CLAIM. Records outcomes of runs that this node holds under
     * exactly that token, and the instant of the end (now) in the fence, as does
     * whoever makes a run INTERRUPTED. A run that was
     * taken away is GONE and nothing changes; one that an earlier try of the same
     * finish ended is KEPT. Prunes the ledger to its bounds now and then. */
    int (*finish)(void *backend, jobsched_call *call, jobsched_finish *items, size_t count);

    /* Required. Lane KEEP. Moves this node's heartbeat, and tells for each run
     * whether it is still this node's under that token. count may be 0: a bare
     * heartbeat, also used to read the clock. clock_offset_ms is published with the
     * node. */
    int (*renew)(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count);

    /* Required. Lane KEEP. Makes the runs of dead owners INTERRUPTED and forgets
     * dead nodes, then calls visit for what was found, newly interrupted ones first,
     * at most JOBSCHED_BATCH_MAX. A newly interrupted run is told to one caller in
     * the cluster, also when claim() was what made it so. visit returning non-zero
     * ends the listing. Also drops a bounded number of ledger rows of the namespace,
     * whosever job, that ended more than history_age_ms ago; never one that goes on,
     * waits, may be rerun, or was not told yet. */
    int (*reap)(void *backend, jobsched_call *call,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data);

    /* Required. Lane ADMIN. One atomic step. ENOTFOUND when there is no fence (or,
     * for all verbs but REMOVE, a tombstone). TRIGGER
     * of a request id that is known changes nothing; else on a paused job: ESTATE, else
     * with JOBSCHED_WAITING_MAX rows of the job WAITING: EREFUSED, else it adds a WAITING
     * row. REMOVE makes WAITING rows CANCELLED. CANCEL marks all RUNNING
     * rows of the job. PAUSE answers the last token. Idempotent. */
    int (*control)(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result);

    /* Required. Lane ADMIN. As jobsched_runs(). */
    int (*runs)(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data);

    /* The rest is optional: NULL where a backend has nothing to offer. */

    /* Lane ADMIN. Visits the ledger row of a trigger, once, or ENOTFOUND. */
    int (*find)(void *backend, jobsched_call *call, const char *job, const char *request,
                jobsched_run_visit_fn visit, void *visit_data);

    /* Lane ADMIN. As jobsched_jobs() and jobsched_nodes(): all fences, tombstones
     * included, or that of one job (ENOTFOUND); all nodes that are not known to be
     * dead. Sorted by name (bytes). next_at_ms is the engine's to fill in.
     * Not atomic over more than one job. */
    int (*jobs)(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                void *visit_data);
    int (*nodes)(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                 void *visit_data);

    /* Lane CLAIM. This node registers these jobs no more (after announce() it did):
     * only what jobs() and nodes() tell of changes. Unknown names are ignored. */
    int (*withdraw)(void *backend, jobsched_call *call, const char *const *jobs, size_t count);

    /* Lane ADMIN. As jobsched_check(): what an operator should know or mend in the
     * store: rights, schema, poolers, replicas, persistence, eviction. One visit for
     * each thing looked at, also when it is well. */
    int (*check)(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                 void *visit_data);

    /* The keeper's thread, between calls on lane KEEP. A descriptor to poll for
     * reading, or -1; asked for again after each call. Readable means: something came
     * (a control call, a trigger, an end of the session), so renew and reap now, which
     * also take away what was readable. Losing such a push costs latency only. */
    int (*watch)(void *backend);

    /* Without open(). As jobsched_schema(): visits the statements, in their order, that
     * create or bring up to date what the URL names, for those whose administrator must
     * apply them. */
    int (*schema)(const char *url, jobsched_text_visit_fn visit, void *visit_data);

    /* Any thread, at any time, also while calls are under way; never waits. The instant by
     * config.clock.mono_ms until which the store passes none of this node's runs on while
     * their leases last, by what a look at the proof that this node lives (a session) tells
     * now: so a process that was not scheduled for long learns of a lost proof before a run
     * of it does anything else (G5). May be called with the engine's lock held: it must
     * call neither notice nor anything of jobsched, nor wait for a lock that is held over
     * them. JOBSCHED_NONE: the leases are all there is.
     * A proof that is back only after it was over vouches for none of the runs of before: it
     * stays over until a round of renewals (a call with fewer than JOBSCHED_BATCH_MAX items ends
     * it) has succeeded and the next call on lane KEEP begins; and a claim() that was sent before
     * fails with EUNKNOWN. While it is over, nothing is claimed and no grant is begun. */
    int64_t (*vouch)(void *backend);
} jobsched_backend;

/* The drivers that ship. A dynamically loaded backend of scheme "x" is
 * libjobsched-x.so beside libjobsched.so or on the loader's path, and exports
 * jobsched_backend_x ('-' and '+' in a scheme become '_'). */
JOBSCHED_API const jobsched_backend *jobsched_backend_single(void);
JOBSCHED_API const jobsched_backend *jobsched_backend_sqlite(void);
JOBSCHED_API const jobsched_backend *jobsched_backend_postgresql(void);
JOBSCHED_API const jobsched_backend *jobsched_backend_redis(void);

#ifdef __cplusplus
}
#endif

#endif
