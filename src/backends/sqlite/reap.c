/* reap.c: ends the runs of dead owners, forgets dead nodes, tells what waits, and sweeps the
 * ledger.
 *
 * What is to be told is collected inside the transaction that takes it off the list, and told
 * after its commit: so nobody else is told it, and no visitor holds up the database. A process
 * that dies in between has told nobody; the ledger still says it.
 *
 * Locks: the database's write lock while collecting, none while visiting. */
#include "store.h"

#define RUNS_AT_ONCE 64

/* Ledger rows that one reap looks at (about 0.1 ms). */
#define SWEEP_WINDOW 256

struct finding {
    int found;
    uint32_t attempt;
    int64_t scheduled_ms;
    uint64_t token;
    char job[JOBSCHED_NAME_BYTES + 1];
    char node[JOBSCHED_NAME_BYTES + 1];
    char request[JOBSCHED_REQUEST_BYTES + 1];
};

struct findings {
    struct finding *array;
    size_t count, capacity;
};

/* ---- the dead ---- */

static int collect_ids(struct jsi_query *query, int64_t *ids, int *out_count)
{
    int result = 0;
    *out_count = 0;
    while (*out_count < RUNS_AT_ONCE && (result = jsi_query_row(query)) == 1) {
        ids[(*out_count)++] = jsi_query_get_int(query, 0);
    }
    jsi_query_close(query);
    return result < 0 ? result : 0;
}

/* Interrupts the node's runs with leases up to lease_ms, within what *left allows. */
static int interrupt_runs(struct jsi_sqlite_lane *lane, int64_t node, int64_t lease_ms, int *left)
{
    int64_t runs[RUNS_AT_ONCE];
    int count = RUNS_AT_ONCE;
    while (count == RUNS_AT_ONCE && *left > 0) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_OWNED);
        jsi_query_int(&query, node);
        jsi_query_int(&query, lease_ms);
        jsi_query_int(&query, *left < RUNS_AT_ONCE ? *left : RUNS_AT_ONCE);
        int result = collect_ids(&query, runs, &count);
        for (int i = 0; result == 0 && i < count; i++) {
            result = jsi_fence_interrupt(lane, runs[i], NULL);
        }
        if (result != 0) {
            return result;
        }
        *left -= count;
    }
    return 0;
}

/* Forgets a dead node, but not before its last run is ended: until then it says who held them. */
static int forget(struct jsi_sqlite_lane *lane, int64_t node)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_OWNED);
    jsi_query_int(&query, node);
    jsi_query_int(&query, INT64_MAX);
    jsi_query_int(&query, 1);
    int result = jsi_query_row(&query);
    jsi_query_close(&query);
    if (result != 0) {
        return result < 0 ? result : 0;
    }
    jsi_query_open(&query, lane, JSI_SQL_NODE_DROP);
    jsi_query_int(&query, node);
    return jsi_query_run(&query);
}

static int bury_nodes(struct jsi_sqlite_lane *lane, int *left)
{
    const jobsched_allocator *allocator = &lane->store->config.allocator;
    struct jsi_sqlite_listed *nodes = NULL;
    size_t count = 0;
    int result = jsi_sqlite_node_list(lane, &nodes, &count);
    for (size_t i = 0; result == 0 && i < count; i++) {
        const struct jsi_sqlite_verdict *verdict = &nodes[i].verdict;
        if (verdict->node == lane->node || (!verdict->proven && verdict->stood_ms == 0)) {
            continue;
        }
        result = interrupt_runs(lane, verdict->node,
                                verdict->proven ? INT64_MAX : verdict->stood_ms, left);
        if (result == 0 && jsi_sqlite_node_is_dead(verdict, nodes[i].lease_ms)) {
            result = forget(lane, verdict->node);
        }
    }
    jsi_sqlite_free(allocator, nodes);
    return result;
}

