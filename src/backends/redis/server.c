/* server.c: what the server is: whether it is one that can be used, what of it should be told to
 * people, and what tells whether it may have lost data.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MIN  5         /* the first whose scripts may read the clock and then write */
#define UPTIME_MAX_S INT32_MAX /* no server has run for 68 years */

void jsi_redis_info(const char *info, const char *name, char *out, size_t bytes)
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
    jsi_redis_info(info, "maxmemory_policy", policy, sizeof policy);
    if (policy[0] != '\0' && strcmp(policy, "noeviction") != 0) {
        jsi_redis_notice(lane->store, JOBSCHED_EVENT_BACKEND_WARNING,
                         "the server '%s' may drop keys when its memory is full "
                         "('maxmemory-policy' is '%s'): jobs could run twice; use 'noeviction'",
                         server, policy);
    }
    jsi_redis_info(info, "aof_enabled", aof, sizeof aof);
    if (strcmp(aof, "0") != 0 || jsi_redis_ask(lane, "CONFIG", "GET", "save", NULL) != 0) {
        return;
    }
    jsi_redis_copy(lane->reply, 1, saved, sizeof saved);
    if (jsi_redis_count(lane->reply) == 2 && saved[0] == '\0') {
        jsi_redis_notice(lane->store, JOBSCHED_EVENT_BACKEND_WARNING,
                         "the server '%s' keeps nothing on disk ('appendonly' is off and 'save' is "
                         "empty): a restart forgets which occurrences were granted",
                         server);
    }
}

/* An identity of nothing but zeros: there has been no other one before. */
static int is_nobodys(const char *id)
{
    return id[0] != '\0' && strspn(id, "0") == strlen(id);
}

int64_t jsi_redis_uptime_ms(const char *info)
{
    char uptime[24], former[64];
    jsi_redis_info(info, "uptime_in_seconds", uptime, sizeof uptime);
    jsi_redis_info(info, "master_replid2", former, sizeof former);
    long long seconds = strtoll(uptime, NULL, 10);
    int absurd = seconds <= -UPTIME_MAX_S || seconds >= UPTIME_MAX_S;
    if (seconds == 0 || absurd || (seconds > 0 && !is_nobodys(former))) {
        return 0;
    }
    /* It is the difference of two seconds that have begun: up to one more than what went by. */
    return ((int64_t)seconds - 1) * 1000;
}

/* Whether another identity of the server means a restart that has forgotten nothing that was
 * answered: every write is on disk before its answer, and it is not a replica that was promoted. */
static int is_durable(struct jsi_redis_lane *lane, const char *aof, const char *former)
{
    return strcmp(aof, "1") == 0 && is_nobodys(former) &&
           jsi_redis_ask(lane, "CONFIG", "GET", "appendfsync", NULL) == 0 &&
           strcmp(jsi_redis_text(lane->reply, 1), "always") == 0;
}

/* Whether it is one that we can use. */
static int judge(struct jsi_redis_lane *lane, const char *info)
{
    char version[32], role[16], cluster[8], loading[8];
    jsi_redis_info(info, "redis_version", version, sizeof version);
    jsi_redis_info(info, "role", role, sizeof role);
    jsi_redis_info(info, "cluster_enabled", cluster, sizeof cluster);
    jsi_redis_info(info, "loading", loading, sizeof loading);
    if (strtol(version, NULL, 10) < VERSION_MIN) {
        char why[100];
        (void)snprintf(why, sizeof why, "its version '%s' is older than 5.0", version);
        return refuse(lane, why);
    }
    if (strcmp(role, "slave") == 0 || strcmp(role, "replica") == 0) {
        return lane->store->primary == NULL
                   ? refuse(lane, "it is a replica, name the primary")
                   : jsi_redis_fail_connect(lane, 0,
                                            "the sentinels name a replica; a failover goes on");
    }
    if (strcmp(cluster, "1") == 0) {
        return refuse(lane, "it is part of a Redis Cluster, which is not supported");
    }
    if (strcmp(loading, "1") == 0) {
        return jsi_redis_fail_connect(lane, 0, "it is still loading its data");
    }
    return 0;
}

int jsi_redis_inspect(struct jsi_redis_lane *lane, int first, struct jsi_redis_server *out)
{
    int result = jsi_redis_ask(lane, "INFO", NULL);
    result = result == 0 ? jsi_redis_expect(lane) : result;
    if (result != 0) {
        return result;
    }
    if (lane->reply->type != REDIS_REPLY_STRING) {
        return jsi_redis_fail_form(lane, "INFO is not text");
    }
    const char *info = lane->reply->str;
    char aof[8], former[64];
    jsi_redis_info(info, "aof_enabled", aof, sizeof aof);
    jsi_redis_info(info, "run_id", out->run, sizeof out->run);
    out->uptime_ms = jsi_redis_uptime_ms(info);
    jsi_redis_info(info, "master_replid2", former, sizeof former);
    result = judge(lane, info);
    if (result != 0) {
        return result;
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
    out->durable = lane->fd >= 0 && is_durable(lane, aof, former);
    /* Their replies may be errors, where we are not allowed to ask; a lost connection is one. */
    return lane->fd >= 0 ? 0 : jsi_redis_fail_connect(lane, 0, "lost while asking what it is");
}
