/* connect.c: makes connections, each on a thread of its own, because looking up a host's name takes
 * as long as the resolver takes, and libpq does that in the middle of connecting (each host of
 * several when its turn comes). So the caller keeps its time, while everything that libpq
 * takes into account (environment, service and password files, TLS) stays libpq's affair.
 *
 * An attempt that is not ready in time goes on, and the next call of its lane finds it: there is
 * never more than one per lane. What belongs to it is from malloc, as all of libpq's: it may
 * outlive the store.
 *
 * Locks: the caller owns the lane. attempt->lock guards what both sides see. */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How soon an attempt notices that nobody wants it any more. */
#define SLICE_MS 100

/* libpq has about 45 parameters, of which a URL can set each once. */
#define KEYWORDS_MAX 80

/* The kernel takes at most 127. */
#define KEEPALIVES_MAX 120

struct jsi_pg_attempt {
    PQconninfoOption *options;
    char interval[24], count[24], user_timeout[24], name[64];
    int64_t limit_ms; /* of the time spent waiting for the server */
    int ready;        /* an eventfd: readable once done */
    pthread_mutex_t lock;
    int references; /* the lane's and the thread's; guarded by lock, as all below */
    int done, abandoned;
    PGconn *conn; /* once done; CONNECTION_OK, CONNECTION_BAD, or neither: the limit passed */
};

static void drop(struct jsi_pg_attempt *attempt)
{
    (void)pthread_mutex_lock(&attempt->lock);
    int last = --attempt->references == 0;
    (void)pthread_mutex_unlock(&attempt->lock);
    if (last) {
        PQfinish(attempt->conn);
        PQconninfoFree(attempt->options);
        (void)close(attempt->ready);
        (void)pthread_mutex_destroy(&attempt->lock);
        free(attempt);
    }
}

static int is_abandoned(struct jsi_pg_attempt *attempt)
{
    (void)pthread_mutex_lock(&attempt->lock);
    int abandoned = attempt->abandoned;
    (void)pthread_mutex_unlock(&attempt->lock);
    return abandoned;
}

/* Of a connection that is not a lane's yet. libpq would print them. */
static void drop_notice(void *data, const PGresult *result)
{
    (void)data;
    (void)result;
}

/* What the URL leaves open. A half-open connection must be given up within the lease; and one that
 * was cut on the server's side only is found out by the first keepalive, so they are frequent. */
static PGconn *start(const struct jsi_pg_attempt *attempt)
{
    const char *keywords[KEYWORDS_MAX + 8] = {"fallback_application_name", "client_encoding",
                                              "keepalives_idle",           "keepalives_interval",
                                              "keepalives_count",          "tcp_user_timeout"};
    const char *values[KEYWORDS_MAX + 8] = {
        attempt->name, "UTF8", "1", attempt->interval, attempt->count, attempt->user_timeout};
    size_t count = 6;
    /* Later ones win: the URL may say otherwise. */
    for (const PQconninfoOption *at = attempt->options; at->keyword != NULL && count < KEYWORDS_MAX;
         at++) {
        if (at->val != NULL && strcmp(at->keyword, "client_encoding") != 0) {
            keywords[count] = at->keyword;
            values[count++] = at->val;
        }
    }
    PGconn *conn = PQconnectStartParams(keywords, values, 0);
    if (conn != NULL) {
        (void)PQsetErrorVerbosity(conn, PQERRORS_VERBOSE); /* see jsi_pg_fail_connect() */
        (void)PQsetNoticeReceiver(conn, drop_notice, NULL);
    }
    return conn;
}

static void *make(void *argument)
{
    struct jsi_pg_attempt *attempt = argument;
    PGconn *conn = start(attempt);
    PostgresPollingStatusType next = conn == NULL || PQstatus(conn) == CONNECTION_BAD
                                         ? PGRES_POLLING_FAILED
                                         : PGRES_POLLING_WRITING;
    int64_t waited_ms = 0;
    while (next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED &&
           waited_ms < attempt->limit_ms && !is_abandoned(attempt)) {
        struct pollfd look = {.fd = PQsocket(conn),
                              .events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        if (poll(&look, 1, SLICE_MS) > 0) {
            next = PQconnectPoll(conn);
        } else {
            waited_ms += SLICE_MS;
        }
    }
    (void)pthread_mutex_lock(&attempt->lock);
    attempt->conn = conn;
    attempt->done = 1;
    (void)pthread_mutex_unlock(&attempt->lock);
    uint64_t one = 1;
    (void)!write(attempt->ready, &one, sizeof one); /* cannot be full: it is written once */
    drop(attempt);
    return NULL;
}

static int run(struct jsi_pg_attempt *attempt)
{
    /* The host's signal handlers run on the host's threads. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, make, attempt);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0) {
        (void)pthread_detach(thread);
    }
    return failed;
}

static int begin(struct jsi_pg_lane *lane)
{
    const jobsched_backend_config *config = &lane->store->config;
    char *unused = NULL;
    struct jsi_pg_attempt *attempt = calloc(1, sizeof *attempt);
    PQconninfoOption *options = PQconninfoParse(lane->store->url, &unused);
    PQfreemem(unused);
    if (attempt == NULL || options == NULL) { /* the URL was checked when the store was opened */
        free(attempt);
        PQconninfoFree(options);
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a connection");
    }
    attempt->options = options;
    attempt->limit_ms = config->request_timeout_ms > 0 ? config->request_timeout_ms : 1000;
    attempt->references = 2;
    (void)pthread_mutex_init(&attempt->lock, NULL); /* cannot fail with default attributes */
    int64_t lease_s = config->lease_ms / 1000 + 1, interval_s = lease_s / KEEPALIVES_MAX + 1;
    int64_t count = lease_s / interval_s + 3;
    (void)snprintf(attempt->count, sizeof attempt->count, "%lld", (long long)count);
    (void)snprintf(attempt->interval, sizeof attempt->interval, "%lld", (long long)interval_s);
    (void)snprintf(attempt->user_timeout, sizeof attempt->user_timeout, "%lld",
                   (long long)config->lease_ms);
    (void)snprintf(attempt->name, sizeof attempt->name, "jobsched %.50s", config->node_name);
    attempt->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = attempt->ready < 0 ? errno : run(attempt);
    if (failed != 0) {
        attempt->references = 1;
        drop(attempt);
        return jobsched_fail(JOBSCHED_EUNREACHABLE, failed, "no thread to connect to '%s' with",
                             lane->store->place);
    }
    lane->attempt = attempt;
    return 0;
}

