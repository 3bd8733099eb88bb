/* test_cluster_control.c: G6, with real processes: what a control call promises holds for all nodes,
 * also for one that was frozen when it was made. */
#include "fleet.h"

#include <signal.h>

enum { NODES = 5, LEASE_MS = 3000 };

static const check_job jobs[] = {
    {"paused-0", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"paused-1", "@every 1s", 1000, 0, 1, NULL, NULL},
    {"other", "* * * * * *", 1000, 0, 1, NULL, NULL},
};

static jobsched *open_control(fleet *f)
{
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = f->server.url;
    options.name_space = f->name_space;
    options.control_only = 1;
    options.history_count = FLEET_HISTORY;
    fleet_be_patient(&options);
    jobsched *control = NULL;
    assert_int_equal(jobsched_open(&options, &control), 0);
    return control;
}

/* Five nodes, one stopped; pause returns; it goes on: it fires nothing, for longer than a lease.
 * After the resume everything fires, and what was paused is in the ledger as that. */
static void test_frozen_node_honours_a_pause(void **state)
{
    fleet *f = *state;
    fleet_jobs(f, jobs, sizeof jobs / sizeof jobs[0]);
    f->settings[0] = "lease=3s";
    for (int i = 0; i < NODES; i++) {
        (void)fleet_start(f, i * 40000 - 80000);
    }
    int64_t ready_ms = fleet_now_ms();
    fleet_wait_accounted(f, ready_ms + 1000);
    jobsched *control = open_control(f);
    /* Just before an instant: it has planned to claim it. */
    fleet_wait_until((fleet_now_ms() / 1000 + 1) * 1000 - 30);
    fleet_freeze(f, &f->nodes[0]);
    jobsched_control_result results[2];
    for (int i = 0; i < 2; i++) {
        JOBSCHED_INIT(&results[i]);
        assert_int_equal(jobsched_pause(control, jobs[i].name, &results[i]), 0);
        assert_int_equal(results[i].changed, 1);
    }
    int64_t paused_ms = fleet_now_ms();
    fleet_wait_until(paused_ms + LEASE_MS + 1000);
    fleet_signal(&f->nodes[0], SIGCONT);
    int64_t thawed_ms = fleet_now_ms();
    fleet_pattern again = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_SKIPPED, .node = -1, .job = "paused-0"};
    again.after_us = thawed_ms * 1000;
    (void)fleet_wait_record(f, "a paused occurrence is recorded", FLEET_SOON_MS, &again);
    fleet_wait_until(thawed_ms + LEASE_MS);
    int64_t resumed_us = fleet_now_ms() * 1000;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(jobsched_resume(control, jobs[i].name, NULL), 0);
    }
    assert_int_equal(jobsched_close(control), 0);
    int64_t until_ms = fleet_now_ms() + 2000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        for (int j = 0; j < 2 && entry->what == RECORD_START; j++) {
            assert_false(strcmp(entry->job, jobs[j].name) == 0 && entry->token > results[j].token &&
                         entry->at_us < resumed_us);
        }
    }
    fleet_tally tally = fleet_tell(f, "paused-0", paused_ms, resumed_us / 1000);
    assert_true(tally.outcomes[JOBSCHED_OUTCOME_SKIPPED_PAUSED] >= 4); /* of seven */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frozen_node_honours_a_pause, fleet_setup,
                                        fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
