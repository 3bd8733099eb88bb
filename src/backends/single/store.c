/* store.c: fences and ledger rows in memory. Knows no rules of the election; reads no clock.
 * Locks: the caller holds store->mutex. */
#include "store.h"

#include <stdlib.h>

/* Enough for a small service; doubles when there are more jobs than buckets. */
#define BUCKETS_FIRST 64u

/* Rows that one sweep drops: a bound on how long the mutex is held (about a millisecond). */
#define SWEEP_ROWS_MAX 10000u

void jsi_single_list_init(struct link *head)
{
    head->previous = head;
    head->next = head;
}

int jsi_single_list_empty(const struct link *head)
{
    return head->next == head;
}

static void list_append(struct link *head, struct link *link)
{
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}

/* The link becomes a list of its own, so that removing it twice does no harm. */
static void list_remove(struct link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    jsi_single_list_init(link);
}

static void *get_memory(const struct store *store, size_t size)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    void *memory = allocator->allocate(allocator->ctx, size);
    if (memory == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", size);
        return NULL;
    }
    memset(memory, 0, size);
    return memory;
}

void jsi_single_release(const struct store *store, void *pointer)
{
    if (pointer != NULL) {
        store->config.allocator.release(store->config.allocator.ctx, pointer);
    }
}

