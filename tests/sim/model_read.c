/* model_read.c: reap, control, the readers, and failover of the model. */
#include "sim/model.h"

#include "base/mutant.h"
#include "sim/check.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/* ---- reap ------------------------------------------------------------------------ */

static jobsched_finding finding_of(struct model *model, const struct model_row *row,
                                   const char *job, int found)
{
    const struct model_node *node = model_node_of(model, row->owner);
    return (jobsched_finding){.found = found,
                              .attempt = row->attempt,
                              .job = job,
                              .node = node == NULL ? "" : node->name,
                              .request = row->request,
                              .scheduled_ms = row->first_ms,
                              .token = row->token};
}

size_t model_reap(struct model_handle *handle, jobsched_call *call, jobsched_finding *findings,
                  size_t limit)
{
    struct model *model = handle->model;
    size_t count = 0;
    bool any = false;
    call->now_ms = sim_server_ms(model->world);
    for (size_t i = 0; i < model->now.fence_count && count + 2 < limit; i++) {
        struct model_fence *fence = &model->now.fences[i];
        const char *job = sim_job_name(model->world, (int)i);
        model_settle(handle, fence);
        for (size_t j = 0; j < fence->open_count && count + 2 < limit; j++) {
            struct model_row *row = &fence->open[j];
            any = any || row->outcome != JOBSCHED_OUTCOME_RUNNING;
            if (row->untold && !JSI_MUTANT(model_untold)) {
                findings[count++] = finding_of(model, row, job, JOBSCHED_FOUND_INTERRUPTED);
                row->untold = JSI_MUTANT(model_told_twice);
            }
            if (row->outcome == JOBSCHED_OUTCOME_WAITING) {
                findings[count++] = finding_of(model, row, job, JOBSCHED_FOUND_TRIGGER);
            } else if (model_rerun_due(row)) {
                findings[count++] = finding_of(model, row, job, JOBSCHED_FOUND_RERUN);
            } else if (row->outcome == JOBSCHED_OUTCOME_INTERRUPTED && !row->untold) {
                model_close(fence, row);
                j--;
            }
        }
    }
    model->news = any;
    return count;
}

/* ---- control ---------------------------------------------------------------------- */

bool model_known_request(const struct model_fence *fence, const char *request)
{
    for (size_t i = 0; i < fence->open_count; i++) {
        if (strcmp(fence->open[i].request, request) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < MODEL_CLOSED_KEPT; i++) {
        if (strcmp(fence->requests[i], request) == 0) {
            return true;
        }
    }
    return false;
}

static int trigger(struct model *model, struct model_fence *fence, const char *request,
                   int32_t *out_changed)
{
    size_t waiting = 0;
    for (size_t i = 0; i < fence->open_count; i++) {
        waiting += fence->open[i].outcome == JOBSCHED_OUTCOME_WAITING;
    }
    if (model_known_request(fence, request)) {
        return JOBSCHED_OK;
    }
    if (fence->paused) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "the job is paused");
    }
    if (waiting >= MODEL_TRIGGERS_MAX || fence->open_count > MODEL_OPEN_MAX / 2) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0, "too many triggers wait");
    }
    *out_changed = 1;
    if (JSI_MUTANT(model_trigger_lost)) {
        return JOBSCHED_OK;
    }
    struct model_row *row = model_add(model, fence);
    row->kind = JOBSCHED_KIND_TRIGGER;
    row->first_ms = row->last_ms = sim_server_ms(model->world);
    (void)strncpy(row->request, request, sizeof row->request - 1);
    model->news++;
    return JOBSCHED_OK;
}

static int32_t cancel(struct model_fence *fence)
{
    int32_t changed = 0;
    for (size_t i = 0; i < fence->open_count; i++) {
        struct model_row *row = &fence->open[i];
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && !row->cancel) {
            row->cancel = true;
            changed = 1;
        }
    }
    return changed;
}

static int32_t bury(struct model *model, struct model_fence *fence)
{
    int32_t changed = !fence->removed;
    fence->removed = true;
    for (size_t i = fence->open_count; i-- > 0;) {
        struct model_row *row = &fence->open[i];
        row->wants_rerun = false;
        if (row->outcome == JOBSCHED_OUTCOME_WAITING) {
            model_end(model, fence, row, JOBSCHED_OUTCOME_CANCELLED);
        }
    }
    model->news++; /* rows that only waited for their rerun are swept by reap */
    return changed;
}

static void tell(const struct model *model, const struct model_fence *fence, int32_t changed,
                 jobsched_control_result *out)
{
    (void)model;
    out->changed = changed;
    out->token = fence->token;
    for (size_t i = 0; i < fence->open_count; i++) {
        const struct model_row *row = &fence->open[i];
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING) {
            out->running = 1;
            out->since_at_ms = row->started_ms;
            out->run_token = row->token;
        }
    }
}

