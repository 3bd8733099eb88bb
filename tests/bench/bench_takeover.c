/* bench_takeover.c: how long the jobs of an owner that was killed stay held (G10): a child holds
 * JOBS runs and beats; it is killed by SIGKILL; from then on its parent asks for the next
 * occurrence of each job until it has been granted all. Prints the median and the worst of the
 * rounds, and judges none. */
#include "bench/bench.h"
#include "bench/store.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define USAGE      "bench_takeover LEASE_MS ROUNDS URL JOBS..."
#define ROUNDS_MAX 101
#define BOUND_MS   120000

static void pause_ms(long ms)
{
    struct timespec span = {ms / 1000, (ms % 1000) * 1000000};

    (void)nanosleep(&span, NULL);
}

/* Holds the jobs until it is killed, after telling so by one byte. */
static void hold(const char *url, const char *name_space, size_t count, int64_t lease_ms, int tell)
{
    store_job *jobs = calloc(count, sizeof *jobs);
    jobsched_claim *claims = calloc(count, sizeof *claims);
    store_node node;

    if (jobs == NULL || claims == NULL) {
        _exit(1);
    }
    store_open(&node, url, name_space, lease_ms);
    store_announce(&node, jobs, count);
    pause_ms(5);
    if (store_ask(&node, jobs, claims, count, JOBSCHED_BATCH_MAX) != count ||
        write(tell, "h", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        store_renew(&node, jobs, count);
        pause_ms((long)(lease_ms / 4));
    }
}

/* Milliseconds from the kill to the last grant. */
static double take_over(store_node *node, pid_t child, store_job *jobs, size_t count)
{
    jobsched_claim *claims = calloc(count, sizeof *claims);
    size_t left = count;
    int64_t begun_ns, looked_ns = 0;

    if (claims == NULL) {
        exit(1);
    }
    (void)kill(child, SIGKILL);
    begun_ns = bench_now_ns();
    while (left > 0) {
        size_t granted = store_ask(node, jobs, claims, left, JOBSCHED_BATCH_MAX);
        size_t kept = 0;

        /* Those that were granted go to the end. */
        for (size_t i = 0; granted > 0 && i < left; i++) {
            if (claims[i].answer != JOBSCHED_ANSWER_GRANTED) {
                store_job job = jobs[kept];

                jobs[kept++] = jobs[i];
                jobs[i] = job;
            }
        }
        left = granted > 0 ? kept : left;
        if (bench_now_ns() - looked_ns > 50000000) { /* as often as a busy scheduler would */
            store_renew(node, NULL, 0);
            store_reap(node);
            looked_ns = bench_now_ns();
        }
        if (bench_now_ns() - begun_ns > (int64_t)BOUND_MS * 1000000) {
            (void)fprintf(stderr, "%zu jobs are still held after %d ms\n", left, BOUND_MS);
            exit(1);
        }
        if (left > 0) {
            pause_ms(1);
        }
    }
    int64_t took_ns = bench_now_ns() - begun_ns;
    free(claims);
    return (double)took_ns / 1e6;
}

static double one_round(const char *url, size_t count, int64_t lease_ms, size_t round)
{
    store_job *jobs = calloc(count, sizeof *jobs);
    char name_space[64], byte;
    store_node node;
    int told[2];
    pid_t child;

    (void)snprintf(name_space, sizeof name_space, "bench takeover %ld %zu %zu", (long)getpid(),
                   count, round);
    if (jobs == NULL || pipe(told) != 0 || (child = fork()) < 0) {
        exit(1);
    }
    if (child == 0) {
        (void)close(told[0]);
        hold(url, name_space, count, lease_ms, told[1]);
    }
    (void)close(told[1]);
    if (read(told[0], &byte, 1) != 1) {
        (void)fprintf(stderr, "the owner did not come about\n");
        exit(1);
    }
    (void)close(told[0]);
    store_open(&node, url, name_space, lease_ms);
    store_announce(&node, jobs, count);
    store_renew(&node, NULL, 0);
    store_reap(&node);
    double took_ms = take_over(&node, child, jobs, count);
    store_finish(&node, jobs, count, JOBSCHED_BATCH_MAX);
    store_close(&node);
    (void)waitpid(child, NULL, 0);
    free(jobs);
    return took_ms;
}

int main(int argc, char **argv)
{
    static double took[ROUNDS_MAX];
    char scheme[32];

    if (argc < 5) {
        (void)fprintf(stderr, "usage: %s\n", USAGE);
        return 2;
    }
    int64_t lease_ms = bench_number(argv[1], 100, 60000, USAGE);
    size_t rounds = (size_t)bench_number(argv[2], 1, ROUNDS_MAX, USAGE);
    store_scheme(argv[3], scheme, sizeof scheme);
    for (int i = 4; i < argc; i++) {
        size_t count = (size_t)bench_number(argv[i], 1, 100000, USAGE);

        for (size_t round = 0; round < rounds; round++) {
            took[round] = one_round(argv[3], count, lease_ms, round);
        }
        double median = bench_median(took, rounds);
        (void)printf("%-11s lease %5lld ms, %4zu running jobs: median %6.0f ms, worst %6.0f ms of "
                     "%zu kills\n",
                     scheme, (long long)lease_ms, count, median, took[rounds - 1], rounds);
        (void)fflush(stdout);
    }
    return 0;
}
