/* A backend that fails, or whose replies get lost (G8; rivals' bugs 5 and 16): an error is neither
 * a lost election nor a won one; what is unknown is asked again exactly, before anything else;
 * outcomes are written in the end; a failing backend is asked again soon, but not too often. */
#include "support/world.h"

static void begin(struct world *world, struct world_job *job, const char *schedule)
{
    world_begin(world, "fake:");
    jobsched_job_spec spec = world_spec(world, job, "job", schedule);
    world_add(world, &spec);
    (void)world_settle(world);
}

static void check_same_question(const struct fake_asked *one, const struct fake_asked *other)
{
    assert_string_equal(one->job, other->job);
    assert_string_equal(one->request, other->request);
    assert_equal(one->claim.scheduled_ms, other->claim.scheduled_ms);
    assert_equal(one->claim.after_ms, other->claim.after_ms);
    assert_equal(one->claim.kind, other->claim.kind);
    assert_equal(one->claim.when_held, other->claim.when_held);
    assert_equal(one->claim.generation, other->claim.generation);
    assert_equal(one->claim.skip_first_ms, other->claim.skip_first_ms);
    assert_equal(one->claim.skip_count, other->claim.skip_count);
    assert_equal(one->claim.skip_outcome, other->claim.skip_outcome);
}

/* The claim took effect and its reply was lost, or it never arrived: either way the same question
 * is asked again, and the occurrence fires once. Also when so much time passes that the job would
 * by then ask something else. */
static void test_lost_reply_is_asked_again_exactly(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 60s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, lost);
        world_jump(&world, 60000);
        assert_equal(job.calls, 0);
        world_jump(&world, 300000);
        assert_at_most(2, world.fake.asked_count);
        check_same_question(&world.fake.asked[0], &world.fake.asked[1]);
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 60000);
        assert_equal(world.calls[0].kind, JOBSCHED_KIND_SCHEDULED);
        assert_equal(world.calls[0].token, 1);
        assert_equal(world.s->stats.elsewhere, 0);
        world_check_accounted(&world, "job", "@every 60s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* A closed range whose reply was lost is asked for again as it was, and counted once. */
static void test_lost_skip_is_counted_once(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 1s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, lost);
        world_jump(&world, 100000);
        world_jump(&world, 100000);
        check_same_question(&world.fake.asked[0], &world.fake.asked[1]);
        assert_equal(world.fake.asked[0].claim.kind, JOBSCHED_CLAIM_SKIP);
        assert_equal(world.fake.asked[0].claim.skip_count, 99);
        world_check_accounted(&world, "job", "@every 1s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* The unknown is resolved before what came due later, and in the order in which it was asked. */
static void test_unknown_goes_before_newer_work(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0}, second = {0}, later = {0};
    begin(&world, &job, "@every 60s");
    jobsched_job_spec spec = world_spec(&world, &second, "second", "@every 60s");
    world_add(&world, &spec);
    spec = world_spec(&world, &later, "later", "@every 60s");
    spec.jitter_ms = 1; /* the same instant, but armed by another entry */
    world_add(&world, &spec);
    (void)world_settle(&world);
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 2, true);
    world_jump(&world, 60000);
    assert_equal(world.fake.asked_count, 3);
    assert_equal(jobsched_trigger(world.s, "later", "new", NULL), 0);
    world_jump(&world, 1000);
    assert_equal(world.fake.asked_count, 7);
    for (int i = 0; i < 3; i++) {
        check_same_question(&world.fake.asked[i], &world.fake.asked[i + 3]);
    }
    assert_string_equal(world.fake.asked[6].request, "new");
    world_jump(&world, 3000);
    assert_equal(job.calls, 1);
    assert_equal(second.calls, 1);
    assert_equal(world_calls_of(&world, "later", JOBSCHED_KIND_SCHEDULED), 1);
    world_close(&world);
}

/* A job that is withdrawn while the outcome of its claim is unknown: the claim is asked again, and
 * if it was granted after all the run takes place, or the job would be held for ever. */
