/* Triggers and reruns (G1, G2, G6, G15): fired once each, wherever and however often they are heard
 * of; reruns of interrupted runs under larger tokens, up to their limit. */
#include "support/world.h"

static void begin(struct world *world, struct world_job *job, int32_t overlap, int32_t recover)
{
    world_begin(world, "fake:");
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1h");
    spec.overlap = overlap;
    spec.recover = recover;
    world_add(world, &spec);
    (void)world_settle(world);
}

/* A request id fires once, however often it is sent; without one each call is its own. */
static void test_request_id_fires_once(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    begin(&world, &job, 0, 0);
    assert_equal(jobsched_trigger(world.s, "job", "deploy-7", &result), 0);
    assert_equal(result.changed, 1);
    (void)world_settle(&world);
    assert_equal(jobsched_trigger(world.s, "job", "deploy-7", &result), 0);
    assert_equal(result.changed, 0);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_TRIGGER);
    assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS);
    for (int i = 0; i < 3; i++) {
        assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
        (void)world_settle(&world);
    }
    assert_equal(job.calls, 4);
    world_close(&world);
}

static void test_bad_request_ids_are_refused(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    char id[JOBSCHED_REQUEST_BYTES + 2];
    memset(id, 'x', sizeof id);
    id[sizeof id - 1] = '\0';
    begin(&world, &job, 0, 0);
    assert_fails(jobsched_trigger(world.s, "job", "", NULL), JOBSCHED_EINVAL, "no bytes");
    assert_fails(jobsched_trigger(world.s, "job", id, NULL), JOBSCHED_EINVAL, "too many bytes");
    assert_fails(jobsched_trigger(world.s, "job", "a\nb", NULL), JOBSCHED_EINVAL,
                 "request id has a control character at byte 1");
    id[JOBSCHED_REQUEST_BYTES] = '\0';
    assert_equal(jobsched_trigger(world.s, "job", id, NULL), 0);
    assert_fails(jobsched_trigger(world.s, "none", NULL, NULL), JOBSCHED_ENOTFOUND, "'none'");
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    world_close(&world);
}

static void control_elsewhere(struct world *world, int32_t verb, const char *request)
{
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN};
    jobsched_command command = {.verb = verb, .job = "job", .request = request};
    assert_equal(jobsched_backend_single()->control(world->fake.inner, &call, &command, NULL), 0);
}

/* One that another process asked for is found by the heartbeat; several heartbeats that find it
 * while it runs start no second run. */
static void test_trigger_from_elsewhere_is_found(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, 0, 0);
    control_elsewhere(&world, JOBSCHED_VERB_TRIGGER, "from-afar");
    world_run(&world, 10000);
    assert_equal(job.calls, 1);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    world_close(&world);
}

struct meddler {
    struct world *world;
    bool asks_again, withdraws;
};

/* The heartbeat hears of the trigger while its claim is under way. */
static void after_claim(struct fake_backend *fake, enum fake_operation operation, void *items,
                        size_t count)
{
    struct meddler *meddler = fake->hook_data;
    jobsched *s = meddler->world->s;
    (void)items;
    (void)count;
    if (operation == FAKE_CLAIM && meddler->asks_again) {
        meddler->asks_again = false;
        (void)pthread_mutex_lock(&s->lock);
        jsi_job *job = jsi_map_find(&s->jobs, "job");
        int failed = jsi_ask_extra_locked(s, job, JOBSCHED_KIND_TRIGGER, 0, "twice");
        (void)pthread_mutex_unlock(&s->lock);
        assert_equal(failed, 0);
    }
    if (operation == FAKE_CLAIM && meddler->withdraws) {
        meddler->withdraws = false;
        assert_equal(jobsched_withdraw(s, "job"), 0);
    }
}

/* G1: asked for twice, because a heartbeat found it while its claim was under way: one run. */
static void test_trigger_asked_twice_runs_once(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, 0, 0);
    struct meddler meddler = {.world = &world, .asks_again = true};
    world.fake.after = after_claim;
    world.fake.hook_data = &meddler;
    assert_equal(jobsched_trigger(world.s, "job", "twice", NULL), 0);
    (void)world_settle(&world);
    assert_false(meddler.asks_again);
    assert_equal(job.calls, 1);
    assert_equal(world.s->active_count, 1);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    assert_equal(world.s->active_count, 0);
    world_close(&world);
}

/* As a backend does for who runs that very occurrence already. */
static void grant_again(struct fake_backend *fake, enum fake_operation operation, void *items,
                        size_t count)
{
    jobsched_claim *claims = items;
    const uint64_t *token = fake->hook_data;
    for (size_t i = 0; operation == FAKE_CLAIM && i < count; i++) {
        claims[i].answer = JOBSCHED_ANSWER_GRANTED;
        claims[i].token = *token;
    }
}

