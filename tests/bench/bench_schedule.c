/* bench_schedule.c: nanoseconds per call of parse and next, for twelve expressions in UTC and in a zone
 * whose clocks change: the median of several repetitions, and the worst single call of next. Checks
 * on the way that next, previous, matches and the flags of an occurrence allocate nothing. */
#include "bench/bench.h"
#include "bench/peer.h"
#include "support/test_memory.h"

#include <jobsched.h>

#include <inttypes.h>
#include <string.h>

#define USAGE   "bench_schedule [REPETITIONS [CALLS]]"
#define REPEATS 1000
#define START   (INT64_C(1704067200) * 1000) /* 2024-01-01T00:00:00Z */

struct subject {
    const char *what;
    const char *text;
    const char *six; /* the same for peers that want six fields; NULL: they cannot say it */
};

static const struct subject subjects[] = {
    {"every minute", "* * * * *", "0 * * * * *"},
    {"step", "*/15 * * * *", "0 */15 * * * *"},
    {"daily", "30 2 * * *", "0 30 2 * * *"},
    {"list", "5,17,29,41,53 1,7,13,19 * * *", "0 5,17,29,41,53 1,7,13,19 * * *"},
    {"six fields", "*/10 * * * * *", "*/10 * * * * *"},
    {"day or weekday", "0 0 13 * FRI", NULL},
    {"nth weekday", "0 9 * * MON#2", NULL},
    {"last weekday", "0 18 LW * *", NULL},
    {"leap day", "0 0 29 2 *", "0 0 0 29 2 *"},
    {"rarest", "0 0 29 2 +MON", NULL},
    {"hash", "H H * * *", NULL},
    {"interval", "@every 90m", NULL},
};
#define SUBJECT_COUNT (sizeof subjects / sizeof subjects[0])

static const char *const zones[] = {"UTC", "Europe/Berlin"};

static jobsched_schedule *parse(const struct subject *subject, const char *zone,
                                const jobsched_allocator *allocator)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule;

    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.key = "backup";
    options.allocator = allocator;
    if (jobsched_schedule_parse(subject->text, &options, &schedule) != JOBSCHED_OK) {
        (void)fprintf(stderr, "'%s': %s\n", subject->text, jobsched_last_error()->message);
        exit(1);
    }
    return schedule;
}

/* Walks on and on; from the beginning again when there is nothing left. */
static double next_ns(const jobsched_schedule *schedule, long calls)
{
    int64_t at_ms = START;
    int64_t begun = bench_now_ns();

    for (long i = 0; i < calls; i++) {
        at_ms = jobsched_schedule_next(schedule, at_ms);
        at_ms = at_ms == JOBSCHED_NONE ? START : at_ms;
    }
    return (double)(bench_now_ns() - begun) / (double)calls;
}

/* Includes one reading of the clock. The least of three walks, so that what else the machine does is
 * not counted. */
static double worst_ns(const jobsched_schedule *schedule)
{
    double worst = 0;

    for (int i = 0; i < REPEATS; i++) {
        int64_t from_ms = START + i * INT64_C(86400000) * 61;
        int64_t best = INT64_MAX;

        for (int again = 0; again < 3; again++) {
            int64_t begun = bench_now_ns();
            volatile int64_t at_ms = jobsched_schedule_next(schedule, from_ms);
            int64_t spent = bench_now_ns() - begun;

            (void)at_ms;
            best = spent < best ? spent : best;
        }
        worst = (double)best > worst ? (double)best : worst;
    }
    return worst;
}

static double parse_ns(const struct subject *subject, const char *zone, long calls)
{
    int64_t begun = bench_now_ns();

    for (long i = 0; i < calls; i++) {
        jobsched_schedule_free(parse(subject, zone, NULL));
    }
    return (double)(bench_now_ns() - begun) / (double)calls;
}

static void check_memory(const struct subject *subject, const char *zone)
{
    struct test_memory memory;
    jobsched_allocator allocator;
    jobsched_schedule *schedule;
    jobsched_occurrence occurrence;
    int64_t at_ms = START, asked;

    test_memory_init(&memory);
    allocator = test_memory_allocator(&memory);
    schedule = parse(subject, zone, &allocator);
    asked = memory.asked;
    for (int i = 0; i < REPEATS && at_ms != JOBSCHED_NONE; i++) {
        at_ms = jobsched_schedule_next(schedule, at_ms);
        (void)jobsched_schedule_previous(schedule, at_ms);
        (void)jobsched_schedule_matches(schedule, at_ms);
        JOBSCHED_INIT(&occurrence);
        (void)jobsched_schedule_occurrence(schedule, at_ms, &occurrence);
    }
    if (memory.asked != asked || asked == 0) {
        (void)fprintf(stderr, "'%s' in %s: questions asked for memory %" PRId64 " times\n",
                      subject->text, zone, memory.asked - asked);
        exit(1);
    }
    jobsched_schedule_free(schedule);
    if (memory.live != 0) {
        (void)fprintf(stderr, "'%s': %" PRId64 " blocks are left\n", subject->text, memory.live);
        exit(1);
    }
}