static void test_unknown_is_resolved_after_withdraw(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 60s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, lost);
        world_jump(&world, 60000);
        assert_equal(jobsched_withdraw(world.s, "job"), 0);
        assert_equal(job.freed, 0); /* it may still be called */
        world_jump(&world, 1000);
        check_same_question(&world.fake.asked[0], &world.fake.asked[1]);
        assert_equal(job.calls, 1);
        assert_equal(job.freed, 1);
        world_run(&world, 600000);
        assert_equal(job.calls, 1);
        assert_equal(world.s->active_count, 0);
        world_close(&world);
    }
}

/* G1: withdrawn and registered again while a claim is unknown: the old registration asks again, the
 * new one asks for the same occurrence; one run comes of it, with or without the grant. */
static void test_unknown_of_an_earlier_registration_runs_once(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job old = {0}, new = {0};
        begin(&world, &old, "@every 60s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, lost);
        world_jump(&world, 60000);
        assert_equal(jobsched_withdraw(world.s, "job"), 0);
        jobsched_job_spec spec = world_spec(&world, &new, "job", "@every 60s");
        old.result = new.result = JOBSCHED_PENDING;
        world_add(&world, &spec);
        world_jump(&world, 1000);
        world_run(&world, 5000);
        assert_equal(old.calls + new.calls, 1);
        assert_equal(world.s->active_count, 1);
        assert_equal(jobsched_run_finish(old.calls > 0 ? old.pending : new.pending, 0), 0);
        new.result = 0;
        world_run(&world, 120000);
        assert_equal(old.calls + new.calls, 3);
        world_check_accounted(&world, "job", "@every 60s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
        assert_equal(old.freed + new.freed, 2);
    }
}

/* Eight grants whose reply was lost, and by the time they are asked for again there is room for two:
 * the others are this node's all the same, so they run as soon as there is room. */
static void test_lost_grants_beyond_the_room_still_run(void **state)
{
    (void)state;
    enum { JOBS = 8 };
    static const char *const names[JOBS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct world world;
    struct world_job jobs[JOBS] = {0};
    world_begin(&world, "fake:");
    for (int i = 0; i < JOBS; i++) {
        jobsched_job_spec spec = world_spec(&world, &jobs[i], names[i], "@every 60s");
        jobs[i].result = JOBSCHED_PENDING;
        world_add(&world, &spec);
    }
    (void)world_settle(&world);
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, true);
    world.s->settings.workers = JOBS;
    world_jump(&world, 60000);
    world.s->settings.workers = 2;
    world.s->ask_factor = JOBS; /* as after a time in which other nodes fired most */
    assert_equal(jobsched_withdraw(world.s, "h"), 0);
    world_run(&world, 1000);
    assert_at_most(1, world.s->active_count);
    assert_at_most(world.s->active_count, 2);
    for (int round = 0; round < JOBS; round++) {
        for (int i = 0; i < JOBS; i++) {
            if (jobs[i].pending != NULL) {
                assert_equal(jobsched_run_finish(jobs[i].pending, 0), 0);
                jobs[i].pending = NULL;
            }
        }
        world_run(&world, 100);
    }
    for (int i = 0; i < JOBS; i++) {
        assert_equal(jobs[i].calls, 1);
    }
    assert_equal(world.s->active_count, 0);
    world_close(&world);
    assert_equal(jobs[JOBS - 1].freed, 1);
}

/* G8, G9: a claim whose reply was lost right before the stop: it is asked again all the same, so
 * that what it granted runs and is not cut off; what is merely due is left to other nodes. */
static void test_unknown_is_settled_after_stop(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 60s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 1, lost);
        world_jump(&world, 60000);
        assert_equal(jobsched_stop(world.s), 0);
        world_run(&world, 200000);
        assert_equal(job.calls, 1);
        assert_equal(jobsched_drain(world.s, 0), 0);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        assert_equal(world_ledger_sum(&ledger, JOBSCHED_OUTCOME_SUCCEEDED), 1);
        world_ledger_free(&ledger);
        world_close(&world);
    }
}

