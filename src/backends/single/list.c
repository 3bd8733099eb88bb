/* list.c: what single: tells of its jobs, its one node, and itself. Copies under the mutex and
 * visits without it, so that a slow visitor never holds up a claim.
 * Locks: takes store->mutex. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

static void *get_buffer(const struct store *store, size_t bytes)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    void *buffer = allocator->allocate(allocator->ctx, bytes);
    if (buffer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", bytes);
    }
    return buffer;
}

static int64_t lock_and_read_clock(struct store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    return store->config.clock.wall_ms(store->config.clock.ctx);
}

/* ---- the row of a trigger ------------------------------------------------ */

int jsi_single_find(void *backend, jobsched_call *call, const char *job, const char *request,
                    jobsched_run_visit_fn visit, void *visit_data)
{
    struct store *store = backend;
    jobsched_run_record *record = NULL;
    int code = JOBSCHED_OK;
    int64_t now_ms = lock_and_read_clock(store);
    const struct fence *fence = jsi_single_fence_find(store, job);
    const struct row *row = fence == NULL ? NULL : jsi_single_row_find(fence, request);
    if (row != NULL) {
        code = jsi_single_copy_row(store, row, &record);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (row == NULL) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "no trigger '%s' of job '%s' in namespace '%s'",
                             request, job, store->config.name_space);
    }
    if (code == JOBSCHED_OK) {
        (void)visit(record, visit_data);
        jsi_single_release(store, record);
        call->now_ms = now_ms;
    }
    return code;
}

/* ---- jobs ------------------------------------------------------------------ */

static void count_open(const struct store *store, const struct fence *fence,
                       jobsched_job_record *out)
{
    for (const struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        const struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING) {
            out->running++;
            out->running_node = store->config.node_name;
            out->running_since_at_ms = row->started_ms;
            out->running_token = row->token;
        }
        out->waiting += row->outcome == JOBSCHED_OUTCOME_WAITING;
    }
}

static void tell_last(const struct store *store, const struct fence *fence,
                      jobsched_job_record *out)
{
    for (struct link *link = fence->rows.previous; link != &fence->rows; link = link->previous) {
        const struct row *row = LINK_OWNER(link, struct row, in_fence);
        if (row->outcome != JOBSCHED_OUTCOME_RUNNING && row->outcome != JOBSCHED_OUTCOME_WAITING) {
            out->has_last = 1;
            out->last_outcome = row->outcome;
            out->last_scheduled_at_ms = row->first_ms;
            out->last_started_at_ms = row->started_ms;
            out->last_finished_at_ms = row->finished_ms;
            out->last_node = row->started_ms == JOBSCHED_NONE ? "" : store->config.node_name;
            return;
        }
    }
}

/* Texts that may change or go are copied to *at, which moves on. */
static void copy_job(const struct store *store, const struct fence *fence, jobsched_job_record *out,
                     char **at)
{
    size_t name_bytes = strlen(fence->name) + 1;
    size_t definition_bytes = strlen(fence->definition) + 1;
    memset(out, 0, sizeof *out);
    out->job = memcpy(*at, fence->name, name_bytes);
    out->definition = memcpy(*at + name_bytes, fence->definition, definition_bytes);
    *at += name_bytes + definition_bytes;
    out->schedule = out->timezone = out->last_node = out->running_node = "";
    out->version = fence->version;
    out->generation = fence->generation;
    out->token = fence->token;
    out->mark_at_ms = fence->mark_ms;
    out->next_at_ms = JOBSCHED_NONE;
    out->last_end_at_ms = fence->last_end_ms;
    out->paused = fence->paused;
    out->removed = fence->removed;
    out->nodes = fence->registered != 0;
    out->dissent = fence->registered != 0 && fence->dissents;
    out->last_scheduled_at_ms = out->last_started_at_ms = JOBSCHED_NONE;
    out->last_finished_at_ms = out->running_since_at_ms = JOBSCHED_NONE;
    count_open(store, fence, out);
    tell_last(store, fence, out);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const jobsched_job_record *)left)->job,
                  ((const jobsched_job_record *)right)->job);
}

/* All fences, or the one given. */
static int copy_jobs(const struct store *store, const struct fence *only,
                     jobsched_job_record **out_records, size_t *out_count)
{
    size_t count = only != NULL ? 1 : store->fence_count;
    size_t text_bytes = 0;
    for (size_t i = 0; i < store->bucket_count; i++) {
        for (const struct fence *fence = store->buckets[i]; fence != NULL; fence = fence->next) {
            if (only == NULL || fence == only) {
                text_bytes += strlen(fence->name) + strlen(fence->definition) + 2;
            }
        }
    }
    jobsched_job_record *records = get_buffer(store, (count + 1) * sizeof *records + text_bytes);
    if (records == NULL) {
        return JOBSCHED_ENOMEM;
    }
    char *texts = (char *)(void *)(records + count + 1);
    size_t copied = 0;
    for (size_t i = 0; i < store->bucket_count; i++) {
        for (const struct fence *fence = store->buckets[i]; fence != NULL; fence = fence->next) {
            if (only == NULL || fence == only) {
                copy_job(store, fence, &records[copied++], &texts);
            }
        }
    }
    *out_records = records;
    *out_count = copied;
    return JOBSCHED_OK;
}

