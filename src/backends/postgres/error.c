/* error.c: what libpq's failures mean to the engine. Records errors and nothing else. Messages of
 * libpq that may repeat the URL, and with it a password, never get here: see url.c.
 * Locks: none. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_BYTES 300

void jsi_pg_one_line(char *out, size_t bytes, const char *text)
{
    size_t used = 0;
    for (; text != NULL && *text != '\0' && *text != '\n' && used + 1 < bytes; text++) {
        unsigned char byte = (unsigned char)*text;
        out[used++] = byte < 0x20 || byte == 0x7f ? ' ' : (char)byte;
    }
    out[used] = '\0';
}

/* Where the server is, without user and password. */
static void place(const struct jsi_pg_lane *lane, char *out, size_t bytes)
{
    if (lane->conn == NULL) {
        jsi_pg_one_line(out, bytes, lane->store->place);
        return;
    }
    const char *host = PQhost(lane->conn);
    const char *port = PQport(lane->conn);
    const char *database = PQdb(lane->conn);
    char text[DETAIL_BYTES];
    (void)snprintf(text, sizeof text, "%s:%s/%s", host == NULL ? "" : host,
                   port == NULL ? "" : port, database == NULL ? "" : database);
    jsi_pg_one_line(out, bytes, text);
}

/* Which class of failure a SQLSTATE is, and what a person can do about it. */
static const struct {
    const char *state; /* the beginning of it */
    int code;
    const char *advice;
} classes[] = {
    {"25006", JOBSCHED_EREFUSED, "; it takes no writes"},
    {"28P01", JOBSCHED_EACCESS, "; correct it in the lock URL, PGPASSWORD or ~/.pgpass"},
    {"28", JOBSCHED_EACCESS, ""},
    {"42501", JOBSCHED_EACCESS, "; see docs/backends.md for the rights that are needed"},
    {"53100", JOBSCHED_EFULL, ""},
    {"53200", JOBSCHED_EFULL, "; its memory or its lock table is used up"},
    {"53", JOBSCHED_EUNREACHABLE, ""},
    {"57", JOBSCHED_EUNREACHABLE, ""},
    {"55", JOBSCHED_EUNREACHABLE, ""},
    {"40", JOBSCHED_EUNREACHABLE, ""},
    {"08", JOBSCHED_EUNREACHABLE, ""},
    {"3D000", JOBSCHED_EUNREACHABLE, "; create it, or correct the lock URL"},
    {"58", JOBSCHED_EUNREACHABLE, ""},
    {"XX001", JOBSCHED_EDATALOST, ""},
    {"XX002", JOBSCHED_EDATALOST, ""},
    {"3F000", JOBSCHED_EDATALOST, "; the schema was removed while in use"},
    {"42P0", JOBSCHED_ESCHEMA, "; the tables are not those of this version"},
    {"42703", JOBSCHED_ESCHEMA, "; the tables are not those of this version"},
    {"42883", JOBSCHED_ESCHEMA, "; the functions are not those of this version"},
    {"22", JOBSCHED_EINVAL, ""},
    {"JS003", JOBSCHED_EUNREACHABLE, "; this node is forgotten as soon as it enters"},
};

static int fail_state(struct jsi_pg_lane *lane, const char *text)
{
    char server[DETAIL_BYTES], detail[DETAIL_BYTES];
    place(lane, server, sizeof server);
    jsi_pg_one_line(detail, sizeof detail, text);
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strncmp(lane->state, classes[i].state, strlen(classes[i].state)) == 0) {
            return jobsched_fail(classes[i].code, 0, "the server '%s' answers: %s (%s)%s", server,
                                 detail, lane->state, classes[i].advice);
        }
    }
    return jobsched_fail(JOBSCHED_EINTERNAL, 0, "the server '%s' answers: %s (%s)", server, detail,
                         lane->state);
}

static void keep_state(struct jsi_pg_lane *lane, const char *state)
{
    (void)snprintf(lane->state, sizeof lane->state, "%s", state == NULL ? "" : state);
}

int jsi_pg_fail_result(struct jsi_pg_lane *lane, int sent)
{
    const char *state =
        lane->result == NULL ? NULL : PQresultErrorField(lane->result, PG_DIAG_SQLSTATE);
    keep_state(lane, state);
    /* Before the SQLSTATE: a connection that ended may have left none, or one that does not say
     * whether the transaction was committed before. */
    if (PQstatus(lane->conn) != CONNECTION_OK) {
        if (lane->notice[0] == '\0') {
            (void)snprintf(lane->notice, sizeof lane->notice, "%s", lane->state);
        }
        char server[DETAIL_BYTES], detail[DETAIL_BYTES];
        place(lane, server, sizeof server);
        jsi_pg_one_line(detail, sizeof detail, PQerrorMessage(lane->conn));
        return jobsched_fail(sent ? JOBSCHED_EUNKNOWN : JOBSCHED_EUNREACHABLE, 0,
                             "the connection to '%s' was lost%s: %s", server,
                             sent ? " before the answer came" : "", detail);
    }
    if (state == NULL) {
        if (strstr(PQerrorMessage(lane->conn), "memory") != NULL) {
            return jobsched_fail(JOBSCHED_ENOMEM, 0, "libpq has no memory");
        }
        return fail_state(lane, PQerrorMessage(lane->conn));
    }
    if (strcmp(state, "JS004") == 0) {
        return jsi_pg_fail_pooler(lane);
    }
    if (strcmp(state, "JS001") == 0) {
        const char *version = PQresultErrorField(lane->result, PG_DIAG_MESSAGE_PRIMARY);
        return jsi_pg_fail_version(lane->store, version == NULL ? 0 : strtol(version, NULL, 10));
    }
    return fail_state(lane, PQresultErrorField(lane->result, PG_DIAG_MESSAGE_PRIMARY));
}

