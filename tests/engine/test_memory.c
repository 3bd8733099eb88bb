/* Every allocation fails in turn (G8, G9, G11): a whole scenario is repeated with the n-th request for
 * memory refused, for every n until one passes untouched. Never a crash, never a leak; what was due
 * is fired or accounted for once memory is back, and nothing fires twice. */
#include "support/world.h"

#include <stdio.h>

enum { FAILURES_AT_ONCE_MAX = 40 };

/* What one pass saw. */
struct pass {
    struct world world;
    struct world_job second, queue, all;
    bool opened;
};

/* Registers a job, again and again while memory is short. */
static bool add(struct pass *pass, const jobsched_job_spec *spec)
{
    for (int i = 0; i < FAILURES_AT_ONCE_MAX + 2; i++) {
        int code = jobsched_add(pass->world.s, spec, NULL);
        if (code == 0) {
            return true;
        }
        assert_equal(code, JOBSCHED_ENOMEM);
    }
    return false;
}

static void add_jobs(struct pass *pass)
{
    struct world *world = &pass->world;
    jobsched_job_spec spec = world_spec(world, &pass->second, "second", "@every 1s");
    spec.attempts = 2;
    pass->second.result = 7;
    assert_true(add(pass, &spec));
    spec = world_spec(world, &pass->queue, "queue", "*/2 * * * * *");
    spec.overlap = JOBSCHED_OVERLAP_QUEUE;
    pass->queue.result = JOBSCHED_PENDING;
    assert_true(add(pass, &spec));
    spec = world_spec(world, &pass->all, "all", "* * * * * *");
    spec.misfire = JOBSCHED_MISFIRE_ALL;
    spec.recover = JOBSCHED_RECOVER_RERUN;
    assert_true(add(pass, &spec));
}

static void end_queue(struct pass *pass)
{
    if (pass->queue.pending != NULL) {
        jobsched_run *run = pass->queue.pending;
        pass->queue.pending = NULL;
        (void)jobsched_run_note(run, "ended");
        assert_equal(jobsched_run_finish(run, 0), 0);
    }
}

static int trigger(jobsched *s, const char *job, jobsched_control_result *out_result)
{
    return jobsched_trigger(s, job, "wanted", out_result);
}

/* A control call that may lack memory, or come before the job could be announced. */
static void insist(struct pass *pass,
                   int (*call)(jobsched *, const char *, jobsched_control_result *),
                   const char *job)
{
    int code = JOBSCHED_ENOMEM;
    for (int i = 0; i < 2 * FAILURES_AT_ONCE_MAX && code != 0; i++) {
        code = call(pass->world.s, job, NULL);
        if (code == JOBSCHED_ENOTFOUND) {
            world_run(&pass->world, 1000);
        } else if (code != 0) {
            assert_equal(code, JOBSCHED_ENOMEM);
        }
    }
    assert_equal(code, 0);
}

static void live(struct pass *pass)
{
    struct world *world = &pass->world;
    world_start(world);
    add_jobs(pass);
    world_run(world, 3500);
    insist(pass, trigger, "all");
    world_run(world, 2000);
    end_queue(pass);
    insist(pass, jobsched_pause, "second");
    world_run(world, 3000);
    insist(pass, jobsched_resume, "second");
    insist(pass, jobsched_cancel, "queue");
    world_run(world, 2000);
    end_queue(pass);
    world_jump(world, 25000); /* missed ones */
    world_run(world, 3000);
    end_queue(pass);
    world_run(world, 20000); /* the keeper finds the trigger, should it have been dropped */
    end_queue(pass);
    pass->queue.result = 0;
    /* Retries are apart, so a row of failures may last: until five seconds have been quiet. */
    int64_t failed = -1;
    for (int quiet = 0; quiet < 5; quiet++) {
        quiet = world->memory.failed != failed ? 0 : quiet;
        failed = world->memory.failed;
        world_run(world, 1000);
    }
}

/* Lets what was begun come to its end, without beginning anything. */
static void wind_down(struct pass *pass)
{
    static const char *const names[] = {"second", "queue", "all"};
    for (int i = 0; i < 3; i++) {
        assert_equal(jobsched_withdraw(pass->world.s, names[i]), 0);
    }
    world_run(&pass->world, 5000);
    end_queue(pass);
    world_run(&pass->world, 1000);
    assert_equal(jobsched_drain(pass->world.s, 0), 0);
}

/* G1: no occurrence of a job is called twice but for attempts under one token. */
static void check_calls(const struct world *world)
{
    for (size_t i = 0; i < world->call_count; i++) {
        const struct world_call *one = &world->calls[i];
        for (size_t j = 0; j < i; j++) {
            const struct world_call *other = &world->calls[j];
            if (one->job == other->job && one->kind != JOBSCHED_KIND_TRIGGER &&
                other->kind != JOBSCHED_KIND_TRIGGER && one->scheduled_ms == other->scheduled_ms) {
                assert_equal(one->token, other->token);
                assert_true(one->attempt != other->attempt);
            }
            if (one->job == other->job && one->token == other->token) {
                assert_equal(one->scheduled_ms, other->scheduled_ms);
            }
        }
    }
}

