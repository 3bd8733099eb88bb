/* control.c: the operator's verbs, and the ledger's reader. A verb is one transaction, in the
 * same place as the claim, so that once PAUSE has answered no later claim is granted (G6).
 * Locks: the database's write lock while a verb acts; none while reading. */
#include "store.h"

#define RUNS_DEFAULT 100

static int run_on_fence(struct jsi_sqlite_lane *lane, enum jsi_sql sql, int64_t fence,
                        const int64_t *value)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, sql);
    jsi_query_int(&query, fence);
    if (value != NULL) {
        jsi_query_int(&query, *value);
    }
    return jsi_query_run(&query);
}

static int set_paused(struct jsi_sqlite_lane *lane, const struct jsi_fence *fence, int paused,
                      int *out_changed)
{
    *out_changed = fence->paused != paused;
    int64_t value = paused;
    return *out_changed ? run_on_fence(lane, JSI_SQL_FENCE_PAUSE, fence->id, &value) : 0;
}

static int add_waiting(struct jsi_sqlite_lane *lane, struct jsi_fence *fence, const char *request)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_ADD);
    jsi_query_int(&query, fence->id);
    jsi_query_int(&query, ++fence->seq);
    jsi_query_int(&query, JOBSCHED_KIND_TRIGGER);
    jsi_query_int(&query, JOBSCHED_OUTCOME_WAITING);
    jsi_query_int(&query, lane->now_ms); /* the trigger's own instant */
    jsi_query_int(&query, lane->now_ms);
    jsi_query_int(&query, 1); /* occurrences */
    jsi_query_int(&query, 0); /* token */
    jsi_query_int(&query, 0); /* attempt */
    jsi_query_int(&query, 0); /* node */
    jsi_query_text(&query, "");
    jsi_query_null(&query);
    jsi_query_null(&query);
    jsi_query_int(&query, 0); /* lease, recover, recover_limit: the grant sets them */
    jsi_query_int(&query, JOBSCHED_RECOVER_LEAVE);
    jsi_query_int(&query, 0);
    jsi_query_text(&query, request);
    int result = jsi_query_run(&query);
    return result == 0 ? jsi_fence_store(lane, fence) : result;
}

static int trigger(struct jsi_sqlite_lane *lane, struct jsi_fence *fence,
                   const jobsched_command *command, int *out_changed)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_REQUEST);
    jsi_query_int(&query, fence->id);
    jsi_query_text(&query, command->request);
    int result = jsi_query_row(&query);
    jsi_query_close(&query);
    if (result != 0) {
        return result < 0 ? result : 0; /* known: an earlier try of this call has added it */
    }
    if (fence->paused) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "job '%s' is paused; resume it first",
                             command->job);
    }
    jsi_query_open(&query, lane, JSI_SQL_RUN_WAITING);
    jsi_query_int(&query, fence->id);
    result = jsi_query_row(&query);
    int64_t waiting = result == 1 ? jsi_query_get_int(&query, 0) : 0;
    jsi_query_close(&query);
    if (result < 0) {
        return result;
    }
    if (waiting >= JOBSCHED_WAITING_MAX) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0, "job '%s' has %lld waiting triggers, at most %d",
                             command->job, (long long)waiting, JOBSCHED_WAITING_MAX);
    }
    *out_changed = 1;
    return add_waiting(lane, fence, command->request);
}

/* Nothing of a removed job will be granted, so nothing of it waits any more. */
static int remove_job(struct jsi_sqlite_lane *lane, const struct jsi_fence *fence, int *out_changed)
{
    *out_changed = !fence->removed;
    if (fence->removed) {
        return 0;
    }
    int result = run_on_fence(lane, JSI_SQL_FENCE_REMOVE, fence->id, NULL);
    if (result == 0) {
        result = run_on_fence(lane, JSI_SQL_DROP_WAITING, fence->id, &lane->now_ms);
    }
    return result == 0 ? run_on_fence(lane, JSI_SQL_DROP_RERUNS, fence->id, NULL) : result;
}

static int act(struct jsi_sqlite_lane *lane, struct jsi_fence *fence,
               const jobsched_command *command, int *out_changed)
{
    int result;
    switch (command->verb) {
    case JOBSCHED_VERB_PAUSE:
        return set_paused(lane, fence, 1, out_changed);
    case JOBSCHED_VERB_RESUME:
        return set_paused(lane, fence, 0, out_changed);
    case JOBSCHED_VERB_TRIGGER:
        return trigger(lane, fence, command, out_changed);
    case JOBSCHED_VERB_CANCEL:
        result = run_on_fence(lane, JSI_SQL_CANCEL, fence->id, NULL);
        *out_changed = result == 0 && sqlite3_changes(lane->db) > 0;
        return result;
    default: /* REMOVE: others were refused before */
        return remove_job(lane, fence, out_changed);
    }
}

