/* test_cluster_misfire.c: the whole cluster is down for a while: G1, G8, G9.
 * The fences know what was missed; each job's policy says what becomes of it, and the ledger
 * accounts for all. */
#include "fleet.h"

#include <stdlib.h>

enum { LIMIT = 3, DOWN_MS = 6000 };

static const check_job jobs[] = {
    {"once", "* * * * * *", 1000, 0, 1, NULL, "misfire=once"},
    {"graceless", "*/15 * * * * *", 15000, 0, 1, NULL, "misfire=once\tmisfire_grace=1s"},
    {"skip", "@every 1s", 1000, 0, 1, NULL, "misfire=skip"},
    {"all", "* * * * * *", 1000, 0, 1, NULL, "misfire=all"},
    {"slow", "@every 2s", 2000, 0, 300, NULL, "misfire=all"},
    {"limited", "* * * * * *", 1000, 0, 1, NULL, "misfire=all\tmisfire_limit=3"},
};

static uint64_t all_starts(const fleet_tally *tally)
{
    return tally->starts[JOBSCHED_KIND_SCHEDULED] + tally->starts[JOBSCHED_KIND_CATCH_UP];
}

static void test_outage_of_all_is_made_up_for(void **state)
{
    fleet *f = *state;
    fleet_jobs(f, jobs, sizeof jobs / sizeof jobs[0]);
    f->settings[0] = "lease=6s";
    f->settings[1] = "misfire_after=1s";
    fleet_node *drained = fleet_start(f, 30000);
    int64_t ready_ms = fleet_now_ms();
    fleet_node *killed = fleet_start(f, -30000);
    /* "graceless" is due once in 15 s: the outage begins before that, and outlasts its grace. */
    fleet_wait_until(check_next(&jobs[1], fleet_now_ms() + 3000) - 3000);
    fleet_drain(drained);
    fleet_kill(killed);
    int64_t down_ms = fleet_now_ms();
    fleet_wait_until(down_ms + DOWN_MS);
    fleet_wait_until(check_next(&jobs[1], down_ms) + 3000);
    int64_t up_ms = fleet_now_ms(); /* what is due until here was missed for sure */
    (void)fleet_start(f, 5000);
    (void)fleet_start(f, -5000);
    int64_t until_ms = fleet_now_ms() + 3000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);

    uint64_t missed = (uint64_t)((up_ms - down_ms) / 1000) - 1;
    fleet_tally once = fleet_tell(f, "once", down_ms, up_ms);
    assert_true(once.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= missed - 1);
    assert_true(all_starts(&once) <= 1);
    fleet_tally graceless = fleet_tell(f, "graceless", down_ms, up_ms);
    assert_int_equal(graceless.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 1);
    assert_int_equal(all_starts(&graceless), 0);
    fleet_tally skip = fleet_tell(f, "skip", down_ms, up_ms);
    assert_true(skip.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= missed - 1);
    assert_int_equal(skip.starts[JOBSCHED_KIND_CATCH_UP], 0);
    fleet_tally all = fleet_tell(f, "all", down_ms, up_ms);
    assert_true(all.outcomes[JOBSCHED_OUTCOME_SUCCEEDED] >= missed);
    assert_true(all.starts[JOBSCHED_KIND_CATCH_UP] >= missed - 1);
    assert_int_equal(all.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
    fleet_tally slow = fleet_tell(f, "slow", down_ms, up_ms);
    assert_true(slow.starts[JOBSCHED_KIND_CATCH_UP] >= 2);
    assert_int_equal(slow.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
    /* Missed ones wait for each other. Only the latest, which was not yet missed, may find the one
     * before it still running. */
    assert_true(slow.outcomes[JOBSCHED_OUTCOME_SKIPPED_OVERLAP] <= 1);
    fleet_tally limited = fleet_tell(f, "limited", down_ms, up_ms);
    assert_true(limited.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= missed - LIMIT);
    assert_true(all_starts(&limited) <= LIMIT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_outage_of_all_is_made_up_for, fleet_setup,
                                        fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