/* A lost reply of a trigger's claim: fired once. */
static void test_lost_trigger_fires_once(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 1h");
        fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 3, lost);
        assert_equal(jobsched_trigger(world.s, "job", "once", NULL), 0);
        job.result = JOBSCHED_PENDING;
        world_run(&world, 40000); /* several heartbeats find the trigger, too */
        assert_equal(job.calls, 1);
        check_same_question(&world.fake.asked[0], &world.fake.asked[1]);
        assert_equal(jobsched_run_finish(job.pending, 0), 0);
        world_run(&world, 40000);
        assert_equal(job.calls, 1);
        world_close(&world);
    }
}

/* Rivals' bug 5: no error code is taken for an answer. Each is told, nothing fires meanwhile and
 * nothing is lost; what the failed call left in the items is not looked at (the fake writes grants
 * with a wild token there). */
static void test_no_error_is_an_answer(void **state)
{
    (void)state;
    static const int codes[] = {JOBSCHED_EUNREACHABLE, JOBSCHED_EUNKNOWN,  JOBSCHED_EREFUSED,
                                JOBSCHED_EACCESS,      JOBSCHED_ESCHEMA,   JOBSCHED_EDATALOST,
                                JOBSCHED_EFULL,        JOBSCHED_ENOMEM,    JOBSCHED_EINTERNAL,
                                JOBSCHED_ETIMEDOUT,    JOBSCHED_ENOTFOUND, JOBSCHED_EINVAL};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 5s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, codes[i], FAKE_FOR_EVER, false);
        world_run(&world, 9000);
        jobsched_stats stats;
        JOBSCHED_INIT(&stats);
        assert_equal(jobsched_stats_read(world.s, &stats), 0);
        assert_equal(job.calls, 0);
        assert_equal(stats.granted, 0);
        assert_equal(stats.elsewhere, 0);
        assert_equal(stats.skipped, 0);
        assert_equal(stats.backend_ok, 0);
        assert_equal(stats.backend_errors, world.fake.calls[FAKE_CLAIM]);
        const struct event_copy *told = event_log_find(&world.events, EVENT_ANY_FAILURE, 0);
        assert_equal(told->event.code, codes[i]);
        assert_non_null(strstr(told->message, "claim: the script says so"));
        fake_backend_fail(&world.fake, FAKE_CLAIM, 0, 0, false);
        world_run(&world, 3000);
        assert_equal(job.calls, 2); /* that of 5 s, and that of 10 s */
        assert_equal(world.calls[0].scheduled_ms, WORLD_BEGIN_MS + 5000);
        assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_BACKEND_RECOVERED, NULL), 1);
        world_check_accounted(&world, "job", "@every 5s", WORLD_BEGIN_MS, world_now(&world));
        world_close(&world);
    }
}

/* Every class of failure: its event's stable id, and what people are told to do. */
static const struct failure_class {
    int code, kind;
    const char *id, *remedy;
} classes[] = {
    {JOBSCHED_EUNREACHABLE, 60, "backend.unreachable", "see that it runs"},
    {JOBSCHED_EUNKNOWN, 61, "backend.unknown", "raise 'request_timeout'"},
    {JOBSCHED_EREFUSED, 62, "backend.refused", "'jobschedctl doctor' says what to change"},
    {JOBSCHED_EACCESS, 63, "backend.access", "grant the rights"},
    {JOBSCHED_ESCHEMA, 64, "backend.schema", "is deployed"},
    {JOBSCHED_EDATALOST, 65, "backend.data-lost", "the store is restored"},
    {JOBSCHED_EFULL, 66, "backend.full", "free some"},
    {JOBSCHED_ENOMEM, 40, "backend.failed", "'jobschedctl doctor' tells more"},
    {JOBSCHED_EINTERNAL, 40, "backend.failed", "'jobschedctl doctor' tells more"},
};
enum { CLASSES = sizeof classes / sizeof classes[0] };

/* Issue 4: each class has an event id of its own, an error's level, its code, and a text that says
 * what is wrong and what to do. No id is told for another class. */
