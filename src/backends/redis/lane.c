/* lane.c: bytes out, replies in, and the time that a call may take as a whole. After any failure
 * the connection is given up: what comes later on it must not be taken for the answer to something
 * else. Locks: the caller owns the lane. */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Longer than anybody waits; keeps sums of it in range. */
#define BUDGET_MAX_MS 86400000

/* What one poll() takes at most: an injected clock may stand still, so waits are counted. */
#define SLICE_MS 100

#define READ_BYTES 16384

int64_t jsi_redis_mono(const struct jsi_redis_store *store)
{
    return store->config.clock.mono_ms(store->config.clock.ctx);
}

void jsi_redis_budget(struct jsi_redis_lane *lane, int64_t timeout_ms)
{
    lane->budget_ms = timeout_ms < 0 ? 0 : timeout_ms > BUDGET_MAX_MS ? BUDGET_MAX_MS : timeout_ms;
    lane->waited_ms = 0;
    lane->started_ms = jsi_redis_mono(lane->store);
}

int64_t jsi_redis_budget_left(const struct jsi_redis_lane *lane)
{
    int64_t passed_ms = jsi_redis_mono(lane->store) - lane->started_ms;
    int64_t left_ms = lane->budget_ms - (lane->waited_ms > passed_ms ? lane->waited_ms : passed_ms);
    return left_ms > 0 ? left_ms : 0;
}

int jsi_redis_wait(struct jsi_redis_lane *lane, short events)
{
    for (;;) {
        int64_t left_ms = jsi_redis_budget_left(lane);
        if (left_ms == 0) {
            return 0;
        }
        int slice_ms = left_ms < SLICE_MS ? (int)left_ms : SLICE_MS;
        struct pollfd look = {.fd = lane->fd, .events = events};
        int ready = poll(&look, 1, slice_ms);
        if (ready > 0) {
            return 1;
        }
        lane->waited_ms += ready == 0 ? slice_ms : 0;
    }
}

void jsi_redis_disconnect(struct jsi_redis_lane *lane)
{
    if (lane->reply != NULL) {
        freeReplyObject(lane->reply);
        lane->reply = NULL;
    }
    if (lane->reader != NULL) {
        redisReaderFree(lane->reader);
        lane->reader = NULL;
    }
    if (lane->fd >= 0) {
        (void)close(lane->fd);
        lane->fd = -1;
    }
    lane->nonce = 0;
}

int jsi_redis_is_cut(const struct jsi_redis_lane *lane)
{
    /* The server says nothing unasked, so anything to be read is the end. */
    struct pollfd look = {.fd = lane->fd, .events = POLLIN | POLLRDHUP};
    return poll(&look, 1, 0) != 0;
}

/* A server that has no room for a client says so and closes, before it is asked anything. */
static int fail_send(struct jsi_redis_lane *lane, size_t done)
{
    int system_errno = errno;
    char said[256];
    ssize_t count = done == 0 ? recv(lane->fd, said, sizeof said - 1, MSG_DONTWAIT) : -1;
    if (count < 1 || said[0] != '-') {
        return jsi_redis_fail_lost(lane, system_errno);
    }
    said[count] = '\0';
    said[strcspn(said, "\r\n")] = '\0';
    int result = jsi_redis_fail_reply(lane, said + 1);
    jsi_redis_disconnect(lane);
    return result;
}

int jsi_redis_send(struct jsi_redis_lane *lane)
{
    if (lane->body.failed || lane->out.failed) {
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a request");
    }
    lane->sent = 0;
    lane->sent_ms = jsi_redis_mono(lane->store);
    size_t done = 0;
    while (done < lane->out.used) {
        ssize_t count = send(lane->fd, lane->out.bytes + done, lane->out.used - done, MSG_NOSIGNAL);
        if (count > 0) {
            done += (size_t)count;
            lane->sent = 1;
        } else if (count < 0 && errno == EAGAIN) {
            if (!jsi_redis_wait(lane, POLLOUT)) {
                return jsi_redis_fail_time(lane);
            }
        } else if (count < 0 && errno != EINTR) {
            return fail_send(lane, done);
        }
    }
    return 0;
}

/* The parser takes memory for as many parts as a server says will come. So many are no answer to
 * anything that is asked here. */
#define PARTS_MAX (1 << 24)

static void *make_array(const redisReadTask *task, jsi_redis_parts count)
{
    /* The parser's own way is still in the functions that it has for everybody. */
    const struct jsi_redis_lane *lane = task->privdata;
    return count > PARTS_MAX ? NULL : lane->make_array(task, count);
}

redisReader *jsi_redis_reader(struct jsi_redis_lane *lane)
{
    redisReader *reader = redisReaderCreate();
    if (reader != NULL) {
        lane->parts = *reader->fn;
        lane->make_array = lane->parts.createArray;
        lane->parts.createArray = make_array;
        reader->fn = &lane->parts;
        reader->privdata = lane;
    }
    return reader;
}

static int read_some(struct jsi_redis_lane *lane)
{
    char bytes[READ_BYTES];
    if (!jsi_redis_wait(lane, POLLIN)) {
        return jsi_redis_fail_time(lane);
    }
    ssize_t count = recv(lane->fd, bytes, sizeof bytes, 0);
    if (count == 0) {
        return jsi_redis_fail_lost(lane, 0);
    }
    if (count < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : jsi_redis_fail_lost(lane, errno);
    }
    return redisReaderFeed(lane->reader, bytes, (size_t)count) == REDIS_OK
               ? 0
               : jsi_redis_fail_lost(lane, ENOMEM);
}

int jsi_redis_receive(struct jsi_redis_lane *lane)
{
    if (lane->reply != NULL) {
        freeReplyObject(lane->reply);
        lane->reply = NULL;
    }
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(lane->reader, &reply) != REDIS_OK) {
            return jsi_redis_fail_lost(lane, lane->reader->err == REDIS_ERR_OOM ? ENOMEM : EPROTO);
        }
        if (reply != NULL) {
            lane->reply = reply;
            return 0;
        }
        int result = read_some(lane);
        if (result != 0) {
            return result;
        }
    }
}
