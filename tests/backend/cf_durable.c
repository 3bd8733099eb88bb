/* cf_durable.c: what a store still knows after its last process has gone. */
#include "cf_support.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* G1, G2: marks, tokens and generations outlive everybody. */
static void durable_marks_and_tokens(void **state)
{
    struct cf_world *world = *state;
    struct cf_job job = {0};
    uint64_t token = 0;
    int64_t end_ms = 0;
    for (int64_t k = 1; k <= 6; k++) {
        struct cf_node *node = cf_open(world, "node");
        if (k == 1) {
            job = cf_job(node, "job", 10);
        }
        jobsched_announcement item = cf_announce(node, "job", "every 1 ms", 0);
        cf_equal(item.mark_ms, job.mark_ms + k - 1);
        cf_equal(item.generation, job.generation);
        cf_equal(item.last_end_ms, k == 1 ? JOBSCHED_NONE : end_ms);
        jobsched_claim done = cf_at(&job, k - 1);
        cf_ask(node, &done);
        cf_answer(done, DONE);
        jobsched_claim run = cf_grant(node, &job, k);
        cf_true(run.token > token);
        token = run.token;
        cf_equal(cf_finish(node, "job", token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
        end_ms = cf_announce(node, "job", "every 1 ms", 0).last_end_ms;
        cf_close(world, node);
    }
}

/* G6: a pause and a tombstone hold through a restart of everything. */
static void durable_pauses_and_tombstones(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job paused = cf_job(node, "paused", 0), removed = cf_job(node, "removed", 0);
    (void)cf_announce(node, "edited", "b", 9);
    jobsched_announcement edited = cf_announce(node, "edited", "c", 9);
    cf_wait_until(node, removed.mark_ms + 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "paused", NULL, NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "removed", NULL, NULL));
    cf_close(world, node);
    node = cf_open(world, "node");
    jobsched_claim claim = cf_at(&paused, 1);
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
    claim = cf_at(&removed, 1);
    cf_ask(node, &claim);
    cf_answer(claim, REMOVED);
    cf_equal(cf_announce(node, "paused", "every 1 ms", 0).paused, 1);
    cf_equal(cf_announce(node, "removed", "every 1 ms", 0).removed, 1);
    jobsched_announcement old = cf_announce(node, "edited", "b", 8);
    cf_equal(old.in_force, 0);
    cf_equal(old.generation, edited.generation);
    cf_equal(cf_announce(node, "edited", "c", 9).generation, edited.generation);
}

static void check_same(const struct cf_row *row, const struct cf_row *other)
{
    assert_string_equal(row->job, other->job);
    assert_string_equal(row->node, other->node);
    assert_string_equal(row->note, other->note);
    assert_string_equal(row->request, other->request);
    cf_equal(row->record.scheduled_at_ms, other->record.scheduled_at_ms);
    cf_equal(row->record.last_at_ms, other->record.last_at_ms);
    cf_equal(row->record.count, other->record.count);
    cf_equal(row->record.token, other->record.token);
    cf_equal(row->record.started_at_ms, other->record.started_at_ms);
    cf_equal(row->record.finished_at_ms, other->record.finished_at_ms);
    cf_equal(row->record.progress_done, other->record.progress_done);
    cf_equal(row->record.progress_total, other->record.progress_total);
    cf_equal(row->record.attempt, other->record.attempt);
    cf_equal(row->record.kind, other->record.kind);
    cf_equal(row->record.outcome, other->record.outcome);
    cf_equal(row->record.code, other->record.code);
}

/* G9: the ledger reads the same after a restart, waiting triggers included. */
static void durable_ledger(void **state)
{
    enum { ROWS = 8 };
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 12);
    for (int64_t k = 1; k <= 4; k++) {
        jobsched_claim run = cf_grant(node, &job, k);
        jobsched_finish end = {.job = "job",
                               .note = "a note",
                               .token = run.token,
                               .progress_done = 1,
                               .progress_total = 2,
                               .outcome = k % 2 == 0 ? JOBSCHED_OUTCOME_FAILED
                                                     : JOBSCHED_OUTCOME_SUCCEEDED,
                               .code = (int32_t)k};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, &end, 1));
    }
    jobsched_claim skip = cf_range(&job, 5, 7, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(node, &skip);
    cf_answer(skip, GRANTED);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waiting", NULL));
    struct cf_row before[ROWS], after[ROWS];
    size_t count = cf_rows(node, NULL, before, ROWS);
    cf_equal(count, 6);
    cf_close(world, node);
    node = cf_open(world, "another");
    cf_equal(cf_rows(node, NULL, after, ROWS), count);
    for (size_t i = 0; i < count; i++) {
        check_same(&after[i], &before[i]);
    }
    struct cf_found found;
    cf_equal(cf_reap(node, &found, 1), 1);
    cf_equal(found.finding.found, JOBSCHED_FOUND_TRIGGER);
    assert_string_equal(found.request, "waiting");
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waiting", &result));
    cf_equal(result.changed, 0);
}

