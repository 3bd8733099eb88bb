/* campaign.c: real processes on a real server, attacked at random for as long as one likes.
 *   campaign [--backend sqlite|postgresql|redis] [--minutes M | --seconds S] [--seed N]
 *            [--kills N | --cuts N | --sessions N | --restarts N | --rollouts N] [--nomark]
 * Nodes are killed, frozen, replaced and rolled out; their ways to the server are cut, swallowed and
 * slowed; the server is killed, frozen and loses its sessions; jobs are paused, triggered and
 * cancelled. Then everything is healed, and judged by what the callbacks wrote and by the ledger,
 * against schedules that check.c and rollout_judge.c compute by themselves. Ends with 0 only if no
 * promise was broken. --kills and so on: nothing else, so often: kill -9 of a node in the midst of a
 * run; a link that is cut; all sessions ended by the server; the server killed and started; a changed
 * schedule, in one direction or back, while some of the old processes crash, or all. --nomark: on a
 * store that ignores the mark, to see it fail. Locks: none, one thread. */
#include "campaign.h"

#include <getopt.h>
#include <stdlib.h>

static int64_t seconds = 120;
static uint64_t seed;
static bool nomark;
static int only = -1;
static uint64_t wanted; /* of that */

/* ---- the jobs --------------------------------------------------------------------- */

static const check_job mix[] = {
    {"second", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"second", "* * * * * *", 1000, 0, 1, NULL, "recover=rerun"},
    {"second", "* * * * * *", 1000, 0, 1, NULL, "misfire=all"},
    {"second", "* * * * * *", 1000, 0, 20, NULL, "misfire=skip"},
    {"every", "@every 1s", 1000, 0, 1, NULL, "misfire=all"},
    {"three", "@every 3s", 3000, 0, 1, NULL, "misfire=skip"},
    {"step", "*/2 * * * * *", 2000, 0, 1, NULL, "recover=rerun"},
    {"long", "*/5 * * * * *", 5000, 0, 3500, "alive", "recover=rerun"},
    {"half", "@every 2s", 2000, 0, 1500, "alive", NULL},
    {"queues", "@every 2s", 2000, 0, 2500, NULL, "overlap=queue"},
    {"skips", "* * * * * *", 1000, 0, 1200, "alive", "recover=rerun"},
    {"seven", "@every 7s from 2020-01-01T00:00:02Z", 7000, 1577836802000 % 7000, 1, NULL, NULL},
};

enum { MIX = sizeof mix / sizeof mix[0] };

static void make_jobs(campaign *c)
{
    for (size_t i = 0; i < STABLE; i++) {
        check_job *job = &c->jobs[i];
        bool is_paused = i >= STABLE - PAUSED;
        *job = is_paused ? (check_job){"paused", "* * * * * *", 1000, 0, 50, NULL, NULL}
                         : mix[i % MIX];
        (void)snprintf(job->name, sizeof job->name, "%s-%02zu",
                       is_paused ? "paused" : mix[i % MIX].name, i);
    }
    for (size_t i = 0; i < TRIGGERED; i++) {
        check_job *job = &c->jobs[STABLE + ROLLED + i];
        *job = (check_job){"", "0 0 0 1 1 *", 1000, 0, 100, NULL, "enabled=no"};
        (void)snprintf(job->name, sizeof job->name, "triggered-%zu", i);
    }
    c->version = 1;
    for (size_t i = 0; i < ROLLED; i++) {
        rollout_cuts_init(&c->cuts[i]);
    }
    rollout_jobs(c);
}

/* ---- the verdict ------------------------------------------------------------------ */

typedef struct verdict {
    check_report stable, others;
    rollout_report rollouts;
    control_report control;
    uint64_t refused;
} verdict;

static bool is_stable(const check_row *row)
{
    return strncmp(row->job, ROLLED_NAME, strlen(ROLLED_NAME)) != 0 &&
           strncmp(row->job, "triggered-", 10) != 0;
}

