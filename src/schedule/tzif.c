/* tzif.c: the bytes of a zone file (TZif, RFC 9636) to a table of segments. The bytes
 * may come from anywhere: every count is checked before it is used. No I/O, no locks. */
#include "base/alloc.h"
#include "schedule/civil.h"
#include "schedule/posix_tz.h"
#include "schedule/zone.h"

enum {
    HEADER_BYTES = 44,
    TYPE_BYTES = 6,
    /* Rules are written out from the last transition (at the earliest the year before
     * the span) to the year after the span. */
    RULE_YEAR_MIN = JSI_YEAR_MIN - 1,
    RULE_YEAR_MAX = JSI_YEAR_MAX + 1,
    RULE_EVENTS_MAX = 2 * (RULE_YEAR_MAX - RULE_YEAR_MIN + 1)
};

struct counts {
    uint64_t isut, isstd, leap, time, type, letters;
};

/* One data block with its arrays. */
struct block {
    struct counts counts;
    size_t time_bytes; /* 4 in version 1, else 8 */
    const unsigned char *times, *indexes, *types, *letters, *end;
};

static uint32_t big_endian_32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t time_at(const struct block *block, size_t index)
{
    const unsigned char *at = block->times + index * block->time_bytes;
    if (block->time_bytes == 4) {
        return (int32_t)big_endian_32(at);
    }
    return (int64_t)((uint64_t)big_endian_32(at) << 32 | big_endian_32(at + 4));
}

static int32_t offset_at(const struct block *block, size_t type)
{
    return (int32_t)big_endian_32(block->types + type * TYPE_BYTES);
}

static bool read_header(const unsigned char *bytes, size_t size, struct counts *out)
{
    if (size < HEADER_BYTES || memcmp(bytes, "TZif", 4) != 0) {
        return false;
    }
    out->isut = big_endian_32(bytes + 20);
    out->isstd = big_endian_32(bytes + 24);
    out->leap = big_endian_32(bytes + 28);
    out->time = big_endian_32(bytes + 32);
    out->type = big_endian_32(bytes + 36);
    out->letters = big_endian_32(bytes + 40);
    return true;
}

/* 32-bit counts in 64-bit arithmetic: no overflow. */
static uint64_t block_bytes(const struct counts *counts, uint64_t time_bytes)
{
    return counts->time * time_bytes + counts->time + counts->type * TYPE_BYTES + counts->letters +
           counts->leap * (time_bytes + 4) + counts->isstd + counts->isut;
}

/* Finds the arrays behind a header; false when they do not fit. */
static bool read_block(const unsigned char *bytes, size_t size, size_t time_bytes,
                       struct block *out)
{
    struct counts counts;
    if (!read_header(bytes, size, &counts) ||
        block_bytes(&counts, time_bytes) > size - HEADER_BYTES) {
        return false;
    }
    out->counts = counts;
    out->time_bytes = time_bytes;
    out->times = bytes + HEADER_BYTES;
    out->indexes = out->times + counts.time * time_bytes;
    out->types = out->indexes + counts.time;
    out->letters = out->types + counts.type * TYPE_BYTES;
    out->end = bytes + HEADER_BYTES + block_bytes(&counts, time_bytes);
    return true;
}

static bool check_types(const struct block *block)
{
    for (size_t type = 0; type < block->counts.type; type++) {
        const unsigned char *record = block->types + type * TYPE_BYTES;
        int32_t offset = offset_at(block, type);
        size_t name = record[5];
        if (offset <= -JSI_OFFSET_LIMIT_S || offset >= JSI_OFFSET_LIMIT_S || record[4] > 1 ||
            name >= block->counts.letters ||
            memchr(block->letters + name, '\0', block->counts.letters - name) == NULL) {
            return false;
        }
    }
    return true;
}

static bool check_block(const struct block *block)
{
    const struct counts *counts = &block->counts;
    if (counts->type < 1 || counts->letters < 1 ||
        (counts->isut != 0 && counts->isut != counts->type) ||
        (counts->isstd != 0 && counts->isstd != counts->type)) {
        return false;
    }
    for (size_t i = 0; i < counts->time; i++) {
        int64_t at = time_at(block, i);
        if (block->indexes[i] >= counts->type || (i > 0 && at <= time_at(block, i - 1))) {
            return false;
        }
        /* Far outside everything that is computed here. */
        if (at <= JSI_ZONE_BEGIN && block->time_bytes == 8) {
            continue;
        }
        if (at >= -JSI_ZONE_BEGIN) {
            return false;
        }
    }
    return check_types(block);
}

/* What a file says. */
struct tzif {
    struct block block;
    bool has_rules;
    struct jsi_posix_tz rules;
};

static enum jsi_zone_result read_tzif(const unsigned char *bytes, size_t size, struct tzif *out)
{
    struct block *block = &out->block;
    out->has_rules = false;
    if (!read_block(bytes, size, 4, block)) {
        return JSI_ZONE_DAMAGED;
    }
    bool version_1 = bytes[4] == '\0';
    if (!version_1) {
        const unsigned char *second = block->end;
        if (!read_block(second, size - (size_t)(second - bytes), 8, block)) {
            return JSI_ZONE_DAMAGED;
        }
    }
    if (block->counts.leap != 0) {
        return JSI_ZONE_LEAP;
    }
    if (!check_block(block)) {
        return JSI_ZONE_DAMAGED;
    }
    if (version_1) {
        return JSI_ZONE_OK;
    }
    size_t left = size - (size_t)(block->end - bytes);
    const char *footer = (const char *)block->end;
    const char *line_end = left > 1 ? memchr(footer + 1, '\n', left - 1) : NULL;
    if (line_end == NULL || footer[0] != '\n') {
        return JSI_ZONE_DAMAGED;
    }
    size_t length = (size_t)(line_end - footer) - 1;
    if (length == 0) {
        return JSI_ZONE_OK;
    }
    out->has_rules = jsi_posix_tz_parse(footer + 1, length, &out->rules);
    return out->has_rules ? JSI_ZONE_OK : JSI_ZONE_DAMAGED;
}

