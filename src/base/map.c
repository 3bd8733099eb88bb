/* map.c: text keys to pointers. No locks: the caller's. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/hash.h"

static uint64_t hash_of(const char *key)
{
    return jsi_mix64(jsi_fnv1a64(JSI_FNV1A64_INIT, key, strlen(key)));
}

/* The key's slot, or the free slot where it belongs. capacity must not be 0; a free slot always
 * exists, so the walk ends. */
static size_t slot_of(const jsi_map *map, const char *key, uint64_t hash)
{
    size_t at = (size_t)hash & (map->capacity - 1);
    while (map->slots[at].key != NULL &&
           (map->slots[at].hash != hash || strcmp(map->slots[at].key, key) != 0)) {
        at = (at + 1) & (map->capacity - 1);
    }
    return at;
}

void *jsi_map_find(const jsi_map *map, const char *key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    return map->slots[slot_of(map, key, hash_of(key))].value;
}

static int widen(jsi_map *map, const jobsched_allocator *allocator)
{
    jsi_map wider = {.capacity = map->capacity == 0 ? 16 : map->capacity * 2, .count = map->count};
    wider.slots = jsi_new(allocator, wider.capacity * sizeof *wider.slots);
    if (wider.slots == NULL) {
        return JOBSCHED_ENOMEM;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != NULL) {
            wider.slots[slot_of(&wider, map->slots[i].key, map->slots[i].hash)] = map->slots[i];
        }
    }
    jsi_free(allocator, map->slots);
    *map = wider;
    return JOBSCHED_OK;
}

int jsi_map_add(jsi_map *map, const jobsched_allocator *allocator, const char *key, void *value)
{
    if ((map->count + 1) * 4 > map->capacity * 3) {
        int failed = widen(map, allocator);
        if (failed != 0) {
            return failed;
        }
    }
    uint64_t hash = hash_of(key);
    map->slots[slot_of(map, key, hash)] = (jsi_map_slot){key, value, hash};
    map->count++;
    return JOBSCHED_OK;
}

void jsi_map_remove(jsi_map *map, const char *key)
{
    if (map->capacity == 0) {
        return;
    }
    size_t mask = map->capacity - 1;
    size_t hole = slot_of(map, key, hash_of(key));
    if (map->slots[hole].key == NULL) {
        return;
    }
    /* Closes the gap instead of leaving a tombstone, so that probes stay short for ever. */
    for (size_t at = (hole + 1) & mask; map->slots[at].key != NULL; at = (at + 1) & mask) {
        size_t home = (size_t)map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (jsi_map_slot){NULL, NULL, 0};
    map->count--;
}

void *jsi_map_each(const jsi_map *map, size_t *position)
{
    while (*position < map->capacity) {
        const jsi_map_slot *slot = &map->slots[(*position)++];
        if (slot->key != NULL) {
            return slot->value;
        }
    }
    return NULL;
}

void jsi_map_fini(jsi_map *map, const jobsched_allocator *allocator)
{
    jsi_free(allocator, map->slots);
    *map = (jsi_map){NULL, 0, 0};
}
