/* check_process.c: what the checker says of callbacks, events and control calls, and of the end. */
#include "sim/world.h"

#include <inttypes.h>
#include <string.h>

enum { MESSAGE_AGE_MAX_MS = 10000, SLACK_MS = 60000 };

/* ---- callbacks -------------------------------------------------------------------------- */

static void check_first_time(struct sim_world *world, int job, uint64_t token, int64_t scheduled_ms,
                             int kind)
{
    struct check_job *one = &world->check.jobs[job];
    bool of_schedule = kind == JOBSCHED_KIND_SCHEDULED || kind == JOBSCHED_KIND_CATCH_UP;
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        const struct check_begin *before = &one->begins[i];
        bool both = of_schedule && (before->kind == JOBSCHED_KIND_SCHEDULED ||
                                    before->kind == JOBSCHED_KIND_CATCH_UP);
        if (before->token > 0 &&
            (before->token == token || (both && before->scheduled_ms == scheduled_ms))) {
            sim_violation(world, "G1",
                          "%s: %" PRId64 " begins with token %" PRIu64 ", and began with %" PRIu64,
                          world->jobs[job].name, scheduled_ms, token, before->token);
        }
    }
    one->begins[one->begin_at] =
        (struct check_begin){.token = token, .scheduled_ms = scheduled_ms, .kind = kind};
    one->begin_at = (one->begin_at + 1) % CHECK_RECENT;
}

static void check_no_other(struct sim_world *world, int job, const struct check_run *fresh)
{
    const struct check_job *one = &world->check.jobs[job];
    for (size_t i = 0; i < one->run_count; i++) {
        const struct check_run *run = &one->runs[i];
        bool goes_on = sim_run_goes_on(world, run->number, job, run->token);
        if (run->token != fresh->token && goes_on && run->ended_ms == 0 && !fresh->overlaps &&
            !run->overlaps && !sim_run_is_told(world, run->number, job, run->token)) {
            sim_violation(world, "G4", "%s: token %" PRIu64 " begins while %" PRIu64 " runs",
                          world->jobs[job].name, fresh->token, run->token);
        }
    }
}

void check_began(struct sim_world *world, int job, uint64_t number, const jobsched_run *run)
{
    struct check_job *one = &world->check.jobs[job];
    const char *name = world->jobs[job].name;
    uint64_t token = jobsched_run_token(run);
    int64_t scheduled_ms = jobsched_run_scheduled_at_ms(run);
    struct check_run *known = check_run_of(one, token);
    if (jobsched_run_attempt(run) == 1) {
        check_first_time(world, job, token, scheduled_ms, jobsched_run_kind(run));
    }
    if (known == NULL || known->number != number || known->scheduled_ms != scheduled_ms) {
        sim_violation(world, "G8", "%s: token %" PRIu64 " begins without a grant", name, token);
        return;
    }
    if (jobsched_run_should_stop(run) != 0) {
        sim_violation(world, "G5", "%s: token %" PRIu64 " begins although it is to stop", name,
                      token);
    }
    if (known->closed &&
        (!known->forgotten || world->now_ms >= world->model.now.quarantine_until_ms)) {
        sim_violation(world, "G5", "%s: token %" PRIu64 " begins after it was taken", name, token);
    }
    if (scheduled_ms > world->check.server_high_ms) {
        sim_violation(world, "G3", "%s: %" PRId64 " begins while it is %" PRId64, name,
                      scheduled_ms, world->check.server_high_ms);
    }
    known->started_ms = world->now_ms;
    known->ended_ms = 0;
    check_no_other(world, job, known);
}

void check_returned(struct sim_world *world, int job, uint64_t number, const jobsched_run *run,
                    int result)
{
    struct check_job *one = &world->check.jobs[job];
    struct check_run *known = check_run_of(one, jobsched_run_token(run));
    if (known == NULL) {
        return;
    }
    if (known->cancel_ms > 0 && jobsched_run_should_stop(run) == 0 &&
        check_is_overdue(world, known->cancel_ms, world->lease_ms / 2 + SIM_REQUEST_TIMEOUT_MS)) {
        sim_violation(world, "G6", "%s: token %" PRIu64 " was never told that it is cancelled",
                      world->jobs[job].name, known->token);
    }
    int revision = sim_revision(world, job, sim_release_of(world, number));
    known->ended_ms = world->now_ms;
    known->result = result;
    known->retries = result != JOBSCHED_OK && result != JOBSCHED_ECANCELED &&
                     jobsched_run_should_stop(run) == 0 &&
                     jobsched_run_attempt(run) < sim_def_of(world, job, revision)->attempts;
    check_sweep(one, known);
}

