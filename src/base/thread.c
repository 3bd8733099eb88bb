/* thread.c: the little of threads that the engine needs. No state. */
#include "base/thread.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <signal.h>

int jsi_cond_init(pthread_cond_t *out_condition)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed == 0) {
        failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (failed == 0) {
            failed = pthread_cond_init(out_condition, &attributes);
        }
        (void)pthread_condattr_destroy(&attributes);
    }
    if (failed != 0) {
        return jobsched_fail(JOBSCHED_EOS, failed, "no condition variable could be made");
    }
    return JOBSCHED_OK;
}

void jsi_cond_wait_ms(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ms)
{
    if (wait_ms <= 0) {
        return;
    }
    int64_t until_ns = jsi_clock_real_mono_ns() + wait_ms * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    /* A time-out and a spurious wake-up are the same to callers: they look again. */
    (void)pthread_cond_timedwait(condition, lock, &until);
}

int jsi_thread_start(pthread_t *out_thread, const char *name, void *(*body)(void *arg), void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, body, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return jobsched_fail(JOBSCHED_EOS, failed, "thread '%s' could not be created (error %d)",
                             name, failed);
    }
    /* Names help people with debuggers; a refusal changes nothing. */
    (void)pthread_setname_np(thread, name);
    *out_thread = thread;
    return JOBSCHED_OK;
}
