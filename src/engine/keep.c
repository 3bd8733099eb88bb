/* keep.c: the heartbeat: renews the leases of this node's runs, hears of cancellations, and looks
 * for what dead owners left behind. On a lane and thread of its own, so that it never queues
 * behind claims.
 * Locks: takes s->lock, never over a backend call (but vouch()). */
#include "engine/internal.h"

static int64_t beat_ms_locked(const jobsched *s)
{
    int64_t lease_ms = s->settings.lease_ms;
    for (const jsi_link *link = s->active.next; link != &s->active; link = link->next) {
        const jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        lease_ms = run->job->lease_ms < lease_ms ? run->job->lease_ms : lease_ms;
    }
    return lease_ms / JSI_BEATS_PER_LEASE;
}

/* The next batch of runs that this round has not asked about. */
static size_t gather_locked(jobsched *s)
{
    size_t count = 0;
    for (jsi_link *link = s->active.next; link != &s->active && count < JOBSCHED_BATCH_MAX;
         link = link->next) {
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        if (run->keep_round == s->keep_round || run->state == JSI_RUN_ENDED) {
            continue;
        }
        run->keep_round = s->keep_round;
        run->references++;
        s->leased[count] = run;
        memcpy(s->lease_notes[count], run->note, sizeof run->note);
        s->leases[count] = (jobsched_lease){.job = run->job->name,
                                            .note = s->lease_notes[count],
                                            .token = run->token,
                                            .progress_done = run->progress_done,
                                            .progress_total = run->progress_total};
        count++;
    }
    return count;
}

static void apply(jobsched *s, size_t count, int failed, int64_t sent_mono_ms)
{
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; failed == 0 && i < count; i++) {
        jobsched_run *run = s->leased[i];
        switch (s->leases[i].answer) {
        case JOBSCHED_LEASE_GONE:
            if (JSI_MUTANT(gone_is_kept)) {
                jsi_run_renewed_locked(s, run, sent_mono_ms);
                break;
            }
            jsi_run_stop_locked(s, run, JOBSCHED_STOP_LEASE_LOST);
            break;
        case JOBSCHED_LEASE_CANCEL:
            jsi_run_renewed_locked(s, run, sent_mono_ms);
            if (!JSI_MUTANT(cancel_unheard)) {
                jsi_run_stop_locked(s, run, JOBSCHED_STOP_CANCELLED);
            }
            break;
        default:
            jsi_run_renewed_locked(s, run, sent_mono_ms);
            break;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        jsi_run_release(s, s->leased[i]);
    }
}

/* All runs, in batches; at least one request, which is the heartbeat. */
static int renew(jobsched *s)
{
    int failed;
    size_t count;
    (void)pthread_mutex_lock(&s->lock);
    s->keep_round++;
    (void)pthread_mutex_unlock(&s->lock);
    do {
        (void)pthread_mutex_lock(&s->lock);
        count = gather_locked(s);
        int64_t offset_ms = jsi_now_locked(s) - s->clock.wall_ms(s->clock.ctx);
        (void)pthread_mutex_unlock(&s->lock);
        /* Leases are counted from before the request was sent (G5). */
        int64_t sent_mono_ms = jsi_mono(s);
        failed = jsi_backend_renew(s, offset_ms, s->leases, count);
        sent_mono_ms = JSI_MUTANT(renewal_from_reply) ? jsi_mono(s) : sent_mono_ms;
        apply(s, count, failed, sent_mono_ms);
    } while (failed == 0 && count == JOBSCHED_BATCH_MAX);
    return failed;
}

