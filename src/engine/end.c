/* end.c: how a run ends: from the callback's result to an outcome in the ledger.
 * Locks: functions ending in _locked need s->lock. */
#include "engine/internal.h"

/* Whatever it did, nothing protected it. A run that asked for it is owed a rerun, also when nobody
 * had taken the job meanwhile. */
static int outcome_of_lost(const jobsched *s, const jobsched_run *run, int result)
{
    if (s->state == JSI_CLOSING) {
        /* Not lost yet, only given up by jobsched_close; the ledger refuses it if it was lost. */
        return result == JOBSCHED_OK ? JOBSCHED_OUTCOME_SUCCEEDED : JOBSCHED_OUTCOME_INTERRUPTED;
    }
    return run->recover == JOBSCHED_RECOVER_RERUN ? JOBSCHED_OUTCOME_INTERRUPTED
                                                  : JOBSCHED_OUTCOME_LEASE_LOST;
}

/* What a result means once no attempt follows. */
static int outcome_of(int result, int stop_reason)
{
    if (result == JOBSCHED_OK) {
        return JOBSCHED_OUTCOME_SUCCEEDED;
    }
    if (stop_reason == JOBSCHED_STOP_TIMED_OUT) {
        return JOBSCHED_OUTCOME_TIMED_OUT;
    }
    return result == JOBSCHED_ECANCELED ? JOBSCHED_OUTCOME_CANCELLED : JOBSCHED_OUTCOME_FAILED;
}

static int64_t backoff_ms(const jobsched_job_spec *spec, uint32_t attempt)
{
    int64_t span_ms = spec->backoff_ms;
    for (uint32_t i = 1; i < attempt && span_ms < spec->backoff_max_ms; i++) {
        span_ms *= 2;
    }
    return span_ms < spec->backoff_max_ms ? span_ms : spec->backoff_max_ms;
}

static void end_locked(jobsched *s, jobsched_run *run, int result, int stop_reason)
{
    run->outcome = stop_reason == JOBSCHED_STOP_LEASE_LOST ? outcome_of_lost(s, run, result)
                                                           : outcome_of(result, stop_reason);
    run->code = result;
    run->state = JSI_RUN_ENDED;
    if (jsi_link_is_listed(&run->stop_link)) {
        jsi_list_remove(&run->stop_link);
        run->references--; /* never the last: the caller holds one */
    }
    jsi_list_append(&s->finishing, &run->work_link);
    jsi_wake_elect_locked(s);
    (void)pthread_cond_broadcast(&s->idle_cond);
}

void jsi_run_result_locked(jobsched *s, jobsched_run *run, int result)
{
    int stop_reason = jobsched_run_should_stop(run);
    uint32_t attempt = atomic_load(&run->attempt);
    s->executing--;
    jsi_room_learn_locked(s, run);
    if (run->orphan) {
        run->state = JSI_RUN_ENDED; /* closed: there is no ledger to write to any more */
        return;
    }
    if (result == JOBSCHED_OK || result == JOBSCHED_ECANCELED ||
        stop_reason != JOBSCHED_STOP_NONE || attempt >= run->job->spec.attempts) {
        end_locked(s, run, result, stop_reason);
        return;
    }
    run->code = result;
    run->state = JSI_RUN_BACKOFF;
    run->finish_called = false;
    run->retry_at_mono_ms = jsi_mono(s) + backoff_ms(&run->job->spec, attempt);
    jsi_run_expect_locked(s, run->retry_at_mono_ms);
    jsi_wake_elect_locked(s); /* its worker is free */
    jobsched_event event = jsi_event(JOBSCHED_EVENT_ATTEMPT_FAILED, run->job, run);
    event.code = result;
    event.message = run->note;
    jsi_emit_locked(s, &event);
}

static void count_outcome(jobsched_stats *stats, int outcome)
{
    switch (outcome) {
    case JOBSCHED_OUTCOME_SUCCEEDED:
        stats->succeeded++;
        break;
    case JOBSCHED_OUTCOME_CANCELLED:
        stats->cancelled++;
        break;
    case JOBSCHED_OUTCOME_TIMED_OUT:
        stats->timed_out++;
        break;
    case JOBSCHED_OUTCOME_LEASE_LOST:
    case JOBSCHED_OUTCOME_INTERRUPTED:
        stats->lease_lost++;
        break;
    default:
        stats->failed++;
        break;
    }
}

/* A fixed delay is counted from this end. */
static void note_end_locked(jobsched *s, jsi_job *job, int64_t now_ms)
{
    job->last_end_ms = now_ms;
    if (jsi_delay_ms(job) > 0 && job->phase == JSI_JOB_ARMED) {
        jsi_due_disarm(&s->due, &job->due);
        jsi_job_rearm_locked(s, job);
    }
}

void jsi_run_written_locked(jobsched *s, jobsched_run *run, int answer, int64_t now_ms)
{
    bool refused = answer == JOBSCHED_LEASE_GONE;
    jobsched_event event = jsi_event(
        refused ? JOBSCHED_EVENT_FINISH_REFUSED : JOBSCHED_EVENT_RUN_FINISHED, run->job, run);
    event.outcome = refused ? JOBSCHED_OUTCOME_LEASE_LOST : run->outcome;
    event.code = run->code;
    event.message =
        refused ? "the run was no longer this node's: another outcome is in the ledger" : run->note;
    if (!run->job->leads) {
        count_outcome(&s->stats, event.outcome);
        jsi_emit_locked(s, &event);
    }
    jsi_list_remove(&run->link);
    s->active_count--;
    run->job->active_runs--;
    if (!refused) {
        note_end_locked(s, run->job, now_ms);
    }
    if (run->job->leads && run->job->phase == JSI_JOB_IDLE && s->state == JSI_STARTED) {
        jsi_job_rearm_locked(s, run->job);
    }
    jsi_ask_kick_locked(s, run->job);
    s->runs_written++;
    (void)pthread_cond_broadcast(&s->idle_cond);
}

void jsi_run_bury(jobsched *s, jobsched_run *run)
{
    (void)pthread_mutex_lock(&s->lock);
    jsi_list_remove(&run->link);
    (void)pthread_mutex_unlock(&s->lock);
    jsi_run_release(s, run);
    jsi_scheduler_release(s);
}

int jobsched_run_finish(jobsched_run *run, int result)
{
    if (run == NULL || result == JOBSCHED_PENDING) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "run is NULL or result is JOBSCHED_PENDING");
    }
    jobsched *s = run->s;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    bool orphan = false;
    (void)pthread_mutex_lock(&s->lock);
    if (run->state == JSI_RUN_PENDING) {
        orphan = run->orphan;
        jsi_run_result_locked(s, run, result);
    } else {
        /* The callback has not returned yet: kept until it does. */
        run->finish_called = true;
        run->finish_result = result;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (orphan) {
        jsi_run_bury(s, run);
    }
    return JOBSCHED_OK;
}
