/* call_job.c: the only file that calls into jobs: callbacks, stop callbacks, and the release of
 * user data. No lock is held over a call. */
#include "engine/internal.h"

/* Whose callback or observer the calling thread is inside of. */
static _Thread_local const jobsched *inside;

bool jsi_call_is_inside(const jobsched *s)
{
    return inside == s;
}

const jobsched *jsi_call_enter(const jobsched *s)
{
    const jobsched *before = inside;
    inside = s;
    return before;
}

void jsi_call_leave(const jobsched *before)
{
    inside = before;
}

int jsi_call_run(jobsched_run *run)
{
    const jobsched_job_spec *spec = &run->job->spec;
    const jobsched *before = jsi_call_enter(run->s);
    int result = spec->run(run, spec->user_data);
    jsi_call_leave(before);
    return result;
}

void jsi_call_stop(jobsched_run *run, int reason)
{
    const jobsched_job_spec *spec = &run->job->spec;
    const jobsched *before = jsi_call_enter(run->s);
    spec->on_stop(run, reason, spec->user_data);
    jsi_call_leave(before);
}

void jsi_call_user_data_free(const jobsched_job_spec *spec)
{
    if (spec->user_data_free != NULL) {
        spec->user_data_free(spec->user_data);
    }
}
