/* model_claim.c: the election of the model, rule by rule in the contract's order. */
#include "base/mutant.h"
#include "sim/check.h"
#include "sim/model.h"
#include "sim/world.h"

#include <string.h>

static bool is_rows_claim(const struct model_row *row, const jobsched_claim *item)
{
    switch (item->kind) {
    case JOBSCHED_KIND_TRIGGER:
        return row->request[0] != '\0' && strcmp(row->request, item->request) == 0;
    case JOBSCHED_KIND_RERUN:
        return row->attempt > 1 && row->first_ms == item->scheduled_ms && row->request[0] == '\0';
    case JOBSCHED_CLAIM_SKIP:
        return false;
    default:
        return row->request[0] == '\0' && row->first_ms == item->scheduled_ms;
    }
}

static struct model_row *find_own(const struct model_handle *handle, struct model_fence *fence,
                                  const jobsched_claim *item)
{
    for (size_t i = 0; i < fence->open_count; i++) {
        struct model_row *row = &fence->open[i];
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && is_rows_claim(row, item) &&
            (row->owner == handle->number || JSI_MUTANT(model_repeat_of_any))) {
            return row;
        }
    }
    return NULL;
}

static struct model_row *find_holder(struct model_fence *fence)
{
    for (size_t i = 0; i < fence->open_count; i++) {
        if (fence->open[i].outcome == JOBSCHED_OUTCOME_RUNNING) {
            return &fence->open[i];
        }
    }
    return NULL;
}

static struct model_row *find_pending(struct model_fence *fence, const jobsched_claim *item)
{
    for (size_t i = 0; i < fence->open_count; i++) {
        struct model_row *row = &fence->open[i];
        bool found = item->kind == JOBSCHED_KIND_TRIGGER
                         ? row->outcome == JOBSCHED_OUTCOME_WAITING &&
                               strcmp(row->request, item->request) == 0
                         : row->first_ms == item->scheduled_ms && model_rerun_due(row);
        if (found) {
            return row;
        }
    }
    return NULL;
}

static void answer_granted(const struct model_row *row, jobsched_claim *item)
{
    item->answer = JOBSCHED_ANSWER_GRANTED;
    item->token = row->token;
    item->attempt = row->attempt;
    item->granted_ms = row->first_ms;
}

static void answer_held(struct model *model, const struct model_row *holder, jobsched_claim *item)
{
    item->answer = JOBSCHED_ANSWER_HELD;
    item->holder_token = holder->token;
    item->holder_since_ms = holder->started_ms;
    item->wait_ms = holder->lease_ms / 20;
    const struct model_node *node = model_node_of(model, holder->owner);
    if (node != NULL) {
        memcpy(item->holder, node->name, strlen(node->name) + 1);
    }
}

static void account(struct model_handle *handle, struct model_fence *fence,
                    const jobsched_claim *item, int32_t outcome)
{
    struct model *model = handle->model;
    bool ranged = item->kind == JOBSCHED_CLAIM_SKIP;
    int64_t first_ms = ranged ? item->skip_first_ms : item->scheduled_ms;
    uint64_t count = ranged ? item->skip_count : 1;
    fence->mark_ms = item->scheduled_ms;
    fence->paused_range = outcome == JOBSCHED_OUTCOME_SKIPPED_PAUSED;
    if (!JSI_MUTANT(model_skip_unwritten) || outcome != JOBSCHED_OUTCOME_SKIPPED_OVERLAP) {
        check_skipped(model->world, model_index(model, item->job), first_ms, item->scheduled_ms,
                      count, outcome, handle->number);
    }
}

/* SCHEDULED, CATCH_UP, SKIP. Leaves the answer at NONE if nothing is in the way. */
static void judge_scheduled(struct model_handle *handle, struct model_fence *fence,
                            jobsched_claim *item, int64_t now_ms)
{
    int64_t from_ms = fence->last_end_ms != JOBSCHED_NONE && fence->last_end_ms > fence->mark_ms &&
                              !JSI_MUTANT(model_delay_from_mark)
                          ? fence->last_end_ms
                          : fence->mark_ms;
    struct model_row *holder = find_holder(fence);
    if (item->scheduled_ms <= fence->mark_ms && !JSI_MUTANT(model_no_mark)) {
        item->answer = JOBSCHED_ANSWER_DONE;
    } else if (fence->mark_ms != item->after_ms && !JSI_MUTANT(model_no_mark) &&
               !JSI_MUTANT(model_no_moved)) {
        item->answer = JOBSCHED_ANSWER_MOVED;
    } else if (item->delay_ms > 0 && holder != NULL) {
        answer_held(handle->model, holder, item);
    } else if (item->delay_ms > 0 && item->scheduled_ms < from_ms + item->delay_ms) {
        item->answer = JOBSCHED_ANSWER_MOVED;
    } else if (item->scheduled_ms > now_ms && !JSI_MUTANT(model_never_early)) {
        item->answer = JOBSCHED_ANSWER_EARLY;
        item->wait_ms = item->scheduled_ms - now_ms;
    } else if (fence->paused && !JSI_MUTANT(model_no_pause)) {
        account(handle, fence, item, JOBSCHED_OUTCOME_SKIPPED_PAUSED);
        item->answer = JOBSCHED_ANSWER_PAUSED;
    } else if (item->kind == JOBSCHED_CLAIM_SKIP) {
        account(handle, fence, item, item->skip_outcome);
        item->granted_ms = item->scheduled_ms;
        item->answer = JOBSCHED_ANSWER_GRANTED;
    }
}

