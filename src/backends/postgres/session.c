/* session.c: what a new connection is told, and what it must be. Settings are made by a statement
 * and not by the start packet, because older servers do not know all of them and poolers refuse
 * the packet. Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

/* The part of the server's lock table that one statement of ours may fill, so that several nodes
 * can claim at once. When the table is full nobody can even connect. */
#define LOCK_TABLE_PART 4
#define CHUNK_MIN       16

/* Tokens have the epoch in the bits from 40 on, and are positive in SQL, also in the next epoch. */
#define EPOCH_END (1 << 22)

/* Where the rows of the answer are. */
enum { STANDBY, ENCODING, LOCKS, ISOLATION, HAS_META };

/* The settings that need no number. A session that waits for locks or runs on by itself would hold
 * up everybody after its client has given up; a generic plan halves the time of small claims; and
 * compiling statements (jit) takes longer than they do; plans that were made while a table was
 * empty must not scan it when it has grown. synchronous_commit is only ever raised: an
 * answer must not be forgotten by a crash.
 * In row mode nothing is set: the session is not ours. ($8: is it?) */
static const char setup[] =
    "SELECT pg_is_in_recovery(), current_setting('server_encoding'),"
    " current_setting('max_locks_per_transaction')::bigint *"
    " (current_setting('max_connections')::bigint +"
    " current_setting('max_prepared_transactions')::bigint),"
    " current_setting('transaction_isolation'),"
    " EXISTS(SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $7 AND c.relname = 'meta'), count(set_config(s.name, v.value, false))"
    " FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), ('client_min_messages', 'warning'),"
    " ('default_transaction_isolation', 'read committed'),"
    " ('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN 'on' ELSE current_setting('synchronous_commit') END),"
    " ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('row_security', 'off'),"
    " ('enable_seqscan', 'off'),"
    " ('statement_timeout', $1), ('lock_timeout', $2),"
    " ('idle_in_transaction_session_timeout', $1), ('idle_session_timeout', $3),"
    " ('client_connection_check_interval', $4), ('tcp_keepalives_idle', $5),"
    " ('tcp_keepalives_interval', $5), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', $6))"
    " AS v(name, value) JOIN pg_settings s ON s.name = v.name WHERE $8 AND v.value <> ''";

static void setup_params(struct jsi_pg_lane *lane)
{
    const jobsched_backend_config *config = &lane->store->config;
    int64_t request_ms = config->request_timeout_ms > 0 ? config->request_timeout_ms : 1000;
    int64_t lease_s = config->lease_ms / 1000 + 1;
    jsi_pg_params(lane);
    /* A little before we give up ourselves, because then the outcome is known. */
    jsi_pg_param_int(lane, request_ms - request_ms / 10);
    jsi_pg_param_int(lane, request_ms / 2 + 1);
    /* A frozen owner sends nothing, and its lock must go. Only the session that has the lock; the
     * others are idle for good reasons. */
    if (lane->kind == JOBSCHED_LANE_KEEP) {
        jsi_pg_param_int(lane, config->lease_ms);
    } else {
        jsi_pg_param_text(lane, "");
    }
    int64_t check_ms = config->lease_ms / 10;
    jsi_pg_param_int(lane, check_ms < 100 ? 100 : check_ms > 1000 ? 1000 : check_ms);
    jsi_pg_param_int(lane, lease_s / 3 + 1);
    jsi_pg_param_int(lane, config->lease_ms);
    jsi_pg_param_text(lane, lane->store->schema);
    jsi_pg_param_text(lane, lane->store->row_mode ? "false" : "true");
}

/* A pooler makes up a process id of its own. */
static int check_pooler(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    jsi_pg_params(lane);
    int result = jsi_pg_query(lane, "SELECT pg_backend_pid()", 0);
    if (result != 0) {
        return result;
    }
    int64_t pid = jsi_pg_int(lane, 0, 0);
    if (pid == PQbackendPID(lane->conn) || atomic_load(&store->pooled)) {
        return 0; /* what changes later is noticed by renew() */
    }
    result = store->row_mode ? 0 : jsi_pg_pooler(lane, pid);
    if (result == 0) {
        atomic_store(&store->pooled, 1);
    }
    return result;
}