/* Runs whose node row is gone. */
static int bury_orphans(struct jsi_sqlite_lane *lane, int *left)
{
    int64_t owners[RUNS_AT_ONCE];
    int count = 0;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_OWNERS);
    jsi_query_text(&query, lane->store->config.name_space);
    int result = collect_ids(&query, owners, &count);
    for (int i = 0; result == 0 && i < count; i++) {
        if (owners[i] != lane->node) {
            result = interrupt_runs(lane, owners[i], INT64_MAX, left);
        }
    }
    return result;
}

/* ---- what is to be told ---- */

static int remember(struct jsi_sqlite_lane *lane, struct findings *findings,
                    const struct jsi_query *query, int found)
{
    struct finding *grown =
        jsi_sqlite_grow(&lane->store->config.allocator, findings->array, findings->count,
                        &findings->capacity, sizeof *findings->array);
    if (grown == NULL) {
        return JOBSCHED_ENOMEM;
    }
    findings->array = grown;
    struct finding *finding = &grown[findings->count++];
    finding->found = found;
    jsi_query_copy_text(query, 1, finding->job, sizeof finding->job);
    jsi_query_copy_text(query, 2, finding->node, sizeof finding->node);
    jsi_query_copy_text(query, 3, finding->request, sizeof finding->request);
    finding->scheduled_ms = jsi_query_get_int(query, 4);
    finding->token = jsi_query_get_uint(query, 5);
    finding->attempt = (uint32_t)jsi_query_get_uint(query, 6);
    return 0;
}

/* Lists at most limit after row *after, and moves it, or back to the start where the list ends.
 * So a thousand that nobody takes do not hide the ones behind them for ever. */
static int list(struct jsi_sqlite_lane *lane, struct findings *findings, enum jsi_sql sql,
                int found, size_t limit, int64_t *after)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, sql);
    jsi_query_text(&query, lane->store->config.name_space);
    jsi_query_int(&query, *after);
    jsi_query_int(&query, (int64_t)limit);
    size_t listed = 0;
    int64_t last = *after;
    int result;
    while ((result = jsi_query_row(&query)) == 1) {
        last = jsi_query_get_int(&query, 0);
        result = remember(lane, findings, &query, found);
        if (result != 0) {
            break;
        }
        listed++;
    }
    jsi_query_close(&query);
    if (result == 0) {
        *after = listed < limit ? 0 : last;
    }
    return result;
}

/* Takes newly interrupted runs off the list. */
static int take_untold(struct jsi_sqlite_lane *lane, struct findings *findings)
{
    int64_t ids[RUNS_AT_ONCE];
    int count = RUNS_AT_ONCE;
    while (count == RUNS_AT_ONCE && findings->count < JOBSCHED_BATCH_MAX) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_UNTOLD_LIST);
        jsi_query_text(&query, lane->store->config.name_space);
        jsi_query_int(&query, 0);
        size_t left = JOBSCHED_BATCH_MAX - findings->count;
        jsi_query_int(&query, left < RUNS_AT_ONCE ? (int64_t)left : RUNS_AT_ONCE);
        int result;
        for (count = 0; (result = jsi_query_row(&query)) == 1; count++) {
            ids[count] = jsi_query_get_int(&query, 0);
            result = remember(lane, findings, &query, JOBSCHED_FOUND_INTERRUPTED);
            if (result != 0) {
                break;
            }
        }
        jsi_query_close(&query);
        for (int i = 0; result == 0 && i < count; i++) {
            jsi_query_open(&query, lane, JSI_SQL_UNTOLD_DROP);
            jsi_query_int(&query, ids[i]);
            result = jsi_query_run(&query);
        }
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* ---- the aged ---- */

/* Claims and ends prune the rows of their own job. This is for the jobs that do nothing any more.
 * It goes round the ledger by row id, because an index by age would cost each end a write. */
