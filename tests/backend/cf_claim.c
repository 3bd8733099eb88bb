/* cf_claim.c: the election: one grant per occurrence, and every refusal. */
#include "cf_support.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY JOBSCHED_BATCH_MAX

/* G1: once granted, an occurrence is done, also after its run has ended. */
static void claim_grants_an_occurrence_once(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 5);
    jobsched_claim first = cf_grant(node, &job, 3);
    cf_true(first.token > 0);
    cf_equal(first.attempt, 1);
    cf_equal(first.granted_ms, job.mark_ms + 3);
    cf_equal(first.mark_ms, job.mark_ms + 3);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    for (int64_t k = 1; k <= 3; k++) {
        jobsched_claim again = cf_at(&job, k);
        again.kind = k == 2 ? JOBSCHED_KIND_CATCH_UP : JOBSCHED_KIND_SCHEDULED;
        cf_ask(node, &again);
        cf_answer(again, DONE);
        cf_equal(again.mark_ms, job.mark_ms + 3);
    }
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
}

/* G1: of two nodes that ask for the same occurrence one wins, whoever is first. */
static void claim_grants_one_of_two_nodes(void **state)
{
    struct cf_node *nodes[2] = {cf_open(*state, "a"), cf_open(*state, "b")};
    struct cf_job job = cf_job(nodes[0], "job", 20);
    struct cf_job same = cf_job(nodes[1], "job", 0);
    cf_equal(same.mark_ms, job.mark_ms);
    cf_equal(same.generation, job.generation);
    for (int64_t k = 1; k <= 20; k++) {
        struct cf_node *winner = nodes[k % 2], *loser = nodes[1 - k % 2];
        jobsched_claim won = cf_grant(winner, &job, k);
        jobsched_claim lost = cf_at(&job, k);
        cf_ask(loser, &lost);
        cf_answer(lost, DONE);
        cf_equal(lost.mark_ms, job.mark_ms + k);
        cf_equal(cf_finish(winner, "job", won.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        cf_ask(loser, &lost);
        cf_answer(lost, DONE); /* also when the run was short: no lock named after the job */
    }
}

/* G2: tokens strictly grow, on whichever node. */
static void claim_gives_growing_tokens(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *nodes[2] = {cf_open(world, "a"), NULL};
    int cluster = (world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0;
    nodes[1] = cluster ? cf_open(world, "b") : nodes[0];
    struct cf_job job = cf_job(nodes[0], "job", 12);
    uint64_t last = 0;
    for (int64_t k = 1; k <= 12; k++) {
        jobsched_claim claim = cf_grant(nodes[k % 2], &job, k);
        cf_true(claim.token > last);
        last = claim.token;
        int outcome = k % 3 == 0 ? JOBSCHED_OUTCOME_FAILED : JOBSCHED_OUTCOME_SUCCEEDED;
        cf_equal(cf_finish(nodes[k % 2], "job", last, outcome), JOBSCHED_LEASE_KEPT);
    }
}

/* G1: a claim that was computed from another mark moves nothing, so none is forgotten. */
static void claim_from_another_mark_is_moved(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 6);
    jobsched_claim claim = cf_at(&job, 5); /* computed from mark + 4, which it is not */
    cf_ask(node, &claim);
    cf_answer(claim, MOVED);
    cf_equal(claim.mark_ms, job.mark_ms);
    claim = cf_range(&job, 3, 5, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(node, &claim);
    cf_answer(claim, MOVED);
    cf_equal(cf_mark(node, &job), 0);
    claim = cf_at(&job, 5);
    claim.after_ms = job.mark_ms; /* the occurrences need not be dense */
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(claim.mark_ms, job.mark_ms + 5);
}

/* G3: due is judged by the backend's clock, and how long to wait is told. */
static void claim_before_its_time_is_early(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    jobsched_claim claims[] = {cf_at(&job, 3600000),
                               cf_range(&job, 1, 3600000, JOBSCHED_OUTCOME_SKIPPED_MISFIRE)};
    for (size_t i = 0; i < 2; i++) {
        claims[i].after_ms = job.mark_ms;
        int64_t before_ms = cf_now(node);
        cf_ask(node, &claims[i]);
        int64_t after_ms = cf_now(node);
        cf_answer(claims[i], EARLY);
        cf_true(claims[i].wait_ms <= claims[i].scheduled_ms - before_ms);
        cf_true(claims[i].wait_ms >= claims[i].scheduled_ms - after_ms);
        cf_equal(claims[i].mark_ms, job.mark_ms);
    }
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 0);
}

/* G3: a node whose clock is 90 s fast fires nothing early, and a slow one nothing late. */
static void claim_ignores_the_node_s_own_clock(void **state)
{
    struct cf_node *right = cf_open(*state, "right");
    struct cf_node *fast = cf_open(*state, "fast");
    struct cf_node *slow = cf_open(*state, "slow");
    atomic_store(&fast->clock.wall_offset_ms, 90000);
    atomic_store(&slow->clock.wall_offset_ms, -90000);
    int64_t before_ms = cf_now(right);
    int64_t fast_ms = cf_now(fast), slow_ms = cf_now(slow);
    int64_t after_ms = cf_now(right);
    cf_true(fast_ms >= before_ms && fast_ms <= after_ms);
    cf_true(slow_ms >= before_ms && slow_ms <= after_ms);
    struct cf_job job = cf_job(right, "job", 3);
    jobsched_claim early = cf_at(&job, 60000);
    early.after_ms = job.mark_ms;
    cf_ask(fast, &early);
    cf_answer(early, EARLY);
    (void)cf_grant(slow, &job, 3);
}

/* G8: a backend that does not know the job says so and grants nothing. */
static void claim_of_an_unknown_job_is_unknown(void **state)
{
    static const int kinds[] = {JOBSCHED_KIND_SCHEDULED, JOBSCHED_KIND_CATCH_UP,
                                JOBSCHED_KIND_TRIGGER, JOBSCHED_KIND_RERUN, JOBSCHED_CLAIM_SKIP};
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job known = cf_job(node, "job", 2);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        jobsched_claim claim = cf_range(&known, 1, 1, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        claim.job = "jo";
        claim.kind = kinds[i];
        claim.request = kinds[i] == JOBSCHED_KIND_TRIGGER ? "request" : NULL;
        cf_ask(node, &claim);
        cf_answer(claim, UNKNOWN);
    }
    cf_equal(cf_mark(node, &known), 0);
}

/* G9: a range that is skipped is accounted for at once, counted, and never granted. */
static void claim_skips_a_counted_range(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 8);
    jobsched_claim skip = cf_range(&job, 2, 6, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    skip.after_ms = job.mark_ms;
    skip.skip_count = 3; /* of a schedule that is due at 2, 4 and 6 */
    cf_ask(node, &skip);
    cf_answer(skip, GRANTED);
    cf_equal(skip.token, 0);
    cf_equal(skip.mark_ms, job.mark_ms + 6);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_equal(row.record.scheduled_at_ms, job.mark_ms + 2);
    cf_equal(row.record.last_at_ms, job.mark_ms + 6);
    cf_equal(row.record.count, 3);
    cf_equal(row.record.token, 0);
    cf_equal(row.record.started_at_ms, JOBSCHED_NONE);
    cf_true(row.record.finished_at_ms != JOBSCHED_NONE);
    cf_equal(row.record.node[0], '\0');
    jobsched_claim again = skip;
    cf_ask(node, &again);
    cf_answer(again, DONE); /* a lost answer, asked again: no second row */
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    (void)cf_grant(node, &job, 7);
}

/* A skipped range does not run, so it neither waits for a holder nor becomes one. */
static void claim_skips_beside_a_holder(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_grant(node, &job, 1);
    jobsched_claim skip = cf_range(&job, 2, 3, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    cf_ask(node, &skip);
    cf_answer(skip, GRANTED);
    struct cf_row row;
    cf_equal(cf_newest(node, "job", &row)->record.outcome, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    (void)cf_grant(node, &job, 4);
}

/* G6, G9: paused occurrences are counted in one row that grows, and are never granted. */
static void claim_while_paused_counts_a_range(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 9);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    for (int64_t k = 2; k <= 6; k += 2) {
        jobsched_claim claim = cf_at(&job, k);
        claim.after_ms = job.mark_ms + k - 2;
        cf_ask(node, &claim);
        cf_answer(claim, PAUSED);
        cf_equal(claim.mark_ms, job.mark_ms + k);
        cf_ask(node, &claim);
        cf_answer(claim, DONE);
    }
    struct cf_row rows[4];
    cf_equal(cf_rows(node, "job", rows, 4), 1);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_PAUSED);
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 2);
    cf_equal(rows[0].record.last_at_ms, job.mark_ms + 6);
    cf_equal(rows[0].record.count, 3);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    jobsched_claim replay = cf_at(&job, 4);
    cf_ask(node, &replay);
    cf_answer(replay, DONE); /* resume replays nothing */
    jobsched_claim run = cf_grant(node, &job, 7);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    jobsched_claim later = cf_at(&job, 8);
    cf_ask(node, &later);
    cf_answer(later, PAUSED);
    cf_equal(cf_rows(node, "job", rows, 4), 3); /* not directly preceding: a range of its own */
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 8);
    cf_equal(rows[0].record.count, 1);
}

