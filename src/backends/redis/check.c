/* check.c: what an operator should know of the server or mend there. Asks plain commands; where the
 * user may not ask one, that is told and is no failure.
 * Locks: the caller owns the lane, also while visiting. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 400

/* Part of the memory, in percent, beyond which it is told. */
#define MEMORY_PERCENT 90

struct checking {
    struct jsi_redis_lane *lane;
    char server[300];
    char *info; /* what INFO has answered, copied */
    jobsched_check_visit_fn visit;
    void *visit_data;
    int ended;
    int64_t now_ms;
};

static void tell(struct checking *checking, const char *id, int level, const char *format, ...)
    JOBSCHED_PRINTF(4, 5);

static void tell(struct checking *checking, const char *id, int level, const char *format, ...)
{
    char message[TEXT_BYTES + 300];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const jobsched_check_record record = {.id = id, .level = level, .message = message};
    if (!checking->ended) {
        checking->ended = checking->visit(&record, checking->visit_data) != 0;
    }
}

/* A setting of the server. 0: it may not be asked for. A lost connection shows in lane->fd. */
static int setting(struct checking *checking, const char *name, char *out, size_t bytes)
{
    struct jsi_redis_lane *lane = checking->lane;
    out[0] = '\0';
    if (lane->fd < 0 || jsi_redis_ask(lane, "CONFIG", "GET", name, NULL) != 0 ||
        jsi_redis_count(lane->reply) < 2) {
        return 0;
    }
    jsi_redis_copy(lane->reply, 1, out, bytes);
    return 1;
}

static void look_at_server(struct checking *checking)
{
    char version[32], mode[32];
    jsi_redis_info(checking->info, "redis_version", version, sizeof version);
    jsi_redis_info(checking->info, "redis_mode", mode, sizeof mode);
    tell(checking, "redis.server", JOBSCHED_LEVEL_INFO, "'%s' is a primary, Redis %s, %s",
         checking->server, version, mode);
}

static void look_at_memory(struct checking *checking)
{
    char policy[64], used[24], most[24];
    jsi_redis_info(checking->info, "maxmemory_policy", policy, sizeof policy);
    jsi_redis_info(checking->info, "used_memory", used, sizeof used);
    jsi_redis_info(checking->info, "maxmemory", most, sizeof most);
    if (strcmp(policy, "noeviction") == 0) {
        tell(checking, "redis.eviction", JOBSCHED_LEVEL_INFO,
             "'maxmemory-policy' is 'noeviction': keys stay when memory is full");
    } else {
        tell(checking, "redis.eviction", JOBSCHED_LEVEL_ERROR,
             "'maxmemory-policy' is '%s': the server may drop keys when its memory is full, and "
             "jobs could run twice; set 'noeviction'",
             policy);
    }
    uint64_t used_bytes = strtoull(used, NULL, 10), most_bytes = strtoull(most, NULL, 10);
    if (most_bytes > 0 && used_bytes / MEMORY_PERCENT >= most_bytes / 100) {
        tell(checking, "redis.memory", JOBSCHED_LEVEL_WARNING,
             "%llu of %llu bytes of 'maxmemory' are used: when it is full nothing is granted any "
             "more; give it more",
             (unsigned long long)used_bytes, (unsigned long long)most_bytes);
    } else {
        tell(checking, "redis.memory", JOBSCHED_LEVEL_INFO, "%llu bytes are used of %s",
             (unsigned long long)used_bytes, most_bytes > 0 ? most : "no 'maxmemory'");
    }
}

static void look_at_persistence(struct checking *checking)
{
    char aof[8], sync[24], save[64];
    static const char id[] = "redis.persistence";
    jsi_redis_info(checking->info, "aof_enabled", aof, sizeof aof);
    if (strcmp(aof, "1") == 0) {
        if (!setting(checking, "appendfsync", sync, sizeof sync)) {
            tell(checking, id, JOBSCHED_LEVEL_INFO,
                 "'appendonly' is on; the user may not ask for 'appendfsync'");
        } else if (strcmp(sync, "always") == 0) {
            tell(checking, id, JOBSCHED_LEVEL_INFO,
                 "every write is on disk before it is answered: a restart forgets nothing");
        } else {
            tell(checking, id, JOBSCHED_LEVEL_INFO,
                 "'appendfsync' is '%s': a crash may forget the latest writes, so after a restart "
                 "nothing is granted for one lease; 'always' avoids that",
                 sync);
        }
    } else if (!setting(checking, "save", save, sizeof save)) {
        tell(
            checking, id, JOBSCHED_LEVEL_WARNING,
            "'appendonly' is off, and the user may not ask for 'save': a crash may forget what was "
            "granted; set 'appendonly'");
    } else if (save[0] == '\0') {
        tell(checking, id, JOBSCHED_LEVEL_ERROR,
             "the server keeps nothing on disk: a restart forgets which occurrences were granted; "
             "set 'appendonly'");
    } else {
        tell(checking, id, JOBSCHED_LEVEL_WARNING,
             "the server keeps snapshots only ('save' is '%s'): a crash forgets what was granted "
             "since the last one; set 'appendonly'",
             save);
    }
}

