/* Changes of the clocks (G12). Every zone, every transition: a daily job fires exactly
 * once per civil day, hourly and minutely ones follow elapsed time. Random schedules in
 * the fixture zones, started within two days of a transition and under all policies,
 * equal the naive walker. Flags tell what was shifted or suppressed.
 * "test_schedule_dst SEED COUNT" repeats random cases. */
#include "base/alloc.h"
#include "schedule/civil.h"
#include "schedule/schedule.h"
#include "schedule/zone.h"
#include "unit/walker.h"

#include <jobsched.h>

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SYSTEM_DIRECTORY "/usr/share/zoneinfo"
#define FIXTURES         JOBSCHED_TESTS_DATA "/zoneinfo-slim"

static jobsched_allocator plain;
static uint64_t given_seed;
static int given_count;

static jobsched_schedule *parse_with(const char *text, const char *zone, int gap, int overlap)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.zone_directory = FIXTURES;
    options.dst_gap = gap;
    options.dst_overlap = overlap;
    if (jobsched_schedule_parse(text, &options, &schedule) != JOBSCHED_OK) {
        fail_msg("'%s' in '%s': %s", text, zone, jobsched_last_error()->message);
    }
    return schedule;
}

/* The transitions around a second, without the library's search: test_zone compares the
 * table itself with the C library. */
static void window_of(const struct jsi_zone *zone, int64_t around, struct walker_zone *out)
{
    out->count = 0;
    for (size_t i = 0; i < zone->count; i++) {
        int64_t end = jsi_zone_end(zone, i);
        if (end > around - 12 * 86400 && zone->segments[i].start < around + 12 * 86400) {
            assert_in_range(out->count, 0, 31);
            out->start[out->count] = zone->segments[i].start;
            out->offset[out->count++] = zone->segments[i].offset;
        }
    }
}

/* When the wall clock reaches a time for the first time, found by going through the
 * segments; INT64_MIN when the date never existed. */
static int64_t reached(const struct walker_zone *zone, int64_t local)
{
    for (int i = 0; i < zone->count; i++) {
        int64_t begin = zone->start[i] + zone->offset[i];
        int64_t end = i + 1 < zone->count ? zone->start[i + 1] + zone->offset[i] : INT64_MAX;
        if (local < begin) {
            bool lost = i > 0 && zone->offset[i] - zone->offset[i - 1] >= 86400;
            return lost ? INT64_MIN : zone->start[i];
        }
        if (local < end) {
            return local - zone->offset[i];
        }
    }
    return INT64_MIN;
}

static int zones_seen;
static int wrong;
static struct jsi_zone_cache *cache;
static jobsched_schedule *daily[96]; /* at each quarter of an hour, in the zone looked at */
static jobsched_schedule *hourly, *minutely;

/* The days around a transition, each quarter of an hour: one occurrence per day. */
static void check_days(const char *name, const struct walker_zone *zone, int64_t transition)
{
    int64_t first_day = jsi_floor_div(transition, 86400) - 2;
    for (int quarter = 0; quarter < 96; quarter++) {
        int64_t at = reached(zone, first_day * 86400 + quarter * 900);
        for (int64_t day = first_day + 1; day < first_day + 5; day++) {
            int64_t wanted = reached(zone, day * 86400 + quarter * 900);
            if (wanted == INT64_MIN) {
                continue;
            }
            int64_t got = jobsched_schedule_next(daily[quarter], at * 1000);
            int64_t back = jobsched_schedule_previous(daily[quarter], wanted * 1000);
            if ((got != wanted * 1000 || back != at * 1000) && wrong++ < 20) {
                print_error("%s, quarter %d, after %lld: next %lld, wanted %lld, back %lld\n", name,
                            quarter, (long long)at, (long long)got / 1000, (long long)wanted,
                            (long long)back / 1000);
            }
            at = wanted;
        }
    }
}

/* An every-hour or every-minute schedule neither pauses nor bunches, where the offset
 * moves by whole hours or minutes. */
static void check_elapsed(const char *name, int64_t transition, int64_t shift)
{
    if (shift % 3600 == 0) {
        int64_t at = jobsched_schedule_next(hourly, (transition - 3 * 3600) * 1000);
        for (int i = 0; i < 6; i++) {
            int64_t next = jobsched_schedule_next(hourly, at);
            if (next - at != 3600000 && wrong++ < 20) {
                print_error("%s: hourly after %lld: %lld\n", name, (long long)at, (long long)next);
            }
            at = next;
        }
    }
    if (shift % 60 == 0) {
        int64_t at = jobsched_schedule_next(minutely, (transition - 3 * 60) * 1000);
        for (int i = 0; i < 6; i++) {
            int64_t next = jobsched_schedule_next(minutely, at);
            if (next - at != 60000 && wrong++ < 20) {
                print_error("%s: minutely after %lld: %lld\n", name, (long long)at,
                            (long long)next);
            }
            at = next;
        }
    }
}

