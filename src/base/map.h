/* map.h: text keys to pointers. Keys are borrowed: they live in the values. */
#ifndef JSI_MAP_H
#define JSI_MAP_H

#include <jobsched.h>

#include <stdbool.h>

typedef struct jsi_map_slot {
    const char *key; /* NULL: free */
    void *value;
    uint64_t hash;
} jsi_map_slot;

/* Open addressing, linear probing, at most three quarters full. Zero is an empty map. */
typedef struct jsi_map {
    jsi_map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} jsi_map;

void *jsi_map_find(const jsi_map *map, const char *key);

/* Adds a key that is not there yet. ENOMEM leaves the map as it was. */
int jsi_map_add(jsi_map *map, const jobsched_allocator *allocator, const char *key, void *value);

void jsi_map_remove(jsi_map *map, const char *key);

/* Steps through the values: start with *position = 0; NULL at the end. The map must not change
 * meanwhile. */
void *jsi_map_each(const jsi_map *map, size_t *position);

void jsi_map_fini(jsi_map *map, const jobsched_allocator *allocator);

#endif
