/* clock.h: time. clock.c is the only file that reads the operating system's clocks. */
#ifndef JSI_CLOCK_H
#define JSI_CLOCK_H

#include <jobsched.h>

/* The given clock, or the operating system's when it is NULL. */
int jsi_clock_init(jobsched_clock *out_clock, const jobsched_clock *given);

/* The operating system's monotonic clock, for waits of real threads only. */
int64_t jsi_clock_real_mono_ns(void);

#endif
