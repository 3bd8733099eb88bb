/* session.c: what a new connection is told and asked before it is used: who we are, which
 * database, whether the server is one that we can use, and, by enter.lua, that requests of older
 * connections of this lane are to be refused from now on.
 * Locks: the caller owns the lane; takes store->lock for moments. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MIN 5 /* the first whose scripts may read the clock and then write */

enum { LOST_ALL = 1, LOST_LATEST = 2, LOST_PERHAPS = 3 };

/* The value of a line "name:value" of INFO. */
static void read_info(const char *info, const char *name, char *out, size_t bytes)
{
    size_t length = strlen(name);
    out[0] = '\0';
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            (void)snprintf(out, bytes, "%.*s", (int)strcspn(value, "\r\n"), value);
            return;
        }
    }
}

static int expect_no_error(struct jsi_redis_lane *lane)
{
    if (lane->reply->type != REDIS_REPLY_ERROR) {
        return 0;
    }
    int result = jsi_redis_fail_reply(lane, lane->reply->str);
    jsi_redis_disconnect(lane);
    return result;
}

static int sign_in(struct jsi_redis_lane *lane)
{
    const struct jsi_redis_store *store = lane->store;
    int result = 0;
    if (store->password != NULL) {
        result = store->user == NULL
                     ? jsi_redis_ask(lane, "AUTH", store->password, NULL)
                     : jsi_redis_ask(lane, "AUTH", store->user, store->password, NULL);
        /* It is not left in memory any longer than it has to. */
        if (lane->out.bytes != NULL) {
            explicit_bzero(lane->out.bytes, lane->out.capacity);
            explicit_bzero(lane->body.bytes, lane->body.capacity);
        }
        result = result == 0 ? expect_no_error(lane) : result;
    }
    if (result == 0 && store->database != 0) {
        char number[24];
        (void)snprintf(number, sizeof number, "%lld", (long long)store->database);
        result = jsi_redis_ask(lane, "SELECT", number, NULL);
        result = result == 0 ? expect_no_error(lane) : result;
    }
    return result;
}

static int refuse(struct jsi_redis_lane *lane, const char *why)
{
    char server[300];
    jsi_redis_place(lane->store, server, sizeof server);
    jsi_redis_disconnect(lane);
    return jobsched_fail(JOBSCHED_EREFUSED, 0, "the server '%s' cannot be used: %s", server, why);
}

static void warn(struct jsi_redis_lane *lane, const char *info)
{
    char server[300], policy[64], aof[8], saved[24];
    jsi_redis_place(lane->store, server, sizeof server);
    read_info(info, "maxmemory_policy", policy, sizeof policy);
    if (policy[0] != '\0' && strcmp(policy, "noeviction") != 0) {
        jsi_redis_notice(lane->store,
                         "the server '%s' may drop keys when its memory is full "
                         "('maxmemory-policy' is '%s'): jobs could run twice; use 'noeviction'",
                         server, policy);
    }
    read_info(info, "aof_enabled", aof, sizeof aof);
    if (strcmp(aof, "0") != 0 || jsi_redis_ask(lane, "CONFIG", "GET", "save", NULL) != 0) {
        return;
    }
    jsi_redis_copy(lane->reply, 1, saved, sizeof saved);
    if (jsi_redis_count(lane->reply) == 2 && saved[0] == '\0') {
        jsi_redis_notice(lane->store,
                         "the server '%s' keeps nothing on disk ('appendonly' is off and 'save' is "
                         "empty): a restart forgets which occurrences were granted",
                         server);
    }
}

/* Whether another identity of the server means a restart that has forgotten nothing that was
 * answered: every write is on disk before its answer, and it is not a replica that was promoted. */
static int is_durable(struct jsi_redis_lane *lane, const char *aof, const char *former)
{
    return strcmp(aof, "1") == 0 && former[0] != '\0' && strspn(former, "0") == strlen(former) &&
           jsi_redis_ask(lane, "CONFIG", "GET", "appendfsync", NULL) == 0 &&
           strcmp(jsi_redis_text(lane->reply, 1), "always") == 0;
}

