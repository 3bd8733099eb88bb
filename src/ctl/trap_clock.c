/* trap_clock.c: traps that only a time zone and a calendar bring: times that a change of the clocks
 * leaves out or repeats, one-shots that are over, intervals that drift. No state, no locks. */
#include "ctl/instant.h"
#include "ctl/trap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)
#define YEARS  3
#define DAYS   (YEARS * 366)

/* Occurrences looked at around one change of the clocks: two days of every second are too many to
 * be worth it, and what is so frequent is not a trap there. */
#define LOOKS_MAX 600

/* One change of the clocks: wall clock times on both sides of the instant, as if they were UTC. */
typedef struct change {
    int64_t at_ms;
    int64_t before_ms, after_ms;
} change;

static jobsched_schedule *second_probe(const char *zone)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule;

    JOBSCHED_INIT(&options);
    options.timezone = zone;
    return jobsched_schedule_parse("@every 1s", &options, &schedule) == JOBSCHED_OK ? schedule
                                                                                    : NULL;
}

static int64_t offset_ms_of(const jobsched_schedule *schedule, int64_t at_ms)
{
    jobsched_occurrence occurrence;

    JOBSCHED_INIT(&occurrence);
    return jobsched_schedule_occurrence(schedule, at_ms, &occurrence) == JOBSCHED_OK
               ? occurrence.offset_s * INT64_C(1000)
               : 0;
}

/* Finds the second in (low, high] from which on the offset is no longer that of low. */
static change find_change(const jobsched_schedule *seconds, int64_t low_ms, int64_t high_ms)
{
    int64_t old_ms = offset_ms_of(seconds, low_ms);
    change result;

    while (high_ms - low_ms > 1000) {
        int64_t middle_ms = low_ms + (high_ms - low_ms) / 2000 * 1000;

        if (offset_ms_of(seconds, middle_ms) == old_ms) {
            low_ms = middle_ms;
        } else {
            high_ms = middle_ms;
        }
    }
    result.at_ms = high_ms;
    result.before_ms = high_ms + old_ms;
    result.after_ms = high_ms + offset_ms_of(seconds, high_ms);
    return result;
}

/* What is to be told of one occurrence near a change of the clocks; seen keeps each kind to its
 * first example. */
static void look(ctl_search *search, const jobsched_occurrence *occurrence, const change *near,
                 int all_hours, unsigned *seen)
{
    const char *zone = jobsched_schedule_zone(search->schedule);
    char nominal[CTL_INSTANT_BYTES], date[CTL_INSTANT_BYTES];
    char from[CTL_INSTANT_BYTES], to[CTL_INSTANT_BYTES], day[CTL_INSTANT_BYTES];
    uint32_t flags = occurrence->flags & ~(uint32_t)*seen;
    size_t position = search->fields[CTL_HOUR].at;

    ctl_instant_time(occurrence->nominal_local_ms, nominal);
    ctl_instant_date(occurrence->nominal_local_ms, date);
    ctl_instant_time(near->before_ms, from);
    ctl_instant_time(near->after_ms, to);
    ctl_instant_date(near->before_ms, day);
    if (flags & JOBSCHED_OCCURRENCE_SHIFTED) {
        ctl_trap_add(search, "dst-gap", position,
                     "%s does not exist on %s in %s: it fires when the clock jumps to %s", nominal,
                     date, zone, to);
        *seen |= JOBSCHED_OCCURRENCE_SHIFTED;
    }
    if ((flags & JOBSCHED_OCCURRENCE_AFTER_GAP) && !all_hours) {
        ctl_trap_add(search, "dst-gap", position,
                     "on %s the clocks of %s jump from %s to %s: its times between are left out",
                     day, zone, from, to);
        *seen |= JOBSCHED_OCCURRENCE_AFTER_GAP;
    }
    if (flags & JOBSCHED_OCCURRENCE_REPEATS) {
        ctl_trap_add(search, "dst-overlap", position,
                     "%s comes twice on %s in %s: it fires the first time only", nominal, date,
                     zone);
        *seen |= JOBSCHED_OCCURRENCE_REPEATS;
    }
    if ((flags & JOBSCHED_OCCURRENCE_SECOND_PASS) && !all_hours) {
        ctl_trap_add(search, "dst-overlap", position, "%s comes twice on %s in %s: it fires twice",
                     nominal, date, zone);
        *seen |= JOBSCHED_OCCURRENCE_SECOND_PASS;
    }
}

