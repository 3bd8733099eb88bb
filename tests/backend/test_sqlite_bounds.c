/* test_sqlite_bounds.c: what a sqlite: store keeps is bounded (G16): finished runs by number and age,
 * and triggers that wait. */
#include "sqlite_support.h"

#include "sqlite_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int64_t bytes_of(const char *suffix)
{
    char path[SQLITE_PATH_BYTES];
    struct stat status;
    sqlite_name(path, suffix);
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* G16: whatever is fired, the files do not grow. JOBSCHED_TEST_FIRES says how many in all: 10,000
 * unless set. */
static void test_files_are_bounded(void **state)
{
    enum { JOBS = 20, KEPT = 20, FIRST = 100 };
    static char names[JOBS][8];
    static jobsched_claim claims[JOBS];
    static jobsched_finish ends[JOBS];
    const char *wanted = getenv("JOBSCHED_TEST_FIRES");
    int64_t fires = (wanted == NULL ? 10000 : strtoll(wanted, NULL, 10)) / JOBS;
    struct cf_settings settings = {.history_count = KEPT};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job jobs[JOBS];
    int64_t bytes = 0;
    for (int j = 0; j < JOBS; j++) {
        (void)snprintf(names[j], sizeof names[j], "j%d", j);
        jobs[j] = cf_job(node, names[j], j + 1 == JOBS ? fires : 0);
    }
    for (int64_t k = 1; k <= fires; k++) {
        for (int j = 0; j < JOBS; j++) {
            claims[j] = cf_at(&jobs[j], k);
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claims, JOBS));
        for (int j = 0; j < JOBS; j++) {
            cf_answer(claims[j], GRANTED);
            ends[j] = (jobsched_finish){.job = names[j],
                                        .note = "a note",
                                        .token = claims[j].token,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, ends, JOBS));
        if (k == FIRST) {
            bytes = bytes_of("") + bytes_of("-wal");
        }
    }
    int64_t after = bytes_of("") + bytes_of("-wal");
    printf("%lld bytes after %d fires, %lld after %lld\n", (long long)bytes, FIRST * JOBS,
           (long long)after, (long long)fires * JOBS);
    /* The log of changes goes up to its bound and is used again: twice that is not growth. */
    cf_true(after < 2 * bytes + 8192 * INT64_C(1024));
    cf_true(bytes_of("") < INT64_C(1024) * 1024);
    cf_true(sqlite_ask("SELECT count(*) FROM run") <= JOBS * (KEPT + 64));
}

/* G16: rows that go on do not take the place of finished ones. */
static void test_ledger_keeps_finished_runs_beside_many_open(void **state)
{
    enum { KEPT = 5, OPEN = 70 };
    struct cf_settings settings = {.history_count = KEPT};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job job = cf_job(node, "job", KEPT + OPEN);
    for (int64_t k = 1; k <= KEPT + OPEN; k++) {
        jobsched_claim claim = cf_at(&job, k);
        claim.when_held = JOBSCHED_HELD_ALLOW;
        cf_ask(node, &claim);
        cf_answer(claim, GRANTED);
        if (k <= KEPT) {
            cf_equal(cf_finish(node, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED),
                     JOBSCHED_LEASE_KEPT);
        }
    }
    cf_equal(sqlite_ask("SELECT count(*) FROM run WHERE outcome = 2"), KEPT);
}

