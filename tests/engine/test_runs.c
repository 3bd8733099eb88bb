/* One run from grant to outcome (G5, G9, G11): attempts and their back-off, timeout, what the
 * callback may ask and report, PENDING in either order, the executor hook, and which outcome
 * follows from what. */
#include "support/world.h"

static void begin_with(struct world *world, const jobsched_job_spec *extra, struct world_job *job)
{
    world_begin(world, "fake:");
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1h");
    spec.attempts = extra->attempts;
    spec.backoff_ms = extra->backoff_ms;
    spec.backoff_max_ms = extra->backoff_max_ms;
    spec.timeout_ms = extra->timeout_ms;
    world_add(world, &spec);
    (void)world_settle(world);
}

static void fire(struct world *world)
{
    assert_equal(jobsched_trigger(world->s, "job", NULL, NULL), 0);
    (void)world_settle(world);
}

static jobsched_run_record last_row(struct world *world)
{
    struct world_ledger ledger = world_ledger_read(world, "job");
    assert_true(ledger.count > 0);
    jobsched_run_record row = ledger.rows[ledger.count - 1];
    world_ledger_free(&ledger);
    return row;
}

/* Attempts: as many as asked for, further apart each time up to the bound, under one grant. */
static void test_attempts_back_off_up_to_a_bound(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = 7};
    jobsched_job_spec spec = {.attempts = 6, .backoff_ms = 1000, .backoff_max_ms = 5000};
    begin_with(&world, &spec, &job);
    fire(&world);
    world_run(&world, 60000);
    static const int64_t at_ms[] = {0, 1000, 3000, 7000, 12000, 17000};
    assert_equal(job.calls, 6);
    for (int i = 0; i < 6; i++) {
        assert_equal(world.calls[i].at_backend_ms, WORLD_BEGIN_MS + at_ms[i]);
        assert_equal(world.calls[i].attempt, i + 1);
        assert_equal(world.calls[i].token, 1);
    }
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_ATTEMPT_FAILED, "job"), 5);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_RUN_FINISHED, "job"), 1);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_FAILED);
    assert_equal(last_row(&world).code, 7);
    assert_equal(world.s->stats.failed, 1);
    assert_equal(world.s->executing, 0);
    world_close(&world);
}

static int succeed_third(struct world_job *job, jobsched_run *run)
{
    (void)job;
    return jobsched_run_attempt(run) == 3 ? 0 : -5;
}

/* One success ends it; the defaults are one second, doubling. */
static void test_success_ends_the_attempts(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.body = succeed_third};
    jobsched_job_spec spec = {.attempts = 10};
    begin_with(&world, &spec, &job);
    fire(&world);
    world_run(&world, 3600000 - 1);
    assert_equal(job.calls, 3);
    assert_equal(world.calls[2].at_backend_ms, WORLD_BEGIN_MS + 3000);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    world_close(&world);
}

/* G11: the largest numbers neither overflow nor come early. */
static void test_largest_back_off(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = 2};
    jobsched_job_spec spec = {
        .attempts = JSI_ATTEMPTS_MAX, .backoff_ms = 1, .backoff_max_ms = JSI_SPAN_MAX_MS};
    begin_with(&world, &spec, &job);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    spec = world_spec(&world, &job, "job", "@at 2027-01-15T08:00:01Z");
    spec.attempts = JSI_ATTEMPTS_MAX;
    spec.backoff_ms = 1;
    spec.backoff_max_ms = JSI_SPAN_MAX_MS;
    world_add(&world, &spec);
    world_run(&world, 1000);
    for (int i = 1; i < 10; i++) {
        assert_equal(job.calls, i);
        world_run(&world, (INT64_C(1) << (i - 1)) - 1);
        assert_equal(job.calls, i);
        world_run(&world, 1);
    }
    world_close(&world);
}

static int cancel_itself(struct world_job *job, jobsched_run *run)
{
    (void)job;
    (void)run;
    return JOBSCHED_ECANCELED;
}

/* ECANCELED is an answer and not a failure to be tried again. */
static void test_cancelled_is_not_tried_again(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.body = cancel_itself};
    jobsched_job_spec spec = {.attempts = 5};
    begin_with(&world, &spec, &job);
    fire(&world);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_CANCELLED);
    assert_equal(world.s->stats.cancelled, 1);
    world_close(&world);
}

/* Timeout: counted from the first call over all attempts; asks to stop once; the outcome follows
 * from what the callback makes of it. */
