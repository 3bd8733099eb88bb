/* test_sqlite_store.c: a sqlite: store in trouble: full or failing disks, somebody else's lock, a
 * file that is removed or replaced. Every failure leaves nothing half-done, and once it is cured
 * the same call works (G8). Also that no statement walks through whole tables. */
#include "sqlite_support.h"

#include "backends/sqlite/sql.h"
#include "sqlite_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WRITES_MAX 64 /* more than one claim makes */

static int try_claim(struct cf_node *node, jobsched_claim *claim)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    return node->driver->claim(node->backend, &call, claim, 1);
}

static int try_finish(struct cf_node *node, uint64_t token, int *out_answer)
{
    jobsched_finish finish = {
        .job = "job", .note = "", .token = token, .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int code = node->driver->finish(node->backend, &call, &finish, 1);
    *out_answer = finish.answer;
    return code;
}

static int try_renew(struct cf_node *node, uint64_t token, int *out_answer)
{
    jobsched_lease lease = {.job = "job", .note = "half way", .token = token};
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    int code = node->driver->renew(node->backend, &call, 0, &lease, 1);
    *out_answer = lease.answer;
    return code;
}

/* What the ledger and the fence say, in one number that any change changes. */
static int64_t state_of_store(void)
{
    return sqlite_ask("SELECT sum(mark_ms + 7 * token + 31 * seq + 101 * paused) + "
                      "(SELECT 1009 * count(*) FROM run) + "
                      "(SELECT coalesce(sum(10007 * outcome), 0) FROM run) FROM fence");
}

/* A full disk at each write in turn: EFULL, nothing changed, and cured it works. */
static void test_full_disk_changes_nothing(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2 * WRITES_MAX);
    int failures = 0;
    for (int after = 0; after < WRITES_MAX; after++) {
        jobsched_claim claim = cf_at(&job, after + 1);
        int64_t before = state_of_store();
        sqlite_shim_fail_writes(SQLITE_FULL, after);
        int code = try_claim(node, &claim);
        sqlite_shim_fail_writes(SQLITE_OK, 0);
        if (code != JOBSCHED_OK) {
            failures++;
            cf_equal(code, JOBSCHED_EFULL);
            sqlite_expect_message(sqlite_path);
            cf_equal(state_of_store(), before);
            cf_ok(try_claim(node, &claim));
        }
        cf_answer(claim, GRANTED);
        cf_equal(claim.token, after + 1); /* G2: no gap was burned either */
        int answer;
        cf_ok(try_renew(node, claim.token, &answer));
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
        cf_ok(try_finish(node, claim.token, &answer));
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
    }
    cf_true(failures > 3); /* else nothing was tried */
    cf_true(failures < WRITES_MAX);
}

