/* test_postgres_promoted.c: living nodes whose server goes away: for a while, or for good, with an
 * asynchronous standby promoted in its place that has missed what was answered last. Every test
 * starts servers of its own.
 *   test_postgres_promoted DIRECTORY     unused */
#include "postgres_support.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char primary[64], standby[64];

static int set_up(void **state)
{
    (void)snprintf(primary, sizeof primary, "/tmp/jpgp-%ld", (long)getpid());
    (void)snprintf(standby, sizeof standby, "/tmp/jpgq-%ld", (long)getpid());
    postgres_directory = primary;
    if (postgres_script("start", primary, "") != 0) {
        return -1;
    }
    return postgres_set_up(state);
}

static int tear_down(void **state)
{
    int result = cf_teardown(state);
    postgres_disconnect();
    (void)postgres_script("remove", primary, "");
    (void)postgres_script("remove", standby, "");
    return result;
}

/* ---- the way back -------------------------------------------------------------------- */

enum { SLEEPERS = 2, SLEEPS = 8 };

/* For how long each keeper thread means to sleep between two tries. Guarded by sleep_lock. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sleeper {
    pthread_t thread;
    int known, count, ms[SLEEPS];
} sleepers[SLEEPERS];

JOBSCHED_API int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
JOBSCHED_API int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* In the place of poll(), also for the libraries of sanitizers. Nothing but the keeper threads waits
 * so for a hang-up. */
JOBSCHED_API int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (count == 2 && fds[1].events == POLLRDHUP && timeout_ms > 0) {
        (void)pthread_mutex_lock(&sleep_lock);
        for (size_t i = 0; i < SLEEPERS; i++) {
            struct sleeper *at = &sleepers[i];
            if (!at->known) {
                *at = (struct sleeper){.thread = pthread_self(), .known = 1};
            }
            if (pthread_equal(at->thread, pthread_self())) {
                if (at->count < SLEEPS) {
                    at->ms[at->count++] = timeout_ms;
                }
                break;
            }
        }
        (void)pthread_mutex_unlock(&sleep_lock);
    }
    return __real_poll(fds, count, timeout_ms);
}

static int have_tried(void)
{
    int all = 1;
    (void)pthread_mutex_lock(&sleep_lock);
    for (size_t i = 0; i < SLEEPERS; i++) {
        all = all && sleepers[i].count == SLEEPS;
    }
    (void)pthread_mutex_unlock(&sleep_lock);
    return all;
}

/* G11: nodes that have lost the same server come back with a back-off that is bounded, and not in
 * step: each pause is another part of its step for each of them. */
static void test_nodes_do_not_come_back_in_step(void **state)
{
    struct cf_world *world = *state;
    memset(sleepers, 0, sizeof sleepers);
    (void)cf_open(world, "one");
    (void)cf_open(world, "another");
    postgres_disconnect();
    cf_equal(postgres_script("stop", primary, "immediate"), 0);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (!have_tried()) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    int differ = 0;
    for (int i = 0; i < SLEEPS; i++) {
        int step_ms = i < 3 ? 20 << i : 100; /* a fifth of the grace at most */
        int one_ms = sleepers[0].ms[i], another_ms = sleepers[1].ms[i];
        print_message("%d ms, %d ms\n", one_ms, another_ms);
        cf_true(one_ms > step_ms / 2 && one_ms <= step_ms);
        cf_true(another_ms > step_ms / 2 && another_ms <= step_ms);
        differ += one_ms != another_ms;
    }
    cf_true(differ >= 2);
    cf_equal(postgres_script("start", primary, ""), 0);
}

/* ---- a standby in its place ------------------------------------------------------------ */

/* The standby hears of nothing more. Leaves the test's own connection to the primary. */
static void cut_off_standby(void)
{
    postgres_disconnect();
    postgres_directory = standby;
    postgres_do("ALTER SYSTEM SET primary_conninfo = ''");
    postgres_do("SELECT pg_reload_conf()");
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_ask("SELECT count(*) FROM pg_stat_wal_receiver") != 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    postgres_disconnect();
    postgres_directory = primary;
}

static void promote(void)
{
    postgres_disconnect();
    cf_equal(postgres_script("stop", primary, "immediate"), 0);
    cf_equal(postgres_script("promote", standby, ""), 0);
    postgres_directory = standby;
}

