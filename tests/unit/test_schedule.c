/* The contract of schedules beyond the vectors (G12, G13): milliseconds round down, the
 * extremes of int64 are harmless, searches allocate nothing and are quick even where
 * nothing matches, a failed allocation leaves nothing behind, H follows its published
 * formula, and the engine's helpers count right. */
#include "base/text.h"
#include "schedule/cron.h"
#include "schedule/schedule.h"

#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static jobsched_schedule *parse(const char *text)
{
    jobsched_schedule *schedule = NULL;
    if (jobsched_schedule_parse(text, NULL, &schedule) != JOBSCHED_OK) {
        fail_msg("'%s': %s", text, jobsched_last_error()->message);
    }
    return schedule;
}

static void check_i64(int64_t got, int64_t wanted)
{
    if (got != wanted) {
        fail_msg("got %lld, wanted %lld", (long long)got, (long long)wanted);
    }
}

static void test_milliseconds_round_down(void **state)
{
    (void)state;
    jobsched_schedule *second = parse("* * * * * *");
    check_i64(jobsched_schedule_next(second, 999), 1000);
    check_i64(jobsched_schedule_next(second, 1000), 2000);
    check_i64(jobsched_schedule_next(second, 1001), 2000);
    check_i64(jobsched_schedule_next(second, -1), 0);
    check_i64(jobsched_schedule_next(second, -1500), 0);
    check_i64(jobsched_schedule_previous(second, 1001), 1000);
    check_i64(jobsched_schedule_previous(second, 1000), 0);
    check_i64(jobsched_schedule_previous(second, 1), 0);
    check_i64(jobsched_schedule_previous(second, 0), JOBSCHED_NONE);
    assert_int_equal(jobsched_schedule_matches(second, 1000), 1);
    assert_int_equal(jobsched_schedule_matches(second, 1001), 0);
    assert_int_equal(jobsched_schedule_matches(second, -1000), 0);
    jobsched_schedule_free(second);
}

static void test_extremes_are_harmless(void **state)
{
    (void)state;
    static const char *const texts[] = {"* * * * * *",
                                        "0 0 29 2 *",
                                        "0 0 30 2 *",
                                        "@every 7s",
                                        "@every 36600d from 9999-12-31T23:59:59Z",
                                        "@at 2027-01-01T00:00:00Z",
                                        "@every 1s from 0001-01-01T00:00Z"};
    static const int64_t instants[] = {INT64_MIN, INT64_MIN + 1, -1,        0,
                                       1,         INT64_MAX - 1, INT64_MAX, INT64_MAX / 1000};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        jobsched_schedule *schedule = parse(texts[i]);
        for (size_t k = 0; k < sizeof instants / sizeof instants[0]; k++) {
            int64_t next = jobsched_schedule_next(schedule, instants[k]);
            int64_t previous = jobsched_schedule_previous(schedule, instants[k]);
            assert_true(next > instants[k] || next == JOBSCHED_NONE);
            assert_true(next == JOBSCHED_NONE || (next >= 0 && next <= INT64_C(7258118399000)));
            assert_true(previous < instants[k] || previous == JOBSCHED_NONE);
            (void)jobsched_schedule_matches(schedule, instants[k]);
        }
        jobsched_schedule_free(schedule);
    }
    check_i64(jobsched_schedule_next(NULL, 0), JOBSCHED_NONE);
    check_i64(jobsched_schedule_uncertain_after(NULL), JOBSCHED_NONE);
    assert_string_equal(jobsched_schedule_zone(NULL), "");
    assert_string_equal(jobsched_schedule_zone_version(NULL), "");
    check_i64(jobsched_schedule_previous(NULL, 0), JOBSCHED_NONE);
    jobsched_schedule_free(NULL);
}

static void test_bad_arguments_are_refused(void **state)
{
    (void)state;
    jobsched_schedule *schedule = NULL;
    jobsched_schedule_options options;
    memset(&options, 0, sizeof options);
    assert_int_equal(jobsched_schedule_parse(NULL, NULL, &schedule), JOBSCHED_EINVAL);
    assert_int_equal(jobsched_schedule_parse("* * * * *", NULL, NULL), JOBSCHED_EINVAL);
    assert_int_equal(jobsched_schedule_parse("* * * * *", &options, &schedule), JOBSCHED_EINVAL);
    /* A caller compiled with fewer fields. */
    options.struct_size = offsetof(jobsched_schedule_options, key);
    options.key = "not looked at";
    assert_int_equal(jobsched_schedule_parse("H * * * *", &options, &schedule), JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_NO_KEY);
    assert_null(schedule);
}

