/* test_redis_loss.c: a store that forgets: everything, or the latest part.
 * (What it must not forget: test_redis_kept.c; one that perhaps forgets: test_redis_doubt.c.) */
#include "loss_support.h"

#include <stdio.h>
#include <stdlib.h>

/* What must hold after everything is gone under a run that goes on, however that came about. Both
 * nodes register the job. */
static void check_after_all_is_lost(struct cf_node *node, struct cf_node *other,
                                    const struct cf_job *job, const jobsched_claim *run)
{
    int told_before = redis_notice_count;
    jobsched_claim claim = loss_claim(job, 2);
    cf_ok(redis_claim(other, &claim, CF_TIMEOUT_MS));
    cf_answer(claim, BUSY); /* known, and under its own generation (G14) */
    cf_true(redis_notice_count > told_before);
    cf_true(strstr(redis_notices, "backend.may-have-lost: the server ") != NULL);
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, NULL)); /* G6 */
    cf_ok(cf_control(other, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_equal(cf_renew(node, "job", run->token), JOBSCHED_LEASE_KEPT);
    loss_wait_out(other, &claim);
    cf_answer(claim, DONE); /* it may have run: skipped, and the ledger says so (G1, G9) */
    struct cf_row rows[8];
    size_t count = cf_rows(other, "job", rows, 8);
    int unknown = 0;
    for (size_t i = 0; i < count; i++) {
        unknown += strstr(rows[i].record.note, "unknown") != NULL &&
                   rows[i].record.scheduled_at_ms == claim.scheduled_ms;
        cf_true(rows[i].record.scheduled_at_ms != run->scheduled_ms ||
                rows[i].record.token == run->token);
    }
    cf_equal(unknown, 1);
    cf_equal(cf_renew(node, "job", run->token), JOBSCHED_LEASE_KEPT);
    claim = loss_of_now(other, job);
    loss_wait_out(other, &claim);
    cf_answer(claim, HELD); /* G4: by the run that was asserted */
    cf_equal(claim.holder_token, run->token);
    loss_end(node, run);
    claim = loss_of_now(other, job);
    loss_wait_out(other, &claim);
    cf_answer(claim, GRANTED);
    cf_true(claim.token > run->token); /* G2 */
    struct cf_found found[4];
    cf_equal(cf_reap(other, found, 4), 0);
    count = cf_rows(other, "job", rows, 8);
    int ended = 0;
    for (size_t i = 0; i < count; i++) {
        ended += rows[i].record.token == run->token &&
                 rows[i].record.outcome == JOBSCHED_OUTCOME_SUCCEEDED &&
                 rows[i].record.scheduled_at_ms == run->scheduled_ms;
    }
    cf_equal(ended, 1);
    loss_end(other, &claim);
}

static jobsched_claim hold(struct cf_node *node, struct cf_job *out_job)
{
    *out_job = cf_job(node, "job", 4);
    return loss_grant(node, out_job, 1);
}

/* G1, G2, G5: FLUSHALL under a living owner. */
static void test_flushall_under_an_owner(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)cf_job(other, "job", 0);
    (void)redis_ask("FLUSHALL");
    check_after_all_is_lost(node, other, &job, &run);
}

/* G1, G2: somebody who knew nothing makes the store anew before those who did come back. The number
 * of the definition is another then, but nobody stands down for that (G14). */
static void test_flushall_and_a_newcomer(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)redis_ask("FLUSHALL");
    struct cf_node *newcomer = redis_open(world, "newcomer", LOSS_LEASE_MS);
    struct cf_job again = cf_job(newcomer, "job", 3);
    cf_true(again.generation != job.generation);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    jobsched_claim claim = loss_claim(&again, 1);
    loss_wait_out(newcomer, &claim);
    /* Its mark is from before the loss was known: what lies between is unknown, and skipped. */
    cf_answer(claim, DONE);
    struct cf_row row;
    cf_true(strstr(cf_newest(newcomer, "job", &row)->note, "unknown") != NULL);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    loss_end(node, &run);
    claim = loss_of_now(node, &job); /* by the number that it knows */
    loss_wait_out(node, &claim);
    cf_answer(claim, GRANTED);
    cf_true(claim.token > run.token);
    /* With another definition, the latest different registration is in force. */
    (void)cf_announce(newcomer, "job", "every 2 ms", 0);
    claim.scheduled_ms++;
    cf_ask(node, &claim);
    cf_answer(claim, STALE);
}

