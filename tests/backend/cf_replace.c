/* cf_replace.c: announcements that ask before they replace another definition, and replace it only if
 * nothing came between. So what the other one has due is never forgotten (G9, G14). */
#include "cf_support.h"

#include <pthread.h>
#include <stdio.h>

#define MANY   JOBSCHED_BATCH_MAX
#define ROUNDS 60

static const char old_text[] = "every 1 ms"; /* what cf_job() announces */

static int announce_once(struct cf_node *node, jobsched_announcement *item)
{
    item->pending = 77;
    item->in_force = 77;
    item->conflict = 77;
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    return node->driver->announce(node->backend, &call, item, 1);
}

static jobsched_announcement announce(struct cf_node *node, jobsched_announcement item)
{
    cf_ok(announce_once(node, &item));
    cf_true(item.pending == 0 || item.pending == 1);
    cf_true(!item.pending || !item.in_force);
    return item;
}

static jobsched_announcement ask(struct cf_node *node, const char *text, uint64_t version)
{
    return announce(node, (jobsched_announcement){.job = "job",
                                                  .definition = text,
                                                  .version = version,
                                                  .replace = JOBSCHED_REPLACE_ASK});
}

/* On condition that what was answered is still so, and without a bound in time. */
static jobsched_announcement if_still(const jobsched_announcement *seen)
{
    jobsched_announcement item = *seen;
    item.replace = JOBSCHED_REPLACE_IF;
    item.replaces = seen->generation;
    item.after_ms = seen->mark_ms;
    item.before_ms = JOBSCHED_NONE;
    return item;
}

#define check_pending(item, job, mark) check_pending_at((item), (job), (mark), __FILE__, __LINE__)
static void check_pending_at(jobsched_announcement item, const struct cf_job *job, int64_t mark,
                             const char *file, int line)
{
    cf_equal_at(item.pending, 1, "pending", "1", file, line);
    cf_equal_at(item.in_force, 0, "in_force", "0", file, line);
    cf_equal_at(item.conflict, 0, "conflict", "0", file, line);
    cf_equal_at((int64_t)item.generation, (int64_t)job->generation, "generation", "that in force",
                file, line);
    cf_equal_at(item.mark_ms, job->mark_ms + mark, "mark", "that in force", file, line);
}

#define check_in_force(item, expected)                                                             \
    check_in_force_at((item), (int64_t)(expected), __FILE__, __LINE__)
static void check_in_force_at(jobsched_announcement item, int64_t generation, const char *file,
                              int line)
{
    cf_equal_at(item.pending, 0, "pending", "0", file, line);
    cf_equal_at(item.in_force, 1, "in_force", "1", file, line);
    cf_equal_at((int64_t)item.generation, generation, "generation", "expected", file, line);
}

/* Another node where there can be one. */
static struct cf_node *open_other(struct cf_world *world, struct cf_node *node)
{
    bool cluster = (world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0;
    return cluster ? cf_open(world, "new") : node;
}

/* ---- asking ---------------------------------------------------------------- */

struct listed {
    char definition[JOBSCHED_DEFINITION_BYTES + 1];
    uint64_t nodes, dissent, generation;
};

static int take_job(const jobsched_job_record *record, void *data)
{
    struct listed *listed = data;
    (void)snprintf(listed->definition, sizeof listed->definition, "%s", record->definition);
    listed->nodes = record->nodes;
    listed->dissent = record->dissent;
    listed->generation = record->generation;
    return 0;
}

/* G14: who asks changes nothing, neither for claims nor in what is told, and is told all about what
 * is in force. That it registers the job, with another definition, is noted. */
static void replace_that_asks_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "old");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    struct cf_node *other = open_other(*state, node);
    for (uint64_t version = 0; version < 2; version++) {
        for (int i = 0; i < 3; i++) {
            jobsched_announcement item = ask(other, "another", version);
            check_pending(item, &job, 1);
            cf_equal(item.paused, 0);
            cf_equal(item.removed, 0);
            cf_true(item.last_end_ms != JOBSCHED_NONE);
        }
    }
    check_pending(ask(other, old_text, 1), &job, 1); /* a larger version of the same text, too */
    if (node->driver->jobs != NULL) {
        struct listed listed;
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        cf_ok(node->driver->jobs(node->backend, &call, "job", take_job, &listed));
        assert_string_equal(listed.definition, old_text);
        cf_equal(listed.generation, job.generation);
        cf_equal(listed.nodes, other == node ? 1 : 2);
        cf_equal(listed.dissent, 1);
    }
    (void)cf_grant(node, &job, 2);
    jobsched_announcement again = cf_announce(node, "job", old_text, 0);
    check_in_force(again, job.generation);
    cf_equal(again.mark_ms, job.mark_ms + 2);
}

