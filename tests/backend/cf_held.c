/* cf_held.c: what happens while a run holds its job. */
#include "cf_support.h"

#include <stdlib.h>

/* The node that asks while another holds: another one where there can be one. */
static struct cf_node *asker(struct cf_world *world, struct cf_node *holder)
{
    return (world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0
               ? cf_open(world, "asker")
               : holder;
}

static void check_holder(const jobsched_claim *claim, const jobsched_claim *run,
                         const struct cf_node *holder, int64_t before_ms, int64_t after_ms)
{
    cf_equal(claim->holder_token, run->token);
    assert_string_equal(claim->holder, holder->name);
    cf_true(claim->holder_since_ms >= before_ms && claim->holder_since_ms <= after_ms);
    cf_true(claim->wait_ms >= 0);
    cf_equal(claim->token, 0);
}

/* G4: with WAIT nothing changes until the holder is done, and who it is is told. */
static void held_wait_changes_nothing(void **state)
{
    struct cf_node *holder = cf_open(*state, "holder"), *other = asker(*state, holder);
    struct cf_job job = cf_job(holder, "job", 4);
    int64_t before_ms = cf_now(holder);
    jobsched_claim run = cf_grant(holder, &job, 1);
    int64_t after_ms = cf_now(holder);
    for (int i = 0; i < 3; i++) {
        jobsched_claim claim = cf_at(&job, 2);
        cf_ask(other, &claim);
        cf_answer(claim, HELD);
        check_holder(&claim, &run, holder, before_ms, after_ms);
        cf_equal(claim.mark_ms, job.mark_ms + 1);
    }
    struct cf_row row;
    cf_equal(cf_rows(other, "job", &row, 1), 1);
    cf_equal(cf_finish(holder, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_true(cf_grant(other, &job, 2).token > run.token);
}

/* G4, G9: with SKIP the occurrence is recorded and passed over for good. */
static void held_skip_records_and_moves_on(void **state)
{
    struct cf_node *holder = cf_open(*state, "holder"), *other = asker(*state, holder);
    struct cf_job job = cf_job(holder, "job", 4);
    int64_t before_ms = cf_now(holder);
    jobsched_claim run = cf_grant(holder, &job, 1);
    int64_t after_ms = cf_now(holder);
    jobsched_claim claim = cf_at(&job, 2);
    claim.when_held = JOBSCHED_HELD_SKIP;
    cf_ask(other, &claim);
    cf_answer(claim, HELD);
    check_holder(&claim, &run, holder, before_ms, after_ms);
    cf_equal(claim.mark_ms, job.mark_ms + 2);
    struct cf_row rows[3];
    cf_equal(cf_rows(other, "job", rows, 3), 2);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 2);
    cf_equal(rows[0].record.count, 1);
    cf_equal(rows[0].record.started_at_ms, JOBSCHED_NONE);
    cf_equal(rows[0].record.token, 0);
    cf_equal(cf_finish(holder, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ask(other, &claim);
    cf_answer(claim, DONE);
    cf_equal(cf_rows(other, "job", rows, 3), 2);
    (void)cf_grant(other, &job, 3);
}

/* G4: overlap only where the job allows it, and then every run is a holder. */
static void held_allow_grants_beside(void **state)
{
    struct cf_node *holder = cf_open(*state, "holder"), *other = asker(*state, holder);
    struct cf_job job = cf_job(holder, "job", 5);
    jobsched_claim first = cf_grant(holder, &job, 1);
    jobsched_claim second = cf_at(&job, 2);
    second.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(other, &second);
    cf_answer(second, GRANTED);
    cf_true(second.token > first.token);
    jobsched_claim third = cf_at(&job, 3);
    cf_ask(other, &third);
    cf_answer(third, HELD);
    cf_equal(cf_renew(holder, "job", first.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_renew(other, "job", second.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(holder, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    cf_ask(holder, &third);
    cf_answer(third, HELD); /* the second one still goes on */
    cf_equal(third.holder_token, second.token);
    cf_equal(cf_finish(other, "job", second.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    cf_ask(holder, &third);
    cf_answer(third, GRANTED);
}

/* G4: a holder of one job holds no other one. */
static void held_is_per_job(void **state)
{
    struct cf_node *holder = cf_open(*state, "holder"), *other = asker(*state, holder);
    struct cf_job a = cf_job(holder, "job", 0), b = cf_job(holder, "job2", 2);
    (void)cf_grant(holder, &a, 1);
    (void)cf_grant(other, &b, 1);
}

/* G4: the rules of the mark come first: what is done is done, held or not. */
static void held_is_asked_last(void **state)
{
    struct cf_node *holder = cf_open(*state, "holder"), *other = asker(*state, holder);
    struct cf_job job = cf_job(holder, "job", 6);
    (void)cf_grant(holder, &job, 3);
    jobsched_claim claim = cf_at(&job, 2);
    cf_ask(other, &claim);
    cf_answer(claim, DONE);
    claim = cf_at(&job, 5);
    cf_ask(other, &claim);
    cf_answer(claim, MOVED);
    claim = cf_at(&job, 3600000);
    claim.after_ms = job.mark_ms + 3;
    cf_ask(other, &claim);
    cf_answer(claim, EARLY);
    claim = cf_at(&job, 4);
    claim.generation++;
    cf_ask(other, &claim);
    cf_answer(claim, STALE);
}

const struct cf_test cf_held_tests[] = {
    {"held_wait_changes_nothing", held_wait_changes_nothing, 0},
    {"held_skip_records_and_moves_on", held_skip_records_and_moves_on, 0},
    {"held_allow_grants_beside", held_allow_grants_beside, 0},
    {"held_is_per_job", held_is_per_job, 0},
    {"held_is_asked_last", held_is_asked_last, 0},
    {NULL, NULL, 0},
};
