/* wake.c: a descriptor that one thread sleeps on in poll() and any other makes readable.
 * No state, no locks. */
#include "base/wake.h"

#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int jsi_wake_open(int *out_fd)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return jobsched_fail(JOBSCHED_EOS, errno, "no descriptor to wake a thread with");
    }
    *out_fd = fd;
    return JOBSCHED_OK;
}

void jsi_wake_close(int fd)
{
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
}

void jsi_wake_set(int fd)
{
    uint64_t one = 1;
    /* Fails only where the counter is full, and then it is readable. */
    ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

bool jsi_wake_wait(int fd, int other_fd, int64_t wait_ms)
{
    struct pollfd polled[2] = {{.fd = fd, .events = POLLIN}, {.fd = other_fd, .events = POLLIN}};
    int timeout_ms = wait_ms < 0 ? 0 : wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
    /* Interrupted or failed is as woken for nothing: callers look again. */
    int ready = poll(polled, 2, timeout_ms);
    if (ready <= 0) {
        return false;
    }
    if (polled[0].revents != 0) {
        uint64_t count;
        ssize_t got = read(fd, &count, sizeof count); /* empty: it was taken already */
        (void)got;
    }
    return polled[1].revents != 0;
}
