/* run.c: a run while it lives: granted, renewed, asked to stop, and what the callback may ask.
 * Locks: functions ending in _locked need s->lock. jobsched_run_should_stop and the other
 * questions take none: they read atomics and fields that never change, and may ask vouch(). */
#include "base/text.h"
#include "engine/internal.h"

jobsched_run *jsi_run_new(jobsched *s)
{
    jobsched_run *run = jsi_new(&s->allocator, sizeof *run);
    if (run != NULL) {
        run->s = s;
        run->references = 1;
    }
    return run;
}

void jsi_run_release(jobsched *s, jobsched_run *run)
{
    (void)pthread_mutex_lock(&s->lock);
    bool last = --run->references == 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (last) {
        if (run->job != NULL) {
            jsi_job_release(s, run->job);
        }
        jsi_free(&s->allocator, run);
    }
}

/* The part of the lease that a run may rely on: it ends a little early, so that even a node that
 * notices late has told its run before the lease can pass on (G5). */
static int64_t safe_lease_ms(const jsi_job *job)
{
    int64_t margin_ms = job->lease_ms / 10;
    if (JSI_MUTANT(lease_too_long)) {
        margin_ms = -margin_ms;
    }
    return job->lease_ms -
           (margin_ms < JSI_LEASE_MARGIN_MAX_MS ? margin_ms : JSI_LEASE_MARGIN_MAX_MS);
}

void jsi_run_expect_locked(jobsched *s, int64_t at_mono_ms)
{
    if (at_mono_ms < s->next_run_event_mono_ms) {
        s->next_run_event_mono_ms = at_mono_ms;
        jsi_wake_tick_locked(s);
    }
}

void jsi_run_granted_locked(jobsched *s, jobsched_run *run, jsi_job *job,
                            const jobsched_claim *claim, int64_t sent_mono_ms)
{
    run->job = job;
    job->references++;
    run->token = claim->token;
    run->scheduled_ms = claim->granted_ms;
    run->kind = claim->kind;
    run->grant_attempt = claim->attempt;
    run->state = JSI_RUN_QUEUED;
    run->retry_at_mono_ms = JOBSCHED_NONE;
    run->timeout_at_mono_ms = JOBSCHED_NONE; /* counted from the first call of the callback */
    int64_t lease_until_ms = sent_mono_ms + safe_lease_ms(run->job);
    if (s->lost_at_mono_ms != JOBSCHED_NONE) {
        lease_until_ms = jsi_earlier(lease_until_ms, s->lost_at_mono_ms - JSI_LOST_MARGIN_MS);
    }
    atomic_store(&run->lease_until_mono_ms, lease_until_ms);
    jsi_list_append(&s->active, &run->link);
    s->active_count++;
    job->active_runs++;
    s->executing++;
    s->stats.granted += !job->leads;
    /* The tick looks again then, also where no run asks. */
    jsi_run_expect_locked(s, jsi_earlier(lease_until_ms, jsi_backend_vouched_ms(s, jsi_mono(s))));
    /* The grant counted as a heartbeat; the next must come in time for this lease. */
    int64_t beat_at_ms = sent_mono_ms + run->job->lease_ms / JSI_BEATS_PER_LEASE;
    if (beat_at_ms < s->beat_at_mono_ms) {
        s->beat_at_mono_ms = beat_at_ms;
        jsi_poke_keep_locked(s);
    }
    if (job->leads) {
        jsi_leader_granted_locked(s, run);
        return;
    }
    if (s->state == JSI_CLOSING) {
        jsi_run_stop_locked(s, run, JOBSCHED_STOP_LEASE_LOST);
    }
    jobsched_event event = jsi_event(JOBSCHED_EVENT_GRANTED, run->job, run);
    jsi_emit_locked(s, &event);
}

