/* shrink.h: makes a failing plan smaller while it still fails. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim/world.h"

struct sim_shrunk {
    struct sim_config config; /* its lists live until the next call */
    int tries;
    char violation[512];
};

/* Without "really" only what the plan filled in. */
struct sim_shrunk sim_shrink(const struct sim_config *config, bool really);

#endif
