/* Jobs in time zones, with choices for DST, and with calendars (G9, G12, G14): through the engine, over
 * single:, with the zone files that the tests carry. */
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DAY_MS INT64_C(86400000)

/* 2027-03-14, when New York's clocks jump from 02:00 to 03:00, which is 07:00Z. */
#define JUMP_MS INT64_C(1805007600000)

static void begin(struct world *world, const char *directory)
{
    world_init(world, "single:");
    world->options.zone_directory = directory;
    world_open(world);
    world_start(world);
}

static jobsched_job_spec spec_of(struct world *world, struct world_job *job, const char *name,
                                 const char *schedule)
{
    jobsched_job_spec spec = world_spec(world, job, name, schedule);
    spec.timezone = "America/New_York";
    return spec;
}

static bool fired_at(const struct world *world, const char *name, int64_t at_ms)
{
    for (size_t i = 0; i < world->call_count; i++) {
        if (strcmp(world->calls[i].job->name, name) == 0 && world->calls[i].scheduled_ms == at_ms) {
            return true;
        }
    }
    return false;
}

/* G12: a job at 02:30 fires once on each of 90 days, on the day of the jump at its end; one that
 * was told to skip the gap does not fire on that day. */
static void test_daily_jobs_cross_the_jump(void **state)
{
    (void)state;
    struct world world;
    struct world_job after = {0}, skips = {0};
    begin(&world, TEST_DATA "/zoneinfo-slim");
    jobsched_job_spec spec = spec_of(&world, &after, "after", "30 2 * * *");
    world_add(&world, &spec);
    spec = spec_of(&world, &skips, "skips", "30 2 * * *");
    spec.dst_gap = JOBSCHED_DST_GAP_SKIP;
    world_add(&world, &spec);
    (void)world_settle(&world);
    world_run(&world, 90 * DAY_MS);
    assert_equal(after.calls, 90);
    assert_equal(skips.calls, 89);
    assert_true(fired_at(&world, "after", JUMP_MS));
    assert_false(fired_at(&world, "skips", JUMP_MS));
    world_close(&world);
}

/* A calendar takes days out; they are no occurrences, so nothing of them is in the ledger. */
static void test_calendar_excludes_days(void **state)
{
    (void)state;
    struct world world;
    struct world_job job = {0};
    jobsched_calendar *calendar;
    assert_equal(jobsched_calendar_parse("exclude SAT,SUN; exclude 2027-01-20", NULL, &calendar),
                 0);
    begin(&world, TEST_DATA "/zoneinfo-slim");
    jobsched_job_spec spec = spec_of(&world, &job, "workdays", "0 12 * * *");
    const jobsched_calendar *const calendars[] = {calendar, NULL};
    spec.calendars = calendars;
    world_add(&world, &spec);
    jobsched_calendar_free(calendar); /* the job keeps it */
    (void)world_settle(&world);
    world_run(&world, 14 * DAY_MS); /* from a Friday: ten working days, less one */
    assert_equal(job.calls, 9);
    struct world_ledger ledger = world_ledger_read(&world, "workdays");
    assert_equal(ledger.count, 9);
    world_ledger_free(&ledger);
    world_close(&world);
}

static void copy_file(const char *from, const char *to)
{
    char command[1024];
    (void)snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && cp '%s' '%s'", to,
                   from, to);
    assert_equal(system(command), 0);
}

/* New zone data: a job goes on by it after a reload, and only then; one whose zone has vanished
 * keeps what it has, and the error says so. */
static void test_reload_takes_new_data(void **state)
{
    (void)state;
    char directory[] = "/tmp/jobsched-zones-XXXXXX";
    char zone[64], command[96];
    assert_non_null(mkdtemp(directory));
    (void)snprintf(zone, sizeof zone, "%s/America/New_York", directory);
    copy_file(TEST_DATA "/zoneinfo-slim/America/New_York", zone);
    struct world world;
    struct world_job job = {0};
    begin(&world, directory);
    jobsched_job_spec spec = spec_of(&world, &job, "noon", "0 12 * * *");
    world_add(&world, &spec);
    (void)world_settle(&world);
    int64_t next_ms;
    assert_equal(jobsched_next_run(world.s, "noon", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 9 * 3600000); /* 17:00Z */
    copy_file(TEST_DATA "/zoneinfo-slim/Europe/Berlin", zone);
    (void)world_settle(&world);
    assert_equal(jobsched_next_run(world.s, "noon", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 9 * 3600000);
    assert_equal(jobsched_zones_reload(world.s), 0);
    assert_equal(jobsched_next_run(world.s, "noon", &next_ms), 0);
    assert_equal(next_ms, WORLD_BEGIN_MS + 3 * 3600000); /* 11:00Z */
    world_run(&world, 4 * 3600000);
    assert_equal(job.calls, 1);

    FILE *damaged = fopen(zone, "w");
    assert_non_null(damaged);
    assert_equal(fclose(damaged), 0);
    assert_equal(jobsched_zones_reload(world.s), JOBSCHED_EPARSE);
    assert_non_null(strstr(jobsched_last_error()->message, "America/New_York"));
    world_run(&world, DAY_MS);
    assert_equal(job.calls, 2);
    world_close(&world);
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_equal(system(command), 0);
}

/* G14: the zone, the DST choice and the calendar are part of what a job is: none is changed by
 * somebody who registers it with others without all nodes following. */
static void test_choices_are_part_of_the_definition(void **state)
{
    (void)state;
    jobsched_calendar *one, *other;
    assert_equal(jobsched_calendar_parse("exclude SAT", NULL, &one), 0);
    assert_equal(jobsched_calendar_parse("exclude SUN", NULL, &other), 0);
    const jobsched_calendar *const with_one[] = {one, NULL};
    const jobsched_calendar *const with_other[] = {other, NULL};
    struct world world;
    struct world_job job = {0};
    begin(&world, TEST_DATA "/zoneinfo-slim");
    const char *definitions[5];
    jsi_job *jobs[5];
    for (int i = 0; i < 5; i++) {
        jobsched_job_spec spec = spec_of(&world, &job, "job", "0 12 * * *");
        spec.timezone = i == 1 ? "Europe/Berlin" : spec.timezone;
        spec.dst_gap = i == 2 ? JOBSCHED_DST_GAP_SKIP : JOBSCHED_DST_GAP_DEFAULT;
        spec.calendars = i == 3 ? with_one : i == 4 ? with_other : NULL;
        spec.user_data_free = NULL;
        assert_equal(jsi_job_new(world.s, &spec, &jobs[i]), 0);
        definitions[i] = jobs[i]->definition;
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(definitions[i], definitions[j]);
        }
    }
    for (int i = 0; i < 5; i++) {
        jsi_job_release(world.s, jobs[i]);
    }
    jobsched_calendar_free(one);
    jobsched_calendar_free(other);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daily_jobs_cross_the_jump),
        cmocka_unit_test(test_calendar_excludes_days),
        cmocka_unit_test(test_reload_takes_new_data),
        cmocka_unit_test(test_choices_are_part_of_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
