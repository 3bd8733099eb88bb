/* work.c: from a granted run to its callback, on own workers or the host's executor.
 * Locks: takes s->lock; drops it over the callback and the executor. */
#include "engine/internal.h"

/* Refused before the callback was called: whatever the reason, nothing was done. */
static void refuse_locked(jobsched *s, jobsched_run *run, int result)
{
    run->state = JSI_RUN_CALLING;
    jsi_run_result_locked(s, run, result);
}

void jsi_run_execute(jobsched *s, jobsched_run *run)
{
    bool orphan;
    (void)pthread_mutex_lock(&s->lock);
    bool stops = jobsched_run_should_stop(run) != JOBSCHED_STOP_NONE;
    if ((stops && !JSI_MUTANT(begins_after_lost)) || run->orphan) {
        refuse_locked(s, run, JOBSCHED_ECANCELED);
        orphan = run->orphan;
        (void)pthread_mutex_unlock(&s->lock);
        if (orphan) {
            jsi_run_bury(s, run);
        }
        return;
    }
    run->state = JSI_RUN_CALLING;
    run->called_at_mono_ms = jsi_mono(s);
    uint32_t attempt = atomic_fetch_add(&run->attempt, 1) + 1;
    if (attempt == 1 && run->job->spec.timeout_ms > 0) {
        run->timeout_at_mono_ms = jsi_mono(s) + run->job->spec.timeout_ms;
        jsi_run_expect_locked(s, run->timeout_at_mono_ms);
    }
    jobsched_event event = jsi_event(JOBSCHED_EVENT_RUN_STARTED, run->job, run);
    jsi_emit_locked(s, &event);
    (void)pthread_mutex_unlock(&s->lock);

    int result = jsi_call_run(run);

    (void)pthread_mutex_lock(&s->lock);
    if (JSI_MUTANT(pending_is_over) && result == JOBSCHED_PENDING) {
        run->references++; /* its callback goes on with it */
        run->finish_called = true;
    }
    if (result == JOBSCHED_PENDING && !run->finish_called) {
        run->state = JSI_RUN_PENDING; /* from here on jobsched_run_finish may free it */
        (void)pthread_mutex_unlock(&s->lock);
        return;
    }
    orphan = run->orphan;
    jsi_run_result_locked(s, run, result == JOBSCHED_PENDING ? run->finish_result : result);
    (void)pthread_mutex_unlock(&s->lock);
    if (orphan) {
        jsi_run_bury(s, run);
    }
}

static void execute_for_host(void *arg)
{
    jobsched_run *run = arg;
    jsi_run_execute(run->s, run);
}

void jsi_run_submit(jobsched *s, jobsched_run *run)
{
    bool own = s->executor.submit == NULL;
    (void)pthread_mutex_lock(&s->lock);
    bool closing = s->state == JSI_CLOSING; /* nobody would take it: it is dropped with the rest */
    if (!closing && own) {
        jsi_list_append(&s->work, &run->work_link);
        (void)pthread_cond_signal(&s->work_cond);
    }
    run->with_host = !closing && !own;
    (void)pthread_mutex_unlock(&s->lock);
    if (closing || own) {
        return;
    }
    if (s->executor.submit(s->executor.ctx, execute_for_host, run) != 0) {
        (void)pthread_mutex_lock(&s->lock);
        static const char refused[] = "the executor refused the run";
        memcpy(run->note, refused, sizeof refused);
        (void)atomic_fetch_add(&run->attempt, 1);
        bool orphan = run->orphan;
        refuse_locked(s, run, JOBSCHED_EREFUSED);
        (void)pthread_mutex_unlock(&s->lock);
        if (orphan) {
            jsi_run_bury(s, run);
        }
    }
}

bool jsi_work(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    jsi_link *link = jsi_list_take(&s->work);
    jobsched_run *run = link == NULL ? NULL : JSI_CONTAINER(link, jobsched_run, work_link);
    if (run != NULL) {
        run->state = JSI_RUN_CALLING; /* off the list, so a close must see that it is in hand */
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (run != NULL) {
        jsi_run_execute(s, run);
    }
    return run != NULL;
}
