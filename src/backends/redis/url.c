/* url.c: the URL of a redis: store.
 *
 *   redis://[[user][:password]@]host[:port][/database]
 *   redis://[[user][:password]@][/database]?socket=/path/to/the/socket
 *   redis+sentinel://[[user][:password]@]host[:port][,host[:port]...]/primary[/database]
 *   redis://[[user][:password]@]host[:port][,host[:port]...][/database]?sentinel=primary
 *
 * %XX stands for a byte; an IPv6 address goes in brackets. After '?' there may be socket=PATH,
 * db=NUMBER, and sentinel=PRIMARY with sentinel_user and sentinel_password, where those of the
 * sentinels are others than those of the primary. rediss: is refused, because this build has no TLS:
 * never silently plain.
 *
 * Messages repeat no part of the URL that could be the password or its rest where '@host' was
 * forgotten, or a byte not written as %XX. No I/O. Locks: none. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASE_MAX 1000000

static int digit_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    return -1;
}

/* In place. what: what to call it in messages. */
static int decode(char *text, const char *what)
{
    char *out = text;
    for (const char *at = text; *at != '\0'; at++) {
        char byte = *at;
        if (byte == '%') {
            int high = digit_of(at[1]);
            int low = high < 0 ? -1 : digit_of(at[2]);
            if (low < 0 || (high == 0 && low == 0)) {
                return jobsched_fail(JOBSCHED_EINVAL, 0,
                                     "'%s' in the lock URL has a '%%' without two hexadecimal "
                                     "digits from 01 to FF behind it",
                                     what);
            }
            byte = (char)(high * 16 + low);
            at += 2;
        }
        *out++ = byte;
    }
    *out = '\0';
    return 0;
}

static int read_user(struct jsi_redis_store *store, char *text)
{
    char *colon = strchr(text, ':');
    if (colon != NULL) {
        *colon = '\0';
        store->password = colon + 1;
    } else {
        store->password = ""; /* a user without a password; Redis wants an empty one */
    }
    store->user = text[0] == '\0' ? NULL : text;
    int result = decode(text, "the user");
    return result == 0 && colon != NULL ? decode(colon + 1, "the password") : result;
}

/* One host, with its port if there is one. */
static int read_host(struct jsi_redis_store *store, char *text)
{
    char *port = NULL;
    if (store->host_count == JSI_REDIS_HOSTS_MAX) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL names more hosts (after ',') than %d",
                             JSI_REDIS_HOSTS_MAX);
    }
    struct jsi_redis_host *host = &store->hosts[store->host_count];
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return jobsched_fail(JOBSCHED_EINVAL, 0,
                                 "'[' in the lock URL does not begin '[address]' or "
                                 "'[address]:port'");
        }
        port = end[1] == ':' ? end + 2 : NULL;
        *end = '\0';
        text++;
    } else {
        port = strchr(text, ':');
        if (port != NULL) {
            *port++ = '\0';
        }
    }
    host->host = text;
    host->port = port; /* NULL: the usual one, which depends on what follows */
    char *end = NULL;
    long number = port == NULL ? 1 : port[0] >= '0' && port[0] <= '9' ? strtol(port, &end, 10) : 0;
    if ((port != NULL && (end == NULL || *end != '\0')) || number < 1 || number > 65535) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the port in the lock URL is not 1 to 65535; is '@host' missing "
                             "behind the password?");
    }
    if (text[0] == '\0') {
        return port == NULL ? 0
                            : jobsched_fail(JOBSCHED_EINVAL, 0,
                                            "the lock URL has no host before ':'; is '@host' "
                                            "missing behind the password?");
    }
    store->host_count++;
    return decode(text, "the host");
}

static int read_hosts(struct jsi_redis_store *store, char *text)
{
    int result = 0;
    while (result == 0 && text != NULL) {
        char *next = strchr(text, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        result = read_host(store, text);
        text = next;
    }
    return result;
}

static int read_database(struct jsi_redis_store *store, const char *text)
{
    char *end = NULL;
    long number = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    if (end == NULL || *end != '\0' || number < 0 || number > DATABASE_MAX) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the database in the lock URL (behind '/' or 'db=') is not a number "
                             "from 0 to %d; a socket is named as 'redis://?socket=/path'",
                             DATABASE_MAX);
    }
    store->database = number;
    return 0;
}

/* shown: no part of a password can be here. */
static int read_options(struct jsi_redis_store *store, char *options, int shown)
{
    while (options != NULL && *options != '\0') {
        char *next = strchr(options, '&');
        if (next != NULL) {
            *next++ = '\0';
        }
        int result;
        if (strncmp(options, "socket=", 7) == 0) {
            store->socket = options + 7;
            result = decode(options + 7, "the socket");
        } else if (strncmp(options, "db=", 3) == 0) {
            result = read_database(store, options + 3);
        } else if (strncmp(options, "sentinel=", 9) == 0) {
            store->primary = options + 9;
            result = decode(options + 9, "the sentinels' primary");
        } else if (strncmp(options, "sentinel_user=", 14) == 0) {
            store->sentinel_user = options + 14;
            result = decode(options + 14, "the sentinels' user");
        } else if (strncmp(options, "sentinel_password=", 18) == 0) {
            store->sentinel_password = options + 18;
            result = decode(options + 18, "the sentinels' password");
        } else {
            options[strcspn(options, "=")] = '\0';
            result = jobsched_fail(JOBSCHED_EINVAL, 0,
                                   "option '%.60s' of the lock URL is unknown; known are 'socket', "
                                   "'db', 'sentinel', 'sentinel_user' and 'sentinel_password'",
                                   shown ? options : "***");
        }
        if (result != 0) {
            return result;
        }
        options = next;
    }
    return 0;
}

