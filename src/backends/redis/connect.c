/* connect.c: makes a socket, within the time of the call. Locks: the caller owns the lane. */
#include "store.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void set(int fd, int level, int option, int64_t value)
{
    int number = value > INT32_MAX ? INT32_MAX : (int)value;
    (void)setsockopt(fd, level, option, &number, sizeof number); /* all of them only help */
}

/* A half-open connection must be given up within the lease. */
static void tune(const struct jsi_redis_lane *lane, int fd)
{
    int64_t lease_ms = lane->store->config.lease_ms;
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, lease_ms / 3000 + 1);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, lease_ms / 3000 + 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, lease_ms);
}

/* Returns an errno value; ETIMEDOUT when the time of the call is over. */
static int try_address(struct jsi_redis_lane *lane, int family, const struct sockaddr *address,
                       socklen_t length)
{
    lane->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lane->fd < 0) {
        return errno;
    }
    if (family != AF_UNIX) {
        tune(lane, lane->fd);
    }
    int error = connect(lane->fd, address, length) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
        error = ETIMEDOUT;
        socklen_t bytes = sizeof error;
        if (jsi_redis_wait(lane, POLLOUT) &&
            getsockopt(lane->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
            error = errno;
        }
    }
    if (error != 0) {
        (void)close(lane->fd);
        lane->fd = -1;
    }
    return error;
}

static int fail_errno(struct jsi_redis_lane *lane, int error)
{
    char text[128];
    jsi_redis_errno_text(error, text, sizeof text);
    return jsi_redis_fail_connect(lane, error,
                                  error == ENOENT         ? "there is no such socket"
                                  : error == ECONNREFUSED ? "nobody listens there"
                                                          : text);
}

static int connect_unix(struct jsi_redis_lane *lane)
{
    const char *path = lane->store->socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "socket '%.200s' in the lock URL is longer than %zu bytes", path,
                             sizeof address.sun_path - 1);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int error = EAGAIN;
    /* EAGAIN: its queue is full; there is no telling when it will not be. */
    while (error == EAGAIN && jsi_redis_budget_left(lane) > 0) {
        error = try_address(lane, AF_UNIX, (const struct sockaddr *)&address, sizeof address);
        if (error == EAGAIN) {
            (void)poll(NULL, 0, 5);
            lane->waited_ms += 5;
        }
    }
    if (error == EACCES || error == EPERM) {
        return jobsched_fail(JOBSCHED_EACCESS, error, "no permission to connect to '%s'", path);
    }
    return error == 0 ? 0 : fail_errno(lane, error);
}

int jsi_redis_connect(struct jsi_redis_lane *lane)
{
    const struct jsi_redis_store *store = lane->store;
    if (store->socket != NULL) {
        return connect_unix(lane);
    }
    if (store->primary == NULL) {
        return jsi_redis_connect_to(lane, store->hosts[0].host, store->hosts[0].port);
    }
    char host[JSI_REDIS_HOST_BYTES], port[JSI_REDIS_PORT_BYTES];
    int result = jsi_redis_ask_sentinels(lane, host, port);
    return result == 0 ? jsi_redis_connect_to(lane, host, port) : result;
}

int jsi_redis_connect_to(struct jsi_redis_lane *lane, const char *host, const char *port)
{
    struct addrinfo *found = NULL;
    int result = jsi_redis_resolve(lane, host, port, &found);
    if (result != 0) {
        return result;
    }
    int error = ETIMEDOUT;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        if (jsi_redis_budget_left(lane) == 0) {
            error = ETIMEDOUT;
            break;
        }
        error = try_address(lane, at->ai_family, at->ai_addr, at->ai_addrlen);
        if (error == 0) {
            break;
        }
    }
    freeaddrinfo(found);
    if (error == ETIMEDOUT) {
        return jsi_redis_fail_time(lane);
    }
    return error == 0 ? 0 : fail_errno(lane, error);
}
