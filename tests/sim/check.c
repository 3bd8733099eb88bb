/* check.c: what the checker says of each atomic step of the store. */
#include "sim/world.h"

#include <inttypes.h>
#include <string.h>

/* A late message is at most this old when it arrives: see net.c. */
enum { MESSAGE_AGE_MAX_MS = 10000 };

struct check_run *check_run_of(struct check_job *job, uint64_t token)
{
    for (size_t i = 0; i < job->run_count; i++) {
        if (job->runs[i].token == token) {
            return &job->runs[i];
        }
    }
    return NULL;
}

void check_sweep(struct check_job *job, struct check_run *run)
{
    if (run->closed && ((run->ended_ms > 0 && !run->retries) || run->over_ms > 0)) {
        *run = job->runs[--job->run_count];
    }
}

/* What was told between two attempts has ended without another word. */
static void sweep_all(struct check_job *job)
{
    for (size_t i = job->run_count; i-- > 0;) {
        job->runs[i].retries = job->runs[i].retries && !job->runs[i].closed;
        check_sweep(job, &job->runs[i]);
    }
}

struct check_trigger *check_trigger_of(struct check_job *job, const char *request)
{
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        if (strcmp(job->triggers[i].request, request) == 0) {
            return &job->triggers[i];
        }
    }
    return NULL;
}

int64_t check_notice_ms(const struct sim_world *world, int64_t lease_ms)
{
    return lease_ms + world->lease_ms + 4 * SIM_REQUEST_TIMEOUT_MS + 2000;
}

bool check_is_overdue(const struct sim_world *world, int64_t since_ms, int64_t span_ms)
{
    int64_t from_ms = since_ms > world->trouble_ms ? since_ms : world->trouble_ms;
    return world->now_ms - from_ms > span_ms;
}

/* ---- marks ----------------------------------------------------------------------------- */

/* G9: whatever moves the mark accounts for all up to it, and for nothing else. */
static void account(struct sim_world *world, int job, int64_t first_ms, int64_t last_ms,
                    uint64_t count)
{
    struct check_job *one = &world->check.jobs[job];
    const struct walk *walk = &check_def_in_force(world, job)->walk;
    if (walk->kind == WALK_AFTER) {
        int64_t from_ms = one->mark_ms > one->last_end_ms ? one->mark_ms : one->last_end_ms;
        if (first_ms < from_ms + walk->step_ms) {
            sim_violation(world, "G9", "%s: %" PRId64 " is less than the delay after %" PRId64,
                          world->jobs[job].name, first_ms, from_ms);
        }
    } else if (first_ms != walk_next(walk, one->mark_ms) ||
               last_ms != walk_next(walk, last_ms - 1) ||
               count != walk_count(walk, one->mark_ms, last_ms, UINT64_MAX)) {
        sim_violation(world, first_ms <= one->mark_ms ? "G1" : "G9",
                      "%s: %" PRIu64 " occurrences from %" PRId64 " to %" PRId64
                      " where after %" PRId64 " comes %" PRId64,
                      world->jobs[job].name, count, first_ms, last_ms, one->mark_ms,
                      walk_next(walk, one->mark_ms));
    }
    if (last_ms > world->check.server_high_ms) {
        sim_violation(world, "G3", "%s: %" PRId64 " while it is %" PRId64, world->jobs[job].name,
                      last_ms, world->check.server_high_ms);
    }
    one->mark_ms = last_ms;
    world->occurrences += count;
}

/* ---- grants ------------------------------------------------------------------------------ */

/* Whether the run's callback, if it asks now, is told that its lease is lost. */
static bool is_told(struct sim_world *world, int job, const struct check_run *run)
{
    return sim_run_is_told(world, run->number, job, run->token);
}

static bool goes_on(const struct check_run *run)
{
    return run->started_ms > 0 && run->ended_ms == 0 && run->over_ms == 0;
}

/* G4, G5: whoever still runs this job must have been told before somebody else gets it. */
static void check_alone(struct sim_world *world, int job, const struct check_run *fresh,
                        const char *what)
{
    struct check_job *one = &world->check.jobs[job];
    for (size_t i = 0; i < one->run_count; i++) {
        const struct check_run *run = &one->runs[i];
        if (run->token != fresh->token && goes_on(run) && !fresh->overlaps && !run->overlaps &&
            !is_told(world, job, run)) {
            sim_violation(world, run->closed ? "G5" : "G4",
                          "%s: token %" PRIu64 " %s while %" PRIu64 " runs and was not told",
                          world->jobs[job].name, fresh->token, what, run->token);
        }
    }
}

