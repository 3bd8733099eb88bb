/* reap.c: ends the runs of dead owners, forgets dead nodes, and tells what waits; see sql/reap.sql.
 * What is to be told is told after the transaction that took it off its list. A process that dies
 * in between has told nobody; the ledger still says it.
 * Locks: lane KEEP while asking, none while visiting. */
#include "store.h"

#include <string.h>

enum { FOUND, ID, JOB, NODE, REQUEST, SCHEDULED, TOKEN, ATTEMPT, BEAT, NOW };

static void add_params(struct jsi_pg_lane *lane)
{
    const struct jsi_pg_store *store = lane->store;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_text(lane, store->config.node_id);
    jsi_pg_watch_params(lane);
    jsi_pg_param_int(lane, atomic_load(&store->chunk));
    jsi_pg_param_int(lane, store->rerun_after);
    jsi_pg_param_int(lane, store->trigger_after);
    jsi_pg_param_int(lane, store->sweep_after);
    int64_t age_ms = store->config.history_age_ms;
    jsi_pg_param_int(lane, age_ms <= 0 ? INT64_MAX / 2 : age_ms);
}

/* Where the listing of one kind goes on: behind its last row, or at the start where the list
 * ended. So those that nobody takes do not hide the ones behind them for ever. */
static void move(const struct jsi_pg_lane *lane, int found, int64_t limit, int64_t *after)
{
    int64_t listed = 0, last = 0;
    for (int i = 0; i < jsi_pg_rows(lane); i++) {
        if (jsi_pg_int(lane, i, FOUND) == found) {
            listed++;
            last = jsi_pg_int(lane, i, ID);
        }
    }
    *after = listed < limit ? 0 : last;
}

static int64_t count_of(const struct jsi_pg_lane *lane, int found)
{
    int64_t count = 0;
    for (int i = 0; i < jsi_pg_rows(lane); i++) {
        count += jsi_pg_int(lane, i, FOUND) == found;
    }
    return count;
}

/* The result is taken from the lane, so that lane KEEP is free while the visitor is told. */
static int ask(struct jsi_pg_store *store, jobsched_call *call, PGresult **out_result)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    int result = jsi_pg_keep_begin(store, call, call->timeout_ms);
    if (result != 0) {
        return result;
    }
    int64_t limit = atomic_load(&store->chunk);
    add_params(lane);
    result = jsi_pg_query(
        lane, "SELECT * FROM @S@.reap($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", 1);
    if (result == 0) {
        int64_t mono_ms = jsi_pg_mono(store);
        jsi_pg_watch_begin(store);
        for (int i = 0; i < jsi_pg_rows(lane); i++) {
            if (jsi_pg_int(lane, i, FOUND) == 0 && jsi_pg_get(lane, i, BEAT)[0] != '\0' &&
                jsi_pg_get(lane, i, NODE)[0] != '\0') {
                jsi_pg_watch(store, jsi_pg_get(lane, i, NODE), jsi_pg_get(lane, i, BEAT), mono_ms);
            }
            call->now_ms = jsi_pg_int(lane, i, NOW);
            store->sweep_after = jsi_pg_int(lane, i, ID); /* the last row's is meant */
        }
        jsi_pg_watch_end(store);
        int64_t left = limit - count_of(lane, JOBSCHED_FOUND_INTERRUPTED);
        move(lane, JOBSCHED_FOUND_RERUN, (left + 1) / 2, &store->rerun_after);
        left -= count_of(lane, JOBSCHED_FOUND_RERUN);
        move(lane, JOBSCHED_FOUND_TRIGGER, left, &store->trigger_after);
        *out_result = lane->result;
        lane->result = NULL;
    }
    return jsi_pg_keep_end(store, call, result);
}

static void add_untold(struct jsi_pg_lane *lane, const PGresult *findings, int first, int column)
{
    jsi_pg_array_begin(lane);
    for (int i = first; i < PQntuples(findings); i++) {
        if (strcmp(jsi_pg_value(findings, i, FOUND), "1") == 0) {
            jsi_pg_param_text(lane, jsi_pg_value(findings, i, column));
        }
    }
    jsi_pg_array_end(lane);
}

/* Puts back what a visitor did not want to hear. */
static int put_back(struct jsi_pg_store *store, jobsched_call *call, const PGresult *findings,
                    int first)
{
    if (first >= PQntuples(findings) || strcmp(jsi_pg_value(findings, first, FOUND), "1") != 0) {
        return 0;
    }
    static const int columns[] = {JOB, SCHEDULED, TOKEN, ATTEMPT, NODE};
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    int result = jsi_pg_keep_begin(store, call, call->timeout_ms);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.name_space);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        add_untold(lane, findings, first, columns[i]);
    }
    result = jsi_pg_query(lane, "SELECT o_now FROM @S@.untell($1, $2, $3, $4, $5, $6, $7)", 1);
    return jsi_pg_keep_end(store, call, result);
}

static int tell(const PGresult *findings, int row,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data)
{
    const struct jsi_pg_lane view = {.result = (PGresult *)(uintptr_t)findings};
    const jobsched_finding finding = {.found = (int32_t)jsi_pg_int(&view, row, FOUND),
                                      .attempt = (uint32_t)jsi_pg_int(&view, row, ATTEMPT),
                                      .job = jsi_pg_get(&view, row, JOB),
                                      .node = jsi_pg_get(&view, row, NODE),
                                      .request = jsi_pg_get(&view, row, REQUEST),
                                      .scheduled_ms = jsi_pg_int(&view, row, SCHEDULED),
                                      .token = jsi_pg_bits(&view, row, TOKEN)};
    return visit(&finding, visit_data);
}

int jsi_pg_reap(void *backend, jobsched_call *call,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data)
{
    struct jsi_pg_store *store = backend;
    PGresult *findings = NULL;
    int result = ask(store, call, &findings);
    if (result != 0) {
        return result;
    }
    int row = 0, stopped = 0;
    for (; !stopped && row < PQntuples(findings); row++) {
        if (strcmp(jsi_pg_value(findings, row, FOUND), "0") != 0) {
            stopped = tell(findings, row, visit, visit_data) != 0;
        }
    }
    result = put_back(store, call, findings, row);
    PQclear(findings);
    return result;
}
