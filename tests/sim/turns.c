/* turns.c: the steps of a process, called in the way of threads.c, each thread a fiber. */
#include "sim/world.h"

#include "engine/internal.h"

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
        (node->lost_at_ms == JOBSCHED_NONE || world->vouches) &&
        sim_chance(&world->random, world->percent)) {
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

/* Who does not lead looks at nothing but whether it can. */
static int64_t due_next_ms(const jobsched *s)
{
    if (jsi_leads_locked(s) && !s->leader_fresh) {
        return jsi_due_next(&s->due);
    }
    return s->leader_job->phase == JSI_JOB_ARMED ? s->leader_job->due.instant->at_ms
                                                 : JOBSCHED_NONE;
}

/* When the tick has something to do, by the node's monotonic clock. It would look once a second to
 * see whether its wall clock was stepped; here it is told. */
static int64_t tick_wanted_ms(const jobsched *s)
{
    int64_t at_ms = s->next_run_event_mono_ms;
    int64_t due_ms = s->state == JSI_STARTED ? due_next_ms(s) : JOBSCHED_NONE;
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

/* Whether the elector would do nothing but look again whether what it stands down for has
 * changed. */
static bool only_looks(const struct sim_node *node)
{
    const struct sim_thread *thread = &node->threads[SIM_ELECT];
    const jobsched *s = node->s;
    return !thread->more && !s->elect_again && jsi_list_is_empty(&s->looking) &&
           !jsi_list_is_empty(&s->stood) && thread->again_ms == s->stood_look_mono_ms;
}

static bool elect_wanted(const struct sim_node *node)
{
    const struct sim_thread *thread = &node->threads[SIM_ELECT];
    int64_t mono_ms = sim_mono_ms(node);
    bool rests = mono_ms < node->s->retry_at_mono_ms;
    bool in_time = mono_ms >= thread->again_ms && !(only_looks(node) && sim_node_is_quiet(node));
    return !thread->busy && (thread->more || (node->s->elect_again && !rests) || in_time);
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
    /* While the elector looks, it has the lane, and this thread would wait for it. */
    return node->command_count > 0 && !node->threads[SIM_ADMIN].busy && !node->s->admin_busy &&
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
    node->beat_ms = node->look_ms = JOBSCHED_NONE;
    if (node->state == SIM_CLOSING) {
        node->next_ms = JOBSCHED_NONE; /* its requests come back by themselves */
        return;
    }
    int64_t tick_ms = s->tick_again ? 0 : tick_wanted_ms(s);
    int64_t next_ms = tick_ms == JOBSCHED_NONE ? JOBSCHED_NONE : sim_true_of_mono(node, tick_ms);
    next_ms = next_ms < node->tick_starved_ms ? node->tick_starved_ms : next_ms;
    if (!elect->busy && !elect_wanted(node) && only_looks(node)) {
        int64_t look_ms = sim_true_of_mono(node, elect->again_ms);
        look_ms = look_ms < elect->starved_ms ? elect->starved_ms : look_ms;
        node->look_ms = look_ms <= now_ms ? now_ms + 1 : look_ms;
    } else if (!elect->busy && (elect_wanted(node) || elect->again_ms != JOBSCHED_NONE)) {
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
    if (node->command_count > 0 && !node->threads[SIM_ADMIN].busy && !s->admin_busy) {
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
        node->next_ms = node->beat_ms = node->look_ms = JOBSCHED_NONE;
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
        sim_node_over(node);
    } else {
        set_next(node);
    }
}

void sim_node_resume(struct sim_node *node, enum sim_lane lane)
{
    struct sim_thread *thread = &node->threads[lane];
    if (lane == SIM_KEEP && thread->wait == SIM_REPLY && !node->crashes &&
        !sim_node_is_frozen(node)) {
        sim_execs_look(node); /* just before the keeper hears its answer */
    }
    node->running = lane;
    thread->ticket++;
    thread->busy = fiber_resume(&thread->fiber);
    if (node->crashes || !sim_node_is_frozen(node)) {
        sim_node_settle(node);
    }
}