/* G14: where nothing would be replaced the answer is the usual one, and never pending. */
static void replace_asks_only_where_something_is_replaced(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    static const int32_t ways[] = {JOBSCHED_REPLACE_ASK, JOBSCHED_REPLACE_IF};
    for (int i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "job-%d", i);
        jobsched_announcement item = {
            .job = name, .definition = "a", .version = 2, .replace = ways[i]};
        jobsched_announcement first = announce(node, item);
        check_in_force(first, first.generation); /* a new job */
        jobsched_announcement again = announce(node, item);
        check_in_force(again, first.generation); /* the same again */
        cf_equal(again.mark_ms, first.mark_ms);
        item.version = 1;
        jobsched_announcement smaller = announce(node, item);
        cf_equal(smaller.pending, 0);
        cf_equal(smaller.in_force, 0);
        cf_equal(smaller.generation, first.generation);
        cf_equal(smaller.mark_ms, first.mark_ms);
    }
}

/* G6: a removed job has nothing due, so who asks replaces it, and lifts the tombstone by a larger
 * version only. */
static void replace_of_a_removed_job_is_immediate(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    jobsched_announcement first = cf_announce(node, "job", "a", 4);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    jobsched_announcement item = ask(node, "b", 4);
    check_in_force(item, first.generation + 1);
    cf_equal(item.removed, 1);
    item = announce(node, (jobsched_announcement){.job = "job", .definition = "c", .version = 4});
    check_in_force(item, first.generation + 2);
    cf_equal(item.removed, 1);
    item = ask(node, "c", 5);
    check_in_force(item, first.generation + 3);
    cf_equal(item.removed, 0);
    struct cf_job job = {"job", item.generation, item.mark_ms};
    check_pending(ask(node, "d", 6), &job, 0); /* it is back, so it has occurrences again */
}

/* G6: a removal that comes after a node has asked is not undone by what that one asked for, though all
 * that it names is still so. Who asks after the removal undoes it. */
static void replace_undoes_no_later_removal(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    for (uint64_t version = 0; version < 2; version++) {
        jobsched_announcement seen = ask(node, "another", version);
        check_pending(seen, &job, 0);
        cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
        for (int i = 0; i < 2; i++) {
            jobsched_announcement item = announce(node, if_still(&seen));
            check_pending(item, &job, 0);
            cf_equal(item.removed, 1);
        }
        jobsched_claim claim = cf_at(&job, 0);
        cf_ask(node, &claim);
        cf_answer(claim, REMOVED);
        jobsched_announcement revived = ask(node, old_text, version + 1);
        check_in_force(revived, job.generation + 1);
        cf_equal(revived.removed, 0);
        job = (struct cf_job){"job", revived.generation, revived.mark_ms};
    }
}

/* G7: a pause is told to who asks, and outlasts the replacement. */
static void replace_keeps_a_pause(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    jobsched_announcement item = ask(node, "another", 1);
    check_pending(item, &job, 0);
    cf_equal(item.paused, 1);
    item = announce(node, if_still(&item));
    check_in_force(item, job.generation + 1);
    cf_equal(item.paused, 1);
}

