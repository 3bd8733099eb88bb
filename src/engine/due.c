/* due.c: the queue of instants. Pure; the caller's lock guards it. */
#include "engine/due.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

static size_t bucket_of(const jsi_due *due, int64_t at_ms)
{
    return (size_t)jsi_mix64((uint64_t)at_ms) & (due->capacity - 1);
}

static void put(jsi_due *due, size_t index, jsi_instant *instant)
{
    due->heap[index] = instant;
    instant->heap_index = index;
}

static void sift_up(jsi_due *due, size_t index, jsi_instant *instant)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (due->heap[parent]->at_ms <= instant->at_ms) {
            break;
        }
        put(due, index, due->heap[parent]);
        index = parent;
    }
    put(due, index, instant);
}

static void sift_down(jsi_due *due, size_t index, jsi_instant *instant)
{
    for (;;) {
        size_t child = index * 2 + 1;
        if (child >= due->heap_count) {
            break;
        }
        if (child + 1 < due->heap_count && due->heap[child + 1]->at_ms < due->heap[child]->at_ms) {
            child++;
        }
        if (due->heap[child]->at_ms >= instant->at_ms) {
            break;
        }
        put(due, index, due->heap[child]);
        index = child;
    }
    put(due, index, instant);
}

static jsi_instant **find_place(jsi_due *due, int64_t at_ms)
{
    jsi_instant **place = &due->buckets[bucket_of(due, at_ms)];
    while (*place != NULL && (*place)->at_ms != at_ms) {
        place = &(*place)->next;
    }
    return place;
}

struct jsi_due_chunk {
    struct jsi_due_chunk *next;
    jsi_instant instants[];
};

static struct jsi_due_chunk *new_chunk(const jobsched_allocator *allocator, size_t count)
{
    struct jsi_due_chunk *chunk =
        jsi_new(allocator, sizeof(struct jsi_due_chunk) + count * sizeof(jsi_instant));
    for (size_t i = 0; chunk != NULL && i + 1 < count; i++) {
        chunk->instants[i].next = &chunk->instants[i + 1];
    }
    return chunk;
}

int jsi_due_reserve(jsi_due *due, const jobsched_allocator *allocator, size_t entry_count)
{
    if (entry_count <= due->capacity) {
        return JOBSCHED_OK;
    }
    size_t capacity = due->capacity == 0 ? 16 : due->capacity;
    while (capacity < entry_count) {
        capacity *= 2;
    }
    size_t more = capacity - due->capacity;
    jsi_instant **heap = jsi_new(allocator, capacity * sizeof *heap);
    jsi_instant **buckets = jsi_new(allocator, capacity * sizeof *buckets);
    struct jsi_due_chunk *chunk = new_chunk(allocator, more);
    if (heap == NULL || buckets == NULL || chunk == NULL) {
        jsi_free(allocator, heap);
        jsi_free(allocator, buckets);
        jsi_free(allocator, chunk);
        return JOBSCHED_ENOMEM;
    }
    chunk->next = due->chunks;
    due->chunks = chunk;
    chunk->instants[more - 1].next = due->free;
    due->free = &chunk->instants[0];

    jsi_instant **old_heap = due->heap;
    jsi_free(allocator, due->buckets);
    due->heap = heap;
    due->buckets = buckets;
    due->capacity = capacity;
    for (size_t i = 0; i < due->heap_count; i++) {
        jsi_instant *instant = old_heap[i];
        heap[i] = instant;
        jsi_instant **bucket = &buckets[bucket_of(due, instant->at_ms)];
        instant->next = *bucket;
        *bucket = instant;
    }
    jsi_free(allocator, old_heap);
    return JOBSCHED_OK;
}

void jsi_due_fini(jsi_due *due, const jobsched_allocator *allocator)
{
    while (due->chunks != NULL) {
        struct jsi_due_chunk *chunk = due->chunks;
        due->chunks = chunk->next;
        jsi_free(allocator, chunk);
    }
    jsi_free(allocator, due->heap);
    jsi_free(allocator, due->buckets);
    *due = (jsi_due){0};
}

void jsi_due_arm(jsi_due *due, jsi_due_entry *entry, int64_t at_ms)
{
    JSI_ASSERT(entry->instant == NULL);
    jsi_instant **place = find_place(due, at_ms);
    if (*place == NULL) {
        /* One is free: there are as many instants as entries, and this entry uses none. */
        jsi_instant *instant = due->free;
        JSI_ASSERT(instant != NULL);
        due->free = instant->next;
        instant->at_ms = at_ms;
        instant->next = NULL;
        jsi_list_init(&instant->entries);
        *place = instant;
        sift_up(due, due->heap_count++, instant);
    }
    entry->instant = *place;
    jsi_list_append(&entry->instant->entries, &entry->link);
}

static void drop_instant(jsi_due *due, jsi_instant *instant)
{
    *find_place(due, instant->at_ms) = instant->next;
    size_t index = instant->heap_index;
    jsi_instant *last = due->heap[--due->heap_count];
    if (last != instant) {
        if (index > 0 && due->heap[(index - 1) / 2]->at_ms > last->at_ms) {
            sift_up(due, index, last);
        } else {
            sift_down(due, index, last);
        }
    }
    instant->next = due->free;
    due->free = instant;
}

void jsi_due_disarm(jsi_due *due, jsi_due_entry *entry)
{
    jsi_instant *instant = entry->instant;
    if (instant == NULL) {
        return;
    }
    jsi_list_remove(&entry->link);
    entry->instant = NULL;
    if (jsi_list_is_empty(&instant->entries)) {
        drop_instant(due, instant);
    }
}

int64_t jsi_due_next(const jsi_due *due)
{
    return due->heap_count == 0 ? JOBSCHED_NONE : due->heap[0]->at_ms;
}

jsi_due_entry *jsi_due_take(jsi_due *due, int64_t now_ms)
{
    if (due->heap_count == 0 || due->heap[0]->at_ms > now_ms) {
        return NULL;
    }
    jsi_due_entry *entry =
        JSI_CONTAINER(jsi_list_first(&due->heap[0]->entries), jsi_due_entry, link);
    jsi_due_disarm(due, entry);
    return entry;
}
