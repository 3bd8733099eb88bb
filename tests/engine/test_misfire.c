/* Missed occurrences (G8, G9, G11; rivals' bugs 8, 11 and 12): what each policy runs and what it
 * skips, from outages of seconds to a year, always in bounded steps, with everything accounted
 * for. The same over the scripted backend and over single:. */
#include "support/world.h"

#define BOTH(test)                                                                                 \
    {.name = #test " (fake:)", .test_func = test, .initial_state = (void *)"fake:"},               \
    {                                                                                              \
        .name = #test " (single:)", .test_func = test, .initial_state = (void *)"single:"          \
    }

struct outage {
    const char *schedule;
    int32_t misfire;
    uint32_t limit;
    int64_t grace_ms;
    int64_t span_ms;
    /* what is expected at the end of the outage */
    uint64_t scheduled, caught_up, skipped;
    const char *why;
};

static const struct outage outages[] = {
    {"@every 1s", JOBSCHED_MISFIRE_ONCE, 0, 0, 10000, 10, 0, 0, "10 s late is not missed yet"},
    {"@every 1s", JOBSCHED_MISFIRE_ONCE, 0, 0, 11001, 1, 0, 10,
     "one ms more is; the latest is not"},
    {"@every 1s", JOBSCHED_MISFIRE_SKIP, 0, 0, 11001, 10, 0, 1, "skip closes what is missed only"},
    {"@every 1s", JOBSCHED_MISFIRE_SKIP, 0, 0, 3600000, 11, 0, 3589, "and fires the rest in order"},
    {"@every 1s", JOBSCHED_MISFIRE_ONCE, 0, 0, 3600000, 1, 0, 3599, "the latest, once"},
    {"@every 1s", JOBSCHED_MISFIRE_ALL, 0, 0, 3600000, 11, 89, 3500, "the latest 100"},
    {"@every 1s", JOBSCHED_MISFIRE_ALL, 7, 0, 3600000, 7, 0, 3593, "a limit below the threshold"},
    {"@every 1s", JOBSCHED_MISFIRE_ALL, 0, 0, 50000, 11, 39, 0, "fewer than the limit: all"},
    {"0 * * * *", JOBSCHED_MISFIRE_ONCE, 0, 600000, 9000000, 0, 0, 2, "30 min late, 10 min grace"},
    {"0 * * * *", JOBSCHED_MISFIRE_ONCE, 0, 2700000, 9000000, 0, 1, 1, "within 45 min of grace"},
    {"0 * * * *", JOBSCHED_MISFIRE_ONCE, 0, 1800000, 9000000, 0, 1, 1,
     "the grace includes its end"},
    {"0 * * * *", JOBSCHED_MISFIRE_SKIP, 0, 0, 9000000, 0, 0, 2, "nothing is left to run"},
    {"0 * * * *", JOBSCHED_MISFIRE_ALL, 0, 0, 9000000, 0, 2, 0, "both, oldest first"},
    {"0 0 1 1 *", JOBSCHED_MISFIRE_ONCE, 0, 0, 31622400000, 0, 1, 0, "once a year, missed once"},
};

static void test_policies(void **state)
{
    for (size_t i = 0; i < sizeof outages / sizeof outages[0]; i++) {
        const struct outage *outage = &outages[i];
        struct world world;
        struct world_job job = {0};
        world_begin(&world, *state);
        jobsched_job_spec spec = world_spec(&world, &job, "job", outage->schedule);
        spec.misfire = outage->misfire;
        spec.misfire_limit = outage->limit;
        spec.misfire_grace_ms = outage->grace_ms;
        world_add(&world, &spec);
        (void)world_settle(&world);
        world_jump(&world, outage->span_ms);
        if (world_calls_of(&world, "job", JOBSCHED_KIND_SCHEDULED) != outage->scheduled ||
            world_calls_of(&world, "job", JOBSCHED_KIND_CATCH_UP) != outage->caught_up ||
            world.s->stats.skipped != outage->skipped) {
            fail_msg("row %zu (%s): %zu scheduled, %zu caught up, %llu skipped", i, outage->why,
                     world_calls_of(&world, "job", JOBSCHED_KIND_SCHEDULED),
                     world_calls_of(&world, "job", JOBSCHED_KIND_CATCH_UP),
                     (unsigned long long)world.s->stats.skipped);
        }
        for (size_t j = 1; j < world.call_count; j++) {
            assert_true(world.calls[j].scheduled_ms > world.calls[j - 1].scheduled_ms);
        }
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SKIPPED_MISFIRE), outage->skipped);
        world_ledger_free(&ledger);
        world_check_accounted(&world, "job", outage->schedule, WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* Rivals' bugs 11 and 12, G11: a year of an every-second job: a bounded number of questions, one run,
 * and a ledger that counts every second of it. */
static void test_a_year_is_closed_in_bounded_steps(void **state)
{
    const int64_t year_ms = INT64_C(365) * 86400 * 1000;
    static const struct {
        const char *schedule;
        int64_t period_ms;
    } rows[] = {{"@every 1s", 1000}, {"* * * * *", 60000}};
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        struct world_job job = {0};
        world_begin(&world, *state);
        jobsched_job_spec spec = world_spec(&world, &job, "job", rows[i].schedule);
        world_add(&world, &spec);
        (void)world_settle(&world);
        world_jump(&world, year_ms);
        int64_t missed = year_ms / rows[i].period_ms;
        assert_equal(job.calls, 1);
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + year_ms);
        assert_equal(world.s->stats.skipped, missed - 1);
        assert_at_most(world.s->stats.claim_requests, missed / JSI_SKIP_COUNT_MAX + 3);
        world_check_accounted(&world, "job", rows[i].schedule, WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* Rivals' bug 8: a weekly job whose service is deployed every day: the fence remembers the mark, so
 * the job runs each week, and an instant that falls into a deploy is caught up. */
static void test_deploys_do_not_starve_a_weekly_job(void **state)
{
    struct world world;
    static struct world_job jobs[29];
    memset(jobs, 0, sizeof jobs);
    world_begin(&world, *state);
    int calls = 0;
    for (int day = 0; day < 29; day++) {
        jobsched_job_spec spec = world_spec(&world, &jobs[day], "weekly", "30 7 * * MON");
        world_add(&world, &spec);
        for (int hour = 0; hour < 23; hour++) {
            world_jump(&world, 3600000);
        }
        /* A deploy of an hour, from 07:00 to 08:00: each Monday's instant is in it. */
        assert_equal(jobsched_withdraw(world.s, "weekly"), 0);
        test_clock_advance(&world.clock, 3600000);
        calls += jobs[day].calls;
    }
    assert_equal(calls, 4);
    assert_equal(world_calls_of(&world, "weekly", JOBSCHED_KIND_CATCH_UP), 4);
    world_close(&world);
}

/* Rivals' bug 7: what this process has taken from its queue and nobody has granted yet is as due as
 * before for whoever comes after it: nothing but a grant moves the mark. */
static void test_what_was_taken_and_not_granted_stays_due(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct world world;
        struct world_job before = {0}, after = {0};
        world_begin(&world, "fake:");
        jobsched_job_spec spec = world_spec(&world, &before, "job", "@every 60s");
        world_add(&world, &spec);
        (void)world_settle(&world);
        test_clock_advance(&world.clock, 60000);
        (void)jsi_tick(world.s);
        if (asked) {
            int64_t again_ms;
            fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 1, false);
            (void)jsi_elect(world.s, &again_ms);
        }
        assert_equal(world.fake.calls[FAKE_CLAIM], asked);
        /* All that this process knew of the job is gone, as after a crash. */
        assert_equal(jobsched_withdraw(world.s, "job"), 0);
        assert_equal(before.freed, 1);
        spec = world_spec(&world, &after, "job", "@every 60s");
        world_add(&world, &spec);
        world_run(&world, 5000);
        assert_equal(before.calls, 0);
        assert_equal(after.calls, 1);
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 60000);
        world_check_accounted(&world, "job", "@every 60s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

static int64_t tick_age(struct world *world)
{
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(world->s, &stats), 0);
    return stats.last_tick_age_ms;
}

/* Rivals' bug 18: a tick that stands still is seen by its age, though heartbeats and claims go on and
 * nothing fails. One that is well is never older than its bound, also with nothing due for a year;
 * and one that comes back catches up. */
static void test_a_tick_that_stands_still_is_seen(void **state)
{
    (void)state;
    struct world world;
    struct world_job yearly = {0}, job = {0};
    world_begin(&world, "fake:");
    assert_equal(tick_age(&world), -1); /* it has never looked */
    jobsched_job_spec spec = world_spec(&world, &yearly, "yearly", "0 0 1 1 *");
    world_add(&world, &spec);
    (void)world_settle(&world);
    for (int i = 0; i < 100; i++) {
        int64_t span_ms = jsi_tick(world.s) - test_clock_mono(&world.clock);
        assert_at_most(span_ms, JSI_TICK_SLEEP_MAX_MS);
        test_clock_advance(&world.clock, span_ms);
        assert_equal(tick_age(&world), span_ms);
    }
    spec = world_spec(&world, &job, "job", "@every 10s");
    world_add(&world, &spec);
    (void)world_settle(&world);
    for (int64_t stood_ms = 10000; stood_ms <= 3600000; stood_ms += 10000) {
        int64_t again_ms;
        test_clock_advance(&world.clock, 10000);
        (void)jsi_keep(world.s);
        (void)jsi_elect(world.s, &again_ms);
        assert_equal(tick_age(&world), stood_ms);
    }
    assert_equal(job.calls, 0);
    assert_equal(world.s->stats.backend_errors, 0);
    (void)world_settle(&world);
    assert_equal(tick_age(&world), 0);
    assert_equal(job.calls, 1);
    world_close(&world);
}

/* The threshold is an option. */
static void test_threshold_is_an_option(void **state)
{
    struct world world;
    struct world_job job = {0};
    world_init(&world, *state);
    world.options.misfire_after_ms = 500;
    world_open(&world);
    world_start(&world);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 10s");
    spec.misfire = JOBSCHED_MISFIRE_SKIP;
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_jump(&world, 10500);
    assert_equal(job.calls, 1);
    world_jump(&world, 10001); /* 501 ms late */
    assert_equal(job.calls, 1);
    world_close(&world);
}

/* ---- steps of the clocks ---------------------------------------------------- */

/* Rivals' bug 11: clocks stepped an hour forward: a 5 s job runs once, not 720 times. */
static void test_forward_step_is_a_misfire(void **state)
{
    struct world world;
    struct world_job job = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 5s");
    world_add(&world, &spec);
    world_run(&world, 7000);
    (void)atomic_fetch_add(&world.clock.wall_minus_mono_ms, 3600000);
    (void)atomic_fetch_add(&world.clock.backend_minus_mono_ms, 3600000);
    world_run(&world, 2000);
    assert_equal(job.calls, 2);
    assert_equal(world.calls[1].scheduled_ms, WORLD_BEGIN_MS + 3605000);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_CLOCK_JUMPED, NULL), 1);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_BACKEND_CLOCK_JUMPED, NULL), 1);
    world_run(&world, 10000);
    assert_equal(job.calls, 4);
    world_check_accounted(&world, "job", "@every 5s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* Rivals' bug 11: clocks stepped an hour back: nothing that fired fires again, the tick and other
 * work go on, and the job goes on after its mark. */
static void test_backward_step_never_fires_again(void **state)
{
    struct world world;
    struct world_job job = {0}, other = {0};
    world_begin(&world, *state);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 5s");
    world_add(&world, &spec);
    world_run(&world, 7000);
    (void)atomic_fetch_sub(&world.clock.wall_minus_mono_ms, 3600000);
    (void)atomic_fetch_sub(&world.clock.backend_minus_mono_ms, 3600000);
    world_run(&world, 2000);
    spec = world_spec(&world, &other, "other", "@every 5s");
    world_add(&world, &spec);
    world_run(&world, 3590000);
    assert_equal(job.calls, 1);
    assert_at_most(717, other.calls);
    assert_equal(jobsched_trigger(world.s, "job", NULL, NULL), 0);
    (void)world_settle(&world);
    assert_equal(job.calls, 2);
    world_run(&world, 20000);
    for (size_t i = 0; i < world.call_count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_false(world.calls[i].job == world.calls[j].job &&
                         world.calls[i].kind == world.calls[j].kind &&
                         world.calls[i].scheduled_ms == world.calls[j].scheduled_ms);
        }
    }
    world_check_accounted(&world, "job", "@every 5s", WORLD_BEGIN_MS, world_now(&world));
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(world.s, &stats), 0);
    assert_at_most(stats.last_tick_age_ms, JSI_TICK_SLEEP_MAX_MS);
    world_close(&world);
}

