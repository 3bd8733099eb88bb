/* test_postgres_store.c: the tables of a postgresql: store: who makes them, who may, which version
 * they have, and what is locked in them.
 *   test_postgres_store DIRECTORY     of a server that postgres.sh has started */
#include "postgres_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char advisory_locks[] =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()";

/* A session that is over may keep its locks until the server comes to it. */
static void await_locks(int64_t count)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_ask(advisory_locks) != count && cf_real_mono_ms() < deadline_ms) {
        cf_pause();
    }
    cf_equal(postgres_ask(advisory_locks), count);
}

/* G16: many nodes may be the first at the same time; the store is made once. */
static void test_eight_processes_make_the_schema(void **state)
{
    enum { PROCESSES = 8 };
    struct cf_world *world = *state;
    for (int round = 0; round < 3; round++) {
        int go[2];
        pid_t children[PROCESSES];
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
        cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".meta"), 1);
        cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), PROCESSES);
        postgres_do("DROP SCHEMA \"%s\" CASCADE");
    }
}

/* G16: a newer schema is refused by name, by who comes and by who is there already. */
static void test_newer_schema_is_refused(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    postgres_do("UPDATE \"%s\".meta SET version = 2");
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_ESCHEMA);
    postgres_expect_message("version 2");
    postgres_expect_message("use a newer library");
    jobsched_claim claim = cf_at(&job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_ESCHEMA);
    call = cf_call(JOBSCHED_LANE_KEEP);
    cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0), JOBSCHED_ESCHEMA);
    postgres_do("UPDATE \"%s\".meta SET version = 1");
    (void)cf_grant(node, &job, 1); /* cured, it goes on */
    postgres_do("DROP SCHEMA \"%s\" CASCADE");
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_EDATALOST);
    postgres_do("CREATE SCHEMA \"%s\" CREATE TABLE run(x int)");
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_EREFUSED);
    postgres_expect_message("another application");
    cf_equal(postgres_ask("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND "
                          "relnamespace = '\"%s\"'::regnamespace"),
             1); /* nothing half-done */
}

/* G2: an epoch that tokens have no room for, which would make them small again, is refused. */
static void test_epoch_beyond_tokens_is_refused(void **state)
{
    struct cf_world *world = *state;
    (void)cf_open(world, "node");
    postgres_do("UPDATE \"%s\".meta SET epoch = 4194303");
    cf_ok(postgres_try_url(world, world->url));
    postgres_do("UPDATE \"%s\".meta SET epoch = 4194304");
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_EINTERNAL);
    postgres_expect_message("epoch '4194304', allowed are 0 to 4194303");
}

/* G16: handles that only make control calls leave nothing behind, also where no scheduler runs that
 * would clear it away. */
static void test_control_handles_leave_no_row(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    (void)cf_job(node, "job", 2);
    cf_close(world, node);
    for (int n = 0; n < 20; n++) {
        struct cf_node control = {.backend = NULL};
        cf_config(&control, world, "control", NULL);
        control.config.control_only = 1;
        cf_ok(control.driver->open(&control.config, &control.backend));
        cf_ok(cf_control(&control, n % 2 == 0 ? JOBSCHED_VERB_PAUSE : JOBSCHED_VERB_RESUME, "job",
                         NULL, NULL));
        cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 1);
        control.driver->close(control.backend);
    }
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 0);
}

/* G16: what a control handle leaves that never closed is cleared away by a node an hour later, and not
 * before. One that was only silent goes on by itself. */
