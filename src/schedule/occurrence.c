/* occurrence.c: what the clocks did to one occurrence. Looks at the segments around an
 * instant; allocates nothing; no locks. */
#include "schedule/parsed.h"

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
    int64_t previous = jsi_parsed_previous(schedule, at);
    int64_t first;
    int64_t end;
    for (size_t i = index; i > 0 && schedule->zone->segments[i].start > previous; i--) {
        if (swallowed(schedule, i, &first, &end) && !gap_runs(schedule, i)) {
            return true;
        }
    }
    return false;
}

static void describe_cron(const struct jobsched_schedule *schedule, int64_t at,
                          jobsched_occurrence *occurrence)
{
    const struct jsi_zone *zone = schedule->zone;
    size_t index = jsi_zone_find(zone, at);
    const struct jsi_segment *segment = &zone->segments[index];
    int64_t local = at + segment->offset;
    int64_t first;
    int64_t end;
    if (segment->start == at && swallowed(schedule, index, &first, &end) &&
        gap_runs(schedule, index)) {
        occurrence->nominal_local_ms = first * 1000;
        occurrence->flags |= JOBSCHED_OCCURRENCE_SHIFTED;
        if (jsi_cron_local_next(&schedule->cron, first + 1) <= end) {
            occurrence->flags |= JOBSCHED_OCCURRENCE_MERGED;
        }
    } else if (local < segment->high) {
        occurrence->flags |= JOBSCHED_OCCURRENCE_SECOND_PASS;
    } else if (!schedule->cron.overlap_both && comes_again(zone, index, local)) {
        occurrence->flags |= JOBSCHED_OCCURRENCE_REPEATS;
    }
    if (follows_suppressed(schedule, index, at)) {
        occurrence->flags |= JOBSCHED_OCCURRENCE_AFTER_GAP;
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
    int64_t offset = schedule->zone->segments[jsi_zone_find(schedule->zone, at)].offset;
    jobsched_occurrence occurrence = {.struct_size = sizeof occurrence,
                                      .at_ms = at_ms,
                                      .nominal_local_ms = (at + offset) * 1000,
                                      .local_ms = (at + offset) * 1000,
                                      .offset_s = (int32_t)offset};
    if (schedule->kind == JSI_KIND_CRON) {
        describe_cron(schedule, at, &occurrence);
    } else if (schedule->kind == JSI_KIND_AT && schedule->anchor.is_local &&
               schedule->anchor.nominal != at + offset) {
        occurrence.nominal_local_ms = schedule->anchor.nominal * 1000;
        occurrence.flags = JOBSCHED_OCCURRENCE_SHIFTED;
    }
    size_t known = out_occurrence->struct_size;
    occurrence.struct_size = known;
    memcpy(out_occurrence, &occurrence, known < sizeof occurrence ? known : sizeof occurrence);
    return JOBSCHED_OK;
}
