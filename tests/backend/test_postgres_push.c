/* test_postgres_push.c: notifications are a hint (G6, G14). The server's queue of them is shared by all
 * its applications; where it is full or damaged, LISTEN and NOTIFY fail for everybody, which must hold
 * up neither nodes nor verbs.
 *   test_postgres_push DIRECTORY */
#include "postgres_support.h"

#include <stdio.h>

/* As the server does, once the transaction that wants to use the queue is to be committed. */
static void spoil(const char *function)
{
    char sql[512];
    (void)snprintf(
        sql, sizeof sql,
        "CREATE OR REPLACE FUNCTION \"%%s\".%s(a_version integer, a_ns text) RETURNS void "
        "LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''too many notifications in the "
        "NOTIFY queue'' USING ERRCODE = ''54000''; END'",
        function);
    postgres_do(sql);
}

static void expect_paused(struct cf_node *node, const struct cf_job *job)
{
    jobsched_claim claim = cf_at(job, 1);
    cf_ask(node, &claim);
    cf_answer(claim, PAUSED);
}

/* What a verb has changed, and a definition, hold; that nobody was told is said once. */
static void test_no_notify_holds_up_no_verb(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_node *other = cf_open(*state, "other");
    struct cf_job job = cf_job(node, "job", 1);
    spoil("push");

    jobsched_control_result result;
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "job", NULL, &result));
    cf_equal(result.changed, 1);
    expect_paused(node, &job);
    cf_equal(atomic_load(&other->warnings), 1);
    cf_ok(cf_control(other, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_equal(atomic_load(&other->warnings), 1);

    jobsched_announcement item = cf_announce(node, "job", "another", 0);
    cf_equal(item.in_force, 1);
    cf_equal(item.generation, job.generation + 1);
    cf_equal(atomic_load(&node->warnings), 1);
}

/* Who comes, and who comes back. */
static void test_no_listen_holds_up_no_node(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 1);
    spoil("listen");

    struct cf_node *late = cf_open(*state, "late");
    (void)cf_job(late, "more", 0);
    cf_equal(atomic_load(&late->warnings), 1);
    cf_equal(atomic_load(&node->warnings), 0);
    postgres_terminate("node");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (atomic_load(&node->warnings) == 0) { /* it comes back by itself */
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    (void)cf_job(node, "third", 0);
    cf_ok(cf_control(late, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    expect_paused(node, &job);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: test_postgres_push DIRECTORY\n");
        return 2;
    }
    postgres_directory = argv[1];
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, postgres_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_no_notify_holds_up_no_verb),
        TEST(test_no_listen_holds_up_no_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