static void test_timeout_asks_and_names_the_outcome(void **state)
{
    (void)state;
    static const struct {
        int result, outcome;
    } rows[] = {{0, JOBSCHED_OUTCOME_SUCCEEDED},
                {3, JOBSCHED_OUTCOME_TIMED_OUT},
                {JOBSCHED_ECANCELED, JOBSCHED_OUTCOME_TIMED_OUT}};
    for (int i = 0; i < 3; i++) {
        struct world world;
        struct world_job job = {.result = JOBSCHED_PENDING};
        jobsched_job_spec spec = {.attempts = 3, .timeout_ms = 20000};
        begin_with(&world, &spec, &job);
        fire(&world);
        world_run(&world, 19999);
        assert_equal(jobsched_run_should_stop(job.pending), 0);
        world_run(&world, 1);
        assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_TIMED_OUT);
        assert_equal(job.stopped, 1);
        assert_equal(job.stop_reason, JOBSCHED_STOP_TIMED_OUT);
        world_run(&world, 60000); /* it keeps its lease while it does not obey */
        assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_TIMED_OUT);
        assert_equal(jobsched_run_finish(job.pending, rows[i].result), 0);
        world_run(&world, 60000);
        assert_equal(job.calls, 1); /* no attempt follows */
        assert_equal(last_row(&world).outcome, rows[i].outcome);
        assert_equal(last_row(&world).code, rows[i].result);
        world_close(&world);
    }
}

/* Between two attempts there is nobody to ask: the run ends at once. */
static void test_timeout_between_attempts_ends_the_run(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = 9};
    jobsched_job_spec spec = {.attempts = 3, .backoff_ms = 30000, .timeout_ms = 10000};
    begin_with(&world, &spec, &job);
    fire(&world);
    world_run(&world, 9999);
    assert_equal(world.s->active_count, 1);
    world_run(&world, 1);
    assert_equal(world.s->active_count, 0);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_TIMED_OUT);
    assert_equal(last_row(&world).code, 9);
    assert_equal(last_row(&world).finished_at_ms, WORLD_BEGIN_MS + 10000);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(world.s->executing, 0);
    world_close(&world);
}

/* The lease is kept over a back-off that is longer than it. */
static void test_back_off_keeps_the_lease(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = 9};
    jobsched_job_spec spec = {.attempts = 2, .backoff_ms = 300000, .backoff_max_ms = 300000};
    begin_with(&world, &spec, &job);
    fire(&world);
    world_run(&world, 400000);
    assert_equal(job.calls, 2);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_FAILED);
    world_close(&world);
}

static int inspect(struct world_job *job, jobsched_run *run)
{
    jobsched_run_record *seen = job->data;
    seen->scheduled_at_ms = jobsched_run_scheduled_at_ms(run);
    seen->token = jobsched_run_token(run);
    seen->kind = jobsched_run_kind(run);
    seen->attempt = jobsched_run_attempt(run);
    seen->started_at_ms = jobsched_run_lease_left_ms(run);
    seen->count = strcmp(jobsched_run_job(run), "job") == 0;
    char note[400];
    memset(note, 'a', sizeof note);
    memcpy(note + 198, "\xC3\xA4\xC3\xA4\xC3\xA4", 7); /* the limit falls after the first */
    (void)jobsched_run_note(run, "replaced");
    (void)jobsched_run_note(run, note);
    (void)jobsched_run_progress(run, 3, 4);
    return 0;
}

static int take_note(const jobsched_run_record *record, void *user_data)
{
    char *note = user_data;
    memcpy(note, record->note, strlen(record->note) + 1);
    return 1;
}

/* What a callback can read, and what of its reports the ledger keeps. */
static void test_a_run_knows_itself_and_reports(void **state)
{
    (void)state;
    struct world world;
    jobsched_run_record seen = {0};
    struct world_job job = {.body = inspect, .data = &seen};
    jobsched_job_spec spec = {0};
    char note[JOBSCHED_NOTE_BYTES + 1];
    begin_with(&world, &spec, &job);
    world_run(&world, 3600000);
    assert_equal(seen.scheduled_at_ms, WORLD_BEGIN_MS + 3600000);
    assert_equal(seen.token, 1);
    assert_equal(seen.kind, JOBSCHED_KIND_SCHEDULED);
    assert_equal(seen.attempt, 1);
    assert_equal(seen.count, 1);
    assert_equal(seen.started_at_ms, JSI_LEASE_DEFAULT_MS - JSI_LEASE_MARGIN_MAX_MS);
    assert_equal(last_row(&world).progress_done, 3);
    assert_equal(last_row(&world).progress_total, 4);
    assert_equal(jobsched_runs(world.s, "job", 0, take_note, note), 0);
    assert_equal(strlen(note), 200);
    assert_memory_equal(note + 198, "\xC3\xA4", 3);
    assert_fails(jobsched_run_note(NULL, "x"), JOBSCHED_EINVAL, "run");
    assert_fails(jobsched_run_progress(NULL, 1, 2), JOBSCHED_EINVAL, "run");
    assert_fails(jobsched_run_finish(NULL, 0), JOBSCHED_EINVAL, "run");
    world_close(&world);
}

static int finish_before_return(struct world_job *job, jobsched_run *run)
{
    (void)job;
    if (jobsched_run_finish(run, JOBSCHED_PENDING) != JOBSCHED_EINVAL) {
        return 77;
    }
    return jobsched_run_finish(run, 5) == 0 ? JOBSCHED_PENDING : 78;
}

