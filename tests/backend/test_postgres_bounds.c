/* test_postgres_bounds.c: what a postgresql: store must not gather, however long it goes on: locks,
 * rows, pages (G16); and the in-transaction fence under a thousand stale owners.
 *   test_postgres_bounds DIRECTORY [FILTER [SCALE]]
 * SCALE multiplies the numbers: 10 makes 10,000 attempts and 128,000 fires. DIRECTORY is of a server
 * that postgres.sh has started. */
#include "postgres_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int scale = 1;

/* Those of this test's own nodes: others may be at work on the server. */
static int64_t advisory_locks(void)
{
    return postgres_ask("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE "
                        "l.locktype = 'advisory' AND a.application_name LIKE 'jobsched %-%s'");
}

static struct cf_node *open_named(struct cf_world *world, const char *kind)
{
    static char names[4][80]; /* a node's name must last as long as the node */
    static unsigned next;
    char *name = names[next++ % 4];
    (void)snprintf(name, sizeof names[0], "%s-%s", kind, postgres_schema);
    return cf_open(world, name);
}

/* G16: attempts that fail, are refused, or are given up leave no lock behind: the server's lock table
 * is shared by everybody. */
static void test_attempts_leave_no_lock(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = open_named(world, "node"), *other = open_named(world, "other");
    struct cf_job job = cf_job(node, "job", 500 * (int64_t)scale + 9);
    (void)cf_grant(node, &job, 1);
    int64_t mark = 1;
    int64_t before = advisory_locks();
    cf_equal(before, 2); /* one per node */
    PGconn *conn = postgres_connect();
    int given_up = 0, failed = 0, refused = 0;
    for (int i = 0; i < 1000 * scale; i++) {
        if (i == 500 * scale) {
            postgres_do("ALTER TABLE \"%s\".run ADD CONSTRAINT refuse CHECK (outcome <> 1) NOT "
                        "VALID");
        }
        jobsched_claim claim = cf_at(&job, i % 3 == 0 ? mark + 1 : i % 4);
        claim.when_held = i % 3 == 0 ? JOBSCHED_HELD_ALLOW : JOBSCHED_HELD_WAIT;
        claim.generation += i % 7 == 0;
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int cancels = i % 50 == 49;
        if (cancels) {
            char sql[128];
            (void)snprintf(sql, sizeof sql, "BEGIN; LOCK TABLE \"%s\".fence", postgres_schema);
            PQclear(PQexec(conn, sql));
            call.timeout_ms = 5;
        }
        int code = other->driver->claim(other->backend, &call, &claim, 1);
        if (cancels) {
            PQclear(PQexec(conn, "ROLLBACK"));
        }
        cf_true(code == JOBSCHED_OK || code == JOBSCHED_EINTERNAL || code == JOBSCHED_EUNKNOWN ||
                code == JOBSCHED_EUNREACHABLE);
        given_up += code == JOBSCHED_EUNKNOWN;
        failed += code == JOBSCHED_EINTERNAL;
        refused += code == JOBSCHED_OK && claim.answer != JOBSCHED_ANSWER_GRANTED;
        if (code == JOBSCHED_OK) {
            mark = claim.mark_ms - job.mark_ms;
        }
        if (code == JOBSCHED_OK && claim.answer == JOBSCHED_ANSWER_GRANTED) {
            cf_equal(cf_finish(other, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED),
                     JOBSCHED_LEASE_KEPT);
        }
    }
    PQfinish(conn);
    cf_true(given_up > 0 && failed > 0 && refused > 0);
    print_message("%d given up, %d failed, %d refused\n", given_up, failed, refused);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (advisory_locks() != before) { /* what was given up ends when the server sees it */
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static int64_t pages(void)
{
    return postgres_ask("SELECT sum(pg_total_relation_size(c.oid)) / 8192 FROM pg_class c JOIN "
                        "pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND "
                        "n.nspname = '%s'");
}

/* Fires all jobs many times; returns how often. */
static int fire(struct cf_node *node, jobsched_claim *claims, jobsched_finish *ends, size_t jobs,
                int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < jobs; i++) {
            claims[i].after_ms = claims[i].scheduled_ms;
            claims[i].scheduled_ms++;
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claims, jobs));
        for (size_t i = 0; i < jobs; i++) {
            cf_answer(claims[i], GRANTED);
            ends[i] = (jobsched_finish){.job = claims[i].job,
                                        .note = "done",
                                        .token = claims[i].token,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, ends, jobs));
        if (round % 16 == 15) {
            postgres_do("VACUUM \"%s\".run");
            postgres_do("VACUUM \"%s\".fence");
            struct cf_found found;
            cf_equal(cf_reap(node, &found, 1), 0);
            call = cf_call(JOBSCHED_LANE_KEEP);
            cf_ok(node->driver->renew(node->backend, &call, 0, NULL, 0));
        }
    }
    return (int)jobs * rounds;
}

