/* test_postgres_migrate.c: a postgresql: store of an older version is brought up to date, by one of many
 * who start at once (G16). There is no older version yet, so this program makes one up: the step that
 * leads from it is given in place of the library's (linked with --wrap).
 *   test_postgres_migrate DIRECTORY     of a server that postgres.sh has started */
#include "postgres_support.h"

#include <stdio.h>
#include <unistd.h>

enum { PROCESSES = 8 };

const char *__wrap_jsi_pg_step(int64_t from);

static const char good_step[] = "ALTER TABLE @S@.run RENAME COLUMN remark TO note;"
                                " UPDATE @S@.run SET note = note || ' (kept)';";
static const char *step;

const char *__wrap_jsi_pg_step(int64_t from)
{
    return from == 0 ? step : NULL;
}

static int set_up(void **state)
{
    step = good_step;
    return postgres_set_up(state);
}

/* A store with a run in its ledger, as version 0 would have had it: a column with another name, and
 * functions that do something else. */
static void make_version_0(struct cf_world *world)
{
    struct cf_node *node = cf_open(world, "before");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_close(world, node);
    postgres_do("ALTER TABLE \"%s\".run RENAME COLUMN note TO remark;"
                "UPDATE \"%s\".run SET remark = 'old'; UPDATE \"%s\".meta SET version = 0;"
                "CREATE OR REPLACE FUNCTION \"%s\".check_version(a_version integer) RETURNS void"
                " LANGUAGE plpgsql AS $$BEGIN RAISE 'older'; END$$");
}

static void expect_version_1(struct cf_world *world)
{
    cf_equal(postgres_ask("SELECT version FROM \"%s\".meta"), 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".meta"), 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE note = 'old (kept)'"), 1);
    struct cf_node *node = cf_open(world, "after");
    struct cf_job job = cf_job(node, "job", 0);
    cf_true(job.mark_ms > 0);
    struct cf_row row;
    cf_newest(node, "job", &row);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    assert_string_equal(row.note, "old (kept)");
    cf_close(world, node);
}

static void test_many_migrate_once(void **state)
{
    struct cf_world *world = *state;
    for (int round = 0; round < 3; round++) {
        int go[2];
        pid_t children[PROCESSES];
        make_version_0(world);
        cf_equal(pipe(go), 0);
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = cf_fork(world);
            if (children[i] == 0) {
                char byte;
                (void)close(go[1]);
                (void)!read(go[0], &byte, 1); /* until the parent closes its end */
                (void)cf_now(cf_open(world, "node"));
                _exit(0);
            }
        }
        (void)close(go[0]);
        (void)close(go[1]);
        for (int i = 0; i < PROCESSES; i++) {
            cf_equal(cf_wait(world, children[i]), 0);
        }
        expect_version_1(world);
        postgres_do("DROP SCHEMA \"%s\" CASCADE");
    }
}

static int apply(const char *statement, void *visit_data)
{
    PGconn *conn = visit_data;
    PGresult *result = PQexec(conn, statement);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        print_error("%s: %s\n", statement, PQresultErrorMessage(result));
    }
    cf_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    return 0;
}

/* What is printed for administrators does the same, and does no harm to what is up to date. */
static void test_printed_statements_migrate(void **state)
{
    struct cf_world *world = *state;
    make_version_0(world);
    for (int i = 0; i < 2; i++) {
        PGconn *conn = postgres_connect();
        PQclear(PQexec(conn, "SET client_min_messages = warning"));
        cf_ok(world->driver->schema(world->url, apply, conn));
        cf_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
        PQfinish(conn);
        expect_version_1(world);
    }
}

/* A step that fails changes nothing at all. */
static void test_failed_step_leaves_all_as_it_was(void **state)
{
    struct cf_world *world = *state;
    make_version_0(world);
    step = "ALTER TABLE @S@.run RENAME COLUMN remark TO note; UPDATE @S@.nowhere SET x = 1;";
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_ESCHEMA);
    postgres_expect_message("42P01");
    cf_equal(postgres_ask("SELECT version FROM \"%s\".meta"), 0);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE remark = 'old'"), 1);
    step = good_step;
    cf_ok(postgres_try_url(world, world->url));
    expect_version_1(world);
}

/* Who only asks changes nothing, and is told what to do; where no step leads on, nobody does. */
static void test_who_does_not_migrate(void **state)
{
    struct cf_world *world = *state;
    make_version_0(world);
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "asks", NULL);
    node.config.control_only = 1;
    cf_equal(node.driver->open(&node.config, &node.backend), JOBSCHED_ESCHEMA);
    postgres_expect_message("has version 0, this library knows versions up to 1; "
                            "'jobschedctl migrate'");
    cf_equal(postgres_ask("SELECT version FROM \"%s\".meta"), 0);
    step = NULL;
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_ESCHEMA);
    postgres_expect_message("has version 0, this library knows versions up to 1");
    cf_equal(postgres_ask("SELECT version FROM \"%s\".meta"), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    postgres_directory = argv[1];
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, postgres_tear_down)
        TEST(test_many_migrate_once),
        TEST(test_printed_statements_migrate),
        TEST(test_failed_step_leaves_all_as_it_was),
        TEST(test_who_does_not_migrate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
