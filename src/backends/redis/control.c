/* control.c: the operator's verbs; see lua/control.lua. A verb is one script, in the same place as
 * the claim, so that once PAUSE has answered no later claim is granted (G6).
 * Locks: the caller owns the lane. */
#include "store.h"

enum { REFUSAL = 2, CHANGED, TOKEN, RUNNING, SINCE, RUN_TOKEN, NODE, DENIED };
enum { NOT_KNOWN = 1, REMOVED = 2, PAUSED = 3, TOO_MANY = 4 };

struct command {
    const jobsched_command *command;
    jobsched_control_result achieved;
};

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    (void)first;
    (void)count;
    const struct command *command = job->data;
    jsi_redis_add_int(lane, command->command->verb);
    jsi_redis_add(lane, command->command->job);
    jsi_redis_add(lane, command->command->request);
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    (void)first;
    (void)count;
    struct command *command = job->data;
    const char *name = command->command->job;
    switch (jsi_redis_int(reply, REFUSAL)) {
    case NOT_KNOWN:
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not known here", name);
    case REMOVED:
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is removed", name);
    case PAUSED:
        return jobsched_fail(JOBSCHED_ESTATE, 0, "job '%s' is paused; resume it first", name);
    case TOO_MANY:
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "job '%s' has %d triggers waiting already, which is the most", name,
                             JOBSCHED_WAITING_MAX);
    default:
        break;
    }
    jobsched_control_result *achieved = &command->achieved;
    achieved->changed = jsi_redis_int(reply, CHANGED) != 0;
    achieved->token = jsi_redis_unsigned(reply, TOKEN);
    achieved->running = jsi_redis_int(reply, RUNNING) != 0;
    if (achieved->running) {
        achieved->since_at_ms = jsi_redis_int(reply, SINCE);
        achieved->run_token = jsi_redis_unsigned(reply, RUN_TOKEN);
        jsi_redis_copy(reply, NODE, achieved->node, sizeof achieved->node);
    }
    jsi_redis_know_commanded(lane->store, command->command, jsi_redis_int(reply, 1));
    if (jsi_redis_int(reply, DENIED) != 0) {
        jsi_redis_push_denied(lane->store, "publish");
    }
    return 0;
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

int jsi_redis_control(void *backend, jobsched_call *call, const jobsched_command *command,
                      jobsched_control_result *out_result)
{
    struct jsi_redis_store *store = backend;
    int result = check(command);
    if (result != 0) {
        return result;
    }
    struct command whole = {.command = command};
    JOBSCHED_INIT(&whole.achieved);
    const struct jsi_redis_job job = {
        .script = JSI_SCRIPT_control, .writes = 1, .add = add, .take = take, .data = &whole};
    result = jsi_redis_run(&store->lanes[JOBSCHED_LANE_ADMIN], call, &job);
    if (result == 0 && out_result != NULL) {
        *out_result = whole.achieved;
    }
    return result;
}
