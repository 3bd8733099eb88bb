/* cf_memory.c: memory that runs out, at every place in turn. */
#include "cf_support.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALLOCATIONS_MAX = 5000, ROWS = 8 };

/* Refuses the one allocation whose turn it is. */
struct scarce {
    int64_t until_failure; /* counts down; the failure is at 0 */
    int64_t blocks;
    int failed;
};

static int is_refused(struct scarce *scarce)
{
    if (scarce->until_failure-- != 0) {
        return 0;
    }
    scarce->failed = 1;
    return 1;
}

static void *allocate(void *ctx, size_t size)
{
    struct scarce *scarce = ctx;
    void *pointer = is_refused(scarce) ? NULL : malloc(size);
    scarce->blocks += pointer != NULL;
    return pointer;
}

static void *reallocate(void *ctx, void *pointer, size_t size)
{
    struct scarce *scarce = ctx;
    void *moved = is_refused(scarce) ? NULL : realloc(pointer, size);
    scarce->blocks += pointer == NULL && moved != NULL;
    return moved;
}

static void release(void *ctx, void *pointer)
{
    struct scarce *scarce = ctx;
    scarce->blocks -= pointer != NULL;
    free(pointer);
}

/* Does the operation again if it failed for want of memory, once. The failure must have been
 * that one, and the repetition must succeed: the engine does the very same later. A batch may
 * have got part of the way, and then may not say ENOMEM, which promises that it did not. */
#define again_with(operation, is_batch)                                                            \
    do {                                                                                           \
        int code_ = (operation);                                                                   \
        if (code_ != JOBSCHED_OK) {                                                                \
            cf_true(code_ == JOBSCHED_ENOMEM || ((is_batch) && code_ == JOBSCHED_EUNKNOWN));       \
            cf_equal(jobsched_last_error()->code, code_);                                          \
            cf_ok(operation);                                                                      \
        }                                                                                          \
    } while (0)
#define again_if_scarce(operation)       again_with(operation, 0)
#define again_batch_if_scarce(operation) again_with(operation, 1)

static int open_node(struct cf_node *node)
{
    void *backend = NULL;
    int code = node->driver->open(&node->config, &backend);
    cf_true(code == JOBSCHED_OK || backend == NULL);
    node->backend = backend;
    return code;
}

static int announce_all(struct cf_node *node, jobsched_announcement *items, size_t count)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    return node->driver->announce(node->backend, &call, items, count);
}

static int claim_all(struct cf_node *node, jobsched_claim *items, size_t count)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    return node->driver->claim(node->backend, &call, items, count);
}

static int finish_all(struct cf_node *node, jobsched_finish *items, size_t count)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    return node->driver->finish(node->backend, &call, items, count);
}

static int renew_all(struct cf_node *node, jobsched_lease *items, size_t count)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    return node->driver->renew(node->backend, &call, 0, items, count);
}

struct seen {
    int triggers, rows, running;
};

static int see_finding(const jobsched_finding *finding, void *visit_data)
{
    struct seen *seen = visit_data;
    seen->triggers += finding->found == JOBSCHED_FOUND_TRIGGER;
    return 0;
}

static int reap(struct cf_node *node, struct seen *seen)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    *seen = (struct seen){0};
    return node->driver->reap(node->backend, &call, see_finding, seen);
}

static int see_row(const jobsched_run_record *record, void *user_data)
{
    struct seen *seen = user_data;
    seen->rows++;
    seen->running += record->outcome == JOBSCHED_OUTCOME_RUNNING;
    return 0;
}

static int read_rows(struct cf_node *node, struct seen *seen)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    *seen = (struct seen){0};
    return node->driver->runs(node->backend, &call, NULL, 0, see_row, seen);
}

/* ENOMEM promises that nothing was changed; there is memory again to see that. */
static void check_promise(struct cf_node *node, int code, int running)
{
    struct seen seen;
    if (code == JOBSCHED_ENOMEM) {
        cf_ok(read_rows(node, &seen));
        cf_equal(seen.running, running);
    }
}

static int claim_and_check(struct cf_node *node, jobsched_claim *items, size_t count)
{
    int code = claim_all(node, items, count);
    check_promise(node, code, 0);
    return code;
}

static int finish_and_check(struct cf_node *node, jobsched_finish *items, size_t count)
{
    int code = finish_all(node, items, count);
    check_promise(node, code, (int)count);
    return code;
}

