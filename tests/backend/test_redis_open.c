/* test_redis_open.c: what the redis: backend accepts, refuses and warns of when it is opened. */
#include "redis_support.h"

#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* What docs/backends.md says that a user needs. */
#define RIGHTS                                                                                     \
    "~{jobsched:* &{jobsched:* +info +config|get +evalsha +script|load +publish +subscribe "       \
    "+time +get +set +del +exists +pexpire "                                                       \
    "+hget +hmget +hset +hdel +hgetall +hexists +hlen +hkeys +hincrby +hscan "                     \
    "+sadd +srem +smembers +scard +sismember +sunionstore "                                        \
    "+zadd +zrem +zcard +zcount +zrange +zrangebyscore +zrangebylex +zrevrange "                   \
    "+zrevrangebyscore +zremrangebyrank +zpopmin +zscan"

/* G8: a URL that is not understood is refused by name, and its password is not repeated. */
static void test_open_bad_url_never_shows_the_password(void **state)
{
    static const char *const urls[] = {
        "redis://u:geheim@host:0", "redis://u:geheim@host:x", "redis://u:geheim@host:70000",
        "redis://u:geheim@host/zwei", "redis://u:geheim@host?nonsense=1", "redis://u:geheim%@host",
        "redis://u:geheim%00@host", "redis://u:geheim@[::1", "redis://u:geheim@",
        "redis://u:geheim@host?socket=/s", "redis://:geheim@?socket=s", "rediss://u:geheim@host",
        "redis:u:geheim@host",
        /* '@host' is forgotten */
        "redis://:geheim", "redis://u:geheim", "redis://u:geheim/0", "redis://u:1geheim/0",
        "redis://u:ge?heim=geheim", "redis://u:1?geheim=1", "redis://u:1,[geheim",
        "redis://u:1/geheim", "redis://u:1?geheim", "redis://:geheim?socket=/s",
        "redis+sentinel://u:geheim/main", "redis+sentinel://u:geheim,b/main/0",
        "redis://u:geheim?sentinel=main"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        cf_equal(redis_try_url(*state, urls[i], 1000), JOBSCHED_EINVAL);
        redis_expect_no_message("geheim");
    }
    (void)redis_try_url(*state, "redis://app:geheim", 1000);
    redis_expect_message("is '@host' missing");
    (void)redis_try_url(*state, "redis://:31337", 1000);
    redis_expect_message("is '@host' missing");
    redis_expect_no_message("31337");
    (void)redis_try_url(*state, "redis://u:p@host?nonsense=1", 1000);
    redis_expect_message("'nonsense'"); /* behind '@' it cannot be a password */
    (void)redis_try_url(*state, "redis:///run/redis.sock", 1000);
    redis_expect_message("redis://?socket=/path");
    (void)redis_try_url(*state, "rediss://host", 1000);
    redis_expect_message("TLS");
}

static void url_with(char *out, const char *user, const char *rest)
{
    (void)snprintf(out, REDIS_TEXT_BYTES, "redis://%s?socket=%s/redis.sock%s", user,
                   redis_directory, rest);
}

