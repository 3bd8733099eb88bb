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
static void look(ctl_search *search, const jobsched_occurrence *occurrence, size_t position,
                 int all_hours, unsigned *seen)
{
    const char *zone = jobsched_schedule_zone(search->schedule);
    char nominal[CTL_INSTANT_BYTES], date[CTL_INSTANT_BYTES], shown[CTL_INSTANT_BYTES];
    uint32_t flags = occurrence->flags & ~(uint32_t)*seen;

    ctl_instant_time(occurrence->nominal_local_ms, nominal);
    ctl_instant_date(occurrence->nominal_local_ms, date);
    ctl_instant_time(occurrence->local_ms, shown);
    if (flags & JOBSCHED_OCCURRENCE_SHIFTED) {
        ctl_trap_add(search, "dst-gap", position,
                     "%s does not exist on %s in %s: it fires when the clock jumps to %s", nominal,
                     date, zone, shown);
        *seen |= JOBSCHED_OCCURRENCE_SHIFTED;
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

/* From a day before the change, as what comes again is told the first time, to a day behind it. */
static void look_around(ctl_search *search, const change *near, int all_hours, unsigned *seen)
{
    int64_t at_ms = near->at_ms - DAY_MS - 1000;

    for (int i = 0; i < LOOKS_MAX; i++) {
        jobsched_occurrence occurrence;

        at_ms = jobsched_schedule_next(search->schedule, at_ms);
        if (at_ms == JOBSCHED_NONE || at_ms >= near->at_ms + DAY_MS) {
            return;
        }
        JOBSCHED_INIT(&occurrence);
        if (jobsched_schedule_occurrence(search->schedule, at_ms, &occurrence) == JOBSCHED_OK) {
            look(search, &occurrence, search->fields[CTL_HOUR].at, all_hours, seen);
        }
    }
}

/* Where the expression begins behind the prefix that sets its zone. */
static const char *body(const char *text)
{
    const char *at = text + strspn(text, " \t");
    size_t word = strcspn(at, " \t");

    if (memchr(at, '=', word) != NULL) {
        at += word;
        at += strspn(at, " \t");
    }
    return at;
}

/* Whether wall clock times that the expression names lie in the gap. Asked of the same expression
 * without a zone, as the next occurrence of a weekly job is too far behind to tell. */
static int is_swallowed(const ctl_search *search, const change *gap)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    int found;

    JOBSCHED_INIT(&options);
    options.key = search->key;
    if (jobsched_schedule_parse(body(search->text), &options, &schedule) != JOBSCHED_OK) {
        return 0;
    }
    found = jobsched_schedule_next(schedule, gap->before_ms - 1) < gap->after_ms;
    jobsched_schedule_free(schedule);
    return found;
}

static void look_into(ctl_search *search, const change *gap, unsigned *seen)
{
    char from[CTL_INSTANT_BYTES], to[CTL_INSTANT_BYTES];
    char day[CTL_INSTANT_BYTES], next_day[CTL_INSTANT_BYTES];
    jobsched_occurrence occurrence;

    JOBSCHED_INIT(&occurrence);
    if (gap->after_ms <= gap->before_ms || (*seen & JOBSCHED_OCCURRENCE_AFTER_GAP) ||
        !is_swallowed(search, gap)) {
        return;
    }
    if (jobsched_schedule_occurrence(search->schedule, gap->at_ms, &occurrence) == JOBSCHED_OK &&
        (occurrence.flags & JOBSCHED_OCCURRENCE_SHIFTED)) {
        return; /* it fires when the clock jumps */
    }
    ctl_instant_time(gap->before_ms, from);
    ctl_instant_time(gap->after_ms, to);
    ctl_instant_date(gap->before_ms, day);
    ctl_instant_date(gap->after_ms, next_day);
    ctl_trap_add(search, "dst-gap", search->fields[CTL_HOUR].at,
                 "on %s the clocks of %s jump from %s to %s%s%s: its times between are left out",
                 day, jobsched_schedule_zone(search->schedule), from, to,
                 strcmp(day, next_day) == 0 ? "" : " on ",
                 strcmp(day, next_day) == 0 ? "" : next_day);
    *seen |= JOBSCHED_OCCURRENCE_AFTER_GAP;
}

/* Calls visit for each change of the clocks in the years ahead until it returns 0. */
static void find_changes(ctl_search *search, int (*visit)(ctl_search *, const change *, void *),
                         void *data)
{
    const char *zone = jobsched_schedule_zone(search->schedule);
    jobsched_schedule *seconds = strcmp(zone, "UTC") == 0 ? NULL : second_probe(zone);
    int64_t day_ms = search->from_ms - (search->from_ms % DAY_MS + DAY_MS) % DAY_MS;
    int more = seconds != NULL;

    for (int day = 0; more && day < DAYS; day++, day_ms += DAY_MS) {
        if (offset_ms_of(seconds, day_ms) != offset_ms_of(seconds, day_ms + DAY_MS)) {
            change near = find_change(seconds, day_ms, day_ms + DAY_MS);

            more = visit(search, &near, data);
        }
    }
    jobsched_schedule_free(seconds);
}

typedef struct lookout {
    int all_hours;
    unsigned seen;
} lookout;

static int look_at_change(ctl_search *search, const change *near, void *data)
{
    lookout *out = data;

    look_around(search, near, out->all_hours, &out->seen);
    if (!out->all_hours) {
        look_into(search, near, &out->seen);
    }
    return 1;
}

static int note_change(ctl_search *search, const change *near, void *data)
{
    (void)search;
    (void)near;
    *(int *)data = 1;
    return 0;
}

static void find_clock_changes(ctl_search *search)
{
    lookout out = {1, 0};
    int hours[24];

    ctl_search_hours(search, hours);
    for (int hour = 0; hour < 24; hour++) {
        out.all_hours = out.all_hours && hours[hour];
    }
    find_changes(search, look_at_change, &out);
}

/* "@every" of whole days. */
static int is_daily_interval(const ctl_search *search)
{
    int64_t first_ms = jobsched_schedule_next(search->schedule, search->from_ms);
    int64_t second_ms =
        first_ms == JOBSCHED_NONE ? first_ms : jobsched_schedule_next(search->schedule, first_ms);

    return second_ms != JOBSCHED_NONE && (second_ms - first_ms) % DAY_MS == 0;
}

/* "@every" of whole days is meant for a time of the day, which it leaves where clocks change. */
static void find_drift(ctl_search *search, size_t at)
{
    int changes = 0;

    if (is_daily_interval(search)) {
        find_changes(search, note_change, &changes);
    }
    if (changes) {
        ctl_trap_add(search, "drift", at,
                     "'@every' counts elapsed time: the local time in %s changes with its clocks; "
                     "for a fixed local time use five fields",
                     jobsched_schedule_zone(search->schedule));
    }
}

/* The one occurrence of "@at". */
static void look_at_once(ctl_search *search, size_t at)
{
    jobsched_occurrence occurrence;
    unsigned seen = 0;

    JOBSCHED_INIT(&occurrence);
    if (jobsched_schedule_occurrence(search->schedule,
                                     jobsched_schedule_next(search->schedule, search->from_ms),
                                     &occurrence) == JOBSCHED_OK) {
        look(search, &occurrence, at, 0, &seen);
    }
}

/* Whether the expression is of this form, and where it begins. */
static int is_form(const ctl_search *search, const char *word, size_t *out_at)
{
    const char *at = body(search->text);
    size_t bytes = strlen(word);

    *out_at = (size_t)(at - search->text);
    return strncmp(at, word, bytes) == 0 && (at[bytes] == ' ' || at[bytes] == '\t');
}

void ctl_traps_clock(ctl_search *search)
{
    size_t at;

    if (jobsched_schedule_next(search->schedule, search->from_ms) == JOBSCHED_NONE) {
        at = is_form(search, "@at", &at) ? at : search->fields[CTL_YEAR].at;
        ctl_trap_add(search, "past", at, "this is over: it never fires again");
    } else if (is_form(search, "@at", &at)) {
        look_at_once(search, at);
    } else if (is_form(search, "@every", &at)) {
        find_drift(search, at);
    } else if (!is_form(search, "@after", &at)) {
        find_clock_changes(search);
    }
}
