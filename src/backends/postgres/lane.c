/* lane.c: a connection, and the time that it may take. libpq's connect_timeout does not hold for
 * connections that are made step by step, so the time is kept here. Looking up a host's name is
 * the one step that libpq does not divide: it takes as long as the resolver takes.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Longer than anybody waits; keeps sums of it in range. */
#define BUDGET_MAX_MS 86400000

/* What one poll() takes at most: an injected clock may stand still, so waits are counted. */
#define SLICE_MS 100

/* libpq has about 45 parameters, of which a URL can set each once. */
#define KEYWORDS_MAX 80

int64_t jsi_pg_mono(const struct jsi_pg_store *store)
{
    return store->config.clock.mono_ms(store->config.clock.ctx);
}

void jsi_pg_budget(struct jsi_pg_lane *lane, int64_t timeout_ms)
{
    lane->budget_ms = timeout_ms < 0 ? 0 : timeout_ms > BUDGET_MAX_MS ? BUDGET_MAX_MS : timeout_ms;
    lane->waited_ms = 0;
    lane->started_ms = jsi_pg_mono(lane->store);
}

int64_t jsi_pg_budget_left(const struct jsi_pg_lane *lane)
{
    int64_t passed_ms = jsi_pg_mono(lane->store) - lane->started_ms;
    int64_t left_ms = lane->budget_ms - (lane->waited_ms > passed_ms ? lane->waited_ms : passed_ms);
    return left_ms > 0 ? left_ms : 0;
}

int jsi_pg_wait(struct jsi_pg_lane *lane, short events)
{
    struct jsi_pg_store *store = lane->store;
    for (;;) {
        int64_t left_ms = jsi_pg_budget_left(lane);
        if (left_ms == 0 || (lane->for_keeper && atomic_load(&store->keep_wanted) > 0)) {
            return 0;
        }
        int slice_ms = left_ms < SLICE_MS ? (int)left_ms : SLICE_MS;
        struct pollfd looks[2] = {{.fd = PQsocket(lane->conn), .events = events},
                                  {.fd = lane->for_keeper ? store->wake : -1, .events = POLLIN}};
        int ready = poll(looks, 2, slice_ms);
        if (ready == 0) {
            lane->waited_ms += slice_ms;
        } else if (looks[0].revents != 0) {
            return 1;
        } else if (looks[1].revents != 0) {
            uint64_t unused;
            (void)!read(store->wake, &unused, sizeof unused); /* who wants the lane is counted */
        }
    }
}

int jsi_pg_is_cut(struct jsi_pg_lane *lane)
{
    if (PQstatus(lane->conn) != CONNECTION_OK) {
        return 1;
    }
    struct pollfd look = {.fd = PQsocket(lane->conn), .events = POLLIN | POLLRDHUP};
    if (poll(&look, 1, 0) <= 0) {
        return 0;
    }
    /* Perhaps only a notice. */
    if (!PQconsumeInput(lane->conn)) {
        return 1;
    }
    PGnotify *unused = PQnotifies(lane->conn); /* makes libpq read what has come */
    PQfreemem(unused);
    return PQstatus(lane->conn) != CONNECTION_OK || (look.revents & (POLLRDHUP | POLLHUP)) != 0;
}

static void on_notice(void *data, const PGresult *result)
{
    struct jsi_pg_lane *lane = data;
    const jobsched_backend_config *config = &lane->store->config;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0)) {
        /* The end of this connection, which is told where it is noticed. */
        (void)snprintf(lane->notice, sizeof lane->notice, "%s", state == NULL ? "" : state);
        return;
    }
    char text[JOBSCHED_MESSAGE_BYTES], line[JOBSCHED_MESSAGE_BYTES];
    jsi_pg_one_line(line, sizeof line, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    (void)snprintf(text, sizeof text, "the server says: %.400s (%s)", line,
                   state == NULL ? "" : state);
    if (config->notice != NULL) {
        config->notice(config->notice_data, JOBSCHED_EVENT_BACKEND_NOTICE, text);
    }
}

/* What the URL leaves open. A half-open connection must be given up within the lease. */
static int start(struct jsi_pg_lane *lane, PQconninfoOption *options)
{
    struct jsi_pg_store *store = lane->store;
    int64_t lease_s = store->config.lease_ms / 1000 + 1;
    char idle[24], user_timeout[24], name[64];
    (void)snprintf(idle, sizeof idle, "%lld", (long long)(lease_s / 3 + 1));
    (void)snprintf(user_timeout, sizeof user_timeout, "%lld", (long long)store->config.lease_ms);
    (void)snprintf(name, sizeof name, "jobsched %.50s", store->config.node_name);
    const char *keywords[KEYWORDS_MAX + 8] = {"fallback_application_name", "client_encoding",
                                              "keepalives_idle",           "keepalives_interval",
                                              "keepalives_count",          "tcp_user_timeout"};
    const char *values[KEYWORDS_MAX + 8] = {name, "UTF8", idle, idle, "3", user_timeout};
    size_t count = 6;
    /* Later ones win: the URL may say otherwise. */
    for (const PQconninfoOption *at = options; at->keyword != NULL && count < KEYWORDS_MAX; at++) {
        if (at->val != NULL && strcmp(at->keyword, "client_encoding") != 0) {
            keywords[count] = at->keyword;
            values[count++] = at->val;
        }
    }
    lane->conn = PQconnectStartParams(keywords, values, 0);
    if (lane->conn == NULL) {
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "libpq has no memory for a connection");
    }
    (void)PQsetErrorVerbosity(lane->conn, PQERRORS_VERBOSE); /* see jsi_pg_fail_connect() */
    (void)PQsetNoticeReceiver(lane->conn, on_notice, lane);
    return PQstatus(lane->conn) == CONNECTION_BAD ? jsi_pg_fail_connect(lane) : 0;
}

int jsi_pg_connect(struct jsi_pg_lane *lane)
{
    char *unused = NULL;
    PQconninfoOption *options = PQconninfoParse(lane->store->url, &unused);
    PQfreemem(unused);
    if (options == NULL) { /* the URL was checked when the store was opened */
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "libpq has no memory for the lock URL");
    }
    lane->notice[0] = '\0';
    lane->state[0] = '\0';
    int result = start(lane, options);
    PQconninfoFree(options);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (result == 0 && next != PGRES_POLLING_OK) {
        if (!jsi_pg_wait(lane, next == PGRES_POLLING_READING ? POLLIN : POLLOUT)) {
            result = jsi_pg_fail_time(lane, 0);
        } else {
            next = PQconnectPoll(lane->conn);
            if (next == PGRES_POLLING_FAILED) {
                result = jsi_pg_fail_connect(lane);
            }
        }
    }
    if (result == 0 && PQsetnonblocking(lane->conn, 1) != 0) {
        result = jsi_pg_fail_connect(lane);
    }
    if (result != 0) {
        jsi_pg_disconnect(lane);
        return result;
    }
    (void)PQsetErrorVerbosity(lane->conn, PQERRORS_DEFAULT);
    return 0;
}

void jsi_pg_disconnect(struct jsi_pg_lane *lane)
{
    PQclear(lane->result);
    lane->result = NULL;
    PQfinish(lane->conn);
    lane->conn = NULL;
}
