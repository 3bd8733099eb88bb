/* clock.c: the only reader of the operating system's clocks. No state, no locks. */
#include "base/clock.h"

#include "base/error.h"

#include <time.h>

/* A lease goes on while its machine is suspended, and CLOCK_MONOTONIC stands still then. POSIX has
 * no other; on Linux there is one. */
#ifdef CLOCK_BOOTTIME
#define LEASE_CLOCK CLOCK_BOOTTIME
#else
#define LEASE_CLOCK CLOCK_MONOTONIC
#endif

static int64_t read_ms(clockid_t id)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(id, &now); /* cannot fail for the clocks of this system */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_wall_ms(void *ctx)
{
    (void)ctx;
    return read_ms(CLOCK_REALTIME);
}

static int64_t system_mono_ms(void *ctx)
{
    (void)ctx;
    return read_ms(LEASE_CLOCK);
}

/* Of the clock that condition variables know; only spans of it are used. */
int64_t jsi_clock_real_mono_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int jsi_clock_init(jobsched_clock *out_clock, const jobsched_clock *given)
{
    if (given == NULL) {
        *out_clock = (jobsched_clock){
            .struct_size = sizeof *out_clock, .wall_ms = system_wall_ms, .mono_ms = system_mono_ms};
        return JOBSCHED_OK;
    }
    if (given->struct_size < sizeof *given || given->wall_ms == NULL || given->mono_ms == NULL) {
        return jsi_fail_at(JOBSCHED_EINVAL, "clock", -1,
                           "clock lacks a function or was not set up with JOBSCHED_INIT");
    }
    *out_clock = *given;
    return JOBSCHED_OK;
}
