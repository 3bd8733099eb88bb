/* test_redis_kept.c: what the store keeps: everything over a restart, numbers exactly, marks whatever
 * its clock says, and interrupted runs until somebody has heard of them. */
#include "redis_support.h"

#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEASE_MS = 800 };

static jobsched_claim short_claim(const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    claim.lease_ms = LEASE_MS;
    return claim;
}

/* Granted with the short lease, from wherever the mark is. */
static jobsched_claim grant(struct cf_node *node, const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = short_claim(job, k);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    return claim;
}

/* G3, G11: a mark ahead of the server's clock stops its job until the clock has caught up, and that is
 * said: once, not with every answer. */
static void test_mark_in_the_future_is_told(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    (void)redis_ask("HSET {jobsched:%s}:f:job m %lld", world->name_space,
                    (long long)job.mark_ms + 3600000);
    int before = redis_notice_count;
    for (int i = 0; i < 3; i++) {
        jobsched_claim claim = short_claim(&job, 1);
        cf_ask(node, &claim);
        cf_answer(claim, DONE);
    }
    cf_equal(redis_notice_count, before + 1);
    cf_true(strstr(redis_notices, "'job' is accounted for up to 35") != NULL ||
            strstr(redis_notices, "'job' is accounted for up to 3600") != NULL);
}

/* G1, G16: with a server that writes before it answers, a restart changes nothing. */
static void test_restart_with_persistence(void **state)
{
    struct cf_world *world = *state;
    static const char settings[] = "appendonly=yes appendfsync=always";
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = grant(node, &job, 1);
    redis_restart("kill", settings);
    cf_equal(grant(node, &job, 1).token, run.token);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(grant(node, &job, 2).token, run.token + 1);
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

/* ---- interrupted runs are told once ---- */

static int stop_after_one(const jobsched_finding *finding, void *data)
{
    (void)finding;
    ++*(int *)data;
    return 1;
}

static int count_all(const jobsched_finding *finding, void *data)
{
    *(int *)data += finding->found == JOBSCHED_FOUND_INTERRUPTED;
    return 0;
}

/* Runs of a process that has died: of so many jobs. */
static void leave_dead_runs(struct cf_world *world, int count)
{
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *node = redis_open(world, "dead", LEASE_MS);
        for (int i = 0; i < count; i++) {
            static char name[16];
            (void)snprintf(name, sizeof name, "dead%d", i);
            struct cf_job job = cf_job(node, name, 2);
            jobsched_claim run = cf_at(&job, 1);
            run.lease_ms = LEASE_MS;
            cf_ask(node, &run);
            cf_answer(run, GRANTED);
        }
        _exit(0);
    }
    cf_equal(cf_wait(world, child), 0);
}

/* G15: an answer that gets lost is told again; what was told is not, to nobody. */
static void test_lost_findings_are_told_again(void **state)
{
    struct cf_world *world = *state;
    char path[128], server[128], url[REDIS_TEXT_BYTES];
    leave_dead_runs(world, 3);
    struct cf_node *other = redis_open(world, "other", CF_LEASE_MS);
    (void)snprintf(path, sizeof path, "%s/proxy.sock", redis_directory);
    (void)snprintf(server, sizeof server, "%s/redis.sock", redis_directory);
    proxy *between = proxy_start(path, server);
    cf_true(between != NULL);
    (void)snprintf(url, sizeof url, "redis://?socket=%s", path);
    struct cf_node *node = redis_open_at(world, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    (void)cf_now(node);
    /* The heartbeat is watched by this one alone, so that it is this one who notices. */
    int64_t until_ms = cf_real_mono_ms() + LEASE_MS * 3 / 2;
    while (cf_real_mono_ms() < until_ms) {
        (void)cf_now(node);
        cf_pause();
    }
    int told = 0;
    proxy_trap(between, "1000", PROXY_CUT_BEFORE_REPLY); /* how many findings at most: of reap */
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_equal(node->driver->reap(node->backend, &call, count_all, &told), JOBSCHED_EUNKNOWN);
    cf_equal(proxy_caught(between), 1);
    cf_equal(told, 0);
    struct cf_row row;
    cf_equal(cf_newest(other, "dead0", &row)->record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    struct cf_found found[4];
    cf_equal(cf_reap(other, found, 4), 0); /* it is this one's to be told */
    cf_ok(node->driver->reap(node->backend, &call, stop_after_one, &told));
    cf_equal(told, 1);
    proxy_trap(between, "1000", PROXY_CUT_IN_REPLY);
    cf_equal(node->driver->reap(node->backend, &call, count_all, &told), JOBSCHED_EUNKNOWN);
    cf_equal(told, 1);
    cf_ok(node->driver->reap(node->backend, &call, count_all, &told));
    cf_equal(told, 3);
    cf_ok(node->driver->reap(node->backend, &call, count_all, &told));
    cf_equal(told, 3);
    cf_equal(cf_reap(other, found, 4), 0);
    cf_close(world, node);
    proxy_stop(between);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:telling", world->name_space);
    cf_equal(redis_ask("EXISTS %s", key), 0);
}

/* G15: what a node did not hear before it closed, or died, another is told. */
static void test_unheard_findings_pass_on(void **state)
{
    struct cf_world *world = *state;
    leave_dead_runs(world, 3);
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", CF_LEASE_MS);
    int told = 0;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (told == 0) {
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_ok(node->driver->reap(node->backend, &call, stop_after_one, &told));
        cf_pause();
    }
    struct cf_found found[4];
    cf_equal(cf_reap(other, found, 4), 0);
    cf_close(world, node);
    cf_equal(cf_reap(other, found, 4), 2);
    cf_equal(found[0].finding.found, JOBSCHED_FOUND_INTERRUPTED);
    cf_equal(cf_reap(other, found, 4), 0);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_mark_in_the_future_is_told), REDIS_TEST(test_restart_with_persistence),
        REDIS_TEST(test_large_tokens_are_exact),     REDIS_TEST(test_lost_findings_are_told_again),
        REDIS_TEST(test_unheard_findings_pass_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
