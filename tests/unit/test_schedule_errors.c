/* Refusals (G12: nothing is taken for a schedule that is none): reason, field, byte
 * position and allowed range of each kind of error; and that no text whatever leads to
 * anything but a schedule or a refusal with a position inside the text. */
#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *text;
    int reason;
    int position;
    const char *field;
    int64_t low, high; /* 0, 0: no range */
};

static const struct row rows[] = {
    {"", JOBSCHED_SYNTAX_EMPTY, 0, "schedule", 0, 0},
    {" \t ", JOBSCHED_SYNTAX_EMPTY, 0, "schedule", 0, 0},
    {"0 0 * * *\r", JOBSCHED_SYNTAX_BAD_CHAR, 9, "schedule", 0, 0},
    {"0 0 * * \x7f", JOBSCHED_SYNTAX_BAD_CHAR, 8, "schedule", 0, 0},
    {"\xc2\xa0* * * * *", JOBSCHED_SYNTAX_BAD_CHAR, 0, "schedule", 0, 0},
    {"* * * *", JOBSCHED_SYNTAX_FIELD_COUNT, 7, "schedule", 5, 7},
    {"  * * *", JOBSCHED_SYNTAX_FIELD_COUNT, 7, "schedule", 5, 7},
    {"x x x", JOBSCHED_SYNTAX_FIELD_COUNT, 5, "schedule", 5, 7},
    {"* * * * * * * *", JOBSCHED_SYNTAX_FIELD_COUNT, 14, "schedule", 5, 7},
    {"60 * * * *", JOBSCHED_SYNTAX_RANGE, 0, "minute", 0, 59},
    {"0 0 0 * *", JOBSCHED_SYNTAX_RANGE, 4, "day-of-month", 1, 31},
    {"0 0 1 13 *", JOBSCHED_SYNTAX_RANGE, 6, "month", 1, 12},
    {"0 0 * * 1-8", JOBSCHED_SYNTAX_RANGE, 10, "day-of-week", 0, 7},
    {"0 0 0 1 1 * 1969", JOBSCHED_SYNTAX_RANGE, 12, "year", 1970, 2199},
    {"4294967297 * * * *", JOBSCHED_SYNTAX_RANGE, 0, "minute", 0, 59},
    {"0-18446744073709551616 * * * *", JOBSCHED_SYNTAX_RANGE, 2, "minute", 0, 59},
    {"0000000001 * * * *", JOBSCHED_SYNTAX_RANGE, 0, "minute", 0, 59},
    {"0 0 * FOO *", JOBSCHED_SYNTAX_NAME, 6, "month", 0, 0},
    {"0 0 * JANUARY *", JOBSCHED_SYNTAX_NAME, 6, "month", 0, 0},
    {"0 0 * * MON-XYZ", JOBSCHED_SYNTAX_NAME, 12, "day-of-week", 0, 0},
    {"0 0 JUL * *", JOBSCHED_SYNTAX_NAME, 4, "day-of-month", 0, 0},
    {"0 0 * * l", JOBSCHED_SYNTAX_NAME, 8, "day-of-week", 0, 0},
    {"h * * * *", JOBSCHED_SYNTAX_NAME, 0, "minute", 0, 0},
    {"1, * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"-5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"5--7 * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"5-/2 * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"*-5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"5-* * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"/5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"** * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"1.5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"0,1.5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"*/2/3 * * * *", JOBSCHED_SYNTAX_SYNTAX, 3, "minute", 0, 0},
    {"1-2-3 * * * *", JOBSCHED_SYNTAX_SYNTAX, 3, "minute", 0, 0},
    {"0 0 * * +", JOBSCHED_SYNTAX_SYNTAX, 9, "day-of-week", 0, 0},
    {"+1 * * * *", JOBSCHED_SYNTAX_SYNTAX, 0, "minute", 0, 0},
    {"*/0 * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"*//2 * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"*/2x * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"0 0-5/25 * * *", JOBSCHED_SYNTAX_STEP, 6, "hour", 1, 24},
    {"0 0 * * */8", JOBSCHED_SYNTAX_STEP, 10, "day-of-week", 1, 7},
    {"*/99999999999999999999 * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"*/4294967297 * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"0 0 0 1 1 * 2030-2020", JOBSCHED_SYNTAX_REVERSED, 12, "year", 0, 0},
    {"0 0 * * 1#6", JOBSCHED_SYNTAX_NTH, 10, "day-of-week", 1, 5},
    {"0 0 * * 1#", JOBSCHED_SYNTAX_NTH, 10, "day-of-week", 1, 5},
    {"0 0 * * 1#-1", JOBSCHED_SYNTAX_NTH, 10, "day-of-week", 1, 5},
    {"0 0 * * 1#0000000001", JOBSCHED_SYNTAX_NTH, 10, "day-of-week", 1, 5},
    {"0 0 * * 1#12", JOBSCHED_SYNTAX_NTH, 10, "day-of-week", 1, 5},
    {"0 0 * * fri#l", JOBSCHED_SYNTAX_NTH, 12, "day-of-week", 1, 5},
    {"0 0 * * 1,2#9", JOBSCHED_SYNTAX_NTH, 12, "day-of-week", 1, 5},
    {"0 0 ?,1 * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 ?/2 * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 * ? *", JOBSCHED_SYNTAX_DAY_SPEC, 6, "month", 0, 0},
    {"0 0 1,2-? * *", JOBSCHED_SYNTAX_DAY_SPEC, 6, "day-of-month", 0, 0},
    {"0 0 * * MON-?", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 * * MON-We", JOBSCHED_SYNTAX_NAME, 12, "day-of-week", 0, 0},
    {"0 0 * * MON-W", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 * * MON/2L", JOBSCHED_SYNTAX_STEP, 12, "day-of-week", 1, 7},
    {"0 0 * * 5L/2", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 */L * *", JOBSCHED_SYNTAX_STEP, 6, "day-of-month", 1, 31},
    {"0 0 L/2 * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"H(1~5) * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"0 0 L- * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 L-0 * *", JOBSCHED_SYNTAX_RANGE, 6, "day-of-month", 1, 30},
    {"0 0 L-31W * *", JOBSCHED_SYNTAX_RANGE, 6, "day-of-month", 1, 30},
    {"0 0 W * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 L/2 * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 1-15W * *", JOBSCHED_SYNTAX_DAY_SPEC, 4, "day-of-month", 0, 0},
    {"0 0 1,15W/2 * *", JOBSCHED_SYNTAX_DAY_SPEC, 6, "day-of-month", 0, 0},
    {"0 0 * * 5L/2", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 * * 1-5L", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 * * LW", JOBSCHED_SYNTAX_DAY_SPEC, 8, "day-of-week", 0, 0},
    {"0 0 * L *", JOBSCHED_SYNTAX_NAME, 6, "month", 0, 0},
    {"@Daily", JOBSCHED_SYNTAX_MACRO, 0, "schedule", 0, 0},
    {"@every5m", JOBSCHED_SYNTAX_MACRO, 0, "schedule", 0, 0},
    {"  @dayly", JOBSCHED_SYNTAX_MACRO, 2, "schedule", 0, 0},
    {"@hourly  x", JOBSCHED_SYNTAX_MACRO, 9, "schedule", 0, 0},
    {"@every", JOBSCHED_SYNTAX_DURATION, 6, "duration", 0, 0},
    {"@every 1.5h", JOBSCHED_SYNTAX_DURATION, 8, "duration", 0, 0},
    {"@every 5m5m", JOBSCHED_SYNTAX_DURATION, 10, "duration", 0, 0},
    {"@every 500ms", JOBSCHED_SYNTAX_DURATION, 10, "duration", 0, 0},
    {"@every 1m1h", JOBSCHED_SYNTAX_DURATION, 10, "duration", 0, 0},
    {"@every 36601d", JOBSCHED_SYNTAX_DURATION, 7, "duration", 1, INT64_C(3162240000)},
    {"@every 1234567890s", JOBSCHED_SYNTAX_DURATION, 7, "duration", 1, INT64_C(3162240000)},
    {"@every 5 m", JOBSCHED_SYNTAX_DURATION, 8, "duration", 0, 0},
    {"@every 1h from", JOBSCHED_SYNTAX_INSTANT, 14, "instant", 0, 0},
    {"@every 1h since 2024-01-01T00:00Z", JOBSCHED_SYNTAX_MACRO, 10, "schedule", 0, 0},
    {"@every 1h from 2024-01-01T00:00Z x", JOBSCHED_SYNTAX_MACRO, 33, "schedule", 0, 0},
    {"@at 2024-1-01T00:00Z", JOBSCHED_SYNTAX_INSTANT, 4, "instant", 0, 0},
    {"@at 2024-01-01T00:00:60Z", JOBSCHED_SYNTAX_INSTANT, 4, "instant", 0, 0},
    {"@at 2023-02-29T00:00Z", JOBSCHED_SYNTAX_INSTANT, 4, "instant", 0, 0},
    {"@at 2024-01-01T00:00+1:00", JOBSCHED_SYNTAX_INSTANT, 4, "instant", 0, 0},
    {"@at 2024-01-01T00:00Zz", JOBSCHED_SYNTAX_INSTANT, 4, "instant", 0, 0},
    {"@at 2024-01-01T00:00Z x", JOBSCHED_SYNTAX_MACRO, 22, "schedule", 0, 0},
    {"@after", JOBSCHED_SYNTAX_DURATION, 6, "duration", 0, 0},
    {"@after 0s", JOBSCHED_SYNTAX_DURATION, 7, "duration", 1, INT64_C(3162240000)},
    {"@after 5m from now", JOBSCHED_SYNTAX_MACRO, 10, "schedule", 0, 0},
    {"@reboot", JOBSCHED_SYNTAX_NOT_TIME, 0, "schedule", 0, 0},
    {"TZ= * * * * *", JOBSCHED_SYNTAX_ZONE, 3, "timezone", 0, 0},
    {"CRON_TZ=/etc/localtime * * * * *", JOBSCHED_SYNTAX_ZONE, 8, "timezone", 0, 0},
    {"TZ=Europe//Berlin * * * * *", JOBSCHED_SYNTAX_ZONE, 3, "timezone", 0, 0},
    {"TZ=Europe/ * * * * *", JOBSCHED_SYNTAX_ZONE, 3, "timezone", 0, 0},
    {" TZ=a.b * * * * *", JOBSCHED_SYNTAX_ZONE, 4, "timezone", 0, 0},
    {"CRON_TZ=UTC", JOBSCHED_SYNTAX_FIELD_COUNT, 11, "schedule", 5, 7},
    {"TZ=UTC TZ=UTC * * * *", JOBSCHED_SYNTAX_NAME, 7, "minute", 0, 0},
    {"H * * * *", JOBSCHED_SYNTAX_NO_KEY, 0, "minute", 0, 0},
    {"0 3,~ * * *", JOBSCHED_SYNTAX_NO_KEY, 4, "hour", 0, 0},
    {"0 0 0 1 1 * H", JOBSCHED_SYNTAX_SYNTAX, 12, "year", 0, 0},
};

/* With a key given. */
static const struct row hash_rows[] = {
    {"H(5) * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"H() * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"H(1-) * * * *", JOBSCHED_SYNTAX_SYNTAX, 4, "minute", 0, 0},
    {"H(1-5 * * * *", JOBSCHED_SYNTAX_SYNTAX, 5, "minute", 0, 0},
    {"H(1-5)x * * * *", JOBSCHED_SYNTAX_SYNTAX, 6, "minute", 0, 0},
    {"H(1-60) * * * *", JOBSCHED_SYNTAX_RANGE, 4, "minute", 0, 59},
    {"H(9-5) * * * *", JOBSCHED_SYNTAX_REVERSED, 2, "minute", 0, 0},
    {"30~20 * * * *", JOBSCHED_SYNTAX_REVERSED, 0, "minute", 0, 0},
    {"0,30~20 * * * *", JOBSCHED_SYNTAX_REVERSED, 2, "minute", 0, 0},
    {"1~60 * * * *", JOBSCHED_SYNTAX_RANGE, 2, "minute", 0, 59},
    {"1~2~3 * * * *", JOBSCHED_SYNTAX_SYNTAX, 2, "minute", 0, 0},
    {"H/61 * * * *", JOBSCHED_SYNTAX_STEP, 2, "minute", 1, 60},
    {"H-5 * * * *", JOBSCHED_SYNTAX_NAME, 0, "minute", 0, 0},
    {"5-H * * * *", JOBSCHED_SYNTAX_NAME, 2, "minute", 0, 0},
    {"0 0 0 1 1 * 2020~2030", JOBSCHED_SYNTAX_SYNTAX, 12, "year", 0, 0},
};

static void check_row(const struct row *row, const char *key)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.key = key;
    int code = jobsched_schedule_parse(row->text, &options, &schedule);
    const jobsched_error *error = jobsched_last_error();
    if (code != JOBSCHED_EPARSE || schedule != NULL) {
        fail_msg("'%s': taken, or code %d", row->text, code);
    }
    if (error->reason != row->reason || error->position != row->position ||
        strcmp(error->field, row->field) != 0) {
        fail_msg("'%s': got reason %d at %lld in '%s': %s", row->text, error->reason,
                 (long long)error->position, error->field, error->message);
    }
    if (error->has_range != (row->high != 0 ? 1 : 0) ||
        (error->has_range && (error->low != row->low || error->high != row->high))) {
        fail_msg("'%s': range %lld-%lld", row->text, (long long)error->low, (long long)error->high);
    }
}

static void test_each_kind_of_error_tells_where_and_why(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i], NULL);
        check_row(&rows[i], ""); /* an empty key is none */
    }
    for (size_t i = 0; i < sizeof hash_rows / sizeof hash_rows[0]; i++) {
        check_row(&hash_rows[i], "backup");
    }
}

