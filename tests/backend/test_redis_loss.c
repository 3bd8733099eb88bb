/* test_redis_loss.c: a store that forgets: everything, the latest part, or perhaps nothing. */
#include "redis_support.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 600 };

static jobsched_claim short_claim(const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    claim.lease_ms = LEASE_MS;
    return claim;
}

/* Asks until there is another answer than BUSY; returns how long that took. */
static int64_t wait_out(struct cf_node *node, jobsched_claim *claim)
{
    int64_t began_ms = cf_real_mono_ms();
    do {
        cf_true(cf_real_mono_ms() < began_ms + CF_POLL_MS);
        cf_ok(redis_claim(node, claim, CF_TIMEOUT_MS));
        cf_pause();
    } while (claim->answer == JOBSCHED_ANSWER_BUSY);
    return cf_real_mono_ms() - began_ms;
}

/* What must hold after everything is gone, however that came about. run: of before. */
static void check_after_all_is_lost(struct cf_world *world, struct cf_node *node,
                                    struct cf_node *other, const jobsched_claim *run)
{
    int told_before = redis_notice_count;
    struct cf_job forgotten = {"job", run->generation, run->scheduled_ms};
    jobsched_claim claim = short_claim(&forgotten, 1);
    cf_ok(redis_claim(other, &claim, CF_TIMEOUT_MS));
    cf_answer(claim, UNKNOWN);
    cf_true(redis_notice_count > told_before);
    cf_true(strstr(redis_notices, "lost") != NULL);
    jobsched_announcement item = cf_announce(other, "job", "every 1 ms", 0);
    cf_true(item.mark_ms >= run->scheduled_ms);  /* G1: no occurrence of before is granted again */
    cf_true(item.generation != run->generation); /* G14 */
    cf_equal(cf_announce(node, "job", "every 1 ms", 0).generation, item.generation);
    cf_equal(cf_renew(node, "job", run->token), JOBSCHED_LEASE_GONE); /* G5: told */
    cf_wait_until(other, item.mark_ms + 2);
    struct cf_job job = {"job", item.generation, item.mark_ms};
    claim = short_claim(&job, 1);
    int64_t waited_ms = wait_out(other, &claim);
    cf_answer(claim, GRANTED);
    cf_true(waited_ms > LEASE_MS / 4); /* the rest of one lease, counted from the first look */
    cf_true(claim.token > run->token); /* G2 */
    cf_equal(cf_finish(other, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    (void)world;
}

static jobsched_claim hold(struct cf_node *node, struct cf_job *out_job)
{
    *out_job = cf_job(node, "job", 4);
    jobsched_claim run = short_claim(out_job, 1);
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    return run;
}

/* G1, G2, G5: FLUSHALL under a living owner. */
static void test_flushall_under_an_owner(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)cf_now(other);
    (void)redis_ask("FLUSHALL");
    check_after_all_is_lost(world, node, other, &run);
}

/* G1, G2: somebody who knew nothing makes the store anew before those who did come back. */
static void test_flushall_and_a_newcomer(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)redis_ask("FLUSHALL");
    struct cf_node *newcomer = redis_open(world, "newcomer", LEASE_MS);
    jobsched_announcement item = cf_announce(newcomer, "job", "every 1 ms", 0);
    cf_wait_until(newcomer, item.mark_ms + 2);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_GONE);
    struct cf_job again = {"job", item.generation, item.mark_ms};
    cf_wait_until(node, item.mark_ms + 2);
    jobsched_claim claim = short_claim(&again, 1);
    (void)wait_out(newcomer, &claim);
    /* Its mark is from before the loss was known: what lies between is unknown, and skipped. */
    cf_answer(claim, DONE);
    struct cf_row row;
    cf_true(strstr(cf_newest(newcomer, "job", &row)->note, "unknown") != NULL);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    again = cf_job(newcomer, "job", 0);
    cf_wait_until(newcomer, cf_now(newcomer) + 5); /* later than when the loss was known */
    int64_t now_ms = cf_now(newcomer);
    claim = short_claim(&again, now_ms - again.mark_ms);
    claim.after_ms = again.mark_ms;
    (void)wait_out(newcomer, &claim);
    cf_answer(claim, GRANTED);
    cf_true(claim.token > run.token);
}

/* G1, G2, G5: the server is restarted and keeps nothing. */
static void test_restart_without_persistence(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LEASE_MS);
    struct cf_job job;
    jobsched_claim run = hold(node, &job);
    (void)cf_now(other);
    redis_restart("kill", "");
    check_after_all_is_lost(world, node, other, &run);
}

/* G1: the server comes back with an older state: what was granted since is not granted again. */
static void test_restart_with_an_older_state(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 0), asks = cf_job(node, "asks", 9);
    jobsched_claim first = cf_grant(node, &job, 1);
    (void)cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED);
    (void)redis_ask("SAVE");
    jobsched_claim second = cf_grant(node, &job, 2);
    (void)cf_finish(node, "job", second.token, JOBSCHED_OUTCOME_SUCCEEDED);
    redis_restart("kill", "");
    jobsched_claim again = short_claim(&job, 2);
    (void)wait_out(node, &again);
    cf_answer(again, DONE);
    cf_true(strstr(redis_notices, "latest part") != NULL);
    jobsched_claim rerun = short_claim(&asks, 1); /* a job that takes at least once gets it */
    rerun.recover = JOBSCHED_RECOVER_RERUN;
    rerun.recover_limit = 1;
    (void)wait_out(node, &rerun);
    cf_answer(rerun, GRANTED);
    int64_t now_ms = cf_now(node);
    jobsched_claim next = short_claim(&job, now_ms - job.mark_ms);
    next.after_ms = job.mark_ms + 2;
    (void)wait_out(node, &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > second.token);
}

