/* due.h: the queue of instants at which jobs are due. Jobs share instants: a heap of
 * instants, each with its jobs, is far smaller than a heap of jobs. */
#ifndef JSI_DUE_H
#define JSI_DUE_H

#include "base/list.h"

#include <jobsched.h>

typedef struct jsi_instant {
    int64_t at_ms;
    size_t heap_index;
    struct jsi_instant *next; /* in its bucket, or among the free ones */
    jsi_link entries;         /* of jsi_due_entry.link, oldest first */
} jsi_instant;

/* Embedded in what can be due. */
typedef struct jsi_due_entry {
    jsi_link link;
    jsi_instant *instant; /* NULL while not armed */
} jsi_due_entry;

/* All memory is reserved beforehand: arming never allocates and so never fails. */
typedef struct jsi_due {
    jsi_instant **heap;
    size_t heap_count;
    jsi_instant **buckets;
    size_t capacity;              /* entries that fit; buckets are as many */
    jsi_instant *free;            /* as many instants as entries fit, less those in use */
    struct jsi_due_chunk *chunks; /* the instants' memory */
} jsi_due;

/* Makes room for entry_count entries in all. ENOMEM leaves the queue as it was. */
int jsi_due_reserve(jsi_due *due, const jobsched_allocator *allocator, size_t entry_count);

void jsi_due_fini(jsi_due *due, const jobsched_allocator *allocator);

/* Arms an entry that is not armed. */
void jsi_due_arm(jsi_due *due, jsi_due_entry *entry, int64_t at_ms);

/* Harmless on an entry that is not armed. */
void jsi_due_disarm(jsi_due *due, jsi_due_entry *entry);

/* The earliest instant, or JOBSCHED_NONE. */
int64_t jsi_due_next(const jsi_due *due);

/* Disarms and returns one entry that is due at or before now_ms: earliest instant first, and in
 * the order of arming within it. NULL when there is none. */
jsi_due_entry *jsi_due_take(jsi_due *due, int64_t now_ms);

#endif