/* From a day before the change, as what comes again is told the first time, to two days behind it,
 * as what a gap leaves out is told by the occurrence that follows. */
static void look_around(ctl_search *search, const change *near, int all_hours, unsigned *seen)
{
    int64_t at_ms = near->at_ms - DAY_MS - 1000;

    for (int i = 0; i < LOOKS_MAX; i++) {
        jobsched_occurrence occurrence;

        at_ms = jobsched_schedule_next(search->schedule, at_ms);
        if (at_ms == JOBSCHED_NONE || at_ms >= near->at_ms + 2 * DAY_MS) {
            return;
        }
        JOBSCHED_INIT(&occurrence);
        if (jobsched_schedule_occurrence(search->schedule, at_ms, &occurrence) == JOBSCHED_OK) {
            look(search, &occurrence, near, all_hours, seen);
        }
    }
}

static void find_clock_changes(ctl_search *search)
{
    jobsched_schedule *seconds = second_probe(jobsched_schedule_zone(search->schedule));
    int hours[24], all_hours = 1;
    unsigned seen = 0;
    int64_t day_ms = search->from_ms - (search->from_ms % DAY_MS + DAY_MS) % DAY_MS;

    ctl_search_hours(search, hours);
    for (int hour = 0; hour < 24; hour++) {
        all_hours = all_hours && hours[hour];
    }
    for (int day = 0; seconds != NULL && day < DAYS; day++, day_ms += DAY_MS) {
        if (offset_ms_of(seconds, day_ms) != offset_ms_of(seconds, day_ms + DAY_MS)) {
            change near = find_change(seconds, day_ms, day_ms + DAY_MS);

            look_around(search, &near, all_hours, &seen);
        }
    }
    jobsched_schedule_free(seconds);
}

/* "@every" of whole days. */
static int is_daily_interval(const ctl_search *search)
{
    int64_t first_ms = jobsched_schedule_next(search->schedule, search->from_ms);
    int64_t second_ms =
        first_ms == JOBSCHED_NONE ? first_ms : jobsched_schedule_next(search->schedule, first_ms);

    return second_ms != JOBSCHED_NONE && (second_ms - first_ms) % DAY_MS == 0;
}

/* Whether an expression that is no cron begins like this, and where. */
static int begins(const ctl_search *search, const char *word, size_t *out_at)
{
    const char *at = search->text;

    at += strspn(at, " \t");
    if (*at != '@') {
        at += strcspn(at, " \t");
        at += strspn(at, " \t");
    }
    *out_at = (size_t)(at - search->text);
    return strncmp(at, word, strlen(word)) == 0;
}

void ctl_traps_clock(ctl_search *search)
{
    int is_utc = strcmp(jobsched_schedule_zone(search->schedule), "UTC") == 0;
    size_t at;

    if (jobsched_schedule_next(search->schedule, search->from_ms) == JOBSCHED_NONE) {
        at = begins(search, "@at", &at) ? at : search->fields[CTL_YEAR].at;
        ctl_trap_add(search, "past", at, "this is over: it never fires again");
    } else if (is_utc || begins(search, "@at", &at) || begins(search, "@after", &at)) {
        return;
    } else if (!begins(search, "@every ", &at)) {
        find_clock_changes(search);
    } else if (is_daily_interval(search)) {
        ctl_trap_add(search, "drift", at,
                     "'@every' counts elapsed time: the local time in %s changes with its clocks; "
                     "for a fixed local time use five fields",
                     jobsched_schedule_zone(search->schedule));
    }
}