/* Asks the server what it is. out_run has its identity. */
static int inspect(struct jsi_redis_lane *lane, int first, char *out_run, size_t run_bytes,
                   int *out_durable)
{
    int result = jsi_redis_ask(lane, "INFO", NULL);
    result = result == 0 ? expect_no_error(lane) : result;
    if (result != 0) {
        return result;
    }
    if (lane->reply->type != REDIS_REPLY_STRING) {
        return jsi_redis_fail_form(lane, "INFO is not text");
    }
    const char *info = lane->reply->str;
    char version[32], role[16], cluster[8], loading[8], aof[8], former[64];
    read_info(info, "redis_version", version, sizeof version);
    read_info(info, "role", role, sizeof role);
    read_info(info, "cluster_enabled", cluster, sizeof cluster);
    read_info(info, "loading", loading, sizeof loading);
    read_info(info, "aof_enabled", aof, sizeof aof);
    read_info(info, "run_id", out_run, run_bytes);
    read_info(info, "master_replid2", former, sizeof former);
    if (strtol(version, NULL, 10) < VERSION_MIN) {
        char why[100];
        (void)snprintf(why, sizeof why, "its version '%s' is older than 5.0", version);
        return refuse(lane, why);
    }
    if (strcmp(role, "slave") == 0 || strcmp(role, "replica") == 0) {
        return refuse(lane, "it is a replica, name the primary");
    }
    if (strcmp(cluster, "1") == 0) {
        return refuse(lane, "it is part of a Redis Cluster, which is not supported");
    }
    if (strcmp(loading, "1") == 0) {
        return jsi_redis_fail_connect(lane, 0, "it is still loading its data");
    }
    if (first) {
        char *kept = jsi_redis_allocate(&lane->store->config.allocator, lane->reply->len + 1);
        if (kept == NULL) {
            jsi_redis_disconnect(lane);
            return JOBSCHED_ENOMEM;
        }
        memcpy(kept, info, lane->reply->len + 1);
        warn(lane, kept);
        jsi_redis_free(&lane->store->config.allocator, kept);
    }
    *out_durable = lane->fd >= 0 && is_durable(lane, aof, former);
    /* Their replies may be errors, where we are not allowed to ask; a lost connection is one. */
    return lane->fd >= 0 ? 0 : jsi_redis_fail_connect(lane, 0, "lost while asking what it is");
}

int jsi_redis_load(struct jsi_redis_lane *lane)
{
    struct jsi_redis_store *store = lane->store;
    struct jsi_redis_text text = {.allocator = &store->config.allocator};
    int result = 0;
    lane->writes = 0; /* nothing of the namespace */
    for (int i = JSI_SCRIPT_enter; result == 0 && i < JSI_SCRIPT_COUNT; i++) {
        jsi_redis_text_clear(&text);
        for (int part = i == JSI_SCRIPT_enter ? 1 : 0; part < 2; part++) {
            const char *const *lines = jsi_redis_scripts[part == 0 ? JSI_SCRIPT_common : i];
            for (; *lines != NULL; lines++) {
                jsi_redis_text_add(&text, *lines, strlen(*lines));
            }
        }
        jsi_redis_text_add(&text, "", 1);
        if (text.failed) {
            result = jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for the scripts");
            break;
        }
        result = jsi_redis_ask(lane, "SCRIPT", "LOAD", text.bytes, NULL);
        result = result == 0 ? expect_no_error(lane) : result;
        if (result != 0) {
            break;
        }
        if (lane->reply->type != REDIS_REPLY_STRING ||
            lane->reply->len != JSI_REDIS_SHA_BYTES - 1) {
            result = jsi_redis_fail_form(lane, "SCRIPT LOAD gives no digest");
        } else if (!store->loaded) {
            memcpy(store->sha[i], lane->reply->str, JSI_REDIS_SHA_BYTES);
        }
    }
    jsi_redis_text_free(&text);
    return result;
}

/* A loss is told once, by whichever lane notices. */
static void tell_loss(struct jsi_redis_store *store, int64_t lost, int64_t epoch)
{
    static const char *const what[] = {"", "has lost its data",
                                       "has lost the latest part of its data",
                                       "was restarted or replaced and may have lost data"};
    (void)pthread_mutex_lock(&store->lock);
    int known = store->told_epoch >= epoch;
    store->told_epoch = epoch > store->told_epoch ? epoch : store->told_epoch;
    (void)pthread_mutex_unlock(&store->lock);
    if (lost < LOST_ALL || lost > LOST_PERHAPS || known) {
        return;
    }
    char server[300];
    jsi_redis_place(store, server, sizeof server);
    jsi_redis_notice(store,
                     "the server '%s' %s: nothing is granted for one lease; occurrences of which "
                     "it is not known whether they ran are skipped, unless their jobs ask for "
                     "reruns",
                     server, what[lost]);
}

