/* check_definition.c: what the checker says of definitions: which is in force (G14), that none is
 * replaced before what it has due is accounted for, that none comes back by itself, and that who
 * stood down comes back once its own is in force again. */
#include "sim/world.h"

#include <inttypes.h>

enum { LOOK_MIN_MS = 10000 }; /* who stands down looks once a lease, at most this often */
enum { MESSAGE_AGE_MAX_MS = 10000 };

const struct sim_def *check_def_in_force(const struct sim_world *world, int job)
{
    return sim_def_of(world, job, world->check.jobs[job].said.revision);
}

/* Whether a registration of that revision is what is in force, to the letter. */
static bool is_in_force(const struct sim_world *world, int job, int revision)
{
    const struct check_said *said = &world->check.jobs[job].said;
    return said->known && sim_version_of(world, job, revision) == said->version &&
           sim_def_of(world, job, revision) == check_def_in_force(world, job);
}

/* Whether it would replace what is in force. */
static bool is_later(const struct sim_world *world, int job, int revision)
{
    const struct check_said *said = &world->check.jobs[job].said;
    uint64_t version = sim_version_of(world, job, revision);
    return said->known && (version > said->version ||
                           (version == said->version &&
                            sim_def_of(world, job, revision) != check_def_in_force(world, job)));
}

int check_revision_of(const struct sim_world *world, int job, uint64_t number)
{
    return sim_revision(world, job, sim_release_of(world, number));
}

/* ---- announcements ---------------------------------------------------------------------- */

/* G14: from one definition to the next nothing is lost: all that the older one has up to now is
 * accounted for. A removed job has nothing due. */
static void check_cut(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    const struct walk *walk = &check_def_in_force(world, job)->walk;
    int64_t due_ms = walk_next(walk, one->mark_ms);
    if (due_ms <= sim_server_ms(world) && !world->model.now.fences[job].removed) {
        sim_violation(world, "G14", "%s: %" PRId64 " is passed over: revision %d is replaced",
                      world->jobs[job].name, due_ms, one->said.revision);
    }
}

/* G14: a node whose own definition is put in force by another one goes on within a lease. */
static void check_back(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    int64_t look_ms = world->lease_ms > LOOK_MIN_MS ? world->lease_ms : LOOK_MIN_MS;
    for (int i = 0; i < world->config.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        const struct check_stand *stand = &node->stands[job];
        int64_t since_ms = stand->stood_ms > one->changed_ms ? stand->stood_ms : one->changed_ms;
        if (node->state == SIM_UP && !sim_node_is_frozen(node) && stand->stood_ms > 0 &&
            is_in_force(world, job, sim_revision(world, job, node->release)) &&
            !world->model.now.fences[job].removed &&
            check_is_overdue(world, since_ms, check_notice_ms(world, look_ms))) {
            sim_violation(world, "G14",
                          "%s: process %" PRIu64 " stands down, and its definition "
                          "is in force since %" PRId64,
                          world->jobs[job].name, node->number, one->changed_ms - SIM_BEGIN_MS);
        }
    }
}

/* G6: a removal is undone by who registers a larger version after it. Who had to wait when it asked had
 * registered before, since a removed job is not waited for; but a question may be long on its way. */
static void check_revived(struct sim_world *world, int job, uint64_t number, int32_t replace,
                          const struct check_stand *stand)
{
    bool asked = stand != NULL && stand->asked_ms != 0;
    bool before = asked && (replace == JOBSCHED_REPLACE_IF ||
                            stand->asked_ms + MESSAGE_AGE_MAX_MS < world->now_ms);
    if (world->model.now.fences[job].removed && before) {
        sim_violation(world, "G6", "%s: process %" PRIu64 " undoes a removal of after it asked",
                      world->jobs[job].name, number);
    }
}