/* G16: the tables are as large after the second half as after the first. (What
 * autovacuum does now and then on a busy server is done here every 1,600 fires.) */
static void test_flat_tables(void **state)
{
    enum { JOBS = 100, HISTORY = 20 };
    struct cf_settings settings = {.history_count = HISTORY};
    struct cf_world *world = *state;
    struct cf_node *node = cf_open_with(world, "node", &settings);
    static char names[JOBS][16];
    static jobsched_claim claims[JOBS];
    static jobsched_finish ends[JOBS];
    int rounds = 64 * scale; /* of 32, after which the ledger is at its smallest */
    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        jobsched_announcement item = cf_announce(node, names[i], "every 1 ms", 0);
        claims[i] = (jobsched_claim){.job = names[i],
                                     .generation = item.generation,
                                     .scheduled_ms = item.mark_ms,
                                     .lease_ms = CF_LEASE_MS,
                                     .when_held = JOBSCHED_HELD_SKIP};
    }
    cf_wait_until(node, claims[JOBS - 1].scheduled_ms + 2 * rounds + 1);
    int64_t half[2];
    int fires = 0;
    for (int i = 0; i < 2; i++) {
        fires += fire(node, claims, ends, JOBS, rounds);
        half[i] = pages();
    }
    int64_t rows = postgres_ask("SELECT count(*) FROM \"%s\".run");
    print_message("%d fires: %lld pages after half of them, %lld after all, %lld rows\n", fires,
                  (long long)half[0], (long long)half[1], (long long)rows);
    cf_true(rows <= (int64_t)JOBS * (HISTORY + 32));
    cf_true(half[1] <= half[0] + half[0] / 5);
}

/* The transaction of an owner that relies on its token; returns whether it was committed. */
static int write_effect(PGconn *conn, const char *name_space, uint64_t token)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "BEGIN; SELECT \"%s\".assert_token('%s', 'job', %llu); "
                   "INSERT INTO \"%s\".effect VALUES (%llu); COMMIT",
                   postgres_schema, name_space, (unsigned long long)token, postgres_schema,
                   (unsigned long long)token);
    PGresult *result = PQexec(conn, sql);
    int committed = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!committed) {
        assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "JS002");
        PQclear(PQexec(conn, "ROLLBACK"));
    }
    PQclear(result);
    return committed;
}

/* The in-transaction fence: a stale owner's write is refused, every time, also after the job has
 * been run by somebody else and ended. */
static void test_stale_writes_are_refused(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    int rounds = 1000 * scale, refused = 0, ended = 0;
    struct cf_job job = cf_job(owner, "job", 2 * (int64_t)rounds + 1);
    postgres_do("CREATE TABLE \"%s\".effect(token bigint PRIMARY KEY)");
    PGconn *conn = postgres_connect();
    jobsched_claim run = cf_grant(owner, &job, 1);
    for (int i = 0; i < rounds; i++) {
        cf_equal(write_effect(conn, world->name_space, run.token), 1);
        /* Somebody takes it for dead, as after a freeze. */
        jobsched_claim next = cf_at(&job, 2 * i + 2);
        do {
            cf_ask(other, &next);
            atomic_fetch_add(&other->clock.mono_offset_ms, CF_LEASE_MS);
        } while (next.answer == JOBSCHED_ANSWER_HELD);
        cf_answer(next, GRANTED);
        refused += !write_effect(conn, world->name_space, run.token);
        cf_equal(cf_finish(other, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        ended += !write_effect(conn, world->name_space, next.token);
        run = cf_grant(owner, &job, 2 * i + 3);
    }
    PQfinish(conn);
    print_message("%d stale writes refused\n", refused);
    cf_equal(refused, rounds);
    cf_equal(ended, rounds);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".effect"), rounds);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, postgres_tear_down)
        TEST(test_attempts_leave_no_lock),
        TEST(test_flat_tables),
        TEST(test_stale_writes_are_refused),
    };
    postgres_directory = argc > 1 ? argv[1] : "/tmp";
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    if (argc > 3) {
        scale = (int)strtol(argv[3], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
