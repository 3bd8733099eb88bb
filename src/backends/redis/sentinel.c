/* sentinel.c: asks the sentinels where the primary is, each time a connection is made: so a
 * failover is followed as soon as the old primary is lost or says that it is one no more. Whether
 * the server that they name really is a primary is asked of itself (session.c).
 * Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

/* The least time that a sentinel gets to answer. */
#define SHARE_MIN_MS 50

static int is_error(const struct jsi_redis_lane *lane)
{
    return lane->reply->type == REDIS_REPLY_ERROR;
}

static int sign_in(struct jsi_redis_lane *lane)
{
    const struct jsi_redis_store *store = lane->store;
    if (store->sentinel_password == NULL) {
        return 0;
    }
    int result =
        store->sentinel_user == NULL
            ? jsi_redis_ask(lane, "AUTH", store->sentinel_password, NULL)
            : jsi_redis_ask(lane, "AUTH", store->sentinel_user, store->sentinel_password, NULL);
    return result == 0 && is_error(lane) ? jsi_redis_fail_reply(lane, lane->reply->str) : result;
}

static int take_address(struct jsi_redis_lane *lane, const struct jsi_redis_host *sentinel,
                        char *out_host, char *out_port)
{
    const redisReply *reply = lane->reply;
    if (is_error(lane)) {
        return jsi_redis_fail_reply(lane, reply->str);
    }
    jsi_redis_copy(reply, 0, out_host, JSI_REDIS_HOST_BYTES);
    jsi_redis_copy(reply, 1, out_port, JSI_REDIS_PORT_BYTES);
    if (jsi_redis_count(reply) == 2 && out_host[0] != '\0' && out_port[0] != '\0') {
        return 0;
    }
    return jobsched_fail(JOBSCHED_EUNREACHABLE, 0, "sentinel '%s:%s' knows no primary '%s'",
                         sentinel->host, sentinel->port, lane->store->primary);
}

static int ask_one(struct jsi_redis_lane *lane, const struct jsi_redis_host *sentinel,
                   char *out_host, char *out_port)
{
    int result = jsi_redis_connect_to(lane, sentinel->host, sentinel->port);
    if (result != 0) {
        return result;
    }
    lane->reader = jsi_redis_reader(lane);
    if (lane->reader == NULL) {
        jsi_redis_disconnect(lane);
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "hiredis has no memory");
    }
    result = sign_in(lane);
    result = result == 0 ? jsi_redis_ask(lane, "SENTINEL", "get-master-addr-by-name",
                                         lane->store->primary, NULL)
                         : result;
    result = result == 0 ? take_address(lane, sentinel, out_host, out_port) : result;
    jsi_redis_disconnect(lane);
    return result;
}

int jsi_redis_ask_sentinels(struct jsi_redis_lane *lane, char *out_host, char *out_port)
{
    const struct jsi_redis_store *store = lane->store;
    int64_t budget_ms = lane->budget_ms;
    int result = 0;
    for (size_t i = 0; i < store->host_count; i++) {
        /* The one that answered last is asked first; each gets its share of what is left, so that
         * one which hangs does not use up the time of the others. */
        size_t at = (lane->sentinel + i) % store->host_count;
        int64_t left_ms = jsi_redis_budget_left(lane);
        int64_t share_ms = left_ms / (int64_t)(store->host_count - i + 1);
        share_ms = share_ms < SHARE_MIN_MS ? SHARE_MIN_MS : share_ms;
        lane->budget_ms = budget_ms - left_ms + (share_ms < left_ms ? share_ms : left_ms);
        result = ask_one(lane, &store->hosts[at], out_host, out_port);
        lane->budget_ms = budget_ms;
        if (result == 0) {
            lane->sentinel = at;
            return 0;
        }
        if (jsi_redis_budget_left(lane) == 0) {
            break;
        }
    }
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "%s", jobsched_last_error()->message);
    return jobsched_fail(
        result == JOBSCHED_EACCESS || result == JOBSCHED_EINVAL ? result : JOBSCHED_EUNREACHABLE,
        jobsched_last_error()->system_errno,
        "none of %zu sentinels tells where primary '%s' is: %.300s", store->host_count,
        store->primary, message);
}
