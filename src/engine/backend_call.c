/* backend_call.c: the only file that calls backend operations. Around each: the deadline, a
 * sample of the backend's clock, counters, and the news that the backend failed or is back.
 * Locks: s->lock is taken only after the operation has returned. */
#include "base/clock.h"
#include "base/thread.h"
#include "engine/internal.h"

#include <stdio.h>
#include <unistd.h>

/* Each kind has its own measure, so that a server that is free with its words drowns no loss. */
static void on_notice(void *notice_data, int kind, const char *message)
{
    static const int kinds[JSI_NOTICE_KINDS] = {
        JOBSCHED_EVENT_BACKEND_NOTICE, JOBSCHED_EVENT_BACKEND_WARNING,
        JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST, JOBSCHED_EVENT_NOT_ALONE};
    char text[JOBSCHED_MESSAGE_BYTES + 64];
    jobsched *s = notice_data;
    size_t class = 0;
    for (size_t i = 0; i < JSI_NOTICE_KINDS; i++) {
        class = kinds[i] == kind ? i : class;
    }
    jobsched_event event = jsi_event(kinds[class], NULL, NULL);
    event.message = message;
    (void)pthread_mutex_lock(&s->lock);
    jsi_notices *notices = &s->notices[class];
    int64_t mono_ms = jsi_mono(s);
    if (notices->told == 0 || mono_ms - notices->from_mono_ms >= JSI_FAILURES_TOLD_SPAN_MS) {
        notices->from_mono_ms = mono_ms;
        notices->told = 0;
    }
    if (notices->told < JSI_NOTICES_TOLD_MAX) {
        notices->told++;
        if (notices->untold > 0) {
            (void)snprintf(text, sizeof text, "%.511s (%llu others were not told)", message,
                           (unsigned long long)notices->untold);
            event.message = text;
        }
        notices->untold = 0;
        jsi_emit_locked(s, &event);
    } else {
        notices->untold++;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

int jsi_backend_open(jobsched *s)
{
    s->config = (jobsched_backend_config){.url = s->settings.lock,
                                          .name_space = s->settings.name_space,
                                          .node_id = s->node_id,
                                          .node_name = s->settings.node_name,
                                          .app_version = s->settings.app_version,
                                          .lease_ms = s->settings.lease_ms,
                                          .request_timeout_ms = s->settings.request_timeout_ms,
                                          .history_count = s->settings.history_count,
                                          .history_age_ms = s->settings.history_age_ms,
                                          .allocator = s->allocator,
                                          .clock = s->clock,
                                          .notice = on_notice,
                                          .notice_data = s,
                                          .control_only = s->settings.control_only};
    return s->driver->open(&s->config, &s->backend);
}

void jsi_backend_close(jobsched *s)
{
    s->driver->close(s->backend);
    s->backend = NULL;
}

typedef struct request_frame {
    jobsched_call call;
    bool renews;
    bool looks; /* on the admin lane, but nobody waits for it who could be told */
    int64_t sent_mono_ms;
} request_frame;

static request_frame begin(const jobsched *s, int lane)
{
    return (request_frame){.call = {.lane = lane,
                                    .timeout_ms = s->settings.request_timeout_ms,
                                    .lost_at_mono_ms = JOBSCHED_NONE},
                           .sent_mono_ms = jsi_mono(s)};
}

/* The event of a failure, and what people can do about it: the error's own text says what is wrong
 * and where, in the words of the store. */
typedef struct failure_class {
    int code;
    int kind;
    const char *remedy;
} failure_class;

static failure_class class_of(int code)
{
    static const failure_class classes[] = {
        {JOBSCHED_EUNREACHABLE, JOBSCHED_EVENT_BACKEND_UNREACHABLE,
         "nothing fires until it answers: see that it runs and that this host reaches it"},
        {JOBSCHED_EUNKNOWN, JOBSCHED_EVENT_BACKEND_UNKNOWN,
         "the same is asked again; if this goes on, see why it answers late, or raise "
         "'request_timeout'"},
        {JOBSCHED_EREFUSED, JOBSCHED_EVENT_BACKEND_REFUSED,
         "nothing fires until its settings or the lock URL allow it: 'jobschedctl doctor' says "
         "what "
         "to change"},
        {JOBSCHED_EACCESS, JOBSCHED_EVENT_BACKEND_ACCESS,
         "nothing fires until this user may: correct the credentials or grant the rights"},
        {JOBSCHED_ESCHEMA, JOBSCHED_EVENT_BACKEND_SCHEMA,
         "nothing fires here until a version of jobsched that knows this schema is deployed"},
        {JOBSCHED_EDATALOST, JOBSCHED_EVENT_BACKEND_DATA_LOST,
         "nothing fires until the store is restored, or removed and made anew"},
        {JOBSCHED_EFULL, JOBSCHED_EVENT_BACKEND_FULL,
         "nothing fires until there is space: free some or raise its limit"},
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i].code == code) {
            return classes[i];
        }
    }
    return (failure_class){code, JOBSCHED_EVENT_BACKEND_FAILED,
                           "it is asked again; if this goes on, 'jobschedctl doctor' tells more"};
}