struct counting {
    int allocations;
    int live;
    int fail_at; /* the allocation to fail, from 1; 0: none */
};

static void *count_allocate(void *ctx, size_t size)
{
    struct counting *counting = ctx;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->live++;
    return malloc(size);
}

static void *count_reallocate(void *ctx, void *pointer, size_t size)
{
    struct counting *counting = ctx;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->live += pointer == NULL ? 1 : 0;
    return realloc(pointer, size);
}

static void count_release(void *ctx, void *pointer)
{
    struct counting *counting = ctx;
    counting->live -= pointer != NULL ? 1 : 0;
    free(pointer);
}

static void test_each_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const texts[] = {"0 0 L * +FRI", "@every 90m from 2024-01-01T00:00:00Z",
                                        "TZ=UTC @daily"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct counting counting = {0, 0, 0};
        jobsched_allocator allocator;
        jobsched_schedule_options options;
        JOBSCHED_INIT(&allocator);
        JOBSCHED_INIT(&options);
        allocator.ctx = &counting;
        allocator.allocate = count_allocate;
        allocator.reallocate = count_reallocate;
        allocator.release = count_release;
        options.allocator = &allocator;
        int code = JOBSCHED_ENOMEM;
        for (int at = 1; code != JOBSCHED_OK && at < 100; at++) {
            jobsched_schedule *schedule = NULL;
            counting = (struct counting){0, 0, at};
            code = jobsched_schedule_parse(texts[i], &options, &schedule);
            if (code == JOBSCHED_OK) {
                int parsed = counting.allocations;
                assert_int_not_equal(jobsched_schedule_next(schedule, 0), JOBSCHED_NONE);
                (void)jobsched_schedule_previous(schedule, INT64_MAX);
                (void)jobsched_schedule_matches(schedule, 0);
                assert_int_equal(counting.allocations, parsed); /* searches allocate nothing */
                jobsched_schedule_free(schedule);
            } else {
                assert_int_equal(code, JOBSCHED_ENOMEM);
                assert_null(schedule);
            }
            assert_int_equal(counting.live, 0);
        }
        assert_int_equal(code, JOBSCHED_OK);
    }
}

static double microseconds_each(void (*work)(const jobsched_schedule *schedule),
                                const jobsched_schedule *schedule)
{
    struct timespec begin;
    struct timespec end;
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < 20; i++) {
            work(schedule);
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        double took =
            (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
        best = took / 20 < best ? took / 20 : best;
    }
    return best;
}

static void ask_next(const jobsched_schedule *schedule)
{
    (void)jobsched_schedule_next(schedule, 0);
    (void)jobsched_schedule_previous(schedule, INT64_MAX);
}

static void parse_never(const jobsched_schedule *schedule)
{
    jobsched_schedule *parsed = NULL;
    (void)jobsched_schedule_parse(jsi_schedule_text(schedule), NULL, &parsed);
    jobsched_schedule_free(parsed);
}

/* The bound is a hundred times what it takes here, so that only a search that really
 * walks seconds or days can miss it. */
static void test_rare_schedules_answer_at_once(void **state)
{
    (void)state;
    static const char *const texts[] = {"0 0 30 2 *",    "* * 31 2 *",       "0 0 L-30 2 *",
                                        "0 0 30W 2 *",   "0 0 29 2 +SUN",    "0 0 31 2,4,6,9,11 *",
                                        "0 0 30 2 +MON", "0 0 0 29 2 * 2199"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        jobsched_schedule *schedule = parse(texts[i]);
        double search = microseconds_each(ask_next, schedule);
        double parsing = microseconds_each(parse_never, schedule);
        if (search > 2000 || parsing > 2000) {
            fail_msg("'%s': search %.1f us, parse %.1f us", texts[i], search, parsing);
        }
        jobsched_schedule_free(schedule);
    }
}

