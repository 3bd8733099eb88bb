/* node.c: one process of the cluster: opened, its steps called in the way of threads.c, frozen,
 * killed, or closed. */
#include "sim/world.h"

#include "base/wake.h"
#include "engine/internal.h"

#include <stdlib.h>

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
    node->next_ms = node->beat_ms = JOBSCHED_NONE;
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

static void be_down(struct sim_node *node)
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
    node->next_ms = node->beat_ms = JOBSCHED_NONE;
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
    be_down(node);
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
    node->lost_at_ms = sim_mono_ms(node) + node->world->model.grace_ms - SIM_NOTICE_MS;
    node->s->keep_now = true;
    keep->starved_ms = 0;
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
    /* Who stands still while its session ends by force cannot be told in time: not promised. */
    if (node->state != SIM_DOWN && !sim_node_is_frozen(node) && node->lost_at_ms == JOBSCHED_NONE) {
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

/* ---- what its threads do ------------------------------------------------------------------ */

static void elect_body(void *arg)
{
    struct sim_node *node = arg;
    struct sim_thread *thread = &node->threads[SIM_ELECT];
    int64_t again_ms;
    node->s->elect_again = false;
    thread->more = jsi_elect(node->s, &again_ms);
    thread->again_ms = again_ms;
}

static void keep_body(void *arg)
{
    struct sim_node *node = arg;
    node->threads[SIM_KEEP].again_ms = jsi_keep(node->s);
}

static void command_body(void *arg)
{
    struct sim_node *node = arg;
    struct sim_world *world = node->world;
    size_t at = node->command_at++ % 16;
    node->command_count--;
    int verb = node->commands[at].verb;
    int job = node->commands[at].job;
    const char *request = node->commands[at].request[0] == '\0' ? NULL : node->commands[at].request;
    const char *name = world->jobs[job].name;
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    check_control_sent(world, verb, job, request);
    int code = verb == JOBSCHED_VERB_PAUSE     ? jobsched_pause(node->s, name, &result)
               : verb == JOBSCHED_VERB_RESUME  ? jobsched_resume(node->s, name, &result)
               : verb == JOBSCHED_VERB_TRIGGER ? jobsched_trigger(node->s, name, request, &result)
               : verb == JOBSCHED_VERB_CANCEL  ? jobsched_cancel(node->s, name, &result)
                                               : jobsched_remove(node->s, name, &result);
    sim_note(world, "control", (uint64_t)verb, (uint64_t)job, (uint64_t)-code);
    check_control_done(world, verb, job, request, code);
}

static void close_body(void *arg)
{
    struct sim_node *node = arg;
    if (jobsched_close(node->s) == 0 && node->arena.live != 0) {
        sim_violation(node->world, "memory", "%zu blocks are left of process %llu",
                      node->arena.live, (unsigned long long)node->number);
    }
    node->closed = true;
}

void sim_node_command(struct sim_node *node, int verb, int job, const char *request)
{
    if (node->state != SIM_UP || node->command_count == 16) {
        return;
    }
    size_t at = (node->command_at + node->command_count++) % 16;
    node->commands[at].verb = verb;
    node->commands[at].job = job;
    (void)snprintf(node->commands[at].request, sizeof node->commands[at].request, "%s", request);
    sim_node_settle(node);
}

/* ---- their turns ----------------------------------------------------------------------- */

/* Whether the thread does not get its turn now. */
static bool starves(struct sim_node *node, int64_t *starved_ms)
{
    struct sim_world *world = node->world;
    if (*starved_ms > world->now_ms) {
        return true;
    }
    if (world->active[SIM_STARVE] > 0 && *starved_ms < world->now_ms &&
        node->lost_at_ms == JOBSCHED_NONE && sim_chance(&world->random, world->percent)) {
        world->injected[SIM_STARVE]++;
        *starved_ms = world->now_ms + sim_scaled(&world->random, 1, world->lease_ms);
        sim_trouble_now(world);
        return true;
    }
    return false;
}

static bool call(struct sim_node *node, enum sim_lane lane, fiber_fn body)
{
    struct sim_thread *thread = &node->threads[lane];
    if (starves(node, &thread->starved_ms)) {
        return false;
    }
    node->running = lane;
    thread->busy = fiber_call(&thread->fiber, body, node);
    return true;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* When the tick has something to do, by the node's monotonic clock. It would look once a second to
 * see whether its wall clock was stepped; here it is told. */
static int64_t tick_wanted_ms(const jobsched *s)
{
    int64_t at_ms = s->next_run_event_mono_ms;
    int64_t due_ms = s->state == JSI_STARTED ? jsi_due_next(&s->due) : JOBSCHED_NONE;
    if (due_ms != JOBSCHED_NONE) {
        at_ms = earlier(at_ms, due_ms - s->sync.low_ms);
    }
    for (const jsi_link *link = s->held.next; link != &s->held; link = link->next) {
        at_ms = earlier(at_ms, JSI_CONTAINER(link, jsi_ask, link)->not_before_mono_ms);
    }
    return at_ms;
}

static bool turn_of_tick(struct sim_node *node)
{
    jobsched *s = node->s;
    if ((!s->tick_again && sim_mono_ms(node) < tick_wanted_ms(s)) ||
        starves(node, &node->tick_starved_ms)) {
        return false;
    }
    s->tick_again = false;
    (void)jsi_tick(s);
    return true;
}

static bool elect_wanted(const struct sim_node *node)
{
    const struct sim_thread *thread = &node->threads[SIM_ELECT];
    int64_t mono_ms = sim_mono_ms(node);
    bool rests = mono_ms < node->s->retry_at_mono_ms;
    return !thread->busy &&
           (thread->more || (node->s->elect_again && !rests) || mono_ms >= thread->again_ms);
}

/* A node with nothing to keep, in a cluster in which nothing is wrong, would only say the same
 * again. It still says it once a day, for its idea of the server's clock. */
bool sim_node_is_quiet(const struct sim_node *node)
{
    const struct sim_world *world = node->world;
    int64_t calm_ms = world->now_ms - world->disturbed_ms;
    /* What is left after ten minutes waits for a resumption or a deploy, which would be trouble. */
    bool settled = (calm_ms > 4 * world->lease_ms && world->model.news == 0) || calm_ms > 600000;
    return settled && jsi_list_is_empty(&node->s->active) && node->s->keep_outage.failures == 0 &&
           !node->s->keep_now && !node->threads[SIM_KEEP].busy &&
           world->now_ms - node->contact_ms < 86400000;
}

static bool turn_of_keep(struct sim_node *node)
{
    jobsched *s = node->s;
    int64_t mono_ms = sim_mono_ms(node);
    if (node->threads[SIM_KEEP].busy || (!s->keep_now && mono_ms < s->beat_at_mono_ms)) {
        return false;
    }
    if (sim_node_is_quiet(node)) {
        int64_t beat_ms = node->world->lease_ms / JSI_BEATS_PER_LEASE;
        s->beat_at_mono_ms += ((mono_ms - s->beat_at_mono_ms) / beat_ms + 1) * beat_ms;
        return false;
    }
    return call(node, SIM_KEEP, keep_body);
}

static bool turn_of_admin(struct sim_node *node)
{
    return node->command_count > 0 && !node->threads[SIM_ADMIN].busy &&
           call(node, SIM_ADMIN, command_body);
}

static bool turn_of_all(struct sim_node *node)
{
    jobsched *s = node->s;
    bool any = turn_of_tick(node);
    bool keep_first = (node->world->order & 1) != 0;
    any = (keep_first && turn_of_keep(node)) || any;
    if (!node->crashes && elect_wanted(node)) {
        any = call(node, SIM_ELECT, elect_body) || any;
    }
    bool works = !jsi_list_is_empty(&s->work) && !starves(node, &node->work_starved_ms);
    while (!node->crashes && works && jsi_work(s)) {
        any = true;
    }
    any = (!node->crashes && turn_of_keep(node)) || any;
    any = (!node->crashes && turn_of_admin(node)) || any;
    while (!node->crashes && jsi_deliver(s)) {
        any = true;
    }
    return any;
}

/* ---- leaving --------------------------------------------------------------------------- */

static bool any_busy(const struct sim_node *node)
{
    return node->threads[SIM_ELECT].busy || node->threads[SIM_KEEP].busy ||
           node->threads[SIM_ADMIN].busy;
}

/* As jobsched_drain() and jobsched_close() do, whose waiting would be real. */
static void leave(struct sim_node *node)
{
    struct sim_world *world = node->world;
    jobsched *s = node->s;
    if (node->state == SIM_DRAINING) {
        bool idle = s->active_count == 0 && s->claiming == 0 && jsi_list_is_empty(&s->ready) &&
                    jsi_list_is_empty(&s->held);
        if (!idle && !node->asked_to_stop && world->now_ms >= node->drain_ask_ms) {
            node->asked_to_stop = true;
            (void)jobsched_drain(s, 0);
            return;
        }
        if (idle || world->now_ms >= node->drain_until_ms) {
            node->state = SIM_CLOSING;
        }
    }
    if (node->state == SIM_CLOSING && !node->closed && !any_busy(node)) {
        node->running = SIM_ADMIN;
        node->threads[SIM_ADMIN].busy =
            fiber_call(&node->threads[SIM_ADMIN].fiber, close_body, node);
    }
}

static void set_next(struct sim_node *node)
{
    const jobsched *s = node->s;
    int64_t now_ms = node->world->now_ms;
    const struct sim_thread *elect = &node->threads[SIM_ELECT];
    const struct sim_thread *keep = &node->threads[SIM_KEEP];
    node->beat_ms = JOBSCHED_NONE;
    if (node->state == SIM_CLOSING) {
        node->next_ms = JOBSCHED_NONE; /* its requests come back by themselves */
        return;
    }
    int64_t tick_ms = s->tick_again ? 0 : tick_wanted_ms(s);
    int64_t next_ms = tick_ms == JOBSCHED_NONE ? JOBSCHED_NONE : sim_true_of_mono(node, tick_ms);
    next_ms = next_ms < node->tick_starved_ms ? node->tick_starved_ms : next_ms;
    if (!elect->busy && (elect_wanted(node) || elect->again_ms != JOBSCHED_NONE)) {
        int64_t elect_ms = elect_wanted(node) ? now_ms : sim_true_of_mono(node, elect->again_ms);
        next_ms = earlier(next_ms, elect_ms < elect->starved_ms ? elect->starved_ms : elect_ms);
    }
    if (!keep->busy) {
        int64_t beat_ms = s->keep_now ? now_ms
                          : s->beat_at_mono_ms == JOBSCHED_NONE
                              ? JOBSCHED_NONE
                              : sim_true_of_mono(node, s->beat_at_mono_ms);
        node->beat_ms = beat_ms < keep->starved_ms ? keep->starved_ms : beat_ms;
    }
    if (node->command_count > 0 && !node->threads[SIM_ADMIN].busy) {
        next_ms = earlier(next_ms, node->threads[SIM_ADMIN].starved_ms);
    }
    if (node->state == SIM_DRAINING) {
        next_ms = earlier(next_ms, node->asked_to_stop ? node->drain_until_ms : node->drain_ask_ms);
    }
    if (!jsi_list_is_empty(&s->work)) {
        next_ms = earlier(next_ms, node->work_starved_ms);
    }
    node->next_ms = next_ms <= now_ms ? now_ms + 1 : next_ms;
    node->beat_ms = node->beat_ms <= now_ms ? now_ms + 1 : node->beat_ms;
}

void sim_node_settle(struct sim_node *node)
{
    if (node->state == SIM_DOWN) {
        return;
    }
    if (sim_node_is_frozen(node)) {
        node->next_ms = node->beat_ms = JOBSCHED_NONE;
        return;
    }
    for (int pass = 0; !node->crashes; pass++) {
        if (pass > 100000) {
            sim_violation(node->world, "G11", "the steps of process %llu never come to rest",
                          (unsigned long long)node->number);
            break;
        }
        bool more = node->state != SIM_CLOSING && turn_of_all(node);
        if (!node->crashes && node->state != SIM_UP) {
            leave(node);
        }
        if (!more) {
            break;
        }
    }
    if (node->crashes) {
        sim_node_crash(node, node->down_ms);
    } else if (node->closed) {
        be_down(node);
    } else {
        set_next(node);
    }
}

void sim_node_resume(struct sim_node *node, enum sim_lane lane)
{
    struct sim_thread *thread = &node->threads[lane];
    node->running = lane;
    thread->ticket++;
    thread->busy = fiber_resume(&thread->fiber);
    if (node->crashes || !sim_node_is_frozen(node)) {
        sim_node_settle(node);
    }
}
