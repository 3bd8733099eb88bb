/* fuzz_schedule.c: any text through the parser of schedules, and for what it accepts the promises of
 * the public functions: next, previous and matches agree, canonical text means the same and is its
 * own canonical text, nothing written is more than one line of printable ASCII.
 * Input: zone, policies, four bytes of an instant, then the text. */
#include "fuzz/fuzz.h"

#include "schedule/parsed.h"

#include <string.h>

enum { STEPS = 6, CHANGES = 4, WRITTEN_BYTES = 65536 };

static const char *const zones[] = {
    NULL,           "UTC",          "Europe/Berlin",       "America/New_York", "America/Sao_Paulo",
    "Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe", "America/Nuuk",     "Africa/Monrovia",
    "Asia/Gaza",    "Europe/Dublin"};

static int64_t instant(struct fuzz_input *input)
{
    uint32_t number = 0;

    for (int i = 0; i < 4; i++) {
        number = number << 8 | fuzz_byte(input);
    }
    /* A little beyond both ends of 1970 to 2199. */
    return ((int64_t)number * 17 / 10 - 86400) * 1000 + number % 1000;
}

/* Within two days of some change of the clocks of the schedule's zone. */
static int64_t near_a_change(const jobsched_schedule *schedule, int64_t number)
{
    const struct jsi_zone *zone = schedule->zone;
    uint64_t pick = (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) >> 16;
    int64_t start = zone->segments[pick % zone->count].start;

    return (start + (int64_t)(pick / zone->count % (4 * 86400)) - 2 * 86400) * 1000;
}

static void check_refusal(int code, const char *text, const char *zone)
{
    const jobsched_error *error = jobsched_last_error();

    CHECK(code == JOBSCHED_EPARSE || code == JOBSCHED_ENOTFOUND);
    CHECK(error->code == code);
    CHECK(error->reason > JOBSCHED_SYNTAX_NONE && error->reason <= JOBSCHED_SYNTAX_NO_KEY);
    CHECK(error->position >= 0);
    CHECK((size_t)error->position <= strlen(text) ||
          (zone != NULL && error->reason == JOBSCHED_SYNTAX_ZONE));
    CHECK(error->message[0] != '\0' && strchr(error->message, '\n') == NULL);
    CHECK(error->field[0] != '\0');
}

static void check_written(const char *text, size_t length)
{
    CHECK(strlen(text) == length && length > 0);
    for (size_t i = 0; i < length; i++) {
        CHECK(text[i] >= ' ' && text[i] <= '~');
    }
}

static void check_occurrence(const jobsched_schedule *schedule, int64_t at_ms)
{
    jobsched_occurrence occurrence;

    JOBSCHED_INIT(&occurrence);
    CHECK(jobsched_schedule_occurrence(schedule, at_ms, &occurrence) == JOBSCHED_OK);
    CHECK(occurrence.at_ms == at_ms);
    CHECK(occurrence.local_ms == at_ms + occurrence.offset_s * INT64_C(1000));
    CHECK(((occurrence.flags & JOBSCHED_OCCURRENCE_SHIFTED) != 0) ==
          (occurrence.nominal_local_ms != occurrence.local_ms));
}

static void check_walk(const jobsched_schedule *schedule, int64_t from_ms)
{
    int64_t at_ms = from_ms, found = 0;

    for (int i = 0; i < STEPS; i++) {
        int64_t next_ms = jobsched_schedule_next(schedule, at_ms);

        CHECK(next_ms > at_ms);
        if (next_ms == JOBSCHED_NONE) {
            break;
        }
        CHECK(next_ms % 1000 == 0);
        CHECK(jobsched_schedule_matches(schedule, next_ms));
        CHECK(!jobsched_schedule_matches(schedule, next_ms - 1));
        CHECK(jobsched_schedule_next(schedule, next_ms - 1) == next_ms);
        CHECK(jobsched_schedule_previous(schedule, next_ms + 1) == next_ms);
        if (i > 0) {
            CHECK(jobsched_schedule_previous(schedule, next_ms) == at_ms);
        }
        check_occurrence(schedule, next_ms);
        at_ms = next_ms;
        found++;
    }
    CHECK(!jobsched_schedule_is_never(schedule) || found == 0);
    if (jobsched_schedule_is_never(schedule)) {
        CHECK(jobsched_schedule_next(schedule, INT64_MIN) == JOBSCHED_NONE);
        CHECK(jobsched_schedule_previous(schedule, INT64_MAX) == JOBSCHED_NONE);
    }
}

static void check_again(const jobsched_schedule *schedule, const jobsched_schedule_options *options,
                        int64_t from_ms)
{
    static char text[WRITTEN_BYTES], twice[WRITTEN_BYTES];
    jobsched_schedule_options again = *options;
    jobsched_schedule *second = NULL;
    size_t length = jobsched_schedule_format(schedule, text, sizeof text);
    int64_t a_ms = from_ms, b_ms = from_ms;

    CHECK(length < sizeof text);
    check_written(text, length);
    again.timezone = NULL;
    again.key = NULL;
    again.text_bytes_max = WRITTEN_BYTES;
    CHECK(jobsched_schedule_parse(text, &again, &second) == JOBSCHED_OK);
    CHECK(jobsched_schedule_format(second, twice, sizeof twice) == length);
    CHECK(strcmp(text, twice) == 0);
    CHECK(jobsched_schedule_is_never(schedule) == jobsched_schedule_is_never(second));
    for (int i = 0; i < STEPS && a_ms != JOBSCHED_NONE; i++) {
        a_ms = jobsched_schedule_next(schedule, a_ms);
        b_ms = jobsched_schedule_next(second, b_ms);
        CHECK(a_ms == b_ms);
    }
    CHECK(jobsched_schedule_previous(schedule, from_ms) ==
          jobsched_schedule_previous(second, from_ms));
    jobsched_schedule_free(second);
    length = jobsched_schedule_explain(schedule, text, sizeof text);
    CHECK(length < sizeof text);
    check_written(text, length);
    /* Cut as snprintf cuts. */
    CHECK(jobsched_schedule_explain(schedule, twice, 8) == length && strlen(twice) < 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    uint8_t zone = fuzz_byte(&input), policies = fuzz_byte(&input);
    int64_t from_ms = instant(&input);
    char *text = fuzz_text(&input);
    int code;

    JOBSCHED_INIT(&options);
    options.timezone = zones[zone % (sizeof zones / sizeof zones[0])];
    options.key = policies & 1 ? "backup" : NULL;
    options.dst_gap = policies / 2 % 3;
    options.dst_overlap = policies / 6 % 3;
    options.zone_directory = TESTS_DATA "/zoneinfo-slim";
    code = jobsched_schedule_parse(text, &options, &schedule);
    if (code != JOBSCHED_OK) {
        CHECK(schedule == NULL);
        check_refusal(code, text, options.timezone);
    } else {
        if (schedule->kind != JSI_KIND_AFTER) {
            check_walk(schedule, from_ms);
            for (int i = 0; i < CHANGES; i++) {
                check_walk(schedule, near_a_change(schedule, from_ms + i));
            }
        }
        check_again(schedule, &options, from_ms);
    }
    jobsched_schedule_free(schedule);
    free(text);
    return 0;
}
