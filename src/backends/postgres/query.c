/* query.c: one statement at a time, each in a transaction of its own, so that it has happened as a
 * whole or not at all. No statement is ever repeated here: whoever asked knows whether it may be.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

int jsi_pg_is_state(const struct jsi_pg_lane *lane, const char *state)
{
    return strcmp(lane->state, state) == 0;
}

/* The connection is of no use after this. */
static int fail_lost(struct jsi_pg_lane *lane, int in_time, int sent)
{
    int code = in_time ? jsi_pg_fail_result(lane, sent) : jsi_pg_fail_time(lane, sent);
    if (in_time || !jsi_pg_node_hold(lane)) {
        jsi_pg_disconnect(lane);
    }
    return code;
}

static int flush(struct jsi_pg_lane *lane, int writes)
{
    int left;
    while ((left = PQflush(lane->conn)) == 1) {
        /* The server may have to get rid of something before it reads on. */
        if (!jsi_pg_wait(lane, PQsocket(lane->conn), POLLIN | POLLOUT)) {
            return fail_lost(lane, 0, writes);
        }
        if (!PQconsumeInput(lane->conn)) {
            return fail_lost(lane, 1, writes);
        }
    }
    return left == 0 ? 0 : fail_lost(lane, 1, writes);
}

/* Waits until PQgetResult() would not. */
static int await(struct jsi_pg_lane *lane, int writes)
{
    while (PQisBusy(lane->conn)) {
        if (!jsi_pg_wait(lane, PQsocket(lane->conn), POLLIN)) {
            return fail_lost(lane, 0, writes);
        }
        if (!PQconsumeInput(lane->conn)) {
            return fail_lost(lane, 1, writes);
        }
    }
    return 0;
}

/* Reads all results. The first failure is the one that is told, else the last result is kept. */
static int collect(struct jsi_pg_lane *lane, int writes)
{
    for (;;) {
        int result = await(lane, writes);
        if (result != 0) {
            return result;
        }
        PGresult *next = PQgetResult(lane->conn);
        if (next == NULL) {
            break;
        }
        if (lane->result != NULL && PQresultStatus(lane->result) == PGRES_FATAL_ERROR) {
            PQclear(next);
            continue;
        }
        PQclear(lane->result);
        lane->result = next;
    }
    ExecStatusType status = PQresultStatus(lane->result);
    if (PQstatus(lane->conn) != CONNECTION_OK) {
        return fail_lost(lane, 1, writes);
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        return 0;
    }
    int result = jsi_pg_fail_result(lane, writes);
    if (jsi_pg_is_state(lane, JSI_PG_OTHER_SERVER)) {
        lane->is_stale = 1;
    } else if (jsi_pg_is_state(lane, JSI_PG_OLD_SESSION)) {
        jsi_pg_disconnect(lane);
    }
    return result;
}

int jsi_pg_drain(PGconn *conn)
{
    if (!PQconsumeInput(conn)) {
        return -1;
    }
    while (!PQisBusy(conn)) {
        PGresult *unused = PQgetResult(conn);
        if (unused == NULL) {
            return PQstatus(conn) == CONNECTION_OK && !jsi_pg_is_hung_up(conn) ? 0 : -1;
        }
        PQclear(unused);
    }
    return jsi_pg_is_hung_up(conn) ? -1 : 1;
}

static void prepare(struct jsi_pg_lane *lane)
{
    PQclear(lane->result);
    lane->result = NULL;
    lane->state[0] = '\0';
    jsi_pg_text_clear(&lane->sql);
}

