/* The public API with real threads (G9, G11, G13): start, stop, drain and close; runs that end from
 * other threads; what a callback may do to its own scheduler and what is refused. */
#include "support/events.h"
#include "support/fake_backend.h"
#include "support/live.h"
#include "support/test_memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct site {
    struct test_memory memory;
    jobsched_allocator allocator;
    struct event_log events;
    struct fake_backend fake;
    jobsched_options options;
    jobsched *s;
    _Atomic int calls, freed, stop_reason;
    _Atomic int result; /* of the callback */
    int (*body)(struct site *site, jobsched_run *run);
    struct gate gate;
    _Atomic(jobsched_run *) run;
};

static void site_init(struct site *site)
{
    memset(site, 0, sizeof *site);
    test_memory_init(&site->memory);
    site->allocator = test_memory_allocator(&site->memory);
    event_log_init(&site->events);
    fake_backend_init(&site->fake, NULL);
    gate_init(&site->gate);
    JOBSCHED_INIT(&site->options);
    site->options.lock = site->fake.url;
    site->options.backends = fake_backend_drivers();
    site->options.allocator = &site->allocator;
    site->options.observer = event_log_observe;
    site->options.observer_data = &site->events;
}

static void site_open(struct site *site)
{
    site_init(site);
    assert_equal(jobsched_open(&site->options, &site->s), 0);
}

static void site_close(struct site *site)
{
    assert_equal(jobsched_close(site->s), 0);
    assert_equal(site->memory.live, 0);
    event_log_fini(&site->events);
    fake_backend_fini(&site->fake);
}

static int body(jobsched_run *run, void *user_data)
{
    struct site *site = user_data;
    atomic_store(&site->run, run);
    (void)atomic_fetch_add(&site->calls, 1);
    return site->body != NULL ? site->body(site, run) : atomic_load(&site->result);
}

static void on_stop(jobsched_run *run, int reason, void *user_data)
{
    struct site *site = user_data;
    (void)run;
    atomic_store(&site->stop_reason, reason);
}

static void on_free(void *user_data)
{
    struct site *site = user_data;
    (void)atomic_fetch_add(&site->freed, 1);
}

static void add(struct site *site, const char *name, const char *schedule)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = schedule;
    spec.run = body;
    spec.on_stop = on_stop;
    spec.user_data = site;
    spec.user_data_free = on_free;
    assert_equal(jobsched_add(site->s, &spec, NULL), 0);
}

/* Triggers once the job is known to the backend. */
static void trigger(struct site *site, const char *name)
{
    wait_for(jobsched_trigger(site->s, name, NULL, NULL) == 0);
}

struct found {
    int rows, unfinished, succeeded, outcome;
};

static int count_row(const jobsched_run_record *record, void *user_data)
{
    struct found *found = user_data;
    found->rows++;
    found->outcome = record->outcome;
    found->succeeded += record->outcome == JOBSCHED_OUTCOME_SUCCEEDED;
    found->unfinished += record->finished_at_ms == JOBSCHED_NONE;
    return 0;
}

static struct found ledger(struct site *site)
{
    struct found found = {0};
    assert_equal(jobsched_runs(site->s, NULL, 10000, count_row, &found), 0);
    return found;
}

/* ---- the verbs ------------------------------------------------------------------ */

/* By the real clock: fires on the schedule's instants, drains, and everything is in the ledger. */
static void test_it_runs_by_the_real_clock(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    add(&site, "second", "@every 1s");
    add(&site, "cron", "* * * * * *");
    assert_equal(jobsched_start(site.s), 0);
    wait_for(site.calls >= 4);
    assert_equal(jobsched_drain(site.s, LIVE_BOUND_MS), 0);
    int calls = site.calls;
    struct found found = ledger(&site);
    assert_equal(found.succeeded, calls); /* on a busy machine others may have been skipped */
    assert_equal(found.unfinished, 0);
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(site.s, &stats), 0);
    assert_equal(stats.succeeded, calls);
    assert_equal(stats.runs_active, 0);
    assert_equal(site.freed, 0);
    site_close(&site);
    assert_equal(site.freed, 2);
    assert_equal(site.calls, calls);
}

