/* fuzz_tzif.c: any bytes as a zone file. What the reader accepts must be a zone: segments in order
 * with bounded offsets, found by search as by looking; and schedules in it must go forward.
 * An input that does not begin with "TZif" is the footer of a file without transitions. */
#include "fuzz/fuzz.h"

#include "base/alloc.h"
#include "schedule/parsed.h"
#include "schedule/zone.h"

#include <string.h>

enum { HEADER_BYTES = 44, PROBES = 40, STEPS = 30 };

/* A slim file of version 2: an empty first block, one type at UTC, then the footer. */
static uint8_t *footer_file(const uint8_t *footer, size_t size, size_t *out_size)
{
    static const uint8_t type[] = {0, 0, 0, 0, 0, 0, 'X', 'X', 'X', 0};
    size_t total = HEADER_BYTES + sizeof type + HEADER_BYTES + sizeof type + 1 + size + 1;
    uint8_t *file = calloc(1, total);
    uint8_t *at = file;

    CHECK(file != NULL);
    for (int block = 0; block < 2; block++) {
        memcpy(at, "TZif2", 5);
        at[39] = 1; /* typecnt */
        at[43] = 4; /* charcnt */
        memcpy(at + HEADER_BYTES, type, sizeof type);
        at += HEADER_BYTES + sizeof type;
    }
    *at++ = '\n';
    memcpy(at, footer, size);
    at[size] = '\n';
    *out_size = total;
    return file;
}

static size_t find_by_looking(const struct jsi_zone *zone, int64_t utc)
{
    size_t index = 0;

    while (index + 1 < zone->count && zone->segments[index + 1].start <= utc) {
        index++;
    }
    return index;
}

static void check_segments(const struct jsi_zone *zone)
{
    CHECK(zone->count >= 1 && zone->count < 65536);
    CHECK(zone->segments[0].start == JSI_ZONE_BEGIN);
    for (size_t i = 0; i < zone->count; i++) {
        CHECK(zone->segments[i].offset > -JSI_OFFSET_LIMIT_S &&
              zone->segments[i].offset < JSI_OFFSET_LIMIT_S);
        CHECK(i == 0 || zone->segments[i].start > zone->segments[i - 1].start);
        CHECK(i == 0 || zone->segments[i].high >= zone->segments[i - 1].high);
    }
}

static void check_search(const struct jsi_zone *zone)
{
    size_t stride = zone->count / PROBES + 1;

    for (size_t i = 0; i < zone->count; i += stride) {
        int64_t start = zone->segments[i].start;

        /* There is no time before the first segment. */
        for (int64_t utc = i == 0 ? start : start - 1; utc <= start + 1; utc++) {
            size_t index = jsi_zone_find(zone, utc);
            int64_t local = utc + zone->segments[index].offset;
            int64_t first = jsi_zone_first_at(zone, local);

            CHECK(index == find_by_looking(zone, utc));
            CHECK(first <= utc);
            CHECK(jsi_zone_first_at(zone, local + 1) >= first);
        }
    }
}

static void check_schedule(const struct jsi_zone *zone, const char *text)
{
    jobsched_schedule *schedule = NULL;
    const struct jsi_zone *own;
    int64_t at_ms;

    CHECK(jobsched_schedule_parse(text, NULL, &schedule) == JOBSCHED_OK);
    own = schedule->zone;
    schedule->zone = zone;
    at_ms = zone->count > 2 ? (zone->segments[zone->count / 2].start - 86400) * 1000 : 0;
    for (int i = 0; i < STEPS; i++) {
        int64_t next_ms = jobsched_schedule_next(schedule, at_ms);

        CHECK(next_ms > at_ms);
        if (next_ms == JOBSCHED_NONE) {
            break;
        }
        CHECK(jobsched_schedule_matches(schedule, next_ms));
        CHECK(jobsched_schedule_previous(schedule, next_ms + 1) == next_ms);
        CHECK(i == 0 || jobsched_schedule_previous(schedule, next_ms) == at_ms);
        at_ms = next_ms;
    }
    schedule->zone = own;
    jobsched_schedule_free(schedule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jobsched_allocator allocator;
    const struct jsi_zone *zone = NULL;
    uint8_t *made = NULL;
    enum jsi_zone_result result;

    CHECK(jsi_alloc_init(&allocator, NULL) == JOBSCHED_OK);
    if (size < 4 || memcmp(data, "TZif", 4) != 0) {
        made = footer_file(data, size, &size);
        data = made;
    }
    result = jsi_zone_decode(&allocator, data, size, "Fuzz/Zone", "", &zone);
    CHECK(result == JSI_ZONE_OK || result == JSI_ZONE_DAMAGED || result == JSI_ZONE_LEAP);
    CHECK((zone != NULL) == (result == JSI_ZONE_OK));
    if (zone != NULL) {
        check_segments(zone);
        check_search(zone);
        check_schedule(zone, "30 2 * * *");
        check_schedule(zone, "*/20 * * * *");
        check_schedule(zone, "0 0 29 2 *");
        jsi_zone_release(zone);
    }
    free(made);
    return 0;
}