static void test_never_is_told_apart_from_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int never;
    } rows[] = {{"0 0 30 2 *", 1},
                {"0 0 30 2 MON", 0},
                {"0 0 30 2 +MON", 1},
                {"0 0 0 29 2 * 2025", 1},
                {"0 0 0 29 2 * 2100", 1},
                {"0 0 0 29 2 +SAT 2025-2047", 1},
                {"0 0 0 29 2 +SAT 2025-2048", 0},
                {"0 0 29 2 *", 0},
                {"@at 2020-01-01T00:00:00Z", 0},
                {"@at 1969-12-31T23:59:59Z", 1},
                {"@at 2200-01-01T00:00:00Z", 1},
                {"@every 36600d from 1950-01-01T00:00:00Z", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jobsched_schedule *schedule = parse(rows[i].text);
        if (jobsched_schedule_is_never(schedule) != rows[i].never) {
            fail_msg("'%s': never should be %d", rows[i].text, rows[i].never);
        }
        jobsched_schedule_free(schedule);
    }
}

static void test_hash_follows_the_published_formula(void **state)
{
    (void)state;
    assert_true(jsi_cron_pick("backup", JSI_MINUTE, 0) == UINT64_C(0x1f181e4c69bbc532));
    assert_int_equal(jsi_cron_pick("backup", JSI_MINUTE, 0) % 60, 10);
    assert_int_equal(jsi_cron_pick("backup", JSI_HOUR, 0) % 24, 5);
    assert_int_equal(jsi_cron_pick("backup", JSI_DAY, 0) % 28, 9); /* the 10th */
    assert_int_equal(jsi_cron_pick("backup", JSI_WEEKDAY, 0) % 7, 3);
    assert_int_equal(jsi_cron_pick("backup", JSI_SECOND, 0) % 60, 52);
}

/* Counts one by one. */
static int64_t count_slowly(const jobsched_schedule *schedule, int64_t after, int64_t upto,
                            int64_t limit, int64_t *out_last)
{
    int64_t count = 0;
    int64_t at = jobsched_schedule_next(schedule, after);
    while (at != JOBSCHED_NONE && at <= upto && count < limit) {
        *out_last = at;
        count++;
        at = jobsched_schedule_next(schedule, at);
    }
    return count;
}

/* 7 is Sunday wherever a range begins with it: "7~" picks as "0~6" does. */
static void test_a_leading_seven_of_a_pick_is_sunday(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"0 0 * * 7~", "0 0 * * 0~6"},     {"0 0 * * 7~3", "0 0 * * 0~3"},
        {"0 0 * * 7~7", "0 0 * * 0"},      {"0 0 * * 7~/2", "0 0 * * 0~6/2"},
        {"0 0 * * H(7-3)", "0 0 * * 0~3"}, {"0 0 * * H(7-5)/2", "0 0 * * 0~5/2"},
        {"0 0 * * H(7-7)", "0 0 * * 0"}};
    static const char *const keys[] = {"a", "b", "backup", "report", "e"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            char text[2][64];
            for (int side = 0; side < 2; side++) {
                jobsched_schedule_options options;
                jobsched_schedule *schedule = NULL;
                JOBSCHED_INIT(&options);
                options.key = keys[k];
                if (jobsched_schedule_parse(same[i][side], &options, &schedule) != JOBSCHED_OK) {
                    fail_msg("'%s': %s", same[i][side], jobsched_last_error()->message);
                }
                (void)jobsched_schedule_format(schedule, text[side], sizeof text[side]);
                jobsched_schedule_free(schedule);
            }
            assert_string_equal(text[0], text[1]);
        }
    }
}