static void test_rows_of_lost_control_handles_are_swept(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    (void)cf_job(node, "job", 2);
    const struct cf_settings settings = {.control_only = 1};
    struct cf_node *control = cf_open_with(world, "control", &settings);
    cf_ok(cf_control(control, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    postgres_do("INSERT INTO \"%s\".commander(handle, nonce, at_ms) SELECT gen_random_uuid(), 1,"
                " \"%s\".now_ms() - 3660000 FROM generate_series(1, 5)");
    postgres_do("INSERT INTO \"%s\".commander(handle, nonce, at_ms) VALUES (gen_random_uuid(), 1,"
                " \"%s\".now_ms() - 3000000)");
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 7);
    struct cf_found found;
    (void)cf_reap(node, &found, 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 2);
    postgres_do("UPDATE \"%s\".commander SET at_ms = at_ms - 3660000");
    (void)cf_reap(node, &found, 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 0);
    cf_ok(cf_control(control, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".commander"), 1);
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

static int count_one(const char *statement, void *visit_data)
{
    int *count = visit_data;
    cf_true(statement[0] != '\0');
    return ++*count == 3;
}

/* G8: rights that are missing are told as such; with those that docs/backends.md names, a store
 * that somebody else has made by the DDL's text can be used. */
static void test_rights(void **state)
{
    struct cf_world *world = *state;
    char url[POSTGRES_URL_BYTES], user[64], sql[256];
    (void)snprintf(user, sizeof user, "u%s", postgres_schema);
    (void)snprintf(sql, sizeof sql, "CREATE ROLE %s LOGIN", user);
    postgres_do(sql);
    postgres_url(url, sizeof url, user, "");
    cf_equal(postgres_try_url(world, url), JOBSCHED_EACCESS); /* may not make a schema */
    postgres_expect_message("42501");
    postgres_url(url, sizeof url, "nobody_of_that_name", "&password=geheim");
    cf_equal(postgres_try_url(world, url), JOBSCHED_EACCESS);
    postgres_expect_message("28000");
    cf_true(strstr(jobsched_last_error()->message, "geheim") == NULL);

    PGconn *conn = postgres_connect();
    cf_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
    cf_ok(world->driver->schema(world->url, apply, conn));
    cf_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
    PQfinish(conn);
    int count = 0;
    cf_ok(world->driver->schema(world->url, count_one, &count));
    cf_equal(count, 3); /* the visitor has ended it */
    cf_equal(world->driver->schema("postgresql://?jobsched_schema=A", count_one, &count),
             JOBSCHED_EINVAL);
    postgres_url(url, sizeof url, user, "");
    cf_equal(postgres_try_url(world, url), JOBSCHED_EACCESS); /* may not look into it */
    (void)snprintf(sql, sizeof sql,
                   "GRANT USAGE ON SCHEMA \"%%s\" TO %s; GRANT SELECT, INSERT, UPDATE, DELETE ON "
                   "ALL TABLES IN SCHEMA \"%%s\" TO %s",
                   user, user);
    postgres_do(sql);
    (void)snprintf(world->url, sizeof world->url, "%s", url);
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 1);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_close(world, node);
    (void)snprintf(sql, sizeof sql, "DROP OWNED BY %s; DROP ROLE %s", user, user);
    postgres_do(sql);
}

/* G1, G4: two names under one advisory key are two jobs: at worst they are busy for each other. */
static void test_names_that_share_a_key(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    postgres_do("CREATE OR REPLACE FUNCTION \"%s\".job_key(a_ns text, a_job text) RETURNS bigint "
                "LANGUAGE sql IMMUTABLE AS 'SELECT 7::bigint'");
    struct cf_job one = cf_job(a, "one", 0), two = cf_job(a, "two", 9);
    jobsched_claim both[] = {cf_at(&one, 1), cf_at(&two, 1)};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(a->driver->claim(a->backend, &call, both, 2));
    cf_answer(both[0], GRANTED);
    cf_answer(both[1], GRANTED);
    jobsched_claim next = cf_at(&two, 2);
    cf_ask(b, &next);
    cf_answer(next, HELD); /* its own run, not the other job's */
    cf_equal(next.holder_token, both[1].token);
    cf_equal(cf_finish(a, "two", both[1].token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    next = cf_grant(b, &two, 2);
    cf_equal(cf_renew(a, "one", both[0].token), JOBSCHED_LEASE_KEPT);

    /* Somebody else's transaction is at the one: the other is busy, nothing of it changed. */
    PGconn *conn = postgres_connect();
    PQclear(PQexec(conn, "BEGIN; SELECT pg_advisory_xact_lock(7)"));
    jobsched_claim busy = cf_at(&two, 3);
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(b->driver->claim(b->backend, &call, &busy, 1));
    cf_answer(busy, BUSY);
    cf_true(busy.wait_ms >= 10 && busy.wait_ms <= 50);
    cf_equal(busy.mark_ms, two.mark_ms + 2);
    PQfinish(conn);
    cf_equal(cf_finish(b, "two", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    (void)cf_grant(b, &two, 3);
}

/* G16: what failed or was refused leaves no lock behind, and a row lock is not waited for. */
static void test_no_lock_is_left_behind(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    (void)cf_grant(node, &job, 1);
    await_locks(1); /* the node's; those of the test before are gone */
    PGconn *conn = postgres_connect();
    PQclear(PQexec(conn, "SELECT pg_advisory_lock(7)")); /* one of somebody else's */
    postgres_do("ALTER TABLE \"%s\".run ADD CONSTRAINT refuse CHECK (token < 2)");
    for (int i = 0; i < 1000; i++) {
        jobsched_claim claim = cf_at(&job, i % 4);
        claim.when_held = i % 2 == 0 ? JOBSCHED_HELD_ALLOW : JOBSCHED_HELD_WAIT;
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int code = node->driver->claim(node->backend, &call, &claim, 1);
        cf_true(code == 0 ? claim.answer != JOBSCHED_ANSWER_NONE : code == JOBSCHED_EINTERNAL);
        cf_true(code != 0 || claim.token < 2);
    }
    await_locks(2);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run"), 1);
    PQfinish(conn);
}

/* G8: a table that somebody has locked is not waited for beyond the call's time, and the failure
 * says that nothing was changed, because the server gave up before we did. */
static void test_a_locked_table_is_not_waited_for(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    PGconn *conn = postgres_connect();
    char sql[128];
    (void)snprintf(sql, sizeof sql, "BEGIN; LOCK TABLE \"%s\".fence", postgres_schema);
    PQclear(PQexec(conn, sql));
    jobsched_claim claim = cf_at(&job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int64_t began_ms = cf_real_mono_ms();
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_EUNREACHABLE);
    cf_true(cf_real_mono_ms() - began_ms < CF_TIMEOUT_MS);
    /* With less time than the server was told, we give up first, and do not know. */
    call = cf_call(JOBSCHED_LANE_CLAIM);
    call.timeout_ms = 200;
    began_ms = cf_real_mono_ms();
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_EUNKNOWN);
    cf_true(cf_real_mono_ms() - began_ms < CF_TIMEOUT_MS / 2);
    PQfinish(conn);
    (void)cf_grant(node, &job, 1);
}

/* The in-transaction fence: while a transaction relies on a token nobody can take the run over, and
 * a token that is not valid any more ends the transaction. */
static void test_assert_token(void **state)
{
    postgres_options = "&jobsched_grace=0ms";
    struct cf_world *world = *state;
    postgres_url(world->url, sizeof world->url, "postgres", postgres_options);
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job job = cf_job(owner, "job", 4);
    jobsched_claim run = cf_grant(owner, &job, 1);
    PGconn *conn = postgres_connect();
    char sql[512];
    (void)snprintf(sql, sizeof sql, "SELECT \"%s\".assert_token('%s', 'job', %llu)",
                   postgres_schema, world->name_space, (unsigned long long)run.token);
    PQclear(PQexec(conn, "BEGIN"));
    PGresult *result = PQexec(conn, sql);
    cf_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    /* Neither its own renewals and progress nor other occurrences wait for the transaction. */
    jobsched_lease lease = {.job = "job", .note = "half", .token = run.token, .progress_done = 1};
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(owner->driver->renew(owner->backend, &call, 0, &lease, 1));
    cf_equal(lease.answer, JOBSCHED_LEASE_KEPT);
    struct cf_row row;
    assert_string_equal(cf_newest(owner, "job", &row)->note, "half");
    atomic_fetch_add(&other->clock.mono_offset_ms, CF_LEASE_MS);
    jobsched_claim next = cf_at(&job, 2);
    cf_ask(other, &next);
    cf_answer(next, HELD);
    atomic_fetch_add(&other->clock.mono_offset_ms, CF_LEASE_MS);
    cf_ask(other, &next);
    cf_answer(next, HELD); /* dead by the heartbeat, but the transaction is first */
    struct cf_found found;
    cf_equal(cf_reap(other, &found, 1), 0);
    PQclear(PQexec(conn, "COMMIT"));
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (next.answer == JOBSCHED_ANSWER_HELD) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        atomic_fetch_add(&other->clock.mono_offset_ms, CF_LEASE_MS);
        cf_ask(other, &next);
    }
    cf_answer(next, GRANTED);
    result = PQexec(conn, sql);
    cf_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "JS002");
    PQclear(result);
    PQfinish(conn);
}

/* G8: what cannot be a URL is refused with EINVAL, and no message shows a password. */
static void test_urls(void **state)
{
    static const char *const urls[] = {
        "postgresql:nonsense",
        "postgresql:?host=x",
        "postgresql://?jobsched_nonsense=1",
        "postgresql://u:geheim@[::1/db",
        "postgresql://u:geheim@h/db?nonsense=1",
        "postgresql://u:%zzgeheim@h/db",
        "postgresql://u:geheim@h/db?jobsched_schema=",
        "postgresql://u:geheim@h/db?jobsched_schema=Upper",
        "postgresql://u:geheim@h/db?jobsched_schema=pg_x",
        "postgresql://u:geheim@h/db?jobsched_schema=1x",
        "postgresql://u:geheim@h/db?jobsched_schema=a%22b",
        "postgresql://u:geheim@h/db?jobsched_grace=",
        "postgresql://u:geheim@h/db?jobsched_grace=-1",
        "postgresql://u:geheim@h/db?jobsched_grace=61s",
        "postgresql://u:geheim@h/db?jobsched_grace=1h",
        "postgresql://u:geheim@h:x/db",
        "postgresql://u:geheim@h:70000/db",
        "postgresql://u:geheim@h:0/db",
        "postgresql://u:geheim@h:5432,i:123456/db",
        "postgresql://u:geheim@h/db?port=geheim",
        "postgresql://u:geheim@h/db?port=5432,65536",
        /* '@host' is forgotten */
        "postgresql://:geheim",
        "postgresql://u:geheim",
        "postgresql://u:geheim/db",
        "postgresql://u:1geheim/db",
        "postgresql://u:5432,v:geheim/db",
        "postgresql://u:ge?heim&geheim=geheim",
        "postgresql://u:ge?jobsched_geheim=geheim",
        "postgresql://[::1]:geheim/db",
    };
    struct cf_world *world = *state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        int code = postgres_try_url(world, urls[i]);
        if (code != JOBSCHED_EINVAL) {
            print_error("'%s' gave %s\n", urls[i], jobsched_code_name(code));
        }
        cf_equal(code, JOBSCHED_EINVAL);
        cf_true(strstr(jobsched_last_error()->message, "geheim") == NULL);
    }
    cf_equal(postgres_try_url(world, "postgresql://app:geheim/db"), JOBSCHED_EINVAL);
    postgres_expect_message("is '@host' missing");
    char url[POSTGRES_URL_BYTES];
    (void)snprintf(url, sizeof url, "postgresql://u:geheim@/db?host=%s/none", postgres_directory);
    cf_equal(postgres_try_url(world, url), JOBSCHED_EUNREACHABLE);
    cf_true(strstr(jobsched_last_error()->message, "geheim") == NULL);
    (void)snprintf(url, sizeof url, "postgres:///nowhere?user=postgres&host=%s",
                   postgres_directory);
    cf_equal(postgres_try_url(world, url), JOBSCHED_EUNREACHABLE);
    postgres_expect_message("3D000");
    (void)snprintf(url, sizeof url,
                   "postgres:///postgres?jobsched_grace=2s&user=postgres&host=%s&"
                   "jobsched_schema=%s",
                   postgres_directory, postgres_schema);
    cf_ok(postgres_try_url(world, url));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".meta"), 1);
}

