/* cf_ledger.c: the readers, the identity of what was claimed and what is told, the bounds. */
#include "cf_support.h"

#include <stdlib.h>

#define INSTANTS 60

static int count_until(const jobsched_run_record *record, void *user_data)
{
    (void)record;
    int *left = user_data;
    return --*left == 0;
}

static uint64_t read_count(struct cf_node *node, const char *job, uint64_t limit, int stop_after)
{
    int left = stop_after;
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->runs(node->backend, &call, job, limit, count_until, &left));
    cf_true(call.now_ms > 0);
    return (uint64_t)(stop_after - left);
}

/* The reader keeps its order, its filter, its limits, and stops when it is told to. */
static void ledger_lists_newest_first(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 130);
    for (int64_t k = 1; k <= 120; k++) {
        const struct cf_job *job = k % 4 == 0 ? &b : &a;
        jobsched_claim run = cf_at(job, k);
        int64_t step = job == &b ? 4 : k % 4 == 1 ? 2 : 1;
        run.after_ms = job->mark_ms + (k > step ? k - step : 0);
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        cf_equal(cf_finish(node, job->name, run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
    cf_equal(read_count(node, NULL, 0, 1000), 100); /* the default limit */
    cf_equal(read_count(node, NULL, 7, 1000), 7);
    cf_equal(read_count(node, NULL, UINT64_MAX, 1000), 120);
    cf_equal(read_count(node, NULL, 1000, 5), 5);
    cf_equal(read_count(node, "b", 1000, 1000), 30);
    cf_equal(read_count(node, "b", 29, 1000), 29);
    cf_equal(read_count(node, "nobody", 0, 1000), 0);
    cf_equal(read_count(node, "", 0, 1000), 0);
    static struct cf_row rows[120];
    cf_equal(cf_rows(node, NULL, rows, 120), 120);
    for (size_t i = 0; i < 120; i++) {
        int64_t k = 120 - (int64_t)i;
        const struct cf_job *job = k % 4 == 0 ? &b : &a;
        assert_string_equal(rows[i].job, job->name);
        cf_equal(rows[i].record.scheduled_at_ms, job->mark_ms + k);
    }
    cf_equal(cf_rows(node, "b", rows, 30), 30);
    for (size_t i = 0; i < 30; i++) {
        assert_string_equal(rows[i].job, "b");
        cf_equal(rows[i].record.scheduled_at_ms, b.mark_ms + 120 - 4 * (int64_t)i);
    }
}

/* G9: every field of a row says what was told, while it runs and after. */
static void ledger_tells_every_field(void **state)
{
    struct cf_node *node = cf_open(*state, "node \xc3\xa9");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_at(&job, 2);
    run.after_ms = job.mark_ms;
    run.kind = JOBSCHED_KIND_CATCH_UP;
    int64_t before_ms = cf_now(node);
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    int64_t after_ms = cf_now(node);
    struct cf_row row;
    const jobsched_run_record *record = &cf_newest(node, "job", &row)->record;
    assert_string_equal(record->job, "job");
    assert_string_equal(record->node, "node \xc3\xa9");
    assert_string_equal(record->note, "");
    assert_string_equal(record->request, "");
    cf_equal(record->scheduled_at_ms, job.mark_ms + 2);
    cf_equal(record->last_at_ms, job.mark_ms + 2);
    cf_equal(record->count, 1);
    cf_equal(record->token, run.token);
    cf_true(record->started_at_ms >= before_ms && record->started_at_ms <= after_ms);
    cf_equal(record->finished_at_ms, JOBSCHED_NONE);
    cf_equal(record->progress_done, 0);
    cf_equal(record->progress_total, 0);
    cf_equal(record->attempt, 1);
    cf_equal(record->kind, JOBSCHED_KIND_CATCH_UP);
    cf_equal(record->outcome, JOBSCHED_OUTCOME_RUNNING);
    cf_equal(record->code, 0);
    int64_t started_ms = record->started_at_ms;
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_TIMED_OUT), JOBSCHED_LEASE_KEPT);
    record = &cf_newest(node, "job", &row)->record;
    cf_equal(record->started_at_ms, started_ms);
    cf_true(record->finished_at_ms >= after_ms && record->finished_at_ms <= cf_now(node));
    cf_equal(record->outcome, JOBSCHED_OUTCOME_TIMED_OUT);
    cf_equal(record->kind, JOBSCHED_KIND_CATCH_UP);
}

