/* calendared.c: the occurrences that calendars leave or move. Every question is bounded by
 * SEARCH_BUDGET, because a schedule and a calendar can cancel each other out. Allocates
 * nothing; no locks. */
#include "schedule/calendar.h"

enum {
    /* Of one question, whatever it consists of: up to 70 ns for each unit, so that
     * nobody's calendar holds a caller up for longer than about 100 ms. */
    SEARCH_BUDGET = 1500000,
    INSTANT_COST = 10,   /* units for finding and testing an instant; each rule adds one */
    DAYS_MOVED_MAX = 366 /* a year without an included day is a mistake */
};

/* One question: all parts of it draw on the same budget. */
struct search {
    const struct jobsched_schedule *schedule;
    int64_t budget; /* may end below zero, by the last instant's rules */
};

static bool gave_up(const struct search *search)
{
    return search->budget <= 0;
}

static const struct jsi_zone *zone_of(const struct jobsched_schedule *schedule,
                                      const struct jobsched_calendar *calendar)
{
    return calendar->zone != NULL ? calendar->zone : schedule->zone;
}

static int64_t local_in(const struct jsi_zone *zone, int64_t at)
{
    return at + zone->segments[jsi_zone_find(zone, at)].offset;
}

/* Why an instant is excluded. */
struct exclusion {
    const struct jobsched_calendar *calendar;
    bool whole_day; /* for all of the calendar's civil day */
    bool shifted;   /* by its nominal time, which the clock does not show */
};

/* All calendars must include it. The test is by the wall clock time that the schedule
 * names; only where the calendar has a zone of its own, by what the clock shows there. */
static bool is_included(struct search *search, int64_t at, int64_t nominal,
                        struct exclusion *out_exclusion)
{
    const struct jobsched_schedule *schedule = search->schedule;
    search->budget -= INSTANT_COST;
    for (size_t i = 0; i < schedule->calendar_count; i++) {
        const struct jobsched_calendar *calendar = schedule->calendars[i];
        const struct jsi_zone *zone = zone_of(schedule, calendar);
        bool own = zone != schedule->zone && strcmp(zone->name, schedule->zone->name) != 0;
        int64_t shown = local_in(zone, at);
        int64_t local = own ? shown : nominal;
        if (!jsi_calendar_includes_local(calendar, local, &out_exclusion->whole_day,
                                         &search->budget)) {
            out_exclusion->calendar = calendar;
            out_exclusion->shifted = local != shown;
            return false;
        }
    }
    return true;
}

static bool raw_is_included(struct search *search, int64_t raw, struct exclusion *out_exclusion)
{
    return is_included(search, raw, jsi_parsed_nominal(search->schedule, raw), out_exclusion);
}

/* How far the exclusion of an instant reaches for the same reason: to the end of the
 * calendar's civil day, or of its minute, as long as its clock runs evenly. */
static int64_t stretch_end(const struct jobsched_schedule *schedule, int64_t at,
                           const struct exclusion *exclusion)
{
    const struct jsi_zone *zone = zone_of(schedule, exclusion->calendar);
    size_t index = jsi_zone_find(zone, at);
    int64_t local = at + zone->segments[index].offset;
    int64_t unit = exclusion->whole_day ? JSI_DAY_S : 60;
    int64_t end = at + (jsi_floor_div(local, unit) + 1) * unit - local;
    int64_t moved = jsi_zone_end(zone, index);
    if (exclusion->shifted) {
        return at + 1;
    }
    return end < moved ? end : moved;
}

/* Its beginning, mirrored: everything from there to at is excluded. */
static int64_t stretch_begin(const struct jobsched_schedule *schedule, int64_t at,
                             const struct exclusion *exclusion)
{
    const struct jsi_zone *zone = zone_of(schedule, exclusion->calendar);
    size_t index = jsi_zone_find(zone, at);
    int64_t local = at + zone->segments[index].offset;
    int64_t unit = exclusion->whole_day ? JSI_DAY_S : 60;
    int64_t begin = at + jsi_floor_div(local, unit) * unit - local;
    int64_t moved = zone->segments[index].start;
    if (exclusion->shifted) {
        return at;
    }
    return begin > moved ? begin : moved;
}

