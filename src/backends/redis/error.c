/* error.c: what a server's errors mean to the engine. Records errors and nothing else; no message
 * ever has the user or the password. Locks: none. */
#include "store.h"

#include <stdio.h>
#include <string.h>

#define DETAIL_BYTES 300

static void one_line(char *out, size_t bytes, const char *text)
{
    size_t used = 0;
    for (; *text != '\0' && *text != '\n' && *text != '\r' && used + 1 < bytes; text++) {
        unsigned char byte = (unsigned char)*text;
        out[used++] = byte < 0x20 || byte == 0x7f ? ' ' : (char)byte;
    }
    out[used] = '\0';
}

void jsi_redis_place(const struct jsi_redis_store *store, char *out, size_t bytes)
{
    char text[DETAIL_BYTES];
    if (store->socket != NULL) {
        (void)snprintf(text, sizeof text, "%s", store->socket);
    } else if (store->primary != NULL) {
        (void)snprintf(text, sizeof text, "%s, of sentinel %s:%s", store->primary,
                       store->hosts[0].host, store->hosts[0].port);
    } else {
        (void)snprintf(text, sizeof text, "%s:%s", store->hosts[0].host, store->hosts[0].port);
    }
    one_line(out, bytes, text);
}

/* Which class of failure the first word of an error reply is, and what a person can do. */
static const struct {
    const char *word;
    int code;
    const char *advice;
} classes[] = {
    {"OOM ", JOBSCHED_EFULL, "; its 'maxmemory' is used up"},
    {"MISCONF ", JOBSCHED_EFULL, "; it takes no writes because it cannot save them"},
    {"READONLY ", JOBSCHED_EREFUSED, "; it is a replica, name the primary"},
    {"NOREPLICAS ", JOBSCHED_EUNREACHABLE, ""},
    {"LOADING ", JOBSCHED_EUNREACHABLE, ""},
    {"MASTERDOWN ", JOBSCHED_EUNREACHABLE, ""},
    {"BUSY ", JOBSCHED_EUNREACHABLE, ""},
    {"TRYAGAIN ", JOBSCHED_EUNREACHABLE, ""},
    {"UNBLOCKED ", JOBSCHED_EUNREACHABLE, ""},
    {"ERR max number of clients", JOBSCHED_EUNREACHABLE, ""},
    {"MOVED ", JOBSCHED_EREFUSED, "; Redis Cluster is not supported"},
    {"ASK ", JOBSCHED_EREFUSED, "; Redis Cluster is not supported"},
    {"CLUSTERDOWN ", JOBSCHED_EREFUSED, "; Redis Cluster is not supported"},
    {"NOAUTH ", JOBSCHED_EACCESS, "; give user and password in the lock URL"},
    {"WRONGPASS ", JOBSCHED_EACCESS, "; correct user and password in the lock URL"},
    {"NOPERM ", JOBSCHED_EACCESS, "; see docs/backends.md for the rights that are needed"},
    {"ERR invalid password", JOBSCHED_EACCESS, "; correct the password in the lock URL"},
    {"ERR Client sent AUTH", JOBSCHED_EACCESS, "; it has no password"},
    {"ERR AUTH ", JOBSCHED_EACCESS, "; it has no password for the default user"},
    {"DENIED ", JOBSCHED_EACCESS, ""},
    {"ERR DB index", JOBSCHED_EINVAL, "; the number of the database is out of range"},
    {"WRONGTYPE ", JOBSCHED_ESCHEMA, "; the keys are not those of this version"},
};

/* An error inside a script shows the word of the command that failed somewhere behind its own:
 * "ERR ... -READONLY ..." up to Redis 6, the bare word since. */
static const char *find_class(const char *text, size_t *out_class)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const char *word = classes[i].word;
        size_t length = strlen(word);
        const char *at = strstr(text, word);
        int begins = at == text;
        int inside = at != NULL && at > text && (at[-1] == '-' || at[-1] == ' ') &&
                     strncmp(word, "ERR", 3) != 0 && strncmp(text, "ERR Error ", 10) == 0;
        if (length > 0 && (begins || inside)) {
            *out_class = i;
            return at;
        }
    }
    return NULL;
}

