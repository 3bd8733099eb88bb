/* memory.c: all memory of this backend comes from the allocator of the configuration (SQLite's
 * own does not: it has one allocator for the whole process, which is not ours to change).
 * Locks: none. */
#include "store.h"

void *jsi_sqlite_allocate(const jobsched_allocator *allocator, size_t size)
{
    void *pointer = allocator->allocate(allocator->ctx, size);
    if (pointer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", size);
    }
    return pointer;
}

void jsi_sqlite_free(const jobsched_allocator *allocator, void *pointer)
{
    if (pointer != NULL) {
        allocator->release(allocator->ctx, pointer);
    }
}

char *jsi_sqlite_join(const jobsched_allocator *allocator, const char *left, const char *right)
{
    size_t left_bytes = strlen(left);
    size_t right_bytes = strlen(right);
    char *joined = jsi_sqlite_allocate(allocator, left_bytes + right_bytes + 1);
    if (joined != NULL) {
        memcpy(joined, left, left_bytes);
        memcpy(joined + left_bytes, right, right_bytes + 1);
    }
    return joined;
}

void *jsi_sqlite_grow(const jobsched_allocator *allocator, void *array, size_t count,
                      size_t *capacity, size_t element_bytes)
{
    if (count < *capacity) {
        return array;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = allocator->reallocate(allocator->ctx, array, wanted * element_bytes);
    if (grown == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu elements", wanted);
        return NULL;
    }
    *capacity = wanted;
    return grown;
}
