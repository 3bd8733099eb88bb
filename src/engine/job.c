/* job.c: a job of this node: made from its spec, armed, disarmed, freed.
 * Locks: functions ending in _locked need s->lock; jsi_job_release must not have it. */
#include "base/hash.h"
#include "engine/internal.h"
#include "schedule/schedule.h"

#include <stdio.h>

static int check_span_from(const char *what, int64_t value_ms, int64_t low_ms, int64_t high_ms)
{
    if (value_ms < low_ms || value_ms > high_ms) {
        return jsi_fail_range(JOBSCHED_EINVAL, what, -1, low_ms, high_ms,
                              "%s of %lld ms is outside %lld-%lld ms", what, (long long)value_ms,
                              (long long)low_ms, (long long)high_ms);
    }
    return JOBSCHED_OK;
}

static int check_span(const char *what, int64_t value_ms, int64_t high_ms)
{
    return check_span_from(what, value_ms, 0, high_ms);
}

static int check_number(const char *what, int64_t value, int64_t low, int64_t high)
{
    if (value < low || value > high) {
        return jsi_fail_range(JOBSCHED_EINVAL, what, -1, low, high, "%s %lld is outside %lld-%lld",
                              what, (long long)value, (long long)low, (long long)high);
    }
    return JOBSCHED_OK;
}

int jsi_spec_check(const jobsched_job_spec *spec)
{
    if (spec->schedule == NULL || spec->run == NULL) {
        const char *what = spec->schedule == NULL ? "schedule" : "run";
        return jsi_fail_at(JOBSCHED_EINVAL, what, -1, "job '%s' has no %s", spec->name, what);
    }
    int failed = check_number("misfire", spec->misfire, 0, JOBSCHED_MISFIRE_ALL);
    failed =
        failed != 0 ? failed : check_number("overlap", spec->overlap, 0, JOBSCHED_OVERLAP_ALLOW);
    failed =
        failed != 0 ? failed : check_number("recover", spec->recover, 0, JOBSCHED_RECOVER_RERUN);
    failed = failed != 0
                 ? failed
                 : check_number("misfire_limit", spec->misfire_limit, 0, JSI_MISFIRE_LIMIT_MAX);
    failed = failed != 0
                 ? failed
                 : check_number("recover_limit", spec->recover_limit, 0, JSI_RECOVER_LIMIT_MAX);
    failed = failed != 0 ? failed : check_number("attempts", spec->attempts, 0, JSI_ATTEMPTS_MAX);
    failed =
        failed != 0 ? failed : check_span("misfire_grace", spec->misfire_grace_ms, JSI_SPAN_MAX_MS);
    failed = failed != 0 ? failed : check_span("backoff", spec->backoff_ms, JSI_SPAN_MAX_MS);
    failed =
        failed != 0 ? failed : check_span("backoff_max", spec->backoff_max_ms, JSI_SPAN_MAX_MS);
    failed = failed != 0 ? failed : check_span("timeout", spec->timeout_ms, JSI_SPAN_MAX_MS);
    failed = failed != 0 ? failed : check_span("jitter", spec->jitter_ms, JSI_SPAN_MAX_MS);
    if (failed == 0 && spec->lease_ms != 0) {
        failed = check_span_from("lease", spec->lease_ms, JSI_LEASE_MIN_MS, JSI_LEASE_MAX_MS);
    }
    return failed;
}

static void fill_defaults(const jobsched *s, jsi_job *job)
{
    jobsched_job_spec *spec = &job->spec;
    if (spec->misfire_limit == 0) {
        spec->misfire_limit = JSI_MISFIRE_LIMIT_DEFAULT;
    }
    if (spec->recover_limit == 0) {
        spec->recover_limit = JSI_RECOVER_LIMIT_DEFAULT;
    }
    if (spec->attempts == 0) {
        spec->attempts = 1;
    }
    if (spec->backoff_ms == 0) {
        spec->backoff_ms = JSI_BACKOFF_DEFAULT_MS;
    }
    if (spec->backoff_max_ms == 0) {
        spec->backoff_max_ms = JSI_BACKOFF_MAX_DEFAULT_MS;
    }
    job->lease_ms = spec->lease_ms != 0 ? spec->lease_ms : s->settings.lease_ms;
}

static void free_parts(const jobsched *s, jsi_job *job)
{
    jobsched_schedule_free(job->schedule);
    jsi_free(&s->allocator, job->name);
    jsi_free(&s->allocator, job->definition);
    jsi_free(&s->allocator, job->text);
    jsi_free(&s->allocator, job->timezone);
    jsi_free(&s->allocator, job->calendars);
    jsi_free(&s->allocator, job);
}

int jsi_spec_parse(jobsched *s, const jobsched_job_spec *spec, jobsched_schedule **out_schedule)
{
    /* The key of H and ~ is the job's identity in the cluster: namespace and name. */
    char key[2 * JOBSCHED_NAME_BYTES + 2];
    (void)snprintf(key, sizeof key, "%s/%s", s->settings.name_space, spec->name);
    jobsched_schedule_options options;
    JOBSCHED_INIT(&options);
    options.timezone = spec->timezone;
    options.key = key;
    options.allocator = &s->allocator;
    options.zone_directory = s->settings.zone_directory;
    options.dst_gap = spec->dst_gap;
    options.dst_overlap = spec->dst_overlap;
    options.calendars = spec->calendars;
    options.calendar_policy = spec->calendar_policy;
    jobsched_schedule *schedule = NULL;
    (void)pthread_mutex_lock(&s->zones_lock);
    int failed = jsi_schedule_parse(spec->schedule, &options, s->zones, &schedule);
    (void)pthread_mutex_unlock(&s->zones_lock);
    if (failed != 0) {
        return failed;
    }
    if (jobsched_schedule_is_never(schedule) && !spec->allow_never) {
        jobsched_schedule_free(schedule);
        return jobsched_fail(JOBSCHED_ENEVER, 0,
                             "schedule '%s' of job '%s' can never match; set allow_never to park a "
                             "job on purpose",
                             spec->schedule, spec->name);
    }
    *out_schedule = schedule;
    return JOBSCHED_OK;
}