static void test_each_class_has_an_id_and_a_remedy(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLASSES; i++) {
        struct world world;
        struct world_job job = {0};
        begin(&world, &job, "@every 1s");
        fake_backend_fail(&world.fake, FAKE_CLAIM, classes[i].code, FAKE_FOR_EVER, false);
        world_run(&world, 9000);
        const struct event_copy *told = event_log_find(&world.events, classes[i].kind, 0);
        assert_non_null(told);
        assert_string_equal(jobsched_event_name(told->event.kind), classes[i].id);
        assert_equal(told->event.level, JOBSCHED_LEVEL_ERROR);
        assert_equal(told->event.code, classes[i].code);
        assert_ptr_equal(strstr(told->message, "claim: the script says so ("), told->message);
        assert_non_null(strstr(told->message, classes[i].remedy));
        assert_equal(event_log_count(&world.events, classes[i].kind, NULL),
                     event_log_count(&world.events, EVENT_ANY_FAILURE, NULL));
        world_close(&world);
    }
}

/* G8: the first of each class is told at once, also amid an outage of another class, and the row as
 * it doubles; and the outage is over once. */
static void test_each_class_is_told_once_in_an_outage(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, "@every 1s");
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < CLASSES; i++) {
            fake_backend_fail(&world.fake, FAKE_CLAIM, classes[i].code, FAKE_FOR_EVER, false);
            world_run(&world, 5000);
            assert_true(event_log_count(&world.events, classes[i].kind, NULL) >= 1);
        }
    }
    assert_at_most(event_log_count(&world.events, EVENT_ANY_FAILURE, NULL), CLASSES + 8);
    fake_backend_fail(&world.fake, FAKE_CLAIM, 0, 0, false);
    world_run(&world, 5000);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_BACKEND_RECOVERED, NULL), 1);
    world_close(&world);
}

/* Each second call fails: an hour of that is a bounded number of records in each minute, none of
 * them untold for good, and as many recoveries at most. */
static void fail_each_second(struct fake_backend *fake, enum fake_operation operation, void *items,
                             size_t count)
{
    (void)items;
    (void)count;
    if (operation == FAKE_CLAIM && fake_backend_calls(fake, FAKE_CLAIM) % 2 == 0) {
        fake_backend_fail(fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, 1, false);
    }
}

static void test_flapping_is_told_within_bounds(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, "@every 1s");
    world.fake.before = fail_each_second;
    world_run(&world, 1800000);
    size_t failed = event_log_count(&world.events, EVENT_ANY_FAILURE, NULL);
    assert_true(failed >= 20);
    assert_at_most(failed, 31 * JSI_FAILURES_TOLD_MAX);
    assert_at_most(event_log_count(&world.events, JOBSCHED_EVENT_BACKEND_RECOVERED, NULL), failed);
    size_t with_rest = 0;
    for (size_t i = 0; i < failed; i++) {
        with_rest += strstr(event_log_find(&world.events, EVENT_ANY_FAILURE, i)->message,
                            "other failures were not told") != NULL;
    }
    assert_true(with_rest >= 20);   /* one a minute */
    assert_true(job.calls >= 1700); /* and the job runs all the same */
    world_close(&world);
}

struct pace {
    struct world *world;
    int64_t last_ms;
    int64_t shortest_ms, longest_ms;
};

static void note_pace(struct fake_backend *fake, enum fake_operation operation, void *items,
                      size_t count)
{
    struct pace *pace = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == FAKE_CLAIM) {
        int64_t now_ms = test_clock_mono(&pace->world->clock);
        int64_t span_ms = now_ms - pace->last_ms;
        if (pace->last_ms != 0) {
            pace->shortest_ms = span_ms < pace->shortest_ms ? span_ms : pace->shortest_ms;
            pace->longest_ms = span_ms > pace->longest_ms ? span_ms : pace->longest_ms;
        }
        pace->last_ms = now_ms;
    }
}

/* G11: an outage of an hour: retries get seldom, but never rarer than the bound; few records; the
 * tick and the heartbeat go on; afterwards the misfire policy decides and all is accounted for. */
