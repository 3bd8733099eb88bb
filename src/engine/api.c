/* api.c: a scheduler is opened and released, and jobs are added to it and withdrawn.
 * Locks: takes s->lock; never over a backend call or a callback. */
#include "base/thread.h"
#include "base/wake.h"

#include "base/clock.h"
#include "engine/internal.h"
#include "schedule/zone.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

int jsi_enter(const jobsched *s)
{
    if (s == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "scheduler is NULL");
    }
    if (s->owner != getpid()) {
        return jobsched_fail(JOBSCHED_EFORK, 0,
                             "this scheduler belongs to process %ld; a forked child that needs one "
                             "execs first",
                             (long)s->owner);
    }
    return JOBSCHED_OK;
}

int jsi_copy_struct(const char *what, void *out_struct, size_t out_bytes, const void *given)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes || given_bytes > 65536) {
        return jsi_fail_at(JOBSCHED_EINVAL, what, -1, "%s was not set up with JOBSCHED_INIT", what);
    }
    for (size_t i = out_bytes; i < given_bytes; i++) {
        if (((const char *)given)[i] != 0) {
            return jsi_fail_at(JOBSCHED_EINVAL, what, -1,
                               "%s uses a field that is newer than this library", what);
        }
    }
    memset(out_struct, 0, out_bytes);
    memcpy(out_struct, given, given_bytes < out_bytes ? given_bytes : out_bytes);
    return JOBSCHED_OK;
}

/* ---- open ------------------------------------------------------------------ */

static int make_node_id(char out_id[33])
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return jobsched_fail(JOBSCHED_EOS, 0, "no random numbers for a node id");
    }
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(&out_id[i * 2], 3, "%02x", random[i]);
    }
    return JOBSCHED_OK;
}

static int make_locks(jobsched *s)
{
    pthread_cond_t *const all[] = {&s->tick_cond,  &s->elect_cond, &s->work_cond,
                                   &s->event_cond, &s->idle_cond,  &s->admin_cond};
    if (pthread_mutex_init(&s->lock, NULL) != 0) {
        return jobsched_fail(JOBSCHED_EOS, 0, "no mutex could be made");
    }
    if (pthread_mutex_init(&s->zones_lock, NULL) != 0) {
        (void)pthread_mutex_destroy(&s->lock);
        return jobsched_fail(JOBSCHED_EOS, 0, "no mutex could be made");
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int failed = jsi_cond_init(all[i]);
        if (failed != 0) {
            while (i-- > 0) {
                (void)pthread_cond_destroy(all[i]);
            }
            (void)pthread_mutex_destroy(&s->zones_lock);
            (void)pthread_mutex_destroy(&s->lock);
            return failed;
        }
    }
    return JOBSCHED_OK;
}

static void drop_locks(jobsched *s)
{
    pthread_cond_t *const all[] = {&s->tick_cond,  &s->elect_cond, &s->work_cond,
                                   &s->event_cond, &s->idle_cond,  &s->admin_cond};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        (void)pthread_cond_destroy(all[i]);
    }
    (void)pthread_mutex_destroy(&s->zones_lock);
    (void)pthread_mutex_destroy(&s->lock);
}

static int make_batches(jobsched *s)
{
    const struct {
        void **array;
        size_t element_bytes;
    } all[] = {{(void **)&s->claims, sizeof *s->claims},
               {(void **)&s->finishes, sizeof *s->finishes},
               {(void **)&s->announcements, sizeof *s->announcements},
               {(void **)&s->batch, sizeof *s->batch},
               {(void **)&s->runs, sizeof *s->runs},
               {(void **)&s->names, sizeof *s->names},
               {(void **)&s->leases, sizeof *s->leases},
               {(void **)&s->leased, sizeof *s->leased},
               {(void **)&s->lease_notes, sizeof *s->lease_notes}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i].array = jsi_new(&s->allocator, JOBSCHED_BATCH_MAX * all[i].element_bytes);
        if (*all[i].array == NULL) {
            return JOBSCHED_ENOMEM;
        }
    }
    if (s->executor.submit == NULL) {
        s->workers = jsi_new(&s->allocator, s->settings.workers * sizeof *s->workers);
        if (s->workers == NULL) {
            return JOBSCHED_ENOMEM;
        }
    }
    return JOBSCHED_OK;
}

static void drop_batches(jobsched *s)
{
    void *const all[] = {s->names, s->claims, s->finishes, s->announcements, s->batch,
                         s->runs,  s->leases, s->leased,   s->lease_notes,   s->workers};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        jsi_free(&s->allocator, all[i]);
    }
}

