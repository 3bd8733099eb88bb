/* cf_list.c: what a backend tells of the cluster: jobs, nodes, the row of a trigger, and itself;
 * and handles that only ask and command. A backend that lacks an operation (NULL) passes without.
 * What these tests guard is that people and jobschedctl are told the truth (G6, G9, G14). */
#include "cf_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LISTED_MAX 16
#define BOUND_MS   30000

struct listed_job {
    jobsched_job_record record; /* its texts point into the arrays below */
    char job[JOBSCHED_NAME_BYTES + 1], last_node[JOBSCHED_NAME_BYTES + 1];
    char running_node[JOBSCHED_NAME_BYTES + 1], definition[JOBSCHED_DEFINITION_BYTES + 1];
};

struct listed_node {
    jobsched_node_record record; /* its texts point into the arrays below */
    char id[64], name[JOBSCHED_NAME_BYTES + 1], app_version[JOBSCHED_NAME_BYTES + 1];
};

struct list {
    struct listed_job jobs[LISTED_MAX];
    struct listed_node nodes[LISTED_MAX];
    struct cf_row row;
    size_t count;
    int ends; /* what visitors return */
};

static const char *keep(char *into, size_t bytes, const char *text)
{
    (void)snprintf(into, bytes, "%s", text);
    return into;
}

static int take_job(const jobsched_job_record *record, void *user_data)
{
    struct list *list = user_data;
    if (list->count < LISTED_MAX) {
        struct listed_job *job = &list->jobs[list->count];
        job->record = *record;
        job->record.job = keep(job->job, sizeof job->job, record->job);
        job->record.definition = keep(job->definition, sizeof job->definition, record->definition);
        job->record.last_node = keep(job->last_node, sizeof job->last_node, record->last_node);
        job->record.running_node =
            keep(job->running_node, sizeof job->running_node, record->running_node);
    }
    list->count++;
    return list->ends;
}

static int take_node(const jobsched_node_record *record, void *user_data)
{
    struct list *list = user_data;
    if (list->count < LISTED_MAX) {
        struct listed_node *node = &list->nodes[list->count];
        node->record = *record;
        node->record.id = keep(node->id, sizeof node->id, record->id);
        node->record.name = keep(node->name, sizeof node->name, record->name);
        node->record.app_version =
            keep(node->app_version, sizeof node->app_version, record->app_version);
    }
    list->count++;
    return list->ends;
}

static int take_row(const jobsched_run_record *record, void *user_data)
{
    struct list *list = user_data;
    list->row.record = *record;
    list->row.record.job = keep(list->row.job, sizeof list->row.job, record->job);
    list->row.record.node = keep(list->row.node, sizeof list->row.node, record->node);
    list->row.record.note = keep(list->row.note, sizeof list->row.note, record->note);
    list->row.record.request = keep(list->row.request, sizeof list->row.request, record->request);
    list->count++;
    return list->ends;
}

static int list_jobs(struct cf_node *node, const char *job, struct list *list)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    list->count = 0;
    int code = node->driver->jobs(node->backend, &call, job, take_job, list);
    cf_true(code != 0 || call.now_ms > 0);
    return code;
}

static int list_nodes(struct cf_node *node, struct list *list)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    list->count = 0;
    int code = node->driver->nodes(node->backend, &call, take_node, list);
    cf_true(code != 0 || call.now_ms > 0);
    return code;
}

static int find(struct cf_node *node, const char *job, const char *request, struct list *list)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    list->count = 0;
    int code = node->driver->find(node->backend, &call, job, request, take_row, list);
    cf_equal(list->count, code == 0 ? 1 : 0);
    return code;
}

static const jobsched_job_record *one_job(struct cf_node *node, const char *job, struct list *list)
{
    cf_ok(list_jobs(node, job, list));
    cf_equal(list->count, 1);
    assert_string_equal(list->jobs[0].job, job);
    return &list->jobs[0].record;
}

static bool is_cluster(const struct cf_world *world)
{
    return (world->driver->capabilities & JOBSCHED_CAPABILITY_CLUSTER) != 0;
}

/* What passes below for want of an operation must not be one of ours. */
static void shipped_drivers_have_every_list(void **state)
{
    static const char *const shipped[] = {"single", "sqlite", "postgresql", "redis"};
    const jobsched_backend *driver = ((struct cf_world *)*state)->driver;
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        if (strcmp(driver->scheme, shipped[i]) == 0) {
            cf_true(driver->find != NULL && driver->jobs != NULL && driver->nodes != NULL);
            cf_true(driver->withdraw != NULL && driver->check != NULL);
        }
    }
}

