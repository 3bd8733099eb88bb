/* Canonical texts and explanations: what people and files see of a schedule. The canonical
 * text keeps the kind (fixed-time or interval-like), because DST depends on it (G12). */
#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static jobsched_schedule *parse(const char *text)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.key = "backup";
    options.zone_directory = JOBSCHED_TESTS_DATA "/zoneinfo-slim";
    if (jobsched_schedule_parse(text, &options, &schedule) != JOBSCHED_OK) {
        fail_msg("'%s': %s", text, jobsched_last_error()->message);
    }
    return schedule;
}

static const struct {
    const char *text, *canonical, *explanation;
} rows[] = {
    {"TZ=Europe/Berlin 0 3 * * FRI#L", "CRON_TZ=Europe/Berlin 0 3 * * 5L",
     "at 03:00 on the last Friday of each month, Europe/Berlin"},
    {"@daily", "0 0 * * *", "at 00:00 every day, UTC"},
    {"@hourly", "0 * * * *", "every hour, UTC"},
    {"* * * * *", "* * * * *", "every minute, UTC"},
    {"@every_second", "* * * * * *", "every second, UTC"},
    {"*/15 9-17 * * MON-FRI", "*/15 9-17 * * 1-5",
     "every 15 minutes, in hours 9 to 17, on Monday to Friday, UTC"},
    {"0 0 13 * FRI", "0 0 13 * 5", "at 00:00 on day 13 of the month or on Friday, UTC"},
    {"0 0 13 * +FRI", "0 0 13 * +5", "at 00:00 on day 13 of the month if that is Friday, UTC"},
    {"0 0 * * +FRI", "0 0 * * 5", "at 00:00 on Friday, UTC"},
    {"0 0 * * 01#02", "0 0 * * 1#2", "at 00:00 on the second Monday of each month, UTC"},
    {"0 0 * * SAT,SUN", "0 0 * * 0,6", "at 00:00 on Saturday and Sunday, UTC"},
    {"0 0 1-31 * 0-6", "0 0 1-31 * 0-6",
     "at 00:00 on days 1 to 31 of the month or on Monday to Sunday, UTC"},
    {"*/7 * * * *", "*/7 * * * *",
     "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour, UTC"},
    {"5-5 3 * * *", "5 3-3 * * *", "at 03:05 every day, UTC"},
    {"5 3 * * *", "5 3 * * *", "at 03:05 every day, UTC"},
    {"0,1,2,3 1,2 * * *", "0,1,2,3 1,2 * * *",
     "at 01:00, 01:01, 01:02, 01:03, 02:00, 02:01, 02:02 and 02:03 every day, UTC"},
    {"30 */2 * * *", "30 */2 * * *", "every 2 hours at minute 30, UTC"},
    {"*/30 */2 * * * *", "*/30 */2 * * * *", "at seconds 0 and 30 of every 2nd minute, UTC"},
    {"* */3 9 * * *", "* */3 9 * * *", "every second of every 3rd minute, in hour 9, UTC"},
    {"15 */20 * * * *", "15 */20 * * * *", "at second 15 of every 20th minute, UTC"},
    {"*/30 * * * * *", "*/30 * * * * *", "every 30 seconds, UTC"},
    {"*/30 5 * * * *", "*/30 5 * * * *", "every 30 seconds, at minute 5 of every hour, UTC"},
    {"H H * * *", "10 5 * * *", "at 05:10 every day, UTC"},
    {"0 9 L-3W,LW,15W,L,L-2,1 * ?", "0 9 1,L,L-2,LW,L-3W,15W * *",
     "at 09:00 on day 1 and the last day and the day 2 days before the last and the last weekday "
     "(Monday to Friday) and the weekday nearest to the day 3 days before the last and the weekday "
     "nearest to day 15 of each month, UTC"},
    {"0 0 0 1 NOV-FEB * 2030-2040/2", "0 0 0 1 1,2,11,12 * 2030-2040/2",
     "at 00:00 on day 1 of January, February, November and December in 2030, 2032, 2034, 2036, "
     "2038 and 2040, UTC"},
    {"0 0 30 2 *", "0 0 30 2 *", "at 00:00 on day 30 of February, UTC (never: no such date)"},
    {"@every 90m from 2024-01-01T00:10:00Z", "@every 1h30m from 1970-01-01T00:10:00Z",
     "every 1 hour 30 minutes of elapsed time, counted from 2024-01-01T00:10:00Z"},
    {"@after 90m", "@after 1h30m", "1 hour 30 minutes after the end of the run before"},
    {"@every 24h", "@every 1d", "every 1 day of elapsed time, counted from 1970-01-01T00:00:00Z"},
    {"TZ=America/New_York @at 2027-01-31T08:30",
     "CRON_TZ=America/New_York @at 2027-01-31T13:30:00Z",
     "once, at 2027-01-31T08:30:00, America/New_York"},
    {"@at 2200-01-01T00:00:00Z", "@at 2200-01-01T00:00:00Z",
     "once, at 2200-01-01T00:00:00, UTC (never: outside the years 1970 to 2199)"},
};

