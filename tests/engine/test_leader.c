/* Leader mode (design section 8; G1, G5, G10): only who leads claims what is due; who leads knows
 * before another node can lead that it does not any more; a clean stop hands over at once; and
 * whoever comes to lead goes on where the others left off. */
#include "support/world.h"

#include <stdio.h>

enum { LEASE_MS = 30000, SAFE_MS = LEASE_MS - JSI_LEASE_MARGIN_MAX_MS };

static void begin(struct world *world, struct world_job *job)
{
    world_init(world, "fake:");
    assert_equal(jobsched_set(&world->options, "leader", "yes"), 0);
    world_open(world);
    world_start(world);
    jobsched_job_spec spec = world_spec(world, job, "job", "@every 1s");
    world_add(world, &spec);
}

static size_t told(struct world *world, int kind)
{
    return event_log_count(&world->events, kind, NULL);
}

/* Another node's leadership, in the same store. Returns its token. */
static jobsched_claim lead_elsewhere(struct world *world)
{
    jobsched_announcement item = {.job = "jobsched:leader",
                                  .definition = world->s->leader_job->definition};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    const jobsched_backend *single = jobsched_backend_single();
    assert_equal(single->announce(world->fake.inner, &call, &item, 1), 0);
    jobsched_claim claim = {.job = "jobsched:leader",
                            .generation = item.generation,
                            .after_ms = item.mark_ms,
                            .lease_ms = LEASE_MS,
                            .delay_ms = 1,
                            .when_held = JOBSCHED_HELD_WAIT,
                            .kind = JOBSCHED_KIND_SCHEDULED};
    int64_t from_ms = item.mark_ms;
    if (item.last_end_ms != JOBSCHED_NONE && item.last_end_ms > from_ms) {
        from_ms = item.last_end_ms;
    }
    claim.scheduled_ms = from_ms + 1;
    test_clock_advance(&world->clock, 1); /* due by the backend's clock */
    assert_equal(single->claim(world->fake.inner, &call, &claim, 1), 0);
    assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
    return claim;
}

static void stop_elsewhere(struct world *world, uint64_t token)
{
    jobsched_finish item = {.job = "jobsched:leader",
                            .note = "",
                            .token = token,
                            .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->finish(world->fake.inner, &call, &item, 1), 0);
    assert_equal(item.answer, JOBSCHED_LEASE_KEPT);
}

/* A node alone leads at once, fires as without leader mode, and shows nothing of how it leads. */
static void test_who_is_alone_leads(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    assert_equal(jobsched_is_leader(world.s), 0);
    world_run(&world, 10000);
    assert_equal(jobsched_is_leader(world.s), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_GAINED), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 0);
    assert_equal(job.calls, 10);
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(world.s, &stats), 0);
    assert_equal(stats.jobs, 1);
    assert_equal(stats.runs_active, 0);
    assert_equal(stats.granted, 10);
    assert_equal(stats.succeeded, 10);
    assert_equal(stats.elsewhere, 0);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_GRANTED, "jobsched:leader"), 0);
    uint64_t claims = fake_backend_calls(&world.fake, FAKE_CLAIM);
    world_run(&world, 10000);
    assert_equal(fake_backend_calls(&world.fake, FAKE_CLAIM), claims + 10); /* one each second */
    world_close(&world);
}

struct listed {
    char names[256];
};

static int list_job(const jobsched_job_record *record, void *user_data)
{
    struct listed *listed = user_data;
    size_t used = strlen(listed->names);
    (void)snprintf(listed->names + used, sizeof listed->names - used, "%s;", record->job);
    return 0;
}

/* The job that leadership is made of is none of the application's: lists of jobs leave it out, and
 * who asks for it by its name gets it. */
static void test_the_leaders_job_is_not_listed(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    struct listed all = {""}, one = {""};
    begin(&world, &job);
    world_run(&world, 3000);
    assert_equal(jobsched_is_leader(world.s), 1);
    assert_equal(jobsched_jobs(world.s, NULL, list_job, &all), 0);
    assert_string_equal(all.names, "job;");
    assert_equal(jobsched_jobs(world.s, "jobsched:leader", list_job, &one), 0);
    assert_string_equal(one.names, "jobsched:leader;");
    world_close(&world);
}

