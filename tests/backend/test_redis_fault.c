/* test_redis_fault.c: connections that break at every point of a call, servers that are none or refuse,
 * attempts that fail, and names of any bytes. */
#include "redis_support.h"

#include "backends/redis/store.h"
#include "redis_fake.h"
#include "support/proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static proxy *between;

/* A node whose connections go through a proxy. */
static struct cf_node *open_between(struct cf_world *world)
{
    char path[128], server[128], url[REDIS_TEXT_BYTES];
    (void)snprintf(path, sizeof path, "%s/proxy.sock", redis_directory);
    (void)snprintf(server, sizeof server, "%s/redis.sock", redis_directory);
    between = proxy_start(path, server);
    cf_true(between != NULL);
    (void)snprintf(url, sizeof url, "redis://?socket=%s", path);
    return redis_open_at(world, "node", url, CF_LEASE_MS, CF_TIMEOUT_MS);
}

static void close_between(struct cf_world *world, struct cf_node *node)
{
    cf_close(world, node);
    proxy_stop(between);
}

static const int troubles[] = {PROXY_CUT_BEFORE_REQUEST, PROXY_CUT_AFTER_REQUEST,
                               PROXY_CUT_BEFORE_REPLY, PROXY_CUT_IN_REPLY};
enum { TROUBLES = sizeof troubles / sizeof troubles[0] };

static struct cf_row rows[40];

/* G1, G8: wherever the connection breaks, a claim's outcome is unknown, and asking again gives one
 * grant, one row and one token. */
static void test_claim_that_is_cut(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_between(world);
    struct cf_job job = cf_job(node, "cut-me", TROUBLES + 1);
    uint64_t token = 0;
    for (int64_t k = 1; k <= TROUBLES; k++) {
        proxy_trap(between, "cut-me", troubles[k - 1]);
        jobsched_claim run = cf_at(&job, k);
        cf_equal(redis_claim(node, &run, CF_TIMEOUT_MS), JOBSCHED_EUNKNOWN);
        cf_equal(proxy_caught(between), k);
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        cf_equal(run.token, token + 1);
        cf_equal(run.attempt, 1);
        token = run.token;
        cf_equal(cf_rows(node, "cut-me", rows, 40), k);
        cf_equal(cf_finish(node, "cut-me", token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    }
    close_between(world, node);
}

static int try_finish(struct cf_node *node, uint64_t token, int *out_answer)
{
    jobsched_finish item = {.job = "cut-me",
                            .note = "finish-note",
                            .token = token,
                            .outcome = JOBSCHED_OUTCOME_FAILED,
                            .code = 7};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int code = node->driver->finish(node->backend, &call, &item, 1);
    *out_answer = item.answer;
    return code;
}

/* G9: the same for an end: it is recorded once. */
static void test_finish_that_is_cut(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_between(world);
    struct cf_job job = cf_job(node, "cut-me", TROUBLES + 1);
    for (int64_t k = 1; k <= TROUBLES; k++) {
        jobsched_claim run = cf_grant(node, &job, k);
        int answer = 0;
        proxy_trap(between, "finish-note", troubles[k - 1]);
        cf_equal(try_finish(node, run.token, &answer), JOBSCHED_EUNKNOWN);
        cf_ok(try_finish(node, run.token, &answer));
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
        cf_equal(cf_rows(node, "cut-me", rows, 40), k);
        cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_FAILED);
        cf_equal(rows[0].record.code, 7);
    }
    close_between(world, node);
}

static int ignore(const jobsched_run_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

/* G6: and for control: never success without effect, and a trigger fires once. */
static void test_control_that_is_cut(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_between(world);
    (void)cf_job(node, "cut-me", 0);
    for (int i = 0; i < TROUBLES; i++) {
        char request[32];
        (void)snprintf(request, sizeof request, "request-%d", i);
        proxy_trap(between, request, troubles[i]);
        cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "cut-me", request, NULL),
                 JOBSCHED_EUNKNOWN);
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "cut-me", request, NULL));
        cf_equal(cf_rows(node, "cut-me", rows, 40), i + 1);
    }
    /* Readers change nothing, so nothing is unknown. */
    proxy_trap(between, "cut-me", PROXY_CUT_IN_REPLY);
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_equal(node->driver->runs(node->backend, &call, "cut-me", 10, ignore, NULL),
             JOBSCHED_EUNREACHABLE);
    cf_equal(cf_rows(node, "cut-me", rows, 40), TROUBLES);
    close_between(world, node);
}

