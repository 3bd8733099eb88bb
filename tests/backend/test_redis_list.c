/* test_redis_list.c: what the redis: backend tells of jobs, nodes, triggers and itself; and handles that
 * only ask. */
#include "redis_support.h"

#include "backends/redis/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEASE_MS = 800, MANY = 450 };

/* ---- copies of what was listed ---- */

struct jobs {
    jobsched_job_record records[MANY];
    char names[MANY][JOBSCHED_NAME_BYTES + 1];
    char texts[MANY][3][64]; /* definition, last node, running node */
    size_t count, stop_at;
};

static int keep_job(const jobsched_job_record *record, void *data)
{
    struct jobs *jobs = data;
    size_t i = jobs->count++;
    if (i < MANY) {
        jobs->records[i] = *record;
        (void)snprintf(jobs->names[i], sizeof jobs->names[i], "%s", record->job);
        (void)snprintf(jobs->texts[i][0], 64, "%s", record->definition);
        (void)snprintf(jobs->texts[i][1], 64, "%s", record->last_node);
        (void)snprintf(jobs->texts[i][2], 64, "%s", record->running_node);
    }
    return jobs->count == jobs->stop_at;
}

static int list_jobs(struct cf_node *node, const char *job, struct jobs *jobs)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    jobs->count = 0;
    return node->driver->jobs(node->backend, &call, job, keep_job, jobs);
}

struct nodes {
    jobsched_node_record records[4];
    char names[4][64], versions[4][64];
    size_t count;
};

static int keep_node(const jobsched_node_record *record, void *data)
{
    struct nodes *nodes = data;
    size_t i = nodes->count++;
    if (i < 4) {
        nodes->records[i] = *record;
        (void)snprintf(nodes->names[i], 64, "%s", record->name);
        (void)snprintf(nodes->versions[i], 64, "%s", record->app_version);
    }
    return 0;
}

static void list_nodes(struct cf_node *node, struct nodes *nodes)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    nodes->count = 0;
    cf_ok(node->driver->nodes(node->backend, &call, keep_node, nodes));
}

static void withdraw(struct cf_node *node, const char *job)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->withdraw(node->backend, &call, &job, 1));
}

/* A handle that enters no node. */
static struct cf_node *open_control(struct cf_world *world, const char *name)
{
    struct cf_node *node = calloc(1, sizeof *node);
    cf_true(node != NULL);
    cf_config(node, world, name, NULL);
    node->config.control_only = 1;
    cf_ok(node->driver->open(&node->config, &node->backend));
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] == NULL) {
            world->nodes[i] = node;
            return node;
        }
    }
    fail();
    return NULL;
}

/* ---- jobs and nodes ---- */

