/* test_sqlite_pair.c: whole schedulers with real threads on one store, through the public API: what
 * each control verb answers (G6), on single: and sqlite:; cancellation and definitions across
 * nodes (G6, G14); and leader mode with two nodes (G10). */
#include "sqlite_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 60000, LEASE_MS = 3000 };

/* One scheduler, and what its job does: a callback goes on until it is let go, or told to stop
 * unless it is deaf. */
struct party {
    jobsched *s;
    _Atomic int calls, inside, stop_reason, let_go, deaf;
    _Atomic int gained, lost, conflicts, stood_down;
    _Atomic uint64_t fired; /* calls of the job "tick" */
};

static int hold(jobsched_run *run, void *user_data)
{
    struct party *party = user_data;
    (void)atomic_fetch_add(&party->calls, 1);
    (void)atomic_fetch_add(&party->inside, 1);
    while (!atomic_load(&party->let_go) &&
           (atomic_load(&party->deaf) || jobsched_run_should_stop(run) == 0)) {
        cf_pause();
    }
    atomic_store(&party->stop_reason, jobsched_run_should_stop(run));
    (void)atomic_fetch_sub(&party->inside, 1);
    return atomic_load(&party->stop_reason) == 0 ? 0 : JOBSCHED_ECANCELED;
}

static int tick(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)atomic_fetch_add(&((struct party *)user_data)->fired, 1);
    return 0;
}

static void observe(const jobsched_event *event, void *user_data)
{
    struct party *party = user_data;
    (void)atomic_fetch_add(&party->gained, event->kind == JOBSCHED_EVENT_LEADER_GAINED);
    (void)atomic_fetch_add(&party->lost, event->kind == JOBSCHED_EVENT_LEADER_LOST);
    (void)atomic_fetch_add(&party->conflicts, event->kind == JOBSCHED_EVENT_JOB_CONFLICT);
    (void)atomic_fetch_add(&party->stood_down, event->kind == JOBSCHED_EVENT_JOB_STOOD_DOWN);
}

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ms_ = cf_real_mono_ms() + WAIT_MS;                                           \
        while (!(condition)) {                                                                     \
            cf_true(cf_real_mono_ms() < until_ms_);                                                \
            cf_pause();                                                                            \
        }                                                                                          \
    } while (0)

static void open_party(struct party *party, const char *lock, const char *name, int leader)
{
    static const jobsched_backend *drivers[2];
    drivers[0] = jobsched_backend_sqlite();
    memset(party, 0, sizeof *party);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = lock;
    options.backends = drivers;
    options.node_name = name;
    options.lease_ms = LEASE_MS;
    options.leader = leader;
    options.observer = observe;
    options.observer_data = party;
    cf_ok(jobsched_open(&options, &party->s));
}

static void add_job(struct party *party, const char *name, const char *schedule,
                    jobsched_run_fn run, uint64_t version)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = schedule;
    spec.run = run;
    spec.user_data = party;
    spec.version = version;
    cf_ok(jobsched_add(party->s, &spec, NULL));
}

static void close_party(struct party *party)
{
    atomic_store(&party->let_go, 1);
    cf_ok(jobsched_drain(party->s, WAIT_MS));
    cf_ok(jobsched_close(party->s));
}

static const char *sqlite_url(void)
{
    static char url[SQLITE_PATH_BYTES + 16];
    (void)snprintf(url, sizeof url, "sqlite:%s", sqlite_path);
    return url;
}

static int (*const verbs[])(jobsched *, const char *, jobsched_control_result *) = {
    jobsched_pause, jobsched_resume, jobsched_cancel, jobsched_remove};

/* G6: without such a job nothing is done, and no verb says otherwise. */
static void expect_not_found(jobsched *s, const char *job)
{
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    result.changed = 77;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        cf_equal(verbs[i](s, job, &result), JOBSCHED_ENOTFOUND);
    }
    cf_equal(jobsched_trigger(s, job, "re", &result), JOBSCHED_ENOTFOUND);
    cf_equal(result.changed, 77);
}

static int keep_outcome(const jobsched_run_record *record, void *user_data)
{
    *(int *)user_data = record->outcome;
    return 0;
}

