/* test_redis_sentinel.c: a primary that sentinels name, and that changes. One private sentinel, a
 * primary and a replica, all on the loopback device. */
#include "redis_support.h"

#include "support/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 2000, FAILOVER_MS = 120000, OPEN_MS = 12000 };

static char second[96], watcher[96], url[REDIS_TEXT_BYTES];
static int first_port, second_port, sentinel_port;

static int set_up(void **state)
{
    char settings[REDIS_TEXT_BYTES];
    if (redis_set_up(state) != 0) {
        return -1;
    }
    first_port = redis_free_port();
    (void)snprintf(settings, sizeof settings, "port=%d repl-diskless-sync-delay=0", first_port);
    redis_restart("kill", settings);
    second_port = redis_free_port();
    (void)snprintf(second, sizeof second, "%s/second", redis_directory);
    (void)snprintf(settings, sizeof settings,
                   "port=%d repl-diskless-sync-delay=0 'replicaof=127.0.0.1 %d'", second_port,
                   first_port);
    if (redis_script("start", second, settings) != 0) {
        return -1;
    }
    sentinel_port = redis_free_port();
    (void)snprintf(watcher, sizeof watcher, "%s/watcher", redis_directory);
    (void)snprintf(settings, sizeof settings,
                   "port=%d 'sentinel=monitor main 127.0.0.1 %d 1' "
                   "'sentinel=down-after-milliseconds main 6000' "
                   "'sentinel=failover-timeout main 10000'",
                   sentinel_port, first_port);
    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main", sentinel_port);
    return redis_script("sentinel", watcher, settings);
}

static int tear_down(void **state)
{
    int result = cf_teardown(state);
    int watched = redis_script("remove", watcher, "");
    int replica = redis_script("remove", second, "");
    return redis_script("remove", redis_directory, "") == 0 && watched == 0 && replica == 0 ? result
                                                                                            : -1;
}