static jobsched_schedule *parse_cached(const char *text, const char *zone)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    if (jsi_schedule_parse(text, &options, cache, &schedule) != JOBSCHED_OK) {
        fail_msg("'%s' in '%s': %s", text, zone, jobsched_last_error()->message);
    }
    return schedule;
}

static void check_zone(const char *name, const struct jsi_zone *zone)
{
    for (int quarter = 0; quarter < 96; quarter++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%d %d * * *", quarter % 4 * 15, quarter / 4);
        daily[quarter] = parse_cached(text, name);
    }
    hourly = parse_cached("0 * * * *", name);
    minutely = parse_cached("* * * * *", name);
    for (size_t i = 1; i < zone->count; i++) {
        int64_t at = zone->segments[i].start;
        bool near = at > 30 * 86400 && at < INT64_C(2145916800);
        bool far = at > INT64_C(4000000000) && at < INT64_C(4100000000);
        if (near || far) {
            struct walker_zone window;
            window_of(zone, at, &window);
            check_days(name, &window, at);
            check_elapsed(name, at, zone->segments[i].offset - zone->segments[i - 1].offset);
        }
    }
    for (int quarter = 0; quarter < 96; quarter++) {
        jobsched_schedule_free(daily[quarter]);
    }
    jobsched_schedule_free(hourly);
    jobsched_schedule_free(minutely);
}

/* Many names are links to one file. */
static bool seen_before(const struct stat *status)
{
    static ino_t seen[2048];
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (seen[i] == status->st_ino) {
            return true;
        }
    }
    assert_in_range(count, 0, 2047);
    seen[count++] = status->st_ino;
    return false;
}

static int visit_zone(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)walk;
    const char *name = path + strlen(SYSTEM_DIRECTORY) + 1;
    const struct jsi_zone *zone = NULL;
    if (kind == FTW_F && strchr(name, '.') == NULL && strncmp(name, "right/", 6) != 0 &&
        strncmp(name, "posix/", 6) != 0 && strcmp(name, "UTC") != 0 && !seen_before(status) &&
        jsi_zone_cache_find(cache, name, &zone) == JSI_ZONE_OK) {
        zones_seen++;
        check_zone(name, zone);
        jsi_zone_release(zone);
    }
    return 0;
}

static void test_daily_jobs_fire_once_per_civil_day_in_every_zone(void **state)
{
    (void)state;
    if (access(SYSTEM_DIRECTORY "/Europe/Berlin", R_OK) != 0) {
        skip();
    }
    assert_int_equal(jsi_zone_cache_new(&plain, SYSTEM_DIRECTORY, &cache), JOBSCHED_OK);
    assert_int_equal(nftw(SYSTEM_DIRECTORY, visit_zone, 16, FTW_PHYS), 0);
    jsi_zone_cache_free(cache);
    print_message("%d zones\n", zones_seen);
    assert_int_equal(wrong, 0);
    assert_true(zones_seen > 300);
}

static const char *const fixture_zones[] = {
    "America/New_York",  "America/Sao_Paulo",  "Africa/Cairo",      "Asia/Beirut",
    "Asia/Gaza",         "America/Havana",     "America/Asuncion",  "Australia/Lord_Howe",
    "Antarctica/Troll",  "Europe/Dublin",      "Africa/Casablanca", "Pacific/Apia",
    "Pacific/Kwajalein", "Pacific/Kiritimati", "America/Caracas",   "Asia/Pyongyang",
    "Europe/Istanbul",   "Europe/Moscow",      "America/Nuuk",      "America/Scoresbysund",
    "Pacific/Chatham",   "Africa/Monrovia"};
enum { FIXTURE_ZONES = sizeof fixture_zones / sizeof fixture_zones[0], LISTED = 200 };

/* The canonical text keeps what the clocks do to a schedule. */
static void check_format(const jobsched_schedule *schedule, int64_t start, int gap, int overlap)
{
    char text[4096];
    jobsched_schedule_options options;
    jobsched_schedule *copy = NULL;
    JOBSCHED_INIT(&options);
    options.zone_directory = FIXTURES;
    options.dst_gap = gap;
    options.dst_overlap = overlap;
    options.text_bytes_max = sizeof text;
    (void)jobsched_schedule_format(schedule, text, sizeof text);
    assert_int_equal(jobsched_schedule_parse(text, &options, &copy), JOBSCHED_OK);
    int64_t at = start * 1000;
    for (int i = 0; i < 30 && at != JOBSCHED_NONE; i++) {
        int64_t wanted = jobsched_schedule_next(schedule, at);
        if (jobsched_schedule_next(copy, at) != wanted) {
            fail_msg("'%s' differs after %lld", text, (long long)at);
        }
        at = wanted;
    }
    jobsched_schedule_free(copy);
}

