/* questions.c: what the application may ask of a scheduler.
 * Locks: takes s->lock; never over a backend call. */
#include "engine/internal.h"

int jobsched_next_run(jobsched *scheduler, const char *job_name, int64_t *out_at_ms)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    failed = failed != 0 ? failed : jsi_name_check("job", job_name);
    if (failed == 0 && out_at_ms == NULL) {
        failed = jobsched_fail(JOBSCHED_EINVAL, 0, "out_at_ms is NULL");
    }
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    const jsi_job *job = jsi_map_find(&s->jobs, job_name);
    int64_t next_ms = JOBSCHED_NONE;
    if (job != NULL) {
        /* Who stands by does not follow what the leader does. */
        bool known =
            job->predecessor == NULL && job->phase != JSI_JOB_NEW &&
            job->phase != JSI_JOB_ANNOUNCING &&
            (jsi_leads_locked(s) || job->phase == JSI_JOB_STOOD || job->phase == JSI_JOB_IDLE);
        next_ms = known                ? job->next_ms
                  : job->spec.disabled ? JOBSCHED_NONE
                                       : jobsched_schedule_next(job->schedule, jsi_now_locked(s));
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (job == NULL) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not registered here", job_name);
    }
    *out_at_ms = next_ms;
    return JOBSCHED_OK;
}

int jobsched_stats_read(jobsched *scheduler, jobsched_stats *out_stats)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed == 0 && (out_stats == NULL || out_stats->struct_size < sizeof(size_t) ||
                        out_stats->struct_size > 65536)) {
        failed = jsi_fail_at(JOBSCHED_EINVAL, "out_stats", -1,
                             "out_stats was not set up with JOBSCHED_INIT");
    }
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    jobsched_stats stats = s->stats;
    int64_t mono_ms = jsi_mono(s);
    stats.jobs = s->jobs.count - (s->leader_job != NULL);
    stats.runs_active = s->active_count - (s->leader_run != NULL);
    stats.clock_offset_ms = jsi_timesync_now(&s->sync, mono_ms) - s->clock.wall_ms(s->clock.ctx);
    stats.last_tick_age_ms = s->ticked_at_mono_ms < 0 ? -1 : mono_ms - s->ticked_at_mono_ms;
    stats.backend_ok = s->claim_outage.failures == 0 && s->keep_outage.failures == 0;
    (void)pthread_mutex_unlock(&s->lock);
    size_t given_bytes = out_stats->struct_size;
    memcpy(out_stats, &stats, given_bytes < sizeof stats ? given_bytes : sizeof stats);
    out_stats->struct_size = given_bytes;
    return JOBSCHED_OK;
}

const char *jobsched_node_id(const jobsched *scheduler)
{
    return scheduler == NULL ? "" : scheduler->node_id;
}
