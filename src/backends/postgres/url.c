/* url.c: the URL of a postgresql: store.
 *
 *   postgresql://[user[:password]@][host][:port][/database][?parameter=value&...]
 *   postgresql:                      libpq's environment, service and password files
 *
 * Anything that libpq takes, and parameters of ours, which libpq does not get to see:
 *   jobsched_schema=NAME   where the tables are; default 'jobsched'
 *   jobsched_grace=SPAN    (500ms, 2s, or plain milliseconds) see node.c; default 500ms
 *   jobsched_mode=MODE     session (default), or row: without sessions of our own, see node.c
 *
 * Messages of libpq's own parser are not passed on: they may repeat the URL with its password. And
 * ports are checked here, because where '@host' was forgotten the password stands in the place of
 * the port, which libpq repeats when it connects. No I/O. Locks: none. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_schema(const char *value, size_t length, struct jsi_pg_store *store)
{
    int good = length > 0 && length <= JSI_PG_SCHEMA_BYTES && !(value[0] >= '0' && value[0] <= '9');
    for (size_t i = 0; good && i < length; i++) {
        good = (value[i] >= 'a' && value[i] <= 'z') || (value[i] >= '0' && value[i] <= '9') ||
               value[i] == '_';
    }
    if (!good || strncmp(value, "pg_", 3) == 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "'jobsched_schema=%.*s' in the lock URL is not 1 to %d lower-case "
                             "letters, digits and '_' (not beginning with a digit or 'pg_')",
                             (int)(length > 64 ? 64 : length), value, JSI_PG_SCHEMA_BYTES);
    }
    memcpy(store->schema, value, length);
    store->schema[length] = '\0';
    return 0;
}

static int read_grace(const char *value, size_t length, struct jsi_pg_store *store)
{
    char *end = NULL;
    long long span =
        length > 0 && value[0] >= '0' && value[0] <= '9' ? strtoll(value, &end, 10) : -1;
    size_t rest = end == NULL ? 0 : length - (size_t)(end - value);
    if (rest == 1 && end[0] == 's' && span >= 0 && span <= JSI_PG_GRACE_MAX_MS / 1000) {
        span *= 1000;
    } else if (rest != 0 && !(rest == 2 && strncmp(end, "ms", 2) == 0)) {
        span = -1;
    }
    if (span < 0 || span > JSI_PG_GRACE_MAX_MS) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "'jobsched_grace=%.*s' in the lock URL is not 0ms to %ds",
                             (int)(length > 64 ? 64 : length), value, JSI_PG_GRACE_MAX_MS / 1000);
    }
    store->grace_ms = span;
    return 0;
}

static int read_mode(const char *value, size_t length, struct jsi_pg_store *store)
{
    store->row_mode = length == 3 && strncmp(value, "row", 3) == 0;
    if (store->row_mode || (length == 7 && strncmp(value, "session", 7) == 0)) {
        return 0;
    }
    return jobsched_fail(JOBSCHED_EINVAL, 0,
                         "'jobsched_mode=%.*s' in the lock URL is not 'session' or 'row'",
                         (int)(length > 64 ? 64 : length), value);
}

static int read_own(const char *option, size_t length, struct jsi_pg_store *store)
{
    static const char schema[] = "jobsched_schema=", grace[] = "jobsched_grace=",
                      mode[] = "jobsched_mode=";
    if (strncmp(option, schema, sizeof schema - 1) == 0) {
        return read_schema(option + sizeof schema - 1, length - (sizeof schema - 1), store);
    }
    if (strncmp(option, grace, sizeof grace - 1) == 0) {
        return read_grace(option + sizeof grace - 1, length - (sizeof grace - 1), store);
    }
    if (strncmp(option, mode, sizeof mode - 1) == 0) {
        return read_mode(option + sizeof mode - 1, length - (sizeof mode - 1), store);
    }
    return jobsched_fail(JOBSCHED_EINVAL, 0,
                         "parameter '%.*s' of the lock URL is unknown; known are "
                         "'jobsched_schema', 'jobsched_grace' and 'jobsched_mode'",
                         (int)(length > 64 ? 64 : strcspn(option, "=&")), option);
}

/* Copies the options without ours. */
static int split_options(const char *options, struct jsi_pg_store *store, struct jsi_pg_text *out)
{
    char separator = '?';
    while (*options != '\0') {
        size_t length = strcspn(options, "&");
        if (strncmp(options, "jobsched_", 9) == 0) {
            int result = read_own(options, length, store);
            if (result != 0) {
                return result;
            }
        } else {
            jsi_pg_text_add(out, &separator, 1);
            jsi_pg_text_add(out, options, length);
            separator = '&';
        }
        options += length;
        options += *options == '&';
    }
    return 0;
}

/* Where the URL says that the server is, for messages. */
static void note_place(const PQconninfoOption *options, struct jsi_pg_store *store)
{
    const char *host = "", *port = "", *database = "";
    for (; options->keyword != NULL; options++) {
        const char *value = options->val == NULL ? "" : options->val;
        if (strcmp(options->keyword, "host") == 0) {
            host = value;
        } else if (strcmp(options->keyword, "port") == 0) {
            port = value;
        } else if (strcmp(options->keyword, "dbname") == 0) {
            database = value;
        }
    }
    (void)snprintf(store->place, sizeof store->place, "%.120s:%.20s/%.50s", host, port, database);
}

