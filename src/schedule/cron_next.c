/* cron_next.c: the forward search. Walks civil dates with bit sets, never seconds, so
 * that no expression makes it long. Allocates nothing; no state, no locks. */
#include "schedule/cron.h"

static uint64_t bits_from(uint64_t set, int from)
{
    return from > 63 ? 0 : set & (UINT64_MAX << from);
}

static int first_bit(uint64_t set)
{
    return __builtin_ctzll(set); /* callers checked that it is not empty */
}

static int first_time(const struct jsi_cron *cron)
{
    return first_bit(cron->hours) * 3600 + first_bit(cron->minutes) * 60 + first_bit(cron->seconds);
}

/* The first matching second of the day at or after from, or -1. */
static int time_from(const struct jsi_cron *cron, int from)
{
    int hour = from / 3600;
    int minute = from / 60 % 60;
    if (((cron->hours >> hour) & 1) != 0) {
        uint64_t seconds = bits_from(cron->seconds, from % 60);
        if (((cron->minutes >> minute) & 1) != 0 && seconds != 0) {
            return hour * 3600 + minute * 60 + first_bit(seconds);
        }
        uint64_t minutes = bits_from(cron->minutes, minute + 1);
        if (minutes != 0) {
            return hour * 3600 + first_bit(minutes) * 60 + first_bit(cron->seconds);
        }
    }
    uint64_t hours = bits_from(cron->hours, hour + 1);
    if (hours == 0) {
        return -1;
    }
    return first_bit(hours) * 3600 + first_bit(cron->minutes) * 60 + first_bit(cron->seconds);
}

/* The first year of the set at or after the given one, or 0. */
static int year_from(const struct jsi_cron *cron, int year)
{
    int from = year < JSI_YEAR_MIN ? 0 : year - JSI_YEAR_MIN;
    for (int word = from / 64; word < 4; word++) {
        uint64_t set = cron->years[word];
        if (word == from / 64) {
            set = bits_from(set, from % 64);
        }
        if (set != 0) {
            return JSI_YEAR_MIN + word * 64 + first_bit(set);
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

/* The first matching time in the months after the given one. */
static int64_t next_in_later_months(const struct jsi_cron *cron, int year, int month)
{
    for (int steps = 0; steps < JSI_YEARS * 12; steps++) {
        uint64_t months = bits_from(cron->months, month + 1);
        if (months == 0) {
            year = year_from(cron, year + 1);
            if (year == 0) {
                return JSI_NO_TIME;
            }
            months = cron->months;
        }
        month = first_bit(months);
        int64_t month_start = jsi_civil_days(year, month, 1);
        uint32_t mask = mask_of(cron, year, month, month_start);
        if (mask != 0) {
            return local_of(month_start, first_bit(mask), first_time(cron));
        }
    }
    return JSI_NO_TIME;
}

int64_t jsi_cron_local_next(const struct jsi_cron *cron, int64_t local)
{
    if (local > JSI_LOCAL_MAX) {
        return JSI_NO_TIME;
    }
    if (local < JSI_LOCAL_MIN) {
        local = JSI_LOCAL_MIN;
    }
    int64_t days = local / JSI_DAY_S;
    struct jsi_date date = jsi_civil_date(days);
    if (!jsi_cron_has_year(cron, date.year)) {
        return next_in_later_months(cron, date.year, 12);
    }
    if (((cron->months >> date.month) & 1) == 0) {
        return next_in_later_months(cron, date.year, date.month);
    }
    int64_t month_start = days - date.day + 1;
    uint32_t mask = mask_of(cron, date.year, date.month, month_start);
    if (((mask >> date.day) & 1) != 0) {
        int second = time_from(cron, (int)(local % JSI_DAY_S));
        if (second >= 0) {
            return local_of(month_start, date.day, second);
        }
    }
    uint64_t later = bits_from(mask, date.day + 1);
    if (later != 0) {
        return local_of(month_start, first_bit(later), first_time(cron));
    }
    return next_in_later_months(cron, date.year, date.month);
}

/* Whether entering a segment fires what its gap swallowed (section 6). A gap of a day
 * or more is a date that never existed: nothing fires for it. */
static bool gap_fires(const struct jsi_cron *cron, const struct jsi_segment *segment,
                      int64_t offset_before)
{
    int64_t size = segment->offset - offset_before;
    int64_t gap_end = segment->start + segment->offset;
    if (!cron->gap_runs || size <= 0 || size >= JSI_DAY_S || segment->high >= gap_end) {
        return false;
    }
    return jsi_cron_local_next(cron, segment->high) < gap_end;
}

/* Where to go on after a segment without a match: to the next one, or, when the next
 * matching wall clock time is far, to the first segment that can show it. Leaps only
 * over segments whose wall clock stays above what was searched, since an overlap shows
 * earlier times again. */
static size_t segment_after(const struct jsi_zone *zone, size_t index, int64_t from, int64_t match)
{
    if (index + 1 >= zone->count || zone->segments[index + 1].start - JSI_OFFSET_LIMIT_S < from) {
        return index + 1;
    }
    if (match == JSI_NO_TIME) {
        return zone->count;
    }
    size_t target = jsi_zone_find(zone, match - JSI_OFFSET_LIMIT_S);
    return target > index ? target : index + 1;
}

int64_t jsi_cron_next(const struct jsi_cron *cron, const struct jsi_zone *zone, int64_t after)
{
    if (after < JSI_LOCAL_MIN - 2 * JSI_OFFSET_LIMIT_S) {
        after = JSI_LOCAL_MIN - 2 * JSI_OFFSET_LIMIT_S;
    } else if (after > JSI_LOCAL_MAX + JSI_OFFSET_LIMIT_S) {
        return JSI_NO_TIME;
    }
    size_t index = jsi_zone_find(zone, after + 1);
    while (index < zone->count) {
        const struct jsi_segment *segment = &zone->segments[index];
        int64_t start = segment->start > after ? segment->start : after + 1;
        if (segment->start > after && index > 0 &&
            gap_fires(cron, segment, zone->segments[index - 1].offset)) {
            return segment->start;
        }
        int64_t from = start + segment->offset;
        if (!cron->overlap_both && from < segment->high) {
            from = segment->high;
        }
        int64_t match = jsi_cron_local_next(cron, from);
        int64_t end = jsi_zone_end(zone, index);
        if (match != JSI_NO_TIME && match - segment->offset < end) {
            return match - segment->offset;
        }
        index = segment_after(zone, index, from, match);
    }
    return JSI_NO_TIME;
}