static int ignore_finding(const jobsched_finding *finding, void *data)
{
    (void)finding;
    (void)data;
    return 0;
}

/* G11: half-open connections and a network that swallows cost the time of the call and no more. */
static void test_half_open_keeps_its_time(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_between(world);
    struct cf_job job = cf_job(node, "job", 4);
    jobsched_claim run = cf_at(&job, 1);
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            proxy_forget_server(between);
        } else {
            proxy_set(between, PROXY_HOLE);
        }
        int64_t before_ms = cf_real_mono_ms();
        cf_equal(redis_claim(node, &run, 300), JOBSCHED_EUNKNOWN);
        int64_t took_ms = cf_real_mono_ms() - before_ms;
        cf_true(took_ms >= 290 && took_ms < CF_TIMEOUT_MS / 2);
        proxy_set(between, PROXY_OPEN);
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        cf_equal(run.token, 1);
    }
    close_between(world, node);
}

struct hung_claim {
    struct cf_node *node;
    jobsched_claim claim;
    int code;
    _Atomic int is_over;
};

static void *claim_in_vain(void *argument)
{
    struct hung_claim *hung = argument;
    hung->code = redis_claim(hung->node, &hung->claim, CF_TIMEOUT_MS);
    atomic_store(&hung->is_over, 1);
    return NULL;
}