/* G14: the same, with another definition: what was announced since the loss is in force. */
static void test_flushall_and_a_newcomer_with_an_edit(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 2);
    (void)redis_ask("FLUSHALL");
    struct cf_node *newcomer = redis_open(world, "newcomer", LOSS_LEASE_MS);
    jobsched_announcement edit = cf_announce(newcomer, "job", "every 2 ms", 0);
    /* Numbers of two stores compare by chance: here, the new one is the smaller. */
    (void)redis_ask("HSET {jobsched:%s}:f:job g 1", world->name_space);
    edit.generation = 1;
    jobsched_claim claim = loss_claim(&job, 1);
    cf_ok(redis_claim(node, &claim, CF_TIMEOUT_MS));
    cf_answer(claim, STALE);
    struct cf_job edited = {"job", edit.generation, edit.mark_ms};
    claim = loss_of_now(newcomer, &edited);
    loss_wait_out(newcomer, &claim);
    cf_answer(claim, GRANTED);
}

/* G14: a node that has asked claims under the generation of the definition in force. After a loss
 * that is refused, even where the node's own definition has been put in force meanwhile. */
static void test_flushall_while_a_definition_is_pending(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *asks = redis_open(world, "asks", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_announcement item = {
        .job = "job", .definition = "every 2 ms", .replace = JOBSCHED_REPLACE_ASK};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(asks->driver->announce(asks->backend, &call, &item, 1));
    cf_equal(item.pending, 1);
    cf_equal(item.generation, job.generation);
    cf_close(world, node);
    (void)redis_ask("FLUSHALL");
    struct cf_node *newcomer = redis_open(world, "newcomer", LOSS_LEASE_MS);
    cf_equal(cf_announce(newcomer, "job", "every 2 ms", 0).in_force, 1);
    jobsched_claim claim = loss_claim(&job, 1);
    loss_wait_out(asks, &claim);
    cf_answer(claim, STALE);
}

/* G1, G2, G5: the server is restarted and keeps nothing. */
static void test_restart_without_persistence(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)cf_job(other, "job", 0);
    redis_restart("kill", "");
    check_after_all_is_lost(node, other, &job, &run);
}

/* G5: an owner that comes back only when the time for that is over has lost its run, and is told. */
static void test_late_owner_has_lost_its_run(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_BRIEF_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_BRIEF_MS);
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_at(&job, 1);
    run.lease_ms = LOSS_BRIEF_MS;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    (void)cf_job(other, "job", 0);
    (void)redis_ask("FLUSHALL");
    jobsched_claim claim = loss_of_now(other, &job);
    claim.lease_ms = LOSS_BRIEF_MS;
    (void)loss_sit_out(other, &claim);
    cf_answer(claim, GRANTED);
    cf_true(claim.token > run.token);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
    cf_equal(cf_renew(other, "job", claim.token), JOBSCHED_LEASE_KEPT);
}

/* G5: whoever notices a loss may not know of the longest lease. Who has it says so when it comes, and
 * nothing is granted for as long. */
static void test_longest_lease_is_waited_for(void **state)
{
    enum { OWN_LEASE_MS = 6000, LONG_MS = 2 * OWN_LEASE_MS };
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", OWN_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", OWN_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 4);
    (void)cf_job(other, "job", 0);
    jobsched_claim run = cf_at(&job, 1);
    run.lease_ms = LONG_MS;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    int64_t before_ms = cf_real_mono_ms();
    (void)redis_ask("FLUSHALL");
    jobsched_claim claim = loss_claim(&job, 2);
    cf_ok(redis_claim(other, &claim, CF_TIMEOUT_MS));
    cf_answer(claim, BUSY);
    cf_true(claim.wait_ms <= OWN_LEASE_MS);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    (void)loss_sit_out(other, &claim);
    cf_true(cf_real_mono_ms() - before_ms >= LONG_MS);
}

/* G1: the server comes back with an older state: what was granted since is not granted again. */
static void test_restart_with_an_older_state(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 0), asks = cf_job(node, "asks", 9);
    jobsched_claim first = loss_grant(node, &job, 1);
    loss_end(node, &first);
    (void)redis_ask("SAVE");
    jobsched_claim second = loss_grant(node, &job, 2);
    loss_end(node, &second);
    redis_restart("kill", "");
    jobsched_claim again = loss_claim(&job, 2);
    loss_wait_out(node, &again);
    cf_answer(again, DONE);
    cf_true(strstr(redis_notices, "latest part") != NULL);
    jobsched_claim rerun = loss_claim(&asks, 1); /* a job that takes at least once gets it */
    rerun.recover = JOBSCHED_RECOVER_RERUN;
    rerun.recover_limit = 1;
    loss_wait_out(node, &rerun);
    cf_answer(rerun, GRANTED);
    jobsched_claim next = loss_claim(&job, loss_later(node) - job.mark_ms);
    next.after_ms = job.mark_ms + 2;
    loss_wait_out(node, &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > second.token);
}

/* G1: the same when others come first, who do not know that something is missing, and when rows
 * have been added since, so that the count of rows does not show it any more. */