/* G10, G11: every session is told what bounds it, so that the server notices owners that hang or are
 * half gone; and only the one that shows the node alive ends when it is idle. */
static void test_settings_of_sessions(void **state)
{
    static const struct {
        const char *name, *value;
        int keeper_only;
    } wanted[] = {
        {"statement_timeout", "18s", 0},
        {"lock_timeout", "10001ms", 0},
        {"idle_in_transaction_session_timeout", "18s", 0},
        {"client_connection_check_interval", "1s", 0},
        {"idle_session_timeout", "1h", 1},
        {"search_path", "pg_catalog, pg_temp", 0},
        {"transaction_isolation", "read committed", 0},
        {"synchronous_commit", "on", 0},
        {"row_security", "off", 0},
    };
    postgres_do("ALTER ROLE postgres SET synchronous_commit = off");
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 1);
    /* The clock is asked in every session. */
    postgres_do(
        "CREATE TABLE \"%s\".seen(pid int, name text, value text, PRIMARY KEY (pid, name))");
    postgres_do("CREATE OR REPLACE FUNCTION \"%s\".now_ms() RETURNS bigint LANGUAGE plpgsql AS "
                "$f$BEGIN INSERT INTO \"%s\".seen SELECT pg_backend_pid(), name, "
                "current_setting(name) FROM pg_settings ON CONFLICT DO NOTHING; RETURN "
                "floor(date_part('epoch', clock_timestamp()) * 1000); END$f$");
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(node, &claim);
    cf_equal(cf_renew(node, "job", claim.token), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
    postgres_do("ALTER ROLE postgres RESET synchronous_commit");
    cf_equal(postgres_ask("SELECT count(DISTINCT pid) FROM \"%s\".seen"), 3);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM \"%%s\".seen WHERE name = '%s' AND value = '%s'",
                       wanted[i].name, wanted[i].value);
        if (postgres_ask(sql) != (wanted[i].keeper_only ? 1 : 3)) {
            fail_msg("%s is not %s", wanted[i].name, wanted[i].value);
        }
    }
}