static void init_queues(jobsched *s)
{
    jsi_link *const lists[] = {&s->overrides,   &s->looking, &s->looking_later, &s->stood,
                               &s->withdrawing, &s->ready,   &s->unannounced,   &s->held,
                               &s->active,      &s->work,    &s->finishing,     &s->stops,
                               &s->events};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        jsi_list_init(lists[i]);
    }
    int64_t mono_ms = jsi_mono(s);
    int64_t wall_ms = s->clock.wall_ms(s->clock.ctx);
    jsi_timesync_guess(&s->sync, wall_ms, mono_ms);
    s->wall_minus_mono_ms = wall_ms - mono_ms;
    s->ticked_at_mono_ms = -1;
    s->next_run_event_mono_ms = JOBSCHED_NONE;
    s->retry_at_mono_ms = INT64_MIN;
    s->look_mono_ms = INT64_MIN;
    s->lost_at_mono_ms = JOBSCHED_NONE;
    s->lost_told_mono_ms = INT64_MIN;
    s->beat_at_mono_ms = mono_ms;
    s->average_run_ms = JSI_WINDOW_MS; /* claims little until it knows better */
    s->ask_factor = 1;
    s->references = 1;
}

static int take_executor(jobsched *s, const jobsched_executor *given)
{
    if (given != NULL && (given->struct_size < sizeof *given || given->submit == NULL)) {
        return jsi_fail_at(JOBSCHED_EINVAL, "executor", -1,
                           "executor lacks submit or was not set up with JOBSCHED_INIT");
    }
    if (given != NULL) {
        s->executor = *given;
    }
    return JOBSCHED_OK;
}

/* Everything that needs no lock; undone by destroy_parts. */
static int init_parts(jobsched *s, const jobsched_options *options)
{
    s->owner = getpid();
    s->keep_fd = -1;
    s->observer = options->observer;
    s->observer_data = options->observer_data;
    int failed = jsi_clock_init(&s->clock, options->clock);
    failed = failed != 0 ? failed : take_executor(s, options->executor);
    failed = failed != 0 ? failed : make_node_id(s->node_id);
    failed = failed != 0 ? failed : jsi_settings_init(&s->settings, options, &s->allocator);
    failed = failed != 0 ? failed : make_batches(s);
    failed = failed != 0 ? failed : jsi_wake_open(&s->keep_fd);
    failed = failed != 0 ? failed
                         : jsi_zone_cache_new(&s->allocator, s->settings.zone_directory, &s->zones);
    failed = failed != 0
                 ? failed
                 : jsi_registry_find(s->settings.lock, options->backends, &s->driver, &s->library);
    return failed;
}

static void destroy_parts(jobsched *s)
{
    jobsched_allocator allocator = s->allocator;
    jsi_registry_close(s->library);
    jsi_zone_cache_free(s->zones);
    jsi_wake_close(s->keep_fd);
    drop_batches(s);
    jsi_settings_fini(&s->settings, &allocator);
    jsi_free(&allocator, s);
}

int jobsched_open(const jobsched_options *options, jobsched **out_scheduler)
{
    jobsched_options copy;
    JOBSCHED_INIT(&copy);
    int failed = options == NULL ? 0 : jsi_copy_struct("options", &copy, sizeof copy, options);
    if (failed == 0 && out_scheduler == NULL) {
        failed = jobsched_fail(JOBSCHED_EINVAL, 0, "out_scheduler is NULL");
    }
    jobsched_allocator allocator;
    failed = failed != 0 ? failed : jsi_alloc_init(&allocator, copy.allocator);
    if (failed != 0) {
        return failed;
    }
    jobsched *s = jsi_new(&allocator, sizeof *s);
    if (s == NULL) {
        return JOBSCHED_ENOMEM;
    }
    s->allocator = allocator;
    failed = init_parts(s, &copy);
    failed = failed != 0 ? failed : make_locks(s);
    if (failed != 0) {
        destroy_parts(s);
        return failed;
    }
    init_queues(s);
    failed = jsi_overrides_read(s);
    failed = failed != 0 ? failed : jsi_leader_init(s);
    failed = failed != 0 ? failed : jsi_backend_open(s);
    if (failed != 0) {
        jsi_scheduler_empty(s);
        jsi_due_fini(&s->due, &s->allocator);
        jsi_map_fini(&s->jobs, &s->allocator);
        jsi_events_fini(s);
        drop_locks(s);
        destroy_parts(s);
        return failed;
    }
    *out_scheduler = s;
    return JOBSCHED_OK;
}

