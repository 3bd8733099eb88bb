/* fence.c: what the operations share about fences and their ledger rows. All of it inside the
 * caller's transaction. Locks: the database's write lock is held throughout. */
#include "store.h"

/* Dead holders that one look takes down; more only cost another look. */
#define DEAD_AT_ONCE 32

/* How many of a job's oldest rows one pruning looks at. More than JSI_PRUNE_EVERY, so that the
 * ledger shrinks to its bounds however far beyond them it is; few enough for the claim that
 * pays for it (about 0.1 ms). */
#define PRUNE_WINDOW 256

int jsi_fence_read(struct jsi_sqlite_lane *lane, const char *job, struct jsi_fence *out_fence)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_FENCE_READ);
    jsi_query_text(&query, lane->store->config.name_space);
    jsi_query_text(&query, job);
    int result = jsi_query_row(&query);
    if (result == 1) {
        out_fence->id = jsi_query_get_int(&query, 0);
        out_fence->mark_ms = jsi_query_get_int(&query, 1);
        out_fence->token = jsi_query_get_uint(&query, 2);
        out_fence->seq = jsi_query_get_int(&query, 3);
        out_fence->generation = jsi_query_get_uint(&query, 4);
        out_fence->paused = jsi_query_get_int(&query, 5) != 0;
        out_fence->removed = jsi_query_get_int(&query, 6) != 0;
        out_fence->last_end_ms = jsi_query_get_ms(&query, 7);
    }
    jsi_query_close(&query);
    return result;
}

int jsi_fence_store(struct jsi_sqlite_lane *lane, const struct jsi_fence *fence)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_FENCE_MOVE);
    jsi_query_int(&query, fence->id);
    jsi_query_int(&query, fence->mark_ms);
    jsi_query_uint(&query, fence->token);
    jsi_query_int(&query, fence->seq);
    return jsi_query_run(&query);
}

static int run_by_id(struct jsi_sqlite_lane *lane, enum jsi_sql sql, int64_t run, int with_now)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, sql);
    jsi_query_int(&query, run);
    if (with_now) {
        jsi_query_int(&query, lane->now_ms);
    }
    return jsi_query_run(&query);
}

int jsi_fence_interrupt(struct jsi_sqlite_lane *lane, int64_t run, const char *note)
{
    int result = run_by_id(lane, JSI_SQL_RUN_TAKE, run, 1);
    if (result == 0) {
        result = run_by_id(lane, JSI_SQL_RUN_TOOK, run, 1);
    }
    if (result == 0) {
        result = run_by_id(lane, JSI_SQL_UNTOLD_ADD, run, 0);
    }
    if (result == 0 && note != NULL) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_RUN_TAKE_NOTE);
        jsi_query_int(&query, run);
        jsi_query_text(&query, note);
        result = jsi_query_run(&query);
    }
    return result;
}

/* Collects dead holders, and the live one that is asked for. */
static int look(struct jsi_sqlite_lane *lane, int64_t fence, int newest,
                struct jsi_holder *out_holder, int *out_live, int64_t *dead, int *out_dead)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_HOLDERS);
    jsi_query_int(&query, fence);
    int result;
    *out_live = 0;
    *out_dead = 0;
    while (*out_dead < DEAD_AT_ONCE && (result = jsi_query_row(&query)) == 1) {
        struct jsi_sqlite_verdict verdict =
            jsi_sqlite_node_judge(lane, jsi_query_get_int(&query, 2), &query, 6);
        if (jsi_sqlite_node_is_dead(&verdict, jsi_query_get_int(&query, 5))) {
            dead[(*out_dead)++] = jsi_query_get_int(&query, 0);
            continue;
        }
        uint64_t token = jsi_query_get_uint(&query, 1);
        if (!*out_live || (newest ? token > out_holder->token : token < out_holder->token)) {
            out_holder->token = token;
            out_holder->since_ms = jsi_query_get_int(&query, 4);
            jsi_query_copy_text(&query, 3, out_holder->node, sizeof out_holder->node);
        }
        *out_live = 1;
    }
    jsi_query_close(&query);
    return *out_dead == DEAD_AT_ONCE || result > 0 ? 0 : result;
}

int jsi_fence_holder(struct jsi_sqlite_lane *lane, int64_t fence, int newest,
                     struct jsi_holder *out_holder)
{
    int64_t dead[DEAD_AT_ONCE];
    int dead_count, live;
    /* Ends: each further round has made 32 RUNNING rows INTERRUPTED. */
    do {
        int result = look(lane, fence, newest, out_holder, &live, dead, &dead_count);
        for (int i = 0; result == 0 && i < dead_count; i++) {
            result = jsi_fence_interrupt(lane, dead[i], NULL);
        }
        if (result != 0) {
            return result;
        }
    } while (dead_count == DEAD_AT_ONCE);
    return live;
}

int jsi_fence_prune(struct jsi_sqlite_lane *lane, int64_t fence, int64_t seq)
{
    const jobsched_backend_config *config = &lane->store->config;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_OPEN);
    jsi_query_int(&query, fence);
    int result = jsi_query_row(&query);
    /* Rows that go on or wait do not take the place of finished ones. */
    int64_t open = result == 1 ? jsi_query_get_int(&query, 0) : 0;
    jsi_query_close(&query);
    if (result < 0) {
        return result;
    }
    int64_t keep =
        config->history_count > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)config->history_count;
    int64_t age = config->history_age_ms <= 0 ? INT64_MAX / 2 : config->history_age_ms;
    jsi_query_open(&query, lane, JSI_SQL_PRUNE);
    jsi_query_int(&query, fence);
    jsi_query_int(&query, seq - keep - open);
    jsi_query_int(&query, lane->now_ms - age);
    jsi_query_int(&query, PRUNE_WINDOW);
    return jsi_query_run(&query);
}
