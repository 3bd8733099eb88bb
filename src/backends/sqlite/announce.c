/* announce.c: which definition of a job is in force. Changes nothing else: neither pauses, nor
 * marks of known jobs whose definition stands, nor runs (G7).
 * Locks: the database's write lock is held throughout. */
#include "store.h"

static int put_definition(struct jsi_sqlite_lane *lane, int64_t fence,
                          const jobsched_announcement *item)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_DEFINITION_PUT);
    jsi_query_int(&query, fence);
    jsi_query_uint(&query, item->version);
    jsi_query_text(&query, item->definition);
    return jsi_query_run(&query);
}

static int create(struct jsi_sqlite_lane *lane, const jobsched_announcement *item,
                  struct jsi_fence *out_fence)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_FENCE_ADD);
    jsi_query_text(&query, lane->store->config.name_space);
    jsi_query_text(&query, item->job);
    jsi_query_int(&query, lane->now_ms);
    int result = jsi_query_run(&query);
    if (result != 0) {
        return result;
    }
    *out_fence = (struct jsi_fence){.id = sqlite3_last_insert_rowid(lane->db),
                                    .mark_ms = lane->now_ms,
                                    .generation = 1,
                                    .last_end_ms = JOBSCHED_NONE};
    return put_definition(lane, out_fence->id, item);
}

/* out_order: the announced version against the stored one, -1, 0 or 1. */
static int compare(struct jsi_sqlite_lane *lane, int64_t fence, const jobsched_announcement *item,
                   int *out_order, int *out_equal)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_DEFINITION_READ);
    jsi_query_int(&query, fence);
    int result = jsi_query_row(&query);
    if (result == 1) {
        uint64_t stored = jsi_query_get_uint(&query, 0);
        *out_order = item->version > stored ? 1 : item->version < stored ? -1 : 0;
        *out_equal = strcmp(item->definition, jsi_query_get_text(&query, 1)) == 0;
        result = 0;
    } else if (result == 0) {
        *out_order = 1; /* none stored: whatever comes is in force */
        *out_equal = 0;
    }
    jsi_query_close(&query);
    return result;
}

static int redefine(struct jsi_sqlite_lane *lane, struct jsi_fence *fence, int lift,
                    const jobsched_announcement *item)
{
    fence->generation++;
    if (fence->mark_ms < lane->now_ms) {
        /* The new schedule is not asked about the past. */
        fence->mark_ms = lane->now_ms;
    }
    if (lift) {
        fence->removed = 0;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_FENCE_REDEFINE);
    jsi_query_int(&query, fence->id);
    jsi_query_int(&query, fence->mark_ms);
    jsi_query_uint(&query, fence->generation);
    jsi_query_int(&query, fence->removed);
    int result = jsi_query_run(&query);
    return result == 0 ? put_definition(lane, fence->id, item) : result;
}

static int announce_one(struct jsi_sqlite_lane *lane, jobsched_announcement *item)
{
    struct jsi_fence fence;
    int result = jsi_fence_read(lane, item->job, &fence);
    int in_force = 1;
    item->conflict = 0;
    if (result == 0) {
        result = create(lane, item, &fence);
    } else if (result == 1) {
        int order = 0, equal = 0;
        result = compare(lane, fence.id, item, &order, &equal);
        in_force = order >= 0;
        if (result == 0 && (order > 0 || (order == 0 && !equal))) {
            item->conflict = order == 0 && item->version > 0;
            result = redefine(lane, &fence, order > 0, item);
        }
    }
    if (result == 0) {
        result = jsi_sqlite_register(lane, fence.id, item);
    }
    if (result != 0) {
        return result;
    }
    item->generation = fence.generation;
    item->mark_ms = fence.mark_ms;
    item->last_end_ms = fence.last_end_ms;
    item->in_force = in_force;
    item->paused = fence.paused;
    item->removed = fence.removed;
    return 0;
}

int jsi_sqlite_announce(void *backend, jobsched_call *call, jobsched_announcement *items,
                        size_t count)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; result == 0 && i < count; i++) {
        result = announce_one(lane, &items[i]);
    }
    return jsi_sqlite_end(lane, call, result);
}
