/* read.c: reap and the ledger's reader. Copies under the mutex and visits without it, so
 * that a slow visitor never holds up a claim.
 * Locks: takes store->mutex. */
#include "store.h"

#define RUNS_DEFAULT 100u /* as jobsched_runs() says for a limit of 0 */

/* Texts of a copy, one after the other. */
struct texts {
    char *at;
};

static const char *keep_text(struct texts *texts, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *kept = texts->at;
    memcpy(kept, text, bytes);
    texts->at += bytes;
    return kept;
}

static const char *note_of(const struct row *row)
{
    return row->note == NULL ? "" : row->note;
}

static void *get_buffer(const struct store *store, size_t bytes)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    void *buffer = allocator->allocate(allocator->ctx, bytes);
    if (buffer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", bytes);
    }
    return buffer;
}

/* A run that may be granted: one that was interrupted, or a trigger that waits. */
static void copy_finding(const struct store *store, const struct row *row, jobsched_finding *out,
                         struct texts *texts)
{
    int rerun = row->outcome == JOBSCHED_OUTCOME_INTERRUPTED;
    out->found = rerun ? JOBSCHED_FOUND_RERUN : JOBSCHED_FOUND_TRIGGER;
    out->attempt = row->attempt;
    out->job = keep_text(texts, row->fence->name);
    out->node = rerun ? store->config.node_name : "";
    out->request = keep_text(texts, row->request);
    out->scheduled_ms = row->first_ms;
    out->token = row->token;
}

/* Copies the pending rows of one kind after the count that are there. */
static size_t copy_pending(const struct store *store, int32_t outcome, jobsched_finding *findings,
                           size_t count, struct texts *texts)
{
    const struct link *link = store->pending.next;
    while (link != &store->pending && count < JOBSCHED_BATCH_MAX) {
        const struct row *row = LINK_OWNER(link, struct row, in_store_state);
        if (row->outcome == outcome) {
            copy_finding(store, row, &findings[count++], texts);
        }
        link = link->next;
    }
    return count;
}

static int copy_findings(struct store *store, jobsched_finding **out_findings, size_t *out_count)
{
    if (jsi_single_list_empty(&store->pending)) {
        return JOBSCHED_OK;
    }
    /* Sized for all rows that could be chosen, however reruns and triggers mix. */
    size_t rows = 0, text_bytes = 0, reruns = 0, triggers = 0;
    for (const struct link *link = store->pending.next;
         link != &store->pending && (reruns < JOBSCHED_BATCH_MAX || triggers < JOBSCHED_BATCH_MAX);
         link = link->next) {
        const struct row *row = LINK_OWNER(link, struct row, in_store_state);
        size_t *kind = row->outcome == JOBSCHED_OUTCOME_INTERRUPTED ? &reruns : &triggers;
        if (*kind < JOBSCHED_BATCH_MAX) {
            (*kind)++;
            text_bytes += strlen(row->fence->name) + strlen(row->request) + 2;
        }
    }
    rows = reruns + triggers < JOBSCHED_BATCH_MAX ? reruns + triggers : JOBSCHED_BATCH_MAX;
    jobsched_finding *findings = get_buffer(store, rows * sizeof *findings + text_bytes);
    if (findings == NULL) {
        return JOBSCHED_ENOMEM;
    }
    struct texts texts = {(char *)(void *)(findings + rows)};
    size_t count = copy_pending(store, JOBSCHED_OUTCOME_INTERRUPTED, findings, 0, &texts);
    *out_count = copy_pending(store, JOBSCHED_OUTCOME_WAITING, findings, count, &texts);
    *out_findings = findings;
    return JOBSCHED_OK;
}

int jsi_single_reap(void *backend, jobsched_call *call,
                    int (*visit)(const jobsched_finding *finding, void *visit_data),
                    void *visit_data)
{
    struct store *store = backend;
    jsi_single_alone_check(store);
    (void)pthread_mutex_lock(&store->mutex);
    int64_t now_ms = store->config.clock.wall_ms(store->config.clock.ctx);
    jobsched_finding *findings = NULL;
    size_t count = 0;
    int code = copy_findings(store, &findings, &count);
    if (code == JOBSCHED_OK) {
        jsi_single_prune_aged(store, now_ms);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (code != JOBSCHED_OK) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        if (visit(&findings[i], visit_data) != 0) {
            break;
        }
    }
    jsi_single_release(store, findings);
    call->now_ms = now_ms;
    return JOBSCHED_OK;
}

