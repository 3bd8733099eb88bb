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

/* The announced definition against the stored one. */
struct comparison {
    int stored; /* 0: there is none */
    int order;  /* of the versions: -1, 0 or 1 */
    int equal;  /* the texts */
};

static int compare(struct jsi_sqlite_lane *lane, int64_t fence, const jobsched_announcement *item,
                   struct comparison *out)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_DEFINITION_READ);
    jsi_query_int(&query, fence);
    int result = jsi_query_row(&query);
    if (result == 1) {
        uint64_t stored = jsi_query_get_uint(&query, 0);
        out->stored = 1;
        out->order = item->version > stored ? 1 : item->version < stored ? -1 : 0;
        out->equal = strcmp(item->definition, jsi_query_get_text(&query, 1)) == 0;
        result = 0;
    } else if (result == 0) {
        *out = (struct comparison){.order = 1}; /* whatever comes is in force */
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

/* Nothing may be due under the definition that goes, and a removal that came after the node asked
 * holds. */
static int may_replace(const struct jsi_sqlite_lane *lane, const struct jsi_fence *fence,
                       const jobsched_announcement *item)
{
    if (item->replace == JOBSCHED_REPLACE_IF) {
        return !fence->removed && fence->generation == item->replaces &&
               fence->mark_ms == item->after_ms && lane->now_ms < item->before_ms;
    }
    return fence->removed || item->replace == JOBSCHED_REPLACE_ANYWAY;
}

/* Whether others have asked to put another text in force under this version: they stand down, and say
 * so. Returns 1 or 0, or a negative code. */
static int is_disputed(struct jsi_sqlite_lane *lane, int64_t fence,
                       const jobsched_announcement *item)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_REGISTERED_ELSE);
    jsi_query_int(&query, fence);
    jsi_query_int(&query, lane->node);
    jsi_query_uint(&query, item->version);
    jsi_query_text(&query, item->definition);
    int result = jsi_query_row(&query);
    jsi_query_close(&query);
    return result;
}

static int decide(struct jsi_sqlite_lane *lane, struct jsi_fence *fence,
                  jobsched_announcement *item)
{
    struct comparison stored;
    int result = compare(lane, fence->id, item, &stored);
    if (result != 0) {
        return result;
    }
    item->in_force = stored.order >= 0;
    if (stored.order < 0 || (stored.order == 0 && stored.equal)) {
        return 0;
    }
    if (stored.stored && !may_replace(lane, fence, item)) {
        item->in_force = 0;
        item->pending = 1;
        return 0;
    }
    result = item->version == 0 ? 0 : stored.order == 0 ? 1 : is_disputed(lane, fence->id, item);
    if (result < 0) {
        return result;
    }
    item->conflict = result;
    return redefine(lane, fence, stored.order > 0, item);
}

static int announce_one(struct jsi_sqlite_lane *lane, jobsched_announcement *item)
{
    struct jsi_fence fence;
    int result = jsi_fence_read(lane, item->job, &fence);
    item->in_force = 1;
    item->conflict = 0;
    item->pending = 0;
    if (result == 0) {
        result = create(lane, item, &fence);
    } else if (result == 1) {
        result = decide(lane, &fence, item);
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
