/* What to ask about a due job (decide.c) against a naive model that lists all occurrences (G9, G11):
 * for random schedules, policies, marks and instants the question is the same; and following the
 * questions to the end accounts for each occurrence exactly once, in a bounded number of steps. */
#include "support/typed.h"

#include "base/hash.h"
#include "engine/internal.h"

#include <stdlib.h>

enum { LISTED_MAX = 40000, CASES = 6000 };

#define BEGIN_MS INT64_C(1800000000000)

static const char *const schedules[] = {"@every 7s", "*/13 * * * * *", "5,6,50 * * * * *",
                                        "* * * * *", "0 */3 * * * *",  "@at 2027-01-15T08:10:00Z"};

struct given {
    jobsched s;
    jsi_job job;
    int64_t now_ms;
};

struct model {
    int64_t at_ms[LISTED_MAX]; /* all occurrences after the mark, up to now */
    size_t count;
};

static uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return jsi_mix64(*state);
}

static int64_t pick(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

static void list_occurrences(struct model *model, const struct given *given)
{
    int64_t at_ms = given->job.mark_ms;
    model->count = 0;
    while ((at_ms = jobsched_schedule_next(given->job.schedule, at_ms)) <= given->now_ms) {
        assert_true(model->count < LISTED_MAX);
        model->at_ms[model->count++] = at_ms;
    }
}

static void expect_run(const struct given *given, int kind, int when_held)
{
    const jsi_ask *ask = &given->job.ask;
    assert_equal(ask->kind, kind);
    assert_equal(ask->scheduled_ms, given->job.next_ms);
    assert_equal(ask->when_held, when_held);
}

/* The first count occurrences are to be closed. */
static void expect_skip(const struct given *given, const struct model *model, size_t count,
                        int outcome)
{
    const jsi_ask *ask = &given->job.ask;
    assert_equal(ask->kind, JOBSCHED_CLAIM_SKIP);
    assert_equal(ask->skip_first_ms, model->at_ms[0]);
    assert_equal(ask->scheduled_ms, model->at_ms[count - 1]);
    assert_equal(ask->skip_count, count);
    assert_equal(ask->skip_outcome, outcome);
}

static void expect_misfire(const struct given *given, const struct model *model)
{
    const jobsched_job_spec *spec = &given->job.spec;
    int64_t last_ms = model->at_ms[model->count - 1];
    int held = spec->overlap;
    size_t count = 0;
    switch (spec->misfire) {
    case JOBSCHED_MISFIRE_SKIP:
        while (count < model->count &&
               model->at_ms[count] < given->now_ms - given->s.settings.misfire_after_ms) {
            count++;
        }
        break;
    case JOBSCHED_MISFIRE_ALL:
        count = model->count > spec->misfire_limit ? model->count - spec->misfire_limit : 0;
        held = held == JOBSCHED_HELD_SKIP ? JOBSCHED_HELD_WAIT : held;
        break;
    default:
        count = spec->misfire_grace_ms > 0 && given->now_ms - last_ms > spec->misfire_grace_ms
                    ? model->count
                    : model->count - 1;
        break;
    }
    if (count > 0) {
        expect_skip(given, model, count, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    } else {
        expect_run(given, JOBSCHED_KIND_CATCH_UP, held);
    }
}

/* waited, kind_before: how the job stood before it was decided. */
static void expect(const struct given *given, const struct model *model, bool waited,
                   int kind_before)
{
    const jobsched_job_spec *spec = &given->job.spec;
    assert_equal(given->job.ask.after_ms, given->job.mark_ms);
    assert_false(given->job.ask.unresolved);
    int64_t late_ms =
        given->now_ms - given->job.next_ms - jsi_jitter(&given->job, given->job.next_ms);
    bool all = spec->misfire == JOBSCHED_MISFIRE_ALL;
    if (waited && kind_before == JOBSCHED_KIND_CATCH_UP && all) {
        expect_run(given, JOBSCHED_KIND_CATCH_UP,
                   spec->overlap == JOBSCHED_OVERLAP_SKIP ? JOBSCHED_HELD_WAIT : spec->overlap);
    } else if (waited && spec->overlap == JOBSCHED_OVERLAP_QUEUE) {
        if (model->count > 1) {
            expect_skip(given, model, model->count - 1, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
        } else {
            expect_run(given, JOBSCHED_KIND_SCHEDULED, JOBSCHED_HELD_WAIT);
        }
    } else if (late_ms <= given->s.settings.misfire_after_ms) {
        expect_run(given, JOBSCHED_KIND_SCHEDULED, spec->overlap);
    } else {
        expect_misfire(given, model);
    }
}

static char job_name[] = "job";

/* A random job that is due; false if it is not. */
static bool make_case(struct given *given, jobsched_schedule *const *parsed, uint64_t *state)
{
    memset(given, 0, sizeof *given);
    jsi_job *job = &given->job;
    job->name = job_name;
    job->schedule = parsed[random_next(state) % (sizeof schedules / sizeof schedules[0])];
    job->spec.misfire = (int32_t)pick(state, 0, 2);
    job->spec.overlap = (int32_t)pick(state, 0, 2);
    job->spec.misfire_limit = (uint32_t)pick(state, 1, random_next(state) % 2 ? 5 : 300);
    job->spec.misfire_grace_ms = random_next(state) % 2 ? pick(state, 1, 120000) : 0;
    job->spec.jitter_ms = random_next(state) % 4 ? 0 : pick(state, 1, 5000);
    given->s.settings.misfire_after_ms = pick(state, 1, 30000);
    job->mark_ms = BEGIN_MS + pick(state, -100000, 700000);
    given->now_ms = job->mark_ms + pick(state, 0, random_next(state) % 3 ? 60000 : 7200000);
    job->next_ms = jobsched_schedule_next(job->schedule, job->mark_ms);
    if (random_next(state) % 10 == 0 && job->next_ms != JOBSCHED_NONE) {
        given->now_ms = job->next_ms + jsi_jitter(job, job->next_ms) +
                        given->s.settings.misfire_after_ms; /* as late as is not missed */
    }
    job->waits = random_next(state) % 3 == 0;
    job->ask.kind = job->waits ? (int32_t)pick(state, 0, 1) : JOBSCHED_CLAIM_SKIP;
    /* Only what may wait does. */
    bool may_wait =
        job->spec.overlap == JOBSCHED_OVERLAP_QUEUE ||
        (job->ask.kind == JOBSCHED_KIND_CATCH_UP && job->spec.misfire == JOBSCHED_MISFIRE_ALL);
    job->waits = job->waits && may_wait && job->spec.overlap != JOBSCHED_OVERLAP_ALLOW;
    return job->next_ms != JOBSCHED_NONE &&
           job->next_ms + jsi_jitter(job, job->next_ms) <= given->now_ms;
}

static void parse_all(jobsched_schedule **out_parsed)
{
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        assert_equal(jobsched_schedule_parse(schedules[i], NULL, &out_parsed[i]), 0);
    }
}

static void free_all(jobsched_schedule **parsed)
{
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        jobsched_schedule_free(parsed[i]);
    }
}

static void test_questions_match_the_model(void **state)
{
    (void)state;
    static struct given given;
    static struct model model;
    jobsched_schedule *parsed[sizeof schedules / sizeof schedules[0]];
    uint64_t seed = 42;
    int cases = 0;
    parse_all(parsed);
    while (cases < CASES) {
        if (!make_case(&given, parsed, &seed)) {
            continue;
        }
        cases++;
        bool waited = given.job.waits;
        int kind_before = given.job.ask.kind;
        list_occurrences(&model, &given);
        assert_equal(model.at_ms[0], given.job.next_ms);
        jsi_decide(&given.s, &given.job, given.now_ms);
        expect(&given, &model, waited, kind_before);
    }
    free_all(parsed);
}

/* Granting whatever is asked, until nothing is due: each occurrence is named once, in order, runs
 * stay within the limits, and the number of questions does too. */
static void test_following_the_questions_accounts_for_all(void **state)
{
    (void)state;
    static struct given given;
    static struct model model;
    jobsched_schedule *parsed[sizeof schedules / sizeof schedules[0]];
    uint64_t seed = 4711;
    int cases = 0;
    parse_all(parsed);
    while (cases < CASES) {
        if (!make_case(&given, parsed, &seed)) {
            continue;
        }
        cases++;
        jsi_job *job = &given.job;
        job->waits = false;
        list_occurrences(&model, &given);
        size_t named = 0, caught_up = 0, questions = 0;
        while (job->next_ms != JOBSCHED_NONE &&
               job->next_ms + jsi_jitter(job, job->next_ms) <= given.now_ms) {
            jsi_decide(&given.s, job, given.now_ms);
            size_t count = job->ask.kind == JOBSCHED_CLAIM_SKIP ? job->ask.skip_count : 1;
            assert_true(count > 0 && named + count <= model.count);
            named += count;
            assert_equal(job->ask.scheduled_ms, model.at_ms[named - 1]);
            caught_up += job->ask.kind == JOBSCHED_KIND_CATCH_UP;
            questions++;
            job->mark_ms = job->ask.scheduled_ms;
            job->next_ms = jobsched_schedule_next(job->schedule, job->mark_ms);
        }
        if (job->spec.jitter_ms == 0) {
            assert_equal(named, model.count);
        }
        size_t limit = job->spec.misfire == JOBSCHED_MISFIRE_ALL    ? job->spec.misfire_limit
                       : job->spec.misfire == JOBSCHED_MISFIRE_ONCE ? 1
                                                                    : 0;
        if (job->spec.jitter_ms == 0) {
            assert_at_most(caught_up, limit);
        }
        /* What is not missed is asked for one by one; what is, in one range. */
        int64_t recent_ms = given.s.settings.misfire_after_ms + job->spec.jitter_ms;
        assert_at_most(questions, limit + 3 + (size_t)(recent_ms / 1000));
    }
    free_all(parsed);
}

/* Stable for a name and an instant, below the bound, and spread over it. */
static void test_jitter(void **state)
{
    (void)state;
    jsi_job job = {.name = job_name};
    assert_equal(jsi_jitter(&job, BEGIN_MS), 0);
    job.spec.jitter_ms = 1;
    assert_equal(jsi_jitter(&job, BEGIN_MS), 0);
    job.spec.jitter_ms = 1000;
    int buckets[10] = {0};
    for (int i = 0; i < 10000; i++) {
        int64_t jitter_ms = jsi_jitter(&job, BEGIN_MS + i * INT64_C(1000));
        assert_true(jitter_ms >= 0 && jitter_ms < 1000);
        assert_equal(jitter_ms, jsi_jitter(&job, BEGIN_MS + i * INT64_C(1000)));
        buckets[jitter_ms / 100]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_true(buckets[i] > 800 && buckets[i] < 1200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions_match_the_model),
        cmocka_unit_test(test_following_the_questions_accounts_for_all),
        cmocka_unit_test(test_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
