/* lifecycle.c: start, stop, drain, close: three verbs to end (ask, wait, release).
 * Locks: takes s->lock; never over a backend call or a callback. */
#include "base/thread.h"

#include "engine/internal.h"

#include <stdio.h>

static void emit_plain_locked(jobsched *s, int kind)
{
    jobsched_event event = jsi_event(kind, NULL, NULL);
    jsi_emit_locked(s, &event);
}

int jobsched_start(jobsched *scheduler)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    if (s->settings.control_only) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "a control-only scheduler is not started");
    }
    (void)pthread_mutex_lock(&s->lock);
    enum jsi_state before = s->state;
    if (before == JSI_OPEN) {
        s->state = JSI_STARTED; /* also keeps a second caller from starting threads */
        s->keep_now = true;
        emit_plain_locked(s, JOBSCHED_EVENT_STARTED);
        jsi_override_tell_unknown_locked(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (before == JSI_STARTED) {
        return JOBSCHED_OK;
    }
    if (before != JSI_OPEN) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "a stopped scheduler is not started again");
    }
    failed = jsi_threads_start(s);
    if (failed != 0) {
        jobsched_error error = *jobsched_last_error();
        (void)pthread_mutex_lock(&s->lock);
        s->state = JSI_CLOSING;
        (void)pthread_mutex_unlock(&s->lock);
        int64_t wait_ms = s->settings.request_timeout_ms * 2 + JSI_CLOSE_GRACE_MS;
        size_t abandoned = jsi_threads_join(s, wait_ms) + jsi_events_join(s, wait_ms);
        (void)pthread_mutex_lock(&s->lock);
        /* With a thread that cannot be had back, there is no second try. */
        s->state = abandoned == 0 ? JSI_OPEN : JSI_STOPPED;
        s->events_end = false;
        (void)pthread_mutex_unlock(&s->lock);
        return jobsched_fail(error.code, error.system_errno, "%s", error.message);
    }
    return JOBSCHED_OK;
}

static void stop_locked(jobsched *s)
{
    if (s->state == JSI_OPEN || s->state == JSI_STARTED) {
        if (s->state == JSI_STARTED) {
            emit_plain_locked(s, JOBSCHED_EVENT_STOPPED);
        }
        s->state = JSI_STOPPED;
        jsi_leader_resign_locked(s);
        jsi_ask_drop_due_locked(s);
        jsi_wake_tick_locked(s);
        jsi_wake_elect_locked(s);
    }
}

int jobsched_stop(jobsched *scheduler)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    stop_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    return JOBSCHED_OK;
}

/* ---- drain ----------------------------------------------------------------- */

/* Names the runs that are left, as many as fit, and tells observers of each. */
static void name_left_locked(jobsched *s, char *out_text, size_t text_bytes)
{
    size_t length = 0;
    out_text[0] = '\0';
    for (jsi_link *link = s->active.next; link != &s->active; link = link->next) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        jobsched_event event = jsi_event(JOBSCHED_EVENT_RUN_LEFT, run->job, run);
        event.message = run->state == JSI_RUN_ENDED ? "its outcome could not be written"
                                                    : "its callback has not returned";
        jsi_emit_locked(s, &event);
        if (length < text_bytes - 1) {
            int added =
                snprintf(out_text + length, text_bytes - length, "%s'%s' (token %llu%s)",
                         length > 0 ? ", " : "", run->job->name, (unsigned long long)run->token,
                         run->state == JSI_RUN_ENDED ? ", ended" : "");
            length += added > 0 ? (size_t)added : 0;
        }
    }
}

static void ask_all_locked(jobsched *s, int reason)
{
    jsi_link *link = s->active.next;
    while (link != &s->active) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        link = link->next;
        jsi_run_stop_locked(s, run, reason);
    }
}

/* Whether a run may still come of a claim: one that is under way, or whose outcome is unknown. Its
 * grant would be cut off by the close that follows. */
static bool is_claiming_locked(const jobsched *s)
{
    return s->claiming > 0 || !jsi_list_is_empty(&s->ready) || !jsi_list_is_empty(&s->held);
}

