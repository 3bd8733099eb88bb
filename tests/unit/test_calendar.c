/* Calendars: rules and their errors, what the policies make of excluded occurrences, the
 * same by a naive evaluator on random cases, and the bound on every search (G11, G12). */
#include "unit/walker.h"

#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FIXTURES JOBSCHED_TESTS_DATA "/zoneinfo-slim"

static jobsched_calendar *calendar_of(const char *text, const char *zone)
{
    jobsched_calendar_options options;
    jobsched_calendar *calendar = NULL;
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.zone_directory = FIXTURES;
    if (jobsched_calendar_parse(text, &options, &calendar) != JOBSCHED_OK) {
        fail_msg("'%s': %s", text, jobsched_last_error()->message);
    }
    return calendar;
}

/* The schedule keeps the calendar, so the test gives its own hold up at once. */
static jobsched_schedule *schedule_of(const char *text, const char *zone, const char *rules,
                                      const char *calendar_zone, int policy)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    jobsched_calendar *calendar = calendar_of(rules, calendar_zone);
    const jobsched_calendar *calendars[2] = {calendar, NULL};
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.zone_directory = FIXTURES;
    options.calendars = calendars;
    options.calendar_policy = policy;
    if (jobsched_schedule_parse(text, &options, &schedule) != JOBSCHED_OK) {
        fail_msg("'%s': %s", text, jobsched_last_error()->message);
    }
    jobsched_calendar_free(calendar);
    return schedule;
}

/* 2027-01-01 was a Friday. */
static const int64_t base = INT64_C(1798761600);

static int64_t on(int day, int hour, int minute)
{
    return (base + (day - 1) * INT64_C(86400) + hour * 3600 + minute * 60) * 1000;
}

static void test_rules_include_and_exclude(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        int day, hour, minute;
        int included;
    } rows[] = {
        {"", 1, 0, 0, 1},
        {"exclude all", 1, 0, 0, 0},
        {"exclude all; include 09:00..17:00", 1, 9, 0, 1},
        {"exclude all; include 09:00..17:00", 1, 16, 59, 1},
        {"exclude all; include 09:00..17:00", 1, 17, 0, 0},
        {"exclude 22:00..06:00", 1, 23, 0, 0},
        {"exclude 22:00..06:00", 1, 5, 59, 0},
        {"exclude 22:00..06:00", 1, 6, 0, 1},
        {"exclude 18:00..24:00", 1, 23, 59, 0},
        {"exclude 2027-01-02", 1, 23, 59, 1},
        {"exclude 2027-01-02", 2, 0, 0, 0},
        {"exclude 2027-01-02", 3, 0, 0, 1},
        {"exclude 2027-01-02..2027-01-04", 4, 23, 59, 0},
        {"exclude 01-03", 3, 12, 0, 0},
        {"exclude 12-24..01-06", 6, 12, 0, 0},
        {"exclude 12-24..01-06", 7, 0, 0, 1},
        {"exclude SAT,SUN", 1, 12, 0, 1},
        {"exclude SAT,SUN", 2, 12, 0, 0},
        {"exclude FRI-MON", 4, 12, 0, 0},
        {"exclude FRI-MON", 5, 12, 0, 1},
        {"exclude SAT\ninclude 2027-01-02", 2, 12, 0, 1},
        {"include 2027-01-02\nexclude SAT", 2, 12, 0, 0},
        {" # none\n\n exclude SAT # weekends; exclude all\n", 1, 0, 0, 1},
        {"exclude cron */10 9-17 * * MON-FRI", 1, 9, 10, 0},
        {"exclude cron */10 9-17 * * MON-FRI", 1, 9, 11, 1},
        {"exclude cron 30 30 9 * * *", 1, 9, 30, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_calendar *calendar = calendar_of(rows[i].rules, NULL);
        int64_t at = on(rows[i].day, rows[i].hour, rows[i].minute);
        if (jobsched_calendar_includes(calendar, at) != rows[i].included) {
            fail_msg("row %zu: '%s'", i, rows[i].rules);
        }
        jobsched_calendar_free(calendar);
    }
    /* In a zone: New Year's Eve in Berlin is 23:00Z to 23:00Z. */
    jobsched_calendar *calendar = calendar_of("exclude 2027-01-01", "Europe/Berlin");
    assert_int_equal(jobsched_calendar_includes(calendar, on(1, -1, 0)), 0);
    assert_int_equal(jobsched_calendar_includes(calendar, on(1, 23, 0)), 1);
    jobsched_calendar_free(calendar);
    assert_int_equal(jobsched_calendar_includes(NULL, 0), 1);
    jobsched_calendar_free(NULL);
}

