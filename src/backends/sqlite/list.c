/* list.c: who registers what, and what the store tells of jobs, nodes, and the row of a trigger.
 * A list is one read transaction, so what it tells of one instant is consistent. A node whose
 * lock is free, or whose heartbeat stands still for its lease, is on no list, and what it has not
 * finished does not go on.
 * Locks: the database's write lock while registrations change; none while reading. */
#include "store.h"

/* Nodes whose registrations one reap looks at. */
#define SWEEP_NODES 64

/* ---- registrations ---- */

int jsi_sqlite_register(struct jsi_sqlite_lane *lane, int64_t fence,
                        const jobsched_announcement *item)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_REGISTER);
    jsi_query_int(&query, lane->node);
    jsi_query_int(&query, fence);
    jsi_query_uint(&query, item->version);
    jsi_query_text(&query, item->definition);
    return jsi_query_run(&query);
}

int jsi_sqlite_unregister(struct jsi_sqlite_lane *lane, int64_t node)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_UNREGISTER_NODE);
    jsi_query_int(&query, node);
    return jsi_query_run(&query);
}

int jsi_sqlite_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_UNREGISTER);
        jsi_query_int(&query, lane->node);
        jsi_query_text(&query, store->config.name_space);
        jsi_query_text(&query, jobs[i]);
        result = jsi_query_run(&query);
    }
    return jsi_sqlite_end(lane, call, result);
}

int jsi_sqlite_sweep_registrations(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    int result = 1;
    for (int i = 0; result == 1 && i < SWEEP_NODES; i++) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_REGISTRANT_AFTER);
        jsi_query_int(&query, store->registrant_after);
        result = jsi_query_row(&query);
        int64_t node = result == 1 ? jsi_query_get_int(&query, 0) : 0;
        int has_row = result == 1 && jsi_query_get_int(&query, 1) != 0;
        jsi_query_close(&query);
        store->registrant_after = node; /* from the start again after the last */
        if (result != 1 || has_row || node == lane->node) {
            continue;
        }
        /* One that was forgotten for its silence comes back under its old id, if it lives. */
        (void)pthread_mutex_lock(&store->lock);
        struct jsi_sqlite_live live = store->live;
        int gone = jsi_sqlite_live_free(&live, node, live.dev, live.ino);
        (void)pthread_mutex_unlock(&store->lock);
        int dropped = gone ? jsi_sqlite_unregister(lane, node) : 0;
        result = dropped != 0 ? dropped : 1;
    }
    return result < 0 ? result : 0;
}

/* ---- nodes ---- */

/* By the JSI_SQL_ALIVE columns and the lease that follow from first. */
static int is_alive(struct jsi_sqlite_lane *lane, const struct jsi_query *query, int first)
{
    struct jsi_sqlite_verdict verdict =
        jsi_sqlite_node_judge(lane, jsi_query_get_int(query, first), query, first);
    return !jsi_sqlite_node_is_dead(&verdict, jsi_query_get_int(query, first + 4));
}

int jsi_sqlite_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                     void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = jsi_sqlite_begin_read(lane, call);
    if (result != 0) {
        return result;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODES);
    jsi_query_text(&query, store->config.name_space);
    while ((result = jsi_query_row(&query)) == 1) {
        if (!is_alive(lane, &query, 0)) {
            continue;
        }
        const jobsched_node_record record = {.id = jsi_query_get_text(&query, 5),
                                             .name = jsi_query_get_text(&query, 6),
                                             .app_version = jsi_query_get_text(&query, 7),
                                             .since_at_ms = jsi_query_get_int(&query, 8),
                                             .beat_at_ms = jsi_query_get_int(&query, 9),
                                             .clock_offset_ms = jsi_query_get_int(&query, 10),
                                             .jobs = jsi_query_get_uint(&query, 11),
                                             .runs = jsi_query_get_uint(&query, 12),
                                             .dissent = jsi_query_get_uint(&query, 13)};
        if (visit(&record, visit_data) != 0) {
            result = 0;
            break;
        }
    }
    jsi_query_close(&query);
    return jsi_sqlite_end(lane, call, result);
}

