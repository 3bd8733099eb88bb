/* options.h: what the command line says. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "sim/world.h"

struct sim_options {
    struct sim_config config;
    uint64_t first_seed, last_seed;
    bool trace, verbose, shrinks, stops;
    const char *mutant;
    char dropped[SIM_EPISODES_MAX + 1], without[MODEL_JOBS_MAX + 1];
};

/* Prints what is wrong and returns false. */
bool sim_options_parse(struct sim_options *out_options, int argc, char **argv);

/* What makes another run of the same. */
void sim_options_print(const struct sim_options *options, const struct sim_config *config,
                       FILE *out);

#endif