/* G14, issue 5: a job is told with who registers it, who disagrees, what runs, waits and ended. */
static void test_jobs_tell_their_state(void **state)
{
    static struct jobs jobs;
    struct cf_world *world = *state;
    struct cf_node *a = redis_open(world, "a", CF_LEASE_MS),
                   *b = redis_open(world, "b", CF_LEASE_MS);
    struct cf_job job = cf_job(a, "job", 3);
    (void)cf_announce(a, "versioned", "old", 1);
    jobsched_announcement newer = cf_announce(b, "versioned", "new", 2);
    (void)cf_announce(b, "job", "every 1 ms", 0);
    jobsched_claim run = cf_grant(a, &job, 1);
    (void)cf_finish(a, "job", run.token, JOBSCHED_OUTCOME_FAILED);
    jobsched_claim second = cf_grant(b, &job, 2);
    cf_ok(cf_control(a, JOBSCHED_VERB_TRIGGER, "job", "r1", NULL));
    cf_ok(cf_control(a, JOBSCHED_VERB_TRIGGER, "job", "r2", NULL));
    cf_ok(cf_control(a, JOBSCHED_VERB_PAUSE, "versioned", NULL, NULL));
    cf_ok(list_jobs(a, NULL, &jobs));
    cf_equal(jobs.count, 2);
    const jobsched_job_record *seen = &jobs.records[0];
    cf_true(strcmp(jobs.names[0], "job") == 0);
    cf_equal(seen->nodes, 2);
    cf_equal(seen->dissent, 0);
    cf_equal(seen->running, 1);
    cf_equal(seen->waiting, 2);
    cf_equal(seen->token, second.token);
    cf_equal(seen->mark_at_ms, second.scheduled_ms);
    cf_equal(seen->has_last, 1);
    cf_equal(seen->last_outcome, JOBSCHED_OUTCOME_FAILED);
    cf_equal(seen->last_scheduled_at_ms, run.scheduled_ms);
    cf_true(seen->last_finished_at_ms >= seen->last_started_at_ms);
    cf_equal(seen->last_end_at_ms, seen->last_finished_at_ms);
    cf_true(strcmp(jobs.texts[0][1], "a") == 0);
    cf_true(strcmp(jobs.texts[0][2], "b") == 0);
    cf_equal(seen->running_token, second.token);
    cf_true(seen->running_since_at_ms > 0);
    cf_equal(seen->paused, 0);
    seen = &jobs.records[1];
    cf_true(strcmp(jobs.texts[1][0], "new") == 0);
    cf_equal(seen->generation, newer.generation);
    cf_equal(seen->version, 2);
    cf_equal(seen->nodes, 2);
    cf_equal(seen->dissent, 1); /* a still has the old one */
    cf_equal(seen->paused, 1);
    cf_equal(seen->has_last, 0);
    cf_equal(seen->last_end_at_ms, JOBSCHED_NONE);
    /* One of them; none; and orphans. */
    cf_ok(cf_control(a, JOBSCHED_VERB_REMOVE, "versioned", NULL, NULL));
    withdraw(a, "versioned");
    withdraw(b, "versioned");
    withdraw(b, "nobody's");
    cf_ok(list_jobs(a, "versioned", &jobs));
    cf_equal(jobs.count, 1);
    cf_equal(jobs.records[0].removed, 1);
    cf_equal(jobs.records[0].nodes, 0);
    cf_equal(list_jobs(a, "nobody's", &jobs), JOBSCHED_ENOTFOUND);
    cf_close(world, b);
    cf_ok(list_jobs(a, "job", &jobs));
    cf_equal(jobs.records[0].nodes, 1); /* b is gone with what it registered */
    cf_equal(jobs.records[0].last_outcome, JOBSCHED_OUTCOME_INTERRUPTED);
}

