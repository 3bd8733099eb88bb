/* test_clock.h: a clock that stands still until the test moves it. The node's wall clock and the
 * backend's clock are set apart from each other at will. Any thread. */
#ifndef SUPPORT_TEST_CLOCK_H
#define SUPPORT_TEST_CLOCK_H

#include <jobsched.h>

#include <stdatomic.h>

struct test_clock {
    _Atomic int64_t mono_ms;
    _Atomic int64_t wall_minus_mono_ms;    /* of the node */
    _Atomic int64_t backend_minus_mono_ms; /* of the backend */
};

static inline int64_t test_clock_mono(void *ctx)
{
    return atomic_load(&((struct test_clock *)ctx)->mono_ms);
}

static inline int64_t test_clock_wall(void *ctx)
{
    struct test_clock *clock = ctx;
    return atomic_load(&clock->mono_ms) + atomic_load(&clock->wall_minus_mono_ms);
}

static inline int64_t test_clock_backend(void *ctx)
{
    struct test_clock *clock = ctx;
    return atomic_load(&clock->mono_ms) + atomic_load(&clock->backend_minus_mono_ms);
}

static inline void test_clock_init(struct test_clock *clock, int64_t wall_ms)
{
    /* Not zero: an instant that was forgotten to be set must not look like a good one. */
    atomic_init(&clock->mono_ms, INT64_C(5000000));
    atomic_init(&clock->wall_minus_mono_ms, wall_ms - INT64_C(5000000));
    atomic_init(&clock->backend_minus_mono_ms, wall_ms - INT64_C(5000000));
}

static inline void test_clock_advance(struct test_clock *clock, int64_t span_ms)
{
    (void)atomic_fetch_add(&clock->mono_ms, span_ms);
}

static inline jobsched_clock test_clock_of_node(struct test_clock *clock)
{
    return (jobsched_clock){.struct_size = sizeof(jobsched_clock),
                            .ctx = clock,
                            .wall_ms = test_clock_wall,
                            .mono_ms = test_clock_mono};
}

static inline jobsched_clock test_clock_of_backend(struct test_clock *clock)
{
    return (jobsched_clock){.struct_size = sizeof(jobsched_clock),
                            .ctx = clock,
                            .wall_ms = test_clock_backend,
                            .mono_ms = test_clock_mono};
}

#endif