static void test_bad_rules_tell_where(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        int position, reason;
    } rows[] = {
        {"omit SAT", 0, JOBSCHED_SYNTAX_NAME},
        {"exclude", 7, JOBSCHED_SYNTAX_SYNTAX},
        {"exclude SAT\nexclude", 19, JOBSCHED_SYNTAX_SYNTAX},
        {"exclude SAT;exclude FOO", 20, JOBSCHED_SYNTAX_NAME},
        {"exclude SAT SUN", 12, JOBSCHED_SYNTAX_SYNTAX},
        {"exclude 2027-02-29", 8, JOBSCHED_SYNTAX_INSTANT},
        {"exclude 2027-01-05..2027-01-04", 8, JOBSCHED_SYNTAX_REVERSED},
        {"exclude 2027-01-05..", 20, JOBSCHED_SYNTAX_INSTANT},
        {"exclude 13-01", 8, JOBSCHED_SYNTAX_INSTANT},
        {"exclude 24:30..25:00", 8, JOBSCHED_SYNTAX_INSTANT},
        {"exclude 08:00", 8, JOBSCHED_SYNTAX_REVERSED},
        {"exclude 08:00..08:00", 8, JOBSCHED_SYNTAX_REVERSED},
        {"exclude MON#1", 8, JOBSCHED_SYNTAX_DAY_SPEC},
        {"exclude +MON", 8, JOBSCHED_SYNTAX_DAY_SPEC},
        {"exclude cron", 12, JOBSCHED_SYNTAX_FIELD_COUNT},
        {"exclude SAT\nexclude cron 60 * * * *", 25, JOBSCHED_SYNTAX_RANGE},
        {"exclude cron H * * * *", 13, JOBSCHED_SYNTAX_NO_KEY},
        {"exclude SAT\r\n", 11, JOBSCHED_SYNTAX_BAD_CHAR},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_calendar *calendar = NULL;
        int code = jobsched_calendar_parse(rows[i].rules, NULL, &calendar);
        const jobsched_error *error = jobsched_last_error();
        if (code != JOBSCHED_EPARSE || error->position != rows[i].position ||
            error->reason != rows[i].reason) {
            fail_msg("row %zu '%s': code %d, reason %d at %lld: %s", i, rows[i].rules, code,
                     error->reason, (long long)error->position, error->message);
        }
    }
    jobsched_calendar *calendar = NULL;
    assert_int_equal(jobsched_calendar_parse("exclude SAT\nexclude FOO", NULL, &calendar),
                     JOBSCHED_EPARSE);
    assert_string_equal(jobsched_last_error()->message,
                        "day-of-week: 'FOO' is not a name of this field at column 9 "
                        "(\"exclude FOO\")");
    jobsched_calendar_options options;
    JOBSCHED_INIT(&options);
    options.timezone = "Nowhere/City";
    assert_int_equal(jobsched_calendar_parse("", &options, &calendar), JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_ZONE);
}