/* G5: renewals, and the looks of the keeper, never wait behind a claim that hangs. */
static void test_renewal_beside_a_claim(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_between(world);
    struct cf_job job = cf_job(node, "job", 2), hangs = cf_job(node, "hang-me", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    struct hung_claim hung = {.node = node, .claim = cf_at(&hangs, 1)};
    proxy_trap(between, "hang-me", PROXY_HOLE_BEFORE_REQUEST);
    pthread_t thread;
    cf_equal(pthread_create(&thread, NULL, claim_in_vain, &hung), 0);
    while (proxy_caught(between) == 0 && !atomic_load(&hung.is_over)) {
        cf_pause();
    }
    int caught = (int)proxy_caught(between), renewals = 0, reaps = 0, answer = 0;
    for (int i = 0; i < 3; i++) {
        jobsched_lease item = {.job = "job", .note = "", .token = run.token};
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        renewals += node->driver->renew(node->backend, &call, 0, &item, 1) == JOBSCHED_OK;
        answer = item.answer;
        call = cf_call(JOBSCHED_LANE_KEEP);
        reaps += node->driver->reap(node->backend, &call, ignore_finding, NULL) == JOBSCHED_OK;
    }
    int was_over = atomic_load(&hung.is_over);
    proxy_cut(between); /* nobody waits for its time to be over */
    (void)pthread_join(thread, NULL);
    cf_equal(caught, 1);
    cf_equal(was_over, 0);
    cf_equal(renewals, 3);
    cf_equal(reaps, 3);
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    cf_equal(hung.code, JOBSCHED_EUNKNOWN);
    cf_ask(node, &hung.claim);
    cf_answer(hung.claim, GRANTED);
    close_between(world, node);
}

/* ---- servers that are none, or refuse ---- */

#define GOOD_INFO                                                                                  \
    "redis_version:7.0.15\r\nrole:master\r\nrun_id:0123\r\ncluster_enabled:0\r\nloading:0\r\n"     \
    "maxmemory_policy:noeviction\r\naof_enabled:1\r\n"

/* Issue 4: each thing that can be wrong at the start has its class, and a text that a person can act
 * on. */
static void test_start_up_texts(void **state)
{
    static const struct {
        const char *info, *other;
        int code;
        const char *text;
    } cases[] = {
        {"redis_version:4.0.14\r\nrole:master\r\n", "+OK", JOBSCHED_EREFUSED,
         "cannot be used: its version '4.0.14' is older than 5.0"},
        {"redis_version:7.0.15\r\nrole:slave\r\n", "+OK", JOBSCHED_EREFUSED,
         "cannot be used: it is a replica, name the primary"},
        {"redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:1\r\n", "+OK", JOBSCHED_EREFUSED,
         "cannot be used: it is part of a Redis Cluster, which is not supported"},
        {"redis_version:7.0.15\r\nrole:master\r\nloading:1\r\n", "+OK", JOBSCHED_EUNREACHABLE,
         "it is still loading its data"},
        {"-LOADING Redis is loading the dataset in memory", "+OK", JOBSCHED_EUNREACHABLE,
         "answers: LOADING Redis is loading the dataset in memory"},
        {"-MASTERDOWN Link with MASTER is down", "+OK", JOBSCHED_EUNREACHABLE,
         "answers: MASTERDOWN"},
        {"-NOAUTH Authentication required.", "+OK", JOBSCHED_EACCESS,
         "give user and password in the lock URL"},
        {"-WRONGPASS invalid username-password pair or user is disabled.", "+OK", JOBSCHED_EACCESS,
         "; correct user and password in the lock URL"},
        {"-ERR max number of clients reached", "+OK", JOBSCHED_EUNREACHABLE,
         "max number of clients reached"},
        {GOOD_INFO, "-MOVED 3999 127.0.0.1:6381", JOBSCHED_EREFUSED,
         "answers: MOVED 3999 127.0.0.1:6381; Redis Cluster is not supported"},
        {GOOD_INFO, "-READONLY You can't write against a read only replica.", JOBSCHED_EREFUSED,
         "; it is a replica, name the primary"},
        {GOOD_INFO, "-NOREPLICAS Not enough good replicas to write.", JOBSCHED_EUNREACHABLE,
         "answers: NOREPLICAS Not enough good replicas to write."},
        {GOOD_INFO, "-OOM command not allowed when used memory > 'maxmemory'.", JOBSCHED_EFULL,
         "; its 'maxmemory' is used up"},
        {GOOD_INFO, "-MISCONF Redis is configured to save RDB snapshots", JOBSCHED_EFULL,
         "; it takes no writes because it cannot save them"},
        {GOOD_INFO, "-BUSY Redis is busy running a script.", JOBSCHED_EUNREACHABLE,
         "answers: BUSY"},
        {GOOD_INFO, "+OK", JOBSCHED_EINTERNAL, "answers otherwise than Redis"},
        {GOOD_INFO, "nonsense", JOBSCHED_EUNREACHABLE, "was lost: Protocol error"},
        /* Parts that never come: for so many no memory is taken. */
        {GOOD_INFO, "*16777217", JOBSCHED_EUNREACHABLE, "was lost: Cannot allocate memory"},
        {GOOD_INFO, "*1\r\n*2147483647", JOBSCHED_EUNREACHABLE, "was lost: Cannot allocate memory"},
    };
    char path[108], url[REDIS_TEXT_BYTES];
    (void)snprintf(path, sizeof path, "%s/fake.sock", redis_directory);
    (void)snprintf(url, sizeof url, "redis://?socket=%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redis_fake fake;
        cf_equal(redis_fake_start(&fake, path, cases[i].info, cases[i].other), 0);
        int code = redis_try_url(*state, url, CF_TIMEOUT_MS);
        redis_fake_stop(&fake);
        cf_equal(code, cases[i].code);
        redis_expect_message(cases[i].text);
    }
    (void)snprintf(url, sizeof url, "redis://?socket=%s/redis.sock/x", redis_directory);
    cf_equal(redis_try_url(*state, url, CF_TIMEOUT_MS), JOBSCHED_EUNREACHABLE);
    redis_expect_message(": Not a directory");
}

/* G8: the real one, when it is full, wants replicas or cannot save: when opening, too. */
static void test_refusals_of_a_real_server(void **state)
{
    struct cf_world *world = *state;
    (void)redis_ask("CONFIG SET maxmemory 1");
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_EFULL);
    redis_expect_message("maxmemory");
    (void)redis_ask("CONFIG SET maxmemory 0");
    (void)redis_ask("CONFIG SET min-replicas-to-write 2");
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_EUNREACHABLE);
    redis_expect_message("NOREPLICAS");
    (void)redis_ask("CONFIG SET min-replicas-to-write 0");
    cf_equal(redis_try_url(world, world->url, CF_TIMEOUT_MS), JOBSCHED_OK);
}

