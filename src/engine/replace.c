/* replace.c: how this node's definition of a job takes the place of another one (G14) without losing
 * what that one has due (G9). The node asks (announce.c) and looks what is in force. Until nothing
 * is due by that, the job acts under it, as its predecessor: its generation, its schedule, its
 * policies, through the same questions as ever (decide.c, fire.c). Then the node announces again, on
 * condition that nothing came between, and looks again if something did.
 *
 * A later registration wins over an earlier one of the same version, so what was put in force after
 * this node asked is not replaced by it.
 * Locks: s->lock, held by the caller throughout. */
#include "engine/internal.h"

#include <stdio.h>

const jobsched_job_spec *jsi_policies(const jsi_job *job)
{
    return job->predecessor == NULL ? &job->spec : &job->predecessor->spec;
}

const jobsched_schedule *jsi_schedule(const jsi_job *job)
{
    return job->predecessor == NULL ? job->schedule : job->predecessor->schedule;
}

int64_t jsi_delay_ms(const jsi_job *job)
{
    return job->predecessor == NULL ? job->delay_ms : job->predecessor->delay_ms;
}

static void drop_predecessor(jobsched *s, jsi_job *job)
{
    if (job->predecessor != NULL) {
        jobsched_schedule_free(job->predecessor->schedule);
        jsi_free(&s->allocator, job->predecessor);
        job->predecessor = NULL;
        s->predecessors--;
    }
}

void jsi_replace_end_locked(jobsched *s, jsi_job *job)
{
    drop_predecessor(s, job);
    job->replaces = false;
    job->settles_since_ms = 0;
}

void jsi_replace_done_locked(jobsched *s, jsi_job *job)
{
    const jsi_predecessor *predecessor = job->predecessor;
    if (predecessor != NULL && predecessor->schedule == NULL) {
        char message[JOBSCHED_MESSAGE_BYTES + 128];
        jobsched_event event = jsi_event(JOBSCHED_EVENT_JOB_UNSETTLED, job, NULL);
        (void)snprintf(message, sizeof message,
                       "an older definition was replaced without looking at what it had due, since "
                       "it is not understood here: %s",
                       predecessor->why_not);
        event.message = message;
        jsi_emit_locked(s, &event);
    }
    jsi_replace_end_locked(s, job);
}

/* ---- the announcement ------------------------------------------------------ */

void jsi_announce_locked(jobsched *s, jsi_job *job)
{
    job->phase = JSI_JOB_NEW;
    jsi_list_append(&s->unannounced, &job->link);
    jsi_wake_elect_locked(s);
}

void jsi_replace_fill_locked(const jobsched *s, const jsi_job *job, jobsched_announcement *item)
{
    if (job->leads || s->driver->jobs == NULL || JSI_MUTANT(replace_anyway)) {
        item->replace = JOBSCHED_REPLACE_ANYWAY; /* it cannot be seen; or has no instants to lose */
    } else if (job->predecessor == NULL) {
        item->replace = JOBSCHED_REPLACE_ASK;
    } else {
        item->replace = JOBSCHED_REPLACE_IF;
        item->replaces = job->generation;
        item->after_ms = job->mark_ms;
        item->before_ms = JSI_MUTANT(cut_dropped) ? JOBSCHED_NONE : job->next_ms;
    }
}

void jsi_replace_pending_locked(jobsched *s, jsi_job *job, const jobsched_announcement *item)
{
    bool first = !job->replaces;
    if (job->predecessor == NULL) {
        job->generation = 0;
        job->replaces = true;
        job->replaced_generation = item->generation;
    }
    if (first) {
        jsi_look_locked(s, job);
    } else {
        jsi_look_later_locked(s, job);
    }
}

void jsi_look_later_locked(jobsched *s, jsi_job *job)
{
    job->phase = JSI_JOB_LOOKING;
    if (jsi_list_is_empty(&s->looking_later)) {
        s->looking_later_mono_ms = jsi_mono(s) + JSI_LOOK_LATER_MS;
    }
    jsi_list_append(&s->looking_later, &job->link);
    jsi_wake_elect_locked(s);
}