static void look_at_replicas(struct checking *checking)
{
    char replicas[24], least[24];
    static const char id[] = "redis.replication";
    jsi_redis_info(checking->info, "connected_slaves", replicas, sizeof replicas);
    if (strcmp(replicas, "0") == 0 || replicas[0] == '\0') {
        tell(checking, id, JOBSCHED_LEVEL_INFO, "the server has no replicas");
    } else if (!setting(checking, "min-replicas-to-write", least, sizeof least)) {
        tell(checking, id, JOBSCHED_LEVEL_INFO,
             "%s replicas; the user may not ask for 'min-replicas-to-write'", replicas);
    } else if (strcmp(least, "0") == 0) {
        tell(checking, id, JOBSCHED_LEVEL_WARNING,
             "%s replicas, and 'min-replicas-to-write' is 0: a primary that is cut off from them "
             "goes on granting what a promoted one grants, too; set it to 1",
             replicas);
    } else {
        tell(checking, id, JOBSCHED_LEVEL_INFO, "%s replicas, 'min-replicas-to-write' is %s",
             replicas, least);
    }
}

/* Both on this lane, which listens for no longer than it takes. */
static void look_at_push(struct checking *checking)
{
    struct jsi_redis_lane *lane = checking->lane;
    char *channel = jsi_redis_key(lane->store, "hint");
    if (channel == NULL || lane->fd < 0) {
        jsi_redis_free(&lane->store->config.allocator, channel);
        return;
    }
    int may = jsi_redis_ask(lane, "PUBLISH", channel, "check", NULL) == 0 &&
              lane->reply->type != REDIS_REPLY_ERROR &&
              jsi_redis_ask(lane, "SUBSCRIBE", channel, NULL) == 0 &&
              lane->reply->type != REDIS_REPLY_ERROR;
    jsi_redis_free(&lane->store->config.allocator, channel);
    if (lane->fd < 0) {
        return;
    }
    if (may) {
        jsi_redis_disconnect(lane); /* it may have heard something meanwhile */
        tell(checking, "redis.push", JOBSCHED_LEVEL_INFO, "changes are pushed to all nodes");
    } else {
        tell(checking, "redis.push", JOBSCHED_LEVEL_WARNING,
             "the user may not publish or not subscribe: changes are noticed at the next heartbeat "
             "only; grant '&{jobsched:*' and '+publish +subscribe'");
    }
}

static void look_at_losses(struct checking *checking)
{
    struct jsi_redis_lane *lane = checking->lane;
    static const char id[] = "redis.data";
    if (lane->fd < 0 ||
        jsi_redis_ask(lane, "HMGET", lane->store->meta_key, "epoch", "quarantine", "lost_at",
                      NULL) != 0 ||
        jsi_redis_count(lane->reply) != 3) {
        return;
    }
    int64_t epoch = jsi_redis_int(lane->reply, 0), until_ms = jsi_redis_int(lane->reply, 1);
    int64_t ago_s = (checking->now_ms - jsi_redis_int(lane->reply, 2)) / 1000;
    if (until_ms > checking->now_ms) {
        tell(checking, id, JOBSCHED_LEVEL_WARNING,
             "data was lost, or may have been: nothing is granted for another %lld ms",
             (long long)(until_ms - checking->now_ms));
    } else if (epoch > 0) {
        tell(checking, id, JOBSCHED_LEVEL_INFO,
             "in %lld cases data was lost or may have been, the last one %lld s ago",
             (long long)epoch, (long long)ago_s);
    } else {
        tell(checking, id, JOBSCHED_LEVEL_INFO, "the store has lost nothing since it was made");
    }
}

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    (void)job;
    (void)first;
    (void)count;
    jsi_redis_add(lane, "");
    jsi_redis_add(lane, "");
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)first;
    (void)count;
    struct checking *checking = job->data;
    checking->now_ms = jsi_redis_int(reply, 0);
    return 0;
}

int jsi_redis_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                    void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct checking checking = {.lane = lane, .visit = visit, .visit_data = visit_data};
    /* A script that changes nothing: it makes the connection, and tells the time. */
    const struct jsi_redis_job job = {
        .script = JSI_SCRIPT_nodes, .add = add, .take = take, .data = &checking};
    int result = jsi_redis_run(lane, call, &job);
    lane->writes = 0;
    result = result == 0 ? jsi_redis_ask(lane, "INFO", NULL) : result;
    if (result != 0) {
        return result;
    }
    if (lane->reply->type != REDIS_REPLY_STRING) {
        return jsi_redis_fail_form(lane, "INFO is not text");
    }
    checking.info = jsi_redis_allocate(&store->config.allocator, (size_t)lane->reply->len + 1);
    if (checking.info == NULL) {
        return JOBSCHED_ENOMEM;
    }
    memcpy(checking.info, lane->reply->str, (size_t)lane->reply->len + 1);
    jsi_redis_place(store, checking.server, sizeof checking.server);
    look_at_server(&checking);
    look_at_memory(&checking);
    look_at_persistence(&checking);
    look_at_replicas(&checking);
    look_at_losses(&checking);
    int lost = lane->fd < 0;
    if (!lost) {
        look_at_push(&checking);
    }
    jsi_redis_free(&store->config.allocator, checking.info);
    return lost ? JOBSCHED_EUNREACHABLE : 0; /* as the failed request has recorded it */
}