/* G6: the row of a trigger is found by its request at each stage, and no other is taken for it. */
static void find_tells_of_a_trigger(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->find == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 1);
    struct list list = {.ends = 0};
    (void)cf_job(node, "other", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "other", "re'quest", NULL));
    cf_equal(find(node, "job", "re'quest", &list), JOBSCHED_ENOTFOUND);
    cf_equal(find(node, "nobody", "re'quest", &list), JOBSCHED_ENOTFOUND);
    (void)cf_grant(node, &job, 1); /* an occurrence of the schedule has no request */
    cf_equal(find(node, "job", "", &list), JOBSCHED_ENOTFOUND);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "re'quest", NULL));
    cf_ok(find(node, "job", "re'quest", &list));
    cf_equal(list.row.record.outcome, JOBSCHED_OUTCOME_WAITING);
    cf_equal(list.row.record.kind, JOBSCHED_KIND_TRIGGER);
    cf_equal(list.row.record.started_at_ms, JOBSCHED_NONE);
    cf_equal(list.row.record.finished_at_ms, JOBSCHED_NONE);
    assert_string_equal(list.row.job, "job");
    assert_string_equal(list.row.request, "re'quest");
    assert_string_equal(list.row.node, "");
    jobsched_claim claim = cf_at(&job, 1);
    claim.kind = JOBSCHED_KIND_TRIGGER;
    claim.request = "re'quest";
    claim.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    cf_ok(find(node, "job", "re'quest", &list));
    cf_equal(list.row.record.outcome, JOBSCHED_OUTCOME_RUNNING);
    cf_equal(list.row.record.token, claim.token);
    assert_string_equal(list.row.node, "node");
    list.ends = 1;
    cf_equal(cf_finish(node, "job", claim.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    cf_ok(find(node, "job", "re'quest", &list));
    cf_equal(list.row.record.outcome, JOBSCHED_OUTCOME_FAILED);
    cf_true(list.row.record.finished_at_ms >= list.row.record.started_at_ms);
}

/* G14: all jobs are told of, sorted by the bytes of their names, and of each what is in force. */
static void jobs_tells_of_all_in_order(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->jobs == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "node");
    struct list list = {.ends = 0};
    cf_ok(list_jobs(node, NULL, &list));
    cf_equal(list.count, 0);
    static const char *const names[] = {"b", "a", "\xC3\xA4", "B", "a'b", "aa"};
    static const char *const sorted[] = {"B", "a", "a'b", "aa", "b", "\xC3\xA4"};
    for (size_t i = 0; i < 6; i++) {
        (void)cf_announce(node, names[i], names[i], 3 + i);
    }
    cf_ok(list_jobs(node, NULL, &list));
    cf_equal(list.count, 6);
    for (size_t i = 0; i < 6; i++) {
        const jobsched_job_record *record = &list.jobs[i].record;
        assert_string_equal(record->job, sorted[i]);
        assert_string_equal(record->definition, sorted[i]);
        cf_true(record->version >= 3 && record->version <= 8);
        cf_true(record->generation > 0);
        cf_true(record->mark_at_ms > 0);
        cf_equal(record->token, 0);
        cf_equal(record->last_end_at_ms, JOBSCHED_NONE);
        cf_equal(record->paused, 0);
        cf_equal(record->removed, 0);
        cf_equal(record->nodes, 1);
        cf_equal(record->dissent, 0);
        cf_equal(record->running, 0);
        cf_equal(record->waiting, 0);
        cf_equal(record->has_last, 0);
        assert_string_equal(record->running_node, "");
        assert_string_equal(record->last_node, "");
    }
    list.ends = 1; /* the visitor has heard enough */
    cf_ok(list_jobs(node, NULL, &list));
    cf_equal(list.count, 1);
    cf_equal(one_job(node, "a'b", &list)->version, 7);
    cf_equal(list_jobs(node, "nobody", &list), JOBSCHED_ENOTFOUND);
    cf_equal(list.count, 0);
}

/* G6, G9: of a job one is told who runs it, what waits, how the last run ended, and what an
 * operator did to it; a tombstone stays visible. */
