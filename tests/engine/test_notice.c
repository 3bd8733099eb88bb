/* What a backend tells people besides its answers (issue 4: classes with stable ids, rate-limited). */
#include "support/world.h"

#include <stdio.h>

/* What a backend tells that is no failure: the kind is its own, since alarms go by it; of each kind a
 * few a minute are told, none untold for good, and no flood of one drowns another. */
static void test_notices_are_told_by_kind_and_in_measure(void **state)
{
    (void)state;
    static const struct {
        int kind, level;
        const char *id;
    } kinds[] = {{45, JOBSCHED_LEVEL_INFO, "backend.notice"},
                 {48, JOBSCHED_LEVEL_WARNING, "backend.warning"},
                 {47, JOBSCHED_LEVEL_ERROR, "backend.may-have-lost"},
                 {44, JOBSCHED_LEVEL_WARNING, "single.not-alone"}};
    enum { KINDS = sizeof kinds / sizeof kinds[0], FLOOD = 1000 };
    struct world world;
    struct world_job job = {0};
    world_begin(&world, "fake:");
    jobsched_job_spec spec = world_spec(&world, &job, "job", "@every 1s");
    world_add(&world, &spec);
    (void)world_settle(&world);
    const jobsched_backend_config *config = &world.s->config;
    for (size_t i = 0; i < KINDS; i++) {
        for (int n = 0; n < FLOOD; n++) {
            config->notice(config->notice_data, kinds[i].kind, "so it is");
        }
        world_run(&world, 1000);
        const struct event_copy *told = event_log_find(&world.events, kinds[i].kind, 0);
        assert_non_null(told);
        assert_equal(told->event.level, kinds[i].level);
        assert_string_equal(jobsched_event_name(told->event.kind), kinds[i].id);
        assert_string_equal(told->message, "so it is");
        assert_equal(event_log_count(&world.events, kinds[i].kind, NULL), JSI_NOTICES_TOLD_MAX);
    }
    world_run(&world, JSI_FAILURES_TOLD_SPAN_MS);
    config->notice(config->notice_data, JOBSCHED_EVENT_BACKEND_NOTICE, "and now");
    config->notice(config->notice_data, JOBSCHED_EVENT_BACKEND_FULL, "of no kind that it may be");
    world_run(&world, 1000);
    assert_equal(event_log_count(&world.events, 45, NULL), JSI_NOTICES_TOLD_MAX + 2);
    const struct event_copy *late = event_log_find(&world.events, 45, JSI_NOTICES_TOLD_MAX);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "and now (%d others were not told)",
                   FLOOD - JSI_NOTICES_TOLD_MAX);
    assert_string_equal(late->message, expected);
    late = event_log_find(&world.events, 45, JSI_NOTICES_TOLD_MAX + 1);
    assert_string_equal(late->message, "of no kind that it may be");
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notices_are_told_by_kind_and_in_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
