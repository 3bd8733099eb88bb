/* check.c: what an operator should know about the server, or mend there.
 * Locks: the caller owns lane ADMIN. */
#include "store.h"

#include <stdio.h>
#include <string.h>

/* So few free connections are told. */
#define CONNECTIONS_FEW 10

/* A failover is told for a day. */
#define FAILOVER_MS 86400000

/* Who may not see the replicas' state counts them all the same. */
static const char facts[] =
    "SELECT current_setting('server_version'), current_setting('server_version_num')::integer,"
    " current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'), current_setting('max_connections')::bigint -"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type IS NULL"
    " OR backend_type = 'client backend'),"
    " (SELECT count(*) FROM pg_stat_replication),"
    " current_setting('synchronous_standby_names'),"
    " (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'"
    " AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')"
    " AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))),"
    " m.version, m.epoch, m.lost_at_ms, m.floor_ms, @S@.now_ms(), m.quarantine_until_ms,"
    " pg_size_pretty(pg_total_relation_size('@S@.run')), current_setting('transaction_read_only'),"
    " (SELECT count(*) FROM @S@.fence f WHERE f.name_space = $2)"
    " FROM @S@.meta m";

enum {
    SERVER,
    SERVER_NUMBER,
    FSYNC,
    PAGE_WRITES,
    COMMIT,
    FREE,
    REPLICAS,
    SYNCHRONOUS,
    NO_RIGHTS,
    VERSION,
    EPOCH,
    LOST_AT,
    FLOOR,
    NOW,
    QUARANTINE,
    LEDGER,
    READ_ONLY,
    JOBS
};

struct report {
    const struct jsi_pg_lane *lane;
    jobsched_check_visit_fn visit;
    void *visit_data;
    int stopped;
};

static void say(struct report *report, const char *id, int level, const char *message)
{
    const jobsched_check_record record = {.id = id, .level = level, .message = message};
    if (!report->stopped) {
        report->stopped = report->visit(&record, report->visit_data) != 0;
    }
}

