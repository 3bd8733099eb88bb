/* observer.c: events, from wherever they happen to the observer. The only file that calls
 * observers. Events wait in a bounded list, so a slow observer never holds up the engine.
 * Locks: s->lock guards the list; it is dropped while the observer runs. */
#include "base/text.h"
#include "engine/internal.h"

#include <stdio.h>

struct jsi_event {
    jsi_link link;
    jobsched_event event; /* its texts point behind this struct */
};

static int level_of(int kind)
{
    switch (kind) {
#define LEVEL_CASE(name, number, level, text)                                                      \
    case number:                                                                                   \
        return JOBSCHED_LEVEL_##level;
        JOBSCHED_EVENT_MAP(LEVEL_CASE)
#undef LEVEL_CASE
    default:
        return JOBSCHED_LEVEL_ERROR;
    }
}

jobsched_event jsi_event(int kind, const jsi_job *job, const jobsched_run *run)
{
    jobsched_event event;
    JOBSCHED_INIT(&event);
    event.kind = kind;
    event.level = level_of(kind);
    event.job = job == NULL ? "" : job->name;
    event.node = "";
    event.message = "";
    event.scheduled_at_ms = JOBSCHED_NONE;
    event.last_at_ms = JOBSCHED_NONE;
    if (run != NULL) {
        event.scheduled_at_ms = run->scheduled_ms;
        event.last_at_ms = run->scheduled_ms;
        event.count = 1;
        event.token = run->token;
        event.attempt = atomic_load(&run->attempt);
        event.run_kind = run->kind;
        event.outcome = JOBSCHED_OUTCOME_RUNNING;
    }
    return event;
}

/* Copies an event with its texts into one block. */
static struct jsi_event *copy_event(const jobsched *s, const jobsched_event *event)
{
    size_t job_bytes = strlen(event->job) + 1;
    size_t node_bytes = strlen(event->node) + 1;
    size_t message_bytes = strlen(event->message) + 1;
    struct jsi_event *copy = s->allocator.allocate(
        s->allocator.ctx, sizeof *copy + job_bytes + node_bytes + message_bytes);
    if (copy == NULL) {
        return NULL;
    }
    char *texts = (char *)(copy + 1);
    memset(&copy->link, 0, sizeof copy->link);
    copy->event = *event;
    copy->event.job = memcpy(texts, event->job, job_bytes);
    copy->event.node = memcpy(texts + job_bytes, event->node, node_bytes);
    copy->event.message = memcpy(texts + job_bytes + node_bytes, event->message, message_bytes);
    /* They may come from a store that others write to, and observers print them. */
    jsi_text_clean(texts + job_bytes);
    jsi_text_clean(texts + job_bytes + node_bytes);
    return copy;
}

void jsi_emit_locked(jobsched *s, const jobsched_event *event)
{
    if (s->observer == NULL) {
        return;
    }
    struct jsi_event *copy = NULL;
    if (s->event_count < JSI_EVENTS_MAX) {
        copy = copy_event(s, event);
    }
    if (copy == NULL) {
        s->events_lost++;
        s->stats.events_dropped++;
        (void)pthread_cond_signal(&s->event_cond);
        return;
    }
    copy->event.at_ms = jsi_now_locked(s);
    jsi_list_append(&s->events, &copy->link);
    s->event_count++;
    (void)pthread_cond_signal(&s->event_cond);
}

void jsi_emit(jobsched *s, const jobsched_event *event)
{
    (void)pthread_mutex_lock(&s->lock);
    jsi_emit_locked(s, event);
    (void)pthread_mutex_unlock(&s->lock);
}

static void observe(const jobsched *s, const jobsched_event *event)
{
    const jobsched *before = jsi_call_enter(s);
    s->observer(event, s->observer_data);
    jsi_call_leave(before);
}

static void deliver_lost(jobsched *s)
{
    char message[80];
    jobsched_event event = jsi_event(JOBSCHED_EVENT_EVENTS_DROPPED, NULL, NULL);
    event.at_ms = jsi_now_locked(s);
    event.count = s->events_lost;
    (void)snprintf(message, sizeof message, "%llu events were dropped",
                   (unsigned long long)s->events_lost);
    event.message = message;
    s->events_lost = 0;
    (void)pthread_mutex_unlock(&s->lock);
    observe(s, &event);
    (void)pthread_mutex_lock(&s->lock);
}

/* A run that is asked to stop is told so here, since a callback may take its time. */
static bool deliver_stop(jobsched *s)
{
    jsi_link *link = jsi_list_take(&s->stops);
    if (link == NULL) {
        return false;
    }
    jobsched_run *run = JSI_CONTAINER(link, jobsched_run, stop_link);
    bool ended = run->state == JSI_RUN_ENDED;
    (void)pthread_mutex_unlock(&s->lock);
    if (!ended) {
        jsi_call_stop(run, atomic_load(&run->stop_reason));
    }
    jsi_run_release(s, run);
    (void)pthread_mutex_lock(&s->lock);
    return true;
}

bool jsi_deliver(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool delivered = deliver_stop(s);
    if (s->events_lost > 0 && s->observer != NULL) {
        deliver_lost(s);
        delivered = true;
    }
    jsi_link *link = jsi_list_take(&s->events);
    if (link != NULL) {
        s->event_count--;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (link != NULL) {
        struct jsi_event *queued = JSI_CONTAINER(link, struct jsi_event, link);
        observe(s, &queued->event);
        jsi_free(&s->allocator, queued);
        delivered = true;
    }
    return delivered;
}

void jsi_events_fini(jobsched *s)
{
    for (jsi_link *link; (link = jsi_list_take(&s->events)) != NULL;) {
        jsi_free(&s->allocator, JSI_CONTAINER(link, struct jsi_event, link));
    }
}
