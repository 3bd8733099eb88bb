/* threads.c: the threads that call the steps in turn, and how they sleep and end.
 * Locks: s->lock; each loop drops it over its step. Threads end in state JSI_CLOSING. */
#include "base/clock.h"
#include "base/thread.h"
#include "base/wake.h"

#include "engine/internal.h"

/* An injected clock may move while a thread sleeps: nobody sleeps longer than this on the word
 * of the clock alone. */
enum { NAP_MAX_MS = 1000 };

void jsi_wake_tick_locked(jobsched *s)
{
    s->tick_again = true;
    (void)pthread_cond_signal(&s->tick_cond);
}

void jsi_wake_elect_locked(jobsched *s)
{
    s->elect_again = true;
    (void)pthread_cond_signal(&s->elect_cond);
}

void jsi_poke_keep_locked(jobsched *s)
{
    if (s->keep_sleeps) {
        s->keep_sleeps = false; /* once is enough */
        jsi_wake_set(s->keep_fd);
    }
}

void jsi_wake_keep_locked(jobsched *s)
{
    s->keep_now = true;
    jsi_poke_keep_locked(s);
}

/* Sleeps until the instant or a signal; returns at once if the instant has passed. */
static void sleep_until_locked(jobsched *s, pthread_cond_t *condition, int64_t until_mono_ms)
{
    if (until_mono_ms == JOBSCHED_NONE) {
        (void)pthread_cond_wait(condition, &s->lock);
        return;
    }
    int64_t left_ms = until_mono_ms - jsi_mono(s);
    jsi_cond_wait_ms(condition, &s->lock, left_ms < NAP_MAX_MS ? left_ms : NAP_MAX_MS);
}

static void tick_loop_locked(jobsched *s)
{
    while (s->state != JSI_CLOSING) {
        s->tick_again = false;
        (void)pthread_mutex_unlock(&s->lock);
        int64_t again_ms = jsi_tick(s);
        (void)pthread_mutex_lock(&s->lock);
        if (!s->tick_again && s->state != JSI_CLOSING) {
            sleep_until_locked(s, &s->tick_cond, again_ms);
        }
    }
}

static void elect_loop_locked(jobsched *s)
{
    while (s->state != JSI_CLOSING) {
        int64_t again_ms;
        s->elect_again = false;
        (void)pthread_mutex_unlock(&s->lock);
        bool more = jsi_elect(s, &again_ms);
        (void)pthread_mutex_lock(&s->lock);
        /* While it rests after a failure, new work is no reason to try sooner. */
        bool rests = jsi_mono(s) < s->retry_at_mono_ms;
        if (!more && (!s->elect_again || rests) && s->state != JSI_CLOSING) {
            sleep_until_locked(s, &s->elect_cond, again_ms);
        }
    }
}

/* What the keeper makes of the backend's descriptor; by the real clock, as poll() is. */
struct push_gate {
    int64_t looks_from_ms; /* it is not looked at before */
    int64_t gap_ms;        /* between the latest round that it asked for and the next */
    bool answered;         /* such a round has just been made */
};

static void keep_sleep_locked(jobsched *s, struct push_gate *gate, int push_fd,
                              int64_t until_mono_ms)
{
    int64_t now_ms = jsi_clock_real_mono_ns() / 1000000;
    if (gate->answered) {
        gate->answered = false;
        gate->looks_from_ms = now_ms + gate->gap_ms;
    }
    int64_t wait_ms = jsi_earlier(NAP_MAX_MS, until_mono_ms - jsi_mono(s));
    if (now_ms < gate->looks_from_ms) {
        wait_ms = jsi_earlier(wait_ms, gate->looks_from_ms - now_ms);
        push_fd = -1;
    }
    s->keep_sleeps = true;
    (void)pthread_mutex_unlock(&s->lock);
    bool pushed = jsi_wake_wait(s->keep_fd, push_fd, wait_ms);
    now_ms = jsi_clock_real_mono_ns() / 1000000;
    (void)pthread_mutex_lock(&s->lock);
    s->keep_sleeps = false;
    if (pushed) {
        bool at_once = now_ms - gate->looks_from_ms < gate->gap_ms;
        gate->gap_ms =
            at_once ? jsi_earlier(2 * gate->gap_ms, JSI_PUSH_GAP_MAX_MS) : JSI_PUSH_GAP_FIRST_MS;
        gate->answered = true;
        s->keep_now = true;
    }
}