/* PENDING: the finish may come before the callback returns, or long after. */
static void test_pending_in_either_order(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.body = finish_before_return};
    jobsched_job_spec spec = {0};
    begin_with(&world, &spec, &job);
    fire(&world);
    assert_equal(last_row(&world).code, 5);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_FAILED);
    job.body = NULL;
    job.result = JOBSCHED_PENDING;
    test_clock_advance(&world.clock, 1);
    fire(&world);
    world_run(&world, 600000);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_RUNNING);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    world_close(&world);
}

/* PENDING and attempts: each attempt is ended on its own. */
static void test_pending_attempts(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    jobsched_job_spec spec = {.attempts = 3, .backoff_ms = 1000, .backoff_max_ms = 1000};
    begin_with(&world, &spec, &job);
    fire(&world);
    for (int i = 1; i <= 3; i++) {
        assert_equal(job.calls, i);
        assert_equal(jobsched_run_finish(job.pending, 2), 0);
        world_run(&world, 1000);
    }
    assert_equal(job.calls, 3);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_FAILED);
    assert_equal(world.s->executing, 0);
    world_close(&world);
}

/* ---- the executor hook -------------------------------------------------------- */

struct host {
    void (*work[64])(void *arg);
    void *args[64];
    size_t count;
    int refuses;
};

static int submit(void *ctx, void (*work)(void *arg), void *arg)
{
    struct host *host = ctx;
    if (host->refuses > 0) {
        host->refuses--;
        return 1;
    }
    host->work[host->count] = work;
    host->args[host->count++] = arg;
    return 0;
}

static void begin_with_host(struct world *world, struct host *host, uint64_t capacity)
{
    static jobsched_executor executor;
    world_init(world, "fake:");
    JOBSCHED_INIT(&executor);
    executor.ctx = host;
    executor.submit = submit;
    executor.capacity = capacity;
    world->options.executor = &executor;
    world_open(world);
    world_start(world);
}

/* Runs go to the host, no more than it can take; a refusal is a failed run with a reason, also for
 * one that is to be tried again. */
static void test_executor_takes_and_refuses(void **state)
{
    (void)state;
    struct world world;
    struct host host = {0};
    struct world_job job = {0}, other = {0};
    begin_with_host(&world, &host, 1);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 60s");
    world_add(&world, &spec);
    spec = world_spec(&world, &other, "other", "@every 60s");
    spec.attempts = 2;
    world_add(&world, &spec);
    world_run(&world, 60000);
    size_t taken = host.count;
    assert_at_most(taken, 2);
    assert_at_most(1, taken);
    for (size_t i = 0; i < host.count; i++) {
        host.work[i](host.args[i]);
        (void)world_settle(&world);
    }
    assert_equal(job.calls + other.calls, 2);
    host.count = 0;
    host.refuses = 3; /* the one run of "job", and both attempts of "other" */
    world_run(&world, 70000);
    assert_equal(host.count, 0);
    assert_equal(job.calls + other.calls, 2);
    assert_equal(world.s->stats.failed, 2);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_ATTEMPT_FAILED, "other"), 1);
    assert_equal(last_row(&world).code, JOBSCHED_EREFUSED);
    char note[JOBSCHED_NOTE_BYTES + 1];
    assert_equal(jobsched_runs(world.s, "other", 0, take_note, note), 0);
    assert_string_equal(note, "the executor refused the run");
    assert_equal(world.s->executing, 0);
    world_close(&world);
}

/* A run that the host holds when its lease is lost is not called any more. */
static void test_host_comes_too_late(void **state)
{
    (void)state;
    struct world world;
    struct host host = {0};
    struct world_job job = {0};
    begin_with_host(&world, &host, 4);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    world_run(&world, 3600000);
    assert_equal(host.count, 1);
    test_clock_advance(&world.clock, JSI_LEASE_DEFAULT_MS);
    host.work[0](host.args[0]);
    assert_equal(job.calls, 0);
    (void)world_settle(&world);
    assert_equal(last_row(&world).outcome, JOBSCHED_OUTCOME_LEASE_LOST);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attempts_back_off_up_to_a_bound),
        cmocka_unit_test(test_success_ends_the_attempts),
        cmocka_unit_test(test_largest_back_off),
        cmocka_unit_test(test_cancelled_is_not_tried_again),
        cmocka_unit_test(test_timeout_asks_and_names_the_outcome),
        cmocka_unit_test(test_timeout_between_attempts_ends_the_run),
        cmocka_unit_test(test_back_off_keeps_the_lease),
        cmocka_unit_test(test_a_run_knows_itself_and_reports),
        cmocka_unit_test(test_pending_in_either_order),
        cmocka_unit_test(test_pending_attempts),
        cmocka_unit_test(test_executor_takes_and_refuses),
        cmocka_unit_test(test_host_comes_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