/* ---- jobs ---- */

/* The nodes that live, so that they are judged once and not once for each job. */
struct alive {
    int64_t *nodes;
    size_t count, capacity;
};

static int list_alive(struct jsi_sqlite_lane *lane, struct alive *alive)
{
    const jobsched_allocator *allocator = &lane->store->config.allocator;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODE_LIST);
    jsi_query_text(&query, lane->store->config.name_space);
    int result;
    while ((result = jsi_query_row(&query)) == 1) {
        if (!is_alive(lane, &query, 0)) {
            continue;
        }
        int64_t *grown = jsi_sqlite_grow(allocator, alive->nodes, alive->count, &alive->capacity,
                                         sizeof *alive->nodes);
        if (grown == NULL) {
            result = JOBSCHED_ENOMEM;
            break;
        }
        alive->nodes = grown;
        alive->nodes[alive->count++] = jsi_query_get_int(&query, 0);
    }
    jsi_query_close(&query);
    return result;
}

static int lives(const struct alive *alive, int64_t node)
{
    for (size_t i = 0; i < alive->count; i++) {
        if (alive->nodes[i] == node) {
            return 1;
        }
    }
    return 0;
}

static int count_registrants(struct jsi_sqlite_lane *lane, int64_t fence, const struct alive *alive,
                             jobsched_job_record *record)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_REGISTRANTS);
    jsi_query_int(&query, fence);
    int result;
    while ((result = jsi_query_row(&query)) == 1) {
        if (lives(alive, jsi_query_get_int(&query, 0))) {
            record->nodes++;
            record->dissent += jsi_query_get_uint(&query, 1) != record->version ||
                               strcmp(jsi_query_get_text(&query, 2), record->definition) != 0;
        }
    }
    jsi_query_close(&query);
    return result;
}

/* Copies the name of the newest run's node, whose row is gone once the next is read. */
static int count_runs(struct jsi_sqlite_lane *lane, int64_t fence, const struct alive *alive,
                      jobsched_job_record *record, char *out_node, size_t node_bytes)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_HOLDERS);
    jsi_query_int(&query, fence);
    int result;
    while ((result = jsi_query_row(&query)) == 1) {
        uint64_t token = jsi_query_get_uint(&query, 1);
        if (!lives(alive, jsi_query_get_int(&query, 2))) {
            continue;
        }
        if (record->running++ == 0 || token > record->running_token) {
            record->running_token = token;
            record->running_since_at_ms = jsi_query_get_int(&query, 4);
            jsi_query_copy_text(&query, 3, out_node, node_bytes);
            record->running_node = out_node;
        }
    }
    jsi_query_close(&query);
    if (result == 0) {
        jsi_query_open(&query, lane, JSI_SQL_RUN_WAITING);
        jsi_query_int(&query, fence);
        result = jsi_query_row(&query);
        record->waiting = result == 1 ? jsi_query_get_uint(&query, 0) : 0;
        jsi_query_close(&query);
    }
    return result < 0 ? result : 0;
}

static int read_last(struct jsi_sqlite_lane *lane, int64_t fence, jobsched_job_record *record,
                     char *out_node, size_t node_bytes)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_LAST);
    jsi_query_int(&query, fence);
    int result = jsi_query_row(&query);
    if (result == 1) {
        record->has_last = 1;
        record->last_outcome = (int32_t)jsi_query_get_int(&query, 0);
        record->last_scheduled_at_ms = jsi_query_get_int(&query, 1);
        record->last_started_at_ms = jsi_query_get_ms(&query, 2);
        record->last_finished_at_ms = jsi_query_get_ms(&query, 3);
        jsi_query_copy_text(&query, 4, out_node, node_bytes);
        record->last_node = out_node;
    }
    jsi_query_close(&query);
    return result < 0 ? result : 0;
}