/* The same for everything else that writes, at its first write. */
static void test_full_disk_in_other_calls(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 1);
    jobsched_claim run = cf_grant(node, &job, 1);
    int64_t before = state_of_store();
    int answer;
    sqlite_shim_fail_writes(SQLITE_FULL, 0);
    cf_equal(try_finish(node, run.token, &answer), JOBSCHED_EFULL);
    cf_equal(try_renew(node, run.token, &answer), JOBSCHED_EFULL);
    cf_equal(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_EFULL);
    jobsched_announcement item = {.job = "other", .definition = "x"};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_equal(node->driver->announce(node->backend, &call, &item, 1), JOBSCHED_EFULL);
    cf_equal(sqlite_try_url(world, world->url), JOBSCHED_EFULL); /* no node can enter */
    sqlite_shim_fail_writes(SQLITE_OK, 0);
    cf_equal(state_of_store(), before);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
    cf_ok(try_renew(node, run.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    cf_ok(try_finish(node, run.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_equal(sqlite_try_url(world, world->url), 0);
}

/* A new store on a full disk: told, and cured by room alone. */
static void test_full_disk_at_creation(void **state)
{
    struct cf_world *world = *state;
    int failures = 0;
    for (int after = 0; after < WRITES_MAX; after++) {
        sqlite_shim_fail_writes(SQLITE_FULL, after);
        int code = sqlite_try_url(world, world->url);
        sqlite_shim_fail_writes(SQLITE_OK, 0);
        if (code == JOBSCHED_OK) {
            break;
        }
        failures++;
        cf_equal(code, JOBSCHED_EFULL);
    }
    cf_true(failures > 1 && failures < WRITES_MAX);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 0);
}

/* A disk that fails to write, or to sync, while a claim commits: whether it is done is not known.
 * Asking again finds out, and the occurrence is granted once, on a new connection. */
static void test_failing_disk_is_unknown_then_found_out(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 8);
    for (int64_t k = 1; k <= 4; k++) {
        jobsched_claim claim = cf_at(&job, k);
        if (k % 2 == 0) {
            sqlite_shim_fail_syncs(SQLITE_IOERR_FSYNC, 0);
        } else {
            sqlite_shim_fail_writes(SQLITE_IOERR_WRITE, 0);
        }
        cf_equal(try_claim(node, &claim), JOBSCHED_EUNKNOWN);
        sqlite_expect_message(sqlite_path);
        sqlite_shim_fail_syncs(SQLITE_OK, 0);
        sqlite_shim_fail_writes(SQLITE_OK, 0);
        cf_ok(try_claim(node, &claim));
        cf_answer(claim, GRANTED);
        uint64_t token = claim.token;
        cf_ok(try_claim(node, &claim));
        cf_equal(claim.token, token);
        cf_equal(sqlite_ask("SELECT count(*) FROM run"), k);
        int answer;
        cf_ok(try_finish(node, token, &answer));
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
        cf_ok(try_finish(node, token, &answer)); /* its answer may have been lost too */
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
    }
}

/* G11: a call grants no more runs than it asks for; what is left over is changed in nothing. A
 * run that is granted again counts, a skipped range does not. */
static void test_grants_stop_at_what_was_asked_for(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct cf_job jobs[5];
    jobsched_claim claims[5];
    for (int i = 0; i < 5; i++) {
        jobs[i] = cf_job(node, names[i], 1);
        claims[i] = i == 1 ? cf_range(&jobs[i], 1, 1, JOBSCHED_OUTCOME_SKIPPED_MISFIRE)
                           : cf_at(&jobs[i], 1);
    }
    static const int expected[2][5] = {
        {JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_GRANTED,
         JOBSCHED_ANSWER_FULL, JOBSCHED_ANSWER_FULL},
        {JOBSCHED_ANSWER_GRANTED, JOBSCHED_ANSWER_DONE, JOBSCHED_ANSWER_GRANTED,
         JOBSCHED_ANSWER_FULL, JOBSCHED_ANSWER_FULL},
    };
    for (int round = 0; round < 2; round++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        call.grants_max = 2;
        cf_ok(node->driver->claim(node->backend, &call, claims, 5));
        for (int i = 0; i < 5; i++) {
            cf_equal(claims[i].answer, expected[round][i]);
            cf_equal(claims[i].mark_ms, jobs[i].mark_ms + (i < 3));
        }
    }
    cf_equal(sqlite_ask("SELECT count(*) FROM run"), 3);
    (void)cf_grant(node, &jobs[4], 1);
}

/* Somebody sits on the write lock: each call fails within its own time, nothing is changed, and
 * readers are not held up. */
static void test_lock_of_another_process_is_bounded(void **state)
{
    enum { SLACK_MS = 10000 }; /* half of what the calls have usually */
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 2);
    sqlite3 *other = NULL;
    cf_equal(sqlite3_open(sqlite_path, &other), SQLITE_OK);
    cf_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int64_t timeout_ms = 0; timeout_ms <= 60; timeout_ms += 30) {
        jobsched_claim claim = cf_at(&job, 1);
        jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = timeout_ms};
        int64_t begin_ms = cf_real_mono_ms();
        cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_EUNREACHABLE);
        sqlite_expect_message("locked by another process");
        int64_t took_ms = cf_real_mono_ms() - begin_ms;
        cf_true(took_ms >= timeout_ms / 2 && took_ms < timeout_ms + SLACK_MS);
        cf_equal(call.now_ms, 0);
    }
    struct cf_node late = {.backend = NULL};
    cf_config(&late, *state, "late", NULL);
    late.config.request_timeout_ms = 60; /* for all of its connections together */
    int64_t begin_ms = cf_real_mono_ms();
    cf_equal(node->driver->open(&late.config, &late.backend), JOBSCHED_EUNREACHABLE);
    cf_true(cf_real_mono_ms() - begin_ms < 60 + SLACK_MS);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 0);
    cf_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(other);
    (void)cf_grant(node, &job, 1);
}

