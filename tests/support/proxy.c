/* proxy.c: see proxy.h. The thread owns all sockets; what others want is written down under the
 * lock, and an eventfd wakes the thread. Locks: p->lock, held by the thread but for its poll(). */
#include "support/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* PIECE_BYTES: what is read at once. QUIET_MS: an answer that goes on comes within that time. */
enum {
    CLIENT,
    SERVER,
    SIDES,
    LINKS_MAX = 128,
    PIECE_BYTES = 65536,
    TEXT_BYTES = 64,
    QUIET_MS = 15
};

typedef struct piece {
    struct piece *next;
    int64_t due_ms;
    size_t used, sent;
    char bytes[];
} piece;

typedef struct channel {
    unsigned number;                   /* how many were made before it */
    int fds[SIDES];                    /* -1: closed */
    piece *first[SIDES], *last[SIDES]; /* what came from that side and has to go to the other */
    bool ended[SIDES];                 /* no more comes from there */
    bool half;                         /* one side was forgotten: the other stays as it is */
    bool hole;
    int trouble; /* what this connection has in store; 0: nothing */
    bool answered;
    int64_t quiet_since_ms; /* of the request, and then of the answer */
    char tail[TEXT_BYTES];
    size_t tail_used;
} channel;

struct proxy {
    pthread_mutex_t lock;
    pthread_cond_t obeyed;
    pthread_t thread;
    unsigned long orders, done; /* how many were given, and followed */
    int listener, wake, port;
    char path[108], server[108];
    bool ends;
    int state;
    int64_t delay_ms;
    char text[TEXT_BYTES];
    int trouble;
    bool cut, forget[SIDES];
    unsigned made, caught, answered;
    size_t dropped;
    proxy_hear_fn hear;
    void *hear_data;
    channel links[LINKS_MAX];
    size_t count;
};

static int64_t mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- sockets --------------------------------------------------------------------- */

/* A unix socket for a path, else the loopback device and the port behind the colon. */
static socklen_t make_address(const char *text, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (text != NULL && text[0] == '/') {
        struct sockaddr_un *local = (struct sockaddr_un *)out;
        local->sun_family = AF_UNIX;
        (void)snprintf(local->sun_path, sizeof local->sun_path, "%s", text);
        return sizeof *local;
    }
    struct sockaddr_in *inet = (struct sockaddr_in *)out;
    const char *colon = text == NULL ? NULL : strchr(text, ':');
    inet->sin_family = AF_INET;
    inet->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    inet->sin_port = htons((uint16_t)(colon == NULL ? 0 : strtol(colon + 1, NULL, 10)));
    return sizeof *inet;
}

static int make_listener(proxy *p, const char *at)
{
    struct sockaddr_storage address;
    socklen_t length = make_address(at, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 64) != 0) {
        return -1;
    }
    if (at == NULL) {
        (void)getsockname(fd, (struct sockaddr *)&address, &length);
        p->port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    }
    return fd;
}

