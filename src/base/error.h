/* error.h: the only way to fail. Records the thread's detail and returns the code. */
#ifndef JSI_ERROR_H
#define JSI_ERROR_H

#include <jobsched/backend.h>

/* jobsched_fail() is the plain form. This one adds the place in a text (-1: none)
 * and the name of a field or setting (a literal, or ""). */
int jsi_fail_at(int code, const char *field, int64_t position, const char *format, ...)
    JOBSCHED_PRINTF(4, 5);

/* As jsi_fail_at, with the allowed range. */
int jsi_fail_range(int code, const char *field, int64_t position, int64_t low, int64_t high,
                   const char *format, ...) JOBSCHED_PRINTF(6, 7);

/* Gives the detail just recorded by one of the above its JOBSCHED_SYNTAX_ reason. */
int jsi_fail_reason(int code, int reason);

/* An internal invariant: checked in debug and CI builds only. */
#ifdef NDEBUG
#define JSI_ASSERT(condition) ((void)0)
#else
#include <assert.h>
#define JSI_ASSERT(condition) assert(condition)
#endif

#endif