/* ---- on condition ---------------------------------------------------------- */

/* G14: if nothing came between, the definition is replaced as ever: another generation, and the mark
 * at now. The repetition after a lost answer changes nothing (G8). */
static void replace_if_nothing_came_between(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 5);
    jobsched_announcement seen = ask(node, "another", 0);
    int64_t before_ms = cf_now(node);
    jobsched_announcement item = if_still(&seen);
    item.before_ms = before_ms + 3600000;
    jobsched_announcement taken = announce(node, item);
    int64_t after_ms = cf_now(node);
    check_in_force(taken, job.generation + 1);
    cf_true(taken.mark_ms >= before_ms && taken.mark_ms <= after_ms);
    for (int i = 0; i < 3; i++) {
        jobsched_announcement again = announce(node, item);
        check_in_force(again, taken.generation);
        cf_equal(again.mark_ms, taken.mark_ms);
    }
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
    /* Without an occurrence there is no bound. */
    struct cf_job now = {"job", taken.generation, taken.mark_ms};
    seen = ask(node, "third", 1);
    check_pending(seen, &now, 0);
    check_in_force(announce(node, if_still(&seen)), taken.generation + 1);
}

/* G9, G14: each of the conditions counts. */
static void replace_is_pending_if_a_condition_fails(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 5);
    jobsched_announcement seen = ask(node, "another", 0);
    const jobsched_announcement good = if_still(&seen);
    jobsched_announcement bad[] = {good, good, good, good, good, good, good};
    bad[0].replaces = good.replaces - 1;
    bad[1].replaces = good.replaces + 1;
    bad[2].after_ms = good.after_ms - 1;
    bad[3].after_ms = good.after_ms + 1;
    bad[4].before_ms = good.after_ms + 1; /* an occurrence that is due */
    bad[5].before_ms = 0;
    bad[6].after_ms = JOBSCHED_NONE;
    for (uint64_t version = 0; version < 2; version++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            bad[i].version = version;
            check_pending(announce(node, bad[i]), &job, 0);
        }
    }
    check_in_force(announce(node, good), job.generation + 1);
}

enum { BOUNDS = 50 }; /* few enough for one atomic step of any backend */

/* G9: an occurrence is due at its very instant, so from then on it has to be settled first. Many jobs in
 * one call, each with a bound of its own, so that one of these is the call's very instant. */
static void replace_is_pending_at_the_very_instant(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    int64_t took_ms = 0;
    bool equal = false, earlier = false;
    for (unsigned round = 0; !equal || !earlier; round++) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        static char jobs[BOUNDS][16], text[16];
        jobsched_announcement some[BOUNDS];
        (void)snprintf(text, sizeof text, "text %u", round);
        for (int i = 0; i < BOUNDS; i++) {
            (void)snprintf(jobs[i], sizeof jobs[i], "job-%d", i);
            some[i] = (jobsched_announcement){
                .job = jobs[i], .definition = text, .replace = JOBSCHED_REPLACE_ASK};
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->announce(node->backend, &call, some, BOUNDS));
        int64_t begun_ms = call.now_ms;
        for (int i = 0; i < BOUNDS; i++) {
            cf_equal(some[i].pending, round > 0); /* at first they are new */
            some[i] = if_still(&some[i]);
            some[i].before_ms = begun_ms + took_ms + i - BOUNDS / 2;
        }
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->announce(node->backend, &call, some, BOUNDS));
        for (int i = 0; round > 0 && i < BOUNDS; i++) {
            cf_equal(some[i].pending, call.now_ms >= some[i].before_ms);
            equal |= call.now_ms == some[i].before_ms;
            earlier |= call.now_ms < some[i].before_ms;
        }
        took_ms = call.now_ms - begun_ms;
    }
}

/* G9, G14: between question and condition what is due is claimed under the old generation; that moves
 * the mark, so the condition does not hold until it names the new one. */
