/* live.h: what tests with real threads share: waiting for a condition, gates that hold a thread up
 * until the test lets it go, and a log of calls that any thread may write. Nothing here sleeps to
 * wait for something else than a condition. */
#ifndef SUPPORT_LIVE_H
#define SUPPORT_LIVE_H

#include "support/typed.h"

#include <jobsched.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { LIVE_BOUND_MS = 30000 }; /* far beyond what a slow machine under valgrind needs */

static inline int64_t live_mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void live_pause(void)
{
    const struct timespec span = {.tv_nsec = 2000000};
    (void)nanosleep(&span, NULL);
}

/* Looks again and again until the expression holds, or fails the test. */
#define wait_for(expression)                                                                       \
    do {                                                                                           \
        int64_t until_ms_ = live_mono_ms() + LIVE_BOUND_MS;                                        \
        while (!(expression)) {                                                                    \
            if (live_mono_ms() > until_ms_) {                                                      \
                print_error("waited in vain for: %s\n", #expression);                              \
                _fail(__FILE__, __LINE__);                                                         \
            }                                                                                      \
            live_pause();                                                                          \
        }                                                                                          \
    } while (0)

/* Holds threads up until it is opened. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool open;
    _Atomic int waiting; /* threads inside */
    _Atomic int passed;
};

static inline void gate_init(struct gate *gate)
{
    (void)pthread_mutex_init(&gate->mutex, NULL);
    (void)pthread_cond_init(&gate->cond, NULL);
    gate->open = false;
    atomic_init(&gate->waiting, 0);
    atomic_init(&gate->passed, 0);
}

static inline void gate_pass(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    (void)atomic_fetch_add(&gate->waiting, 1);
    while (!gate->open) {
        (void)pthread_cond_wait(&gate->cond, &gate->mutex);
    }
    (void)atomic_fetch_sub(&gate->waiting, 1);
    (void)atomic_fetch_add(&gate->passed, 1);
    (void)pthread_mutex_unlock(&gate->mutex);
}

static inline void gate_open(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    (void)pthread_cond_broadcast(&gate->cond);
    (void)pthread_mutex_unlock(&gate->mutex);
}

#endif