static void check_rerun(struct sim_world *world, int job, const jobsched_claim *claim)
{
    const struct check_job *one = &world->check.jobs[job];
    bool cut = false;
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        cut = cut || (one->cuts[i].token > 0 && one->cuts[i].scheduled_ms == claim->scheduled_ms);
    }
    if (!cut || claim->attempt < 2 || claim->attempt > 5) {
        sim_violation(world, "G1", "%s: rerun %u of %" PRId64 ", which was not interrupted",
                      world->jobs[job].name, claim->attempt, claim->scheduled_ms);
    }
}

static void check_trigger(struct sim_world *world, int job, const char *request)
{
    struct check_trigger *trigger = check_trigger_of(&world->check.jobs[job], request);
    if (trigger != NULL && trigger->granted) {
        sim_violation(world, "G1", "%s: trigger '%s' is granted twice", world->jobs[job].name,
                      request);
    }
    if (trigger != NULL) {
        trigger->granted = true;
    }
}

static void check_allowed(struct sim_world *world, int job, uint64_t number,
                          const jobsched_claim *claim)
{
    const struct check_job *one = &world->check.jobs[job];
    const char *name = world->jobs[job].name;
    if (claim->token <= one->token) {
        sim_violation(world, "G2", "%s: token %" PRIu64 " after %" PRIu64, name, claim->token,
                      one->token);
    }
    if (one->paused) {
        sim_violation(world, "G6", "%s: token %" PRIu64 " is granted while paused", name,
                      claim->token);
    }
    if (one->removed) {
        sim_violation(world, "G6", "%s: token %" PRIu64 " is granted after its removal", name,
                      claim->token);
    }
    check_definition(world, job, number);
}

void check_granted(struct sim_world *world, int job, uint64_t number, const jobsched_claim *claim,
                   const char *request)
{
    struct check_job *one = &world->check.jobs[job];
    if (job == world->config.jobs) {
        check_led(world, number, claim->token);
        return;
    }
    sim_note(world, "grant", number, (uint64_t)job, claim->token);
    check_allowed(world, job, number, claim);
    one->token = claim->token;
    if (claim->kind == JOBSCHED_KIND_SCHEDULED || claim->kind == JOBSCHED_KIND_CATCH_UP) {
        account(world, job, claim->scheduled_ms, claim->scheduled_ms, 1);
    } else if (claim->kind == JOBSCHED_KIND_RERUN) {
        check_rerun(world, job, claim);
    } else if (request != NULL) {
        check_trigger(world, job, request);
    }
    if (one->run_count == CHECK_RUNS_MAX) {
        sweep_all(one);
    }
    if (one->run_count == CHECK_RUNS_MAX) {
        sim_violation(world, "G11", "%s: more than %d runs at once", world->jobs[job].name,
                      CHECK_RUNS_MAX);
        return;
    }
    struct check_run *run = &one->runs[one->run_count++];
    *run = (struct check_run){.token = claim->token,
                              .number = number,
                              .scheduled_ms = claim->granted_ms,
                              .lease_ms = claim->lease_ms,
                              .granted_ms = world->now_ms,
                              .over_ms = sim_process_is_over(world, number) ? world->now_ms : 0,
                              .overlaps = claim->when_held == JOBSCHED_HELD_ALLOW};
    check_alone(world, job, run, "is granted");
}

/* ---- skips ------------------------------------------------------------------------------ */

/* G10: who is dead for longer than it can go unnoticed does not hold up the job. */
static void check_held(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    const struct check_run *holder = NULL;
    for (size_t i = 0; i < one->run_count; i++) {
        if (!one->runs[i].closed) {
            holder = &one->runs[i];
            if (holder->over_ms == 0 &&
                (holder->started_ms > 0 ||
                 !check_is_overdue(world, holder->granted_ms,
                                   check_notice_ms(world, holder->lease_ms)))) {
                return;
            }
        }
    }
    if (holder == NULL || holder->over_ms == 0 ||
        check_is_overdue(world, holder->over_ms, check_notice_ms(world, holder->lease_ms))) {
        bool alive = holder != NULL && holder->over_ms == 0;
        sim_violation(world, alive ? "G8" : "G10", "%s: skipped for a holder that %s",
                      world->jobs[job].name, alive ? "never began" : "is no more");
    }
}

void check_skipped(struct sim_world *world, int job, int64_t first_ms, int64_t last_ms,
                   uint64_t count, int32_t outcome, uint64_t number)
{
    sim_note(world, "skip", number, (uint64_t)job, (uint64_t)last_ms);
    world->skips += count;
    if (outcome == JOBSCHED_OUTCOME_SKIPPED_OVERLAP && count == 1 &&
        check_def_in_force(world, job)->overlap == JOBSCHED_OVERLAP_SKIP) {
        check_held(world, job);
    }
    account(world, job, first_ms, last_ms, count);
}

/* ---- ends --------------------------------------------------------------------------------- */