/* Compares four days of a schedule with the walker; returns how many occurrences. */
static int compare(const char *text, const char *name, const struct walker_zone *window,
                   int64_t start, int gap, int overlap)
{
    struct walker walker;
    int64_t wanted[LISTED];
    walker_init(&walker, text);
    walker.gap_runs = gap == 0 ? walker.gap_runs : gap == JOBSCHED_DST_GAP_RUN_AFTER;
    walker.overlap_both = overlap == 0 ? walker.overlap_both : overlap == JOBSCHED_DST_OVERLAP_BOTH;
    int64_t end = start + 4 * 86400;
    int count = walker_list(&walker, window, start + 1, end, wanted, LISTED);
    jobsched_schedule *schedule = parse_with(text, name, gap, overlap);
    int64_t at = start * 1000;
    for (int i = 0; i < count; i++) {
        int64_t next = jobsched_schedule_next(schedule, at);
        int64_t back = jobsched_schedule_previous(schedule, next);
        bool returns = i > 0 ? back == at : back == JOBSCHED_NONE || back <= start * 1000;
        if (next != wanted[i] * 1000 || !returns || !jobsched_schedule_matches(schedule, next)) {
            fail_msg("'%s' in %s (gap %d, overlap %d) after %lld: wanted %lld, got %lld, back %lld",
                     text, name, gap, overlap, (long long)at / 1000, (long long)wanted[i],
                     (long long)next / 1000, (long long)back / 1000);
        }
        at = next;
    }
    check_format(schedule, start, gap, overlap);
    int64_t next = jobsched_schedule_next(schedule, at);
    if (count < LISTED && next < end * 1000) {
        fail_msg("'%s' in %s (gap %d, overlap %d) after %lld: wanted none, got %lld", text, name,
                 gap, overlap, (long long)at / 1000, (long long)next / 1000);
    }
    jobsched_schedule_free(schedule);
    return count;
}

/* Random texts seldom name a time near the transition, so half of them are made to. */
static void text_near(uint64_t *state, int64_t local, char *out, size_t size)
{
    static const char *const minutes[] = {"*/7", "0,30", "15", "0-59/20", "45,15", "*"};
    int hour = (int)(jsi_floor_div(local, 3600) % 24 + 24) % 24;
    int hour_by = (int)(walker_random(state) % 5) - 2;
    hour = (hour + hour_by + 24) % 24;
    switch (walker_random(state) % 4) {
    case 0:
        (void)snprintf(out, size, "%s %d * * *", minutes[walker_random(state) % 6], hour);
        break;
    case 1:
        (void)snprintf(out, size, "%s %d-%d * * *", minutes[walker_random(state) % 6], hour,
                       (hour + 3) % 24);
        break;
    case 2:
        (void)snprintf(out, size, "%d %d,%d * * *", (int)(walker_random(state) % 60), hour,
                       (hour + 1) % 24);
        break;
    default:
        (void)snprintf(out, size, "%d 30 %d,%d L,1-31 * ?", (int)(walker_random(state) % 60), hour,
                       (hour + 23) % 24);
        break;
    }
}

static void run(uint64_t seed, int count)
{
    uint64_t state = seed;
    long occurrences = 0;
    print_message("seed %llu, %d schedules\n", (unsigned long long)seed, count);
    for (int i = 0; i < count; i++) {
        const char *name = fixture_zones[walker_random(&state) % FIXTURE_ZONES];
        const struct jsi_zone *zone = NULL;
        assert_int_equal(jsi_zone_load(&plain, FIXTURES, name, &zone), JSI_ZONE_OK);
        size_t index = 1 + (size_t)(walker_random(&state) % (zone->count - 1));
        int64_t transition = zone->segments[index].start;
        if (transition > 5 * 86400 && transition < INT64_C(7258118400) - 5 * 86400) {
            char text[512];
            struct walker_zone window;
            window_of(zone, transition, &window);
            if (i % 2 == 0) {
                walker_expression(&state, text, sizeof text);
            } else {
                text_near(&state, transition + zone->segments[index].offset, text, sizeof text);
            }
            int64_t start = transition - (int64_t)(walker_random(&state) % (2 * 86400));
            int gap = (int)(walker_random(&state) % 3);
            int overlap = (int)(walker_random(&state) % 3);
            occurrences += compare(text, name, &window, start, gap, overlap);
        }
        jsi_zone_release(zone);
    }
    assert_true(count < 100 || occurrences > count);
}

