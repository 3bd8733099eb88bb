/* test_frozen_calls.c: every operation of a backend while its server is frozen (SIGSTOP): the
 * connections stay, the kernel takes what is sent, new connections are made, and nothing is
 * answered. The server is this test's own.
 *   test_frozen_calls postgresql|redis */
#include "cf_support.h"

#include "cluster/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What a call may take beyond its time on a busy machine. It is less than the request timeout of
 * the handle, which only open() may take. */
enum { CALL_MS = 200, SLACK_MS = 15000 };

static server frozen;

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    (void)data;
    (void)snprintf(out_url, out_bytes, "%s", frozen.url);
    return 0;
}

static int visit_finding(const jobsched_finding *finding, void *data)
{
    (void)finding;
    (void)data;
    return 0;
}

static int visit_run(const jobsched_run_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int visit_job(const jobsched_job_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int visit_node(const jobsched_node_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static int visit_check(const jobsched_check_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

/* ---- one call of each operation ---- */

struct given {
    struct cf_job job; /* its first occurrence is due */
    uint64_t token;    /* of this node's run of "runs" */
};

static int do_announce(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    (void)given;
    jobsched_announcement item = {.job = "new", .definition = "d"};
    return node->driver->announce(node->backend, call, &item, 1);
}

static int do_claim(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    jobsched_claim item = cf_at(&given->job, 1);
    return node->driver->claim(node->backend, call, &item, 1);
}

static int do_finish(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    jobsched_finish item = {
        .job = "runs", .note = "", .token = given->token, .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    return node->driver->finish(node->backend, call, &item, 1);
}

static int do_withdraw(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    const char *name = given->job.name;
    return node->driver->withdraw(node->backend, call, &name, 1);
}

static int do_renew(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    jobsched_lease item = {.job = "runs", .note = "", .token = given->token};
    return node->driver->renew(node->backend, call, 0, &item, 1);
}

static int do_reap(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    (void)given;
    return node->driver->reap(node->backend, call, visit_finding, NULL);
}

static int do_control(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    jobsched_command command = {.verb = JOBSCHED_VERB_PAUSE, .job = given->job.name};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    return node->driver->control(node->backend, call, &command, &result);
}

static int do_runs(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    return node->driver->runs(node->backend, call, given->job.name, 10, visit_run, NULL);
}

static int do_find(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    return node->driver->find(node->backend, call, given->job.name, "r", visit_run, NULL);
}

static int do_jobs(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    (void)given;
    return node->driver->jobs(node->backend, call, NULL, visit_job, NULL);
}

static int do_nodes(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    (void)given;
    return node->driver->nodes(node->backend, call, visit_node, NULL);
}

static int do_check(struct cf_node *node, jobsched_call *call, const struct given *given)
{
    (void)given;
    return node->driver->check(node->backend, call, visit_check, NULL);
}

static const struct operation {
    const char *name;
    int lane;
    int (*run)(struct cf_node *node, jobsched_call *call, const struct given *given);
} operations[] = {
    {"announce", JOBSCHED_LANE_CLAIM, do_announce}, {"claim", JOBSCHED_LANE_CLAIM, do_claim},
    {"finish", JOBSCHED_LANE_CLAIM, do_finish},     {"withdraw", JOBSCHED_LANE_CLAIM, do_withdraw},
    {"renew", JOBSCHED_LANE_KEEP, do_renew},        {"reap", JOBSCHED_LANE_KEEP, do_reap},
    {"control", JOBSCHED_LANE_ADMIN, do_control},   {"runs", JOBSCHED_LANE_ADMIN, do_runs},
    {"find", JOBSCHED_LANE_ADMIN, do_find},         {"jobs", JOBSCHED_LANE_ADMIN, do_jobs},
    {"nodes", JOBSCHED_LANE_ADMIN, do_nodes},       {"check", JOBSCHED_LANE_ADMIN, do_check},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* ---- the test ---- */

static void expect_in_time(const struct operation *what, struct cf_node *node,
                           const struct given *given)
{
    jobsched_call call = cf_call(what->lane);
    call.timeout_ms = CALL_MS;
    int64_t began_ms = cf_real_mono_ms();
    int code = what->run(node, &call, given);
    int64_t took_ms = cf_real_mono_ms() - began_ms;
    print_message("%s: %s after %lld ms\n", what->name, jobsched_code_name(code),
                  (long long)took_ms);
    int may_change = what->lane != JOBSCHED_LANE_ADMIN || what->run == do_control;
    if ((code != JOBSCHED_EUNKNOWN || !may_change) && code != JOBSCHED_EUNREACHABLE) {
        fail_msg("%s answers %s: %s", what->name, jobsched_code_name(code),
                 jobsched_last_error()->message);
    }
    if (took_ms > CALL_MS + SLACK_MS) {
        fail_msg("%s took %lld ms", what->name, (long long)took_ms);
    }
}

/* G8, G11: each operation returns within its time, as unreachable or, where it may have changed
 * something (readers never do), of unknown outcome: the first
 * time on a connection that there is, the second time after that has been given up. So each has a
 * node of its own. */
static void test_each_call_keeps_its_time(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *nodes[OPERATIONS];
    struct given given[OPERATIONS];
    static char names[OPERATIONS][16];
    for (size_t i = 0; i < OPERATIONS; i++) {
        nodes[i] = cf_open(world, operations[i].name);
        (void)snprintf(names[i], sizeof names[i], "job-%zu", i);
        struct cf_job runs = cf_job(nodes[i], "runs", (int64_t)i + 1);
        given[i].job = cf_job(nodes[i], names[i], 1);
        jobsched_claim claim = cf_at(&runs, (int64_t)i + 1);
        claim.after_ms = runs.mark_ms;
        claim.when_held = JOBSCHED_HELD_ALLOW;
        cf_ask(nodes[i], &claim);
        cf_answer(claim, GRANTED);
        given[i].token = claim.token;
        cf_equal(cf_renew(nodes[i], "runs", claim.token), JOBSCHED_LEASE_KEPT);
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        cf_ok(do_jobs(nodes[i], &call, &given[i]));
    }
    server_freeze(&frozen);
    for (size_t i = 0; i < OPERATIONS; i++) {
        expect_in_time(&operations[i], nodes[i], &given[i]);
        expect_in_time(&operations[i], nodes[i], &given[i]);
    }
    server_thaw(&frozen);
}

static int set_up(void **state)
{
    static jobsched_conformance_subject subject = {.make_url = make_url,
                                                   .death_bound_ms = JOBSCHED_NONE};
    subject.driver =
        frozen.kind == SERVER_REDIS ? jobsched_backend_redis() : jobsched_backend_postgresql();
    return cf_setup(state, &subject);
}

static int tear_down(void **state)
{
    server_thaw(&frozen);
    return cf_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_call_keeps_its_time, set_up, tear_down),
    };
    char directory[64];
    (void)snprintf(directory, sizeof directory, "/tmp/jfc-%ld", (long)getpid());
    int kind = argc == 2 ? server_kind_of(argv[1]) : -1;
    if (kind != SERVER_POSTGRESQL && kind != SERVER_REDIS) {
        (void)fprintf(stderr, "usage: %s postgresql|redis\n", argv[0]);
        return 2;
    }
    if (!server_make(&frozen, kind, directory, "")) {
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    server_remove(&frozen);
    return failures == 0 ? 0 : 1;
}