static void test_verbs_in_every_state(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    assert_equal(jobsched_start(site.s), 0);
    assert_equal(jobsched_wakeup(site.s), 0);
    assert_fails(jobsched_drain(site.s, -1), JOBSCHED_EINVAL, "-1 ms");
    assert_equal(jobsched_stop(site.s), 0);
    assert_equal(jobsched_stop(site.s), 0);
    assert_fails(jobsched_start(site.s), JOBSCHED_ESTATE, "not started again");
    assert_equal(jobsched_drain(site.s, 0), 0);
    site_close(&site);
    site_open(&site);
    assert_equal(jobsched_drain(site.s, 1000), 0); /* never started */
    assert_fails(jobsched_start(site.s), JOBSCHED_ESTATE, "not started again");
    site_close(&site);
    site_open(&site);
    add(&site, "job", "@every 1h");
    site_close(&site);
    assert_equal(site.freed, 1);
    assert_equal(jobsched_close(NULL), 0);
    assert_fails(jobsched_start(NULL), JOBSCHED_EINVAL, "NULL");
}

/* G9: drain returns when the outcome is in the ledger, not when the callback has returned. */
static void test_drain_waits_for_the_ledger(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    fake_backend_fail(&site.fake, FAKE_FINISH, JOBSCHED_EUNREACHABLE, 4, false);
    trigger(&site, "job");
    wait_for(site.calls == 1);
    assert_equal(jobsched_drain(site.s, LIVE_BOUND_MS), 0);
    assert_equal(site.fake.calls[FAKE_FINISH], 5);
    struct found found = ledger(&site);
    assert_equal(found.rows, 1);
    assert_equal(found.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    site_close(&site);
}

/* And says so when it cannot be written. */
static void test_drain_names_what_is_not_written(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    add(&site, "unwritten", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    fake_backend_fail(&site.fake, FAKE_FINISH, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    trigger(&site, "unwritten");
    wait_for(fake_backend_calls(&site.fake, FAKE_FINISH) > 0);
    assert_fails(jobsched_drain(site.s, 300), JOBSCHED_ETIMEDOUT, "'unwritten' (token 1, ended)");
    wait_for(event_log_count(&site.events, JOBSCHED_EVENT_RUN_LEFT, "unwritten") == 1);
    site_close(&site);
}

static int until_stopped(struct site *site, jobsched_run *run)
{
    (void)site;
    while (jobsched_run_should_stop(run) == 0) {
        live_pause();
    }
    return JOBSCHED_ECANCELED;
}

/* Runs are asked to stop in the last part of the drain, and get the rest of it to obey. */
static int drain_a_run(void)
{
    struct site site;
    site_open(&site);
    site.body = until_stopped;
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "job");
    wait_for(site.calls == 1);
    int64_t began_ms = live_mono_ms();
    int code = jobsched_drain(site.s, 5000);
    assert_at_most(3500, live_mono_ms() - began_ms);
    wait_for(ledger(&site).unfinished == 0);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_CANCELLED);
    site_close(&site);
    return code;
}

static void test_drain_asks_runs_to_stop(void **state)
{
    (void)state;
    int code = -1;
    for (int tries = 0; code != 0 && tries < 4;
         tries++) { /* a second may be short, but not always */
        code = drain_a_run();
    }
    assert_equal(code, 0);
}

/* Cancelling reaches the run, and on_stop while the callback goes on. */
static void test_cancel_reaches_the_run(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    site.body = until_stopped;
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "job");
    wait_for(site.calls == 1);
    assert_equal(jobsched_cancel(site.s, "job", NULL), 0);
    assert_equal(jobsched_drain(site.s, LIVE_BOUND_MS), 0);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_CANCELLED);
    site_close(&site);
}

