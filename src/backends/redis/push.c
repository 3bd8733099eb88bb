/* push.c: a connection of its own that listens on the channel on which changes are told, because in
 * this protocol one that listens can do nothing else. What arrives says only that it is worth to
 * look now; it is thrown away unread. Losing it costs time and nothing else: so it is made again
 * quietly, in growing intervals, and nothing here ever fails a call.
 * Locks: lane KEEP's; jsi_redis_push_denied() takes store->lock. */
#include "store.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define DELAY_FIRST_MS 250
#define DELAY_MAX_MS   60000
#define CONNECT_MIN_MS 250
#define CONNECT_PART   4 /* of a request's time: the next heartbeat does not wait for this */
#define READ_BYTES     16384
#define READS_MAX      16 /* more is left for the next time, which comes at once */

static void put_off(struct jsi_redis_store *store)
{
    int64_t delay_ms = store->push_delay_ms;
    store->push_delay_ms = delay_ms * 2 > DELAY_MAX_MS ? DELAY_MAX_MS : delay_ms * 2;
    /* A server that comes back is not asked by all nodes in the same instant. */
    int64_t spread = store->config.node_id[0] * 7 + store->config.node_id[1];
    store->push_at_ms = jsi_redis_mono(store) + delay_ms + delay_ms * (spread % 64) / 128;
}

void jsi_redis_push_close(struct jsi_redis_store *store)
{
    jsi_redis_disconnect(&store->push);
}

void jsi_redis_push_drain(struct jsi_redis_store *store)
{
    char bytes[READ_BYTES];
    for (int i = 0; i < READS_MAX && store->push.fd >= 0; i++) {
        ssize_t count = recv(store->push.fd, bytes, sizeof bytes, 0);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            return;
        }
        if (count <= 0) {
            jsi_redis_push_close(store);
            put_off(store);
        }
    }
}

/* Returns 1 when the server has confirmed it, 0 when it refuses, or the failure. */
static int subscribe(struct jsi_redis_store *store)
{
    struct jsi_redis_lane *lane = &store->push;
    int result = jsi_redis_connect(lane);
    if (result == 0) {
        lane->reader = jsi_redis_reader(lane);
        result = lane->reader == NULL ? JOBSCHED_ENOMEM : jsi_redis_sign_in(lane);
    }
    char *channel = result == 0 ? jsi_redis_key(store, "hint") : NULL;
    if (channel == NULL) {
        return result == 0 ? JOBSCHED_ENOMEM : result;
    }
    result = jsi_redis_ask(lane, "SUBSCRIBE", channel, NULL);
    jsi_redis_free(&store->config.allocator, channel);
    return result == 0 ? lane->reply->type == REDIS_REPLY_ARRAY : result;
}

void jsi_redis_push_tend(struct jsi_redis_store *store, int64_t left_ms)
{
    struct jsi_redis_lane *lane = &store->push;
    if (lane->fd >= 0 || jsi_redis_mono(store) < store->push_at_ms) {
        return;
    }
    int64_t most_ms = store->config.request_timeout_ms / CONNECT_PART;
    most_ms = most_ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : most_ms;
    jsi_redis_budget(lane, left_ms < most_ms ? left_ms : most_ms);
    int result = subscribe(store);
    if (result == 1) {
        store->push_delay_ms = DELAY_FIRST_MS;
        return;
    }
    jsi_redis_push_close(store);
    if (result == 0) {
        store->push_delay_ms = DELAY_MAX_MS; /* until somebody changes the rights */
        jsi_redis_push_denied(store, "subscribe");
    }
    put_off(store);
}

void jsi_redis_push_denied(struct jsi_redis_store *store, const char *what)
{
    (void)pthread_mutex_lock(&store->lock);
    int known = store->told_push;
    store->told_push = 1;
    (void)pthread_mutex_unlock(&store->lock);
    if (!known) {
        char server[300];
        jsi_redis_place(store, server, sizeof server);
        jsi_redis_notice(store, JOBSCHED_EVENT_BACKEND_WARNING,
                         "the user may not %s at '%s': what other nodes change is noticed at the "
                         "next heartbeat only; grant '&{jobsched:*' and '+publish +subscribe'",
                         what, server);
    }
}

int jsi_redis_watch_fd(void *backend)
{
    const struct jsi_redis_store *store = backend;
    return store->push.fd;
}