static int connect_to(const char *server)
{
    struct sockaddr_storage address;
    socklen_t length = make_address(server, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Both kinds are of this machine: they are made at once, or refused. */
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) != 0) {
        (void)close(fd);
        return -1;
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void shut(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* ---- one connection -------------------------------------------------------------- */

static void forget_pieces(channel *one, int side)
{
    while (one->first[side] != NULL) {
        piece *gone = one->first[side];
        one->first[side] = gone->next;
        free(gone);
    }
    one->last[side] = NULL;
}

static void end_link(channel *one)
{
    for (int side = 0; side < SIDES; side++) {
        shut(&one->fds[side]);
        forget_pieces(one, side);
    }
}

static void forget_side(channel *one, int side)
{
    one->half = true;
    shut(&one->fds[side]);
    forget_pieces(one, CLIENT);
    forget_pieces(one, SERVER);
}

static void add_piece(proxy *p, channel *one, int from, const char *bytes, size_t count)
{
    piece *fresh = malloc(sizeof *fresh + count);
    if (fresh == NULL) {
        abort();
    }
    *fresh = (piece){.due_ms = mono_ms() + p->delay_ms, .used = count};
    memcpy(fresh->bytes, bytes, count);
    if (one->last[from] == NULL) {
        one->first[from] = fresh;
    } else {
        one->last[from]->next = fresh;
    }
    one->last[from] = fresh;
}

/* Whether the text is in what has come, also when it came in two pieces. */
static bool is_trapped(proxy *p, channel *one, const char *bytes, size_t count)
{
    size_t length = strlen(p->text);
    if (p->trouble == 0 || length == 0) {
        return false;
    }
    char seam[2 * TEXT_BYTES];
    size_t head = count < length ? count : length;
    memcpy(seam, one->tail, one->tail_used);
    memcpy(seam + one->tail_used, bytes, head);
    bool found = memmem(seam, one->tail_used + head, p->text, length) != NULL ||
                 memmem(bytes, count, p->text, length) != NULL;
    size_t kept = count < length - 1 ? count : length - 1;
    memcpy(one->tail, bytes + count - kept, kept);
    one->tail_used = kept;
    return found;
}

static void spring(proxy *p, channel *one)
{
    one->trouble = p->trouble;
    one->answered = false;
    one->quiet_since_ms = mono_ms();
    p->trouble = 0;
    p->caught++;
    if (one->trouble == PROXY_CUT_BEFORE_REQUEST) {
        end_link(one);
    } else if (one->trouble == PROXY_HOLE_BEFORE_REQUEST) {
        one->hole = true;
    }
}

static void take(proxy *p, channel *one, int from, const char *bytes, size_t count)
{
    if (p->state == PROXY_DROP || one->half) {
        p->dropped += count;
        return;
    }
    if (from == CLIENT && one->trouble == 0 && is_trapped(p, one, bytes, count)) {
        spring(p, one);
        if (one->fds[CLIENT] < 0 || one->hole) {
            return;
        }
    } else if (one->trouble != 0) {
        one->quiet_since_ms = mono_ms();
        if (from == CLIENT && one->answered) {
            return; /* the next request comes too late */
        }
        if (from == SERVER) {
            bool first = !one->answered;
            p->answered += first;
            one->answered = true;
            if (one->trouble == PROXY_HOLE_BEFORE_REPLY) {
                one->hole = true;
            }
            if (one->trouble == PROXY_CUT_IN_REPLY && first) {
                count = (count + 1) / 2;
            } else if (one->trouble != PROXY_CUT_AFTER_REPLY) {
                return;
            }
        }
    }
    add_piece(p, one, from, bytes, count);
}

static void read_side(proxy *p, channel *one, int side)
{
    static _Thread_local char bytes[PIECE_BYTES];
    ssize_t got = recv(one->fds[side], bytes, sizeof bytes, 0);
    if (got > 0) {
        if (p->hear != NULL) {
            p->hear(p->hear_data, one->number, side == CLIENT, bytes, (size_t)got);
        }
        take(p, one, side, bytes, (size_t)got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        one->ended[side] = true;
        if (one->half) {
            shut(&one->fds[side]);
        }
    }
}

static void write_side(channel *one, int to)
{
    int from = 1 - to;
    while (one->first[from] != NULL && one->first[from]->due_ms <= mono_ms()) {
        piece *now = one->first[from];
        ssize_t sent = send(one->fds[to], now->bytes + now->sent, now->used - now->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) {
                end_link(one);
            }
            return;
        }
        now->sent += (size_t)sent;
        if (now->sent == now->used) {
            one->first[from] = now->next;
            one->last[from] = now->next == NULL ? NULL : one->last[from];
            free(now);
        }
    }
}

/* What is due without anything having come. Returns when to look again; -1: whenever. */
static int64_t settle(channel *one, int64_t now_ms)
{
    bool empty = one->first[CLIENT] == NULL && one->first[SERVER] == NULL;
    for (int side = 0; side < SIDES && !one->half; side++) {
        if (one->ended[side] && one->first[side] == NULL) {
            end_link(one);
            return -1;
        }
    }
    bool waits_for_quiet =
        (one->trouble == PROXY_CUT_AFTER_REQUEST && empty) ||
        (one->trouble == PROXY_CUT_BEFORE_REPLY && one->answered) ||
        ((one->trouble == PROXY_CUT_AFTER_REPLY || one->trouble == PROXY_CUT_IN_REPLY) &&
         one->answered && empty);
    if (waits_for_quiet) {
        /* The request is whole when it is sent: only an answer comes in parts. */
        int64_t until_ms =
            one->quiet_since_ms + (one->trouble == PROXY_CUT_AFTER_REQUEST ? 1 : QUIET_MS);
        if (now_ms >= until_ms) {
            end_link(one);
            return -1;
        }
        return until_ms;
    }
    int64_t due_ms = -1;
    for (int side = 0; side < SIDES; side++) {
        const piece *next = one->first[side];
        if (next != NULL && next->due_ms > now_ms && (due_ms < 0 || next->due_ms < due_ms)) {
            due_ms = next->due_ms;
        }
    }
    return due_ms;
}

/* ---- the thread ------------------------------------------------------------------ */

static void accept_one(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
        return;
    }
    int server = p->state == PROXY_SHUT || p->count == LINKS_MAX ? -1 : connect_to(p->server);
    if (server < 0) {
        (void)close(client);
        return;
    }
    p->links[p->count] = (channel){.number = p->made, .fds = {client, server}};
    p->count++;
    p->made++;
}

static void obey(proxy *p)
{
    for (size_t i = 0; i < p->count; i++) {
        channel *one = &p->links[i];
        if (p->cut || p->state == PROXY_SHUT) {
            end_link(one);
        }
        for (int side = 0; side < SIDES; side++) {
            if (p->forget[side]) {
                forget_side(one, side);
            }
        }
    }
    p->cut = false;
    p->forget[CLIENT] = p->forget[SERVER] = false;
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->links[i].fds[CLIENT] >= 0 || p->links[i].fds[SERVER] >= 0) {
            p->links[kept++] = p->links[i];
        }
    }
    p->count = kept;
}