static int sweep(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    if (store->config.history_age_ms <= 0) {
        return 0;
    }
    int64_t after = store->sweep_after;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_SWEEP_WINDOW);
    jsi_query_int(&query, after);
    jsi_query_int(&query, SWEEP_WINDOW);
    int result = jsi_query_row(&query);
    int64_t count = result == 1 ? jsi_query_get_int(&query, 0) : 0;
    int64_t last = result == 1 ? jsi_query_get_int(&query, 1) : 0;
    jsi_query_close(&query);
    if (result < 0) {
        return result;
    }
    store->sweep_after = count < SWEEP_WINDOW ? 0 : last;
    if (count == 0) {
        return 0;
    }
    jsi_query_open(&query, lane, JSI_SQL_SWEEP);
    jsi_query_int(&query, after);
    jsi_query_int(&query, last);
    jsi_query_int(&query, lane->now_ms - store->config.history_age_ms);
    jsi_query_text(&query, store->config.name_space);
    return jsi_query_run(&query);
}

static int collect(struct jsi_sqlite_lane *lane, struct findings *findings)
{
    struct jsi_sqlite_store *store = lane->store;
    int left = JOBSCHED_BATCH_MAX;
    int result = bury_nodes(lane, &left);
    if (result == 0) {
        result = bury_orphans(lane, &left);
    }
    if (result == 0) {
        result = take_untold(lane, findings);
    }
    /* Half of the rest each, so that neither can crowd out the other. */
    size_t half = (JOBSCHED_BATCH_MAX - findings->count + 1) / 2;
    if (result == 0 && half > 0) {
        result = list(lane, findings, JSI_SQL_RERUN_LIST, JOBSCHED_FOUND_RERUN, half,
                      &store->rerun_after);
    }
    if (result == 0 && findings->count < JOBSCHED_BATCH_MAX) {
        result = list(lane, findings, JSI_SQL_TRIGGER_LIST, JOBSCHED_FOUND_TRIGGER,
                      JOBSCHED_BATCH_MAX - findings->count, &store->trigger_after);
    }
    if (result == 0) {
        result = jsi_sqlite_sweep_registrations(lane);
    }
    return result == 0 ? sweep(lane) : result;
}

/* Puts back what a visitor did not want to hear. */
static int put_back(struct jsi_sqlite_lane *lane, jobsched_call *call,
                    const struct findings *findings, size_t first)
{
    if (first >= findings->count || findings->array[first].found != JOBSCHED_FOUND_INTERRUPTED) {
        return 0;
    }
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    for (size_t i = first; result == 0 && i < findings->count; i++) {
        const struct finding *finding = &findings->array[i];
        if (finding->found != JOBSCHED_FOUND_INTERRUPTED) {
            break;
        }
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_UNTOLD_AGAIN);
        jsi_query_text(&query, lane->store->config.name_space);
        jsi_query_text(&query, finding->job);
        jsi_query_int(&query, finding->scheduled_ms);
        jsi_query_uint(&query, finding->token);
        jsi_query_int(&query, (int64_t)finding->attempt);
        jsi_query_text(&query, finding->node);
        result = jsi_query_run(&query);
    }
    return jsi_sqlite_end(lane, call, result);
}

int jsi_sqlite_reap(void *backend, jobsched_call *call,
                    int (*visit)(const jobsched_finding *finding, void *visit_data),
                    void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct findings findings = {.array = NULL};
    int result = jsi_sqlite_begin(lane, call);
    if (result == 0) {
        result = jsi_sqlite_end(lane, call, collect(lane, &findings));
    }
    size_t told = 0;
    int stopped = result != 0;
    while (!stopped && told < findings.count) {
        const struct finding *finding = &findings.array[told++];
        jobsched_finding shown = {.found = finding->found,
                                  .attempt = finding->attempt,
                                  .job = finding->job,
                                  .node = finding->node,
                                  .request = finding->request,
                                  .scheduled_ms = finding->scheduled_ms,
                                  .token = finding->token};
        stopped = visit(&shown, visit_data) != 0;
    }
    if (result == 0) {
        result = put_back(lane, call, &findings, told);
    }
    jsi_sqlite_free(&store->config.allocator, findings.array);
    return result;
}