static void copy_record(const struct store *store, const struct row *row, jobsched_run_record *out,
                        struct texts *texts)
{
    out->job = keep_text(texts, row->fence->name);
    out->node = row->started_ms == JOBSCHED_NONE ? "" : store->config.node_name;
    out->note = keep_text(texts, note_of(row));
    out->request = keep_text(texts, row->request);
    out->scheduled_at_ms = row->first_ms;
    out->last_at_ms = row->last_ms;
    out->count = row->count;
    out->token = row->token;
    out->started_at_ms = row->started_ms;
    out->finished_at_ms = row->finished_ms;
    out->progress_done = row->progress_done;
    out->progress_total = row->progress_total;
    out->attempt = row->attempt;
    out->kind = row->kind;
    out->outcome = row->outcome;
    out->code = row->code;
}

/* The row of a link of the job's list, or of the list of all rows where there is no job. */
static const struct row *row_at(const struct fence *fence, const struct link *link)
{
    return fence != NULL ? LINK_OWNER(link, struct row, in_fence)
                         : LINK_OWNER(link, struct row, in_store);
}

static int copy_records(struct store *store, const struct fence *fence, uint64_t limit,
                        jobsched_run_record **out_records, size_t *out_count)
{
    const struct link *head = fence != NULL ? &fence->rows : &store->rows;
    size_t rows = 0, text_bytes = 0;
    for (const struct link *link = head->previous; link != head && rows < limit;
         link = link->previous) {
        const struct row *row = row_at(fence, link);
        text_bytes += strlen(row->fence->name) + strlen(note_of(row)) + strlen(row->request) + 3;
        rows++;
    }
    if (rows == 0) {
        return JOBSCHED_OK;
    }
    jobsched_run_record *records = get_buffer(store, rows * sizeof *records + text_bytes);
    if (records == NULL) {
        return JOBSCHED_ENOMEM;
    }
    struct texts texts = {(char *)(void *)(records + rows)};
    const struct link *link = head->previous;
    for (size_t i = 0; i < rows; i++, link = link->previous) {
        copy_record(store, row_at(fence, link), &records[i], &texts);
    }
    *out_records = records;
    *out_count = rows;
    return JOBSCHED_OK;
}

int jsi_single_copy_row(struct store *store, const struct row *row,
                        jobsched_run_record **out_record)
{
    size_t text_bytes = strlen(row->fence->name) + strlen(note_of(row)) + strlen(row->request) + 3;
    jobsched_run_record *record = get_buffer(store, sizeof *record + text_bytes);
    if (record == NULL) {
        return JOBSCHED_ENOMEM;
    }
    struct texts texts = {(char *)(void *)(record + 1)};
    copy_record(store, row, record, &texts);
    *out_record = record;
    return JOBSCHED_OK;
}

int jsi_single_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                    jobsched_run_visit_fn visit, void *visit_data)
{
    struct store *store = backend;
    jobsched_run_record *records = NULL;
    size_t count = 0;
    int code = JOBSCHED_OK;
    (void)pthread_mutex_lock(&store->mutex);
    int64_t now_ms = store->config.clock.wall_ms(store->config.clock.ctx);
    const struct fence *fence = job == NULL ? NULL : jsi_single_fence_find(store, job);
    if (job == NULL || fence != NULL) { /* a job that nobody announced has no rows */
        code = copy_records(store, fence, limit == 0 ? RUNS_DEFAULT : limit, &records, &count);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (code != JOBSCHED_OK) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        if (visit(&records[i], visit_data) != 0) {
            break;
        }
    }
    jsi_single_release(store, records);
    call->now_ms = now_ms;
    return JOBSCHED_OK;
}
