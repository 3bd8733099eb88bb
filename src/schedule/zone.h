/* zone.h: a time zone as a table of segments of constant offset from UTC. */
#ifndef JSI_ZONE_H
#define JSI_ZONE_H

#include <stddef.h>
#include <stdint.h>

/* No offset is as large: bounds how far local and UTC time can be apart. */
#define JSI_OFFSET_LIMIT_S (26 * 3600)

struct jsi_segment {
    int64_t start; /* first UTC second; the first segment's is JSI_ZONE_BEGIN */
    int64_t high;  /* the wall clock had reached this before: what lies below comes again */
    int64_t offset;
};

#define JSI_ZONE_BEGIN (-(INT64_C(1) << 50))

/* Immutable. */
struct jsi_zone {
    size_t count; /* of segments, at least 1 */
    const struct jsi_segment *segments;
    const char *name;
};

extern const struct jsi_zone jsi_zone_utc;

/* The index of the segment that holds a UTC second. */
size_t jsi_zone_find(const struct jsi_zone *zone, int64_t utc);

/* The first UTC second at which the zone's wall clock shows the given time or a later
 * one: the first pass in an overlap, the end of the gap in a gap. */
int64_t jsi_zone_first_at(const struct jsi_zone *zone, int64_t local);

/* The end of a segment, excluded; INT64_MAX for the last. */
static inline int64_t jsi_zone_end(const struct jsi_zone *zone, size_t index)
{
    return index + 1 < zone->count ? zone->segments[index + 1].start : INT64_MAX;
}

#endif