static void put_in_force(struct sim_world *world, int job, uint64_t number,
                         const jobsched_announcement *item, struct check_stand *stand)
{
    struct check_job *one = &world->check.jobs[job];
    int revision = check_revision_of(world, job, number);
    bool larger = one->said.known && item->version > one->said.version;
    if (one->said.known) {
        check_cut(world, job);
        check_back(world, job);
        if (larger) {
            check_revived(world, job, number, item->replace, stand);
        }
        if (!is_later(world, job, revision)) {
            sim_violation(world, "G14", "%s: revision %d replaces %d, which is later",
                          world->jobs[job].name, revision, one->said.revision);
        }
        if (stand != NULL && stand->put) {
            sim_violation(world, "G14",
                          "%s: process %" PRIu64 " puts its revision %d in force "
                          "again, which a later one had replaced",
                          world->jobs[job].name, number, revision);
        }
    }
    one->said = (struct check_said){.known = true, .revision = revision, .version = item->version};
    one->changed_ms = world->disturbed_ms = world->now_ms; /* who stands down looks again */
    one->removed = one->removed && !larger;
    int64_t now_ms = sim_server_ms(world);
    one->mark_ms = one->mark_ms < now_ms ? now_ms : one->mark_ms;
}

void check_announced(struct sim_world *world, int job, uint64_t number,
                     const jobsched_announcement *item, bool replaces)
{
    if (job == world->config.jobs) {
        return; /* leadership has one definition */
    }
    struct sim_node *node = sim_node_of_process(world, number);
    struct check_stand *stand = node == NULL ? NULL : &node->stands[job];
    sim_note(world,
             replaces        ? "in-force"
             : item->pending ? "pending"
                             : "announced",
             number, (uint64_t)job, (uint64_t)check_revision_of(world, job, number));
    if (replaces) {
        put_in_force(world, job, number, item, stand);
    }
    if (stand != NULL) {
        int revision = check_revision_of(world, job, number);
        bool in_force = is_in_force(world, job, revision);
        stand->settles = is_later(world, job, revision);
        stand->stood_ms = in_force ? 0 : stand->stood_ms;
    }
}

void check_answered(struct sim_node *node, const jobsched_announcement *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct check_stand *stand = &node->stands[model_index(&node->world->model, items[i].job)];
        stand->put = stand->put || items[i].in_force;
        if (items[i].pending && stand->asked_ms == 0) {
            stand->asked_ms = node->world->now_ms;
        }
    }
}

/* ---- what nodes say, and may do ------------------------------------------------------------ */

void check_stands(struct sim_world *world, uint64_t number, const jobsched_event *event)
{
    struct sim_node *node = sim_node_of_process(world, number);
    int job = model_index(&world->model, event->job);
    if (node == NULL || job == world->config.jobs) {
        return;
    }
    if (event->kind == JOBSCHED_EVENT_JOB_STOOD_DOWN) {
        node->stands[job].stood_ms = world->now_ms;
    } else if (event->kind == JOBSCHED_EVENT_JOB_BACK_IN_FORCE) {
        node->stands[job].stood_ms = 0;
    }
}

/* Whoever asked to replace what is in force, and nobody else, acts by it in its stead: on the way
 * to its own it settles what is due. */
void check_definition(struct sim_world *world, int job, uint64_t number)
{
    int revision = check_revision_of(world, job, number);
    const struct sim_node *node = sim_node_of_process(world, number);
    bool settles = is_later(world, job, revision) && (node == NULL || node->stands[job].settles);
    if (!settles && !is_in_force(world, job, revision)) {
        sim_violation(world, "G14", "%s: granted by revision %d while %d is in force",
                      world->jobs[job].name, revision, world->check.jobs[job].said.revision);
    }
}

void check_definitions_end(struct sim_world *world)
{
    for (int job = 0; job < world->config.jobs; job++) {
        if (world->check.jobs[job].said.known) {
            check_back(world, job);
        }
    }
}

void check_definitions_forgot(struct sim_world *world)
{
    for (int i = 0; i < world->config.nodes; i++) {
        for (int job = 0; job < world->config.jobs; job++) {
            world->nodes[i].stands[job].put = false; /* each has to say it anew */
            world->nodes[i].stands[job].asked_ms = 0;
        }
    }
}