void jsi_run_renewed_locked(jobsched *s, jobsched_run *run, int64_t sent_mono_ms)
{
    /* A lease that ended stays ended, also if the backend had not noticed yet: the run may have
     * been told. */
    int64_t seen_ms = atomic_load(&run->lease_until_mono_ms);
    if (jsi_mono(s) < seen_ms || JSI_MUTANT(lease_revives)) {
        int64_t lease_ms =
            JSI_MUTANT(renewal_from_reply) ? run->job->lease_ms : safe_lease_ms(run->job);
        (void)atomic_compare_exchange_strong(&run->lease_until_mono_ms, &seen_ms,
                                             sent_mono_ms + lease_ms);
        if (JSI_MUTANT(lease_revives)) {
            atomic_store(&run->stop_reason, JOBSCHED_STOP_NONE);
        }
    }
}

void jsi_run_lost_locked(jobsched *s, int64_t lost_at_mono_ms)
{
    int64_t until_ms = lost_at_mono_ms - JSI_LOST_MARGIN_MS;
    for (jsi_link *link = s->active.next; link != &s->active; link = link->next) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        int64_t seen_ms = atomic_load(&run->lease_until_mono_ms);
        /* Fails only if the run's own question has just found the lease ended. */
        while (seen_ms > until_ms &&
               !atomic_compare_exchange_strong(&run->lease_until_mono_ms, &seen_ms, until_ms)) {
        }
    }
    jsi_run_expect_locked(s, until_ms);
}

void jsi_run_stop_locked(jobsched *s, jobsched_run *run, int reason)
{
    int before = atomic_load(&run->stop_reason);
    if (run->state == JSI_RUN_ENDED || before == JOBSCHED_STOP_LEASE_LOST ||
        (before != JOBSCHED_STOP_NONE && reason != JOBSCHED_STOP_LEASE_LOST)) {
        return;
    }
    atomic_store(&run->stop_reason, reason);
    if (reason == JOBSCHED_STOP_LEASE_LOST) {
        atomic_store(&run->lease_until_mono_ms, JSI_LEASE_LOST);
    }
    if (run->job->leads) {
        jsi_leader_stopped_locked(s, run, reason);
        return;
    }
    jobsched_event event = jsi_event(JOBSCHED_EVENT_RUN_STOPPING, run->job, run);
    event.stop_reason = reason;
    event.message = jobsched_stop_reason_name(reason);
    jsi_emit_locked(s, &event);
    if (run->state == JSI_RUN_BACKOFF) {
        /* Between attempts nobody else would notice. */
        run->state = JSI_RUN_CALLING;
        s->executing++;
        jsi_run_result_locked(s, run,
                              reason == JOBSCHED_STOP_TIMED_OUT ? run->code : JOBSCHED_ECANCELED);
        return;
    }
    if (before == JOBSCHED_STOP_NONE && run->job->spec.on_stop != NULL) {
        run->references++; /* until it is delivered */
        jsi_list_append(&s->stops, &run->stop_link);
        (void)pthread_cond_signal(&s->event_cond);
    }
}

/* The clock that leases are measured with. */
static int64_t lease_clock(const jobsched *s)
{
    return JSI_MUTANT(lease_by_wall) ? s->clock.wall_ms(s->clock.ctx) - s->sync.low_ms
                                     : jsi_mono(s);
}

void jsi_run_deadlines_locked(jobsched *s, int64_t mono_ms, jsi_link *out_retries)
{
    if (mono_ms < s->next_run_event_mono_ms) {
        return;
    }
    int64_t next_ms = JOBSCHED_NONE;
    if (!jsi_list_is_empty(&s->active) && jsi_keep_is_vouched_locked(s)) {
        next_ms = jsi_backend_vouched_ms(s, mono_ms); /* else all leases have just ended */
    }
    jsi_link *link = s->active.next;
    while (link != &s->active) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        link = link->next;
        if (run->state == JSI_RUN_ENDED) {
            continue;
        }
        int64_t lease_until_ms = atomic_load(&run->lease_until_mono_ms);
        if (mono_ms >= lease_until_ms) {
            jsi_run_stop_locked(s, run, JOBSCHED_STOP_LEASE_LOST);
        } else {
            next_ms = jsi_earlier(next_ms, lease_until_ms);
        }
        if (mono_ms >= run->timeout_at_mono_ms) {
            run->timeout_at_mono_ms = JOBSCHED_NONE;
            jsi_run_stop_locked(s, run, JOBSCHED_STOP_TIMED_OUT);
        }
        if (run->state == JSI_RUN_BACKOFF && mono_ms >= run->retry_at_mono_ms) {
            run->retry_at_mono_ms = JOBSCHED_NONE;
            run->state = JSI_RUN_QUEUED;
            s->executing++;
            jsi_list_append(out_retries, &run->work_link);
        }
        next_ms = jsi_earlier(next_ms, run->timeout_at_mono_ms);
        next_ms = jsi_earlier(next_ms, run->retry_at_mono_ms);
    }
    s->next_run_event_mono_ms = next_ms;
}

