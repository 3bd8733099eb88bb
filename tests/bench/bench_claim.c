/* bench_claim.c: elections per second, one by one and in batches, side by side in one run on each
 * backend; and how many round trips and requests a fire costs, as counted where they pass. Prints
 * figures and judges none, but fails unless every claim is granted. */
#include "bench/bench.h"
#include "bench/count.h"
#include "bench/store.h"

#include <unistd.h>

#define USAGE       "bench_claim JOBS ROUNDS URL..."
#define ROUNDS_MAX  101
#define SINGLES_MAX 200 /* one by one is slow: so many stand for all */

/* What one backend is measured with. */
typedef struct subject {
    store_node node;
    store_job *jobs;
    jobsched_claim *claims;
} subject;

static void open_subject(subject *s, const char *url, const char *name_space, size_t count)
{
    s->jobs = calloc(count, sizeof *s->jobs);
    s->claims = calloc(count, sizeof *s->claims);
    if (s->jobs == NULL || s->claims == NULL) {
        exit(1);
    }
    store_open(&s->node, url, name_space, 3600000);
    store_announce(&s->node, s->jobs, count);
}

static void close_subject(subject *s)
{
    store_close(&s->node);
    free(s->jobs);
    free(s->claims);
}

/* Claims per second of one round; then the runs are ended, in such batches, too. */
static double measure(subject *s, size_t count, size_t batch)
{
    int64_t begun_ns = bench_now_ns();
    size_t granted = store_ask(&s->node, s->jobs, s->claims, count, batch);
    int64_t took_ns = bench_now_ns() - begun_ns;

    if (granted != count) {
        (void)fprintf(stderr, "only %zu of %zu claims were granted\n", granted, count);
        exit(1);
    }
    store_finish(&s->node, s->jobs, count, batch);
    return (double)count * 1e9 / (double)(took_ns > 0 ? took_ns : 1);
}

/* What a fire costs, counted: apart from the rounds that are timed, which nothing reads along. */
typedef struct cost {
    double trips, requests;
} cost;

static cost count_round(subject *s, size_t count, size_t batch)
{
    count_totals before = count_read();
    (void)measure(s, count, batch);
    count_totals after = count_read();

    return (cost){(double)(after.trips - before.trips) / (double)count,
                  (double)(after.requests - before.requests) / (double)count};
}

static void count_costs(const char *url, const char *name_space, size_t count, size_t singles,
                        cost *out_alone, cost *out_together)
{
    char counted[COUNT_URL_BYTES], other[80];
    subject s;

    (void)snprintf(other, sizeof other, "%s, counted", name_space);
    count_begin(url, counted);
    open_subject(&s, counted, other, count);
    (void)usleep(5000);
    (void)measure(&s, count, JOBSCHED_BATCH_MAX); /* what is done once per connection is done */
    *out_alone = count_round(&s, singles, 1);
    *out_together = count_round(&s, count, JOBSCHED_BATCH_MAX);
    close_subject(&s);
    count_end();
}

static void bench(const char *url, size_t count, size_t rounds)
{
    static double alone[ROUNDS_MAX], together[ROUNDS_MAX];
    size_t singles = count < SINGLES_MAX ? count : SINGLES_MAX;
    char scheme[32], name_space[64];
    subject s;
    cost one, many;

    (void)snprintf(name_space, sizeof name_space, "bench claim %ld", (long)getpid());
    store_scheme(url, scheme, sizeof scheme);
    open_subject(&s, url, name_space, count);
    /* Occurrences are a millisecond apart, and all that are claimed must be due. */
    (void)usleep((useconds_t)(2 * rounds + 3) * 1000);
    (void)measure(&s, count, JOBSCHED_BATCH_MAX); /* warms up */
    for (size_t i = 0; i < rounds; i++) {
        alone[i] = measure(&s, singles, 1);
        together[i] = measure(&s, count, JOBSCHED_BATCH_MAX);
    }
    close_subject(&s);
    count_costs(url, name_space, count, singles, &one, &many);
    double alone_median = bench_median(alone, rounds);
    double together_median = bench_median(together, rounds);
    (void)printf("%-11s %9.0f %9.0f %8.1f %9.3f %9.4f %9.3f %9.4f\n", scheme, alone_median,
                 together_median, together_median / alone_median, one.trips, many.trips,
                 one.requests, many.requests);
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
    (void)printf("%-11s %9s %9s %8s %19s %19s\n", "", "claims", "claims", "", "round trips",
                 "requests");
    (void)printf("%-11s %9s %9s %8s %9s %9s %9s %9s\n", "backend", "1 by 1/s", "batched/s", "ratio",
                 "1 by 1", "batched", "1 by 1", "batched");
    for (int i = 3; i < argc; i++) {
        bench(argv[i], count, rounds);
    }
    return 0;
}
