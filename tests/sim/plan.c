/* plan.c: what follows from the seed before anything happens: jobs, their definitions, and the
 * stretches of trouble. Each number has a stream of its own, so that a plan that is shrunk keeps
 * what is left as it was. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };
#define DAY ((int64_t)24 * HOUR)

/* ---- schedules ---------------------------------------------------------------------- */

static struct walk cron(struct sim_random *random, int period)
{
    struct walk walk = {.kind = WALK_CRON,
                        .minutes = UINT64_C(1) << sim_below(random, 60),
                        .hours = UINT32_C(1) << sim_below(random, 24),
                        .days = UINT32_MAX,
                        .months = UINT32_MAX,
                        .weekdays = UINT32_MAX};
    if (period <= 1) { /* several times an hour, or hourly */
        walk.hours = UINT32_MAX;
        for (int64_t i = period == 0 ? sim_between(random, 2, 6) : 1; i > 1; i--) {
            walk.minutes |= UINT64_C(1) << sim_below(random, 60);
        }
    } else if (period == 3) {
        walk.by_weekday = true;
        walk.weekdays = UINT32_C(1) << sim_below(random, 7);
    } else if (period >= 4) {
        walk.by_day = true;
        walk.days = UINT32_C(1) << sim_between(random, 1, 31);
        if (period >= 5) {
            walk.months = UINT32_C(5) << sim_between(random, 1, 10);
            walk.days |= UINT32_C(1) << sim_between(random, 1, 28);
        }
        if (sim_chance(random, 20)) { /* either of the two is enough */
            walk.by_weekday = true;
            walk.weekdays = UINT32_C(1) << sim_below(random, 7);
            walk.months = UINT32_MAX;
        }
    }
    return walk;
}

static struct walk every(int64_t step_s, struct sim_random *random)
{
    struct walk walk = {.kind = WALK_EVERY, .step_ms = step_s * SECOND};
    if (sim_chance(random, 30)) {
        int64_t below_s = step_s < 3600 ? step_s : 3600;
        walk.phase_ms = sim_below(random, below_s) * SECOND;
    }
    return walk;
}

static struct walk schedule_of(const struct sim_world *world, struct sim_random *random)
{
    int64_t dice = sim_below(random, 100);
    bool dense = world->config.mix == SIM_DENSE;
    if (dice < 6) {
        return (struct walk){.kind = WALK_AFTER,
                             .step_ms = dense ? sim_between(random, 5, 300) * SECOND
                                              : sim_between(random, 1, 14) * DAY};
    }
    if (dice < 9) {
        return (struct walk){.kind = WALK_AT,
                             .phase_ms =
                                 SIM_BEGIN_MS +
                                 sim_below(random, world->config.horizon_ms) / SECOND * SECOND};
    }
    if (dense) {
        return dice < 35 ? cron(random, 0) : every(sim_scaled(random, 5, 900), random);
    }
    if (world->config.mix == SIM_YEAR) {
        /* As in a service: a few often, most hourly or daily. */
        return dice < 14   ? every(sim_between(random, 5, 30) * 60, random)
               : dice < 40 ? cron(random, 1)
               : dice < 80 ? cron(random, 2)
               : dice < 92 ? cron(random, 3)
                           : cron(random, 4);
    }
    return dice < 30   ? cron(random, 2)
           : dice < 60 ? cron(random, 3)
           : dice < 80 ? cron(random, 4)
           : dice < 90 ? cron(random, 5)
                       : every(sim_between(random, 20, 400) * 3600, random);
}

