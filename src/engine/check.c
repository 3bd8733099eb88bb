/* check.c: what an operator should know or mend: what the backend finds in its store, and what
 * the engine finds in the lists of nodes and jobs.
 * Locks: takes s->lock only to read the clock; never over a backend call or a visitor. */
#include "engine/internal.h"

#include <inttypes.h>
#include <stdio.h>

struct checking {
    jobsched *s;
    jobsched_check_visit_fn visit;
    void *user_data;
    bool ends; /* the visitor wants no more */
    int64_t now_ms;
    uint64_t nodes, jobs, far_clocks, dissent, orphaned, future;
};

static void tell(struct checking *checking, const char *id, int level, const char *message)
{
    const jobsched_check_record record = {.id = id, .level = level, .message = message};
    if (!checking->ends) {
        checking->ends = checking->visit(&record, checking->user_data) != 0;
    }
}

static int visit_finding(const jobsched_check_record *record, void *visit_data)
{
    struct checking *checking = visit_data;
    checking->ends = checking->visit(record, checking->user_data) != 0;
    return checking->ends;
}

static bool is_far(int64_t offset_ms)
{
    return offset_ms > JSI_CLOCK_FAR_MS || offset_ms < -JSI_CLOCK_FAR_MS;
}

static int visit_node(const jobsched_node_record *record, void *visit_data)
{
    struct checking *checking = visit_data;
    char message[JOBSCHED_MESSAGE_BYTES];
    int64_t offset_ms = record->clock_offset_ms;
    checking->nodes++;
    if (is_far(offset_ms)) {
        checking->far_clocks++;
        (void)snprintf(message, sizeof message,
                       "the clock of node '%s' is %" PRId64 " ms %s the backend's: jobs are fired "
                       "by the backend's, but set this one right",
                       record->name, offset_ms < 0 ? -offset_ms : offset_ms,
                       offset_ms < 0 ? "ahead of" : "behind");
        tell(checking, "cluster.clock", JOBSCHED_LEVEL_WARNING, message);
    }
    return checking->ends;
}

static void look_at_nodes(struct checking *checking, const jobsched_job_record *record)
{
    char message[JOBSCHED_MESSAGE_BYTES];
    if (record->removed ||
        strncmp(record->job, JSI_RESERVED_PREFIX, sizeof JSI_RESERVED_PREFIX - 1) == 0) {
        return; /* leader mode may have been given up */
    }
    if (record->nodes == record->dissent) {
        checking->orphaned++;
        if (record->nodes == 0) {
            (void)snprintf(message, sizeof message,
                           "job '%s' is registered by no live node, so it does not run: start "
                           "what registers it, or remove it",
                           record->job);
        } else {
            (void)snprintf(message, sizeof message,
                           "job '%s' is registered by no live node as it is in force (version "
                           "%" PRIu64 "), so it does not run: register a larger version",
                           record->job, record->version);
        }
        tell(checking, "cluster.orphaned", JOBSCHED_LEVEL_WARNING, message);
    } else if (record->dissent > 0) {
        checking->dissent++;
        (void)snprintf(message, sizeof message,
                       "%" PRIu64 " of %" PRIu64 " nodes register job '%s' with a definition that "
                       "is not in force: they stand down until a roll-out has reached them",
                       record->dissent, record->nodes, record->job);
        tell(checking, "cluster.dissent", JOBSCHED_LEVEL_WARNING, message);
    }
}

static int visit_job(const jobsched_job_record *record, void *visit_data)
{
    struct checking *checking = visit_data;
    char message[JOBSCHED_MESSAGE_BYTES];
    checking->jobs++;
    look_at_nodes(checking, record);
    int64_t ahead_ms = record->mark_at_ms - checking->now_ms;
    if (ahead_ms > JSI_MARK_AHEAD_MS && !record->removed) {
        checking->future++;
        (void)snprintf(message, sizeof message,
                       "job '%s' is accounted for up to an instant that is %" PRId64
                       " ms in the future, and does not run before: some clock was wrong; wait, or "
                       "register it under another name",
                       record->job, ahead_ms);
        tell(checking, "cluster.future-mark", JOBSCHED_LEVEL_ERROR, message);
    }
    return checking->ends;
}

static void tell_well(struct checking *checking, uint64_t found, const char *id, uint64_t count,
                      const char *what)
{
    char message[JOBSCHED_MESSAGE_BYTES];
    if (found == 0) {
        (void)snprintf(message, sizeof message, "%" PRIu64 " %s", count, what);
        tell(checking, id, JOBSCHED_LEVEL_INFO, message);
    }
}

static void read_now(struct checking *checking)
{
    (void)pthread_mutex_lock(&checking->s->lock);
    checking->now_ms = jsi_now_locked(checking->s);
    (void)pthread_mutex_unlock(&checking->s->lock);
}

/* Of who is no node, and so on no list of them. */
static void look_at_own_clock(struct checking *checking)
{
    jobsched *s = checking->s;
    (void)pthread_mutex_lock(&s->lock);
    int64_t offset_ms = jsi_now_locked(s) - s->clock.wall_ms(s->clock.ctx);
    bool known = s->sync.contacted;
    (void)pthread_mutex_unlock(&s->lock);
    char message[JOBSCHED_MESSAGE_BYTES];
    if (s->settings.control_only && known && is_far(offset_ms)) {
        checking->far_clocks++;
        (void)snprintf(
            message, sizeof message, "the clock of this machine is %" PRId64 " ms %s the backend's",
            offset_ms < 0 ? -offset_ms : offset_ms, offset_ms < 0 ? "ahead of" : "behind");
        tell(checking, "cluster.clock", JOBSCHED_LEVEL_WARNING, message);
    }
}

/* A list that the backend does not keep is not looked at. */
static int unless_unsupported(int code)
{
    return code == JOBSCHED_ENOTSUP ? JOBSCHED_OK : code;
}

int jobsched_check(jobsched *scheduler, jobsched_check_visit_fn visit, void *user_data)
{
    jobsched *s = scheduler;
    int failed = jsi_enter(s);
    if (failed == 0 && visit == NULL) {
        failed = jobsched_fail(JOBSCHED_EINVAL, 0, "visit is NULL");
    }
    if (failed != 0) {
        return failed;
    }
    struct checking checking = {.s = s, .visit = visit, .user_data = user_data};
    failed = unless_unsupported(jsi_backend_check(s, visit_finding, &checking));
    if (failed != 0 || checking.ends) {
        return failed;
    }
    int listed = jsi_backend_nodes(s, visit_node, &checking);
    if (listed == JOBSCHED_OK && !checking.ends) {
        look_at_own_clock(&checking);
        tell_well(&checking, checking.far_clocks, "cluster.clock", checking.nodes,
                  "nodes live, and all their clocks are near the backend's");
    }
    failed = unless_unsupported(listed);
    if (failed != 0 || checking.ends) {
        return failed;
    }
    read_now(&checking);
    listed = jsi_backend_jobs(s, NULL, visit_job, &checking);
    if (listed == JOBSCHED_OK) {
        tell_well(&checking, checking.dissent, "cluster.dissent", checking.jobs,
                  "jobs, and no nodes disagree on the definition of one");
        tell_well(&checking, checking.orphaned, "cluster.orphaned", checking.jobs,
                  "jobs, and each that was not removed is registered by a live node");
        tell_well(&checking, checking.future, "cluster.future-mark", checking.jobs,
                  "jobs, and none is accounted for beyond now");
    }
    return unless_unsupported(listed);
}
