/* announce.c: which definition of a job is in force (G14): tells the backend what this node
 * registers and registers no more, stands down where another definition is in force, and comes
 * back where its own is again. Three rounds of the elector, on its thread.
 * Locks: takes s->lock, never over a backend call. */
#include "engine/internal.h"

#include <inttypes.h>
#include <stdio.h>

/* A registration that is to be taken back. The job itself may be gone by then. */
typedef struct withdrawal {
    jsi_link link; /* in s->withdrawing */
    char name[];
} withdrawal;

/* ---- standing down --------------------------------------------------------- */

void jsi_stand_down_locked(jobsched *s, jsi_job *job, int kind, const char *message)
{
    if (message != NULL) {
        jobsched_event event = jsi_event(kind, job, NULL);
        event.message = message;
        jsi_emit_locked(s, &event);
    }
    bool waited = job->replaces;
    jsi_replace_end_locked(s, job);
    job->next_ms = JOBSCHED_NONE;
    job->phase = JSI_JOB_IDLE;
    if (!JSI_MUTANT(stood_down_runs)) {
        job->generation = 0; /* it has no part in the one in force, also not for triggers */
    }
    /* A tombstone is lifted by a larger version only, so never by this one. But one that came while
     * this one waited to replace what was in force may be lifted by a node that registers the same
     * later; a leader sees that by itself, and need not yield because of it. */
    bool removed = kind == JOBSCHED_EVENT_JOB_REMOVED;
    job->replaces = removed && waited;
    bool looks = !removed || (waited && !s->settings.leader);
    if (looks && s->driver->jobs != NULL) {
        job->phase = JSI_JOB_STOOD;
        if (jsi_list_is_empty(&s->stood)) {
            s->stood_look_mono_ms = jsi_mono(s) + jsi_stood_span_ms(s);
        }
        jsi_list_append(&s->stood, &job->link);
    }
}

int64_t jsi_stood_span_ms(const jobsched *s)
{
    return s->settings.lease_ms > JSI_STOOD_LOOK_MIN_MS ? s->settings.lease_ms
                                                        : JSI_STOOD_LOOK_MIN_MS;
}

void jsi_look_locked(jobsched *s, jsi_job *job)
{
    if (s->driver->jobs == NULL) {
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_STOOD_DOWN,
                              "another definition of the job is in force in the cluster");
        return;
    }
    job->phase = JSI_JOB_LOOKING;
    job->next_ms = JOBSCHED_NONE;
    jsi_list_append(&s->looking, &job->link);
    jsi_wake_elect_locked(s);
}

/* ---- announce -------------------------------------------------------------- */

static void tell_conflict_locked(jobsched *s, const jsi_job *job, const char *what)
{
    char message[160];
    jobsched_event event = jsi_event(JOBSCHED_EVENT_JOB_CONFLICT, job, NULL);
    (void)snprintf(message, sizeof message,
                   "two definitions of the job claim to be version %" PRIu64 ": %s",
                   job->spec.version, what);
    event.message = message;
    jsi_emit_locked(s, &event);
}

static void announced_locked(jobsched *s, jsi_job *job, const jobsched_announcement *item)
{
    if (job->withdrawn) {
        job->phase = JSI_JOB_IDLE;
        return;
    }
    if (item->pending) {
        jsi_replace_pending_locked(s, job, item);
        return;
    }
    if (item->in_force && !item->removed) {
        jsi_replace_done_locked(s, job);
    } else {
        jsi_replace_end_locked(s, job); /* another has replaced it, or nobody */
    }
    job->generation = item->in_force || JSI_MUTANT(stood_down_runs) ? item->generation : 0;
    job->mark_ms = item->mark_ms;
    job->last_end_ms = item->last_end_ms;
    if (item->conflict) {
        tell_conflict_locked(s, job, "this node's is in force now");
    }
    if (item->in_force && !item->removed) {
        jsi_job_rearm_locked(s, job);
    } else if (item->removed) {
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_REMOVED,
                              "the job was removed from the cluster; register a larger version");
    } else {
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_STOOD_DOWN,
                              "a larger version of the job is in force in the cluster");
    }
}

