/* schedule.c: the public functions about schedules. Pure: no clock, no threads, no
 * memory but the schedule itself. A schedule is immutable, so there are no locks. */
#include "schedule/schedule.h"

#include "schedule/calendar.h"

/* Milliseconds are rounded down to seconds, also below zero: occurrences lie on whole
 * seconds, so the first one after 1.5 s is the first one after 1 s. */
static int64_t floor_second(int64_t ms)
{
    return jsi_floor_div(ms, 1000);
}

static int64_t ceiling_second(int64_t ms)
{
    return floor_second(ms) + (ms % 1000 != 0 ? 1 : 0);
}

static int64_t every_next(const struct jobsched_schedule *schedule, int64_t after)
{
    int64_t from = after < JSI_LOCAL_MIN - 1 ? JSI_LOCAL_MIN - 1 : after;
    if (from >= JSI_LOCAL_MAX) {
        return JSI_NO_TIME;
    }
    int64_t step = schedule->step;
    int64_t next =
        schedule->anchor.utc + (jsi_floor_div(from - schedule->anchor.utc, step) + 1) * step;
    return next > JSI_LOCAL_MAX ? JSI_NO_TIME : next;
}

static int64_t every_previous(const struct jobsched_schedule *schedule, int64_t before)
{
    int64_t to = before > JSI_LOCAL_MAX ? JSI_LOCAL_MAX : before - 1;
    if (to < JSI_LOCAL_MIN) {
        return JSI_NO_TIME_PAST;
    }
    int64_t step = schedule->step;
    int64_t previous = schedule->anchor.utc + jsi_floor_div(to - schedule->anchor.utc, step) * step;
    return previous < JSI_LOCAL_MIN ? JSI_NO_TIME_PAST : previous;
}

/* The span is one of local years, like that of cron; only grids have no clock but UTC. */
bool jsi_parsed_at_exists(const struct jobsched_schedule *schedule)
{
    int64_t local = jsi_parsed_nominal(schedule, schedule->anchor.utc);
    return local >= JSI_LOCAL_MIN && local <= JSI_LOCAL_MAX;
}

/* Counted from the given instant, which is taken for the end of the last run. */
static int64_t after_next(const struct jobsched_schedule *schedule, int64_t after)
{
    int64_t from = after < JSI_LOCAL_MIN ? JSI_LOCAL_MIN : after;
    return from > JSI_LOCAL_MAX - schedule->step ? JSI_NO_TIME : from + schedule->step;
}

int64_t jsi_parsed_raw_next(const struct jobsched_schedule *schedule, int64_t after)
{
    switch (schedule->kind) {
    case JSI_KIND_CRON:
        return jsi_cron_next(&schedule->cron, schedule->zone, after);
    case JSI_KIND_EVERY:
        return every_next(schedule, after);
    case JSI_KIND_AFTER:
        return after_next(schedule, after);
    case JSI_KIND_AT:
        break;
    }
    return jsi_parsed_at_exists(schedule) && schedule->anchor.utc > after ? schedule->anchor.utc
                                                                          : JSI_NO_TIME;
}

int64_t jsi_parsed_raw_previous(const struct jobsched_schedule *schedule, int64_t before)
{
    switch (schedule->kind) {
    case JSI_KIND_CRON:
        return jsi_cron_previous(&schedule->cron, schedule->zone, before);
    case JSI_KIND_EVERY:
        return every_previous(schedule, before);
    case JSI_KIND_AFTER:
        return JSI_NO_TIME_PAST; /* it depends on runs, not on the calendar */
    case JSI_KIND_AT:
        break;
    }
    return jsi_parsed_at_exists(schedule) && schedule->anchor.utc < before ? schedule->anchor.utc
                                                                           : JSI_NO_TIME_PAST;
}

int64_t jsi_parsed_next(const struct jobsched_schedule *schedule, int64_t after)
{
    if (schedule->never) {
        return JSI_NO_TIME;
    }
    return schedule->calendar_count == 0 ? jsi_parsed_raw_next(schedule, after)
                                         : jsi_calendars_next(schedule, after, NULL);
}

int64_t jsi_parsed_previous(const struct jobsched_schedule *schedule, int64_t before)
{
    if (schedule->never) {
        return JSI_NO_TIME_PAST;
    }
    return schedule->calendar_count == 0 ? jsi_parsed_raw_previous(schedule, before)
                                         : jsi_calendars_previous(schedule, before);
}