/* G11: a name that is looked up in vain, or for ever, costs the time of the call and no more. */
static void test_look_up_keeps_its_time(void **state)
{
    int64_t before_ms = cf_real_mono_ms();
    cf_equal(redis_try_url(*state, "redis://u:geheim@no-such-host.invalid:1", 400),
             JOBSCHED_EUNREACHABLE);
#ifdef __SANITIZE_THREAD__
    (void)before_ms; /* that build has no bounded look-up (see the backend's CMakeLists.txt) */
#else
    cf_true(cf_real_mono_ms() - before_ms < CF_TIMEOUT_MS / 2);
#endif
    redis_expect_message("no-such-host.invalid");
    redis_expect_no_message("geheim");
}

/* ---- attempts that come to nothing ---- */

/* G16: 10,000 attempts that fail, are refused, cancelled or lost leave no key behind. */
static void test_failed_attempts_leave_nothing(void **state)
{
    enum { MANY = 500, ROUNDS = 20 };
    static jobsched_claim claims[MANY];
    static jobsched_finish ends[MANY];
    static char names[MANY][24];
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 4), paused = cf_job(node, "paused", 4);
    jobsched_claim run = cf_grant(other, &job, 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "paused", NULL, NULL));
    int64_t keys = redis_keys(), all = redis_ask("DBSIZE");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++) {
            (void)snprintf(names[i], sizeof names[i], "nobody-%d-%d", round, i);
            int64_t k = i % 4 == 0 ? 2 : i % 4 == 1 ? 1 : i % 4 == 2 ? 86400000 : 1;
            claims[i] = cf_at(&job, k); /* held, done, early */
            claims[i].job = i % 4 == 3 ? names[i] : "job";
            claims[i].generation += i % 4 == 1 && round % 2 == 0;       /* stale */
            claims[i].after_ms += i % 4 == 0 && round % 2 == 0 ? 1 : 0; /* moved */
            ends[i] = (jobsched_finish){.job = names[i],
                                        .note = "",
                                        .token = 1000 + (uint64_t)i,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claims, MANY));
        for (int i = 0; i < MANY; i++) {
            cf_true(claims[i].answer != JOBSCHED_ANSWER_GRANTED);
        }
        cf_ok(node->driver->finish(node->backend, &call, ends, MANY));
        cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "paused", names[0], NULL),
                 JOBSCHED_ESTATE);
        cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, names[1], "r", NULL), JOBSCHED_ENOTFOUND);
        cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
        jobsched_claim lost = cf_at(&paused, 0);
        (void)redis_ask("CLIENT PAUSE 30 ALL"); /* and calls that are given up */
        (void)redis_claim(node, &lost, 10);
    }
    (void)cf_now(node);
    cf_equal(redis_keys(), keys);
    cf_equal(redis_ask("DBSIZE"), all);
    cf_equal(cf_finish(other, "job", run.token, JOBSCHED_OUTCOME_CANCELLED), JOBSCHED_LEASE_KEPT);
}

/* G5, G9: more runs than go into one step are asserted after a loss, by each lane, and all go on. */
static void test_many_runs_outlive_the_store(void **state)
{
    enum { MANY = 700 };
    static char names[MANY][16];
    static jobsched_announcement items[MANY];
    static jobsched_claim claims[MANY];
    static jobsched_lease leases[MANY];
    static jobsched_finish ends[MANY];
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
    cf_wait_until(node, items[MANY - 1].mark_ms + 1);
    for (int i = 0; i < MANY; i++) {
        struct cf_job job = {names[i], items[i].generation, items[i].mark_ms};
        claims[i] = cf_at(&job, 1);
    }
    cf_ok(node->driver->claim(node->backend, &call, claims, MANY));
    (void)redis_ask("FLUSHALL");
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, names[0], NULL, NULL)); /* lane by lane */
    for (int i = 0; i < MANY; i++) {
        cf_answer(claims[i], GRANTED);
        leases[i] = (jobsched_lease){.job = names[i], .note = "", .token = claims[i].token};
        ends[i] = (jobsched_finish){.job = names[i],
                                    .note = "",
                                    .token = claims[i].token,
                                    .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    }
    call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->renew(node->backend, &call, 0, leases, MANY));
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->finish(node->backend, &call, ends, MANY));
    for (int i = 0; i < MANY; i++) {
        cf_equal(leases[i].answer, JOBSCHED_LEASE_KEPT);
        cf_equal(ends[i].answer, JOBSCHED_LEASE_KEPT);
    }
    cf_equal(cf_rows(node, names[MANY - 1], rows, 40), 1);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
}