char *jsi_single_copy(const struct store *store, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = get_memory(store, size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

int jsi_single_batch_code(int code, size_t i, size_t count)
{
    if (code != JOBSCHED_ENOMEM || i == 0) {
        return code;
    }
    return jobsched_fail(JOBSCHED_EUNKNOWN, 0, "no memory for more than %zu of %zu items", i,
                         count);
}

/* FNV-1a. Names come from the application, so nobody can aim at collisions. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct fence **bucket_of(const struct store *store, uint64_t hash)
{
    return &store->buckets[(hash ^ (hash >> 32)) & (store->bucket_count - 1)];
}

struct fence *jsi_single_fence_find(const struct store *store, const char *name)
{
    if (store->bucket_count == 0) {
        return NULL;
    }
    uint64_t hash = hash_name(name);
    struct fence *fence = *bucket_of(store, hash);
    while (fence != NULL && (fence->hash != hash || strcmp(fence->name, name) != 0)) {
        fence = fence->next;
    }
    return fence;
}

/* Failing to grow is no failure while there are any buckets: chains get longer. */
static int make_room(struct store *store)
{
    if (store->fence_count < store->bucket_count) {
        return JOBSCHED_OK;
    }
    size_t wanted = store->bucket_count == 0 ? BUCKETS_FIRST : store->bucket_count * 2;
    struct fence **grown = get_memory(store, wanted * sizeof *grown);
    if (grown == NULL) {
        return store->bucket_count == 0 ? JOBSCHED_ENOMEM : JOBSCHED_OK;
    }
    struct fence **old = store->buckets;
    size_t old_count = store->bucket_count;
    store->buckets = grown;
    store->bucket_count = wanted;
    for (size_t i = 0; i < old_count; i++) {
        struct fence *fence = old[i];
        while (fence != NULL) {
            struct fence *next = fence->next;
            struct fence **bucket = bucket_of(store, fence->hash);
            fence->next = *bucket;
            *bucket = fence;
            fence = next;
        }
    }
    jsi_single_release(store, old);
    return JOBSCHED_OK;
}

struct fence *jsi_single_fence_new(struct store *store, const char *name, const char *definition)
{
    if (make_room(store) != JOBSCHED_OK) {
        return NULL;
    }
    size_t name_bytes = strlen(name) + 1;
    struct fence *fence = get_memory(store, sizeof *fence + name_bytes);
    if (fence == NULL) {
        return NULL;
    }
    fence->definition = jsi_single_copy(store, definition);
    if (fence->definition == NULL) {
        jsi_single_release(store, fence);
        return NULL;
    }
    memcpy(fence->name, name, name_bytes);
    fence->hash = hash_name(name);
    fence->last_end_ms = JOBSCHED_NONE;
    jsi_single_list_init(&fence->rows);
    jsi_single_list_init(&fence->open);
    jsi_single_list_init(&fence->closed);
    return fence;
}

void jsi_single_fence_enter(struct store *store, struct fence *fence)
{
    struct fence **bucket = bucket_of(store, fence->hash);
    fence->next = *bucket;
    *bucket = fence;
    store->fence_count++;
}

static int is_open(const struct row *row)
{
    return row->outcome == JOBSCHED_OUTCOME_WAITING || row->outcome == JOBSCHED_OUTCOME_RUNNING ||
           jsi_single_row_wants_rerun(row);
}

int jsi_single_row_wants_rerun(const struct row *row)
{
    return row->outcome == JOBSCHED_OUTCOME_INTERRUPTED && row->recover == JOBSCHED_RECOVER_RERUN &&
           row->attempt <= row->recover_limit && !row->cancel && !row->fence->removed;
}

struct row *jsi_single_row_new(struct store *store, struct fence *fence, const char *request)
{
    size_t request_bytes = strlen(request) + 1;
    struct row *row = get_memory(store, sizeof *row + request_bytes);
    if (row == NULL) {
        return NULL;
    }
    memcpy(row->request, request, request_bytes);
    row->fence = fence;
    row->count = 1;
    row->started_ms = JOBSCHED_NONE;
    row->finished_ms = JOBSCHED_NONE;
    row->outcome = JOBSCHED_OUTCOME_WAITING;
    list_append(&store->rows, &row->in_store);
    list_append(&fence->rows, &row->in_fence);
    list_append(&fence->open, &row->in_fence_state);
    list_append(&store->pending, &row->in_store_state);
    return row;
}

struct row *jsi_single_row_find(const struct fence *fence, const char *request)
{
    for (struct link *link = fence->rows.previous; link != &fence->rows; link = link->previous) {
        struct row *row = LINK_OWNER(link, struct row, in_fence);
        if (row->request[0] != '\0' && strcmp(row->request, request) == 0) {
            return row;
        }
    }
    return NULL;
}

static int is_end(int32_t outcome)
{
    return outcome != JOBSCHED_OUTCOME_WAITING && outcome != JOBSCHED_OUTCOME_RUNNING;
}

void jsi_single_row_become(struct store *store, struct row *row, int32_t outcome, int64_t now_ms)
{
    struct fence *fence = row->fence;
    /* Ended rows stay ended, but for a rerun, which is open while it waits: so a row is
     * counted as closed only once. */
    row->outcome = outcome;
    row->finished_ms = is_end(outcome) ? now_ms : JOBSCHED_NONE;
    list_remove(&row->in_fence_state);
    list_remove(&row->in_store_state);
    if (!is_open(row)) {
        list_append(&fence->closed, &row->in_fence_state);
        list_append(&store->closed, &row->in_store_state);
        fence->closed_count++;
        return;
    }
    list_append(&fence->open, &row->in_fence_state);
    if (outcome != JOBSCHED_OUTCOME_RUNNING) {
        list_append(&store->pending, &row->in_store_state);
    }
}

static void drop_closed(struct store *store, struct row *row)
{
    struct fence *fence = row->fence;
    if (fence->paused_range == row) {
        fence->paused_range = NULL;
    }
    fence->closed_count--;
    list_remove(&row->in_fence_state);
    list_remove(&row->in_store_state);
    list_remove(&row->in_fence);
    list_remove(&row->in_store);
    jsi_single_release(store, row->note);
    jsi_single_release(store, row);
}

static int is_aged(const struct store *store, const struct row *row, int64_t now_ms)
{
    int64_t age_ms = store->config.history_age_ms;
    return age_ms > 0 && row->finished_ms < now_ms && now_ms - row->finished_ms > age_ms;
}

void jsi_single_prune(struct store *store, struct fence *fence, int64_t now_ms)
{
    uint64_t keep = store->config.history_count;
    while (!jsi_single_list_empty(&fence->closed)) {
        struct row *oldest = LINK_OWNER(fence->closed.next, struct row, in_fence_state);
        int too_many = keep > 0 && fence->closed_count > keep;
        if (!too_many && !is_aged(store, oldest, now_ms)) {
            return;
        }
        drop_closed(store, oldest);
    }
}

void jsi_single_prune_aged(struct store *store, int64_t now_ms)
{
    for (unsigned dropped = 0; dropped < SWEEP_ROWS_MAX; dropped++) {
        if (jsi_single_list_empty(&store->closed)) {
            return;
        }
        struct row *oldest = LINK_OWNER(store->closed.next, struct row, in_store_state);
        if (!is_aged(store, oldest, now_ms)) {
            return;
        }
        drop_closed(store, oldest);
    }
}

void jsi_single_store_clear(struct store *store)
{
    struct link *link = store->rows.next;
    while (link != &store->rows) {
        struct row *row = LINK_OWNER(link, struct row, in_store);
        link = link->next;
        jsi_single_release(store, row->note);
        jsi_single_release(store, row);
    }
    for (size_t i = 0; i < store->bucket_count; i++) {
        struct fence *fence = store->buckets[i];
        while (fence != NULL) {
            struct fence *next = fence->next;
            jsi_single_release(store, fence->definition);
            jsi_single_release(store, fence);
            fence = next;
        }
    }
    jsi_single_release(store, store->buckets);
}
