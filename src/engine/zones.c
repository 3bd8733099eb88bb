/* zones.c: new zone data for jobs that go on.
 * Locks: zones_lock while reading files, s->lock while exchanging; never both. */
#include "engine/internal.h"
#include "schedule/schedule.h"
#include "schedule/zone.h"

/* All jobs, with a reference each. */
static int list_jobs(jobsched *s, jsi_job ***out_jobs, size_t *out_count)
{
    (void)pthread_mutex_lock(&s->lock);
    size_t count = s->jobs.count;
    size_t position = 0;
    jsi_job **jobs = jsi_new(&s->allocator, (count + 1) * sizeof(jsi_job *));
    for (size_t i = 0; jobs != NULL && i < count; i++) {
        jobs[i] = jsi_map_each(&s->jobs, &position);
        jobs[i]->references++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    *out_jobs = jobs;
    *out_count = count;
    return jobs == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;
}

static int renew_schedule(jobsched *s, jsi_job *job)
{
    jobsched_schedule *schedule;
    int failed = jsi_job_parse(s, job, &schedule);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    jobsched_schedule *before = job->schedule;
    job->schedule = schedule;
    /* What is with the backend, or about to be, was due by the old data; it goes on from there
     * by the new. */
    if (job->predecessor != NULL) {
        job->predecessor->outdated = true;
    }
    if (job->phase == JSI_JOB_ARMED && !job->waits) {
        jsi_due_disarm(&s->due, &job->due);
        jsi_job_rearm_locked(s, job);
    }
    (void)pthread_mutex_unlock(&s->lock);
    jobsched_schedule_free(before);
    return JOBSCHED_OK;
}

int jobsched_zones_reload(jobsched *scheduler)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->zones_lock);
    jsi_zone_cache_reload(s->zones);
    (void)pthread_mutex_unlock(&s->zones_lock);
    (void)pthread_mutex_lock(&s->lock);
    s->zone_reloads++;
    (void)pthread_mutex_unlock(&s->lock);
    jsi_job **jobs;
    size_t count;
    failed = list_jobs(s, &jobs, &count);
    if (failed != 0) {
        return failed;
    }
    jobsched_error error = {.code = JOBSCHED_OK};
    for (size_t i = 0; i < count; i++) {
        if (renew_schedule(s, jobs[i]) != 0 && error.code == JOBSCHED_OK) {
            error = *jobsched_last_error();
        }
        jsi_job_release(s, jobs[i]);
    }
    jsi_free(&s->allocator, jobs);
    return error.code == JOBSCHED_OK
               ? JOBSCHED_OK
               : jobsched_fail(error.code, error.system_errno, "%s", error.message);
}