static int found(const jobsched_finding *finding, void *visit_data)
{
    jobsched *s = visit_data;
    (void)pthread_mutex_lock(&s->lock);
    jsi_job *job = jsi_map_find(&s->jobs, finding->job);
    if (finding->found == JOBSCHED_FOUND_INTERRUPTED) {
        jobsched_event event = jsi_event(JOBSCHED_EVENT_INTERRUPTED, NULL, NULL);
        event.job = finding->job;
        event.node = finding->node;
        event.scheduled_at_ms = finding->scheduled_ms;
        event.last_at_ms = finding->scheduled_ms;
        event.count = 1;
        event.token = finding->token;
        event.attempt = finding->attempt;
        event.outcome = JOBSCHED_OUTCOME_INTERRUPTED;
        event.message = "the run's owner is gone";
        jsi_emit_locked(s, &event);
        if (job != NULL) {
            jsi_ask_kick_locked(s, job);
        }
    } else if (job != NULL && s->state == JSI_STARTED && jsi_leads_locked(s)) {
        int kind =
            finding->found == JOBSCHED_FOUND_RERUN ? JOBSCHED_KIND_RERUN : JOBSCHED_KIND_TRIGGER;
        /* Without memory it is found again at the next beat. */
        if (!JSI_MUTANT(findings_ignored)) {
            (void)jsi_ask_extra_locked(s, job, kind, finding->scheduled_ms, finding->request);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return 0;
}

void jsi_keep_lost_locked(jobsched *s, int64_t lost_at_mono_ms)
{
    if (JSI_MUTANT(session_end_ignored)) {
        return;
    }
    /* "At once" may be said with the smallest number. */
    lost_at_mono_ms = lost_at_mono_ms < INT64_MIN / 2 ? INT64_MIN / 2 : lost_at_mono_ms;
    s->lost_at_mono_ms = jsi_earlier(s->lost_at_mono_ms, lost_at_mono_ms);
    s->lost_told_mono_ms = jsi_mono(s);
    jsi_run_lost_locked(s, s->lost_at_mono_ms);
}

void jsi_keep_alive_locked(jobsched *s)
{
    if (s->lost_at_mono_ms != JOBSCHED_NONE) {
        s->lost_at_mono_ms = JOBSCHED_NONE;
        jsi_wake_elect_locked(s);
    }
    /* The tick watches, too (G5); while nothing was to be vouched for it had no reason to. */
    if (s->driver->vouch != NULL && !jsi_list_is_empty(&s->active)) {
        jsi_run_expect_locked(s, jsi_backend_vouched_ms(s, jsi_mono(s)));
    }
}

bool jsi_keep_is_vouched_locked(jobsched *s)
{
    int64_t mono_ms = jsi_mono(s), until_ms = jsi_backend_vouched_ms(s, mono_ms);
    if (mono_ms < until_ms || s->state == JSI_CLOSING) {
        return true; /* closing has stopped all runs */
    }
    jsi_keep_lost_locked(s, until_ms + JSI_LOST_MARGIN_MS);
    jsi_wake_keep_locked(s); /* a renewal that succeeds ends it */
    return false;
}

bool jsi_keep_may_claim_locked(jobsched *s)
{
    if (s->lost_at_mono_ms == JOBSCHED_NONE && !jsi_keep_is_vouched_locked(s)) {
        jsi_rest_locked(s); /* or a backend that renews and does not vouch is asked without end */
    } else if (s->lost_at_mono_ms == JOBSCHED_NONE && jsi_mono(s) <= s->lost_told_mono_ms) {
        jsi_rest_locked(s); /* as a grant that is doubtful would be, all within one millisecond */
        return false;
    }
    return s->lost_at_mono_ms == JOBSCHED_NONE;
}

bool jsi_keep_is_doubtful_locked(jobsched *s, int64_t sent_mono_ms)
{
    return !jsi_keep_is_vouched_locked(s) || sent_mono_ms <= s->lost_told_mono_ms;
}

/* A beat's worth of time is left twice, so to ask again well within it is soon enough. But once
 * the store may pass the runs on, each moment counts, and nothing is claimed meanwhile. */
static int64_t retry_ms_locked(const jobsched *s)
{
    int64_t span_ms = beat_ms_locked(s) / 4;
    if (s->lost_at_mono_ms != JOBSCHED_NONE) {
        int doublings = s->keep_outage.failures < 6 ? s->keep_outage.failures : 6;
        span_ms = jsi_earlier(span_ms, (int64_t)JSI_RETRY_FIRST_MS << doublings);
    }
    return span_ms;
}

int64_t jsi_keep(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    int64_t mono_ms = jsi_mono(s);
    bool works = s->state == JSI_STARTED || s->state == JSI_STOPPED;
    if (JSI_MUTANT(keeper_gives_up) && s->keep_outage.failures > 0) {
        s->keep_now = works = false;
        s->beat_at_mono_ms = JOBSCHED_NONE;
    }
    int64_t beat_at_ms = s->beat_at_mono_ms;
    if (!works || (!s->keep_now && mono_ms < beat_at_ms)) {
        (void)pthread_mutex_unlock(&s->lock);
        return works ? beat_at_ms : JOBSCHED_NONE;
    }
    bool reaps = s->state == JSI_STARTED;
    s->keep_now = false;
    /* From now on grants bring the next beat forward from here. */
    s->beat_at_mono_ms = mono_ms + beat_ms_locked(s);
    (void)pthread_mutex_unlock(&s->lock);

    int failed = renew(s);
    if (failed == 0 && reaps) {
        failed = jsi_backend_reap(s, found, s);
    }
    (void)pthread_mutex_lock(&s->lock);
    if (failed != 0) {
        int64_t retry_at_ms = jsi_mono(s) + retry_ms_locked(s);
        if (retry_at_ms < s->beat_at_mono_ms) {
            s->beat_at_mono_ms = retry_at_ms;
        }
    }
    beat_at_ms = s->beat_at_mono_ms;
    (void)pthread_mutex_unlock(&s->lock);
    return beat_at_ms;
}
