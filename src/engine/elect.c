/* elect.c: one round with the backend on lane CLAIM: announce new jobs (announce.c), write outcomes,
 * and fire what is due (fire.c). While a round is under way, whatever comes due gathers for the next.
 * Locks: takes s->lock, never over a backend call. */
#include "base/hash.h"
#include "engine/internal.h"

/* ---- resting after a failure ----------------------------------------------- */

void jsi_rest_locked(jobsched *s)
{
    int doublings = s->claim_outage.failures < 8 ? s->claim_outage.failures : 8;
    int64_t span_ms = (int64_t)JSI_RETRY_FIRST_MS << doublings;
    if (span_ms > JSI_RETRY_MAX_MS) {
        span_ms = JSI_RETRY_MAX_MS;
    }
    /* Half to whole: nodes that failed together do not come back together. */
    uint64_t spread = jsi_fnv1a64(JSI_FNV1A64_INIT, s->node_id, sizeof s->node_id);
    spread = jsi_mix64(spread + (uint64_t)s->claim_outage.failures);
    span_ms = span_ms / 2 + (int64_t)(spread % (uint64_t)(span_ms / 2 + 1));
    s->retry_at_mono_ms = jsi_mono(s) + span_ms;
}

/* ---- finish ---------------------------------------------------------------- */

static size_t finish(jobsched *s)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    while (count < JOBSCHED_BATCH_MAX) {
        jsi_link *link = jsi_list_take(&s->finishing);
        if (link == NULL) {
            break;
        }
        jobsched_run *run = JSI_CONTAINER(link, jobsched_run, work_link);
        s->runs[count] = run;
        /* The run has ended: its note and progress do not change any more. */
        s->finishes[count++] = (jobsched_finish){.job = run->job->name,
                                                 .note = run->note,
                                                 .token = run->token,
                                                 .progress_done = run->progress_done,
                                                 .progress_total = run->progress_total,
                                                 .outcome = run->outcome,
                                                 .code = run->code};
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (count == 0) {
        return 0;
    }
    int64_t now_ms;
    int failed = jsi_backend_finish(s, s->finishes, count, &now_ms);
    (void)pthread_mutex_lock(&s->lock);
    if (JSI_MUTANT(finish_once)) {
        failed = 0;
    }
    for (size_t i = count; failed != 0 && i > 0; i--) {
        jsi_list_prepend(&s->finishing, &s->runs[i - 1]->work_link);
    }
    for (size_t i = 0; failed == 0 && i < count; i++) {
        jsi_run_written_locked(s, s->runs[i], s->finishes[i].answer, now_ms);
    }
    if (failed != 0) {
        jsi_rest_locked(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; failed == 0 && i < count; i++) {
        jsi_run_release(s, s->runs[i]);
    }
    return count;
}

static bool wants_to_claim_locked(const jobsched *s)
{
    return jsi_leads_locked(s) || s->leader_job->phase == JSI_JOB_READY;
}

/* ---- the round ------------------------------------------------------------- */

bool jsi_elect(jobsched *s, int64_t *out_again_mono_ms)
{
    *out_again_mono_ms = JOBSCHED_NONE;
    (void)pthread_mutex_lock(&s->lock);
    int64_t retry_at_ms = s->retry_at_mono_ms;
    bool rests = jsi_mono(s) < retry_at_ms;
    (void)pthread_mutex_unlock(&s->lock);
    if (rests) {
        *out_again_mono_ms = retry_at_ms;
        return false;
    }
    /* Looks come last: where their lane hangs, what is due has been claimed. */
    size_t (*const rounds[])(jobsched *) = {
        jsi_withdraw, jsi_announce,       finish,  jsi_leader_catch_up,
        jsi_fire,     jsi_leader_refresh, jsi_look};
    size_t done = 0;
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        done += rounds[i](s);
        /* A backend that just failed is not tried with the next kind of request. */
        (void)pthread_mutex_lock(&s->lock);
        bool failed = s->retry_at_mono_ms != retry_at_ms;
        bool starved = s->state == JSI_STARTED && s->lost_at_mono_ms == JOBSCHED_NONE &&
                       wants_to_claim_locked(s) && done == 0 && !jsi_list_is_empty(&s->ready) &&
                       jsi_room_ms_locked(s) > 0;
        *out_again_mono_ms = failed    ? s->retry_at_mono_ms
                             : starved ? jsi_mono(s) + JSI_RETRY_FIRST_MS
                                       : jsi_look_next_locked(s);
        (void)pthread_mutex_unlock(&s->lock);
        if (failed) {
            return false;
        }
    }
    return done > 0;
}
