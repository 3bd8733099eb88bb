/* announce.c: which definition of a job is in force; the deciding is in sql/announce.sql.
 * Locks: the caller owns lane CLAIM. */
#include "store.h"

static void add_params(struct jsi_pg_lane *lane, const jobsched_announcement *items, size_t count)
{
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, lane->store->config.name_space);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_text(lane, items[i].job);
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_text(lane, items[i].definition);
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_unsigned(lane, items[i].version);
    }
    jsi_pg_array_end(lane);
}

static int announce(struct jsi_pg_lane *lane, jobsched_call *call, jobsched_announcement *items,
                    size_t count)
{
    add_params(lane, items, count);
    int result = jsi_pg_query(lane, "SELECT * FROM @S@.announce($1, $2, $3, $4, $5)", 1);
    if (result != 0) {
        return result;
    }
    result = jsi_pg_expect(lane, count);
    for (int i = 0; result == 0 && i < (int)count; i++) {
        jobsched_announcement *item = &items[i];
        item->generation = jsi_pg_bits(lane, i, 0);
        item->mark_ms = jsi_pg_int(lane, i, 1);
        item->last_end_ms = jsi_pg_ms(lane, i, 2);
        item->in_force = jsi_pg_true(lane, i, 3);
        item->paused = jsi_pg_true(lane, i, 4);
        item->removed = jsi_pg_true(lane, i, 5);
        call->now_ms = jsi_pg_int(lane, i, 6);
    }
    return result;
}

int jsi_pg_announce(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result != 0 || count == 0) {
        return result != 0 ? result : jsi_pg_clock(lane, call);
    }
    size_t chunk = (size_t)atomic_load(&store->chunk);
    for (size_t done = 0; result == 0 && done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        result = jsi_pg_part(announce(lane, call, items + done, part), done);
    }
    return result;
}