static void test_outage_is_bounded_in_every_way(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    struct pace pace = {.world = &world, .shortest_ms = INT64_MAX};
    begin(&world, &job, "@every 5s");
    world.fake.before = note_pace;
    world.fake.hook_data = &pace;
    world_run(&world, 10000);
    assert_equal(job.calls, 2);
    pace = (struct pace){.world = &world, .shortest_ms = INT64_MAX};
    fake_backend_fail(&world.fake, FAKE_CLAIM, JOBSCHED_EUNREACHABLE, FAKE_FOR_EVER, false);
    uint64_t renewals = world.fake.calls[FAKE_RENEW];
    world_run(&world, 3600000);
    assert_equal(job.calls, 2);
    assert_at_most(pace.longest_ms, JSI_RETRY_MAX_MS);
    assert_at_most(JSI_RETRY_FIRST_MS / 2, pace.shortest_ms);
    assert_at_most(3600000 / JSI_RETRY_MAX_MS, world.fake.calls[FAKE_CLAIM]);
    assert_at_most(event_log_count(&world.events, EVENT_ANY_FAILURE, NULL), 14);
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(world.s, &stats), 0);
    assert_at_most(stats.last_tick_age_ms, JSI_TICK_SLEEP_MAX_MS);
    assert_at_most(3600000 / 10000, world.fake.calls[FAKE_RENEW] - renewals);
    fake_backend_fail(&world.fake, FAKE_CLAIM, 0, 0, false);
    world_run(&world, 5000);
    /* The one that was asked before, the latest missed one, and that of the last 5 s. */
    assert_at_most(job.calls, 6);
    assert_at_most(4, job.calls);
    world_check_accounted(&world, "job", "@every 5s", WORLD_BEGIN_MS, world_now(&world));
    world_close(&world);
}

/* A store that is away when the job is registered: announced when it is back, and never before. */
static void test_announce_is_repeated(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {0};
        world_begin(&world, "fake:");
        fake_backend_fail(&world.fake, FAKE_ANNOUNCE, JOBSCHED_EUNREACHABLE, 5, lost);
        jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 10s");
        world_add(&world, &spec);
        world_run(&world, 9000);
        assert_equal(world.fake.calls[FAKE_ANNOUNCE], 6);
        world_run(&world, 1500);
        assert_equal(job.calls, 1);
        world_close(&world);
    }
}

/* Withdrawn while it is being announced in vain: it does not come back. */
static void test_withdraw_while_unannounced(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    fake_backend_fail(&world.fake, FAKE_ANNOUNCE, JOBSCHED_EUNREACHABLE, 3, false);
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    world_add(&world, &spec);
    (void)world_settle(&world);
    assert_equal(jobsched_withdraw(world.s, "job"), 0);
    assert_equal(job.freed, 1);
    world_run(&world, 10000);
    assert_equal(world.fake.calls[FAKE_ANNOUNCE], 1);
    world_close(&world);
}

/* Rivals' bug 7: an outcome is written again until it is, also when the reply of a write that
 * happened was lost; it ends in the ledger once, with what the callback returned. */
static void test_finish_is_written_in_the_end(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct world world;
        struct world_job job = {.result = 42};
        begin(&world, &job, "@every 60s");
        fake_backend_fail(&world.fake, FAKE_FINISH, JOBSCHED_EUNREACHABLE, 10, lost);
        world_run(&world, 61000);
        assert_equal(job.calls, 1);
        assert_equal(world.s->active_count, 1);
        assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_RUN_FINISHED, NULL), 0);
        world_run(&world, 30000);
        assert_equal(world.fake.calls[FAKE_FINISH], 11);
        assert_equal(world.s->active_count, 0);
        assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_RUN_FINISHED, "job"), 1);
        struct world_ledger ledger = world_ledger_read(&world, "job");
        assert_equal(ledger.count, 1);
        assert_equal(ledger.rows[0].outcome, JOBSCHED_OUTCOME_FAILED);
        assert_equal(ledger.rows[0].code, 42);
        world_ledger_free(&ledger);
        assert_equal(world.s->stats.failed, 1);
        world_close(&world);
    }
}

