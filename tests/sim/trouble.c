/* trouble.c: what an episode does to the world. */
#include "sim/world.h"

#include <stdlib.h>

/* What SIM_EVENT_ACT does (its b). */
enum act {
    ACT_CRASH,
    ACT_RESTART,
    ACT_FREEZE,
    ACT_CONTROL,
    ACT_SESSION,
    ACT_NOTICE,
    ACT_SUSPEND,
    ACT_CANARY
};

static void act_at(struct sim_world *world, int64_t at_ms, enum act act, int episode, int node)
{
    sim_push(world, (struct sim_event){
                        .at_ms = at_ms, .kind = SIM_EVENT_ACT, .a = episode, .b = act, .c = node});
}

static int64_t within(const struct sim_episode *episode, struct sim_random *random)
{
    return episode->at_ms + sim_below(random, episode->until_ms - episode->at_ms);
}

static void begin_for_node(struct sim_world *world, int number, int index,
                           struct sim_random *random)
{
    const struct sim_episode *episode = &world->episodes[number];
    struct sim_node *node = &world->nodes[index];
    if ((episode->kinds & (1u << SIM_CRASH)) != 0) {
        act_at(world, within(episode, random), ACT_CRASH, number, index);
    }
    if ((episode->kinds & (1u << SIM_RESTART)) != 0) {
        act_at(world, within(episode, random), ACT_RESTART, number, index);
    }
    if ((episode->kinds & (1u << SIM_FREEZE)) != 0) {
        act_at(world, within(episode, random), ACT_FREEZE, number, index);
    }
    if ((episode->kinds & (1u << SIM_SESSION)) != 0) {
        act_at(world, within(episode, random), ACT_SESSION, number, index);
    }
    if ((episode->kinds & (1u << SIM_SUSPEND)) != 0) {
        act_at(world, within(episode, random), ACT_SUSPEND, number, index);
    }
    if ((episode->kinds & (1u << SIM_NODE_CLOCK)) != 0) {
        int64_t step_ms = sim_scaled(random, 1, 7200000);
        node->wall_offset_ms += sim_chance(random, 50) ? step_ms : -step_ms;
        world->injected[SIM_NODE_CLOCK]++;
        if (node->state != SIM_DOWN) { /* the tick looks once a second */
            sim_push(world, (struct sim_event){.at_ms = world->now_ms + sim_below(random, 1000),
                                               .kind = SIM_EVENT_LOOK,
                                               .number = node->number});
        }
    }
}

/* A step of the server's clock, mostly small; now and then large. */
static void step_server_clock(struct sim_world *world, struct sim_random *random)
{
    int64_t step_ms = sim_scaled(random, 1, sim_chance(random, 20) ? 3600000 : 30000);
    bool back = sim_chance(random, 50);
    world->server_offset_ms += back ? -step_ms : step_ms;
    world->injected[SIM_SERVER_CLOCK]++;
    if (sim_server_ms(world) > world->check.server_high_ms) {
        world->check.server_high_ms = sim_server_ms(world);
    }
    sim_note(world, "clock", (uint64_t)world->server_offset_ms, 0, 0);
    sim_trouble_now(world);
}

/* Node by node, each down for a moment; sometimes to an older release. */
static void roll_out(struct sim_world *world, int number, struct sim_random *random)
{
    if (sim_chance(random, 25)) { /* one node alone, for a while */
        int node = (int)sim_below(random, world->config.nodes);
        world->injected[SIM_ROLLOUT]++;
        act_at(world, world->now_ms, ACT_CANARY, number, node);
        act_at(world, world->now_ms + sim_between(random, 1, 5) * world->lease_ms, ACT_RESTART,
               number, node);
        return;
    }
    bool back = world->release > 0 && sim_chance(random, 25);
    world->release += back ? -1 : 1;
    world->injected[SIM_ROLLOUT]++;
    int64_t at_ms = world->now_ms;
    for (int i = 0; i < world->config.nodes; i++) {
        act_at(world, at_ms, ACT_RESTART, number, i);
        at_ms += sim_scaled(random, 0, world->lease_ms);
    }
}

