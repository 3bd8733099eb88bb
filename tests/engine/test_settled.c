/* What must come out right in the end (G1, G8, G15): claims that stay unknown for a while, jobs that are
 * withdrawn in an outage, reruns that are owed, and calls that come while the scheduler closes. */
#include "support/world.h"

struct busy {
    int left; /* claims whose answer becomes "busy" */
};

static void answer_busy(struct fake_backend *fake, enum fake_operation operation, void *items,
                        size_t count)
{
    struct busy *busy = fake->hook_data;
    for (size_t i = 0; operation == FAKE_CLAIM && busy->left > 0 && i < count; i++) {
        jobsched_claim *claim = (jobsched_claim *)items + i;
        claim->answer = JOBSCHED_ANSWER_BUSY;
        claim->wait_ms = 20;
        busy->left--;
    }
}

static void begin(struct world *world, struct world_job *job, int32_t misfire)
{
    world_begin(world, "fake:");
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 60s");
    spec.misfire = misfire;
    world_add(world, &spec);
    (void)world_settle(world);
}

/* G8: a grant whose reply was lost, a long outage, and then somebody decides about the job whenever it
 * is asked about: it stays unknown, is asked again as it was, and runs. Taken for missed it would be
 * held for ever by a run that nobody executes. */
static void test_busy_keeps_what_is_unknown(void **state)
{
    (void)state;
    for (int stop = 0; stop < 2; stop++) {
        struct world world;
        struct world_job job = {0};
        struct busy busy = {.left = 0};
        begin(&world, &job, JOBSCHED_MISFIRE_SKIP);
        world.fake.after = answer_busy;
        world.fake.hook_data = &busy;
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, true);
        world_jump(&world, 60000);
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 5, false);
        busy.left = 3;
        if (stop == 1) {
            assert_equal(jobsched_stop(world.s), 0);
        }
        world_jump(&world, 20000);
        world_run(&world, 20000);
        assert_equal(busy.left, 0);
        assert_equal(job.calls, 1);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SUCCEEDED), 1);
        world_ledger_free(&ledger);
        assert_equal(jobsched_drain(world.s, 0), 0);
        world_close(&world);
    }
}

static void withdraw_meanwhile(struct fake_backend *fake, enum fake_operation operation,
                               void *items, size_t count)
{
    (void)items;
    (void)count;
    struct world *world = fake->hook_data;
    if (operation == FAKE_CLAIM && fake_backend_calls(fake, FAKE_CLAIM) <= 1) {
        assert_equal(jobsched_withdraw(world->s, "job"), 0);
    }
}

/* A job that is withdrawn while the backend is away does not start when it is back, also when its
 * claim is under way at that moment: nothing was granted, and that is known. */
static void test_withdrawn_in_an_outage_never_starts(void **state)
{
    (void)state;
    for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, JOBSCHED_MISFIRE_ONCE);
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 3, false);
        if (meanwhile == 1) {
            world.fake.before = withdraw_meanwhile;
            world.fake.hook_data = &world;
        }
        world_jump(&world, 60000);
        if (meanwhile == 0) {
            assert_equal(jobsched_withdraw(world.s, "job"), 0);
        }
        world_run(&world, 120000);
        assert_equal(job.calls, 0);
        assert_equal(job.freed, 1);
        world_close(&world);
    }
}

/* G15: a run whose lease ended while nobody could take the job is still cut off: a job that asked for
 * reruns gets one, another does not. */