/* G16: rows that are too old go, also those of a job that nobody claims any more; nothing goes that
 * goes on or waits. */
static void test_aged_rows_are_swept(void **state)
{
    enum { RUNS = 300 }; /* more than one sweep looks at */
    struct cf_world *world = *state;
    struct cf_settings brief = {.history_age_ms = 1};
    struct cf_node *node = cf_open(world, "node"), *other = cf_open_with(world, "other", &brief);
    struct cf_job job = cf_job(node, "job", RUNS + 1);
    for (int64_t k = 1; k <= RUNS; k++) {
        jobsched_claim skip = cf_range(&job, k, k, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        cf_ask(node, &skip);
        cf_answer(skip, GRANTED);
    }
    jobsched_claim run = cf_grant(node, &job, RUNS + 1);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    cf_wait_until(node, cf_now(node) + 2);
    struct cf_found found;
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_reap(other, &found, 1), 1); /* the trigger */
    }
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run"), 2);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G16: triggers that nobody takes do not grow for ever. */
static void test_waiting_triggers_are_bounded(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    (void)cf_job(node, "job", 0);
    postgres_do("INSERT INTO \"%s\".run(fence, seq, kind, outcome, scheduled_ms, last_ms, request) "
                "SELECT f.id, i, 2, 0, 1, 1, 'r' || i FROM \"%s\".fence f, "
                "generate_series(1, 9999) i; UPDATE \"%s\".fence SET seq = 9999");
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "last", NULL));
    cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "more", NULL), JOBSCHED_EREFUSED);
    postgres_expect_message("'job' has 10000 triggers");
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "last", NULL)); /* known: a repetition */
}