/* A control call delays nothing. */
static void disturb(struct sim_world *world, const struct sim_episode *episode)
{
    world->disturbed_ms = world->now_ms;
    if ((episode->kinds & ~(1u << SIM_CONTROL)) != 0) {
        sim_trouble_now(world);
    }
}

void sim_episode_begin(struct sim_world *world, int number)
{
    const struct sim_episode *episode = &world->episodes[number];
    struct sim_random random = sim_random_of(episode->salt, 1, 0);
    sim_note(world, "trouble", (uint64_t)number, episode->kinds, (uint64_t)episode->percent);
    disturb(world, episode);
    world->percent = episode->percent;
    for (int kind = 0; kind < SIM_TROUBLES; kind++) {
        world->active[kind] += (int)((episode->kinds >> kind) & 1);
    }
    for (int i = 0; i < world->config.nodes; i++) {
        if (((episode->nodes >> i) & 1) != 0) {
            begin_for_node(world, number, i, &random);
        }
    }
    if ((episode->kinds & (1u << SIM_SERVER_CLOCK)) != 0) {
        step_server_clock(world, &random);
    }
    if ((episode->kinds & (1u << SIM_PARTITION)) != 0) {
        world->cut |= episode->nodes;
        world->injected[SIM_PARTITION]++;
    }
    if ((episode->kinds & (1u << SIM_OUTAGE)) != 0) {
        world->injected[SIM_OUTAGE]++;
    }
    if ((episode->kinds & (1u << SIM_FAILOVER)) != 0 && world->active[SIM_FAILOVER] == 1) {
        model_copy(&world->model);
        check_copied(world);
    }
    if ((episode->kinds & (1u << SIM_ROLLOUT)) != 0) {
        roll_out(world, number, &random);
    }
    if ((episode->kinds & (1u << SIM_CONTROL)) != 0) {
        for (int64_t calls = sim_between(&random, 1, 8); calls > 0; calls--) {
            act_at(world, within(episode, &random), ACT_CONTROL, number,
                   (int)sim_below(&random, world->config.nodes));
        }
    }
}

void sim_episode_end(struct sim_world *world, int number)
{
    const struct sim_episode *episode = &world->episodes[number];
    disturb(world, episode);
    for (int kind = 0; kind < SIM_TROUBLES; kind++) {
        world->active[kind] -= (int)((episode->kinds >> kind) & 1);
    }
    if ((episode->kinds & (1u << SIM_PARTITION)) != 0) {
        world->cut = 0; /* also what another episode cut: the net is mended as a whole */
    }
    if ((episode->kinds & (1u << SIM_FAILOVER)) != 0 && world->active[SIM_FAILOVER] == 0) {
        world->injected[SIM_FAILOVER]++;
        sim_note(world, "failover", world->model.now.epoch, 0, 0);
        model_failover(&world->model);
    }
}

/* ---- what happens to one node ---------------------------------------------------------- */

static void command(struct sim_world *world, struct sim_node *node, struct sim_random *random)
{
    static const int verbs[10] = {
        JOBSCHED_VERB_PAUSE,  JOBSCHED_VERB_PAUSE,   JOBSCHED_VERB_RESUME,  JOBSCHED_VERB_RESUME,
        JOBSCHED_VERB_RESUME, JOBSCHED_VERB_TRIGGER, JOBSCHED_VERB_TRIGGER, JOBSCHED_VERB_TRIGGER,
        JOBSCHED_VERB_CANCEL, JOBSCHED_VERB_CANCEL};
    int verb = sim_chance(random, 3) ? JOBSCHED_VERB_REMOVE : verbs[sim_below(random, 10)];
    int job = (int)sim_below(random, world->config.jobs);
    char request[24] = "";
    if (verb == JOBSCHED_VERB_TRIGGER) {
        /* Now and then one that was used before. */
        uint64_t id = sim_chance(random, 20) ? world->request_number : ++world->request_number;
        (void)snprintf(request, sizeof request, "t%llu", (unsigned long long)id);
    }
    if (world->config.without == NULL || world->config.without[job] != '1') {
        world->injected[SIM_CONTROL]++;
        sim_node_command(node, verb, job, request);
    }
}