static int take_entry(struct jsi_redis_lane *lane, uint64_t nonce)
{
    struct jsi_redis_store *store = lane->store;
    const redisReply *reply = lane->reply;
    const char *word = jsi_redis_text(reply, 0);
    if (strcmp(word, "VERSION") == 0) {
        int result = jsi_redis_fail_version(lane, jsi_redis_text(reply, 1));
        jsi_redis_disconnect(lane);
        return result;
    }
    if (strcmp(word, "OLD") == 0 || jsi_redis_count(reply) < 5) {
        return jsi_redis_fail_form(lane, "a node that has entered later than it can");
    }
    int64_t epoch = jsi_redis_int(reply, 3);
    (void)pthread_mutex_lock(&store->lock);
    int64_t id = jsi_redis_int(reply, 1);
    /* Another lane may have seen more of the same store already. */
    int same = strcmp(store->born, jsi_redis_text(reply, 2)) == 0;
    store->id = same && store->id > id ? store->id : id;
    store->epoch = epoch;
    jsi_redis_copy(reply, 2, store->born, sizeof store->born);
    (void)pthread_mutex_unlock(&store->lock);
    (void)snprintf(lane->stamp, sizeof lane->stamp, "%s:%lld", jsi_redis_text(reply, 2),
                   (long long)epoch);
    lane->nonce = nonce;
    tell_loss(store, jsi_redis_int(reply, 4), epoch);
    return 0;
}

static int enter(struct jsi_redis_lane *lane, const char *run, int durable)
{
    struct jsi_redis_store *store = lane->store;
    const jobsched_backend_config *config = &store->config;
    char born[JSI_REDIS_BORN_BYTES], fresh[JSI_REDIS_BORN_BYTES];
    (void)pthread_mutex_lock(&store->lock);
    uint64_t nonce = ++store->nonce;
    int64_t epoch = store->epoch, id = store->id, mark_ms = store->mark_ms;
    memcpy(born, store->born, sizeof born);
    (void)pthread_mutex_unlock(&store->lock);
    (void)snprintf(fresh, sizeof fresh, "%.32s-%llu", config->node_id, (unsigned long long)nonce);
    jsi_redis_text_clear(&lane->out);
    jsi_redis_begin(lane);
    jsi_redis_add(lane, "EVALSHA");
    jsi_redis_add(lane, store->sha[JSI_SCRIPT_enter]);
    jsi_redis_add(lane, "1");
    jsi_redis_add(lane, store->meta_key);
    jsi_redis_add(lane, config->node_id);
    jsi_redis_add_int(lane, lane->kind);
    jsi_redis_add_unsigned(lane, nonce);
    jsi_redis_add(lane, born);
    jsi_redis_add_int(lane, epoch);
    jsi_redis_add_int(lane, id);
    jsi_redis_add(lane, fresh);
    jsi_redis_add_exact(lane, config->lease_ms);
    jsi_redis_add(lane, config->node_name);
    jsi_redis_add(lane, config->app_version);
    jsi_redis_add(lane, run);
    jsi_redis_add_exact(lane, mark_ms);
    jsi_redis_add(lane, durable ? "1" : "0");
    jsi_redis_end(lane);
    int result = jsi_redis_send(lane);
    result = result == 0 ? jsi_redis_receive(lane) : result;
    if (result == 0 && lane->reply->type == REDIS_REPLY_ERROR &&
        strncmp(lane->reply->str, "NOSCRIPT", 8) == 0) {
        return 1;
    }
    result = result == 0 ? expect_no_error(lane) : result;
    return result == 0 ? take_entry(lane, nonce) : result;
}

static int enter_loaded(struct jsi_redis_lane *lane, const char *run, int durable)
{
    struct jsi_redis_store *store = lane->store;
    int result = 1;
    if (store->loaded) {
        result = enter(lane, run, durable);
    }
    if (result == 1) {
        result = jsi_redis_load(lane);
        if (result == 0) {
            store->loaded = 1; /* before other threads come: see driver.c */
            result = enter(lane, run, durable);
        }
    }
    return result == 1 ? jsi_redis_fail_form(lane, "it forgets scripts at once") : result;
}

int jsi_redis_session(struct jsi_redis_lane *lane, int again)
{
    struct jsi_redis_store *store = lane->store;
    if (lane->fd >= 0 && !jsi_redis_is_cut(lane) && !again) {
        return 0;
    }
    jsi_redis_disconnect(lane);
    lane->writes = 0; /* nothing that matters is unknown when this fails */
    int result = jsi_redis_connect(lane);
    if (result != 0) {
        return result;
    }
    lane->reader = redisReaderCreate();
    if (lane->reader == NULL) {
        jsi_redis_disconnect(lane);
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "hiredis has no memory");
    }
    char run[64] = "";
    int durable = 0;
    int first = !store->loaded;
    result = sign_in(lane);
    if (result == 0) {
        result = inspect(lane, first, run, sizeof run, &durable);
    }
    if (result == 0) {
        result = enter_loaded(lane, run, durable);
    }
    if (result != 0) {
        jsi_redis_disconnect(lane);
    }
    return result;
}