/* ---- names ---- */

/* Issue 4: names, requests and notes are bytes: each value but 0, at the end of a long one, too. */
static void test_names_of_any_bytes(void **state)
{
    struct cf_world *world = *state;
    static char names[256][4];
    static char every[JOBSCHED_NAME_BYTES + 1];
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    for (int i = 1; i < 256; i++) {
        names[i][0] = 'x';
        names[i][1] = (char)i;
    }
    for (int i = 0; i < JOBSCHED_NAME_BYTES; i++) {
        every[i] = (char)(i < 100 ? i + 1 : i + 56);
    }
    for (int i = 1; i <= 256; i++) {
        const char *name = i < 256 ? names[i] : every;
        struct cf_job job = cf_job(node, name, 1);
        jobsched_claim run = cf_grant(node, &job, 1);
        cf_equal(cf_renew(node, name, run.token), JOBSCHED_LEASE_KEPT);
        jobsched_finish item = {
            .job = name, .note = name, .token = run.token, .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, &item, 1));
        cf_equal(item.answer, JOBSCHED_LEASE_KEPT);
        char request[JOBSCHED_REQUEST_BYTES + 1];
        (void)snprintf(request, sizeof request, "%s", name);
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, name, request, NULL));
        struct cf_found found[2];
        cf_equal(cf_reap(node, found, 2), 1);
        cf_true(strcmp(found[0].job, name) == 0 && strcmp(found[0].request, request) == 0);
        cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, name, NULL, NULL));
        cf_equal(cf_rows(node, name, rows, 40), 2);
        cf_true(strcmp(rows[1].record.note, name) == 0);
        cf_true(strcmp(rows[0].record.request, request) == 0);
    }
}

/* Namespaces as well; and none is a part of another, whatever their names are. */
static void test_namespaces_of_any_bytes(void **state)
{
    static const char *const spaces[] = {"a", "a}", "a}:meta", "{a}", "a%7D", "a\xff\x01 ", "A"};
    struct cf_world *world = *state;
    struct cf_node *nodes[sizeof spaces / sizeof spaces[0]];
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        struct cf_settings settings = {.name_space = spaces[i]};
        nodes[i] = cf_open_with(world, "node", &settings);
        (void)cf_announce(nodes[i], spaces[i], "d", 0);
        struct cf_row row;
        cf_equal(cf_rows(nodes[i], NULL, &row, 1), 0);
        for (size_t j = 0; j < i; j++) {
            cf_equal(cf_control(nodes[i], JOBSCHED_VERB_PAUSE, spaces[j], NULL, NULL),
                     JOBSCHED_ENOTFOUND);
        }
    }
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_claim_that_is_cut),
        REDIS_TEST(test_finish_that_is_cut),
        REDIS_TEST(test_control_that_is_cut),
        REDIS_TEST(test_half_open_keeps_its_time),
        REDIS_TEST(test_renewal_beside_a_claim),
        REDIS_TEST(test_start_up_texts),
        REDIS_TEST(test_refusals_of_a_real_server),
        REDIS_TEST(test_look_up_keeps_its_time),
        REDIS_TEST(test_failed_attempts_leave_nothing),
        REDIS_TEST(test_names_of_any_bytes),
        REDIS_TEST(test_namespaces_of_any_bytes),
        REDIS_TEST(test_many_runs_outlive_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
