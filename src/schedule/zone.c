/* zone.c: lookups in a zone's table of segments, and its references. No I/O; the only
 * change to a zone is its atomic count of references, so there are no locks. */
#include "schedule/zone.h"

#include "base/alloc.h"

static const struct jsi_segment utc_segments[1] = {
    {.start = JSI_ZONE_BEGIN, .high = JSI_ZONE_BEGIN - JSI_OFFSET_LIMIT_S, .offset = 0}};

const struct jsi_zone jsi_zone_utc = {.count = 1,
                                      .segments = utc_segments,
                                      .name = "UTC",
                                      .version = "",
                                      .uncertain_after = INT64_MAX,
                                      .permanent = true};

/* Everybody else sees zones as constant; only the count of references changes, and only
 * of zones that came from jsi_zone_decode(). */
static struct jsi_zone *counted(const struct jsi_zone *zone)
{
    return (struct jsi_zone *)(uintptr_t)zone;
}

const struct jsi_zone *jsi_zone_retain(const struct jsi_zone *zone)
{
    if (!zone->permanent) {
        (void)atomic_fetch_add_explicit(&counted(zone)->references, 1, memory_order_relaxed);
    }
    return zone;
}

void jsi_zone_release(const struct jsi_zone *zone)
{
    if (zone == NULL || zone->permanent) {
        return;
    }
    if (atomic_fetch_sub_explicit(&counted(zone)->references, 1, memory_order_acq_rel) == 1) {
        jobsched_allocator allocator = zone->allocator;
        jsi_free(&allocator, counted(zone));
    }
}

/* For instants outside the slots. */
static size_t find_by_halves(const struct jsi_zone *zone, int64_t utc)
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

size_t jsi_zone_find(const struct jsi_zone *zone, int64_t utc)
{
    if (utc < 0 || utc >> JSI_ZONE_SLOT_SHIFT >= JSI_ZONE_SLOTS) {
        return find_by_halves(zone, utc);
    }
    size_t index = zone->slots[utc >> JSI_ZONE_SLOT_SHIFT];
    while (index + 1 < zone->count && zone->segments[index + 1].start <= utc) {
        index++;
    }
    return index;
}

void jsi_zone_fill_slots(struct jsi_zone *zone)
{
    for (int64_t slot = 0; slot < JSI_ZONE_SLOTS; slot++) {
        zone->slots[slot] = (uint16_t)find_by_halves(zone, slot << JSI_ZONE_SLOT_SHIFT);
    }
}

int64_t jsi_zone_first_at(const struct jsi_zone *zone, int64_t local)
{
    size_t index = jsi_zone_find(zone, local - JSI_OFFSET_LIMIT_S);
    /* Ends at the latest in the segment that holds local + the largest offset. */
    while (index + 1 < zone->count &&
           local >= zone->segments[index + 1].start + zone->segments[index].offset) {
        index++;
    }
    int64_t second = local - zone->segments[index].offset;
    return second > zone->segments[index].start ? second : zone->segments[index].start;
}
