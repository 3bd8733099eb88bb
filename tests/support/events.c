/* events.c: see the header. Locks: log->mutex. */
#include "support/events.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void event_log_init(struct event_log *log)
{
    memset(log, 0, sizeof *log);
    (void)pthread_mutex_init(&log->mutex, NULL);
}

void event_log_fini(struct event_log *log)
{
    free(log->events);
    (void)pthread_mutex_destroy(&log->mutex);
}

void event_log_observe(const jobsched_event *event, void *user_data)
{
    struct event_log *log = user_data;
    (void)pthread_mutex_lock(&log->mutex);
    if (log->count == log->capacity) {
        size_t capacity = log->capacity == 0 ? 64 : log->capacity * 2;
        struct event_copy *grown = realloc(log->events, capacity * sizeof *grown);
        if (grown == NULL) {
            abort();
        }
        log->events = grown;
        log->capacity = capacity;
    }
    struct event_copy *copy = &log->events[log->count++];
    memset(copy, 0, sizeof *copy);
    copy->event = *event;
    (void)snprintf(copy->job, sizeof copy->job, "%s", event->job);
    (void)snprintf(copy->node, sizeof copy->node, "%s", event->node);
    (void)snprintf(copy->message, sizeof copy->message, "%s", event->message);
    copy->event.job = copy->event.node = copy->event.message = NULL; /* the array moves */
    (void)pthread_mutex_unlock(&log->mutex);
}

static bool is_kind(const jobsched_event *event, int kind)
{
    return kind == EVENT_ANY_FAILURE ? JOBSCHED_EVENT_IS_BACKEND_FAILURE(event->kind)
                                     : event->kind == kind;
}

size_t event_log_count(struct event_log *log, int kind, const char *job)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->count; i++) {
        count += is_kind(&log->events[i].event, kind) &&
                 (job == NULL || strcmp(log->events[i].job, job) == 0);
    }
    (void)pthread_mutex_unlock(&log->mutex);
    return count;
}

const struct event_copy *event_log_find(struct event_log *log, int kind, size_t number)
{
    const struct event_copy *found = NULL;
    (void)pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->count && found == NULL; i++) {
        if (is_kind(&log->events[i].event, kind) && number-- == 0) {
            found = &log->events[i];
        }
    }
    (void)pthread_mutex_unlock(&log->mutex);
    return found;
}

void event_log_clear(struct event_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->count = 0;
    (void)pthread_mutex_unlock(&log->mutex);
}