/* An earlier call's attempt that has ended meanwhile is of use only if it succeeded. */
static void forget_old(struct jsi_pg_lane *lane)
{
    struct jsi_pg_attempt *attempt = lane->attempt;
    if (attempt == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&attempt->lock);
    int useless = attempt->done &&
                  (PQstatus(attempt->conn) != CONNECTION_OK || jsi_pg_is_hung_up(attempt->conn));
    (void)pthread_mutex_unlock(&attempt->lock);
    if (useless) {
        drop(attempt);
        lane->attempt = NULL;
    }
}

void jsi_pg_connect_abandon(struct jsi_pg_lane *lane)
{
    struct jsi_pg_attempt *attempt = lane->attempt;
    if (attempt == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&attempt->lock);
    attempt->abandoned = 1;
    (void)pthread_mutex_unlock(&attempt->lock);
    drop(attempt);
    lane->attempt = NULL;
}

static void on_notice(void *data, const PGresult *result)
{
    struct jsi_pg_lane *lane = data;
    const jobsched_backend_config *config = &lane->store->config;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    int is_end =
        severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
    /* A server that stops at once, or after a crash, says so in a warning. */
    if (is_end || jsi_pg_is_farewell(state)) {
        (void)snprintf(lane->notice, sizeof lane->notice, "%s", state == NULL ? "" : state);
    }
    if (is_end) {
        return; /* the end of this connection, which is told where it is noticed */
    }
    char text[JOBSCHED_MESSAGE_BYTES], line[JOBSCHED_MESSAGE_BYTES];
    jsi_pg_one_line(line, sizeof line, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    (void)snprintf(text, sizeof text, "the server says: %.400s (%s)", line,
                   state == NULL ? "" : state);
    if (config->notice != NULL) {
        int warns = severity != NULL && strcmp(severity, "WARNING") == 0;
        config->notice(config->notice_data,
                       warns ? JOBSCHED_EVENT_BACKEND_WARNING : JOBSCHED_EVENT_BACKEND_NOTICE,
                       text);
    }
}

/* Takes over what the attempt has made. */
static int finish(struct jsi_pg_lane *lane)
{
    struct jsi_pg_attempt *attempt = lane->attempt;
    (void)pthread_mutex_lock(&attempt->lock);
    PGconn *conn = attempt->conn;
    attempt->conn = NULL;
    (void)pthread_mutex_unlock(&attempt->lock);
    drop(attempt);
    lane->attempt = NULL;
    lane->conn = conn;
    ConnStatusType status = PQstatus(conn); /* bad for NULL */
    int result = 0;
    if (status == CONNECTION_BAD) {
        result = jsi_pg_fail_connect(lane);
    } else if (status != CONNECTION_OK) {
        result = jsi_pg_fail_time(lane, 0);
    } else if (PQsetnonblocking(conn, 1) != 0) {
        result = jsi_pg_fail_connect(lane);
    }
    if (result != 0) {
        PQfinish(conn);
        lane->conn = NULL;
        return result;
    }
    (void)PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
    (void)PQsetNoticeReceiver(conn, on_notice, lane);
    return 0;
}

int jsi_pg_connect(struct jsi_pg_lane *lane)
{
    lane->notice[0] = '\0';
    lane->state[0] = '\0';
    lane->is_down = 0;
    forget_old(lane);
    if (lane->attempt == NULL) {
        int result = begin(lane);
        if (lane->attempt == NULL) {
            return result;
        }
    }
    if (!jsi_pg_wait(lane, lane->attempt->ready, POLLIN)) {
        return jsi_pg_fail_time(lane, 0);
    }
    return finish(lane);
}
