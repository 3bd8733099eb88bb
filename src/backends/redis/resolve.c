/* resolve.c: looks up a host's name within the time of a call. The resolver itself knows no bound;
 * so the C library's own threads ask it, and a caller whose time is over goes away. A lane has one
 * look-up at most: while that has not ended the next caller waits for it, too. What has not ended
 * when the lane is closed, and cannot be called off, is never freed, because the C library still
 * writes there. Where the C library has no getaddrinfo_a(), a look-up takes as long as the resolver
 * takes.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SLICE_MS 50 /* an injected clock may stand still, so waits are counted */

struct jsi_redis_lookup {
#ifdef JSI_HAVE_GETADDRINFO_A
    struct gaicb request;
#endif
    struct addrinfo hints;
    char host[JSI_REDIS_HOST_BYTES], port[JSI_REDIS_PORT_BYTES];
};

static int fail(struct jsi_redis_lane *lane, const char *host, int code, int system_errno)
{
    char detail[JSI_REDIS_HOST_BYTES + 100];
    (void)snprintf(detail, sizeof detail, "'%s' is not found: %s", host, gai_strerror(code));
    return jsi_redis_fail_connect(lane, code == EAI_SYSTEM ? system_errno : 0, detail);
}

#ifdef JSI_HAVE_GETADDRINFO_A

static int begin(struct jsi_redis_lane *lane, const char *host, const char *port)
{
    const jobsched_allocator *allocator = &lane->store->config.allocator;
    struct jsi_redis_lookup *lookup = jsi_redis_allocate(allocator, sizeof *lookup);
    if (lookup == NULL) {
        return JOBSCHED_ENOMEM;
    }
    memset(lookup, 0, sizeof *lookup);
    lookup->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    (void)snprintf(lookup->host, sizeof lookup->host, "%s", host);
    (void)snprintf(lookup->port, sizeof lookup->port, "%s", port);
    lookup->request.ar_name = lookup->host;
    lookup->request.ar_service = lookup->port;
    lookup->request.ar_request = &lookup->hints;
    struct gaicb *list[1] = {&lookup->request};
    int code = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (code != 0) {
        jsi_redis_free(allocator, lookup);
        return fail(lane, host, code, errno);
    }
    lane->lookup = lookup;
    return 0;
}

/* Waits for the look-up; 0: the time is over. */
static int await(struct jsi_redis_lane *lane)
{
    const struct gaicb *list[1] = {&lane->lookup->request};
    while (gai_error(&lane->lookup->request) == EAI_INPROGRESS) {
        int64_t left_ms = jsi_redis_budget_left(lane);
        if (left_ms == 0) {
            return 0;
        }
        int64_t slice_ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
        struct timespec slice = {.tv_sec = 0, .tv_nsec = (long)slice_ms * 1000000};
        if (gai_suspend(list, 1, &slice) == EAI_AGAIN) {
            lane->waited_ms += slice_ms;
        }
    }
    return 1;
}

void jsi_redis_lookup_free(struct jsi_redis_lane *lane)
{
    struct jsi_redis_lookup *lookup = lane->lookup;
    if (lookup == NULL) {
        return;
    }
    lane->lookup = NULL;
    int code = gai_error(&lookup->request);
    if (code == EAI_INPROGRESS) {
        code = gai_cancel(&lookup->request);
        if (code != EAI_CANCELED && code != EAI_ALLDONE) {
            return; /* it is still written to */
        }
    }
    if (lookup->request.ar_result != NULL) {
        freeaddrinfo(lookup->request.ar_result);
    }
    jsi_redis_free(&lane->store->config.allocator, lookup);
}

static int look_up(struct jsi_redis_lane *lane, const char *host, const char *port,
                   struct addrinfo **out_found)
{
    if (lane->lookup != NULL && (strcmp(lane->lookup->host, host) != 0 ||
                                 gai_error(&lane->lookup->request) != EAI_INPROGRESS)) {
        if (!await(lane)) {
            return jsi_redis_fail_time(lane); /* of another name, and the resolver hangs */
        }
        jsi_redis_lookup_free(lane);
    }
    int result = lane->lookup == NULL ? begin(lane, host, port) : 0;
    if (result != 0) {
        return result;
    }
    if (!await(lane)) {
        return jsi_redis_fail_connect(lane, 0, "its name is not looked up in time");
    }
    int code = gai_error(&lane->lookup->request);
    if (code == 0) {
        *out_found = lane->lookup->request.ar_result;
        lane->lookup->request.ar_result = NULL;
    }
    jsi_redis_lookup_free(lane);
    return code == 0 ? 0 : fail(lane, host, code, 0);
}

#else

void jsi_redis_lookup_free(struct jsi_redis_lane *lane)
{
    (void)lane;
}

static int look_up(struct jsi_redis_lane *lane, const char *host, const char *port,
                   struct addrinfo **out_found)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    int code = getaddrinfo(host, port, &hints, out_found);
    return code == 0 ? 0 : fail(lane, host, code, errno);
}

#endif

int jsi_redis_resolve(struct jsi_redis_lane *lane, const char *host, const char *port,
                      struct addrinfo **out_found)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(host, port, &hints, out_found) == 0) {
        return 0; /* an address: nobody is asked */
    }
    if (strlen(host) >= JSI_REDIS_HOST_BYTES) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "host '%.100s...' is longer than %d bytes", host,
                             JSI_REDIS_HOST_BYTES - 1);
    }
    return look_up(lane, host, port, out_found);
}
