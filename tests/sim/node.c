/* node.c: one process of the cluster: its clocks, how it begins, stands still, and ends. */
#include "sim/world.h"

#include "base/wake.h"
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- clocks ------------------------------------------------------------------------ */

int64_t sim_mono_ms(const struct sim_node *node)
{
    int64_t lived_ms = node->world->now_ms - SIM_BEGIN_MS;
    return node->mono_base_ms + lived_ms + lived_ms * node->ppm / 1000000;
}

int64_t sim_true_of_mono(const struct sim_node *node, int64_t mono_ms)
{
    int64_t shown_ms = mono_ms - node->mono_base_ms;
    int64_t lived_ms = shown_ms - shown_ms * node->ppm / (1000000 + node->ppm) - 2;
    while (lived_ms + lived_ms * node->ppm / 1000000 < shown_ms) {
        lived_ms++;
    }
    return SIM_BEGIN_MS + lived_ms;
}

static int64_t clock_wall(void *ctx)
{
    const struct sim_node *node = ctx;
    int64_t lived_ms = node->world->now_ms - SIM_BEGIN_MS;
    return node->world->now_ms + node->wall_offset_ms + lived_ms * node->ppm / 1000000;
}

static int64_t clock_mono(void *ctx)
{
    return sim_mono_ms(ctx);
}

bool sim_node_is_frozen(const struct sim_node *node)
{
    return node->thaw_ms > node->world->now_ms;
}

/* ---- a process begins ---------------------------------------------------------------- */

void sim_node_init(struct sim_world *world, int index)
{
    struct sim_node *node = &world->nodes[index];
    struct sim_random random = sim_random_of(world->config.seed, 1, (uint64_t)index);
    node->world = world;
    node->index = index;
    node->state = SIM_DOWN;
    if ((world->config.troubles & (1u << SIM_NODE_CLOCK)) != 0) {
        node->wall_offset_ms = sim_scaled(&random, 0, 7200000) * (sim_chance(&random, 50) ? 1 : -1);
        node->ppm = sim_between(&random, -50, 50);
    }
    node->mono_base_ms = sim_between(&random, 1000, 1000000000);
    node->next_ms = node->beat_ms = node->look_ms = JOBSCHED_NONE;
    (void)snprintf(node->name, sizeof node->name, "n%d", index);
    for (int i = 0; i < SIM_LANES; i++) {
        fiber_init(&node->threads[i].fiber);
    }
}

static void observe(const jobsched_event *event, void *user_data)
{
    struct sim_node *node = user_data;
    sim_note(node->world, "event", node->number, (uint64_t)event->kind, event->token);
    check_event(node->world, node->number, event);
}

static void add_jobs(struct sim_node *node)
{
    struct sim_world *world = node->world;
    for (int job = 0; job < world->config.jobs; job++) {
        if (world->config.without != NULL && world->config.without[job] == '1') {
            continue;
        }
        struct sim_registration *registration = &node->registrations[job];
        registration->node = node;
        registration->job = job;
        registration->revision = sim_revision(world, job, node->release);
        const struct sim_def *def = sim_def_of(world, job, registration->revision);
        char key[40];
        const char *value;
        if (sim_override_of(world, job, registration->revision, key, &value)) {
            def = &world->jobs[job].defs[0];
            if (jobsched_override(node->s, key, value) != 0) {
                sim_violation(world, "override", "%s", jobsched_last_error()->message);
            }
        }
        jobsched_job_spec spec;
        JOBSCHED_INIT(&spec);
        spec.name = world->jobs[job].name;
        spec.schedule = def->text;
        spec.run = sim_run_callback;
        spec.on_stop = sim_run_stop;
        spec.user_data = registration;
        spec.version = sim_version_of(world, job, registration->revision);
        spec.misfire = def->misfire;
        spec.overlap = def->overlap;
        spec.recover = def->recover;
        spec.misfire_limit = def->misfire_limit;
        spec.misfire_grace_ms = def->grace_ms;
        spec.recover_limit = def->recover_limit;
        spec.attempts = def->attempts;
        spec.timeout_ms = def->timeout_ms;
        spec.jitter_ms = def->jitter_ms;
        spec.lease_ms = def->lease_ms;
        if (jobsched_add(node->s, &spec, NULL) != 0) {
            sim_violation(world, "add", "%s", jobsched_last_error()->message);
        }
    }
}

void sim_node_open(struct sim_node *node)
{
    struct sim_world *world = node->world;
    node->number = ++world->process_number;
    node->release = node->wanted_release;
    if (node->number >= world->release_capacity) {
        world->release_capacity = (size_t)node->number * 2 + 16;
        world->releases =
            realloc(world->releases, world->release_capacity * sizeof *world->releases);
        if (world->releases == NULL) {
            abort();
        }
    }
    world->releases[node->number] = node->release;
    sim_trouble_now(world);
    node->asked_to_stop = node->closed = node->crashes = false;
    node->crash_in = node->freeze_in = 0;
    node->work_starved_ms = node->tick_starved_ms = 0;
    node->thaw_ms = 0;
    node->lost_at_ms = JOBSCHED_NONE;
    node->command_at = node->command_count = 0;
    memset(node->stands, 0, sizeof node->stands);
    memset(node->unknown, 0, sizeof node->unknown);
    arena_init(&node->arena);
    node->allocator = arena_allocator(&node->arena);
    jobsched_clock clock;
    JOBSCHED_INIT(&clock);
    clock.ctx = node;
    clock.wall_ms = clock_wall;
    clock.mono_ms = clock_mono;
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = "sim:";
    options.backends = sim_drivers();
    options.name_space = "sim";
    options.node_name = node->name;
    options.lease_ms = world->lease_ms;
    options.request_timeout_ms = SIM_REQUEST_TIMEOUT_MS;
    options.clock = &clock;
    options.allocator = &node->allocator;
    options.leader = world->led;
    options.observer = observe;
    options.observer_data = node;
    if (jobsched_open(&options, &node->s) != 0) {
        sim_violation(world, "open", "%s", jobsched_last_error()->message);
        return;
    }
    /* What is random in the engine follows from the seed here. */
    (void)snprintf(node->s->node_id, sizeof node->s->node_id, "%032llx",
                   (unsigned long long)node->number);
    for (int i = 0; i < SIM_LANES; i++) {
        struct sim_thread *thread = &node->threads[i];
        thread->busy = thread->broken = false;
        thread->more = true;
        thread->wait = SIM_FREE;
        thread->again_ms = JOBSCHED_NONE;
        thread->starved_ms = 0;
    }
    add_jobs(node);
    node->s->state = JSI_STARTED; /* as jobsched_start(), but for the threads */
    node->s->keep_now = true;
    node->state = SIM_UP;
    node->contact_ms = world->now_ms;
    sim_note(world, "open", (uint64_t)node->index, node->number, (uint64_t)node->release);
    sim_node_settle(node);
}

