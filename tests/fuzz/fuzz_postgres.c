/* fuzz_postgres.c: any text as the rows that a PostgreSQL server answers, through the backend's own
 * decoding, into every operation. There is no server: libpq's connection is replaced (linked with
 * --wrap, see CMakeLists.txt), its results are real.
 * Input: how to answer, six operations, then one part per statement: rows of values between tabs
 * ("\N" is NULL), or 'E', a SQLSTATE and a message (which may lack), or 'C' (no rows), or 'L' (the
 * connection ends). */
#include "fuzz/backend.h"

#include "store.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

const jobsched_backend *jobsched_backend_postgresql(void);

enum { COLUMNS_MAX = 40, RESULTS_MAX = 600, TEXT_BYTES = 256, PID = 4711 };

enum {
    MODE_RAW = 1, /* the input also answers what a new session asks */
    MODE_ROW = 2  /* without sessions of our own: jobsched_mode=row */
};

/* All connections are in this one state; statements come one after the other, as there is but one
 * thread: those that connect are run where they are made, and the one that watches the session of a
 * node, which here never ends unasked, is not. */
static struct {
    PGresult *results[RESULTS_MAX];
    size_t count, next;
    int lost; /* until the next connection */
    char state[6], message[TEXT_BYTES];
    int has_message;
} server;

static struct fuzz_input script;
static uint8_t mode;
static int quiet_fd = -1; /* never readable */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

/* Nothing that is waited for comes later than at once. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int ready = __real_poll(fds, count, 0);

    CHECK(timeout >= 0);
    if (ready == 0) {
        fuzz_pass_ms(timeout);
    }
    return ready;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_join(pthread_t thread, void **out_result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument)
{
    CHECK(attributes == NULL);
    *thread = pthread_self();
    if (argument != fuzz_store) {
        (void)function(argument);
    }
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    (void)thread;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **out_result)
{
    (void)thread;
    CHECK(out_result == NULL);
    return 0;
}

/* ---- results ---------------------------------------------------------------------- */

static void add_result(PGresult *result)
{
    CHECK(result != NULL);
    if (server.count < RESULTS_MAX) {
        server.results[server.count++] = result;
    } else {
        PQclear(result);
    }
}

static void set_columns(PGresult *result, int count)
{
    static char name[] = "column";
    PGresAttDesc columns[COLUMNS_MAX];

    memset(columns, 0, sizeof columns);
    for (int i = 0; i < count; i++) {
        columns[i].name = name;
    }
    CHECK(PQsetResultAttrs(result, count, columns));
}

/* Bytes up to one of two that end a value, or all. */
static size_t value_length(const char *text, size_t size)
{
    size_t length = 0;

    while (length < size && text[length] != '\t' && text[length] != '\n') {
        length++;
    }
    return length;
}

static int count_columns(const char *text, size_t size)
{
    int count = 1;

    for (size_t i = 0; i < size && text[i] != '\n' && count < COLUMNS_MAX; i++) {
        count += text[i] == '\t';
    }
    return count;
}

static void set_value(PGresult *result, int row, int column, const char *text, size_t length)
{
    char value[TEXT_BYTES];
    int null = length == 2 && memcmp(text, "\\N", 2) == 0;

    length = length < sizeof value - 1 ? length : sizeof value - 1;
    memcpy(value, text, length);
    value[length] = '\0'; /* a text has no NUL, so it ends at the first */
    CHECK(PQsetvalue(result, row, column, null ? NULL : value, null ? -1 : (int)strlen(value)));
}

/* Each row in a result of its own where that was asked for. */
static void add_rows(const char *text, size_t size, int single)
{
    int columns = count_columns(text, size);
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    int row = 0;

    set_columns(result, columns);
    for (size_t at = 0; at < size; row++) {
        PGresult *to = result;

        if (single) {
            to = PQmakeEmptyPGresult(NULL, PGRES_SINGLE_TUPLE);
            set_columns(to, columns);
            row = 0;
        }
        for (int column = 0;; column++) {
            size_t length = value_length(text + at, size - at);
            int ends;

            if (column < columns) {
                set_value(to, row, column, text + at, length);
            }
            at += length;
            ends = at >= size || text[at] == '\n';
            at += at < size;
            if (ends) {
                break;
            }
        }
        if (single) {
            add_result(to);
        }
    }
    add_result(result);
}

