/* claim.c: the election of single:, with the rules of jobsched/backend.h in their order.
 * One process has one node, so every RUNNING row is a live holder and this node's own.
 * Locks: takes store->mutex. */
#include "store.h"

static void forget_answer(jobsched_claim *item)
{
    item->answer = JOBSCHED_ANSWER_NONE;
    item->token = 0;
    item->attempt = 0;
    item->mark_ms = 0;
    item->last_end_ms = JOBSCHED_NONE;
    item->granted_ms = 0;
    item->wait_ms = 0;
    item->holder_token = 0;
    item->holder_since_ms = 0;
    memset(item->holder, 0, sizeof item->holder);
}

static int is_request(const struct row *row, const char *request)
{
    return row->request[0] != '\0' && strcmp(row->request, request) == 0;
}

/* Whether the RUNNING row is what the claim asks for: then its answer was lost. */
static int is_same_occurrence(const struct row *row, const jobsched_claim *item)
{
    switch (item->kind) {
    case JOBSCHED_KIND_TRIGGER:
        return is_request(row, item->request);
    case JOBSCHED_KIND_RERUN:
        return row->attempt > 1 && row->first_ms == item->scheduled_ms;
    case JOBSCHED_CLAIM_SKIP:
        return 0;
    default:
        return row->request[0] == '\0' && row->first_ms == item->scheduled_ms;
    }
}

static struct row *find_running(const struct fence *fence, const jobsched_claim *item)
{
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && is_same_occurrence(row, item)) {
            return row;
        }
    }
    return NULL;
}

/* The row that a TRIGGER or a RERUN is about, if it may still be granted. */
static struct row *find_pending(const struct fence *fence, const jobsched_claim *item)
{
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        int found = item->kind == JOBSCHED_KIND_TRIGGER
                        ? row->outcome == JOBSCHED_OUTCOME_WAITING && is_request(row, item->request)
                        : row->first_ms == item->scheduled_ms && jsi_single_row_wants_rerun(row);
        if (found) {
            return row;
        }
    }
    return NULL;
}

static const struct row *find_holder(const struct fence *fence)
{
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        const struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING) {
            return row;
        }
    }
    return NULL;
}

static void answer_granted(const struct row *row, jobsched_claim *item)
{
    item->answer = JOBSCHED_ANSWER_GRANTED;
    item->token = row->token;
    item->attempt = row->attempt;
    item->granted_ms = row->first_ms;
}

/* Accounts for occurrences that do not run, and moves the mark. */
static int record_skipped(struct store *store, struct fence *fence, const jobsched_claim *item,
                          int32_t outcome, int64_t now_ms)
{
    int is_range = item->kind == JOBSCHED_CLAIM_SKIP;
    struct row *row = jsi_single_row_new(store, fence, "");
    if (row == NULL) {
        return JOBSCHED_ENOMEM;
    }
    row->kind = is_range ? JOBSCHED_KIND_SCHEDULED : item->kind;
    row->first_ms = is_range ? item->skip_first_ms : item->scheduled_ms;
    row->last_ms = item->scheduled_ms;
    row->count = is_range ? item->skip_count : 1;
    jsi_single_row_become(store, row, outcome, now_ms);
    if (outcome == JOBSCHED_OUTCOME_SKIPPED_PAUSED) {
        fence->paused_range = row;
    }
    fence->mark_ms = item->scheduled_ms;
    jsi_single_prune(store, fence, now_ms);
    return JOBSCHED_OK;
}

static int record_paused(struct store *store, struct fence *fence, const jobsched_claim *item,
                         int64_t now_ms)
{
    struct row *range = fence->paused_range;
    /* A job that is paused for a year must not fill the ledger: one row grows. */
    if (range == NULL || range->last_ms != fence->mark_ms) {
        return record_skipped(store, fence, item, JOBSCHED_OUTCOME_SKIPPED_PAUSED, now_ms);
    }
    range->last_ms = item->scheduled_ms;
    range->count += item->kind == JOBSCHED_CLAIM_SKIP ? item->skip_count : 1;
    range->finished_ms = now_ms;
    fence->mark_ms = item->scheduled_ms;
    return JOBSCHED_OK;
}