/* G1: the same when others come first, who do not know that something is missing, and when rows
 * have been added since, so that the count of rows does not show it any more. */
static void test_restart_with_an_older_state_and_a_newcomer(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    (void)redis_ask("SAVE");
    jobsched_claim run = cf_grant(node, &job, 1);
    (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    redis_restart("kill", "");
    struct cf_node *newcomer = redis_open(world, "newcomer", LEASE_MS);
    for (int i = 0; i < 4; i++) {
        char request[8];
        (void)snprintf(request, sizeof request, "r%d", i);
        cf_ok(cf_control(newcomer, JOBSCHED_VERB_TRIGGER, "job", request, NULL));
    }
    jobsched_claim again = short_claim(&job, 1);
    cf_ok(redis_claim(newcomer, &again, CF_TIMEOUT_MS));
    cf_answer(again, BUSY); /* until those who may know more have had time to come */
    (void)cf_now(node);
    (void)wait_out(newcomer, &again);
    cf_answer(again, DONE);
}

/* G1: a replica that is promoted may lack what the primary has answered. */
static void test_promoted_replica_is_quarantined(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES], second[64], settings[64];
    int port = redis_free_port();
    (void)snprintf(settings, sizeof settings, "port=%d repl-diskless-sync-delay=0", port);
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 4);
    (void)snprintf(second, sizeof second, "%s/second", redis_directory);
    cf_equal(redis_script("start", second, "appendonly=yes appendfsync=always"), 0);
    (void)redis_ask_in(second, "REPLICAOF 127.0.0.1 %d", port);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:f:job", world->name_space);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (redis_ask_in(second, "EXISTS %s", key) != 1) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    (void)redis_ask("CLIENT KILL TYPE replica"); /* and it does not come back in time: */
    (void)redis_ask_in(second, "REPLICAOF NO ONE");
    jobsched_claim run = cf_grant(node, &job, 1);
    (void)snprintf(url, sizeof url, "redis://?socket=%s/redis.sock", second);
    struct cf_node *other = redis_open_at(world, "other", url, LEASE_MS, CF_TIMEOUT_MS);
    jobsched_claim again = short_claim(&job, 1);
    cf_ok(redis_claim(other, &again, CF_TIMEOUT_MS));
    int answer = again.answer;
    (void)wait_out(other, &again);
    uint64_t token = again.token;
    cf_close(world, other);
    cf_equal(redis_script("remove", second, ""), 0);
    cf_equal(answer, JOBSCHED_ANSWER_BUSY);
    cf_true(token > run.token);
}

/* G1, G16: with a server that writes before it answers, a restart changes nothing. */
static void test_restart_with_persistence(void **state)
{
    struct cf_world *world = *state;
    static const char settings[] = "appendonly=yes appendfsync=always";
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_grant(node, &job, 1);
    redis_restart("kill", settings);
    cf_equal(cf_grant(node, &job, 1).token, run.token);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_grant(node, &job, 2).token, run.token + 1);
    cf_equal(redis_notice_count, 0);
}

/* G2: numbers are exact up to 2^53: tokens of a late epoch grow by one and are told apart. */
static void test_large_tokens_are_exact(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 9);
    (void)redis_ask("HSET {jobsched:%s}:meta epoch 131000 id 9007199254740000", world->name_space);
    uint64_t last = UINT64_C(131000) << 36;
    for (int64_t k = 1; k <= 5; k++) {
        jobsched_claim run = cf_grant(node, &job, k);
        cf_equal(run.token, last + 1);
        last = run.token;
        cf_equal(cf_renew(node, "job", run.token - 1), JOBSCHED_LEASE_GONE);
        cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
    struct cf_row rows[5];
    cf_equal(cf_rows(node, "job", rows, 5), 5);
    cf_equal(rows[0].record.token, last);
    /* And beyond, no token is given out twice. */
    (void)redis_ask("HSET {jobsched:%s}:f:job t 9007199254740991", world->name_space);
    jobsched_claim beyond = short_claim(&job, 6);
    cf_ok(redis_claim(node, &beyond, CF_TIMEOUT_MS));
    cf_answer(beyond, BUSY);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_flushall_under_an_owner),
        REDIS_TEST(test_flushall_and_a_newcomer),
        REDIS_TEST(test_restart_without_persistence),
        REDIS_TEST(test_restart_with_an_older_state),
        REDIS_TEST(test_restart_with_an_older_state_and_a_newcomer),
        REDIS_TEST(test_promoted_replica_is_quarantined),
        REDIS_TEST(test_restart_with_persistence),
        REDIS_TEST(test_large_tokens_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