static int check_place(const struct jsi_redis_store *store)
{
    if (store->socket == NULL && store->host_count == 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL names neither a host nor '?socket=/path'");
    }
    if (store->socket != NULL && store->host_count > 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "the lock URL names both a host and '?socket='");
    }
    if (store->primary != NULL && (store->socket != NULL || store->primary[0] == '\0')) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "a lock URL for sentinels needs their hosts and the name of the "
                             "primary, as in 'redis+sentinel://host:26379/primary/0'");
    }
    if (store->primary == NULL && store->host_count > 1) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL names several hosts, which only sentinels "
                             "('?sentinel=primary') may be");
    }
    if (store->socket == NULL) {
        return 0;
    }
    return store->socket[0] == '/' ? 0
                                   : jobsched_fail(JOBSCHED_EINVAL, 0,
                                                   "the socket in the lock URL ('?socket=') is "
                                                   "not an absolute path");
}

/* sentinels: the name of the primary comes before the database. */
static int read_rest(struct jsi_redis_store *store, char *text, int sentinels)
{
    char *options = strchr(text, '?');
    if (options != NULL) {
        *options++ = '\0';
    }
    char *database = strchr(text, '/');
    if (database != NULL) {
        *database++ = '\0';
    }
    if (sentinels) {
        char *primary = database == NULL ? text + strlen(text) : database;
        database = strchr(primary, '/');
        if (database != NULL) {
            *database++ = '\0';
        }
        store->primary = primary;
    }
    /* Then the cut went through a password, of which no message may show the rest. */
    if ((options != NULL && strchr(options, '@') != NULL) ||
        (database != NULL && strchr(database, '@') != NULL)) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL has '@' behind '/' or '?'; in user, password and "
                             "options write '/' as %%2F, '?' as %%3F and '@' as %%40");
    }
    char *host = strrchr(text, '@');
    int shown = host != NULL || strchr(text, ':') == NULL;
    int result = 0;
    if (host != NULL) {
        *host++ = '\0';
        result = read_user(store, text);
    } else {
        host = text;
    }
    if (result == 0) {
        result = read_hosts(store, host);
    }
    if (result == 0 && database != NULL && *database != '\0') {
        result = read_database(store, database);
    }
    if (result == 0) {
        result = read_options(store, options, shown);
    }
    return result == 0 ? check_place(store) : result;
}

int jsi_redis_url(struct jsi_redis_store *store)
{
    const char *url = store->config.url;
    if (strncmp(url, "rediss:", 7) == 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "'rediss:' needs TLS, which this build of the redis: backend does not "
                             "have; use 'redis:' through a TLS tunnel");
    }
    static const char plain[] = "redis://", sentinel[] = "redis+sentinel://";
    int sentinels = strncmp(url, sentinel, sizeof sentinel - 1) == 0;
    if (!sentinels && strncmp(url, plain, sizeof plain - 1) != 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "the lock URL does not begin with 'redis://' or 'redis+sentinel://'");
    }
    url += sentinels ? sizeof sentinel - 1 : sizeof plain - 1;
    store->url_bytes = strlen(url) + 1;
    store->url = jsi_redis_allocate(&store->config.allocator, store->url_bytes);
    if (store->url == NULL) {
        return JOBSCHED_ENOMEM;
    }
    memcpy(store->url, url, store->url_bytes);
    int result = read_rest(store, store->url, sentinels);
    for (size_t i = 0; i < store->host_count; i++) {
        if (store->hosts[i].port == NULL) {
            store->hosts[i].port = store->primary != NULL ? "26379" : "6379";
        }
    }
    return result;
}

char *jsi_redis_key(const struct jsi_redis_store *store, const char *word)
{
    struct jsi_redis_text key = {.allocator = &store->config.allocator};
    jsi_redis_text_add(&key, "{jobsched:", 10);
    for (const char *at = store->config.name_space; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        int plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                    (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
        char escaped[4];
        int length = snprintf(escaped, sizeof escaped, plain ? "%c" : "%%%02X", byte);
        jsi_redis_text_add(&key, escaped, (size_t)length);
    }
    jsi_redis_text_add(&key, "}:", 2);
    jsi_redis_text_add(&key, word, strlen(word) + 1);
    if (key.failed) {
        jsi_redis_text_free(&key);
        (void)jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for the key of the namespace");
        return NULL;
    }
    return key.bytes;
}