static void tell_failed_locked(jobsched *s, int code, const char *operation, const char *remedy)
{
    char message[JOBSCHED_MESSAGE_BYTES + 256];
    failure_class class = class_of(code);
    jobsched_event event = jsi_event(class.kind, NULL, NULL);
    const jobsched_error *error = jobsched_last_error();
    int length = snprintf(message, sizeof message, "%s: %s (%s)", operation,
                          error->code == code ? error->message : jobsched_code_text(code),
                          remedy != NULL ? remedy : class.remedy);
    if (s->failures_untold > 0 && length > 0 && (size_t)length < sizeof message) {
        (void)snprintf(message + length, sizeof message - (size_t)length,
                       " (%llu other failures were not told)",
                       (unsigned long long)s->failures_untold);
    }
    s->failures_untold = 0;
    event.code = code;
    event.count = 1;
    event.message = message;
    jsi_emit_locked(s, &event);
}

/* After a step back nothing is due until the backend's clock has caught up: people should know. */
static void tell_step_locked(jobsched *s, const jsi_timesync *before)
{
    int64_t step_ms = s->sync.low_ms - before->low_ms;
    int64_t slack_ms = JSI_CLOCK_STEP_MS + before->high_ms - before->low_ms;
    if (!before->contacted || (step_ms < slack_ms && step_ms > -slack_ms)) {
        return;
    }
    char message[80];
    jobsched_event event = jsi_event(JOBSCHED_EVENT_BACKEND_CLOCK_JUMPED, NULL, NULL);
    (void)snprintf(message, sizeof message, "the lock backend's clock was stepped by %lld ms",
                   (long long)step_ms);
    event.message = message;
    jsi_emit_locked(s, &event);
}

/* Whether a failure is told: the first of a row, and then each time the row has doubled, so that
 * an outage of hours is a few records; and the first of each class in a row, since another class
 * wants another remedy. A backend that comes and goes is told so often in a minute and no more. */
static bool is_told_locked(jobsched *s, jsi_outage *outage, int code)
{
    uint32_t class = code < 0 && code > -32 ? UINT32_C(1) << -code : 1;
    int64_t mono_ms = jsi_mono(s);
    bool doubled = (outage->failures & (outage->failures - 1)) == 0;
    if (!doubled && (outage->told_classes & class) != 0) {
        return false;
    }
    if (mono_ms - s->failures_from_mono_ms >= JSI_FAILURES_TOLD_SPAN_MS) {
        s->failures_from_mono_ms = mono_ms;
        s->failures_told = 0;
    }
    if (s->failures_told >= JSI_FAILURES_TOLD_MAX) {
        s->failures_untold++;
        return false;
    }
    s->failures_told++;
    outage->told_classes |= class;
    return true;
}

/* Told only where the outage was. */
static void recover_locked(jobsched *s, jsi_outage *outage)
{
    if (outage->told_classes != 0) {
        jobsched_event event = jsi_event(JOBSCHED_EVENT_BACKEND_RECOVERED, NULL, NULL);
        jsi_emit_locked(s, &event);
    }
    *outage = (jsi_outage){.failures = 0};
}

/* Only a renewal proves that what shows this node alive is there (again). */
static void note_session_locked(jobsched *s, const request_frame *frame, int code)
{
    if (code == JOBSCHED_OK && frame->renews) {
        jsi_keep_alive_locked(s);
    } else if (code != JOBSCHED_OK && frame->call.lost_at_mono_ms != JOBSCHED_NONE) {
        jsi_keep_lost_locked(s, frame->call.lost_at_mono_ms);
    }
}

