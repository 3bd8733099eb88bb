/* alloc.h: memory through the injected allocator. */
#ifndef JSI_ALLOC_H
#define JSI_ALLOC_H

#include <jobsched.h>

/* The given allocator, or malloc's when it is NULL. Checks that all functions are there. */
int jsi_alloc_init(jobsched_allocator *out_allocator, const jobsched_allocator *given);

/* Zeroed memory, or NULL with ENOMEM recorded. */
void *jsi_new(const jobsched_allocator *allocator, size_t size);

/* A copy, or NULL with ENOMEM recorded. NULL stays NULL without an error. */
char *jsi_strdup(const jobsched_allocator *allocator, const char *text);

/* Makes room for one more element of an array that doubles: returns the array, or
 * NULL with ENOMEM recorded and the old array intact. */
void *jsi_grow(const jobsched_allocator *allocator, void *array, size_t count, size_t *capacity,
               size_t element_bytes);

void jsi_free(const jobsched_allocator *allocator, void *pointer);

#endif
