/* test_postgres_live.c: who is alive on a postgresql: store: the session that shows it, the grace
 * after it was seen gone, the heartbeat, and what a change of the server means.
 *   test_postgres_live DIRECTORY     of a server that postgres.sh has started */
#include "postgres_support.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static jobsched_claim ask(struct cf_node *node, const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    cf_ask(node, &claim);
    return claim;
}

/* Asks until the answer is another than HELD; returns how long it is since then. */
static int64_t ask_until_free(struct cf_node *node, const struct cf_job *job, int64_t k,
                              int64_t began_ms, jobsched_claim *out_claim)
{
    do {
        cf_true(cf_real_mono_ms() - began_ms < CF_POLL_MS);
        *out_claim = ask(node, job, k);
        cf_pause();
    } while (out_claim->answer == JOBSCHED_ANSWER_HELD);
    return cf_real_mono_ms() - began_ms;
}

/* Waits until the node has told something. */
static void await_notice(struct cf_node *node, int count)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (atomic_load(&node->notices) < count) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* Forks a process that holds occurrence 1 of "job" until it is killed. */
static pid_t start_owner(struct cf_world *world, struct cf_job *out_job)
{
    int ends[2];
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *node = cf_open(world, "owner");
        struct cf_job job = cf_job(node, "job", 1);
        (void)cf_grant(node, &job, 1);
        cf_equal(write(ends[1], &job, sizeof job), sizeof job);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    cf_equal(read(ends[0], out_job, sizeof *out_job), sizeof *out_job);
    (void)close(ends[0]);
    out_job->name = "job"; /* the child's pointer was its own */
    return child;
}

static int keep_counts(const jobsched_job_record *record, void *visit_data)
{
    uint64_t *counts = visit_data;
    counts[0] = record->nodes;
    counts[1] = record->running;
    return 0;
}

/* Issue 5: a node that is gone is on no list, and holds up no run there, also when nobody is left who
 * could find it dead. */
static void test_the_last_node_disappears(void **state)
{
    struct cf_world *world = *state;
    struct cf_job job;
    pid_t owner = start_owner(world, &job);
    const struct cf_settings settings = {.control_only = 1};
    struct cf_node *asks = cf_open_with(world, "asks", &settings);
    uint64_t counts[2] = {0, 0};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(asks->driver->jobs(asks->backend, &call, "job", keep_counts, counts));
    cf_true(counts[0] == 1 && counts[1] == 1);
    cf_kill(world, owner);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (counts[0] + counts[1] > 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        call = cf_call(JOBSCHED_LANE_ADMIN);
        cf_ok(asks->driver->jobs(asks->backend, &call, "job", keep_counts, counts));
    }
    cf_close(world, asks);
}

/* G10, G5: after kill -9 the job is taken over after the grace, not before, and without waiting for
 * the lease (an hour). */
static void test_killed_owner_is_replaced_after_the_grace(void **state)
{
    struct cf_world *world = *state;
    struct cf_job job;
    pid_t owner = start_owner(world, &job);
    struct cf_node *node = cf_open(world, "node");
    cf_wait_until(node, job.mark_ms + 3);
    cf_answer(ask(node, &job, 2), HELD);
    int64_t killed_ms = cf_real_mono_ms();
    cf_kill(world, owner);
    jobsched_claim next;
    int64_t took_ms = ask_until_free(node, &job, 2, killed_ms, &next);
    cf_answer(next, GRANTED);
    print_message("taken over %lld ms after kill -9\n", (long long)took_ms);
    cf_true(took_ms >= 490); /* the two clocks round differently */
}

/* G10, G15: closing with a run under way hands the job over at once, without any grace. */
static void test_close_hands_over_at_once(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    struct cf_job job = cf_job(a, "job", 3);
    (void)cf_grant(a, &job, 1);
    cf_close(world, a);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), 1);
    cf_answer(ask(b, &job, 2), GRANTED);
    struct cf_row rows[2];
    cf_equal(cf_rows(b, "job", rows, 2), 2);
    cf_equal(rows[1].record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_string_equal(rows[1].note, "closed before the callback returned");
    struct cf_found found;
    cf_equal(cf_reap(b, &found, 1), 1);
    assert_string_equal(found.node, "a");
}