static void judge(campaign *c, int64_t ready_ms, int64_t until_ms, verdict *out)
{
    fleet *f = c->f;
    fleet_read_log(f);
    f->job_count = STABLE + ROLLED + TRIGGERED;
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    rollout_history rolled = {.cuts = c->cuts,
                              .job_count = ROLLED,
                              .version = c->version,
                              .ready_ms = ready_ms,
                              .until_ms = until_ms};
    rollout_judge(&rolled, rows, count, &out->rollouts);
    control_judge(c, rows, count, &out->control);
    check_input input = {.jobs = c->jobs,
                         .job_count = STABLE,
                         .records = f->records,
                         .record_count = f->record_count,
                         .rows = rows,
                         .begin_ms = f->begin_ms,
                         .ready_ms = ready_ms,
                         .until_ms = until_ms,
                         .end_ms = fleet_now_ms()};
    for (size_t i = 0; i < count; i++) {
        if (is_stable(&rows[i])) {
            rows[input.row_count++] = rows[i];
        }
    }
    check_run(&input, &out->stable);
    /* Of the others only what does not depend on their schedules. */
    input.jobs = c->jobs + STABLE;
    input.job_count = ROLLED + TRIGGERED;
    input.row_count = 0;
    for (size_t i = STABLE; i < STABLE + ROLLED; i++) {
        c->jobs[i].period_ms = 1000;
        c->jobs[i].phase_ms = 0;
    }
    check_run(&input, &out->others);
    free(rows);
    for (size_t i = 0; i < f->record_count; i++) {
        out->refused += f->records[i].what == RECORD_REFUSED;
    }
}

static uint64_t broken(const verdict *v)
{
    return check_faults(&v->stable) + v->others.twice + v->others.token_faults + v->others.early +
           v->others.overlaps + v->others.untold + v->rollouts.faults + v->control.pause_faults +
           v->control.trigger_faults;
}

static void print(const campaign *c, const verdict *v)
{
    const check_report *s = &v->stable;
    const check_report *o = &v->others;
    typedef unsigned long long number;
    check_print(s, stdout);
    uint64_t faults = c->version - 1;
    printf("\nbackend               %s, seed %llu, %lld s\n", server_kind_name(c->f->server.kind),
           (number)seed, (long long)seconds);
    printf("occurrences           %llu (and %llu of rolled jobs)\n", (number)s->expected,
           (number)v->rollouts.fired);
    printf("processes             %zu (%llu had to be killed at the end)\n", c->f->node_count,
           (number)c->not_left);
    for (int i = 0; i < FAULTS; i++) {
        faults += c->faults[i];
        if (c->faults[i] > 0) {
            printf("  %-24s %llu\n", chaos_name(i), (number)c->faults[i]);
        }
    }
    printf("  %-24s %zu (%llu changes of a job's schedule)\n", "roll-outs", c->version - 1,
           (number)v->rollouts.switches);
    printf("faults                %llu\n", (number)faults);
    printf("control calls         %llu pauses, %llu triggers, %llu cancels (%llu runs cancelled), "
           "%llu not answered\n",
           (number)v->control.pauses, (number)v->control.triggers, (number)c->cancels,
           (number)v->control.cancelled, (number)c->control_failures);
    printf("duplicates            %llu\n", (number)(s->twice + o->twice));
    printf("losses                %llu\n", (number)s->lost);
    printf("early fires           %llu\n", (number)(s->early + o->early));
    printf("overlaps              %llu\n", (number)(s->overlaps + o->overlaps));
    printf("untold of a takeover  %llu\n", (number)(s->untold + o->untold));
    printf("tokens not larger     %llu\n", (number)(s->token_faults + o->token_faults));
    printf("ledger faults         %llu\n", (number)s->ledger_faults);
    printf("roll-out faults       %llu\n", (number)v->rollouts.faults);
    printf("lost in roll-outs     %llu\n", (number)v->rollouts.lost);
    printf("runs while paused     %llu\n", (number)v->control.pause_faults);
    printf("trigger faults        %llu\n", (number)v->control.trigger_faults);
    printf("stale writes refused  %llu\n", (number)v->refused);
    printf("worst lateness        %.1f s\n", (double)s->late_us[3] / 1000000);
    (void)fflush(stdout);
}

/* ---- all -------------------------------------------------------------------------- */