/* ---- while the predecessor is in force ------------------------------------- */

void jsi_replace_settle_locked(jobsched *s, jsi_job *job, jsi_predecessor *predecessor,
                               uint64_t generation, int64_t mark_ms, int64_t last_end_ms)
{
    int64_t now_ms = jsi_now_locked(s);
    job->settles_since_ms = job->settles_since_ms == 0 ? now_ms : job->settles_since_ms;
    drop_predecessor(s, job);
    if (predecessor != NULL && predecessor->unread &&
        now_ms - job->settles_since_ms < JSI_SETTLE_WAIT_MS) {
        jsi_free(&s->allocator, predecessor);
        predecessor = NULL;
    }
    if (predecessor == NULL && !job->withdrawn) {
        jsi_look_later_locked(s, job); /* what was lacking may be back then */
        return;
    }
    job->predecessor = predecessor;
    s->predecessors += predecessor != NULL;
    if (job->withdrawn) {
        job->phase = JSI_JOB_IDLE;
        return;
    }
    job->generation = generation;
    job->mark_ms = mark_ms;
    job->last_end_ms = last_end_ms;
    jsi_job_rearm_locked(s, job);
}

void jsi_replace_rearm_locked(jobsched *s, jsi_job *job)
{
    if (job->predecessor->outdated) {
        jsi_look_locked(s, job);
    } else if (JSI_MUTANT(cut_dropped) ||
               job->next_ms > jsi_now_locked(s)) { /* or there is none: JOBSCHED_NONE */
        jsi_announce_locked(s, job);
    } else {
        /* At once: jitter is about load, and the new definition waits. */
        job->phase = JSI_JOB_ARMED;
        jsi_due_arm(&s->due, &job->due, job->next_ms);
        jsi_wake_tick_locked(s);
    }
}

void jsi_replace_undue_locked(jobsched *s, jsi_job *job, int64_t next_ms)
{
    job->next_ms = next_ms;
    jsi_announce_locked(s, job);
}

/* In leader mode, what is due waits here for the leader to claim it, so it is looked at again now and
 * then, until nothing is due or this node leads. */
static void look_standing_by(jobsched *s)
{
    int64_t mono_ms = jsi_mono(s);
    if (s->predecessors == 0 || jsi_leads_locked(s) || mono_ms < s->standby_look_mono_ms) {
        return;
    }
    s->standby_look_mono_ms = mono_ms + JSI_LEADER_AGAIN_MS;
    size_t position = 0;
    for (jsi_job *job; (job = jsi_map_each(&s->jobs, &position)) != NULL;) {
        bool waits =
            job->predecessor != NULL &&
            (job->phase == JSI_JOB_ARMED || (job->phase == JSI_JOB_READY && !job->ask.unresolved));
        if (waits) {
            jsi_job_disarm_locked(s, job);
            jsi_look_locked(s, job);
        }
    }
}

void jsi_replace_look_locked(jobsched *s)
{
    look_standing_by(s);
    if (jsi_list_is_empty(&s->looking_later) || jsi_mono(s) < s->looking_later_mono_ms) {
        return;
    }
    for (jsi_link *link; (link = jsi_list_take(&s->looking_later)) != NULL;) {
        jsi_list_append(&s->looking, link);
    }
}

int64_t jsi_replace_look_next_locked(const jobsched *s)
{
    int64_t next_ms =
        jsi_list_is_empty(&s->looking_later) ? JOBSCHED_NONE : s->looking_later_mono_ms;
    bool stands_by = s->predecessors > 0 && s->state == JSI_STARTED && !jsi_leads_locked(s);
    return stands_by ? jsi_earlier(next_ms, s->standby_look_mono_ms) : next_ms;
}
