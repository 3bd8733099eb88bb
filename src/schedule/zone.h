/* zone.h: a time zone as a table of segments of constant offset from UTC. */
#ifndef JSI_ZONE_H
#define JSI_ZONE_H

#include <jobsched.h>

#include <stdatomic.h>
#include <stdbool.h>

/* No offset is as large: bounds how far local and UTC time can be apart. */
#define JSI_OFFSET_LIMIT_S  (26 * 3600)
#define JSI_ZONE_NAME_BYTES 64
#define JSI_ZONE_BEGIN      (-(INT64_C(1) << 50)) /* start of the first segment */

struct jsi_segment {
    int64_t start; /* first UTC second */
    int64_t high;  /* the wall clock had come as far before: what lies below comes again */
    int64_t offset;
};

/* Searches begin at the segment that holds the start of the question's slot: a slot is a
 * little more than a year, and slots cover 1970 to 2230. */
#define JSI_ZONE_SLOT_SHIFT 25
#define JSI_ZONE_SLOTS      245

/* Immutable but for the count of references. */
struct jsi_zone {
    size_t count; /* of segments, at least 1; below 65,536 */
    uint16_t slots[JSI_ZONE_SLOTS];
    const struct jsi_segment *segments;
    const char *name;
    const char *version;     /* of the zone data, like "2026f"; "" when unknown */
    int64_t uncertain_after; /* the file says nothing about later seconds; INT64_MAX: it does */
    bool permanent;          /* UTC: neither counted nor freed */
    atomic_uint references;
    jobsched_allocator allocator;
};

/* How reading a zone ended. */
enum jsi_zone_result {
    JSI_ZONE_OK,
    JSI_ZONE_UNKNOWN, /* no such file */
    JSI_ZONE_NO_DATA, /* no zone directory at all */
    JSI_ZONE_DAMAGED, /* a file that breaks RFC 9636 */
    JSI_ZONE_LEAP,    /* it counts leap seconds, system time does not */
    JSI_ZONE_UNREADABLE /* errno tells */,
    JSI_ZONE_NO_MEMORY
};

extern const struct jsi_zone jsi_zone_utc;

/* Reads a zone from the directory (may be NULL), TZDIR, or the system's, whichever has
 * the name first. *out_zone has one reference. */
enum jsi_zone_result jsi_zone_load(const jobsched_allocator *allocator, const char *directory,
                                   const char *name, const struct jsi_zone **out_zone);

/* Makes a zone of the bytes of a TZif file; name and version are copied. */
enum jsi_zone_result jsi_zone_decode(const jobsched_allocator *allocator,
                                     const unsigned char *bytes, size_t size, const char *name,
                                     const char *version, const struct jsi_zone **out_zone);

const struct jsi_zone *jsi_zone_retain(const struct jsi_zone *zone);
void jsi_zone_release(const struct jsi_zone *zone);

/* The index of the segment that holds a UTC second. */
size_t jsi_zone_find(const struct jsi_zone *zone, int64_t utc);

/* Once the segments are there. */
void jsi_zone_fill_slots(struct jsi_zone *zone);

/* The first UTC second at which the zone's wall clock shows the given time or a later
 * one: the first pass in an overlap, the end of the gap in a gap. */
int64_t jsi_zone_first_at(const struct jsi_zone *zone, int64_t local);

/* The end of a segment, excluded; INT64_MAX for the last. */
static inline int64_t jsi_zone_end(const struct jsi_zone *zone, size_t index)
{
    return index + 1 < zone->count ? zone->segments[index + 1].start : INT64_MAX;
}

/* Zones read once for many schedules. The caller serialises all calls on one cache;
 * the zones themselves may be released on any thread. */
struct jsi_zone_cache;
int jsi_zone_cache_new(const jobsched_allocator *allocator, const char *directory,
                       struct jsi_zone_cache **out_cache);
void jsi_zone_cache_free(struct jsi_zone_cache *cache);

/* As jsi_zone_load, out of memory where it was asked before. */
enum jsi_zone_result jsi_zone_cache_find(struct jsi_zone_cache *cache, const char *name,
                                         const struct jsi_zone **out_zone);

/* Forgets all zones: later questions read the files anew, while schedules keep the
 * zones that they have. */
void jsi_zone_cache_reload(struct jsi_zone_cache *cache);

#endif