static int check_server(struct jsi_pg_lane *lane)
{
    if (jsi_pg_true(lane, 0, STANDBY)) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "'%s:%s' is a standby; give the primary, or several hosts with "
                             "'target_session_attrs=read-write'",
                             PQhost(lane->conn), PQport(lane->conn));
    }
    const char *encoding = jsi_pg_get(lane, 0, ENCODING);
    if (strcmp(encoding, "UTF8") != 0 && strcmp(encoding, "SQL_ASCII") != 0) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "database '%s' has encoding '%s', which cannot hold every name; "
                             "'UTF8' is needed",
                             PQdb(lane->conn), encoding);
    }
    if (strcmp(jsi_pg_get(lane, 0, ISOLATION), "read committed") != 0) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "transactions of '%s' are '%s' by default; in row mode 'read "
                             "committed' is needed (ALTER ROLE ... SET "
                             "default_transaction_isolation)",
                             PQdb(lane->conn), jsi_pg_get(lane, 0, ISOLATION));
    }
    int64_t chunk = jsi_pg_int(lane, 0, LOCKS) / LOCK_TABLE_PART;
    atomic_store(&lane->store->chunk, chunk < CHUNK_MIN            ? CHUNK_MIN
                                      : chunk > JOBSCHED_BATCH_MAX ? JOBSCHED_BATCH_MAX
                                                                   : chunk);
    return 0;
}

/* The columns of hello(). */
enum { CHANGED, EPOCH, INCARNATION, LSN, HELLO_NOW, FLOOR, PAUSED, JOBS };

/* A floor that lies ahead is told with how far: until then occurrences are skipped, and nobody
 * should have to wonder why. */
static void tell_changed(const struct jsi_pg_lane *lane)
{
    char text[JOBSCHED_MESSAGE_BYTES], ahead[160] = "until now";
    const jobsched_backend_config *config = &lane->store->config;
    int64_t ahead_ms = jsi_pg_span(lane, 0, HELLO_NOW, FLOOR);
    if (ahead_ms > 0) {
        (void)snprintf(ahead, sizeof ahead,
                       "in the next %lld ms as well as before (its clock is behind that of the "
                       "server before by so much)",
                       (long long)ahead_ms);
    }
    (void)snprintf(text, sizeof text,
                   "the PostgreSQL server is another one than before (a promoted standby or a "
                   "restored backup): what is due %s and may have run is skipped as "
                   "unknown, nothing is granted for one lease, and control calls of the last "
                   "moments may be forgotten; of %lld jobs %lld are paused",
                   ahead, (long long)jsi_pg_int(lane, 0, JOBS),
                   (long long)jsi_pg_int(lane, 0, PAUSED));
    if (config->notice != NULL) {
        config->notice(config->notice_data, JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST, text);
    }
}

