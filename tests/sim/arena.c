/* arena.c: see the header. */
#include "sim/arena.h"

#include <stdlib.h>

union header {
    struct arena_block block;
    max_align_t aligned;
};

void arena_init(struct arena *arena)
{
    arena->head.previous = arena->head.next = &arena->head;
    arena->live = 0;
}

static void *allocate(void *ctx, size_t size)
{
    struct arena *arena = ctx;
    union header *header = malloc(sizeof *header + size);
    if (header == NULL) {
        abort();
    }
    header->block.previous = arena->head.previous;
    header->block.next = &arena->head;
    header->block.previous->next = header->block.next->previous = &header->block;
    arena->live++;
    return header + 1;
}

static void release(void *ctx, void *pointer)
{
    struct arena *arena = ctx;
    if (pointer != NULL) {
        union header *header = (union header *)pointer - 1;
        header->block.previous->next = header->block.next;
        header->block.next->previous = header->block.previous;
        arena->live--;
        free(header);
    }
}

static void *reallocate(void *ctx, void *pointer, size_t size)
{
    struct arena *arena = ctx;
    if (pointer == NULL) {
        return allocate(ctx, size);
    }
    union header *header = (union header *)pointer - 1;
    struct arena_block *previous = header->block.previous;
    struct arena_block *next = header->block.next;
    header = realloc(header, sizeof *header + size);
    if (header == NULL) {
        abort();
    }
    previous->next = next->previous = &header->block;
    (void)arena;
    return header + 1;
}

void arena_drop(struct arena *arena)
{
    while (arena->head.next != &arena->head) {
        release(arena, (union header *)(void *)arena->head.next + 1);
    }
}

jobsched_allocator arena_allocator(struct arena *arena)
{
    return (jobsched_allocator){.struct_size = sizeof(jobsched_allocator),
                                .ctx = arena,
                                .allocate = allocate,
                                .reallocate = reallocate,
                                .release = release};
}