static void refuse_held(struct model_handle *handle, struct model_fence *fence,
                        jobsched_claim *item, const struct model_row *holder,
                        struct model_row *pending)
{
    answer_held(handle->model, holder, item);
    if (item->when_held != JOBSCHED_HELD_SKIP || item->kind == JOBSCHED_KIND_RERUN) {
        return;
    }
    if (item->kind == JOBSCHED_KIND_TRIGGER) {
        model_end(handle->model, fence, pending, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
        return;
    }
    account(handle, fence, item, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
}

static void grant(struct model_handle *handle, struct model_fence *fence, jobsched_claim *item,
                  struct model_row *row, int64_t now_ms)
{
    struct model *model = handle->model;
    if (row == NULL) {
        row = model_add(model, fence);
        row->first_ms = row->last_ms = item->scheduled_ms;
        fence->mark_ms = item->scheduled_ms;
    }
    uint64_t floor = model->now.epoch << MODEL_EPOCH_BITS;
    fence->token = fence->token < floor ? floor : fence->token;
    if (!JSI_MUTANT(model_token_stays) || fence->token == floor) {
        fence->token++;
    }
    if (item->kind != JOBSCHED_KIND_RERUN) {
        row->recover = item->recover;
        row->recover_limit = item->recover_limit;
    }
    row->token = fence->token;
    row->kind = item->kind;
    row->attempt++;
    row->owner = handle->number;
    row->lease_ms = item->lease_ms;
    row->started_ms = now_ms;
    row->cancel = row->untold = row->wants_rerun = false;
    row->outcome = JOBSCHED_OUTCOME_RUNNING;
    answer_granted(row, item);
    model_beat(handle);
    check_granted(model->world, model_index(model, item->job), handle->number, item,
                  row->request[0] != '\0' ? row->request : NULL);
}

static void claim_one(struct model_handle *handle, struct model_fence *fence, jobsched_claim *item,
                      int64_t now_ms, uint64_t *grants_left)
{
    struct model *model = handle->model;
    struct model_row *row = find_own(handle, fence, item);
    if (row != NULL) {
        answer_granted(row, item);
        model_beat(handle);
        *grants_left -= *grants_left > 0;
        return;
    }
    if (fence->removed && !JSI_MUTANT(model_no_tombstone)) {
        item->answer = JOBSCHED_ANSWER_REMOVED;
        return;
    }
    if (fence->generation != item->generation && !JSI_MUTANT(model_no_generation)) {
        item->answer = JOBSCHED_ANSWER_STALE;
        return;
    }
    model_settle(handle, fence);
    if (item->kind == JOBSCHED_KIND_TRIGGER || item->kind == JOBSCHED_KIND_RERUN) {
        row = find_pending(fence, item);
        item->answer = row == NULL ? JOBSCHED_ANSWER_DONE
                       : fence->paused && !JSI_MUTANT(model_pause_spares_triggers)
                           ? JOBSCHED_ANSWER_PAUSED
                           : JOBSCHED_ANSWER_NONE;
    } else {
        judge_scheduled(handle, fence, item, now_ms);
    }
    if (item->answer != JOBSCHED_ANSWER_NONE) {
        return;
    }
    struct model_row *holder = find_holder(fence);
    if (holder != NULL && item->when_held != JOBSCHED_HELD_ALLOW && !JSI_MUTANT(model_no_holder)) {
        refuse_held(handle, fence, item, holder, row);
    } else if (*grants_left == 0) {
        item->answer = JOBSCHED_ANSWER_FULL;
    } else if (sim_true_ms(model->world) < model->now.quarantine_until_ms ||
               fence->open_count == MODEL_OPEN_MAX) {
        item->answer = JOBSCHED_ANSWER_BUSY;
        item->wait_ms = 50;
    } else {
        grant(handle, fence, item, row, now_ms);
        *grants_left -= 1;
    }
}

void model_claim(struct model_handle *handle, jobsched_call *call, jobsched_claim *items,
                 size_t count)
{
    struct model *model = handle->model;
    uint64_t grants_left = call->grants_max > 0 ? call->grants_max : UINT64_MAX;
    call->now_ms = sim_server_ms(model->world);
    for (size_t i = 0; i < count; i++) {
        jobsched_claim *item = &items[i];
        int index = model_index(model, item->job);
        struct model_fence *fence = model_fence_of(model, item->job);
        item->answer = JOBSCHED_ANSWER_NONE;
        item->token = 0;
        item->attempt = 0;
        item->granted_ms = item->wait_ms = 0;
        item->holder_token = 0;
        item->holder_since_ms = 0;
        item->holder[0] = '\0';
        item->last_end_ms = JOBSCHED_NONE;
        if (fence == NULL || handle->announced[index] != model->now.epoch + 1) {
            item->answer = JOBSCHED_ANSWER_UNKNOWN;
            continue;
        }
        claim_one(handle, fence, item, call->now_ms, &grants_left);
        item->mark_ms = fence->mark_ms;
        item->last_end_ms = fence->last_end_ms;
    }
}
