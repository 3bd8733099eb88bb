/* Random schedules in UTC against the naive walker (G12): next and previous list the same
 * occurrences, each forward step has its way back, and matches(t) holds exactly where
 * next(t - 1) is t. The seed is printed; "test_schedule_property SEED COUNT" repeats. */
#include "unit/walker.h"

#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LISTED = 12, HORIZON_DAYS = 1200 };

static uint64_t given_seed;
static int given_count;

static int64_t first_second(uint64_t *state)
{
    static const int64_t landmarks[] = {0,
                                        951782400 /* 2000-02-29 */,
                                        4107542400 /* 2100-03-01 */,
                                        7258118399 /* the last second */,
                                        2147483647,
                                        1709164800 /* 2024-02-29 */};
    uint64_t pick = walker_random(state) % 10;
    if (pick < 6) {
        return landmarks[pick] - (int64_t)(walker_random(state) % 200000) + 100000;
    }
    return (int64_t)(walker_random(state) % UINT64_C(7258118400));
}

static void compare(const char *text, const jobsched_schedule *schedule, int64_t start)
{
    struct walker walker;
    int64_t wanted[LISTED];
    int64_t horizon = start + INT64_C(86400) * HORIZON_DAYS;
    walker_init(&walker, text);
    int count = walker_list(&walker, &walker_utc, start + 1, horizon, wanted, LISTED);
    int64_t at = start * 1000 + (start % 7) * 100; /* sub-second input rounds down */
    for (int i = 0; i < count; i++) {
        int64_t got = jobsched_schedule_next(schedule, at);
        if (got != wanted[i] * 1000) {
            fail_msg("'%s' after %lld: wanted %lld, got %lld", text, (long long)at,
                     (long long)wanted[i] * 1000, (long long)got);
        }
        int64_t back = jobsched_schedule_previous(schedule, got);
        if (i > 0 ? back != wanted[i - 1] * 1000 : back != JOBSCHED_NONE && back > start * 1000) {
            fail_msg("'%s' before %lld: got %lld", text, (long long)got, (long long)back);
        }
        if (jobsched_schedule_previous(schedule, got + 1) != got ||
            !jobsched_schedule_matches(schedule, got)) {
            fail_msg("'%s' at %lld: no way back, or no match", text, (long long)got);
        }
        at = got;
    }
    int64_t got = jobsched_schedule_next(schedule, at);
    if (count < LISTED && got != JOBSCHED_NONE && got < horizon * 1000) {
        fail_msg("'%s' after %lld: got %lld, wanted none", text, (long long)at, (long long)got);
    }
}

static void compare_matches(const char *text, const jobsched_schedule *schedule, uint64_t *state)
{
    struct walker walker;
    walker_init(&walker, text);
    for (int i = 0; i < 40; i++) {
        int64_t at = first_second(state);
        bool wanted = walker_matches_local(&walker, at);
        bool next = jobsched_schedule_next(schedule, at * 1000 - 1) == at * 1000;
        bool previous = jobsched_schedule_previous(schedule, at * 1000 + 1) == at * 1000;
        bool matches = jobsched_schedule_matches(schedule, at * 1000) == 1;
        if (next != wanted || previous != wanted || matches != wanted) {
            fail_msg("'%s' at %lld: wanted %d, next %d, previous %d, matches %d", text,
                     (long long)at, wanted, next, previous, matches);
        }
    }
}