size_t jsi_announce(jobsched *s)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    while (s->state == JSI_STARTED && count < JOBSCHED_BATCH_MAX) {
        jsi_link *link = jsi_list_take(&s->unannounced);
        if (link == NULL) {
            break;
        }
        jsi_job *job = JSI_CONTAINER(link, jsi_job, link);
        job->phase = JSI_JOB_ANNOUNCING;
        job->announced = true;
        job->references++;
        s->batch[count] = job;
        s->announcements[count] = (jobsched_announcement){
            .job = job->name, .definition = job->definition, .version = job->spec.version};
        jsi_replace_fill_locked(s, job, &s->announcements[count++]);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (count == 0) {
        return 0;
    }
    int failed = jsi_backend_announce(s, s->announcements, count);
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        jsi_job *job = s->batch[i];
        if (failed == 0) {
            announced_locked(s, job, &s->announcements[i]);
        } else if (!job->withdrawn) {
            job->phase = JSI_JOB_NEW;
            jsi_list_append(&s->unannounced, &job->link);
        }
    }
    if (failed != 0) {
        jsi_rest_locked(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        jsi_job_release(s, s->batch[i]);
    }
    return count;
}

/* ---- withdraw -------------------------------------------------------------- */

void jsi_withdrawn_locked(jobsched *s, const jsi_job *job)
{
    if (!job->announced || s->driver->withdraw == NULL) {
        return;
    }
    size_t name_bytes = strlen(job->name) + 1;
    withdrawal *item = jsi_new(&s->allocator, sizeof *item + name_bytes);
    if (item != NULL) { /* else only the lists show it for as long as this node lives */
        memcpy(item->name, job->name, name_bytes);
        jsi_list_append(&s->withdrawing, &item->link);
        jsi_wake_elect_locked(s);
    }
}