void check_process_over(struct sim_world *world, uint64_t number)
{
    check_led_over(world, number);
    for (int job = 0; job < world->config.jobs; job++) {
        struct check_job *one = &world->check.jobs[job];
        for (size_t i = one->run_count; i-- > 0;) {
            if (one->runs[i].number == number && one->runs[i].over_ms == 0) {
                one->runs[i].over_ms = world->now_ms;
                check_sweep(one, &one->runs[i]);
            }
        }
    }
}

/* G15: told once in the cluster. */
void check_event(struct sim_world *world, uint64_t number, const jobsched_event *event)
{
    if (event->job != NULL) {
        check_stands(world, number, event);
    }
    if (event->kind != JOBSCHED_EVENT_INTERRUPTED) {
        return;
    }
    struct check_job *one = &world->check.jobs[model_index(&world->model, event->job)];
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        struct check_cut *cut = &one->cuts[i];
        if (cut->token == event->token && ++cut->told > 1 && !cut->excused) {
            sim_violation(world, "G15", "%s: the end of token %" PRIu64 " is told twice",
                          event->job, event->token);
        }
    }
}

/* ---- control ------------------------------------------------------------------------------ */

void check_control_sent(struct sim_world *world, int verb, int job, const char *request)
{
    struct check_job *one = &world->check.jobs[job];
    if (verb == JOBSCHED_VERB_RESUME) {
        one->paused = false;
        one->resume_sent_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_PAUSE) {
        one->pause_sent_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_CANCEL) {
        one->cancel_sent_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_REMOVE) {
        one->remove_sent_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_TRIGGER && check_trigger_of(one, request) != NULL) {
        check_trigger_of(one, request)->sent_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_TRIGGER) {
        struct check_trigger *trigger = &one->triggers[one->trigger_at];
        one->trigger_at = (one->trigger_at + 1) % CHECK_RECENT;
        memset(trigger, 0, sizeof *trigger);
        trigger->sent_ms = world->now_ms;
        (void)strncpy(trigger->request, request, sizeof trigger->request - 1);
    }
}

static void mark_cancelled(struct sim_world *world, struct check_job *one)
{
    for (size_t i = 0; i < one->run_count; i++) {
        struct check_run *run = &one->runs[i];
        /* What certainly ran when the call reached the store. */
        if (!run->closed && run->started_ms > 0 && run->ended_ms == 0 && run->cancel_ms == 0 &&
            run->started_ms < one->cancel_sent_ms) {
            run->cancel_ms = world->now_ms;
        }
    }
}

/* G6: a call that has returned well has had its effect. A resume of another node that is still on
 * its way may undo a pause rightly. */
void check_control_done(struct sim_world *world, int verb, int job, const char *request, int code)
{
    struct check_job *one = &world->check.jobs[job];
    if (code != JOBSCHED_OK) {
        return;
    }
    if (verb == JOBSCHED_VERB_PAUSE) {
        one->paused = one->pause_sent_ms > world->check.forgot_ms &&
                      one->resume_sent_ms + MESSAGE_AGE_MAX_MS < one->pause_sent_ms &&
                      one->pause_sent_ms + 3 * SIM_REQUEST_TIMEOUT_MS > world->now_ms;
        one->paused_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_REMOVE) {
        one->removed =
            one->changed_ms < one->remove_sent_ms && one->remove_sent_ms > world->check.forgot_ms;
        one->removed_ms = world->now_ms;
    } else if (verb == JOBSCHED_VERB_CANCEL) {
        mark_cancelled(world, one);
    } else if (verb == JOBSCHED_VERB_TRIGGER) {
        struct check_trigger *trigger = check_trigger_of(one, request);
        if (trigger != NULL && trigger->accepted_ms == 0 &&
            trigger->sent_ms > world->check.forgot_ms) {
            trigger->accepted_ms = world->now_ms;
        }
    }
}

/* ---- the end ------------------------------------------------------------------------------- */