static void answer_part(int single)
{
    struct fuzz_input part;
    const char *text;

    if (!fuzz_part(&script, &part)) {
        server.lost = 1;
        return;
    }
    text = (const char *)part.data;
    if (part.size > 0 && text[0] == 'L') {
        server.lost = 1;
    } else if (part.size > 0 && text[0] == 'C') {
        add_result(PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK));
    } else if (part.size > 0 && text[0] == 'E') {
        (void)snprintf(server.state, sizeof server.state, "%.*s", (int)part.size - 1, text + 1);
        (void)snprintf(server.message, sizeof server.message, "%.*s",
                       part.size > 6 ? (int)part.size - 6 : 0, text + (part.size > 6 ? 6 : 0));
        server.has_message = part.size > 6;
        add_result(PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR));
    } else {
        add_rows(text, part.size, single);
    }
}

static void answer_row(const char *row)
{
    add_rows(row, strlen(row), 0);
}

/* As a server does on which all is as it should be. 0: it is not of a new session. */
static int answer_well(const char *sql)
{
    char row[64];

    if (strcmp(sql, "SELECT pg_backend_pid()") == 0) {
        (void)snprintf(row, sizeof row, "%d", PID);
        answer_row(row);
    } else if (strstr(sql, "pg_is_in_recovery") != NULL && strstr(sql, "set_config") != NULL) {
        answer_row("f\tUTF8\t64000\tread committed\tt\t20");
    } else if (strstr(sql, "SELECT version FROM") != NULL) {
        (void)snprintf(row, sizeof row, "%d", JSI_PG_VERSION);
        answer_row(row);
    } else if (strstr(sql, ".hello(") != NULL) {
        answer_row("f\t1\t0\t0");
    } else if (strstr(sql, ".listen(") != NULL) {
        answer_row("");
    } else if (strstr(sql, ".enter(") != NULL) {
        answer_row("1000");
    } else {
        return 0;
    }
    return 1;
}

/* ---- the connection --------------------------------------------------------------- */

PGconn *__real_PQconnectStartParams(const char *const *keywords, const char *const *values,
                                    int expand);
char *__real_PQresultErrorField(const PGresult *result, int field);

PGconn *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values,
                                    int expand);
PostgresPollingStatusType __wrap_PQconnectPoll(PGconn *conn);
ConnStatusType __wrap_PQstatus(const PGconn *conn);
int __wrap_PQsocket(const PGconn *conn);
int __wrap_PQbackendPID(const PGconn *conn);
int __wrap_PQsetnonblocking(PGconn *conn, int nonblocking);
int __wrap_PQsendQuery(PGconn *conn, const char *sql);
int __wrap_PQsendQueryParams(PGconn *conn, const char *sql, int count, const Oid *types,
                             const char *const *values, const int *lengths, const int *formats,
                             int result_format);
int __wrap_PQsetSingleRowMode(PGconn *conn);
int __wrap_PQflush(PGconn *conn);
int __wrap_PQconsumeInput(PGconn *conn);
int __wrap_PQisBusy(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn);
PGnotify *__wrap_PQnotifies(PGconn *conn);
char *__wrap_PQresultErrorField(const PGresult *result, int field);

/* A real one, so that whatever is not replaced below works; connected to nothing. */
PGconn *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values,
                                    int expand)
{
    static const char *const nowhere[] = {"host", "port", NULL};
    static const char *const place[] = {"/nonexistent", "1", NULL};

    (void)keywords;
    (void)values;
    (void)expand;
    server.lost = 0;
    return __real_PQconnectStartParams(nowhere, place, 0);
}