static void refuse_finish(struct fake_backend *fake, enum fake_operation operation, void *items,
                          size_t count)
{
    (void)fake;
    jobsched_finish *finishes = items;
    for (size_t i = 0; operation == FAKE_FINISH && i < count; i++) {
        finishes[i].answer = JOBSCHED_LEASE_GONE;
    }
}

/* G5, G9: an outcome that the store refuses, because the run had been taken away, is told and
 * counted as a lost lease; it is not tried again. */
static void test_refused_finish_is_told(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, "@every 60s");
    world.fake.after = refuse_finish;
    world_run(&world, 61000);
    const struct event_copy *refused =
        event_log_find(&world.events, JOBSCHED_EVENT_FINISH_REFUSED, 0);
    assert_non_null(refused);
    assert_equal(refused->event.outcome, JOBSCHED_OUTCOME_LEASE_LOST);
    assert_equal(refused->event.token, 1);
    assert_equal(event_log_count(&world.events, JOBSCHED_EVENT_RUN_FINISHED, NULL), 0);
    assert_equal(world.s->stats.lease_lost, 1);
    assert_equal(world.s->stats.succeeded, 0);
    assert_equal(world.fake.calls[FAKE_FINISH], 1);
    world_close(&world);
}

/* G6: a control call that fails says so with the store's code; counters and the job are untouched. */
static void test_control_errors_reach_the_caller(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    begin(&world, &job, "@every 60s");
    fake_backend_fail(&world.fake, FAKE_CONTROL, JOBSCHED_EUNREACHABLE, 5, false);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    result.token = 77;
    assert_fails(jobsched_pause(world.s, "job", &result), JOBSCHED_EUNREACHABLE, "script");
    assert_equal(result.token, 77); /* untouched */
    assert_fails(jobsched_resume(world.s, "job", NULL), JOBSCHED_EUNREACHABLE, "script");
    assert_fails(jobsched_trigger(world.s, "job", NULL, NULL), JOBSCHED_EUNREACHABLE, "script");
    assert_fails(jobsched_cancel(world.s, "job", NULL), JOBSCHED_EUNREACHABLE, "script");
    assert_fails(jobsched_remove(world.s, "job", NULL), JOBSCHED_EUNREACHABLE, "script");
    assert_equal(job.freed, 0);
    fake_backend_fail(&world.fake, FAKE_RUNS, JOBSCHED_EACCESS, 1, false);
    assert_fails(jobsched_runs(world.s, NULL, 0, NULL, NULL), JOBSCHED_EINVAL, "visit");
    world_run(&world, 61000);
    assert_equal(job.calls, 1);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_reply_is_asked_again_exactly),
        cmocka_unit_test(test_lost_skip_is_counted_once),
        cmocka_unit_test(test_unknown_goes_before_newer_work),
        cmocka_unit_test(test_unknown_is_resolved_after_withdraw),
        cmocka_unit_test(test_unknown_of_an_earlier_registration_runs_once),
        cmocka_unit_test(test_lost_grants_beyond_the_room_still_run),
        cmocka_unit_test(test_unknown_is_settled_after_stop),
        cmocka_unit_test(test_lost_trigger_fires_once),
        cmocka_unit_test(test_no_error_is_an_answer),
        cmocka_unit_test(test_each_class_has_an_id_and_a_remedy),
        cmocka_unit_test(test_each_class_is_told_once_in_an_outage),
        cmocka_unit_test(test_flapping_is_told_within_bounds),
        cmocka_unit_test(test_outage_is_bounded_in_every_way),
        cmocka_unit_test(test_announce_is_repeated),
        cmocka_unit_test(test_withdraw_while_unannounced),
        cmocka_unit_test(test_finish_is_written_in_the_end),
        cmocka_unit_test(test_refused_finish_is_told),
        cmocka_unit_test(test_control_errors_reach_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