/* G3: steps of this node's wall clock alone change nothing but a record of them. */
static void test_steps_of_the_node_alone_change_nothing(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 5s");
    world_add(&world, &spec);
    static const int64_t steps_ms[] = {3600000, -7200000, 86400000, -250};
    for (int i = 0; i < 4; i++) {
        world_run(&world, 6000);
        (void)atomic_fetch_add(&world.clock.wall_minus_mono_ms, steps_ms[i]);
    }
    world_run(&world, 36000);
    assert_equal(job.calls, 12);
    for (size_t i = 0; i < world.call_count; i++) {
        assert_equal(world.calls[i].at_backend_ms, world.calls[i].scheduled_ms);
        assert_equal(world.calls[i].kind, JOBSCHED_KIND_SCHEDULED);
    }
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_CLOCK_JUMPED, NULL), 4);
    world_close(&world);
}

/* A step of the backend alone is noticed at the next contact, and treated as if time had passed. */
static void test_step_of_the_backend_alone_is_followed(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1h");
    world_add(&world, &spec);
    (void)world_settle(&world);
    (void)atomic_fetch_add(&world.clock.backend_minus_mono_ms, 3599000);
    world_run(&world, 11000); /* one heartbeat */
    assert_equal(job.calls, 1);
    assert_equal(world.calls[0].kind, JOBSCHED_KIND_SCHEDULED);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_policies),
        BOTH(test_a_year_is_closed_in_bounded_steps),
        BOTH(test_deploys_do_not_starve_a_weekly_job),
        cmocka_unit_test(test_what_was_taken_and_not_granted_stays_due),
        cmocka_unit_test(test_a_tick_that_stands_still_is_seen),
        BOTH(test_threshold_is_an_option),
        BOTH(test_forward_step_is_a_misfire),
        BOTH(test_backward_step_never_fires_again),
        cmocka_unit_test(test_steps_of_the_node_alone_change_nothing),
        cmocka_unit_test(test_step_of_the_backend_alone_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