static void say_server(struct report *report)
{
    const struct jsi_pg_lane *lane = report->lane;
    const struct jsi_pg_store *store = lane->store;
    char text[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(
        text, sizeof text,
        "PostgreSQL %.40s at '%.100s:%.20s', database '%.64s', schema '%s' version %lld, "
        "%lld jobs, the ledger of all namespaces takes %.20s",
        jsi_pg_get(lane, 0, SERVER), PQhost(lane->conn), PQport(lane->conn), PQdb(lane->conn),
        store->schema, (long long)jsi_pg_int(lane, 0, VERSION),
        (long long)jsi_pg_int(lane, 0, JOBS), jsi_pg_get(lane, 0, LEDGER));
    say(report, "postgresql.server", JOBSCHED_LEVEL_INFO, text);
    if (jsi_pg_int(lane, 0, SERVER_NUMBER) >= 140000) {
        say(report, "postgresql.timeouts", JOBSCHED_LEVEL_INFO,
            "the server ends the sessions of nodes that hang");
    } else {
        say(report, "postgresql.timeouts", JOBSCHED_LEVEL_WARNING,
            "the server is older than 14: it does not end the sessions of nodes that hang, so "
            "others have to watch a lease; upgrade it");
    }
}

static void say_pooler(struct report *report)
{
    const struct jsi_pg_store *store = report->lane->store;
    if (store->row_mode) {
        say(report, "postgresql.mode", JOBSCHED_LEVEL_INFO,
            "row mode: who is alive is seen by heartbeats only, so a dead node's jobs wait for "
            "their lease");
    } else if (atomic_load(&store->pooled)) {
        say(report, "postgresql.mode", JOBSCHED_LEVEL_INFO,
            "session mode behind a connection pooler that gives each connection a session of its "
            "own; it must stay so ('pool_mode=session')");
    } else {
        say(report, "postgresql.mode", JOBSCHED_LEVEL_INFO,
            "session mode, connected to the server itself");
    }
}

static void say_durable(struct report *report)
{
    const struct jsi_pg_lane *lane = report->lane;
    const char *standbys = jsi_pg_get(lane, 0, SYNCHRONOUS);
    int64_t replicas = jsi_pg_int(lane, 0, REPLICAS);
    if (strcmp(jsi_pg_get(lane, 0, FSYNC), "on") != 0 ||
        strcmp(jsi_pg_get(lane, 0, PAGE_WRITES), "on") != 0) {
        say(report, "postgresql.durability", JOBSCHED_LEVEL_ERROR,
            "'fsync' or 'full_page_writes' is off: a crash of the host can forget or damage what "
            "was granted; set both to 'on'");
    } else {
        say(report, "postgresql.durability", JOBSCHED_LEVEL_INFO,
            "answers outlast a crash of the server");
    }
    if (replicas > 0 && standbys[0] == '\0') {
        say(report, "postgresql.replicas", JOBSCHED_LEVEL_WARNING,
            "the replicas are asynchronous: one that is promoted may have forgotten the last "
            "grants and control calls; what may have run is then skipped as unknown. Set "
            "'synchronous_standby_names' to exclude it");
    } else {
        say(report, "postgresql.replicas", JOBSCHED_LEVEL_INFO,
            replicas > 0 ? "there are synchronous replicas" : "there are no replicas");
    }
}

static void say_rights(struct report *report)
{
    const struct jsi_pg_lane *lane = report->lane;
    const char *tables = jsi_pg_get(lane, 0, NO_RIGHTS);
    char text[JOBSCHED_MESSAGE_BYTES];
    if (tables[0] != '\0') {
        (void)snprintf(text, sizeof text,
                       "role '%.64s' lacks one of SELECT, INSERT, UPDATE, DELETE on: %.300s",
                       PQuser(lane->conn), tables);
        say(report, "postgresql.rights", JOBSCHED_LEVEL_ERROR, text);
    } else if (strcmp(jsi_pg_get(lane, 0, READ_ONLY), "off") != 0) {
        say(report, "postgresql.rights", JOBSCHED_LEVEL_ERROR,
            "the database takes no writes: set 'default_transaction_read_only' to 'off' for it, "
            "and for the role");
    } else {
        say(report, "postgresql.rights", JOBSCHED_LEVEL_INFO, "the role has the rights it needs");
    }
    int64_t left = jsi_pg_int(lane, 0, FREE);
    (void)snprintf(text, sizeof text, "%lld of the server's connections are free%s",
                   (long long)left,
                   left < CONNECTIONS_FEW ? "; each node needs two or three, and one to come back "
                                            "with: raise 'max_connections'"
                                          : "");
    say(report, "postgresql.connections",
        left < CONNECTIONS_FEW ? JOBSCHED_LEVEL_WARNING : JOBSCHED_LEVEL_INFO, text);
}

static void say_failover(struct report *report)
{
    const struct jsi_pg_lane *lane = report->lane;
    int64_t ago_ms = jsi_pg_span(lane, 0, LOST_AT, NOW);
    if (jsi_pg_int(lane, 0, EPOCH) == 0 || ago_ms > FAILOVER_MS) {
        say(report, "postgresql.failover", JOBSCHED_LEVEL_INFO,
            "the server is the one that it was a day ago");
        return;
    }
    char text[JOBSCHED_MESSAGE_BYTES];
    int quarantine = jsi_pg_int(lane, 0, QUARANTINE) > jsi_pg_int(lane, 0, NOW);
    int64_t ahead_ms = jsi_pg_span(lane, 0, NOW, FLOOR);
    char ahead[120] = "";
    if (ahead_ms > 0) {
        (void)snprintf(
            ahead, sizeof ahead,
            ", its clock is behind and for %lld s more what is due is skipped as unknown",
            (long long)ahead_ms / 1000 + 1);
    }
    (void)snprintf(
        text, sizeof text,
        "the server has been another one for %lld min (epoch %lld)%s%s; pauses and other "
        "control calls made shortly before that may be forgotten: look through the jobs",
        (long long)(ago_ms > 0 ? ago_ms / 60000 : 0), (long long)jsi_pg_int(lane, 0, EPOCH),
        quarantine ? ", and nothing is granted until the leases of then are over" : "", ahead);
    say(report, "postgresql.failover", JOBSCHED_LEVEL_WARNING, text);
}

int jsi_pg_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                 void *visit_data)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jsi_pg_budget(lane, call->timeout_ms);
    int result = jsi_pg_session(lane);
    if (result != 0) {
        return result;
    }
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, store->schema);
    jsi_pg_param_text(lane, store->config.name_space);
    result = jsi_pg_query(lane, facts, 0);
    if (result == 0) {
        result = jsi_pg_expect(lane, 1);
    }
    if (result != 0) {
        return result;
    }
    call->now_ms = jsi_pg_int(lane, 0, NOW);
    struct report report = {.lane = lane, .visit = visit, .visit_data = visit_data};
    say_server(&report);
    say_pooler(&report);
    say_durable(&report);
    say_rights(&report);
    say_failover(&report);
    return 0;
}
