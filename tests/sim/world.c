/* world.c: true time, the queue of events, and the loop that goes from one instant to the next at
 * which anything happens. */
#include "sim/world.h"

#include <jobsched/backend.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int64_t sim_true_ms(const struct sim_world *world)
{
    return world->now_ms;
}

int64_t sim_server_ms(const struct sim_world *world)
{
    return world->now_ms + world->server_offset_ms;
}

void sim_trouble_now(struct sim_world *world)
{
    world->trouble_ms = world->disturbed_ms = world->now_ms;
}

const char *sim_job_name(const struct sim_world *world, int job)
{
    return world->jobs[job].name;
}

struct sim_node *sim_node_of_process(struct sim_world *world, uint64_t number)
{
    for (int i = 0; i < world->config.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        if (node->number == number && node->state != SIM_DOWN) {
            return node;
        }
    }
    return NULL;
}

int sim_release_of(const struct sim_world *world, uint64_t number)
{
    return world->releases[number];
}

bool sim_process_is_over(const struct sim_world *world, uint64_t number)
{
    return sim_node_of_process((struct sim_world *)(uintptr_t)world, number) == NULL;
}

/* ---- what happened --------------------------------------------------------------------- */

void sim_note(struct sim_world *world, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t hash = world->hash ^ (uint64_t)world->now_ms;
    for (const char *at = what; *at != '\0'; at++) {
        hash = (hash ^ (uint64_t)(unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    world->hash = sim_mix(sim_mix(sim_mix(hash + a) + b) + c);
    if (world->config.trace != NULL) {
        (void)fprintf(world->config.trace,
                      "%12" PRId64 " %-10s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                      world->now_ms - SIM_BEGIN_MS, what, a, b, c);
    }
}

void sim_violation(struct sim_world *world, const char *guarantee, const char *format, ...)
{
    if (world->violations++ > 0) {
        return;
    }
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(world->violation, sizeof world->violation, "%s at %" PRId64 " ms: %s", guarantee,
                   world->now_ms - SIM_BEGIN_MS, text);
}

/* ---- the queue --------------------------------------------------------------------------- */

static bool is_before(const struct sim_event *one, const struct sim_event *other)
{
    return one->at_ms != other->at_ms ? one->at_ms < other->at_ms : one->order < other->order;
}

void sim_push(struct sim_world *world, struct sim_event event)
{
    if (world->heap_count == world->heap_capacity) {
        world->heap_capacity = world->heap_capacity == 0 ? 256 : world->heap_capacity * 2;
        world->heap = realloc(world->heap, world->heap_capacity * sizeof *world->heap);
        if (world->heap == NULL) {
            abort();
        }
    }
    event.order = world->order++;
    event.at_ms = event.at_ms < world->now_ms ? world->now_ms : event.at_ms;
    size_t at = world->heap_count++;
    while (at > 0 && is_before(&event, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = event;
}

static struct sim_event pop(struct sim_world *world)
{
    struct sim_event first = world->heap[0];
    struct sim_event last = world->heap[--world->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count &&
            is_before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (!is_before(&world->heap[child], &last)) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return first;
}

/* ---- events ------------------------------------------------------------------------------ */

/* A thread whose answer has come gets its turn late. Not where the end of a session must be heard
 * in time. */
static bool is_put_off(struct sim_world *world, struct sim_event *event)
{
    bool must_hear = world->model.grace_ms > 0 && !world->vouches;
    if (world->active[SIM_STARVE] == 0 || must_hear || event->c != 0 ||
        !sim_chance(&world->random, world->percent / 4)) {
        return false;
    }
    world->injected[SIM_STARVE]++;
    sim_trouble_now(world);
    event->c = 1; /* once is enough */
    event->at_ms = world->now_ms + sim_scaled(&world->random, 1, world->lease_ms);
    sim_push(world, *event);
    return true;
}

static void take_of_process(struct sim_world *world, struct sim_event *event)
{
    struct sim_node *node = sim_node_of_process(world, event->number);
    if (node == NULL) {
        return; /* it is no more */
    }
    if (event->kind == SIM_EVENT_RESUME && node->threads[event->a].ticket != event->b) {
        return;
    }
    bool server_side =
        event->kind == SIM_EVENT_RESUME && node->threads[event->a].wait == SIM_REQUEST;
    if (sim_node_is_frozen(node) && !server_side) {
        event->at_ms = node->thaw_ms;
        sim_push(world, *event);
        return;
    }
    if (event->kind == SIM_EVENT_RESUME && !server_side && is_put_off(world, event)) {
        return;
    }
    if (node->thaw_ms == world->now_ms) {
        sim_trouble_now(world); /* which it was for as long as it stood still */
        if (event->kind == SIM_EVENT_LOOK && event->c == 0 && sim_chance(&world->random, 50)) {
            event->c = 1; /* any of its threads may get its turn first */
            sim_push(world, *event);
            return;
        }
    }
    if (event->kind == SIM_EVENT_RESUME) {
        sim_node_resume(node, (enum sim_lane)event->a);
    } else {
        if (event->kind == SIM_EVENT_EXEC) {
            sim_exec_due(node, event->a, event->b);
        }
        sim_node_settle(node);
    }
}

static void take(struct sim_world *world, struct sim_event event)
{
    switch (event.kind) {
    case SIM_EVENT_RESUME:
    case SIM_EVENT_EXEC:
    case SIM_EVENT_LOOK:
        take_of_process(world, &event);
        break;
    case SIM_EVENT_MESSAGE:
        sim_message_arrive(world, event.data, true);
        break;
    case SIM_EVENT_OPEN:
        if (world->nodes[event.a].state == SIM_DOWN) {
            sim_node_open(&world->nodes[event.a]);
        }
        break;
    case SIM_EVENT_BEGIN:
        sim_episode_begin(world, event.a);
        break;
    case SIM_EVENT_END:
        sim_episode_end(world, event.a);
        break;
    case SIM_EVENT_ACT:
        sim_act(world, &event);
        break;
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

static int64_t next_of(const struct sim_node *node)
{
    if (node->state == SIM_DOWN || sim_node_is_frozen(node)) {
        return JOBSCHED_NONE; /* an event opens or thaws it */
    }
    int64_t beat_ms = node->beat_ms;
    if (beat_ms != JOBSCHED_NONE && sim_node_is_quiet(node)) {
        beat_ms = node->contact_ms + 86400000;
        beat_ms = beat_ms < node->beat_ms ? node->beat_ms : beat_ms;
    }
    int64_t look_ms = node->look_ms;
    if (look_ms != JOBSCHED_NONE && sim_node_is_quiet(node)) {
        look_ms = JOBSCHED_NONE;
    }
    beat_ms = look_ms < beat_ms ? look_ms : beat_ms;
    return beat_ms < node->next_ms ? beat_ms : node->next_ms;
}

static void look_at_nodes(struct sim_world *world)
{
    int count = world->config.nodes;
    int first = (int)(sim_mix((uint64_t)world->now_ms) % (uint64_t)count);
    for (int i = 0; i < count; i++) {
        struct sim_node *node = &world->nodes[(first + i) % count];
        if (next_of(node) <= world->now_ms) {
            sim_node_settle(node);
        }
    }
}

/* From the horizon on nothing new goes wrong. */
static void be_quiet(struct sim_world *world)
{
    for (int i = 0; i < world->config.nodes; i++) {
        world->nodes[i].crash_in = world->nodes[i].freeze_in = 0;
    }
}

void sim_world_run(struct sim_world *world)
{
    while (world->violations == 0) {
        int64_t next_ms = world->heap_count > 0 ? world->heap[0].at_ms : JOBSCHED_NONE;
        for (int i = 0; i < world->config.nodes; i++) {
            int64_t node_ms = next_of(&world->nodes[i]);
            next_ms = node_ms < next_ms ? node_ms : next_ms;
        }
        if (next_ms > world->end_ms) {
            break;
        }
        world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
        if (world->now_ms >= SIM_BEGIN_MS + world->config.horizon_ms) {
            be_quiet(world);
        }
        int64_t server_ms = sim_server_ms(world);
        if (server_ms > world->check.server_high_ms) {
            world->check.server_high_ms = server_ms;
        } else if (server_ms < world->check.server_high_ms) {
            world->check.behind_ms = world->now_ms;
        }
        while (world->violations == 0 && world->heap_count > 0 &&
               world->heap[0].at_ms <= world->now_ms) {
            take(world, pop(world));
        }
        look_at_nodes(world);
    }
    if (world->violations == 0) {
        world->now_ms = world->end_ms;
        check_end(world);
    }
}

void sim_world_init(struct sim_world *world, const struct sim_config *config)
{
    memset(world, 0, sizeof *world);
    world->config = *config;
    world->now_ms = SIM_BEGIN_MS;
    world->trouble_ms = SIM_BEGIN_MS;
    world->random = sim_random_of(config->seed, 2, 0);
    world->model.world = world;
    sim_plan(world);
    world->end_ms = SIM_BEGIN_MS + world->config.horizon_ms + world->config.quiet_ms;
    for (int i = 0; i < world->config.nodes; i++) {
        sim_node_init(world, i);
        sim_push(world,
                 (struct sim_event){.at_ms = SIM_BEGIN_MS + i * 7, .kind = SIM_EVENT_OPEN, .a = i});
    }
    for (int i = 0; i < world->episode_count; i++) {
        if (config->dropped == NULL || config->dropped[i] != '1') {
            sim_push(world, (struct sim_event){.at_ms = world->episodes[i].at_ms,
                                               .kind = SIM_EVENT_BEGIN,
                                               .a = i});
            sim_push(world, (struct sim_event){.at_ms = world->episodes[i].until_ms,
                                               .kind = SIM_EVENT_END,
                                               .a = i});
        }
    }
}

void sim_world_fini(struct sim_world *world)
{
    for (int i = 0; i < world->config.nodes; i++) {
        sim_node_fini(&world->nodes[i]);
    }
    for (size_t i = 0; i < world->heap_count; i++) {
        if (world->heap[i].kind == SIM_EVENT_MESSAGE) {
            sim_message_arrive(world, world->heap[i].data, false);
        }
    }
    free(world->heap);
    free(world->releases);
    while (world->handles != NULL) {
        struct model_handle *handle = world->handles;
        world->handles = handle->next;
        free(handle);
    }
    free(world->model.copy);
}
