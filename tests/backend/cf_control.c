/* cf_control.c: pause, resume, cancel and remove: effective, and honest about it. */
#include "cf_support.h"

#include <stdlib.h>

/* G6: without a job nothing is done and success is not told. */
static void control_of_an_unknown_job_is_not_found(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    (void)cf_job(node, "job", 0);
    for (int verb = JOBSCHED_VERB_PAUSE; verb <= JOBSCHED_VERB_REMOVE; verb++) {
        jobsched_control_result result;
        JOBSCHED_INIT(&result);
        result.changed = 77;
        jobsched_command command = {.verb = verb, .job = "jo'b", .request = "request"};
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        cf_equal(node->driver->control(node->backend, &call, &command, &result),
                 JOBSCHED_ENOTFOUND);
        cf_true(strstr(jobsched_last_error()->message, "'jo'b'") != NULL);
        cf_equal(result.changed, 77); /* outputs stay untouched on failure */
    }
    struct cf_found found;
    cf_equal(cf_reap(node, &found, 1), 0);
}

/* G6: once pause has returned, no later grant anywhere has a larger token. */
static void pause_bounds_the_tokens(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = node;
    struct cf_job job = cf_job(node, "job", 4);
    if ((world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0) {
        other = cf_open(world, "never heard of it");
    }
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 0);
    cf_equal(result.token, 0); /* never granted */
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, &result));
    cf_equal(result.changed, 1);
    int64_t before_ms = cf_now(node);
    jobsched_claim run = cf_grant(node, &job, 1);
    int64_t after_ms = cf_now(node);
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, &result));
    cf_equal(result.changed, 1);
    cf_equal(result.token, run.token);
    cf_equal(result.running, 1);
    cf_equal(result.run_token, run.token);
    cf_true(result.since_at_ms >= before_ms && result.since_at_ms <= after_ms);
    assert_string_equal(result.node, "node");
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT); /* a pause stops no run */
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    struct cf_node *nodes[2] = {node, other};
    for (int64_t k = 2; k <= 3; k++) {
        jobsched_claim claim = cf_at(&job, k);
        cf_ask(nodes[k % 2], &claim);
        cf_answer(claim, PAUSED);
    }
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_true(cf_grant(other, &job, 4).token > result.token);
}

/* G6, G9: what is skipped while the job is paused was not missed: the ledger says paused, counts
 * all of it in one row, and the next ones extend that row; after the pause a skip is a skip. */
static void pause_takes_skipped_ranges(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 16);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    jobsched_claim range = cf_range(&job, 1, 5, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(node, &range);
    cf_answer(range, PAUSED);
    cf_equal(range.token, 0);
    cf_equal(range.mark_ms, job.mark_ms + 5);
    struct cf_row rows[3];
    cf_equal(cf_rows(node, "job", rows, 3), 1);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_PAUSED);
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 1);
    cf_equal(rows[0].record.last_at_ms, job.mark_ms + 5);
    cf_equal(rows[0].record.count, 5);
    cf_ask(node, &range); /* its answer was lost: it counts no second time */
    cf_answer(range, DONE);
    jobsched_claim one = cf_at(&job, 6);
    cf_ask(node, &one);
    cf_answer(one, PAUSED);
    range = cf_range(&job, 7, 10, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    cf_ask(node, &range);
    cf_answer(range, PAUSED);
    cf_equal(cf_rows(node, "job", rows, 3), 1);
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 1);
    cf_equal(rows[0].record.last_at_ms, job.mark_ms + 10);
    cf_equal(rows[0].record.count, 10);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    range = cf_range(&job, 11, 12, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(node, &range);
    cf_answer(range, GRANTED);
    cf_equal(cf_rows(node, "job", rows, 3), 2);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_equal(rows[0].record.count, 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    range = cf_range(&job, 20, 3600000, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    range.after_ms = job.mark_ms + 12;
    cf_ask(node, &range);
    cf_answer(range, EARLY); /* nor does a pause hurry what is not due */
    cf_equal(cf_mark(node, &job), 12);
}

/* G6: a pause is the job's own. */
static void pause_stops_no_other_job(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "a", NULL, NULL));
    (void)cf_grant(node, &b, 1);
    jobsched_claim claim = cf_at(&a, 1);
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
}

/* G6: each verb may be repeated, and tells that nothing was left to change. */
static void control_is_idempotent(void **state)
{
    static const int verbs[] = {JOBSCHED_VERB_PAUSE, JOBSCHED_VERB_RESUME, JOBSCHED_VERB_CANCEL,
                                JOBSCHED_VERB_REMOVE};
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        for (int time = 0; time < 3; time++) {
            jobsched_control_result result;
            cf_ok(cf_control(node, verbs[i], "job", NULL, &result));
            cf_equal(result.changed, time == 0);
            cf_equal(result.running, 1);
            cf_equal(result.run_token, run.token);
        }
    }
}

