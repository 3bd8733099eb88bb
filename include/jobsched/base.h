/* jobsched/base.h: results, errors, and what a host may inject.
 * Included by <jobsched.h>. */
#ifndef JOBSCHED_BASE_H
#define JOBSCHED_BASE_H

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

/* Time. wall_ms is civil time since the epoch; mono_ms never goes back, and goes on
 * while the machine is suspended (Linux: CLOCK_BOOTTIME, the default here), because
 * other machines' leases go on too. Both are called often, from any thread, also
 * with internal locks held: they must not block nor call jobsched. After moving an
 * artificial clock call jobsched_wakeup(). The struct is copied; ctx must outlive
 * the handle. */
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

#ifdef __cplusplus
}
#endif

#endif