int64_t jobsched_schedule_next(const jobsched_schedule *schedule, int64_t after_ms)
{
    if (schedule == NULL) {
        return JOBSCHED_NONE;
    }
    /* A delay is rounded up, so that it is never shorter than what was asked for. */
    int64_t after =
        schedule->kind == JSI_KIND_AFTER ? ceiling_second(after_ms) : floor_second(after_ms);
    int64_t next = jsi_parsed_next(schedule, after);
    JSI_ASSERT(next == JSI_NO_TIME || next > floor_second(after_ms));
    return next == JSI_NO_TIME ? JOBSCHED_NONE : next * 1000;
}

int64_t jobsched_schedule_previous(const jobsched_schedule *schedule, int64_t before_ms)
{
    if (schedule == NULL) {
        return JOBSCHED_NONE;
    }
    int64_t previous = jsi_parsed_previous(schedule, ceiling_second(before_ms));
    JSI_ASSERT(previous < ceiling_second(before_ms));
    return previous == JSI_NO_TIME_PAST ? JOBSCHED_NONE : previous * 1000;
}

int jobsched_schedule_matches(const jobsched_schedule *schedule, int64_t at_ms)
{
    if (schedule == NULL || at_ms % 1000 != 0 || schedule->kind == JSI_KIND_AFTER) {
        return 0;
    }
    return jsi_parsed_next(schedule, at_ms / 1000 - 1) == at_ms / 1000;
}

int jobsched_schedule_is_never(const jobsched_schedule *schedule)
{
    return schedule != NULL && schedule->never;
}

void jobsched_schedule_free(jobsched_schedule *schedule)
{
    if (schedule != NULL) {
        /* The allocator lives in what it frees. */
        jobsched_allocator allocator = schedule->allocator;
        jsi_zone_release(schedule->zone);
        for (size_t i = 0; i < schedule->calendar_count; i++) {
            jsi_calendar_release(schedule->calendars[i]);
        }
        jsi_free(&allocator, schedule);
    }
}

const char *jobsched_schedule_zone(const jobsched_schedule *schedule)
{
    return schedule == NULL ? "" : schedule->zone->name;
}

const char *jobsched_schedule_zone_version(const jobsched_schedule *schedule)
{
    return schedule == NULL ? "" : schedule->zone->version;
}

int64_t jobsched_schedule_uncertain_after(const jobsched_schedule *schedule)
{
    int64_t after = schedule == NULL ? INT64_MAX : schedule->zone->uncertain_after;
    return after > JSI_LOCAL_MAX ? JOBSCHED_NONE : after * 1000;
}

int64_t jsi_schedule_delay_ms(const jobsched_schedule *schedule)
{
    return schedule->kind == JSI_KIND_AFTER ? schedule->step * 1000 : 0;
}

const char *jsi_schedule_text(const jobsched_schedule *schedule)
{
    return schedule->text;
}

/* Intervals are counted by division. */
static int64_t every_count(const struct jobsched_schedule *schedule, int64_t after, int64_t upto,
                           int64_t limit, int64_t *out_last)
{
    int64_t first = every_next(schedule, after);
    int64_t last = every_previous(schedule, upto < JSI_LOCAL_MAX ? upto + 1 : JSI_NO_TIME);
    if (first == JSI_NO_TIME || last == JSI_NO_TIME_PAST || last < first) {
        return 0;
    }
    int64_t count = (last - first) / schedule->step + 1;
    if (count > limit) {
        count = limit;
    }
    *out_last = first + (count - 1) * schedule->step;
    return count;
}

int64_t jsi_schedule_count(const jobsched_schedule *schedule, int64_t after_ms, int64_t upto_ms,
                           int64_t limit, int64_t *out_last_ms)
{
    int64_t after = floor_second(after_ms);
    int64_t upto = floor_second(upto_ms);
    int64_t last = 0;
    int64_t count = 0;
    if (limit <= 0 || upto <= after || schedule->kind == JSI_KIND_AFTER) {
        return 0;
    }
    if (schedule->kind == JSI_KIND_EVERY && schedule->calendar_count == 0) {
        count = every_count(schedule, after, upto, limit, &last);
    } else {
        int64_t next = jsi_parsed_next(schedule, after);
        while (count < limit && next != JSI_NO_TIME && next <= upto) {
            last = next;
            count++;
            next = jsi_parsed_next(schedule, next);
        }
    }
    if (count > 0) {
        *out_last_ms = last * 1000;
    }
    return count;
}
