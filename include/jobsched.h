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

#include <jobsched/base.h>
#include <jobsched/event.h>
#include <jobsched/job.h>
#include <jobsched/schedule.h>
#include <jobsched/scheduler.h>

#endif
