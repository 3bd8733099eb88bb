/* cf_announce.c: which definition is in force, and that starting changes nothing. */
#include "cf_support.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY JOBSCHED_BATCH_MAX

/* G7: a new job starts at now, so it has missed nothing. */
static void announce_creates_with_mark_at_now(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    int64_t before_ms = cf_now(node);
    jobsched_announcement item = cf_announce(node, "job", "0 3 * * *", 7);
    int64_t after_ms = cf_now(node);
    cf_true(item.mark_ms >= before_ms && item.mark_ms <= after_ms);
    cf_true(item.generation > 0);
    cf_equal(item.in_force, 1);
    cf_equal(item.paused, 0);
    cf_equal(item.removed, 0);
    cf_equal(item.last_end_ms, JOBSCHED_NONE);
}

/* G7: the same announcement again, also much later, changes nothing. */
static void announce_again_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 5);
    for (int i = 0; i < 3; i++) {
        jobsched_announcement again = cf_announce(node, "job", "every 1 ms", 0);
        cf_equal(again.generation, job.generation);
        cf_equal(again.mark_ms, job.mark_ms);
        cf_equal(again.in_force, 1);
    }
    (void)cf_grant(node, &job, 3);
}

/* G7: another node's start disturbs neither runs nor pauses nor marks nor other jobs. */
static void announce_beside_others_changes_nothing(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "old");
    struct cf_job held = cf_job(node, "held", 0);
    struct cf_job paused = cf_job(node, "paused", 0);
    struct cf_job other = cf_job(node, "other", 5);
    jobsched_claim run = cf_grant(node, &held, 3);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "paused", NULL, NULL));
    for (int i = 0; i < 5; i++) {
        struct cf_node *fresh = node;
        if ((world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0) {
            fresh = cf_open(world, "new");
        }
        jobsched_announcement seen = cf_announce(fresh, "held", "every 1 ms", 0);
        cf_equal(seen.mark_ms, held.mark_ms + 3);
        cf_equal(seen.generation, held.generation);
        seen = cf_announce(fresh, "paused", "every 1 ms", 0);
        cf_equal(seen.paused, 1);
        cf_equal(seen.mark_ms, paused.mark_ms);
        if (fresh != node) {
            cf_close(world, fresh);
        }
    }
    cf_equal(cf_renew(node, "held", run.token), JOBSCHED_LEASE_KEPT);
    jobsched_claim next = cf_at(&held, 5);
    next.after_ms = held.mark_ms + 3;
    cf_ask(node, &next);
    cf_answer(next, HELD);
    cf_equal(cf_mark(node, &other), 0);
    cf_equal(cf_finish(node, "held", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* G14: one definition at a time; the largest version, and within it the latest text. */
static void announce_follows_the_version_rules(void **state)
{
    static const struct {
        uint64_t version;
        const char *definition;
        int in_force, generation_step;
        const char *why;
    } steps[] = {
        {0, "a", 1, 0, "the first is in force"},
        {0, "a", 1, 0, "the same again"},
        {0, "b", 1, 1, "another text of equal version wins"},
        {0, "a", 1, 1, "and back: a roll-back works the same way"},
        {3, "a", 1, 1, "a larger version wins, also with equal text"},
        {3, "a", 1, 0, "the same again"},
        {2, "z", 0, 0, "a smaller version stands down"},
        {0, "a", 0, 0, "unversioned is the smallest"},
        {3, "a ", 1, 1, "texts are compared byte by byte"},
        {UINT32_MAX, "c", 1, 1, "large versions"},
        {(uint64_t)INT64_MAX, "c", 1, 1, "the largest that every store can keep"},
        {3, "a", 0, 0, "the old one stays out"},
    };
    struct cf_node *node = cf_open(*state, "node");
    uint64_t generation = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        jobsched_announcement item =
            cf_announce(node, "job", steps[i].definition, steps[i].version);
        uint64_t expected =
            i == 0 ? item.generation : generation + (uint64_t)steps[i].generation_step;
        if (item.in_force != steps[i].in_force || item.generation != expected) {
            print_error("step %zu: %s\n", i, steps[i].why);
        }
        cf_equal(item.in_force, steps[i].in_force);
        cf_equal(item.generation, expected);
        generation = item.generation;
    }
}

/* G7: an edit never creates a past occurrence: the mark moves to now, and only forward. */
static void announce_of_an_edit_moves_the_mark_to_now(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 10);
    int64_t before_ms = cf_now(node);
    jobsched_announcement edited = cf_announce(node, "job", "another", 0);
    int64_t after_ms = cf_now(node);
    cf_true(edited.mark_ms >= before_ms && edited.mark_ms <= after_ms);
    cf_true(edited.mark_ms >= job.mark_ms + 10);
    jobsched_announcement older = cf_announce(node, "job", "every 1 ms", 0);
    cf_true(older.mark_ms >= edited.mark_ms);
}

/* G14: what was computed from the old definition is refused. */
static void announce_of_an_edit_makes_claims_stale(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 5);
    jobsched_announcement edited = cf_announce(node, "job", "another", 0);
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
    cf_equal(claim.mark_ms, edited.mark_ms);
    claim = cf_range(&job, 1, 3, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 0);
}

/* G14: with a smaller version the node learns what is in force, and may not claim by its own. */
static void announce_tells_the_loser_what_is_in_force(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    jobsched_announcement winner = cf_announce(node, "job", "new", 2);
    jobsched_announcement loser = cf_announce(node, "job", "old", 1);
    cf_equal(loser.in_force, 0);
    cf_equal(loser.generation, winner.generation);
    cf_equal(loser.mark_ms, winner.mark_ms);
}

