/* test_postgres_failover.c: what nodes that live on tell a promoted standby which has forgotten the
 * latest, and that nothing which was given up acts later. Every test of a failover starts servers
 * of its own; the nodes have both hosts in their URL and find the new one by themselves.
 *   test_postgres_failover DIRECTORY [FILTER] */
#include "postgres_support.h"

#include "backends/postgres/store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEASE_MS      1500 /* of the nodes */
#define LONG_LEASE_MS 6000 /* of one job */
#define AHEAD_MS      15000 /* by so much the old server's clock is ahead: more than a failover takes */

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

static char primary[64], standby[64];
static const char *shared; /* the server of those tests that need no other */

static int set_up_pair(void **state)
{
    (void)snprintf(primary, sizeof primary, "/tmp/jpfp-%ld", (long)getpid());
    (void)snprintf(standby, sizeof standby, "/tmp/jpfs-%ld", (long)getpid());
    postgres_directory = primary;
    if (postgres_script("start", primary, "jobsched_test.ahead_ms=" TEXT_OF(AHEAD_MS)) != 0) {
        return -1;
    }
    return postgres_set_up(state);
}

static int tear_down_pair(void **state)
{
    int result = cf_teardown(state);
    postgres_disconnect();
    (void)postgres_script("remove", primary, "");
    (void)postgres_script("remove", standby, "");
    return result;
}

static int set_up_one(void **state)
{
    postgres_directory = shared;
    return postgres_set_up(state);
}

static int set_up_rows(void **state)
{
    postgres_options = "&jobsched_mode=row";
    int result = set_up_one(state);
    postgres_options = "";
    return result;
}

static struct cf_node *open_short(struct cf_world *world, const char *name)
{
    struct cf_node *node = calloc(1, sizeof *node);
    cf_true(node != NULL);
    cf_config(node, world, name, NULL);
    node->config.lease_ms = LEASE_MS;
    cf_ok(node->driver->open(&node->config, &node->backend));
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] == NULL) {
            world->nodes[i] = node;
            return node;
        }
    }
    fail();
    return NULL;
}

/* Nodes that are opened from now on know both servers. */
static void know_both(struct cf_world *world)
{
    (void)snprintf(
        world->url, sizeof world->url,
        "postgresql:///postgres?host=%s,%s&user=postgres&target_session_attrs=read-write&"
        "jobsched_schema=%s",
        primary, standby, postgres_schema);
}