static const char *message_of(const char *text)
{
    jobsched_schedule *schedule = NULL;
    assert_int_equal(jobsched_schedule_parse(text, NULL, &schedule), JOBSCHED_EPARSE);
    return jobsched_last_error()->message;
}

static void test_messages_can_be_acted_upon(void **state)
{
    (void)state;
    assert_string_equal(message_of("60 * * * *"),
                        "minute: value 60 is outside 0-59 at column 1 (\"60 * * * *\")");
    assert_string_equal(message_of("*/90 * * * *"),
                        "minute: step 90 is larger than the field (60 values) at column 3; "
                        "for every 90 minutes use \"@every 90m\"");
    assert_string_equal(message_of("0 */36 * * *"),
                        "hour: step 36 is larger than the field (24 values) at column 5; "
                        "for every 36 hours use \"@every 36h\"");
    assert_string_equal(message_of("5-20/70 * * * *"),
                        "minute: step 70 is larger than the field (60 values) at column 6 "
                        "(\"5-20/70 * * * *\")");
    /* Where the intent is plain, a hint in the text's stead. */
    assert_string_equal(message_of("0 24 * * *"), "hour: value 24 is outside 0-23 at column 3; "
                                                  "for midnight use 0");
    assert_string_equal(message_of("0 25 * * *"),
                        "hour: value 25 is outside 0-23 at column 3 (\"0 25 * * *\")");
    assert_string_equal(message_of("0 0 l * *"),
                        "day-of-month: 'l' is not a name of this field at column 5; "
                        "L and W are capital letters");
    assert_string_equal(message_of("0 0 15w * *"),
                        "day-of-month: '15w' is not a value at column 5; "
                        "L and W are capital letters");
    assert_string_equal(message_of("0 0 Lw * *"),
                        "day-of-month: 'Lw' is not a day form at column 5; "
                        "L and W are capital letters");
    assert_string_equal(message_of("0 0 * * 5l"), "day-of-week: '5l' is not a value at column 9; "
                                                  "L is a capital letter");
    assert_string_equal(message_of("0 0 * * fril"),
                        "day-of-week: 'fril' is not a name of this field at column 9; "
                        "L is a capital letter");
    assert_string_equal(message_of("0 0 * * FRI#l"),
                        "day-of-week: occurrence 'l' is not 1-5 or L at column 13; "
                        "L is a capital letter");
    assert_string_equal(message_of("0 0 * * L"), "day-of-week: 'L' is not a day form at column 9; "
                                                 "for the last Saturday of the month use \"6L\"");
    assert_string_equal(message_of("0 0 * l *"),
                        "month: 'l' is not a name of this field at column 7 (\"0 0 * l *\")");
    assert_string_equal(message_of("0 0 * * fool"),
                        "day-of-week: 'fool' is not a name of this field at column 9 "
                        "(\"0 0 * * fool\")");
    assert_string_equal(message_of(" @Daily"),
                        "schedule: '@Daily' is not a known macro at column 2; write \"@daily\"");
    assert_string_equal(message_of("@Every 5m"),
                        "schedule: '@Every' is not a known macro at column 1; write \"@every\"");
    assert_string_equal(message_of("@dayly"),
                        "schedule: '@dayly' is not a known macro at column 1 (\"@dayly\")");
    assert_string_equal(message_of("TZ=US/Nowhere @daily"),
                        "timezone: unknown time zone 'US/Nowhere' at column 4; "
                        "old names like US/Eastern are in the package tzdata-legacy, the new ones "
                        "are like America/New_York");
    assert_string_equal(message_of("0 0 * * *\n"),
                        "schedule: byte 0x0a is not allowed at column 10");
    assert_string_equal(message_of(""), "schedule: the text is empty at column 1");
    /* One line, cut, and never longer than the buffer. */
    char text[256];
    memset(text, '9', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_null(strchr(message_of(text), '\n'));
}

static void test_the_length_is_limited_before_parsing(void **state)
{
    (void)state;
    char text[400];
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "* * * * *", 9);
    text[256] = '\0';
    assert_int_equal(jobsched_schedule_parse(text, NULL, &schedule), JOBSCHED_OK);
    jobsched_schedule_free(schedule);
    text[256] = '\n'; /* the length comes first */
    assert_int_equal(jobsched_schedule_parse(text, NULL, &schedule), JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_TOO_LONG);
    assert_int_equal(jobsched_last_error()->position, 256);
    text[256] = ' ';
    JOBSCHED_INIT(&options);
    options.text_bytes_max = sizeof text;
    assert_int_equal(jobsched_schedule_parse(text, &options, &schedule), JOBSCHED_OK);
    jobsched_schedule_free(schedule);
    options.text_bytes_max = UINT64_MAX;
    assert_int_equal(jobsched_schedule_parse(text, &options, &schedule), JOBSCHED_EINVAL);
}

