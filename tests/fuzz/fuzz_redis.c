/* fuzz_redis.c: any bytes as the replies of a Redis server, through the backend's own connection and
 * hiredis's parser, into every operation. Nothing is sent: the calls that the backend makes on its
 * socket are answered here (linked with --wrap, see CMakeLists.txt).
 * Input: how to answer, six operations, then one part per command that the backend sends. */
#include "fuzz/backend.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

const jobsched_backend *jobsched_backend_redis(void);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

/* A reply may announce more than there is memory for. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

enum { CONNECTIONS = 1024, PENDING_BYTES = 65536, WORD_BYTES = 64 };

enum {
    MODE_RAW = 1,    /* the input also answers what a new connection asks */
    MODE_DRIP = 2,   /* a reply comes byte by byte */
    MODE_CUT = 4,    /* between requests the connection looks ended */
    MODE_UNASKED = 8 /* the next part comes with the one that was asked for */
};

static const char info[] = "redis_version:7.0.15\r\nrole:master\r\nrun_id:0123456789abcdef\r\n"
                           "cluster_enabled:0\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n";

/* What was answered and not read yet, by descriptor. */
static struct {
    uint8_t *bytes;
    size_t used, taken;
} pending[CONNECTIONS];

static struct fuzz_input script;
static uint8_t mode;
static unsigned loaded; /* scripts */

static void answer(int fd, const void *bytes, size_t length)
{
    uint8_t **to = &pending[fd].bytes;

    if (*to == NULL) {
        *to = malloc(PENDING_BYTES);
        CHECK(*to != NULL);
    }
    if (pending[fd].used + length <= PENDING_BYTES) {
        memcpy(*to + pending[fd].used, bytes, length);
        pending[fd].used += length;
    }
}

static void answer_text(int fd, const char *text)
{
    answer(fd, text, strlen(text));
}

static void answer_part(int fd)
{
    struct fuzz_input part;

    for (int i = 0; i < ((mode & MODE_UNASKED) != 0 ? 2 : 1); i++) {
        if (fuzz_part(&script, &part)) {
            answer(fd, part.data, part.size);
        }
    }
}

/* As a server does that is as it should be. 0: it is not one of the commands of a new connection. */
static int answer_well(int fd, const char *first, const char *second)
{
    char text[sizeof info + 32];

    if (strcmp(first, "INFO") == 0) {
        (void)snprintf(text, sizeof text, "$%zu\r\n%s\r\n", sizeof info - 1, info);
    } else if (strcmp(first, "SCRIPT") == 0) {
        (void)snprintf(text, sizeof text, "$40\r\n%040u\r\n", loaded++);
    } else if (strcmp(first, "EVALSHA") == 0 && strspn(second, "0") == 40) {
        /* The first that is loaded is the one that enters the node. */
        (void)snprintf(text, sizeof text, "*5\r\n:1\r\n:1\r\n$4\r\nborn\r\n:1\r\n:0\r\n");
    } else if (strcmp(first, "CONFIG") == 0) {
        (void)snprintf(text, sizeof text, "*2\r\n$4\r\nname\r\n$0\r\n\r\n");
    } else if (strcmp(first, "EVALSHA") != 0 && strcmp(first, "ZADD") != 0) {
        (void)snprintf(text, sizeof text, "+OK\r\n");
    } else {
        return 0;
    }
    answer_text(fd, text);
    return 1;
}

/* A number behind the byte that says what it is; moves behind its line. */
static size_t read_number(const char **at, const char *end, char kind)
{
    size_t number = 0;

    CHECK(*at < end && **at == kind);
    for (++*at; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        number = number * 10 + (size_t)(**at - '0');
    }
    CHECK(end - *at >= 2 && memcmp(*at, "\r\n", 2) == 0);
    *at += 2;
    return number;
}

/* One command; what it is made of is the request's own promise, so it is checked. */
static const char *read_command(const char *at, const char *end, char words[2][WORD_BYTES])
{
    size_t count = read_number(&at, end, '*');

    CHECK(count > 0);
    for (size_t i = 0; i < count; i++) {
        size_t length = read_number(&at, end, '$');

        CHECK((size_t)(end - at) >= length + 2);
        if (i < 2) {
            (void)snprintf(words[i], WORD_BYTES, "%.*s", (int)length, at);
        }
        at += length;
        CHECK(memcmp(at, "\r\n", 2) == 0);
        at += 2;
    }
    return at;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    const char *at = bytes, *end = at + length;

    CHECK(fd >= 0 && fd < CONNECTIONS && (flags & MSG_NOSIGNAL) != 0);
    while (at < end) {
        char words[2][WORD_BYTES] = {"", ""};

        at = read_command(at, end, words);
        if ((mode & MODE_RAW) != 0 || !answer_well(fd, words[0], words[1])) {
            answer_part(fd);
        }
    }
    return (ssize_t)length;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
    size_t left = pending[fd].used - pending[fd].taken;

    (void)flags;
    length = (mode & MODE_DRIP) != 0 ? 1 : length;
    length = length < left ? length : left;
    if (length > 0) {
        memcpy(bytes, pending[fd].bytes + pending[fd].taken, length);
    }
    pending[fd].taken += length;
    return (ssize_t)length; /* 0: closed */
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    CHECK(count == 1);
    if (timeout == 0 && (mode & MODE_CUT) == 0) {
        return 0;
    }
    fds->revents = fds->events;
    return 1;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    (void)address;
    (void)length;
    CHECK(fd >= 0 && fd < CONNECTIONS);
    pending[fd].used = 0;
    pending[fd].taken = 0;
    return 0;
}

static int drive(const uint8_t *data, size_t size)
{
    loaded = 0;
    script = (struct fuzz_input){data, size};
    mode = fuzz_byte(&script);
    return fuzz_backend(jobsched_backend_redis(), "redis:///0?socket=/fuzz", &script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int known;

    /* Were this server refused, no input would get beyond the opening. */
    if (!known) {
        static const uint8_t well[1] = {0};

        CHECK(drive(well, sizeof well));
        known = 1;
    }
    (void)drive(data, size);
    return 0;
}
