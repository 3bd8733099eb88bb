/* arena.h: the memory of one process of the cluster: it goes at once when the process dies, and all
 * of it must have come back when the process ends well. */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include <jobsched.h>

struct arena_block {
    struct arena_block *previous, *next;
};

struct arena {
    struct arena_block head;
    size_t live;
};

void arena_init(struct arena *arena);
void arena_drop(struct arena *arena);
jobsched_allocator arena_allocator(struct arena *arena);

#endif
