/* tick.c: decides which occurrences are due, and which runs have reached a deadline. No I/O, no
 * waiting, no calls into user code but the executor's submit for retries.
 * Locks: takes s->lock; drops it only to submit. */
#include "engine/internal.h"

#include <stdio.h>

/* A stepped wall clock means nothing to a node that follows the backend's, but the backend's may
 * have been stepped with it: ask at once. */
static void look_at_wall_clock(jobsched *s, int64_t mono_ms)
{
    int64_t difference = s->clock.wall_ms(s->clock.ctx) - mono_ms;
    int64_t step_ms = difference - s->wall_minus_mono_ms;
    s->wall_minus_mono_ms = difference;
    if (s->ticked_at_mono_ms < 0 || (step_ms < JSI_CLOCK_STEP_MS && step_ms > -JSI_CLOCK_STEP_MS)) {
        return;
    }
    char message[80];
    jobsched_event event = jsi_event(JOBSCHED_EVENT_CLOCK_JUMPED, NULL, NULL);
    (void)snprintf(message, sizeof message, "the wall clock was stepped by %lld ms",
                   (long long)step_ms);
    event.message = message;
    jsi_emit_locked(s, &event);
    jsi_wake_keep_locked(s);
}

static void take(jobsched *s, jsi_job *job, int64_t now_ms)
{
    jsi_decide(s, job, now_ms);
    job->phase = JSI_JOB_READY;
    job->references++; /* the ask's, for as long as it is in s->ready or with the backend */
    jsi_list_append(&s->ready, &job->ask.link);
    jsi_wake_elect_locked(s);
}

/* Takes the whole due set of this instant; each job goes on from its own scheduled instant. Returns
 * when the next is due. */
static int64_t take_due(jobsched *s, int64_t now_ms)
{
    jsi_job *leader_job = s->leader_job;
    if (!jsi_leads_locked(s) || s->leader_fresh) {
        /* Only to lead is due here. What else is stays where it is, however late it gets. */
        if (leader_job->phase != JSI_JOB_ARMED) {
            return JOBSCHED_NONE;
        }
        int64_t due_ms = leader_job->due.instant->at_ms;
        if (due_ms > now_ms) {
            return due_ms;
        }
        jsi_due_disarm(&s->due, &leader_job->due);
        take(s, leader_job, now_ms);
        return JOBSCHED_NONE;
    }
    for (jsi_due_entry *entry; (entry = jsi_due_take(&s->due, now_ms)) != NULL;) {
        take(s, JSI_CONTAINER(entry, jsi_job, due), now_ms);
    }
    return jsi_due_next(&s->due);
}

/* Asks that are to be repeated later; few, so a scan is cheap. */
static int64_t take_held(jobsched *s, int64_t mono_ms)
{
    int64_t next_ms = JOBSCHED_NONE;
    jsi_link *link = s->held.next;
    while (link != &s->held) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        link = link->next;
        if (ask->not_before_mono_ms <= mono_ms) {
            jsi_list_remove(&ask->link);
            jsi_list_append(&s->ready, &ask->link);
            jsi_wake_elect_locked(s);
        } else if (ask->not_before_mono_ms < next_ms) {
            next_ms = ask->not_before_mono_ms;
        }
    }
    return next_ms;
}

int64_t jsi_tick(jobsched *s)
{
    jsi_link retries;
    jsi_list_init(&retries);
    (void)pthread_mutex_lock(&s->lock);
    int64_t mono_ms = jsi_mono(s);
    look_at_wall_clock(s, mono_ms);
    s->ticked_at_mono_ms = mono_ms;
    int64_t again_ms = mono_ms + JSI_TICK_SLEEP_MAX_MS;
    if (s->state == JSI_STARTED) {
        int64_t due_ms = take_due(s, JSI_MUTANT(due_by_wall) ? s->clock.wall_ms(s->clock.ctx)
                                                             : jsi_timesync_now(&s->sync, mono_ms));
        if (due_ms != JOBSCHED_NONE) {
            again_ms = jsi_earlier(again_ms, due_ms - s->sync.low_ms);
        }
    }
    if (s->state == JSI_STARTED || s->state == JSI_STOPPED) {
        again_ms = jsi_earlier(again_ms, take_held(s, mono_ms));
    }
    jsi_run_deadlines_locked(s, mono_ms, &retries);
    again_ms = jsi_earlier(again_ms, s->next_run_event_mono_ms);
    (void)pthread_mutex_unlock(&s->lock);
    for (jsi_link *link; (link = jsi_list_take(&retries)) != NULL;) {
        jsi_run_submit(s, JSI_CONTAINER(link, jobsched_run, work_link));
    }
    return again_ms;
}