/* Before announcements, so that a job which was withdrawn and registered again stays registered. */
size_t jsi_withdraw(jobsched *s)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    bool works = s->state == JSI_STARTED || s->state == JSI_STOPPED;
    while (works && count < JOBSCHED_BATCH_MAX) {
        jsi_link *link = jsi_list_take(&s->withdrawing);
        if (link == NULL) {
            break;
        }
        withdrawal *item = JSI_CONTAINER(link, withdrawal, link);
        s->batch[count] = item;
        s->names[count++] = item->name;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (count == 0) {
        return 0;
    }
    int failed = jsi_backend_withdraw(s, s->names, count);
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = count; i > 0; i--) {
        withdrawal *item = s->batch[i - 1];
        if (failed != 0) {
            jsi_list_prepend(&s->withdrawing, &item->link);
        } else {
            jsi_free(&s->allocator, item);
        }
    }
    if (failed != 0) {
        jsi_rest_locked(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}

void jsi_withdrawals_fini(jobsched *s)
{
    for (jsi_link *link; (link = jsi_list_take(&s->withdrawing)) != NULL;) {
        jsi_free(&s->allocator, JSI_CONTAINER(link, withdrawal, link));
    }
}

/* ---- look ------------------------------------------------------------------ */

/* What is in force of a job, as seen from this node. */
struct seen {
    const jsi_job *job;
    bool found, removed, same_text;
    uint64_t version, generation;
    int64_t mark_ms, last_end_ms;
    char definition[JOBSCHED_DEFINITION_BYTES + 1];
};

static int see(const jobsched_job_record *record, void *visit_data)
{
    struct seen *seen = visit_data;
    seen->found = true;
    seen->removed = record->removed != 0;
    seen->same_text = strcmp(record->definition, seen->job->definition) == 0;
    seen->version = record->version;
    seen->generation = record->generation;
    seen->mark_ms = record->mark_at_ms;
    seen->last_end_ms = record->last_end_at_ms;
    (void)snprintf(seen->definition, sizeof seen->definition, "%s", record->definition);
    return 0;
}

/* Whether it is what this node's definition is to take the place of. Of the same version only what
 * was in force when this node asked: what came since is a later registration, and holds. */
static bool is_replaced(const jsi_job *job, const struct seen *seen)
{
    if (!job->replaces || !seen->found || seen->removed) {
        return false;
    }
    return seen->version < job->spec.version ||
           (seen->version == job->spec.version && !seen->same_text &&
            seen->generation == job->replaced_generation);
}

/* Its own definition is in force, under a generation that this node did not know: somebody with
 * the same definition has put it there. It is adopted and not announced, since an announcement
 * would replace a newer one that came in between. */
static void adopt_locked(jobsched *s, jsi_job *job, const struct seen *seen)
{
    bool known = seen->generation == job->generation;
    job->generation = seen->generation;
    job->mark_ms = seen->mark_ms;
    job->last_end_ms = seen->last_end_ms;
    if (job->looks_again) {
        jobsched_event event = jsi_event(JOBSCHED_EVENT_JOB_BACK_IN_FORCE, job, NULL);
        event.message = "this node's definition of the job is in force again";
        jsi_emit_locked(s, &event);
    }
    jsi_replace_end_locked(s, job);
    jsi_job_rearm_locked(s, job);
    int64_t later_ms = jsi_now_locked(s) + JSI_LOOK_LATER_MS;
    if (known && job->phase == JSI_JOB_ARMED && job->next_ms < later_ms) {
        /* The store called stale what it shows in force: not round and round. */
        jsi_due_disarm(&s->due, &job->due);
        jsi_due_arm(&s->due, &job->due, later_ms);
    }
}

static void looked_locked(jobsched *s, jsi_job *job, const struct seen *seen)
{
    bool quiet = job->looks_again;
    if (job->withdrawn) {
        job->phase = JSI_JOB_IDLE;
        return;
    }
    bool forgotten = seen->version < job->spec.version && !job->replaces;
    if (!seen->found || forgotten) {
        bool replaces = job->replaces; /* so that what is pending again waits a moment */
        jsi_replace_end_locked(s, job);
        job->replaces = replaces;
        jsi_announce_locked(s, job);
        return;
    }
    if (seen->removed) {
        bool told = quiet && job->replaces;
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_REMOVED,
                              told ? NULL : "the job was removed from the cluster");
    } else if (seen->version == job->spec.version && seen->same_text) {
        adopt_locked(s, job, seen);
    } else if (quiet && JSI_MUTANT(flips_back) && seen->version == job->spec.version) {
        jsi_announce_locked(s, job);
    } else if (quiet && !job->replaces) {
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_STOOD_DOWN, NULL);
    } else {
        bool equal = seen->version == job->spec.version;
        if (equal && seen->version > 0) {
            tell_conflict_locked(s, job, "another node's is in force now");
        }
        jsi_stand_down_locked(s, job, JOBSCHED_EVENT_JOB_STOOD_DOWN,
                              equal ? "a later definition of the job is in force in the cluster"
                                    : "a larger version of the job is in force in the cluster");
    }
}

/* Those that stand down are looked at again now and then: a roll-back that reached another node
 * puts this one's definition in force again, too. */
static void look_again_locked(jobsched *s)
{
    if (jsi_list_is_empty(&s->stood) || jsi_mono(s) < s->stood_look_mono_ms) {
        return;
    }
    s->stood_look_mono_ms = jsi_mono(s) + jsi_stood_span_ms(s);
    if (JSI_MUTANT(never_back)) {
        return;
    }
    for (size_t i = 0; i < JSI_STOOD_LOOKS_MAX; i++) {
        jsi_link *link = jsi_list_take(&s->stood);
        if (link == NULL) {
            return;
        }
        jsi_job *job = JSI_CONTAINER(link, jsi_job, link);
        job->phase = JSI_JOB_LOOKING;
        job->looks_again = true;
        jsi_list_append(&s->looking, &job->link);
    }
}

