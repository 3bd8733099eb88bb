/* driver.c: the model as a driver of the engine. Each operation is a request that is carried there
 * and back. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

enum { FINDINGS_MAX = 100 };

static int open_sim(const jobsched_backend_config *config, void **out_backend)
{
    struct sim_node *node = config->clock.ctx;
    struct sim_world *world = node->world;
    struct model_handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL) {
        abort();
    }
    handle->model = &world->model;
    handle->number = node->number;
    handle->mono_ms = config->clock.mono_ms;
    handle->ctx = node;
    handle->next = world->handles;
    world->handles = handle;
    node->handle = handle;
    model_enter(&world->model, handle, config->node_name);
    *out_backend = node;
    return JOBSCHED_OK;
}

/* Runs in the thread that closes. The handle outlives it, for what is still on its way. */
static void close_sim(void *backend)
{
    struct sim_node *node = backend;
    if (node != NULL && !node->handle->left) {
        model_leave(&node->world->model, node->handle);
    }
}

/* What the rows say now: they may go on while the answer is on its way. */
static void perform_reap(struct model_handle *handle, struct sim_request *request)
{
    jobsched_finding *findings = request->items;
    request->count = model_reap(handle, request->call, findings, FINDINGS_MAX);
    for (size_t i = 0; i < request->count; i++) {
        memcpy(request->texts[i], findings[i].request, MODEL_REQUEST_BYTES);
        findings[i].request = request->texts[i];
    }
}

void sim_perform(struct model_handle *handle, struct sim_request *request)
{
    jobsched_call *call = request->call;
    request->code = JOBSCHED_OK;
    switch (request->operation) {
    case SIM_ANNOUNCE:
        model_announce(handle, call, request->items, request->count);
        break;
    case SIM_CLAIM:
        model_claim(handle, call, request->items, request->count);
        break;
    case SIM_FINISH:
        model_finish(handle, call, request->items, request->count);
        break;
    case SIM_RENEW:
        model_renew(handle, call, request->items, request->count);
        break;
    case SIM_REAP:
        perform_reap(handle, request);
        break;
    case SIM_CONTROL_CALL:
        request->code = model_control(handle, call, request->items, request->result);
        break;
    case SIM_JOBS:
        request->count = model_jobs(handle, call, request->job, request->items, MODEL_JOBS_MAX);
        request->code = request->job != NULL && request->count == 0 ? JOBSCHED_ENOTFOUND : 0;
        break;
    default:
        break;
    }
}

static int announce(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count)
{
    struct sim_request request = {
        .operation = SIM_ANNOUNCE, .call = call, .items = items, .count = count};
    int code = sim_carry(backend, SIM_ELECT, &request);
    const struct sim_node *node = backend;
    /* What the store has forgotten meanwhile is not so any more. */
    if (code == JOBSCHED_OK && request.epoch == node->world->model.now.epoch) {
        check_answered(backend, items, count);
    }
    return code;
}

static int claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct sim_request request = {
        .operation = SIM_CLAIM, .call = call, .items = items, .count = count};
    check_claims(backend, items, count);
    int code = sim_carry(backend, SIM_ELECT, &request);
    check_claimed(backend, items, count, code);
    return code;
}

static int finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct sim_request request = {
        .operation = SIM_FINISH, .call = call, .items = items, .count = count};
    return sim_carry(backend, SIM_ELECT, &request);
}

static int renew(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count)
{
    struct sim_request request = {
        .operation = SIM_RENEW, .call = call, .items = items, .count = count};
    (void)clock_offset_ms;
    struct sim_node *node = backend;
    int code = sim_carry(node, SIM_KEEP, &request);
    if (code == JOBSCHED_OK) {
        node->lost_at_ms = JOBSCHED_NONE; /* it has a session again */
    }
    return code;
}

static int reap(void *backend, jobsched_call *call,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data)
{
    struct sim_node *node = backend;
    jobsched_finding findings[FINDINGS_MAX];
    char texts[FINDINGS_MAX][MODEL_REQUEST_BYTES];
    struct sim_request request = {
        .operation = SIM_REAP, .call = call, .items = findings, .texts = texts};
    int code = sim_carry(node, SIM_KEEP, &request);
    for (size_t i = 0; code == JOBSCHED_OK && i < request.count; i++) {
        if (visit(&findings[i], visit_data) != 0) {
            break;
        }
    }
    return code;
}

static int control(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result)
{
    jobsched_command copy = *command;
    struct sim_request request = {.operation = SIM_CONTROL_CALL,
                                  .call = call,
                                  .items = &copy,
                                  .count = 1,
                                  .result = out_result};
    return sim_carry(backend, SIM_ADMIN, &request);
}

static int runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct sim_node *node = backend;
    struct sim_request request = {.operation = SIM_RUNS, .call = call};
    int code = sim_carry(node, SIM_ADMIN, &request);
    return code != JOBSCHED_OK ? code
                               : model_runs(node->handle, call, job, limit, visit, visit_data);
}

/* The answer is kept in the node: what is told is what was so at the server's step. */
static int jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                void *visit_data)
{
    struct sim_node *node = backend;
    struct sim_request request = {
        .operation = SIM_JOBS, .call = call, .items = node->views, .job = job};
    int code = sim_carry(node, SIM_ADMIN, &request);
    if (code == JOBSCHED_ENOTFOUND) {
        return jobsched_fail(code, 0, "no job '%s'", job);
    }
    for (size_t i = 0; code == JOBSCHED_OK && i < request.count; i++) {
        node->views[i].record.definition = node->views[i].definition;
        if (visit(&node->views[i].record, visit_data) != 0) {
            break;
        }
    }
    return code;
}

/* A look at the session: as long as it is there, the store has at most just seen it end. */
static int64_t vouch(void *backend)
{
    const struct sim_node *node = backend;
    const struct sim_world *world = node->world;
    if (!world->vouches) {
        return JOBSCHED_NONE;
    }
    if (node->lost_at_ms != JOBSCHED_NONE) {
        return node->lost_at_ms;
    }
    return sim_mono_ms(node) + world->model.grace_ms - SIM_NOTICE_MS;
}

const jobsched_backend *const *sim_drivers(void)
{
    static const jobsched_backend driver = {.abi = JOBSCHED_BACKEND_ABI,
                                            .capabilities = JOBSCHED_CAPABILITY_CLUSTER |
                                                            JOBSCHED_CAPABILITY_DURABLE,
                                            .scheme = "sim",
                                            .open = open_sim,
                                            .close = close_sim,
                                            .announce = announce,
                                            .claim = claim,
                                            .finish = finish,
                                            .renew = renew,
                                            .reap = reap,
                                            .control = control,
                                            .runs = runs,
                                            .jobs = jobs,
                                            .vouch = vouch};
    static const jobsched_backend *const drivers[] = {&driver, NULL};
    return drivers;
}