/* The standby has all that there is now, and hears of nothing more. */
static void cut_off(void)
{
    cf_equal(postgres_script("standby", standby, primary), 0);
    postgres_disconnect();
    postgres_directory = standby;
    postgres_do("ALTER SYSTEM SET primary_conninfo = ''");
    postgres_do("ALTER SYSTEM SET jobsched_test.ahead_ms = '0'");
    postgres_do("SELECT pg_reload_conf()");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_ask("SELECT count(*) FROM pg_stat_wal_receiver") != 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static void fail_over(void)
{
    postgres_disconnect();
    cf_equal(postgres_script("stop", primary, "immediate"), 0);
    cf_equal(postgres_script("promote", standby, ""), 0);
}

/* Renews until it works again, as the engine does; returns the answer. */
static int renew_again(struct cf_node *node, const char *job, uint64_t token)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    for (;;) {
        jobsched_lease item = {.job = job, .note = "", .token = token};
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

/* The clock, likewise. */
static int64_t now_again(struct cf_node *node)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    int code;
    while ((code = node->driver->renew(node->backend, &call, 0, NULL, 0)) != JOBSCHED_OK) {
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        call = cf_call(JOBSCHED_LANE_KEEP);
    }
    return call.now_ms;
}

/* Claims until the answer is neither BUSY nor EARLY, past failures; returns the server's clock
 * then. */
static void ask_again(struct cf_node *node, jobsched_claim *claim)
{
    int64_t deadline_ms = cf_real_mono_ms() + 2 * CF_POLL_MS;
    for (;;) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int code = node->driver->claim(node->backend, &call, claim, 1);
        if (code == JOBSCHED_OK && claim->answer != JOBSCHED_ANSWER_BUSY &&
            claim->answer != JOBSCHED_ANSWER_EARLY) {
            return;
        }
        cf_true(code == JOBSCHED_OK || code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* Grants occurrence k. A session of so short a lease may have been ended as idle meanwhile. */
static jobsched_claim grant(struct cf_node *node, const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    ask_again(node, &claim);
    cf_answer(claim, GRANTED);
    return claim;
}

/* The runs that were granted last are not on the promoted server. Their nodes say them again, so
 * they are renewed and finished as if nothing had been (G5), the jobs are held (G4), and each
 * occurrence has one outcome (G9), also where others before it were forgotten as well. */
static void test_forgotten_grants_are_held_again(void **state)
{
    struct cf_world *world = *state;
    know_both(world);
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job near = cf_job(owner, "near", 9), far = cf_job(owner, "far", 9);
    struct cf_job range = cf_job(owner, "range", 9);
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "near", "asked", NULL));
    cut_off();
    jobsched_claim held = grant(owner, &near, 1);
    jobsched_claim first = grant(owner, &far, 1);
    cf_equal(cf_finish(owner, "far", first.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    jobsched_claim second = grant(owner, &far, 2);
    jobsched_claim gap = grant(owner, &range, 1);
    cf_equal(cf_finish(owner, "range", gap.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    gap = grant(owner, &range, 2);
    jobsched_claim trigger = cf_at(&near, 0);
    trigger.kind = JOBSCHED_KIND_TRIGGER;
    trigger.request = "asked";
    trigger.when_held = JOBSCHED_HELD_ALLOW;
    ask_again(owner, &trigger);
    cf_answer(trigger, GRANTED);
    fail_over();
    cf_equal(renew_again(owner, "near", held.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_renew(owner, "near", trigger.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_renew(owner, "far", second.token), JOBSCHED_LEASE_KEPT);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 1"), 4);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE request = 'asked'"), 1);
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = 0, lost_at_ms = 0");

    jobsched_claim next = cf_at(&near, 2);
    next.scheduled_ms = postgres_ask("SELECT \"%s\".now_ms()"); /* beyond the floor */
    ask_again(other, &next);
    cf_answer(next, HELD);
    cf_equal(cf_finish(owner, "near", trigger.token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(owner, "near", held.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    ask_again(other, &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > trigger.token);

    jobsched_claim unknown = cf_at(&far, 1);
    ask_again(other, &unknown);
    cf_answer(unknown, DONE);
    unknown = cf_at(&far, 2);
    unknown.recover = JOBSCHED_RECOVER_RERUN; /* it runs: that is no reason to run it again */
    ask_again(other, &unknown);
    cf_answer(unknown, DONE);
    cf_equal(unknown.mark_ms, far.mark_ms + 2);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run r JOIN \"%s\".fence f ON f.id = r.fence"
                          " WHERE f.name = 'far'"),
             2);
    jobsched_claim closed = cf_range(&range, 1, 3, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    ask_again(other, &closed);
    cf_answer(closed, GRANTED);
    cf_equal(closed.mark_ms, range.mark_ms + 3);
    cf_equal(postgres_ask("SELECT sum(r.count) FROM \"%s\".run r JOIN \"%s\".fence f"
                          " ON f.id = r.fence WHERE f.name = 'range'"),
             3);
    cf_equal(cf_finish(owner, "range", gap.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* The promoted server has runs as going on whose end it has forgotten. Their node does not hold
 * them any more and says so: they are interrupted, told once, and the job goes on while that node
 * lives (G10, G15). What it does hold stays its own. */
static void test_forgotten_ends_are_let_go(void **state)
{
    struct cf_world *world = *state;
    know_both(world);
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job ended = cf_job(owner, "ended", 3), running = cf_job(owner, "running", 3);
    jobsched_claim gone = grant(owner, &ended, 1), kept = grant(owner, &running, 1);
    cut_off();
    cf_equal(cf_finish(owner, "ended", gone.token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    fail_over();
    cf_equal(renew_again(owner, "running", kept.token), JOBSCHED_LEASE_KEPT);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 1"), 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 7"
                          " AND note LIKE '%%forgotten how this run ended'"),
             1);
    struct cf_found found;
    (void)now_again(other);
    cf_equal(cf_reap(other, &found, 1), 1);
    cf_equal(found.finding.found, JOBSCHED_FOUND_INTERRUPTED);
    cf_equal(found.finding.token, gone.token);
    cf_equal(cf_reap(owner, &found, 1), 0);
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = 0, lost_at_ms = 0, floor_ms = 0");
    jobsched_claim next = cf_at(&ended, 2);
    ask_again(other, &next);
    cf_answer(next, GRANTED);
    next = cf_at(&running, 2);
    ask_again(other, &next);
    cf_answer(next, HELD);
}

/* A transaction of an application that relies on the token of such a run (assert_token) keeps it from
 * being ended then. It is ended with the first claim after that transaction, not left as one that
 * goes on for as long as its node lives (G10, G15). */
static void test_letting_go_waits_for_a_transaction(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner");
    struct cf_job job = cf_job(owner, "job", 4);
    jobsched_claim run = cf_grant(owner, &job, 1), next = cf_at(&job, 2);
    cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    postgres_do("UPDATE \"%s\".run SET outcome = 1, finished_ms = NULL"); /* it is forgotten */
    PGconn *conn = postgres_connect();
    char sql[512];
    (void)snprintf(sql, sizeof sql, "BEGIN; SELECT \"%s\".assert_token('%s', 'job', %llu)",
                   postgres_schema, world->name_space, (unsigned long long)run.token);
    PGresult *result = PQexec(conn, sql);
    cf_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'");
    postgres_terminate("owner");
    cf_equal(renew_again(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
    for (int n = 0; n < 3; n++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(owner->driver->claim(owner->backend, &call, &next, 1)); /* nor does it wait */
        cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 1"), 1);
    }
    PQclear(PQexec(conn, "COMMIT"));
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(owner->driver->claim(owner->backend, &call, &next, 1));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 7"
                          " AND note LIKE '%%forgotten how this run ended'"),
             1);
    PQfinish(conn);
}

/* What happens just after the copy of all that is to be said has been made. */
static void (*after_the_copy)(struct jsi_pg_store *store);

struct jsi_pg_grant **__real_jsi_pg_known_grants(struct jsi_pg_store *store, size_t *out_count);
struct jsi_pg_grant **__wrap_jsi_pg_known_grants(struct jsi_pg_store *store, size_t *out_count);

struct jsi_pg_grant **__wrap_jsi_pg_known_grants(struct jsi_pg_store *store, size_t *out_count)
{
    struct jsi_pg_grant **grants = __real_jsi_pg_known_grants(store, out_count);
    void (*happens)(struct jsi_pg_store *) = after_the_copy;
    after_the_copy = NULL;
    if (happens != NULL) {
        happens(store);
    }
    return grants;
}

static jobsched_claim late_grant;

/* The answer of the server before. */
static void hear_of_a_late_grant(struct jsi_pg_store *store)
{
    struct jsi_pg_lane *older = calloc(1, sizeof *older);
    cf_true(older != NULL);
    older->store = store;
    older->epoch = atomic_load(&store->epoch) - 1;
    jsi_pg_answered(older, &late_grant, 1, 0, late_grant.scheduled_ms);
    free(older);
}

/* A grant of the old server that is heard of while the new one is being told what the node holds is not
 * among that, so the new one is told again before the next claim: the run has a row there (G4), and is
 * renewed (G5). */
static void test_a_late_grant_is_said_too(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = cf_open(world, "owner");
    struct cf_job job = cf_job(owner, "job", 4), late = cf_job(owner, "late", 4);
    jobsched_claim run = cf_grant(owner, &job, 1), next = cf_at(&late, 2);
    late_grant = cf_at(&late, 1);
    late_grant.answer = JOBSCHED_ANSWER_GRANTED;
    late_grant.token = 1;
    late_grant.attempt = 1;
    late_grant.granted_ms = late_grant.scheduled_ms;
    after_the_copy = hear_of_a_late_grant;
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'");
    postgres_terminate("owner");
    cf_equal(renew_again(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_true(after_the_copy == NULL);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(owner->driver->claim(owner->backend, &call, &next, 1)); /* BUSY: for as long as a lease */
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 1"), 2);
    cf_equal(renew_again(owner, "late", late_grant.token), JOBSCHED_LEASE_KEPT);
}

/* A forgotten run whose lease is longer than that of any node: its job waits for that lease also
 * where the owner says nothing, for its own claims have it (G4); and an owner that says it makes
 * everybody wait, also when it comes after the first (G4, G5). */
static void test_longer_leases_are_waited_for(void **state)
{
    struct cf_world *world = *state;
    char only_primary[sizeof world->url];
    (void)snprintf(only_primary, sizeof only_primary, "%s", world->url);
    struct cf_node *silent = open_short(world, "silent");
    struct cf_job job = cf_job(silent, "job", 4);
    know_both(world);
    struct cf_node *other = open_short(world, "other");
    cut_off();
    jobsched_claim forgotten = cf_at(&job, 1);
    forgotten.lease_ms = LONG_LEASE_MS;
    ask_again(silent, &forgotten);
    cf_answer(forgotten, GRANTED);
    fail_over();
    jobsched_claim next = cf_at(&job, 1);
    next.lease_ms = LONG_LEASE_MS;
    next.recover = JOBSCHED_RECOVER_RERUN; /* or it would be skipped */
    ask_again(other, &next);
    cf_answer(next, GRANTED);
    cf_true(next.token > forgotten.token);
    int64_t lost_at_ms = postgres_ask("SELECT lost_at_ms FROM \"%s\".meta");
    cf_true(postgres_ask("SELECT quarantine_until_ms FROM \"%s\".meta") <
            lost_at_ms + LONG_LEASE_MS);
    cf_true(postgres_ask("SELECT started_ms FROM \"%s\".run WHERE outcome = 1") >=
            lost_at_ms + LONG_LEASE_MS);

    /* Who comes late lengthens it while it lasts, and not afterwards. */
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = \"%s\".now_ms() + 50000, lost_at_ms ="
                " \"%s\".now_ms()");
    cf_equal(postgres_ask("SELECT o_epoch FROM \"%s\".hello(1, 60000, 0, 0, NULL, 0, NULL, NULL)"),
             1);
    cf_equal(postgres_ask("SELECT quarantine_until_ms - lost_at_ms FROM \"%s\".meta"), 60000);
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = \"%s\".now_ms()");
    cf_equal(postgres_ask("SELECT o_epoch FROM \"%s\".hello(1, 90000, 0, 0, NULL, 0, NULL, NULL)"),
             1);
    cf_true(postgres_ask("SELECT quarantine_until_ms - lost_at_ms FROM \"%s\".meta") < 60000);
}

/* The new server's clock is behind. A node that has seen the old one's later makes it the floor, so
 * that what was granted there is not granted again when it comes due once more (G1); what it brings
 * is bounded (G11). */
static void test_clock_that_is_behind(void **state)
{
    struct cf_world *world = *state;
    know_both(world);
    struct cf_node *first = open_short(world, "first");
    postgres_do(
        "CREATE OR REPLACE FUNCTION \"%s\".now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$"
        " SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint +"
        " coalesce(current_setting('jobsched_test.ahead_ms', true), '0')::bigint $$");
    struct cf_job job = cf_job(first, "job", 0);
    struct cf_node *other = open_short(world, "other");
    cut_off();
    jobsched_claim claim = cf_at(&job, 1);
    claim.scheduled_ms = now_again(other);
    claim.lease_ms = LEASE_MS;
    ask_again(first, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(cf_finish(first, "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    (void)now_again(other); /* all that it knows of that grant is that it is later now */
    int told = atomic_load(&other->losses);
    cf_close(world, first);
    fail_over();
    jobsched_claim again = cf_at(&job, 1);
    again.scheduled_ms = claim.scheduled_ms;
    again.lease_ms = LEASE_MS;
    ask_again(other, &again);
    cf_true(postgres_ask("SELECT floor_ms - lost_at_ms FROM \"%s\".meta") > 0);
    cf_answer(again, DONE);
    struct cf_row row;
    cf_newest(other, "job", &row);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_true(atomic_load(&other->losses) > told);
    postgres_do("SELECT \"%s\".hello(1, 1500, 9000000000000000, 7, NULL, 0, NULL, NULL)");
    cf_true(postgres_ask("SELECT floor_ms - lost_at_ms FROM \"%s\".meta") == 86400000);
    cf_equal(postgres_ask("SELECT epoch FROM \"%s\".meta"), 8); /* no token of theirs comes again */
}

/* The server process that was asked last to do what the pattern says. */
static pid_t server_process(const char *pattern)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "SELECT pid FROM pg_stat_activity WHERE query LIKE '%%%%\"%%s\".%s(%%%%' AND"
                   " pid <> pg_backend_pid() ORDER BY query_start DESC LIMIT 1",
                   pattern);
    return (pid_t)postgres_ask(sql);
}

static void await_end(pid_t process)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_stat_activity WHERE pid = %ld",
                   (long)process);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_ask(sql) != 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* G8: a claim that was given up (its server process is frozen) and is repeated; the repetition is
 * answered. Thawed, the first one changes nothing any more: the node would not know of its grant.
 * */
static void test_late_claim_is_refused(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *holder = cf_open(world, "holder"), *node = cf_open(world, "node");
    struct cf_job job = cf_job(holder, "job", 3);
    jobsched_claim run = cf_grant(holder, &job, 1);
    jobsched_claim claim = cf_at(&job, 2);
    cf_ask(node, &claim);
    cf_answer(claim, HELD);
    pid_t process = server_process("claim");
    cf_true(process > 1);
    (void)kill(process, SIGSTOP);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    call.timeout_ms = 300;
    int code = node->driver->claim(node->backend, &call, &claim, 1);
    cf_ask(node, &claim);
    int answer = claim.answer;
    int finished = cf_finish(holder, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED);
    (void)kill(process, SIGCONT);
    cf_equal(code, JOBSCHED_EUNKNOWN);
    cf_equal(answer, JOBSCHED_ANSWER_HELD);
    cf_equal(finished, JOBSCHED_LEASE_KEPT);
    await_end(process);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 1"), 0);
    (void)cf_grant(holder, &job, 2);
}

/* Commits what a connection has changed as soon as somebody waits for it, and not before. */
static void commit_when_awaited(PGconn *conn)
{
    static const char sql[] =
        "DO $$ BEGIN FOR i IN 1..3000 LOOP"
        " EXIT WHEN EXISTS(SELECT 1 FROM pg_stat_activity a"
        " WHERE pg_backend_pid() = ANY(pg_blocking_pids(a.pid)));"
        " PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01); END LOOP; END $$; COMMIT";
    cf_equal(PQsendQuery(conn, sql), 1);
}

/* A node finds another server, and raises all tokens, while another one's claim is between reading
 * the fence and writing it: what is told is what is written, or nothing is (G1, G8). */
static void test_tokens_raised_amid_a_claim(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    (void)cf_now(node);
    char sql[256];
    (void)snprintf(sql, sizeof sql, "BEGIN; UPDATE \"%s\".fence SET token = token + 1000000",
                   postgres_schema);
    PGconn *other = postgres_connect();
    PQclear(PQexec(other, sql));
    commit_when_awaited(other);
    jobsched_claim claim = cf_at(&job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int code = node->driver->claim(node->backend, &call, &claim, 1);
    PQfinish(other);
    cf_equal(code, JOBSCHED_EUNREACHABLE);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run"), 0);
    claim = cf_grant(node, &job, 1);
    cf_true(claim.token > 1000000);
    cf_equal(cf_renew(node, "job", claim.token), JOBSCHED_LEASE_KEPT);
}

/* Promoted while its clock was ahead by ten days, which has been set back since: everything waits for
 * one quarantine more, and not for the ten days (G11); and no longer than a day is unknown. */
static void test_clock_that_was_ahead(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    postgres_do("UPDATE \"%s\".meta SET epoch = 1, lost_at_ms = \"%s\".now_ms() + 864000000,"
                " floor_ms = \"%s\".now_ms() + 864000000");
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = lost_at_ms + 500");
    int64_t before_ms = postgres_ask("SELECT \"%s\".now_ms()");
    jobsched_claim claim = cf_at(&job, 1);
    claim.lease_ms = 500;
    claim.recover = JOBSCHED_RECOVER_RERUN; /* or it would be skipped */
    ask_again(node, &claim);
    cf_answer(claim, GRANTED);
    cf_true(postgres_ask("SELECT started_ms FROM \"%s\".run") >= before_ms + 500);
    cf_equal(postgres_ask("SELECT floor_ms - lost_at_ms FROM \"%s\".meta"), 86400000);
}

/* Two copies of a server are promoted one after the other: nodes that know the first one's grants find
 * that the second is another one, although its timeline and epoch are the same (G1, G2). */
static void test_two_copies_differ(void **state)
{
    struct cf_world *world = *state;
    (void)cf_open(world, "node");
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'");
    static const char stranger[] =
        "SELECT o_epoch FROM \"%s\".hello(1, 1500, 0, 0, NULL, 0, NULL, NULL)";
    cf_equal(postgres_ask(stranger), 1);
    postgres_do("CREATE TABLE \"%s\".first AS SELECT incarnation FROM \"%s\".meta");
    static const char knows_first[] =
        "SELECT o_epoch FROM \"%s\".hello(1, 1500, 0, 1, (SELECT incarnation FROM \"%s\".first),"
        " 0, NULL, NULL)";
    cf_equal(postgres_ask(knows_first), 1);
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another', epoch = 0");
    cf_equal(postgres_ask(stranger), 1);
    cf_equal(postgres_ask(knows_first), 2);
}

/* G6: a resume that was given up, and a pause after it that has returned: the pause holds. */
static void test_late_resume_is_refused(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    (void)cf_job(node, "job", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
    pid_t process = server_process("push"); /* what comes last */
    cf_true(process > 1);
    (void)kill(process, SIGSTOP);
    jobsched_command command = {.verb = JOBSCHED_VERB_RESUME, .job = "job"};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    call.timeout_ms = 300;
    int code = node->driver->control(node->backend, &call, &command, NULL);
    int paused = cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL);
    (void)kill(process, SIGCONT);
    cf_equal(code, JOBSCHED_EUNKNOWN);
    cf_ok(paused);
    await_end(process);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".fence WHERE paused"), 1);
    /* A handle whose row was forgotten goes on by itself. */
    postgres_do("DELETE FROM \"%s\".commander");
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".fence WHERE paused"), 0);
}

/* What runs here is said again also where a pooler goes on with another server under a connection
 * that stays; and a server that was set back with its identity is noticed there (row mode, G1, G5).
 * */
static void test_exchanged_server_in_row_mode(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'; DELETE FROM \"%s\".run");
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(postgres_ask("SELECT epoch FROM \"%s\".meta"), 1);
    cf_equal(atomic_load(&node->losses), 1);
    cf_equal(postgres_ask("SELECT o_epoch FROM \"%s\".hello(1, 1500, 0, 1, NULL, "
                          "(pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint + 1000, NULL, NULL)"),
             2);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define ONE(name)  cmocka_unit_test_setup_teardown(name, set_up_one, postgres_tear_down)
#define ROWS(name) {#name "_rows", name, set_up_rows, postgres_tear_down, NULL}
#define PAIR(name) cmocka_unit_test_setup_teardown(name, set_up_pair, tear_down_pair)
        ONE(test_letting_go_waits_for_a_transaction),
        ONE(test_a_late_grant_is_said_too),
        ONE(test_tokens_raised_amid_a_claim),
        ONE(test_clock_that_was_ahead),
        ONE(test_two_copies_differ),
        ONE(test_late_claim_is_refused),
        ROWS(test_late_claim_is_refused),
        ONE(test_late_resume_is_refused),
        ROWS(test_late_resume_is_refused),
        ROWS(test_exchanged_server_in_row_mode),
        PAIR(test_forgotten_grants_are_held_again),
        PAIR(test_forgotten_ends_are_let_go),
        PAIR(test_longer_leases_are_waited_for),
        PAIR(test_clock_that_is_behind),
    };
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s DIRECTORY [FILTER]\n", argv[0]);
        return 2;
    }
    shared = argv[1];
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