/* G6: a paused job is refused before its holder is looked at. */
static void claim_while_paused_and_held_is_paused(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    jobsched_claim claim = cf_at(&job, 2);
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G8: an answer that got lost is asked for again: same token, and no second row. */
static void claim_again_after_a_lost_answer(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim first = cf_grant(node, &job, 2);
    for (int i = 0; i < 3; i++) {
        jobsched_claim again = cf_grant(node, &job, 2);
        cf_equal(again.token, first.token);
        cf_equal(again.attempt, 1);
        cf_equal(again.granted_ms, first.granted_ms);
        cf_equal(again.mark_ms, first.mark_ms);
    }
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    cf_equal(row.record.attempt, 1);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    jobsched_claim late = cf_at(&job, 2);
    cf_ask(node, &late);
    cf_answer(late, DONE);
    cf_true(cf_grant(node, &job, 3).token > first.token);
}

/* G8: that holds even if the job was paused, edited or removed in between: the run exists. */
static void claim_again_comes_before_other_rules(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim first = cf_grant(node, &job, 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_equal(cf_grant(node, &job, 2).token, first.token);
    (void)cf_announce(node, "job", "edited", 0);
    cf_equal(cf_grant(node, &job, 2).token, first.token);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    cf_equal(cf_grant(node, &job, 2).token, first.token);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* G1: another node's repetition is no repetition. */
static void claim_again_by_another_node_is_done(void **state)
{
    struct cf_node *a = cf_open(*state, "same name"), *b = cf_open(*state, "same name");
    struct cf_job job = cf_job(a, "job", 4);
    jobsched_claim first = cf_grant(a, &job, 2);
    for (int held = JOBSCHED_HELD_SKIP; held <= JOBSCHED_HELD_ALLOW; held++) {
        jobsched_claim other = cf_at(&job, 2);
        other.when_held = held;
        cf_ask(b, &other);
        cf_answer(other, DONE);
    }
    cf_equal(cf_renew(b, "job", first.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_renew(a, "job", first.token), JOBSCHED_LEASE_KEPT);
}

/* Items are treated in their order, and a refusal changes nothing for the others. */
static void claim_treats_items_in_order_and_apart(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 6);
    struct cf_job unknown = {"nobody", 1, a.mark_ms};
    jobsched_claim items[] = {
        cf_at(&a, 1), cf_at(&unknown, 1),
        cf_at(&a, 2), cf_at(&b, 3600000),
        cf_at(&b, 1), cf_range(&a, 3, 4, JOBSCHED_OUTCOME_SKIPPED_MISFIRE),
        cf_at(&a, 5), cf_at(&b, 4),
        cf_at(&a, 2),
    };
    static const int expected[] = {
        JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_UNKNOWN, JOBSCHED_ANSWER_GRANTED,
        JOBSCHED_ANSWER_STALE,   JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_GRANTED,
        JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_MOVED,   JOBSCHED_ANSWER_GRANTED,
    };
    enum { COUNT = sizeof items / sizeof items[0] };
    for (int i = 0; i < COUNT; i++) {
        items[i].when_held = JOBSCHED_HELD_ALLOW;
        items[i].answer = 77; /* leftovers of an earlier call must not survive */
        items[i].token = 99;
    }
    items[3].generation += 5;
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->claim(node->backend, &call, items, COUNT));
    for (int i = 0; i < COUNT; i++) {
        if (items[i].answer != expected[i]) {
            print_error("item %d\n", i);
        }
        cf_answer_at(items[i].answer, expected[i], __FILE__, __LINE__);
    }
    cf_true(items[0].token < items[2].token && items[2].token < items[6].token);
    cf_equal(items[8].token, items[2].token); /* asked for twice in one batch */
    cf_equal(items[6].mark_ms, a.mark_ms + 5);
    cf_equal(items[7].mark_ms, b.mark_ms + 1);
}

/* G11: a node is granted no more runs than it can take now; the rest is neither granted nor
 * lost, and whatever needs no room is answered all the same. */
static void claim_grants_no_more_than_fit(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 0), c = cf_job(node, "c", 6);
    jobsched_claim running = cf_grant(node, &a, 1);
    jobsched_claim items[] = {
        cf_range(&b, 1, 2, JOBSCHED_OUTCOME_SKIPPED_MISFIRE), /* runs nothing */
        cf_at(&a, 1),                                         /* goes on already, and counts */
        cf_at(&b, 3),
        cf_at(&b, 4), /* its holder is told of before the room */
        cf_at(&c, 1), /* the first for which there is no room */
        cf_range(&c, 1, 2, JOBSCHED_OUTCOME_SKIPPED_MISFIRE),
        cf_at(&c, 2),
        cf_at(&c, 3),
    };
    static const int expected[] = {
        JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_GRANTED,
        JOBSCHED_ANSWER_HELD,    JOBSCHED_ANSWER_FULL,    JOBSCHED_ANSWER_GRANTED,
        JOBSCHED_ANSWER_DONE,    JOBSCHED_ANSWER_FULL,
    };
    enum { COUNT = sizeof items / sizeof items[0] };
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    call.grants_max = 2;
    cf_ok(node->driver->claim(node->backend, &call, items, COUNT));
    for (int i = 0; i < COUNT; i++) {
        if (items[i].answer != expected[i]) {
            print_error("item %d\n", i);
        }
        cf_answer_at(items[i].answer, expected[i], __FILE__, __LINE__);
    }
    cf_equal(items[1].token, running.token);
    cf_equal(items[4].token, 0);
    cf_equal(items[4].mark_ms, c.mark_ms);
    cf_equal(items[7].mark_ms, c.mark_ms + 2);
    struct cf_row rows[2];
    cf_equal(cf_rows(node, "c", rows, 2), 1); /* of what had no room there is no row */
    cf_true(cf_grant(node, &c, 3).token > 0); /* 0 sets no bound */
    call = cf_call(JOBSCHED_LANE_CLAIM);
    call.grants_max = 1;
    jobsched_claim again = cf_at(&a, 1);
    cf_ok(node->driver->claim(node->backend, &call, &again, 1));
    cf_answer(again, GRANTED);
}

/* The largest batch: every one granted once, and once only. */
static void claim_takes_a_thousand_at_once(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    static char names[MANY][16];
    static jobsched_announcement jobs[MANY];
    static jobsched_claim claims[MANY];
    static jobsched_finish finishes[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        jobs[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, jobs, MANY));
    cf_wait_until(node, call.now_ms + 1);
    for (int i = 0; i < MANY; i++) {
        struct cf_job job = {names[i], jobs[i].generation, jobs[i].mark_ms};
        claims[i] = cf_at(&job, 1);
    }
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->claim(node->backend, &call, claims, MANY));
    for (int i = 0; i < MANY; i++) {
        cf_answer(claims[i], GRANTED);
        finishes[i] = (jobsched_finish){.job = names[i],
                                        .note = "",
                                        .token = claims[i].token,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    }
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->finish(node->backend, &call, finishes, MANY));
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->claim(node->backend, &call, claims, MANY));
    for (int i = 0; i < MANY; i++) {
        cf_equal(finishes[i].answer, JOBSCHED_LEASE_KEPT);
        cf_answer(claims[i], DONE);
    }
}

