/* decide.c: what to ask about a job whose next occurrence is due. Pure but for the job's ask:
 * no clock, no I/O. Locks: the caller's.
 *
 * Occurrences of a job are asked about in order, each from the mark before it, so that none is
 * passed over: what does not run is closed with a SKIP that names its range. */
#include "base/hash.h"
#include "engine/internal.h"
#include "schedule/schedule.h"

int64_t jsi_jitter(const jsi_job *job, int64_t scheduled_ms)
{
    if (jsi_policies(job)->jitter_ms <= 0) {
        return 0;
    }
    /* Never beyond the next occurrence: occurrences go on in their order, and one that waits for
     * the one before it would count as missed. */
    int64_t below_ms = jsi_policies(job)->jitter_ms;
    int64_t next_ms = jobsched_schedule_next(jsi_schedule(job), scheduled_ms);
    if (next_ms != JOBSCHED_NONE && next_ms - scheduled_ms < below_ms) {
        below_ms = next_ms - scheduled_ms;
    }
    uint64_t hash = jsi_fnv1a64(JSI_FNV1A64_INIT, job->name, strlen(job->name));
    hash = jsi_mix64(hash ^ (uint64_t)scheduled_ms);
    return (int64_t)(hash % (uint64_t)below_ms);
}

/* "Each missed occurrence" would be defeated if the second were skipped because the first still
 * runs. But a new definition does not wait for ever. */
static bool waits_its_turn(const jsi_job *job, int kind)
{
    const jobsched_job_spec *policies = jsi_policies(job);
    return kind == JOBSCHED_KIND_CATCH_UP && policies->misfire == JOBSCHED_MISFIRE_ALL &&
           policies->overlap != JOBSCHED_OVERLAP_ALLOW &&
           (job->predecessor == NULL ||
            job->ask.decided_ms - job->settles_since_ms < JSI_SETTLE_WAIT_MS);
}

static void ask_run(jsi_job *job, int kind)
{
    job->ask.kind = kind;
    job->ask.scheduled_ms = job->next_ms;
    job->ask.when_held = jsi_when_held(job);
    if (waits_its_turn(job, kind)) {
        job->ask.when_held = JOBSCHED_HELD_WAIT;
    }
}

/* Closes the occurrences from next_ms to last_ms, or the first of them if they are very many:
 * the rest follows from the new mark. */
static void ask_skip(jsi_job *job, int64_t last_ms, int outcome)
{
    job->ask.kind = JOBSCHED_CLAIM_SKIP;
    job->ask.skip_outcome = outcome;
    job->ask.skip_first_ms = job->next_ms;
    job->ask.skip_count = (uint64_t)jsi_schedule_count(jsi_schedule(job), job->mark_ms, last_ms,
                                                       JSI_SKIP_COUNT_MAX, &job->ask.scheduled_ms);
    job->ask.skip_count += JSI_MUTANT(skip_miscounted);
}

/* Runs the latest occurrence that is due and closes those before it. */
static void ask_latest(jsi_job *job, int64_t now_ms, int kind, int skip_outcome)
{
    int64_t last_ms = jobsched_schedule_previous(jsi_schedule(job), now_ms + 1);
    if (last_ms > job->next_ms && last_ms != JOBSCHED_NONE && JSI_MUTANT(skip_unclaimed)) {
        job->next_ms = last_ms;
        ask_run(job, kind);
    } else if (last_ms > job->next_ms && last_ms != JOBSCHED_NONE) {
        ask_skip(job, jobsched_schedule_previous(jsi_schedule(job), last_ms), skip_outcome);
    } else {
        ask_run(job, kind);
    }
}

static void ask_misfire_once(jsi_job *job, int64_t now_ms)
{
    int64_t grace_ms = jsi_policies(job)->misfire_grace_ms;
    int64_t last_ms = jobsched_schedule_previous(jsi_schedule(job), now_ms + 1);
    if (grace_ms > 0 && last_ms != JOBSCHED_NONE && now_ms - last_ms > grace_ms) {
        ask_skip(job, last_ms, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    } else {
        ask_latest(job, now_ms, JOBSCHED_KIND_CATCH_UP, JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    }
}

static void ask_misfire_all(jsi_job *job, int64_t now_ms)
{
    /* Finds the oldest of the latest "limit" occurrences from the end, so that the work is
     * bounded by the limit and not by how long the cluster was down. */
    int64_t oldest_ms = now_ms + 1;
    for (uint32_t i = 0; i < jsi_policies(job)->misfire_limit && oldest_ms > job->next_ms; i++) {
        oldest_ms = jobsched_schedule_previous(jsi_schedule(job), oldest_ms);
        if (oldest_ms == JOBSCHED_NONE) {
            oldest_ms = job->next_ms;
        }
    }
    if (oldest_ms > job->next_ms) {
        ask_skip(job, jobsched_schedule_previous(jsi_schedule(job), oldest_ms),
                 JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
    } else {
        ask_run(job, JOBSCHED_KIND_CATCH_UP);
    }
}

static void ask_misfire(const jobsched *s, jsi_job *job, int64_t now_ms)
{
    switch (jsi_policies(job)->misfire) {
    case JOBSCHED_MISFIRE_SKIP:
        ask_skip(
            job,
            jobsched_schedule_previous(jsi_schedule(job), now_ms - s->settings.misfire_after_ms),
            JOBSCHED_OUTCOME_SKIPPED_MISFIRE);
        break;
    case JOBSCHED_MISFIRE_ALL:
        ask_misfire_all(job, now_ms);
        break;
    default:
        ask_misfire_once(job, now_ms);
        break;
    }
}

void jsi_decide(const jobsched *s, jsi_job *job, int64_t now_ms)
{
    job->ask.after_ms = job->mark_ms;
    job->ask.unresolved = false;
    job->ask.decided_ms = now_ms;
    if (jsi_delay_ms(job) > 0) {
        /* It cannot be missed, and what comes before the end of the last run is no occurrence. */
        ask_run(job, JOBSCHED_KIND_SCHEDULED);
        job->ask.when_held = JOBSCHED_HELD_WAIT;
        return;
    }
    int64_t late_ms = now_ms - job->next_ms - jsi_jitter(job, job->next_ms);
    if (job->waits && job->ask.kind == JOBSCHED_KIND_CATCH_UP &&
        jsi_policies(job)->misfire == JOBSCHED_MISFIRE_ALL) {
        ask_run(job, JOBSCHED_KIND_CATCH_UP);
    } else if (job->waits && jsi_policies(job)->overlap == JOBSCHED_OVERLAP_QUEUE) {
        /* One waits: the latest. It is not missed, it was held. */
        ask_latest(job, now_ms, JOBSCHED_KIND_SCHEDULED, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    } else if (late_ms <= s->settings.misfire_after_ms) {
        ask_run(job, JOBSCHED_KIND_SCHEDULED);
    } else {
        ask_misfire(s, job, now_ms);
    }
}