/* G5: pg_terminate_backend under a living owner: its keeper brings it back within the grace, so its
 * run goes on and nobody is ever granted the job. */
static void test_terminated_session_of_a_living_owner(void **state)
{
    enum { ROUNDS = 30 };
    struct cf_world *world = *state;
    /* A busy machine may take longer than usual to bring it back. */
    postgres_options = "&jobsched_grace=8s";
    postgres_url(world->url, sizeof world->url, "postgres", postgres_options);
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job job = cf_job(owner, "job", 3);
    jobsched_claim run = cf_grant(owner, &job, 1);
    for (int i = 1; i <= ROUNDS; i++) {
        postgres_terminate("owner");
        int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
        while (atomic_load(&owner->notices) < i) {
            cf_answer(ask(other, &job, 2), HELD);
            cf_true(cf_real_mono_ms() < deadline_ms);
            struct cf_found found;
            cf_equal(cf_reap(other, &found, 1), 0);
        }
        cf_answer(ask(other, &job, 2), HELD);
        if (i % 3 == 0) {
            cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
        }
    }
    /* Longer than the grace after the last of them. */
    int64_t until_ms = cf_real_mono_ms() + 8200;
    while (cf_real_mono_ms() < until_ms) {
        cf_answer(ask(other, &job, 2), HELD);
    }
    cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_answer(ask(other, &job, 2), GRANTED);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 7"), 0);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), 2);
}

/* All sessions of a node at once, also those under way: every operation goes on by itself or says
 * that its outcome is unknown, and its repetition gives the one answer there is. */
static void test_terminated_sessions_while_claiming(void **state)
{
    enum { OCCURRENCES = 150 };
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", OCCURRENCES + 1);
    uint64_t token = 0;
    int unknown = 0;
    for (int64_t k = 1; k <= OCCURRENCES; k++) {
        if (k % 5 == 0) {
            postgres_do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "application_name = 'jobsched node' AND pid <> pg_backend_pid()");
        }
        jobsched_claim claim = cf_at(&job, k);
        int code;
        int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
        do {
            jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
            code = node->driver->claim(node->backend, &call, &claim, 1);
            unknown += code == JOBSCHED_EUNKNOWN;
            cf_true(cf_real_mono_ms() < deadline_ms);
            cf_true(code == 0 || code == JOBSCHED_EUNKNOWN || code == JOBSCHED_EUNREACHABLE);
            /* BUSY: the server is not done with a session that has ended. */
        } while (code != 0 || claim.answer == JOBSCHED_ANSWER_BUSY);
        cf_answer(claim, GRANTED);
        cf_true(claim.token > token);
        token = claim.token;
        int answer = 0;
        do {
            jobsched_finish end = {
                .job = "job", .note = "", .token = token, .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
            jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
            code = node->driver->finish(node->backend, &call, &end, 1);
            answer = end.answer;
        } while (code != 0);
        cf_equal(answer, JOBSCHED_LEASE_KEPT);
    }
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run WHERE outcome = 2"), OCCURRENCES);
    print_message("%d of %d outcomes were unknown at first\n", unknown, OCCURRENCES);
}

/* G10: an owner whose session lives and whose heartbeat stands still for its lease, on our
 * monotonic clock, is dead; when it comes back it is told (G5). */