/* G1: an occurrence that runs here already, as a rerun that a heartbeat found, and whose own
 * question was put off by an outage: granted again under the same token, it is one run. Found by
 * the simulator (--mix sparse, seed 6441). */
static void test_what_runs_here_is_not_started_again(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, 0, JOBSCHED_RECOVER_RERUN);
    assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    uint64_t token = jobsched_run_token(job.pending);
    world.fake.after = grant_again;
    world.fake.hook_data = &token;
    world_run(&world, 3600000);
    assert_equal(job.calls, 1);
    assert_equal(world.s->active_count, 1);
    world.fake.after = NULL;
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    assert_equal(world.s->active_count, 0);
    world_run(&world, 3600000);
    assert_equal(job.calls, 2);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* A trigger that has to wait for a holder, of a job that is withdrawn while it is being asked for:
 * this node does not offer the job any more. */
static void test_waiting_trigger_of_a_withdrawn_job_is_dropped(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, JOBSCHED_OVERLAP_QUEUE, 0);
    assert_equal(jobsched_trigger(world.s, "job", "first", NULL), 0);
    (void)world_settle(&world);
    struct meddler meddler = {.world = &world, .withdraws = true};
    world.fake.after = after_claim;
    world.fake.hook_data = &meddler;
    assert_equal(jobsched_trigger(world.s, "job", "second", NULL), 0);
    (void)world_settle(&world);
    assert_false(meddler.withdraws);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(job.freed, 1);
    world_close(&world);
}

/* Withdrawing drops what waits, and what is asked for is not lost to the cluster: whoever offers the
 * job next finds it. */
static void test_trigger_survives_withdraw(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING}, next = {0};
    begin(&world, &job, JOBSCHED_OVERLAP_QUEUE, 0);
    assert_equal(jobsched_trigger(world.s, "job", "first", NULL), 0);
    (void)world_settle(&world);
    assert_equal(jobsched_trigger(world.s, "job", "second", NULL), 0);
    (void)world_settle(&world);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 30000);
    assert_equal(job.calls, 1);
    assert_equal(job.freed, 1);
    jobsched_job_spec spec = world_spec(&world, &next, "job", "@every 1h");
    spec.overlap = JOBSCHED_OVERLAP_QUEUE;
    world_add(&world, &spec);
    world_run(&world, 10000);
    assert_equal(next.calls, 1);
    world_close(&world);
}

/* ---- reruns --------------------------------------------------------------------- */

/* A run of another node that was cut off; returns its token. */
static uint64_t interrupt_elsewhere(struct world *world, int64_t scheduled_ms, int64_t after_ms,
                                    uint32_t limit)
{
    const jobsched_backend *store = jobsched_backend_single();
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM};
    jobsched_claim claim = {.job = "job",
                            .generation = 1,
                            .scheduled_ms = scheduled_ms,
                            .after_ms = after_ms,
                            .lease_ms = 30000,
                            .recover = JOBSCHED_RECOVER_RERUN,
                            .recover_limit = limit};
    assert_equal(store->claim(world->fake.inner, &call, &claim, 1), 0);
    assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
    jobsched_finish finish = {
        .job = "job", .note = "", .token = claim.token, .outcome = JOBSCHED_OUTCOME_INTERRUPTED};
    assert_equal(store->finish(world->fake.inner, &call, &finish, 1), 0);
    return claim.token;
}

/* G15: an interrupted run that asked for it is run again, as what it is, under a larger token, once
 * however many heartbeats find it. */
static void test_interrupted_run_is_run_again(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, 0, JOBSCHED_RECOVER_RERUN);
    world_jump(&world, 3600000 - 100);
    test_clock_advance(&world.clock, 100);
    uint64_t token = interrupt_elsewhere(&world, WORLD_BEGIN_MS + 3600000, WORLD_BEGIN_MS, 3);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_RERUN);
    assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 3600000);
    assert_true(world.calls[0].token > token);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(ledger.count, 1);
    assert_equal(ledger.rows[0].attempt, 2);
    assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    world_ledger_free(&ledger);
    world_close(&world);
}

/* G1, G15: each rerun that is cut off again counts; after the limit it stays interrupted. */
static void test_reruns_are_limited(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, 0, JOBSCHED_RECOVER_RERUN);
    world_jump(&world, 3600000 - 100);
    test_clock_advance(&world.clock, 100);
    (void)interrupt_elsewhere(&world, WORLD_BEGIN_MS + 3600000, WORLD_BEGIN_MS, 2);
    uint64_t token = 0;
    for (int i = 0; i < 5; i++) {
        world_run(&world, 30000);
        assert_equal(job.calls, i < 2 ? i + 1 : 2);
        if (i < 2) {
            assert_true(jobsched_run_token(job.pending) > token);
            token = jobsched_run_token(job.pending);
            assert_equal(jobsched_run_finish(job.pending, 0), 0);
            jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM};
            jobsched_finish cut = {
                .job = "job", .note = "", .token = token, .outcome = JOBSCHED_OUTCOME_INTERRUPTED};
            assert_equal(jobsched_backend_single()->finish(world.fake.inner, &call, &cut, 1), 0);
        }
    }
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_FINISH_REFUSED, "job"), 2);
    struct world_ledger ledger = world_ledger_read(&world, "job");
    assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_equal(ledger.rows[0].attempt, 3);
    world_ledger_free(&ledger);
    world_close(&world);
}