/* G1: who stands by claims nothing but leadership, twice a second, and finds no triggers; once it
 * leads it goes on from where the others got, and takes what waits. */
static void test_who_stands_by_claims_nothing(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    jobsched_claim other = lead_elsewhere(&world);
    world_run(&world, 10000);
    assert_equal(jobsched_is_leader(world.s), 0);
    assert_equal(jobsched_trigger(world.s, "job", "re", NULL), 0);
    world_run(&world, 50000);
    assert_equal(job.calls, 0);
    assert_equal(world.s->extra_asks, 0);
    assert_at_most(atomic_load(&world.fake.items[FAKE_CLAIM]), 2 * 60 + 5);
    int64_t next_ms;
    assert_equal(jobsched_next_run(world.s, "job", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 61000); /* not one that is long past */
    /* The leader fires all that is due. */
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    jobsched_claim fired = {.job = "job",
                            .generation = 1,
                            .after_ms = WORLD_BEGIN_MS + 1,
                            .scheduled_ms = WORLD_BEGIN_MS + 59000,
                            .skip_first_ms = WORLD_BEGIN_MS + 1000,
                            .skip_count = 59,
                            .skip_outcome = JOBSCHED_OUTCOME_SKIPPED_MISFIRE,
                            .kind = JOBSCHED_CLAIM_SKIP};
    assert_equal(jobsched_backend_single()->claim(world.fake.inner, &call, &fired, 1), 0);
    assert_equal(fired.answer, JOBSCHED_ANSWER_GRANTED);
    stop_elsewhere(&world, other.token);
    size_t asked = world.fake.asked_count;
    world_run(&world, JSI_LEADER_AGAIN_MS);
    assert_equal(jobsched_is_leader(world.s), 1);
    assert_equal(job.calls, 2); /* the trigger, and the one occurrence that is left */
    for (size_t i = asked; i < world.fake.asked_count; i++) {
        const struct fake_asked *question = &world.fake.asked[i];
        bool own = strcmp(question->job, "job") == 0 && question->request[0] == '\0';
        assert_true(!own || question->claim.after_ms >= WORLD_BEGIN_MS + 59000);
    }
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* G10: a clean stop hands over at once, while runs of this node still go on. */
static void test_stop_hands_over_at_once(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {.result = JOBSCHED_PENDING};
    begin(&world, &job);
    world_run(&world, 1000);
    assert_non_null(job.pending);
    assert_equal(jobsched_stop(world.s), 0);
    assert_equal(jobsched_is_leader(world.s), 0);
    (void)world_settle(&world);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 1);
    (void)lead_elsewhere(&world);
    assert_equal(jobsched_run_should_stop(job.pending), 0);
    assert_equal(jobsched_run_finish(job.pending, 0), 0);
    assert_equal(jobsched_drain(world.s, 0), JOBSCHED_ETIMEDOUT); /* not written yet */
    (void)world_settle(&world);
    assert_equal(jobsched_drain(world.s, 0), 0);
    world_close(&world);
}

/* G5: without renewals the leader knows that it leads no more before its lease has ended, by its
 * own clock and at once, and claims nothing from then on. */
static void test_leadership_ends_before_its_lease(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    world_run(&world, 3500); /* granted at the beginning, and not renewed since */
    fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    int64_t left_ms = jobsched_run_lease_left_ms(world.s->leader_run);
    world_run(&world, left_ms - 1);
    assert_equal(jobsched_is_leader(world.s), 1);
    int calls = job.calls;
    test_clock_advance(&world.clock, 1);
    assert_equal(jobsched_is_leader(world.s), 0); /* whatever the threads do */
    (void)jsi_fire(world.s);
    assert_equal(job.calls, calls);
    (void)world_settle(&world);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 1);
    assert_equal(event_log_find(&world.events, JOBSCHED_EVENT_LEADER_LOST, 0)->event.stop_reason,
                 JOBSCHED_STOP_LEASE_LOST);
    world_close(&world);
}