static void test_a_zone_is_given_once(void **state)
{
    (void)state;
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.timezone = "UTC";
    assert_int_equal(jobsched_schedule_parse("  TZ=UTC * * * * *", &options, &schedule),
                     JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_ZONE_TWICE);
    assert_int_equal(jobsched_last_error()->position, 2);
    options.timezone = "../etc/passwd";
    assert_int_equal(jobsched_schedule_parse("* * * * *", &options, &schedule), JOBSCHED_EPARSE);
    assert_int_equal(jobsched_last_error()->reason, JOBSCHED_SYNTAX_ZONE);
    assert_int_equal(jobsched_last_error()->position, 0);
    options.timezone = "";
    assert_int_equal(jobsched_schedule_parse("TZ=Etc/UTC * * * * *", &options, &schedule),
                     JOBSCHED_OK);
    jobsched_schedule_free(schedule);
}

static const char *const valid[] = {
    "* * * * *",
    "*/15 0-23/2 1,15 JAN-mar MON-FRI",
    "50-10/10 22-2 25-5 NOV-FEB FRI-MON",
    "59 59 23 31 12 ? 2199",
    "0 0 0 29 2 * 2023-2199/4,2001",
    " \t5\t4 L-3W,LW,15W,L * +MON#1,5L,3#L\t ",
    "H(1-5)/2 H H/5 * ~3",
    "0~30/7 ~ 20~ * H",
    "TZ=UTC @daily",
    "CRON_TZ=Etc/UTC 0 0 ? * 7",
    "CRON_TZ=America/New_York 0 9 * * *",
    "@every 1w2d3h4m5s from 2024-01-01T00:10:00+01:30",
    "@at 2027-12-31T23:59",
    "@every_second",
};