/* A rerun is owed: with overlap "skip" it waits for the run that goes on, and is not skipped. */
static void test_rerun_waits_for_the_holder(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, JOBSCHED_OVERLAP_SKIP, JOBSCHED_RECOVER_RERUN);
    world_jump(&world, 3600000 - 100);
    test_clock_advance(&world.clock, 100);
    (void)interrupt_elsewhere(&world, WORLD_BEGIN_MS + 3600000, WORLD_BEGIN_MS, 3);
    assert_equal(jobsched_trigger(world.s, "job", "now", NULL), 0);
    int64_t again_ms;
    (void)jsi_elect(world.s, &again_ms); /* the trigger is granted before the rerun is found */
    world_run(&world, 60000);
    assert_equal(job.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_TRIGGER);
    int64_t ended_ms = world_now(&world);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    assert_equal(world.calls[1].kind, JOBSCHED_KIND_RERUN);
    assert_equal(world.calls[1].at_backend_ms, ended_ms);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* What reap tells: each interrupted run once to observers, also of jobs that are not ours; findings
 * of jobs that are not registered here are left to others; the end of a dead holder lets what waits
 * for it go on at once. */
static void test_findings_are_told_and_wake_what_waits(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job, JOBSCHED_OVERLAP_QUEUE, 0);
    assert_equal(jobsched_trigger(world.s, "job", "hold", NULL), 0);
    (void)world_settle(&world);
    world_jump(&world, 3600000);
    const jsi_job *known = jsi_map_find(&world.s->jobs, "job");
    assert_true(known->waits);
    jobsched_finding finding = {.found = JOBSCHED_FOUND_INTERRUPTED,
                                .attempt = 1,
                                .job = "job",
                                .node = "the-dead",
                                .request = "",
                                .scheduled_ms = WORLD_BEGIN_MS,
                                .token = 1};
    fake_backend_find(&world.fake, &finding);
    finding.job = "not-ours";
    fake_backend_find(&world.fake, &finding);
    finding.found = JOBSCHED_FOUND_TRIGGER;
    finding.request = "x";
    fake_backend_find(&world.fake, &finding);
    finding.found = JOBSCHED_FOUND_RERUN;
    fake_backend_find(&world.fake, &finding);
    uint64_t claims = world.fake.calls[FAKE_CLAIM];
    world.s->keep_now = true;
    (void)jsi_keep(world.s);
    int64_t again_ms;
    (void)jsi_tick(world.s);
    (void)jsi_elect(world.s, &again_ms);
    assert_equal(world.fake.calls[FAKE_CLAIM], claims + 1);
    while (jsi_deliver(world.s)) {
    }
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_INTERRUPTED, NULL), 2);
    const struct event_copy *told = event_log_find(&world.events, JOBSCHED_EVENT_INTERRUPTED, 0);
    assert_string_equal(told->node, "the-dead");
    assert_equal(told->event.token, 1);
    assert_equal(world.s->extra_asks, 0);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* G11: far more triggers than this node keeps: bounded, and all fired in the end. */
static void test_many_triggers_are_bounded(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, JOBSCHED_OVERLAP_QUEUE, 0);
    for (int i = 0; i < 300; i++) {
        assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
    }
    assert_at_most(world.s->extra_asks, JSI_EXTRA_ASKS_MAX);
    world_run(&world, 600000);
    assert_equal(job.calls, 300);
    assert_equal(world.s->extra_asks, 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_id_fires_once),
        cmocka_unit_test(test_bad_request_ids_are_refused),
        cmocka_unit_test(test_trigger_from_elsewhere_is_found),
        cmocka_unit_test(test_what_runs_here_is_not_started_again),
        cmocka_unit_test(test_trigger_asked_twice_runs_once),
        cmocka_unit_test(test_waiting_trigger_of_a_withdrawn_job_is_dropped),
        cmocka_unit_test(test_trigger_survives_withdraw),
        cmocka_unit_test(test_interrupted_run_is_run_again),
        cmocka_unit_test(test_reruns_are_limited),
        cmocka_unit_test(test_rerun_waits_for_the_holder),
        cmocka_unit_test(test_findings_are_told_and_wake_what_waits),
        cmocka_unit_test(test_many_triggers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
