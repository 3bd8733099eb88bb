/* old_build.c: see the header. */
#include "support/old_build.h"

#include "schedule/schedule.h"

#include <stdio.h>

jobsched_job_spec old_build_begin(struct world *world, struct world_job *job, const char *schedule)
{
    *job = (struct world_job){.calls = 0};
    world_init(world, "fake:");
    world_open(world);
    return world_spec(world, job, "job", schedule);
}

void old_build_start(struct world *world, const jobsched_job_spec *spec)
{
    world_start(world);
    world_add(world, spec);
    (void)world_settle(world);
}

const jsi_job *old_build_job(struct world *world)
{
    return jsi_map_find(&world->s->jobs, "job");
}

void old_build_text(struct world *world, const jobsched_job_spec *spec,
                    char out_text[JOBSCHED_DEFINITION_BYTES + 1])
{
    jobsched_job_spec copy = *spec;
    copy.user_data_free = NULL;
    jsi_job *job = NULL;
    assert_equal(jsi_job_new(world->s, &copy, &job), 0);
    (void)snprintf(out_text, JOBSCHED_DEFINITION_BYTES + 1, "%s", job->definition);
    jsi_job_release(world->s, job);
}

jobsched_announcement old_build_announce(struct world *world, const char *text, uint64_t version)
{
    jobsched_announcement item = {.job = "job", .definition = text, .version = version};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->announce(world->fake.inner, &call, &item, 1), 0);
    assert_equal(item.in_force, 1);
    return item;
}

jobsched_announcement old_build_put(struct world *world, const jobsched_job_spec *spec)
{
    char text[JOBSCHED_DEFINITION_BYTES + 1];
    old_build_text(world, spec, text);
    return old_build_announce(world, text, spec->version);
}

void old_build_skip(struct world *world, uint64_t generation, int64_t after_ms,
                    int64_t scheduled_ms)
{
    jobsched_claim claim = {.job = "job",
                            .generation = generation,
                            .after_ms = after_ms,
                            .scheduled_ms = scheduled_ms,
                            .skip_first_ms = scheduled_ms,
                            .skip_count = 1,
                            .skip_outcome = JOBSCHED_OUTCOME_SKIPPED_MISFIRE,
                            .kind = JOBSCHED_CLAIM_SKIP};
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = 1000};
    assert_equal(jobsched_backend_single()->claim(world->fake.inner, &call, &claim, 1), 0);
    assert_equal(claim.answer, JOBSCHED_ANSWER_GRANTED);
}

void old_build_check(struct world *world, const char *old_schedule, const char *new_schedule,
                     int64_t cut_ms)
{
    jobsched_schedule *before = NULL, *after = NULL;
    assert_equal(jobsched_schedule_parse(old_schedule, NULL, &before), 0);
    assert_equal(jobsched_schedule_parse(new_schedule, NULL, &after), 0);
    struct world_ledger ledger = world_ledger_read(world, "job");
    int64_t mark_ms = WORLD_BEGIN_MS;
    bool cut = false;
    for (size_t i = 0; i < ledger.count; i++) {
        const jobsched_run_record *row = &ledger.rows[i];
        if (!cut && jobsched_schedule_next(before, mark_ms) > cut_ms) {
            cut = true;
            mark_ms = cut_ms;
        }
        const jobsched_schedule *schedule = cut ? after : before;
        int64_t last_ms = 0;
        assert_equal(row->scheduled_at_ms, jobsched_schedule_next(schedule, mark_ms));
        assert_equal(jsi_schedule_count(schedule, mark_ms, row->last_at_ms, INT64_MAX, &last_ms),
                     row->count);
        assert_equal(last_ms, row->last_at_ms);
        mark_ms = row->last_at_ms;
    }
    if (!cut) {
        assert_true(jobsched_schedule_next(before, mark_ms) > cut_ms);
        mark_ms = cut_ms;
    }
    assert_true(jobsched_schedule_next(after, mark_ms) > world_now(world));
    world_ledger_free(&ledger);
    jobsched_schedule_free(before);
    jobsched_schedule_free(after);
}
