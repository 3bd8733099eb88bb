/* events.h: an observer that keeps what it was told. Any thread. */
#ifndef SUPPORT_EVENTS_H
#define SUPPORT_EVENTS_H

#include <jobsched.h>

#include <pthread.h>

struct event_copy {
    jobsched_event event;
    char job[JOBSCHED_NAME_BYTES + 1];
    char node[JOBSCHED_NAME_BYTES + 1];
    char message[JOBSCHED_MESSAGE_BYTES + 320];
};

struct event_log {
    pthread_mutex_t mutex; /* guards the rest */
    struct event_copy *events;
    size_t count, capacity;
};

void event_log_init(struct event_log *log);
void event_log_fini(struct event_log *log);

/* The observer; user_data is the log. */
void event_log_observe(const jobsched_event *event, void *user_data);

/* As a kind: whatever tells that a call to the backend failed. */
#define EVENT_ANY_FAILURE (-1)

/* How many of a kind there were, of one job (NULL: all). */
size_t event_log_count(struct event_log *log, int kind, const char *job);

/* The number-th (from 0) of a kind, or NULL. Valid until the next event comes. */
const struct event_copy *event_log_find(struct event_log *log, int kind, size_t number);

/* Forgets all. */
void event_log_clear(struct event_log *log);

#endif
