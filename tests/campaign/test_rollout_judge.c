/* test_rollout_judge.c: the judge of roll-outs sees what is lost, and what fires that is not in force
 * (G9, G14), and only that: all that a correct cluster can do passes, however fast versions follow
 * each other. Instants are seconds; version 1 has the even ones, version 2 the odd ones, and so on. */
#include "rollout_judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 64, BASE_MS = 1000000000 };

typedef struct story {
    const char *name;
    const char *began;    /* when versions 2, 3 and so on were started, in tenths of a second */
    const char *seen;     /* which versions were seen in force, as "2@51" with the mark 5.1 s */
    const char *instants; /* of the rows, in seconds; "4-8" is a row of a range */
    int until;            /* in seconds */
    uint64_t faults, lost;
} story;

static const story stories[] = {
    {"no roll-out", "", "", "2 4 6 8 10", 12, 0, 0},
    {"a switch", "45", "", "2 4 5 7 9", 11, 0, 0},
    {"the latest switch", "45", "", "2 4 6 7 9", 11, 0, 0},
    {"the old one goes on for long", "45", "", "2 4 6 8 10 12 13 15", 17, 0, 0},
    {"a range is closed before", "45", "", "2 4-8 9 11", 13, 0, 0},
    {"there and back", "45 65", "", "2 4 5 8 10", 12, 0, 0},
    {"there and back, nothing fired there", "45 48", "", "2 4 6 8", 10, 0, 0},
    {"the one before the last stays", "41 46", "", "2 4 7 9 11", 13, 1, 0},
    {"the last one, silent at the end", "45 78", "", "2 4 5 7", 11, 0, 0},
    {"silent versions bridge more", "41 45 62", "", "2 4 9 11", 13, 0, 0},
    {"a version that never was in force", "45 47 48", "", "2 4 7 9", 11, 0, 0},
    {"lost before a switch", "65", "", "2 4 9 11", 13, 1, 1},
    {"two lost before a switch", "85", "", "2 4 11 13", 15, 1, 2},
    {"lost in a range's end", "65", "", "2-4 9 11", 13, 1, 1},
    {"lost in the new one", "41", "", "2 4 5 9 11", 13, 1, 0},
    {"a hole", "", "", "2 4 8 10", 12, 1, 0},
    {"both schedules", "45", "", "2 4 5 6 7 8 9", 11, 2, 0},
    {"the old one comes back", "45", "", "2 4 5 7 8 10", 12, 2, 0},
    {"before it was started", "75", "", "2 4 5 7 9", 11, 1, 0},
    {"twice", "", "", "2 4 4 6", 8, 1, 0},
    {"begins late", "", "", "6 8 10", 12, 1, 0},
    {"begins with another", "", "", "3 5 7", 9, 4, 0},
    {"the new one never comes", "25", "", "2 4 6 8 10 12", 14, 1, 0},
    {"nothing at the end", "", "", "2 4 6 8", 18, 1, 0},
    /* with what was seen in force */
    {"seen right after the cut", "45", "2@52", "2 4 7 9", 11, 0, 0},
    {"seen later", "45", "2@70", "2 4 7 9", 11, 0, 0},
    {"fired by the new one before the cut", "45", "2@52", "2 4 5 7 9", 11, 1, 0},
    {"fired by the old one after the cut", "45", "2@52", "2 4 6 7 9", 11, 2, 0},
    {"fired by the old one after the new one was seen", "45", "2@50", "2 4 5 6 7 9", 11, 2, 0},
    {"lost before the cut", "45", "2@93", "2 4 11 13", 15, 1, 2},
    {"lost in silent versions", "41 45 62", "2@44 3@58 4@77", "2 4 9 11", 13, 1, 1},
    {"silent versions, and well", "41 45 62", "2@51 3@68 4@77", "2 4 9 11", 13, 0, 0},
};

/* The next number of a text, behind what is between; false at its end. */
static bool take_number(const char **text, int64_t *out)
{
    const char *at = *text + strspn(*text, " -@");
    char *end;
    *out = strtol(at, &end, 10);
    *text = end;
    return end != at;
}

static void make_rows(const char *text, check_row *rows, size_t *out_count)
{
    *out_count = 0;
    for (int64_t first, last; take_number(&text, &first);) {
        last = first;
        assert_true(*text != '-' || take_number(&text, &last));
        assert_true(*out_count < ROWS_MAX);
        rows[(*out_count)++] = (check_row){.job = ROLLED_NAME "0",
                                           .first_ms = BASE_MS + first * 1000,
                                           .last_ms = BASE_MS + last * 1000,
                                           .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    }
}

static void test_judge_sees_each_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        const story *one = &stories[i];
        static rollout_cuts cuts;
        rollout_history history = {.cuts = &cuts,
                                   .job_count = 1,
                                   .version = 1,
                                   .ready_ms = BASE_MS + 1000,
                                   .until_ms = BASE_MS + one->until * INT64_C(1000)};
        rollout_cuts_init(&cuts);
        const char *text = one->began;
        for (int64_t tenths; take_number(&text, &tenths);) {
            rollout_cuts_begin(&cuts, ++history.version, BASE_MS + tenths * 100);
        }
        text = one->seen;
        for (int64_t v, tenths; take_number(&text, &v) && take_number(&text, &tenths);) {
            int64_t mark_ms = BASE_MS + tenths * 100;
            rollout_cuts_seen(&cuts, (size_t)v, mark_ms, mark_ms + 10);
        }
        check_row rows[ROWS_MAX];
        size_t count;
        make_rows(one->instants, rows, &count);
        rollout_report report;
        rollout_judge(&history, rows, count, &report);
        if (report.faults != one->faults || report.lost != one->lost) {
            print_error("'%s': %llu faults, %llu lost\n", one->name,
                        (unsigned long long)report.faults, (unsigned long long)report.lost);
        }
        assert_int_equal(report.faults, one->faults);
        assert_int_equal(report.lost, one->lost);
        assert_int_equal(report.fired, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_judge_sees_each_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