int jsi_single_jobs(void *backend, jobsched_call *call, const char *job,
                    jobsched_job_visit_fn visit, void *visit_data)
{
    struct store *store = backend;
    jobsched_job_record *records = NULL;
    size_t count = 0;
    int64_t now_ms = lock_and_read_clock(store);
    const struct fence *only = job == NULL ? NULL : jsi_single_fence_find(store, job);
    int unknown = job != NULL && only == NULL;
    int code = unknown ? JOBSCHED_OK : copy_jobs(store, only, &records, &count);
    (void)pthread_mutex_unlock(&store->mutex);
    if (unknown) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "no job '%s' in namespace '%s'", job,
                             store->config.name_space);
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    qsort(records, count, sizeof *records, by_name);
    for (size_t i = 0; i < count && visit(&records[i], visit_data) == 0; i++) {
    }
    jsi_single_release(store, records);
    call->now_ms = now_ms;
    return JOBSCHED_OK;
}

int jsi_single_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count)
{
    struct store *store = backend;
    int64_t now_ms = lock_and_read_clock(store);
    for (size_t i = 0; i < count; i++) {
        struct fence *fence = jsi_single_fence_find(store, jobs[i]);
        if (fence != NULL) {
            fence->registered = 0;
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    call->now_ms = now_ms;
    return JOBSCHED_OK;
}

/* ---- the node -------------------------------------------------------------- */

int jsi_single_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                     void *visit_data)
{
    struct store *store = backend;
    jobsched_node_record record = {.id = store->config.node_id,
                                   .name = store->config.node_name,
                                   .app_version = store->config.app_version,
                                   .since_at_ms = store->since_ms};
    int64_t now_ms = lock_and_read_clock(store);
    record.beat_at_ms = store->beat_ms;
    record.clock_offset_ms = store->offset_ms;
    for (size_t i = 0; i < store->bucket_count; i++) {
        for (const struct fence *fence = store->buckets[i]; fence != NULL; fence = fence->next) {
            jobsched_job_record job = {.running = 0};
            count_open(store, fence, &job);
            record.runs += job.running;
            record.jobs += fence->registered != 0;
            record.dissent += fence->registered != 0 && fence->dissents;
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (!store->config.control_only) {
        (void)visit(&record, visit_data); /* the only one: there is nothing to go on with */
    }
    call->now_ms = now_ms;
    return JOBSCHED_OK;
}

/* ---- itself ---------------------------------------------------------------- */

static const char memory[] =
    "'single:' keeps its fences in this process: nothing outlives it, and no "
    "other process can see them";

/* As an operator's program sees it. */
static int check_all(jobsched_check_visit_fn visit, void *visit_data)
{
    int64_t pids[2] = {0, 0};
    int found = jsi_single_alone_pair(pids);
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message,
                   "processes %lld and %lld are of one application and use 'single:' with the same "
                   "namespace: each of them runs every job; use a lock backend that they can share",
                   (long long)pids[0], (long long)pids[1]);
    const jobsched_check_record record = {
        .id = "single.alone",
        .level = found > 0   ? JOBSCHED_LEVEL_ERROR
                 : found < 0 ? JOBSCHED_LEVEL_WARNING
                             : JOBSCHED_LEVEL_INFO,
        .message = found > 0   ? message
                   : found < 0 ? "whether two processes use 'single:' for the same jobs cannot be "
                                 "told: the folder of their lock files cannot be read"
                               : "no application has two processes of this user here that use "
                                 "'single:' with one namespace"};
    return visit(&record, visit_data);
}

static int check_own(const struct store *store, jobsched_check_visit_fn visit, void *visit_data)
{
    int others = jsi_single_alone_others(store);
    const jobsched_check_record record = {
        .id = "single.alone",
        .level = others > 0   ? JOBSCHED_LEVEL_ERROR
                 : others < 0 ? JOBSCHED_LEVEL_WARNING
                              : JOBSCHED_LEVEL_INFO,
        .message = others > 0   ? "another process of this application uses 'single:' with the "
                                  "same namespace: each of them runs every job; use a lock "
                                  "backend that they can share"
                   : others < 0 ? "whether other processes use the same namespace cannot be told: "
                                  "there is no lock file"
                                : "no other process of this application uses the namespace"};
    return visit(&record, visit_data);
}

int jsi_single_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                     void *visit_data)
{
    struct store *store = backend;
    const jobsched_check_record record = {
        .id = "single.memory", .level = JOBSCHED_LEVEL_INFO, .message = memory};
    if (visit(&record, visit_data) == 0) {
        (void)(store->config.control_only ? check_all(visit, visit_data)
                                          : check_own(store, visit, visit_data));
    }
    call->now_ms = store->config.clock.wall_ms(store->config.clock.ctx);
    return JOBSCHED_OK;
}
