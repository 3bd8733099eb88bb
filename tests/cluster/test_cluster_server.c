/* test_cluster_server.c: what can happen to a server, under a cluster of real processes: G1, G2, G4,
 * G5, G8, G9. What the library tells of each is in the table of docs/backends.md, section "Faults".
 * The server of each test is private: it is killed, frozen, emptied and reconfigured for real. */
#include "trouble.h"

#include <stdlib.h>

/* A statement or command that must do. %s: the namespace, as keys of Redis have it. Returns the
 * number that it answers. */
static int ask(fleet *f, const char *format)
{
    char key[128];
    size_t length = 0;
    for (const char *at = f->name_space; *at != '\0' && length + 4 < sizeof key; at++) {
        length += (size_t)snprintf(key + length, sizeof key - length, "%s%.*s",
                                   *at == ' ' ? "%20" : "", *at != ' ', at);
    }
    char command[1024];
    char said[512];
    size_t used = 0;
    for (const char *at = format; *at != '\0' && used + 100 < sizeof command;) {
        if (at[0] == '%' && at[1] == 's') {
            used += (size_t)snprintf(command + used, sizeof command - used, "%s", key);
            at += 2;
        } else {
            command[used++] = *at++;
        }
    }
    command[used] = '\0';
    if (!server_ask(&f->server, command, said, sizeof said)) {
        fail_msg("%s: %s", command, said);
    }
    return (int)strtol(said, NULL, 10);
}

static bool is_redis(const fleet *f)
{
    return f->server.kind == SERVER_REDIS;
}

/* ---- nobody can use it for a while ------------------------------------------------ */

/* SIGSTOP of the whole server: connections stay, and nothing is answered. */
static void test_frozen_server_is_waited_for(void **state)
{
    fleet *f = *state;
    trouble t;
    trouble_begin(f, &t);
    t.unknown = true; /* what was sent is answered when nobody waits any more */
    server_freeze(&f->server);
    t.broken_ms = fleet_now_ms(); /* not before: who is late tells the same */
    trouble_endure(f, &t, TROUBLE_AWAY);
    t.cured_ms = fleet_now_ms();
    server_thaw(&f->server);
    trouble_recover(f, &t);
}

enum { DRAIN_MS = 2500, REQUEST_MS = 500, CLOSE_MS = 1000, SLACK_MS = 15000 };

/* Sends a command that must be answered, however, within that time and what a busy machine adds. */
static void expect_answer_within(fleet_node *node, const char *command, const char *answer,
                                 int64_t bound_ms)
{
    int64_t began_ms = fleet_mono_ms();
    fleet_send(node, command);
    const char *said = fleet_await(node, answer, FLEET_SOON_MS);
    int64_t took_ms = fleet_mono_ms() - began_ms;
    printf("n%d: %s: after %lld ms: %s\n", node->index, command, (long long)took_ms, said);
    assert_true(took_ms < bound_ms + SLACK_MS);
}

static bool is_long_run(fleet *f, void *data)
{
    const record *found = trouble_long_run(f);
    if (found != NULL) {
        memcpy(data, found, sizeof *found);
    }
    return found != NULL;
}

/* G11: a server that hangs holds up no shutdown: neither a drain that has a run to wait for, nor a
 * close at once, beyond what they are given and two requests. */
static void test_frozen_server_holds_up_no_shutdown(void **state)
{
    fleet *f = *state;
    trouble t;
    trouble_begin(f, &t); /* with a lease of 3 s, a sixth of which a request may take */
    record run;
    fleet_wait(f, "the long run goes on", FLEET_SOON_MS, is_long_run, &run);
    fleet_node *owner = &f->nodes[run.node], *other = &f->nodes[1 - run.node];
    server_freeze(&f->server);
    char drain[24], late[24];
    (void)snprintf(drain, sizeof drain, "drain %d", DRAIN_MS);
    (void)snprintf(late, sizeof late, "drained %d ", JOBSCHED_ETIMEDOUT);
    expect_answer_within(owner, drain, late, DRAIN_MS + 2 * REQUEST_MS + CLOSE_MS);
    expect_answer_within(owner, "exit", "closed ", 2 * REQUEST_MS + CLOSE_MS);
    fleet_gone(owner);
    expect_answer_within(other, "exit", "closed ", 2 * REQUEST_MS + CLOSE_MS);
    fleet_gone(other);
    server_thaw(&f->server);
}

