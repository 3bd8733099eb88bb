/* postgres_support.c: see postgres_support.h. */
#include "postgres_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const jobsched_backend *jobsched_backend_postgresql(void);

const char *postgres_directory;
char postgres_schema[64];
const char *postgres_options = "";

static PGconn *admin;
static unsigned made;

void postgres_url(char *out, size_t bytes, const char *user, const char *options)
{
    (void)snprintf(out, bytes, "postgresql:///postgres?host=%s&user=%s&jobsched_schema=%s%s",
                   postgres_directory, user, postgres_schema, options);
}

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    (void)data;
    (void)snprintf(postgres_schema, sizeof postgres_schema, "t%ld_%u", (long)getpid(), ++made);
    postgres_url(out_url, out_bytes, "postgres", postgres_options);
    return 0;
}

PGconn *postgres_connect(void)
{
    char text[POSTGRES_URL_BYTES];
    (void)snprintf(text, sizeof text, "postgresql:///postgres?host=%s&user=postgres",
                   postgres_directory);
    PGconn *conn = PQconnectdb(text);
    if (PQstatus(conn) != CONNECTION_OK) {
        print_error("%s\n", PQerrorMessage(conn));
        fail();
    }
    PQclear(PQexec(conn, "SET client_min_messages = error; SET lock_timeout = 10000"));
    return conn;
}

void postgres_disconnect(void)
{
    PQfinish(admin);
    admin = NULL;
}

static PGresult *execute(const char *format)
{
    char sql[2048];
    size_t used = 0;
    for (const char *at = format; *at != '\0' && used + 80 < sizeof sql; at++) {
        if (at[0] == '%' && at[1] == 's') {
            used += (size_t)snprintf(sql + used, sizeof sql - used, "%s", postgres_schema);
            at++;
        } else {
            sql[used++] = *at;
        }
    }
    sql[used] = '\0';
    if (admin == NULL || PQstatus(admin) != CONNECTION_OK) {
        postgres_disconnect();
        admin = postgres_connect();
    }
    PGresult *result = PQexec(admin, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        print_error("%s: %s\n", sql, PQresultErrorMessage(result));
        PQclear(result);
        fail();
    }
    return result;
}

int64_t postgres_ask(const char *format)
{
    PGresult *result = execute(format);
    int rows = PQntuples(result);
    int64_t value = rows == 1 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : INT64_MIN;
    PQclear(result);
    cf_equal(rows, 1);
    return value;
}

void postgres_do(const char *format)
{
    PQclear(execute(format));
}

int postgres_set_up(void **state)
{
    static jobsched_conformance_subject subject = {.make_url = make_url};
    subject.driver = jobsched_backend_postgresql();
    return cf_setup(state, &subject);
}

int postgres_tear_down(void **state)
{
    int result = cf_teardown(state);
    postgres_do("DROP SCHEMA IF EXISTS \"%s\" CASCADE");
    postgres_disconnect();
    postgres_options = "";
    return result;
}

int postgres_try_url(struct cf_world *world, const char *url)
{
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "try", NULL);
    node.config.url = url;
    void *const untouched = &node;
    void *backend = untouched;
    int code = world->driver->open(&node.config, &backend);
    if (code == JOBSCHED_OK) {
        world->driver->close(backend);
    } else {
        cf_true(backend == untouched);
        cf_equal(jobsched_last_error()->code, code);
        cf_true(strchr(jobsched_last_error()->message, '\'') != NULL);
        cf_true(strchr(jobsched_last_error()->message, '\n') == NULL);
    }
    return code;
}

void postgres_expect_message(const char *text)
{
    if (strstr(jobsched_last_error()->message, text) == NULL) {
        fail_msg("'%s' is not in the message: %s", text, jobsched_last_error()->message);
    }
}

int postgres_script(const char *command, const char *directory, const char *argument)
{
    char line[POSTGRES_URL_BYTES];
    (void)snprintf(line, sizeof line, "sh '%s' %s '%s' %s", POSTGRES_SCRIPT, command, directory,
                   argument);
    return system(line);
}

void postgres_terminate(const char *node_name)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN \"%%s\".node n "
                   "ON l.objid::bigint = n.lock_key WHERE l.locktype = 'advisory' AND "
                   "l.classid = 1785946984 AND l.objsubid = 2 AND n.name = '%s'",
                   node_name);
    cf_equal(postgres_ask(sql), 1);
}
