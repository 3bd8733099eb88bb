/* fuzz_calendar.c: any text as the rules of a calendar, alone and attached to a schedule: occurrences
 * are included, go forward, and agree in both directions.
 * Input: the policy, the zone, then the text. */
#include "fuzz/fuzz.h"

#include <jobsched.h>

#include <string.h>

enum { STEPS = 8 };

static void check_schedule(const jobsched_calendar *calendar, int policy, const char *zone,
                           const char *text)
{
    const jobsched_calendar *calendars[] = {calendar, NULL};
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    int64_t at_ms = INT64_C(1704067200000);

    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.calendars = calendars;
    options.calendar_policy = policy;
    options.zone_directory = TESTS_DATA "/zoneinfo-slim";
    CHECK(jobsched_schedule_parse(text, &options, &schedule) == JOBSCHED_OK);
    for (int i = 0; i < STEPS; i++) {
        int64_t next_ms = jobsched_schedule_next(schedule, at_ms);

        CHECK(next_ms > at_ms);
        if (next_ms == JOBSCHED_NONE) {
            break;
        }
        CHECK(jobsched_schedule_matches(schedule, next_ms));
        CHECK(jobsched_schedule_next(schedule, next_ms - 1) == next_ms);
        CHECK(jobsched_schedule_previous(schedule, next_ms + 1) == next_ms);
        CHECK(i == 0 || jobsched_schedule_previous(schedule, next_ms) == at_ms);
        at_ms = next_ms;
    }
    jobsched_schedule_free(schedule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    jobsched_calendar_options options;
    jobsched_calendar *calendar = NULL;
    int policy = fuzz_byte(&input) % 4;
    const char *zone = fuzz_byte(&input) % 2 ? "America/Sao_Paulo" : NULL;
    char *text = fuzz_text(&input);
    int code;

    JOBSCHED_INIT(&options);
    options.zone_directory = TESTS_DATA "/zoneinfo-slim";
    code = jobsched_calendar_parse(text, &options, &calendar);
    if (code != JOBSCHED_OK) {
        const jobsched_error *error = jobsched_last_error();

        CHECK(calendar == NULL && code == JOBSCHED_EPARSE);
        CHECK(error->position >= 0 && (size_t)error->position <= strlen(text));
        CHECK(error->message[0] != '\0' && strchr(error->message, '\n') == NULL);
    } else {
        for (int i = 0; i < 400; i++) {
            int included = jobsched_calendar_includes(calendar, i * INT64_C(17650000000));

            CHECK(included == 0 || included == 1);
        }
        check_schedule(calendar, policy, zone, "0 3 * * *");
        check_schedule(calendar, policy, zone, "30 0,12 * * MON-FRI");
        jobsched_calendar_free(calendar);
    }
    free(text);
    return 0;
}
