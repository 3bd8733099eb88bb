/* ask.c: the asks that are not a job's own: triggers and reruns.
 * Locks: s->lock, held by the caller. */
#include "engine/internal.h"

static jsi_ask *find(const jsi_link *list, const jsi_job *job, int kind, int64_t scheduled_ms,
                     const char *request)
{
    for (jsi_link *link = list->next; link != list; link = link->next) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        if (ask->extra && ask->job == job && ask->kind == kind &&
            (kind == JOBSCHED_KIND_TRIGGER ? strcmp(ask->request, request) == 0
                                           : ask->scheduled_ms == scheduled_ms)) {
            return ask;
        }
    }
    return NULL;
}

int jsi_ask_extra_locked(jobsched *s, jsi_job *job, int kind, int64_t scheduled_ms,
                         const char *request)
{
    bool stood = job->predecessor != NULL || job->phase == JSI_JOB_STOOD ||
                 job->phase == JSI_JOB_LOOKING ||
                 (job->generation == 0 && job->phase == JSI_JOB_IDLE);
    if (stood) {
        return JOBSCHED_OK; /* this is for nodes with the definition in force */
    }
    /* One that is with the backend right now is not found here and is asked twice: harmless,
     * the second is answered "done". */
    if (find(&s->ready, job, kind, scheduled_ms, request) != NULL ||
        find(&s->held, job, kind, scheduled_ms, request) != NULL ||
        s->extra_asks >= JSI_EXTRA_ASKS_MAX) {
        return JOBSCHED_OK;
    }
    jsi_ask *ask = jsi_new(&s->allocator, sizeof *ask);
    if (ask == NULL) {
        return JOBSCHED_ENOMEM;
    }
    ask->job = job;
    ask->kind = kind;
    ask->scheduled_ms = scheduled_ms;
    ask->extra = true;
    ask->when_held = jsi_when_held(job);
    if (kind == JOBSCHED_KIND_RERUN && ask->when_held == JOBSCHED_HELD_SKIP) {
        ask->when_held = JOBSCHED_HELD_WAIT; /* an interrupted run is owed its rerun */
    }
    if (request != NULL) {
        size_t length = strnlen(request, JOBSCHED_REQUEST_BYTES);
        memcpy(ask->request, request, length);
    }
    job->references++;
    s->extra_asks++;
    jsi_list_append(&s->ready, &ask->link);
    jsi_wake_elect_locked(s);
    return JOBSCHED_OK;
}

jsi_job *jsi_ask_drop_locked(jobsched *s, jsi_ask *ask)
{
    jsi_list_remove(&ask->link);
    if (!ask->extra) {
        return NULL;
    }
    jsi_job *job = ask->job;
    s->extra_asks--;
    jsi_free(&s->allocator, ask);
    return job;
}

static void drop_due_in_locked(jobsched *s, jsi_link *list)
{
    jsi_link *link = list->next;
    while (link != list) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        jsi_job *job = ask->job;
        link = link->next;
        if (ask->unresolved) {
            continue;
        }
        if (!ask->extra) {
            job->phase = JSI_JOB_IDLE;
        }
        (void)jsi_ask_drop_locked(s, ask);
        job->references--; /* never the last: the table holds one */
    }
}

void jsi_ask_drop_due_locked(jobsched *s)
{
    drop_due_in_locked(s, &s->ready);
    drop_due_in_locked(s, &s->held);
}

void jsi_ask_kick_locked(jobsched *s, jsi_job *job)
{
    if (job->waits && job->phase == JSI_JOB_ARMED) {
        jsi_due_disarm(&s->due, &job->due);
        jsi_due_arm(&s->due, &job->due, jsi_now_locked(s));
        jsi_wake_tick_locked(s);
    }
    for (jsi_link *link = s->held.next; link != &s->held; link = link->next) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        if (ask->job == job) {
            /* The oldest is enough: if it is granted, the others are held again. */
            ask->not_before_mono_ms = 0;
            jsi_wake_tick_locked(s);
            return;
        }
    }
}
