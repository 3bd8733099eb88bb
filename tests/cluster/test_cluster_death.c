/* test_cluster_death.c: owners that die or freeze in the middle of a run: G4, G5, G9, G10, G15.
 * Processes are killed and stopped for real; the log of the callbacks says who ran what and what
 * it was promised. */
#include "fleet.h"

#include <signal.h>
#include <stdlib.h>

/* SLOW_MS: after so long at the most, on a busy machine, all know of a death that they can see. */
enum { OTHERS = 8, SLOW_MS = 6000 };

/* The job that is interrupted, and others that must not notice. */
static void set_jobs(fleet *f, check_job *jobs, const check_job *victims, size_t victim_count)
{
    memcpy(jobs, victims, victim_count * sizeof *victims);
    for (size_t i = 0; i < OTHERS; i++) {
        jobs[victim_count + i] = (check_job){"", "* * * * * *", 1000, 0, 1, NULL, NULL};
        (void)snprintf(jobs[victim_count + i].name, sizeof jobs->name, "other-%zu", i);
    }
    fleet_jobs(f, jobs, victim_count + OTHERS);
}

static size_t told_interrupted(fleet *f, const char *job)
{
    fleet_pattern told = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_INTERRUPTED, .node = -1, .job = job};
    return fleet_count(f, &told);
}

/* G10, G15: the very next occurrence of a killed owner's job is granted, though the job's lease
 * would last for 30 s (on Redis, which does not see processes die: soon after its lease); the run is
 * interrupted in the ledger, and one node tells so, once. */
static void test_killed_owner_is_followed_at_once(void **state)
{
    fleet *f = *state;
    bool seen = f->server.kind != SERVER_REDIS;
    const check_job victim = {"victim",
                              "*/4 * * * * *",
                              4000,
                              0,
                              600000,
                              "first",
                              seen ? "lease=30s" : "lease=6s\toverlap=queue"};
    /* The next occurrence is due at most 4 s after the kill is known. The rest is for a slow
     * machine; the lease could not have ended before 20 s (it is renewed every 10 s at the
     * latest). */
    enum { BOUND_MS = 18000 };
    check_job jobs[1 + OTHERS];
    set_jobs(f, jobs, &victim, 1);
    f->settings[0] = "lease=3s"; /* beats of 1 s: the event comes soon */
    (void)fleet_start(f, -30000);
    int64_t ready_ms = fleet_now_ms();
    fleet_pattern begins = {.what = RECORD_START, .node = 0, .job = "victim"};
    record killed = fleet_wait_record(f, "the victim begins", FLEET_SOON_MS, &begins);
    (void)fleet_start(f, 0);
    (void)fleet_start(f, 30000);
    fleet_wait_until(check_next(&victim, fleet_now_ms()) + 500); /* far from the next one */
    fleet_kill(&f->nodes[0]);
    int64_t kill_ms = fleet_now_ms();
    begins.node = -1;

    begins.after_us = killed.at_us;
    record next = fleet_wait_record(f, "the victim begins elsewhere", FLEET_SOON_MS, &begins);
    if (seen) {
        assert_true(next.scheduled_ms <= check_next(&victim, kill_ms + SLOW_MS));
    }
    assert_int_equal(next.kind, JOBSCHED_KIND_SCHEDULED);
    assert_true(next.pid != killed.pid);
    assert_true(next.token > killed.token);
    int64_t takeover_ms = next.at_us / 1000 - kill_ms;
    printf("began elsewhere %lld ms after the kill, %lld ms after it was due\n",
           (long long)takeover_ms, (long long)(next.at_us / 1000 - next.scheduled_ms));
    assert_true(takeover_ms < BOUND_MS);

    fleet_pattern told = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_INTERRUPTED, .node = -1, .job = "victim"};
    record event = fleet_wait_record(f, "a node tells of it", FLEET_SOON_MS, &told);
    assert_int_equal(event.scheduled_ms, killed.scheduled_ms);
    assert_int_equal(event.token, killed.token);
    /* Time for the other one to tell it, too, if it would: some beats. */
    int64_t until_ms = fleet_now_ms() + 4000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_row row = fleet_row(f, "victim", killed.scheduled_ms);
    assert_int_equal(row.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_int_equal(row.token, killed.token);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(told_interrupted(f, "victim"), 1);
    assert_int_equal(told_interrupted(f, NULL), report.outcomes[JOBSCHED_OUTCOME_INTERRUPTED]);
}

/* G4, G5: a frozen owner keeps its job for as long as it was promised, and not longer; thawed, it
 * is told before it can do anything, and the ledger does not take its word. */