static jsi_outage *outage_of(jobsched *s, const request_frame *frame)
{
    switch (frame->call.lane) {
    case JOBSCHED_LANE_KEEP:
        return &s->keep_outage;
    case JOBSCHED_LANE_ADMIN: /* else the caller is told instead */
        return frame->looks ? &s->look_outage : NULL;
    default:
        return &s->claim_outage;
    }
}

static int end(jobsched *s, const request_frame *frame, int code, const char *operation)
{
    int64_t received_mono_ms = jsi_mono(s); /* before the lock, whose wait is no part of the trip */
    (void)pthread_mutex_lock(&s->lock);
    jsi_outage *outage = outage_of(s, frame);
    if (frame->call.lane == JOBSCHED_LANE_KEEP) {
        note_session_locked(s, frame, code);
    }
    if (code == JOBSCHED_OK) {
        jsi_timesync before = s->sync;
        jsi_timesync_sample(&s->sync, frame->call.now_ms, frame->sent_mono_ms, received_mono_ms);
        tell_step_locked(s, &before);
        jsi_wake_tick_locked(s);
        if (outage != NULL && outage->failures > 0) {
            recover_locked(s, outage);
        }
    } else {
        s->stats.backend_errors++;
        if (outage != NULL) {
            outage->failures++;
            if (is_told_locked(s, outage, code)) {
                tell_failed_locked(s, code, operation,
                                   frame->looks ? "jobs wait whose definition has changed; all "
                                                  "others go on"
                                                : NULL);
            }
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return code;
}

int jsi_backend_announce(jobsched *s, jobsched_announcement *items, size_t count)
{
    request_frame frame = begin(s, JOBSCHED_LANE_CLAIM);
    return end(s, &frame, s->driver->announce(s->backend, &frame.call, items, count), "announce");
}

/* What is not an answer must not be taken for one: an unanswered renewal for a lease that was kept,
 * say. It may have been meant as anything, so whatever was asked is asked again. */
static int refuse_answer(const char *operation, const char *job, int answer)
{
    return jobsched_fail(JOBSCHED_EUNKNOWN, 0,
                         "the lock backend answered %d to the %s of job '%s', which means nothing",
                         answer, operation, job);
}

static int check_claims(const jobsched_claim *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int answer = items[i].answer;
        bool known = answer > JOBSCHED_ANSWER_NONE && answer <= JOBSCHED_ANSWER_BUSY;
        if (!known || (answer == JOBSCHED_ANSWER_GRANTED && items[i].token == 0 &&
                       items[i].kind != JOBSCHED_CLAIM_SKIP)) {
            return refuse_answer("claim", items[i].job, answer);
        }
    }
    return JOBSCHED_OK;
}

static int check_lease(const char *operation, const char *job, int answer)
{
    bool known = answer >= JOBSCHED_LEASE_KEPT && answer <= JOBSCHED_LEASE_CANCEL;
    return known ? JOBSCHED_OK : refuse_answer(operation, job, answer);
}

int jsi_backend_claim(jobsched *s, jobsched_claim *items, size_t count, uint64_t grants_max)
{
    request_frame frame = begin(s, JOBSCHED_LANE_CLAIM);
    frame.call.grants_max = grants_max;
    int code = s->driver->claim(s->backend, &frame.call, items, count);
    code = code != JOBSCHED_OK ? code : check_claims(items, count);
    return end(s, &frame, code, "claim");
}

int jsi_backend_finish(jobsched *s, jobsched_finish *items, size_t count, int64_t *out_now_ms)
{
    request_frame frame = begin(s, JOBSCHED_LANE_CLAIM);
    int code = s->driver->finish(s->backend, &frame.call, items, count);
    *out_now_ms = frame.call.now_ms;
    for (size_t i = 0; code == JOBSCHED_OK && i < count; i++) {
        code = check_lease("finish", items[i].job, items[i].answer);
    }
    return end(s, &frame, code, "finish");
}

int jsi_backend_renew(jobsched *s, int64_t clock_offset_ms, jobsched_lease *items, size_t count)
{
    request_frame frame = begin(s, JOBSCHED_LANE_KEEP);
    frame.renews = true;
    int code = s->driver->renew(s->backend, &frame.call, clock_offset_ms, items, count);
    for (size_t i = 0; code == JOBSCHED_OK && i < count; i++) {
        code = check_lease("renewal", items[i].job, items[i].answer);
    }
    return end(s, &frame, code, "renew");
}

int jsi_backend_reap(jobsched *s, int (*visit)(const jobsched_finding *finding, void *visit_data),
                     void *visit_data)
{
    request_frame frame = begin(s, JOBSCHED_LANE_KEEP);
    return end(s, &frame, s->driver->reap(s->backend, &frame.call, visit, visit_data), "reap");
}

int jsi_backend_watch(jobsched *s)
{
    return s->driver->watch == NULL ? -1 : s->driver->watch(s->backend);
}

/* No more questions: the backend is closing, or closed. */
#define VOUCH_CLOSED (UINT32_C(1) << 31)

int64_t jsi_backend_vouched_ms(const jobsched *s, int64_t mono_ms)
{
    if (s->driver->vouch == NULL || JSI_MUTANT(vouch_ignored)) {
        return JOBSCHED_NONE;
    }
    int64_t until_ms = atomic_load(&s->vouched_mono_ms);
    if (mono_ms < until_ms - JSI_LOST_MARGIN_MS) {
        return until_ms - JSI_LOST_MARGIN_MS;
    }
    if (s->owner != getpid()) {
        return JOBSCHED_NONE; /* a forked child, which may not enter the backend */
    }
    /* The scheduler is not a constant object; only a run's view of it is. */
    jobsched *shared = (jobsched *)(uintptr_t)s;
    bool closed = (atomic_fetch_add(&shared->vouching, 1) & VOUCH_CLOSED) != 0;
    if (!closed) {
        until_ms = s->driver->vouch(s->backend);
        /* "Over" may be said with the smallest number. */
        until_ms = until_ms < INT64_MIN / 2 ? INT64_MIN / 2 : until_ms;
    }
    (void)atomic_fetch_sub(&shared->vouching, 1);
    if (closed) {
        return INT64_MIN; /* the node has left the cluster */
    }
    if (until_ms == JOBSCHED_NONE) {
        return JOBSCHED_NONE; /* for now: not remembered */
    }
    atomic_store(&shared->vouched_mono_ms, until_ms);
    return until_ms - JSI_LOST_MARGIN_MS;
}

bool jsi_backend_close_vouch(jobsched *s, int64_t wait_ms)
{
    int64_t until_ms = jsi_clock_real_mono_ns() / 1000000 + wait_ms;
    (void)atomic_fetch_or(&s->vouching, VOUCH_CLOSED);
    (void)pthread_mutex_lock(&s->lock);
    /* It is microseconds, unless who asks is not scheduled; nobody signals, so look again. */
    while (atomic_load(&s->vouching) != VOUCH_CLOSED && wait_ms > 0) {
        jsi_cond_wait_ms(&s->idle_cond, &s->lock, 1);
        wait_ms = until_ms - jsi_clock_real_mono_ns() / 1000000;
    }
    bool idle = atomic_load(&s->vouching) == VOUCH_CLOSED;
    (void)pthread_mutex_unlock(&s->lock);
    return idle;
}

int jsi_backend_withdraw(jobsched *s, const char *const *jobs, size_t count)
{
    request_frame frame = begin(s, JOBSCHED_LANE_CLAIM);
    return end(s, &frame, s->driver->withdraw(s->backend, &frame.call, jobs, count), "withdraw");
}

/* Calls on the admin lane come from any thread, one at a time. */
static int enter_admin(jobsched *s)
{
    int64_t wait_ms = s->settings.request_timeout_ms;
    int64_t until_ms = jsi_clock_real_mono_ns() / 1000000 + wait_ms;
    (void)pthread_mutex_lock(&s->lock);
    while (s->admin_busy && s->state != JSI_CLOSING && wait_ms > 0) {
        jsi_cond_wait_ms(&s->admin_cond, &s->lock, wait_ms);
        wait_ms = until_ms - jsi_clock_real_mono_ns() / 1000000;
    }
    bool closing = s->state == JSI_CLOSING;
    bool busy = s->admin_busy;
    s->admin_busy = busy || !closing;
    (void)pthread_mutex_unlock(&s->lock);
    if (closing) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "the scheduler is closing");
    }
    return busy ? jobsched_fail(JOBSCHED_EUNREACHABLE, 0,
                                "other control calls went on for longer than the request timeout "
                                "of %lld ms",
                                (long long)s->settings.request_timeout_ms)
                : JOBSCHED_OK;
}