static void jobs_tells_what_goes_on(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->jobs == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    struct list list = {.ends = 0};
    int64_t before_ms = cf_now(node);
    jobsched_claim run = cf_grant(node, &job, 1);
    int64_t after_ms = cf_now(node);
    const jobsched_job_record *record = one_job(node, "job", &list);
    cf_equal(record->generation, job.generation);
    cf_equal(record->mark_at_ms, job.mark_ms + 1);
    cf_equal(record->token, run.token);
    cf_equal(record->running, 1);
    cf_equal(record->running_token, run.token);
    cf_true(record->running_since_at_ms >= before_ms && record->running_since_at_ms <= after_ms);
    assert_string_equal(record->running_node, "node");
    cf_equal(record->has_last, 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "one", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "two", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_FAILED), JOBSCHED_LEASE_KEPT);
    record = one_job(node, "job", &list);
    cf_equal(record->running, 0);
    assert_string_equal(record->running_node, "");
    cf_equal(record->waiting, 2);
    cf_equal(record->paused, 1);
    cf_equal(record->has_last, 1);
    cf_equal(record->last_outcome, JOBSCHED_OUTCOME_FAILED);
    cf_equal(record->last_scheduled_at_ms, job.mark_ms + 1);
    cf_true(record->last_started_at_ms >= before_ms && record->last_started_at_ms <= after_ms);
    cf_true(record->last_finished_at_ms >= record->last_started_at_ms);
    cf_equal(record->last_end_at_ms, record->last_finished_at_ms);
    assert_string_equal(record->last_node, "node");
    jobsched_claim paused = cf_at(&job, 2);
    cf_ask(node, &paused);
    cf_answer(paused, PAUSED);
    record = one_job(node, "job", &list); /* the newest row of the ledger, whatever it says */
    cf_equal(record->last_outcome, JOBSCHED_OUTCOME_SKIPPED_PAUSED);
    cf_equal(record->last_scheduled_at_ms, job.mark_ms + 2);
    cf_equal(record->last_started_at_ms, JOBSCHED_NONE);
    assert_string_equal(record->last_node, "");
    cf_true(record->last_end_at_ms != JOBSCHED_NONE);
    cf_ok(cf_control(node, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    record = one_job(node, "job", &list);
    cf_equal(record->removed, 1);
    cf_equal(record->waiting, 0);
    cf_ok(list_jobs(node, NULL, &list));
    cf_equal(list.count, 1);
}

/* G14: who registers a job, and who of them with a definition that is not in force. */
static void jobs_counts_who_registers(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->jobs == NULL || world->driver->nodes == NULL) {
        return;
    }
    struct cf_node *old = cf_open(world, "old"), *new = cf_open(world, "new");
    struct list list = {.ends = 0};
    (void)cf_announce(old, "job", "first", 1);
    (void)cf_announce(old, "free", "first", 0);
    (void)cf_announce(new, "free", "first", 0);
    const jobsched_job_record *record = one_job(old, "free", &list);
    cf_equal(record->nodes, 2);
    cf_equal(record->dissent, 0);
    (void)cf_announce(new, "job", "second", 2);
    record = one_job(old, "job", &list);
    cf_equal(record->version, 2);
    assert_string_equal(record->definition, "second");
    cf_equal(record->nodes, 2);
    cf_equal(record->dissent, 1);
    (void)cf_announce(old, "job", "first", 1); /* stands down, and still registers it */
    record = one_job(new, "job", &list);
    cf_equal(record->nodes, 2);
    cf_equal(record->dissent, 1);
    (void)cf_announce(new, "free", "second", 0);
    cf_equal(one_job(old, "free", &list)->dissent, 1);
    (void)cf_announce(old, "free", "second", 0);
    cf_equal(one_job(old, "free", &list)->dissent, 0);
    cf_ok(list_nodes(old, &list));
    cf_equal(list.count, 2);
    assert_string_equal(list.nodes[0].name, "new");
    cf_equal(list.nodes[0].record.jobs, 2);
    cf_equal(list.nodes[0].record.dissent, 0);
    cf_equal(list.nodes[1].record.jobs, 2);
    cf_equal(list.nodes[1].record.dissent, 1);
    cf_close(world, new);
    record = one_job(old, "job", &list); /* what it left behind: in force, and nobody's */
    cf_equal(record->nodes, 1);
    cf_equal(record->dissent, 1);
    record = one_job(old, "free", &list);
    cf_equal(record->nodes, 1);
    cf_equal(record->dissent, 0);
}