/* Issue 5: nodes are told by name, with what they register and run, and are gone when they are. */
static void test_nodes_tell_their_state(void **state)
{
    static struct nodes nodes;
    struct cf_world *world = *state;
    struct cf_node *z = redis_open(world, "z", CF_LEASE_MS),
                   *a = redis_open(world, "a", CF_LEASE_MS);
    struct cf_job job = cf_job(z, "job", 3);
    (void)cf_announce(z, "other", "old", 1);
    (void)cf_announce(a, "other", "new", 2);
    jobsched_claim run = cf_grant(z, &job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(z->driver->renew(z->backend, &call, -90000, NULL, 0));
    list_nodes(a, &nodes);
    cf_equal(nodes.count, 2);
    cf_true(strcmp(nodes.names[0], "a") == 0 && strcmp(nodes.names[1], "z") == 0);
    cf_true(strcmp(nodes.versions[1], "1.0") == 0);
    cf_equal(nodes.records[0].jobs, 1);
    cf_equal(nodes.records[0].dissent, 0);
    cf_equal(nodes.records[1].jobs, 2);
    cf_equal(nodes.records[1].dissent, 1);
    cf_equal(nodes.records[1].runs, 1);
    cf_equal(nodes.records[1].clock_offset_ms, -90000);
    cf_true(nodes.records[1].beat_at_ms >= nodes.records[1].since_at_ms);
    cf_equal(nodes.records[1].beat_at_ms, call.now_ms);
    (void)cf_finish(z, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    cf_close(world, z);
    list_nodes(a, &nodes);
    cf_equal(nodes.count, 1);
}

/* Issue 5: a node that is gone is on no list, and holds up no run there, also when nobody is left who could
 * find it dead. */
static void test_the_last_node_disappears(void **state)
{
    static struct jobs jobs;
    static struct nodes nodes;
    struct cf_world *world = *state;
    struct cf_node *dead = redis_open(world, "dead", LEASE_MS);
    struct cf_job job = cf_job(dead, "job", 1);
    (void)cf_grant(dead, &job, 1);
    struct cf_node *asks = open_control(world, "asks");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    do { /* a busy machine may take longer than the lease */
        cf_true(cf_real_mono_ms() < deadline_ms);
        (void)cf_renew(dead, "job", 1);
        list_nodes(asks, &nodes);
    } while (nodes.count == 0);
    while (nodes.count > 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        list_nodes(asks, &nodes);
    }
    cf_equal(list_jobs(asks, "job", &jobs), JOBSCHED_OK);
    cf_equal(jobs.records[0].nodes, 0);
    cf_equal(jobs.records[0].running, 0);
}

/* G11: listings come in the order of bytes and in parts, whole or cut short by the visitor. */
static void test_jobs_are_listed_in_parts(void **state)
{
    static struct jobs jobs;
    static jobsched_announcement items[MANY];
    static char names[MANY][8];
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    for (int i = 0; i < MANY; i++) {
        /* Bytes of all kinds, in an order of their own; never 0. */
        (void)snprintf(names[i], sizeof names[i], "%c%c", 1 + i * 7 % 255, 1 + i / 255);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
    jobs.stop_at = 0;
    cf_ok(list_jobs(node, NULL, &jobs));
    cf_equal(jobs.count, MANY);
    for (size_t i = 1; i < MANY; i++) {
        cf_true(strcmp(jobs.names[i - 1], jobs.names[i]) < 0);
    }
    jobs.stop_at = 77;
    cf_ok(list_jobs(node, NULL, &jobs));
    cf_equal(jobs.count, 77);
}

/* Without its texts. */
static int keep_run(const jobsched_run_record *record, void *data)
{
    *(jobsched_run_record *)data = *record;
    return 0;
}

/* Issue 5: the row of a trigger, wherever it has come to. */
static void test_find_follows_a_trigger(void **state)
{
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 0);
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    jobsched_run_record seen = {.outcome = -1};
    cf_equal(node->driver->find(node->backend, &call, "job", "r", keep_run, &seen),
             JOBSCHED_ENOTFOUND);
    cf_equal(node->driver->find(node->backend, &call, "nobody's", "r", keep_run, &seen),
             JOBSCHED_ENOTFOUND);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "r", NULL));
    cf_ok(node->driver->find(node->backend, &call, "job", "r", keep_run, &seen));
    cf_equal(seen.outcome, JOBSCHED_OUTCOME_WAITING);
    jobsched_claim run = cf_at(&job, 0);
    run.kind = JOBSCHED_KIND_TRIGGER;
    run.request = "r";
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_ok(node->driver->find(node->backend, &call, "job", "r", keep_run, &seen));
    cf_equal(seen.outcome, JOBSCHED_OUTCOME_RUNNING);
    cf_equal(seen.token, run.token);
    (void)cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_TIMED_OUT);
    cf_ok(node->driver->find(node->backend, &call, "job", "r", keep_run, &seen));
    cf_equal(seen.outcome, JOBSCHED_OUTCOME_TIMED_OUT);
}

/* ---- the ledger of all jobs ---- */

struct ids {
    int64_t scheduled_ms[3 * MANY];
    uint64_t tokens[3 * MANY];
    size_t count;
};

static int keep_id(const jobsched_run_record *record, void *data)
{
    struct ids *ids = data;
    if (ids->count < 3 * MANY) {
        ids->scheduled_ms[ids->count] = record->scheduled_at_ms;
        ids->tokens[ids->count] = (uint64_t)strtoul(record->job + 1, NULL, 10);
    }
    ids->count++;
    return 0;
}

/* G11: the rows of all jobs, newest first, in pages that are put together from parts: each once. */
static void test_runs_of_all_jobs(void **state)
{
    enum { ROUNDS = 3 };
    static jobsched_announcement items[MANY];
    static jobsched_claim claims[MANY];
    static jobsched_finish ends[MANY];
    static char names[MANY][16];
    static struct ids ids;
    static char seen[MANY][ROUNDS];
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "j%d", i);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
    cf_wait_until(node, items[MANY - 1].mark_ms + ROUNDS + 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++) {
            struct cf_job job = {names[i], items[i].generation, items[i].mark_ms};
            claims[i] = cf_at(&job, round + 1);
        }
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claims, MANY));
        for (int i = 0; i < MANY; i++) {
            cf_answer(claims[i], GRANTED);
            ends[i] = (jobsched_finish){.job = names[i],
                                        .note = "",
                                        .token = claims[i].token,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        if (round + 1 < ROUNDS) { /* the last ones go on */
            cf_ok(node->driver->finish(node->backend, &call, ends, MANY));
        }
    }
    for (int i = 0; i < 300; i++) { /* and some wait */
        char request[16];
        (void)snprintf(request, sizeof request, "r%d", i);
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "j7", request, NULL));
    }
    call = cf_call(JOBSCHED_LANE_ADMIN);
    ids.count = 0;
    cf_ok(node->driver->runs(node->backend, &call, NULL, 2000, keep_id, &ids));
    cf_equal(ids.count, ROUNDS * MANY + 300);
    ids.count = 0;
    cf_ok(node->driver->runs(node->backend, &call, NULL, 300 + MANY + 10, keep_id, &ids));
    cf_equal(ids.count, 300 + MANY + 10);
    for (size_t i = 0; i < 300; i++) {
        cf_equal(ids.tokens[i], 7); /* the newest rows are the triggers' */
    }
    for (size_t i = 300; i < 300 + MANY; i++) { /* then those of the last round, backwards */
        cf_equal(ids.tokens[i], MANY - 1 - (i - 300));
    }
    cf_equal(ids.tokens[300 + MANY], MANY - 1);
    ids.count = 0;
    cf_ok(node->driver->runs(node->backend, &call, "j7", 2000, keep_id, &ids));
    cf_equal(ids.count, ROUNDS + 300);
}

