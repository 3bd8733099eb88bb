/* cf_open.c: the driver itself, open and close. */
#include "cf_support.h"

#include <ctype.h>
#include <stdlib.h>

/* Goal: the engine calls every slot without looking, and finds the driver by its scheme. */
static void open_needs_a_complete_driver(void **state)
{
    const struct cf_world *world = *state;
    const jobsched_backend *driver = world->driver;
    cf_equal(driver->abi, JOBSCHED_BACKEND_ABI);
    cf_true(driver->scheme != NULL && driver->scheme[0] != '\0');
    for (const char *at = driver->scheme; *at != '\0'; at++) {
        cf_true(islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '+' ||
                *at == '-' || *at == '.');
    }
    cf_true(driver->open != NULL && driver->close != NULL && driver->announce != NULL);
    cf_true(driver->claim != NULL && driver->finish != NULL && driver->renew != NULL);
    cf_true(driver->reap != NULL && driver->control != NULL && driver->runs != NULL);
}

/* G13: opening and closing leaves no memory behind, whatever was kept in between. */
static void *count_allocate(void *ctx, size_t size)
{
    void *pointer = malloc(size);
    if (pointer != NULL) {
        atomic_fetch_add((_Atomic int64_t *)ctx, 1);
    }
    return pointer;
}

static void *count_reallocate(void *ctx, void *pointer, size_t size)
{
    void *moved = realloc(pointer, size);
    if (pointer == NULL && moved != NULL) {
        atomic_fetch_add((_Atomic int64_t *)ctx, 1);
    }
    return moved;
}

static void count_release(void *ctx, void *pointer)
{
    if (pointer != NULL) {
        atomic_fetch_sub((_Atomic int64_t *)ctx, 1);
    }
    free(pointer);
}

/* Runs with notes, more of them than the ledger keeps. */
static void fill_ledger(struct cf_node *node, const struct cf_job *job)
{
    for (int64_t k = 1; k <= 40; k++) {
        jobsched_claim run = cf_grant(node, job, k);
        jobsched_finish end = {.job = job->name,
                               .note = "a note that is kept with the run",
                               .token = run.token,
                               .outcome = JOBSCHED_OUTCOME_FAILED};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, &end, 1));
        cf_equal(end.answer, JOBSCHED_LEASE_KEPT);
    }
}

static void open_and_close_leave_no_memory(void **state)
{
    static const char *const jobs[] = {"a", "b", "c"};
    struct cf_world *world = *state;
    _Atomic int64_t blocks = 0;
    jobsched_allocator allocator = {.struct_size = sizeof allocator,
                                    .ctx = &blocks,
                                    .allocate = count_allocate,
                                    .reallocate = count_reallocate,
                                    .release = count_release};
    struct cf_settings settings = {.allocator = &allocator, .history_count = 3};
    for (int round = 0; round < 3; round++) {
        struct cf_node *node = cf_open_with(world, "node", &settings);
        cf_true(atomic_load(&blocks) > 0); /* all memory of the backend comes from there */
        struct cf_job job = cf_job(node, jobs[round], 41);
        if (round > 0) {
            fill_ledger(node, &job);
        }
        (void)cf_grant(node, &job, 41); /* and a run that still goes on */
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, jobs[round], "waits", NULL));
        cf_close(world, node);
        cf_equal(atomic_load(&blocks), 0);
    }
}

static void close_ignores_null(void **state)
{
    const struct cf_world *world = *state;
    world->driver->close(NULL);
}

/* G8: a URL that is not understood is refused by name and never guessed at. */
static void open_refuses_bad_urls(void **state)
{
    struct cf_world *world = *state;
    const char *const *url = world->subject->bad_urls;
    for (; url != NULL && *url != NULL; url++) {
        struct cf_node node = {.backend = NULL};
        cf_config(&node, world, "node", NULL);
        node.config.url = *url;
        void *backend = &node;
        int code = world->driver->open(&node.config, &backend);
        if (code != JOBSCHED_EINVAL) {
            print_error("'%s' gave %s\n", *url, jobsched_code_name(code));
        }
        cf_equal(code, JOBSCHED_EINVAL);
        cf_true(backend == &node); /* outputs stay untouched on failure */
        const jobsched_error *error = jobsched_last_error();
        cf_equal(error->code, JOBSCHED_EINVAL);
        cf_true(strchr(error->message, '\'') != NULL && strchr(error->message, '\n') == NULL);
    }
}

/* G13: many handles per process. */
static void open_many_handles_at_once(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *nodes[8];
    for (int i = 0; i < 8; i++) {
        nodes[i] = cf_open(world, "node");
    }
    for (int i = 0; i < 8; i++) {
        cf_true(cf_now(nodes[i]) > 0);
    }
    for (int i = 0; i < 8; i += 2) {
        cf_close(world, nodes[i]);
    }
    for (int i = 1; i < 8; i += 2) {
        cf_true(cf_now(nodes[i]) > 0);
    }
}

const struct cf_test cf_open_tests[] = {
    {"open_needs_a_complete_driver", open_needs_a_complete_driver, 0},
    {"open_and_close_leave_no_memory", open_and_close_leave_no_memory, 0},
    {"close_ignores_null", close_ignores_null, 0},
    {"open_refuses_bad_urls", open_refuses_bad_urls, 0},
    {"open_many_handles_at_once", open_many_handles_at_once, 0},
    {NULL, NULL, 0},
};