static void test_canonical_text_and_explanation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        jobsched_schedule *schedule = parse(rows[i].text);
        (void)jobsched_schedule_format(schedule, text, sizeof text);
        assert_string_equal(text, rows[i].canonical);
        (void)jobsched_schedule_explain(schedule, text, sizeof text);
        assert_string_equal(text, rows[i].explanation);
        jobsched_schedule *again = parse(rows[i].canonical);
        (void)jobsched_schedule_format(again, text, sizeof text);
        assert_string_equal(text, rows[i].canonical);
        jobsched_schedule_free(schedule);
        jobsched_schedule_free(again);
    }
}

/* A calendar that excludes all is not a missing date. */
static void test_never_by_a_calendar_says_so(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"@at 2027-01-31T08:30Z",
         "once, at 2027-01-31T08:30:00, UTC (never: calendars exclude all of it)"},
        {"0 3 * * *", "at 03:00 every day, UTC (never: calendars exclude all of it)"},
        {"0 0 30 2 *", "at 00:00 on day 30 of February, UTC (never: no such date)"}};
    jobsched_calendar *calendar = NULL;
    assert_int_equal(jobsched_calendar_parse("exclude all", NULL, &calendar), JOBSCHED_OK);
    const jobsched_calendar *calendars[2] = {calendar, NULL};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[256];
        jobsched_schedule_options options;
        jobsched_schedule *schedule = NULL;
        JOBSCHED_INIT(&options);
        options.calendars = calendars;
        assert_int_equal(jobsched_schedule_parse(texts[i][0], &options, &schedule), JOBSCHED_OK);
        (void)jobsched_schedule_explain(schedule, text, sizeof text);
        assert_string_equal(text, texts[i][1]);
        jobsched_schedule_free(schedule);
    }
    jobsched_calendar_free(calendar);
}

static void test_small_buffers_are_cut_and_the_length_is_told(void **state)
{
    (void)state;
    char small[8];
    jobsched_schedule *schedule = parse("0 3 * * FRI#L");
    memset(small, 'x', sizeof small);
    assert_int_equal(jobsched_schedule_format(schedule, small, 4), 10);
    assert_string_equal(small, "0 3");
    assert_int_equal(small[4], 'x');
    assert_int_equal(jobsched_schedule_format(schedule, small, 1), 10);
    assert_string_equal(small, "");
    assert_int_equal(jobsched_schedule_format(schedule, NULL, 0), 10);
    assert_int_equal(jobsched_schedule_explain(schedule, NULL, 0),
                     strlen("at 03:00 on the last Friday of each month, UTC"));
    assert_int_equal(jobsched_schedule_format(NULL, small, sizeof small), 0);
    jobsched_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_text_and_explanation),
        cmocka_unit_test(test_never_by_a_calendar_says_so),
        cmocka_unit_test(test_small_buffers_are_cut_and_the_length_is_told),
    };
    int failures = cmocka_run_group_tests_name("schedule texts", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