/* Issue 4: rights have a class of their own, and the password is never told. */
static void test_open_with_password(void **state)
{
    char url[REDIS_TEXT_BYTES];
    redis_restart("kill", "requirepass=ge:heim@1");
    url_with(url, "", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
    url_with(url, ":falsch@", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
    redis_expect_no_message("falsch");
    url_with(url, ":ge%3Aheim%401@", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_OK);
    url_with(url, "default:ge:heim%401@", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_OK);
}

static int ignore_job(const jobsched_job_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int ignore_node(const jobsched_node_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int ignore_check(const jobsched_check_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int ignore_run(const jobsched_run_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static void ask_all(struct cf_node *node)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->jobs(node->backend, &call, NULL, ignore_job, NULL));
    cf_ok(node->driver->nodes(node->backend, &call, ignore_node, NULL));
    cf_ok(node->driver->find(node->backend, &call, "job", "r", ignore_run, NULL));
    cf_ok(node->driver->check(node->backend, &call, ignore_check, NULL));
}

/* Issue 4: a user with the documented rights can do all, one without is told which is missing. */
static void test_open_as_user(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES], command[1024];
    (void)redis_ask("ACL SETUSER poor on >geheim ~* +info +ping");
    url_with(url, "poor:geheim@", "");
    cf_equal(redis_try_url(world, url, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
    redis_expect_message("rights");
    (void)redis_ask("ACL SETUSER elsewhere on >geheim ~other:* +@all");
    url_with(url, "elsewhere:geheim@", "");
    cf_equal(redis_try_url(world, url, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
    (void)snprintf(command, sizeof command,
                   "ACL SETUSER plain on >geheim resetkeys resetchannels -@all %s", RIGHTS);
    (void)redis_ask(command);
    (void)redis_ask("ACL LOG RESET");
    url_with(url, "plain:geheim@", "");
    struct cf_node *node = redis_open_at(world, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    struct cf_found found[2];
    cf_equal(cf_reap(node, found, 2), 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    struct cf_row rows[3];
    cf_equal(cf_rows(node, NULL, rows, 3), 2);
    ask_all(node);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    const char *withdrawn = "job";
    cf_ok(node->driver->withdraw(node->backend, &call, &withdrawn, 1));
    cf_equal(redis_ask("ACL LOG"), 0); /* nothing was denied, also where it would not matter */
}

/* Issue 4: each right is asked for at the start, and told by name: never in the middle of a step. */
static void test_open_names_the_missing_right(void **state)
{
    static const char *const commands[] = {"get",
                                           "set",
                                           "del",
                                           "exists",
                                           "pexpire",
                                           "hget",
                                           "hmget",
                                           "hset",
                                           "hdel",
                                           "hgetall",
                                           "hexists",
                                           "hlen",
                                           "hkeys",
                                           "hincrby",
                                           "hscan",
                                           "sadd",
                                           "srem",
                                           "smembers",
                                           "scard",
                                           "sismember",
                                           "zadd",
                                           "zrem",
                                           "zcard",
                                           "zcount",
                                           "zrange",
                                           "zpopmin",
                                           "zscan",
                                           "zrangebylex",
                                           "zrangebyscore",
                                           "zrevrange",
                                           "zrevrangebyscore",
                                           "zremrangebyrank",
                                           "sunionstore"};
    char url[REDIS_TEXT_BYTES], command[1024], named[40];
    url_with(url, "plain:geheim@", "");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        (void)snprintf(command, sizeof command,
                       "ACL SETUSER plain on >geheim resetkeys resetchannels -@all %s -%s", RIGHTS,
                       commands[i]);
        (void)redis_ask(command);
        cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
        (void)snprintf(named, sizeof named, "'%s'", commands[i]);
        for (char *at = named; *at != '\0'; at++) {
            *at = (char)toupper((unsigned char)*at);
        }
        redis_expect_message(named);
        redis_expect_message("rights that are needed");
    }
    cf_equal(redis_keys(), 0);
}

/* Issue 4: a replica takes no writes, so it is refused at once, and by name. */
static void test_open_refuses_a_replica(void **state)
{
    (void)redis_ask("REPLICAOF 127.0.0.1 1");
    char url[REDIS_TEXT_BYTES];
    url_with(url, "", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EREFUSED);
    redis_expect_message("replica");
    (void)redis_ask("REPLICAOF NO ONE");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_OK);
}

/* Issue 4: Redis Cluster is refused by name. */
static void test_open_refuses_a_cluster(void **state)
{
    char settings[128], url[REDIS_TEXT_BYTES];
    int port = redis_free_port();
    (void)snprintf(settings, sizeof settings,
                   "cluster-enabled=yes port=%d cluster-port=%d cluster-config-file=nodes.conf",
                   port, redis_free_port());
    redis_restart("kill", settings);
    url_with(url, "", "");
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EREFUSED);
    redis_expect_message("Cluster");
}

/* Issue 4: what may lose marks is said when the store is opened. */
static void test_open_warns_of_what_may_be_lost(void **state)
{
    struct cf_world *world = *state;
    (void)redis_ask("CONFIG SET maxmemory-policy allkeys-lru");
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_OK);
    cf_true(strstr(redis_notices, "backend.warning: the server ") == redis_notices);
    cf_true(strstr(redis_notices, "allkeys-lru") != NULL);
    cf_true(strstr(redis_notices, "'appendonly' is off") != NULL);
    cf_equal(redis_notice_count, 2);
    redis_restart("kill", "appendonly=yes");
    redis_notice_count = 0;
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_OK);
    cf_equal(redis_notice_count, 0);
}

/* Two databases of one server are two stores. */
static void test_open_database_number(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES];
    url_with(url, "", "&db=3");
    struct cf_node *third = redis_open_at(world, "third", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    struct cf_node *first = redis_open(world, "first", CF_LEASE_MS);
    (void)cf_announce(third, "job", "d", 0);
    cf_equal(cf_control(first, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_ENOTFOUND);
    (void)snprintf(url, sizeof url, "redis:///3?socket=%s/redis.sock", redis_directory);
    struct cf_node *again = redis_open_at(world, "again", url, CF_LEASE_MS, CF_TIMEOUT_MS);
    cf_ok(cf_control(again, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    url_with(url, "", "&db=9999");
    cf_equal(redis_try_url(world, url, CF_TIMEOUT_MS), JOBSCHED_EINVAL);
}

/* TCP, by address and by name. */
static void test_open_over_tcp(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    char settings[64], url[REDIS_TEXT_BYTES];
    int port = redis_free_port();
    (void)snprintf(settings, sizeof settings, "port=%d", port);
    redis_restart("kill", settings);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(url, sizeof url, "redis://%s:%d/0", hosts[i], port);
        struct cf_node *node = redis_open_at(*state, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
        (void)cf_job(node, "job", 2);
    }
}

/* G11: a server that is not there, or does not answer, costs no more than the time of the call. */
static void test_open_keeps_its_deadline(void **state)
{
    struct cf_world *world = *state;
    char url[REDIS_TEXT_BYTES];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis_free_port());
    cf_equal(redis_try_url(world, url, CF_TIMEOUT_MS), JOBSCHED_EUNREACHABLE);
    redis_expect_message("127.0.0.1");
    cf_equal(redis_try_url(world, "redis://?socket=/tmp/no-such-socket", CF_TIMEOUT_MS),
             JOBSCHED_EUNREACHABLE);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cf_equal(bind(silent, (struct sockaddr *)&address, sizeof address), 0);
    cf_equal(listen(silent, 1), 0);
    cf_equal(getsockname(silent, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(url, sizeof url, "redis://:geheim@127.0.0.1:%d", ntohs(address.sin_port));
    int64_t before_ms = cf_real_mono_ms();
    cf_equal(redis_try_url(world, url, 300), JOBSCHED_EUNREACHABLE);
    int64_t took_ms = cf_real_mono_ms() - before_ms;
    (void)close(silent);
    cf_true(took_ms >= 290 && took_ms < CF_TIMEOUT_MS / 2);
    redis_expect_no_message("geheim");
}

/* G16: a newer layout is refused, when opening and later. */
static void test_open_refuses_a_newer_layout(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:meta", world->name_space);
    (void)redis_ask("HSET %s version 2", key);
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_ESCHEMA);
    redis_expect_message("'2'");
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0), JOBSCHED_ESCHEMA);
    (void)redis_ask("HSET %s version 1", key);
    (void)cf_now(node);
}

/* A failed open leaves no node behind. */
static void test_open_that_fails_leaves_no_node(void **state)
{
    struct cf_world *world = *state;
    int64_t before = redis_keys();
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_OK);
    cf_equal(redis_keys(), before + 1); /* the store itself */
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_open_bad_url_never_shows_the_password),
        REDIS_TEST(test_open_with_password),
        REDIS_TEST(test_open_as_user),
        REDIS_TEST(test_open_names_the_missing_right),
        REDIS_TEST(test_open_refuses_a_replica),
        REDIS_TEST(test_open_refuses_a_cluster),
        REDIS_TEST(test_open_warns_of_what_may_be_lost),
        REDIS_TEST(test_open_database_number),
        REDIS_TEST(test_open_over_tcp),
        REDIS_TEST(test_open_keeps_its_deadline),
        REDIS_TEST(test_open_refuses_a_newer_layout),
        REDIS_TEST(test_open_that_fails_leaves_no_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
