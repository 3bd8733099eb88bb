/* cf_run.c: renewals, the ends of runs, and reruns of interrupted ones. */
#include "cf_support.h"

#include <stdlib.h>

/* G9: each outcome ends up in the ledger as it was told, with note, progress and code. */
static void finish_records_every_outcome(void **state)
{
    static const int outcomes[] = {JOBSCHED_OUTCOME_SUCCEEDED,  JOBSCHED_OUTCOME_FAILED,
                                   JOBSCHED_OUTCOME_CANCELLED,  JOBSCHED_OUTCOME_TIMED_OUT,
                                   JOBSCHED_OUTCOME_LEASE_LOST, JOBSCHED_OUTCOME_INTERRUPTED};
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 7);
    for (int i = 0; i < 6; i++) {
        jobsched_claim run = cf_grant(node, &job, i + 1);
        jobsched_finish item = {.job = "job",
                                .note = "it's 100% \xe2\x9c\x93",
                                .token = run.token,
                                .progress_done = 40 + (uint64_t)i,
                                .progress_total = INT64_MAX,
                                .outcome = outcomes[i],
                                .code = -7 + i};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, &item, 1));
        cf_equal(item.answer, JOBSCHED_LEASE_KEPT);
        cf_true(call.now_ms > 0);
        struct cf_row row;
        const jobsched_run_record *record = &cf_newest(node, "job", &row)->record;
        cf_equal(record->outcome, outcomes[i]);
        cf_equal(record->code, -7 + i);
        assert_string_equal(record->note, "it's 100% \xe2\x9c\x93");
        cf_equal(record->progress_done, 40 + i);
        cf_equal(record->progress_total, INT64_MAX);
        cf_equal(record->finished_at_ms, call.now_ms);
        cf_equal(record->token, run.token);
    }
}

/* G8: a finish whose answer was lost is asked again, and changes nothing more. */
static void finish_again_is_kept(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    int64_t end_ms = cf_announce(node, "job", "every 1 ms", 0).last_end_ms;
    struct cf_row first, again;
    (void)cf_newest(node, "job", &first);
    jobsched_claim next = cf_grant(node, &job, 2);
    cf_wait_until(node, end_ms + 3);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    struct cf_row rows[3];
    cf_equal(cf_rows(node, "job", rows, 3), 2);
    again = rows[1];
    cf_equal(again.record.finished_at_ms, first.record.finished_at_ms);
    cf_equal(cf_announce(node, "job", "every 1 ms", 0).last_end_ms, end_ms);
    cf_equal(cf_renew(node, "job", next.token), JOBSCHED_LEASE_KEPT);
}

/* G1: what ended once does not end again in another way. */
static void finish_otherwise_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED);
    struct cf_row row;
    cf_equal(cf_newest(node, "job", &row)->record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
}

