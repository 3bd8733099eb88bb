/* Every row of cron-cases.tsv through the public functions (G12): occurrences forward
 * and backward, matches, and the refusals with their byte positions. */
#include "unit/vectors.h"

#include <jobsched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct tally {
    int checked;
    int skipped;
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
    int code = jobsched_schedule_parse(vector->expression, &options, &schedule);
    if (code == JOBSCHED_ENOTSUP) {
        tally->skipped++; /* zones come with the next stage */
        return;
    }
    tally->checked++;
    if (vector->refused) {
        check_refusal(tally, vector, code);
    } else if (code != JOBSCHED_OK) {
        complain(tally, vector, jobsched_last_error()->message, 0, code);
    } else {
        check_occurrences(tally, vector, schedule);
    }
    jobsched_schedule_free(schedule);
}

static void test_every_vector_holds(void **state)
{
    (void)state;
    struct tally tally = {0, 0, 0};
    int rows = vectors_visit(JOBSCHED_TESTS_DATA "/cron-cases.tsv", check, &tally);
    print_message("%d rows, %d checked, %d skipped, %d failed\n", rows, tally.checked,
                  tally.skipped, tally.failed);
    assert_int_equal(tally.failed, 0);
    assert_int_equal(rows, 308);
    assert_true(tally.checked > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_vector_holds)};
    int failures = cmocka_run_group_tests_name("schedule vectors", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