/* 0: go on. 1: the visitor has heard enough. Negative: failed. */
static int tell_job(struct jsi_sqlite_lane *lane, const struct jsi_query *query,
                    const struct alive *alive, jobsched_job_visit_fn visit, void *visit_data)
{
    char running_node[JOBSCHED_NAME_BYTES + 1], last_node[JOBSCHED_NAME_BYTES + 1];
    int64_t fence = jsi_query_get_int(query, 0);
    jobsched_job_record record = {.job = jsi_query_get_text(query, 1),
                                  .definition = jsi_query_get_text(query, 2),
                                  .schedule = "",
                                  .timezone = "",
                                  .version = jsi_query_get_uint(query, 3),
                                  .generation = jsi_query_get_uint(query, 4),
                                  .token = jsi_query_get_uint(query, 5),
                                  .mark_at_ms = jsi_query_get_int(query, 6),
                                  .next_at_ms = JOBSCHED_NONE,
                                  .last_end_at_ms = jsi_query_get_ms(query, 7),
                                  .paused = jsi_query_get_int(query, 8) != 0,
                                  .removed = jsi_query_get_int(query, 9) != 0,
                                  .last_scheduled_at_ms = JOBSCHED_NONE,
                                  .last_started_at_ms = JOBSCHED_NONE,
                                  .last_finished_at_ms = JOBSCHED_NONE,
                                  .last_node = "",
                                  .running_node = "",
                                  .running_since_at_ms = JOBSCHED_NONE};
    int result = count_registrants(lane, fence, alive, &record);
    if (result == 0) {
        result = count_runs(lane, fence, alive, &record, running_node, sizeof running_node);
    }
    if (result == 0) {
        result = read_last(lane, fence, &record, last_node, sizeof last_node);
    }
    return result != 0 ? result : visit(&record, visit_data) != 0;
}

int jsi_sqlite_jobs(void *backend, jobsched_call *call, const char *job,
                    jobsched_job_visit_fn visit, void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct alive alive = {.nodes = NULL};
    int result = jsi_sqlite_begin_read(lane, call);
    if (result != 0) {
        return result;
    }
    result = list_alive(lane, &alive);
    int told = 0;
    struct jsi_query query;
    jsi_query_open(&query, lane, job == NULL ? JSI_SQL_JOBS_OF_ALL : JSI_SQL_JOBS_OF_ONE);
    jsi_query_text(&query, store->config.name_space);
    if (job != NULL) {
        jsi_query_text(&query, job);
    }
    while (result == 0 && (result = jsi_query_row(&query)) == 1) {
        told = 1;
        result = tell_job(lane, &query, &alive, visit, visit_data);
        if (result == 1) {
            result = 0;
            break;
        }
    }
    jsi_query_close(&query);
    jsi_sqlite_free(&store->config.allocator, alive.nodes);
    if (result == 0 && job != NULL && !told) {
        result = jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not known here", job);
    }
    return jsi_sqlite_end(lane, call, result);
}

/* ---- the row of a trigger ---- */

int jsi_sqlite_find(void *backend, jobsched_call *call, const char *job, const char *request,
                    jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = jsi_sqlite_begin_read(lane, call);
    if (result != 0) {
        return result;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_OF_REQUEST);
    jsi_query_text(&query, store->config.name_space);
    jsi_query_text(&query, job);
    jsi_query_text(&query, request);
    result = jsi_query_row(&query);
    if (result == 1) {
        jobsched_run_record record;
        jsi_sqlite_read_record(&query, &record);
        (void)visit(&record, visit_data); /* the only one: there is nothing to go on with */
        result = 0;
    } else if (result == 0) {
        result = jobsched_fail(JOBSCHED_ENOTFOUND, 0, "no trigger '%s' of job '%s' is known here",
                               request, job);
    }
    jsi_query_close(&query);
    return jsi_sqlite_end(lane, call, result);
}
