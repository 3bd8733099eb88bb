/* random.h: numbers that follow from a seed and a purpose, so that taking one part of a plan away
 * leaves the others as they were. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

static inline uint64_t sim_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline struct sim_random sim_random_of(uint64_t seed, uint64_t purpose, uint64_t number)
{
    return (struct sim_random){sim_mix(sim_mix(seed ^ sim_mix(purpose)) + number)};
}

static inline uint64_t sim_next(struct sim_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return sim_mix(random->state);
}

/* 0 to below - 1. */
static inline int64_t sim_below(struct sim_random *random, int64_t below)
{
    return below <= 1 ? 0 : (int64_t)(sim_next(random) % (uint64_t)below);
}

/* low to high, both included. */
static inline int64_t sim_between(struct sim_random *random, int64_t low, int64_t high)
{
    return low + sim_below(random, high - low + 1);
}

/* As between, but small numbers are as likely as large ones. */
static inline int64_t sim_scaled(struct sim_random *random, int64_t low, int64_t high)
{
    int64_t top = high;
    for (int64_t halvings = sim_below(random, 12); halvings > 0 && top / 2 > low; halvings--) {
        top /= 2;
    }
    return sim_between(random, low, top);
}

static inline bool sim_chance(struct sim_random *random, int percent)
{
    return sim_below(random, 100) < percent;
}

#endif