/* G7: a withdrawal changes the lists and nothing else. */
static void withdraw_changes_lists_only(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->withdraw == NULL || world->driver->jobs == NULL ||
        world->driver->nodes == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    struct list list = {.ends = 0};
    (void)cf_job(node, "other", 0);
    static const char *const names[] = {"nobody", "job", "no'body"};
    for (int i = 0; i < 2; i++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->withdraw(node->backend, &call, names, 3));
        cf_equal(one_job(node, "job", &list)->nodes, 0);
        cf_equal(one_job(node, "other", &list)->nodes, 1);
    }
    cf_ok(list_nodes(node, &list));
    cf_equal(list.nodes[0].record.jobs, 1);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    jobsched_announcement again = cf_announce(node, "job", "every 1 ms", 0);
    cf_equal(again.generation, job.generation);
    cf_equal(again.mark_ms, job.mark_ms + 1);
    cf_equal(one_job(node, "job", &list)->nodes, 1);
    cf_equal(list_jobs(node, "nobody", &list), JOBSCHED_ENOTFOUND); /* and makes no job */
}

/* What a node is, what it published last, and what it has at the moment. */
static void nodes_tells_of_a_node(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->nodes == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "no'de");
    struct cf_job job = cf_job(node, "job", 2);
    struct list list = {.ends = 0};
    (void)cf_job(node, "other", 0);
    jobsched_claim run = cf_grant(node, &job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->renew(node->backend, &call, -4321, NULL, 0));
    int64_t beat_ms = call.now_ms;
    cf_ok(list_nodes(node, &list));
    cf_equal(list.count, 1);
    const jobsched_node_record *record = &list.nodes[0].record;
    assert_string_equal(record->id, node->id);
    assert_string_equal(record->name, "no'de");
    assert_string_equal(record->app_version, "1.0");
    cf_equal(record->clock_offset_ms, -4321);
    cf_true(record->since_at_ms > beat_ms - 3600000 && record->since_at_ms <= beat_ms);
    cf_true(record->beat_at_ms >= record->since_at_ms);
    cf_true(record->beat_at_ms >= beat_ms - 1 && record->beat_at_ms <= beat_ms + 1);
    cf_equal(record->jobs, 2);
    cf_equal(record->runs, 1);
    cf_equal(record->dissent, 0);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_ok(list_nodes(node, &list));
    cf_equal(list.nodes[0].record.runs, 0);
}

/* All nodes of the namespace, sorted by name, and of no other; who closes is gone. */
static void nodes_come_and_go(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->nodes == NULL) {
        return;
    }
    struct cf_node *b = cf_open(world, "b"), *a = cf_open(world, "a"), *c = cf_open(world, "C");
    const struct cf_settings elsewhere = {.name_space = "conformance-elsewhere"};
    (void)cf_open_with(world, "elsewhere", &elsewhere);
    struct list list = {.ends = 0};
    cf_ok(list_nodes(b, &list));
    cf_equal(list.count, 3);
    assert_string_equal(list.nodes[0].name, "C");
    assert_string_equal(list.nodes[1].name, "a");
    assert_string_equal(list.nodes[2].name, "b");
    cf_close(world, a);
    cf_ok(list_nodes(c, &list));
    cf_equal(list.count, 2);
    list.ends = 1;
    cf_ok(list_nodes(c, &list));
    cf_equal(list.count, 1);
}

/* G10: who is killed disappears from the lists, with what it registered, as soon as that is
 * known: at once where there is proof of death, after a lease on the asker's clock elsewhere. */
static void nodes_forgets_the_dead(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->nodes == NULL || world->driver->jobs == NULL) {
        return;
    }
    int ends[2];
    char sign = 0;
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *doomed = cf_open(world, "doomed");
        struct cf_job own = cf_job(doomed, "job", 1);
        (void)cf_grant(doomed, &own, 1);
        cf_equal(write(ends[1], &sign, 1), 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    cf_equal(read(ends[0], &sign, 1), 1);
    (void)close(ends[0]);
    struct cf_node *node = cf_open(world, "node");
    struct list list = {.ends = 0};
    cf_ok(list_nodes(node, &list));
    cf_equal(list.count, 2);
    cf_equal(one_job(node, "job", &list)->nodes, 1);
    cf_equal(one_job(node, "job", &list)->running, 1);
    cf_kill(world, child);
    int64_t bound_ms = world->subject->death_bound_ms;
    bool proof = bound_ms != JOBSCHED_NONE;
    uint64_t running;
    int64_t deadline_ms = cf_real_mono_ms() + (proof && bound_ms > 0 ? bound_ms : BOUND_MS);
    do {
        cf_true(cf_real_mono_ms() < deadline_ms);
        if (!proof) {
            atomic_fetch_add(&node->clock.mono_offset_ms, 2 * CF_LEASE_MS);
        }
        struct cf_found found[4];
        (void)cf_now(node); /* as the keeper does: a beat, and a look for the dead */
        (void)cf_reap(node, found, 4);
        cf_pause();
        running = one_job(node, "job", &list)->running; /* it may hold the job for a grace */
        cf_ok(list_nodes(node, &list));
    } while (list.count > 1 || running > 0);
    assert_string_equal(list.nodes[0].name, "node");
    cf_equal(one_job(node, "job", &list)->nodes, 0);
}

