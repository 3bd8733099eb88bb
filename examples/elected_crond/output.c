/* output.c: the queue for standard output and the thread that empties it.
 * Locks: queue.lock guards all of queue; the thread writes without it. */
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Enough that workers do not wait for a reader with hiccups; bounded, as commands may write for
 * ever. */
#define QUEUE_BYTES (256 * 1024)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    pthread_t thread;
    size_t from, used; /* ring: first byte, and how many */
    int fd;            /* written before the thread is started */
    int running, ending, done;
    char bytes[QUEUE_BYTES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* As many whole records as fit into one atomic write. */
static size_t take(char *to)
{
    size_t limit = queue.used < OUTPUT_RECORD_BYTES ? queue.used : OUTPUT_RECORD_BYTES;
    size_t end = 0;

    for (size_t i = 0; i < limit; i++) {
        to[i] = queue.bytes[(queue.from + i) % QUEUE_BYTES];
        end = to[i] == '\n' ? i + 1 : end;
    }
    queue.from = (queue.from + end) % QUEUE_BYTES;
    queue.used -= end;
    return end;
}

/* -1: these bytes are lost, and why is in errno. Whoever started us may have made the descriptor
 * non-blocking, so a full pipe can show as EAGAIN. */
static int write_all(const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(queue.fd, from, bytes);

        if (put >= 0) {
            from += put;
            bytes -= (size_t)put;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {.fd = queue.fd, .events = POLLOUT};

            (void)poll(&wait, 1, 1000);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

static void *write_queue(void *unused)
{
    char piece[OUTPUT_RECORD_BYTES];
    int broken = 0;

    (void)unused;
    (void)pthread_mutex_lock(&queue.lock);
    for (;;) {
        size_t bytes;

        while (queue.used == 0 && !queue.ending) {
            (void)pthread_cond_wait(&queue.filled, &queue.lock);
        }
        if (queue.used == 0) {
            break;
        }
        bytes = take(piece);
        (void)pthread_cond_broadcast(&queue.emptied);
        (void)pthread_mutex_unlock(&queue.lock);
        if (write_all(piece, bytes) == 0) {
            broken = 0;
        } else if (!broken) {
            broken = 1; /* told once, not for every line */
            log_message(LOG_ERROR, "output.lost", "standard output cannot be written: %s",
                        strerror(errno));
        }
        (void)pthread_mutex_lock(&queue.lock);
    }
    queue.done = 1;
    (void)pthread_cond_broadcast(&queue.emptied);
    (void)pthread_mutex_unlock(&queue.lock);
    return NULL;
}

int output_start(int fd)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);

    if (failed == 0) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&queue.filled, &attributes);
        (void)pthread_cond_init(&queue.emptied, &attributes);
        (void)pthread_condattr_destroy(&attributes);
        queue.fd = fd;
        queue.ending = queue.done = 0;
        failed = pthread_create(&queue.thread, NULL, write_queue, NULL);
        queue.running = failed == 0;
    }
    return failed;
}

int output_offer(const char *record, size_t bytes)
{
    int fits;

    (void)pthread_mutex_lock(&queue.lock);
    fits = bytes <= QUEUE_BYTES - queue.used;
    if (fits) {
        size_t at = (queue.from + queue.used) % QUEUE_BYTES;
        size_t first = bytes < QUEUE_BYTES - at ? bytes : QUEUE_BYTES - at;

        memcpy(queue.bytes + at, record, first);
        memcpy(queue.bytes, record + first, bytes - first);
        queue.used += bytes;
        (void)pthread_cond_signal(&queue.filled);
    }
    (void)pthread_mutex_unlock(&queue.lock);
    return fits;
}

static struct timespec deadline_after(int milliseconds)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += milliseconds / 1000;
    at.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec += 1;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

void output_wait(int milliseconds)
{
    struct timespec until = deadline_after(milliseconds);

    (void)pthread_mutex_lock(&queue.lock);
    if (QUEUE_BYTES - queue.used < OUTPUT_RECORD_BYTES) {
        (void)pthread_cond_timedwait(&queue.emptied, &queue.lock, &until);
    }
    (void)pthread_mutex_unlock(&queue.lock);
}

void output_stop(int milliseconds)
{
    struct timespec until = deadline_after(milliseconds);
    int failed = 0, done;

    if (!queue.running) {
        return;
    }
    (void)pthread_mutex_lock(&queue.lock);
    queue.ending = 1;
    (void)pthread_cond_signal(&queue.filled);
    while (!queue.done && failed == 0) {
        failed = pthread_cond_timedwait(&queue.emptied, &queue.lock, &until);
    }
    done = queue.done;
    (void)pthread_mutex_unlock(&queue.lock);
    if (done) {
        (void)pthread_join(queue.thread, NULL);
        (void)pthread_cond_destroy(&queue.filled);
        (void)pthread_cond_destroy(&queue.emptied);
        queue.running = 0;
    }
}