static void replace_waits_for_what_is_claimed(void **state)
{
    struct cf_node *node = cf_open(*state, "old");
    struct cf_job job = cf_job(node, "job", 5);
    struct cf_node *other = open_other(*state, node);
    jobsched_announcement seen = ask(other, "another", 1);
    check_pending(seen, &job, 0);
    (void)cf_grant(node, &job, 1);
    jobsched_announcement item = announce(other, if_still(&seen));
    check_pending(item, &job, 1);
    /* The one that asks may settle it, too: by a claim, or by a range that is skipped. */
    jobsched_claim range = cf_range(&job, 2, 4, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_ask(other, &range);
    cf_answer(range, GRANTED);
    check_pending(announce(other, if_still(&item)), &job, 4);
    item.mark_ms = job.mark_ms + 4;
    jobsched_claim claim = cf_at(&job, 5);
    claim.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(other, &claim);
    cf_answer(claim, GRANTED);
    check_pending(announce(other, if_still(&item)), &job, 5);
    item.mark_ms = job.mark_ms + 5;
    jobsched_announcement taken = announce(other, if_still(&item));
    check_in_force(taken, job.generation + 1);
    cf_true(taken.mark_ms >= job.mark_ms + 5);
    claim = cf_at(&job, 6);
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
    cf_equal(claim.mark_ms, taken.mark_ms);
    struct cf_row rows[4];
    cf_equal(cf_rows(node, "job", rows, 4), 3);
}

/* G14: the call that replaces tells of the conflict, neither the question nor a repetition. */
static void replace_tells_of_a_conflict_once(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    cf_equal(cf_announce(node, "job", "a", 3).conflict, 0);
    jobsched_announcement seen = ask(node, "b", 3);
    cf_equal(seen.pending, 1);
    cf_equal(seen.conflict, 0);
    jobsched_announcement item = if_still(&seen);
    item.after_ms--;
    cf_equal(announce(node, item).conflict, 0);
    item.after_ms++;
    cf_equal(announce(node, item).conflict, 1);
    cf_equal(announce(node, item).conflict, 0);
    seen = ask(node, "c", 4); /* a larger version is none */
    cf_equal(announce(node, if_still(&seen)).conflict, 0);
}

/* G14: two nodes ask for two texts of one version before either is in force. Whose comes in force is told
 * at that, and once; the other is told by what it finds then. */
static void replace_tells_of_who_else_asked(void **state)
{
    struct cf_node *node = cf_open(*state, "node"), *other = cf_open(*state, "other");
    uint64_t version = 2;
    struct cf_job job = cf_job(node, "job", 0);
    for (int first = 0; first < 2; first++, version++) {
        (void)ask(first == 0 ? node : other, first == 0 ? "a" : "b", version);
        (void)ask(first == 0 ? other : node, first == 0 ? "b" : "a", version);
        jobsched_announcement seen = ask(node, "a", version), theirs = ask(other, "b", version);
        jobsched_announcement early = if_still(&seen);
        early.after_ms--;
        early = announce(node, early); /* neither is it told to who has to wait */
        check_pending(early, &job, 0);
        jobsched_announcement taken = announce(node, if_still(&seen));
        check_in_force(taken, job.generation + 1);
        cf_equal(taken.conflict, 1);
        cf_equal(announce(node, if_still(&seen)).conflict, 0);
        job.generation = taken.generation;
        job.mark_ms = taken.mark_ms;
        check_pending(announce(other, if_still(&theirs)), &job, 0);
    }
    /* Another version, the same text, none, or one's own before are no conflict. */
    (void)ask(other, "c", version);
    (void)ask(node, "another", version + 1);
    jobsched_announcement seen = ask(node, "d", version + 1);
    cf_equal(announce(node, if_still(&seen)).conflict, 0);
    (void)ask(other, "e", version + 2);
    seen = ask(node, "e", version + 2);
    cf_equal(announce(node, if_still(&seen)).conflict, 0);
    cf_equal(cf_announce(node, "unversioned", "old", 0).conflict, 0);
    jobsched_announcement item = {
        .job = "unversioned", .definition = "f", .replace = JOBSCHED_REPLACE_ASK};
    (void)announce(other, item);
    item.definition = "g";
    item = announce(node, item);
    cf_equal(announce(node, if_still(&item)).conflict, 0);
}

/* ---- many ------------------------------------------------------------------ */

static char names[MANY][16];
static jobsched_announcement items[MANY];

static void announce_all(struct cf_node *node)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
}