/* The first instant after an excluded one, and before limit, that all calendars include. */
static int64_t next_included(struct search *search, int64_t at, struct exclusion exclusion,
                             int64_t limit)
{
    const struct jobsched_schedule *schedule = search->schedule;
    while (!gave_up(search)) {
        at = stretch_end(schedule, at, &exclusion);
        if (at >= limit) {
            return JSI_NO_TIME;
        }
        if (is_included(search, at, local_in(schedule->zone, at), &exclusion)) {
            return at;
        }
    }
    return JSI_NO_TIME;
}

/* Whether a wall clock time that fires at an instant was never shown because its whole day was
 * not, at the date line. */
static bool is_lost(const struct jsi_zone *zone, int64_t local, int64_t at)
{
    const struct jsi_segment *segment = &zone->segments[jsi_zone_find(zone, at)];
    return at + segment->offset != local && segment->start == at &&
           segment->offset - segment[-1].offset >= JSI_DAY_S;
}

/* The same wall clock time on the nearest included day before (sign -1) or after. */
static int64_t on_other_day(struct search *search, int64_t raw, int sign)
{
    const struct jobsched_schedule *schedule = search->schedule;
    struct exclusion exclusion;
    int64_t nominal = jsi_parsed_nominal(schedule, raw);
    int64_t low = sign < 0 ? jsi_parsed_raw_previous(schedule, raw) : raw;
    int64_t high = sign < 0 ? raw : jsi_parsed_raw_next(schedule, raw);
    for (int day = 1; day <= DAYS_MOVED_MAX && !gave_up(search); day++) {
        int64_t local = nominal + (int64_t)sign * day * JSI_DAY_S;
        int64_t at = jsi_zone_first_at(schedule->zone, local);
        if (is_lost(schedule->zone, local, at)) {
            continue;
        }
        if (at <= low || at >= high || local < JSI_LOCAL_MIN || local > JSI_LOCAL_MAX) {
            return JSI_NO_TIME; /* the neighbour stands for both */
        }
        if (is_included(search, at, local, &exclusion)) {
            return at;
        }
    }
    return JSI_NO_TIME;
}

/* Where an occurrence without calendars fires: itself, moved, or JSI_NO_TIME. Moves stop
 * short of the neighbouring occurrence, so they never change the order. */
static int64_t effective(struct search *search, int64_t raw, struct exclusion *out_exclusion)
{
    const struct jobsched_schedule *schedule = search->schedule;
    if (raw_is_included(search, raw, out_exclusion)) {
        return raw;
    }
    switch (schedule->calendar_policy) {
    case JOBSCHED_CALENDAR_NEXT:
        return next_included(search, raw, *out_exclusion, jsi_parsed_raw_next(schedule, raw));
    case JOBSCHED_CALENDAR_NEXT_DAY:
        return on_other_day(search, raw, 1);
    case JOBSCHED_CALENDAR_PREVIOUS_DAY:
        return on_other_day(search, raw, -1);
    default:
        return JSI_NO_TIME;
    }
}

/* A delay that ends while excluded is waited out again, or until it is included. */
static int64_t after_next(struct search *search, int64_t after)
{
    const struct jobsched_schedule *schedule = search->schedule;
    struct exclusion exclusion;
    int64_t at = jsi_parsed_raw_next(schedule, after);
    while (at != JSI_NO_TIME && !gave_up(search)) {
        if (is_included(search, at, local_in(schedule->zone, at), &exclusion)) {
            return at;
        }
        if (schedule->calendar_policy != JOBSCHED_CALENDAR_SKIP) {
            return next_included(search, at, exclusion, JSI_LOCAL_MAX);
        }
        at = jsi_parsed_raw_next(schedule, at);
    }
    return JSI_NO_TIME;
}