static void crash(struct sim_world *world, struct sim_node *node, struct sim_random *random)
{
    int64_t down_ms = sim_scaled(random, 1, 3 * world->lease_ms);
    if (node->state == SIM_DOWN) {
        return;
    }
    world->injected[SIM_CRASH]++;
    if (sim_chance(random, 30)) {
        sim_node_crash(node, down_ms);
        return;
    }
    node->down_ms = down_ms;
    node->crash_in = (int)sim_between(random, 1, 12); /* amid a request */
}

/* Only where there are sessions with a grace, and only of who can see it: in time, or by a look at
 * what vouches for it. */
static void end_session(struct sim_world *world, struct sim_node *node, int episode,
                        struct sim_random *random)
{
    bool cut = world->active[SIM_OUTAGE] > 0 || ((world->cut >> node->index) & 1) != 0;
    if (world->model.grace_ms <= 0 || node->state != SIM_UP || cut ||
        (sim_node_is_frozen(node) && !world->vouches) || node->lost_at_ms != JOBSCHED_NONE) {
        return;
    }
    world->injected[SIM_SESSION]++;
    sim_note(world, "session", node->number, 0, 0);
    model_session_end(&world->model, node->number);
    act_at(world, world->now_ms + sim_below(random, SIM_NOTICE_MS - 2), ACT_NOTICE, episode,
           node->index);
}

/* Nothing of it runs but its monotonic clock; the server gives its session up some time. */
static void suspend(struct sim_world *world, struct sim_node *node, int episode,
                    struct sim_random *random)
{
    int64_t long_ms = sim_chance(random, 20) ? 7200000 : 6 * world->lease_ms;
    int64_t span_ms = sim_scaled(random, 100, long_ms);
    int64_t step_ms = sim_scaled(random, 1, 7200000);
    if (node->state == SIM_DOWN || sim_node_is_frozen(node)) {
        return;
    }
    world->injected[SIM_SUSPEND]++;
    sim_node_freeze(node, span_ms);
    if (sim_node_is_frozen(node)) {
        node->wall_offset_ms += sim_chance(random, 50) ? step_ms : -step_ms;
        act_at(world, world->now_ms + sim_below(random, span_ms), ACT_SESSION, episode,
               node->index);
    }
}

void sim_act(struct sim_world *world, const struct sim_event *event)
{
    const struct sim_episode *episode = &world->episodes[event->a];
    struct sim_node *node = &world->nodes[event->c];
    struct sim_random random =
        sim_random_of(episode->salt, 2 + event->b, (uint64_t)event->at_ms + (uint64_t)event->c);
    world->disturbed_ms = world->now_ms;
    if (event->b != ACT_CONTROL) {
        sim_trouble_now(world);
    }
    switch ((enum act)event->b) {
    case ACT_CRASH:
        crash(world, node, &random);
        break;
    case ACT_RESTART:
        world->injected[SIM_RESTART]++;
        if (!sim_node_is_frozen(node)) {
            sim_node_restart(node, sim_scaled(&random, 0, 5000), world->release);
        }
        break;
    case ACT_FREEZE:
        world->injected[SIM_FREEZE]++;
        node->freeze_ms = sim_scaled(&random, 10, 3 * world->lease_ms);
        if (sim_chance(&random, 50)) {
            node->freeze_in = (int)sim_between(&random, 1, 12); /* amid a request */
        } else {
            sim_node_freeze(node, node->freeze_ms);
        }
        break;
    case ACT_CONTROL:
        if (!sim_node_is_frozen(node)) {
            command(world, node, &random);
        }
        break;
    case ACT_SESSION:
        end_session(world, node, event->a, &random);
        break;
    case ACT_NOTICE:
        sim_node_session_lost(node);
        break;
    case ACT_CANARY:
        if (!sim_node_is_frozen(node)) {
            sim_node_restart(node, sim_scaled(&random, 0, 5000), world->release + 1);
        }
        break;
    case ACT_SUSPEND:
        suspend(world, node, event->a, &random);
        break;
    }
}
