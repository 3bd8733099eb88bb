/* answer.c: what follows from each answer to a claim. Decisions only, no I/O.
 * Locks: s->lock, held by the caller throughout. */
#include "engine/internal.h"

#include <stdio.h>

/* Asking a holder again: soon enough that a queued occurrence follows promptly, seldom enough
 * that a fleet of waiters is no load. */
enum { HELD_AGAIN_DEFAULT_MS = 250, HELD_AGAIN_MAX_MS = 2000, SOON_MS = 1 };

static jobsched_event ask_event(int kind, const jsi_ask *ask, const jobsched_claim *claim)
{
    jobsched_event event = jsi_event(kind, ask->job, NULL);
    event.scheduled_at_ms = claim->scheduled_ms;
    event.last_at_ms = claim->scheduled_ms;
    if (ask->kind == JOBSCHED_KIND_TRIGGER) { /* its instant is known once it is granted */
        event.scheduled_at_ms = JOBSCHED_NONE;
        event.last_at_ms = JOBSCHED_NONE;
    }
    event.count = 1;
    event.run_kind = ask->kind;
    return event;
}

static void tell_skipped(jobsched *s, const jsi_ask *ask, const jobsched_claim *claim, int outcome)
{
    jobsched_event event = ask_event(JOBSCHED_EVENT_SKIPPED, ask, claim);
    event.outcome = outcome;
    if (ask->kind == JOBSCHED_CLAIM_SKIP) {
        event.scheduled_at_ms = claim->skip_first_ms;
        event.count = claim->skip_count;
        event.run_kind = JOBSCHED_KIND_SCHEDULED;
    }
    event.node = claim->holder;
    event.token = claim->holder_token;
    s->stats.skipped += event.count;
    jsi_emit_locked(s, &event);
}

static void tell_elsewhere(jobsched *s, const jsi_ask *ask, const jobsched_claim *claim)
{
    if (ask->job->leads) {
        return;
    }
    jobsched_event event = ask_event(JOBSCHED_EVENT_ELSEWHERE, ask, claim);
    s->stats.elsewhere++;
    jsi_emit_locked(s, &event);
}

static int64_t held_again_ms(const jobsched_claim *claim)
{
    if (claim->wait_ms <= 0) {
        return HELD_AGAIN_DEFAULT_MS;
    }
    return claim->wait_ms < HELD_AGAIN_MAX_MS ? claim->wait_ms : HELD_AGAIN_MAX_MS;
}

static void announce_again(jobsched *s, jsi_job *job)
{
    jsi_replace_end_locked(s, job);
    jsi_announce_locked(s, job);
}

/* The job's own ask is answered: the job goes on from the mark that came with the answer. */
static void answer_own(jobsched *s, jsi_ask *ask, const jobsched_claim *claim)
{
    jsi_job *job = ask->job;
    int64_t now_ms = jsi_now_locked(s);
    if (claim->answer != JOBSCHED_ANSWER_UNKNOWN) {
        job->last_end_ms = claim->last_end_ms;
    }
    switch (claim->answer) {
    case JOBSCHED_ANSWER_GRANTED:
        if (ask->kind == JOBSCHED_CLAIM_SKIP) {
            tell_skipped(s, ask, claim, ask->skip_outcome);
        }
        break;
    case JOBSCHED_ANSWER_HELD:
        if (ask->when_held == JOBSCHED_HELD_SKIP) {
            tell_skipped(s, ask, claim, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
            break;
        }
        if (JSI_MUTANT(held_is_over)) {
            job->mark_ms = ask->scheduled_ms;
            jsi_job_rearm_locked(s, job);
            return;
        }
        if (job->predecessor != NULL && jsi_delay_ms(job) > 0) {
            /* Its run went on after this was decided. */
            jsi_replace_undue_locked(s, job, ask->decided_ms + jsi_delay_ms(job));
            return;
        }
        job->waits = true;
        job->phase = JSI_JOB_ARMED;
        jsi_due_arm(&s->due, &job->due,
                    now_ms + (job->leads ? JSI_LEADER_AGAIN_MS : held_again_ms(claim)));
        return;
    case JOBSCHED_ANSWER_EARLY:
        if (job->predecessor != NULL) {
            jsi_replace_undue_locked(s, job, job->next_ms);
            return;
        }
        /* fall through */
    case JOBSCHED_ANSWER_BUSY:
        job->phase = JSI_JOB_ARMED;
        jsi_due_arm(&s->due, &job->due, now_ms + (claim->wait_ms > 0 ? claim->wait_ms : SOON_MS));
        return;
    case JOBSCHED_ANSWER_PAUSED:
        if (job->leads) { /* somebody did it past this library: ask now and then */
            job->mark_ms = claim->mark_ms;
            job->next_ms = now_ms + JSI_LEADER_AGAIN_MS;
            jsi_leader_arm_locked(s, job);
            return;
        }
        tell_skipped(s, ask, claim, JOBSCHED_OUTCOME_SKIPPED_PAUSED);
        break;
    case JOBSCHED_ANSWER_DONE:
        tell_elsewhere(s, ask, claim);
        break;
    case JOBSCHED_ANSWER_STALE:
        if (job->predecessor != NULL && !JSI_MUTANT(cut_new_generation)) {
            jsi_look_later_locked(s, job); /* what is found is claimed under at once */
        } else {
            jsi_look_locked(s, job);
        }
        return;
    case JOBSCHED_ANSWER_REMOVED:
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_REMOVED,
                              "the job was removed from the cluster");
        return;
    case JOBSCHED_ANSWER_UNKNOWN:
        announce_again(s, job);
        return;
    default: /* MOVED: others went on; so do we */
        break;
    }
    job->mark_ms = claim->mark_ms;
    jsi_job_rearm_locked(s, job);
    /* What superseded a waiting occurrence waits in its place: it is held, not missed. */
    job->waits = claim->answer == JOBSCHED_ANSWER_GRANTED && ask->kind == JOBSCHED_CLAIM_SKIP &&
                 ask->skip_outcome == JOBSCHED_OUTCOME_SKIPPED_OVERLAP;
}