/* Renews until it works again, as the engine does. */
static void renew_again(struct cf_node *node, jobsched_lease *items, size_t count)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    for (;;) {
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        int code = node->driver->renew(node->backend, &call, 0, items, count);
        if (code == JOBSCHED_OK) {
            return;
        }
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* As the engine does after a call that failed. */
static void ask_again(struct cf_node *node, jobsched_claim *claim)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int code;
    while ((code = node->driver->claim(node->backend, &call, claim, 1)) != JOBSCHED_OK) {
        cf_true(code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        call = cf_call(JOBSCHED_LANE_CLAIM);
    }
}

/* Rows of one occurrence; outcome: of the last one. */
static size_t rows_of(struct cf_node *node, const char *job, int64_t scheduled_ms, int *outcome)
{
    struct cf_row rows[8];
    size_t count = cf_rows(node, job, rows, 8), found = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].record.scheduled_at_ms <= scheduled_ms &&
            rows[i].record.last_at_ms >= scheduled_ms) {
            *outcome = rows[i].record.outcome;
            found++;
        }
    }
    return found;
}

/* The next occurrence, after everything that may have been forgotten. */
static jobsched_claim claim_now(struct cf_node *node, const struct cf_job *job)
{
    jobsched_claim claim = cf_at(job, 1);
    cf_ask(node, &claim);
    claim.after_ms = claim.mark_ms;
    claim.scheduled_ms = cf_now(node);
    cf_ask(node, &claim);
    return claim;
}

static void expect_succeeded(struct cf_node *node, const struct cf_job *job)
{
    int outcome = -1;
    cf_equal(rows_of(node, job->name, job->mark_ms + 1, &outcome), 1); /* G9 */
    cf_equal(outcome, JOBSCHED_OUTCOME_SUCCEEDED);
}

/* G1, G2, G4, G5, G9: the nodes live on while the server under them is exchanged for a standby that
 * knows one run, and has missed another one and a pause. Both nodes tell of the loss. Both runs are
 * kept: no occurrence is granted once more, nothing is granted beside them, each has one outcome,
 * and later tokens are larger than both. */
static void test_living_nodes_at_a_promoted_standby(void **state)
{
    struct cf_world *world = *state;
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql:///postgres?host=%s,%s&user=postgres&jobsched_schema=%s&"
                   "target_session_attrs=read-write",
                   primary, standby, postgres_schema);
    struct cf_node *owner = cf_open(world, "owner"), *other = cf_open(world, "other");
    struct cf_job known = cf_job(owner, "known", 1), missed = cf_job(owner, "missed", 1);
    (void)cf_job(owner, "paused", 1);
    jobsched_claim first = cf_grant(owner, &known, 1);
    cf_equal(postgres_script("standby", standby, primary), 0);
    cut_off_standby();
    jobsched_claim second = cf_grant(owner, &missed, 1);
    cf_ok(cf_control(other, JOBSCHED_VERB_PAUSE, "paused", NULL, NULL));
    cf_equal(atomic_load(&owner->losses) + atomic_load(&other->losses), 0);
    promote();

    jobsched_lease leases[] = {{.job = "known", .note = "", .token = first.token},
                               {.job = "missed", .note = "", .token = second.token}};
    renew_again(owner, leases, 2);
    renew_again(other, NULL, 0);
    print_message("known: %d, missed: %d\n", leases[0].answer, leases[1].answer);
    cf_equal(leases[0].answer, JOBSCHED_LEASE_KEPT); /* its lease and its node are as they were */
    cf_equal(leases[1].answer, JOBSCHED_LEASE_KEPT); /* its node has said it again */
    cf_true(atomic_load(&owner->losses) > 0);
    cf_true(atomic_load(&other->losses) > 0);

    /* Until the leases of then are over nobody gets anything (an hour, here). */
    jobsched_claim again = cf_at(&missed, 1);
    ask_again(other, &again);
    cf_true(again.answer == JOBSCHED_ANSWER_BUSY || again.answer == JOBSCHED_ANSWER_DONE ||
            again.answer == JOBSCHED_ANSWER_HELD);
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = 0, lost_at_ms = 0");
    cf_ask(other, &again);
    cf_true(again.answer == JOBSCHED_ANSWER_DONE || again.answer == JOBSCHED_ANSWER_HELD);
    jobsched_claim mine = cf_at(&missed, 1); /* as after a lost answer */
    ask_again(owner, &mine);
    cf_answer(mine, GRANTED);
    cf_equal(mine.token, second.token);
    jobsched_claim beside = claim_now(other, &known);
    cf_answer(beside, HELD);

    beside = claim_now(other, &missed);
    cf_answer(beside, HELD);

    cf_equal(cf_finish(owner, "known", first.token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(owner, "missed", second.token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
    expect_succeeded(other, &known);
    expect_succeeded(other, &missed);
    jobsched_claim later[] = {claim_now(other, &known), claim_now(other, &missed)};
    for (size_t i = 0; i < 2; i++) {
        cf_answer(later[i], GRANTED);
        cf_true(later[i].token > first.token && later[i].token > second.token);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_nodes_do_not_come_back_in_step),
        TEST(test_living_nodes_at_a_promoted_standby),
    };
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
