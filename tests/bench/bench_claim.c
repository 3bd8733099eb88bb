/* bench_claim.c: elections per second, one by one and in batches, side by side in one run on each
 * backend; and how many calls of the backend a fire costs. Prints figures and judges none, but
 * fails unless every claim is granted. */
#include "bench/bench.h"
#include "bench/store.h"

#include <unistd.h>

#define USAGE       "bench_claim JOBS ROUNDS URL..."
#define ROUNDS_MAX  101
#define SINGLES_MAX 200 /* one by one is slow: so many stand for all */

/* Claims per second of one round; then the runs are ended. */
static double measure(store_node *node, store_job *jobs, jobsched_claim *claims, size_t count,
                      size_t batch)
{
    int64_t begun_ns = bench_now_ns();
    size_t granted = store_ask(node, jobs, claims, count, batch);
    int64_t took_ns = bench_now_ns() - begun_ns;

    if (granted != count) {
        (void)fprintf(stderr, "only %zu of %zu claims were granted\n", granted, count);
        exit(1);
    }
    store_finish(node, jobs, count, JOBSCHED_BATCH_MAX);
    return (double)count * 1e9 / (double)(took_ns > 0 ? took_ns : 1);
}

static void bench(const char *url, size_t count, size_t rounds)
{
    static double alone[ROUNDS_MAX], together[ROUNDS_MAX];
    store_job *jobs = calloc(count, sizeof *jobs);
    jobsched_claim *claims = calloc(count, sizeof *claims);
    size_t singles = count < SINGLES_MAX ? count : SINGLES_MAX;
    char scheme[32], name_space[64];
    store_node node;

    if (jobs == NULL || claims == NULL) {
        exit(1);
    }
    (void)snprintf(name_space, sizeof name_space, "bench claim %ld", (long)getpid());
    store_scheme(url, scheme, sizeof scheme);
    store_open(&node, url, name_space, 3600000);
    store_announce(&node, jobs, count);
    /* Occurrences are a millisecond apart, and all that are claimed must be due. */
    (void)usleep((useconds_t)(2 * rounds + 3) * 1000);
    (void)measure(&node, jobs, claims, count, JOBSCHED_BATCH_MAX); /* warms up */
    for (size_t i = 0; i < rounds; i++) {
        alone[i] = measure(&node, jobs, claims, singles, 1);
        together[i] = measure(&node, jobs, claims, count, JOBSCHED_BATCH_MAX);
    }
    double alone_median = bench_median(alone, rounds);
    double together_median = bench_median(together, rounds);
    size_t calls = 2 * ((count + JOBSCHED_BATCH_MAX - 1) / JOBSCHED_BATCH_MAX);
    (void)printf("%-11s %9.0f %9.0f %8.1f %12.0f %12.3f\n", scheme, alone_median, together_median,
                 together_median / alone_median, 2.0, (double)calls / (double)count);
    store_close(&node);
    free(jobs);
    free(claims);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: %s\n", USAGE);
        return 2;
    }
    size_t count = (size_t)bench_number(argv[1], 1, 100000, USAGE);
    size_t rounds = (size_t)bench_number(argv[2], 1, ROUNDS_MAX, USAGE);
    (void)printf("%zu jobs, median of %zu rounds; a fire is a claim and a finish\n", count, rounds);
    (void)printf("%-11s %9s %9s %8s %12s %12s\n", "backend", "1 by 1/s", "batched/s", "ratio",
                 "calls/fire 1", "batched");
    for (int i = 3; i < argc; i++) {
        bench(argv[i], count, rounds);
    }
    return 0;
}
