/* proxy.h: a small proxy between a node and its server that makes trouble on command. It passes
 * bytes and knows no protocol: a request is named by a text that it contains (the digits of an
 * occurrence's instant are in its claim and nowhere else). One thread of its own per proxy; the
 * functions may be called by any thread, and none asserts. What is told to it is done when the function
 * returns. Locks: one per proxy. */
#ifndef TESTS_SUPPORT_PROXY_H
#define TESTS_SUPPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct proxy proxy;

/* What happens to all connections. */
enum proxy_state {
    PROXY_OPEN, /* they pass */
    PROXY_HOLE, /* nothing moves, and nobody is told: a network that swallows. New connections are
                   made, as the kernel does that; what was sent arrives when it is open again */
    PROXY_DROP, /* what comes, either way, is thrown away */
    PROXY_SHUT  /* connections are ended, new ones at once */
};

/* What happens to one connection, when a request comes that contains a text. */
enum proxy_trouble {
    PROXY_CUT_BEFORE_REQUEST = 1, /* the server never sees it */
    PROXY_CUT_AFTER_REQUEST,      /* the server gets it, whole, and both ends are closed at once */
    PROXY_CUT_BEFORE_REPLY,       /* the server has answered; the answer is thrown away */
    PROXY_CUT_AFTER_REPLY,
    PROXY_CUT_IN_REPLY,        /* half of the first piece of the answer arrives */
    PROXY_HOLE_BEFORE_REQUEST, /* from here on nothing of that connection moves */
    PROXY_HOLE_BEFORE_REPLY
};

/* Listens on a unix socket ("/path") or, for NULL, on a free port of the loopback device; passes to
 * a unix socket or "127.0.0.1:PORT". NULL: errno tells why. */
proxy *proxy_start(const char *listen_at, const char *server);
int proxy_port(const proxy *p);
void proxy_stop(proxy *p);

void proxy_set(proxy *p, int state);
/* Every piece, either way, arrives that much later. */
void proxy_delay(proxy *p, int64_t ms);
/* Does that to the next request that contains the text; only once. */
void proxy_trap(proxy *p, const char *text, int trouble);
/* Shows each piece as it comes, before any trouble: number tells connections apart, from 0. Called
 * by the proxy's thread with its lock held, so it must not call the proxy. NULL: nobody hears. */
typedef void (*proxy_hear_fn)(void *data, unsigned number, bool from_client, const char *bytes,
                              size_t count);
void proxy_hear(proxy *p, proxy_hear_fn hear, void *data);
/* Ends all connections there are. */
void proxy_cut(proxy *p);
/* Half-open connections: closes all ends towards the server (or the clients); those at the other
 * side stay open, and silent. */
void proxy_forget_server(proxy *p);
void proxy_forget_client(proxy *p);

/* How many connections were made, how many there are, how many traps have caught, how many requests
 * that were caught the server has begun to answer, and how many bytes were thrown away. */
unsigned proxy_made(proxy *p);
unsigned proxy_connected(proxy *p);
unsigned proxy_caught(proxy *p);
unsigned proxy_answered(proxy *p);
size_t proxy_dropped(proxy *p);

#endif