int jsi_redis_fail_reply(struct jsi_redis_lane *lane, const char *text)
{
    char server[DETAIL_BYTES], detail[DETAIL_BYTES];
    jsi_redis_place(lane->store, server, sizeof server);
    one_line(detail, sizeof detail, text);
    size_t class = 0;
    if (find_class(text, &class) != NULL) {
        if (strcmp(classes[class].word, "READONLY ") == 0) {
            /* It has been demoted: its name, or the sentinels, may lead elsewhere by now. */
            jsi_redis_disconnect(lane);
        }
        return jobsched_fail(classes[class].code, 0, "the server '%s' answers: %s%s", server,
                             detail, classes[class].advice);
    }
    return jobsched_fail(JOBSCHED_EINTERNAL, 0, "the server '%s' answers: %s", server, detail);
}

static int unanswered(const struct jsi_redis_lane *lane)
{
    return lane->sent && lane->writes;
}

void jsi_redis_errno_text(int system_errno, char *out, size_t bytes)
{
    char buffer[128];
    (void)snprintf(out, bytes, "%s", strerror_r(system_errno, buffer, sizeof buffer));
}

int jsi_redis_fail_lost(struct jsi_redis_lane *lane, int system_errno)
{
    char server[DETAIL_BYTES], why[128] = "closed by the server";
    jsi_redis_place(lane->store, server, sizeof server);
    if (system_errno != 0) {
        jsi_redis_errno_text(system_errno, why, sizeof why);
    }
    int unknown = unanswered(lane);
    jsi_redis_disconnect(lane);
    return jobsched_fail(unknown ? JOBSCHED_EUNKNOWN : JOBSCHED_EUNREACHABLE, system_errno,
                         "the connection to '%s' was lost%s: %s", server,
                         unknown ? " before the answer came" : "", why);
}

int jsi_redis_fail_time(struct jsi_redis_lane *lane)
{
    char server[DETAIL_BYTES];
    jsi_redis_place(lane->store, server, sizeof server);
    int unknown = unanswered(lane);
    jsi_redis_disconnect(lane);
    return jobsched_fail(unknown ? JOBSCHED_EUNKNOWN : JOBSCHED_EUNREACHABLE, 0,
                         "no answer from '%s' within %lld ms", server, (long long)lane->budget_ms);
}

int jsi_redis_fail_connect(struct jsi_redis_lane *lane, int system_errno, const char *detail)
{
    char server[DETAIL_BYTES];
    jsi_redis_place(lane->store, server, sizeof server);
    jsi_redis_disconnect(lane);
    return jobsched_fail(JOBSCHED_EUNREACHABLE, system_errno, "no connection to '%s': %s", server,
                         detail);
}

int jsi_redis_fail_form(struct jsi_redis_lane *lane, const char *what)
{
    char server[DETAIL_BYTES];
    jsi_redis_place(lane->store, server, sizeof server);
    jsi_redis_disconnect(lane);
    return jobsched_fail(JOBSCHED_EINTERNAL, 0, "the server '%s' answers otherwise than Redis: %s",
                         server, what);
}

int jsi_redis_fail_right(struct jsi_redis_lane *lane, const char *command, const char *text)
{
    char server[DETAIL_BYTES], detail[DETAIL_BYTES], word[32];
    jsi_redis_place(lane->store, server, sizeof server);
    one_line(word, sizeof word, command);
    one_line(detail, sizeof detail, text);
    jsi_redis_disconnect(lane);
    return jobsched_fail(JOBSCHED_EACCESS, 0,
                         "the user may not use '%s' at '%s' (%.150s); see docs/backends.md for the "
                         "rights that are needed",
                         word, server, detail);
}

int jsi_redis_fail_version(struct jsi_redis_lane *lane, const char *version)
{
    char server[DETAIL_BYTES];
    jsi_redis_place(lane->store, server, sizeof server);
    return jobsched_fail(JOBSCHED_ESCHEMA, 0,
                         "namespace '%s' on '%s' has layout version '%.20s', this library knows 1",
                         lane->store->config.name_space, server, version);
}

void jsi_redis_notice(struct jsi_redis_store *store, int kind, const char *format, ...)
{
    char text[JOBSCHED_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (store->config.notice != NULL) {
        store->config.notice(store->config.notice_data, kind, text);
    }
}