/* Accounts for some of the next instants in the way that the step chooses; returns how many. */
static int64_t account(struct cf_node *node, const struct cf_job *job, int64_t k, unsigned step)
{
    jobsched_claim claim = cf_at(job, k);
    switch (step % 6) {
    case 0: /* a run */
        claim = cf_grant(node, job, k);
        (void)cf_finish(node, job->name, claim.token, JOBSCHED_OUTCOME_SUCCEEDED);
        return 1;
    case 1: /* three of them at once */
        claim = cf_range(job, k, k + 2, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        cf_ask(node, &claim);
        cf_answer(claim, GRANTED);
        return 3;
    case 2: /* a run, and one skipped beside it */
        claim = cf_grant(node, job, k);
        jobsched_claim beside = cf_at(job, k + 1);
        beside.when_held = JOBSCHED_HELD_SKIP;
        cf_ask(node, &beside);
        cf_answer(beside, HELD);
        (void)cf_finish(node, job->name, claim.token, JOBSCHED_OUTCOME_FAILED);
        return 2;
    case 3: /* two while paused */
        cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, job->name, NULL, NULL));
        cf_ask(node, &claim);
        cf_answer(claim, PAUSED);
        claim = cf_at(job, k + 1);
        cf_ask(node, &claim);
        cf_answer(claim, PAUSED);
        cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, job->name, NULL, NULL));
        return 2;
    case 4: /* refusals, which account for nothing */
        claim.generation++;
        cf_ask(node, &claim);
        cf_answer(claim, STALE);
        claim = cf_at(job, k + 3);
        cf_ask(node, &claim);
        cf_answer(claim, MOVED);
        claim = cf_at(job, k - 1);
        cf_ask(node, &claim);
        cf_answer(claim, DONE);
        return 0;
    default: /* a trigger, which is no instant of the schedule */
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, job->name, "x", NULL));
        return 0;
    }
}

/* G9: the set of the ledger's instants is exactly the set that was claimed: nothing lost,
 * nothing twice, ranges counted. */
static void ledger_equals_what_was_claimed(void **state)
{
    static struct cf_row rows[INSTANTS * 2];
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", INSTANTS + 4);
    int64_t accounted = 0;
    for (unsigned step = 0; accounted < INSTANTS; step++) {
        accounted += account(node, &job, accounted + 1, step);
    }
    int seen[INSTANTS + 8] = {0};
    size_t count = cf_rows(node, "job", rows, INSTANTS * 2);
    for (size_t i = 0; i < count; i++) {
        const jobsched_run_record *record = &rows[i].record;
        if (record->request[0] != '\0') {
            continue;
        }
        cf_equal(record->count, record->last_at_ms - record->scheduled_at_ms + 1);
        for (int64_t at = record->scheduled_at_ms; at <= record->last_at_ms; at++) {
            cf_true(at > job.mark_ms && at <= job.mark_ms + accounted);
            seen[at - job.mark_ms]++;
        }
    }
    for (int64_t k = 1; k <= accounted; k++) {
        cf_equal(seen[k], 1);
    }
    cf_equal(cf_mark(node, &job), accounted);
}

/* G16: history is kept by count, the newest of it, and never at the cost of what runs. */
static void ledger_keeps_to_its_count(void **state)
{
    enum { KEEP = 5, RUNS = 400, SLACK = 150 };
    static struct cf_row rows[RUNS];
    struct cf_settings settings = {.history_count = KEEP};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job job = cf_job(node, "job", RUNS + 1), calm = cf_job(node, "calm", 1);
    jobsched_claim quiet = cf_grant(node, &calm, 1);
    (void)cf_finish(node, "calm", quiet.token, JOBSCHED_OUTCOME_SUCCEEDED);
    jobsched_claim held = cf_grant(node, &job, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    for (int64_t k = 2; k <= RUNS; k++) {
        jobsched_claim run = cf_at(&job, k);
        run.when_held = JOBSCHED_HELD_ALLOW;
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    }
    size_t count = cf_rows(node, "job", rows, RUNS);
    cf_true(count >= KEEP + 2);
    cf_true(count <= KEEP + 2 + SLACK); /* "now and then" */
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        open += rows[i].record.outcome <= JOBSCHED_OUTCOME_RUNNING;
    }
    cf_equal(open, 2); /* what runs or waits is not history */
    for (int64_t k = 0; k < KEEP; k++) {
        cf_equal(rows[k].record.scheduled_at_ms, job.mark_ms + RUNS - k);
    }
    cf_equal(cf_renew(node, "job", held.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", held.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_rows(node, "calm", rows, 1), 1); /* the bound is per job */
    cf_equal(cf_mark(node, &job), RUNS);         /* and the mark does not hang on it */
}

/* G16: and by age. */
static void ledger_keeps_to_its_age(void **state)
{
    enum { RUNS = 300, SLACK = 250 };
    static struct cf_row rows[RUNS];
    struct cf_settings settings = {.history_age_ms = 20};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job job = cf_job(node, "job", RUNS + 1);
    int64_t started_ms = cf_now(node), newest = 0;
    for (int64_t k = 1; k <= RUNS; k++) {
        jobsched_claim run = cf_grant(node, &job, k);
        (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
        cf_wait_until(node, started_ms + k); /* so that the run takes many times the age */
        newest = k;
    }
    size_t count = cf_rows(node, "job", rows, RUNS);
    cf_true(count <= SLACK);
    cf_true(count == 0 || rows[0].record.scheduled_at_ms == job.mark_ms + newest);
    cf_equal(cf_mark(node, &job), RUNS);
}

const struct cf_test cf_ledger_tests[] = {
    {"ledger_lists_newest_first", ledger_lists_newest_first, 0},
    {"ledger_tells_every_field", ledger_tells_every_field, 0},
    {"ledger_equals_what_was_claimed", ledger_equals_what_was_claimed, 0},
    {"ledger_keeps_to_its_count", ledger_keeps_to_its_count, 0},
    {"ledger_keeps_to_its_age", ledger_keeps_to_its_age, 0},
    {NULL, NULL, 0},
};