static void test_lost_lease_is_rerun_if_asked(void **state)
{
    (void)state;
    for (int recover = JOBSCHED_RECOVER_LEAVE; recover <= JOBSCHED_RECOVER_RERUN; recover++) {
        struct world world;
        struct world_job job = {.result = JOBSCHED_PENDING};
        world_begin(&world, "fake:");
        jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
        spec.recover = recover;
        world_add(&world, &spec);
        (void)world_settle(&world);
        world_jump(&world, 3600000);
        assert_equal(job.calls, 1);
        fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, 20, false);
        world_run(&world, 40000);
        assert_equal(jobsched_run_should_stop(job.pending), JOBSCHED_STOP_LEASE_LOST);
        job.result = 0;
        assert_equal(jobsched_run_finish(job.pending, JOBSCHED_ECANCELED), 0);
        world_run(&world, 60000);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        if (recover == JOBSCHED_RECOVER_RERUN) {
            assert_equal(job.calls, 2);
            assert_equal(world.calls[1].kind, JOBSCHED_KIND_RERUN);
            assert_equal(world.calls[1].scheduled_ms, world.calls[0].scheduled_ms);
            assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SUCCEEDED), 1);
        } else {
            assert_equal(job.calls, 1);
            assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_LEASE_LOST), 1);
        }
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* The run goes on until its lease is lost, nobody having taken the job, and then ends. */
static void lose_lease(struct world *world, struct world_job *job)
{
    fake_backend_fail(&world->fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    world_run(world, 40000);
    assert_equal(jobsched_run_should_stop(job->pending), JOBSCHED_STOP_LEASE_LOST);
    fake_backend_fail(&world->fake, FAKE_RENEW, 0, 0, false);
    assert_equal(jobsched_run_finish(job->pending, JOBSCHED_ECANCELED), 0);
}

/* G15: an occurrence that was promised reruns gets them, though by now the job promises none. */
static void test_reruns_go_by_the_first_grant(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    spec.recover = JOBSCHED_RECOVER_RERUN;
    spec.recover_limit = 5;
    spec.version = 1;
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_jump(&world, 3600000);
    lose_lease(&world, &job);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    spec.recover = JOBSCHED_RECOVER_LEAVE;
    spec.version = 2;
    world_add(&world, &spec);
    world_run(&world, 60000);
    assert_equal(job.calls, 2);
    assert_equal(world.calls[1].kind, JOBSCHED_KIND_RERUN);
    lose_lease(&world, &job);
    job.result = 0;
    world_run(&world, 60000);
    assert_equal(job.calls, 3);
    assert_equal(world.calls[2].kind, JOBSCHED_KIND_RERUN);
    world_close(&world);
}

/* G9: a close writes the outcomes that there are, also while the elector rests after a failure. */
static void test_a_close_amid_a_rest_writes_outcomes(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_jump(&world, 3600000);
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_rest_locked(world.s);
    (void)pthread_mutex_unlock(&world.s->lock);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    uint64_t before = fake_backend_calls(&world.fake, FAKE_FINISH);
    assert_equal(jobsched_close(world.s), 0);
    world.s = NULL;
    assert_equal(fake_backend_calls(&world.fake, FAKE_FINISH), before + 1);
    world_close(&world);
}

/* A job that is registered anew while a claim is under way. */
struct renewal {
    struct world *world;
    const jobsched_job_spec *spec;
};

static void renew_registration(struct fake_backend *fake, enum fake_operation operation,
                               void *items, size_t count)
{
    const struct renewal *renewal = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == FAKE_CLAIM) {
        fake->after = NULL;
        assert_equal(jobsched_withdraw(renewal->world->s, "job"), 0);
        world_add(renewal->world, renewal->spec);
    }
}

/* G1: a trigger that was granted to a registration which is gone is not run a second time by the next
 * one of that name, which was told of it before it was granted. */
static void test_trigger_outlives_its_registration_once(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    struct renewal renewal = {.world = &world, .spec = &spec};
    world.fake.hook_data = &renewal;
    world.fake.after = renew_registration;
    assert_equal(jobsched_trigger(world.s, "job", "once", NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_job *anew = jsi_map_find(&world.s->jobs, "job");
    assert_equal(jsi_ask_extra_locked(world.s, anew, JOBSCHED_KIND_TRIGGER, 0, "once"), 0);
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)world_settle(&world);
    assert_equal(job.calls, 1);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    (void)world_settle(&world);
    world_close(&world);
}

/* A jitter that is longer than the period makes nothing missed. */
static void test_long_jitter_misses_nothing(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "single:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 5s");
    spec.jitter_ms = 60000;
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_run(&world, 600000);
    assert_at_most(119, job.calls);
    assert_equal(world.s->stats.skipped, 0);
    world_close(&world);
}

/* G6: a control call that comes while the scheduler closes gets an answer, and never the backend. */
static void test_control_while_closing(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, JOBSCHED_MISFIRE_ONCE);
    uint64_t before = fake_backend_calls(&world.fake, FAKE_CONTROL);
    world.s->state = JSI_CLOSING;
    assert_fails(jobsched_pause(world.s, "job", NULL), JOBSCHED_ESTATE, "closing");
    world.s->state = JSI_STARTED;
    world.s->admin_busy = true; /* somebody's listing goes on for ever */
    world.s->settings.request_timeout_ms = 20;
    assert_fails(jobsched_pause(world.s, "job", NULL), JOBSCHED_EUNREACHABLE, "control calls");
    world.s->admin_busy = false;
    assert_equal(fake_backend_calls(&world.fake, FAKE_CONTROL), before);
    assert_equal(jobsched_pause(world.s, "job", NULL), 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_keeps_what_is_unknown),
        cmocka_unit_test(test_withdrawn_in_an_outage_never_starts),
        cmocka_unit_test(test_lost_lease_is_rerun_if_asked),
        cmocka_unit_test(test_reruns_go_by_the_first_grant),
        cmocka_unit_test(test_a_close_amid_a_rest_writes_outcomes),
        cmocka_unit_test(test_trigger_outlives_its_registration_once),
        cmocka_unit_test(test_long_jitter_misses_nothing),
        cmocka_unit_test(test_control_while_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