/* The scarce part of the scenario: all that asks for memory. */
static void use_all(struct cf_node *node, jobsched_claim *claims, size_t claim_count)
{
    struct seen seen;
    again_batch_if_scarce(claim_and_check(node, claims, claim_count));
    uint64_t last = 0;
    for (size_t i = 0; i < claim_count; i++) {
        cf_answer(claims[i], GRANTED);
        cf_true(claims[i].token > last || i == 2);
        last = i < 2 ? claims[i].token : last;
    }
    jobsched_lease leases[] = {{.job = "a", .note = "first note", .token = claims[0].token},
                               {.job = "a", .note = "second note", .token = claims[1].token},
                               {.job = "b", .note = "third note", .token = claims[2].token}};
    again_batch_if_scarce(renew_all(node, leases, 3));
    for (int i = 0; i < 3; i++) {
        cf_equal(leases[i].answer, JOBSCHED_LEASE_KEPT);
    }
    jobsched_control_result result;
    again_if_scarce(cf_control(node, JOBSCHED_VERB_TRIGGER, "a", "r", &result));
    again_if_scarce(cf_control(node, JOBSCHED_VERB_PAUSE, "b", NULL, &result));
    again_if_scarce(reap(node, &seen));
    cf_equal(seen.triggers, 1);
    again_if_scarce(read_rows(node, &seen));
    cf_equal(seen.rows, 4);
    cf_equal(seen.running, 3);
    jobsched_finish ends[] = {
        {.job = "a", .note = "end 1", .token = claims[0].token, .outcome = 2},
        {.job = "a", .note = "end 2", .token = claims[1].token, .outcome = 3, .code = 5},
        {.job = "b", .note = "end 3", .token = claims[2].token, .outcome = 4}};
    again_batch_if_scarce(finish_and_check(node, ends, 3));
    for (int i = 0; i < 3; i++) {
        cf_equal(ends[i].answer, JOBSCHED_LEASE_KEPT);
    }
}

static void check_end(struct cf_node *node, const struct cf_job *a, const struct cf_job *b)
{
    static const struct {
        const char *job, *note;
        int outcome;
    } expected[] = {{"a", "end 1", 2}, {"a", "end 2", 3}, {"b", "end 3", 4}, {"a", "", 0}};
    struct cf_row rows[ROWS];
    cf_equal(cf_rows(node, NULL, rows, ROWS), 4);
    for (int i = 0; i < 4; i++) {
        const struct cf_row *row = &rows[3 - i];
        assert_string_equal(row->job, expected[i].job);
        assert_string_equal(row->note, expected[i].note);
        cf_equal(row->record.outcome, expected[i].outcome);
        cf_equal(row->record.attempt, i < 3);
    }
    cf_equal(cf_mark(node, a), 2);
    cf_equal(cf_mark(node, b), 1);
}

/* One pass of the scenario with one failure; returns whether the failure came. */
static int pass(struct cf_world *world, int64_t at)
{
    struct scarce scarce = {.until_failure = at};
    jobsched_allocator allocator = {.struct_size = sizeof allocator,
                                    .ctx = &scarce,
                                    .allocate = allocate,
                                    .reallocate = reallocate,
                                    .release = release};
    char name_space[JOBSCHED_NAME_BYTES + 1];
    (void)snprintf(name_space, sizeof name_space, "%.150s-%lld", world->name_space, (long long)at);
    struct cf_settings settings = {.name_space = name_space, .allocator = &allocator};
    static struct cf_node node;
    memset(&node, 0, sizeof node);
    cf_config(&node, world, "node", &settings);
    again_if_scarce(open_node(&node));
    jobsched_announcement items[] = {{.job = "a", .definition = "first", .version = 1},
                                     {.job = "b", .definition = "only"},
                                     {.job = "a", .definition = "second", .version = 2}};
    again_batch_if_scarce(announce_all(&node, items, 3));
    /* A repetition of the first item finds the third one in force, if it got that far. */
    cf_equal(items[2].in_force, 1);
    struct cf_job a = {"a", items[2].generation, items[2].mark_ms};
    struct cf_job b = {"b", items[1].generation, items[1].mark_ms};
    int64_t due_ms = (a.mark_ms > b.mark_ms ? a.mark_ms : b.mark_ms) + 2;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    jobsched_call call;
    do { /* asks for no memory, in a backend that is well-behaved, but may */
        cf_true(cf_real_mono_ms() < deadline_ms);
        call = cf_call(JOBSCHED_LANE_KEEP);
        again_if_scarce(node.driver->renew(node.backend, &call, 0, NULL, 0));
    } while (call.now_ms < due_ms);
    jobsched_claim claims[] = {cf_at(&a, 1), cf_at(&a, 2), cf_at(&b, 1)};
    claims[1].when_held = JOBSCHED_HELD_ALLOW;
    use_all(&node, claims, 3);
    int failed = scarce.failed;
    scarce.until_failure = -1; /* from here on there is enough */
    check_end(&node, &a, &b);
    node.driver->close(node.backend);
    cf_equal(scarce.blocks, 0);
    return failed;
}

/* G8: wherever memory runs out, the operation fails as a whole or in a prefix, its repetition
 * completes it, nothing is done twice and nothing leaks. */
static void memory_may_run_out_anywhere(void **state)
{
    int64_t at = 0;
    while (pass(*state, at)) {
        at++;
        cf_true(at < ALLOCATIONS_MAX);
    }
    cf_true(at > 0); /* else the backend's memory came from somewhere else */
}

const struct cf_test cf_memory_tests[] = {
    {"memory_may_run_out_anywhere", memory_may_run_out_anywhere, 0},
    {NULL, NULL, 0},
};
