/* record.c: records of the library as JSON and as words. The members are listed in the man page:
 * they may be added to, never renamed. No state, no locks. */
#include "ctl/record.h"

#include "ctl/instant.h"

#include <string.h>

static json_t *whole(json_t *object, int failed)
{
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static int put_count(json_t *object, const char *name, uint64_t count)
{
    return ctl_json_number(object, name, count > INT64_MAX ? INT64_MAX : (int64_t)count);
}

static int put_last(json_t *object, const jobsched_job_record *job)
{
    json_t *last;
    int failed;

    if (!job->has_last) {
        return ctl_json_text(object, "last", NULL);
    }
    last = json_object();
    failed = ctl_json_text(last, "outcome", jobsched_outcome_name(job->last_outcome));
    failed |= ctl_json_instant(last, "scheduled_at", job->last_scheduled_at_ms);
    failed |= ctl_json_instant(last, "started_at", job->last_started_at_ms);
    failed |= ctl_json_instant(last, "finished_at", job->last_finished_at_ms);
    failed |= ctl_json_text(last, "node", job->last_node[0] == '\0' ? NULL : job->last_node);
    return failed | ctl_json_value(object, "last", last);
}

static int put_running(json_t *object, const jobsched_job_record *job)
{
    json_t *running;
    int failed;

    if (job->running == 0) {
        return ctl_json_text(object, "running", NULL);
    }
    running = json_object();
    failed = put_count(running, "count", job->running);
    failed |= ctl_json_text(running, "node", job->running_node);
    failed |= ctl_json_instant(running, "since", job->running_since_at_ms);
    failed |= ctl_json_token(running, "token", job->running_token);
    return failed | ctl_json_value(object, "running", running);
}

json_t *ctl_job_json(const jobsched_job_record *job)
{
    json_t *object = json_object();
    int failed = ctl_json_text(object, "job", job->job);

    failed |= ctl_json_text(object, "state", ctl_job_state(job));
    failed |= ctl_json_text(object, "schedule", job->schedule);
    failed |= ctl_json_text(object, "timezone", job->timezone[0] == '\0' ? "UTC" : job->timezone);
    failed |= ctl_json_text(object, "definition", job->definition);
    failed |= put_count(object, "version", job->version);
    failed |= put_count(object, "generation", job->generation);
    failed |= ctl_json_token(object, "token", job->token);
    failed |= ctl_json_instant(object, "mark", job->mark_at_ms);
    failed |= ctl_json_instant(object, "next", job->next_at_ms);
    failed |= ctl_json_instant(object, "last_end", job->last_end_at_ms);
    failed |= ctl_json_flag(object, "paused", job->paused);
    failed |= ctl_json_flag(object, "removed", job->removed);
    failed |= ctl_json_flag(object, "orphaned", ctl_job_is_orphaned(job));
    failed |= put_count(object, "nodes", job->nodes);
    failed |= put_count(object, "dissent", job->dissent);
    failed |= put_count(object, "waiting", job->waiting);
    failed |= put_running(object, job);
    failed |= put_last(object, job);
    return whole(object, failed);
}

json_t *ctl_run_json(const jobsched_run_record *run)
{
    json_t *object = json_object();
    int failed = ctl_json_text(object, "job", run->job);

    failed |= ctl_json_text(object, "kind", jobsched_kind_name(run->kind));
    failed |= ctl_json_text(object, "outcome", jobsched_outcome_name(run->outcome));
    failed |= ctl_json_instant(object, "scheduled_at", run->scheduled_at_ms);
    failed |= ctl_json_instant(object, "last_at", run->last_at_ms);
    failed |= put_count(object, "count", run->count);
    failed |= ctl_json_instant(object, "started_at", run->started_at_ms);
    failed |= ctl_json_instant(object, "finished_at", run->finished_at_ms);
    failed |= ctl_json_token(object, "token", run->token);
    failed |= ctl_json_number(object, "attempt", run->attempt);
    failed |= ctl_json_number(object, "code", run->code);
    failed |= ctl_json_text(object, "node", run->node[0] == '\0' ? NULL : run->node);
    failed |= ctl_json_text(object, "request", run->request[0] == '\0' ? NULL : run->request);
    failed |= ctl_json_text(object, "note", run->note[0] == '\0' ? NULL : run->note);
    failed |= put_count(object, "progress_done", run->progress_done);
    failed |= put_count(object, "progress_total", run->progress_total);
    return whole(object, failed);
}

json_t *ctl_node_json(const jobsched_node_record *node)
{
    json_t *object = json_object();
    int failed = ctl_json_text(object, "node", node->name);

    failed |= ctl_json_text(object, "id", node->id);
    failed |= ctl_json_text(object, "app_version", node->app_version);
    failed |= ctl_json_instant(object, "since", node->since_at_ms);
    failed |= ctl_json_instant(object, "beat", node->beat_at_ms);
    failed |= ctl_json_number(object, "clock_offset_ms", node->clock_offset_ms);
    failed |= put_count(object, "jobs", node->jobs);
    failed |= put_count(object, "runs", node->runs);
    failed |= put_count(object, "dissent", node->dissent);
    return whole(object, failed);
}

json_t *ctl_check_json(const jobsched_check_record *check)
{
    json_t *object = json_object();
    int failed = ctl_json_text(object, "id", check->id);

    failed |= ctl_json_text(object, "level", ctl_level_name(check->level));
    failed |= ctl_json_text(object, "message", check->message);
    return whole(object, failed);
}

int ctl_job_is_orphaned(const jobsched_job_record *job)
{
    return !job->removed && job->dissent >= job->nodes;
}

const char *ctl_job_state(const jobsched_job_record *job)
{
    if (job->removed) {
        return "removed";
    }
    if (job->paused) {
        return "paused";
    }
    if (job->running > 0) {
        return "running";
    }
    if (ctl_job_is_orphaned(job)) {
        return "orphaned";
    }
    if (job->waiting > 0) {
        return "waiting";
    }
    return "idle";
}

const char *ctl_level_name(int level)
{
    return level >= JOBSCHED_LEVEL_ERROR     ? "error"
           : level == JOBSCHED_LEVEL_WARNING ? "warning"
                                             : "info";
}

void ctl_when(const char *zone, int64_t at_ms, char out_text[], size_t bytes)
{
    char text[CTL_INSTANT_BYTES];

    if (at_ms == JOBSCHED_NONE) {
        (void)snprintf(out_text, bytes, "-");
        return;
    }
    if (zone == NULL) {
        ctl_instant_utc(at_ms, text);
    } else {
        int32_t offset_s = ctl_zone_offset(zone, at_ms);

        ctl_instant_local(at_ms + (int64_t)offset_s * 1000, offset_s, text);
    }
    (void)snprintf(out_text, bytes, "%s", text);
}

void ctl_how_long(int64_t from_ms, int64_t until_ms, char out_text[], size_t bytes)
{
    char text[CTL_INSTANT_BYTES] = "-";

    if (from_ms != JOBSCHED_NONE && until_ms != JOBSCHED_NONE) {
        ctl_span_text(until_ms > from_ms ? until_ms - from_ms : 0, text);
    }
    (void)snprintf(out_text, bytes, "%s", text);
}