/* In row mode what a session would be told goes with each call of a function. */
static void expand(struct jsi_pg_lane *lane, const char *sql)
{
    static const char version[] = "($1";
    const struct jsi_pg_store *store = lane->store;
    const char *at = store->row_mode ? strstr(sql, version) : NULL;
    if (at == NULL) {
        jsi_pg_text_expand(&lane->sql, sql, store->schema);
        return;
    }
    char tuned[512]; /* the longest statement that calls a function has half of that */
    (void)snprintf(tuned, sizeof tuned, "%.*s(@S@.tuned($1, %lld, %lld, %lld)%s", (int)(at - sql),
                   sql, (long long)(store->config.request_timeout_ms / 2 + 1),
                   (long long)(lane->is_greeting ? -1 : lane->epoch),
                   (long long)jsi_pg_known_lsn(lane), at + sizeof version - 1);
    jsi_pg_text_expand(&lane->sql, tuned, store->schema);
}

static int send(struct jsi_pg_lane *lane, const char *sql)
{
    prepare(lane);
    expand(lane, sql);
    if (lane->sql.failed || lane->values.failed) {
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a statement and its parameters");
    }
    const char *values[JSI_PG_PARAMS_MAX];
    for (int i = 0; i < lane->param_count; i++) {
        values[i] = lane->offsets[i] == SIZE_MAX ? NULL : lane->values.bytes + lane->offsets[i];
    }
    if (!PQsendQueryParams(lane->conn, lane->sql.bytes, lane->param_count, NULL, values, NULL, NULL,
                           0)) {
        int lost = PQstatus(lane->conn) != CONNECTION_OK;
        return lost ? fail_lost(lane, 1, 0) : jsi_pg_fail_result(lane, 0);
    }
    return 0;
}

int jsi_pg_query(struct jsi_pg_lane *lane, const char *sql, int writes)
{
    int result = send(lane, sql);
    if (result == 0) {
        result = flush(lane, writes);
    }
    return result == 0 ? collect(lane, writes) : result;
}

int jsi_pg_script(struct jsi_pg_lane *lane, const char *sql)
{
    prepare(lane);
    if (!PQsendQuery(lane->conn, sql)) {
        return fail_lost(lane, 1, 0);
    }
    int result = flush(lane, 1);
    return result == 0 ? collect(lane, 1) : result;
}

int jsi_pg_stream(struct jsi_pg_lane *lane, const char *sql)
{
    int result = send(lane, sql);
    if (result == 0 && !PQsetSingleRowMode(lane->conn)) {
        result = fail_lost(lane, 1, 0);
    }
    return result == 0 ? flush(lane, 0) : result;
}

int jsi_pg_stream_next(struct jsi_pg_lane *lane)
{
    PQclear(lane->result);
    lane->result = NULL;
    int result = await(lane, 0);
    if (result != 0) {
        return result;
    }
    lane->result = PQgetResult(lane->conn);
    switch (PQresultStatus(lane->result)) {
    case PGRES_SINGLE_TUPLE:
        return 1;
    case PGRES_TUPLES_OK: /* the end */
        return collect(lane, 0);
    default:
        result = collect(lane, 0);
        return result != 0 ? result : jsi_pg_fail_result(lane, 0);
    }
}

int jsi_pg_expect(const struct jsi_pg_lane *lane, size_t rows)
{
    if ((size_t)jsi_pg_rows(lane) == rows) {
        return 0;
    }
    return jobsched_fail(JOBSCHED_EINTERNAL, 0, "the server answers with %d rows, not %zu",
                         jsi_pg_rows(lane), rows);
}

int jsi_pg_part(int result, size_t done)
{
    if (result == 0 || result == JOBSCHED_EUNKNOWN || done == 0) {
        return result;
    }
    char text[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(text, sizeof text, "%s", jobsched_last_error()->message);
    return jobsched_fail(JOBSCHED_EUNKNOWN, 0, "after %zu items of a batch were done: %.400s", done,
                         text);
}

int jsi_pg_clock(struct jsi_pg_lane *lane, jobsched_call *call)
{
    jsi_pg_params(lane);
    int result = jsi_pg_query(lane, "SELECT @S@.now_ms()", 0);
    if (result == 0) {
        call->now_ms = jsi_pg_int(lane, 0, 0);
    }
    return result;
}
