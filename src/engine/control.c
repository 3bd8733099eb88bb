/* control.c: control calls, which act on the job in the whole cluster.
 * Locks: takes s->lock; never over a backend call. */
#include "engine/internal.h"

#include <stdio.h>

static int control(jobsched *s, int verb, const char *job, const char *request,
                   jobsched_control_result *out_result)
{
    int failed = jsi_enter(s);
    failed = failed != 0 ? failed : jsi_name_check("job", job);
    if (failed == 0 && verb != JOBSCHED_VERB_CANCEL) {
        failed = jsi_reserved_check(job); /* nobody could lead any more */
    }
    if (failed != 0) {
        return failed;
    }
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    if (out_result != NULL && (out_result->struct_size < sizeof out_result->struct_size ||
                               out_result->struct_size > 65536)) {
        return jsi_fail_at(JOBSCHED_EINVAL, "out_result", -1,
                           "out_result was not set up with JOBSCHED_INIT");
    }
    jobsched_command command = {.verb = verb, .job = job, .request = request};
    failed = jsi_backend_control(s, &command, &result);
    if (failed == 0 && out_result != NULL) {
        size_t given_bytes = out_result->struct_size;
        memcpy(out_result, &result, given_bytes < sizeof result ? given_bytes : sizeof result);
        out_result->struct_size = given_bytes;
    }
    return failed;
}

int jobsched_pause(jobsched *scheduler, const char *job, jobsched_control_result *out_result)
{
    return control(scheduler, JOBSCHED_VERB_PAUSE, job, NULL, out_result);
}

int jobsched_resume(jobsched *scheduler, const char *job, jobsched_control_result *out_result)
{
    return control(scheduler, JOBSCHED_VERB_RESUME, job, NULL, out_result);
}

int jsi_request_check(const char *request)
{
    if (request == NULL) {
        return jsi_fail_at(JOBSCHED_EINVAL, "request", -1, "request id is NULL");
    }
    size_t length = strnlen(request, JOBSCHED_REQUEST_BYTES + 1);
    if (length == 0 || length > JOBSCHED_REQUEST_BYTES) {
        return jsi_fail_range(JOBSCHED_EINVAL, "request", -1, 1, JOBSCHED_REQUEST_BYTES,
                              "request id has %s; allowed are 1-%d bytes",
                              length == 0 ? "no bytes" : "too many bytes", JOBSCHED_REQUEST_BYTES);
    }
    return jsi_name_check("request", request);
}

int jobsched_trigger(jobsched *scheduler, const char *job_name, const char *request,
                     jobsched_control_result *out_result)
{
    jobsched *s = scheduler;
    char fresh[JOBSCHED_REQUEST_BYTES + 1];
    int failed = jsi_enter(s);
    if (failed == 0 && request != NULL) {
        failed = jsi_request_check(request);
    }
    if (failed != 0) {
        return failed;
    }
    if (request == NULL) {
        (void)pthread_mutex_lock(&s->lock);
        uint64_t number = ++s->request_counter;
        (void)pthread_mutex_unlock(&s->lock);
        (void)snprintf(fresh, sizeof fresh, "%s-%llu", s->node_id, (unsigned long long)number);
        request = fresh;
    }
    failed = control(s, JOBSCHED_VERB_TRIGGER, job_name, request, out_result);
    if (failed != 0) {
        return failed;
    }
    /* This node need not wait for its own next look; without memory that look finds it. */
    (void)pthread_mutex_lock(&s->lock);
    jsi_job *job = jsi_map_find(&s->jobs, job_name);
    if (job != NULL && s->state == JSI_STARTED && jsi_leads_locked(s)) {
        (void)jsi_ask_extra_locked(s, job, JOBSCHED_KIND_TRIGGER, 0, request);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return JOBSCHED_OK;
}

int jobsched_cancel(jobsched *scheduler, const char *job, jobsched_control_result *out_result)
{
    int failed = control(scheduler, JOBSCHED_VERB_CANCEL, job, NULL, out_result);
    if (failed == 0) {
        /* Runs of this node hear of it at once, those of others at their next heartbeat. */
        (void)pthread_mutex_lock(&scheduler->lock);
        jsi_wake_keep_locked(scheduler);
        (void)pthread_mutex_unlock(&scheduler->lock);
    }
    return failed;
}

int jobsched_remove(jobsched *scheduler, const char *job, jobsched_control_result *out_result)
{
    int failed = control(scheduler, JOBSCHED_VERB_REMOVE, job, NULL, out_result);
    if (failed == 0) {
        (void)jobsched_withdraw(scheduler, job); /* it may not be registered here */
    }
    return failed;
}