/* libpq shows no SQLSTATE of a refused connection but in its text, which is verbose here:
 * "... FATAL:  28P01: password authentication failed for user ...". */
static const char *find_state(const char *text)
{
    const char *at = text == NULL ? NULL : strstr(text, ":  ");
    for (; at != NULL; at = strstr(at + 1, ":  ")) {
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':') {
            return at + 3;
        }
    }
    return NULL;
}

static int says(const char *text, int system_errno)
{
    char buffer[128];
    return strstr(text, strerror_r(system_errno, buffer, sizeof buffer)) != NULL;
}

int jsi_pg_is_farewell(const char *state)
{
    return state != NULL && (strncmp(state, "57P01", 5) == 0 || strncmp(state, "57P02", 5) == 0);
}

/* Whether the one server that there is says that it is starting or stopping, or nobody is there to
 * say anything. With several hosts one of them may be up, and behind a pooler that is away the server
 * may be. Nor is the server down where a firewall or a proxy refuses, or while it stops by and by and
 * has other sessions still: only a refusal within this host is beyond doubt. */
static int is_down(struct jsi_pg_lane *lane, const char *text, const char *state)
{
    PQconninfoOption *options = PQconninfo(lane->conn);
    int several = options == NULL || atomic_load(&lane->store->pooled);
    for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++) {
        several |=
            strncmp(at->keyword, "host", 4) == 0 && at->val != NULL && strchr(at->val, ',') != NULL;
    }
    PQconninfoFree(options);
    const char *host = PQhost(lane->conn);
    int is_local = host != NULL && host[0] == '/';
    if (several || (state != NULL && strncmp(state, "57P03", 5) != 0)) {
        return JSI_PG_MAY_BE_UP;
    }
    if (state == NULL && is_local && (says(text, ECONNREFUSED) || says(text, ENOENT))) {
        return JSI_PG_IS_DOWN;
    }
    return state != NULL || says(text, ECONNREFUSED) ? JSI_PG_IS_REFUSED : JSI_PG_MAY_BE_UP;
}

/* What libpq says by itself and no waiting cures. It has no codes for them, so where its messages are
 * translated they count as a server that cannot be reached. */
static const struct {
    const char *words;
    int begins; /* the text does so */
    int code;
    const char *advice;
} mistakes[] = {
    {"SSL was required", 0, JOBSCHED_EREFUSED,
     "; set 'ssl=on' at the server, or correct 'sslmode'"},
    {"certificate", 0, JOBSCHED_EREFUSED,
     "; correct the certificate, or 'sslrootcert' and 'sslmode'"},
    {"invalid integer value ", 0, JOBSCHED_EINVAL, ""},
    {"invalid ", 1, JOBSCHED_EINVAL, ""},
    {"could not match ", 1, JOBSCHED_EINVAL, ""},
    {"definition of service ", 1, JOBSCHED_EINVAL, ""},
    {"service file ", 1, JOBSCHED_EINVAL, ""},
};

/* Returns 0 when it is none of them. */
static int fail_mistake(struct jsi_pg_lane *lane, const char *server, const char *detail)
{
    if (PQconnectionNeedsPassword(lane->conn)) {
        return jobsched_fail(JOBSCHED_EACCESS, 0,
                             "no connection to '%s': %s; give the password in the lock URL, "
                             "PGPASSWORD or ~/.pgpass",
                             server, detail);
    }
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *at = strstr(detail, mistakes[i].words);
        if (at == NULL || (mistakes[i].begins && at != detail)) {
            continue;
        }
        return mistakes[i].code == JOBSCHED_EINVAL
                   ? jobsched_fail(JOBSCHED_EINVAL, 0,
                                   "libpq cannot use what the lock URL, its environment ('PG...') "
                                   "or its service file says: %s",
                                   detail)
                   : jobsched_fail(mistakes[i].code, 0, "no connection to '%s': %s%s", server,
                                   detail, mistakes[i].advice);
    }
    return 0;
}

int jsi_pg_fail_connect(struct jsi_pg_lane *lane)
{
    const char *text = lane->conn == NULL ? "" : PQerrorMessage(lane->conn);
    const char *state = find_state(text);
    lane->is_down = lane->conn == NULL ? JSI_PG_MAY_BE_UP : is_down(lane, text, state);
    if (state != NULL) {
        (void)snprintf(lane->state, sizeof lane->state, "%.5s", state);
        return fail_state(lane, state + 7);
    }
    keep_state(lane, NULL);
    char detail[DETAIL_BYTES];
    jsi_pg_one_line(detail, sizeof detail, text);
    char server[DETAIL_BYTES];
    place(lane, server, sizeof server);
    int result = lane->conn == NULL ? 0 : fail_mistake(lane, server, detail);
    return result != 0 ? result
                       : jobsched_fail(JOBSCHED_EUNREACHABLE, 0, "no connection to '%s': %s",
                                       server, detail[0] == '\0' ? "out of memory" : detail);
}

int jsi_pg_fail_time(struct jsi_pg_lane *lane, int sent)
{
    char server[DETAIL_BYTES];
    place(lane, server, sizeof server);
    keep_state(lane, NULL);
    return jobsched_fail(sent ? JOBSCHED_EUNKNOWN : JOBSCHED_EUNREACHABLE, 0,
                         "no answer from '%s' within %lld ms", server, (long long)lane->budget_ms);
}