bool jsi_backend_close_admin(jobsched *s, int64_t wait_ms)
{
    int64_t until_ms = jsi_clock_real_mono_ns() / 1000000 + wait_ms;
    (void)pthread_mutex_lock(&s->lock);
    (void)pthread_cond_broadcast(&s->admin_cond);
    while (s->admin_busy && wait_ms > 0) {
        jsi_cond_wait_ms(&s->admin_cond, &s->lock, wait_ms);
        wait_ms = until_ms - jsi_clock_real_mono_ns() / 1000000;
    }
    bool idle = !s->admin_busy;
    (void)pthread_mutex_unlock(&s->lock);
    return idle;
}

/* Ends a call on the admin lane. "No such job" is an answer, not a failure of the backend. */
static int leave_admin(jobsched *s, const request_frame *frame, int code, const char *operation)
{
    bool answered = code == JOBSCHED_ENOTFOUND || (code == JOBSCHED_ESTATE && !frame->looks);
    if (!answered) {
        (void)end(s, frame, code, operation);
    }
    (void)pthread_mutex_lock(&s->lock);
    if (answered && frame->looks && s->look_outage.failures > 0) {
        recover_locked(s, &s->look_outage);
    }
    s->admin_busy = false;
    (void)pthread_cond_broadcast(&s->admin_cond);
    (void)pthread_mutex_unlock(&s->lock);
    return code;
}