struct builder {
    struct jsi_segment *segments;
    size_t count;
};

/* Changes of anything but the offset are no transitions here (zic writes such at 2^31). */
static void add(struct builder *builder, int64_t at, int32_t offset)
{
    struct jsi_segment *last = &builder->segments[builder->count - 1];
    if (at == last->start && builder->count > 1) {
        /* Two changes at one second: the later one of them is what holds. */
        last->offset = offset;
        if (last[-1].offset == offset) {
            builder->count--;
        }
    } else if (last->offset != offset) {
        builder->segments[builder->count++] = (struct jsi_segment){.start = at, .offset = offset};
    }
}

struct event {
    int64_t at;
    int32_t offset;
};

static void sort_in(struct event *events, size_t *count, struct event event)
{
    size_t place = *count;
    while (place > 0 && events[place - 1].at > event.at) {
        events[place] = events[place - 1];
        place--;
    }
    events[place] = event;
    (*count)++;
}

/* Writes the footer's rules out, year by year. Sorted, because rules may reach into the
 * neighbouring year ("/167"), and the order within a year depends on the hemisphere. */
static void add_rules(struct builder *builder, const struct jsi_posix_tz *rules, int64_t after)
{
    struct event events[RULE_EVENTS_MAX];
    size_t count = 0;
    int year = after < 0 ? RULE_YEAR_MIN : jsi_civil_date(after / JSI_DAY_S).year;
    for (; year <= RULE_YEAR_MAX; year++) {
        struct event start = {jsi_posix_tz_start(rules, year), rules->dst_offset};
        struct event end = {jsi_posix_tz_end(rules, year), rules->offset};
        bool start_first = start.at <= end.at;
        sort_in(events, &count, start_first ? start : end);
        sort_in(events, &count, start_first ? end : start);
    }
    for (size_t i = 0; i < count; i++) {
        if (events[i].at > after) {
            add(builder, events[i].at, events[i].offset);
        }
    }
}

static void fill(struct builder *builder, const struct tzif *tzif, int64_t *out_uncertain_after)
{
    const struct block *block = &tzif->block;
    int64_t last = JSI_ZONE_BEGIN;
    builder->segments[0] = (struct jsi_segment){.start = JSI_ZONE_BEGIN,
                                                .high = JSI_ZONE_BEGIN - JSI_OFFSET_LIMIT_S,
                                                .offset = offset_at(block, 0)};
    builder->count = 1;
    for (size_t i = 0; i < block->counts.time; i++) {
        int32_t offset = offset_at(block, block->indexes[i]);
        last = time_at(block, i);
        if (last <= JSI_ZONE_BEGIN) {
            builder->segments[0].offset = offset;
            last = JSI_ZONE_BEGIN;
        } else {
            add(builder, last, offset);
        }
    }
    *out_uncertain_after = tzif->has_rules ? INT64_MAX : last;
    if (tzif->has_rules && tzif->rules.has_dst) {
        add_rules(builder, &tzif->rules, last);
    }
    for (size_t i = 1; i < builder->count; i++) {
        struct jsi_segment *segment = &builder->segments[i];
        int64_t reached = segment->start + segment[-1].offset;
        segment->high = reached > segment[-1].high ? reached : segment[-1].high;
    }
}

enum jsi_zone_result jsi_zone_decode(const jobsched_allocator *allocator,
                                     const unsigned char *bytes, size_t size, const char *name,
                                     const char *version, const struct jsi_zone **out_zone)
{
    struct tzif tzif;
    enum jsi_zone_result result = read_tzif(bytes, size, &tzif);
    if (result != JSI_ZONE_OK) {
        return result;
    }
    size_t room = 1 + (size_t)tzif.block.counts.time;
    if (tzif.has_rules && tzif.rules.has_dst) {
        room += RULE_EVENTS_MAX;
    }
    size_t name_bytes = strlen(name) + 1;
    size_t version_bytes = strlen(version) + 1;
    size_t table_bytes = room * sizeof(struct jsi_segment);
    struct jsi_zone *zone =
        jsi_new(allocator, sizeof *zone + table_bytes + name_bytes + version_bytes);
    if (zone == NULL) {
        return JSI_ZONE_NO_MEMORY;
    }
    struct builder builder = {.segments = (struct jsi_segment *)(void *)(zone + 1)};
    fill(&builder, &tzif, &zone->uncertain_after);
    char *texts = (char *)(zone + 1) + table_bytes;
    memcpy(texts, name, name_bytes);
    memcpy(texts + name_bytes, version, version_bytes);
    zone->segments = builder.segments;
    zone->count = builder.count;
    jsi_zone_fill_slots(zone);
    zone->name = texts;
    zone->version = texts + name_bytes;
    zone->allocator = *allocator;
    atomic_init(&zone->references, 1);
    *out_zone = zone;
    return JSI_ZONE_OK;
}