/* ---- handles that only ask ---- */

/* G6, G16: a handle that only asks and commands is no node, is not waited for, and leaves nothing. */
static void test_control_only_is_no_node(void **state)
{
    static struct nodes nodes;
    static struct jobs jobs;
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 2);
    int64_t keys = redis_keys();
    struct cf_node *control = open_control(world, "operator");
    cf_ok(cf_control(control, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
    cf_ok(cf_control(control, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    list_nodes(control, &nodes);
    cf_equal(nodes.count, 1);
    cf_true(strcmp(nodes.names[0], "node") == 0);
    jobs.stop_at = 0;
    cf_ok(list_jobs(control, NULL, &jobs));
    cf_equal(jobs.records[0].nodes, 1);
    cf_equal(redis_keys(), keys + 1); /* the ledger's row; what is the handle's own expires */
    cf_equal(control->driver->watch(control->backend), -1);
    cf_close(world, control);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:n:*", world->name_space);
    cf_equal(redis_ask("KEYS %s", key), 1);
}

/* G6: what it has asked on an older connection is refused when it arrives late, as a node's is; also
 * after its record has expired. */
static void test_control_only_enters_again(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    (void)cf_job(node, "job", 0);
    struct cf_node *control = open_control(world, "operator");
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:n:%s", world->name_space, control->id);
    cf_true(redis_ask("PTTL %s", key) > 0);
    cf_equal(redis_ask("DEL %s", key), 1);
    cf_ok(cf_control(control, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_true(redis_ask("PTTL %s", key) > 0);
    (void)redis_ask("CLIENT KILL TYPE normal SKIPME yes");
    cf_ok(cf_control(control, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
}

/* ---- registrations ---- */

/* G16: what a node registers expires, is told again when the store has forgotten it, and conflicts are
 * told to whoever makes one. */
static void test_registrations_heal(void **state)
{
    static struct jobs jobs;
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    (void)cf_job(node, "job", 0);
    char key[REDIS_TEXT_BYTES];
    (void)snprintf(key, sizeof key, "{jobsched:%s}:r:%s", world->name_space, node->id);
    cf_true(redis_ask("PTTL %s", key) > 3600000);
    cf_equal(redis_ask("DEL %s", key), 1); /* as when the server's clock has stepped forward */
    (void)cf_now(node);
    (void)cf_now(node);
    jobs.stop_at = 0;
    cf_ok(list_jobs(node, "job", &jobs));
    cf_equal(jobs.records[0].nodes, 1);
    cf_equal(cf_announce(node, "v", "one", 5).conflict, 0);
    cf_equal(cf_announce(node, "v", "one", 5).conflict, 0);
    cf_equal(cf_announce(node, "v", "two", 5).conflict, 1);
    cf_equal(cf_announce(node, "v", "three", 6).conflict, 0);
    cf_equal(cf_announce(node, "v", "two", 5).conflict, 0); /* lower: it stands down */
    cf_equal(cf_announce(node, "w", "one", 0).conflict, 0);
    cf_equal(cf_announce(node, "w", "two", 0).conflict, 0);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_jobs_tell_their_state),    REDIS_TEST(test_nodes_tell_their_state),
        REDIS_TEST(test_the_last_node_disappears), REDIS_TEST(test_jobs_are_listed_in_parts),
        REDIS_TEST(test_find_follows_a_trigger),   REDIS_TEST(test_runs_of_all_jobs),
        REDIS_TEST(test_control_only_is_no_node),  REDIS_TEST(test_control_only_enters_again),
        REDIS_TEST(test_registrations_heal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
