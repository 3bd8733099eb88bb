/* test_cluster_stop.c: ends that go well and ends that do not: G7, G9, G10, G11.
 * A callback that never returns must not stop anything else, and a deploy must not lose, double
 * or cut off anything. */
#include "fleet.h"

#include <stdlib.h>

enum { SHORT = 10 };

static void fill_short(check_job *jobs)
{
    for (size_t i = 0; i < SHORT; i++) {
        jobs[i] = (check_job){"", i % 2 == 0 ? "* * * * * *" : "@every 1s", 1000, 0, 1, NULL, NULL};
        (void)snprintf(jobs[i].name, sizeof jobs->name, "short-%zu", i);
    }
}

/* The drain is long enough for the short runs of a busy machine. */
enum { DRAIN_MS = 6000, SLACK_MS = 15000 };

/* G11: the drain ends at its deadline, and names what it leaves. */
static void drain_hung(fleet_node *node)
{
    char text[24];
    long long took_ms = 0;
    (void)snprintf(text, sizeof text, "drain %d", DRAIN_MS);
    fleet_send(node, text);
    (void)snprintf(text, sizeof text, "drained %d ", JOBSCHED_ETIMEDOUT);
    const char *said = fleet_await(node, text, FLEET_SOON_MS);
    assert_int_equal(sscanf(said, "drained %*d %lld", &took_ms), 1);
    printf("%s\n", said);
    assert_true(took_ms >= DRAIN_MS && took_ms < DRAIN_MS + SLACK_MS);
    assert_non_null(strstr(said, "'hang'"));
    assert_null(strstr(said, "'short"));
    fleet_leave(node);
}

/* G10, G11: while one callback hangs, the other jobs go on and its lease is renewed; the drain
 * returns at its deadline and names it; after the close its next occurrence is free. */
static void test_hung_callback_hangs_alone(void **state)
{
    fleet *f = *state;
    check_job jobs[SHORT + 1];
    fill_short(jobs);
    jobs[SHORT] = (check_job){"hang", "*/2 * * * * *", 2000, 0, -1, "ignore", NULL};
    fleet_jobs(f, jobs, SHORT + 1);
    f->settings[0] = "lease=8s";
    f->settings[1] = "workers=2"; /* the hung one holds half of its node */
    (void)fleet_start(f, 0);
    (void)fleet_start(f, 5000);
    int64_t ready_ms = fleet_now_ms();
    fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "hang"};
    record hung = fleet_wait_record(f, "the job hangs", FLEET_SOON_MS, &begins);
    fleet_node *node = fleet_by_pid(f, hung.pid);
    int64_t until_ms = fleet_now_ms() + 13000; /* beyond the lease, and the next occurrence */
    fleet_wait_accounted(f, until_ms);
    assert_int_equal(fleet_count(f, &begins), 1);
    fleet_pattern own = {.what = RECORD_START, .node = node->index, .after_us = hung.at_us};
    assert_true(fleet_count(f, &own) > 0);

    drain_hung(node);
    fleet_pattern left = {.what = RECORD_EVENT, .event = JOBSCHED_EVENT_RUN_LEFT, .node = -1};
    record event = fleet_wait_record(f, "observers are told", FLEET_SOON_MS, &left);
    assert_string_equal(event.job, "hang");
    assert_int_equal(event.token, hung.token);
    assert_int_equal(fleet_count(f, &left), 1);

    begins.after_us = hung.at_us;
    record next = fleet_wait_record(f, "it hangs elsewhere", FLEET_SOON_MS, &begins);
    assert_true(next.pid != hung.pid && next.token > hung.token);
    until_ms = fleet_now_ms();
    fleet_wait_accounted(f, until_ms);
    drain_hung(fleet_by_pid(f, next.pid));
    assert_int_equal(fleet_row(f, "hang", hung.scheduled_ms).outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    f->job_count = SHORT; /* the second one's run has no end that could be checked */
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_SUCCEEDED], report.fired);
}

/* G7, G9: twenty deploys in a row, the old process leaving while the new one comes, now the one
 * first and now the other. */
static void test_rolling_deploys_lose_nothing(void **state)
{
    enum { DEPLOYS = 20 };
    fleet *f = *state;
    check_job jobs[SHORT + 2];
    fill_short(jobs);
    jobs[SHORT] = (check_job){"long", "*/2 * * * * *", 2000, 0, 900, NULL, NULL};
    jobs[SHORT + 1] = (check_job){"queues", "* * * * * *", 1000, 0, 700, NULL, "overlap=queue"};
    fleet_jobs(f, jobs, SHORT + 2);
    f->settings[0] = "lease=30s"; /* nothing may have to wait for it */
    fleet_node *old = fleet_start(f, 0);
    int64_t ready_ms = fleet_now_ms();
    for (int i = 0; i < DEPLOYS; i++) {
        bool overlaps = i % 2 == 0;
        if (!overlaps) {
            fleet_send(old, "drain 30000");
        }
        fleet_node *new = fleet_spawn(f, i % 3 * 20000 - 20000, 0);
        (void)fleet_await(new, "ready", FLEET_SOON_MS);
        if (overlaps) {
            fleet_send(old, "drain 30000");
        }
        (void)fleet_await(old, "drained 0 ", FLEET_SOON_MS);
        fleet_leave(old);
        old = new;
        /* The next deploy comes just when this one is claiming. */
        fleet_pattern begins = {.what = RECORD_START, .node = new->index};
        (void)fleet_wait_record(f, "the new process runs something", FLEET_SOON_MS, &begins);
    }
    int64_t until_ms = fleet_now_ms();
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_INTERRUPTED], 0);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_LEASE_LOST], 0);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_CANCELLED], 0);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hung_callback_hangs_alone, fleet_setup,
                                        fleet_teardown),
        cmocka_unit_test_setup_teardown(test_rolling_deploys_lose_nothing, fleet_setup,
                                        fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