static int fail_port(void)
{
    return jobsched_fail(JOBSCHED_EINVAL, 0,
                         "the port in the lock URL is not 1 to 65535; is '@host' missing behind "
                         "the password?");
}

/* A list of ports as libpq takes it; an empty one is the default. */
static int is_port_list(const char *text, size_t length)
{
    size_t digits = 0;
    long number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] >= '0' && text[i] <= '9' && digits < 5) {
            number = number * 10 + (text[i] - '0');
            digits++;
        } else if (text[i] != ',' || (digits > 0 && (number < 1 || number > 65535))) {
            return 0;
        } else {
            number = 0;
            digits = 0;
        }
    }
    return digits == 0 || (number >= 1 && number <= 65535);
}

/* The hosts of the URL, with their ports, before libpq sees them: it complains first of what comes
 * behind them, which may be the rest of a password, and names it. */
static int check_hosts(const char *hosts, size_t length)
{
    const char *end = hosts + length;
    for (const char *next; hosts < end; hosts = next + (next < end)) {
        next = memchr(hosts, ',', (size_t)(end - hosts));
        next = next == NULL ? end : next;
        const char *bracket = hosts[0] == '[' ? memchr(hosts, ']', (size_t)(next - hosts)) : NULL;
        const char *from = bracket == NULL ? hosts : bracket;
        const char *colon = memchr(from, ':', (size_t)(next - from));
        if (colon != NULL && !is_port_list(colon + 1, (size_t)(next - colon - 1))) {
            return fail_port();
        }
    }
    return 0;
}

static int check_ports(const PQconninfoOption *options)
{
    for (; options->keyword != NULL; options++) {
        if (strcmp(options->keyword, "port") == 0 && options->val != NULL &&
            !is_port_list(options->val, strlen(options->val))) {
            return fail_port();
        }
    }
    return 0;
}

/* Whether libpq understands it. */
static int check(const char *url, struct jsi_pg_store *store)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &message);
    if (options != NULL) {
        int result = check_ports(options);
        if (result == 0) {
            note_place(options, store);
        }
        PQconninfoFree(options);
        return result;
    }
    static const char unknown[] = "invalid URI query parameter: \"";
    char name[64] = "";
    if (message != NULL && strncmp(message, unknown, sizeof unknown - 1) == 0) {
        jsi_pg_one_line(name, sizeof name, message + sizeof unknown - 1);
        name[strcspn(name, "\"")] = '\0';
    }
    PQfreemem(message);
    return name[0] == '\0'
               ? jobsched_fail(JOBSCHED_EINVAL, 0,
                               "the lock URL is not as 'postgresql://user:password@host:port/"
                               "database?parameter=value' ('%%XX' for other bytes)")
               : jobsched_fail(JOBSCHED_EINVAL, 0, "libpq knows no URL parameter '%s'", name);
}

int jsi_pg_url(struct jsi_pg_store *store)
{
    const char *url = store->config.url;
    size_t scheme = strncmp(url, "postgresql:", 11) == 0 ? 11
                    : strncmp(url, "postgres:", 9) == 0  ? 9
                                                         : 0;
    if (scheme == 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "the lock URL does not begin with 'postgresql:'");
    }
    memcpy(store->schema, "jobsched", sizeof "jobsched");
    store->grace_ms = JSI_PG_GRACE_DEFAULT_MS;
    size_t length = strcspn(url, "?");
    size_t slashes = strncmp(url + scheme, "//", 2) == 0 ? 2 : 0;
    size_t path = scheme + slashes + strcspn(url + scheme + slashes, "/?");
    const char *at = memchr(url + scheme + slashes, '@', path - scheme - slashes);
    if (strchr(at == NULL ? url + path : at + 1, '@') != NULL) {
        /* Then libpq takes a part of the password for the host, the database or a parameter, which
         * messages show. */
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL has a second '@', or one behind '/' or '?'; in user, "
                             "password, database and parameters write '/' as %%2F, '?' as %%3F and "
                             "'@' as %%40");
    }
    const char *hosts = at == NULL ? url + scheme + slashes : at + 1;
    int result = slashes == 0 ? 0 : check_hosts(hosts, (size_t)(url + path - hosts));
    if (result != 0) {
        return result;
    }
    struct jsi_pg_text kept = {.allocator = &store->config.allocator};
    if (strncmp(url + scheme, "//", 2) == 0) {
        jsi_pg_text_add(&kept, url, length);
    } else if (length != scheme) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL goes on with neither '//' nor '?' behind '%.*s'",
                             (int)scheme, url);
    }
    result = split_options(url[length] == '?' ? url + length + 1 : "", store, &kept);
    if (result == 0 && kept.used > 0 && kept.bytes[0] == '?') {
        result = jobsched_fail(JOBSCHED_EINVAL, 0,
                               "parameters for libpq go with 'postgresql://', for example "
                               "'postgresql://?service=name'");
    }
    jsi_pg_text_add(&kept, "", 0);
    if (result == 0 && kept.failed) {
        result = jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for the lock URL");
    }
    if (result == 0) {
        result = check(kept.bytes, store);
    }
    if (result != 0) {
        jsi_pg_text_free(&kept);
        return result;
    }
    store->url = kept.bytes;
    return 0;
}