static void test_frozen_owner_is_dead_after_its_lease(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *frozen = cf_open(world, "frozen"), *node = cf_open(world, "node");
    struct cf_job job = cf_job(frozen, "job", 4);
    jobsched_claim run = cf_grant(frozen, &job, 1);
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS); /* the watch begins with a look */
    cf_answer(ask(node, &job, 2), HELD);
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS - 60000);
    cf_answer(ask(node, &job, 2), HELD);
    atomic_fetch_add(&node->clock.mono_offset_ms, 60000);
    jobsched_claim next = ask(node, &job, 2);
    cf_answer(next, GRANTED);
    struct cf_found found[2];
    cf_equal(cf_reap(node, found, 2), 1);
    assert_string_equal(found[0].node, "frozen");
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), 1); /* forgotten as well */
    /* Lane CLAIM first: it enters the node again, and is told all the same. */
    cf_answer(ask(frozen, &job, 1), DONE);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), 2);
    cf_equal(cf_renew(frozen, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(frozen, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(node, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_answer(ask(frozen, &job, 3), GRANTED);
}

/* A stopped process sends nothing: the server ends its idle session after the lease by itself, and
 * after SIGCONT the process finds its run gone. */
static void test_stopped_process_loses_its_session(void **state)
{
    enum { LEASE_MS = 6000 }; /* or it may be over before the process has stopped */
    struct cf_world *world = *state;
    int ends[2], back[2];
    cf_equal(pipe(ends), 0);
    cf_equal(pipe(back), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node own = {.backend = NULL};
        cf_config(&own, world, "owner", NULL);
        own.config.lease_ms = LEASE_MS;
        cf_ok(own.driver->open(&own.config, &own.backend));
        struct cf_job job = cf_job(&own, "job", 1);
        jobsched_claim run = cf_at(&job, 1); /* with a lease of an hour: only proof frees it */
        cf_ask(&own, &run);
        cf_equal(write(ends[1], &job, sizeof job), sizeof job);
        (void)raise(SIGSTOP);
        jobsched_lease item = {.job = "job", .note = "", .token = run.token};
        jobsched_call call;
        do { /* it may be told early that coming back takes long */
            call = cf_call(JOBSCHED_LANE_KEEP);
        } while (own.driver->renew(own.backend, &call, 0, &item, 1) != JOBSCHED_OK);
        int answer = item.answer;
        cf_equal(write(back[1], &answer, sizeof answer), sizeof answer);
        own.driver->close(own.backend);
        _exit(0);
    }
    struct cf_job job;
    cf_equal(read(ends[0], &job, sizeof job), sizeof job);
    int64_t stopped_ms = cf_real_mono_ms();
    job.name = "job";
    struct cf_node *node = cf_open(world, "node");
    cf_wait_until(node, job.mark_ms + 2);
    jobsched_claim next;
    int64_t took_ms = ask_until_free(node, &job, 2, stopped_ms, &next);
    cf_answer(next, GRANTED);
    cf_true(took_ms >= 400);
    (void)kill(child, SIGCONT);
    int answer = 0;
    cf_equal(read(back[0], &answer, sizeof answer), sizeof answer);
    cf_equal(answer, JOBSCHED_LEASE_GONE);
    cf_equal(cf_wait(world, child), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(ends[i]);
        (void)close(back[i]);
    }
}

/* A server process that hangs: the call keeps its time, and so does lane KEEP beside it. */
static void test_hung_server_process(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "hung");
    struct cf_job job = cf_job(node, "job", 3);
    (void)cf_grant(node, &job, 1);
    pid_t server = (pid_t)postgres_ask("SELECT pid FROM pg_stat_activity WHERE application_name = "
                                       "'jobsched hung' AND query LIKE '%.claim(%'");
    cf_equal(kill(server, SIGSTOP), 0);
    jobsched_claim claim = cf_at(&job, 2);
    claim.when_held = JOBSCHED_HELD_ALLOW;
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    call.timeout_ms = 300;
    int64_t began_ms = cf_real_mono_ms();
    int code = node->driver->claim(node->backend, &call, &claim, 1);
    int64_t took_ms = cf_real_mono_ms() - began_ms;
    call = cf_call(JOBSCHED_LANE_KEEP);
    int keep_code = node->driver->renew(node->backend, &call, 0, NULL, 0);
    cf_equal(kill(server, SIGCONT), 0);
    cf_equal(code, JOBSCHED_EUNKNOWN);
    cf_true(took_ms >= 290 && took_ms < CF_TIMEOUT_MS / 2);
    cf_equal(keep_code, JOBSCHED_OK);
    /* It may have been granted by then, or not: the repetition tells, with one token. */
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(claim.token, 2);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".run"), 2);
}

