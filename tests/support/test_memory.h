/* test_memory.h: an allocator that counts what is out, and that can be told to fail. Any thread. */
#ifndef SUPPORT_TEST_MEMORY_H
#define SUPPORT_TEST_MEMORY_H

#include <jobsched.h>

#include <stdatomic.h>
#include <stdlib.h>

struct test_memory {
    _Atomic int64_t live;    /* blocks that are out */
    _Atomic int64_t asked;   /* requests so far */
    _Atomic int64_t fail_at; /* the request that fails, counted from 0; -1: none */
    _Atomic int64_t failed;
    int64_t fail_count; /* that many from fail_at on; fixed before use */
};

static inline int test_memory_refuses(struct test_memory *memory)
{
    int64_t number = atomic_fetch_add(&memory->asked, 1);
    int64_t at = atomic_load(&memory->fail_at);
    int refuses = at >= 0 && number >= at && number - at < memory->fail_count;
    if (refuses) {
        (void)atomic_fetch_add(&memory->failed, 1);
    }
    return refuses;
}

static inline void *test_memory_allocate(void *ctx, size_t size)
{
    struct test_memory *memory = ctx;
    void *pointer = test_memory_refuses(memory) ? NULL : malloc(size);
    if (pointer != NULL) {
        memset(pointer, 0xA5, size); /* what is not set is seen */
        (void)atomic_fetch_add(&memory->live, 1);
    }
    return pointer;
}

static inline void *test_memory_reallocate(void *ctx, void *pointer, size_t size)
{
    struct test_memory *memory = ctx;
    if (test_memory_refuses(memory)) {
        return NULL;
    }
    void *moved = realloc(pointer, size);
    if (moved != NULL && pointer == NULL) {
        (void)atomic_fetch_add(&memory->live, 1);
    }
    return moved;
}

static inline void test_memory_release(void *ctx, void *pointer)
{
    struct test_memory *memory = ctx;
    if (pointer != NULL) {
        (void)atomic_fetch_sub(&memory->live, 1);
        free(pointer);
    }
}

static inline void test_memory_init(struct test_memory *memory)
{
    atomic_init(&memory->live, 0);
    atomic_init(&memory->asked, 0);
    atomic_init(&memory->fail_at, -1);
    atomic_init(&memory->failed, 0);
    memory->fail_count = 1;
}

static inline jobsched_allocator test_memory_allocator(struct test_memory *memory)
{
    return (jobsched_allocator){.struct_size = sizeof(jobsched_allocator),
                                .ctx = memory,
                                .allocate = test_memory_allocate,
                                .reallocate = test_memory_reallocate,
                                .release = test_memory_release};
}

#endif
