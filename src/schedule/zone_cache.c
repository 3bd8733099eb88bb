/* zone_cache.c: zones read once for many schedules. The caller serialises all calls on
 * one cache; there are no locks here. */
#include "base/alloc.h"
#include "schedule/zone.h"

struct entry {
    struct entry *next;
    const struct jsi_zone *zone;
};

struct jsi_zone_cache {
    jobsched_allocator allocator;
    char *directory; /* NULL: the usual ones only */
    struct entry *first;
};

int jsi_zone_cache_new(const jobsched_allocator *allocator, const char *directory,
                       struct jsi_zone_cache **out_cache)
{
    struct jsi_zone_cache *cache = jsi_new(allocator, sizeof *cache);
    if (cache == NULL) {
        return JOBSCHED_ENOMEM;
    }
    cache->allocator = *allocator;
    cache->directory = jsi_strdup(allocator, directory);
    if (directory != NULL && cache->directory == NULL) {
        jsi_free(allocator, cache);
        return JOBSCHED_ENOMEM;
    }
    *out_cache = cache;
    return JOBSCHED_OK;
}

void jsi_zone_cache_reload(struct jsi_zone_cache *cache)
{
    while (cache->first != NULL) {
        struct entry *entry = cache->first;
        cache->first = entry->next;
        jsi_zone_release(entry->zone);
        jsi_free(&cache->allocator, entry);
    }
}

void jsi_zone_cache_free(struct jsi_zone_cache *cache)
{
    if (cache != NULL) {
        jobsched_allocator allocator = cache->allocator;
        jsi_zone_cache_reload(cache);
        jsi_free(&allocator, cache->directory);
        jsi_free(&allocator, cache);
    }
}

enum jsi_zone_result jsi_zone_cache_find(struct jsi_zone_cache *cache, const char *name,
                                         const struct jsi_zone **out_zone)
{
    /* At most as many as there are zones: some six hundred. */
    for (struct entry *entry = cache->first; entry != NULL; entry = entry->next) {
        if (strcmp(entry->zone->name, name) == 0) {
            *out_zone = jsi_zone_retain(entry->zone);
            return JSI_ZONE_OK;
        }
    }
    struct entry *entry = jsi_new(&cache->allocator, sizeof *entry);
    if (entry == NULL) {
        return JSI_ZONE_NO_MEMORY;
    }
    enum jsi_zone_result result =
        jsi_zone_load(&cache->allocator, cache->directory, name, &entry->zone);
    if (result != JSI_ZONE_OK) {
        jsi_free(&cache->allocator, entry);
        return result;
    }
    entry->next = cache->first;
    cache->first = entry;
    *out_zone = jsi_zone_retain(entry->zone);
    return JSI_ZONE_OK;
}
