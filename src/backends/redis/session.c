/* session.c: what a new connection is told and asked before it is used: who we are, which
 * database, whether the server is one that we can use (server.c), and, by enter.lua, that requests of
 * older connections of this lane are to be refused from now on.
 * Locks: the caller owns the lane; takes store->lock for moments. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOST_ALL = 1, LOST_LATEST = 2, LOST_PERHAPS = 3 };

/* A mark that is further ahead of the server's clock than this is told. Clocks of servers that take
 * each other's place differ by less. */
#define FUTURE_MS 10000

int jsi_redis_expect(struct jsi_redis_lane *lane)
{
    if (lane->reply->type != REDIS_REPLY_ERROR) {
        return 0;
    }
    int result = jsi_redis_fail_reply(lane, lane->reply->str);
    jsi_redis_disconnect(lane);
    return result;
}

int jsi_redis_sign_in(struct jsi_redis_lane *lane)
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
        result = result == 0 ? jsi_redis_expect(lane) : result;
    }
    if (result == 0 && store->database != 0) {
        char number[24];
        (void)snprintf(number, sizeof number, "%lld", (long long)store->database);
        result = jsi_redis_ask(lane, "SELECT", number, NULL);
        result = result == 0 ? jsi_redis_expect(lane) : result;
    }
    return result;
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
        result = result == 0 ? jsi_redis_expect(lane) : result;
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
    jsi_redis_notice(store, JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST,
                     "the server '%s' %s: nothing is granted for one lease; occurrences of which "
                     "it is not known whether they ran are skipped, unless their jobs ask for "
                     "reruns",
                     server, what[lost]);
}

void jsi_redis_look_at_mark(struct jsi_redis_store *store, const char *job, int64_t mark_ms,
                            int64_t now_ms)
{
    if (mark_ms <= now_ms + FUTURE_MS || mark_ms == JOBSCHED_NONE) {
        return;
    }
    /* Many jobs have such a mark at once: one of them is told, and again when it gets worse. */
    (void)pthread_mutex_lock(&store->lock);
    int known = store->told_future_ms != 0 && mark_ms <= store->told_future_ms + FUTURE_MS;
    store->told_future_ms = known ? store->told_future_ms : mark_ms;
    (void)pthread_mutex_unlock(&store->lock);
    if (known) {
        return;
    }
    char server[300];
    jsi_redis_place(store, server, sizeof server);
    if (job == NULL) {
        jsi_redis_notice(
            store, JOBSCHED_EVENT_BACKEND_WARNING,
            "what the server '%s' has forgotten reaches %lld s ahead of its clock: "
            "until then only jobs that ask for reruns are granted; is its clock right?",
            server, (long long)((mark_ms - now_ms) / 1000));
    } else {
        jsi_redis_notice(store, JOBSCHED_EVENT_BACKEND_WARNING,
                         "job '%s' is accounted for up to %lld s ahead of the clock of the server "
                         "'%s': nothing of it is due until then; is that clock right?",
                         job, (long long)((mark_ms - now_ms) / 1000), server);
    }
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
    if (strcmp(word, "RIGHTS") == 0) {
        return jsi_redis_fail_right(lane, jsi_redis_text(reply, 1), jsi_redis_text(reply, 2));
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
    int news = store->born[0] != '\0' && (!same || store->epoch != epoch);
    store->epoch = epoch;
    jsi_redis_copy(reply, 2, store->born, sizeof store->born);
    (void)pthread_mutex_unlock(&store->lock);
    (void)snprintf(lane->stamp, sizeof lane->stamp, "%s:%lld", jsi_redis_text(reply, 2),
                   (long long)epoch);
    lane->nonce = nonce;
    if (!lane->entered && !news) {
        /* Nothing has been lost that other lanes have not said again: it is not said once more. */
        memcpy(lane->asserted, lane->stamp, sizeof lane->asserted);
    }
    lane->entered = 1;
    int64_t now_ms = jsi_redis_int(reply, 0), floor_ms = jsi_redis_int(reply, 5);
    int64_t lost = jsi_redis_int(reply, 4);
    tell_loss(store, lost, epoch);
    jsi_redis_look_at_mark(store, NULL, floor_ms, now_ms);
    return 0;
}

static int enter(struct jsi_redis_lane *lane, const struct jsi_redis_server *server)
{
    struct jsi_redis_store *store = lane->store;
    const jobsched_backend_config *config = &store->config;
    char born[JSI_REDIS_BORN_BYTES], fresh[JSI_REDIS_BORN_BYTES];
    (void)pthread_mutex_lock(&store->lock);
    uint64_t nonce = ++store->nonce;
    int64_t epoch = store->epoch, id = store->id, mark_ms = store->mark_ms;
    int64_t lease_ms =
        store->lease_max_ms > config->lease_ms ? store->lease_max_ms : config->lease_ms;
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
    jsi_redis_add_exact(lane, lease_ms);
    jsi_redis_add(lane, config->node_name);
    jsi_redis_add(lane, config->app_version);
    jsi_redis_add(lane, server->run);
    jsi_redis_add_exact(lane, mark_ms);
    jsi_redis_add_int(lane, server->durable != 0);
    jsi_redis_add_int(lane, config->control_only != 0);
    jsi_redis_add_exact(lane, server->uptime_ms);
    jsi_redis_add_int(lane, born[0] == '\0');
    jsi_redis_end(lane);
    int result = jsi_redis_send(lane);
    result = result == 0 ? jsi_redis_receive(lane) : result;
    if (result == 0 && lane->reply->type == REDIS_REPLY_ERROR &&
        strncmp(lane->reply->str, "NOSCRIPT", 8) == 0) {
        return 1;
    }
    result = result == 0 ? jsi_redis_expect(lane) : result;
    return result == 0 ? take_entry(lane, nonce) : result;
}

static int enter_loaded(struct jsi_redis_lane *lane, const struct jsi_redis_server *server)
{
    struct jsi_redis_store *store = lane->store;
    int result = 1;
    if (store->loaded) {
        result = enter(lane, server);
    }
    if (result == 1) {
        result = jsi_redis_load(lane);
        if (result == 0) {
            store->loaded = 1; /* before other threads come: see driver.c */
            result = enter(lane, server);
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
    lane->reader = jsi_redis_reader(lane);
    if (lane->reader == NULL) {
        jsi_redis_disconnect(lane);
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "hiredis has no memory");
    }
    struct jsi_redis_server server = {.durable = 0};
    int first = !store->loaded;
    result = jsi_redis_sign_in(lane);
    if (result == 0) {
        result = jsi_redis_inspect(lane, first, &server);
    }
    if (result == 0) {
        result = enter_loaded(lane, &server);
    }
    if (result != 0) {
        jsi_redis_disconnect(lane);
    } else if (lane->kind == JOBSCHED_LANE_KEEP) {
        /* It may be another server now, and changes are told there. */
        jsi_redis_push_close(store);
        store->push_at_ms = INT64_MIN;
    }
    return result;
}