static void answer_held(const struct store *store, const struct row *holder, jobsched_claim *item)
{
    item->answer = JOBSCHED_ANSWER_HELD;
    item->holder_token = holder->token;
    item->holder_since_ms = holder->started_ms;
    size_t bytes = strlen(store->config.node_name);
    if (bytes > JOBSCHED_NAME_BYTES) {
        bytes = JOBSCHED_NAME_BYTES;
    }
    memcpy(item->holder, store->config.node_name, bytes);
}

/* A fixed delay has no occurrence before the last run has ended, and that end says when. */
static void judge_delay(const struct store *store, const struct fence *fence, jobsched_claim *item)
{
    const struct row *holder = find_holder(fence);
    if (holder != NULL) {
        answer_held(store, holder, item);
        return;
    }
    int64_t from_ms = fence->mark_ms;
    if (fence->last_end_ms != JOBSCHED_NONE && fence->last_end_ms > from_ms) {
        from_ms = fence->last_end_ms;
    }
    if (item->scheduled_ms < from_ms + item->delay_ms) {
        item->answer = JOBSCHED_ANSWER_MOVED;
    }
}

/* The rules of kinds SCHEDULED, CATCH_UP and SKIP up to the holder. Leaves the answer at
 * NONE if the occurrence is to be granted. */
static int judge_scheduled(struct store *store, struct fence *fence, jobsched_claim *item,
                           int64_t now_ms)
{
    if (item->scheduled_ms <= fence->mark_ms) {
        item->answer = JOBSCHED_ANSWER_DONE;
        return JOBSCHED_OK;
    }
    if (fence->mark_ms != item->after_ms) {
        item->answer = JOBSCHED_ANSWER_MOVED;
        return JOBSCHED_OK;
    }
    if (item->delay_ms > 0) {
        judge_delay(store, fence, item);
        if (item->answer != JOBSCHED_ANSWER_NONE) {
            return JOBSCHED_OK;
        }
    }
    if (item->scheduled_ms > now_ms) {
        item->answer = JOBSCHED_ANSWER_EARLY;
        item->wait_ms = item->scheduled_ms - now_ms;
        return JOBSCHED_OK;
    }
    int code = JOBSCHED_OK;
    if (fence->paused) { /* whatever else was to become of them: that is why they do not run */
        code = record_paused(store, fence, item, now_ms);
        item->answer = JOBSCHED_ANSWER_PAUSED;
    } else if (item->kind == JOBSCHED_CLAIM_SKIP) {
        code = record_skipped(store, fence, item, item->skip_outcome, now_ms);
        item->granted_ms = item->scheduled_ms;
        item->answer = JOBSCHED_ANSWER_GRANTED;
    }
    return code;
}

static void judge_pending(const struct fence *fence, jobsched_claim *item, struct row **out_row)
{
    struct row *row = find_pending(fence, item);
    if (row == NULL) {
        item->answer = JOBSCHED_ANSWER_DONE;
    } else if (fence->paused) {
        item->answer = JOBSCHED_ANSWER_PAUSED;
    } else {
        *out_row = row;
    }
}

static int refuse_held(struct store *store, struct fence *fence, jobsched_claim *item,
                       const struct row *holder, struct row *row, int64_t now_ms)
{
    answer_held(store, holder, item);
    if (item->when_held != JOBSCHED_HELD_SKIP || item->kind == JOBSCHED_KIND_RERUN) {
        return JOBSCHED_OK;
    }
    if (item->kind == JOBSCHED_KIND_TRIGGER) {
        jsi_single_row_become(store, row, JOBSCHED_OUTCOME_SKIPPED_OVERLAP, now_ms);
        jsi_single_prune(store, fence, now_ms);
        return JOBSCHED_OK;
    }
    return record_skipped(store, fence, item, JOBSCHED_OUTCOME_SKIPPED_OVERLAP, now_ms);
}

static int grant(struct store *store, struct fence *fence, jobsched_claim *item, struct row *row,
                 int64_t now_ms)
{
    if (row == NULL) {
        row = jsi_single_row_new(store, fence, "");
        if (row == NULL) {
            return JOBSCHED_ENOMEM;
        }
        row->first_ms = item->scheduled_ms;
        row->last_ms = item->scheduled_ms;
        fence->mark_ms = item->scheduled_ms;
    }
    row->kind = item->kind;
    if (item->kind != JOBSCHED_KIND_RERUN) { /* a rerun keeps what the first grant was told */
        row->recover = item->recover;
        row->recover_limit = item->recover_limit;
    }
    row->token = ++fence->token; /* G2 */
    row->attempt++;
    row->started_ms = now_ms;
    row->cancel = 0;
    jsi_single_row_become(store, row, JOBSCHED_OUTCOME_RUNNING, now_ms);
    answer_granted(row, item);
    return JOBSCHED_OK;
}

