/* occurrence.c: what the clocks did to one occurrence. Looks at the segments around an
 * instant; allocates nothing; no locks. */
#include "schedule/calendar.h"

/* The size of the struct in its first version; callers may know no more. */
#define OCCURRENCE_BYTES_MIN (offsetof(jobsched_occurrence, flags) + sizeof(uint32_t))

/* The wall clock times of a gap that were not shown before: [high, end). Empty when the
 * segment is not entered by a jump forward. */
static bool swallowed(const struct jobsched_schedule *schedule, size_t index, int64_t *out_first,
                      int64_t *out_end)
{
    const struct jsi_segment *segment = &schedule->zone->segments[index];
    *out_end = segment->start + segment->offset;
    *out_first = jsi_cron_local_next(&schedule->cron, segment->high);
    return index > 0 && *out_first < *out_end;
}

static bool gap_runs(const struct jobsched_schedule *schedule, size_t index)
{
    const struct jsi_segment *segment = &schedule->zone->segments[index];
    return schedule->cron.gap_runs && segment->offset - segment[-1].offset < JSI_DAY_S;
}

/* Whether the wall clock shows this time again after the segment. */
static bool comes_again(const struct jsi_zone *zone, size_t index, int64_t local)
{
    for (size_t i = index + 1; i < zone->count; i++) {
        const struct jsi_segment *segment = &zone->segments[i];
        if (segment->start - JSI_OFFSET_LIMIT_S > local) {
            return false; /* the clock cannot be that far behind */
        }
        if (segment->start + segment->offset <= local &&
            local - segment->offset < jsi_zone_end(zone, i)) {
            return true;
        }
    }
    return false;
}

/* Whether a gap after the previous occurrence swallowed something for good. */
static bool follows_suppressed(const struct jobsched_schedule *schedule, size_t index, int64_t at)
{
    int64_t previous = jsi_parsed_raw_previous(schedule, at);
    int64_t first;
    int64_t end;
    for (size_t i = index; i > 0 && schedule->zone->segments[i].start > previous; i--) {
        if (swallowed(schedule, i, &first, &end) && !gap_runs(schedule, i)) {
            return true;
        }
    }
    return false;
}

int64_t jsi_parsed_nominal(const struct jobsched_schedule *schedule, int64_t raw)
{
    size_t index = jsi_zone_find(schedule->zone, raw);
    const struct jsi_segment *segment = &schedule->zone->segments[index];
    int64_t first;
    int64_t end;
    if (schedule->kind == JSI_KIND_AT && schedule->anchor.is_local) {
        return schedule->anchor.nominal;
    }
    if (schedule->kind == JSI_KIND_CRON && segment->start == raw &&
        swallowed(schedule, index, &first, &end) && gap_runs(schedule, index)) {
        return first;
    }
    return raw + segment->offset;
}

static uint32_t cron_flags(const struct jobsched_schedule *schedule, int64_t at, int64_t nominal)
{
    const struct jsi_zone *zone = schedule->zone;
    size_t index = jsi_zone_find(zone, at);
    const struct jsi_segment *segment = &zone->segments[index];
    int64_t local = at + segment->offset;
    uint32_t flags = 0;
    if (nominal != local) {
        flags |= JOBSCHED_OCCURRENCE_SHIFTED;
        if (jsi_cron_local_next(&schedule->cron, nominal + 1) <= local) {
            flags |= JOBSCHED_OCCURRENCE_MERGED;
        }
    } else if (local < segment->high) {
        flags |= JOBSCHED_OCCURRENCE_SECOND_PASS;
    } else if (!schedule->cron.overlap_both && comes_again(zone, index, local)) {
        flags |= JOBSCHED_OCCURRENCE_REPEATS;
    }
    if (follows_suppressed(schedule, index, at)) {
        flags |= JOBSCHED_OCCURRENCE_AFTER_GAP;
    }
    return flags;
}

/* Of "@at" with a local time; nothing else names a time that the clock may leave out. */
static uint32_t at_flags(const struct jobsched_schedule *schedule, int64_t at, int64_t nominal)
{
    const struct jsi_zone *zone = schedule->zone;
    size_t index = jsi_zone_find(zone, at);
    int64_t local = at + zone->segments[index].offset;
    if (schedule->kind != JSI_KIND_AT || !schedule->anchor.is_local) {
        return 0;
    }
    if (nominal != local) {
        return JOBSCHED_OCCURRENCE_SHIFTED;
    }
    return comes_again(zone, index, local) ? JOBSCHED_OCCURRENCE_REPEATS : 0;
}

/* at is an occurrence, raw the one without calendars that it was made of. */
static void describe(const struct jobsched_schedule *schedule, int64_t at, int64_t raw,
                     jobsched_occurrence *occurrence)
{
    int64_t offset = schedule->zone->segments[jsi_zone_find(schedule->zone, at)].offset;
    int64_t nominal = jsi_parsed_nominal(schedule, raw);
    occurrence->at_ms = at * 1000;
    occurrence->nominal_local_ms = nominal * 1000;
    occurrence->local_ms = (at + offset) * 1000;
    occurrence->offset_s = (int32_t)offset;
    if (raw != at) {
        occurrence->flags = JOBSCHED_OCCURRENCE_MOVED;
    } else if (schedule->kind == JSI_KIND_CRON) {
        occurrence->flags = cron_flags(schedule, at, nominal);
    } else {
        occurrence->flags = at_flags(schedule, at, nominal);
    }
}

int jobsched_schedule_occurrence(const jobsched_schedule *schedule, int64_t at_ms,
                                 jobsched_occurrence *out_occurrence)
{
    if (schedule == NULL || out_occurrence == NULL ||
        out_occurrence->struct_size < OCCURRENCE_BYTES_MIN) {
        return jsi_fail_at(JOBSCHED_EINVAL, "", -1,
                           "schedule is NULL, or out_occurrence not set up with JOBSCHED_INIT");
    }
    if (!jobsched_schedule_matches(schedule, at_ms)) {
        return jsi_fail_at(JOBSCHED_ENOTFOUND, "", -1, "the instant is not an occurrence");
    }
    int64_t at = at_ms / 1000;
    int64_t raw = schedule->calendar_count == 0 ? at : jsi_calendars_origin(schedule, at);
    if (raw == JSI_NO_TIME) {
        raw = at;
    }
    size_t known = out_occurrence->struct_size;
    jobsched_occurrence occurrence;
    memset(&occurrence, 0, sizeof occurrence);
    describe(schedule, at, raw, &occurrence);
    occurrence.struct_size = known;
    memcpy(out_occurrence, &occurrence, known < sizeof occurrence ? known : sizeof occurrence);
    return JOBSCHED_OK;
}