static int count_job(const jobsched_job_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

static void expect_running(const jobsched_control_result *result, uint64_t token,
                           int64_t not_before_ms)
{
    cf_equal(result->running, 1);
    cf_equal(result->run_token, token);
    cf_true(result->since_at_ms >= not_before_ms);
    assert_string_equal(result->node, "node");
}

/* G6: what a verb answers while nothing runs: applied, or the job was already so. */
static void expect_applied_at_rest(jobsched *s)
{
    jobsched_control_result result;
    for (int changed = 1; changed >= 0; changed--) {
        JOBSCHED_INIT(&result);
        cf_ok(jobsched_pause(s, "job", &result));
        cf_equal(result.changed, changed);
        cf_equal(result.running, 0);
        cf_equal(result.token, 0);
    }
    cf_equal(jobsched_trigger(s, "job", "re", &result), JOBSCHED_ESTATE);
    for (int changed = 1; changed >= 0; changed--) {
        cf_ok(jobsched_resume(s, "job", &result));
        cf_equal(result.changed, changed);
    }
    cf_ok(jobsched_cancel(s, "job", &result));
    cf_equal(result.changed, 0); /* there is nothing to stop */
}

/* G6: what each verb answers while a run goes on, on which node, since when, under which token; and
 * that a request is one run, however often it is made. */
static void expect_applied_amid_a_run(struct party *party)
{
    jobsched *s = party->s;
    jobsched_control_result result;
    struct timespec now;
    int outcome = -1;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int64_t before_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    for (int changed = 1; changed >= 0; changed--) {
        JOBSCHED_INIT(&result);
        cf_ok(jobsched_trigger(s, "job", "first", &result));
        cf_equal(result.changed, changed);
    }
    wait_until(atomic_load(&party->inside) == 1);
    cf_equal(jobsched_wait(s, "job", "first", 1, keep_outcome, &outcome), JOBSCHED_ETIMEDOUT);
    cf_ok(jobsched_pause(s, "job", &result));
    cf_equal(result.changed, 1);
    expect_running(&result, result.token, before_ms);
    uint64_t token = result.token;
    cf_ok(jobsched_resume(s, "job", &result));
    expect_running(&result, token, before_ms);
    atomic_store(&party->deaf, 1); /* or the run may have ended when the next verb is answered */
    for (int changed = 1; changed >= 0; changed--) {
        cf_ok(jobsched_cancel(s, "job", &result));
        cf_equal(result.changed, changed);
        expect_running(&result, token, before_ms);
    }
    cf_ok(jobsched_trigger(s, "job", "second", &result));
    expect_running(&result, token, before_ms);
    atomic_store(&party->deaf, 0);
    cf_ok(jobsched_wait(s, "job", "first", WAIT_MS, keep_outcome, &outcome));
    cf_equal(outcome, JOBSCHED_OUTCOME_CANCELLED);
    cf_equal(atomic_load(&party->stop_reason), JOBSCHED_STOP_CANCELLED);
}

static void expect_removed(jobsched *s)
{
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    cf_ok(jobsched_remove(s, "job", &result));
    cf_equal(result.changed, 1);
    cf_ok(jobsched_remove(s, "job", &result));
    cf_equal(result.changed, 0);
    cf_equal(jobsched_pause(s, "job", &result), JOBSCHED_ENOTFOUND);
    cf_equal(jobsched_trigger(s, "job", NULL, &result), JOBSCHED_ENOTFOUND);
    cf_ok(jobsched_jobs(s, "job", count_job, NULL)); /* the tombstone is still told of */
}

static void expect_all_answers(const char *lock)
{
    struct party party;
    open_party(&party, lock, "node", 0);
    add_job(&party, "job", "@at 2100-01-01T00:00:00Z", hold, 0);
    expect_not_found(party.s, "job"); /* not announced yet */
    cf_ok(jobsched_start(party.s));
    wait_until(jobsched_jobs(party.s, "job", count_job, NULL) == 0);
    expect_not_found(party.s, "no'body");
    expect_applied_at_rest(party.s);
    expect_applied_amid_a_run(&party);
    atomic_store(&party.let_go, 1);
    int outcome = -1;
    cf_ok(jobsched_wait(party.s, "job", "second", WAIT_MS, keep_outcome, &outcome));
    cf_true(outcome == JOBSCHED_OUTCOME_SUCCEEDED || outcome == JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    expect_removed(party.s);
    close_party(&party);
}

static void test_answers_of_the_verbs_on_single(void **state)
{
    (void)state;
    expect_all_answers("single:");
}

static void test_answers_of_the_verbs_on_sqlite(void **state)
{
    (void)state;
    expect_all_answers(sqlite_url());
}

/* G6, G8: with the store away no verb says success, and none has had an effect. */
static void test_verbs_without_the_store_promise_nothing(void **state)
{
    (void)state;
    struct party party;
    open_party(&party, sqlite_url(), "node", 0);
    add_job(&party, "job", "@at 2100-01-01T00:00:00Z", hold, 0);
    cf_ok(jobsched_start(party.s));
    wait_until(jobsched_jobs(party.s, "job", count_job, NULL) == 0);
    sqlite3 *other = NULL;
    cf_equal(sqlite3_open(sqlite_path, &other), SQLITE_OK);
    wait_until(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    result.changed = 77;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        cf_equal(verbs[i](party.s, "job", &result), JOBSCHED_EUNREACHABLE);
    }
    cf_equal(jobsched_trigger(party.s, "job", "re", &result), JOBSCHED_EUNREACHABLE);
    cf_equal(result.changed, 77);
    cf_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(other);
    cf_ok(jobsched_pause(party.s, "job", &result));
    cf_equal(result.changed, 1); /* it was neither paused nor removed */
    int outcome;
    cf_equal(jobsched_wait(party.s, "job", "re", 0, keep_outcome, &outcome), JOBSCHED_ENOTFOUND);
    close_party(&party);
}

/* G6: what one node is told to cancel stops on another, by that one's next heartbeat, with the
 * reason; the answer names that node. And a desk that is no node can do the same. */
static void test_cancel_reaches_another_node(void **state)
{
    (void)state;
    struct party there, here;
    open_party(&there, sqlite_url(), "there", 0);
    add_job(&there, "job", "@at 2100-01-01T00:00:00Z", hold, 0);
    cf_ok(jobsched_start(there.s));
    wait_until(jobsched_jobs(there.s, "job", count_job, NULL) == 0);
    open_party(&here, sqlite_url(), "here", 0);
    cf_ok(jobsched_trigger(here.s, "job", "re", NULL)); /* and so does a trigger */
    wait_until(atomic_load(&there.inside) == 1);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    cf_ok(jobsched_cancel(here.s, "job", &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 1);
    assert_string_equal(result.node, "there");
    wait_until(atomic_load(&there.stop_reason) == JOBSCHED_STOP_CANCELLED);
    int outcome = -1;
    cf_ok(jobsched_wait(here.s, "job", "re", WAIT_MS, keep_outcome, &outcome));
    cf_equal(outcome, JOBSCHED_OUTCOME_CANCELLED);
    close_party(&here);
    close_party(&there);
}

/* G14: two builds of the same version: the later holds, both sides hear of it once, and the
 * cluster follows one of them. A larger version then ends it. */
static void test_definitions_of_two_nodes(void **state)
{
    (void)state;
    struct party first, second;
    open_party(&first, sqlite_url(), "first", 0);
    open_party(&second, sqlite_url(), "second", 0);
    add_job(&first, "tick", "* * * * * *", tick, 4);
    cf_ok(jobsched_start(first.s));
    wait_until(atomic_load(&first.fired) > 0);
    add_job(&second, "tick", "*/1 * * * * *", tick, 4);
    cf_ok(jobsched_start(second.s));
    wait_until(atomic_load(&second.conflicts) == 1);
    wait_until(atomic_load(&first.conflicts) == 1 && atomic_load(&first.stood_down) == 1);
    uint64_t fired = atomic_load(&first.fired);
    uint64_t others = atomic_load(&second.fired);
    wait_until(atomic_load(&second.fired) > others + 1);
    cf_equal(atomic_load(&first.fired), fired);
    cf_equal(atomic_load(&second.conflicts), 1);
    cf_ok(jobsched_withdraw(first.s, "tick"));
    add_job(&first, "tick", "* * * * * *", tick, 5);
    wait_until(atomic_load(&second.stood_down) == 1);
    wait_until(atomic_load(&first.fired) > fired);
    cf_equal(atomic_load(&second.conflicts), 1);
    close_party(&second);
    close_party(&first);
}

/* The first is asked twice: leadership may pass on between two questions. */
static int both_lead(const struct party *parties)
{
    return jobsched_is_leader(parties[0].s) && jobsched_is_leader(parties[1].s) &&
           jobsched_is_leader(parties[0].s);
}

/* G10: one of two leads and fires; a clean stop hands over; and what nobody may do, both of them
 * leading, is never seen. */
static void test_two_nodes_in_leader_mode(void **state)
{
    (void)state;
    struct party parties[2];
    for (int i = 0; i < 2; i++) {
        open_party(&parties[i], sqlite_url(), i == 0 ? "a" : "b", 1);
        add_job(&parties[i], "tick", "* * * * * *", tick, 0);
        cf_ok(jobsched_start(parties[i].s));
    }
    int both = 0;
    wait_until(jobsched_is_leader(parties[0].s) || jobsched_is_leader(parties[1].s));
    int leader = jobsched_is_leader(parties[0].s) ? 0 : 1;
    wait_until((both += both_lead(parties), atomic_load(&parties[leader].fired) >= 2));
    cf_equal(atomic_load(&parties[1 - leader].fired), 0);
    cf_equal(both, 0);
    cf_ok(jobsched_cancel(parties[1 - leader].s, "jobsched:leader", NULL)); /* hands over */
    wait_until((both += both_lead(parties), jobsched_is_leader(parties[1 - leader].s)));
    wait_until(atomic_load(&parties[leader].lost) >= 1); /* events come on their own thread */
    wait_until(atomic_load(&parties[1 - leader].fired) > 0);
    close_party(&parties[1 - leader]);
    wait_until(jobsched_is_leader(parties[leader].s));
    cf_equal(both, 0);
    wait_until(atomic_load(&parties[leader].gained) >= 2);
    uint64_t fired = atomic_load(&parties[leader].fired);
    wait_until(atomic_load(&parties[leader].fired) > fired);
    cf_equal(sqlite_ask("SELECT count(*) - count(DISTINCT scheduled_ms) FROM run r JOIN fence f ON "
                        "f.id = r.fence WHERE f.name = 'tick'"),
             0);
    close_party(&parties[leader]);
}

/* G10: a leader that is killed is followed at once, not after its lease. */
static void test_dead_leader_is_followed(void **state)
{
    struct cf_world *world = *state;
    int ends[2];
    char sign = 0;
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct party doomed;
        open_party(&doomed, sqlite_url(), "doomed", 1);
        cf_ok(jobsched_start(doomed.s));
        wait_until(jobsched_is_leader(doomed.s));
        cf_equal(write(ends[1], &sign, 1), 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    cf_equal(read(ends[0], &sign, 1), 1);
    (void)close(ends[0]);
    struct party heir;
    open_party(&heir, sqlite_url(), "heir", 1);
    add_job(&heir, "tick", "* * * * * *", tick, 0);
    cf_ok(jobsched_start(heir.s));
    int64_t until_ms = cf_real_mono_ms() + 1200;
    while (cf_real_mono_ms() < until_ms) {
        cf_equal(jobsched_is_leader(heir.s), 0);
        cf_pause();
    }
    cf_equal(atomic_load(&heir.fired), 0);
    cf_kill(world, child);
    wait_until(atomic_load(&heir.fired) > 0);
    wait_until(atomic_load(&heir.gained) == 1);
    close_party(&heir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        /* First: it forks, and no threads may be there. */
        TEST(test_dead_leader_is_followed),
        TEST(test_answers_of_the_verbs_on_single),
        TEST(test_answers_of_the_verbs_on_sqlite),
        TEST(test_verbs_without_the_store_promise_nothing),
        TEST(test_cancel_reaches_another_node),
        TEST(test_definitions_of_two_nodes),
        TEST(test_two_nodes_in_leader_mode),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