const struct cf_test cf_claim_tests[] = {
    {"claim_grants_an_occurrence_once", claim_grants_an_occurrence_once, 0},
    {"claim_grants_one_of_two_nodes", claim_grants_one_of_two_nodes, JOBSCHED_CAPABILITY_CLUSTER},
    {"claim_gives_growing_tokens", claim_gives_growing_tokens, 0},
    {"claim_from_another_mark_is_moved", claim_from_another_mark_is_moved, 0},
    {"claim_before_its_time_is_early", claim_before_its_time_is_early, 0},
    {"claim_ignores_the_node_s_own_clock", claim_ignores_the_node_s_own_clock,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"claim_of_an_unknown_job_is_unknown", claim_of_an_unknown_job_is_unknown, 0},
    {"claim_skips_a_counted_range", claim_skips_a_counted_range, 0},
    {"claim_skips_beside_a_holder", claim_skips_beside_a_holder, 0},
    {"claim_while_paused_counts_a_range", claim_while_paused_counts_a_range, 0},
    {"claim_while_paused_and_held_is_paused", claim_while_paused_and_held_is_paused, 0},
    {"claim_again_after_a_lost_answer", claim_again_after_a_lost_answer, 0},
    {"claim_again_comes_before_other_rules", claim_again_comes_before_other_rules, 0},
    {"claim_again_by_another_node_is_done", claim_again_by_another_node_is_done,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"claim_treats_items_in_order_and_apart", claim_treats_items_in_order_and_apart, 0},
    {"claim_grants_no_more_than_fit", claim_grants_no_more_than_fit, 0},
    {"claim_takes_a_thousand_at_once", claim_takes_a_thousand_at_once, 0},
    {NULL, NULL, 0},
};