/* G15: a run that was left behind by the last process is found interrupted by the next. */
static void durable_run_that_was_left(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 1;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_close(world, node);
    node = cf_open(world, "node");
    jobsched_claim rerun = cf_at(&job, 1);
    rerun.kind = JOBSCHED_KIND_RERUN;
    rerun.recover = JOBSCHED_RECOVER_RERUN;
    rerun.recover_limit = 1;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    do {
        struct cf_found found[2];
        cf_true(cf_real_mono_ms() < deadline_ms);
        (void)cf_reap(node, found, 2);
        cf_ask(node, &rerun);
    } while (rerun.answer != JOBSCHED_ANSWER_GRANTED);
    cf_equal(rerun.attempt, 2);
    cf_true(rerun.token > run.token);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
}

/* G1: what was answered is kept, even if the process dies at that very moment. */
static void durable_before_answered(void **state)
{
    struct cf_world *world = *state;
    struct cf_job job = {"job", 0, 0};
    uint64_t token = 0;
    for (int64_t k = 1; k <= 5; k++) {
        int ends[2];
        uint64_t told[3] = {0};
        cf_equal(pipe(ends), 0);
        pid_t child = cf_fork(world);
        if (child == 0) {
            struct cf_node *node = cf_open(world, "node");
            if (k == 1) {
                job = cf_job(node, "job", 8);
            }
            jobsched_claim run = cf_at(&job, k);
            run.when_held = JOBSCHED_HELD_ALLOW;
            cf_ask(node, &run);
            cf_answer(run, GRANTED);
            uint64_t say[3] = {run.token, job.generation, (uint64_t)job.mark_ms};
            cf_equal(write(ends[1], say, sizeof say), sizeof say);
            (void)raise(SIGKILL);
        }
        (void)close(ends[1]);
        cf_equal(read(ends[0], told, sizeof told), sizeof told);
        (void)close(ends[0]);
        (void)cf_wait(world, child);
        job.generation = told[1];
        job.mark_ms = (int64_t)told[2];
        cf_true(told[0] > token);
        token = told[0];
        struct cf_node *node = cf_open(world, "reader");
        cf_equal(cf_mark(node, &job), k);
        struct cf_row row;
        cf_equal(cf_newest(node, "job", &row)->record.token, token);
        cf_close(world, node);
    }
}

const struct cf_test cf_durable_tests[] = {
    {"durable_marks_and_tokens", durable_marks_and_tokens, JOBSCHED_CAPABILITY_DURABLE},
    {"durable_pauses_and_tombstones", durable_pauses_and_tombstones, JOBSCHED_CAPABILITY_DURABLE},
    {"durable_ledger", durable_ledger, JOBSCHED_CAPABILITY_DURABLE},
    {"durable_run_that_was_left", durable_run_that_was_left, JOBSCHED_CAPABILITY_DURABLE},
    {"durable_before_answered", durable_before_answered,
     JOBSCHED_CAPABILITY_DURABLE | JOBSCHED_CAPABILITY_CLUSTER},
    {NULL, NULL, 0},
};
