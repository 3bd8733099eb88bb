/* test_postgres_vouch.c: G5 on a postgresql: store where the node's own threads are not scheduled: what
 * vouch() answers rests on its own look at the session. The keeper thread is kept from looking, by
 * taking its lane from it.
 *   test_postgres_vouch DIRECTORY     of a server (postgres.sh) */
#include "postgres_support.h"

#include "backends/postgres/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

/* How many more descriptors there are not. */
static _Atomic int missing;

int __wrap_fcntl(int fd, int command, ...)
{
    if (command == F_DUPFD_CLOEXEC && atomic_load(&missing) > 0) {
        (void)atomic_fetch_sub(&missing, 1);
        errno = EMFILE;
        return -1;
    }
    return __real_fcntl(fd, command, 0);
}

static int64_t vouch(struct cf_node *node)
{
    return node->driver->vouch(node->backend);
}

/* From here on the keeper thread looks at nothing. */
static void stop_looks(struct cf_node *node)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (!jsi_pg_keep_try(node->backend)) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static void let_look(struct cf_node *node)
{
    jsi_pg_keep_leave(node->backend);
    jsi_pg_keeper_wake(node->backend);
}

static void await(int64_t at_mono_ms)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (cf_real_mono_ms() <= at_mono_ms) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* Ends the session. Returns the answer that stays from then on. */
static int64_t end_session(struct cf_node *node)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    postgres_terminate("node");
    int64_t before_ms, until_ms = vouch(node);
    do {
        cf_true(cf_real_mono_ms() < deadline_ms);
        before_ms = until_ms;
        await(cf_real_mono_ms() + 20);
        until_ms = vouch(node);
    } while (until_ms != before_ms);
    return until_ms;
}

static int renew(struct cf_node *node, jobsched_lease *item)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    return node->driver->renew(node->backend, &call, 0, item, item != NULL);
}

static void renew_until_kept(struct cf_node *node, jobsched_lease *item)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (renew(node, item) != JOBSCHED_OK) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* While the session lives, each look vouches for a grace from now; once it has ended, for none of the
 * time after, whoever looks, and the answer is in time. */
static void test_a_look_finds_the_end(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    (void)cf_grant(node, &job, 1);
    stop_looks(node);
    int64_t began_ms = cf_real_mono_ms();
    for (int i = 0; i < 3; i++) {
        int64_t before_ms = cf_real_mono_ms();
        int64_t until_ms = vouch(node);
        cf_true(until_ms > before_ms + JSI_PG_GRACE_DEFAULT_MS / 2);
        cf_true(until_ms < cf_real_mono_ms() + JSI_PG_GRACE_DEFAULT_MS);
        await(before_ms + JSI_PG_GRACE_DEFAULT_MS);
    }
    cf_true(cf_real_mono_ms() - began_ms > 2 * JSI_PG_GRACE_DEFAULT_MS);
    int64_t until_ms = end_session(node);
    cf_true(until_ms < cf_real_mono_ms() + JSI_PG_GRACE_DEFAULT_MS);
    await(until_ms + 50);
    cf_equal(vouch(node), until_ms);
    let_look(node);
}

/* A node that is back after its grace may have lost its runs: it vouches for none before the engine
 * has heard of all of them. And what was asked for before the return is not known. */
static void test_who_is_back_late_is_in_doubt(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    struct jsi_pg_store *store = node->backend;
    unsigned lates = atomic_load(&store->lates);
    stop_looks(node);
    await(end_session(node) + 50);
    let_look(node);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (atomic_load(&store->lates) == lates) {
        cf_true(vouch(node) < cf_real_mono_ms());
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    cf_true(vouch(node) < cf_real_mono_ms());
    cf_equal(jsi_pg_node_check(store, lates), JOBSCHED_EUNKNOWN);
    cf_equal(jsi_pg_node_check(store, lates + 1), JOBSCHED_OK);
    jobsched_lease item = {.job = "job", .note = "", .token = run.token};
    renew_until_kept(node, &item);
    cf_true(vouch(node) < cf_real_mono_ms());   /* the answers may not have been looked at yet */
    cf_equal(item.answer, JOBSCHED_LEASE_KEPT); /* nobody else was there */
    renew_until_kept(node, &item);
    int64_t before_ms = cf_real_mono_ms();
    cf_true(vouch(node) > before_ms);
}

/* A node that is back in time vouches as if nothing had been. */
static void test_who_is_back_in_time_is_not(void **state)
{
    struct cf_world *world = *state;
    postgres_url(world->url, sizeof world->url, "postgres", "&jobsched_grace=30s");
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    (void)cf_grant(node, &job, 1);
    stop_looks(node);
    int64_t until_ms = end_session(node);
    let_look(node);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (vouch(node) == until_ms) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    cf_true(vouch(node) > until_ms);
}

/* Nobody can enter this test's nodes until the lock is let go. */
static PGconn *lock_rows(void)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "BEGIN; SELECT FROM \"%s\".node FOR UPDATE", postgres_schema);
    PGconn *conn = postgres_connect();
    PGresult *result = PQexec(conn, sql);
    cf_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    return conn;
}