/* G6: removal holds until a larger version says otherwise. */
static void announce_lifts_a_tombstone_by_larger_version_only(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    jobsched_announcement item = cf_announce(node, "job", "every 1 ms", 4);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    cf_equal(cf_announce(node, "job", "every 1 ms", 4).removed, 1);
    cf_equal(cf_announce(node, "job", "edited", 4).removed, 1);
    cf_equal(cf_announce(node, "job", "every 1 ms", 3).removed, 1);
    struct cf_job job = {"job", item.generation + 1, item.mark_ms};
    cf_wait_until(node, item.mark_ms + 3);
    jobsched_claim claim = cf_at(&job, 3);
    cf_ask(node, &claim);
    cf_answer(claim, REMOVED);
    jobsched_announcement revived = cf_announce(node, "job", "every 1 ms", 5);
    cf_equal(revived.removed, 0);
    cf_equal(revived.in_force, 1);
    job = (struct cf_job){"job", revived.generation, revived.mark_ms};
    cf_wait_until(node, revived.mark_ms + 1);
    (void)cf_grant(node, &job, 1);
}

/* G2, G7: coming back from removal neither lowers tokens nor lifts a pause. */
static void announce_revives_with_tokens_and_pause(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim before = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", before.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    jobsched_announcement revived = cf_announce(node, "job", "every 1 ms", 1);
    cf_equal(revived.removed, 0);
    cf_equal(revived.paused, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    job = (struct cf_job){"job", revived.generation, revived.mark_ms};
    cf_wait_until(node, revived.mark_ms + 1);
    cf_true(cf_grant(node, &job, 1).token > before.token);
}

/* Fixed delays need it: the end of the last run anywhere is told. */
static void announce_tells_when_the_last_run_ended(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_announce(node, "job", "every 1 ms", 0).last_end_ms, JOBSCHED_NONE);
    int64_t before_ms = cf_now(node);
    (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED);
    int64_t after_ms = cf_now(node);
    int64_t end_ms = cf_announce(node, "job", "every 1 ms", 0).last_end_ms;
    cf_true(end_ms >= before_ms && end_ms <= after_ms);
}

/* Items are treated in their order and each on its own, in the largest batch too. */
static void announce_takes_a_thousand_at_once(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    static char names[MANY][16];
    static jobsched_announcement items[MANY];
    for (int i = 0; i < MANY; i++) {
        /* The last one is announced twice, the second time with another text. */
        (void)snprintf(names[i], sizeof names[i], "job-%d", i < MANY - 1 ? i : i - 1);
        items[i] = (jobsched_announcement){.job = names[i],
                                           .definition = i < MANY - 1 ? "first" : "second"};
    }
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
    for (int i = 0; i < MANY; i++) {
        cf_equal(items[i].in_force, 1);
        cf_true(items[i].mark_ms > 0 && items[i].mark_ms <= call.now_ms);
    }
    cf_equal(items[MANY - 1].generation, items[MANY - 2].generation + 1);
    cf_equal(cf_announce(node, "job-0", "first", 0).mark_ms, items[0].mark_ms);
}

/* G14: only who replaces another text under the same explicit version is told of a conflict, and
 * only then: not who merely repeats it, nor where there are no versions. */
static void announce_tells_of_a_conflict_once(void **state)
{
    static const struct {
        uint64_t version;
        const char *definition;
        int conflict;
    } steps[] = {{0, "a", 0}, {0, "b", 0}, {1, "a", 0}, {1, "a", 0}, {1, "b", 1},
                 {1, "b", 0}, {1, "a", 1}, {2, "b", 0}, {1, "c", 0}, {2, "a", 1}};
    struct cf_node *node = cf_open(*state, "node");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        jobsched_announcement item = {.job = "job",
                                      .definition = steps[i].definition,
                                      .version = steps[i].version,
                                      .conflict = 77};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->announce(node->backend, &call, &item, 1));
        cf_equal(item.conflict, steps[i].conflict);
    }
}

const struct cf_test cf_announce_tests[] = {
    {"announce_creates_with_mark_at_now", announce_creates_with_mark_at_now, 0},
    {"announce_again_changes_nothing", announce_again_changes_nothing, 0},
    {"announce_beside_others_changes_nothing", announce_beside_others_changes_nothing, 0},
    {"announce_follows_the_version_rules", announce_follows_the_version_rules, 0},
    {"announce_of_an_edit_moves_the_mark_to_now", announce_of_an_edit_moves_the_mark_to_now, 0},
    {"announce_of_an_edit_makes_claims_stale", announce_of_an_edit_makes_claims_stale, 0},
    {"announce_tells_the_loser_what_is_in_force", announce_tells_the_loser_what_is_in_force, 0},
    {"announce_lifts_a_tombstone_by_larger_version_only",
     announce_lifts_a_tombstone_by_larger_version_only, 0},
    {"announce_revives_with_tokens_and_pause", announce_revives_with_tokens_and_pause, 0},
    {"announce_tells_when_the_last_run_ended", announce_tells_when_the_last_run_ended, 0},
    {"announce_tells_of_a_conflict_once", announce_tells_of_a_conflict_once, 0},
    {"announce_takes_a_thousand_at_once", announce_takes_a_thousand_at_once, 0},
    {NULL, NULL, 0},
};