/* Whether a run may rely on its lease at all. */
static bool is_vouched(const jobsched *s, int64_t now_ms)
{
    int64_t mono_ms = JSI_MUTANT(lease_by_wall) ? jsi_mono(s) : now_ms;
    return mono_ms < jsi_backend_vouched_ms(s, mono_ms);
}

/* ---- what a callback may ask ------------------------------------------------ */

const char *jobsched_run_job(const jobsched_run *run)
{
    return run->job->name;
}

int64_t jobsched_run_scheduled_at_ms(const jobsched_run *run)
{
    return run->scheduled_ms;
}

int jobsched_run_kind(const jobsched_run *run)
{
    return run->kind;
}

uint32_t jobsched_run_attempt(const jobsched_run *run)
{
    return atomic_load(&run->attempt);
}

uint64_t jobsched_run_token(const jobsched_run *run)
{
    return run->token;
}

/* Whether the lease has ended, and if so for good. Looks at the clock itself, and at what shows that
 * this node lives: a process that was frozen must not trust what its own threads wrote before
 * (G5). */
static bool lease_ended(const jobsched_run *run, int64_t *out_left_ms)
{
    /* The run is not a constant object; only its holder's view of it is. */
    _Atomic int64_t *until_ms = (_Atomic int64_t *)&run->lease_until_mono_ms;
    int64_t seen_ms = atomic_load(until_ms);
    while (seen_ms != JSI_LEASE_LOST) {
        int64_t now_ms = lease_clock(run->s);
        int64_t left_ms = seen_ms - now_ms;
        if (left_ms > 0 && is_vouched(run->s, now_ms)) {
            *out_left_ms = left_ms;
            return false;
        }
        /* Fails only if a renewal came in between, at most one per beat. */
        if (atomic_compare_exchange_strong(until_ms, &seen_ms, JSI_LEASE_LOST)) {
            break;
        }
    }
    *out_left_ms = 0;
    return true;
}

int64_t jobsched_run_lease_left_ms(const jobsched_run *run)
{
    int64_t left_ms;
    (void)lease_ended(run, &left_ms);
    return left_ms;
}

int jobsched_run_should_stop(const jobsched_run *run)
{
    int64_t left_ms;
    return lease_ended(run, &left_ms) ? JOBSCHED_STOP_LEASE_LOST : atomic_load(&run->stop_reason);
}

int jobsched_run_note(jobsched_run *run, const char *text)
{
    if (run == NULL || text == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "run or note is NULL");
    }
    int failed = jsi_enter(run->s);
    if (failed != 0) {
        return failed;
    }
    size_t length = strnlen(text, JOBSCHED_NOTE_BYTES);
    /* Not in the middle of a UTF-8 character. */
    while (length > 0 && text[length] != '\0' && ((unsigned char)text[length] & 0xC0) == 0x80) {
        length--;
    }
    (void)pthread_mutex_lock(&run->s->lock);
    if (run->state != JSI_RUN_ENDED) { /* else the elector may be reading it */
        memcpy(run->note, text, length);
        run->note[length] = '\0';
        jsi_text_clean(run->note); /* it is one line, for ledgers and terminals */
    }
    (void)pthread_mutex_unlock(&run->s->lock);
    return JOBSCHED_OK;
}

int jobsched_run_progress(jobsched_run *run, uint64_t done, uint64_t total)
{
    if (run == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "run is NULL");
    }
    int failed = jsi_enter(run->s);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&run->s->lock);
    run->progress_done = done;
    run->progress_total = total;
    (void)pthread_mutex_unlock(&run->s->lock);
    return JOBSCHED_OK;
}
