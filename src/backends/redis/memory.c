/* memory.c: all memory of the redis: backend but that of hiredis's parser. Locks: none. */
#include "store.h"

#include <string.h>

#define FIRST_BYTES 256
#define FIRST_COUNT 8

void *jsi_redis_allocate(const jobsched_allocator *allocator, size_t size)
{
    void *pointer = allocator->allocate(allocator->ctx, size);
    if (pointer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", size);
    }
    return pointer;
}

void jsi_redis_free(const jobsched_allocator *allocator, void *pointer)
{
    if (pointer != NULL) {
        allocator->release(allocator->ctx, pointer);
    }
}

void *jsi_redis_grow(const jobsched_allocator *allocator, void *array, size_t count,
                     size_t *capacity, size_t element_bytes)
{
    if (count < *capacity) {
        return array;
    }
    size_t wanted = *capacity == 0 ? FIRST_COUNT : *capacity * 2;
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

void jsi_redis_text_clear(struct jsi_redis_text *text)
{
    text->used = 0;
    text->failed = 0;
}

static int make_room(struct jsi_redis_text *text, size_t length)
{
    if (text->capacity - text->used >= length) {
        return 1;
    }
    size_t wanted = text->capacity == 0 ? FIRST_BYTES : text->capacity;
    while (wanted - text->used < length) {
        if (wanted > SIZE_MAX / 2) {
            return 0;
        }
        wanted *= 2;
    }
    char *grown = text->allocator->reallocate(text->allocator->ctx, text->bytes, wanted);
    if (grown == NULL) {
        return 0;
    }
    text->bytes = grown;
    text->capacity = wanted;
    return 1;
}

void jsi_redis_text_add(struct jsi_redis_text *text, const char *bytes, size_t length)
{
    if (text->failed || !make_room(text, length)) {
        text->failed = 1;
        return;
    }
    if (length > 0) {
        memcpy(text->bytes + text->used, bytes, length);
        text->used += length;
    }
}

void jsi_redis_text_free(struct jsi_redis_text *text)
{
    jsi_redis_free(text->allocator, text->bytes);
    text->bytes = NULL;
    text->used = 0;
    text->capacity = 0;
}
