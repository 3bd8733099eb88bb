/* alloc.c: memory through the injected allocator. No state, no locks. */
#include "base/alloc.h"

#include "base/error.h"

#include <stdlib.h>

static void *plain_allocate(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *plain_reallocate(void *ctx, void *pointer, size_t size)
{
    (void)ctx;
    return realloc(pointer, size);
}

static void plain_release(void *ctx, void *pointer)
{
    (void)ctx;
    free(pointer);
}

int jsi_alloc_init(jobsched_allocator *out_allocator, const jobsched_allocator *given)
{
    if (given == NULL) {
        *out_allocator = (jobsched_allocator){.struct_size = sizeof *out_allocator,
                                              .allocate = plain_allocate,
                                              .reallocate = plain_reallocate,
                                              .release = plain_release};
        return JOBSCHED_OK;
    }
    if (given->struct_size < sizeof *given || given->allocate == NULL ||
        given->reallocate == NULL || given->release == NULL) {
        return jsi_fail_at(JOBSCHED_EINVAL, "allocator", -1,
                           "allocator lacks a function or was not set up with JOBSCHED_INIT");
    }
    *out_allocator = *given;
    return JOBSCHED_OK;
}

void *jsi_new(const jobsched_allocator *allocator, size_t size)
{
    void *pointer = allocator->allocate(allocator->ctx, size);
    if (pointer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", size);
        return NULL;
    }
    memset(pointer, 0, size);
    return pointer;
}

char *jsi_strdup(const jobsched_allocator *allocator, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    size_t size = strlen(text) + 1;
    char *copy = jsi_new(allocator, size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void *jsi_grow(const jobsched_allocator *allocator, void *array, size_t count, size_t *capacity,
               size_t element_bytes)
{
    if (count < *capacity) {
        return array;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    if (wanted > SIZE_MAX / element_bytes) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu elements", wanted);
        return NULL;
    }
    void *grown = allocator->reallocate(allocator->ctx, array, wanted * element_bytes);
    if (grown == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu elements", wanted);
        return NULL;
    }
    *capacity = wanted;
    return grown;
}

void jsi_free(const jobsched_allocator *allocator, void *pointer)
{
    if (pointer != NULL) {
        allocator->release(allocator->ctx, pointer);
    }
}
