/* bench_fire.c: a herd: many jobs that are due at one instant, on one or several processes that share
 * a lock. Prints how late the last one started, how many requests the claims took, and what it cost
 * in processor time; fails unless each job ran exactly once (G1) and none early (G3). Where not all
 * processes are ready in time it is tried again with a longer lead. */
#include "bench/bench.h"

#include <jobsched.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define USAGE         "bench_fire URL JOBS [PROCESSES [WORKERS [LEAD_MS]]]"
#define PROCESSES_MAX 16
#define WAIT_MS       60000 /* for the last job, before it counts as lost */
#define LEAD_MAX_MS   600000

struct plan {
    const char *url;
    long jobs, processes, workers, lead_ms;
    int64_t due_ms;
    char name_space[64];
};

/* Shared by all processes. */
struct board {
    atomic_int ready, failed, stop, late;
    atomic_llong runs, early, worst_ms, sum_ms, requests, elsewhere, busy_us;
    atomic_llong runs_of[PROCESSES_MAX];
    atomic_uchar ran[]; /* by job: how often */
};

struct work {
    struct board *board;
    long node, job;
};

static int64_t wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    struct timespec span = {0, ms * 1000000};

    (void)nanosleep(&span, NULL);
}

static int64_t busy_us(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int run(jobsched_run *job, void *user_data)
{
    const struct work *work = user_data;
    struct board *board = work->board;
    long long late_ms = wall_ms() - jobsched_run_scheduled_at_ms(job);
    long long worst_ms = atomic_load(&board->worst_ms);

    (void)atomic_fetch_add(&board->ran[work->job], 1);
    (void)atomic_fetch_add(&board->runs_of[work->node], 1);
    (void)atomic_fetch_add(&board->sum_ms, late_ms);
    (void)atomic_fetch_add(&board->early, late_ms < 0);
    while (late_ms > worst_ms &&
           !atomic_compare_exchange_weak(&board->worst_ms, &worst_ms, late_ms)) {
    }
    (void)atomic_fetch_add(&board->runs, 1); /* last: who sees it sees the rest */
    return 0;
}

static int add_jobs(const struct plan *plan, jobsched *scheduler, struct work *work)
{
    time_t due = (time_t)(plan->due_ms / 1000);
    char schedule[64], name[32];
    struct tm utc;

    (void)gmtime_r(&due, &utc);
    (void)strftime(schedule, sizeof schedule, "@at %Y-%m-%dT%H:%M:%SZ", &utc);
    for (long i = 0; i < plan->jobs; i++) {
        jobsched_job_spec spec;

        (void)snprintf(name, sizeof name, "job-%06ld", i);
        JOBSCHED_INIT(&spec);
        spec.name = name;
        spec.schedule = schedule;
        spec.run = run;
        spec.user_data = &work[i];
        if (jobsched_add(scheduler, &spec, NULL) != JOBSCHED_OK) {
            return -1;
        }
    }
    return jobsched_start(scheduler) == JOBSCHED_OK ? 0 : -1;
}

static int run_node(const struct plan *plan, long node, struct board *board)
{
    struct work *work = calloc((size_t)plan->jobs, sizeof *work);
    jobsched_options options;
    jobsched *scheduler = NULL;
    jobsched_stats stats;
    int64_t begun_us;

    for (long i = 0; work != NULL && i < plan->jobs; i++) {
        work[i] = (struct work){board, node, i};
    }
    JOBSCHED_INIT(&options);
    options.lock = plan->url;
    options.name_space = plan->name_space;
    options.workers = (uint32_t)plan->workers;
    if (work == NULL || jobsched_open(&options, &scheduler) != JOBSCHED_OK ||
        add_jobs(plan, scheduler, work) != 0) {
        (void)fprintf(stderr, "process %ld: %s\n", node, jobsched_last_error()->message);
        atomic_store(&board->failed, 1);
        (void)jobsched_close(scheduler);
        free(work);
        return 1;
    }
    (void)atomic_fetch_add(&board->ready, 1);
    while (wall_ms() < plan->due_ms - 20 && !atomic_load(&board->stop)) {
        pause_ms(10);
    }
    begun_us = busy_us();
    while (!atomic_load(&board->stop)) {
        pause_ms(10);
    }
    (void)jobsched_drain(scheduler, 10000);
    (void)atomic_fetch_add(&board->busy_us, busy_us() - begun_us);
    JOBSCHED_INIT(&stats);
    (void)jobsched_stats_read(scheduler, &stats);
    (void)atomic_fetch_add(&board->requests, (long long)stats.claim_requests);
    (void)atomic_fetch_add(&board->elsewhere, (long long)stats.elsewhere);
    (void)jobsched_close(scheduler);
    free(work);
    return 0;
}

/* Until all jobs ran, and a little longer, so that one which runs twice is seen. */
static void wait_for_runs(const struct plan *plan, struct board *board)
{
    int64_t end_ms = plan->due_ms + WAIT_MS;

    while (wall_ms() < plan->due_ms) {
        pause_ms(5);
        if (wall_ms() >= plan->due_ms - 100 && atomic_load(&board->ready) < plan->processes) {
            atomic_store(&board->late, 1);
            break;
        }
    }
    while (atomic_load(&board->runs) < plan->jobs && wall_ms() < end_ms &&
           !atomic_load(&board->failed) && !atomic_load(&board->late)) {
        pause_ms(5);
    }
    for (int i = 0; i < 20; i++) {
        pause_ms(10);
    }
    atomic_store(&board->stop, 1);
}

static int judge(const struct plan *plan, struct board *board)
{
    long missing = 0, twice = 0;
    long long runs = atomic_load(&board->runs);

    for (long i = 0; i < plan->jobs; i++) {
        missing += board->ran[i] == 0;
        twice += board->ran[i] > 1;
    }
    (void)printf("%-24s %7s %9s %7s %8s %8s %8s %8s %7s  runs by process\n", "lock", "jobs",
                 "processes", "workers", "worst ms", "mean ms", "requests", "others", "cpu s");
    (void)printf("%-24.24s %7ld %9ld %7ld %8lld %8.1f %8lld %8lld %7.3f ", plan->url, plan->jobs,
                 plan->processes, plan->workers, atomic_load(&board->worst_ms),
                 runs == 0 ? 0.0 : (double)atomic_load(&board->sum_ms) / (double)runs,
                 atomic_load(&board->requests), atomic_load(&board->elsewhere),
                 (double)atomic_load(&board->busy_us) / 1e6);
    for (long node = 0; node < plan->processes; node++) {
        (void)printf(" %lld", atomic_load(&board->runs_of[node]));
    }
    (void)printf("\n");
    if (missing > 0 || twice > 0 || atomic_load(&board->early) > 0 || atomic_load(&board->failed)) {
        (void)fprintf(stderr, "%ld jobs did not run, %ld ran twice, %lld runs were early\n",
                      missing, twice, atomic_load(&board->early));
        return 1;
    }
    return 0;
}

/* 0: all is well, -1: not all processes were ready in time. */
static int run_herd(struct plan *plan)
{
    size_t bytes = sizeof(struct board) + (size_t)plan->jobs;
    struct board *board =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PROCESSES_MAX];
    int failed = 0, result;

    if (board == MAP_FAILED) {
        return 1;
    }
    /* A whole second, as schedules have no parts of one; and jobs of its own for each start. */
    plan->due_ms = (wall_ms() + plan->lead_ms + 999) / 1000 * 1000;
    (void)snprintf(plan->name_space, sizeof plan->name_space, "bench-%ld-%" PRId64, (long)getpid(),
                   plan->due_ms);
    for (long node = 0; node < plan->processes; node++) {
        children[node] = fork();
        if (children[node] == 0) {
            _exit(run_node(plan, node, board));
        }
        if (children[node] < 0) {
            atomic_store(&board->failed, 1);
        }
    }
    wait_for_runs(plan, board);
    for (long node = 0; node < plan->processes; node++) {
        int status = 1;

        if (children[node] > 0) {
            failed |= waitpid(children[node], &status, 0) != children[node] || status != 0;
        }
    }
    result = atomic_load(&board->late) ? -1 : judge(plan, board);
    (void)munmap(board, bytes);
    return failed ? 1 : result;
}

int main(int argc, char **argv)
{
    struct plan plan = {.processes = 1, .workers = 4, .lead_ms = 3000};

    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s\n", USAGE);
        return 2;
    }
    plan.url = argv[1];
    plan.jobs = bench_number(argv[2], 1, 100000, USAGE);
    plan.processes = argc > 3 ? bench_number(argv[3], 1, PROCESSES_MAX, USAGE) : 1;
    plan.workers = argc > 4 ? bench_number(argv[4], 1, 1024, USAGE) : 4;
    plan.lead_ms = argc > 5 ? bench_number(argv[5], 1000, 600000, USAGE) : 3000;
    int result = run_herd(&plan);
    while (result < 0 && plan.lead_ms <= LEAD_MAX_MS / 3) {
        plan.lead_ms *= 3;
        (void)fprintf(stderr, "not all processes were ready in time: again with a lead of %ld ms\n",
                      plan.lead_ms);
        result = run_herd(&plan);
    }
    return result != 0;
}