/* ---- PENDING ---------------------------------------------------------------------- */

static int pend_with_gate(struct site *site, jobsched_run *run)
{
    (void)run;
    gate_pass(&site->gate);
    return JOBSCHED_PENDING;
}

/* Finished by another thread before the callback has returned, and after. */
static void test_pending_is_finished_by_another_thread(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct site site;
        site_open(&site);
        site.body = pend_with_gate;
        add(&site, "job", "@every 1h");
        assert_equal(jobsched_start(site.s), 0);
        trigger(&site, "job");
        wait_for(site.gate.waiting == 1);
        if (before) {
            assert_equal(jobsched_run_finish(atomic_load(&site.run), 5), 0);
            assert_equal(ledger(&site).unfinished, 1);
        }
        gate_open(&site.gate);
        if (!before) {
            wait_for(site.gate.passed == 1);
            assert_equal(jobsched_run_finish(atomic_load(&site.run), 5), 0);
        }
        assert_equal(jobsched_drain(site.s, LIVE_BOUND_MS), 0);
        assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_FAILED);
        site_close(&site);
    }
}

/* ---- inside a callback ------------------------------------------------------------- */

static int try_to_wait_for_itself(struct site *site, jobsched_run *run)
{
    (void)run;
    int refused = jobsched_drain(site->s, 1000) == JOBSCHED_EREENTRANT;
    refused += jobsched_close(site->s) == JOBSCHED_EREENTRANT;
    refused += jobsched_last_error()->code == JOBSCHED_EREENTRANT;
    return refused == 3 ? 0 : 99;
}

/* Rivals' bug 21: what would wait for itself is refused, and nothing is torn down by it. */
static void test_waiting_for_oneself_is_refused(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    site.body = try_to_wait_for_itself;
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "job");
    wait_for(event_log_count(&site.events, JOBSCHED_EVENT_RUN_FINISHED, "job") == 1);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    site_close(&site);
}

static int change_itself(struct site *site, jobsched_run *run)
{
    if (strcmp(jobsched_run_job(run), "self") != 0 || site->calls > 1) {
        return 0;
    }
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = "self";
    spec.schedule = "@every 2h";
    spec.run = body;
    spec.user_data = site;
    spec.user_data_free = on_free;
    int failed = jobsched_pause(site->s, "self", NULL);
    failed = failed != 0 ? failed : jobsched_resume(site->s, "self", NULL);
    failed = failed != 0 ? failed : jobsched_withdraw(site->s, "self");
    failed = failed != 0 ? failed : jobsched_add(site->s, &spec, NULL);
    failed = failed != 0 ? failed : jobsched_run_note(run, "changed");
    return failed != 0 ? failed : 0;
}

/* A callback pauses, resumes, withdraws and registers its own job, and stops the scheduler. */
static void test_a_callback_changes_its_own_job(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    site.body = change_itself;
    add(&site, "self", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "self");
    wait_for(event_log_count(&site.events, JOBSCHED_EVENT_RUN_FINISHED, "self") == 1);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    wait_for(site.freed == 1); /* the first registration's, after its run */
    trigger(&site, "self");
    wait_for(site.calls == 2);
    site_close(&site);
    assert_equal(site.freed, 2);
}

static int stop_from_inside(struct site *site, jobsched_run *run)
{
    (void)run;
    return jobsched_stop(site->s);
}

static void test_a_callback_stops_the_scheduler(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    site.body = stop_from_inside;
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "job");
    wait_for(event_log_count(&site.events, JOBSCHED_EVENT_RUN_FINISHED, "job") == 1);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    assert_equal(event_log_count(&site.events, JOBSCHED_EVENT_STOPPED, NULL), 1);
    site_close(&site);
}

