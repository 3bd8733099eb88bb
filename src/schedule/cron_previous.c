/* cron_previous.c: the backward search; the mirror of cron_next.c with a code path of
 * its own, so that each can be tested against the other. No state, no locks. */
#include "schedule/cron.h"

static uint64_t bits_to(uint64_t set, int to)
{
    return to < 0 ? 0 : set & (UINT64_MAX >> (63 - to));
}

static int last_bit(uint64_t set)
{
    return 63 - __builtin_clzll(set); /* callers checked that it is not empty */
}

static int last_time(const struct jsi_cron *cron)
{
    return last_bit(cron->hours) * 3600 + last_bit(cron->minutes) * 60 + last_bit(cron->seconds);
}

/* The last matching second of the day at or before to, or -1. */
static int time_to(const struct jsi_cron *cron, int to)
{
    int hour = to / 3600;
    int minute = to / 60 % 60;
    if (((cron->hours >> hour) & 1) != 0) {
        uint64_t seconds = bits_to(cron->seconds, to % 60);
        if (((cron->minutes >> minute) & 1) != 0 && seconds != 0) {
            return hour * 3600 + minute * 60 + last_bit(seconds);
        }
        uint64_t minutes = bits_to(cron->minutes, minute - 1);
        if (minutes != 0) {
            return hour * 3600 + last_bit(minutes) * 60 + last_bit(cron->seconds);
        }
    }
    uint64_t hours = bits_to(cron->hours, hour - 1);
    if (hours == 0) {
        return -1;
    }
    return last_bit(hours) * 3600 + last_bit(cron->minutes) * 60 + last_bit(cron->seconds);
}

/* The last year of the set at or before the given one, or 0. */
static int year_to(const struct jsi_cron *cron, int year)
{
    int to = year > JSI_YEAR_MAX ? JSI_YEARS - 1 : year - JSI_YEAR_MIN;
    if (to < 0) {
        return 0;
    }
    for (int word = to / 64; word >= 0; word--) {
        uint64_t set = cron->years[word];
        if (word == to / 64) {
            set = bits_to(set, to % 64);
        }
        if (set != 0) {
            return JSI_YEAR_MIN + word * 64 + last_bit(set);
        }
    }
    return 0;
}

static int64_t local_of(int64_t month_start, int day, int second_of_day)
{
    return (month_start + day - 1) * JSI_DAY_S + second_of_day;
}

static uint32_t mask_of(const struct jsi_cron *cron, int year, int month, int64_t month_start)
{
    return jsi_cron_month_mask(cron, jsi_civil_weekday(month_start),
                               jsi_civil_month_days(year, month));
}

/* The last matching time in the months before the given one. */
static int64_t previous_in_earlier_months(const struct jsi_cron *cron, int year, int month)
{
    for (int steps = 0; steps < JSI_YEARS * 12; steps++) {
        uint64_t months = bits_to(cron->months, month - 1);
        if (months == 0) {
            year = year_to(cron, year - 1);
            if (year == 0) {
                return JSI_NO_TIME_PAST;
            }
            months = cron->months;
        }
        month = last_bit(months);
        int64_t month_start = jsi_civil_days(year, month, 1);
        uint32_t mask = mask_of(cron, year, month, month_start);
        if (mask != 0) {
            return local_of(month_start, last_bit(mask), last_time(cron));
        }
    }
    return JSI_NO_TIME_PAST;
}

int64_t jsi_cron_local_previous(const struct jsi_cron *cron, int64_t local)
{
    if (local < JSI_LOCAL_MIN) {
        return JSI_NO_TIME_PAST;
    }
    if (local > JSI_LOCAL_MAX) {
        local = JSI_LOCAL_MAX;
    }
    int64_t days = local / JSI_DAY_S;
    struct jsi_date date = jsi_civil_date(days);
    if (!jsi_cron_has_year(cron, date.year)) {
        return previous_in_earlier_months(cron, date.year, 1);
    }
    if (((cron->months >> date.month) & 1) == 0) {
        return previous_in_earlier_months(cron, date.year, date.month);
    }
    int64_t month_start = days - date.day + 1;
    uint32_t mask = mask_of(cron, date.year, date.month, month_start);
    if (((mask >> date.day) & 1) != 0) {
        int second = time_to(cron, (int)(local % JSI_DAY_S));
        if (second >= 0) {
            return local_of(month_start, date.day, second);
        }
    }
    uint64_t earlier = bits_to(mask, date.day - 1);
    if (earlier != 0) {
        return local_of(month_start, last_bit(earlier), last_time(cron));
    }
    return previous_in_earlier_months(cron, date.year, date.month);
}

/* Whether entering a segment fired what its gap swallowed; see cron_next.c. */
static bool gap_fired(const struct jsi_cron *cron, const struct jsi_segment *segment,
                      int64_t offset_before)
{
    int64_t size = segment->offset - offset_before;
    if (!cron->gap_runs || size <= 0 || size >= JSI_DAY_S) {
        return false;
    }
    int64_t gap_end = segment->start + segment->offset;
    return jsi_cron_local_previous(cron, gap_end - 1) >= segment->high;
}

/* Where to go on below a segment without a match; the mirror of segment_after(). The
 * index is at least 1, and SIZE_MAX means that nothing earlier can match. */
static size_t segment_before(const struct jsi_zone *zone, size_t index, int64_t to, int64_t match)
{
    if (zone->segments[index].start + JSI_OFFSET_LIMIT_S > to) {
        return index - 1;
    }
    if (match == JSI_NO_TIME_PAST) {
        return SIZE_MAX;
    }
    size_t target = jsi_zone_find(zone, match + JSI_OFFSET_LIMIT_S);
    return target < index ? target : index - 1;
}

int64_t jsi_cron_previous(const struct jsi_cron *cron, const struct jsi_zone *zone, int64_t before)
{
    if (before > JSI_LOCAL_MAX + 2 * JSI_OFFSET_LIMIT_S) {
        before = JSI_LOCAL_MAX + 2 * JSI_OFFSET_LIMIT_S;
    } else if (before < JSI_LOCAL_MIN - JSI_OFFSET_LIMIT_S) {
        return JSI_NO_TIME_PAST;
    }
    size_t index = jsi_zone_find(zone, before - 1);
    while (index != SIZE_MAX) {
        const struct jsi_segment *segment = &zone->segments[index];
        int64_t end = jsi_zone_end(zone, index);
        int64_t to = (end < before ? end : before) - 1 + segment->offset;
        int64_t from = segment->start + segment->offset;
        if (!cron->overlap_both && from < segment->high) {
            from = segment->high;
        }
        int64_t match = jsi_cron_local_previous(cron, to);
        if (match != JSI_NO_TIME_PAST && match >= from) {
            return match - segment->offset;
        }
        if (index == 0) {
            return JSI_NO_TIME_PAST;
        }
        if (gap_fired(cron, segment, zone->segments[index - 1].offset)) {
            return segment->start;
        }
        index = segment_before(zone, index, to, match);
    }
    return JSI_NO_TIME_PAST;
}