static int64_t search_next(struct search *search, int64_t after)
{
    const struct jobsched_schedule *schedule = search->schedule;
    struct exclusion exclusion = {.calendar = schedule->calendars[0]}; /* there is at least one */
    int64_t from = after;
    if (schedule->kind == JSI_KIND_AFTER) {
        return after_next(search, after);
    }
    if (schedule->calendar_policy != JOBSCHED_CALENDAR_SKIP && after < JSI_LOCAL_MAX) {
        /* One that lies behind may have been moved to what lies ahead. */
        int64_t raw = jsi_parsed_raw_previous(schedule, after + 1);
        int64_t at = raw == JSI_NO_TIME_PAST ? JSI_NO_TIME : effective(search, raw, &exclusion);
        if (at != JSI_NO_TIME && at > after) {
            return at;
        }
    }
    while (!gave_up(search)) {
        int64_t raw = jsi_parsed_raw_next(schedule, from);
        if (raw == JSI_NO_TIME) {
            return JSI_NO_TIME;
        }
        int64_t at = effective(search, raw, &exclusion);
        if (at != JSI_NO_TIME && at > after) {
            return at;
        }
        from = raw;
        if (at == JSI_NO_TIME && schedule->calendar_policy == JOBSCHED_CALENDAR_SKIP) {
            from = stretch_end(schedule, raw, &exclusion) - 1;
        } else if (at == JSI_NO_TIME && schedule->calendar_policy == JOBSCHED_CALENDAR_NEXT) {
            /* The last one before the first included instant is moved there, if none lies
             * there itself. */
            at = next_included(search, raw, exclusion, JSI_LOCAL_MAX);
            if (at == JSI_NO_TIME || jsi_parsed_raw_next(schedule, at - 1) != at) {
                return at;
            }
            from = at - 1;
        }
    }
    return JSI_NO_TIME;
}

int64_t jsi_calendars_next(const struct jobsched_schedule *schedule, int64_t after,
                           bool *out_gave_up)
{
    struct search search = {schedule, SEARCH_BUDGET};
    int64_t next = search_next(&search, after);
    if (out_gave_up != NULL) {
        *out_gave_up = next == JSI_NO_TIME && gave_up(&search);
    }
    return next;
}

int64_t jsi_calendars_previous(const struct jobsched_schedule *schedule, int64_t before)
{
    struct search search = {schedule, SEARCH_BUDGET};
    struct exclusion exclusion = {.calendar = schedule->calendars[0]}; /* there is at least one */
    int64_t to = before;
    if (schedule->calendar_policy == JOBSCHED_CALENDAR_PREVIOUS_DAY && before > JSI_LOCAL_MIN) {
        int64_t raw = jsi_parsed_raw_next(schedule, before - 1);
        int64_t at = raw == JSI_NO_TIME ? JSI_NO_TIME : effective(&search, raw, &exclusion);
        if (at != JSI_NO_TIME && at < before) {
            return at;
        }
    }
    while (!gave_up(&search)) {
        int64_t raw = jsi_parsed_raw_previous(schedule, to);
        if (raw == JSI_NO_TIME_PAST) {
            return JSI_NO_TIME_PAST;
        }
        int64_t at = effective(&search, raw, &exclusion);
        if (at != JSI_NO_TIME && at < before) {
            return at;
        }
        to = raw;
        if (at == JSI_NO_TIME && (schedule->calendar_policy == JOBSCHED_CALENDAR_SKIP ||
                                  schedule->calendar_policy == JOBSCHED_CALENDAR_NEXT)) {
            to = stretch_begin(schedule, raw, &exclusion);
        }
    }
    return JSI_NO_TIME_PAST;
}

int64_t jsi_calendars_origin(const struct jobsched_schedule *schedule, int64_t at)
{
    struct search search = {schedule, SEARCH_BUDGET};
    struct exclusion exclusion;
    const int64_t candidates[3] = {jsi_parsed_raw_next(schedule, at - 1),
                                   jsi_parsed_raw_previous(schedule, at),
                                   jsi_parsed_raw_next(schedule, at)};
    for (int i = 0; i < 3; i++) {
        int64_t raw = candidates[i];
        if (raw != JSI_NO_TIME && raw != JSI_NO_TIME_PAST &&
            effective(&search, raw, &exclusion) == at) {
            return raw;
        }
    }
    return JSI_NO_TIME;
}
