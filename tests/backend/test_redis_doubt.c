/* test_redis_doubt.c: a server that may have lost what it answered last, and perhaps has not. */
#include "loss_support.h"

#include "backends/redis/store.h"

#include <stdio.h>
#include <unistd.h>

/* G1: what lies further back than the server has run may be forgotten. How long that is must never
 * be overestimated, whatever the server says. */
static void test_uptime_is_rather_too_short(void **state)
{
    static const char nobodys[] = "0000000000000000000000000000000000000000";
    static const char promoted[] = "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb";
    static const struct {
        const char *uptime, *former;
        int64_t expected_ms;
    } rows[] = {
        {"", nobodys, 0},
        {"uptime_in_seconds:\r\n", nobodys, 0},
        {"uptime_in_seconds:word\r\n", nobodys, 0},
        {"uptime_in_seconds:0\r\n", nobodys, 0},
        {"uptime_in_seconds:1\r\n", nobodys, 0}, /* 1.0 to 1.9 minus 0.0 to 0.9 */
        {"uptime_in_seconds:2\r\n", nobodys, 1000},
        {"uptime_in_seconds:86400\r\n", nobodys, 86399000},
        {"uptime_in_seconds:86400\r\n", promoted, 0}, /* nobody knows when */
        {"uptime_in_seconds:86400\r\n", "", 0},
        {"uptime_in_seconds:-5\r\n", nobodys, -6000}, /* its clock was set back */
        {"uptime_in_seconds:-5\r\n", promoted, -6000},
        {"uptime_in_seconds:2147483646\r\n", nobodys, INT64_C(2147483645000)},
        {"uptime_in_seconds:2147483647\r\n", nobodys, 0},
        {"uptime_in_seconds:-2147483647\r\n", nobodys, 0},
        {"uptime_in_seconds:9223372036854775807\r\n", nobodys, 0},
        {"uptime_in_seconds:-9223372036854775808\r\n", nobodys, 0},
        {"uptime_in_seconds:99999999999999999999999999999\r\n", nobodys, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char info[REDIS_TEXT_BYTES];
        (void)snprintf(info, sizeof info, "# Server\r\n%s%s%s\r\n", rows[i].uptime,
                       rows[i].former[0] == '\0' ? "" : "master_replid2:", rows[i].former);
        int64_t uptime_ms = jsi_redis_uptime_ms(info);
        if (uptime_ms != rows[i].expected_ms) {
            fail_msg("%s%s: %lld", rows[i].uptime, rows[i].former, (long long)uptime_ms);
        }
    }
}

/* Somebody who was there and, as if killed, neither leaves nor comes back. */
static void have_been_there(struct cf_world *world)
{
    pid_t child = cf_fork(world);
    if (child == 0) {
        (void)cf_now(redis_open(world, "gone", LOSS_BRIEF_MS));
        _exit(0);
    }
    cf_equal(cf_wait(world, child), 0);
}

/* G1: a server that may have lost the last second, and has not. As long as everybody comes back who
 * was there, what came due meanwhile is granted; where somebody does not, it is unknown. */
static void test_restart_that_may_have_lost(void **state)
{
    struct cf_world *world = *state;
    static const char settings[] = "appendonly=yes appendfsync=everysec";
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LOSS_BRIEF_MS);
    struct cf_job job = cf_job(node, "job", 3);
    redis_restart("stop", settings);
    jobsched_claim claim = loss_claim(&job, 1);
    claim.lease_ms = LOSS_BRIEF_MS;
    cf_true(loss_sit_out(node, &claim) > LOSS_BRIEF_MS / 4);
    cf_answer(claim, GRANTED);
    loss_end(node, &claim);
    cf_true(strstr(redis_notices, "may have lost data") != NULL);
    have_been_there(world);
    redis_restart("stop", settings);
    claim = loss_claim(&job, 2);
    loss_wait_out(node, &claim);
    cf_answer(claim, DONE);
    struct cf_row row;
    cf_true(strstr(cf_newest(node, "job", &row)->note, "unknown") != NULL);
    claim = loss_of_now(node, &job);
    loss_wait_out(node, &claim);
    cf_answer(claim, GRANTED);
}

/* G1: the same in the last part of a second: servers tell in whole seconds for how long they have
 * run, and one that came up 0.1 s ago may say that it was a whole one. */
static void test_restart_late_in_a_second(void **state)
{
    enum { LATE_MS = 850 }; /* most restarts are over in the same second then */
    struct cf_world *world = *state;
    static const char settings[] = "appendonly=yes appendfsync=everysec";
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 0);
    have_been_there(world);
    jobsched_claim claim = loss_of_now(node, &job);
    int64_t second_ms = claim.scheduled_ms - claim.scheduled_ms % 1000 + 1000;
    claim.scheduled_ms = second_ms + LATE_MS;
    cf_wait_until(node, claim.scheduled_ms);
    int64_t next_second_ms = cf_real_mono_ms() + second_ms + 1000 - cf_now(node);
    redis_restart("stop", settings);
    while (cf_real_mono_ms() <= next_second_ms) {
        cf_pause();
    }
    loss_wait_out(node, &claim); /* it may have been granted by a node that did not come back */
    cf_answer(claim, DONE);
}

/* G1: a replica that is promoted may lack what the primary has answered. */
static void test_promoted_replica_is_quarantined(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES], second[64], settings[64];
    int port = redis_free_port();
    (void)snprintf(settings, sizeof settings, "port=%d repl-diskless-sync-delay=0", port);
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(world, "node", LOSS_LEASE_MS);
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
    jobsched_claim run = loss_grant(node, &job, 1);
    (void)snprintf(url, sizeof url, "redis://?socket=%s/redis.sock", second);
    struct cf_node *other = redis_open_at(world, "other", url, LOSS_LEASE_MS, CF_TIMEOUT_MS);
    loss_directory = second;
    jobsched_claim again = loss_claim(&job, 1);
    cf_ok(redis_claim(other, &again, CF_TIMEOUT_MS));
    int answer = again.answer;
    loss_wait_out(other, &again);
    int later = again.answer;
    jobsched_claim next = loss_of_now(other, &job);
    loss_wait_out(other, &next);
    cf_close(world, other);
    cf_equal(redis_script("remove", second, ""), 0);
    cf_equal(answer, JOBSCHED_ANSWER_BUSY);
    cf_equal(later, JOBSCHED_ANSWER_DONE); /* its owner did not come back: unknown */
    cf_answer(next, GRANTED);
    cf_true(next.token > run.token);
}

int main(void)
{
#define REDIS_TEST(function) cmocka_unit_test_setup_teardown(function, loss_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uptime_is_rather_too_short),
        REDIS_TEST(test_restart_that_may_have_lost),
        REDIS_TEST(test_restart_late_in_a_second),
        REDIS_TEST(test_promoted_replica_is_quarantined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