/* A refusal has a position inside the text (its end included); what is taken can be
 * asked. */
static void check_text(const char *text, int *taken)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.key = "key";
    int code = jobsched_schedule_parse(text, &options, &schedule);
    const jobsched_error *error = jobsched_last_error();
    if (code == JOBSCHED_OK) {
        int64_t next = jobsched_schedule_next(schedule, 1700000000000);
        if (next <= 1700000000000) {
            fail_msg("'%s': next is not after", text);
        }
        (*taken)++;
        jobsched_schedule_free(schedule);
        return;
    }
    bool reasoned =
        code == JOBSCHED_EPARSE ? error->reason != JOBSCHED_SYNTAX_NONE : code == JOBSCHED_ENOTSUP;
    if (!reasoned || error->position < 0 || (size_t)error->position > strlen(text) ||
        strchr(error->message, '\n') != NULL) {
        fail_msg("'%s': code %d, position %lld: %s", text, code, (long long)error->position,
                 error->message);
    }
}

static void test_every_prefix_is_taken_or_refused_with_a_position(void **state)
{
    (void)state;
    int taken = 0;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        char text[256];
        size_t length = strlen(valid[i]);
        for (size_t cut = 0; cut <= length; cut++) {
            memcpy(text, valid[i], cut);
            text[cut] = '\0';
            check_text(text, &taken);
            (void)snprintf(text, sizeof text, "%s", valid[i] + cut);
            check_text(text, &taken);
        }
    }
    assert_true(taken > 20);
}

static void test_every_changed_byte_is_taken_or_refused_with_a_position(void **state)
{
    (void)state;
    int taken = 0;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        char text[256];
        size_t length = strlen(valid[i]);
        for (size_t at = 0; at < length; at++) {
            memcpy(text, valid[i], length + 1);
            for (int byte = 1; byte < 256; byte++) {
                text[at] = (char)byte;
                check_text(text, &taken);
            }
        }
    }
    assert_true(taken > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_of_error_tells_where_and_why),
        cmocka_unit_test(test_messages_can_be_acted_upon),
        cmocka_unit_test(test_the_length_is_limited_before_parsing),
        cmocka_unit_test(test_a_zone_is_given_once),
        cmocka_unit_test(test_every_prefix_is_taken_or_refused_with_a_position),
        cmocka_unit_test(test_every_changed_byte_is_taken_or_refused_with_a_position),
    };
    int failures = cmocka_run_group_tests_name("schedule errors", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
