/* fake_backend.h: a backend that obeys a script. It follows the contract by handing each call to
 * single: underneath, and can be told to fail, to lose the reply of a call that took effect, to
 * run a hook before or after any call, and to report findings. It counts calls and items.
 *
 * The scheme is "fake:", followed by the address of the struct, so that any number may be open.
 * Any thread; hooks are called without a lock. */
#ifndef SUPPORT_FAKE_BACKEND_H
#define SUPPORT_FAKE_BACKEND_H

#include <jobsched/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum fake_operation {
    FAKE_OPEN,
    FAKE_CLOSE,
    FAKE_ANNOUNCE,
    FAKE_CLAIM,
    FAKE_FINISH,
    FAKE_RENEW,
    FAKE_REAP,
    FAKE_CONTROL,
    FAKE_RUNS,
    FAKE_FIND,
    FAKE_JOBS,
    FAKE_NODES,
    FAKE_WITHDRAW,
    FAKE_CHECK,
    FAKE_OPERATIONS
};

struct fake_backend;
/* items is the array of the operation, or NULL; of FAKE_JOBS the job's name, or NULL. */
typedef void (*fake_hook_fn)(struct fake_backend *fake, enum fake_operation operation, void *items,
                             size_t count);

enum { FAKE_FINDINGS_MAX = 16, FAKE_ASKED_MAX = 4096, FAKE_FOR_EVER = INT32_MAX };

/* A question as the engine asked it, and the answer it got. */
struct fake_asked {
    char job[JOBSCHED_NAME_BYTES + 1];
    char request[JOBSCHED_REQUEST_BYTES + 1];
    jobsched_claim claim; /* its texts are not valid any more */
    bool replied;
};

struct fake_backend {
    char url[64]; /* of this backend: what options.lock is to be */
    jobsched_clock clock;
    void *inner; /* the handle of single: */
    fake_hook_fn before, after;
    void *hook_data;

    _Atomic uint64_t calls[FAKE_OPERATIONS];
    _Atomic uint64_t items[FAKE_OPERATIONS];
    _Atomic uint64_t largest[FAKE_OPERATIONS]; /* most items in one call */
    _Atomic int64_t published_offset_ms;       /* of the last renew */
    _Atomic int64_t lost_at_mono_ms; /* told by failures on lane KEEP; JOBSCHED_NONE: nothing is */
    _Atomic int watch_fd;            /* of watch(); -1: none */
    _Atomic int64_t vouch_grace_ms;  /* of vouch(); 0: it answers JOBSCHED_NONE */
    _Atomic int64_t ended_mono_ms; /* when the session that it looks at ended; JOBSCHED_NONE: not */
    _Atomic uint64_t vouch_calls;
    void (*vouch_hook)(struct fake_backend *fake);

    pthread_mutex_t mutex; /* guards the rest */
    int failures_left[FAKE_OPERATIONS];
    int failure_code[FAKE_OPERATIONS];
    bool loses_reply[FAKE_OPERATIONS];
    jobsched_finding findings[FAKE_FINDINGS_MAX];
    size_t finding_count;
    struct fake_asked *asked; /* the first FAKE_ASKED_MAX */
    size_t asked_count;
};

/* clock is the backend's; NULL: the operating system's. */
void fake_backend_init(struct fake_backend *fake, const jobsched_clock *clock);
void fake_backend_fini(struct fake_backend *fake);

/* For options.backends. */
const jobsched_backend *const *fake_backend_drivers(void);

/* The next calls of an operation fail. lose: they take effect first, and only the reply is lost. */
void fake_backend_fail(struct fake_backend *fake, enum fake_operation operation, int code,
                       int calls, bool lose);

/* The next reap also tells of this. Texts are borrowed. */
void fake_backend_find(struct fake_backend *fake, const jobsched_finding *finding);

uint64_t fake_backend_calls(struct fake_backend *fake, enum fake_operation operation);

#endif