static void expect_no_more(struct cf_node *node)
{
    int64_t until_ms = vouch(node);
    await(until_ms + 50);
    cf_equal(vouch(node), until_ms);
}

/* A session that was put aside, because a statement on it was not answered, is no proof any more once
 * the server may have entered the node through another one. */
static void test_who_may_have_entered_is_not_kept_by_the_old_session(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_lease item = {.job = "job", .note = "", .token = cf_grant(node, &job, 1).token};
    pid_t process = (pid_t)postgres_ask("SELECT pid FROM \"%s\".node");
    cf_true(process > 1);
    (void)kill(process, SIGSTOP);
    PGconn *rows = lock_rows();
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    call.timeout_ms = 200;
    int first = node->driver->renew(node->backend, &call, 0, &item, 1);
    int64_t now_ms = cf_real_mono_ms(), kept_ms = vouch(node);
    call.timeout_ms =
        8000; /* so that the node is entered, in another session, while there is time */
    int second = node->driver->renew(node->backend, &call, 0, &item, 1);
    int64_t until_ms = vouch(node);
    await(until_ms + 50);
    int64_t later_ms = vouch(node);
    (void)kill(process, SIGCONT);
    PQfinish(rows);
    cf_equal(first, JOBSCHED_EUNKNOWN);
    cf_true(kept_ms > now_ms); /* the server only hangs */
    cf_equal(second, JOBSCHED_EUNKNOWN);
    cf_equal(later_ms, until_ms);
    renew_until_kept(node, &item);
}

/* Nor is one that was asked to enter the node again, which gives its lock up for another one. */
static void test_who_enters_again_unanswered_is_not_kept(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_lease item = {.job = "job", .note = "", .token = cf_grant(node, &job, 1).token};
    struct jsi_pg_store *store = node->backend;
    PGconn *rows = lock_rows();
    cf_ok(jsi_pg_keep_begin(store, NULL, 3000));
    int code = jsi_pg_node_enter(&store->lanes[JOBSCHED_LANE_KEEP]);
    (void)jsi_pg_keep_end(store, NULL, code);
    cf_equal(code, JOBSCHED_EUNKNOWN);
    expect_no_more(node);
    PQfinish(rows);
    renew_until_kept(node, &item);
}

/* Where there is no descriptor for the looks, the node enters again until there is one: it is not taken
 * for lost a grace after each call. */
static void test_who_cannot_look_enters_again(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    (void)cf_grant(node, &job, 1);
    atomic_store(&missing, 2);
    postgres_terminate("node");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (atomic_load(&missing) > 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    renew_until_kept(node, NULL);
    renew_until_kept(node, NULL); /* in doubt until then, where it took long */
    for (int i = 0; i < 3; i++) {
        int64_t before_ms = cf_real_mono_ms();
        cf_true(vouch(node) > before_ms);
        await(before_ms + JSI_PG_GRACE_DEFAULT_MS);
    }
}

/* Where there is no such session, or its grace is too short for looks, the leases are all there is. */
static void test_where_nothing_is_vouched_for(void **state)
{
    struct cf_world *world = *state;
    static const char *const options[] = {"&jobsched_grace=0ms", "&jobsched_grace=100ms",
                                          "&jobsched_mode=row"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        postgres_url(world->url, sizeof world->url, "postgres", options[i]);
        cf_equal(vouch(cf_open(world, "node")), JOBSCHED_NONE);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, postgres_tear_down)
        TEST(test_a_look_finds_the_end),
        TEST(test_who_is_back_late_is_in_doubt),
        TEST(test_who_is_back_in_time_is_not),
        TEST(test_who_may_have_entered_is_not_kept_by_the_old_session),
        TEST(test_who_enters_again_unanswered_is_not_kept),
        TEST(test_who_cannot_look_enters_again),
        TEST(test_where_nothing_is_vouched_for),
    };
    postgres_directory = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
