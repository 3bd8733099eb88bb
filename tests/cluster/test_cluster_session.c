/* test_cluster_session.c: the session that shows a node alive ends while the node is frozen (G5). Its
 * lease would last for long, but the store need not wait for that: others are granted its job after
 * a grace. Thawed, the owner's run must not be told once that it may go on. postgresql: only, where
 * there is such a session. */
#include "fleet.h"

#include <signal.h>

enum { ROUNDS = 3, TAKEN_MS = 15000 };

/* One round: the owner of that run is frozen, and its session ended. Returns the run that follows. */
static record freeze_owner(fleet *f, record first)
{
    fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "victim"};
    fleet_node *owner = &f->nodes[first.node];
    fleet_pattern asks = {.what = RECORD_ALIVE, .node = first.node, .after_us = first.at_us};
    (void)fleet_wait_record(f, "it goes on", FLEET_SOON_MS, &asks);

    fleet_stop(owner);
    int64_t frozen_ms = fleet_now_ms();
    assert_true(server_end_sessions(&f->server) > 0);
    begins.after_us = frozen_ms * 1000;
    record second = fleet_wait_record(f, "the victim begins elsewhere", FLEET_SOON_MS, &begins);
    assert_true(second.token > first.token);
    assert_int_not_equal(second.node, first.node);
    assert_true(second.at_us / 1000 - frozen_ms < TAKEN_MS); /* long before the lease is over */

    int64_t thawed_us = fleet_now_ms() * 1000;
    fleet_signal(owner, SIGCONT);
    fleet_pattern sees = {
        .what = RECORD_STOP_SEEN, .node = first.node, .job = "victim", .after_us = thawed_us};
    record told = fleet_wait_record(f, "the old run is told", FLEET_SOON_MS, &sees);
    assert_int_equal(told.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        assert_false(
            entry->what == RECORD_ALIVE && entry->token == first.token &&
            entry->at_us > thawed_us &&
            (entry->stop_reason == JOBSCHED_STOP_NONE || entry->lease_until_us > entry->at_us));
    }
    printf("taken %lld ms after the freeze\n", (long long)(second.at_us / 1000 - frozen_ms));
    return second;
}

/* G4, G5: whatever it asked after the thaw, it was never told to go on. */
static void test_frozen_owner_without_session(void **state)
{
    fleet *f = *state;
    static const check_job jobs[] = {{"victim", "* * * * * *", 1000, 0, 600000, "alive", NULL}};
    fleet_jobs(f, jobs, 1);
    f->settings[0] = "lease=30s";
    (void)fleet_start(f, 0);
    (void)fleet_start(f, 0);
    int64_t ready_ms = fleet_now_ms();
    fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "victim"};
    record run = fleet_wait_record(f, "the victim begins", FLEET_SOON_MS, &begins);
    for (int i = 0; i < ROUNDS; i++) {
        run = freeze_owner(f, run);
    }
    int64_t until_ms = fleet_now_ms() + 1000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_true(report.lease_lost_seen >= ROUNDS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frozen_owner_without_session, fleet_setup,
                                        fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