/* ---- a process ends -------------------------------------------------------------------- */

/* What the operating system takes back. */
static void drop_process(struct sim_node *node)
{
    if (!node->closed || node->arena.live > 0) {
        jsi_wake_close(node->s->keep_fd);
    }
    arena_drop(&node->arena);
}

void sim_node_over(struct sim_node *node)
{
    struct sim_world *world = node->world;
    sim_execs_drop(node);
    check_process_over(world, node->number);
    for (int i = 0; i < SIM_LANES; i++) {
        fiber_abandon(&node->threads[i].fiber);
        node->threads[i].busy = false;
    }
    drop_process(node);
    node->s = NULL;
    node->state = SIM_DOWN;
    node->crashes = false;
    node->thaw_ms = 0;
    node->next_ms = node->beat_ms = node->look_ms = JOBSCHED_NONE;
    sim_push(world, (struct sim_event){.at_ms = world->now_ms + node->down_ms,
                                       .kind = SIM_EVENT_OPEN,
                                       .a = node->index});
}

void sim_node_crash(struct sim_node *node, int64_t down_ms)
{
    struct sim_world *world = node->world;
    if (node->state == SIM_DOWN) {
        return;
    }
    sim_trouble_now(world);
    sim_note(world, "crash", node->number, 0, 0);
    for (int i = 0; i < SIM_LANES; i++) {
        /* What was on its way may still arrive. */
        const struct sim_thread *thread = &node->threads[i];
        if (thread->busy && thread->wait == SIM_REQUEST && sim_chance(&world->random, 50)) {
            int64_t span_ms = world->model.grace_ms >= 0 ? 0 : sim_scaled(&world->random, 0, 2000);
            sim_detach(node, &thread->request, world->now_ms + span_ms);
        }
    }
    if (world->model.grace_ms >= 0) {
        model_session_end(&world->model, node->number);
    }
    if (node->state == SIM_UP) {
        node->wanted_release = node->release;
    }
    node->down_ms = down_ms;
    node->state = SIM_DOWN;
    sim_node_over(node);
}

void sim_node_restart(struct sim_node *node, int64_t down_ms, int release)
{
    if (node->state != SIM_UP) {
        node->wanted_release = release;
        return;
    }
    node->state = SIM_DRAINING;
    node->wanted_release = release;
    node->down_ms = down_ms;
    node->drain_until_ms =
        node->world->now_ms + sim_scaled(&node->world->random, 10, 2 * node->world->lease_ms);
    node->drain_ask_ms = (node->world->now_ms + node->drain_until_ms) / 2;
    (void)jobsched_stop(node->s);
    sim_note(node->world, "stop", node->number, (uint64_t)release, 0);
    sim_node_settle(node);
}

void sim_node_session_lost(struct sim_node *node)
{
    if (node->state == SIM_DOWN) {
        return;
    }
    struct sim_thread *keep = &node->threads[SIM_KEEP];
    bool vouches = node->world->vouches;
    node->lost_at_ms = sim_mono_ms(node) + node->world->model.grace_ms - SIM_NOTICE_MS;
    node->s->keep_now = true;
    keep->starved_ms = vouches ? keep->starved_ms : 0;
    if (keep->busy) { /* its call is cut short, too */
        keep->broken = true;
        sim_push(node->world, (struct sim_event){.at_ms = node->world->now_ms,
                                                 .kind = SIM_EVENT_RESUME,
                                                 .a = SIM_KEEP,
                                                 .b = keep->ticket,
                                                 .number = node->number});
    }
    sim_node_settle(node);
}

void sim_node_freeze(struct sim_node *node, int64_t span_ms)
{
    /* Who stands still while its session ends by force, and has nothing that vouches for it, cannot
     * be told in time: not promised. */
    bool told = node->lost_at_ms == JOBSCHED_NONE || node->world->vouches;
    if (node->state != SIM_DOWN && !sim_node_is_frozen(node) && told) {
        node->thaw_ms = node->world->now_ms + span_ms;
        sim_note(node->world, "freeze", node->number, (uint64_t)span_ms, 0);
        sim_push(node->world, (struct sim_event){.at_ms = node->thaw_ms,
                                                 .kind = SIM_EVENT_LOOK,
                                                 .number = node->number});
    }
}

void sim_node_fini(struct sim_node *node)
{
    if (node->state != SIM_DOWN) {
        sim_execs_drop(node);
        drop_process(node);
    }
    for (int i = 0; i < SIM_LANES; i++) {
        fiber_fini(&node->threads[i].fiber);
    }
}