static bool is_over(const campaign *c, int64_t until_ms)
{
    if (only == ROLLOUTS_ONLY) {
        return c->version > wanted && c->roll_left == 0;
    }
    return only >= 0 ? c->faults[only] >= wanted : fleet_mono_ms() >= until_ms;
}

static void attack(campaign *c)
{
    int64_t begun_ms = fleet_mono_ms();
    int64_t until_ms = begun_ms + seconds * 1000;
    for (int64_t tell_ms = begun_ms; !is_over(c, until_ms);) {
        if (only == ROLLOUTS_ONLY) {
            chaos_reap(c);
            rollout_step(c);
            rollout_observe(c);
        } else if (only >= 0) {
            chaos_step_only(c);
        } else {
            chaos_step(c);
            rollout_step(c);
            control_step(c);
        }
        fleet_nap_ms(10);
        if (fleet_mono_ms() > tell_ms) {
            tell_ms += 30000;
            fleet_read_log(c->f);
            printf("after %lld s: %zu records\n", (long long)(fleet_mono_ms() - begun_ms) / 1000,
                   c->f->record_count);
            (void)fflush(stdout);
        }
    }
    seconds = (fleet_mono_ms() - begun_ms) / 1000;
}

static void test_campaign(void **state)
{
    static campaign c;
    c = (campaign){.f = *state, .random = seed, .only = only};
    fleet *f = c.f;
    f->settings[0] = "lease=3s";
    f->settings[1] = "misfire_after=2s";
    f->settings[2] = "workers=16";
    (void)snprintf(f->sink, sizeof f->sink, "%s/sink", f->directory);
    make_jobs(&c);
    if (nomark) {
        fleet_without_mark(f);
    }
    chaos_begin(&c);
    fleet_wait_accounted(f, fleet_now_ms() + 1000);
    int64_t ready_ms = fleet_now_ms();
    control_begin(&c);
    attack(&c);
    chaos_heal(&c);
    rollout_finish(&c);
    control_heal(&c);
    /* Long enough for what was interrupted to be found, and run again. */
    int64_t last_ms = fleet_now_ms() + 3 * LEASE_MS;
    fleet_wait_accounted(f, last_ms);
    assert_int_equal(jobsched_close(c.control), 0);
    chaos_end(&c);
    verdict v;
    memset(&v, 0, sizeof v);
    judge(&c, ready_ms, last_ms, &v);
    print(&c, &v);
    if (broken(&v) != 0 || v.stable.expected == 0) {
        fail_msg("%llu promises were broken", (unsigned long long)broken(&v));
    }
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value == 0) {
        (void)fprintf(stderr, "campaign: '%s' is not a number above 0\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"backend", required_argument, NULL, 'b'},
                                          {"minutes", required_argument, NULL, 'm'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"kills", required_argument, NULL, FAULT_KILL},
                                          {"cuts", required_argument, NULL, FAULT_CUT},
                                          {"sessions", required_argument, NULL, FAULT_SESSIONS},
                                          {"restarts", required_argument, NULL, FAULT_SERVER_KILL},
                                          {"rollouts", required_argument, NULL, ROLLOUTS_ONLY},
                                          {"nomark", no_argument, NULL, 'x'},
                                          {NULL, 0, NULL, 0}};
    const char *backend = "sqlite";
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'b':
            backend = optarg;
            break;
        case 'm':
            seconds = (int64_t)number(optarg) * 60;
            break;
        case 's':
            seconds = (int64_t)number(optarg);
            break;
        case FAULT_KILL:
        case FAULT_CUT:
        case FAULT_SESSIONS:
        case FAULT_SERVER_KILL:
        case ROLLOUTS_ONLY:
            only = option;
            wanted = number(optarg);
            break;
        case 'x':
            nomark = true;
            break;
        case 'r':
            seed = number(optarg);
            break;
        default:
            return 2;
        }
    }
    seed = seed == 0 ? (uint64_t)fleet_now_ms() : seed;
    /* One name after the other is split by the caller: see fleet_main(). */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_campaign, fleet_setup, fleet_teardown)};
    char *arguments[] = {argv[0], (char *)(uintptr_t) "*", (char *)(uintptr_t)backend};
    return fleet_main(3, arguments, tests, 1);
}
