/* cf_trigger.c: occurrences that somebody asked for by hand. */
#include "cf_support.h"

#include <stdlib.h>

static jobsched_claim trigger_of(const struct cf_job *job, const char *request)
{
    jobsched_claim claim = cf_at(job, 0);
    claim.kind = JOBSCHED_KIND_TRIGGER;
    claim.request = request;
    claim.scheduled_ms = 0;
    claim.after_ms = 0;
    return claim;
}

static int is_listed(struct cf_node *node, const char *job, const char *request)
{
    struct cf_found found[8];
    size_t count = cf_reap(node, found, 8);
    int listed = 0;
    for (size_t i = 0; i < count; i++) {
        listed += found[i].finding.found == JOBSCHED_FOUND_TRIGGER &&
                  strcmp(found[i].job, job) == 0 && strcmp(found[i].request, request) == 0;
    }
    cf_true(listed <= 1);
    return listed;
}

/* G1: one request is one occurrence: granted once, whatever is repeated. */
static void trigger_fires_exactly_once(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim none = trigger_of(&job, "a");
    cf_ask(node, &none);
    cf_answer(none, DONE); /* not asked for */
    jobsched_control_result result;
    int64_t before_ms = cf_now(node);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "a", &result));
    int64_t after_ms = cf_now(node);
    cf_equal(result.changed, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "a", &result));
    cf_equal(result.changed, 0);
    cf_equal(is_listed(node, "job", "a"), 1);
    cf_equal(is_listed(node, "job", "a"), 1); /* until it is granted */
    struct cf_row row;
    cf_equal(cf_newest(node, "job", &row)->record.outcome, JOBSCHED_OUTCOME_WAITING);
    jobsched_claim run = trigger_of(&job, "a");
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(run.attempt, 1);
    cf_true(run.granted_ms >= before_ms && run.granted_ms <= after_ms);
    cf_equal(run.mark_ms, job.mark_ms); /* an occurrence of its own: the mark stays */
    cf_equal(is_listed(node, "job", "a"), 0);
    jobsched_claim again = trigger_of(&job, "a");
    cf_ask(node, &again);
    cf_answer(again, GRANTED); /* the answer was lost */
    cf_equal(again.token, run.token);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "a", &result));
    cf_equal(result.changed, 0);
    cf_ask(node, &again);
    cf_answer(again, DONE);
    cf_equal(is_listed(node, "job", "a"), 0);
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    assert_string_equal(row.request, "a");
    cf_equal(row.record.kind, JOBSCHED_KIND_TRIGGER);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    cf_equal(row.record.scheduled_at_ms, run.granted_ms);
    cf_equal(row.record.last_at_ms, run.granted_ms);
    (void)cf_grant(node, &job, 1); /* and the schedule goes on as if nothing had been */
}

/* Request ids belong to their job, and every new one is another occurrence. */
static void trigger_ids_are_per_job(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 1);
    static const char *const requests[] = {"one", "two", "ONE"};
    jobsched_control_result result;
    for (size_t i = 0; i < 3; i++) {
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "a", requests[i], &result));
        cf_equal(result.changed, 1);
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "b", requests[i], &result));
        cf_equal(result.changed, 1);
    }
    uint64_t last = 0;
    for (size_t i = 0; i < 3; i++) {
        jobsched_claim run = trigger_of(&a, requests[i]);
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        cf_true(run.token > last);
        last = run.token;
        cf_equal(cf_finish(node, "a", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
        cf_equal(is_listed(node, "b", requests[i]), 1);
    }
    jobsched_claim run = trigger_of(&b, "two");
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
}

/* G6: a paused job is not triggered, and one that waited when the pause came goes on waiting. */
static void trigger_of_a_paused_job_is_refused(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "early", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "late", NULL), JOBSCHED_ESTATE);
    cf_true(strstr(jobsched_last_error()->message, "'job'") != NULL);
    jobsched_control_result result; /* the repetition of a call that worked is no new trigger */
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "early", &result));
    cf_equal(result.changed, 0);
    jobsched_claim claim = trigger_of(&job, "early");
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_WAITING);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_equal(is_listed(node, "job", "late"), 0);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
}