struct checks {
    int count, ends;
};

static int take_check(const jobsched_check_record *record, void *user_data)
{
    struct checks *checks = user_data;
    cf_true(strchr(record->id, '.') != NULL);
    cf_true(record->level >= JOBSCHED_LEVEL_INFO && record->level <= JOBSCHED_LEVEL_ERROR);
    cf_true(record->message[0] != '\0' && strchr(record->message, '\n') == NULL);
    cf_true(strlen(record->message) < JOBSCHED_MESSAGE_BYTES);
    checks->count++;
    return checks->ends;
}

/* A check tells of something each time, in one line each, and ends when it is told to. */
static void check_tells_what_it_looked_at(void **state)
{
    struct cf_world *world = *state;
    if (world->driver->check == NULL) {
        return;
    }
    struct cf_node *node = cf_open(world, "node");
    struct checks checks = {.ends = 0};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->check(node->backend, &call, take_check, &checks));
    cf_true(checks.count > 0);
    cf_true(call.now_ms > 0);
    checks = (struct checks){.ends = 1};
    call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->check(node->backend, &call, take_check, &checks));
    cf_equal(checks.count, 1);
}

/* G6: a handle that only asks and commands is no node, and its word holds like any other's. */
static void control_only_commands_and_is_no_node(void **state)
{
    struct cf_world *world = *state;
    const struct cf_settings settings = {.control_only = 1};
    struct cf_node *node = cf_open(world, "node"); /* first: a desk makes no store */
    struct cf_node *desk = cf_open_with(world, "desk", &settings);
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    struct list list = {.ends = 0};
    if (world->driver->nodes != NULL) {
        cf_ok(list_nodes(desk, &list));
        cf_equal(list.count, is_cluster(world) ? 1 : 0);
    }
    if (!is_cluster(world)) {
        cf_equal(cf_control(desk, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_ENOTFOUND);
        return;
    }
    jobsched_control_result result;
    cf_ok(cf_control(desk, JOBSCHED_VERB_PAUSE, "job", NULL, &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 1);
    cf_equal(result.run_token, run.token);
    assert_string_equal(result.node, "node");
    cf_ok(cf_control(desk, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_CANCEL);
    struct cf_row rows[2];
    cf_equal(cf_rows(desk, "job", rows, 2), 1);
    cf_close(world, desk);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_CANCEL);
    jobsched_claim next = cf_at(&job, 2);
    cf_ask(node, &next);
    cf_answer(next, PAUSED);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_CANCELLED), JOBSCHED_LEASE_KEPT);
}

const struct cf_test cf_list_tests[] = {
    {"find_and_lists_are_shipped", shipped_drivers_have_every_list, 0},
    {"find_tells_of_a_trigger", find_tells_of_a_trigger, 0},
    {"jobs_tells_of_all_in_order", jobs_tells_of_all_in_order, 0},
    {"jobs_tells_what_goes_on", jobs_tells_what_goes_on, 0},
    {"jobs_counts_who_registers", jobs_counts_who_registers, JOBSCHED_CAPABILITY_CLUSTER},
    {"withdraw_changes_lists_only", withdraw_changes_lists_only, 0},
    {"nodes_tells_of_a_node", nodes_tells_of_a_node, 0},
    {"nodes_come_and_go", nodes_come_and_go, JOBSCHED_CAPABILITY_CLUSTER},
    {"nodes_forgets_the_dead", nodes_forgets_the_dead, JOBSCHED_CAPABILITY_CLUSTER},
    {"check_tells_what_it_looked_at", check_tells_what_it_looked_at, 0},
    {"control_only_commands_and_is_no_node", control_only_commands_and_is_no_node, 0},
    {NULL, NULL, 0},
};
