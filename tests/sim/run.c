/* run.c: what the callbacks of the cluster do: they go on for a while and look whether they should
 * stop, or do not look. */
#include "sim/world.h"

#include <stdlib.h>

static struct sim_exec *find(struct sim_node *node, int job, uint64_t token)
{
    struct sim_exec *exec = node->execs;
    while (exec != NULL && (exec->job != job || exec->token != token)) {
        exec = exec->next;
    }
    return exec;
}

static void expect(struct sim_node *node, struct sim_exec *exec, int64_t span_ms)
{
    exec->until_ms = node->world->now_ms + span_ms;
    sim_push(node->world, (struct sim_event){.at_ms = exec->until_ms,
                                             .kind = SIM_EVENT_EXEC,
                                             .a = exec->job,
                                             .b = exec->token,
                                             .number = node->number});
}

/* It looks whether it should stop now and then, at moments of its own. */
static void expect_looks(struct sim_node *node, const struct sim_exec *exec, int64_t span_ms,
                         struct sim_random *random)
{
    for (int64_t looks = sim_below(random, 4); looks > 0; looks--) {
        sim_push(node->world,
                 (struct sim_event){.at_ms = node->world->now_ms + sim_below(random, span_ms),
                                    .kind = SIM_EVENT_EXEC,
                                    .a = exec->job,
                                    .b = exec->token,
                                    .number = node->number});
    }
}

int sim_run_callback(jobsched_run *run, void *user_data)
{
    const struct sim_registration *registration = user_data;
    struct sim_node *node = registration->node;
    struct sim_world *world = node->world;
    int job = registration->job;
    const struct sim_def *def = sim_def_of(world, job, registration->revision);
    uint64_t token = jobsched_run_token(run);
    struct sim_random random = sim_random_of(world->config.seed, 100 + (uint64_t)job,
                                             token * 8 + jobsched_run_attempt(run));
    int64_t span_ms = sim_scaled(&random, def->run_low_ms, def->run_high_ms);
    int result = sim_chance(&random, def->fail_percent) ? 1 : 0;
    world->runs++;
    sim_note(world, "run", node->number, (uint64_t)job, token);
    check_began(world, job, node->number, run);
    if (span_ms == 0) {
        check_returned(world, job, node->number, run, result);
        return result;
    }
    struct sim_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL) {
        abort();
    }
    exec->run = run;
    exec->job = job;
    exec->token = token;
    exec->result = result;
    exec->next = node->execs;
    node->execs = exec;
    exec->began_ms = world->now_ms;
    expect_looks(node, exec, span_ms, &random);
    expect(node, exec, span_ms);
    return JOBSCHED_PENDING;
}

/* G5: who was told that its lease is lost stays told. G8: where nothing was wrong for long, the
 * keeper keeps its leases. */
static void is_told(struct sim_node *node, struct sim_exec *exec)
{
    struct sim_world *world = node->world;
    if (!exec->told && node->state == SIM_UP && !sim_node_is_frozen(node)) {
        const struct sim_registration *registration = &node->registrations[exec->job];
        int64_t lease_ms = sim_def_of(world, exec->job, registration->revision)->lease_ms;
        lease_ms = lease_ms > world->lease_ms ? lease_ms : world->lease_ms;
        if (check_is_overdue(world, exec->began_ms, lease_ms + 2 * SIM_REQUEST_TIMEOUT_MS)) {
            sim_violation(world, "G8", "%s: token %llu has lost its lease, and nothing is wrong",
                          world->jobs[exec->job].name, (unsigned long long)exec->token);
        }
    }
    exec->told = true;
}

static bool asks(struct sim_node *node, struct sim_exec *exec)
{
    bool lost = jobsched_run_should_stop(exec->run) == JOBSCHED_STOP_LEASE_LOST;
    if (exec->told && !lost) {
        sim_violation(node->world, "G5",
                      "%s: token %llu was told that its lease is lost, and is not",
                      node->world->jobs[exec->job].name, (unsigned long long)exec->token);
    }
    if (lost) {
        is_told(node, exec);
    }
    return lost;
}

void sim_execs_look(struct sim_node *node)
{
    for (struct sim_exec *exec = node->execs; exec != NULL; exec = exec->next) {
        (void)asks(node, exec);
    }
}

void sim_run_stop(jobsched_run *run, int reason, void *user_data)
{
    const struct sim_registration *registration = user_data;
    struct sim_node *node = registration->node;
    const struct sim_def *def = sim_def_of(node->world, registration->job, registration->revision);
    struct sim_exec *exec = find(node, registration->job, jobsched_run_token(run));
    if (exec != NULL && reason == JOBSCHED_STOP_LEASE_LOST) {
        is_told(node, exec);
    }
    if (exec != NULL && !def->stubborn) {
        expect(node, exec, sim_below(&node->world->random, 100));
    }
}

static void unlink_exec(struct sim_node *node, const struct sim_exec *exec)
{
    struct sim_exec **place = &node->execs;
    while (*place != exec) {
        place = &(*place)->next;
    }
    *place = exec->next;
}

void sim_exec_due(struct sim_node *node, int job, uint64_t token)
{
    struct sim_exec *exec = find(node, job, token);
    if (exec == NULL) {
        return;
    }
    bool lost = asks(node, exec);
    if (exec->until_ms > node->world->now_ms) {
        return;
    }
    const struct sim_def *def = sim_def_of(node->world, job, node->registrations[job].revision);
    bool stops = lost || jobsched_run_should_stop(exec->run) != 0;
    int result = stops && !def->stubborn ? JOBSCHED_ECANCELED : exec->result;
    sim_note(node->world, "end", node->number, (uint64_t)job, token);
    check_returned(node->world, job, node->number, exec->run, result);
    unlink_exec(node, exec);
    (void)jobsched_run_finish(exec->run, result);
    free(exec);
}

void sim_execs_drop(struct sim_node *node)
{
    while (node->execs != NULL) {
        struct sim_exec *exec = node->execs;
        node->execs = exec->next;
        free(exec);
    }
}

static struct sim_exec *exec_of(struct sim_world *world, uint64_t number, int job, uint64_t token)
{
    struct sim_node *node = sim_node_of_process(world, number);
    return node == NULL ? NULL : find(node, job, token);
}

bool sim_run_goes_on(struct sim_world *world, uint64_t number, int job, uint64_t token)
{
    return exec_of(world, number, job, token) != NULL;
}

bool sim_run_is_told(struct sim_world *world, uint64_t number, int job, uint64_t token)
{
    struct sim_exec *exec = exec_of(world, number, job, token);
    return exec == NULL || asks(sim_node_of_process(world, number), exec);
}