static void check_cut_off(struct sim_world *world, int job, const struct model_row *row,
                          const struct check_run *run)
{
    struct check_job *one = &world->check.jobs[job];
    one->cuts[one->cut_at] = (struct check_cut){.token = row->token,
                                                .scheduled_ms = row->first_ms,
                                                .at_ms = world->now_ms,
                                                .excused = world->check.forgets};
    one->cut_at = (one->cut_at + 1) % CHECK_RECENT;
    if (run == NULL || world->check.forgets) {
        return;
    }
    if (goes_on(run) && !is_told(world, job, run)) {
        sim_violation(world, "G5", "%s: token %" PRIu64 " is taken from a run that was not told",
                      world->jobs[job].name, row->token);
    }
    if (run->over_ms > 0 &&
        check_is_overdue(world, run->over_ms, check_notice_ms(world, run->lease_ms))) {
        sim_violation(world, "G15", "%s: noticed %" PRId64 " ms after its owner's end",
                      world->jobs[job].name, world->now_ms - run->over_ms);
    }
}

void check_said_itself(struct sim_world *world, int job, uint64_t token)
{
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        struct check_cut *cut = &world->check.jobs[job].cuts[i];
        cut->excused = cut->excused || (cut->token > 0 && cut->token == token);
    }
}

/* The store's outcome against what the callback did. */
static void check_outcome(struct sim_world *world, int job, const struct check_run *run,
                          int32_t outcome)
{
    bool well = outcome == JOBSCHED_OUTCOME_SUCCEEDED;
    bool ended = run->ended_ms > 0 || run->over_ms > 0;
    if ((run->started_ms > 0 && !ended) ||
        (run->ended_ms > 0 && well != (run->result == JOBSCHED_OK) &&
         outcome != JOBSCHED_OUTCOME_LEASE_LOST) ||
        (well && run->started_ms == 0)) {
        sim_violation(world, "G9", "%s: token %" PRIu64 " is in the ledger as %s, but %s",
                      world->jobs[job].name, run->token, jobsched_outcome_name(outcome),
                      run->started_ms == 0 ? "never began"
                      : !ended             ? "goes on"
                                           : "ended otherwise");
    }
}

void check_ended(struct sim_world *world, int job, const struct model_row *row, int32_t outcome)
{
    struct check_job *one = &world->check.jobs[job];
    if (job == world->config.jobs) {
        check_led_over(world, row->owner);
        return;
    }
    sim_note(world, "ended", (uint64_t)job, row->token, (uint64_t)outcome);
    if (row->request[0] != '\0') {
        struct check_trigger *trigger = check_trigger_of(one, row->request);
        if (trigger != NULL) {
            trigger->resolved = true;
        }
    }
    if (row->token == 0) {
        return; /* a trigger that was never granted */
    }
    one->last_end_ms = sim_server_ms(world);
    struct check_run *run = check_run_of(one, row->token);
    if (run != NULL && run->closed && !world->check.forgets) {
        sim_violation(world, "G9", "%s: token %" PRIu64 " ends twice", world->jobs[job].name,
                      row->token);
    }
    if (outcome == JOBSCHED_OUTCOME_INTERRUPTED) {
        check_cut_off(world, job, row, run);
    } else if (run != NULL) {
        check_outcome(world, job, run, outcome);
    }
    if (run != NULL) {
        run->closed = true;
        check_sweep(one, run);
    }
}

/* ---- a store that forgets ------------------------------------------------------------------ */

void check_copied(struct sim_world *world)
{
    world->check.copied_ms = world->now_ms;
    for (int job = 0; job < world->config.jobs; job++) {
        world->check.jobs[job].copied = world->check.jobs[job].said;
    }
}

/* Designed to be lost: what was acknowledged since the copy, but for marks and tokens. */
static void forget(struct sim_world *world, struct check_job *one)
{
    int64_t copied_ms = world->check.copied_ms;
    int64_t now_ms = sim_server_ms(world);
    one->said = one->copied;
    one->mark_ms = one->said.known && one->mark_ms < now_ms ? now_ms : one->mark_ms;
    one->last_end_ms = 0;
    one->paused = one->paused && one->paused_ms < copied_ms - MESSAGE_AGE_MAX_MS;
    one->removed = one->removed && one->removed_ms < copied_ms - MESSAGE_AGE_MAX_MS;
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        one->triggers[i].granted = false;
        one->triggers[i].resolved =
            one->triggers[i].resolved || one->triggers[i].accepted_ms >= copied_ms;
        one->cuts[i].excused = true;
    }
    for (size_t i = one->run_count; i-- > 0;) {
        one->runs[i].closed = one->runs[i].forgotten = true;
        check_sweep(one, &one->runs[i]);
    }
}

void check_forgot(struct sim_world *world, bool begins)
{
    world->check.forgets = begins;
    world->check.forgot_ms = world->now_ms;
    for (int job = 0; begins && job < world->config.jobs; job++) {
        forget(world, &world->check.jobs[job]);
    }
    check_definitions_forgot(world);
    check_leader_forgot(world);
}
