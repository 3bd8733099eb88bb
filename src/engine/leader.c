/* leader.c: leader mode (design section 8). Who leads holds the only run of a reserved job: it is
 * claimed, renewed and finished like any other, so a leader is told that its lease is lost before
 * another node can lead (G5). Nobody calls a callback for it. Only the leader looks at what is due;
 * still each fire is claimed on its own, so leadership is about load and never about safety.
 *
 * The job is a fixed delay: it has no instants to be late for, and is granted as soon as nobody
 * holds it.
 * Locks: functions ending in _locked need s->lock. */
#include "engine/internal.h"

#include <stdio.h>

static int never_called(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return JOBSCHED_PENDING;
}

bool jsi_is_reserved(const char *job)
{
    return strncmp(job, JSI_RESERVED_PREFIX, sizeof JSI_RESERVED_PREFIX - 1) == 0;
}

int jsi_reserved_check(const char *job)
{
    if (jsi_is_reserved(job)) {
        return jsi_fail_at(JOBSCHED_EINVAL, "job", 0,
                           "job '%s' has a name that begins with '" JSI_RESERVED_PREFIX
                           "', which is reserved",
                           job);
    }
    return JOBSCHED_OK;
}

int jsi_leader_init(jobsched *s)
{
    if (!s->settings.leader) {
        return JOBSCHED_OK;
    }
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = JSI_RESERVED_PREFIX "leader";
    spec.schedule = "@after 1s";
    spec.run = never_called;
    jsi_job *job = NULL;
    int failed = jsi_job_new(s, &spec, &job);
    if (failed != 0) {
        return failed;
    }
    job->leads = true;
    job->delay_ms = 1; /* a leader that stops leaves no gap */
    (void)pthread_mutex_lock(&s->lock);
    failed = jsi_job_enter_locked(s, job);
    if (failed == 0) {
        s->leader_job = job;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (failed != 0) {
        jsi_job_release(s, job);
    }
    return failed;
}

bool jsi_leads_locked(const jobsched *s)
{
    return s->leader_job == NULL || JSI_MUTANT(all_lead) ||
           (s->leader_run != NULL && jobsched_run_should_stop(s->leader_run) == 0);
}

/* The run waits for nobody: as one whose callback returned JOBSCHED_PENDING. */
void jsi_leader_granted_locked(jobsched *s, jobsched_run *run)
{
    s->leader_run = run;
    s->leader_fresh = true;
    s->leads_mono_ms = jsi_mono(s);
    s->executing--; /* it takes no worker */
    run->state = JSI_RUN_PENDING;
    jobsched_event event = jsi_event(JOBSCHED_EVENT_LEADER_GAINED, run->job, run);
    event.message = "this node leads the namespace";
    jsi_emit_locked(s, &event);
    if (s->state != JSI_STARTED) {
        jsi_run_stop_locked(s, run, JOBSCHED_STOP_SHUTDOWN); /* granted amid the stop */
        return;
    }
    jsi_wake_elect_locked(s); /* to catch up, and then the tick */
    jsi_wake_keep_locked(s);  /* what waits for somebody to lead */
}

void jsi_leader_stopped_locked(jobsched *s, jobsched_run *run, int reason)
{
    s->leader_run = NULL;
    /* Asked to hand over, it lets others go first. */
    s->leader_shy = reason == JOBSCHED_STOP_CANCELLED;
    jobsched_event event = jsi_event(JOBSCHED_EVENT_LEADER_LOST, run->job, run);
    event.stop_reason = reason;
    event.message = jobsched_stop_reason_name(reason);
    jsi_emit_locked(s, &event);
    s->executing++; /* the end takes it off again */
    jsi_run_result_locked(s, run, JOBSCHED_OK);
}

void jsi_leader_resign_locked(jobsched *s)
{
    if (s->leader_run != NULL) {
        jsi_run_stop_locked(s, s->leader_run, JOBSCHED_STOP_SHUTDOWN);
    }
}

static int64_t yields_at(const jobsched *s)
{
    return s->leader_run == NULL || jsi_list_is_empty(&s->stood)
               ? JOBSCHED_NONE
               : s->leads_mono_ms + JSI_LEADER_YIELD_MS;
}

int64_t jsi_leader_next_locked(const jobsched *s)
{
    bool looks = s->leader_run != NULL && s->driver->jobs != NULL;
    return s->state != JSI_STARTED
               ? JOBSCHED_NONE
               : jsi_earlier(yields_at(s), looks ? s->leader_look_mono_ms : JOBSCHED_NONE);
}

/* A job that stands down here is fired by nobody while this node leads, though others may have its
 * definition: during a roll-out most of all. So they go first, and if none of them has all that is
 * in force, each has its turn. */
void jsi_leader_yield_locked(jobsched *s)
{
    if (jsi_mono(s) >= yields_at(s)) {
        jsi_run_stop_locked(s, s->leader_run, JOBSCHED_STOP_CANCELLED);
    }
}

void jsi_leader_arm_locked(jobsched *s, jsi_job *job)
{
    if (s->leader_run != NULL) {
        job->phase = JSI_JOB_IDLE; /* to be armed once that has ended */
        return;
    }
    int64_t shy_ms = s->leader_shy ? 4 * (int64_t)JSI_LEADER_AGAIN_MS : 0;
    s->leader_shy = false;
    job->phase = JSI_JOB_ARMED;
    jsi_due_arm(&s->due, &job->due, job->next_ms + shy_ms);
    jsi_wake_tick_locked(s);
}

/* While others lead, a job's mark moves without this node's doing. To go through what they have
 * done, range by range, would take long after a long time. And where another definition came in
 * force, this one's instants may never tell. */
static int refresh(const jobsched_job_record *record, void *visit_data)
{
    jobsched *s = visit_data;
    (void)pthread_mutex_lock(&s->lock);
    jsi_job *job = jsi_map_find(&s->jobs, record->job);
    bool known = job != NULL && !job->leads && job->predecessor == NULL && !record->removed &&
                 (job->phase == JSI_JOB_ARMED ||
                  (job->phase == JSI_JOB_IDLE && (job->generation != 0 || job->replaces)));
    bool newer = known && record->generation != job->generation;
    bool own = known && record->version == job->spec.version &&
               strcmp(record->definition, job->definition) == 0;
    if (newer && job->replaces) { /* it was removed, and told so: that it is back is told, too */
        job->looks_again = true;
        jsi_look_locked(s, job);
    } else if (own && (newer || record->mark_at_ms > job->mark_ms)) {
        job->generation = record->generation;
        job->mark_ms = record->mark_at_ms;
        job->last_end_ms = record->last_end_at_ms;
        jsi_due_disarm(&s->due, &job->due);
        jsi_job_rearm_locked(s, job);
    } else if (newer && !own) {
        jsi_due_disarm(&s->due, &job->due);
        jsi_look_locked(s, job);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return 0;
}

static size_t look_at_all(jobsched *s)
{
    /* Where it fails, each job's claim is told its mark. */
    int code = s->driver->jobs == NULL ? 0 : jsi_backend_look(s, NULL, refresh, s);
    (void)pthread_mutex_lock(&s->lock);
    int64_t pause_ms = code == 0                ? JSI_LEADER_LOOK_MS
                       : code == JSI_ADMIN_BUSY ? JSI_LOOK_FAILED_FIRST_MS
                                                : jsi_look_pause_locked(s, code);
    s->leader_look_mono_ms = jsi_mono(s) + pause_ms;
    s->leader_fresh = false;
    jsi_wake_tick_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    return 1;
}

size_t jsi_leader_catch_up(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool fresh = s->leader_fresh && s->leader_run != NULL && s->state == JSI_STARTED;
    s->leader_fresh = fresh;
    (void)pthread_mutex_unlock(&s->lock);
    return fresh ? look_at_all(s) : 0;
}

size_t jsi_leader_refresh(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool again = s->leader_run != NULL && s->state == JSI_STARTED && s->driver->jobs != NULL &&
                 !s->leader_fresh && jsi_mono(s) >= s->leader_look_mono_ms;
    (void)pthread_mutex_unlock(&s->lock);
    return again ? look_at_all(s) : 0;
}

int jobsched_is_leader(jobsched *scheduler)
{
    jobsched *s = scheduler;
    if (jsi_enter(s) != 0) {
        return 0;
    }
    (void)pthread_mutex_lock(&s->lock);
    bool leads = s->leader_job != NULL && jsi_leads_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    return leads;
}
