/* finish.c: how runs end, and what their nodes report while they go on.
 * Locks: the database's write lock is held throughout. */
#include "store.h"

/* A job that runs this seldom gets its ledger pruned by each finish: by tokens alone, a daily
 * job's would be a month late. */
#define PRUNE_SELDOM_MS 60000

/* How many of a job's newest rows are searched for a run that has ended, to know a repeated
 * finish. There is no index by token, because each grant of each job would pay for it (it was
 * a third of the claim's cost), for what only happens after an outcome that was not known. */
#define ENDED_WINDOW 10000

/* A run as its token finds it. */
struct found {
    int64_t run, fence, node, outcome, last_end_ms, seq;
    int taken, cancel;
    int reported; /* the ledger has the same note and progress already */
};

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

/* Looks among the runs that go on (RUN_BY_TOKEN) or the ended ones (RUN_ENDED).
 * 1: found. 0: no such run. */
static int find(struct jsi_sqlite_lane *lane, enum jsi_sql sql, const jobsched_lease *item,
                struct found *out_found)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, sql);
    jsi_query_text(&query, lane->store->config.name_space);
    jsi_query_text(&query, item->job);
    jsi_query_uint(&query, item->token);
    if (sql == JSI_SQL_RUN_ENDED) {
        jsi_query_int(&query, ENDED_WINDOW);
    }
    int result = jsi_query_row(&query);
    if (result == 1) {
        *out_found = (struct found){.run = jsi_query_get_int(&query, 0),
                                    .fence = jsi_query_get_int(&query, 1),
                                    .node = jsi_query_get_int(&query, 2),
                                    .outcome = jsi_query_get_int(&query, 3),
                                    .taken = jsi_query_get_int(&query, 4) != 0,
                                    .cancel = jsi_query_get_int(&query, 5) != 0,
                                    .last_end_ms = jsi_query_get_ms(&query, 9),
                                    .seq = jsi_query_get_int(&query, 10)};
        out_found->reported =
            strcmp(jsi_query_get_text(&query, 6), text_or_empty(item->note)) == 0 &&
            jsi_query_get_uint(&query, 7) == item->progress_done &&
            jsi_query_get_uint(&query, 8) == item->progress_total;
    }
    jsi_query_close(&query);
    return result;
}

static int end_run(struct jsi_sqlite_lane *lane, const struct found *found,
                   const jobsched_finish *item)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_END);
    jsi_query_int(&query, found->run);
    jsi_query_int(&query, item->outcome);
    jsi_query_int(&query, item->code);
    jsi_query_int(&query, lane->now_ms);
    jsi_query_text(&query, text_or_empty(item->note));
    jsi_query_uint(&query, item->progress_done);
    jsi_query_uint(&query, item->progress_total);
    int result = jsi_query_run(&query);
    if (result != 0) {
        return result;
    }
    jsi_query_open(&query, lane, JSI_SQL_FENCE_ENDED);
    jsi_query_int(&query, found->fence);
    jsi_query_int(&query, lane->now_ms);
    result = jsi_query_run(&query);
    int seldom =
        found->last_end_ms == JOBSCHED_NONE || lane->now_ms - found->last_end_ms > PRUNE_SELDOM_MS;
    if (result == 0 && (seldom || item->token % JSI_PRUNE_EVERY == 0)) {
        result = jsi_fence_prune(lane, found->fence, found->seq);
    }
    return result;
}

static int finish_one(struct jsi_sqlite_lane *lane, jobsched_finish *item)
{
    if (item->outcome < JOBSCHED_OUTCOME_SUCCEEDED ||
        item->outcome > JOBSCHED_OUTCOME_INTERRUPTED) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "outcome '%d' of job '%s' is outside %d-%d",
                             item->outcome, item->job, JOBSCHED_OUTCOME_SUCCEEDED,
                             JOBSCHED_OUTCOME_INTERRUPTED);
    }
    const jobsched_lease sought = {.job = item->job, .note = "", .token = item->token};
    struct found found;
    int result = find(lane, JSI_SQL_RUN_BY_TOKEN, &sought, &found);
    if (result == 1 && found.node == lane->node) {
        item->answer = JOBSCHED_LEASE_KEPT;
        return end_run(lane, &found, item);
    }
    if (result == 0) {
        result = find(lane, JSI_SQL_RUN_ENDED, &sought, &found);
    }
    /* Not taken from us: an earlier try of this finish has ended it. */
    int kept = result == 1 && found.node == lane->node && found.outcome > 1 && !found.taken;
    item->answer = kept ? JOBSCHED_LEASE_KEPT : JOBSCHED_LEASE_GONE;
    return result < 0 ? result : 0;
}

int jsi_sqlite_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; result == 0 && i < count; i++) {
        result = finish_one(lane, &items[i]);
    }
    return jsi_sqlite_end(lane, call, result);
}

static int renew_one(struct jsi_sqlite_lane *lane, jobsched_lease *item)
{
    struct found found;
    int result = find(lane, JSI_SQL_RUN_BY_TOKEN, item, &found);
    if (result < 0) {
        return result;
    }
    if (result != 1 || found.node != lane->node) {
        item->answer = JOBSCHED_LEASE_GONE;
        return 0;
    }
    item->answer = found.cancel ? JOBSCHED_LEASE_CANCEL : JOBSCHED_LEASE_KEPT;
    if (found.reported) {
        return 0;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_REPORT);
    jsi_query_int(&query, found.run);
    jsi_query_text(&query, text_or_empty(item->note));
    jsi_query_uint(&query, item->progress_done);
    jsi_query_uint(&query, item->progress_total);
    return jsi_query_run(&query);
}

/* Publishes the node's clock offset, and which lock file its lock is on. */
static int publish(struct jsi_sqlite_lane *lane, int64_t clock_offset_ms)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_sqlite_live live = store->live;
    (void)pthread_mutex_unlock(&store->lock);
    if (lane->relocked.fd >= 0) {
        live = lane->relocked;
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_NODE_RENEW);
    jsi_query_int(&query, lane->node);
    jsi_query_int(&query, clock_offset_ms);
    jsi_query_int(&query, live.dev);
    jsi_query_int(&query, live.ino);
    return jsi_query_run(&query);
}

int jsi_sqlite_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms,
                     jobsched_lease *items, size_t count)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    result = jsi_sqlite_node_beat(lane);
    if (result == 0) {
        jsi_sqlite_node_relock(lane);
        result = publish(lane, clock_offset_ms);
    }
    for (size_t i = 0; result == 0 && i < count; i++) {
        result = renew_one(lane, &items[i]);
    }
    if (result == 0) {
        /* Looked at as often as possible: a heartbeat counts as standing from the first look. */
        result = jsi_sqlite_node_list(lane, NULL, NULL);
    }
    return jsi_sqlite_end(lane, call, result);
}