/* G11: neither a renewal nor a reap waits for a claim that is under way. */
static void test_renewal_beside_a_claim(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *judge = cf_open(world, "judge");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    /* Somebody's transaction that claims under the job's lock and has not ended yet. */
    PGconn *conn = postgres_connect();
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "BEGIN; SELECT pg_advisory_xact_lock(\"%s\".job_key('%s', 'job'));"
                   "UPDATE \"%s\".fence SET seq = seq WHERE name = 'job'",
                   postgres_schema, world->name_space, postgres_schema);
    PQclear(PQexec(conn, sql));
    int64_t began_ms = cf_real_mono_ms();
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    struct cf_found found;
    cf_equal(cf_reap(judge, &found, 1), 0);
    cf_true(cf_real_mono_ms() - began_ms < 8000); /* the lock timeout is 10 s */
    PQfinish(conn);
}

/* Another server identity: nothing is granted for a lease, then with tokens of another epoch. What
 * lies before and may have run is not run again (G1, G2), and the ledger says so (G9); a job that
 * asked for reruns gets it. Every node that is there hears of it, once. */
static void test_changed_incarnation(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 4), least = cf_job(node, "least", 4);
    jobsched_claim run = cf_grant(node, &job, 1);
    struct cf_node *other = cf_open(world, "other");
    cf_ok(cf_control(other, JOBSCHED_VERB_TRIGGER, "job", "waits", NULL));
    postgres_do("UPDATE \"%s\".meta SET incarnation = 'another'");
    struct cf_node late = {.backend = NULL};
    cf_config(&late, world, "late", NULL);
    cf_ok(late.driver->open(&late.config, &late.backend));
    await_notice(&late, 1);
    cf_equal(atomic_load(&late.losses), 1);
    jobsched_claim claim = cf_at(&job, 2);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(late.driver->claim(late.backend, &call, &claim, 1));
    cf_answer(claim, BUSY);
    cf_true(claim.wait_ms > 0 && claim.wait_ms <= 1000);
    cf_equal(claim.mark_ms, job.mark_ms + 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT); /* what is known stays */
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = lost_at_ms + 1500"); /* not an hour */
    claim.lease_ms = 1500; /* its own lease makes it wait, too */
    cf_ask(&late, &claim); /* asks until it is not busy any more */
    cf_answer(claim, DONE);
    cf_equal(claim.mark_ms, job.mark_ms + 2);
    postgres_do("UPDATE \"%s\".meta SET lost_at_ms = 0");
    claim = cf_at(&job, 4);
    claim.after_ms = job.mark_ms + 2;
    claim.kind = JOBSCHED_KIND_CATCH_UP;
    cf_ask(&late, &claim);
    cf_answer(claim, DONE);
    struct cf_row row;
    cf_newest(node, "job", &row);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    cf_equal(row.record.scheduled_at_ms, job.mark_ms + 2);
    cf_equal(row.record.last_at_ms, job.mark_ms + 4);
    cf_equal(row.record.count, 2);
    cf_true(strstr(row.note, "forgotten") != NULL);
    jobsched_claim trigger = cf_at(&job, 0);
    trigger.kind = JOBSCHED_KIND_TRIGGER;
    trigger.request = "waits";
    cf_ask(&late, &trigger);
    cf_answer(trigger, DONE); /* it may have run as well */
    cf_equal(postgres_ask("SELECT outcome FROM \"%s\".run WHERE request = 'waits'"),
             JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    jobsched_claim again = cf_at(&least, 1);
    again.recover = JOBSCHED_RECOVER_RERUN;
    again.recover_limit = 1;
    cf_ask(&late, &again);
    cf_answer(again, GRANTED);
    claim.after_ms = claim.mark_ms;
    claim.scheduled_ms = cf_now(&late);
    cf_ask(&late, &claim);
    cf_answer(claim, GRANTED);
    cf_true(claim.token >= (UINT64_C(1) << 40) && claim.token > run.token);
    cf_equal(cf_job(&late, "new", 0).generation, 1);
    cf_true(postgres_ask("SELECT token FROM \"%s\".fence WHERE name = 'new'") >= INT64_C(1) << 40);
    int before = atomic_load(&node->notices); /* its reading has been told, too */
    cf_true(before == 1);
    postgres_terminate("node");
    await_notice(node, before + 1); /* only that the session is back */
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(atomic_load(&node->notices), before + 1);
    cf_equal(atomic_load(&node->losses), before);
    late.driver->close(late.backend);
}

