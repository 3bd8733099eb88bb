/* cf_dead.c: who is alive. Proof of death frees a job at once; without proof only a heartbeat
 * that stood still for a whole lease on the asker's own monotonic clock does. */
#include "cf_support.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SHORT_LEASE_MS 600000 /* a tenth of it is more than a machine stands still */
#define BOUND_MS       30000  /* for proof, when the subject names no other */

enum { MARGIN_MS = SHORT_LEASE_MS / 10 };

/* What a child that owns a run tells its parent. */
struct told {
    struct cf_job job;
    uint64_t token;
};

/* Forks a process that holds occurrence 1 of "job" until it is killed. */
static pid_t start_owner(struct cf_world *world, int recover, struct told *out_told)
{
    int ends[2];
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *node = cf_open(world, "owner");
        struct told told = {.job = cf_job(node, "job", 1)};
        jobsched_claim run = cf_at(&told.job, 1);
        run.recover = recover;
        run.recover_limit = 1;
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        told.token = run.token;
        cf_equal(write(ends[1], &told, sizeof told), sizeof told);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    ssize_t got = read(ends[0], out_told, sizeof *out_told);
    (void)close(ends[0]);
    cf_equal(got, sizeof *out_told);
    out_told->job.name = "job"; /* the child's pointer was its own */
    return child;
}

/* Asks until the claim is granted, within the bound for a proven death. */
static void take_over(const struct cf_world *world, struct cf_node *node, jobsched_claim *claim)
{
    int64_t bound_ms = world->subject->death_bound_ms;
    bool proof = bound_ms != JOBSCHED_NONE;
    int64_t deadline_ms = cf_real_mono_ms() + (!proof         ? CF_POLL_MS
                                               : bound_ms > 0 ? bound_ms
                                                              : BOUND_MS);
    cf_ask(node, claim);
    while (claim->answer == JOBSCHED_ANSWER_HELD) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        if (!proof) {
            atomic_fetch_add(&node->clock.mono_offset_ms, 2 * CF_LEASE_MS);
        }
        cf_pause();
        cf_ask(node, claim);
    }
}

/* How many interruptions and reruns of "job" the node is told of. */
static size_t look(struct cf_node *node, size_t *out_reruns, struct cf_found *out_interrupted)
{
    struct cf_found found[8];
    size_t interrupted = 0, count = cf_reap(node, found, 8);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(found[i].job, "job");
        if (found[i].finding.found == JOBSCHED_FOUND_INTERRUPTED) {
            interrupted++;
            if (out_interrupted != NULL) {
                *out_interrupted = found[i];
            }
        } else if (out_reruns != NULL) {
            cf_equal(found[i].finding.found, JOBSCHED_FOUND_RERUN);
            (*out_reruns)++;
        }
    }
    return interrupted;
}

/* G10, G15: after kill -9 the next occurrence is granted without waiting for the lease, the
 * interruption is told once, and what the dead one held is worth nothing. */
