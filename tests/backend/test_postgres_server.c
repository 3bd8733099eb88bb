/* test_postgres_server.c: what happens to the server itself: restarts, standbys, poolers, and a
 * server that has nothing left. Every test starts servers of its own.
 *   test_postgres_server DIRECTORY */
#include "checks.h"
#include "postgres_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BOUNCER_PORT "6431" /* only names a unix socket in a folder of ours */

static char primary[64], standby[64], bouncer[64];

static int set_up(void **state)
{
    (void)snprintf(primary, sizeof primary, "/tmp/jpgs-%ld", (long)getpid());
    (void)snprintf(standby, sizeof standby, "/tmp/jpgt-%ld", (long)getpid());
    (void)snprintf(bouncer, sizeof bouncer, "/tmp/jpgb-%ld", (long)getpid());
    postgres_directory = primary;
    if (postgres_script("start", primary, "max_connections=30") != 0) {
        return -1;
    }
    return postgres_set_up(state);
}

static void stop_bouncer(void);

static int tear_down(void **state)
{
    stop_bouncer(); /* of a test that has failed */
    int result = cf_teardown(state);
    postgres_disconnect();
    (void)postgres_script("remove", primary, "");
    (void)postgres_script("remove", standby, "");
    return result;
}

/* Renews until it works again, as the engine does; returns the answer. */
static int renew_again(struct cf_node *node, uint64_t token)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    for (;;) {
        jobsched_lease item = {.job = "job", .note = "", .token = token};
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        int code = node->driver->renew(node->backend, &call, 0, &item, 1);
        if (code == JOBSCHED_OK) {
            return item.answer;
        }
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* G5, G8: the server crashes and starts again under a living owner. Its run goes on, nobody is
 * granted the job, and everybody's next call works. */
static void test_restarted_server(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job job = cf_job(owner, "job", 9);
    jobsched_claim run = cf_grant(owner, &job, 1);
    for (int64_t round = 1; round <= 3; round++) {
        cf_equal(postgres_script("restart", primary, ""), 0);
        int64_t until_ms = cf_real_mono_ms() + 1500;
        while (cf_real_mono_ms() < until_ms) {
            jobsched_claim claim = cf_at(&job, round + 1);
            jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
            int code = other->driver->claim(other->backend, &call, &claim, 1);
            cf_true(code == JOBSCHED_OK || code == JOBSCHED_EUNREACHABLE ||
                    code == JOBSCHED_EUNKNOWN);
            if (code == JOBSCHED_OK) {
                cf_answer(claim, HELD);
            }
            cf_pause();
        }
        cf_equal(renew_again(owner, run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        run = cf_grant(owner, &job, round + 1);
        cf_equal(run.token, (uint64_t)round + 1);
    }
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 7"), 0);
}

/* G8: while the server is down every call fails within its time, as unreachable. */
static void test_stopped_server(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    postgres_disconnect();
    cf_equal(postgres_script("stop", primary, "fast"), 0);
    jobsched_claim claim = cf_at(&job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_EUNREACHABLE);
    postgres_expect_message(primary);
    call = cf_call(JOBSCHED_LANE_KEEP);
    cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0), JOBSCHED_EUNREACHABLE);
    cf_equal(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_EUNREACHABLE);
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_EUNREACHABLE);
    cf_equal(postgres_script("start", primary, ""), 0);
    (void)renew_again(node, 0); /* a grant amid the return would have to be asked for again */
    (void)cf_grant(node, &job, 1);
}

/* G8: a standby is refused by name, and promoted it is taken for what it is: a server that may have
 * forgotten the last grants. The one that it has forgotten here is not granted again (G1). */
