/* cluster_campaign.c: the load of the cluster tests, as long as one likes.
 *   cluster_campaign [--backend NAME | --url URL] [--occurrences N] [--jobs N] [--nodes N]
 *                    [--churn N] [--nomark]
 * A backend (sqlite, postgresql, redis) is a private store; a URL is anybody's.
 * Runs until at least that many occurrences (100,000) were due, judges them, and ends with 0 only
 * if no promise was broken. --nomark: on a store that ignores the mark, to see it fail. */
#include "load.h"

#include <getopt.h>
#include <stdlib.h>

static load_plan plan = {.jobs = 400, .nodes = 3, .workers = "workers=32"};
static uint64_t occurrences = 100000;
static bool nomark;

static void test_campaign(void **state)
{
    fleet *f = *state;
    check_report report;
    if (nomark) {
        fleet_without_mark(f);
    }
    /* Of the occurrences in the first and last of the longest periods one may be outside. */
    plan.seconds = (int64_t)((double)occurrences / load_rate(plan.jobs)) + 15;
    printf("%zu jobs on %zu nodes with clocks off by up to 90 s, for %lld s\n", plan.jobs,
           plan.nodes, (long long)plan.seconds);
    (void)fflush(stdout);
    load_run(f, &plan, &report);
    if (check_faults(&report) != 0 || report.expected < occurrences) {
        fail_msg("%llu promises were broken", (unsigned long long)check_faults(&report));
    }
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value == 0) {
        (void)fprintf(stderr, "cluster_campaign: '%s' is not a number above 0\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"backend", required_argument, NULL, 'b'},
                                          {"url", required_argument, NULL, 'b'},
                                          {"occurrences", required_argument, NULL, 'o'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"nodes", required_argument, NULL, 'n'},
                                          {"churn", required_argument, NULL, 'c'},
                                          {"nomark", no_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'b':
            if (server_kind_of(optarg) < 0) {
                (void)fprintf(stderr, "cluster_campaign: no backend '%s'\n", optarg);
                return 2;
            }
            fleet_choose(optarg);
            break;
        case 'o':
            occurrences = number(optarg);
            break;
        case 'j':
            plan.jobs = number(optarg);
            break;
        case 'n':
            plan.nodes = number(optarg);
            break;
        case 'c':
            plan.churn = number(optarg);
            break;
        case 'm':
            nomark = true;
            break;
        default:
            return 2;
        }
    }
    if (plan.jobs > CHECK_JOBS_MAX || plan.nodes + plan.churn > FLEET_NODES_MAX) {
        (void)fprintf(stderr, "cluster_campaign: at most %d jobs, and %d nodes with churn\n",
                      CHECK_JOBS_MAX, FLEET_NODES_MAX);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_campaign, fleet_setup, fleet_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