static bool is_offered(const struct sim_world *world, int job)
{
    const struct check_said *said = &world->check.jobs[job].said;
    for (int i = 0; i < world->config.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (node->state == SIM_UP && !sim_node_is_frozen(node) &&
            sim_version_of(world, job, node->registrations[job].revision) == said->version &&
            sim_def_of(world, job, node->registrations[job].revision) ==
                sim_def_of(world, job, said->revision)) {
            return true;
        }
    }
    return false;
}

/* No run is left over: not of a dead owner, not of an owner that knows nothing of it. */
static bool check_left(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    const char *name = world->jobs[job].name;
    bool any = false;
    for (size_t i = 0; i < one->run_count; i++) {
        const struct check_run *run = &one->runs[i];
        if (run->closed) {
            continue;
        }
        any = true;
        int64_t notice_ms = check_notice_ms(world, run->lease_ms);
        if (run->over_ms > 0 && check_is_overdue(world, run->over_ms, notice_ms)) {
            sim_violation(world, "G15", "%s: nobody noticed the end of token %" PRIu64 "'s owner",
                          name, run->token);
        } else if (run->over_ms == 0 && run->started_ms == 0 &&
                   check_is_overdue(world, run->granted_ms, SLACK_MS)) {
            sim_violation(world, "G8", "%s: token %" PRIu64 " was granted and never begins", name,
                          run->token);
        } else if (run->over_ms == 0 && run->ended_ms > 0 &&
                   check_is_overdue(world, run->ended_ms, 5 * SLACK_MS)) {
            sim_violation(world, "G9", "%s: the end of token %" PRIu64 " is not in the ledger",
                          name, run->token);
        }
    }
    return any;
}

/* G9: all that was due is accounted for. */
static void check_progress(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    const struct sim_def *def = sim_def_of(world, job, one->said.revision);
    int64_t due_ms = walk_next(&def->walk, one->mark_ms);
    if (def->walk.kind == WALK_AFTER) {
        int64_t from_ms = one->mark_ms > one->last_end_ms ? one->mark_ms : one->last_end_ms;
        due_ms = from_ms + def->walk.step_ms + 1000;
    }
    if (due_ms != WALK_NEVER && due_ms + def->jitter_ms + SLACK_MS < sim_server_ms(world) &&
        check_is_overdue(world, 0, SLACK_MS)) {
        sim_violation(world, "G9", "%s: %" PRId64 " is lost: it is %" PRId64 " now",
                      world->jobs[job].name, due_ms, sim_server_ms(world));
    }
}

static void check_promises(struct sim_world *world, int job)
{
    const struct check_job *one = &world->check.jobs[job];
    const struct model_fence *fence = &world->model.now.fences[job];
    for (size_t i = 0; i < CHECK_RECENT; i++) {
        const struct check_trigger *trigger = &one->triggers[i];
        if (trigger->accepted_ms > 0 && !trigger->granted && !trigger->resolved &&
            check_is_overdue(world, trigger->accepted_ms, SLACK_MS)) {
            sim_violation(world, "G6", "%s: trigger '%s' was accepted and never fires",
                          world->jobs[job].name, trigger->request);
        }
        const struct check_cut *cut = &one->cuts[i];
        if (cut->token > 0 && cut->told == 0 && !cut->excused && cut->at_ms > world->trouble_ms &&
            check_is_overdue(world, cut->at_ms, world->lease_ms)) {
            sim_violation(world, "G15", "%s: the end of token %" PRIu64 " is told to nobody",
                          world->jobs[job].name, cut->token);
        }
    }
    for (size_t i = 0; i < fence->open_count; i++) {
        if (model_rerun_due(&fence->open[i])) {
            sim_violation(world, "G15", "%s: %" PRId64 " was interrupted and is not rerun",
                          world->jobs[job].name, fence->open[i].first_ms);
        }
    }
}

void check_end(struct sim_world *world)
{
    check_definitions_end(world);
    check_leader_end(world);
    for (int job = 0; job < world->config.jobs; job++) {
        const struct model_fence *fence = &world->model.now.fences[job];
        if (!world->check.jobs[job].said.known) {
            continue;
        }
        bool runs = check_left(world, job);
        /* A job that is removed, or that nobody offers any more, does not go on. */
        if (runs || fence->removed || !is_offered(world, job)) {
            continue;
        }
        check_progress(world, job);
        if (!fence->paused) {
            check_promises(world, job);
        }
    }
}