/* kill -9 of the server; it stays away for longer than a lease. Nothing is forgotten. */
static void test_dead_server_is_waited_for(void **state)
{
    fleet *f = *state;
    trouble t;
    trouble_begin(f, &t);
    t.unknown = true;
    assert_true(server_kill(&f->server));
    t.broken_ms = fleet_now_ms(); /* not before: who is late tells the same */
    trouble_endure(f, &t, TROUBLE_AWAY);
    t.cured_ms = fleet_now_ms();
    assert_true(server_start(&f->server));
    trouble_recover(f, &t);
}

typedef struct fault {
    const char *breaks, *cures; /* statements or commands */
    int code;
    const char *word; /* in what a newcomer is told; NULL: a newcomer is not asked */
} fault;

/* Nodes are at work. */
static void break_and_cure(fleet *f, trouble *t, const fault *what)
{
    t->broken_ms = fleet_now_ms();
    (void)ask(f, what->breaks);
    trouble_endure(f, t, what->code);
    if (what->word != NULL) {
        fleet_expect_refusal(f, what->code, what->word);
    }
    t->cured_ms = fleet_now_ms();
    (void)ask(f, what->cures);
    trouble_recover(f, t);
}

static void suffer(fleet *f, const fault *what)
{
    trouble t;
    trouble_begin(f, &t);
    break_and_cure(f, &t, what);
}

static void test_read_only_server_is_waited_for(void **state)
{
    fleet *f = *state;
    if (is_redis(f)) {
        const fault no_replicas = {"CONFIG SET min-replicas-to-write 1",
                                   "CONFIG SET min-replicas-to-write 0", JOBSCHED_EUNREACHABLE,
                                   "NOREPLICAS"};
        suffer(f, &no_replicas);
        return;
    }
    trouble t;
    trouble_begin(f, &t);
    t.broken_ms = fleet_now_ms();
    (void)ask(f, "ALTER SYSTEM SET default_transaction_read_only = on");
    (void)ask(f, "SELECT pg_reload_conf()");
    trouble_endure(f, &t, JOBSCHED_EREFUSED);
    t.cured_ms = fleet_now_ms();
    (void)ask(f, "ALTER SYSTEM RESET default_transaction_read_only");
    (void)ask(f, "SELECT pg_reload_conf()");
    trouble_recover(f, &t);
}

/* Nodes are a user of their own here, who loses a right. */
static void test_missing_rights_are_waited_for(void **state)
{
    fleet *f = *state;
    char url[256];
    if (is_redis(f)) {
        const fault ours = {"ACL SETUSER app -evalsha", "ACL SETUSER app +evalsha",
                            JOBSCHED_EACCESS, "NOPERM"};
        (void)ask(f, "ACL SETUSER app on \">secret\" \"~*\" \"&*\" +@all");
        (void)snprintf(url, sizeof url, "redis://app:secret@?socket=%s", f->server.socket);
        f->url = url;
        suffer(f, &ours);
        return;
    }
    const fault ours = {"REVOKE UPDATE ON ALL TABLES IN SCHEMA jobsched FROM app",
                        "GRANT UPDATE ON ALL TABLES IN SCHEMA jobsched TO app", JOBSCHED_EACCESS,
                        "permission denied"};
    (void)ask(f, "CREATE ROLE app LOGIN");
    (void)ask(f, "GRANT CREATE ON DATABASE postgres TO app");
    (void)snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=app", f->server.directory);
    f->url = url;
    suffer(f, &ours);
}

/* Somebody has begun to use a newer version: a newcomer is told which, and which it knows itself. */
static void test_newer_schema_is_waited_for(void **state)
{
    fleet *f = *state;
    char both[80];
    const fault postgres = {"UPDATE jobsched.meta SET version = version + 100",
                            "UPDATE jobsched.meta SET version = version - 100", JOBSCHED_ESCHEMA,
                            both};
    const fault redis = {"HINCRBY \"{jobsched:%s}:meta\" version 100",
                         "HINCRBY \"{jobsched:%s}:meta\" version -100", JOBSCHED_ESCHEMA, both};
    trouble t;
    trouble_begin(f, &t);
    int ours = ask(f, is_redis(f) ? "HGET \"{jobsched:%s}:meta\" version"
                                  : "SELECT version FROM jobsched.meta");
    assert_true(ours > 0);
    (void)snprintf(both, sizeof both,
                   is_redis(f) ? "version '%d', this library knows %d"
                               : "version %d, this library knows versions up to %d",
                   ours + 100, ours);
    break_and_cure(f, &t, is_redis(f) ? &redis : &postgres);
}