/* Each of a batch is decided on its own and in its order, in the largest batch too. */
static void replace_of_many_decides_each_on_its_own(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "first"};
    }
    announce_all(node);
    static uint64_t generations[MANY];
    for (int i = 0; i < MANY; i++) {
        generations[i] = items[i].generation;
        items[i] = if_still(&items[i]);
        items[i].definition = i % 5 == 4 ? "first" : "second";
        items[i].replace = i % 5 == 0   ? JOBSCHED_REPLACE_ASK
                           : i % 5 == 3 ? JOBSCHED_REPLACE_ANYWAY
                                        : JOBSCHED_REPLACE_IF;
        items[i].replaces += i % 5 == 2;
        items[i].pending = 77;
    }
    /* A new job behind one that is pending. */
    items[MANY - 2] = (jobsched_announcement){
        .job = "new", .definition = "first", .replace = JOBSCHED_REPLACE_ASK, .pending = 77};
    /* The last one is the first again: replaced on condition, after it was asked about. */
    items[MANY - 1] = if_still(&items[0]);
    items[MANY - 1].definition = "third";
    items[MANY - 1].generation = 0;
    items[MANY - 1].replaces = generations[0];
    announce_all(node);
    for (int i = 0; i < MANY - 2; i++) {
        bool pending = i % 5 == 0 || i % 5 == 2;
        bool replaced = i % 5 == 1 || i % 5 == 3;
        cf_equal(items[i].pending, pending);
        cf_equal(items[i].in_force, !pending);
        cf_equal(items[i].generation, generations[i] + replaced);
    }
    check_in_force(items[MANY - 2], items[MANY - 2].generation);
    check_in_force(items[MANY - 1], generations[0] + 1);
}

/* ---- races ----------------------------------------------------------------- */

/* What one of two threads does, and its answer. */
struct racer {
    struct cf_node *node;
    pthread_barrier_t *start;
    jobsched_announcement item;
    jobsched_claim claim; /* its job is NULL: an announcement */
    int code;
};

static bool is_passing(int code)
{
    return code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN;
}

static void *run_racer(void *arg)
{
    struct racer *racer = arg;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    bool again = true;
    (void)pthread_barrier_wait(racer->start);
    while (again && cf_real_mono_ms() < deadline_ms) {
        if (racer->claim.job == NULL) {
            racer->code = announce_once(racer->node, &racer->item);
            again = is_passing(racer->code);
        } else {
            jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
            racer->code = racer->node->driver->claim(racer->node->backend, &call, &racer->claim, 1);
            again = is_passing(racer->code) ||
                    (racer->code == 0 && racer->claim.answer == JOBSCHED_ANSWER_BUSY);
        }
    }
    return NULL;
}

