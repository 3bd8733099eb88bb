/* test_sqlite_list.c: what nodes register in a sqlite: store: it comes with the migration from the
 * first schema (G16), outlives a silence, and is bounded by the nodes that there are. */
#include "sqlite_support.h"

#include <stdio.h>
#include <unistd.h>

/* The store as the library of schema version 1 left it. */
static void make_first_version(struct cf_world *world)
{
    struct cf_node *node = cf_open(world, "first");
    struct cf_job job = cf_job(node, "job", 3);
    cf_equal(cf_finish(node, "job", cf_grant(node, &job, 1).token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_close(world, node);
    sqlite_do(sqlite_path, "DROP TABLE registration; PRAGMA user_version = 1");
}

static int64_t registrations(void)
{
    return sqlite_ask("SELECT count(*) FROM registration");
}

/* G16: the first version is brought up to date, and nothing that it remembers is lost. */
static void test_first_version_is_migrated(void **state)
{
    struct cf_world *world = *state;
    make_first_version(world);
    struct cf_node *node = cf_open(world, "second");
    cf_equal(sqlite_ask("PRAGMA user_version"), 2);
    jobsched_announcement again = cf_announce(node, "job", "every 1 ms", 0);
    cf_equal(again.paused, 1);
    cf_equal(again.generation, 1);
    cf_equal(sqlite_ask("SELECT token FROM fence"), 1);
    cf_equal(registrations(), 1);
    struct cf_row rows[2];
    cf_equal(cf_rows(node, "job", rows, 2), 1);
}

/* G16: by many at once, too: one does it, the others wait, and all go on. */
static void test_many_migrate_once(void **state)
{
    struct cf_world *world = *state;
    enum { STARTERS = 6 };
    int gate[2];
    pid_t children[STARTERS];
    make_first_version(world);
    cf_equal(pipe(gate), 0);
    for (int i = 0; i < STARTERS; i++) {
        children[i] = cf_fork(world);
        if (children[i] == 0) {
            char byte;
            (void)close(gate[1]);
            (void)!read(gate[0], &byte, 1); /* the end of file opens it for all at once */
            struct cf_node *node = cf_open(world, "starter");
            cf_equal(cf_announce(node, "job", "every 1 ms", 0).generation, 1);
            cf_close(world, node);
            _exit(0);
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < STARTERS; i++) {
        cf_equal(cf_wait(world, children[i]), 0);
    }
    cf_equal(sqlite_ask("PRAGMA user_version"), 2);
    cf_equal(sqlite_ask("SELECT token FROM fence"), 1);
    cf_equal(registrations(), 0); /* all have left */
}

/* A node that was frozen, taken for dead, and came back still registers its jobs. */
static void test_registrations_outlive_a_silence(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *frozen = cf_open(world, "frozen"), *other = cf_open(world, "other");
    struct cf_found found[2];
    (void)cf_job(frozen, "job", 0);
    (void)cf_now(other); /* sees its heartbeat for the first time */
    atomic_fetch_add(&other->clock.mono_offset_ms, 2 * CF_LEASE_MS);
    (void)cf_reap(other, found, 2);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1); /* forgotten */
    (void)cf_reap(other, found, 2);
    (void)cf_now(frozen);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 2);
    cf_equal(registrations(), 1);
}

/* G16: what dead processes registered goes, however many there were. */
static void test_registrations_of_the_dead_go(void **state)
{
    struct cf_world *world = *state;
    struct cf_found found[2];
    for (int i = 0; i < 3; i++) {
        pid_t child = cf_fork(world);
        if (child == 0) {
            struct cf_node *node = cf_open(world, "doomed");
            for (int j = 0; j < 20; j++) {
                char name[16];
                (void)snprintf(name, sizeof name, "job-%d", j);
                (void)cf_announce(node, name, "every 1 ms", 0);
            }
            _exit(0); /* without closing */
        }
        cf_equal(cf_wait(world, child), 0);
    }
    struct cf_node *node = cf_open(world, "node");
    (void)cf_job(node, "own", 0);
    cf_equal(registrations(), 61);
    for (int i = 0; i < 3; i++) {
        (void)cf_reap(node, found, 2);
    }
    cf_equal(registrations(), 1);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_first_version_is_migrated),
        TEST(test_many_migrate_once),
        TEST(test_registrations_outlive_a_silence),
        TEST(test_registrations_of_the_dead_go),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