/* Whether this is the server that it was, see hello() in sql/node.sql. */
static int greet(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_known_params(lane);
    if (lane->kind == JOBSCHED_LANE_CLAIM) {
        lane->nonce = atomic_fetch_add(&store->nonces, 1) + 1;
        atomic_store(&store->claim_nonce, lane->nonce); /* for a row that is not there yet */
        jsi_pg_param_text(lane, store->config.node_id);
        jsi_pg_param_int(lane, lane->nonce);
    } else {
        jsi_pg_param_text(lane, NULL);
        jsi_pg_param_text(lane, NULL);
    }
    lane->is_greeting = 1;
    int result = jsi_pg_query(lane, "SELECT * FROM @S@.hello($1, $2, $3, $4, $5, $6, $7, $8)", 0);
    lane->is_greeting = 0;
    if (result != 0) {
        return result;
    }
    int64_t epoch = jsi_pg_int(lane, 0, EPOCH);
    if (epoch < 0 || epoch >= EPOCH_END) {
        return jobsched_fail(JOBSCHED_EINTERNAL, 0,
                             "the server '%s:%s' answers with epoch '%lld', allowed are 0 to %d",
                             PQhost(lane->conn), PQport(lane->conn), (long long)epoch,
                             EPOCH_END - 1);
    }
    int64_t before = jsi_pg_known_server(lane, epoch, jsi_pg_get(lane, 0, INCARNATION),
                                         jsi_pg_int(lane, 0, LSN), jsi_pg_int(lane, 0, HELLO_NOW));
    if (before == -2) {
        return jobsched_fail(JOBSCHED_EUNREACHABLE, 0,
                             "the server '%s:%s' is older than one that has answered before",
                             PQhost(lane->conn), PQport(lane->conn));
    }
    lane->is_stale = 0;
    lane->commands = 0;
    /* Another lane of ours may have told meanwhile. */
    if (jsi_pg_true(lane, 0, CHANGED) && before != epoch) {
        tell_changed(lane);
    }
    return 0;
}

static int open_session(struct jsi_pg_lane *lane, int first)
{
    int result = jsi_pg_connect(lane);
    if (result != 0) {
        return result;
    }
    result = check_pooler(lane);
    if (result == 0) {
        setup_params(lane);
        result = jsi_pg_query(lane, setup, 0);
    }
    if (result == 0) {
        result = check_server(lane);
    }
    if (result == 0) {
        int has_meta = jsi_pg_true(lane, 0, HAS_META);
        if (first) {
            result = jsi_pg_schema(lane, has_meta);
        } else if (!has_meta) {
            result = jobsched_fail(JOBSCHED_EDATALOST, 0, "schema '%s' was removed while in use",
                                   lane->store->schema);
        }
    }
    if (result == 0) {
        result = greet(lane);
    }
    if (result != 0) {
        jsi_pg_disconnect(lane);
    }
    return result;
}

int jsi_pg_session_first(struct jsi_pg_lane *lane)
{
    return open_session(lane, 1);
}

/* Makes sure that there is a connection, to a server that is greeted. */
static int connected(struct jsi_pg_lane *lane)
{
    /* A server that was restarted while nothing was asked is noticed before it is asked: so there
     * is no outcome that is not known. */
    if (lane->conn != NULL && jsi_pg_is_cut(lane)) {
        jsi_pg_disconnect(lane);
    }
    /* Another lane of ours has found another server: this one is perhaps still with the old one. */
    if (lane->conn != NULL && !lane->is_stale && lane->epoch != atomic_load(&lane->store->epoch)) {
        jsi_pg_disconnect(lane);
    }
    if (lane->conn == NULL) {
        return open_session(lane, 0);
    }
    int result = lane->is_stale ? greet(lane) : 0;
    if (result != 0) {
        jsi_pg_disconnect(lane);
    }
    return result;
}

int jsi_pg_session(struct jsi_pg_lane *lane)
{
    const struct jsi_pg_store *store = lane->store;
    int result = connected(lane);
    /* Before anything is claimed or ended on a server that may have forgotten what we hold, it is
     * told. Lane KEEP does that when it enters. */
    if (result == 0 && lane->kind == JOBSCHED_LANE_CLAIM &&
        atomic_load(&store->said) != atomic_load(&store->epoch)) {
        result = jsi_pg_node_enter_for(lane);
    }
    return result;
}

int jsi_pg_mend(struct jsi_pg_lane *lane, int result)
{
    if (jsi_pg_is_state(lane, "JS003") && lane->kind == JOBSCHED_LANE_CLAIM) {
        return jsi_pg_node_enter_for(lane);
    }
    if (jsi_pg_is_state(lane, JSI_PG_OTHER_SERVER) || jsi_pg_is_state(lane, JSI_PG_OLD_SESSION)) {
        return jsi_pg_session(lane);
    }
    return result;
}