static void test_count_equals_counting(void **state)
{
    (void)state;
    static const char *const texts[] = {"*/5 * * * *", "@every 7m",
                                        "@every 90m from 2024-01-01T00:10:00Z",
                                        "@at 2024-01-01T00:30:00Z", "0 0 30 2 *"};
    static const int64_t base = INT64_C(1704067200000); /* 2024-01-01T00:00:00Z */
    static const int64_t spans[] = {-5, 0, 1, 299999, 300000, 1800000, 86400000};
    static const int64_t limits[] = {0, 1, 3, 1000000};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        jobsched_schedule *schedule = parse(texts[i]);
        for (size_t k = 0; k < sizeof spans / sizeof spans[0]; k++) {
            for (size_t m = 0; m < sizeof limits / sizeof limits[0]; m++) {
                int64_t wanted_last = -7;
                int64_t last = -7;
                int64_t wanted =
                    count_slowly(schedule, base, base + spans[k], limits[m], &wanted_last);
                check_i64(jsi_schedule_count(schedule, base, base + spans[k], limits[m], &last),
                          wanted);
                check_i64(last, wanted_last);
            }
        }
        jobsched_schedule_free(schedule);
    }
    /* Two hundred years of seconds at once. */
    int64_t last = 0;
    jobsched_schedule *schedule = parse("@every 1s");
    check_i64(jsi_schedule_count(schedule, INT64_MIN, INT64_MAX, INT64_MAX, &last),
              INT64_C(7258118400));
    check_i64(last, INT64_C(7258118399000));
    assert_string_equal(jsi_schedule_text(schedule), "@every 1s");
    jobsched_schedule_free(schedule);
}

static void test_durations_of_settings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"500ms", 500},    {"30s", 30000},
                {"5m", 300000},    {"1h30m", 5400000},
                {"7d", 604800000}, {"1w2d3h4m5s6ms", 788645006},
                {"0s", 0},         {"999999999w", INT64_C(999999999) * 604800000}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t ms = -1;
        if (jsi_duration_parse(good[i].text, &ms) != JOBSCHED_OK) {
            fail_msg("'%s': %s", good[i].text, jobsched_last_error()->message);
        }
        check_i64(ms, good[i].ms);
    }
    static const struct {
        const char *text;
        int position;
    } bad[] = {{"", 0},   {"5", 1},    {"s", 0},    {"-5s", 0},   {"5 s", 1},
               {"5x", 1}, {"1m1h", 3}, {"5s5s", 3}, {"1.5h", 1},  {"5mss", 1},
               {"5S", 1}, {" 5s", 0},  {"5s ", 2},  {"1ms5s", 4}, {"1234567890s", 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = -1;
        assert_int_equal(jsi_duration_parse(bad[i].text, &ms), JOBSCHED_EINVAL);
        if (jobsched_last_error()->position != bad[i].position) {
            fail_msg("'%s': position %lld", bad[i].text,
                     (long long)jobsched_last_error()->position);
        }
        check_i64(ms, -1);
    }
}

static void test_a_delay_counts_from_the_end_of_a_run(void **state)
{
    (void)state;
    jobsched_schedule *schedule = parse("@after 10m");
    check_i64(jsi_schedule_delay_ms(schedule), 600000);
    check_i64(jobsched_schedule_next(schedule, 1700000000000), 1700000600000);
    check_i64(jobsched_schedule_next(schedule, 1700000000001), 1700000601000); /* never shorter */
    check_i64(jobsched_schedule_next(schedule, INT64_MAX), JOBSCHED_NONE);
    check_i64(jobsched_schedule_previous(schedule, 1700000000000), JOBSCHED_NONE);
    assert_int_equal(jobsched_schedule_matches(schedule, 1700000600000), 0);
    assert_int_equal(jobsched_schedule_is_never(schedule), 0);
    int64_t last = -1;
    check_i64(jsi_schedule_count(schedule, 0, INT64_MAX, 100, &last), 0);
    jobsched_schedule_free(schedule);
    schedule = parse("@every 10m");
    check_i64(jsi_schedule_delay_ms(schedule), 0);
    jobsched_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_milliseconds_round_down),
        cmocka_unit_test(test_extremes_are_harmless),
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_each_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(test_rare_schedules_answer_at_once),
        cmocka_unit_test(test_never_is_told_apart_from_errors),
        cmocka_unit_test(test_hash_follows_the_published_formula),
        cmocka_unit_test(test_a_leading_seven_of_a_pick_is_sunday),
        cmocka_unit_test(test_count_equals_counting),
        cmocka_unit_test(test_durations_of_settings),
        cmocka_unit_test(test_a_delay_counts_from_the_end_of_a_run),
    };
    int failures = cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
