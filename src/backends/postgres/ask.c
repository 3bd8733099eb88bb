/* ask.c: the readers. They stream, row by row: a ledger of millions of rows is not gathered in
 * memory.
 * Locks: the caller owns lane ADMIN. */
#include "store.h"

#include <string.h>

#define RUNS_DEFAULT 100

static const char runs_of_job[] =
    "SELECT f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token,"
    " r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind,"
    " r.outcome, r.code FROM @S@.fence f JOIN @S@.run r ON r.fence = f.id"
    " WHERE f.name_space = $1 AND f.name = $3 ORDER BY r.seq DESC LIMIT $2";

static const char run_of_request[] =
    "SELECT f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token,"
    " r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind,"
    " r.outcome, r.code FROM @S@.fence f JOIN @S@.run r ON r.fence = f.id"
    " WHERE f.name_space = $1 AND f.name = $2 AND r.request = $3";

static const char runs_of_all[] =
    "SELECT f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token,"
    " r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind,"
    " r.outcome, r.code FROM @S@.run r JOIN @S@.fence f ON f.id = r.fence"
    " WHERE f.name_space = $1 ORDER BY r.id DESC LIMIT $2";

static void read_record(const struct jsi_pg_lane *lane, jobsched_run_record *out_record)
{
    *out_record = (jobsched_run_record){
        .job = jsi_pg_get(lane, 0, 0),
        .node = jsi_pg_get(lane, 0, 1),
        .note = jsi_pg_get(lane, 0, 2),
        .request = jsi_pg_get(lane, 0, 3),
        .scheduled_at_ms = jsi_pg_int(lane, 0, 4),
        .last_at_ms = jsi_pg_int(lane, 0, 5),
        .count = jsi_pg_bits(lane, 0, 6),
        .token = jsi_pg_bits(lane, 0, 7),
        .started_at_ms = jsi_pg_ms(lane, 0, 8),
        .finished_at_ms = jsi_pg_ms(lane, 0, 9),
        .progress_done = jsi_pg_bits(lane, 0, 10),
        .progress_total = jsi_pg_bits(lane, 0, 11),
        .attempt = (uint32_t)jsi_pg_int(lane, 0, 12),
        .kind = (int32_t)jsi_pg_int(lane, 0, 13),
        .outcome = (int32_t)jsi_pg_int(lane, 0, 14),
        .code = (int32_t)jsi_pg_int(lane, 0, 15),
    };
}

/* Row by row: a ledger of millions of rows is not gathered in memory. */
static int visit_rows(struct jsi_pg_lane *lane, const char *job, jobsched_run_visit_fn visit,
                      void *visit_data)
{
    int result = jsi_pg_stream(lane, job == NULL ? runs_of_all : runs_of_job);
    if (result != 0) {
        return result;
    }
    while ((result = jsi_pg_stream_next(lane)) == 1) {
        jobsched_run_record record;
        read_record(lane, &record);
        if (visit(&record, visit_data) != 0) {
            jsi_pg_disconnect(lane); /* quicker than reading what nobody wants */
            return 0;
        }
    }
    return result;
}

int jsi_pg_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result == 0) {
        result = jsi_pg_clock(lane, call);
    }
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_int(lane, limit == 0          ? RUNS_DEFAULT
                           : limit > INT64_MAX ? INT64_MAX
                                               : (int64_t)limit);
    if (job != NULL) {
        jsi_pg_param_text(lane, job);
    }
    return visit_rows(lane, job, visit, visit_data);
}

int jsi_pg_find(void *backend, jobsched_call *call, const char *job, const char *request,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result == 0) {
        result = jsi_pg_clock(lane, call);
    }
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, store->config.name_space);
    jsi_pg_param_text(lane, job);
    jsi_pg_param_text(lane, request);
    result = jsi_pg_query(lane, run_of_request, 0);
    if (result != 0) {
        return result;
    }
    if (jsi_pg_rows(lane) == 0) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' has no trigger '%s'", job, request);
    }
    jobsched_run_record record;
    read_record(lane, &record);
    (void)visit(&record, visit_data); /* there is nothing to end */
    return 0;
}