int jsi_backend_control(jobsched *s, const jobsched_command *command,
                        jobsched_control_result *out_result)
{
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->control(s->backend, &frame.call, command, out_result);
    return leave_admin(s, &frame, code, "control");
}

int jsi_backend_runs(jobsched *s, const char *job, uint64_t limit, jobsched_run_visit_fn visit,
                     void *visit_data)
{
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->runs(s->backend, &frame.call, job, limit, visit, visit_data);
    return leave_admin(s, &frame, code, "runs");
}

/* An operation that a backend may lack. */
static int refuse_lacking(const jobsched *s, const char *what)
{
    return jobsched_fail(JOBSCHED_ENOTSUP, 0, "backend '%s' cannot %s", s->driver->scheme, what);
}

int jsi_backend_find(jobsched *s, const char *job, const char *request, jobsched_run_visit_fn visit,
                     void *visit_data)
{
    if (s->driver->find == NULL) {
        return refuse_lacking(s, "find a trigger");
    }
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->find(s->backend, &frame.call, job, request, visit, visit_data);
    return leave_admin(s, &frame, code, "find");
}

int jsi_backend_jobs(jobsched *s, const char *job, jobsched_job_visit_fn visit, void *visit_data)
{
    if (s->driver->jobs == NULL) {
        return refuse_lacking(s, "list jobs");
    }
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->jobs(s->backend, &frame.call, job, visit, visit_data);
    return leave_admin(s, &frame, code, "jobs");
}

int jsi_backend_look(jobsched *s, const char *job, jobsched_job_visit_fn visit, void *visit_data)
{
    (void)pthread_mutex_lock(&s->lock);
    bool busy = s->admin_busy || s->state == JSI_CLOSING;
    s->admin_busy = s->admin_busy || !busy;
    (void)pthread_mutex_unlock(&s->lock);
    if (busy) {
        return JSI_ADMIN_BUSY;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    frame.looks = true;
    int code = s->driver->jobs(s->backend, &frame.call, job, visit, visit_data);
    return leave_admin(s, &frame, code, "look for the definition in force");
}

int jsi_backend_nodes(jobsched *s, jobsched_node_visit_fn visit, void *visit_data)
{
    if (s->driver->nodes == NULL) {
        return refuse_lacking(s, "list nodes");
    }
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->nodes(s->backend, &frame.call, visit, visit_data);
    return leave_admin(s, &frame, code, "nodes");
}

int jsi_backend_check(jobsched *s, jobsched_check_visit_fn visit, void *visit_data)
{
    if (s->driver->check == NULL) {
        return refuse_lacking(s, "check itself");
    }
    int failed = enter_admin(s);
    if (failed != 0) {
        return failed;
    }
    request_frame frame = begin(s, JOBSCHED_LANE_ADMIN);
    int code = s->driver->check(s->backend, &frame.call, visit, visit_data);
    return leave_admin(s, &frame, code, "check");
}

int jsi_backend_schema(const jobsched_backend *driver, const char *url,
                       jobsched_text_visit_fn visit, void *visit_data)
{
    return driver->schema == NULL
               ? jobsched_fail(JOBSCHED_ENOTSUP, 0, "backend '%s' has no schema to print",
                               driver->scheme)
               : driver->schema(url, visit, visit_data);
}
