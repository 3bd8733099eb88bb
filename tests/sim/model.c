/* model.c: who is in the cluster, definitions, ends and leases of the model. */
#include "sim/model.h"

#include "base/mutant.h"
#include "sim/check.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/* "j07": see plan.c. The one job of another name is that whose run is leadership. */
int model_index(const struct model *model, const char *job)
{
    return job[0] == 'j' && job[3] == '\0' ? (job[1] - '0') * 10 + (job[2] - '0')
                                           : model->world->config.jobs;
}

struct model_fence *model_fence_of(struct model *model, const char *job)
{
    struct model_fence *fence = &model->now.fences[model_index(model, job)];
    return fence->exists ? fence : NULL;
}

struct model_node *model_node_of(struct model *model, uint64_t number)
{
    for (size_t i = 0; i < MODEL_NODES_MAX; i++) {
        if (model->nodes[i].number == number) {
            return &model->nodes[i];
        }
    }
    return NULL;
}

/* ---- who is alive -------------------------------------------------------------- */

static bool holds_anything(const struct model *model, uint64_t number)
{
    for (size_t i = 0; i < model->now.fence_count; i++) {
        for (size_t j = 0; j < model->now.fences[i].open_count; j++) {
            if (model->now.fences[i].open[j].owner == number) {
                return true;
            }
        }
    }
    return false;
}

void model_enter(struct model *model, struct model_handle *handle, const char *name)
{
    struct model_node *place = model_node_of(model, 0);
    for (size_t i = 0; i < MODEL_NODES_MAX && place == NULL; i++) {
        struct model_node *old = &model->nodes[i];
        if (sim_process_is_over(model->world, old->number) && !holds_anything(model, old->number)) {
            place = old;
        }
    }
    for (size_t i = 0; i < MODEL_NODES_MAX && place == NULL; i++) {
        bool over = sim_process_is_over(model->world, model->nodes[i].number);
        place = over ? &model->nodes[i] : NULL; /* its runs are those of a node unknown: dead */
    }
    if (place == NULL) {
        abort();
    }
    *place = (struct model_node){.number = handle->number, .beat = 1, .session = true};
    (void)strncpy(place->name, name, sizeof place->name - 1);
}

void model_beat(struct model_handle *handle)
{
    struct model_node *node = model_node_of(handle->model, handle->number);
    if (node != NULL && !handle->left) {
        node->beat++;
        node->session = true; /* who lost it enters again */
    }
}

void model_session_end(struct model *model, uint64_t number)
{
    struct model_node *node = model_node_of(model, number);
    if (node != NULL && node->session) {
        node->session = false;
        node->gone_at_ms = sim_true_ms(model->world);
    }
}

/* Looks at a node's heartbeat; returns for how long it has been standing still. */
static int64_t watch(struct model_handle *handle, const struct model_node *node)
{
    size_t place = (size_t)(node - handle->model->nodes);
    int64_t mono_ms = handle->mono_ms(handle->ctx);
    if (handle->seen[place].number != node->number || handle->seen[place].beat != node->beat) {
        handle->seen[place].number = node->number;
        handle->seen[place].beat = node->beat;
        handle->seen[place].since_mono_ms = mono_ms;
    }
    return mono_ms - handle->seen[place].since_mono_ms;
}

bool model_is_dead(struct model_handle *handle, const struct model_row *row)
{
    struct model *model = handle->model;
    const struct model_node *node = model_node_of(model, row->owner);
    if (node == NULL) {
        return true;
    }
    int64_t still_ms = watch(handle, node);
    int64_t lease_ms = JSI_MUTANT(model_short_watch) ? row->lease_ms / 3 : row->lease_ms;
    int64_t grace_ms = JSI_MUTANT(model_no_grace) ? 0 : model->grace_ms;
    bool proven = model->grace_ms >= 0 && !node->session &&
                  sim_true_ms(model->world) - node->gone_at_ms >= grace_ms;
    return node->number != handle->number && (proven || still_ms >= lease_ms);
}

/* ---- rows ----------------------------------------------------------------------- */

bool model_rerun_due(const struct model_row *row)
{
    return row->outcome == JOBSCHED_OUTCOME_INTERRUPTED && row->wants_rerun;
}

