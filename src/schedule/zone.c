/* zone.c: lookups in a zone's table of segments. No state, no locks. */
#include "schedule/zone.h"

static const struct jsi_segment utc_segments[1] = {
    {.start = JSI_ZONE_BEGIN, .high = JSI_ZONE_BEGIN - JSI_OFFSET_LIMIT_S, .offset = 0}};

const struct jsi_zone jsi_zone_utc = {.count = 1, .segments = utc_segments, .name = "UTC"};

size_t jsi_zone_find(const struct jsi_zone *zone, int64_t utc)
{
    size_t low = 0;
    size_t high = zone->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (zone->segments[middle].start <= utc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t jsi_zone_first_at(const struct jsi_zone *zone, int64_t local)
{
    size_t index = jsi_zone_find(zone, local - JSI_OFFSET_LIMIT_S);
    /* Ends at the latest in the segment that holds local + the largest offset. */
    while (index + 1 < zone->count &&
           local >= zone->segments[index + 1].start + zone->segments[index].offset) {
        index++;
    }
    int64_t utc = local - zone->segments[index].offset;
    return utc > zone->segments[index].start ? utc : zone->segments[index].start;
}
