/* announce.c: which definition of a job is in force, and who registers it; the deciding is in
 * sql/announce.sql.
 * Locks: the caller owns lane CLAIM. */
#include "store.h"

/* As for a claim: the node may have to be entered again. */
#define TRIES_MAX 3

/* By which nodes are seen to disagree (FNV-1a). Which definition is in force is decided by the
 * texts themselves. */
static int64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return (int64_t)hash;
}

static void add_conditions(struct jsi_pg_lane *lane, const jobsched_announcement *items,
                           size_t count)
{
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_int(lane, items[i].replace);
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_int(lane, (int64_t)items[i].replaces); /* as it was read */
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_int(lane, items[i].after_ms);
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_int(lane, items[i].before_ms);
    }
    jsi_pg_array_end(lane);
}

static void add_params(struct jsi_pg_lane *lane, const jobsched_announcement *items, size_t count)
{
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, lane->store->config.name_space);
    jsi_pg_param_text(lane, lane->store->config.node_id);
    jsi_pg_param_int(lane, lane->nonce);
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
        jsi_pg_param_int(lane, hash_of(items[i].definition));
    }
    jsi_pg_array_end(lane);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_unsigned(lane, items[i].version);
    }
    jsi_pg_array_end(lane);
    add_conditions(lane, items, count);
}

static int ask(struct jsi_pg_lane *lane, const jobsched_announcement *items, size_t count)
{
    static const char statement[] =
        "SELECT * FROM @S@.announce($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    int result = 0;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        add_params(lane, items, count);
        result = jsi_pg_query(lane, statement, 1);
        int failed = result;
        if (result == 0 || (result = jsi_pg_mend(lane, result)) != 0) {
            break;
        }
        result = failed; /* recorded by the statement, unless the next try helps */
    }
    return result;
}

static int announce(struct jsi_pg_lane *lane, jobsched_call *call, jobsched_announcement *items,
                    size_t count, int *out_changed)
{
    int result = ask(lane, items, count);
    if (result != 0) {
        return result;
    }
    result = jsi_pg_expect(lane, count);
    for (int i = 0; result == 0 && i < (int)count; i++) {
        jobsched_announcement *item = &items[i];
        item->generation = jsi_pg_bits(lane, i, 0);
        item->mark_ms = jsi_pg_int(lane, i, 1);
        item->last_end_ms = jsi_pg_ms(lane, i, 2);
        item->pending = jsi_pg_true(lane, i, 8) && item->replace != JOBSCHED_REPLACE_ANYWAY;
        item->in_force = jsi_pg_true(lane, i, 3) && !item->pending;
        item->paused = jsi_pg_true(lane, i, 4);
        item->removed = jsi_pg_true(lane, i, 5);
        item->conflict = jsi_pg_true(lane, i, 6);
        call->now_ms = jsi_pg_int(lane, i, 7);
        *out_changed |= jsi_pg_true(lane, i, 9);
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
    int changed = 0;
    size_t chunk = (size_t)atomic_load(&store->chunk);
    for (size_t done = 0; result == 0 && done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        result = jsi_pg_part(announce(lane, call, items + done, part, &changed), done);
    }
    if (result == 0 && changed) { /* else a failure of that one would be told as this one's */
        jsi_pg_push(lane);
    }
    return result;
}

int jsi_pg_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_text(lane, store->config.node_id);
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < count; i++) {
        jsi_pg_param_text(lane, jobs[i]);
    }
    jsi_pg_array_end(lane);
    result = jsi_pg_query(lane, "SELECT o_now FROM @S@.withdraw($1, $2, $3, $4)", 1);
    if (result == 0) {
        call->now_ms = jsi_pg_int(lane, 0, 0);
    }
    return result;
}