static int look_at_signals(struct site *site, jobsched_run *run)
{
    (void)site;
    (void)run;
    sigset_t blocked;
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0) {
        return 98;
    }
    for (int number = 1; number < NSIG; number++) {
        /* Two that cannot be blocked, and two that the C library keeps for itself. */
        bool exempt = number == SIGKILL || number == SIGSTOP || number == 32 || number == 33;
        if (!exempt && sigismember(&blocked, number) != 1) {
            return number;
        }
    }
    return 0;
}

/* G13: no signal of the host is ever handled on a thread of ours. */
static void test_all_signals_are_blocked_in_callbacks(void **state)
{
    (void)state;
    struct site site;
    site_open(&site);
    site.body = look_at_signals;
    add(&site, "job", "@every 1h");
    assert_equal(jobsched_start(site.s), 0);
    trigger(&site, "job");
    wait_for(event_log_count(&site.events, JOBSCHED_EVENT_RUN_FINISHED, "job") == 1);
    assert_equal(ledger(&site).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    sigset_t mine;
    assert_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
    assert_equal(sigismember(&mine, SIGTERM), 0); /* the caller's own mask is as it was */
    site_close(&site);
}

/* G13: many schedulers side by side in one process. */
static void test_many_schedulers(void **state)
{
    (void)state;
    enum { SITES = 12 };
    static struct site sites[SITES];
    for (int i = 0; i < SITES; i++) {
        site_open(&sites[i]);
        add(&sites[i], "job", "@every 1h");
        assert_equal(jobsched_start(sites[i].s), 0);
    }
    for (int i = 0; i < SITES; i++) {
        trigger(&sites[i], "job");
    }
    for (int i = 0; i < SITES; i++) {
        wait_for(sites[i].calls == 1);
    }
    for (int i = 0; i < SITES; i += 2) {
        site_close(&sites[i]);
    }
    for (int i = 1; i < SITES; i += 2) {
        trigger(&sites[i], "job");
        wait_for(sites[i].calls == 2);
        site_close(&sites[i]);
    }
}

/* G11: close waits for all of many threads, however their ends are spread, and abandons none that
 * is about to end. */
static void test_close_waits_for_every_thread(void **state)
{
    (void)state;
    /* Under valgrind on a busy machine a round takes many seconds. */
    int64_t until_ms = live_mono_ms() + LIVE_BOUND_MS;
    int rounds = 0, abandoned = 0;
    while (rounds < 30 && (rounds < 3 || live_mono_ms() < until_ms)) {
        struct site site;
        site_init(&site);
        site.options.workers = 48;
        site.options.request_timeout_ms = 1; /* the shortest wait */
        assert_equal(jobsched_open(&site.options, &site.s), 0);
        add(&site, "job", "@every 1h");
        assert_equal(jobsched_start(site.s), 0);
        trigger(&site, "job");
        wait_for(site.calls == 1);
        abandoned += jobsched_close(site.s) != 0;
        wait_for(site.memory.live == 0);
        event_log_fini(&site.events);
        fake_backend_fini(&site.fake);
        rounds++;
    }
    /* A machine may stand still for longer than the wait, but not each time. */
    assert_at_most(abandoned, 1 + rounds / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_runs_by_the_real_clock),
        cmocka_unit_test(test_verbs_in_every_state),
        cmocka_unit_test(test_drain_waits_for_the_ledger),
        cmocka_unit_test(test_drain_names_what_is_not_written),
        cmocka_unit_test(test_drain_asks_runs_to_stop),
        cmocka_unit_test(test_cancel_reaches_the_run),
        cmocka_unit_test(test_pending_is_finished_by_another_thread),
        cmocka_unit_test(test_waiting_for_oneself_is_refused),
        cmocka_unit_test(test_a_callback_changes_its_own_job),
        cmocka_unit_test(test_a_callback_stops_the_scheduler),
        cmocka_unit_test(test_all_signals_are_blocked_in_callbacks),
        cmocka_unit_test(test_many_schedulers),
        cmocka_unit_test(test_close_waits_for_every_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