static void test_standby_and_promotion(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim first = cf_grant(node, &job, 1);
    cf_equal(cf_finish(node, "job", first.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(postgres_script("standby", standby, primary), 0);
    postgres_directory = standby;
    char url[POSTGRES_URL_BYTES];
    postgres_url(url, sizeof url, "postgres", "");
    cf_equal(postgres_try_url(world, url), JOBSCHED_EREFUSED);
    postgres_expect_message("is a standby");

    /* The standby hears of nothing more: neither of the last grant nor of a pause. */
    postgres_disconnect();
    postgres_do("ALTER SYSTEM SET primary_conninfo = ''");
    postgres_do("SELECT pg_reload_conf()");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_ask("SELECT count(*) FROM pg_stat_wal_receiver") != 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    jobsched_claim forgotten = cf_grant(node, &job, 2);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    cf_close(world, node);
    postgres_disconnect();
    cf_equal(postgres_script("stop", primary, "immediate"), 0);
    cf_equal(postgres_script("promote", standby, ""), 0);
    (void)snprintf(world->url, sizeof world->url, "%s", url);
    struct cf_node late = {.backend = NULL};
    cf_config(&late, world, "late", NULL);
    cf_ok(late.driver->open(&late.config, &late.backend));
    cf_true(atomic_load(&late.losses) > 0); /* also that a pause may be forgotten */
    jobsched_claim again = cf_at(&job, 2);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(late.driver->claim(late.backend, &call, &again, 1));
    cf_answer(again, BUSY);
    postgres_do(
        "UPDATE \"%s\".meta SET quarantine_until_ms = least(quarantine_until_ms,"
        " \"%s\".now_ms() + 500), lost_at_ms = 0"); /* the node's lease of an hour is too long for a test */
    cf_ask(&late, &again);
    cf_answer(again, DONE);
    cf_equal(again.mark_ms, job.mark_ms + 2);
    struct cf_row row;
    cf_newest(&late, "job", &row); /* G9: the one that was forgotten has an outcome */
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_equal(row.record.scheduled_at_ms, job.mark_ms + 2);
    cf_true(strstr(row.note, "forgotten") != NULL);
    again.after_ms = again.mark_ms;
    again.scheduled_ms = cf_now(&late);
    again.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(&late, &again);
    cf_answer(again, GRANTED);
    cf_true(again.token > forgotten.token);
    late.driver->close(late.backend);
}

/* No connection slots: unreachable, told as such, and cured when there are some. */
static void test_no_connections_left(void **state)
{
    enum { MANY = 40 };
    struct cf_world *world = *state;
    PGconn *conns[MANY];
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    char text[POSTGRES_URL_BYTES];
    (void)snprintf(text, sizeof text, "postgresql:///postgres?host=%s&user=postgres", primary);
    for (int i = 0; i < MANY; i++) {
        conns[i] = PQconnectdb(text);
    }
    int code = postgres_try_url(world, world->url);
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "%s", jobsched_last_error()->message);
    (void)cf_grant(node, &job, 1); /* who has its connections goes on */
    for (int i = 0; i < MANY; i++) {
        PQfinish(conns[i]);
    }
    cf_equal(code, JOBSCHED_EUNREACHABLE);
    cf_true(strstr(message, "53300") != NULL);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_try_url(world, world->url) != JOBSCHED_OK) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* A database that takes no writes is refused as such, and nothing is half-done. */
static void test_read_only_database(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    postgres_do("ALTER DATABASE postgres SET default_transaction_read_only = on");
    cf_equal(postgres_try_url(world, world->url), JOBSCHED_EREFUSED);
    postgres_expect_message("25006");
    postgres_disconnect();
    postgres_do("SET default_transaction_read_only = off");
    postgres_do("ALTER DATABASE postgres RESET default_transaction_read_only");
    (void)cf_grant(node, &job, 1);
    cf_ok(postgres_try_url(world, world->url));
}

static int start_bouncer(const char *mode, const char *more)
{
    char command[1400];
    (void)snprintf(
        command, sizeof command,
        "mkdir -p %s && printf '[databases]\\npostgres = host=%s user=postgres\\n[pgbouncer]\\n"
        "listen_port = " BOUNCER_PORT "\\nlisten_addr =\\nunix_socket_dir = %s\\n"
        "auth_type = any\\npool_mode = %s\\n%s\\nlogfile = %s/log\\npidfile = %s/pid\\n' > %s/ini "
        "&& "
        "chmod 0777 %s && if [ \"$(id -u)\" = 0 ]; then run='setpriv --reuid=nobody "
        "--regid=nogroup --clear-groups'; else run=; fi; $run $(command -v pgbouncer || echo "
        "/usr/sbin/pgbouncer) -d -q %s/ini > /dev/null 2>&1",
        bouncer, primary, bouncer, mode, more, bouncer, bouncer, bouncer, bouncer, bouncer);
    return system(command);
}

static void stop_bouncer(void)
{
    char command[512];
    /* It removes its files when it ends, and those of the next one have the same names. A dead one may
     * stay a zombie until whoever is process 1 looks. */
    (void)snprintf(command, sizeof command,
                   "if pid=$(cat %s/pid 2> /dev/null) && kill $pid 2> /dev/null; then tries=0; "
                   "while kill -0 $pid 2> /dev/null && ! grep -q '^State:.Z' /proc/$pid/status "
                   "2> /dev/null && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; "
                   "done; fi; rm -rf %s",
                   bouncer, bouncer);
    (void)!system(command);
}

static void bouncer_url(char *out, size_t bytes, const char *options)
{
    (void)snprintf(out, bytes,
                   "postgresql:///postgres?host=%s&port=" BOUNCER_PORT
                   "&user=postgres&jobsched_schema=%s%s",
                   bouncer, postgres_schema, options);
}

/* What opening through the pooler answers, once that is up. */
static int try_bouncer(struct cf_world *world, const char *options)
{
    char url[POSTGRES_URL_BYTES];
    bouncer_url(url, sizeof url, options);
    int code = JOBSCHED_EUNREACHABLE;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (code == JOBSCHED_EUNREACHABLE && cf_real_mono_ms() < deadline_ms) {
        code = postgres_try_url(world, url);
        cf_pause();
    }
    return code;
}

/* G8: a pooler that shares sessions out is refused with what to do about it, however it chooses
 * among them, before anything was set in a session that others use. */
static void test_sharing_pooler_is_refused(void **state)
{
    static const char *const manners[] = {"", "server_round_robin = 1\nmin_pool_size = 5",
                                          "default_pool_size = 1"};
    struct cf_world *world = *state;
    for (int i = 0; i < 3; i++) {
        cf_equal(start_bouncer("transaction", manners[i]), 0);
        int code = try_bouncer(world, "");
        char message[JOBSCHED_MESSAGE_BYTES];
        (void)snprintf(message, sizeof message, "%s", jobsched_last_error()->message);
        stop_bouncer();
        if (code != JOBSCHED_EREFUSED) {
            print_error("%s: %s\n", manners[i], message);
        }
        cf_equal(code, JOBSCHED_EREFUSED);
        cf_true(strstr(message, "'pool_mode=session'") != NULL);
        cf_true(strstr(message, "'jobsched_mode=row'") != NULL);
    }
    cf_equal(postgres_ask("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'"), 0);
}

/* A grant, its renewal and its end through the pooler, beside a node at the server itself; mode is
 * what doctor finds. */
static void work_through_bouncer(struct cf_world *world, const char *options, const char *mode)
{
    struct cf_node *direct = cf_open(world, "direct");
    struct cf_job job = cf_job(direct, "job", 5);
    bouncer_url(world->url, sizeof world->url, options);
    struct cf_node *node = cf_open(world, "pooled"), *other = cf_open(world, "other");
    struct checks checks;
    checks_read(node, &checks);
    checks_expect(&checks, mode);
    for (int64_t k = 1; k <= 5; k++) {
        jobsched_claim run = cf_grant(node, &job, k);
        jobsched_claim again = cf_at(&job, k + 1);
        again.scheduled_ms = k < 5 ? again.scheduled_ms : job.mark_ms + 5;
        cf_ask(direct, &again);
        cf_true(again.answer == (k < 5 ? JOBSCHED_ANSWER_HELD : JOBSCHED_ANSWER_DONE));
        struct cf_found found;
        cf_equal(cf_reap(direct, &found, 1), 0);
        cf_equal(cf_reap(other, &found, 1), 0);
        cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
    cf_close(world, node);
    cf_close(world, other);
    cf_close(world, direct);
}

/* Sessions of its own are all that a node needs: a pooler in session mode will do, and gets them
 * back as they were. */
static void test_session_pooler(void **state)
{
    struct cf_world *world = *state;
    cf_equal(start_bouncer("session", "server_reset_query ="), 0);
    cf_ok(try_bouncer(world, ""));
    work_through_bouncer(world, "", "1 postgresql.mode: session mode behind a connection pooler");
    postgres_options = "";
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS, locks;
    do { /* until the server has seen the last of the others off */
        locks = postgres_ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    } while (locks > 0 && cf_real_mono_ms() < deadline_ms);
    stop_bouncer();
    cf_equal(locks, 0);
}

/* G5: a pooler that refuses connections is no server that is down: the session behind it is gone, and
 * others, who reach the server past it, are granted the job. So its node is told in time. */
static void test_pooler_that_is_away_is_no_server_that_is_down(void **state)
{
    struct cf_world *world = *state;
    cf_equal(start_bouncer("session", "server_reset_query ="), 0);
    cf_ok(try_bouncer(world, ""));
    struct cf_node *other = cf_open(world, "other");
    struct cf_job job = cf_job(other, "job", 3);
    bouncer_url(world->url, sizeof world->url, "");
    struct cf_node *owner = cf_open(world, "owner");
    (void)cf_grant(owner, &job, 1);
    stop_bouncer();
    jobsched_claim claim = cf_at(&job, 2);
    int64_t told_ms = JOBSCHED_NONE, deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    do {
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        call.timeout_ms = 2000; /* it may take all of it */
        call.lost_at_mono_ms = JOBSCHED_NONE;
        int code = owner->driver->renew(owner->backend, &call, 0, NULL, 0);
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        told_ms = call.lost_at_mono_ms < told_ms ? call.lost_at_mono_ms : told_ms;
        cf_true(cf_real_mono_ms() < deadline_ms);
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(other->driver->claim(other->backend, &call, &claim, 1));
        cf_pause();
    } while (claim.answer == JOBSCHED_ANSWER_HELD);
    cf_answer(claim, GRANTED);
    cf_true(told_ms <= cf_real_mono_ms());
}

/* Row mode, when asked for: no lock outlasts a transaction, nothing is set or prepared in a
 * session, and who is alive is seen by heartbeats: a dead owner's job is free a lease later. */
static void test_row_mode(void **state)
{
    struct cf_world *world = *state;
    cf_equal(start_bouncer("transaction", "server_round_robin = 1\nmin_pool_size = 3"), 0);
    cf_ok(try_bouncer(world, "&jobsched_mode=row"));
    work_through_bouncer(world, "&jobsched_mode=row", "1 postgresql.mode: row mode");
    struct cf_node *dead = cf_open(world, "dead"), *node = cf_open(world, "node");
    struct cf_job job = cf_job(dead, "dies", 3);
    (void)cf_grant(dead, &job, 1);
    jobsched_claim claim = cf_at(&job, 2);
    cf_ask(node, &claim);
    cf_answer(claim, HELD);
    int64_t locks = postgres_ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    postgres_do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                "pid <> pg_backend_pid() AND backend_type = 'client backend'");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    while (node->driver->claim(node->backend, &call, &claim, 1) != JOBSCHED_OK) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    cf_answer(claim, HELD); /* lost sessions prove nothing */
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(node->driver->watch(node->backend), -1);
    /* The pooler goes on with another server, and its clients do not see that (G1, G2). */
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'");
    jobsched_claim next = cf_at(&job, 3);
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->claim(node->backend, &call, &next, 1));
    cf_answer(next, BUSY);
    cf_equal(postgres_ask("SELECT epoch FROM \"%s\".meta"), 1);
    cf_close(world, dead);
    cf_close(world, node);
    PGconn *conn = NULL;
    char text[POSTGRES_URL_BYTES];
    (void)snprintf(text, sizeof text,
                   "postgresql:///postgres?host=%s&port=" BOUNCER_PORT "&user=postgres", bouncer);
    int prepared = 0, changed = 0;
    for (int i = 0; i < 6; i++) {
        conn = PQconnectdb(text);
        PGresult *result = PQexec(conn, "SELECT (SELECT count(*) FROM pg_prepared_statements), "
                                        "(SELECT count(*) FROM pg_settings WHERE source = "
                                        "'session' AND name IN ('search_path', 'lock_timeout', "
                                        "'statement_timeout', 'enable_seqscan', 'jit'))");
        prepared += PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "0") != 0;
        changed += PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 1), "0") != 0;
        PQclear(result);
        PQfinish(conn);
    }
    stop_bouncer();
    cf_equal(locks, 0);
    cf_equal(prepared, 0);
    cf_equal(changed, 0);
}

/* A pooler that is told to share sessions while a node is connected: the next renewal that comes
 * through another session is refused, and says why. */
static void test_renewal_in_another_session(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    postgres_do("UPDATE \"%s\".node SET pid = pid + 1");
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0), JOBSCHED_EREFUSED);
    postgres_expect_message("pooler");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_restarted_server),
        TEST(test_stopped_server),
        TEST(test_no_connections_left),
        TEST(test_read_only_database),
        TEST(test_sharing_pooler_is_refused),
        TEST(test_session_pooler),
        TEST(test_pooler_that_is_away_is_no_server_that_is_down),
        TEST(test_row_mode),
        TEST(test_renewal_in_another_session),
        TEST(test_standby_and_promotion),
    };
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