static const struct {
    const char *schedule, *rules;
    int policy;
    int after[3]; /* day, hour, minute */
    int first[3], second[3];
    uint32_t flags; /* of the first */
} moves[] = {
    /* Friday 1, Saturday 2, Sunday 3, Monday 4. */
    {"0 3 * * *", "exclude SAT,SUN", JOBSCHED_CALENDAR_SKIP, {1, 3, 0}, {4, 3, 0}, {5, 3, 0}, 0},
    {"0 3 * * SAT",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_NEXT,
     {1, 3, 0},
     {4, 0, 0},
     {11, 0, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    {"0 3 * * SAT",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_NEXT_DAY,
     {1, 3, 0},
     {4, 3, 0},
     {11, 3, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    {"0 3 * * SAT",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_PREVIOUS_DAY,
     {1, 2, 0},
     {1, 3, 0},
     {8, 3, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    /* Both days of a weekend stand for one run on Friday. */
    {"0 3 * * SAT,SUN",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_PREVIOUS_DAY,
     {1, 2, 0},
     {1, 3, 0},
     {8, 3, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    {"0 3 * * *",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_PREVIOUS_DAY,
     {1, 2, 0},
     {1, 3, 0},
     {4, 3, 0},
     0},
    {"0 3 * * *",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_NEXT,
     {1, 3, 0},
     {4, 0, 0},
     {4, 3, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    {"0 3 * * *",
     "exclude 02:00..05:30",
     JOBSCHED_CALENDAR_NEXT,
     {1, 0, 0},
     {1, 5, 30},
     {2, 5, 30},
     JOBSCHED_OCCURRENCE_MOVED},
    {"*/20 * * * *",
     "exclude 02:10..03:50",
     JOBSCHED_CALENDAR_NEXT,
     {1, 2, 0},
     {1, 3, 50},
     {1, 4, 0},
     JOBSCHED_OCCURRENCE_MOVED},
    {"@every 1d from 2027-01-01T12:00:00Z",
     "exclude 2027-01-02..2027-01-30",
     JOBSCHED_CALENDAR_SKIP,
     {1, 12, 0},
     {31, 12, 0},
     {32, 12, 0},
     0},
    {"@at 2027-01-02T10:00:00Z",
     "exclude SAT,SUN",
     JOBSCHED_CALENDAR_NEXT_DAY,
     {1, 0, 0},
     {4, 10, 0},
     {0, 0, 0},
     JOBSCHED_OCCURRENCE_MOVED},
};

static void test_policies_move_excluded_occurrences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        jobsched_schedule *schedule =
            schedule_of(moves[i].schedule, NULL, moves[i].rules, NULL, moves[i].policy);
        const int *after = moves[i].after;
        const int *first = moves[i].first;
        const int *second = moves[i].second;
        int64_t wanted = on(first[0], first[1], first[2]);
        int64_t then = second[0] == 0 ? JOBSCHED_NONE : on(second[0], second[1], second[2]);
        int64_t got = jobsched_schedule_next(schedule, on(after[0], after[1], after[2]));
        jobsched_occurrence occurrence;
        JOBSCHED_INIT(&occurrence);
        if (got != wanted || jobsched_schedule_next(schedule, got) != then ||
            jobsched_schedule_previous(schedule, got + 1000) != got ||
            (then != JOBSCHED_NONE && jobsched_schedule_previous(schedule, then) != got) ||
            jobsched_schedule_occurrence(schedule, got, &occurrence) != JOBSCHED_OK ||
            occurrence.flags != moves[i].flags) {
            fail_msg("row %zu: got %lld wanted %lld, then %lld wanted %lld, flags %u", i,
                     (long long)got, (long long)wanted,
                     (long long)jobsched_schedule_next(schedule, got), (long long)then,
                     occurrence.flags);
        }
        jobsched_schedule_free(schedule);
    }
}

/* The test is by the time that the schedule names: at 00:30 on 31 March 2024 Nuuk's clock
 * had jumped from 22:00 on the 30th to 23:00, so 22:30 of the 30th fires at 23:00. */
static void test_the_nominal_time_is_tested(void **state)
{
    (void)state;
    jobsched_schedule *excluded =
        schedule_of("30 2 * * *", "America/New_York", "exclude 02:00..02:59", NULL, 0);
    jobsched_schedule *included =
        schedule_of("30 2 * * *", "America/New_York", "exclude 03:00..03:01", NULL, 0);
    /* 10 March 2024: 02:30 does not exist and fires at 03:00, 07:00Z. */
    assert_int_equal(jobsched_schedule_matches(excluded, INT64_C(1710054000000)), 0);
    assert_int_equal(jobsched_schedule_matches(included, INT64_C(1710054000000)), 1);
    jobsched_schedule_free(excluded);
    jobsched_schedule_free(included);
    /* With a zone of its own, by what the clock shows there. */
    jobsched_schedule *elsewhere =
        schedule_of("30 2 * * *", "America/New_York", "exclude 07:00..07:01", "Etc/UTC", 0);
    assert_int_equal(jobsched_schedule_matches(elsewhere, INT64_C(1710054000000)), 0);
    jobsched_schedule_free(elsewhere);
}

/* A move by days passes over a day that never was: Apia went from 29 to 31 December 2011. */
static void test_no_move_leads_to_a_day_that_never_was(void **state)
{
    (void)state;
    jobsched_schedule *later = schedule_of("0 12 29 12 *", "Pacific/Apia", "exclude 12-29", NULL,
                                           JOBSCHED_CALENDAR_NEXT_DAY);
    jobsched_schedule *earlier = schedule_of("0 12 31 12 *", "Pacific/Apia", "exclude 12-31", NULL,
                                             JOBSCHED_CALENDAR_PREVIOUS_DAY);
    static const int64_t start = INT64_C(1322697600000); /* 2011-12-01T00:00:00Z */
    /* 12:00 on the 31st, and 12:00 on the 29th. */
    assert_true(jobsched_schedule_next(later, start) == INT64_C(1325282400000));
    assert_true(jobsched_schedule_next(earlier, start) == INT64_C(1325196000000));
    jobsched_schedule_free(later);
    jobsched_schedule_free(earlier);
}

static void test_a_delay_is_waited_out_again_or_until_included(void **state)
{
    (void)state;
    jobsched_schedule *again = schedule_of("@after 7h", NULL, "exclude SAT,SUN", NULL, 0);
    jobsched_schedule *until =
        schedule_of("@after 7h", NULL, "exclude SAT,SUN", NULL, JOBSCHED_CALENDAR_NEXT);
    assert_true(jobsched_schedule_next(again, on(1, 8, 0)) == on(1, 15, 0));
    assert_true(jobsched_schedule_next(again, on(1, 20, 0)) == on(4, 4, 0));
    assert_true(jobsched_schedule_next(until, on(1, 20, 0)) == on(4, 0, 0));
    jobsched_schedule_free(again);
    jobsched_schedule_free(until);
}

static void test_no_search_is_long(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *rules;
        int never;
    } rows[] = {{"* * * * *", "exclude all", 1},
                {"*/5 * * * *", "exclude cron */5 * * * *", 0},
                {"* * * * * *", "exclude 2027-01-01..2199-12-31", 0},
                {"0 3 * * *", "exclude 01-01..12-31; include 2190-05-05", 0},
                {"@every 1s", "exclude all", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int policy = 0; policy <= JOBSCHED_CALENDAR_PREVIOUS_DAY; policy++) {
            struct timespec begin;
            struct timespec end;
            (void)clock_gettime(CLOCK_MONOTONIC, &begin);
            jobsched_schedule *schedule =
                schedule_of(rows[i].schedule, NULL, rows[i].rules, NULL, policy);
            (void)jobsched_schedule_next(schedule, on(1, 0, 0));
            (void)jobsched_schedule_previous(schedule, INT64_MAX);
            (void)clock_gettime(CLOCK_MONOTONIC, &end);
            /* Some ten ms here; an unbounded search would go on for minutes. */
            assert_in_range(end.tv_sec - begin.tv_sec, 0, 60);
            /* Moves by days ask for each occurrence by itself, and are cut short. */
            int never = rows[i].never && policy <= JOBSCHED_CALENDAR_NEXT;
            if (jobsched_schedule_is_never(schedule) != never) {
                fail_msg("row %zu, policy %d: never should be %d", i, policy, never);
            }
            jobsched_schedule_free(schedule);
        }
    }
}

/* A rule of whole days is searched by days: half a year of excluded minutes is no reason to
 * call a schedule dead (G12). */
static void test_a_cron_rule_of_whole_days_hides_nothing_behind_it(void **state)
{
    (void)state;
    const int64_t from = INT64_C(1704067200000);  /* 2024-01-01 */
    const int64_t first = INT64_C(1719792000000); /* 2024-07-01 */
    static const struct {
        const char *schedule, *rule;
        int policy;
    } rows[] = {
        {"* * * * *", "exclude cron * * * 1-6 *", JOBSCHED_CALENDAR_SKIP},
        {"* * * * *", "exclude cron 0-59 */1 * 1-6 *", JOBSCHED_CALENDAR_NEXT},
        {"0 0 1 1 *", "exclude cron * * * 1-6 *", JOBSCHED_CALENDAR_NEXT},
        {"0 0 1 1 *", "exclude cron 30 * * * 1-6 *", JOBSCHED_CALENDAR_NEXT},
        /* A rule of minutes says nothing about days that it does not name. */
        {"* * * * *", "exclude 01-01..06-30; include cron 5 5 * 7-12 *", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_schedule *schedule =
            schedule_of(rows[i].schedule, NULL, rows[i].rule, NULL, rows[i].policy);
        int64_t got = jobsched_schedule_next(schedule, from - 1000);
        if (jobsched_schedule_is_never(schedule) || got != first) {
            fail_msg("row %zu: got %lld", i, (long long)got);
        }
        if (jobsched_schedule_previous(schedule, first) >= from) {
            fail_msg("row %zu: something in the excluded months", i);
        }
        jobsched_schedule_free(schedule);
    }
}

/* A search that was cut short has not shown that nothing comes: only a schedule without any
 * occurrence is never (G12). */
static void test_a_search_that_gave_up_is_not_never(void **state)
{
    (void)state;
    /* Since 1970 every five minutes excluded one by one; 2027 is not reached from there. */
    static const char rules[] = "exclude cron */5 * * * *; include 2027-01-05";
    for (int policy = 0; policy <= JOBSCHED_CALENDAR_PREVIOUS_DAY; policy++) {
        jobsched_schedule *schedule = schedule_of("*/5 * * * *", NULL, rules, NULL, policy);
        assert_int_equal(jobsched_schedule_is_never(schedule), 0);
        if (policy == JOBSCHED_CALENDAR_SKIP) {
            assert_true(jobsched_schedule_next(schedule, 0) == JOBSCHED_NONE);
            assert_true(jobsched_schedule_next(schedule, on(1, 0, 0)) == on(5, 0, 0));
            assert_true(jobsched_schedule_previous(schedule, on(6, 12, 0)) == on(5, 23, 55));
        }
        jobsched_schedule_free(schedule);
    }
    jobsched_schedule *none = schedule_of("0 0 30 2 *", NULL, "exclude SAT", NULL, 0);
    assert_int_equal(jobsched_schedule_is_never(none), 1);
    jobsched_schedule_free(none);
}

/* The bound counts rules, not only instants: with more of them fewer instants are looked at. */
static void test_a_question_is_bounded_by_the_rules_it_looks_at(void **state)
{
    (void)state;
    enum { RULES = 1200, LINE = 24 };
    char *rules = malloc((size_t)RULES * LINE);
    assert_non_null(rules);
    size_t used = 0;
    used += (size_t)snprintf(rules, LINE, "exclude 01-01..12-31\n");
    for (int i = 1; i < RULES; i++) {
        used += (size_t)snprintf(rules + used, LINE, "include 1969-01-01\n");
    }
    assert_true(used < (size_t)RULES * LINE);
    jobsched_schedule *many = schedule_of("0 0 * * *", NULL, rules, NULL, 0);
    jobsched_schedule *one = schedule_of("0 0 * * *", NULL, "exclude 01-01..12-31", NULL, 0);
    /* 84,006 days times 1,200 rules are too many, times one they are not. */
    assert_int_equal(jobsched_schedule_is_never(one), 1);
    assert_int_equal(jobsched_schedule_is_never(many), 0);
    assert_true(jobsched_schedule_next(many, on(1, 0, 0)) == JOBSCHED_NONE);
    assert_true(jobsched_schedule_previous(many, on(1, 0, 0)) == JOBSCHED_NONE);
    jobsched_schedule_free(many);
    jobsched_schedule_free(one);
    free(rules);
}

/* The policy applied by hand to one excluded occurrence between its neighbours. */
static int64_t moved_by_hand(const jobsched_calendar *calendar, int64_t raw, int64_t before,
                             int64_t after, int policy)
{
    int64_t step = policy == JOBSCHED_CALENDAR_NEXT       ? 1000
                   : policy == JOBSCHED_CALENDAR_NEXT_DAY ? 86400000
                                                          : -86400000;
    for (int64_t at = raw + step; policy != JOBSCHED_CALENDAR_SKIP && at > before && at < after;
         at += step) {
        if (jobsched_calendar_includes(calendar, at)) {
            return at;
        }
    }
    return JOBSCHED_NONE;
}

static void random_rules(uint64_t *state, char *out, size_t size)
{
    static const char *const rules[] = {"exclude SAT,SUN",           "exclude 09:00..17:30",
                                        "exclude 22:00..06:00",      "exclude 01-05..01-09",
                                        "exclude 2027-01-12",        "include MON",
                                        "exclude cron 0-29 * * * *", "include 2027-01-16",
                                        "include 04:00..04:30",      "exclude cron * 3,15 * * *"};
    size_t used = 0;
    int count = 1 + (int)(walker_random(state) % 4);
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s\n",
                                 rules[walker_random(state) % (sizeof rules / sizeof rules[0])]);
    }
}

/* Twenty days of a random schedule and calendar, forward and backward. */
static void compare(uint64_t *state)
{
    static const char *const texts[] = {
        "0 3 * * *", "*/20 * * * *",  "15,45 4-16/3 * * *", "0 0 * * SAT", "30 12 * * SAT,SUN,MON",
        "@every 7h", "0 10 10-13 * *"};
    char rules[256];
    int policy = (int)(walker_random(state) % 4);
    const char *text = texts[walker_random(state) % (sizeof texts / sizeof texts[0])];
    random_rules(state, rules, sizeof rules);
    jobsched_schedule *schedule = schedule_of(text, NULL, rules, NULL, policy);
    jobsched_schedule *raw = NULL;
    jobsched_calendar *calendar = calendar_of(rules, NULL);
    assert_int_equal(jobsched_schedule_parse(text, NULL, &raw), JOBSCHED_OK);
    int64_t got = jobsched_schedule_next(schedule, on(2, 0, 0));
    int64_t last = JOBSCHED_NONE;
    for (int64_t at = jobsched_schedule_next(raw, on(1, 0, 0) - 86400000 * INT64_C(8));
         at < on(22, 0, 0); at = jobsched_schedule_next(raw, at)) {
        int64_t wanted = at;
        if (!jobsched_calendar_includes(calendar, at)) {
            wanted = moved_by_hand(calendar, at, jobsched_schedule_previous(raw, at),
                                   jobsched_schedule_next(raw, at), policy);
        }
        if (wanted == JOBSCHED_NONE || wanted <= on(2, 0, 0)) {
            continue;
        }
        if (wanted != got ||
            (last != JOBSCHED_NONE && jobsched_schedule_previous(schedule, got) != last)) {
            fail_msg("'%s', policy %d, rules '%s': got %lld, wanted %lld (from %lld), before %lld",
                     text, policy, rules, (long long)got, (long long)wanted, (long long)at,
                     (long long)jobsched_schedule_previous(schedule, got));
        }
        assert_int_equal(jobsched_schedule_matches(schedule, got), 1);
        last = got;
        got = jobsched_schedule_next(schedule, got);
    }
    jobsched_schedule_free(schedule);
    jobsched_schedule_free(raw);
    jobsched_calendar_free(calendar);
}

static void test_random_calendars_equal_the_policy_by_hand(void **state)
{
    (void)state;
    const uint64_t seeds[3] = {3, 20270101, walker_fresh_seed()};
    for (int i = 0; i < 3; i++) {
        uint64_t random = seeds[i];
        print_message("seed %llu\n", (unsigned long long)seeds[i]);
        for (int k = 0; k < 150; k++) {
            compare(&random);
        }
    }
}

static void test_bad_options_are_refused(void **state)
{
    (void)state;
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    jobsched_calendar *calendar = calendar_of("exclude SAT", NULL);
    const jobsched_calendar *many[18];
    for (int i = 0; i < 17; i++) {
        many[i] = calendar;
    }
    many[17] = NULL;
    JOBSCHED_INIT(&options);
    options.calendars = many;
    assert_int_equal(jobsched_schedule_parse("@daily", &options, &schedule), JOBSCHED_EINVAL);
    many[16] = NULL;
    assert_int_equal(jobsched_schedule_parse("@daily", &options, &schedule), JOBSCHED_OK);
    jobsched_schedule_free(schedule);
    options.calendar_policy = 4;
    assert_int_equal(jobsched_schedule_parse("@daily", &options, &schedule), JOBSCHED_EINVAL);
    jobsched_calendar_free(calendar);
    assert_int_equal(jobsched_calendar_parse(NULL, NULL, &calendar), JOBSCHED_EINVAL);
    char *text = malloc(70001);
    assert_non_null(text);
    memset(text, '\n', 70000);
    text[70000] = '\0';
    assert_int_equal(jobsched_calendar_parse(text, NULL, &calendar), JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_TOO_LONG);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_include_and_exclude),
        cmocka_unit_test(test_bad_rules_tell_where),
        cmocka_unit_test(test_policies_move_excluded_occurrences),
        cmocka_unit_test(test_the_nominal_time_is_tested),
        cmocka_unit_test(test_no_move_leads_to_a_day_that_never_was),
        cmocka_unit_test(test_a_delay_is_waited_out_again_or_until_included),
        cmocka_unit_test(test_no_search_is_long),
        cmocka_unit_test(test_a_cron_rule_of_whole_days_hides_nothing_behind_it),
        cmocka_unit_test(test_a_search_that_gave_up_is_not_never),
        cmocka_unit_test(test_a_question_is_bounded_by_the_rules_it_looks_at),
        cmocka_unit_test(test_random_calendars_equal_the_policy_by_hand),
        cmocka_unit_test(test_bad_options_are_refused),
    };
    int failures = cmocka_run_group_tests_name("calendars", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