/* Adds the nodes that are not known to be dead, as an array, to the parameters of what follows the
 * namespace. */
static int ask_living(struct jsi_pg_lane *lane, jobsched_call *call, const char *job)
{
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, lane->store->config.name_space);
    jsi_pg_watch_params(lane);
    /* It may note that a session was seen gone, which changes nothing for who asks. */
    int result = jsi_pg_query(lane, "SELECT * FROM @S@.living($1, $2, $3, $4, $5)", 0);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, lane->store->config.name_space);
    jsi_pg_array_begin(lane);
    for (int i = 0; i < jsi_pg_rows(lane); i++) {
        if (jsi_pg_get(lane, i, 0)[0] != '\0') {
            jsi_pg_param_text(lane, jsi_pg_get(lane, i, 0));
        }
        call->now_ms = jsi_pg_int(lane, i, 1);
    }
    jsi_pg_array_end(lane);
    if (job != NULL) {
        jsi_pg_param_text(lane, job);
    }
    return 0;
}

/* What the dead have not finished does not go on, also where nobody is left to find them dead. (Not
 * by "= ANY", see run_owner in sql/tables.sql.) "The newest row that has ended" goes back through
 * the job's rows from the last one on. */
#define JOBS                                                                                       \
    "SELECT f.name, d.text, d.version, f.generation, f.token, f.mark_ms, f.last_end_ms, f.paused," \
    " f.removed, g.nodes, g.dissent, (SELECT count(*) FROM @S@.run h WHERE h.fence = f.id"         \
    " AND h.outcome = 1 AND array_position($2::uuid[], h.node) IS NOT NULL),"                      \
    " (SELECT count(*) FROM @S@.run w WHERE w.fence = f.id"                                        \
    " AND w.outcome = 0), l.outcome, l.scheduled_ms, l.started_ms, l.finished_ms, l.node_name,"    \
    " r.node_name, r.started_ms, r.token FROM @S@.fence f"                                         \
    " LEFT JOIN @S@.definition d ON d.fence = f.id"                                                \
    " LEFT JOIN LATERAL (SELECT count(*) AS nodes, count(*) FILTER (WHERE x.version <> d.version"  \
    " OR x.hash <> d.hash) AS dissent FROM @S@.registration x WHERE x.fence = f.id"                \
    " AND x.node_id = ANY ($2::uuid[])) g ON true"                                                 \
    " LEFT JOIN LATERAL (SELECT o.outcome, o.scheduled_ms, o.started_ms, o.finished_ms,"           \
    " o.node_name FROM @S@.run o WHERE o.fence = f.id AND o.outcome >= 2 ORDER BY o.seq DESC"      \
    " LIMIT 1) l ON true"                                                                          \
    " LEFT JOIN LATERAL (SELECT h.node_name, h.started_ms, h.token FROM @S@.run h"                 \
    " WHERE h.fence = f.id AND h.outcome = 1 AND array_position($2::uuid[], h.node) IS NOT NULL"   \
    " ORDER BY h.token DESC LIMIT 1) r ON true"                                                    \
    " WHERE f.name_space = $1"

enum {
    JOB,
    DEFINITION,
    VERSION,
    GENERATION,
    TOKEN,
    MARK,
    LAST_END,
    PAUSED,
    REMOVED,
    NODES,
    DISSENT,
    RUNNING,
    WAITING,
    LAST_OUTCOME,
    LAST_SCHEDULED,
    LAST_STARTED,
    LAST_FINISHED,
    LAST_NODE,
    RUNNING_NODE,
    RUNNING_SINCE,
    RUNNING_TOKEN
};