static void measure(const struct subject *subject, const char *zone, size_t repetitions, long calls)
{
    double *parses = calloc(repetitions, sizeof *parses);
    double *nexts = calloc(repetitions, sizeof *nexts);
    jobsched_schedule *schedule = parse(subject, zone, NULL);

    if (parses == NULL || nexts == NULL) {
        exit(1);
    }
    check_memory(subject, zone);
    for (size_t i = 0; i < repetitions; i++) {
        /* Reading a zone file is most of a parse, so fewer of them are measured. */
        parses[i] = parse_ns(subject, zone, calls / 50 + 1);
        nexts[i] = next_ns(schedule, calls);
    }
    (void)printf("%-16s %-31s %-14s %9.0f %9.1f %9.0f\n", subject->what, subject->text, zone,
                 bench_median(parses, repetitions), bench_median(nexts, repetitions),
                 worst_ns(schedule));
    jobsched_schedule_free(schedule);
    free(parses);
    free(nexts);
}

#if defined(BENCH_CCRONEXPR) || defined(BENCH_CRONCPP)
static void measure_peer(const struct peer *peer, const struct subject *subject, size_t repetitions,
                         long calls)
{
    double *parses = calloc(repetitions, sizeof *parses);
    double *nexts = calloc(repetitions, sizeof *nexts);
    void *schedule = peer->parse(subject->six);

    if (parses == NULL || nexts == NULL || schedule == NULL) {
        (void)printf("%-16s %-31s %-14s refused\n", subject->what, subject->six, peer->name);
    } else {
        calls = calls / 50 + 1; /* they are slow */
        for (size_t i = 0; i < repetitions; i++) {
            int64_t begun = bench_now_ns(), at_s = START / 1000;

            for (long call = 0; call < calls; call++) {
                peer->release(peer->parse(subject->six));
            }
            parses[i] = (double)(bench_now_ns() - begun) / (double)calls;
            begun = bench_now_ns();
            for (long call = 0; call < calls; call++) {
                at_s = peer->next(schedule, at_s);
                at_s = at_s < 0 ? START / 1000 : at_s;
            }
            nexts[i] = (double)(bench_now_ns() - begun) / (double)calls;
        }
        (void)printf("%-16s %-31s %-14s %9.0f %9.1f\n", subject->what, subject->six, peer->name,
                     bench_median(parses, repetitions), bench_median(nexts, repetitions));
    }
    if (schedule != NULL) {
        peer->release(schedule);
    }
    free(parses);
    free(nexts);
}

static void measure_peers(size_t repetitions, long calls)
{
    static const struct peer *const peers[] = {
#ifdef BENCH_CCRONEXPR
        &peer_ccronexpr,
#endif
#ifdef BENCH_CRONCPP
        &peer_croncpp,
#endif
    };

    for (size_t peer = 0; peer < sizeof peers / sizeof peers[0]; peer++) {
        for (size_t i = 0; i < SUBJECT_COUNT; i++) {
            if (subjects[i].six != NULL) {
                measure_peer(peers[peer], &subjects[i], repetitions, calls);
            }
        }
    }
}
#endif

int main(int argc, char **argv)
{
    size_t repetitions = argc > 1 ? (size_t)bench_number(argv[1], 1, 10000, USAGE) : 15;
    long calls = argc > 2 ? bench_number(argv[2], 1, 100000000, USAGE) : 100000;

    (void)printf("%-16s %-31s %-14s %9s %9s %9s\n", "what", "expression", "zone", "parse ns",
                 "next ns", "worst ns");
    for (size_t zone = 0; zone < sizeof zones / sizeof zones[0]; zone++) {
        for (size_t i = 0; i < SUBJECT_COUNT; i++) {
            measure(&subjects[i], zones[zone], repetitions, calls);
        }
    }
#if defined(BENCH_CCRONEXPR) || defined(BENCH_CRONCPP)
    measure_peers(repetitions, calls);
#endif
    return 0;
}