void jsi_scheduler_release(jobsched *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool last = --s->references == 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (!last) {
        return;
    }
    if (s->backend != NULL) {
        jsi_backend_close(s);
    }
    jsi_scheduler_empty(s);
    jsi_events_fini(s);
    jsi_due_fini(&s->due, &s->allocator);
    jsi_map_fini(&s->jobs, &s->allocator);
    drop_locks(s);
    destroy_parts(s);
}

/* ---- jobs ------------------------------------------------------------------ */

int jsi_job_enter_locked(jobsched *s, jsi_job *job)
{
    if (s->state == JSI_CLOSING) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "the scheduler is closing");
    }
    if (jsi_map_find(&s->jobs, job->name) != NULL) {
        return jobsched_fail(JOBSCHED_EEXIST, 0, "job '%s' is registered already", job->name);
    }
    int failed = jsi_due_reserve(&s->due, &s->allocator, s->jobs.count + 1);
    failed = failed != 0 ? failed : jsi_map_add(&s->jobs, &s->allocator, job->name, job);
    if (failed == 0) {
        jsi_list_append(&s->unannounced, &job->link);
        jsi_wake_elect_locked(s);
    }
    return failed;
}

int jobsched_add(jobsched *scheduler, const jobsched_job_spec *spec, int64_t *out_next_at_ms)
{
    jobsched *s = scheduler;
    jobsched_job_spec copy;
    int failed = jsi_enter(s);
    if (failed == 0 && spec == NULL) {
        failed = jobsched_fail(JOBSCHED_EINVAL, 0, "spec is NULL");
    }
    failed = failed != 0 ? failed : jsi_copy_struct("spec", &copy, sizeof copy, spec);
    if (failed == 0 && s->settings.control_only) {
        failed = jobsched_fail(JOBSCHED_ESTATE, 0, "a control-only scheduler registers no job");
    }
    if (failed == 0 && copy.name != NULL) {
        failed = jsi_reserved_check(copy.name);
    }
    failed = failed != 0 ? failed : jsi_override_apply(s, &copy);
    jsi_job *job = NULL;
    failed = failed != 0 ? failed : jsi_job_new(s, &copy, &job);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    failed = jsi_job_enter_locked(s, job);
    if (failed == 0 && out_next_at_ms != NULL) {
        *out_next_at_ms = job->spec.disabled
                              ? JOBSCHED_NONE
                              : jobsched_schedule_next(job->schedule, jsi_now_locked(s));
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (failed != 0) {
        job->spec.user_data_free = NULL; /* it stays the caller's */
        jsi_job_release(s, job);
    }
    return failed;
}

/* Drops the triggers and reruns of a job that this node no longer offers. Those with an unknown
 * outcome stay until it is known. */
static void drop_extra_asks_locked(jobsched *s, jsi_job *job, jsi_link *list)
{
    jsi_link *link = list->next;
    while (link != list) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        link = link->next;
        if (ask->extra && ask->job == job && !ask->unresolved) {
            (void)jsi_ask_drop_locked(s, ask);
            job->references--; /* never the last: the caller holds the table's */
        }
    }
}

int jobsched_withdraw(jobsched *scheduler, const char *job_name)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    failed = failed != 0 ? failed : jsi_name_check("job", job_name);
    failed = failed != 0 ? failed : jsi_reserved_check(job_name);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    jsi_job *job = jsi_map_find(&s->jobs, job_name);
    if (job != NULL) {
        jsi_map_remove(&s->jobs, job_name);
        job->withdrawn = true;
        s->strays = s->strays || job->announced; /* also of triggers that are with the backend */
        jsi_job_disarm_locked(s, job);
        drop_extra_asks_locked(s, job, &s->ready);
        drop_extra_asks_locked(s, job, &s->held);
        jsi_withdrawn_locked(s, job);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (job == NULL) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not registered here", job_name);
    }
    jsi_job_release(s, job);
    return JOBSCHED_OK;
}

int jobsched_wakeup(jobsched *scheduler)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&s->lock);
    jsi_wake_tick_locked(s);
    jsi_wake_elect_locked(s);
    jsi_poke_keep_locked(s);
    (void)pthread_cond_broadcast(&s->idle_cond);
    (void)pthread_mutex_unlock(&s->lock);
    return JOBSCHED_OK;
}