int model_control(struct model_handle *handle, jobsched_call *call, const jobsched_command *command,
                  jobsched_control_result *out_result)
{
    struct model *model = handle->model;
    struct model_fence *fence = model_fence_of(model, command->job);
    int32_t changed = 0;
    int code = JOBSCHED_OK;
    call->now_ms = sim_server_ms(model->world);
    if (fence == NULL || (fence->removed && command->verb != JOBSCHED_VERB_REMOVE)) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "no job '%s'", command->job);
    }
    switch (command->verb) {
    case JOBSCHED_VERB_PAUSE:
    case JOBSCHED_VERB_RESUME:
        changed = fence->paused != (command->verb == JOBSCHED_VERB_PAUSE);
        fence->paused = command->verb == JOBSCHED_VERB_PAUSE && !JSI_MUTANT(model_pause_lost);
        break;
    case JOBSCHED_VERB_TRIGGER:
        code = trigger(model, fence, command->request, &changed);
        break;
    case JOBSCHED_VERB_CANCEL:
        changed = cancel(fence);
        break;
    default:
        changed = bury(model, fence);
        break;
    }
    if (code == JOBSCHED_OK && out_result != NULL) {
        tell(model, fence, changed, out_result);
    }
    return code;
}

static void look_at(const struct model *model, size_t index, struct model_view *out)
{
    const struct model_fence *fence = &model->now.fences[index];
    memcpy(out->definition, fence->definition, sizeof out->definition);
    out->record = (jobsched_job_record){.job = sim_job_name(model->world, (int)index),
                                        .schedule = "",
                                        .timezone = "",
                                        .version = fence->version,
                                        .generation = fence->generation,
                                        .token = fence->token,
                                        .mark_at_ms = fence->mark_ms,
                                        .next_at_ms = JOBSCHED_NONE,
                                        .last_end_at_ms = fence->last_end_ms,
                                        .paused = fence->paused,
                                        .removed = fence->removed,
                                        .last_node = "",
                                        .running_node = ""};
    for (size_t i = 0; i < fence->open_count; i++) {
        out->record.running += fence->open[i].outcome == JOBSCHED_OUTCOME_RUNNING;
        out->record.waiting += fence->open[i].outcome == JOBSCHED_OUTCOME_WAITING;
    }
}

size_t model_jobs(struct model_handle *handle, jobsched_call *call, const char *job,
                  struct model_view *views, size_t limit)
{
    struct model *model = handle->model;
    size_t count = 0;
    call->now_ms = sim_server_ms(model->world);
    for (size_t i = 0; i < model->now.fence_count && count < limit; i++) {
        bool asked = job == NULL || strcmp(job, sim_job_name(model->world, (int)i)) == 0;
        struct model_fence *fence = &model->now.fences[i];
        if (asked && fence->exists) {
            look_at(model, i, &views[count++]);
            if (JSI_MUTANT(model_if_revives) && fence->generation % 4 == 1) {
                fence->removed = true; /* what seldom comes at this moment */
            }
        }
    }
    return count;
}

int model_runs(struct model_handle *handle, jobsched_call *call, const char *job, uint64_t limit,
               jobsched_run_visit_fn visit, void *visit_data)
{
    const struct model_fence *fence = model_fence_of(handle->model, job);
    call->now_ms = sim_server_ms(handle->model->world);
    for (size_t i = 0; fence != NULL && i < fence->open_count && i < limit; i++) {
        const struct model_row *row = &fence->open[i];
        jobsched_run_record record = {.job = job,
                                      .node = "",
                                      .note = "",
                                      .request = row->request,
                                      .scheduled_at_ms = row->first_ms,
                                      .last_at_ms = row->last_ms,
                                      .count = row->count,
                                      .token = row->token,
                                      .attempt = row->attempt,
                                      .kind = row->kind,
                                      .outcome = row->outcome};
        if (visit(&record, visit_data) != 0) {
            break;
        }
    }
    return JOBSCHED_OK;
}

/* ---- failover --------------------------------------------------------------------- */

void model_copy(struct model *model)
{
    if (model->copy == NULL) {
        model->copy = malloc(sizeof *model->copy);
    }
    if (model->copy == NULL) {
        abort();
    }
    *model->copy = model->now;
}

void model_failover(struct model *model)
{
    if (model->copy == NULL) {
        return;
    }
    int64_t now_ms = sim_server_ms(model->world);
    uint64_t epoch = model->now.epoch + 1;
    int64_t marks_ms[MODEL_JOBS_MAX];
    for (size_t i = 0; i < MODEL_JOBS_MAX; i++) {
        marks_ms[i] = model->now.fences[i].mark_ms;
    }
    model->now = *model->copy;
    model->now.epoch = JSI_MUTANT(model_epoch_stays) ? 0 : epoch;
    check_forgot(model->world, true);
    model->now.quarantine_until_ms =
        sim_true_ms(model->world) + (JSI_MUTANT(model_no_quarantine) ? 0 : model->lease_max_ms);
    for (size_t i = 0; i < model->now.fence_count; i++) {
        struct model_fence *fence = &model->now.fences[i];
        /* Live nodes know how far it had come. */
        int64_t floor_ms = marks_ms[i] > now_ms ? marks_ms[i] : now_ms;
        if (!JSI_MUTANT(model_no_floor) && fence->exists && fence->mark_ms < floor_ms) {
            fence->mark_ms = floor_ms;
        }
        for (size_t j = 0; j < fence->open_count; j++) {
            if (fence->open[j].outcome == JOBSCHED_OUTCOME_RUNNING) {
                model_interrupt(model, fence, &fence->open[j]);
            }
        }
    }
    model->news++;
    check_forgot(model->world, false);
}
