/* test_cluster_load.c: G1, G2, G3, G4, G7 and G9 under load.
 * Three processes with wrong clocks run some 150 jobs; all that was due happened once, or has one
 * named outcome. Shown to be able to fail by such a load on a store that ignores the mark. */
#include "load.h"

static void assert_clean(const check_report *report, uint64_t expected_min)
{
    assert_int_equal(report->twice, 0);
    assert_int_equal(report->lost, 0);
    assert_int_equal(report->early, 0);
    assert_int_equal(report->overlaps, 0);
    assert_int_equal(report->token_faults, 0);
    assert_int_equal(report->untold, 0);
    assert_int_equal(report->ledger_faults, 0);
    assert_true(report->expected >= expected_min);
    /* Nobody died and nobody was down. */
    assert_int_equal(report->outcomes[JOBSCHED_OUTCOME_INTERRUPTED], 0);
    assert_int_equal(report->outcomes[JOBSCHED_OUTCOME_LEASE_LOST], 0);
    assert_int_equal(report->outcomes[JOBSCHED_OUTCOME_FAILED], 0);
    /* It was a cluster, and the long jobs did collide with themselves. */
    assert_true(report->fired_by[0] > 0 && report->fired_by[1] > 0 && report->fired_by[2] > 0);
    assert_true(report->outcomes[JOBSCHED_OUTCOME_SKIPPED_OVERLAP] > 0);
}

static void test_three_nodes_fire_everything_once(void **state)
{
    const load_plan plan = {.jobs = 160, .nodes = 3, .seconds = 25, .workers = "workers=16"};
    check_report report;
    load_run(*state, &plan, &report);
    assert_clean(&report, (uint64_t)(load_rate(plan.jobs) * 20));
}

/* G7: starting and stopping changes nothing for the others. */
static void test_guest_that_comes_and_goes_changes_nothing(void **state)
{
    const load_plan plan = {
        .jobs = 60, .nodes = 3, .seconds = 20, .churn = 100, .workers = "workers=16"};
    check_report report;
    load_run(*state, &plan, &report);
    assert_clean(&report, (uint64_t)(load_rate(plan.jobs) * 15));
}

/* Runs may overlap, or it would depend on how quick they are whether the second one is kept out. */
static void test_store_without_mark_is_found_out(void **state)
{
    fleet *f = *state;
    const load_plan plan = {
        .jobs = 60, .nodes = 3, .seconds = 6, .workers = "workers=16", .setting = "overlap=allow"};
    check_report report;
    fleet_without_mark(f);
    load_run(f, &plan, &report);
    assert_true(report.twice > 0);
    assert_true(report.ledger_faults > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_three_nodes_fire_everything_once, fleet_setup,
                                        fleet_teardown),
        cmocka_unit_test_setup_teardown(test_guest_that_comes_and_goes_changes_nothing, fleet_setup,
                                        fleet_teardown),
        cmocka_unit_test_setup_teardown(test_store_without_mark_is_found_out, fleet_setup,
                                        fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
