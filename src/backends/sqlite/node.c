/* node.c: our own node row, and the judgement on others.
 *
 * Our byte in the lock file is locked before the row that names it is committed, so that nobody
 * ever sees a row of a living node without its lock.
 *
 * Locks: store->lock for what lanes share; the database's write lock is held throughout. */
#include "store.h"

/* A byte may be held by a node of another database file that was here before. */
#define ENTER_TRIES 64

static int add_row(struct jsi_sqlite_lane *lane, int64_t id, const struct jsi_sqlite_live *live)
{
    const jobsched_backend_config *config = &lane->store->config;
    /* Not from zero, so that a node which comes back under its old id is seen to move. */
    int64_t beat = 0;
    sqlite3_randomness((int)sizeof beat, &beat);
    beat &= INT64_MAX / 2;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODE_ADD);
    if (id == 0) {
        jsi_query_null(&query);
    } else {
        jsi_query_int(&query, id);
    }
    jsi_query_text(&query, config->node_id);
    jsi_query_text(&query, config->name_space);
    jsi_query_text(&query, config->node_name);
    jsi_query_text(&query, config->app_version == NULL ? "" : config->app_version);
    jsi_query_int(&query, lane->now_ms);
    jsi_query_int(&query, config->lease_ms);
    jsi_query_int(&query, beat);
    jsi_query_int(&query, live->dev);
    jsi_query_int(&query, live->ino);
    return jsi_query_run(&query);
}

static int drop_row(struct jsi_sqlite_lane *lane, int64_t id)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODE_DROP);
    jsi_query_int(&query, id);
    return jsi_query_run(&query);
}

/* 1: entered. 0: the byte of the id is somebody else's. */
static int try_enter(struct jsi_sqlite_lane *lane, int64_t id, const struct jsi_sqlite_live *live)
{
    int result = add_row(lane, id, live);
    if (result != 0) {
        return result;
    }
    if (sqlite3_changes(lane->db) == 0) {
        return 0;
    }
    int64_t row = sqlite3_last_insert_rowid(lane->db);
    result = jsi_sqlite_live_lock(lane->store, live, row);
    if (result == 1) {
        lane->entered = row;
        lane->node = row;
        lane->beaten = 1;
        return 1;
    }
    /* The id is used up by having been inserted once, so the next try gets another. */
    int dropped = result == 0 ? drop_row(lane, row) : 0;
    return result < 0 ? result : dropped;
}

int jsi_sqlite_node_enter(struct jsi_sqlite_lane *lane, int keep_id)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_sqlite_live live = store->live;
    (void)pthread_mutex_unlock(&store->lock);
    int result = keep_id ? try_enter(lane, lane->node, &live) : 0;
    for (int i = 0; result == 0 && i < ENTER_TRIES; i++) {
        result = try_enter(lane, 0, &live);
    }
    if (result == 0) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "the lock file '%s' is in use by nodes of another database",
                             store->live_path);
    }
    return result < 0 ? result : 0;
}

int jsi_sqlite_node_beat(struct jsi_sqlite_lane *lane)
{
    if (lane->beaten) {
        return 0;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODE_BEAT);
    jsi_query_int(&query, lane->node);
    jsi_query_text(&query, lane->store->config.node_id);
    jsi_query_int(&query, lane->now_ms);
    int result = jsi_query_run(&query);
    if (result != 0) {
        return result;
    }
    if (sqlite3_changes(lane->db) == 0) {
        /* We stood still for so long that somebody took us for dead. Our byte is still ours. */
        return jsi_sqlite_node_enter(lane, 1);
    }
    lane->beaten = 1;
    return 0;
}

void jsi_sqlite_node_relock(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_sqlite_live live = store->live;
    (void)pthread_mutex_unlock(&store->lock);
    /* Where the new file cannot be opened or locked, our row goes on naming the old one, and
     * others go by our heartbeat. That is no reason to fail a renewal. */
    if (jsi_sqlite_live_moved(store, &live) && jsi_sqlite_live_open(store, &lane->relocked) == 0 &&
        jsi_sqlite_live_lock(store, &lane->relocked, lane->node) != 1) {
        jsi_sqlite_live_close(&lane->relocked);
    }
}

/* The lock in the former file is kept until there is yet another one: if this commit's outcome
 * is unknown, our row may still name that file. */