/* A server that was set back with its identity, as by a snapshot of its host: who has seen more of its
 * log notices, once for all nodes. */
static void test_server_that_was_set_back(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = cf_open(world, "other");
    char sql[512];
    (void)snprintf(
        sql, sizeof sql,
        "SELECT o_changed::integer * 10 + o_epoch FROM \"%%s\".hello(1, 1500, 0, 0, "
        "NULL, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint + 1000000000, NULL, NULL)");
    cf_equal(postgres_ask(sql), 11);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".meta WHERE epoch = 1 AND floor_ms > 0"), 1);
    cf_equal(postgres_ask("SELECT o_epoch FROM \"%s\".hello(1, 1500, 0, 0, NULL, "
                          "1000000000000000, NULL, NULL)"),
             1);
    cf_equal(postgres_ask("SELECT o_epoch FROM \"%s\".hello(1, 1500, 0, 1, NULL, 0, NULL, NULL)"),
             1);
    postgres_terminate("node");
    await_notice(node, 2); /* back, and what it found */
    cf_equal(atomic_load(&node->losses), 1);
    cf_equal(atomic_load(&other->notices), 0);
}

static int is_readable(struct cf_node *node, int wait_ms)
{
    struct pollfd look = {.fd = node->driver->watch(node->backend), .events = POLLIN};
    cf_true(look.fd >= 0);
    return poll(&look, 1, wait_ms) > 0;
}

static int quiet_renew(struct cf_node *node, jobsched_call *call)
{
    *call = cf_call(JOBSCHED_LANE_KEEP);
    call->lost_at_mono_ms = JOBSCHED_NONE;
    return node->driver->renew(node->backend, call, 0, NULL, 0);
}

/* Control calls and changed definitions are pushed: the descriptor is readable until the next
 * renewal, and what changed nothing pushes nothing. */
static void test_pushes(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = cf_open(world, "other");
    (void)cf_job(other, "job", 0);
    static const int verbs[] = {JOBSCHED_VERB_PAUSE, JOBSCHED_VERB_RESUME, JOBSCHED_VERB_TRIGGER,
                                JOBSCHED_VERB_REMOVE};
    jobsched_call call;
    cf_ok(quiet_renew(node, &call));
    cf_true(!is_readable(node, 0));
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        cf_ok(cf_control(other, verbs[i], "job", "request", NULL));
        cf_true(is_readable(node, CF_POLL_MS));
        cf_ok(quiet_renew(node, &call));
        cf_true(!is_readable(node, 0));
    }
    cf_ok(cf_control(other, JOBSCHED_VERB_REMOVE, "job", NULL, NULL));
    cf_true(!is_readable(node, 100));
    (void)cf_announce(other, "job", "every 1 ms", 0);
    cf_true(!is_readable(node, 100));
    cf_equal(cf_announce(other, "job", "every 2 ms", 3).conflict, 0);
    cf_true(is_readable(node, CF_POLL_MS));
    cf_ok(quiet_renew(node, &call));
    cf_equal(cf_announce(other, "job", "every 3 ms", 3).conflict, 1);
    cf_true(is_readable(node, CF_POLL_MS));
    cf_ok(quiet_renew(node, &call));
    postgres_terminate("node"); /* an end of the session, too */
    cf_true(is_readable(node, CF_POLL_MS));
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (quiet_renew(node, &call) != JOBSCHED_OK) { /* told early where coming back takes long */
        cf_true(cf_real_mono_ms() < deadline_ms);
    }
}

