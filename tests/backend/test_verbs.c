/* test_verbs.c: what each control verb answers (G6), on every backend: applied or so already, at rest
 * and amid a run; no such job; the store away; the answer lost. Real threads, the public API. */
#include "pair.h"

#include <string.h>
#include <time.h>

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

/* G6: a removed job's run goes on, and who removes it is told of it; then there is no such job. */
static void expect_removed_amid_a_run(struct party *party)
{
    jobsched *s = party->s;
    jobsched_control_result result;
    int outcome = -1;
    atomic_store(&party->let_go, 0);
    JOBSCHED_INIT(&result);
    cf_ok(jobsched_trigger(s, "job", "third", &result));
    wait_until(atomic_load(&party->inside) == 1);
    for (int changed = 1; changed >= 0; changed--) {
        cf_ok(jobsched_remove(s, "job", &result));
        cf_equal(result.changed, changed);
        expect_running(&result, result.run_token, 0);
    }
    cf_equal(jobsched_pause(s, "job", &result), JOBSCHED_ENOTFOUND);
    cf_equal(jobsched_resume(s, "job", &result), JOBSCHED_ENOTFOUND);
    cf_equal(jobsched_cancel(s, "job", &result), JOBSCHED_ENOTFOUND);
    cf_equal(jobsched_trigger(s, "job", NULL, &result), JOBSCHED_ENOTFOUND);
    wait_for_job(party, "job"); /* the tombstone is still told of */
    atomic_store(&party->let_go, 1);
    cf_ok(jobsched_wait(s, "job", "third", WAIT_MS, keep_outcome, &outcome));
    cf_equal(outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    cf_ok(jobsched_remove(s, "job", &result));
    cf_equal(result.running, 0);
}

static void test_answers_of_the_verbs(void **state)
{
    (void)state;
    struct party party;
    open_party(&party, "node", 0);
    add_job(&party, "job", "@at 2100-01-01T00:00:00Z", pair_hold, 0);
    expect_not_found(party.s, "job"); /* not announced yet */
    cf_ok(jobsched_start(party.s));
    wait_for_job(&party, "job");
    expect_not_found(party.s, "no'body");
    expect_applied_at_rest(party.s);
    expect_applied_amid_a_run(&party);
    atomic_store(&party.let_go, 1);
    int outcome = -1;
    cf_ok(jobsched_wait(party.s, "job", "second", WAIT_MS, keep_outcome, &outcome));
    cf_true(outcome == JOBSCHED_OUTCOME_SUCCEEDED || outcome == JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    expect_removed_amid_a_run(&party);
    close_party(&party);
}

/* G6, G8: with the store away no verb says success, and none has had an effect. */
static void test_verbs_without_the_store_promise_nothing(void **state)
{
    (void)state;
    struct party party;
    /* For as long as a request may take, each verb waits for a file that is locked. */
    pair_lease_ms = strcmp(pair_scheme, "sqlite") == 0 ? 3000 : pair_lease_ms;
    pair_go_through_proxy();
    open_party(&party, "node", 0);
    add_job(&party, "job", "@at 2100-01-01T00:00:00Z", pair_hold, 0);
    cf_ok(jobsched_start(party.s));
    wait_for_job(&party, "job");
    pair_store_away();
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    result.changed = 77;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        cf_equal(verbs[i](party.s, "job", &result), JOBSCHED_EUNREACHABLE);
    }
    cf_equal(jobsched_trigger(party.s, "job", "re", &result), JOBSCHED_EUNREACHABLE);
    cf_equal(result.changed, 77);
    pair_store_back();
    wait_until(jobsched_pause(party.s, "job", &result) == 0);
    cf_equal(result.changed, 1); /* it was neither paused nor removed */
    int outcome;
    int code;
    wait_until((code = jobsched_wait(party.s, "job", "re", 0, keep_outcome, &outcome)) !=
               JOBSCHED_EUNREACHABLE);
    cf_equal(code, JOBSCHED_ENOTFOUND);
    close_party(&party);
}

/* The verb's answer is lost: it is not success, and not the promise that nothing was changed. Asked
 * again it tells that it had been done, and nothing is done twice. */
static void expect_unknown(jobsched *desk,
                           int (*verb)(jobsched *, const char *, jobsched_control_result *))
{
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    result.changed = 77;
    pair_lose_answer("precious");
    cf_equal(verb(desk, "precious", &result), JOBSCHED_EUNKNOWN);
    cf_equal(result.changed, 77);
    wait_until(verb(desk, "precious", &result) == 0);
    cf_equal(result.changed, 0);
}

static int trigger_the_one(jobsched *s, const char *job, jobsched_control_result *out_result)
{
    return jobsched_trigger(s, job, "the one", out_result);
}

/* G6: what each verb answers when nobody knows whether it had an effect. */
static void test_verbs_whose_answer_is_lost(void **state)
{
    (void)state;
    struct party party, desk;
    int outcome = -1;
    open_party(&party, "node", 0);
    add_job(&party, "precious", "@at 2100-01-01T00:00:00Z", pair_hold, 0);
    cf_ok(jobsched_start(party.s));
    wait_for_job(&party, "precious");
    pair_go_through_proxy(); /* which then sees nothing but verbs */
    open_party(&desk, "desk", 0);
    expect_unknown(desk.s, jobsched_pause);
    expect_unknown(desk.s, jobsched_resume);
    atomic_store(&party.deaf, 1);
    expect_unknown(desk.s, trigger_the_one);
    wait_until(atomic_load(&party.inside) == 1);
    expect_unknown(desk.s, jobsched_cancel);
    atomic_store(&party.deaf, 0);
    cf_ok(jobsched_wait(party.s, "precious", "the one", WAIT_MS, keep_outcome, &outcome));
    cf_equal(outcome, JOBSCHED_OUTCOME_CANCELLED);
    cf_equal(atomic_load(&party.calls), 1);
    expect_unknown(desk.s, jobsched_remove);
    close_party(&desk);
    close_party(&party);
}

static int run_single(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_set_up, pair_tear_down)
    const struct CMUnitTest tests[] = {TEST(test_answers_of_the_verbs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int run_sqlite(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers_of_the_verbs),
        TEST(test_verbs_without_the_store_promise_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int run_servers(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers_of_the_verbs),
        TEST(test_verbs_without_the_store_promise_nothing),
        TEST(test_verbs_whose_answer_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int run(void)
{
    return strcmp(pair_scheme, "single") == 0   ? run_single()
           : strcmp(pair_scheme, "sqlite") == 0 ? run_sqlite()
                                                : run_servers();
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, run);
}