static void dead_owner_is_replaced_at_once(void **state)
{
    struct cf_world *world = *state;
    struct told told;
    pid_t owner = start_owner(world, JOBSCHED_RECOVER_LEAVE, &told);
    struct cf_node *nodes[2] = {cf_open(world, "a"), cf_open(world, "b")};
    struct cf_job job = cf_job(nodes[0], "job", 0);
    cf_equal(job.mark_ms, told.job.mark_ms + 1);
    job = told.job;
    cf_wait_until(nodes[0], job.mark_ms + 3);
    for (int i = 0; i < 2; i++) {
        jobsched_claim held = cf_at(&job, 2);
        cf_ask(nodes[i], &held);
        cf_answer(held, HELD);
        assert_string_equal(held.holder, "owner");
        cf_equal(held.holder_token, told.token);
        cf_equal(look(nodes[i], NULL, NULL), 0);
    }
    cf_equal(cf_announce(nodes[1], "job", "every 1 ms", 0).last_end_ms, JOBSCHED_NONE);
    int64_t killed_ms = cf_now(nodes[0]);
    cf_kill(world, owner);
    jobsched_claim next = cf_at(&job, 2);
    take_over(world, nodes[0], &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > told.token);
    int64_t end_ms = cf_announce(nodes[1], "job", "every 1 ms", 0).last_end_ms;
    cf_true(end_ms >= killed_ms && end_ms <= cf_now(nodes[1])); /* an interruption is an end */
    size_t interrupted = 0;
    struct cf_found found = {.job = ""};
    for (int i = 0; i < 6; i++) {
        interrupted += look(nodes[i % 2], NULL, &found);
    }
    cf_equal(interrupted, 1); /* also when claim() was what noticed */
    assert_string_equal(found.node, "owner");
    cf_equal(found.finding.scheduled_ms, job.mark_ms + 1);
    cf_equal(found.finding.token, told.token);
    cf_equal(found.finding.attempt, 1);
    for (int i = 0; i < 2; i++) {
        cf_equal(cf_finish(nodes[i], "job", told.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_GONE);
    }
    struct cf_row rows[2];
    cf_equal(cf_rows(nodes[1], "job", rows, 2), 2);
    cf_equal(rows[1].record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    cf_true(rows[1].record.finished_at_ms != JOBSCHED_NONE);
    assert_string_equal(rows[1].node, "owner");
    jobsched_claim rerun = cf_at(&job, 1);
    rerun.kind = JOBSCHED_KIND_RERUN;
    cf_ask(nodes[1], &rerun);
    cf_answer(rerun, DONE); /* at most once is the default */
}

/* G15: some node notices by looking alone, and a rerun that was asked for is granted once. */
static void dead_owner_is_rerun_when_asked_for(void **state)
{
    struct cf_world *world = *state;
    struct told told;
    pid_t owner = start_owner(world, JOBSCHED_RECOVER_RERUN, &told);
    struct cf_node *nodes[2] = {cf_open(world, "a"), cf_open(world, "b")};
    cf_equal(look(nodes[0], NULL, NULL), 0);
    cf_kill(world, owner);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    size_t interrupted = 0, reruns = 0;
    for (int i = 0; interrupted == 0; i++) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        reruns = 0;
        interrupted = look(nodes[i % 2], &reruns, NULL);
        if (world->subject->death_bound_ms == JOBSCHED_NONE) {
            atomic_fetch_add(&nodes[i % 2]->clock.mono_offset_ms, 2 * CF_LEASE_MS);
        }
        cf_pause();
    }
    cf_equal(interrupted, 1);
    for (int i = 0; i < 2; i++) {
        reruns = 0;
        cf_equal(look(nodes[i], &reruns, NULL), 0);
        cf_equal(reruns, 1);
    }
    jobsched_claim rerun = cf_at(&told.job, 1);
    rerun.kind = JOBSCHED_KIND_RERUN;
    rerun.recover = JOBSCHED_RECOVER_RERUN;
    rerun.recover_limit = 1;
    jobsched_claim second = rerun;
    cf_ask(nodes[0], &rerun);
    cf_answer(rerun, GRANTED);
    cf_true(rerun.token > told.token);
    cf_equal(rerun.attempt, 2);
    cf_equal(rerun.granted_ms, told.job.mark_ms + 1);
    cf_ask(nodes[1], &second);
    cf_answer(second, DONE);
    reruns = 0;
    cf_equal(look(nodes[1], &reruns, NULL), 0);
    cf_equal(reruns, 0);
    cf_equal(cf_finish(nodes[0], "job", rerun.token, JOBSCHED_OUTCOME_INTERRUPTED),
             JOBSCHED_LEASE_KEPT);
    reruns = 0;
    (void)look(nodes[1], &reruns, NULL);
    cf_equal(reruns, 0); /* one was asked for, one was had */
    struct cf_row row;
    cf_equal(cf_rows(nodes[1], "job", &row, 1), 1);
    cf_equal(row.record.attempt, 2);
    assert_string_equal(row.node, "a");
}

/* G10: a clean stop hands over at once, also when a run was left behind. */
static void closed_owner_is_replaced_at_once(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job job = cf_job(owner, "job", 3);
    jobsched_claim run = cf_grant(owner, &job, 1);
    jobsched_claim next = cf_at(&job, 2);
    cf_ask(other, &next);
    cf_answer(next, HELD);
    cf_close(world, owner);
    take_over(world, other, &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > run.token);
    struct cf_row rows[2];
    cf_equal(cf_rows(other, "job", rows, 2), 2);
    cf_equal(rows[1].record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
}

static void let_pass(struct cf_node *node, int64_t span_ms)
{
    atomic_fetch_add(&node->clock.mono_offset_ms, span_ms);
}

static jobsched_claim hold(struct cf_node *node, const struct cf_job *job, int64_t lease_ms)
{
    jobsched_claim run = cf_at(job, 1);
    run.lease_ms = lease_ms;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    return run;
}

static int ask_next(struct cf_node *node, const struct cf_job *job)
{
    struct cf_found found[8];
    jobsched_claim next = cf_at(job, 2);
    next.lease_ms = SHORT_LEASE_MS;
    cf_ask(node, &next);
    if (next.answer == JOBSCHED_ANSWER_HELD) {
        (void)cf_reap(node, found, 8); /* a backend may watch heartbeats in either place */
    }
    return next.answer;
}

/* G5: as long as the heartbeat moves nobody takes over, however often the lease passes. */
static void dead_is_not_who_has_a_heartbeat(void **state)
{
    struct cf_node *owner = cf_open(*state, "owner"), *other = cf_open(*state, "other");
    struct cf_job job = cf_job(owner, "job", 0), busy = cf_job(owner, "busy", 9);
    jobsched_claim run = hold(owner, &job, SHORT_LEASE_MS);
    for (int64_t k = 1; k <= 8; k++) {
        cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
        let_pass(other, SHORT_LEASE_MS * 6 / 10);
        if (k % 2 == 0) {
            (void)cf_now(owner); /* a bare heartbeat */
        } else {
            jobsched_claim grant = cf_at(&busy, k); /* a grant is one as well */
            grant.when_held = JOBSCHED_HELD_ALLOW;
            grant.after_ms = busy.mark_ms + (k == 1 ? 0 : k - 2);
            cf_ask(owner, &grant);
            cf_answer(grant, GRANTED);
        }
    }
    cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G5, G10: a heartbeat that stands still frees the job after a whole lease, and not before;
 * then the old run learns it and can change nothing. */
static void dead_is_who_stands_still_for_a_lease(void **state)
{
    struct cf_node *owner = cf_open(*state, "owner"), *other = cf_open(*state, "other");
    struct cf_job job = cf_job(owner, "job", 4);
    jobsched_claim run = hold(owner, &job, SHORT_LEASE_MS);
    cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    let_pass(other, SHORT_LEASE_MS - MARGIN_MS);
    cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    /* Somebody who just came has watched nothing yet, whatever its wall clock says. */
    struct cf_node *fresh = cf_open(*state, "fresh");
    atomic_store(&fresh->clock.wall_offset_ms, 86400000);
    cf_answer_at(ask_next(fresh, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
    let_pass(other,
             MARGIN_MS + 1); /* a whole lease since the first look, not since the heartbeat */
    cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    let_pass(other, SHORT_LEASE_MS + 1);
    cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_GRANTED, __FILE__, __LINE__);
    cf_equal(look(other, NULL, NULL) + look(fresh, NULL, NULL) + look(other, NULL, NULL), 1);
    cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
    jobsched_claim again = cf_at(&job, 1);
    cf_ask(owner, &again);
    cf_answer(again, DONE); /* it runs it no more, so this is no repetition */
    struct cf_row rows[2];
    cf_equal(cf_rows(owner, "job", rows, 2), 2);
    cf_equal(rows[1].record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_RUNNING);
}

/* G1, G5: the engine counts the lease from the claim it repeated last, so a repeated grant is a
 * heartbeat: whatever kind it is, nobody else is granted the job before a whole lease after it. */
static void dead_is_not_who_repeats_a_claim(void **state)
{
    static const int kinds[] = {JOBSCHED_KIND_SCHEDULED, JOBSCHED_KIND_TRIGGER,
                                JOBSCHED_KIND_RERUN};
    static const char *const names[] = {"scheduled", "trigger", "rerun"};
    struct cf_node *owner = cf_open(*state, "owner"), *other = cf_open(*state, "other");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct cf_job job = cf_job(owner, names[i], 3);
        jobsched_claim run = cf_at(&job, 1);
        run.recover = JOBSCHED_RECOVER_RERUN;
        run.recover_limit = 1;
        run.lease_ms = SHORT_LEASE_MS;
        if (kinds[i] == JOBSCHED_KIND_TRIGGER) {
            cf_ok(cf_control(owner, JOBSCHED_VERB_TRIGGER, job.name, "r", NULL));
            run.request = "r";
        }
        cf_ask(owner, &run);
        cf_answer(run, GRANTED);
        if (kinds[i] != JOBSCHED_KIND_SCHEDULED) {
            cf_equal(cf_finish(owner, job.name, run.token, JOBSCHED_OUTCOME_INTERRUPTED),
                     JOBSCHED_LEASE_KEPT);
            run.kind = kinds[i];
            cf_ask(owner, &run);
            cf_answer(run, GRANTED);
        }
        uint64_t token = run.token;
        cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
        let_pass(other, SHORT_LEASE_MS * 8 / 10);
        cf_ask(owner, &run);
        cf_answer(run, GRANTED);
        cf_equal(run.token, token);
        cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
        let_pass(other, SHORT_LEASE_MS * 8 / 10);
        cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
        let_pass(other, SHORT_LEASE_MS * 3 / 10);
        cf_answer_at(ask_next(other, &job), JOBSCHED_ANSWER_GRANTED, __FILE__, __LINE__);
    }
}

/* G10: each run has the lease it was granted with. */
static void dead_is_judged_by_the_run_s_own_lease(void **state)
{
    struct cf_node *owner = cf_open(*state, "owner"), *other = cf_open(*state, "other");
    struct cf_job brief = cf_job(owner, "job", 0), lasting = cf_job(owner, "lasting", 3);
    jobsched_claim kept = hold(owner, &lasting, 6 * SHORT_LEASE_MS);
    (void)hold(owner, &brief, SHORT_LEASE_MS);
    cf_answer_at(ask_next(other, &brief), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    cf_answer_at(ask_next(other, &lasting), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    let_pass(other, SHORT_LEASE_MS + 1000);
    cf_answer_at(ask_next(other, &brief), JOBSCHED_ANSWER_GRANTED, __FILE__, __LINE__);
    cf_equal(look(other, NULL, NULL), 1);
    cf_answer_at(ask_next(other, &lasting), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
    cf_equal(cf_renew(owner, "lasting", kept.token), JOBSCHED_LEASE_KEPT);
    let_pass(other, 4 * SHORT_LEASE_MS);
    cf_answer_at(ask_next(other, &lasting), JOBSCHED_ANSWER_HELD, __FILE__, __LINE__);
}

/* G7: a node that only comes and goes is nobody's death. */
static void dead_is_not_who_never_held(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner");
    struct cf_job job = cf_job(owner, "job", 3);
    jobsched_claim run = cf_grant(owner, &job, 1);
    for (int i = 0; i < 20; i++) {
        struct cf_node *guest = cf_open(world, "guest");
        (void)cf_announce(guest, "job", "every 1 ms", 0);
        cf_close(world, guest);
        cf_equal(look(owner, NULL, NULL), 0);
        cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
    }
}

const struct cf_test cf_dead_tests[] = {
    {"dead_owner_is_replaced_at_once", dead_owner_is_replaced_at_once, JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_owner_is_rerun_when_asked_for", dead_owner_is_rerun_when_asked_for,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"closed_owner_is_replaced_at_once", closed_owner_is_replaced_at_once,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_is_not_who_has_a_heartbeat", dead_is_not_who_has_a_heartbeat,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_is_who_stands_still_for_a_lease", dead_is_who_stands_still_for_a_lease,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_is_judged_by_the_run_s_own_lease", dead_is_judged_by_the_run_s_own_lease,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_is_not_who_repeats_a_claim", dead_is_not_who_repeats_a_claim,
     JOBSCHED_CAPABILITY_CLUSTER},
    {"dead_is_not_who_never_held", dead_is_not_who_never_held, JOBSCHED_CAPABILITY_CLUSTER},
    {NULL, NULL, 0},
};