static void test_restart_with_an_older_state_and_a_newcomer(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    (void)redis_ask("SAVE");
    jobsched_claim run = loss_grant(node, &job, 1);
    loss_end(node, &run);
    redis_restart("kill", "");
    struct cf_node *newcomer = redis_open(world, "newcomer", LOSS_LEASE_MS);
    for (int i = 0; i < 4; i++) {
        char request[8];
        (void)snprintf(request, sizeof request, "r%d", i);
        cf_ok(cf_control(newcomer, JOBSCHED_VERB_TRIGGER, "job", request, NULL));
    }
    jobsched_claim again = loss_claim(&job, 1);
    cf_ok(redis_claim(newcomer, &again, CF_TIMEOUT_MS));
    cf_answer(again, BUSY); /* until those who may know more have had time to come */
    (void)cf_now(node);
    loss_wait_out(newcomer, &again);
    cf_answer(again, DONE);
}

/* G1, G9: a run that goes on, and whose grant the store forgot, is asserted: its occurrence is granted to
 * nobody else, not even where runs may overlap and be repeated, and is in the ledger once. */
static void test_forgotten_grant_goes_on(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    (void)cf_job(other, "job", 0);
    (void)redis_ask("SAVE");
    jobsched_claim run = loss_grant(node, &job, 1);
    redis_restart("kill", "");
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    jobsched_claim again = loss_claim(&job, 1);
    again.when_held = JOBSCHED_HELD_ALLOW;
    again.recover = JOBSCHED_RECOVER_RERUN;
    again.recover_limit = 3;
    loss_wait_out(other, &again);
    cf_answer(again, DONE);
    cf_equal(again.mark_ms, run.scheduled_ms);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    loss_end(node, &run);
    struct cf_row rows[4];
    cf_equal(cf_rows(node, "job", rows, 4), 1);
    cf_equal(rows[0].record.token, run.token);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
}

/* G4, G9: what only was forgotten is that a run ended. Its owner knows, so the job is not held for
 * ever by a run that nobody has. */
static void test_forgotten_end_holds_nothing(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3), more = cf_job(node, "more", 3);
    jobsched_claim run = loss_grant(node, &job, 1), goes_on = loss_grant(node, &more, 1);
    (void)redis_ask("SAVE");
    loss_end(node, &run);
    redis_restart("kill", "");
    cf_equal(cf_renew(node, "more", goes_on.token), JOBSCHED_LEASE_KEPT);
    struct cf_row row;
    cf_true(strstr(cf_newest(node, "job", &row)->note, "lost how it ended") != NULL);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    jobsched_claim next = loss_of_now(node, &job);
    loss_wait_out(node, &next);
    cf_answer(next, GRANTED);
    loss_end(node, &next);
    loss_end(node, &goes_on);
}

/* G6, G14: a pause and an edit that the store forgot are said again by a node that knows of them. */
static void test_forgotten_control_is_said_again(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *old = redis_open(world, "old", LOSS_LEASE_MS);
    struct cf_job pauses = cf_job(node, "pauses", 3), resumes = cf_job(node, "resumes", 3);
    struct cf_job edits = cf_job(old, "edits", 3);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "resumes", NULL, NULL));
    (void)redis_ask("SAVE");
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "pauses", NULL, NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "resumes", NULL, NULL));
    jobsched_announcement edit = cf_announce(node, "edits", "every 2 ms", 7);
    redis_restart("kill", "");
    (void)cf_now(node);
    jobsched_claim claim = loss_claim(&edits, 1);
    loss_wait_out(old, &claim);
    cf_answer(claim, STALE);
    cf_equal(cf_announce(old, "edits", "every 2 ms", 7).generation, edit.generation);
    cf_equal(cf_announce(old, "pauses", "every 1 ms", 0).paused, 1);
    cf_equal(cf_announce(old, "resumes", "every 1 ms", 0).paused, 0);
    claim = loss_claim(&pauses, 1);
    loss_wait_out(old, &claim);
    cf_answer(claim, PAUSED);
    (void)redis_ask("FLUSHALL"); /* also when nothing is left at all */
    (void)cf_now(node);
    cf_equal(cf_announce(old, "pauses", "every 1 ms", 0).paused, 1);
    cf_equal(cf_announce(old, "resumes", "every 1 ms", 0).paused, 0);
    cf_equal(cf_announce(old, "edits", "every 2 ms", 7).in_force, 1);
    (void)resumes;
}

/* G1: a run of a trigger that goes on is no trigger that waits, whatever the store remembers. */
static void test_forgotten_trigger_runs_once(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    (void)redis_ask("SAVE");
    jobsched_claim run = loss_claim(&job, 0);
    run.kind = JOBSCHED_KIND_TRIGGER;
    run.request = "r";
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    redis_restart("kill", "");
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    struct cf_found found[2];
    cf_equal(cf_reap(other, found, 2), 0);
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "job", "r", NULL)); /* known: nothing happens */
    cf_equal(cf_reap(other, found, 2), 0);
    loss_end(node, &run);
    struct cf_row rows[2];
    cf_equal(cf_rows(node, "job", rows, 2), 1);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    cf_true(strcmp(rows[0].record.request, "r") == 0);
}