static void plan_def(const struct sim_world *world, int job, int number, struct sim_def *def)
{
    struct sim_random random =
        sim_random_of(world->config.seed, 10 + (uint64_t)job, (uint64_t)number);
    def->walk = schedule_of(world, &random);
    walk_text(&def->walk, def->text, sizeof def->text);
    int64_t dice = sim_below(&random, 100);
    def->overlap = dice < 60   ? JOBSCHED_OVERLAP_SKIP
                   : dice < 85 ? JOBSCHED_OVERLAP_QUEUE
                               : JOBSCHED_OVERLAP_ALLOW;
    def->misfire = (int32_t)sim_below(&random, 3);
    def->misfire_limit = (uint32_t)sim_scaled(&random, 1, 20);
    def->grace_ms = sim_chance(&random, 30) ? sim_scaled(&random, SECOND, HOUR) : 0;
    def->recover = sim_chance(&random, 40) ? JOBSCHED_RECOVER_RERUN : JOBSCHED_RECOVER_LEAVE;
    def->recover_limit = (uint32_t)sim_between(&random, 1, 4);
    def->attempts = (uint32_t)(sim_chance(&random, 30) ? sim_between(&random, 2, 4) : 1);
    def->fail_percent = sim_chance(&random, 40) ? 30 : 0;
    def->run_high_ms = sim_scaled(&random, 0, world->lease_ms * 3);
    if (def->overlap == JOBSCHED_OVERLAP_ALLOW && def->run_high_ms > 30 * SECOND) {
        def->run_high_ms = 30 * SECOND;
    }
    if (world->config.mix == SIM_DENSE && def->walk.kind == WALK_EVERY &&
        def->overlap == JOBSCHED_OVERLAP_ALLOW && def->run_high_ms > 6 * def->walk.step_ms) {
        def->run_high_ms = 6 * def->walk.step_ms;
    }
    def->run_low_ms = sim_chance(&random, 50) ? 0 : def->run_high_ms / 4;
    def->timeout_ms = sim_chance(&random, 15) ? sim_scaled(&random, 100, world->lease_ms) : 0;
    def->jitter_ms = sim_chance(&random, 20) ? sim_scaled(&random, 10, 20 * SECOND) : 0;
    def->lease_ms = sim_chance(&random, 20) ? world->lease_ms * 2 : 0;
    def->stubborn = sim_chance(&random, 20);
}

/* What an operator makes of the first definition by settings: another schedule, or none. */
static void plan_override(const struct sim_world *world, int job, struct sim_job *one)
{
    struct sim_random random = sim_random_of(world->config.seed, 10 + (uint64_t)job, SIM_DEFS);
    struct sim_def *def = &one->defs[SIM_DEFS - 1];
    *def = one->defs[0];
    one->overridden = sim_chance(&random, 30);
    if (sim_chance(&random, 30)) {
        def->walk.kind = WALK_OFF;
        return;
    }
    while (strcmp(def->text, one->defs[0].text) == 0) {
        def->walk = schedule_of(world, &random);
        walk_text(&def->walk, def->text, sizeof def->text);
    }
    if (def->overlap == JOBSCHED_OVERLAP_ALLOW && def->walk.kind == WALK_EVERY &&
        def->run_high_ms > 6 * def->walk.step_ms) {
        def->run_high_ms = 6 * def->walk.step_ms;
        def->run_low_ms = 0;
    }
}

/* ---- definitions ---------------------------------------------------------------------- */

/* How often the definition has changed up to a release. A third of the jobs change with each. */
int sim_revision(const struct sim_world *world, int job, int release)
{
    int revision = 0;
    for (int i = 1; i <= release; i++) {
        struct sim_random random =
            sim_random_of(world->config.seed, 50 + (uint64_t)i, (uint64_t)job);
        revision += sim_chance(&random, 33);
    }
    return revision;
}

/* The second change brings the first text back. */
const struct sim_def *sim_def_of(const struct sim_world *world, int job, int revision)
{
    static const int order[2][4] = {{0, 1, 0, 2}, {0, SIM_DEFS - 1, 0, 2}};
    return &world->jobs[job].defs[order[world->jobs[job].overridden][revision % 4]];
}

/* Settings change no version: that is the build's. */
uint64_t sim_version_of(const struct sim_world *world, int job, int revision)
{
    bool by_settings = world->jobs[job].overridden && revision % 4 == 1;
    return world->jobs[job].versioned ? (uint64_t)revision + 1 - by_settings : 0;
}

bool sim_override_of(const struct sim_world *world, int job, int revision, char out_key[40],
                     const char **out_value)
{
    const struct sim_job *one = &world->jobs[job];
    const struct sim_def *def = &one->defs[SIM_DEFS - 1];
    if (!one->overridden || revision % 4 != 1) {
        return false;
    }
    bool off = def->walk.kind == WALK_OFF;
    (void)snprintf(out_key, 40, "job.%s.%s", one->name, off ? "enabled" : "schedule");
    *out_value = off ? "no" : def->text;
    return true;
}

/* ---- trouble ---------------------------------------------------------------------------- */

/* Near an instant at which something is due: in idle time trouble troubles nobody. */
static int64_t moment(const struct sim_world *world, struct sim_random *random)
{
    int64_t at_ms = SIM_BEGIN_MS + sim_below(random, world->config.horizon_ms);
    if (world->config.mix == SIM_DENSE) {
        return at_ms;
    }
    const struct sim_def *def =
        &world->jobs[sim_below(random, world->config.jobs)].defs[sim_below(random, 2)];
    int64_t due_ms = walk_next(&def->walk, at_ms);
    if (due_ms != WALK_NEVER && due_ms < SIM_BEGIN_MS + world->config.horizon_ms) {
        at_ms = due_ms - sim_scaled(random, 0, world->lease_ms);
    }
    return at_ms < SIM_BEGIN_MS ? SIM_BEGIN_MS : at_ms;
}

