/* count.c: see count.h. Knows of both protocols just how messages are told apart. Locks: none; what the
 * proxy's thread adds up is atomic, the rest is that thread's own. */
#include "bench/count.h"

#include "support/proxy.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 64,
    LINE_BYTES = 64,
    STARTUP_BYTES = 4, /* Postgres: the first message has a length and no type */
    HEADER_BYTES = 5
};

/* What a client sends on one connection, up to where it has been read. */
typedef struct stream {
    int answered; /* the server has sent since */
    int started;  /* Postgres: the first message is over */
    size_t skip;  /* bytes of a body that are still to come */
    size_t used;  /* of head */
    char head[LINE_BYTES];
} stream;

static struct {
    proxy *relay;
    char folder[32];
    int postgres;
    stream streams[CONNECTIONS_MAX];
    _Atomic uint64_t trips, requests;
} counter;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "count: %s\n", what);
    exit(1);
}

/* ---- the wire -------------------------------------------------------------------- */

static size_t length_of(const char *bytes)
{
    size_t length = 0;

    for (int i = 0; i < 4; i++) {
        length = length << 8 | (unsigned char)bytes[i];
    }
    return length;
}

/* A length, which counts itself, and before it a type in all messages but the first. */
static void read_postgres(stream *s, char byte)
{
    size_t header = s->started ? HEADER_BYTES : STARTUP_BYTES;

    s->head[s->used++] = byte;
    if (s->used < header) {
        return;
    }
    s->skip = length_of(s->head + header - 4) - 4;
    s->used = 0;
    /* Execute, and the simple query. */
    if (s->started && (s->head[0] == 'E' || s->head[0] == 'Q')) {
        counter.requests++;
    }
    s->started = 1;
}

/* "*3": a command with three arguments; "$5": one of five bytes, and a line's end. */
static void read_redis(stream *s, char byte)
{
    if (s->used == sizeof s->head) {
        die("a line of the Redis protocol is too long");
    }
    s->head[s->used++] = byte;
    if (byte != '\n') {
        return;
    }
    s->used = 0;
    if (s->head[0] == '*') {
        counter.requests++;
    } else if (s->head[0] == '$') {
        s->skip = strtoul(s->head + 1, NULL, 10) + 2;
    }
}

static void hear(void *data, unsigned number, bool from_client, const char *bytes, size_t count)
{
    (void)data;
    if (number >= CONNECTIONS_MAX) {
        die("more connections than are counted");
    }
    stream *s = &counter.streams[number];
    if (!from_client) {
        s->answered = 1;
        return;
    }
    counter.trips += s->answered != 0 || !s->started;
    s->answered = 0;
    for (size_t i = 0; i < count; i++) {
        if (s->skip > 0) {
            s->skip--;
        } else if (counter.postgres) {
            read_postgres(s, bytes[i]);
        } else {
            read_redis(s, bytes[i]);
            s->started = 1;
        }
    }
}

/* ---- sqlite ---------------------------------------------------------------------- */

static int on_statement(unsigned type, void *data, void *statement, void *text)
{
    (void)type;
    (void)data;
    (void)statement;
    if (strncmp(text, "--", 2) != 0) { /* that of a trigger */
        counter.requests++;
        counter.trips += sqlite3_strnicmp(text, "BEGIN", 5) == 0;
    }
    return 0;
}

/* SQLite calls it for every connection that this process opens. */
static int on_open(sqlite3 *db, const char **error, const struct sqlite3_api_routines *api)
{
    (void)error;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

typedef void (*extension_fn)(void); /* as the library wants it, whatever it calls it with */

/* ---- for others ------------------------------------------------------------------ */

/* Writes the URL with another path behind the key; returns the path that was there. */
static void replace_path(const char *url, const char *key, const char *path, char *out_url,
                         char *out_path)
{
    const char *at = strstr(url, key);

    if (at == NULL || at[strlen(key)] != '/') {
        die("the URL names no unix socket");
    }
    at += strlen(key);
    size_t length = strcspn(at, "&");
    (void)snprintf(out_path, COUNT_URL_BYTES, "%.*s", (int)length, at);
    (void)snprintf(out_url, COUNT_URL_BYTES, "%.*s%s%s", (int)(at - url), url, path, at + length);
}

void count_begin(const char *url, char *out_url)
{
    char path[COUNT_URL_BYTES], listen_at[64], server[COUNT_URL_BYTES + 32];

    memset(&counter, 0, sizeof counter);
    if (strncmp(url, "sqlite:", 7) == 0) {
        (void)snprintf(out_url, COUNT_URL_BYTES, "%s", url);
        if (sqlite3_auto_extension((extension_fn)on_open) != SQLITE_OK) {
            die("SQLite refuses an extension");
        }
        return;
    }
    (void)snprintf(counter.folder, sizeof counter.folder, "/tmp/count-XXXXXX");
    if (mkdtemp(counter.folder) == NULL) {
        die("no folder for the socket");
    }
    counter.postgres = strncmp(url, "postgresql:", 11) == 0;
    (void)snprintf(listen_at, sizeof listen_at, "%s/.s.PGSQL.5432", counter.folder);
    replace_path(url, counter.postgres ? "host=" : "socket=",
                 counter.postgres ? counter.folder : listen_at, out_url, path);
    (void)snprintf(server, sizeof server, "%s%s", path, counter.postgres ? "/.s.PGSQL.5432" : "");
    counter.relay = proxy_start(listen_at, server);
    if (counter.relay == NULL) {
        die("no proxy");
    }
    proxy_hear(counter.relay, hear, NULL);
}

count_totals count_read(void)
{
    return (count_totals){counter.trips, counter.requests};
}

void count_end(void)
{
    sqlite3_reset_auto_extension();
    proxy_stop(counter.relay);
    counter.relay = NULL;
    if (counter.folder[0] != '\0') {
        (void)rmdir(counter.folder);
    }
}