static void test_random_schedules_equal_the_walker_near_transitions(void **state)
{
    (void)state;
    if (given_count > 0) {
        run(given_seed, given_count);
        return;
    }
    run(7, 400);
    run(20260308, 400);
    run(walker_fresh_seed(), 400);
}

static void test_flags_tell_what_was_shifted_or_suppressed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *zone;
        int gap, overlap;
        int64_t at; /* the occurrence */
        uint32_t flags;
        int64_t nominal; /* 0: what the clock shows */
    } rows[] = {
        /* New York, 10 March 2024, 02:00 to 03:00 missing: fires at 07:00Z. */
        {"30 2 * * *", "America/New_York", 0, 0, 1710054000, JOBSCHED_OCCURRENCE_SHIFTED,
         1710037800},
        {"0,30 2,3 * * *", "America/New_York", 0, 0, 1710054000,
         JOBSCHED_OCCURRENCE_SHIFTED | JOBSCHED_OCCURRENCE_MERGED, 1710036000},
        {"0 3 * * *", "America/New_York", 0, 0, 1710054000, 0, 0},
        {"30 * * * *", "America/New_York", 0, 0, 1710055800, JOBSCHED_OCCURRENCE_AFTER_GAP, 0},
        {"30 2 * * *", "America/New_York", JOBSCHED_DST_GAP_SKIP, 0, 1710138600,
         JOBSCHED_OCCURRENCE_AFTER_GAP, 0},
        {"30 * * * *", "America/New_York", JOBSCHED_DST_GAP_RUN_AFTER, 0, 1710054000,
         JOBSCHED_OCCURRENCE_SHIFTED, 1710037800},
        /* New York, 3 November 2024, 01:00 to 02:00 twice: 05:00Z and 06:00Z. */
        {"30 1 * * *", "America/New_York", 0, 0, 1730611800, JOBSCHED_OCCURRENCE_REPEATS, 0},
        {"30 1 * * *", "America/New_York", 0, JOBSCHED_DST_OVERLAP_BOTH, 1730611800, 0, 0},
        {"30 1 * * *", "America/New_York", 0, JOBSCHED_DST_OVERLAP_BOTH, 1730615400,
         JOBSCHED_OCCURRENCE_SECOND_PASS, 0},
        {"*/30 * * * *", "America/New_York", 0, 0, 1730615400, JOBSCHED_OCCURRENCE_SECOND_PASS, 0},
        {"*/30 * * * *", "America/New_York", 0, 0, 1730611800, 0, 0},
        {"*/30 * * * *", "America/New_York", 0, JOBSCHED_DST_OVERLAP_FIRST, 1730611800,
         JOBSCHED_OCCURRENCE_REPEATS, 0},
        {"@at 2024-03-10T02:30", "America/New_York", 0, 0, 1710054000, JOBSCHED_OCCURRENCE_SHIFTED,
         1710037800},
        {"@at 2024-11-03T01:30", "America/New_York", 0, 0, 1730611800, JOBSCHED_OCCURRENCE_REPEATS,
         0},
        {"@at 2024-11-03T05:30Z", "America/New_York", 0, 0, 1730611800, 0, 0},
        {"0 0 31 12 *", "Pacific/Apia", 0, 0, 1325239200, 0, 0},
        {"0 0 * * *", "Pacific/Apia", 0, 0, 1325239200, JOBSCHED_OCCURRENCE_AFTER_GAP, 0},
        {"@every 1h", "America/New_York", 0, 0, 1710054000, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_occurrence occurrence;
        jobsched_schedule *schedule =
            parse_with(rows[i].text, rows[i].zone, rows[i].gap, rows[i].overlap);
        JOBSCHED_INIT(&occurrence);
        int code = jobsched_schedule_occurrence(schedule, rows[i].at * 1000, &occurrence);
        int64_t nominal = rows[i].nominal != 0 ? rows[i].nominal * 1000 : occurrence.local_ms;
        if (code != JOBSCHED_OK || occurrence.flags != rows[i].flags ||
            occurrence.nominal_local_ms != nominal ||
            occurrence.local_ms != (rows[i].at + occurrence.offset_s) * 1000) {
            fail_msg("row %zu '%s': code %d, flags %u, nominal %lld", i, rows[i].text, code,
                     occurrence.flags, (long long)occurrence.nominal_local_ms);
        }
        assert_int_equal(jobsched_schedule_occurrence(schedule, rows[i].at * 1000 + 1, &occurrence),
                         JOBSCHED_ENOTFOUND);
        jobsched_schedule_free(schedule);
    }
}

