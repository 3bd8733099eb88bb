/* test_proxy.c: each trouble that the proxy is asked for does happen, and only that. The test is
 * client and server itself; what must not arrive is waited for during a moment. */
#include "support/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* MOMENT_MS: far more than a healthy proxy takes. */
enum { SOON_MS = 30000, MOMENT_MS = 150, DELAY_MS = 120 };

typedef struct place {
    char directory[64], server[100], front[100];
    int listener, client, peer; /* peer: the server's end of the connection */
    proxy *p;
} place;

static int64_t mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

static bool becomes_readable(int fd, int timeout_ms)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, timeout_ms) > 0;
}

static int dial(const place *at)
{
    struct sockaddr_un address = address_of(at->front);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int answer(const place *at)
{
    assert_true(becomes_readable(at->listener, SOON_MS));
    int fd = accept(at->listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void tell(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect(int fd, const char *text)
{
    char got[256];
    size_t used = 0;
    while (used < strlen(text)) {
        assert_true(becomes_readable(fd, SOON_MS));
        ssize_t count = recv(fd, got + used, sizeof got - used, 0);
        assert_true(count > 0);
        used += (size_t)count;
    }
    assert_int_equal(used, strlen(text));
    assert_memory_equal(got, text, used);
}

static void expect_nothing(int fd)
{
    assert_false(becomes_readable(fd, MOMENT_MS));
}

static void expect_end(int fd)
{
    char byte;
    assert_true(becomes_readable(fd, SOON_MS));
    ssize_t got = recv(fd, &byte, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
}

static int setup(void **state)
{
    place *at = calloc(1, sizeof *at);
    assert_non_null(at);
    *state = at;
    (void)snprintf(at->directory, sizeof at->directory, "/tmp/proxy-XXXXXX");
    assert_non_null(mkdtemp(at->directory));
    (void)snprintf(at->server, sizeof at->server, "%s/server", at->directory);
    (void)snprintf(at->front, sizeof at->front, "%s/front", at->directory);
    struct sockaddr_un address = address_of(at->server);
    at->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(at->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(at->listener, 8), 0);
    at->p = proxy_start(at->front, at->server);
    assert_non_null(at->p);
    at->client = dial(at);
    at->peer = answer(at);
    return 0;
}

static int teardown(void **state)
{
    place *at = *state;
    proxy_stop(at->p);
    (void)close(at->client);
    (void)close(at->peer);
    (void)close(at->listener);
    (void)unlink(at->server);
    (void)rmdir(at->directory);
    free(at);
    return 0;
}

static void test_passes_both_ways_and_its_end(void **state)
{
    place *at = *state;
    tell(at->client, "question");
    expect(at->peer, "question");
    tell(at->peer, "answer");
    expect(at->client, "answer");
    assert_int_equal(proxy_made(at->p), 1);
    assert_int_equal(shutdown(at->peer, SHUT_RDWR), 0);
    expect_end(at->client);
}

/* TCP at the front, on a port of its own, and much at once. */
static void test_passes_much_through_tcp(void **state)
{
    enum { BYTES = 3 << 20 };
    place *at = *state;
    proxy *p = proxy_start(NULL, at->server);
    assert_non_null(p);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)proxy_port(p))};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    int peer = answer(at);
    char *sent = malloc(BYTES);
    assert_non_null(sent);
    for (size_t i = 0; i < BYTES; i++) {
        sent[i] = (char)(i * 7 % 251);
    }
    size_t out = 0;
    size_t in = 0;
    bool same = true;
    for (int64_t until_ms = mono_ms() + SOON_MS; in < BYTES && mono_ms() < until_ms;) {
        char block[8192];
        ssize_t done = send(client, sent + out, BYTES - out, MSG_DONTWAIT | MSG_NOSIGNAL);
        out += done > 0 ? (size_t)done : 0;
        done = becomes_readable(peer, 10) ? recv(peer, block, sizeof block, 0) : 0;
        same = same && (done <= 0 || memcmp(block, sent + in, (size_t)done) == 0);
        in += done > 0 ? (size_t)done : 0;
    }
    free(sent);
    (void)close(client);
    (void)close(peer);
    proxy_stop(p);
    assert_int_equal(in, BYTES);
    assert_true(same);
}

static void test_delays(void **state)
{
    place *at = *state;
    proxy_delay(at->p, DELAY_MS);
    int64_t begun_ms = mono_ms();
    tell(at->client, "question");
    expect(at->peer, "question");
    assert_true(mono_ms() - begun_ms >= DELAY_MS - 1);
    begun_ms = mono_ms();
    tell(at->peer, "answer");
    expect(at->client, "answer");
    assert_true(mono_ms() - begun_ms >= DELAY_MS - 1);
}

static void test_cuts_before_the_request(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_CUT_BEFORE_REQUEST);
    tell(at->client, "claim 16");
    expect(at->peer, "claim 16");
    tell(at->client, "the claim 17 of mine");
    expect_end(at->client);
    expect_end(at->peer);
    assert_int_equal(proxy_caught(at->p), 1);
}

/* It catches once, also a text that comes in two pieces. */
static void test_traps_what_comes_in_pieces_once(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_CUT_BEFORE_REQUEST);
    tell(at->client, "the cla");
    expect(at->peer, "the cla");
    tell(at->client, "im 17");
    expect_end(at->client);
    int client = dial(at);
    int peer = answer(at);
    tell(client, "claim 17");
    expect(peer, "claim 17");
    (void)close(client);
    (void)close(peer);
}

