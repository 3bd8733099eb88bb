/* control.c: the operator's verbs; see sql/control.sql.
 * Locks: the caller owns lane ADMIN. */
#include "store.h"

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

/* As for a claim. */
#define TRIES_MAX 3

/* Verbs come from this connection from now on: see command() in sql/control.sql. */
static int command_from_here(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    lane->nonce = atomic_fetch_add(&store->nonces, 1) + 1;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.node_id);
    jsi_pg_param_int(lane, lane->nonce);
    int result = jsi_pg_query(lane, "SELECT o_now FROM @S@.command($1, $2, $3)", 0);
    lane->commands = result == 0;
    return result;
}

static int ask(struct jsi_pg_lane *lane, const jobsched_command *command)
{
    const jobsched_backend_config *config = &lane->store->config;
    int result = lane->commands ? 0 : command_from_here(lane);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_int(lane, lane->nonce);
    jsi_pg_param_int(lane, command->verb);
    jsi_pg_param_text(lane, command->job);
    jsi_pg_param_text(lane, command->request);
    jsi_pg_watch_params(lane);
    result =
        jsi_pg_query(lane, "SELECT * FROM @S@.control($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", 1);
    return result == 0 ? jsi_pg_expect(lane, 1) : result;
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
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        int failed = result = ask(lane, command);
        if (result == 0 || (result = jsi_pg_mend(lane, result)) != 0) {
            break;
        }
        result = failed;
    }
    if (result == 0) {
        call->now_ms = jsi_pg_int(lane, 0, NOW);
        result = refuse(jsi_pg_int(lane, 0, REFUSED), command->job);
    }
    if (result != 0) {
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
    if (out_result != NULL) {
        *out_result = achieved;
    }
    if (achieved.changed) {
        jsi_pg_push(lane);
    }
    return 0;
}
