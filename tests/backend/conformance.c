/* conformance.c: the list of the conformance tests, chosen by what the driver can do. */
#include "cf_support.h"

#include <stdio.h>
#include <stdlib.h>

#define TESTS_MAX 200

static const struct cf_test *const groups[] = {
    cf_open_tests,    cf_announce_tests, cf_replace_tests, cf_claim_tests,
    cf_held_tests,    cf_delay_tests,    cf_run_tests,     cf_control_tests,
    cf_trigger_tests, cf_ledger_tests,   cf_names_tests,   cf_list_tests,
    cf_dead_tests,    cf_durable_tests,  cf_race_tests,    cf_memory_tests,
};

/* The initial state of every test is the subject; cf_setup() replaces it by a world. */
static int set_up(void **state)
{
    return cf_setup(state, *state);
}

int jobsched_conformance_run(const jobsched_conformance_subject *subject)
{
    struct CMUnitTest tests[TESTS_MAX];
    size_t count = 0, left_out = 0;
    uint32_t capabilities = subject->driver->capabilities;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct cf_test *test = groups[g]; test->name != NULL; test++) {
            if ((test->needs & ~capabilities) != 0) {
                left_out++;
                continue;
            }
            if (count == TESTS_MAX) {
                (void)fprintf(stderr, "more than %d tests\n", TESTS_MAX);
                return 1;
            }
            tests[count++] = (struct CMUnitTest){.name = test->name,
                                                 .test_func = test->run,
                                                 .setup_func = set_up,
                                                 .teardown_func = cf_teardown,
                                                 .initial_state = (void *)(uintptr_t)subject};
        }
    }
    (void)printf("%zu tests for capabilities %u; %zu more do not apply\n", count,
                 (unsigned)capabilities, left_out);
    (void)fflush(stdout); /* children must not print it again */
    if (subject->filter != NULL) {
        cmocka_set_test_filter(subject->filter);
    }
    return _cmocka_run_group_tests(subject->driver->scheme, tests, count, NULL, NULL);
}