static void plan_episode(struct sim_world *world, int number)
{
    struct sim_random random = sim_random_of(world->config.seed, 3, (uint64_t)number);
    struct sim_episode *episode = &world->episodes[number];
    episode->at_ms = moment(world, &random);
    episode->until_ms = episode->at_ms + sim_scaled(&random, SECOND, 4 * world->lease_ms);
    int64_t last_ms = SIM_BEGIN_MS + world->config.horizon_ms;
    episode->until_ms = episode->until_ms > last_ms ? last_ms : episode->until_ms;
    int drawn[SIM_TROUBLES], count = 0;
    for (int i = 0; i < SIM_TROUBLES; i++) {
        if (((world->config.pool >> i) & 1) != 0) {
            drawn[count++] = i;
        }
    }
    for (int64_t kinds = sim_between(&random, 1, 4); kinds > 0 && count > 0; kinds--) {
        episode->kinds |= UINT32_C(1) << drawn[sim_below(&random, count)];
    }
    episode->kinds &= world->config.troubles;
    uint32_t all = (UINT32_C(1) << world->config.nodes) - 1;
    episode->nodes = (uint32_t)sim_next(&random) & (uint32_t)sim_next(&random) & all;
    episode->nodes |= UINT32_C(1) << sim_below(&random, world->config.nodes);
    episode->percent = (int)sim_scaled(&random, 2, 60);
    episode->salt = sim_next(&random);
}

static void plan_size(struct sim_world *world)
{
    struct sim_config *config = &world->config;
    struct sim_random random = sim_random_of(config->seed, 4, 0);
    bool dense = config->mix == SIM_DENSE;
    int nodes = dense ? (int)sim_between(&random, 2, 5) : config->mix == SIM_YEAR ? 5 : 10;
    int jobs = dense ? (int)sim_between(&random, 3, 12) : config->mix == SIM_YEAR ? 50 : 4;
    config->nodes = config->nodes > 0 ? config->nodes : nodes;
    config->jobs = config->jobs > 0 ? config->jobs : jobs;
    if (config->horizon_ms == 0) {
        config->horizon_ms = dense ? 2 * (int64_t)HOUR : 365 * DAY;
    }
    world->lease_ms = dense ? sim_between(&random, 3, 30) * SECOND : 30 * SECOND;
    world->base_latency_ms = (int)(dense ? sim_scaled(&random, 0, 40) : sim_scaled(&random, 0, 2));
    /* As sqlite:, as postgresql:, as redis:. */
    static const int64_t graces[3] = {0, 500, -1};
    world->model.grace_ms = graces[sim_below(&random, 3)];
    random = sim_random_of(config->seed, 7, 0);
    world->vouches = world->model.grace_ms > 0 && sim_chance(&random, 50);
    if (config->quiet_ms == 0) {
        config->quiet_ms = 20 * world->lease_ms + 10 * MINUTE;
    }
    world->model.lease_max_ms = 2 * world->lease_ms;
    /* Those that stand by ask twice a second: too much for a year. */
    random = sim_random_of(config->seed, 6, 0);
    world->led = dense && sim_chance(&random, 15);
    int64_t episodes = dense ? config->horizon_ms / sim_scaled(&random, 30 * SECOND, 30 * MINUTE)
                             : config->horizon_ms / (8 * DAY);
    world->episode_count = episodes > SIM_EPISODES_MAX ? SIM_EPISODES_MAX : (int)episodes;
}

void sim_plan(struct sim_world *world)
{
    plan_size(world);
    for (int job = 0; job < world->config.jobs; job++) {
        struct sim_random random = sim_random_of(world->config.seed, 5, (uint64_t)job);
        (void)snprintf(world->jobs[job].name, sizeof world->jobs[job].name, "j%02d", job);
        world->jobs[job].versioned = sim_chance(&random, 60);
        for (int i = 0; i < SIM_DEFS - 1; i++) {
            plan_def(world, job, i, &world->jobs[job].defs[i]);
        }
        plan_override(world, job, &world->jobs[job]);
    }
    (void)snprintf(world->jobs[world->config.jobs].name, sizeof world->jobs[0].name,
                   "jobsched:leader");
    for (int i = 0; i < world->episode_count; i++) {
        plan_episode(world, i);
    }
}