static void keep_loop_locked(jobsched *s)
{
    struct push_gate gate = {.gap_ms = 0};
    while (s->state != JSI_CLOSING) {
        (void)pthread_mutex_unlock(&s->lock);
        int64_t again_ms = jsi_keep(s);
        int push_fd = jsi_backend_watch(s);
        (void)pthread_mutex_lock(&s->lock);
        if (!s->keep_now && s->beat_at_mono_ms >= again_ms && s->state != JSI_CLOSING) {
            keep_sleep_locked(s, &gate, push_fd, again_ms);
        }
    }
}

static void event_loop_locked(jobsched *s)
{
    for (;;) {
        (void)pthread_mutex_unlock(&s->lock);
        bool delivered = jsi_deliver(s);
        (void)pthread_mutex_lock(&s->lock);
        bool empty = jsi_list_is_empty(&s->events) && jsi_list_is_empty(&s->stops);
        if (!delivered && empty) {
            /* The last events of a closing scheduler are still told. */
            if (s->state == JSI_CLOSING && s->events_end) {
                return;
            }
            (void)pthread_cond_wait(&s->event_cond, &s->lock);
        }
    }
}

static void work_loop_locked(jobsched *s)
{
    while (s->state != JSI_CLOSING) {
        (void)pthread_mutex_unlock(&s->lock);
        bool worked = jsi_work(s);
        (void)pthread_mutex_lock(&s->lock);
        if (!worked && jsi_list_is_empty(&s->work) && s->state != JSI_CLOSING) {
            (void)pthread_cond_wait(&s->work_cond, &s->lock);
        }
    }
}

static void run_loop(jsi_thread *self, void (*loop_locked)(jobsched *s))
{
    jobsched *s = self->s;
    (void)pthread_mutex_lock(&s->lock);
    loop_locked(s);
    self->exited = true;
    bool abandoned = self->abandoned;
    (void)pthread_cond_broadcast(&s->idle_cond);
    (void)pthread_mutex_unlock(&s->lock);
    if (abandoned) {
        jsi_scheduler_release(s);
    }
}

static void *tick_main(void *arg)
{
    run_loop(arg, tick_loop_locked);
    return NULL;
}

static void *elect_main(void *arg)
{
    run_loop(arg, elect_loop_locked);
    return NULL;
}

static void *keep_main(void *arg)
{
    run_loop(arg, keep_loop_locked);
    return NULL;
}

static void *event_main(void *arg)
{
    run_loop(arg, event_loop_locked);
    return NULL;
}

static void *work_main(void *arg)
{
    run_loop(arg, work_loop_locked);
    return NULL;
}

static int start_one(jobsched *s, jsi_thread *thread, const char *name, void *(*body)(void *arg))
{
    *thread = (jsi_thread){.s = s};
    int failed = jsi_thread_start(&thread->thread, name, body, thread);
    if (failed == 0) {
        thread->started = true;
    }
    return failed;
}

