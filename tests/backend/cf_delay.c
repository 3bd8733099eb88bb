/* cf_delay.c: fixed delays, which count from the end of the last run wherever it was. */
#include "cf_support.h"

#include <stdlib.h>

static jobsched_claim delayed(const struct cf_job *job, int64_t k, int64_t after, int64_t delay_ms)
{
    jobsched_claim claim = cf_at(job, k);
    claim.after_ms = job->mark_ms + after;
    claim.delay_ms = delay_ms;
    return claim;
}

/* G1: before any run the delay counts from the mark, and what comes sooner is moved. */
static void delay_counts_from_the_mark_at_first(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 12);
    jobsched_claim claim = delayed(&job, 9, 0, 10);
    cf_ask(node, &claim);
    cf_answer(claim, MOVED);
    cf_equal(claim.last_end_ms, JOBSCHED_NONE);
    cf_equal(claim.mark_ms, job.mark_ms);
    jobsched_claim skip = cf_range(&job, 1, 9, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    skip.delay_ms = 10;
    cf_ask(node, &skip);
    cf_answer(skip, MOVED);
    claim = delayed(&job, 10, 0, 10);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
}

/* G4: there is no next occurrence while a run goes on, so none can be skipped either. */
static void delay_changes_nothing_while_held(void **state)
{
    static const int modes[] = {JOBSCHED_HELD_SKIP, JOBSCHED_HELD_WAIT, JOBSCHED_HELD_ALLOW};
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = node;
    if ((world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0) {
        other = cf_open(world, "other");
    }
    struct cf_job job = cf_job(node, "job", 9);
    jobsched_claim run = delayed(&job, 2, 0, 2);
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    for (size_t i = 0; i < 3; i++) {
        jobsched_claim next = delayed(&job, 8, 2, 2);
        next.when_held = modes[i];
        cf_ask(other, &next);
        cf_answer(next, HELD);
        cf_equal(next.holder_token, run.token);
        assert_string_equal(next.holder, "node");
        cf_equal(next.mark_ms, job.mark_ms + 2);
    }
    jobsched_claim skip = cf_range(&job, 4, 8, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    skip.after_ms = job.mark_ms + 2;
    skip.delay_ms = 2;
    cf_ask(other, &skip);
    cf_answer(skip, HELD);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
}

/* G1: the end of the last run is what counts, not when this node thinks that it ended. */
static void delay_counts_from_the_last_end(void **state)
{
    enum { DELAY = 5 };
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = node;
    if ((world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0) {
        other = cf_open(world, "other");
    }
    struct cf_job job = cf_job(node, "job", DELAY);
    jobsched_claim run = delayed(&job, DELAY, 0, DELAY);
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_wait_until(node, job.mark_ms + 3 * DELAY);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    int64_t end_ms = cf_announce(node, "job", "every 1 ms", 0).last_end_ms;
    cf_true(end_ms >= job.mark_ms + 3 * DELAY);
    cf_wait_until(node, end_ms + 2 * DELAY);
    int64_t end = end_ms - job.mark_ms;
    jobsched_claim soon = delayed(&job, 2 * DELAY, DELAY, DELAY); /* from the mark: too soon */
    cf_ask(other, &soon);
    cf_answer(soon, MOVED);
    cf_equal(soon.last_end_ms, end_ms);
    cf_equal(soon.mark_ms, job.mark_ms + DELAY);
    jobsched_claim next = delayed(&job, end + DELAY - 1, DELAY, DELAY);
    cf_ask(other, &next);
    cf_answer(next, MOVED);
    next = delayed(&job, end + 3600000, DELAY, DELAY);
    cf_ask(other, &next);
    cf_answer(next, EARLY);
    next = delayed(&job, end + DELAY, DELAY, DELAY);
    cf_ask(other, &next);
    cf_answer(next, GRANTED);
    cf_equal(next.last_end_ms, end_ms);
    cf_true(next.token > run.token);
}

/* Every answer but UNKNOWN tells when the last run ended, whatever ended it. */
static void delay_tells_the_last_end(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 6);
    jobsched_claim first = cf_grant(node, &job, 1);
    cf_equal(first.last_end_ms, JOBSCHED_NONE);
    int64_t before_ms = cf_now(node);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_INTERRUPTED),
             JOBSCHED_LEASE_KEPT);
    int64_t after_ms = cf_now(node);
    jobsched_claim claims[] = {cf_at(&job, 1), cf_at(&job, 4), cf_at(&job, 2), cf_at(&job, 3)};
    claims[2].generation++;
    claims[3].after_ms = job.mark_ms + 1;
    static const int expected[] = {JOBSCHED_ANSWER_DONE, JOBSCHED_ANSWER_MOVED,
                                   JOBSCHED_ANSWER_STALE, JOBSCHED_ANSWER_GRANTED};
    for (size_t i = 0; i < 4; i++) {
        cf_ask(node, &claims[i]);
        cf_answer_at(claims[i].answer, expected[i], __FILE__, __LINE__);
        cf_true(claims[i].last_end_ms >= before_ms && claims[i].last_end_ms <= after_ms);
    }
}

const struct cf_test cf_delay_tests[] = {
    {"delay_counts_from_the_mark_at_first", delay_counts_from_the_mark_at_first, 0},
    {"delay_changes_nothing_while_held", delay_changes_nothing_while_held, 0},
    {"delay_counts_from_the_last_end", delay_counts_from_the_last_end, 0},
    {"delay_tells_the_last_end", delay_tells_the_last_end, 0},
    {NULL, NULL, 0},
};