/* G5: a lost session counts for leadership as for any run. */
static void test_lost_session_ends_leadership(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    world_run(&world, 3000);
    atomic_store(&world.fake.lost_at_mono_ms, test_clock_mono(&world.clock) + 500);
    fake_backend_fail(&world.fake, FAKE_RENEW, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_wake_keep_locked(world.s);
    (void)pthread_mutex_unlock(&world.s->lock);
    (void)jsi_keep(world.s);
    assert_equal(jobsched_is_leader(world.s), 1);
    test_clock_advance(&world.clock, 500 - JSI_LOST_MARGIN_MS);
    assert_equal(jobsched_is_leader(world.s), 0);
    fake_backend_fail(&world.fake, FAKE_RENEW, 0, 0, false);
    world_run(&world, 10000);
    assert_equal(jobsched_is_leader(world.s), 1); /* nobody else wanted to */
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* Asked to hand over, the leader does, lets others go first, and leads again if nobody wants to. */
static void test_cancel_hands_over(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    world_run(&world, 2000);
    assert_equal(jobsched_cancel(world.s, "jobsched:leader", NULL), 0);
    (void)world_settle(&world);
    assert_equal(jobsched_is_leader(world.s), 0);
    world_run(&world, JSI_LEADER_AGAIN_MS); /* as long as any other takes to ask */
    assert_equal(jobsched_is_leader(world.s), 0);
    world_run(&world, 4 * JSI_LEADER_AGAIN_MS);
    assert_equal(jobsched_is_leader(world.s), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_GAINED), 2);
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* G8: a claim whose outcome is unknown is settled also by who leads no more. */
static void test_unknown_outcomes_are_settled_without_leading(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    world_run(&world, 2500);
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, true);
    test_clock_advance(&world.clock, 500);
    int64_t again_ms;
    (void)jsi_tick(world.s);
    (void)jsi_elect(world.s, &again_ms); /* granted, and the reply is lost */
    (void)pthread_mutex_lock(&world.s->lock);
    jsi_run_stop_locked(world.s, world.s->leader_run, JOBSCHED_STOP_LEASE_LOST);
    (void)pthread_mutex_unlock(&world.s->lock);
    assert_equal(job.calls, 2);
    test_clock_advance(&world.clock, 200);
    (void)world_settle(&world);
    assert_equal(job.calls, 3);
    world_close(&world);
}

/* The name is nobody else's, and what would keep everybody from leading is refused. */
static void test_reserved_names_are_refused(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job);
    (void)world_settle(&world);
    static const char name[] = "jobsched:leader";
    jobsched_job_spec spec = world_spec(&world, &job, name, "@every 1s");
    assert_fails(jobsched_add(world.s, &spec, NULL), JOBSCHED_EINVAL, "reserved");
    assert_fails(jobsched_withdraw(world.s, name), JOBSCHED_EINVAL, "reserved");
    assert_fails(jobsched_pause(world.s, name, NULL), JOBSCHED_EINVAL, "reserved");
    assert_fails(jobsched_resume(world.s, name, NULL), JOBSCHED_EINVAL, "reserved");
    assert_fails(jobsched_remove(world.s, name, NULL), JOBSCHED_EINVAL, "reserved");
    assert_fails(jobsched_trigger(world.s, name, NULL, NULL), JOBSCHED_EINVAL, "reserved");
    assert_equal(jobsched_is_leader(NULL), 0);
    /* Paused past the library: nobody leads, nobody asks more often, and a resume mends it. */
    jobsched_command command = {.verb = JOBSCHED_VERB_PAUSE, .job = name};
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN, .timeout_ms = 1000};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    const jobsched_backend *single = jobsched_backend_single();
    assert_equal(single->control(world.fake.inner, &call, &command, &result), 0);
    assert_equal(jobsched_cancel(world.s, name, NULL), 0);
    (void)world_settle(&world);
    uint64_t claims = fake_backend_calls(&world.fake, FAKE_CLAIM);
    world_run(&world, 20000);
    assert_equal(jobsched_is_leader(world.s), 0);
    assert_at_most(fake_backend_calls(&world.fake, FAKE_CLAIM) - claims, 41);
    command.verb = JOBSCHED_VERB_RESUME;
    assert_equal(single->control(world.fake.inner, &call, &command, &result), 0);
    world_run(&world, 1000);
    assert_equal(jobsched_is_leader(world.s), 1);
    world_close(&world);
}