int jsi_job_parse(jobsched *s, const jsi_job *job, jobsched_schedule **out_schedule)
{
    return jsi_spec_parse(s, &job->spec, out_schedule);
}

static int copy_calendars(const jobsched *s, jsi_job *job)
{
    size_t count = 0;
    while (job->spec.calendars != NULL && job->spec.calendars[count] != NULL) {
        count++;
    }
    if (count == 0) {
        job->spec.calendars = NULL;
        return JOBSCHED_OK;
    }
    job->calendars = jsi_new(&s->allocator, (count + 1) * sizeof *job->calendars);
    if (job->calendars == NULL) {
        return JOBSCHED_ENOMEM;
    }
    memcpy(job->calendars, job->spec.calendars, count * sizeof *job->calendars);
    job->spec.calendars = job->calendars;
    return JOBSCHED_OK;
}

int jsi_job_new(jobsched *s, const jobsched_job_spec *spec, jsi_job **out_job)
{
    int failed = jsi_name_check("job", spec->name);
    failed = failed != 0 ? failed : jsi_spec_check(spec);
    if (failed != 0) {
        return failed;
    }
    jsi_job *job = jsi_new(&s->allocator, sizeof *job);
    if (job == NULL) {
        return JOBSCHED_ENOMEM;
    }
    job->spec = *spec;
    job->references = 1;
    job->next_ms = JOBSCHED_NONE;
    job->ask.job = job;
    job->name = jsi_strdup(&s->allocator, spec->name);
    job->text = jsi_strdup(&s->allocator, spec->schedule);
    job->timezone = jsi_strdup(&s->allocator, spec->timezone);
    fill_defaults(s, job);
    job->spec.schedule = job->text;
    job->spec.timezone = job->timezone;
    if (job->name == NULL || job->text == NULL ||
        (spec->timezone != NULL && job->timezone == NULL)) {
        failed = JOBSCHED_ENOMEM;
    }
    failed = failed != 0 ? failed : copy_calendars(s, job);
    failed = failed != 0 ? failed : jsi_spec_parse(s, &job->spec, &job->schedule);
    failed = failed != 0 ? failed : jsi_definition_make(s, job);
    if (failed != 0) {
        free_parts(s, job);
        return failed;
    }
    job->delay_ms = jsi_schedule_delay_ms(job->schedule);
    job->last_end_ms = JOBSCHED_NONE;
    job->spec.name = job->name;
    *out_job = job;
    return JOBSCHED_OK;
}

void jsi_job_release(jobsched *s, jsi_job *job)
{
    (void)pthread_mutex_lock(&s->lock);
    bool last = --job->references == 0;
    if (last) {
        jsi_replace_end_locked(s, job);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (last) {
        jsi_call_user_data_free(&job->spec);
        free_parts(s, job);
    }
}

/* A fixed delay counts from the last end, or from what was skipped since. While a run goes on this
 * is an instant at which to look again. */
static int64_t next_after_mark(const jsi_job *job)
{
    int64_t from_ms = job->mark_ms;
    if (jsi_delay_ms(job) > 0 && job->last_end_ms != JOBSCHED_NONE && job->last_end_ms > from_ms) {
        from_ms = job->last_end_ms;
    }
    return job->leads ? from_ms + job->delay_ms
                      : jobsched_schedule_next(jsi_schedule(job), from_ms);
}

void jsi_job_rearm_locked(jobsched *s, jsi_job *job)
{
    job->waits = false;
    bool never = jsi_policies(job)->disabled || jsi_schedule(job) == NULL;
    job->next_ms = never ? JOBSCHED_NONE : next_after_mark(job);
    if (job->predecessor != NULL) {
        jsi_replace_rearm_locked(s, job);
        return;
    }
    if (job->next_ms != JOBSCHED_NONE && JSI_MUTANT(rearm_from_now)) {
        job->next_ms = jobsched_schedule_next(job->schedule, jsi_now_locked(s));
    }
    if (job->next_ms == JOBSCHED_NONE) {
        job->phase = JSI_JOB_IDLE;
        return;
    }
    if (job->leads) {
        jsi_leader_arm_locked(s, job);
        return;
    }
    job->phase = JSI_JOB_ARMED;
    jsi_due_arm(&s->due, &job->due, job->next_ms + jsi_jitter(job, job->next_ms));
    jsi_wake_tick_locked(s);
}

void jsi_job_disarm_locked(jobsched *s, jsi_job *job)
{
    jsi_due_disarm(&s->due, &job->due);
    bool listed =
        job->phase == JSI_JOB_NEW || job->phase == JSI_JOB_LOOKING || job->phase == JSI_JOB_STOOD;
    if (listed) {
        jsi_list_remove(&job->link);
    } else if (job->phase == JSI_JOB_READY && !job->ask.unresolved) {
        jsi_list_remove(&job->ask.link);
        job->references--; /* the ask's; the table's remains */
    }
    if (listed || job->phase == JSI_JOB_ARMED ||
        (job->phase == JSI_JOB_READY && !job->ask.unresolved)) {
        job->phase = JSI_JOB_IDLE;
    }
}