int jsi_threads_start(jobsched *s)
{
    static const struct {
        const char *name;
        void *(*body)(void *arg);
    } bodies[JSI_THREAD_COUNT] = {[JSI_THREAD_TICK] = {"jobsched-tick", tick_main},
                                  [JSI_THREAD_ELECT] = {"jobsched-elect", elect_main},
                                  [JSI_THREAD_KEEP] = {"jobsched-keep", keep_main},
                                  [JSI_THREAD_EVENT] = {"jobsched-event", event_main}};
    /* The elector last: without it nothing is announced or claimed, so a start that fails half-way
     * has granted nothing. */
    static const int order[JSI_THREAD_COUNT] = {JSI_THREAD_EVENT, JSI_THREAD_TICK, JSI_THREAD_KEEP,
                                                JSI_THREAD_ELECT};
    int failed = 0;
    for (size_t i = 0; failed == 0 && s->workers != NULL && i < s->settings.workers; i++) {
        failed = start_one(s, &s->workers[i], "jobsched-work", work_main);
    }
    for (size_t i = 0; failed == 0 && i < JSI_THREAD_COUNT; i++) {
        failed = start_one(s, &s->threads[order[i]], bodies[order[i]].name, bodies[order[i]].body);
    }
    return failed;
}

/* Joins a thread that has ended; abandons one that has not. Returns whether it was abandoned. */
static bool settle(jobsched *s, jsi_thread *thread)
{
    if (!thread->started) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    if (!thread->exited) {
        thread->abandoned = true;
        s->references++;
    }
    bool abandoned = thread->abandoned;
    (void)pthread_mutex_unlock(&s->lock);
    if (abandoned) {
        (void)pthread_detach(thread->thread);
    } else {
        (void)pthread_join(thread->thread, NULL);
    }
    thread->started = false;
    return abandoned;
}

static bool all_exited_locked(const jobsched *s)
{
    for (size_t i = 0; i < JSI_THREAD_COUNT; i++) {
        if (i != JSI_THREAD_EVENT && s->threads[i].started && !s->threads[i].exited) {
            return false;
        }
    }
    for (size_t i = 0; s->workers != NULL && i < s->settings.workers; i++) {
        if (s->workers[i].started && !s->workers[i].exited) {
            return false;
        }
    }
    return true;
}

static bool event_exited_locked(const jobsched *s)
{
    const jsi_thread *thread = &s->threads[JSI_THREAD_EVENT];
    return !thread->started || thread->exited;
}

/* By the real clock: threads end in real time, and an artificial one may stand still. */
static void wait_exited_locked(jobsched *s, bool (*exited_locked)(const jobsched *s),
                               int64_t wait_ms)
{
    int64_t until_ms = jsi_clock_real_mono_ns() / 1000000 + wait_ms;
    for (int64_t left_ms = wait_ms; !exited_locked(s) && left_ms > 0;) {
        jsi_cond_wait_ms(&s->idle_cond, &s->lock, left_ms);
        left_ms = until_ms - jsi_clock_real_mono_ns() / 1000000;
    }
}

size_t jsi_threads_join(jobsched *s, int64_t wait_ms)
{
    pthread_cond_t *const all[] = {&s->tick_cond, &s->elect_cond, &s->work_cond};
    (void)pthread_mutex_lock(&s->lock);
    jsi_poke_keep_locked(s);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        (void)pthread_cond_broadcast(all[i]);
    }
    wait_exited_locked(s, all_exited_locked, wait_ms);
    (void)pthread_mutex_unlock(&s->lock);
    size_t abandoned = 0;
    for (size_t i = 0; i < JSI_THREAD_COUNT; i++) {
        abandoned += i != JSI_THREAD_EVENT && settle(s, &s->threads[i]);
    }
    for (size_t i = 0; s->workers != NULL && i < s->settings.workers; i++) {
        abandoned += settle(s, &s->workers[i]);
    }
    return abandoned;
}

size_t jsi_events_join(jobsched *s, int64_t wait_ms)
{
    (void)pthread_mutex_lock(&s->lock);
    s->events_end = true;
    (void)pthread_cond_broadcast(&s->event_cond);
    wait_exited_locked(s, event_exited_locked, wait_ms);
    (void)pthread_mutex_unlock(&s->lock);
    return settle(s, &s->threads[JSI_THREAD_EVENT]);
}