/* G5: only the very token of the run ends or renews it; never the job's name alone. */
static void finish_and_renew_need_the_token(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3), other = cf_job(node, "other", 0);
    jobsched_claim run = cf_grant(node, &job, 1);
    uint64_t wrong[] = {0, run.token + 1, run.token - 1, (uint64_t)INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cf_equal(cf_renew(node, "job", wrong[i]), JOBSCHED_LEASE_GONE);
        cf_equal(cf_finish(node, "job", wrong[i], JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_GONE);
    }
    cf_equal(cf_renew(node, other.name, run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(node, other.name, run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_GONE);
    cf_equal(cf_renew(node, "nobody", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(node, "nobody", 1, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_GONE);
    struct cf_row row;
    cf_equal(cf_rows(node, NULL, &row, 1), 1);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_RUNNING);
    cf_equal(cf_announce(node, "job", "every 1 ms", 0).last_end_ms, JOBSCHED_NONE);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G5: another node can neither renew nor end the run, not even with its token. */
static void finish_and_renew_need_the_node(void **state)
{
    struct cf_node *a = cf_open(*state, "same name"), *b = cf_open(*state, "same name");
    struct cf_job job = cf_job(a, "job", 3);
    jobsched_claim run = cf_grant(a, &job, 1);
    cf_equal(cf_renew(b, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(b, "job", run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_GONE);
    struct cf_row row;
    cf_equal(cf_newest(b, "job", &row)->record.outcome, JOBSCHED_OUTCOME_RUNNING);
    cf_equal(cf_finish(a, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* A run that ended is not renewed back to life. */
static void renew_after_the_end_is_gone(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_GONE);
}

/* What a run reports is readable while it goes on. */
static void renew_publishes_note_and_progress(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    static const char *const notes[] = {"", "half", "half", "a longer note than before", ""};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        jobsched_lease item = {.job = "job",
                               .note = notes[i],
                               .token = run.token,
                               .progress_done = i,
                               .progress_total = 5};
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        cf_ok(node->driver->renew(node->backend, &call, -123, &item, 1));
        cf_equal(item.answer, JOBSCHED_LEASE_KEPT);
        struct cf_row row;
        const jobsched_run_record *record = &cf_newest(node, "job", &row)->record;
        assert_string_equal(record->note, notes[i]);
        cf_equal(record->progress_done, i);
        cf_equal(record->progress_total, 5);
        cf_equal(record->finished_at_ms, JOBSCHED_NONE);
    }
}

/* Items of one renewal and one finish are answered each on its own, in order. */
static void finish_and_renew_treat_items_apart(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job a = cf_job(node, "a", 0), b = cf_job(node, "b", 3);
    uint64_t ta = cf_grant(node, &a, 1).token, tb = cf_grant(node, &b, 1).token;
    cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "b", NULL, NULL));
    jobsched_lease leases[] = {{.job = "x", .note = "", .token = ta},
                               {.job = "a", .note = "", .token = ta},
                               {.job = "a", .note = "", .token = ta + 9},
                               {.job = "b", .note = "", .token = tb}};
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->renew(node->backend, &call, 0, leases, 4));
    cf_equal(leases[0].answer, JOBSCHED_LEASE_GONE);
    cf_equal(leases[1].answer, JOBSCHED_LEASE_KEPT);
    cf_equal(leases[2].answer, JOBSCHED_LEASE_GONE);
    cf_equal(leases[3].answer, JOBSCHED_LEASE_CANCEL);
    int done = JOBSCHED_OUTCOME_SUCCEEDED;
    jobsched_finish ends[] = {{.job = "a", .note = "", .token = ta + 9, .outcome = done},
                              {.job = "a", .note = "", .token = ta, .outcome = done},
                              {.job = "x", .note = "", .token = ta, .outcome = done},
                              {.job = "a", .note = "", .token = ta, .outcome = done},
                              {.job = "b", .note = "", .token = tb, .outcome = done}};
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->finish(node->backend, &call, ends, 5));
    cf_equal(ends[0].answer, JOBSCHED_LEASE_GONE);
    cf_equal(ends[1].answer, JOBSCHED_LEASE_KEPT);
    cf_equal(ends[2].answer, JOBSCHED_LEASE_GONE);
    cf_equal(ends[3].answer, JOBSCHED_LEASE_KEPT);
    cf_equal(ends[4].answer, JOBSCHED_LEASE_KEPT);
    struct cf_row rows[3];
    cf_equal(cf_rows(node, NULL, rows, 3), 2);
}

/* The clock only goes forward enough to be used: read twice, it does not go back. */
static void renew_without_runs_reads_the_clock(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    int64_t last_ms = 0;
    for (int i = 0; i < 20; i++) {
        int64_t now_ms = cf_now(node);
        cf_true(now_ms >= last_ms && now_ms > 1500000000000);
        last_ms = now_ms;
    }
}

static size_t find_reruns(struct cf_node *node, struct cf_found *out_rerun)
{
    struct cf_found found[8];
    size_t count = cf_reap(node, found, 8), reruns = 0;
    for (size_t i = 0; i < count; i++) {
        if (found[i].finding.found == JOBSCHED_FOUND_RERUN) {
            *out_rerun = found[i];
            out_rerun->finding.job = out_rerun->job;
            reruns++;
        }
    }
    return reruns;
}

static jobsched_claim rerun_of(const struct cf_job *job, int64_t k, uint32_t limit)
{
    jobsched_claim claim = cf_at(job, k);
    claim.kind = JOBSCHED_KIND_RERUN;
    claim.after_ms = 0;
    claim.recover = JOBSCHED_RECOVER_RERUN;
    claim.recover_limit = limit;
    return claim;
}

/* G15: an interrupted run that asked for it is granted again, under larger tokens, as often
 * as it asked for and not once more; one row tells it all. */
static void rerun_is_granted_up_to_its_limit(void **state)
{
    enum { LIMIT = 2 };
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = LIMIT;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    struct cf_found found;
    cf_equal(find_reruns(node, &found), 0);
    uint64_t token = run.token;
    for (uint32_t attempt = 1; attempt <= LIMIT; attempt++) {
        cf_equal(cf_finish(node, "job", token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
        for (int look = 0; look < 2; look++) { /* it is listed until it is granted */
            cf_equal(find_reruns(node, &found), 1);
            assert_string_equal(found.job, "job");
            cf_equal(found.finding.scheduled_ms, job.mark_ms + 1);
            cf_equal(found.finding.token, token);
            cf_equal(found.finding.attempt, attempt);
        }
        jobsched_claim rerun = rerun_of(&job, 1, LIMIT);
        cf_ask(node, &rerun);
        cf_answer(rerun, GRANTED);
        cf_true(rerun.token > token);
        cf_equal(rerun.attempt, attempt + 1);
        cf_equal(rerun.granted_ms, job.mark_ms + 1);
        cf_equal(find_reruns(node, &found), 0);
        jobsched_claim again = rerun_of(&job, 1, LIMIT);
        cf_ask(node, &again);
        cf_answer(again, GRANTED); /* the answer was lost */
        cf_equal(again.token, rerun.token);
        cf_equal(cf_finish(node, "job", token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
        token = rerun.token;
    }
    cf_equal(cf_finish(node, "job", token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    cf_equal(find_reruns(node, &found), 0);
    jobsched_claim beyond = rerun_of(&job, 1, LIMIT);
    cf_ask(node, &beyond);
    cf_answer(beyond, DONE);
    struct cf_row rows[2];
    cf_equal(cf_rows(node, "job", rows, 2), 1);
    cf_equal(rows[0].record.attempt, LIMIT + 1);
    cf_equal(rows[0].record.kind, JOBSCHED_KIND_RERUN); /* why it was granted last */
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    cf_equal(cf_mark(node, &job), 1);
    cf_true(cf_grant(node, &job, 2).token > token);
}

/* G15: at most once is the default: without asking for it there is no rerun. */
static void rerun_needs_to_be_asked_for(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    struct cf_found found;
    for (int64_t k = 1; k <= 3; k++) {
        static const int outcomes[] = {JOBSCHED_OUTCOME_INTERRUPTED, JOBSCHED_OUTCOME_FAILED,
                                       JOBSCHED_OUTCOME_SUCCEEDED};
        jobsched_claim run = cf_at(&job, k);
        run.recover = k == 1 ? JOBSCHED_RECOVER_LEAVE : JOBSCHED_RECOVER_RERUN;
        run.recover_limit = 5;
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        cf_equal(cf_finish(node, "job", run.token, outcomes[k - 1]), JOBSCHED_LEASE_KEPT);
        cf_equal(find_reruns(node, &found), 0);
        jobsched_claim rerun = rerun_of(&job, k, 5);
        cf_ask(node, &rerun);
        cf_answer(rerun, DONE);
    }
    jobsched_claim never = rerun_of(&job, 4, 5);
    cf_ask(node, &never);
    cf_answer(never, DONE);
    cf_equal(cf_mark(node, &job), 3);
}

/* G6: whoever was asked to stop is not started again because its node went away meanwhile. */
static void rerun_is_not_for_the_cancelled(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 3;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    struct cf_found found;
    cf_equal(find_reruns(node, &found), 0);
    jobsched_claim rerun = rerun_of(&job, 1, 3);
    cf_ask(node, &rerun);
    cf_answer(rerun, DONE);
    (void)cf_grant(node, &job, 2);
}

/* G4, G6: a rerun waits for a holder and for the end of a pause, and is not forgotten. */
static void rerun_waits_for_holder_and_pause(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 3;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    jobsched_claim next = cf_grant(node, &job, 2); /* the next occurrence does not wait for it */
    jobsched_claim rerun = rerun_of(&job, 1, 3);
    rerun.when_held = JOBSCHED_HELD_SKIP;
    cf_ask(node, &rerun);
    cf_answer(rerun, HELD);
    cf_equal(rerun.holder_token, next.token);
    cf_equal(cf_finish(node, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_ask(node, &rerun);
    cf_answer(rerun, PAUSED);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    rerun.generation++;
    cf_ask(node, &rerun);
    cf_answer(rerun, STALE);
    rerun.generation--;
    struct cf_found found;
    cf_equal(find_reruns(node, &found), 1);
    cf_ask(node, &rerun);
    cf_answer(rerun, GRANTED);
    cf_true(rerun.token > next.token);
    cf_equal(cf_mark(node, &job), 2);
    struct cf_row rows[3];
    cf_equal(cf_rows(node, "job", rows, 3), 2);
}

const struct cf_test cf_run_tests[] = {
    {"finish_records_every_outcome", finish_records_every_outcome, 0},
    {"finish_again_is_kept", finish_again_is_kept, 0},
    {"finish_otherwise_changes_nothing", finish_otherwise_changes_nothing, 0},
    {"finish_and_renew_need_the_token", finish_and_renew_need_the_token, 0},
    {"finish_and_renew_need_the_node", finish_and_renew_need_the_node, JOBSCHED_CAPABILITY_CLUSTER},
    {"renew_after_the_end_is_gone", renew_after_the_end_is_gone, 0},
    {"renew_publishes_note_and_progress", renew_publishes_note_and_progress, 0},
    {"finish_and_renew_treat_items_apart", finish_and_renew_treat_items_apart, 0},
    {"renew_without_runs_reads_the_clock", renew_without_runs_reads_the_clock, 0},
    {"rerun_is_granted_up_to_its_limit", rerun_is_granted_up_to_its_limit, 0},
    {"rerun_needs_to_be_asked_for", rerun_needs_to_be_asked_for, 0},
    {"rerun_is_not_for_the_cancelled", rerun_is_not_for_the_cancelled, 0},
    {"rerun_waits_for_holder_and_pause", rerun_waits_for_holder_and_pause, 0},
    {NULL, NULL, 0},
};