/* A trigger or rerun is answered. Returns true if it is to be asked again later. */
static bool answer_extra(jobsched *s, jsi_ask *ask, const jobsched_claim *claim)
{
    switch (claim->answer) {
    case JOBSCHED_ANSWER_HELD:
        if (ask->when_held == JOBSCHED_HELD_SKIP) {
            tell_skipped(s, ask, claim, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
            return false;
        }
        if (ask->job->withdrawn || s->state != JSI_STARTED) {
            return false; /* it waits in the store for whoever offers the job */
        }
        ask->not_before_mono_ms = jsi_mono(s) + held_again_ms(claim);
        jsi_list_append(&s->held, &ask->link);
        jsi_wake_tick_locked(s);
        return true;
    case JOBSCHED_ANSWER_BUSY:
        if (ask->job->withdrawn || s->state != JSI_STARTED) {
            return false; /* nobody would ask again, and a drain would wait for it */
        }
        ask->not_before_mono_ms = jsi_mono(s) + (claim->wait_ms > 0 ? claim->wait_ms : SOON_MS);
        jsi_list_append(&s->held, &ask->link);
        jsi_wake_tick_locked(s);
        return true;
    case JOBSCHED_ANSWER_DONE:
        tell_elsewhere(s, ask, claim);
        return false;
    case JOBSCHED_ANSWER_STALE:
        /* A job that is due seldom or never hears of it by its triggers only. */
        if (!ask->job->withdrawn && ask->job->generation != 0 &&
            (ask->job->phase == JSI_JOB_ARMED || ask->job->phase == JSI_JOB_IDLE)) {
            jsi_job_disarm_locked(s, ask->job);
            jsi_look_locked(s, ask->job);
        }
        return false;
    case JOBSCHED_ANSWER_UNKNOWN:
        if (JSI_MUTANT(unknown_trigger_silent)) {
            return false;
        }
        /* The same: a store that lost its data hears of such a job again through this only. */
        if (!ask->job->withdrawn && ask->job->generation != 0 &&
            (ask->job->phase == JSI_JOB_ARMED || ask->job->phase == JSI_JOB_IDLE)) {
            jsi_job_disarm_locked(s, ask->job);
            announce_again(s, ask->job);
        }
        return false;
    default:
        /* Granted, or refused for good, or found again by a later reap. */
        return false;
    }
}

/* A claim that was repeated, or asked for twice (as a rerun, and by its schedule, whose question was
 * put off), is granted "again" with the same token. The run that this node has for it is the one; a
 * second would fire twice (G1). */
bool jsi_run_is_active_locked(const jobsched *s, const jsi_ask *ask, uint64_t token)
{
    if (ask->job->active_runs == 0 && !s->strays) {
        return false; /* the usual case needs no search */
    }
    for (const jsi_link *link = s->active.next; link != &s->active && !JSI_MUTANT(repeat_is_new);
         link = link->next) {
        const jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        if (run->token == token && strcmp(run->job->name, ask->job->name) == 0) {
            return true;
        }
    }
    return false;
}

bool jsi_answer_locked(jobsched *s, jsi_ask *ask, const jobsched_claim *claim, jobsched_run *run,
                       int64_t sent_mono_ms)
{
    bool used = claim->answer == JOBSCHED_ANSWER_GRANTED && ask->kind != JOBSCHED_CLAIM_SKIP &&
                run != NULL && !jsi_run_is_active_locked(s, ask, claim->token);
    if (used) {
        /* The backend keeps what the first grant was told, whatever the job says by now. */
        run->recover = ask->kind == JOBSCHED_KIND_RERUN ? JOBSCHED_RECOVER_RERUN : claim->recover;
        jsi_run_granted_locked(s, run, ask->job, claim, sent_mono_ms);
    }
    ask->unresolved = false;
    if (ask->extra) {
        if (!answer_extra(s, ask, claim)) {
            ask->not_before_mono_ms = JOBSCHED_NONE; /* the caller drops it */
        }
    } else if (ask->job->withdrawn) {
        ask->job->phase = JSI_JOB_IDLE;
    } else {
        answer_own(s, ask, claim);
    }
    return used;
}