/* G16: the ledger keeps to its bounds whatever fills it, and never drops what is not over. */
static void test_ledger_is_bounded(void **state)
{
    enum { KEPT = 10, MANY = 600 };
    struct cf_settings settings = {.history_count = KEPT};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job job = cf_job(node, "job", 4 * MANY);
    jobsched_claim oldest = cf_at(&job, 1), cut_off = cf_at(&job, 2);
    oldest.when_held = cut_off.when_held = JOBSCHED_HELD_ALLOW;
    cut_off.recover = JOBSCHED_RECOVER_RERUN;
    cut_off.recover_limit = 1;
    cf_ask(node, &oldest);
    cf_ask(node, &cut_off);
    cf_equal(cf_finish(node, "job", cut_off.token, JOBSCHED_OUTCOME_INTERRUPTED),
             JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    int64_t k = 3, most = 0;
    for (int i = 0; i < 3 * MANY; i++, k++) {
        jobsched_claim claim = cf_at(&job, k);
        if (i < MANY) { /* runs that end */
            claim.when_held = JOBSCHED_HELD_ALLOW;
        } else if (i < 2 * MANY) { /* overlaps */
            claim.when_held = JOBSCHED_HELD_SKIP;
        } else { /* misfires */
            claim = cf_range(&job, k, k, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        }
        cf_ask(node, &claim);
        if (i < MANY) {
            cf_answer(claim, GRANTED);
            cf_equal(cf_finish(node, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED),
                     JOBSCHED_LEASE_KEPT);
        }
        if (i % 50 == 49) {
            int64_t rows = sqlite_ask("SELECT count(*) FROM run");
            most = rows > most ? rows : most;
            cf_true(rows >= KEPT);
        }
    }
    cf_true(most <= KEPT + 3 + 64);
    cf_equal(sqlite_ask("SELECT count(*) FROM run WHERE outcome = 1"), 1);
    cf_equal(sqlite_ask("SELECT count(*) FROM run WHERE outcome = 0"), 1);
    cf_equal(sqlite_ask("SELECT count(*) FROM run WHERE outcome = 7"), 1);
    cf_equal(cf_renew(node, "job", oldest.token), JOBSCHED_LEASE_KEPT);
    /* The newest are the ones that were kept. */
    cf_equal(sqlite_ask("SELECT count(*) FROM (SELECT scheduled_ms FROM run ORDER BY seq DESC "
                        "LIMIT 10) WHERE scheduled_ms < (SELECT mark_ms - 9 FROM fence)"),
             0);
}

/* G16: rows beyond their age go too, also those of a job that runs once a day. */
static void test_ledger_is_bounded_by_age(void **state)
{
    struct cf_settings settings = {.history_age_ms = 10 * 86400000LL};
    struct cf_node *node = cf_open_with(*state, "node", &settings);
    struct cf_job job = cf_job(node, "job", 0);
    for (int64_t day = 1; day <= 40; day++) {
        sqlite_shim_clock(day * 86400000);
        jobsched_claim claim = cf_at(&job, day);
        cf_ask(node, &claim);
        cf_answer(claim, GRANTED);
        cf_equal(cf_finish(node, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
    int64_t rows = sqlite_ask("SELECT count(*) FROM run");
    cf_true(rows >= 10 && rows <= 12);
}

/* G16: rows beyond their age go also when their job does nothing any more, a bounded number at a
 * time, and from behind rows that must stay: what goes on, waits, may be rerun, was not told yet,
 * or is of another namespace. */
static void test_sweep_drops_what_is_aged(void **state)
{
    enum { UNTOLD = JOBSCHED_BATCH_MAX + 100, WINDOW = 256, ROUNDS = 10 };
    static struct cf_found found[JOBSCHED_BATCH_MAX];
    struct cf_settings guest_settings = {.name_space = "guests of the same file"};
    struct cf_node *node = cf_open(*state, "node");
    struct cf_node *guest = cf_open_with(*state, "guest", &guest_settings);
    struct cf_job job = cf_job(node, "job", 3), calm = cf_job(node, "calm", 2);
    struct cf_job theirs = cf_job(guest, "theirs", 2);
    for (int64_t k = 1; k <= 2; k++) {
        jobsched_claim run = cf_at(&job, k);
        run.when_held = JOBSCHED_HELD_ALLOW;
        run.recover = JOBSCHED_RECOVER_RERUN;
        run.recover_limit = 1;
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        if (k == 2) {
            cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED),
                     JOBSCHED_LEASE_KEPT);
        }
    }
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    jobsched_claim run = cf_grant(guest, &theirs, 1);
    (void)cf_finish(guest, "theirs", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    run = cf_grant(node, &calm, 1);
    (void)cf_finish(node, "calm", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_reap(node, found, 2), 2);
    }
    cf_equal(sqlite_ask("SELECT count(*) FROM run"), 5); /* nothing is old yet */

    /* Interruptions that nobody was told of, more than one call tells; the oldest are told last. */
    char sql[640];
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n"
                   " WHERE i < %d) INSERT INTO run SELECT NULL, fence, i, kind, 7, scheduled_ms,"
                   " last_ms, count, i, attempt, node, node_name, started_ms, finished_ms,"
                   " lease_ms, 0, 0, 0, 1, 0, 0, 0, NULL, '' FROM run, n"
                   " WHERE run.id = (SELECT max(id) FROM run)",
                   1000 + UNTOLD - 1);
    sqlite_do(sqlite_path, sql);
    sqlite_do(sqlite_path, "INSERT INTO untold SELECT NULL, fence, scheduled_ms, token, attempt,"
                           " node_name FROM run WHERE token >= 1000 ORDER BY id DESC");
    sqlite_shim_clock(2 * 86400000);
    cf_equal(cf_reap(node, found, JOBSCHED_BATCH_MAX), JOBSCHED_BATCH_MAX);
    cf_equal(sqlite_ask("SELECT count(*) FROM untold"), 100);
    cf_equal(sqlite_ask("SELECT count(*) FROM untold u JOIN run r ON r.fence = u.fence"
                        " AND r.token = u.token"),
             100);
    /* Five were there before; four of them stay. */
    cf_equal(sqlite_ask("SELECT count(*) FROM run"), 5 + UNTOLD - (WINDOW - 4 - 100));
    cf_equal(cf_reap(node, found, JOBSCHED_BATCH_MAX), 102);
    for (int i = 0; i < ROUNDS; i++) {
        cf_equal(cf_reap(node, found, 2), 2);
    }
    cf_equal(sqlite_ask("SELECT count(*) FROM run"), 4);
    cf_equal(sqlite_ask("SELECT count(*) FROM run JOIN fence f ON f.id = fence"
                        " WHERE f.name = 'job'"),
             3);
}

/* G16: triggers of a job that nobody runs are bounded, one request that is known still succeeds,
 * and another job is not concerned. */
static void test_waiting_triggers_are_bounded(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    (void)cf_job(node, "calm", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "first", NULL));
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
                   " INSERT INTO run SELECT NULL, fence, i, kind, outcome, scheduled_ms, last_ms,"
                   " count, token, attempt, node, node_name, started_ms, finished_ms, lease_ms,"
                   " recover, recover_limit, cancel, taken, code, progress_done, progress_total,"
                   " 'r' || i, note FROM run, n WHERE request = 'first'",
                   JOBSCHED_WAITING_MAX - 1);
    sqlite_do(sqlite_path, sql);
    (void)snprintf(sql, sizeof sql, "UPDATE fence SET seq = %d WHERE name = 'job'",
                   JOBSCHED_WAITING_MAX - 1);
    sqlite_do(sqlite_path, sql);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "last", NULL));
    cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "more", NULL), JOBSCHED_EREFUSED);
    sqlite_expect_message("'job' has 10000 waiting triggers");
    cf_equal(sqlite_ask("SELECT count(*) FROM run"), JOBSCHED_WAITING_MAX);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "last", NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "calm", "more", NULL));
    jobsched_claim run = cf_at(&job, 0);
    run.kind = JOBSCHED_KIND_TRIGGER;
    run.request = "first";
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "more", NULL));
}

int main(void)
{
#define SHIM(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up_shim, sqlite_tear_down)
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_files_are_bounded),
        TEST(test_ledger_is_bounded),
        TEST(test_ledger_keeps_finished_runs_beside_many_open),
        SHIM(test_ledger_is_bounded_by_age),
        SHIM(test_sweep_drops_what_is_aged),
        TEST(test_waiting_triggers_are_bounded),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
