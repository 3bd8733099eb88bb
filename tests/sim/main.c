/* main.c: the simulator's command line. */
#include "sim/options.h"
#include "sim/shrink.h"
#include "sim/world.h"

#include "base/mutant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct totals {
    uint64_t seeds, failed, runs, skips, occurrences, requests;
    uint64_t injected[SIM_TROUBLES];
    double node_years, cpu_s;
};

static double cpu_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add(struct totals *totals, const struct sim_world *world)
{
    totals->seeds++;
    totals->failed += world->violations > 0;
    totals->runs += world->runs;
    totals->skips += world->skips;
    totals->occurrences += world->occurrences;
    totals->requests += world->requests;
    for (int i = 0; i < SIM_TROUBLES; i++) {
        totals->injected[i] += world->injected[i];
    }
    totals->node_years +=
        (double)(world->now_ms - SIM_BEGIN_MS) * world->config.nodes / (365.0 * 86400000);
}

static void print_totals(const struct totals *totals)
{
    static const char *const names[] = {
#define NAME_OF(name, text) text,
        SIM_TROUBLE_MAP(NAME_OF)
#undef NAME_OF
    };
    printf("%" PRIu64 " seeds, %.1f node-years, %" PRIu64 " occurrences (%" PRIu64
           " skipped), %" PRIu64 " runs, %" PRIu64 " requests, %.1f s of CPU\n",
           totals->seeds, totals->node_years, totals->occurrences, totals->skips, totals->runs,
           totals->requests, totals->cpu_s);
    printf("trouble:");
    for (int i = 0; i < SIM_TROUBLES; i++) {
        printf(" %s %" PRIu64, names[i], totals->injected[i]);
    }
    printf("\n%" PRIu64 " seeds with a violation\n", totals->failed);
}

static void run_one(const struct sim_options *options, const char *program, uint64_t seed,
                    struct totals *totals)
{
    struct sim_config config = options->config;
    config.seed = seed;
    config.trace = options->trace ? stdout : NULL;
    struct sim_world *world = malloc(sizeof *world);
    if (world == NULL) {
        abort();
    }
    sim_world_init(world, &config);
    sim_world_run(world);
    add(totals, world);
    if (options->verbose || world->violations > 0) {
        printf("seed %" PRIu64 " trace %016" PRIx64 " runs %" PRIu64 " requests %" PRIu64 "%s%s\n",
               seed, world->hash, world->runs, world->requests, world->violations > 0 ? ": " : "",
               world->violation);
    }
    bool failed = world->violations > 0;
    sim_world_fini(world);
    free(world);
    if (failed) {
        struct sim_shrunk smaller = sim_shrink(&config, options->shrinks);
        printf("replay: %s --seed %" PRIu64, program, seed);
        sim_options_print(options, &smaller.config, stdout);
        printf("%s\n", options->shrinks ? "" : "   (add --shrink for a smaller one)");
        if (options->shrinks) {
            printf("shrunk in %d tries: %s\n", smaller.tries, smaller.violation);
        }
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sim_options options;
    if (!sim_options_parse(&options, argc, argv)) {
        return 2;
    }
    /* With deliberate faults it is another program, and only that one replays them. */
    const char *slash = strrchr(argv[0], '/');
    const char *program = slash == NULL ? argv[0] : slash + 1;
    struct totals totals;
    memset(&totals, 0, sizeof totals);
    for (uint64_t seed = options.first_seed; seed <= options.last_seed; seed++) {
        run_one(&options, program, seed, &totals);
        totals.cpu_s = cpu_s();
        if (totals.failed > 0 && options.stops) {
            break;
        }
    }
    print_totals(&totals);
    return totals.failed > 0 ? 1 : 0;
}
