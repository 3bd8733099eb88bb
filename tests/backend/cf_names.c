/* cf_names.c: names and namespaces are bytes, and none can be taken for another. */
#include "cf_support.h"

#include <stdio.h>

/* The longest, and one that differs in its last byte only; filled by fill_long_names(). */
static char long_names[2][JOBSCHED_NAME_BYTES + 1];

static const char *const names[] = {
    "job",
    "JOB",
    "job ",
    " job",
    "jo_",
    "jo%",
    "%",
    "_",
    "*",
    "?",
    "[a-z]",
    "it's",
    "it''s",
    "\"quoted\"",
    "`ticks`",
    "back\\slash",
    "back\\\\slash",
    "a:b",
    "a/b",
    "a{b}c",
    "$1",
    ":name",
    "?1",
    "NULL",
    "null",
    "0",
    "1e3",
    "1000",
    "'; DROP TABLE runs; --",
    "' OR '1'='1",
    "${HOME}",
    "$(id)",
    "\xc3\xa9",  /* e with an acute accent, in one character */
    "e\xcc\x81", /* and in two */
    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
    "\xf0\x9f\x9a\x80",
    "\xef\xbc\xa1",
    long_names[0],
    long_names[1],
};
enum { NAMES = sizeof names / sizeof names[0] };

static void fill_long_names(void)
{
    for (int i = 0; i < 2; i++) {
        memset(long_names[i], 'x', JOBSCHED_NAME_BYTES);
        long_names[i][JOBSCHED_NAME_BYTES - 1] = (char)('a' + i);
    }
}

/* G1: each name is a job of its own in every operation. */
static void names_of_jobs_are_bytes(void **state)
{
    struct cf_node *node = cf_open(*state, "node '%\"\\ \xc3\xa9");
    struct cf_job jobs[NAMES];
    uint64_t tokens[NAMES];
    fill_long_names();
    for (int i = 0; i < NAMES; i++) {
        cf_true(strlen(names[i]) <= JOBSCHED_NAME_BYTES);
        jobsched_announcement item = cf_announce(node, names[i], names[i], 0);
        jobs[i] = (struct cf_job){names[i], item.generation, item.mark_ms};
    }
    cf_wait_until(node, jobs[NAMES - 1].mark_ms + 3);
    for (int i = 0; i < NAMES; i++) {
        tokens[i] = cf_grant(node, &jobs[i], 1).token;
    }
    for (int i = 0; i < NAMES; i += 2) {
        cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, names[i], NULL, NULL));
        cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, names[i], NULL, NULL));
    }
    for (int i = 0; i < NAMES; i++) {
        cf_equal(cf_renew(node, names[i], tokens[i]),
                 i % 2 == 0 ? JOBSCHED_LEASE_CANCEL : JOBSCHED_LEASE_KEPT);
        jobsched_claim next = cf_at(&jobs[i], 2);
        cf_ask(node, &next);
        cf_answer_at(next.answer, i % 2 == 0 ? JOBSCHED_ANSWER_PAUSED : JOBSCHED_ANSWER_HELD,
                     __FILE__, __LINE__);
        cf_equal(cf_finish(node, names[i], tokens[i], JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        struct cf_row rows[2];
        cf_equal(cf_rows(node, names[i], rows, 2), i % 2 == 0 ? 2 : 1);
        assert_string_equal(rows[0].job, names[i]);
    }
}

/* Requests, notes and definitions are bytes as well. */
static void names_of_requests_are_bytes(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    fill_long_names();
    for (int i = 0; i < NAMES; i++) {
        if (strlen(names[i]) > JOBSCHED_REQUEST_BYTES) {
            continue;
        }
        jobsched_control_result result;
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", names[i], &result));
        cf_equal(result.changed, 1);
        jobsched_claim run = cf_at(&job, 0);
        run.kind = JOBSCHED_KIND_TRIGGER;
        run.request = names[i];
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        jobsched_finish end = {.job = "job",
                               .note = names[i],
                               .token = run.token,
                               .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, &end, 1));
        struct cf_row row;
        (void)cf_newest(node, "job", &row);
        assert_string_equal(row.request, names[i]);
        assert_string_equal(row.note, names[i]);
    }
}

/* The same job in two namespaces is two jobs, also where the names run together. */
static void names_of_namespaces_separate(void **state)
{
    static const struct {
        const char *suffix, *job;
    } cases[] = {{"", "job"},   {"x", "job"},  {"X", "job"},  {":", "a:job"},
                 {":a", "job"}, {"%", "job"},  {"_", "job"},  {"'", "job"},
                 {" ", "job"},  {"/", "/job"}, {"//", "job"}, {"\xc3\xa9", "job"}};
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct cf_world *world = *state;
    struct cf_node *nodes[COUNT];
    struct cf_job jobs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char name_space[JOBSCHED_NAME_BYTES + 1];
        (void)snprintf(name_space, sizeof name_space, "%.150s%s", world->name_space,
                       cases[i].suffix);
        struct cf_settings settings = {.name_space = name_space};
        nodes[i] = cf_open_with(world, "node", &settings);
        jobsched_announcement item = cf_announce(nodes[i], cases[i].job, "d", (uint64_t)i);
        cf_equal(item.in_force, 1);
        cf_equal(item.last_end_ms, JOBSCHED_NONE);
        jobs[i] = (struct cf_job){cases[i].job, item.generation, item.mark_ms};
    }
    cf_wait_until(nodes[COUNT - 1], jobs[COUNT - 1].mark_ms + 3);
    for (int i = 0; i < COUNT; i++) {
        struct cf_row row;
        cf_equal(cf_rows(nodes[i], NULL, &row, 1), 0);
        jobsched_claim run = cf_grant(nodes[i], &jobs[i], 1);
        cf_equal(cf_rows(nodes[i], NULL, &row, 1), 1);
        if (i % 3 == 0) {
            cf_ok(cf_control(nodes[i], JOBSCHED_VERB_REMOVE, jobs[i].name, NULL, NULL));
        } else {
            cf_ok(cf_control(nodes[i], JOBSCHED_VERB_TRIGGER, jobs[i].name, "r", NULL));
        }
        struct cf_found found;
        cf_equal(cf_reap(nodes[i], &found, 1), i % 3 == 0 ? 0 : 1);
        cf_equal(cf_finish(nodes[i], jobs[i].name, run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
}

const struct cf_test cf_names_tests[] = {
    {"names_of_jobs_are_bytes", names_of_jobs_are_bytes, 0},
    {"names_of_requests_are_bytes", names_of_requests_are_bytes, 0},
    {"names_of_namespaces_separate", names_of_namespaces_separate, 0},
    {NULL, NULL, 0},
};
