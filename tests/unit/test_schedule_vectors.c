/* Every row of cron-cases.tsv through the public functions (G12): occurrences forward
 * and backward, matches, and the refusals with their byte positions. */
#include "unit/vectors.h"

#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct tally {
    const char *directory; /* of zone files; NULL: the system's */
    const char *version;   /* of its data, where it is known */
    int checked;
    int failed;
};

static void complain(struct tally *tally, const struct vector *vector, const char *what,
                     long long wanted, long long got)
{
    tally->failed++;
    print_error("%s: '%s' in '%s': %s: wanted %lld, got %lld\n", vector->id, vector->expression,
                vector->zone, what, wanted, got);
}

static void check_refusal(struct tally *tally, const struct vector *vector, int code)
{
    const jobsched_error *error = jobsched_last_error();
    if (code != JOBSCHED_EPARSE) {
        complain(tally, vector, "code", JOBSCHED_EPARSE, code);
        return;
    }
    if (vector->position >= 0 && error->position != vector->position) {
        complain(tally, vector, error->message, vector->position, (long long)error->position);
    }
    if (error->reason == JOBSCHED_SYNTAX_NONE || error->field[0] == '\0' ||
        error->message[0] == '\0') {
        complain(tally, vector, "detail is missing", 1, error->reason);
    }
}

static void check_occurrences(struct tally *tally, const struct vector *vector,
                              const jobsched_schedule *schedule)
{
    int64_t at = vector->start * 1000;
    for (int i = 0; i < vector->count; i++) {
        int64_t wanted = vector->expected[i] * 1000;
        int64_t got = jobsched_schedule_next(schedule, at);
        if (got != wanted) {
            complain(tally, vector, "next", wanted, got);
            return;
        }
        if (jobsched_schedule_next(schedule, wanted - 1) != wanted ||
            !jobsched_schedule_matches(schedule, wanted) ||
            jobsched_schedule_matches(schedule, wanted - 1)) {
            complain(tally, vector, "match", wanted, 0);
        }
        if (jobsched_schedule_previous(schedule, wanted + 1) != wanted) {
            complain(tally, vector, "previous of the instant after", wanted,
                     jobsched_schedule_previous(schedule, wanted + 1));
        }
        if (i > 0 && jobsched_schedule_previous(schedule, wanted) != at) {
            complain(tally, vector, "previous", at, jobsched_schedule_previous(schedule, wanted));
        }
        at = wanted;
    }
    if (vector->ends && jobsched_schedule_next(schedule, at) != JOBSCHED_NONE) {
        complain(tally, vector, "none", JOBSCHED_NONE, jobsched_schedule_next(schedule, at));
    }
    if (vector->count > 0 && jobsched_schedule_is_never(schedule)) {
        complain(tally, vector, "never", 0, 1);
    }
}

static void check(const struct vector *vector, void *data)
{
    struct tally *tally = data;
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;
    JOBSCHED_INIT(&options);
    options.timezone = vector->zone[0] != '\0' ? vector->zone : NULL;
    options.key = vector->seed[0] != '\0' ? vector->seed : NULL;
    options.zone_directory = tally->directory;
    int code = jobsched_schedule_parse(vector->expression, &options, &schedule);
    tally->checked++;
    if (vector->refused) {
        check_refusal(tally, vector, code);
    } else if (code != JOBSCHED_OK) {
        complain(tally, vector, jobsched_last_error()->message, 0, code);
    } else {
        check_occurrences(tally, vector, schedule);
        /* That it was these files and no others. */
        if (tally->version != NULL && strcmp(jobsched_schedule_zone(schedule), "UTC") != 0 &&
            strcmp(jobsched_schedule_zone_version(schedule), tally->version) != 0) {
            complain(tally, vector, jobsched_schedule_zone_version(schedule), 0, 1);
        }
    }
    jobsched_schedule_free(schedule);
}

static void check_all(const char *directory, const char *version)
{
    struct tally tally = {directory, version, 0, 0};
    int rows = vectors_visit(JOBSCHED_TESTS_DATA "/cron-cases.tsv", check, &tally);
    print_message("%d rows, %d checked, %d failed\n", rows, tally.checked, tally.failed);
    assert_int_equal(tally.failed, 0);
    assert_int_equal(rows, 308);
    assert_int_equal(tally.checked, 308);
}

static void test_vectors_hold_with_the_systems_zone_files(void **state)
{
    (void)state;
    if (access("/usr/share/zoneinfo/Europe/Berlin", R_OK) != 0) {
        skip(); /* a machine without tzdata; the fixtures remain */
    }
    check_all(NULL, NULL);
}

static void test_vectors_hold_with_fat_zone_files(void **state)
{
    (void)state;
    check_all(JOBSCHED_TESTS_DATA "/zoneinfo-fat", "2025b-fat");
}

static void test_vectors_hold_with_slim_zone_files(void **state)
{
    (void)state;
    check_all(JOBSCHED_TESTS_DATA "/zoneinfo-slim", "2025b-slim");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_hold_with_the_systems_zone_files),
        cmocka_unit_test(test_vectors_hold_with_fat_zone_files),
        cmocka_unit_test(test_vectors_hold_with_slim_zone_files)};
    int failures = cmocka_run_group_tests_name("schedule vectors", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