struct model_row *model_add(struct model *model, struct model_fence *fence)
{
    (void)model;
    struct model_row *row = &fence->open[fence->open_count++];
    memset(row, 0, sizeof *row);
    row->count = 1;
    return row;
}

void model_close(struct model_fence *fence, struct model_row *row)
{
    if (row->request[0] != '\0') {
        memcpy(fence->requests[fence->request_at], row->request, sizeof row->request);
        fence->request_at = (fence->request_at + 1) % MODEL_CLOSED_KEPT;
    }
    fence->closed[fence->closed_at] = *row;
    fence->closed_at = (fence->closed_at + 1) % MODEL_CLOSED_KEPT;
    *row = fence->open[--fence->open_count];
}

void model_end(struct model *model, struct model_fence *fence, struct model_row *row,
               int32_t outcome)
{
    row->outcome = outcome;
    if (row->token > 0) {
        fence->last_end_ms = sim_server_ms(model->world);
    }
    check_ended(model->world, (int)(fence - model->now.fences), row, outcome);
    if (!row->untold && !row->wants_rerun) {
        model_close(fence, row);
    }
}

void model_interrupt(struct model *model, struct model_fence *fence, struct model_row *row)
{
    row->untold = true;
    row->wants_rerun = row->recover == JOBSCHED_RECOVER_RERUN && !row->cancel &&
                       row->attempt - 1 < row->recover_limit && !fence->removed;
    model->news++;
    model_end(model, fence, row, JOBSCHED_OUTCOME_INTERRUPTED);
}

void model_settle(struct model_handle *handle, struct model_fence *fence)
{
    for (size_t i = 0; i < fence->open_count; i++) {
        struct model_row *row = &fence->open[i];
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && model_is_dead(handle, row)) {
            model_interrupt(handle->model, fence, row); /* stays in place: it is news */
        }
    }
}

void model_leave(struct model *model, struct model_handle *handle)
{
    handle->left = true;
    for (size_t i = 0; i < model->now.fence_count; i++) {
        struct model_fence *fence = &model->now.fences[i];
        for (size_t j = 0; j < fence->open_count; j++) {
            struct model_row *row = &fence->open[j];
            if (row->outcome == JOBSCHED_OUTCOME_RUNNING && row->owner == handle->number) {
                model_interrupt(model, fence, row);
            }
        }
    }
    model_session_end(model, handle->number);
}

/* ---- announce, finish, renew ------------------------------------------------------ */

/* Whether the text, which would replace the one in force, does so now. */
static bool may_replace(const struct model_fence *fence, const jobsched_announcement *item,
                        int64_t now_ms)
{
    if (item->replace != JOBSCHED_REPLACE_IF) {
        return fence->removed || item->replace == JOBSCHED_REPLACE_ANYWAY;
    }
    if (fence->removed) {
        return JSI_MUTANT(model_if_revives); /* removed since this node has asked */
    }
    return (item->replaces == fence->generation && item->after_ms == fence->mark_ms &&
            (item->before_ms == JOBSCHED_NONE || now_ms < item->before_ms)) ||
           JSI_MUTANT(model_if_is_anyway);
}

static void put_in_force(struct model_fence *fence, jobsched_announcement *item, int64_t now_ms)
{
    bool fresh = !fence->exists;
    bool larger = item->version > fence->version;
    if (fresh) {
        memset(fence, 0, sizeof *fence);
        fence->exists = true;
        fence->last_end_ms = JOBSCHED_NONE;
        fence->mark_ms = now_ms;
    }
    item->conflict = !fresh && !larger && item->version > 0;
    fence->removed = fence->removed && !larger;
    fence->version = item->version;
    fence->generation++;
    if (!JSI_MUTANT(model_edit_keeps_mark) && now_ms > fence->mark_ms) {
        fence->mark_ms = now_ms;
    }
    (void)strncpy(fence->definition, item->definition, sizeof fence->definition - 1);
}