/* A note is what a job has written, which need not be text: it is made so. */
static void test_notes_are_made_text(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 1);
    jobsched_claim run = cf_grant(node, &job, 1);
    jobsched_finish end = {.job = "job",
                           .note = "a\xff\xc3(\xed\xa0\x80\\\"{}\xe2\x82",
                           .token = run.token,
                           .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->finish(node->backend, &call, &end, 1));
    struct cf_row row;
    assert_string_equal(cf_newest(node, "job", &row)->note, "a?"
                                                            "?(???\\\"{}?"
                                                            "?");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, postgres_tear_down)
        TEST(test_eight_processes_make_the_schema),
        TEST(test_newer_schema_is_refused),
        TEST(test_epoch_beyond_tokens_is_refused),
        TEST(test_control_handles_leave_no_row),
        TEST(test_rows_of_lost_control_handles_are_swept),
        TEST(test_rights),
        TEST(test_names_that_share_a_key),
        TEST(test_no_lock_is_left_behind),
        TEST(test_a_locked_table_is_not_waited_for),
        TEST(test_assert_token),
        TEST(test_urls),
        TEST(test_settings_of_sessions),
        TEST(test_aged_rows_are_swept),
        TEST(test_waiting_triggers_are_bounded),
        TEST(test_notes_are_made_text),
    };
    postgres_directory = argc > 1 ? argv[1] : "/tmp";
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