PostgresPollingStatusType __wrap_PQconnectPoll(PGconn *conn)
{
    (void)conn;
    return PGRES_POLLING_OK;
}

ConnStatusType __wrap_PQstatus(const PGconn *conn)
{
    return conn == NULL || server.lost ? CONNECTION_BAD : CONNECTION_OK;
}

int __wrap_PQsocket(const PGconn *conn)
{
    return conn == NULL ? -1 : quiet_fd;
}

int __wrap_PQbackendPID(const PGconn *conn)
{
    (void)conn;
    return PID;
}

int __wrap_PQsetnonblocking(PGconn *conn, int nonblocking)
{
    (void)conn;
    CHECK(nonblocking == 1);
    return 0;
}

static void drop_results(void)
{
    while (server.next < server.count) {
        PQclear(server.results[server.next++]);
    }
    server.next = server.count = 0;
}

/* What follows from a statement is made when the first result is asked for: by then it is known
 * whether rows come one by one. */
static char statement[65536];
static int waiting, single_rows;

static int take_statement(const char *sql)
{
    CHECK(sql != NULL && strstr(sql, "@S@") == NULL);
    drop_results();
    (void)snprintf(statement, sizeof statement, "%s", sql);
    waiting = 1;
    single_rows = 0;
    return !server.lost;
}

int __wrap_PQsendQuery(PGconn *conn, const char *sql)
{
    (void)conn;
    return take_statement(sql);
}

int __wrap_PQsendQueryParams(PGconn *conn, const char *sql, int count, const Oid *types,
                             const char *const *values, const int *lengths, const int *formats,
                             int result_format)
{
    (void)conn;
    CHECK(types == NULL && lengths == NULL && formats == NULL && result_format == 0);
    for (int i = 0; i < count; i++) {
        CHECK(values[i] == NULL || strlen(values[i]) < 1000000);
    }
    return take_statement(sql);
}

int __wrap_PQsetSingleRowMode(PGconn *conn)
{
    (void)conn;
    single_rows = 1;
    return 1;
}

int __wrap_PQflush(PGconn *conn)
{
    (void)conn;
    return 0;
}

int __wrap_PQconsumeInput(PGconn *conn)
{
    (void)conn;
    return !server.lost;
}

int __wrap_PQisBusy(PGconn *conn)
{
    (void)conn;
    return 0;
}

PGresult *__wrap_PQgetResult(PGconn *conn)
{
    (void)conn;
    if (waiting) {
        waiting = 0;
        if ((mode & MODE_RAW) != 0 || !answer_well(statement)) {
            answer_part(single_rows);
        }
    }
    return server.next < server.count ? server.results[server.next++] : NULL;
}

PGnotify *__wrap_PQnotifies(PGconn *conn)
{
    (void)conn;
    return NULL;
}

char *__wrap_PQresultErrorField(const PGresult *result, int field)
{
    if (PQresultStatus(result) != PGRES_FATAL_ERROR) {
        return NULL;
    }
    return field == PG_DIAG_SQLSTATE          ? server.state
           : field == PG_DIAG_MESSAGE_PRIMARY ? (server.has_message ? server.message : NULL)
                                              : __real_PQresultErrorField(result, field);
}

static int drive(const uint8_t *data, size_t size)
{
    int opened;

    script = (struct fuzz_input){data, size};
    mode = fuzz_byte(&script);
    opened = fuzz_backend(jobsched_backend_postgresql(),
                          (mode & MODE_ROW) != 0 ? "postgresql://host/db?jobsched_mode=row"
                                                 : "postgresql://host/db",
                          &script);
    drop_results();
    return opened;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Were this server refused, no input would get beyond the opening. */
    if (quiet_fd < 0) {
        static const uint8_t well[1] = {0};

        quiet_fd = eventfd(0, EFD_CLOEXEC);
        CHECK(quiet_fd >= 0);
        CHECK(drive(well, sizeof well));
    }
    (void)drive(data, size);
    return 0;
}