static void settle_lock(struct jsi_sqlite_lane *lane, int kept)
{
    if (lane->relocked.fd < 0) {
        return;
    }
    struct jsi_sqlite_store *store = lane->store;
    if (!kept) {
        jsi_sqlite_live_close(&lane->relocked);
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_sqlite_live unused = store->former;
    store->former = store->live;
    store->live = lane->relocked;
    (void)pthread_mutex_unlock(&store->lock);
    lane->relocked.fd = -1;
    jsi_sqlite_live_close(&unused);
    if (store->config.notice != NULL) {
        store->config.notice(store->config.notice_data, JOBSCHED_EVENT_BACKEND_WARNING,
                             "the lock file of the sqlite: store was deleted or replaced; its "
                             "lock was taken anew");
    }
}

static void settle_row(struct jsi_sqlite_lane *lane, int kept)
{
    if (lane->entered == 0) {
        return;
    }
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    int64_t unused = lane->entered;
    if (kept) {
        unused = store->node;
        store->node = lane->entered;
    }
    if (unused != 0 && unused != store->node) {
        jsi_sqlite_live_unlock(&store->live, unused);
    }
    (void)pthread_mutex_unlock(&store->lock);
    lane->entered = 0;
}

void jsi_sqlite_node_settle(struct jsi_sqlite_lane *lane, int kept)
{
    settle_row(lane, kept);
    settle_lock(lane, kept);
}

struct jsi_sqlite_verdict jsi_sqlite_node_judge(struct jsi_sqlite_lane *lane, int64_t node,
                                                const struct jsi_query *query, int first)
{
    if (node == lane->node) {
        /* Asking for a lock that is ours would answer that it is free. */
        return (struct jsi_sqlite_verdict){.node = node};
    }
    unsigned known =
        lane->verdict_count < JSI_SQLITE_VERDICTS ? lane->verdict_count : JSI_SQLITE_VERDICTS;
    for (unsigned i = 0; i < known; i++) {
        if (lane->verdicts[i].node == node) {
            return lane->verdicts[i];
        }
    }
    struct jsi_sqlite_verdict verdict = {.node = node};
    if (sqlite3_column_type(query->statement, first) == SQLITE_NULL) {
        verdict.proven = 1;
    } else {
        struct jsi_sqlite_store *store = lane->store;
        (void)pthread_mutex_lock(&store->lock);
        verdict.proven =
            jsi_sqlite_live_free(&store->live, node, jsi_query_get_int(query, first + 2),
                                 jsi_query_get_int(query, first + 3));
        verdict.stood_ms =
            jsi_sqlite_watch(store, node, jsi_query_get_int(query, first + 1), lane->mono_ms);
        (void)pthread_mutex_unlock(&store->lock);
    }
    lane->verdicts[lane->verdict_count++ % JSI_SQLITE_VERDICTS] = verdict;
    return verdict;
}

int jsi_sqlite_node_is_dead(const struct jsi_sqlite_verdict *verdict, int64_t lease_ms)
{
    return verdict->proven || verdict->stood_ms >= lease_ms;
}

int jsi_sqlite_node_list(struct jsi_sqlite_lane *lane, struct jsi_sqlite_listed **out_nodes,
                         size_t *out_count)
{
    struct jsi_sqlite_store *store = lane->store;
    struct jsi_sqlite_listed *nodes = NULL;
    size_t count = 0, capacity = 0;
    struct jsi_query query;
    (void)pthread_mutex_lock(&store->lock);
    jsi_sqlite_watch_begin(store);
    (void)pthread_mutex_unlock(&store->lock);
    jsi_query_open(&query, lane, JSI_SQL_NODE_LIST);
    jsi_query_text(&query, store->config.name_space);
    int result;
    while ((result = jsi_query_row(&query)) == 1) {
        struct jsi_sqlite_verdict verdict =
            jsi_sqlite_node_judge(lane, jsi_query_get_int(&query, 0), &query, 0);
        if (out_nodes == NULL) {
            continue;
        }
        struct jsi_sqlite_listed *grown =
            jsi_sqlite_grow(&store->config.allocator, nodes, count, &capacity, sizeof *nodes);
        if (grown == NULL) {
            result = JOBSCHED_ENOMEM;
            break;
        }
        nodes = grown;
        nodes[count++] = (struct jsi_sqlite_listed){.verdict = verdict,
                                                    .lease_ms = jsi_query_get_int(&query, 4)};
    }
    jsi_query_close(&query);
    if (result != 0) {
        jsi_sqlite_free(&store->config.allocator, nodes);
        return result;
    }
    (void)pthread_mutex_lock(&store->lock);
    jsi_sqlite_watch_end(store);
    (void)pthread_mutex_unlock(&store->lock);
    if (out_nodes != NULL) {
        *out_nodes = nodes;
        *out_count = count;
    }
    return 0;
}
