/* races.c: pause against fire, as often as one likes (G6).
 *   races [--backend sqlite|postgresql|redis] [--count N] [--seed N]
 * Three nodes with wrong clocks fire many jobs at every second; around that instant each job is
 * paused, at a random moment. From the answer to "pause" to the question "resume" no run may begin
 * under a larger token than the one that pause told. What is paused is paused for all: in the
 * ledger the occurrence is skipped-paused, or it began before. Locks: none, one thread. */
#include "fleet.h"

#include <getopt.h>
#include <stdlib.h>
#include <time.h>

/* MORE_MAX: seconds more on a machine where the pauses or the runs are first each time. */
enum { JOBS = 100, NODES = 3, BEFORE_MS = 150, MORE_MAX = 30 };

static uint64_t races = 300;
static uint64_t seed = 1;

typedef struct interval {
    int32_t job;
    uint64_t token;
    int64_t due_ms, from_us, to_us;
} interval;

static check_job jobs[JOBS];

static uint64_t draw(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static jobsched *open_control(fleet *f)
{
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = f->server.url;
    options.name_space = f->name_space;
    options.control_only = 1;
    options.history_count = FLEET_HISTORY;
    fleet_be_patient(&options);
    jobsched *control = NULL;
    assert_int_equal(jobsched_open(&options, &control), 0);
    return control;
}

/* One second: all jobs in random order, from a little before the instant on. */
static void race(jobsched *control, interval *out)
{
    int32_t order[JOBS];
    for (int32_t i = 0; i < JOBS; i++) {
        int32_t j = (int32_t)draw((uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    int64_t due_ms = (fleet_now_ms() / 1000 + 1) * 1000;
    if (due_ms - fleet_now_ms() < BEFORE_MS) {
        due_ms += 1000;
    }
    fleet_wait_until(due_ms - (int64_t)draw(BEFORE_MS));
    for (size_t i = 0; i < JOBS; i++) {
        jobsched_control_result result;
        JOBSCHED_INIT(&result);
        int code = jobsched_pause(control, jobs[order[i]].name, &result);
        if (code != 0) {
            fail_msg("pause: %s", jobsched_last_error()->message);
        }
        out[i] = (interval){order[i], result.token, due_ms, now_us(), 0};
    }
    /* Whoever was about to fire has done so by then. */
    fleet_wait_until(due_ms + 200 + (int64_t)draw(200));
    for (size_t i = 0; i < JOBS; i++) {
        out[i].to_us = now_us();
        if (jobsched_resume(control, jobs[out[i].job].name, NULL) != 0) {
            fail_msg("resume: %s", jobsched_last_error()->message);
        }
    }
}

static int by_job_and_time(const void *left, const void *right)
{
    const interval *one = left;
    const interval *other = right;
    return one->job != other->job
               ? one->job - other->job
               : (one->from_us > other->from_us) - (one->from_us < other->from_us);
}

static size_t job_of(const record *entry)
{
    return (size_t)strtoul(entry->job + strlen("raced-"), NULL, 10);
}

/* The runs of the very instant that had begun, or were granted, when the pause came. */
static uint64_t count_before(const fleet *f, const interval *all, size_t count)
{
    uint64_t before = 0;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        for (size_t j = 0; j < count && entry->what == RECORD_START; j++) {
            before += entry->scheduled_ms == all[j].due_ms && job_of(entry) == (size_t)all[j].job &&
                      entry->token <= all[j].token;
        }
    }
    return before;
}

/* Counts the runs that a pause did not hold back. */
static uint64_t judge(const fleet *f, interval *all, size_t count)
{
    uint64_t wrong = 0;
    qsort(all, count, sizeof *all, by_job_and_time);
    size_t per_job = count / JOBS;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what != RECORD_START) {
            continue;
        }
        size_t job = job_of(entry);
        for (size_t j = job * per_job; j < (job + 1) * per_job; j++) {
            const interval *one = &all[j];
            if (entry->at_us > one->from_us && entry->at_us < one->to_us &&
                entry->token > one->token && wrong++ < 10) {
                printf("  %s began %lld us after it was paused, token %llu, paused at %llu\n",
                       entry->job, (long long)(entry->at_us - one->from_us),
                       (unsigned long long)entry->token, (unsigned long long)one->token);
            }
        }
    }
    return wrong;
}

static void test_pause_against_fire(void **state)
{
    fleet *f = *state;
    static const int64_t offsets_ms[NODES] = {-90000, 0, 90000};
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = (check_job){"", "* * * * * *", 1000, 0, 1, NULL, NULL};
        (void)snprintf(jobs[i].name, sizeof jobs[i].name, "raced-%02zu", i);
    }
    fleet_jobs(f, jobs, JOBS);
    f->settings[0] = "lease=9s";
    f->settings[1] = "workers=16";
    for (size_t i = 0; i < NODES; i++) {
        (void)fleet_start(f, offsets_ms[i]);
    }
    int64_t ready_ms = fleet_now_ms();
    jobsched *control = open_control(f);
    size_t wanted = (size_t)(races + JOBS - 1) / JOBS;
    size_t seconds = 0;
    uint64_t before = 0;
    interval *all = calloc((wanted + MORE_MAX) * JOBS, sizeof *all);
    assert_non_null(all);
    while (seconds < wanted ||
           ((before == 0 || before == seconds * JOBS) && seconds < wanted + MORE_MAX)) {
        race(control, all + seconds * JOBS);
        seconds++;
        fleet_read_log(f);
        before = count_before(f, all, seconds * JOBS);
    }
    assert_int_equal(jobsched_close(control), 0);
    int64_t until_ms = fleet_now_ms() + 1000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    fleet_read_log(f);
    before = count_before(f, all, seconds * JOBS);
    uint64_t wrong = judge(f, all, seconds * JOBS);
    printf(
        "%zu races: %llu runs were granted before the pause, %zu were held back, %llu broke it\n",
        seconds * JOBS, (unsigned long long)before, seconds * JOBS - (size_t)before,
        (unsigned long long)wrong);
    free(all);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(wrong, 0);
    assert_true(report.outcomes[JOBSCHED_OUTCOME_SKIPPED_PAUSED] > 0);
    /* They were races. */
    assert_true(before > 0 && before < seconds * JOBS);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"backend", required_argument, NULL, 'b'},
                                          {"count", required_argument, NULL, 'c'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {NULL, 0, NULL, 0}};
    const char *backend = "sqlite";
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'b':
            backend = optarg;
            break;
        case 'c':
            races = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            seed = strtoull(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pause_against_fire, fleet_setup, fleet_teardown)};
    char *arguments[] = {argv[0], (char *)(uintptr_t) "*", (char *)(uintptr_t)backend};
    return races == 0 ? 2 : fleet_main(3, arguments, tests, 1);
}