/* Redis only: what a replica answers, and a server without memory. */
static void test_memory_that_is_used_up_is_waited_for(void **state)
{
    static const fault full = {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", JOBSCHED_EFULL,
                               NULL};
    suffer(*state, &full);
}

static void test_demoted_server_is_waited_for(void **state)
{
    static const fault demoted = {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", JOBSCHED_EREFUSED,
                                  "replica"};
    suffer(*state, &demoted);
}

/* ---- short breaks under load ------------------------------------------------------ */

enum { TIMES = 6 };

static void start_two(fleet *f, int64_t *out_ready_ms)
{
    static char url[320];
    if (f->url == NULL && !is_redis(f)) {
        /* So that a busy machine may take longer to tell a run that its session has ended. */
        (void)snprintf(url, sizeof url, "%s&jobsched_grace=3s", f->server.url);
        f->url = url;
    }
    fleet_jobs(f, trouble_jobs, TROUBLE_JOBS);
    if (f->settings[0] == NULL) {
        f->settings[0] = "lease=3s";
    }
    (void)fleet_start(f, -60000);
    *out_ready_ms = fleet_now_ms();
    (void)fleet_start(f, 60000);
    fleet_wait_accounted(f, fleet_now_ms());
}

/* Nothing else was told since then than what the table says of a server that goes and comes. */
static void judge(fleet *f, int64_t ready_ms)
{
    static const int away[] = {JOBSCHED_EUNKNOWN, JOBSCHED_EUNREACHABLE, 0};
    int64_t until_ms = fleet_now_ms() + 2000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    printf("%zu failures were told\n", trouble_codes(f, ready_ms, away));
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_FAILED], 0);
}

/* pg_terminate_backend, CLIENT KILL: of every session, again and again, in the midst of claims. The
 * owner of the long run goes on, or is told before another node begins. */
static void test_ended_sessions_lose_nothing(void **state)
{
    fleet *f = *state;
    int64_t ready_ms;
    start_two(f, &ready_ms);
    int ended = 0;
    for (int i = 0; i < TIMES; i++) {
        /* Near the second, where all are claiming, and between. */
        fleet_wait_until((fleet_now_ms() / 1000 + 1) * 1000 + i * 7 + (i % 2) * 400);
        int now = 0;
        /* A node may still be on its way back. */
        for (int64_t until_ms = fleet_mono_ms() + FLEET_SOON_MS; now < 2;) {
            now += server_end_sessions(&f->server);
            assert_true(now >= 2 || fleet_mono_ms() < until_ms);
        }
        ended += now;
    }
    printf("%d sessions were ended\n", ended);
    judge(f, ready_ms);
}

/* kill -9 and start, again and again. */
static void test_restarted_server_loses_nothing(void **state)
{
    fleet *f = *state;
    int64_t ready_ms;
    start_two(f, &ready_ms);
    for (int i = 0; i < TIMES / 2; i++) {
        fleet_wait_until((fleet_now_ms() / 1000 + 1) * 1000 + i * 11);
        assert_true(server_kill(&f->server));
        assert_true(server_start(&f->server));
        fleet_wait_accounted(f, fleet_now_ms());
    }
    judge(f, ready_ms);
}

