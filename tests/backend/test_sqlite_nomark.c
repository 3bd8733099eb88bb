/* test_sqlite_nomark.c: the election can be seen to fail. The same sequence is put to the backend
 * and to a build of it whose mark comparison is switched off; nothing else in it may save it. */
#include "sqlite_support.h"

/* G1: with the mark an occurrence is granted once; without it, each node that asks gets it. */
static void test_mark_is_what_elects(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *nodes[2] = {cf_open(world, "a"), cf_open(world, "b")};
    struct cf_job job = cf_job(nodes[0], "job", 1);
    int grants = 0;
    for (int i = 0; i < 2; i++) {
        jobsched_claim claim = cf_at(&job, 1);
        cf_ask(nodes[i], &claim);
        if (claim.answer == JOBSCHED_ANSWER_GRANTED) {
            grants++;
            cf_equal(claim.token, grants);
            cf_equal(cf_finish(nodes[i], "job", claim.token, JOBSCHED_OUTCOME_SUCCEEDED),
                     JOBSCHED_LEASE_KEPT);
        }
    }
#ifdef JOBSCHED_TEST_NO_MARK
    cf_equal(grants, 2);
#else
    cf_equal(grants, 1);
#endif
    cf_equal(sqlite_ask("SELECT count(*) FROM run WHERE outcome = 2"), grants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mark_is_what_elects, sqlite_set_up, sqlite_tear_down),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