static void test_frozen_owner_is_told_before_it_goes_on(void **state)
{
    /* Asked for in vain every second, so that a grant within the lease would be seen. */
    static const check_job victim = {"victim", "* * * * * *", 1000, 0, 600000, "alive", NULL};
    fleet *f = *state;
    check_job jobs[1 + OTHERS];
    set_jobs(f, jobs, &victim, 1);
    f->settings[0] = "lease=8s";
    fleet_node *owner = fleet_start(f, 30000);
    int64_t ready_ms = fleet_now_ms();
    fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "victim"};
    record first = fleet_wait_record(f, "the victim begins", FLEET_SOON_MS, &begins);
    fleet_node *other = fleet_start(f, -30000);
    /* In the quiet part of a second, when none of the short jobs is about to begin. */
    fleet_wait_until((fleet_now_ms() / 1000 + 2) * 1000 + 500);
    fleet_freeze(f, owner);
    int64_t frozen_ms = fleet_now_ms();

    begins.after_us = first.at_us;
    record second = fleet_wait_record(f, "the victim begins elsewhere", FLEET_SOON_MS, &begins);
    assert_int_equal(second.node, other->index);
    assert_true(second.token > first.token);
    int64_t promised_us = 0;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_ALIVE && entry->token == first.token &&
            entry->lease_until_us > promised_us) {
            promised_us = entry->lease_until_us;
        }
    }
    printf("taken over %lld ms after the freeze, %lld ms after the promised lease\n",
           (long long)(second.at_us / 1000 - frozen_ms),
           (long long)((second.at_us - promised_us) / 1000));
    assert_true(promised_us > frozen_ms * 1000); /* it did hold a lease */
    assert_true(second.at_us >= promised_us);

    int64_t thawed_us = fleet_now_ms() * 1000;
    fleet_signal(owner, SIGCONT);
    fleet_pattern sees = {
        .what = RECORD_STOP_SEEN, .node = owner->index, .job = "victim", .after_us = thawed_us};
    record told = fleet_wait_record(f, "the old run is told", FLEET_SOON_MS, &sees);
    assert_int_equal(told.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    fleet_pattern refused = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_FINISH_REFUSED, .node = owner->index};
    refused.job = "victim"; /* it may have been frozen in a short one, too */
    record refusal = fleet_wait_record(f, "its finish is refused", FLEET_SOON_MS, &refused);
    assert_int_equal(refusal.token, first.token);
    /* Whatever it asked after the thaw, it was never told to go on. */
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        assert_false(
            entry->what == RECORD_ALIVE && entry->token == first.token &&
            entry->at_us > thawed_us &&
            (entry->stop_reason == JOBSCHED_STOP_NONE || entry->lease_until_us > entry->at_us));
    }
    begins = (fleet_pattern){.what = RECORD_START, .node = owner->index, .after_us = thawed_us};
    (void)fleet_wait_record(f, "the old owner takes part again", FLEET_SOON_MS, &begins);

    int64_t until_ms = fleet_now_ms() + 2000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_row row = fleet_row(f, "victim", first.scheduled_ms);
    assert_int_equal(row.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_int_equal(row.token, first.token);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_true(report.lease_lost_seen >= 1);
    assert_int_equal(told_interrupted(f, "victim"), 1);
}

/* ---- rerun and leave ------------------------------------------------------------ */

static bool is_repeated(fleet *f, void *data)
{
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_START && entry->kind == JOBSCHED_KIND_RERUN &&
            strcmp(entry->job, "again") == 0) {
            memcpy(data, entry, sizeof *entry);
            return true;
        }
    }
    return false;
}

/* G2, G15: after the owner of two runs was killed, the job that asked for it is run again under a
 * larger token, as the occurrence's second attempt, and the other one is left alone. */
static void test_interrupted_run_is_repeated_only_on_request(void **state)
{
    static const check_job victims[] = {
        {"again", "*/5 * * * * *", 5000, 0, 600000, "first", "recover=rerun"},
        {"never", "*/5 * * * * *", 5000, 0, 600000, "first", "recover=leave"}};
    fleet *f = *state;
    check_job jobs[2 + OTHERS];
    set_jobs(f, jobs, victims, 2);
    f->settings[0] = "lease=6s";
    (void)fleet_start(f, 0);
    int64_t ready_ms = fleet_now_ms();
    fleet_pattern begins = {.what = RECORD_START, .node = 0, .job = "again"};
    record again = fleet_wait_record(f, "one job begins", FLEET_SOON_MS, &begins);
    begins.job = "never";
    record never = fleet_wait_record(f, "the other job begins", FLEET_SOON_MS, &begins);
    (void)fleet_start(f, 10000);
    (void)fleet_start(f, -10000);
    fleet_kill(&f->nodes[0]);

    /* Where it takes long until the owner is known to be dead, the next occurrence is first. */
    record rerun;
    fleet_wait(f, "the run is repeated", FLEET_SOON_MS, is_repeated, &rerun);
    assert_int_equal(rerun.kind, JOBSCHED_KIND_RERUN);
    assert_int_equal(rerun.scheduled_ms, again.scheduled_ms);
    assert_true(rerun.token > again.token);
    assert_true(rerun.pid != again.pid);
    int64_t until_ms = fleet_now_ms() + 6000; /* the next occurrence of both, and many beats */
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);

    check_row row = fleet_row(f, "again", again.scheduled_ms);
    assert_int_equal(row.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    assert_int_equal(row.token, rerun.token);
    assert_int_equal(row.attempt, 2);
    row = fleet_row(f, "never", never.scheduled_ms);
    assert_int_equal(row.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_int_equal(row.token, never.token);
    assert_int_equal(row.attempt, 1);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(report.reruns, 1);
    assert_int_equal(told_interrupted(f, "again"), 1);
    assert_int_equal(told_interrupted(f, "never"), 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_owner_is_followed_at_once, fleet_setup,
                                        fleet_teardown),
        cmocka_unit_test_setup_teardown(test_frozen_owner_is_told_before_it_goes_on, fleet_setup,
                                        fleet_teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_run_is_repeated_only_on_request,
                                        fleet_setup, fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