/* Without leader mode nobody leads, and everything is as ever. */
static void test_without_leader_mode(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    world_add(&world, &spec);
    world_run(&world, 3000);
    assert_equal(job.calls, 3);
    assert_equal(jobsched_is_leader(world.s), 0);
    world_close(&world);
}

/* An open that fails half-way gives everything back. */
static void test_open_that_fails_leaks_nothing(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "fake:");
    assert_equal(jobsched_set(&world.options, "leader", "on"), 0);
    fake_backend_fail(&world.fake, FAKE_OPEN, JOBSCHED_EUNREACHABLE, 1, false);
    assert_fails(jobsched_open(&world.options, &world.s), JOBSCHED_EUNREACHABLE, "script");
    world.s = NULL;
    world_close(&world);
}

/* G14: who leads hears within a minute of a definition that others put in force, though its own has
 * nothing due, and then lets them lead: nobody else fires it. Where nobody leads, it does again. */
static void test_who_lacks_a_definition_yields(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0}, other = {0};
    begin(&world, &job);
    jobsched_job_spec spec = world_spec(&world, &other, "other", "@every 10h");
    world_add(&world, &spec);
    world_run(&world, 10000);
    assert_equal(jobsched_is_leader(world.s), 1);
    jobsched_announcement item = {.job = "other", .definition = "another"};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world.fake.inner, &call, &item, 1), 0);
    world_run(&world, JSI_LEADER_LOOK_MS + 1000);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_JOB_STOOD_DOWN, "other"), 1);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 1);
    world_run(&world, 5000);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_GAINED), 2);
    assert_equal(jobsched_is_leader(world.s), 1);
    world_run(&world, JSI_LEADER_YIELD_MS - 20000);
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 1);
    world_run(&world, 10000); /* and others have their turn again */
    assert_equal(told(&world, JOBSCHED_EVENT_LEADER_LOST), 2);
    world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world) - 5000);
    world_close(&world);
}

/* G14: one look that fails, or finds its lane taken, puts off by a second what the leader is to hear
 * of, and not by a minute. */
static void test_a_failed_look_is_repeated_soon(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct world world;
        struct world_job job = {0}, other = {0};
        begin(&world, &job);
        jobsched_job_spec spec = world_spec(&world, &other, "other", "@every 10h");
        world_add(&world, &spec);
        world_run(&world, 10000);
        jobsched_announcement item = {.job = "other", .definition = "another"};
        jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
        assert_equal(jobsched_backend_single()->announce(world.fake.inner, &call, &item, 1), 0);
        int64_t look_ms = world.s->leader_look_mono_ms - test_clock_mono(&world.clock);
        world_run(&world, look_ms - 100);
        world.s->admin_busy = busy;
        if (!busy) {
            fake_backend_fail(&world.fake, FAKE_JOBS, JOBSCHED_EUNREACHABLE, 1, false);
        }
        world_run(&world, 200);
        world.s->admin_busy = false;
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 0);
        world_run(&world, 2000);
        assert_equal(told(&world, JOBSCHED_EVENT_JOB_STOOD_DOWN), 1);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_alone_leads),
        cmocka_unit_test(test_the_leaders_job_is_not_listed),
        cmocka_unit_test(test_who_stands_by_claims_nothing),
        cmocka_unit_test(test_stop_hands_over_at_once),
        cmocka_unit_test(test_leadership_ends_before_its_lease),
        cmocka_unit_test(test_lost_session_ends_leadership),
        cmocka_unit_test(test_cancel_hands_over),
        cmocka_unit_test(test_unknown_outcomes_are_settled_without_leading),
        cmocka_unit_test(test_reserved_names_are_refused),
        cmocka_unit_test(test_without_leader_mode),
        cmocka_unit_test(test_open_that_fails_leaks_nothing),
        cmocka_unit_test(test_who_lacks_a_definition_yields),
        cmocka_unit_test(test_a_failed_look_is_repeated_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