static void announce_one(struct model_handle *handle, jobsched_announcement *item, int64_t now_ms)
{
    struct model *model = handle->model;
    int index = model_index(model, item->job);
    struct model_fence *fence = &model->now.fences[index];
    model->now.fence_count =
        (size_t)index >= model->now.fence_count ? (size_t)index + 1 : model->now.fence_count;
    bool other =
        fence->exists &&
        (item->version > fence->version ||
         (item->version == fence->version && strcmp(item->definition, fence->definition) != 0));
    item->conflict = 0;
    item->pending = other && !may_replace(fence, item, now_ms);
    bool replaced = !item->pending && (other || !fence->exists);
    check_announced(model->world, index, handle->number, item, replaced);
    if (replaced) {
        put_in_force(fence, item, now_ms);
    }
    if (JSI_MUTANT(model_start_resumes)) {
        fence->paused = false;
    }
    if (JSI_MUTANT(model_start_moves_mark) && now_ms > fence->mark_ms) {
        fence->mark_ms = now_ms;
    }
    handle->announced[index] = model->now.epoch + 1;
    item->generation = fence->generation;
    item->mark_ms = fence->mark_ms;
    item->last_end_ms = fence->last_end_ms;
    item->in_force =
        (!item->pending && item->version == fence->version) || JSI_MUTANT(model_all_in_force);
    item->paused = fence->paused;
    item->removed = fence->removed;
}

void model_announce(struct model_handle *handle, jobsched_call *call, jobsched_announcement *items,
                    size_t count)
{
    call->now_ms = sim_server_ms(handle->model->world);
    for (size_t i = 0; i < count; i++) {
        announce_one(handle, &items[i], call->now_ms);
    }
}

static struct model_row *find_run(struct model_handle *handle, struct model_fence *fence,
                                  uint64_t token)
{
    for (size_t i = 0; fence != NULL && i < fence->open_count; i++) {
        struct model_row *row = &fence->open[i];
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING &&
            (row->token == token || JSI_MUTANT(model_no_token)) &&
            (row->owner == handle->number || JSI_MUTANT(model_no_token))) {
            return row;
        }
    }
    return NULL;
}

static bool was_finished(const struct model_handle *handle, const struct model_fence *fence,
                         const jobsched_finish *item)
{
    for (size_t i = 0; fence != NULL && i < MODEL_CLOSED_KEPT; i++) {
        const struct model_row *row = &fence->closed[i];
        if (row->token == item->token && row->owner == handle->number &&
            row->outcome == item->outcome) {
            return true;
        }
    }
    for (size_t i = 0; fence != NULL && i < fence->open_count; i++) {
        const struct model_row *row = &fence->open[i];
        if (row->token == item->token && row->owner == handle->number &&
            row->outcome == item->outcome && !row->untold) {
            return true;
        }
    }
    return false;
}

static void finish_one(struct model_handle *handle, jobsched_finish *item)
{
    struct model *model = handle->model;
    struct model_fence *fence = model_fence_of(model, item->job);
    struct model_row *row = find_run(handle, fence, item->token);
    if (row == NULL) {
        item->answer =
            was_finished(handle, fence, item) ? JOBSCHED_LEASE_KEPT : JOBSCHED_LEASE_GONE;
        return;
    }
    row->code = item->code;
    item->answer = JOBSCHED_LEASE_KEPT;
    if (item->outcome == JOBSCHED_OUTCOME_INTERRUPTED) {
        model_interrupt(model, fence, row);
        row->untold = false; /* its owner said so itself */
        check_said_itself(model->world, model_index(model, item->job), item->token);
        if (!row->wants_rerun) {
            model_close(fence, row);
        }
        return;
    }
    model_end(model, fence, row, item->outcome);
}

void model_finish(struct model_handle *handle, jobsched_call *call, jobsched_finish *items,
                  size_t count)
{
    call->now_ms = sim_server_ms(handle->model->world);
    for (size_t i = 0; i < count; i++) {
        finish_one(handle, &items[i]);
    }
}

void model_renew(struct model_handle *handle, jobsched_call *call, jobsched_lease *items,
                 size_t count)
{
    call->now_ms = sim_server_ms(handle->model->world);
    model_beat(handle);
    for (size_t i = 0; i < count; i++) {
        struct model_fence *fence = model_fence_of(handle->model, items[i].job);
        const struct model_row *row = find_run(handle, fence, items[i].token);
        items[i].answer = row == NULL                                   ? JOBSCHED_LEASE_GONE
                          : row->cancel && !JSI_MUTANT(model_no_cancel) ? JOBSCHED_LEASE_CANCEL
                                                                        : JOBSCHED_LEASE_KEPT;
    }
}
