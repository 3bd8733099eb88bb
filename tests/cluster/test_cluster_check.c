/* test_cluster_check.c: the judge of the cluster tests sees every kind of fault. A made-up history
 * without one is clean; each row breaks it in one way, and that is reported. */
#include "check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RUNS = 5, FIRST_MS = 1000000000 };

typedef struct history {
    check_job job;
    record records[2 * RUNS + 2];
    check_row rows[RUNS + 1];
    check_input input;
} history;

/* Five runs of 100 ms, 5 ms late, by n1. */
static void make(history *h)
{
    memset(h, 0, sizeof *h);
    h->job = (check_job){"job-1", "* * * * * *", 1000, 0, 100, NULL, NULL};
    for (int i = 0; i < RUNS; i++) {
        int64_t at_ms = FIRST_MS + i * 1000;
        record *start = &h->records[2 * i];
        *start = (record){.at_us = at_ms * 1000 + 5000,
                          .scheduled_ms = at_ms,
                          .token = (uint64_t)i + 1,
                          .what = RECORD_START,
                          .node = 1,
                          .job = "job-1"};
        start[1] = *start;
        start[1].what = RECORD_END;
        start[1].at_us += 100000;
        h->rows[i] = (check_row){.job = "job-1",
                                 .node = "n1",
                                 .first_ms = at_ms,
                                 .last_ms = at_ms,
                                 .count = 1,
                                 .token = (uint64_t)i + 1,
                                 .attempt = 1,
                                 .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    }
    h->input = (check_input){.jobs = &h->job,
                             .job_count = 1,
                             .records = h->records,
                             .record_count = (size_t)2 * RUNS,
                             .rows = h->rows,
                             .row_count = RUNS,
                             .begin_ms = FIRST_MS - 2000,
                             .ready_ms = FIRST_MS - 500,
                             .until_ms = FIRST_MS + (RUNS - 1) * 1000,
                             .end_ms = FIRST_MS + RUNS * 1000};
}

static void fire_twice(history *h)
{
    record *copy = &h->records[2 * RUNS];
    copy[0] = h->records[4];
    copy[1] = h->records[5];
    for (int i = 0; i < 2; i++) {
        copy[i].at_us += 200000;
        copy[i].token = 99;
        copy[i].node = 2;
    }
    h->records[6].token = h->records[7].token = 100; /* tokens of later runs go on from there */
    h->records[8].token = h->records[9].token = 101;
    h->rows[3].token = 100;
    h->rows[4].token = 101;
    h->rows[2].attempt = 2; /* or the ledger would contradict, too */
    h->input.record_count += 2;
}

static void rerun_unasked(history *h)
{
    fire_twice(h);
    h->records[2 * RUNS].kind = h->records[2 * RUNS + 1].kind = JOBSCHED_KIND_RERUN;
}

static void lose(history *h)
{
    memmove(&h->records[4], &h->records[6], 4 * sizeof(record));
    h->input.record_count -= 2;
    h->rows[2].first_ms -= 1000; /* the ledger says another instant twice */
    h->rows[2].last_ms -= 1000;
}

static void fire_early(history *h)
{
    h->records[4].at_us = h->records[4].scheduled_ms * 1000 - 1;
}

static void overlap(history *h)
{
    h->records[3].at_us = h->records[4].at_us + 1;
}

static void repeat_token(history *h)
{
    h->records[4].token = h->records[5].token = 2;
    h->rows[2].token = 2;
}

static void promise_too_long(history *h)
{
    record *told = &h->records[2 * RUNS];
    *told = h->records[2];
    told->what = RECORD_ALIVE;
    told->at_us = h->records[4].at_us + 1;
    told->lease_until_us = told->at_us + 1;
    h->input.record_count++;
}

static void leave_hole_in_ledger(history *h)
{
    memmove(&h->rows[2], &h->rows[3], 2 * sizeof(check_row));
    h->input.row_count--;
}

static void skip_what_ran(history *h)
{
    h->rows[2].outcome = JOBSCHED_OUTCOME_SKIPPED_OVERLAP;
}

static void leave_running(history *h)
{
    h->rows[4].outcome = JOBSCHED_OUTCOME_RUNNING;
}

static void write_row_twice(history *h)
{
    h->rows[RUNS] = h->rows[2];
    h->input.row_count++;
}

static void count_wrong(history *h)
{
    h->rows[2].count = 2;
}

static void credit_another_node(history *h)
{
    memcpy(h->rows[2].node, "n2", 3);
}

static void leave_schedule(history *h)
{
    h->records[4].scheduled_ms += 500;
    h->records[5].scheduled_ms += 500;
}

static void end_too_soon(history *h)
{
    h->input.until_ms += 1000;
}

static const struct {
    const char *why;
    void (*spoil)(history *h);
    size_t counter; /* offset in check_report; 0 is "twice" */
} cases[] = {
    {"G1 the same instant twice", fire_twice, offsetof(check_report, twice)},
    {"G1 a rerun that nobody asked for", rerun_unasked, offsetof(check_report, twice)},
    {"G9 an instant that nobody knows of", lose, offsetof(check_report, lost)},
    {"G3 a microsecond early", fire_early, offsetof(check_report, early)},
    {"G4 begins before the one before ends", overlap, offsetof(check_report, overlaps)},
    {"G2 a token that does not grow", repeat_token, offsetof(check_report, token_faults)},
    {"G5 told that its lease goes on though the next has begun", promise_too_long,
     offsetof(check_report, untold)},
    {"ran, but has no row", leave_hole_in_ledger, offsetof(check_report, ledger_faults)},
    {"ran, but is skipped", skip_what_ran, offsetof(check_report, ledger_faults)},
    {"has no end", leave_running, offsetof(check_report, ledger_faults)},
    {"has two rows", write_row_twice, offsetof(check_report, ledger_faults)},
    {"a range that counts wrong", count_wrong, offsetof(check_report, ledger_faults)},
    {"another node than the one that ran it", credit_another_node,
     offsetof(check_report, ledger_faults)},
    {"no instant of the schedule", leave_schedule, offsetof(check_report, ledger_faults)},
    {"the last one is missing", end_too_soon, offsetof(check_report, lost)},
};

static void test_history_without_fault_is_clean(void **state)
{
    (void)state;
    history h;
    check_report report;
    make(&h);
    check_run(&h.input, &report);
    assert_int_equal(check_faults(&report), 0);
    assert_int_equal(report.expected, RUNS);
    assert_int_equal(report.fired, RUNS);
    assert_int_equal(report.late_us[0], 5000);
}

static void test_each_fault_is_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        history h;
        check_report report;
        uint64_t counter;
        make(&h);
        cases[i].spoil(&h);
        check_run(&h.input, &report);
        memcpy(&counter, (const char *)&report + cases[i].counter, sizeof counter);
        if (counter == 0) {
            check_print(&report, stdout);
            fail_msg("not seen: %s", cases[i].why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_without_fault_is_clean),
        cmocka_unit_test(test_each_fault_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
