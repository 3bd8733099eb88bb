/* shrink.c: see the header. Takes away kinds of trouble, episodes by halves, jobs, and time. */
#include "sim/shrink.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 2000 };

static char dropped[SIM_EPISODES_MAX + 1], without[MODEL_JOBS_MAX + 1];

static bool fails(struct sim_shrunk *shrunk, const struct sim_config *config)
{
    struct sim_world *world = malloc(sizeof *world);
    if (world == NULL || shrunk->tries++ >= TRIES_MAX) {
        free(world);
        return false;
    }
    sim_world_init(world, config);
    sim_world_run(world);
    size_t length = strcspn(world->violation, " ");
    /* By the same guarantee: another finding is another story. */
    bool failed =
        world->violations > 0 && (shrunk->violation[0] == '\0' ||
                                  strncmp(world->violation, shrunk->violation, length + 1) == 0);
    if (failed) {
        memcpy(shrunk->violation, world->violation, sizeof shrunk->violation);
    }
    sim_world_fini(world);
    free(world);
    return failed;
}

static void shrink_kinds(struct sim_shrunk *shrunk)
{
    for (int i = 0; i < SIM_TROUBLES; i++) {
        struct sim_config smaller = shrunk->config;
        smaller.troubles &= ~(UINT32_C(1) << i);
        if (smaller.troubles != shrunk->config.troubles && fails(shrunk, &smaller)) {
            shrunk->config = smaller;
        }
    }
}

/* Drops stretches of marks, ever shorter ones. */
static void shrink_marks(struct sim_shrunk *shrunk, char *marks, size_t count)
{
    char saved[SIM_EPISODES_MAX];
    for (size_t span = count; span > 0; span /= 2) {
        for (size_t at = 0; at < count; at += span) {
            size_t length = at + span > count ? count - at : span;
            memcpy(saved, marks, count);
            memset(marks + at, '1', length);
            if (memcmp(saved, marks, count) != 0 && !fails(shrunk, &shrunk->config)) {
                memcpy(marks, saved, count);
            }
        }
    }
}

static void shrink_time(struct sim_shrunk *shrunk)
{
    for (int64_t hours = 1; hours * 3600000 < shrunk->config.horizon_ms; hours *= 2) {
        struct sim_config smaller = shrunk->config;
        smaller.horizon_ms = hours * 3600000;
        if (fails(shrunk, &smaller)) {
            shrunk->config = smaller;
            return;
        }
    }
}

struct sim_shrunk sim_shrink(const struct sim_config *config, bool really)
{
    struct sim_shrunk shrunk = {.config = *config};
    shrunk.config.trace = NULL;
    if (!really) {
        return shrunk;
    }
    struct sim_world *world = malloc(sizeof *world);
    if (world == NULL) {
        abort();
    }
    sim_world_init(world, &shrunk.config);
    size_t episodes = (size_t)world->episode_count;
    size_t jobs = (size_t)world->config.jobs;
    sim_world_fini(world);
    free(world);
    memset(dropped, '0', sizeof dropped - 1);
    memset(without, '0', sizeof without - 1);
    if (config->dropped != NULL) {
        memcpy(dropped, config->dropped, SIM_EPISODES_MAX);
    }
    if (config->without != NULL) {
        memcpy(without, config->without, MODEL_JOBS_MAX);
    }
    shrunk.config.dropped = dropped;
    shrunk.config.without = without;
    (void)fails(&shrunk, &shrunk.config);
    shrink_kinds(&shrunk);
    shrink_marks(&shrunk, dropped, episodes);
    memset(dropped + episodes, '1', SIM_EPISODES_MAX - episodes);
    shrink_marks(&shrunk, without, jobs);
    shrink_kinds(&shrunk);
    shrink_time(&shrunk);
    return shrunk;
}
