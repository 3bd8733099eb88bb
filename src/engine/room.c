/* room.c: how much more this node should claim. It is counted in work, not in runs: each worker
 * offers JSI_WINDOW_MS of it, so that short runs do not wait for a round trip each, while long
 * ones are left to nodes with a free worker.
 * Locks: s->lock, held by the caller. */
#include "engine/internal.h"

/* What a run costs at the least: the engine's own work for it. */
#define COST_MIN_MS 1.0

static double clamp(double ms)
{
    if (ms > JSI_WINDOW_MS) {
        return JSI_WINDOW_MS; /* it takes its worker for the whole window, and no more than that */
    }
    return ms < COST_MIN_MS ? COST_MIN_MS : ms;
}

double jsi_cost_ms(const jobsched *s, const jsi_job *job)
{
    return clamp(job->has_run ? job->average_run_ms : s->average_run_ms);
}

static double cost_now_ms(const jobsched *s, const jobsched_run *run, int64_t mono_ms)
{
    double cost_ms = jsi_cost_ms(s, run->job);
    bool called = run->state == JSI_RUN_CALLING || run->state == JSI_RUN_PENDING;
    double lasted_ms = called ? (double)(mono_ms - run->called_at_mono_ms) : 0;
    return clamp(lasted_ms > cost_ms ? lasted_ms : cost_ms);
}

double jsi_room_ms_locked(const jobsched *s)
{
    uint64_t hands = s->executor.submit != NULL && s->executor.capacity > 0 ? s->executor.capacity
                                                                            : s->settings.workers;
    /* Bounds what one node takes on, however short its runs are. */
    if (s->executing >= hands + JOBSCHED_BATCH_MAX) {
        return 0;
    }
    double room_ms = (double)hands * JSI_WINDOW_MS;
    int64_t mono_ms = jsi_mono(s);
    for (const jsi_link *link = s->active.next; link != &s->active; link = link->next) {
        const jobsched_run *run = JSI_CONTAINER(link, jobsched_run, link);
        if (run->state != JSI_RUN_ENDED && run->state != JSI_RUN_BACKOFF && !run->job->leads) {
            room_ms -= cost_now_ms(s, run, mono_ms);
        }
    }
    return room_ms > 0 ? room_ms : 0;
}

/* Moving averages over about eight runs, of the job and of all. */
void jsi_room_learn_locked(jobsched *s, const jobsched_run *run)
{
    if (run->called_at_mono_ms == 0) {
        return; /* never called */
    }
    jsi_job *job = run->job;
    double ms = (double)(jsi_mono(s) - run->called_at_mono_ms);
    job->average_run_ms += job->has_run ? (ms - job->average_run_ms) / 8 : ms;
    job->has_run = true;
    s->average_run_ms += (ms - s->average_run_ms) / 8;
}