/* What to wait for; returns for how long. */
static int prepare(proxy *p, struct pollfd *looks)
{
    int64_t now_ms = mono_ms();
    int64_t next_ms = -1;
    looks[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    /* In a hole they wait in the kernel's queue. */
    looks[1] = (struct pollfd){.fd = p->state == PROXY_HOLE ? -1 : p->listener, .events = POLLIN};
    for (size_t i = 0; i < p->count; i++) {
        channel *one = &p->links[i];
        bool moves = !one->hole && p->state != PROXY_HOLE;
        int64_t due_ms = moves ? settle(one, now_ms) : -1;
        if (due_ms >= 0 && (next_ms < 0 || due_ms < next_ms)) {
            next_ms = due_ms;
        }
        for (int side = 0; side < SIDES; side++) {
            const piece *ready = one->first[1 - side];
            short events = one->ended[side] ? 0 : POLLIN;
            if (ready != NULL && ready->due_ms <= now_ms) {
                events |= POLLOUT;
            }
            looks[2 + 2 * i + (size_t)side] =
                (struct pollfd){.fd = moves && events != 0 ? one->fds[side] : -1, .events = events};
        }
    }
    if (next_ms < 0) {
        return -1;
    }
    return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

static void handle(proxy *p, const struct pollfd *looks)
{
    uint64_t unused;
    if (looks[0].revents != 0) {
        (void)!read(p->wake, &unused, sizeof unused);
    }
    for (size_t i = 0; i < p->count; i++) {
        channel *one = &p->links[i];
        for (int side = 0; side < SIDES; side++) {
            short seen = looks[2 + 2 * i + (size_t)side].revents;
            if ((seen & POLLOUT) != 0 && one->fds[side] >= 0) {
                write_side(one, side);
            }
            if ((seen & (POLLIN | POLLHUP | POLLERR)) != 0 && one->fds[side] >= 0) {
                read_side(p, one, side);
            }
        }
    }
    if (looks[1].revents != 0 && p->state != PROXY_HOLE) { /* it may have become one meanwhile */
        accept_one(p);
    }
}

static void *work(void *argument)
{
    proxy *p = argument;
    struct pollfd looks[2 + 2 * LINKS_MAX];
    (void)pthread_mutex_lock(&p->lock);
    while (!p->ends) {
        obey(p);
        int wait_ms = prepare(p, looks);
        p->done = p->orders;
        (void)pthread_cond_broadcast(&p->obeyed);
        nfds_t count = 2 + 2 * (nfds_t)p->count;
        (void)pthread_mutex_unlock(&p->lock);
        (void)poll(looks, count, wait_ms);
        (void)pthread_mutex_lock(&p->lock);
        handle(p, looks);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- for others ------------------------------------------------------------------ */

proxy *proxy_start(const char *listen_at, const char *server)
{
    proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    (void)snprintf(p->server, sizeof p->server, "%s", server);
    (void)snprintf(p->path, sizeof p->path, "%s", listen_at == NULL ? "" : listen_at);
    p->listener = make_listener(p, listen_at);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->obeyed, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started =
        p->listener >= 0 && p->wake >= 0 && pthread_create(&p->thread, NULL, work, p) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) {
        shut(&p->listener);
        shut(&p->wake);
        (void)pthread_cond_destroy(&p->obeyed);
        (void)pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
    }
    return p;
}

int proxy_port(const proxy *p)
{
    return p->port;
}

static void begin(proxy *p)
{
    (void)pthread_mutex_lock(&p->lock);
}

/* Not before the thread has done it: on a busy machine it may come to that much later, and what the
 * caller sends next must not slip through. */
static void commit(proxy *p)
{
    uint64_t one = 1;
    unsigned long mine = ++p->orders;
    (void)!write(p->wake, &one, sizeof one);
    while (p->done < mine && !p->ends) {
        (void)pthread_cond_wait(&p->obeyed, &p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_stop(proxy *p)
{
    if (p == NULL) {
        return;
    }
    begin(p);
    p->ends = true;
    commit(p);
    (void)pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->count; i++) {
        end_link(&p->links[i]);
    }
    shut(&p->listener);
    shut(&p->wake);
    if (p->path[0] != '\0') {
        (void)unlink(p->path);
    }
    (void)pthread_cond_destroy(&p->obeyed);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

void proxy_set(proxy *p, int state)
{
    begin(p);
    p->state = state;
    commit(p);
}

void proxy_delay(proxy *p, int64_t ms)
{
    begin(p);
    p->delay_ms = ms;
    commit(p);
}

void proxy_trap(proxy *p, const char *text, int trouble)
{
    begin(p);
    (void)snprintf(p->text, sizeof p->text, "%s", text);
    p->trouble = trouble;
    commit(p);
}

void proxy_hear(proxy *p, proxy_hear_fn hear, void *data)
{
    begin(p);
    p->hear = hear;
    p->hear_data = data;
    commit(p);
}

void proxy_cut(proxy *p)
{
    begin(p);
    p->cut = true;
    commit(p);
}

void proxy_forget_server(proxy *p)
{
    begin(p);
    p->forget[SERVER] = true;
    commit(p);
}

void proxy_forget_client(proxy *p)
{
    begin(p);
    p->forget[CLIENT] = true;
    commit(p);
}

unsigned proxy_made(proxy *p)
{
    begin(p);
    unsigned made = p->made;
    (void)pthread_mutex_unlock(&p->lock);
    return made;
}

unsigned proxy_connected(proxy *p)
{
    begin(p);
    unsigned count = 0;
    for (size_t i = 0; i < p->count; i++) {
        count += p->links[i].fds[CLIENT] >= 0 || p->links[i].fds[SERVER] >= 0;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return count;
}

unsigned proxy_caught(proxy *p)
{
    begin(p);
    unsigned caught = p->caught;
    (void)pthread_mutex_unlock(&p->lock);
    return caught;
}

unsigned proxy_answered(proxy *p)
{
    begin(p);
    unsigned answered = p->answered;
    (void)pthread_mutex_unlock(&p->lock);
    return answered;
}

size_t proxy_dropped(proxy *p)
{
    begin(p);
    size_t dropped = p->dropped;
    (void)pthread_mutex_unlock(&p->lock);
    return dropped;
}