/* The canonical text means the same and is its own canonical text. */
static void check_format(const char *text, const jobsched_schedule *schedule, uint64_t *state)
{
    char canonical[4096];
    char again[4096];
    jobsched_schedule_options options;
    jobsched_schedule *copy = NULL;
    JOBSCHED_INIT(&options);
    options.text_bytes_max = sizeof canonical;
    size_t length = jobsched_schedule_format(schedule, canonical, sizeof canonical);
    assert_int_equal(length, strlen(canonical));
    if (jobsched_schedule_parse(canonical, &options, &copy) != JOBSCHED_OK) {
        fail_msg("'%s' became '%s': %s", text, canonical, jobsched_last_error()->message);
    }
    (void)jobsched_schedule_format(copy, again, sizeof again);
    assert_string_equal(canonical, again);
    int64_t at = first_second(state) * 1000;
    for (int i = 0; i < 50; i++) {
        int64_t wanted = jobsched_schedule_next(schedule, at);
        int64_t got = jobsched_schedule_next(copy, at);
        if (got != wanted ||
            jobsched_schedule_previous(copy, at) != jobsched_schedule_previous(schedule, at)) {
            fail_msg("'%s' became '%s', which differs after %lld", text, canonical, (long long)at);
        }
        at = wanted == JOBSCHED_NONE ? first_second(state) * 1000 : wanted;
    }
    assert_true(jobsched_schedule_explain(schedule, again, sizeof again) > 0);
    jobsched_schedule_free(copy);
}

static void run(uint64_t seed, int count)
{
    uint64_t state = seed;
    print_message("seed %llu, %d schedules\n", (unsigned long long)seed, count);
    for (int i = 0; i < count; i++) {
        char text[512];
        jobsched_schedule *schedule = NULL;
        walker_expression(&state, text, sizeof text);
        if (jobsched_schedule_parse(text, NULL, &schedule) != JOBSCHED_OK) {
            fail_msg("'%s' refused: %s", text, jobsched_last_error()->message);
        }
        compare(text, schedule, first_second(&state));
        compare_matches(text, schedule, &state);
        check_format(text, schedule, &state);
        jobsched_schedule_free(schedule);
    }
}

static void test_random_schedules_equal_the_walker(void **state)
{
    (void)state;
    if (given_count > 0) {
        run(given_seed, given_count);
        return;
    }
    run(1, 200);
    run(20240229, 200);
    run(walker_fresh_seed(), 200);
}

/* Whether any day of any year matches, by looking at all 84,000 of them. */
static void test_never_is_known_exactly(void **state)
{
    (void)state;
    uint64_t random = 77;
    int nevers = 0;
    for (int i = 0; i < 80; i++) {
        /* Days that often do not exist. */
        static const char *const days[] = {"29", "30", "31", "L-30", "L-29", "30W", "31W", "30,31"};
        static const char *const months[] = {"2", "2,4", "4,6,9,11", "2-3", "*"};
        static const char *const weekdays[] = {"*", "+MON", "+1#5", "+SUNL", "+FRI#1", "+6#4"};
        static const char *const years[] = {"2025",      "2023-2027", "2100",
                                            "2096-2103", "2024/4",    "*"};
        char text[128];
        const char *day = days[walker_random(&random) % 8];
        const char *month = months[walker_random(&random) % 5];
        const char *weekday = weekdays[walker_random(&random) % 6];
        const char *year = years[walker_random(&random) % 6];
        (void)snprintf(text, sizeof text, "0 0 0 %s %s %s %s", day, month, weekday, year);
        struct walker walker;
        int64_t first;
        walker_init(&walker, text);
        bool never = walker_list(&walker, &walker_utc, 0, INT64_C(7258118400), &first, 1) == 0;
        jobsched_schedule *schedule = NULL;
        assert_int_equal(jobsched_schedule_parse(text, NULL, &schedule), JOBSCHED_OK);
        if (jobsched_schedule_is_never(schedule) != (never ? 1 : 0) ||
            (jobsched_schedule_next(schedule, INT64_MIN) == JOBSCHED_NONE) != never ||
            (jobsched_schedule_previous(schedule, INT64_MAX) == JOBSCHED_NONE) != never) {
            fail_msg("'%s': never should be %d", text, never);
        }
        nevers += never ? 1 : 0;
        jobsched_schedule_free(schedule);
    }
    assert_in_range(nevers, 10, 70);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        given_seed = strtoull(argv[1], NULL, 10);
        given_count = atoi(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules_equal_the_walker),
        cmocka_unit_test(test_never_is_known_exactly),
    };
    int failures = cmocka_run_group_tests_name("schedule properties", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
