/* control.c: the operator's verbs, and the ledger's reader; see sql/control.sql.
 * Locks: the caller owns lane ADMIN. */
#include "store.h"

#include <string.h>

#define RUNS_DEFAULT 100

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

enum { REFUSED, CHANGED, TOKEN, RUNNING, SINCE, RUN_TOKEN, NODE, NOW };
enum { REFUSED_UNKNOWN = 1, REFUSED_REMOVED = 2, REFUSED_PAUSED = 3, REFUSED_FULL = 4 };

static int refuse(int64_t why, const char *job)
{
    switch (why) {
    case REFUSED_UNKNOWN:
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not known here", job);
    case REFUSED_REMOVED:
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is removed", job);
    case REFUSED_PAUSED:
        return jobsched_fail(JOBSCHED_ESTATE, 0, "job '%s' is paused; resume it first", job);
    case REFUSED_FULL:
        return jobsched_fail(JOBSCHED_EREFUSED, 0, "job '%s' has %d triggers waiting already", job,
                             JOBSCHED_WAITING_MAX);
    default:
        return 0;
    }
}

int jsi_pg_control(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = check(command);
    if (result != 0) {
        return result;
    }
    jsi_pg_budget(lane, call->timeout_ms);
    result = jsi_pg_session(lane);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_int(lane, command->verb);
    jsi_pg_param_text(lane, command->job);
    jsi_pg_param_text(lane, command->request);
    jsi_pg_watch_params(lane);
    result = jsi_pg_query(lane, "SELECT * FROM @S@.control($1, $2, $3, $4, $5, $6, $7, $8)", 1);
    if (result == 0) {
        result = jsi_pg_expect(lane, 1);
    }
    if (result == 0) {
        call->now_ms = jsi_pg_int(lane, 0, NOW);
        result = refuse(jsi_pg_int(lane, 0, REFUSED), command->job);
    }
    if (result != 0 || out_result == NULL) {
        return result;
    }
    jobsched_control_result achieved;
    JOBSCHED_INIT(&achieved);
    achieved.changed = jsi_pg_true(lane, 0, CHANGED);
    achieved.token = jsi_pg_bits(lane, 0, TOKEN);
    achieved.running = jsi_pg_true(lane, 0, RUNNING);
    if (achieved.running) {
        achieved.since_at_ms = jsi_pg_int(lane, 0, SINCE);
        achieved.run_token = jsi_pg_bits(lane, 0, RUN_TOKEN);
        jsi_pg_copy(lane, 0, NODE, achieved.node, sizeof achieved.node);
    }
    *out_result = achieved;
    return 0;
}

static const char runs_of_job[] =
    "SELECT f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token,"
    " r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind,"
    " r.outcome, r.code FROM @S@.fence f JOIN @S@.run r ON r.fence = f.id"
    " WHERE f.name_space = $1 AND f.name = $3 ORDER BY r.seq DESC LIMIT $2";

static const char runs_of_all[] =
    "SELECT f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token,"
    " r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind,"
    " r.outcome, r.code FROM @S@.run r JOIN @S@.fence f ON f.id = r.fence"
    " WHERE f.name_space = $1 ORDER BY r.id DESC LIMIT $2";

static void read_record(const struct jsi_pg_lane *lane, jobsched_run_record *out_record)
{
    *out_record = (jobsched_run_record){
        .job = jsi_pg_get(lane, 0, 0),
        .node = jsi_pg_get(lane, 0, 1),
        .note = jsi_pg_get(lane, 0, 2),
        .request = jsi_pg_get(lane, 0, 3),
        .scheduled_at_ms = jsi_pg_int(lane, 0, 4),
        .last_at_ms = jsi_pg_int(lane, 0, 5),
        .count = jsi_pg_bits(lane, 0, 6),
        .token = jsi_pg_bits(lane, 0, 7),
        .started_at_ms = jsi_pg_ms(lane, 0, 8),
        .finished_at_ms = jsi_pg_ms(lane, 0, 9),
        .progress_done = jsi_pg_bits(lane, 0, 10),
        .progress_total = jsi_pg_bits(lane, 0, 11),
        .attempt = (uint32_t)jsi_pg_int(lane, 0, 12),
        .kind = (int32_t)jsi_pg_int(lane, 0, 13),
        .outcome = (int32_t)jsi_pg_int(lane, 0, 14),
        .code = (int32_t)jsi_pg_int(lane, 0, 15),
    };
}

/* Row by row: a ledger of millions of rows is not gathered in memory. */
static int visit_rows(struct jsi_pg_lane *lane, const char *job, jobsched_run_visit_fn visit,
                      void *visit_data)
{
    int result = jsi_pg_stream(lane, job == NULL ? runs_of_all : runs_of_job);
    if (result != 0) {
        return result;
    }
    while ((result = jsi_pg_stream_next(lane)) == 1) {
        jobsched_run_record record;
        read_record(lane, &record);
        if (visit(&record, visit_data) != 0) {
            jsi_pg_disconnect(lane); /* quicker than reading what nobody wants */
            return 0;
        }
    }
    return result;
}

int jsi_pg_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result == 0) {
        result = jsi_pg_clock(lane, call);
    }
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_int(lane, limit == 0          ? RUNS_DEFAULT
                           : limit > INT64_MAX ? INT64_MAX
                                               : (int64_t)limit);
    if (job != NULL) {
        jsi_pg_param_text(lane, job);
    }
    return visit_rows(lane, job, visit, visit_data);
}