/* G6: resume of a job that was not paused changes nothing and says so. */
static void resume_of_a_running_job_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    (void)cf_job(node, "job", 0);
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, &result));
    cf_equal(result.changed, 0);
    cf_equal(result.running, 0);
}

/* G6: cancel reaches every run of the job by its node's next renewal, and no other job. */
static void cancel_reaches_all_runs(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = node;
    struct cf_job job = cf_job(node, "job", 0), calm = cf_job(node, "calm", 4);
    if ((world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0) {
        other = cf_open(world, "other");
    }
    jobsched_claim first = cf_grant(node, &job, 1), quiet = cf_grant(node, &calm, 1);
    jobsched_claim second = cf_at(&job, 2);
    second.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(other, &second);
    cf_answer(second, GRANTED);
    jobsched_control_result result;
    cf_ok(cf_control(other, JOBSCHED_VERB_CANCEL, "job", NULL, &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 1);
    for (int i = 0; i < 2; i++) { /* told again until it ends: an answer may get lost */
        cf_equal(cf_renew(node, "job", first.token), JOBSCHED_LEASE_CANCEL);
        cf_equal(cf_renew(other, "job", second.token), JOBSCHED_LEASE_CANCEL);
    }
    cf_equal(cf_renew(node, "calm", quiet.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_CANCELLED), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(other, "job", second.token, JOBSCHED_OUTCOME_CANCELLED),
             JOBSCHED_LEASE_KEPT);
    jobsched_claim later = cf_grant(node, &job, 3);
    cf_equal(cf_renew(node, "job", later.token), JOBSCHED_LEASE_KEPT); /* a run of its own */
}

/* G6: cancel without a run says that there was none. */
static void cancel_without_a_run_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job", NULL, &result));
    cf_equal(result.changed, 0);
    cf_equal(result.running, 0);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G6: what is removed is granted to nobody, while its run ends in peace. */
static void remove_refuses_every_claim(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_grant(node, &job, 1);
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "before", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 1);
    cf_equal(result.run_token, run.token);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    jobsched_claim claims[] = {cf_at(&job, 2), cf_range(&job, 2, 3, 10), cf_at(&job, 1),
                               cf_at(&job, 0)};
    claims[2].kind = JOBSCHED_KIND_RERUN;
    claims[3].kind = JOBSCHED_KIND_TRIGGER;
    claims[3].request = "before";
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        cf_ask(node, &claims[i]);
        cf_answer(claims[i], REMOVED);
        cf_equal(claims[i].mark_ms, job.mark_ms + 1);
    }
    for (int verb = JOBSCHED_VERB_PAUSE; verb < JOBSCHED_VERB_REMOVE; verb++) {
        cf_equal(cf_control(node, verb, "job", "after", NULL), JOBSCHED_ENOTFOUND);
    }
}

/* G6, G9: what still waited when the job was removed ends with it, and does not come back when
 * somebody revives the job much later. */
static void remove_ends_what_waits(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    struct cf_found found;
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 3;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    cf_equal(cf_reap(node, &found, 1), 0);
    struct cf_row rows[2];
    cf_equal(cf_rows(node, "job", rows, 2), 2);
    for (int i = 0; i < 2; i++) {
        cf_equal(rows[i].record.outcome, rows[i].request[0] == '\0' ? JOBSCHED_OUTCOME_INTERRUPTED
                                                                    : JOBSCHED_OUTCOME_CANCELLED);
        cf_true(rows[i].record.finished_at_ms != JOBSCHED_NONE);
    }
    jobsched_announcement revived = cf_announce(node, "job", "every 1 ms", 1);
    cf_equal(revived.removed, 0);
    cf_equal(cf_reap(node, &found, 1), 0);
    job.generation = revived.generation;
    jobsched_claim claim = cf_at(&job, 1);
    claim.kind = JOBSCHED_KIND_TRIGGER;
    claim.request = "waits";
    cf_ask(node, &claim);
    cf_answer(claim, DONE);
    claim.kind = JOBSCHED_KIND_RERUN;
    cf_ask(node, &claim);
    cf_answer(claim, DONE);
}

const struct cf_test cf_control_tests[] = {
    {"control_of_an_unknown_job_is_not_found", control_of_an_unknown_job_is_not_found, 0},
    {"pause_bounds_the_tokens", pause_bounds_the_tokens, 0},
    {"pause_takes_skipped_ranges", pause_takes_skipped_ranges, 0},
    {"pause_stops_no_other_job", pause_stops_no_other_job, 0},
    {"control_is_idempotent", control_is_idempotent, 0},
    {"resume_of_a_running_job_changes_nothing", resume_of_a_running_job_changes_nothing, 0},
    {"cancel_reaches_all_runs", cancel_reaches_all_runs, 0},
    {"cancel_without_a_run_changes_nothing", cancel_without_a_run_changes_nothing, 0},
    {"remove_refuses_every_claim", remove_refuses_every_claim, 0},
    {"remove_ends_what_waits", remove_ends_what_waits, 0},
    {NULL, NULL, 0},
};