/* No connections are left: who has one goes on, who comes is told. */
static void test_no_connections_left_for_newcomers(void **state)
{
    fleet *f = *state;
    char url[256];
    FILE *door = NULL;
    if (!is_redis(f)) {
        (void)ask(f, "CREATE ROLE app LOGIN");
        (void)ask(f, "GRANT CREATE ON DATABASE postgres TO app");
        (void)snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=app",
                       f->server.directory);
        f->url = url;
    }
    /* Nothing may be told, however busy the machine is. */
    f->settings[0] = "lease=18s";
    f->settings[1] = "request_timeout=6s";
    int64_t ready_ms;
    start_two(f, &ready_ms);
    if (is_redis(f)) {
        char command[256];
        (void)snprintf(command, sizeof command, "redis-cli -s '%s' > /dev/null", f->server.socket);
        door = popen(command, "we"); /* a connection of our own, for the way back */
        assert_non_null(door);
        (void)fprintf(door, "CONFIG SET maxclients 1\n");
        (void)fflush(door);
        char said[128];
        while (server_ask(&f->server, "PING", said, sizeof said)) {
            fleet_nap_ms(10); /* until it is so */
        }
    } else {
        (void)ask(f, "ALTER ROLE app CONNECTION LIMIT 1");
    }
    int64_t since_ms = fleet_now_ms();
    fleet_expect_refusal(f, JOBSCHED_EUNREACHABLE,
                         is_redis(f) ? "max number of clients" : "too many");
    fleet_wait_accounted(f, fleet_now_ms() + 2000);
    fleet_pattern failed = {
        .what = RECORD_EVENT, .event = FLEET_ANY_FAILURE, .node = -1, .after_us = since_ms * 1000};
    assert_int_equal(fleet_count(f, &failed), 0);
    if (is_redis(f)) {
        (void)fprintf(door, "CONFIG SET maxclients 1000\n");
        (void)pclose(door);
    } else {
        (void)ask(f, "ALTER ROLE app CONNECTION LIMIT -1");
    }
    judge(f, ready_ms);
}

/* ---- a store that forgets (Redis) -------------------------------------------------- */

/* G1, G2, G4, G5: the ledger is gone, but nothing runs twice, no token comes again, nothing is
 * granted for a lease, and then all jobs go on by themselves. */
static void lose(fleet *f, void (*forget)(fleet *f), const char *loss)
{
    int64_t ready_ms;
    start_two(f, &ready_ms);
    int64_t before_ms = fleet_now_ms();
    forget(f);
    int64_t lost_ms = fleet_now_ms();
    fleet_pattern notice = {.what = RECORD_EVENT,
                            .event = JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST,
                            .node = -1,
                            .after_us = before_ms * 1000};
    record told = fleet_wait_record(f, "a node tells of the loss", FLEET_SOON_MS, &notice);
    printf("%s\n", told.text);
    assert_non_null(strstr(told.text, loss));
    for (size_t i = 0; i < TROUBLE_JOBS - 1; i++) { /* the long run may go on */
        fleet_pattern again = {.what = RECORD_START,
                               .node = -1,
                               .job = trouble_jobs[i].name,
                               .after_us = (lost_ms + TROUBLE_LEASE_MS) * 1000};
        (void)fleet_wait_record(f, trouble_jobs[i].name, FLEET_SOON_MS, &again);
    }
    fleet_drain_all(f);
    check_report report;
    fleet_check(f, ready_ms, lost_ms, &report);
    assert_int_equal(report.twice, 0);
    assert_int_equal(report.token_faults, 0);
    assert_int_equal(report.early, 0);
    assert_int_equal(report.overlaps, 0);
    assert_int_equal(report.untold, 0);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_START && entry->scheduled_ms > lost_ms) {
            assert_true(entry->at_us / 1000 >= before_ms + TROUBLE_LEASE_MS);
        }
    }
}

static void flush(fleet *f)
{
    (void)ask(f, "FLUSHALL");
}

static void test_flushed_server_runs_nothing_twice(void **state)
{
    lose(*state, flush, "has lost its data");
}

static void restart(fleet *f)
{
    assert_true(server_kill(&f->server));
    assert_true(server_start(&f->server));
}

static int setup_forgetful(void **state)
{
    return fleet_setup_with(state, "appendonly=no");
}

static void test_server_without_persistence_runs_nothing_twice(void **state)
{
    lose(*state, restart, "has lost its data");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_frozen_server_is_waited_for),
        TEST(test_frozen_server_holds_up_no_shutdown),
        TEST(test_dead_server_is_waited_for),
        TEST(test_read_only_server_is_waited_for),
        TEST(test_missing_rights_are_waited_for),
        TEST(test_newer_schema_is_waited_for),
        TEST(test_memory_that_is_used_up_is_waited_for),
        TEST(test_demoted_server_is_waited_for),
        TEST(test_ended_sessions_lose_nothing),
        TEST(test_restarted_server_loses_nothing),
        TEST(test_no_connections_left_for_newcomers),
        TEST(test_flushed_server_runs_nothing_twice),
        cmocka_unit_test_setup_teardown(test_server_without_persistence_runs_nothing_twice,
                                        setup_forgetful, fleet_teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