static void check_ledger(struct pass *pass)
{
    struct world *world = &pass->world;
    int64_t now_ms = world_now(world) - 1000;
    atomic_store(&world->memory.fail_at, -1);
    /* Each job's fence begins where it was announced, which failures may have put off. */
    static const char *const names[] = {"second", "queue", "all"};
    static const char *const schedules[] = {"@every 1s", "*/2 * * * * *", "* * * * * *"};
    for (int i = 0; i < 3; i++) {
        struct world_ledger ledger = world_ledger_read(world, names[i]);
        int64_t first_ms = 0;
        for (size_t j = 0; j < ledger.count && first_ms == 0; j++) {
            if (ledger.rows[j].kind != JOBSCHED_KIND_TRIGGER) {
                first_ms = ledger.rows[j].scheduled_at_ms;
            }
        }
        world_ledger_free(&ledger);
        assert_true(first_ms != 0);
        world_check_accounted(world, names[i], schedules[i], first_ms - 1000, now_ms);
    }
}

/* Nobody holds a job that no run of ours is executing. */
static void check_holders(struct pass *pass)
{
    static const char *const names[] = {"second", "queue", "all"};
    size_t triggers = 0, fired = 0;
    for (int i = 0; i < 3; i++) {
        struct world_ledger ledger = world_ledger_read(&pass->world, names[i]);
        for (size_t j = 0; j < ledger.count; j++) {
            bool is_running = ledger.rows[j].outcome == JOBSCHED_OUTCOME_RUNNING;
            bool is_waiting = ledger.rows[j].outcome == JOBSCHED_OUTCOME_WAITING;
            if (is_waiting || (is_running && pass->world.s->active_count == 0)) {
                fail_msg("'%s' has a row of outcome %d that nobody takes care of", names[i],
                         ledger.rows[j].outcome);
            }
            triggers += ledger.rows[j].kind == JOBSCHED_KIND_TRIGGER;
            fired += ledger.rows[j].kind == JOBSCHED_KIND_TRIGGER &&
                     ledger.rows[j].outcome == JOBSCHED_OUTCOME_SUCCEEDED;
        }
        world_ledger_free(&ledger);
    }
    assert_equal(triggers, 1);
    assert_equal(world_calls_of(&pass->world, "all", JOBSCHED_KIND_TRIGGER), fired);
}

/* Runs the scenario with one failure, or several in a row, at the n-th request. Returns whether it
 * came so far that the failure did not happen. */
static bool run_pass(const char *lock, int64_t fail_at, int64_t fail_count,
                     int64_t misfire_after_ms)
{
    struct pass pass;
    memset(&pass, 0, sizeof pass);
    struct world *world = &pass.world;
    world_init(world, lock);
    world->options.misfire_after_ms = misfire_after_ms;
    world->memory.fail_count = fail_count;
    atomic_store(&world->memory.fail_at, fail_at);
    int code = JOBSCHED_ENOMEM;
    for (int i = 0; i < FAILURES_AT_ONCE_MAX + 2 && code == JOBSCHED_ENOMEM; i++) {
        code = jobsched_open(&world->options, &world->s);
        if (code != 0) {
            assert_equal(jobsched_last_error()->code, JOBSCHED_ENOMEM);
            assert_equal(world->memory.live, 0);
        }
    }
    assert_equal(code, 0);
    live(&pass);
    bool untouched = world->memory.failed == 0;
    check_ledger(&pass);
    check_calls(world);
    wind_down(&pass);
    check_holders(&pass);
    world_close(world);
    assert_equal(pass.second.freed, 1);
    assert_equal(pass.queue.freed, 1);
    assert_equal(pass.all.freed, 1);
    return untouched;
}

static void sweep(const char *lock, int64_t fail_count, int64_t misfire_after_ms)
{
    int64_t at = 0;
    while (!run_pass(lock, at, fail_count, misfire_after_ms)) {
        at++;
        if (at > 100000) {
            fail_msg("the scenario never passes");
        }
    }
    print_message("%lld requests for memory failed in turn\n", (long long)at);
    assert_at_most(100, at); /* the scenario does ask for memory */
}

static void test_each_allocation_fails_once(void **state)
{
    sweep(*state, 1, 0);
}

static void test_allocations_fail_in_a_row(void **state)
{
    sweep(*state, 7, 0);
}

/* The same where all that is not asked for at once is missed. */
static void test_allocations_fail_while_all_is_missed(void **state)
{
    sweep(*state, 25, 1);
}

/* Close releases everything when memory is short for good. */
static void test_close_without_memory(void **state)
{
    (void)state;
    struct pass pass;
    memset(&pass, 0, sizeof pass);
    world_init(&pass.world, "single:");
    world_open(&pass.world);
    world_start(&pass.world);
    add_jobs(&pass);
    world_run(&pass.world, 3500);
    pass.world.memory.fail_count = INT64_MAX;
    atomic_store(&pass.world.memory.fail_at, 0);
    world_run(&pass.world, 5000);
    end_queue(&pass);
    world_close(&pass.world);
    assert_equal(pass.queue.freed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "test_each_allocation_fails_once (single:)",
         .test_func = test_each_allocation_fails_once,
         .initial_state = (void *)"single:"},
        {.name = "test_allocations_fail_in_a_row (single:)",
         .test_func = test_allocations_fail_in_a_row,
         .initial_state = (void *)"single:"},
        {.name = "test_allocations_fail_while_all_is_missed (single:)",
         .test_func = test_allocations_fail_while_all_is_missed,
         .initial_state = (void *)"single:"},
        cmocka_unit_test(test_close_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