static void read_job(const struct jsi_pg_lane *lane, jobsched_job_record *out_record)
{
    int has_last = jsi_pg_get(lane, 0, LAST_OUTCOME)[0] != '\0';
    *out_record = (jobsched_job_record){
        .job = jsi_pg_get(lane, 0, JOB),
        .definition = jsi_pg_get(lane, 0, DEFINITION),
        .schedule = "", /* the engine knows what a definition says */
        .timezone = "",
        .version = jsi_pg_unsigned(lane, 0, VERSION),
        .generation = jsi_pg_bits(lane, 0, GENERATION),
        .token = jsi_pg_bits(lane, 0, TOKEN),
        .mark_at_ms = jsi_pg_int(lane, 0, MARK),
        .next_at_ms = JOBSCHED_NONE,
        .last_end_at_ms = jsi_pg_ms(lane, 0, LAST_END),
        .paused = jsi_pg_true(lane, 0, PAUSED),
        .removed = jsi_pg_true(lane, 0, REMOVED),
        .nodes = jsi_pg_bits(lane, 0, NODES),
        .dissent = jsi_pg_bits(lane, 0, DISSENT),
        .running = jsi_pg_bits(lane, 0, RUNNING),
        .waiting = jsi_pg_bits(lane, 0, WAITING),
        .has_last = has_last,
        .last_outcome = (int32_t)jsi_pg_int(lane, 0, LAST_OUTCOME),
        .last_scheduled_at_ms = jsi_pg_ms(lane, 0, LAST_SCHEDULED),
        .last_started_at_ms = jsi_pg_ms(lane, 0, LAST_STARTED),
        .last_finished_at_ms = jsi_pg_ms(lane, 0, LAST_FINISHED),
        .last_node = jsi_pg_get(lane, 0, LAST_NODE),
        .running_node = jsi_pg_get(lane, 0, RUNNING_NODE),
        .running_since_at_ms = jsi_pg_ms(lane, 0, RUNNING_SINCE),
        .running_token = jsi_pg_bits(lane, 0, RUNNING_TOKEN),
    };
}

/* Readers of the living begin alike. */
static int begin(struct jsi_pg_lane *lane, jobsched_call *call, const char *job, const char *sql)
{
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result == 0) {
        result = ask_living(lane, call, job);
    }
    return result == 0 ? jsi_pg_stream(lane, sql) : result;
}

int jsi_pg_jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result =
        begin(lane, call, job, job == NULL ? JOBS " ORDER BY f.name" : JOBS " AND f.name = $3");
    int seen = 0;
    while (result == 0 && (result = jsi_pg_stream_next(lane)) == 1) {
        jobsched_job_record record;
        read_job(lane, &record);
        seen = 1;
        if (visit(&record, visit_data) != 0) {
            jsi_pg_disconnect(lane); /* quicker than reading what nobody wants */
            return 0;
        }
        result = 0;
    }
    if (result == 0 && job != NULL && !seen) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not known here", job);
    }
    return result;
}

static const char nodes[] =
    "SELECT replace(n.node_id::text, '-', ''), n.name, n.app_version, n.started_ms, n.seen_ms,"
    " n.clock_offset_ms, (SELECT count(*) FROM @S@.registration g WHERE g.node_id = n.node_id),"
    " (SELECT count(*) FROM @S@.run r WHERE r.node = n.node_id AND r.outcome = 1),"
    " (SELECT count(*) FROM @S@.registration g JOIN @S@.definition d ON d.fence = g.fence"
    " WHERE g.node_id = n.node_id AND (g.version <> d.version OR g.hash <> d.hash))"
    " FROM @S@.node n WHERE n.name_space = $1 AND n.node_id = ANY ($2::uuid[])"
    " ORDER BY n.name, n.node_id";

int jsi_pg_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit, void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    int result = begin(lane, call, NULL, nodes);
    while (result == 0 && (result = jsi_pg_stream_next(lane)) == 1) {
        const jobsched_node_record record = {
            .id = jsi_pg_get(lane, 0, 0),
            .name = jsi_pg_get(lane, 0, 1),
            .app_version = jsi_pg_get(lane, 0, 2),
            .since_at_ms = jsi_pg_int(lane, 0, 3),
            .beat_at_ms = jsi_pg_int(lane, 0, 4),
            .clock_offset_ms = jsi_pg_int(lane, 0, 5),
            .jobs = jsi_pg_bits(lane, 0, 6),
            .runs = jsi_pg_bits(lane, 0, 7),
            .dissent = jsi_pg_bits(lane, 0, 8),
        };
        if (visit(&record, visit_data) != 0) {
            jsi_pg_disconnect(lane);
            return 0;
        }
        result = 0;
    }
    return result;
}