int64_t jsi_look_next_locked(const jobsched *s)
{
    if (s->state != JSI_STARTED) {
        return JOBSCHED_NONE; /* jsi_look() does nothing any more: who drains would spin */
    }
    int64_t next_ms = jsi_list_is_empty(&s->looking) ? JOBSCHED_NONE : s->look_mono_ms;
    next_ms = jsi_earlier(next_ms, jsi_replace_look_next_locked(s));
    next_ms = jsi_earlier(next_ms, jsi_leader_next_locked(s));
    return jsi_list_is_empty(&s->stood) ? next_ms : jsi_earlier(next_ms, s->stood_look_mono_ms);
}

int64_t jsi_look_pause_locked(const jobsched *s, int code)
{
    if (code == JSI_ADMIN_BUSY) {
        return JSI_RETRY_FIRST_MS;
    }
    int doublings = s->look_outage.failures > 1 ? s->look_outage.failures - 1 : 0;
    int64_t span_ms = (int64_t)JSI_LOOK_FAILED_FIRST_MS << (doublings < 8 ? doublings : 8);
    return jsi_earlier(span_ms, JSI_LOOK_FAILED_MAX_MS);
}

/* One job. Returns whether the next can be looked at. */
static bool look_at(jobsched *s, jsi_job *job)
{
    struct seen seen = {.job = job};
    int code = jsi_backend_look(s, job->name, see, &seen);
    bool answered = code == JOBSCHED_OK || code == JOBSCHED_ENOTFOUND;
    (void)pthread_mutex_lock(&s->lock);
    if (answered && is_replaced(job, &seen)) {
        uint64_t reloads = s->zone_reloads;
        job->looks_again = false;
        (void)pthread_mutex_unlock(&s->lock);
        jsi_predecessor *predecessor = NULL;
        (void)jsi_definition_understand(s, job, seen.definition, &predecessor);
        (void)pthread_mutex_lock(&s->lock);
        if (predecessor != NULL) { /* it may be of the data before */
            predecessor->outdated = reloads != s->zone_reloads;
        }
        jsi_replace_settle_locked(s, job, predecessor, seen.generation, seen.mark_ms,
                                  seen.last_end_ms);
    } else if (answered) {
        looked_locked(s, job, &seen);
        job->looks_again = false;
    } else if (!job->withdrawn) {
        if (code == JSI_ADMIN_BUSY) {
            jsi_list_prepend(&s->looking, &job->link);
        } else {
            jsi_list_append(&s->looking, &job->link); /* it may fail for this job only */
        }
        s->look_mono_ms = jsi_mono(s) + jsi_look_pause_locked(s, code);
    }
    (void)pthread_mutex_unlock(&s->lock);
    jsi_job_release(s, job);
    return answered;
}

size_t jsi_look(jobsched *s)
{
    size_t looked = 0;
    (void)pthread_mutex_lock(&s->lock);
    if (s->state == JSI_STARTED) {
        jsi_replace_look_locked(s);
        jsi_leader_yield_locked(s);
        look_again_locked(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (bool goes_on = true; goes_on && looked < JSI_LOOKS_MAX;) {
        (void)pthread_mutex_lock(&s->lock);
        bool works = s->state == JSI_STARTED && jsi_mono(s) >= s->look_mono_ms;
        jsi_link *link = works ? jsi_list_take(&s->looking) : NULL;
        jsi_job *job = link == NULL ? NULL : JSI_CONTAINER(link, jsi_job, link);
        if (job != NULL) {
            job->references++;
        }
        (void)pthread_mutex_unlock(&s->lock);
        goes_on = job != NULL && look_at(s, job);
        looked += goes_on;
    }
    return looked;
}