static int64_t lock_key(void)
{
    return postgres_ask("SELECT lock_key FROM \"%s\".node WHERE name = 'node'");
}

/* G8, G10: a server that hangs for longer than a request may take costs no session, and so no run:
 * the answer is taken when it comes, or another session has taken its place by then. */
static void test_hung_server_costs_no_run(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = cf_open(world, "node"), *other = cf_open(world, "other");
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    for (int round = 0; round < 2; round++) {
        int64_t key = lock_key();
        pid_t server = (pid_t)postgres_ask("SELECT pid FROM \"%s\".node WHERE name = 'node'");
        cf_equal(kill(server, SIGSTOP), 0);
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        call.lost_at_mono_ms = JOBSCHED_NONE;
        call.timeout_ms = 300;
        int code = node->driver->renew(node->backend, &call, 0, NULL, 0);
        int64_t until_ms = cf_real_mono_ms() + 800; /* longer than the grace */
        int answer = JOBSCHED_ANSWER_HELD;
        while (cf_real_mono_ms() < until_ms && answer == JOBSCHED_ANSWER_HELD) {
            answer = ask(other, &job, 2).answer;
            cf_pause();
        }
        int64_t lost_at_ms = call.lost_at_mono_ms;
        if (round == 1) { /* asks again while it hangs, with time for another session */
            call.timeout_ms = CF_TIMEOUT_MS;
            code = node->driver->renew(node->backend, &call, 0, NULL, 0) == JOBSCHED_OK
                       ? code
                       : JOBSCHED_EINTERNAL;
        }
        cf_equal(kill(server, SIGCONT), 0);
        cf_equal(code, JOBSCHED_EUNKNOWN);
        cf_equal(lost_at_ms, JOBSCHED_NONE);
        cf_equal(answer, JOBSCHED_ANSWER_HELD);
        cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(lock_key() == key ? 1 : 0, round == 0);
    }
    cf_answer(ask(other, &job, 2), HELD);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* What dead nodes registered is not told, and goes in the end; what a node registered that only
 * seemed dead comes back with it. */
static void test_registrations(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *frozen = cf_open(world, "frozen"), *node = cf_open(world, "node");
    (void)cf_job(frozen, "job", 0);
    (void)cf_job(node, "job", 0);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".registration"), 2);
    struct cf_found found;
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_reap(node, &found, 1), 0);
        atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS);
    }
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".node"), 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".left_node"), 1);
    jobsched_call call;
    cf_ok(quiet_renew(frozen, &call));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".left_node"), 0);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".registration g JOIN \"%s\".node USING "
                          "(node_id)"),
             2);
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_reap(node, &found, 1), 0);
        atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS);
    }
    postgres_do("UPDATE \"%s\".left_node SET at_ms = at_ms - 3600001");
    cf_equal(cf_reap(node, &found, 1), 0);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".registration"), 1);
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".left_node"), 0);
    const char *const names[] = {"job", "nonsense"};
    call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->withdraw(node->backend, &call, names, 2));
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".registration"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, postgres_tear_down)
        TEST(test_the_last_node_disappears),
        TEST(test_killed_owner_is_replaced_after_the_grace),
        TEST(test_close_hands_over_at_once),
        TEST(test_terminated_session_of_a_living_owner),
        TEST(test_terminated_sessions_while_claiming),
        TEST(test_frozen_owner_is_dead_after_its_lease),
        TEST(test_stopped_process_loses_its_session),
        TEST(test_hung_server_process),
        TEST(test_renewal_beside_a_claim),
        TEST(test_changed_incarnation),
        TEST(test_server_that_was_set_back),
        TEST(test_pushes),
        TEST(test_hung_server_costs_no_run),
        TEST(test_registrations),
    };
    postgres_directory = argc > 1 ? argv[1] : "/tmp";
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
