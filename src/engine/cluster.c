/* cluster.c: what the application may ask about the whole cluster. The backend answers; what only
 * the engine understands, the definition's text, is filled in on the way.
 * Locks: takes s->lock; never over a backend call or a visitor. */
#include "base/clock.h"
#include "base/thread.h"
#include "engine/internal.h"

static int check_visit(bool given)
{
    return given ? JOBSCHED_OK : jobsched_fail(JOBSCHED_EINVAL, 0, "visit is NULL");
}

enum { RUNS_LIMIT_DEFAULT = 100 };

int jobsched_runs(jobsched *scheduler, const char *job, uint64_t limit, jobsched_run_visit_fn visit,
                  void *user_data)
{
    int failed = jsi_enter(scheduler);
    if (failed == 0 && job != NULL) {
        failed = jsi_name_check("job", job);
    }
    failed = failed != 0 ? failed : check_visit(visit != NULL);
    return failed != 0 ? failed
                       : jsi_backend_runs(scheduler, job, limit == 0 ? RUNS_LIMIT_DEFAULT : limit,
                                          visit, user_data);
}

struct jobs_visit {
    jobsched *s;
    jobsched_job_visit_fn visit;
    void *user_data;
    bool lists; /* all jobs, and not one by its name */
    jsi_definition definition;
};

static int visit_job(const jobsched_job_record *record, void *visit_data)
{
    struct jobs_visit *visit = visit_data;
    jobsched_job_record whole = *record;
    if (visit->lists && jsi_is_reserved(record->job)) {
        return 0;
    }
    jsi_definition_read(record->definition, &visit->definition);
    whole.schedule = visit->definition.schedule;
    whole.timezone = visit->definition.timezone;
    whole.next_at_ms = jsi_definition_next(visit->s, &visit->definition, record);
    return visit->visit(&whole, visit->user_data);
}

int jobsched_jobs(jobsched *scheduler, const char *job_or_null, jobsched_job_visit_fn visit,
                  void *user_data)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed == 0 && job_or_null != NULL) {
        failed = jsi_name_check("job", job_or_null);
    }
    failed = failed != 0 ? failed : check_visit(visit != NULL);
    if (failed != 0) {
        return failed;
    }
    struct jobs_visit own = {
        .s = s, .visit = visit, .user_data = user_data, .lists = job_or_null == NULL};
    return jsi_backend_jobs(s, job_or_null, visit_job, &own);
}

int jobsched_nodes(jobsched *scheduler, jobsched_node_visit_fn visit, void *user_data)
{
    int failed = jsi_enter(scheduler);
    failed = failed != 0 ? failed : check_visit(visit != NULL);
    return failed != 0 ? failed : jsi_backend_nodes(scheduler, visit, user_data);
}

int jobsched_schema(const char *url, jobsched_text_visit_fn visit, void *user_data)
{
    int failed = check_visit(visit != NULL);
    if (failed == 0 && url == NULL) {
        failed = jobsched_fail(JOBSCHED_EINVAL, 0, "url is NULL");
    }
    const jobsched_backend *driver = NULL;
    void *library = NULL;
    failed = failed != 0 ? failed : jsi_registry_find(url, NULL, &driver, &library);
    if (failed != 0) {
        return failed;
    }
    failed = jsi_backend_schema(driver, url, visit, user_data);
    jsi_registry_close(library);
    return failed;
}

/* ---- the wait for a trigger -------------------------------------------------- */

struct wait_visit {
    jobsched_run_visit_fn visit;
    void *user_data;
    bool ended, running;
};

static int visit_awaited(const jobsched_run_record *record, void *visit_data)
{
    struct wait_visit *wait = visit_data;
    wait->running = record->outcome == JOBSCHED_OUTCOME_RUNNING;
    wait->ended = !wait->running && record->outcome != JOBSCHED_OUTCOME_WAITING;
    if (wait->ended) {
        (void)wait->visit(record,
                          wait->user_data); /* the only row: there is nothing to go on with */
    }
    return 0;
}

/* Until some run of this node was written after the count seen, but not sooner than a poll may
 * follow another; or until the time is over. */
static void wait_written(jobsched *s, uint64_t seen, int64_t wait_ms)
{
    int64_t from_ms = jsi_clock_real_mono_ns() / 1000000;
    int64_t passed_ms = 0;
    (void)pthread_mutex_lock(&s->lock);
    while (passed_ms < wait_ms && s->state != JSI_CLOSING &&
           (s->runs_written == seen || passed_ms < JSI_WAIT_FIRST_MS)) {
        bool early = s->runs_written != seen && wait_ms > JSI_WAIT_FIRST_MS;
        jsi_cond_wait_ms(&s->idle_cond, &s->lock,
                         (early ? JSI_WAIT_FIRST_MS : wait_ms) - passed_ms);
        passed_ms = jsi_clock_real_mono_ns() / 1000000 - from_ms;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static int wait_ended(jobsched *s, const char *job, const char *request, int64_t timeout_ms,
                      struct wait_visit *wait)
{
    int64_t until_ms = jsi_mono(s) + timeout_ms;
    for (int64_t nap_ms = JSI_WAIT_FIRST_MS;; nap_ms += nap_ms / 2) {
        (void)pthread_mutex_lock(&s->lock);
        uint64_t seen = s->runs_written;
        (void)pthread_mutex_unlock(&s->lock);
        int code = jsi_backend_find(s, job, request, visit_awaited, wait);
        bool again = code == JOBSCHED_OK
                         ? !wait->ended
                         : code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN;
        int64_t left_ms = until_ms - jsi_mono(s);
        if (!again || (left_ms <= 0 && code != JOBSCHED_OK)) {
            return code;
        }
        if (left_ms <= 0) {
            return jobsched_fail(JOBSCHED_ETIMEDOUT, 0,
                                 "trigger '%s' of job '%s' is still %s after %lld ms", request, job,
                                 wait->running ? "running" : "waiting", (long long)timeout_ms);
        }
        nap_ms = jsi_earlier(nap_ms, JSI_WAIT_MAX_MS);
        wait_written(s, seen, jsi_earlier(nap_ms, left_ms));
    }
}

int jobsched_wait(jobsched *scheduler, const char *job, const char *request, int64_t timeout_ms,
                  jobsched_run_visit_fn visit, void *user_data)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    failed = failed != 0 ? failed : jsi_name_check("job", job);
    failed = failed != 0 ? failed : jsi_request_check(request);
    failed = failed != 0 ? failed : check_visit(visit != NULL);
    failed = failed != 0 ? failed : jsi_timeout_check(timeout_ms);
    if (failed != 0) {
        return failed;
    }
    if (jsi_call_is_inside(s)) {
        return jobsched_fail(JOBSCHED_EREENTRANT, 0,
                             "jobsched_wait was called from a callback, which it may wait for");
    }
    struct wait_visit wait = {.visit = visit, .user_data = user_data};
    return wait_ended(s, job, request, timeout_ms, &wait);
}