static void await_replica(void)
{
    int64_t deadline_ms = cf_real_mono_ms() + FAILOVER_MS;
    while (redis_ask_in(watcher, "SENTINEL replicas main") != 1) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* Whether a command's answer contains a text; the failover may end the connection meanwhile. */
static int says(const char *directory, const char *command, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/redis.sock", directory);
    redisContext *context = redisConnectUnix(path);
    cf_true(context != NULL && context->err == 0);
    redisReply *reply = redisCommand(context, command);
    int found = reply != NULL && reply->str != NULL && strstr(reply->str, text) != NULL;
    freeReplyObject(reply);
    redisFree(context);
    return found;
}

/* As soon as the sentinel has looked at the replica well enough. */
static void begin_failover(void)
{
    int64_t deadline_ms = cf_real_mono_ms() + FAILOVER_MS;
    while (!says(watcher, "SENTINEL failover main", "OK")) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* Renews until the store answers again; returns what it says of the run. */
static int renew_at_last(struct cf_node *node, uint64_t token)
{
    int64_t deadline_ms = cf_real_mono_ms() + FAILOVER_MS;
    for (;;) {
        jobsched_lease item = {.job = "job", .note = "", .token = token};
        jobsched_call call = {.lane = JOBSCHED_LANE_KEEP, .timeout_ms = OPEN_MS};
        int code = node->driver->renew(node->backend, &call, 0, &item, 1);
        if (code == 0) {
            return item.answer;
        }
        /* Nothing else than that it cannot be reached, or not be known. */
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static jobsched_claim grant_at_last(struct cf_node *node, const struct cf_job *job)
{
    int64_t deadline_ms = cf_real_mono_ms() + FAILOVER_MS;
    jobsched_claim claim = cf_at(job, 0);
    for (;;) {
        claim.lease_ms = LEASE_MS;
        int code = redis_claim(node, &claim, OPEN_MS);
        if (code == 0 && claim.answer == JOBSCHED_ANSWER_GRANTED) {
            return claim;
        }
        if (code == 0 &&
            (claim.answer == JOBSCHED_ANSWER_DONE || claim.answer == JOBSCHED_ANSWER_MOVED)) {
            claim.after_ms = claim.mark_ms;
            claim.scheduled_ms = cf_now(node);
        }
        cf_true(code == 0 || code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static int64_t bytes_of_primary(const char *directory, const struct cf_world *world)
{
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:meta", world->name_space);
    return redis_ask_in(directory, "EXISTS %s", key);
}

/* G1, G2, G5, issue 4: the primary moves in good order, and then dies: the node follows both times, its
 * run goes on under its token, and later tokens are larger. */
static void test_follows_the_primary(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open_at(world, "node", url, LEASE_MS, CF_TIMEOUT_MS);
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = grant_at_last(node, &job);
    cf_equal(bytes_of_primary(redis_directory, world), 1);
    begin_failover();
    int64_t deadline_ms = cf_real_mono_ms() + FAILOVER_MS;
    do { /* the old primary has become a replica */
        cf_equal(renew_at_last(node, run.token), JOBSCHED_LEASE_KEPT);
        cf_true(cf_real_mono_ms() < deadline_ms);
    } while (!says(redis_directory, "INFO replication", "role:slave"));
    cf_equal(renew_at_last(node, run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    jobsched_claim next = grant_at_last(node, &job);
    cf_true(next.token > run.token);
    await_replica();
    cf_equal(redis_script("kill", second, ""), 0);
    cf_equal(renew_at_last(node, next.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_true(grant_at_last(node, &job).token > next.token);
    cf_true(strstr(redis_notices, "main, of sentinel 127.0.0.1") != NULL);
}

/* Issue 4: sentinels that are away or hang do not keep the others from being asked; what is wrong is
 * named. */
static void test_asks_one_sentinel_after_the_other(void **state)
{
    struct cf_world *world = *state;
    char many[REDIS_TEXT_BYTES], address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", sentinel_port);
    proxy *hangs = proxy_start(NULL, address);
    cf_true(hangs != NULL);
    proxy_set(hangs, PROXY_HOLE);
    (void)snprintf(many, sizeof many, "redis://127.0.0.1:%d,127.0.0.1:%d,%s/0?sentinel=main",
                   redis_free_port(), proxy_port(hangs), address);
    int64_t before_ms = cf_real_mono_ms();
    cf_equal(redis_try_url(world, many, OPEN_MS), JOBSCHED_OK);
    cf_true(cf_real_mono_ms() - before_ms < OPEN_MS + 10000);
    (void)snprintf(many, sizeof many, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main/0",
                   redis_free_port(), proxy_port(hangs));
    before_ms = cf_real_mono_ms();
    cf_equal(redis_try_url(world, many, 500), JOBSCHED_EUNREACHABLE);
    cf_true(cf_real_mono_ms() - before_ms < 10000);
    redis_expect_message("none of 2 sentinels tells where primary 'main' is");
    proxy_stop(hangs);
    (void)snprintf(many, sizeof many, "redis+sentinel://%s/other", address);
    cf_equal(redis_try_url(world, many, OPEN_MS), JOBSCHED_EUNREACHABLE);
    redis_expect_message("knows no primary 'other'");
}

/* Issue 4: sentinels with a password of their own, which is not the primary's. */
static void test_sentinel_password(void **state)
{
    struct cf_world *world = *state;
    char with[REDIS_TEXT_BYTES];
    (void)redis_ask_in(watcher, "ACL SETUSER default resetpass >geheim");
    cf_equal(redis_try_url(world, url, OPEN_MS), JOBSCHED_EACCESS);
    (void)snprintf(with, sizeof with, "%s?sentinel_password=falsch", url);
    cf_equal(redis_try_url(world, with, OPEN_MS), JOBSCHED_EACCESS);
    redis_expect_no_message("falsch");
    (void)snprintf(with, sizeof with, "%s?sentinel_user=default&sentinel_password=geheim", url);
    cf_equal(redis_try_url(world, with, OPEN_MS), JOBSCHED_OK);
}

int main(void)
{
#define SENTINEL_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SENTINEL_TEST(test_follows_the_primary),
        SENTINEL_TEST(test_asks_one_sentinel_after_the_other),
        SENTINEL_TEST(test_sentinel_password),
    };
    /* hiredis raises it where the failover ends this test's own connections; the library does not. */
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
