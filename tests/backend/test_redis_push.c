/* test_redis_push.c: changes are pushed to those who watch; without that everything works, later. */
#include "redis_support.h"

#include "backends/redis/store.h"
#include "support/proxy.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static int is_readable(struct cf_node *node, int wait_ms)
{
    struct pollfd look = {.fd = node->driver->watch(node->backend), .events = POLLIN};
    return look.fd >= 0 && poll(&look, 1, wait_ms) == 1;
}

/* Heartbeats until the node watches. */
static void await_watch(struct cf_node *node)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    do {
        cf_true(cf_real_mono_ms() < deadline_ms);
        (void)cf_now(node);
        cf_pause();
    } while (node->driver->watch(node->backend) < 0);
}

/* What is pushed is taken away by the next heartbeat. */
static void expect_push(struct cf_node *node)
{
    cf_true(is_readable(node, CF_POLL_MS));
    (void)cf_now(node);
    cf_true(!is_readable(node, 0));
}

/* Issue 5: control, triggers, changed definitions and a node that leaves a run are pushed. What
 * changes nothing is not. */
static void test_changes_are_pushed(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", CF_LEASE_MS);
    await_watch(node);
    (void)cf_announce(other, "job", "d", 0);
    cf_true(!is_readable(node, 50)); /* a new job concerns nobody else */
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    expect_push(node);
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_true(!is_readable(node, 50));
    cf_ok(cf_control(other, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    expect_push(node);
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    expect_push(node);
    struct cf_found found[2];
    cf_equal(cf_reap(node, found, 2), 1);
    (void)cf_announce(other, "job", "d", 0);
    cf_true(!is_readable(node, 50));
    (void)cf_announce(other, "job", "e", 0);
    expect_push(node);
    struct cf_job job = cf_job(other, "job2", 2);
    jobsched_claim run = cf_grant(other, &job, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job2", NULL, NULL));
    expect_push(node);
    cf_equal(cf_renew(other, "job2", run.token), JOBSCHED_LEASE_CANCEL);
    cf_close(world, other); /* leaving a run */
    expect_push(node);
    cf_equal(cf_reap(node, found, 2), 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    expect_push(node);
    cf_equal(redis_notice_count, 2); /* of persistence, to each */
}

/* G11: many are taken away as one, and a flood in bounded portions. */
static void test_floods_are_drained(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    await_watch(node);
    char channel[REDIS_TEXT_BYTES];
    static char large[50000];
    memset(large, 'x', sizeof large - 1);
    (void)snprintf(channel, sizeof channel, "{jobsched:%s}:hint", world->name_space);
    for (int i = 0; i < 40; i++) {
        cf_equal(redis_ask("PUBLISH %s %s", channel, large), 1);
    }
    cf_true(is_readable(node, CF_POLL_MS));
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    int beats = 0;
    while (is_readable(node, 50)) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        (void)cf_now(node);
        beats++;
    }
    cf_true(beats > 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "nobody's", NULL, NULL) == JOBSCHED_ENOTFOUND
              ? JOBSCHED_OK
              : JOBSCHED_EINTERNAL);
}

/* G11: a subscription that is lost is made again, quietly; heartbeats go on meanwhile. */
static void test_lost_watch_is_made_again(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", CF_LEASE_MS);
    (void)cf_announce(other, "job", "d", 0);
    await_watch(node);
    int notices = redis_notice_count;
    cf_equal(redis_ask("CLIENT KILL TYPE pubsub"), 1);
    cf_true(is_readable(node, CF_POLL_MS)); /* its end, too: so that it is seen at once */
    (void)cf_now(node);
    await_watch(node);
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    expect_push(node);
    redis_restart("kill", ""); /* the server as a whole */
    await_watch(node);
    (void)cf_announce(other, "job", "d", 0);
    cf_ok(cf_control(other, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    expect_push(node);
    cf_true(redis_notice_count <= notices + 2); /* of the loss, by each, and of nothing else */
}

/* Issue 4: a user who may neither publish nor subscribe is told so once, and all else works. */
static void test_without_the_right_it_works(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES];
    (void)redis_ask("ACL SETUSER plain on >geheim ~{jobsched:* resetchannels +@all -subscribe "
                    "-publish");
    (void)snprintf(url, sizeof url, "redis://plain:geheim@?socket=%s/redis.sock", redis_directory);
    struct cf_node *node = redis_open_at(world, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    int before = redis_notice_count;
    struct cf_job job = cf_job(node, "job", 3);
    for (int i = 0; i < 3; i++) {
        (void)cf_now(node);
        cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
        cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    }
    cf_equal(node->driver->watch(node->backend), -1);
    cf_equal(redis_notice_count, before + 1);
    cf_true(strstr(redis_notices, "backend.warning: the user may not ") != NULL);
    cf_true(strstr(redis_notices, "+publish +subscribe") != NULL);
    jobsched_claim run = cf_grant(node, &job, 1);
    (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    /* The commands, but not the channel: as a user of Redis 7 is made unless told otherwise. */
    (void)redis_ask("ACL SETUSER plain +subscribe +publish");
    struct cf_node *second = redis_open_at(world, "second", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    (void)cf_now(second);
    cf_ok(cf_control(second, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_equal(second->driver->watch(second->backend), -1);
    cf_equal(redis_notice_count, before + 3); /* with that of persistence */
}

/* G5, G11: a push connection that hangs costs no heartbeat more than a moment. */
static void test_hanging_watch_delays_nothing(void **state)
{
    struct cf_world *world = *state;
    char path[128], server[128], url[REDIS_TEXT_BYTES];
    (void)snprintf(path, sizeof path, "%s/proxy.sock", redis_directory);
    (void)snprintf(server, sizeof server, "%s/redis.sock", redis_directory);
    proxy *between = proxy_start(path, server);
    cf_true(between != NULL);
    (void)snprintf(url, sizeof url, "redis://?socket=%s", path);
    struct cf_node *node = redis_open_at(world, "node", url, CF_LEASE_MS, 1000);
    proxy_trap(between, "SUBSCRIBE", PROXY_HOLE_BEFORE_REPLY);
    int64_t before_ms = cf_real_mono_ms();
    (void)cf_now(node);
    int64_t took_ms = cf_real_mono_ms() - before_ms;
    cf_equal(proxy_caught(between), 1);
    cf_true(took_ms >= 200 && took_ms < CF_TIMEOUT_MS / 2);
    await_watch(node);
    cf_close(world, node);
    proxy_stop(between);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_changes_are_pushed),           REDIS_TEST(test_floods_are_drained),
        REDIS_TEST(test_lost_watch_is_made_again),     REDIS_TEST(test_without_the_right_it_works),
        REDIS_TEST(test_hanging_watch_delays_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