static void move(const char *from_suffix, const char *to_suffix)
{
    static const char *const files[] = {"", "-wal", "-shm", "-live"};
    for (size_t i = 0; i < 4; i++) {
        char from[2 * SQLITE_PATH_BYTES], to[2 * SQLITE_PATH_BYTES];
        (void)snprintf(from, sizeof from, "%s%s%s", sqlite_path, from_suffix, files[i]);
        (void)snprintf(to, sizeof to, "%s%s%s", sqlite_path, to_suffix, files[i]);
        (void)rename(from, to); /* log and index may not be there */
    }
}

/* G8: a store that was taken away grants nothing, is not made anew behind the operator's back,
 * and is used again when it is put back; the run that went on is still ours. */
static void test_removed_store_is_noticed(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    int answer;
    move("", ".away");
    for (int i = 0; i < 2; i++) {
        jobsched_claim claim = cf_at(&job, 2);
        cf_equal(try_claim(node, &claim), JOBSCHED_EDATALOST);
        sqlite_expect_message("removed");
        cf_equal(try_renew(node, run.token, &answer), JOBSCHED_EDATALOST);
        cf_equal(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_EDATALOST);
        cf_equal(access(sqlite_path, F_OK), -1);
    }
    move(".away", "");
    cf_ok(try_renew(node, run.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    cf_ok(try_finish(node, run.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    (void)cf_grant(node, &job, 2);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
}

/* A store that was replaced by another is worked on as it is: the jobs are unknown there, the
 * runs are not ours any more, and the node enters it. */
static void test_replaced_store_is_joined(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    move("", ".away");
    struct cf_node *fresh = cf_open(world, "fresh"); /* has there the id that the other had here */
    jobsched_claim claim = cf_at(&job, 2);
    cf_equal(try_claim(node, &claim), JOBSCHED_EDATALOST);
    cf_ok(try_claim(node, &claim));
    cf_answer(claim, UNKNOWN);
    job = cf_job(fresh, "job", 3);
    jobsched_claim other = cf_grant(fresh, &job, 1);
    int answer;
    cf_ok(try_finish(node, other.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_GONE);
    cf_ok(try_renew(node, other.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_GONE);
    cf_true(run.token == other.token); /* or this shows nothing */
    claim = cf_at(&job, 1);
    cf_ok(try_claim(node, &claim));
    cf_answer(claim, DONE);
    /* Both are nodes of the new store, and live. */
    cf_equal(sqlite_ask("SELECT count(DISTINCT id) FROM node"), 2);
    claim = cf_at(&job, 2);
    cf_ok(try_claim(node, &claim));
    cf_answer(claim, HELD);
    cf_ok(try_finish(fresh, other.token, &answer));
    cf_equal(answer, JOBSCHED_LEASE_KEPT);
    (void)cf_grant(node, &job, 2);
    claim = cf_at(&job, 3);
    cf_ok(try_claim(fresh, &claim));
    cf_answer(claim, HELD);
}

/* Damage that is found while running is told as such, and the store works again when the file is
 * as it was. */
static void test_damage_is_noticed_and_cured(void **state)
{
    struct cf_world *world = *state;
    char keep[SQLITE_PATH_BYTES];
    sqlite_name(keep, ".keep");
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    sqlite_do(sqlite_path, "PRAGMA wal_checkpoint(TRUNCATE)");
    void *bytes = NULL;
    int64_t size = sqlite_read_file(sqlite_path, &bytes);
    cf_true(size > 8192);
    char *damaged = malloc((size_t)size);
    cf_true(damaged != NULL);
    memcpy(damaged, bytes, (size_t)size);
    memset(damaged + 4096, 0xa5, (size_t)size - 4096);
    sqlite_write_file(keep, damaged, (size_t)size);
    cf_equal(rename(keep, sqlite_path), 0);
    jobsched_claim claim = cf_at(&job, 1);
    cf_equal(try_claim(node, &claim), JOBSCHED_EDATALOST); /* another file */
    cf_equal(try_claim(node, &claim), JOBSCHED_EDATALOST); /* and it is damaged */
    sqlite_expect_message("damaged");
    sqlite_write_file(keep, bytes, (size_t)size);
    cf_equal(rename(keep, sqlite_path), 0);
    int code = try_claim(node, &claim);
    cf_true(code == JOBSCHED_OK || code == JOBSCHED_EDATALOST); /* a connection may be left */
    cf_ok(try_claim(node, &claim));
    cf_answer(claim, GRANTED);
    free(damaged);
    free(bytes);
}

static int count_run(const jobsched_run_record *record, void *data)
{
    (void)record;
    (*(int *)data)++;
    return 0;
}

/* Damage in the very same file: what was read of it must not be remembered. */
static void test_damage_in_place_is_cured(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 1);
    (void)cf_grant(node, &job, 1);
    sqlite_do(sqlite_path, "PRAGMA wal_checkpoint(TRUNCATE)");
    void *bytes = NULL;
    int64_t size = sqlite_read_file(sqlite_path, &bytes);
    cf_true(size > 8192);
    char *damaged = malloc((size_t)size);
    cf_true(damaged != NULL);
    memcpy(damaged, bytes, (size_t)size);
    memset(damaged + 4096, 0xa5, (size_t)size - 4096);
    static const int expected[] = {JOBSCHED_EDATALOST, JOBSCHED_OK};
    for (int i = 0; i < 2; i++) {
        sqlite_write_file(sqlite_path, i == 0 ? damaged : bytes, (size_t)size);
        int count = 0;
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        cf_equal(node->driver->runs(node->backend, &call, "job", 9, count_run, &count),
                 expected[i]);
        cf_equal(count, i);
    }
    free(damaged);
    free(bytes);
}

/* G11: no statement walks through all fences or the whole ledger, but the reader of all runs,
 * which is bounded by its limit. Statements that look at every node row are meant to. */
static void test_statements_use_their_indexes(void **state)
{
    static const struct {
        const char *name, *text;
    } statements[] = {
#define STATEMENT(name, text) {#name, text},
        JSI_SQL_MAP(STATEMENT)
#undef STATEMENT
    };
    cf_close(*state, cf_open(*state, "node"));
    sqlite3 *db = NULL;
    cf_equal(sqlite3_open(sqlite_path, &db), SQLITE_OK);
    size_t seen = 0;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        char sql[4096];
        (void)snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", statements[i].text);
        sqlite3_stmt *plan = NULL;
        cf_equal(sqlite3_prepare_v2(db, sql, -1, &plan, NULL), SQLITE_OK);
        while (sqlite3_step(plan) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(plan, 3);
            seen++;
            int scans = strncmp(step, "SCAN ", 5) == 0;
            /* Partial indexes hold only what waits or goes on. */
            int bounded = strstr(step, "INDEX run_") != NULL || strncmp(step, "SCAN n", 6) == 0 ||
                          strcmp(step, "SCAN CONSTANT ROW") == 0 ||
                          strncmp(step, "SCAN (subquery", 14) == 0 ||
                          strcmp(statements[i].name, "RUNS_OF_ALL") == 0;
            if (scans && !bounded) {
                fail_msg("%s: %s", statements[i].name, step);
            }
        }
        (void)sqlite3_finalize(plan);
    }
    (void)sqlite3_close(db);
    cf_true(seen > 30);
}

int main(void)
{
#define SHIM(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up_shim, sqlite_tear_down)
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        SHIM(test_full_disk_changes_nothing),
        SHIM(test_full_disk_in_other_calls),
        SHIM(test_full_disk_at_creation),
        SHIM(test_failing_disk_is_unknown_then_found_out),
        TEST(test_grants_stop_at_what_was_asked_for),
        TEST(test_lock_of_another_process_is_bounded),
        TEST(test_removed_store_is_noticed),
        TEST(test_replaced_store_is_joined),
        TEST(test_damage_is_noticed_and_cured),
        TEST(test_damage_in_place_is_cured),
        TEST(test_statements_use_their_indexes),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