/* Waits for active runs until an instant or until none is left, nor can come of a claim. Naps
 * follow the injected clock, so jobsched_wakeup() lets a moved one be seen. */
static void wait_idle_locked(jobsched *s, int64_t until_mono_ms)
{
    while ((s->active_count > 0 || is_claiming_locked(s)) && s->state != JSI_CLOSING) {
        int64_t left_ms = until_mono_ms - jsi_mono(s);
        if (left_ms <= 0) {
            return;
        }
        jsi_cond_wait_ms(&s->idle_cond, &s->lock, left_ms < 1000 ? left_ms : 1000);
    }
}

int jsi_timeout_check(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > JSI_SPAN_MAX_MS) {
        return jsi_fail_range(JOBSCHED_EINVAL, "timeout_ms", -1, 0, JSI_SPAN_MAX_MS,
                              "timeout of %lld ms is outside 0-%lld ms", (long long)timeout_ms,
                              (long long)JSI_SPAN_MAX_MS);
    }
    return JOBSCHED_OK;
}

int jobsched_drain(jobsched *scheduler, int64_t timeout_ms)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    if (jsi_call_is_inside(s)) {
        return jobsched_fail(JOBSCHED_EREENTRANT, 0,
                             "jobsched_drain was called from a callback, which it would wait for");
    }
    failed = jsi_timeout_check(timeout_ms);
    if (failed != 0) {
        return failed;
    }
    int64_t ask_ms =
        timeout_ms / 5 < JSI_DRAIN_STOP_MAX_MS ? timeout_ms / 5 : JSI_DRAIN_STOP_MAX_MS;
    char left[JOBSCHED_MESSAGE_BYTES - 100];
    (void)pthread_mutex_lock(&s->lock);
    int64_t until_ms = jsi_mono(s) + timeout_ms;
    stop_locked(s);
    wait_idle_locked(s, until_ms - ask_ms);
    ask_all_locked(s, JOBSCHED_STOP_SHUTDOWN);
    wait_idle_locked(s, until_ms);
    uint64_t left_count = s->active_count;
    bool claiming = is_claiming_locked(s);
    if (left_count > 0) {
        name_left_locked(s, left, sizeof left);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (left_count > 0) {
        return jobsched_fail(JOBSCHED_ETIMEDOUT, 0,
                             "runs are left at the drain's deadline (%llu): %s",
                             (unsigned long long)left_count, left);
    }
    return claiming ? jobsched_fail(JOBSCHED_ETIMEDOUT, 0,
                                    "the outcome of a claim is still unknown at the drain's "
                                    "deadline; what it granted is cut off by jobsched_close")
                    : JOBSCHED_OK;
}

/* ---- close ----------------------------------------------------------------- */

/* A run that the host still holds becomes an orphan, and whoever ends it buries it. Returns how
 * many there are. */