static void test_policies_out_of_range_are_refused(void **state)
{
    (void)state;
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.dst_gap = 3;
    assert_int_equal(jobsched_schedule_parse("@daily", &options, &schedule), JOBSCHED_EINVAL);
    assert_string_equal(jobsched_last_error()->field, "dst_gap");
    options.dst_gap = 0;
    options.dst_overlap = -1;
    assert_int_equal(jobsched_schedule_parse("@daily", &options, &schedule), JOBSCHED_EINVAL);
    assert_string_equal(jobsched_last_error()->field, "dst_overlap");
}

/* A schedule whose only date is one that the zone left out can never match. */
static void test_a_date_that_a_zone_left_out_never_matches(void **state)
{
    (void)state;
    jobsched_schedule *apia = parse_with("0 0 12 30 12 * 2011", "Pacific/Apia", 0, 0);
    jobsched_schedule *berlin = parse_with("0 0 12 30 12 * 2011", "Europe/Berlin", 0, 0);
    assert_int_equal(jobsched_schedule_is_never(apia), 1);
    assert_int_equal(jobsched_schedule_is_never(berlin), 0);
    jobsched_schedule_free(apia);
    jobsched_schedule_free(berlin);
}

/* The span 1970 to 2199 is one of local years, for "@at" as for cron: what the zone calls
 * 2199 is inside, wherever UTC is by then. */
static void test_at_lies_in_the_local_span(void **state)
{
    (void)state;
    static const struct {
        const char *text, *zone;
        int64_t at; /* seconds; JOBSCHED_NONE: never */
    } rows[] = {
        {"@at 2199-12-31T23:59:59", "America/New_York", INT64_C(7258136399)},
        {"@at 2200-01-01T04:59:59Z", "America/New_York", INT64_C(7258136399)},
        {"0 59 23 31 12 * 2199", "America/New_York", INT64_C(7258136340)},
        {"@at 2200-01-01T00:00:00", "America/New_York", JOBSCHED_NONE},
        {"@at 2200-01-01T05:00:00Z", "America/New_York", JOBSCHED_NONE},
        {"@at 1970-01-01T00:00", "Europe/London", -3600},
        {"@at 1969-12-31T23:00:00Z", "Europe/London", -3600},
        {"0 0 0 1 1 * 1970", "Europe/London", -3600},
        {"@at 1969-12-31T23:59:59", "Europe/London", JOBSCHED_NONE},
        {"@at 1970-01-01T00:00:00Z", "America/New_York", JOBSCHED_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_schedule *schedule = parse_with(rows[i].text, rows[i].zone, 0, 0);
        bool never = rows[i].at == JOBSCHED_NONE;
        int64_t at = never ? JOBSCHED_NONE : rows[i].at * 1000;
        if (jobsched_schedule_is_never(schedule) != never ||
            jobsched_schedule_next(schedule, INT64_C(-9000000000)) != at ||
            jobsched_schedule_previous(schedule, INT64_C(7300000000000)) != at) {
            fail_msg("row %zu: %lld", i,
                     (long long)jobsched_schedule_next(schedule, INT64_C(-9000000000)));
        }
        if (!never) {
            assert_int_equal(jobsched_schedule_matches(schedule, at), 1);
            assert_int_equal(jobsched_schedule_matches(schedule, at + 1000), 0);
            assert_true(jobsched_schedule_next(schedule, at) == JOBSCHED_NONE);
            assert_true(jobsched_schedule_previous(schedule, at) == JOBSCHED_NONE);
        }
        jobsched_schedule_free(schedule);
    }
}

int main(int argc, char **argv)
{
    (void)jsi_alloc_init(&plain, NULL);
    if (argc == 3) {
        given_seed = strtoull(argv[1], NULL, 10);
        given_count = atoi(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules_equal_the_walker_near_transitions),
        cmocka_unit_test(test_daily_jobs_fire_once_per_civil_day_in_every_zone),
        cmocka_unit_test(test_flags_tell_what_was_shifted_or_suppressed),
        cmocka_unit_test(test_policies_out_of_range_are_refused),
        cmocka_unit_test(test_a_date_that_a_zone_left_out_never_matches),
        cmocka_unit_test(test_at_lies_in_the_local_span),
    };
    int failures = cmocka_run_group_tests_name("schedules and DST", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