/* G4: a trigger does not overlap either: it waits, or is skipped and recorded. */
static void trigger_keeps_the_overlap_rule(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim holder = cf_grant(node, &job, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "skips", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "beside", NULL));
    jobsched_claim waits = trigger_of(&job, "waits");
    cf_ask(node, &waits);
    cf_answer(waits, HELD);
    cf_equal(waits.holder_token, holder.token);
    cf_equal(is_listed(node, "job", "waits"), 1);
    jobsched_claim skips = trigger_of(&job, "skips");
    skips.when_held = JOBSCHED_HELD_SKIP;
    cf_ask(node, &skips);
    cf_answer(skips, HELD);
    cf_equal(is_listed(node, "job", "skips"), 0);
    cf_ask(node, &skips);
    cf_answer(skips, DONE);
    jobsched_claim beside = trigger_of(&job, "beside");
    beside.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(node, &beside);
    cf_answer(beside, GRANTED);
    cf_equal(cf_finish(node, "job", holder.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", beside.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ask(node, &waits);
    cf_answer(waits, GRANTED);
    jobsched_claim next = cf_at(&job, 2);
    cf_ask(node, &next);
    cf_answer(next, HELD); /* and is a holder itself */
    struct cf_row rows[4];
    size_t count = cf_rows(node, "job", rows, 4);
    cf_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].request, "skips") == 0) {
            cf_equal(rows[i].record.outcome, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
            cf_equal(rows[i].record.started_at_ms, JOBSCHED_NONE);
            cf_true(rows[i].record.finished_at_ms != JOBSCHED_NONE);
        }
    }
}

/* G14: a node that stands down for the job does not run its triggers either. */
static void trigger_needs_the_generation(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    jobsched_announcement edited = cf_announce(node, "job", "edited", 0);
    jobsched_claim claim = trigger_of(&job, "r");
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
    job.generation = edited.generation;
    claim = trigger_of(&job, "r");
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
}

/* G15: an interrupted triggered run is rerun under its own instant, if it asked for it. */
static void trigger_can_be_rerun(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    jobsched_claim run = trigger_of(&job, "r");
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 1;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    struct cf_found found[2];
    size_t reruns = 0, count = cf_reap(node, found, 2);
    for (size_t i = 0; i < count; i++) {
        if (found[i].finding.found == JOBSCHED_FOUND_RERUN) {
            reruns++;
            cf_equal(found[i].finding.scheduled_ms, run.granted_ms);
        }
    }
    cf_equal(reruns, 1);
    jobsched_claim rerun = cf_at(&job, 0);
    rerun.kind = JOBSCHED_KIND_RERUN;
    rerun.scheduled_ms = run.granted_ms;
    rerun.recover = JOBSCHED_RECOVER_RERUN;
    rerun.recover_limit = 1;
    cf_ask(node, &rerun);
    cf_answer(rerun, GRANTED);
    cf_equal(rerun.attempt, 2);
    cf_true(rerun.token > run.token);
    cf_equal(cf_finish(node, "job", rerun.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    jobsched_control_result result;
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "r", &result));
    cf_equal(result.changed, 0);
    cf_equal(cf_mark(node, &job), 0);
}

/* G6: a trigger from any node is picked up by a node that has the job, through reap. */
static void trigger_is_picked_up_by_another_node(void **state)
{
    struct cf_node *asker = cf_open(*state, "asker"), *owner = cf_open(*state, "owner");
    struct cf_node *third = cf_open(*state, "third");
    struct cf_job job = cf_job(owner, "job", 0);
    jobsched_control_result result;
    cf_ok(cf_control(asker, JOBSCHED_VERB_TRIGGER, "job", "r", &result));
    cf_equal(result.changed, 1);
    cf_ok(cf_control(third, JOBSCHED_VERB_TRIGGER, "job", "r", &result));
    cf_equal(result.changed, 0);
    cf_equal(is_listed(owner, "job", "r"), 1);
    cf_equal(is_listed(third, "job", "r"), 1);
    jobsched_claim run = trigger_of(&job, "r");
    cf_ask(owner, &run);
    cf_answer(run, GRANTED);
    jobsched_claim other = trigger_of(&job, "r");
    other.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(third, &other);
    cf_answer(other, DONE);
    cf_equal(is_listed(third, "job", "r"), 0);
    cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ask(third, &other);
    cf_answer(other, DONE);
}

const struct cf_test cf_trigger_tests[] = {
    {"trigger_fires_exactly_once", trigger_fires_exactly_once, 0},
    {"trigger_ids_are_per_job", trigger_ids_are_per_job, 0},
    {"trigger_of_a_paused_job_is_refused", trigger_of_a_paused_job_is_refused, 0},
    {"trigger_keeps_the_overlap_rule", trigger_keeps_the_overlap_rule, 0},
    {"trigger_needs_the_generation", trigger_needs_the_generation, 0},
    {"trigger_can_be_rerun", trigger_can_be_rerun, 0},
    {"trigger_is_picked_up_by_another_node", trigger_is_picked_up_by_another_node,
     JOBSCHED_CAPABILITY_CLUSTER},
    {NULL, NULL, 0},
};
