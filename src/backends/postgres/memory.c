/* memory.c: all memory of this backend comes from the allocator of the configuration (libpq's own
 * does not: it knows malloc only). Locks: none. */
#include "store.h"

#include <string.h>

void *jsi_pg_allocate(const jobsched_allocator *allocator, size_t size)
{
    void *pointer = allocator->allocate(allocator->ctx, size);
    if (pointer == NULL) {
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", size);
    }
    return pointer;
}

void jsi_pg_free(const jobsched_allocator *allocator, void *pointer)
{
    if (pointer != NULL) {
        allocator->release(allocator->ctx, pointer);
    }
}

void *jsi_pg_grow(const jobsched_allocator *allocator, void *array, size_t count, size_t *capacity,
                  size_t element_bytes)
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

void jsi_pg_text_clear(struct jsi_pg_text *text)
{
    text->used = 0;
    text->failed = 0;
}

/* There is always room for a zero byte behind what is used. */
void jsi_pg_text_add(struct jsi_pg_text *text, const char *bytes, size_t length)
{
    if (text->failed) {
        return;
    }
    if (text->capacity - text->used <= length) {
        size_t wanted = text->capacity == 0 ? 1024 : text->capacity;
        while (wanted - text->used <= length) {
            wanted *= 2;
        }
        char *grown = text->allocator->reallocate(text->allocator->ctx, text->bytes, wanted);
        if (grown == NULL) {
            text->failed = 1;
            return;
        }
        text->bytes = grown;
        text->capacity = wanted;
    }
    memcpy(text->bytes + text->used, bytes, length);
    text->used += length;
    text->bytes[text->used] = '\0';
}

void jsi_pg_text_free(struct jsi_pg_text *text)
{
    jsi_pg_free(text->allocator, text->bytes);
    text->bytes = NULL;
    text->capacity = 0;
    text->used = 0;
}

void jsi_pg_text_expand(struct jsi_pg_text *text, const char *template, const char *schema)
{
    for (const char *at; (at = strstr(template, "@S@")) != NULL; template = at + 3) {
        jsi_pg_text_add(text, template, (size_t)(at - template));
        jsi_pg_text_add(text, "\"", 1);
        jsi_pg_text_add(text, schema, strlen(schema));
        jsi_pg_text_add(text, "\"", 1);
    }
    jsi_pg_text_add(text, template, strlen(template));
}
