/* load.c: the load of the cluster tests and the campaign. Locks: none, one thread. */
#include "load.h"

#include <stdlib.h>

/* Short and long, cron and intervals, on every second and beside it. Of the long ones the first
 * fits its period, the second skips most of its occurrences, the third has them wait. */
static const check_job mix[] = {
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"every", "@every 1s", 1000, 0, 1, NULL, NULL},
    {"every", "@every 1s", 1000, 0, 1, NULL, NULL},
    {"step", "*/2 * * * * *", 2000, 0, 1, NULL, NULL},
    {"three", "@every 3s", 3000, 0, 1, NULL, NULL},
    {"seven", "@every 7s from 2020-01-01T00:00:02Z", 7000, 1577836802000 % 7000, 1, NULL, NULL},
    {"range", "7-59/10 * * * * *", 10000, 7000, 5, NULL, NULL},
    {"fits", "*/5 * * * * *", 5000, 0, 2500, NULL, NULL},
    {"skips", "* * * * * *", 1000, 0, 1500, NULL, NULL},
    {"queues", "@every 2s", 2000, 0, 2500, NULL, "overlap=queue"},
    {"list", "0,15,30,45 * * * * *", 15000, 0, 1, NULL, NULL},
};

enum { MIX = sizeof mix / sizeof mix[0] };

double load_rate(size_t jobs)
{
    double rate = 0;
    for (size_t i = 0; i < jobs; i++) {
        rate += 1000.0 / (double)mix[i % MIX].period_ms;
    }
    return rate;
}

static check_job *make_jobs(size_t count, const char *setting)
{
    check_job *jobs = calloc(count, sizeof *jobs);
    assert_non_null(jobs);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = mix[i % MIX];
        if (setting != NULL) {
            jobs[i].settings = setting;
        }
        (void)snprintf(jobs[i].name, sizeof jobs[i].name, "%s-%04zu", mix[i % MIX].name, i);
    }
    return jobs;
}

/* A process that comes and goes: sometimes within a second, sometimes over its turn. It must change
 * nothing for the others. */
static void come_and_go(fleet *f, size_t turn)
{
    static const int64_t offsets_ms[] = {20000, 0, -20000, 5};
    fleet_node *guest = fleet_spawn(f, offsets_ms[turn % 4], 0);
    (void)fleet_await(guest, "ready", FLEET_SOON_MS);
    fleet_wait_until(fleet_now_ms() + (int64_t)(turn * 37 % 150));
    fleet_read_log(f);
    fleet_drain(guest);
}

void load_run(fleet *f, const load_plan *plan, check_report *out_report)
{
    static const int64_t offsets_ms[] = {-90000, 0, 90000, -30000, 30000};
    check_job *jobs = make_jobs(plan->jobs, plan->setting);
    fleet_jobs(f, jobs, plan->jobs);
    f->settings[0] = "lease=9s";
    f->settings[1] = plan->workers;
    for (size_t i = 0; i < plan->nodes; i++) {
        (void)fleet_spawn(f, offsets_ms[i % 5], FLEET_ANNOUNCED);
    }
    for (size_t i = 0; i < plan->nodes; i++) {
        (void)fleet_await(&f->nodes[i], "ready", FLEET_SOON_MS);
    }
    int64_t ready_ms = fleet_now_ms();
    for (size_t i = 0; i < plan->churn; i++) {
        come_and_go(f, i);
    }
    int64_t until_ms = ready_ms + plan->seconds * 1000;
    if (fleet_now_ms() > until_ms) {
        until_ms = fleet_now_ms(); /* the guests took longer */
    }
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    fleet_check(f, ready_ms, until_ms, out_report);
    f->job_count = 0;
    free(jobs);
}