static size_t orphan_runs(jobsched *s)
{
    size_t orphans = 0;
    (void)pthread_mutex_lock(&s->lock);
    jsi_link *link = s->active.next;
    while (link != &s->active) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        link = link->next;
        bool with_host = run->state == JSI_RUN_QUEUED && run->with_host;
        if (run->state == JSI_RUN_CALLING || run->state == JSI_RUN_PENDING || with_host) {
            run->orphan = true;
            s->references++;
            orphans++;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return orphans;
}

/* Runs that nobody will touch again. */
static void drop_runs(jobsched *s)
{
    for (;;) {
        (void)pthread_mutex_lock(&s->lock);
        jsi_link *link = jsi_list_take(&s->active);
        jobsched_run *run = link == NULL ? NULL : JSI_CONTAINER(link, jobsched_run, link);
        if (run != NULL) {
            jsi_list_remove(&run->work_link);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (run == NULL) {
            return;
        }
        jsi_run_release(s, run);
    }
}

static void drop_asks(jobsched *s)
{
    jsi_link *const lists[] = {&s->ready, &s->held};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (;;) {
            (void)pthread_mutex_lock(&s->lock);
            jsi_link *link = jsi_list_first(lists[i]);
            jsi_ask *ask = link == NULL ? NULL : JSI_CONTAINER(link, jsi_ask, link);
            jsi_job *job = ask == NULL ? NULL : ask->job;
            if (ask != NULL) {
                (void)jsi_ask_drop_locked(s, ask);
            }
            (void)pthread_mutex_unlock(&s->lock);
            if (job == NULL) {
                break;
            }
            jsi_job_release(s, job);
        }
    }
}

/* on_stop calls that were never delivered. */
static void drop_stops(jobsched *s)
{
    for (;;) {
        (void)pthread_mutex_lock(&s->lock);
        jsi_link *link = jsi_list_take(&s->stops);
        (void)pthread_mutex_unlock(&s->lock);
        if (link == NULL) {
            return;
        }
        jsi_run_release(s, JSI_CONTAINER(link, jobsched_run, stop_link));
    }
}

static void drop_jobs(jobsched *s)
{
    for (;;) {
        size_t position = 0;
        (void)pthread_mutex_lock(&s->lock);
        jsi_job *job = jsi_map_each(&s->jobs, &position);
        if (job != NULL) {
            jsi_map_remove(&s->jobs, job->name);
            job->withdrawn = true;
            jsi_job_disarm_locked(s, job);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (job == NULL) {
            return;
        }
        jsi_job_release(s, job);
    }
}

void jsi_scheduler_empty(jobsched *s)
{
    drop_stops(s);
    drop_runs(s);
    drop_jobs(s); /* with what they wait for; then what outlives its job's registration */
    drop_asks(s);
    jsi_withdrawals_fini(s);
    jsi_overrides_fini(s);
}

int jobsched_close(jobsched *scheduler)
{
    jobsched *s = scheduler;
    if (s == NULL) {
        return JOBSCHED_OK;
    }
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    if (jsi_call_is_inside(s)) {
        return jobsched_fail(JOBSCHED_EREENTRANT, 0,
                             "jobsched_close was called from a callback of the same scheduler");
    }
    (void)pthread_mutex_lock(&s->lock);
    stop_locked(s);
    if (!JSI_MUTANT(closes_silently)) {
        ask_all_locked(s, JOBSCHED_STOP_LEASE_LOST);
    }
    s->state = JSI_CLOSING;
    (void)pthread_mutex_unlock(&s->lock);
    int64_t wait_ms = s->settings.request_timeout_ms * 2 + JSI_CLOSE_GRACE_MS;
    size_t abandoned = jsi_threads_join(s, wait_ms);
    /* Only a thread that is still inside a backend call keeps the backend open; it closes with
     * the last reference then. */
    bool backend_idle = jsi_backend_close_admin(s, wait_ms) &&
                        !s->threads[JSI_THREAD_ELECT].abandoned &&
                        !s->threads[JSI_THREAD_KEEP].abandoned;
    if (backend_idle) {
        /* Outcomes of runs that ended on the way; each round writes a batch of them. */
        int64_t again_ms;
        (void)pthread_mutex_lock(&s->lock);
        s->retry_at_mono_ms = INT64_MIN; /* a rest would drop them: there is no later */
        (void)pthread_mutex_unlock(&s->lock);
        while (jsi_elect(s, &again_ms)) {
        }
    }
    abandoned += jsi_events_join(s, JSI_CLOSE_EVENTS_MS);
    size_t orphans = orphan_runs(s);
    if (jsi_backend_close_vouch(s, wait_ms) && backend_idle) {
        jsi_backend_close(s);
    }
    /* Everything else goes with the last reference: an abandoned thread may be amid it. */
    jsi_scheduler_release(s);
    return orphans + abandoned == 0
               ? JOBSCHED_OK
               : jobsched_fail(JOBSCHED_ETIMEDOUT, 0,
                               "closed while callbacks still go on (%zu); what they hold is freed "
                               "when they return",
                               orphans + (orphans == 0 ? abandoned : 0));
}
