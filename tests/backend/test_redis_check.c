/* test_redis_check.c: what doctor finds in a redis: store, each finding by its id and level (issue
 * 5), on a server whose settings and users are changed. */
#include "checks.h"
#include "redis_support.h"

#include <stdio.h>
#include <stdlib.h>

static char replica[80];

static int set_up(void **state)
{
    int result = redis_set_up(state);
    (void)snprintf(replica, sizeof replica, "%s-replica", redis_directory);
    return result;
}

static int tear_down(void **state)
{
    (void)redis_script("remove", replica, "");
    return redis_tear_down(state);
}

/* What is well, and what to mend of settings. */
static void test_check_tells_what_to_mend(void **state)
{
    struct checks checks;
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    checks_read(node, &checks);
    checks_expect(&checks, "1 redis.server: '");
    checks_expect(&checks, "1 redis.eviction: 'maxmemory-policy' is 'noeviction'");
    checks_expect(&checks, "1 redis.memory: ");
    checks_expect(&checks, "3 redis.persistence: the server keeps nothing on disk");
    checks_expect(&checks, "1 redis.replication: the server has no replicas");
    checks_expect(&checks, "1 redis.data: the store has lost nothing");
    checks_expect(&checks, "1 redis.push: changes are pushed");
    cf_equal(checks.count, 7);
    (void)redis_ask("CONFIG SET maxmemory-policy volatile-ttl");
    (void)redis_ask("CONFIG SET save %s", "3600 1");
    (void)redis_ask("CONFIG SET maxmemory 100mb");
    checks_read(node, &checks);
    checks_expect(&checks, "3 redis.eviction: 'maxmemory-policy' is 'volatile-ttl'");
    checks_expect(&checks, "2 redis.persistence: the server keeps snapshots only");
    (void)redis_ask("CONFIG SET appendonly yes");
    checks_read(node, &checks);
    checks_expect(&checks, "1 redis.persistence: 'appendfsync' is 'everysec'");
    (void)redis_ask("CONFIG SET appendfsync always");
    (void)redis_ask("CONFIG SET maxmemory 0");
    (void)redis_ask("CONFIG SET maxmemory-policy noeviction");
    checks_read(node, &checks);
    checks_expect(&checks, "1 redis.persistence: every write is on disk before it is answered");
    cf_equal(checks.level, JOBSCHED_LEVEL_INFO);
}

/* G1: data that is lost is told while nothing is granted because of it, and afterwards. */
static void test_lost_data_is_told(void **state)
{
    struct cf_world *world = *state;
    struct checks checks;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    (void)redis_ask("FLUSHALL");
    (void)cf_now(node);
    checks_read(node, &checks);
    checks_expect(&checks,
                  "2 redis.data: data was lost, or may have been: nothing is granted for another");
    cf_equal(cf_control(node, JOBSCHED_VERB_PAUSE, "nobody's", NULL, NULL), JOBSCHED_ENOTFOUND);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:meta", world->name_space);
    (void)redis_ask("HSET %s quarantine 1", key); /* it is over */
    checks_read(node, &checks);
    checks_expect(&checks,
                  "1 redis.data: in 1 cases data was lost or may have been, the last one ");
}

/* G8: a full server grants nothing, so it is told at nine tenths. */
static void test_little_memory(void **state)
{
    struct checks checks;
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    char info[8192];
    redis_text(info, sizeof info, "INFO memory");
    const char *used = strstr(info, "used_memory:");
    cf_true(used != NULL);
    long long used_bytes = strtoll(used + sizeof "used_memory:" - 1, NULL, 10);
    cf_true(used_bytes > 100000);
    /* The server's own use goes up and down by some percent meanwhile. */
    (void)redis_ask("CONFIG SET maxmemory %lld", used_bytes * 100 / 95);
    checks_read(node, &checks);
    checks_expect(&checks, "2 redis.memory: ");
    checks_contain(&checks, "of 'maxmemory' are used: when it is full nothing is granted");
    (void)redis_ask("CONFIG SET maxmemory %lld", used_bytes * 100 / 75);
    checks_read(node, &checks);
    checks_expect(&checks, "1 redis.memory: ");
}

static void await_good_replica(void)
{
    char info[8192];
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    do {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        redis_text(info, sizeof info, "INFO replication");
    } while (strstr(info, "min_slaves_good_slaves:1") == NULL);
}

/* A primary that is cut off from its replicas must not go on granting. */
static void test_replicas(void **state)
{
    struct checks checks;
    char settings[160];
    int port = redis_free_port();
    (void)snprintf(settings, sizeof settings, "port=%d", port);
    redis_restart("kill", settings);
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    (void)snprintf(settings, sizeof settings, "'replicaof=127.0.0.1 %d'", port);
    cf_equal(redis_script("start", replica, settings), 0);
    checks_await(node, &checks,
                 "2 redis.replication: 1 replicas, and 'min-replicas-to-write' is 0");
    (void)redis_ask("CONFIG SET min-replicas-to-write 1");
    await_good_replica();
    checks_await(node, &checks, "1 redis.replication: 1 replicas, 'min-replicas-to-write' is 1");
    (void)redis_ask("ACL SETUSER default -config|get");
    checks_read(node, &checks);
    checks_expect(&checks,
                  "1 redis.replication: 1 replicas; the user may not ask for 'min-replicas");
}

/* What the user may not ask is told as that, and what it may not push is a warning. */
static void test_missing_rights(void **state)
{
    struct checks checks;
    char url[REDIS_TEXT_BYTES];
    (void)redis_ask("ACL SETUSER plain on >geheim ~* &* +@all -config|get");
    (void)snprintf(url, sizeof url, "redis://plain:geheim@?socket=%s/redis.sock", redis_directory);
    struct cf_node *node = redis_open_at(*state, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    checks_read(node, &checks);
    checks_expect(&checks, "2 redis.persistence: 'appendonly' is off, and the user may not ask for "
                           "'save'");
    checks_expect(&checks, "1 redis.push: ");
    (void)redis_ask("CONFIG SET appendonly yes");
    checks_await(node, &checks,
                 "1 redis.persistence: 'appendonly' is on; the user may not ask for "
                 "'appendfsync'");
    static const char *const lacks[] = {"-publish", "-subscribe", "resetchannels"};
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        (void)redis_ask("ACL SETUSER plain +publish +subscribe allchannels");
        (void)redis_ask("ACL SETUSER plain %s", lacks[i]);
        checks_await(node, &checks,
                     "2 redis.push: the user may not publish or not subscribe: changes are noticed "
                     "at the next heartbeat only");
    }
    (void)redis_ask("ACL SETUSER plain allchannels");
    checks_await(node, &checks, "1 redis.push: changes are pushed");
}

int main(void)
{
#define REDIS_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_check_tells_what_to_mend),
        REDIS_TEST(test_lost_data_is_told),
        REDIS_TEST(test_little_memory),
        REDIS_TEST(test_replicas),
        REDIS_TEST(test_missing_rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