static int check(const jobsched_command *command)
{
    if (command->verb < JOBSCHED_VERB_PAUSE || command->verb > JOBSCHED_VERB_REMOVE) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "verb '%d' is unknown", command->verb);
    }
    if (command->verb == JOBSCHED_VERB_TRIGGER && command->request == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "a trigger of job '%s' lacks its request",
                             command->job);
    }
    return 0;
}

/* The whole of a verb, inside its transaction. */
static int command_job(struct jsi_sqlite_lane *lane, const jobsched_command *command,
                       jobsched_control_result *result_to_fill)
{
    struct jsi_fence fence;
    int result = jsi_fence_read(lane, command->job, &fence);
    if (result < 0) {
        return result;
    }
    if (result == 0 || (fence.removed && command->verb != JOBSCHED_VERB_REMOVE)) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is %s", command->job,
                             result == 0 ? "not known here" : "removed");
    }
    /* First, so that a verb neither names nor cancels a run whose owner is dead. */
    struct jsi_holder holder;
    int running = jsi_fence_holder(lane, fence.id, 1, &holder);
    if (running < 0) {
        return running;
    }
    int changed = 0;
    result = act(lane, &fence, command, &changed);
    if (result != 0) {
        return result;
    }
    result_to_fill->changed = changed;
    result_to_fill->token = fence.token;
    result_to_fill->running = running;
    if (running) {
        result_to_fill->since_at_ms = holder.since_ms;
        result_to_fill->run_token = holder.token;
        memcpy(result_to_fill->node, holder.node, sizeof holder.node);
    }
    return 0;
}

int jsi_sqlite_control(void *backend, jobsched_call *call, const jobsched_command *command,
                       jobsched_control_result *out_result)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = check(command);
    if (result != 0) {
        return result;
    }
    result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    jobsched_control_result achieved;
    JOBSCHED_INIT(&achieved);
    result = jsi_sqlite_end(lane, call, command_job(lane, command, &achieved));
    if (result == 0 && out_result != NULL) {
        *out_result = achieved;
    }
    return result;
}

void jsi_sqlite_read_record(const struct jsi_query *query, jobsched_run_record *out_record)
{
    *out_record = (jobsched_run_record){
        .job = jsi_query_get_text(query, 0),
        .node = jsi_query_get_text(query, 1),
        .note = jsi_query_get_text(query, 2),
        .request = jsi_query_get_text(query, 3),
        .scheduled_at_ms = jsi_query_get_int(query, 4),
        .last_at_ms = jsi_query_get_int(query, 5),
        .count = jsi_query_get_uint(query, 6),
        .token = jsi_query_get_uint(query, 7),
        .started_at_ms = jsi_query_get_ms(query, 8),
        .finished_at_ms = jsi_query_get_ms(query, 9),
        .progress_done = jsi_query_get_uint(query, 10),
        .progress_total = jsi_query_get_uint(query, 11),
        .attempt = (uint32_t)jsi_query_get_uint(query, 12),
        .kind = (int32_t)jsi_query_get_int(query, 13),
        .outcome = (int32_t)jsi_query_get_int(query, 14),
        .code = (int32_t)jsi_query_get_int(query, 15),
    };
}

int jsi_sqlite_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                    jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = jsi_sqlite_begin_read(lane, call);
    if (result != 0) {
        return result;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, job == NULL ? JSI_SQL_RUNS_OF_ALL : JSI_SQL_RUNS_OF_JOB);
    jsi_query_text(&query, store->config.name_space);
    jsi_query_text(&query, job); /* NULL where the statement has no use for it */
    jsi_query_int(&query, limit == 0          ? RUNS_DEFAULT
                          : limit > INT64_MAX ? INT64_MAX
                                              : (int64_t)limit);
    while ((result = jsi_query_row(&query)) == 1) {
        jobsched_run_record record;
        jsi_sqlite_read_record(&query, &record);
        if (visit(&record, visit_data) != 0) {
            result = 0;
            break;
        }
    }
    jsi_query_close(&query);
    return jsi_sqlite_end(lane, call, result);
}