static void test_cuts_after_the_request(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_CUT_AFTER_REQUEST);
    tell(at->client, "claim 17");
    expect(at->peer, "claim 17");
    expect_end(at->peer);
    expect_end(at->client);
}

static void test_cuts_before_the_reply(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_CUT_BEFORE_REPLY);
    tell(at->client, "claim 17");
    expect(at->peer, "claim 17");
    expect_nothing(at->peer);
    expect_nothing(at->client);
    assert_int_equal(proxy_answered(at->p), 0);
    tell(at->peer, "granted");
    expect_end(at->peer);
    expect_end(at->client); /* and not a byte before it */
    assert_int_equal(proxy_answered(at->p), 1);
}

static void test_cuts_after_the_reply(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_CUT_AFTER_REPLY);
    tell(at->client, "claim 17");
    expect(at->peer, "claim 17");
    tell(at->peer, "granted");
    expect(at->client, "granted");
    expect_end(at->client);
    expect_end(at->peer);
}

static void test_hole_swallows_and_gives_back(void **state)
{
    place *at = *state;
    proxy_set(at->p, PROXY_HOLE);
    tell(at->client, "question");
    expect_nothing(at->peer);
    tell(at->peer, "answer");
    expect_nothing(at->client);
    int other = dial(at); /* is made, and silent */
    expect_nothing(at->listener);
    proxy_set(at->p, PROXY_OPEN);
    expect(at->peer, "question");
    expect(at->client, "answer");
    (void)close(answer(at));
    (void)close(other);
}

/* One connection alone: before the request, and before the reply. */
static void test_hole_of_one_connection(void **state)
{
    place *at = *state;
    proxy_trap(at->p, "claim 17", PROXY_HOLE_BEFORE_REQUEST);
    tell(at->client, "claim 17");
    expect_nothing(at->peer);
    expect_nothing(at->client);
    int client = dial(at);
    int peer = answer(at);
    proxy_trap(at->p, "claim 18", PROXY_HOLE_BEFORE_REPLY);
    tell(client, "claim 18");
    expect(peer, "claim 18");
    tell(peer, "granted");
    expect_nothing(client);
    (void)close(client);
    (void)close(peer);
}

static void test_drops(void **state)
{
    place *at = *state;
    proxy_set(at->p, PROXY_DROP);
    tell(at->client, "lost");
    for (int64_t until_ms = mono_ms() + SOON_MS; proxy_dropped(at->p) < strlen("lost");) {
        assert_true(mono_ms() < until_ms);
    }
    expect_nothing(at->peer);
    proxy_set(at->p, PROXY_OPEN);
    tell(at->client, "found");
    expect(at->peer, "found");
}

static void test_shuts(void **state)
{
    place *at = *state;
    proxy_set(at->p, PROXY_SHUT);
    expect_end(at->client);
    expect_end(at->peer);
    int client = dial(at);
    expect_end(client);
    (void)close(client);
    proxy_set(at->p, PROXY_OPEN);
    client = dial(at);
    (void)close(answer(at));
    (void)close(client);
}

static void test_cuts_all(void **state)
{
    place *at = *state;
    proxy_cut(at->p);
    expect_end(at->client);
    expect_end(at->peer);
    assert_int_equal(proxy_connected(at->p), 0);
}

static void test_half_open_without_server(void **state)
{
    place *at = *state;
    proxy_forget_server(at->p);
    expect_end(at->peer);
    tell(at->client, "anybody there");
    expect_nothing(at->client);
    assert_int_equal(proxy_connected(at->p), 1);
}

static void test_half_open_without_client(void **state)
{
    place *at = *state;
    proxy_forget_client(at->p);
    expect_end(at->client);
    tell(at->peer, "anybody there");
    expect_nothing(at->peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_passes_both_ways_and_its_end),
        TEST(test_passes_much_through_tcp),
        TEST(test_delays),
        TEST(test_cuts_before_the_request),
        TEST(test_traps_what_comes_in_pieces_once),
        TEST(test_cuts_after_the_request),
        TEST(test_cuts_before_the_reply),
        TEST(test_cuts_after_the_reply),
        TEST(test_hole_swallows_and_gives_back),
        TEST(test_hole_of_one_connection),
        TEST(test_drops),
        TEST(test_shuts),
        TEST(test_cuts_all),
        TEST(test_half_open_without_server),
        TEST(test_half_open_without_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