static int claim_in_fence(struct store *store, struct fence *fence, jobsched_claim *item,
                          int64_t now_ms, uint64_t grants_left)
{
    struct row *row = find_running(fence, item);
    if (row != NULL) {
        answer_granted(row, item);
        return JOBSCHED_OK;
    }
    if (fence->removed) {
        item->answer = JOBSCHED_ANSWER_REMOVED;
        return JOBSCHED_OK;
    }
    if (fence->generation != item->generation) {
        item->answer = JOBSCHED_ANSWER_STALE;
        return JOBSCHED_OK;
    }
    if (item->kind == JOBSCHED_KIND_TRIGGER || item->kind == JOBSCHED_KIND_RERUN) {
        judge_pending(fence, item, &row);
    } else {
        int code = judge_scheduled(store, fence, item, now_ms);
        if (code != JOBSCHED_OK) {
            return code;
        }
    }
    if (item->answer != JOBSCHED_ANSWER_NONE) {
        return JOBSCHED_OK;
    }
    const struct row *holder = find_holder(fence);
    if (holder != NULL && item->when_held != JOBSCHED_HELD_ALLOW) {
        return refuse_held(store, fence, item, holder, row, now_ms);
    }
    if (grants_left == 0) {
        item->answer = JOBSCHED_ANSWER_FULL;
        return JOBSCHED_OK;
    }
    return grant(store, fence, item, row, now_ms);
}

/* What the engine never asks, and the rules above rely on. */
static int check(const jobsched_claim *item)
{
    switch (item->kind) {
    case JOBSCHED_KIND_SCHEDULED:
    case JOBSCHED_KIND_CATCH_UP:
    case JOBSCHED_KIND_RERUN:
        return JOBSCHED_OK;
    case JOBSCHED_KIND_TRIGGER:
        return item->request != NULL
                   ? JOBSCHED_OK
                   : jobsched_fail(JOBSCHED_EINVAL, 0, "a trigger of job '%s' lacks its request id",
                                   item->job);
    case JOBSCHED_CLAIM_SKIP:
        return item->skip_outcome >= JOBSCHED_OUTCOME_SKIPPED_OVERLAP &&
                       item->skip_outcome <= JOBSCHED_OUTCOME_SKIPPED_MISFIRE
                   ? JOBSCHED_OK
                   : jobsched_fail(JOBSCHED_EINVAL, 0, "outcome '%d' of job '%s' is no skip",
                                   (int)item->skip_outcome, item->job);
    default:
        return jobsched_fail(JOBSCHED_EINVAL, 0, "kind '%d' of a claim is unknown",
                             (int)item->kind);
    }
}

int jsi_single_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct store *store = backend;
    int code = JOBSCHED_OK;
    (void)pthread_mutex_lock(&store->mutex);
    int64_t now_ms = store->config.clock.wall_ms(store->config.clock.ctx);
    uint64_t grants_left = call->grants_max > 0 ? call->grants_max : UINT64_MAX;
    for (size_t i = 0; i < count && code == JOBSCHED_OK; i++) {
        forget_answer(&items[i]);
        code = check(&items[i]);
        if (code != JOBSCHED_OK) {
            break;
        }
        struct fence *fence = jsi_single_fence_find(store, items[i].job);
        if (fence == NULL) {
            items[i].answer = JOBSCHED_ANSWER_UNKNOWN;
            continue;
        }
        code = claim_in_fence(store, fence, &items[i], now_ms, grants_left);
        code = jsi_single_batch_code(code, i, count);
        items[i].mark_ms = fence->mark_ms;
        items[i].last_end_ms = fence->last_end_ms;
        grants_left -=
            items[i].answer == JOBSCHED_ANSWER_GRANTED && items[i].token > 0 && grants_left > 0;
    }
    store->beat_ms = now_ms;
    (void)pthread_mutex_unlock(&store->mutex);
    if (code == JOBSCHED_OK) {
        call->now_ms = now_ms;
    }
    return code;
}