static void race(struct racer *racers)
{
    pthread_barrier_t start;
    pthread_t threads[2];
    cf_equal(pthread_barrier_init(&start, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        racers[i].start = &start;
        cf_equal(pthread_create(&threads[i], NULL, run_racer, &racers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        cf_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&start);
    cf_ok(racers[0].code);
    cf_ok(racers[1].code);
}

/* G14: of two nodes that replace the same definition on condition, exactly one does. */
static void replace_race_has_one_winner(void **state)
{
    struct racer racers[2] = {{.node = cf_open(*state, "a")}, {.node = cf_open(*state, "b")}};
    jobsched_announcement seen = cf_announce(racers[0].node, "job", "first", 0);
    for (int round = 0; round < ROUNDS; round++) {
        char texts[2][24];
        for (int i = 0; i < 2; i++) {
            (void)snprintf(texts[i], sizeof texts[i], "%d by %d", round, i);
            racers[i].item = if_still(&seen);
            racers[i].item.definition = texts[i];
        }
        race(racers);
        cf_equal(racers[0].item.in_force + racers[1].item.in_force, 1);
        cf_equal(racers[0].item.pending + racers[1].item.pending, 1);
        cf_equal(racers[0].item.generation, racers[1].item.generation);
        cf_equal(racers[0].item.mark_ms, racers[1].item.mark_ms);
        cf_equal(racers[0].item.generation, seen.generation + 1);
        seen = racers[0].item;
    }
}

/* G1, G9, G14: an occurrence of the old definition is either granted, and the new one waits, or it is
 * refused because the new one is in force. Never both, and never neither. */
static void replace_race_with_a_claim_loses_nothing(void **state)
{
    struct racer racers[2] = {{.node = cf_open(*state, "old")}, {.node = cf_open(*state, "new")}};
    struct cf_node *node = racers[0].node;
    struct cf_job job = cf_job(node, "job", 1);
    for (int round = 0; round < ROUNDS; round++) {
        char text[24];
        (void)snprintf(text, sizeof text, "round %d", round);
        jobsched_announcement seen = ask(racers[1].node, text, 0);
        check_pending(seen, &job, 0);
        racers[0].claim = cf_at(&job, 1);
        racers[1].item = if_still(&seen);
        cf_wait_until(node, job.mark_ms + 1);
        race(racers);
        const jobsched_claim *claim = &racers[0].claim;
        if (racers[1].item.in_force) {
            cf_answer(*claim, STALE);
            check_in_force(racers[1].item, job.generation + 1);
        } else {
            cf_answer(*claim, GRANTED);
            check_pending(racers[1].item, &job, 1);
            cf_equal(cf_finish(node, "job", claim->token, JOBSCHED_OUTCOME_SUCCEEDED),
                     JOBSCHED_LEASE_KEPT);
        }
        job.generation = racers[1].item.generation;
        job.mark_ms = racers[1].item.mark_ms;
    }
}

const struct cf_test cf_replace_tests[] = {
    {"replace_that_asks_changes_nothing", replace_that_asks_changes_nothing, 0},
    {"replace_asks_only_where_something_is_replaced", replace_asks_only_where_something_is_replaced,
     0},
    {"replace_of_a_removed_job_is_immediate", replace_of_a_removed_job_is_immediate, 0},
    {"replace_undoes_no_later_removal", replace_undoes_no_later_removal, 0},
    {"replace_keeps_a_pause", replace_keeps_a_pause, 0},
    {"replace_if_nothing_came_between", replace_if_nothing_came_between, 0},
    {"replace_is_pending_if_a_condition_fails", replace_is_pending_if_a_condition_fails, 0},
    {"replace_is_pending_at_the_very_instant", replace_is_pending_at_the_very_instant, 0},
    {"replace_waits_for_what_is_claimed", replace_waits_for_what_is_claimed, 0},
    {"replace_tells_of_a_conflict_once", replace_tells_of_a_conflict_once, 0},
    {"replace_tells_of_who_else_asked", replace_tells_of_who_else_asked,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"replace_of_many_decides_each_on_its_own", replace_of_many_decides_each_on_its_own, 0},
    {"replace_race_has_one_winner", replace_race_has_one_winner, JOBSCHED_CAPABILITY_CLUSTER},
    {"replace_race_with_a_claim_loses_nothing", replace_race_with_a_claim_loses_nothing,
     JOBSCHED_CAPABILITY_CLUSTER},
    {NULL, NULL, 0},
};
