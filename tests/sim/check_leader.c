/* check_leader.c: what the checker says of leader mode: who leads is told before another one leads
 * (G5), nobody else claims, and a cluster is not long without (G10). */
#include "sim/world.h"

#include <inttypes.h>
#include <string.h>

/* How often those that stand by ask. */
enum { AGAIN_MS = 500 };

static bool leads(const struct sim_node *node)
{
    return node->state != SIM_DOWN && !node->closed && jobsched_is_leader(node->s) != 0;
}

/* While the server's clock is set back nothing is due, to lead neither. */
static bool is_long(const struct sim_world *world, int64_t since_ms)
{
    bool behind = sim_server_ms(world) < world->check.server_high_ms;
    int64_t behind_ms = behind ? world->now_ms : world->check.behind_ms;
    return check_is_overdue(world, since_ms > behind_ms ? since_ms : behind_ms,
                            world->lease_ms + AGAIN_MS + 2 * SIM_REQUEST_TIMEOUT_MS + 1000);
}

void check_led(struct sim_world *world, uint64_t number, uint64_t token)
{
    struct check_leader *leader = &world->check.leader;
    sim_note(world, "leads", number, token, 0);
    for (int i = 0; i < world->config.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (node->number != number && leads(node)) {
            sim_violation(world, "G5", "process %" PRIu64 " comes to lead while %" PRIu64 " leads",
                          number, node->number);
        }
    }
    if (token <= leader->token) {
        sim_violation(world, "G2", "leader's token %" PRIu64 " after %" PRIu64, token,
                      leader->token);
    }
    if (leader->over_ms > 0 && is_long(world, leader->over_ms)) {
        sim_violation(world, "G10", "nobody led for %" PRId64 " ms",
                      world->now_ms - leader->over_ms);
    }
    *leader = (struct check_leader){.number = number, .token = token};
}

void check_led_over(struct sim_world *world, uint64_t number)
{
    struct check_leader *leader = &world->check.leader;
    if (leader->number == number && leader->over_ms == 0) {
        leader->over_ms = world->now_ms;
    }
}

void check_leader_forgot(struct sim_world *world)
{
    /* Nobody leads for the quarantine. */
    world->check.leader = (struct check_leader){.token = world->check.leader.token};
}

/* ---- who claims --------------------------------------------------------------------------- */

static bool is_same(const struct check_unknown *one, const jobsched_claim *claim)
{
    return one->used && strcmp(one->job, claim->job) == 0 && one->kind == claim->kind &&
           one->scheduled_ms == claim->scheduled_ms &&
           strcmp(one->request, claim->request == NULL ? "" : claim->request) == 0;
}

static struct check_unknown *find(struct sim_node *node, const jobsched_claim *claim)
{
    for (int i = 0; i < CHECK_UNKNOWN; i++) {
        if (is_same(&node->unknown[i], claim)) {
            return &node->unknown[i];
        }
    }
    return NULL;
}

void check_claims(struct sim_node *node, const jobsched_claim *claims, size_t count)
{
    if (!node->world->led || jobsched_is_leader(node->s) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        /* What has an unknown outcome is asked again whoever leads now. */
        if (model_index(&node->world->model, claims[i].job) != node->world->config.jobs &&
            find(node, &claims[i]) == NULL) {
            sim_violation(node->world, "leader", "%s: process %" PRIu64 " claims and does not lead",
                          claims[i].job, node->number);
        }
    }
}

static void remember(struct sim_node *node, const jobsched_claim *claim)
{
    struct check_unknown *one = find(node, claim);
    for (int i = 0; i < CHECK_UNKNOWN && one == NULL; i++) {
        one = node->unknown[i].used ? NULL : &node->unknown[i];
    }
    if (one == NULL) {
        one = &node->unknown[0];
    }
    *one = (struct check_unknown){
        .used = true, .kind = claim->kind, .scheduled_ms = claim->scheduled_ms};
    (void)strncpy(one->job, claim->job, sizeof one->job - 1);
    (void)strncpy(one->request, claim->request == NULL ? "" : claim->request,
                  sizeof one->request - 1);
}

void check_claimed(struct sim_node *node, const jobsched_claim *claims, size_t count, int code)
{
    for (size_t i = 0; node->world->led && i < count; i++) {
        struct check_unknown *one = find(node, &claims[i]);
        if (code == JOBSCHED_EUNKNOWN) {
            remember(node, &claims[i]);
        } else if (code == JOBSCHED_OK && one != NULL && claims[i].answer != JOBSCHED_ANSWER_BUSY &&
                   claims[i].answer != JOBSCHED_ANSWER_GRANTED) {
            one->used = false;
        }
    }
}

/* ---- the end ------------------------------------------------------------------------------- */

void check_leader_end(struct sim_world *world)
{
    bool any = false, led = false;
    for (int i = 0; i < world->config.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        any = any || (node->state == SIM_UP && !sim_node_is_frozen(node));
        led = led || leads(node);
    }
    if (world->led && any && !led && is_long(world, 0)) {
        sim_violation(world, "G10", "nobody leads in the end");
    }
}