/* G1: a trigger that waits in what a restart has left may have run since: it is skipped, and the ledger
 * says so; a job that asks for reruns gets it. */
static void test_waiting_trigger_may_have_run(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3), least = cf_job(node, "least", 3);
    (void)cf_job(other, "job", 0);
    (void)cf_job(other, "least", 0);
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "least", "r", NULL));
    (void)redis_ask("SAVE");
    jobsched_claim run = loss_claim(&job, 0), again = loss_claim(&least, 0);
    run.kind = again.kind = JOBSCHED_KIND_TRIGGER;
    run.request = again.request = "r";
    again.recover = JOBSCHED_RECOVER_RERUN;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    loss_end(node, &run);
    redis_restart("kill", "");
    (void)cf_now(node); /* it knows that something is missing */
    loss_wait_out(other, &run);
    cf_answer(run, DONE);
    struct cf_row rows[2];
    cf_equal(cf_rows(other, "job", rows, 2), 1);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_true(strstr(rows[0].record.note, "unknown") != NULL);
    loss_wait_out(other, &again);
    cf_answer(again, GRANTED);
}

/* G11: many jobs are said again in portions: a call whose time is over in the middle has not begun in
 * vain, and one lane says it for all. */
static void test_many_jobs_are_said_again(void **state)
{
    enum { MANY = 6000, BATCH = 1000 };
    static jobsched_announcement items[MANY];
    static char names[MANY][12];
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", 60000);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    int64_t began_ms = cf_real_mono_ms();
    for (int i = 0; i < MANY; i += BATCH) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->announce(node->backend, &call, items + i, BATCH));
    }
    /* Too little for all of them, however busy the machine is. */
    int64_t third_ms = (cf_real_mono_ms() - began_ms) / 3;
    int64_t timeout_ms = third_ms > 40 ? third_ms : 40;
    (void)redis_ask("FLUSHALL");
    began_ms = cf_real_mono_ms();
    int calls = 0;
    jobsched_call call;
    do {
        cf_true(cf_real_mono_ms() < began_ms + CF_POLL_MS);
        call = (jobsched_call){.lane = JOBSCHED_LANE_KEEP, .timeout_ms = timeout_ms};
        calls++;
    } while (node->driver->renew(node->backend, &call, 0, NULL, 0) != 0);
    print_message("%d jobs in %d calls of %lld ms and %lld ms\n", MANY, calls,
                  (long long)timeout_ms, (long long)(cf_real_mono_ms() - began_ms));
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:names", world->name_space);
    cf_equal(redis_ask("ZCARD %s", key), MANY);
    (void)snprintf(key, sizeof key, "{jobsched:%s}:r:%s", world->name_space, node->id);
    cf_equal(redis_ask("HLEN %s", key), MANY);
    /* The other lanes have only their runs to tell, of which there are none. */
    (void)redis_ask("CONFIG RESETSTAT");
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, names[MANY - 1], NULL, NULL));
    (void)cf_announce(node, names[0], "d", 0);
    static char stats[65536];
    redis_text(stats, sizeof stats, "INFO commandstats");
    const char *scripts = strstr(stats, "cmdstat_evalsha:calls=");
    cf_true(scripts != NULL);
    cf_true(strtol(scripts + strlen("cmdstat_evalsha:calls="), NULL, 10) < 12);
}

int main(void)
{
#define REDIS_TEST(function) cmocka_unit_test_setup_teardown(function, loss_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_flushall_under_an_owner),
        REDIS_TEST(test_flushall_and_a_newcomer),
        REDIS_TEST(test_flushall_and_a_newcomer_with_an_edit),
        REDIS_TEST(test_flushall_while_a_definition_is_pending),
        REDIS_TEST(test_restart_without_persistence),
        REDIS_TEST(test_late_owner_has_lost_its_run),
        REDIS_TEST(test_longest_lease_is_waited_for),
        REDIS_TEST(test_restart_with_an_older_state),
        REDIS_TEST(test_restart_with_an_older_state_and_a_newcomer),
        REDIS_TEST(test_forgotten_grant_goes_on),
        REDIS_TEST(test_forgotten_end_holds_nothing),
        REDIS_TEST(test_forgotten_control_is_said_again),
        REDIS_TEST(test_forgotten_trigger_runs_once),
        REDIS_TEST(test_waiting_trigger_may_have_run),
        REDIS_TEST(test_many_jobs_are_said_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
