/* keeper.c: the keeper thread, which watches the session that shows the node alive, and enters the
 * node again when it has ended; see node.c for why.
 *
 * An end by idle_session_timeout is not answered: nobody has renewed for a lease, so nothing is
 * ours to defend; the next call enters again.
 *
 * Locks: takes keep_lock, and gives it up early to whoever waits for it. */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between two tries to come back: 20 ms, doubling up to a part of the grace, because the first
 * taker may be back before us; and no load for a server that starts up. */
#define RETRY_FIRST_MS   20
#define RETRY_MAX_MS     1000
#define RETRIES_IN_GRACE 5

/* How often the session is looked at while runs go on here. */
#define LOOKS_IN_GRACE 4
#define LOOK_MIN_MS    25
#define LOOK_MAX_MS    250

/* Renewals without runs after which there are none: one of them may be the rest of a batch. */
#define HOLDS 2

void jsi_pg_keeper_wake(const struct jsi_pg_store *store)
{
    uint64_t one = 1;
    if (store->wake >= 0) {
        (void)!write(store->wake, &one, sizeof one); /* fails only when it is awake already */
    }
}

void jsi_pg_holds(struct jsi_pg_store *store)
{
    if (atomic_exchange(&store->holds, HOLDS) == 0) {
        jsi_pg_keeper_wake(store);
    }
}

static void tell_back(struct jsi_pg_store *store, int64_t away_ms)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "the session that shows this node alive was lost; entered again after %lld ms",
                   (long long)away_ms);
    if (store->config.notice != NULL) {
        store->config.notice(store->config.notice_data, JOBSCHED_EVENT_BACKEND_NOTICE, text);
    }
}

/* What the keeper knows of a session that was lost. */
struct loss {
    int lost;
    int64_t since_ms; /* monotonic */
    int retry_ms;
};

/* Looks at the session without taking anything from it: what comes is for the engine. */
static void look(struct jsi_pg_store *store, struct loss *loss)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct jsi_pg_keep *keep = &store->keep;
    PGconn *session = keep->held != NULL ? keep->held : lane->conn;
    if (session == NULL) {
        return;
    }
    int64_t now_ms = jsi_pg_mono(store);
    if (!jsi_pg_is_hung_up(session)) {
        keep->alive_ms = keep->entered && keep->alive_ms < now_ms ? now_ms : keep->alive_ms;
        loss->lost = 0; /* or a call was faster */
        return;
    }
    int idle = 0;
    if (session == keep->held) {
        PQfinish(session);
        keep->held = NULL;
        jsi_pg_node_lost(store);
    } else {
        (void)jsi_pg_is_cut(lane); /* reads what the server said at last */
        idle = strcmp(lane->notice, "57P05") == 0;
        jsi_pg_disconnect(lane);
    }
    *loss = (struct loss){.lost = !idle, .since_ms = now_ms};
}

/* Returns for how long to sleep then, -1 for until something happens. */
static int come_back(struct jsi_pg_store *store, struct loss *loss)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    lane->for_keeper = 1;
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    int result = jsi_pg_node_ready(lane);
    lane->for_keeper = 0;
    if (result == 0) {
        loss->lost = 0;
        tell_back(store, jsi_pg_mono(store) - loss->since_ms);
        return 0;
    }
    int64_t most_ms = store->grace_ms / RETRIES_IN_GRACE;
    most_ms = most_ms > RETRY_MAX_MS ? RETRY_MAX_MS : most_ms;
    most_ms = most_ms < RETRY_FIRST_MS ? RETRY_FIRST_MS : most_ms;
    loss->retry_ms = loss->retry_ms == 0 ? RETRY_FIRST_MS : loss->retry_ms * 2;
    loss->retry_ms = loss->retry_ms > most_ms ? (int)most_ms : loss->retry_ms;
    return loss->retry_ms;
}

static int turn(struct jsi_pg_store *store, struct loss *loss)
{
    look(store, loss);
    if (loss->lost) {
        return come_back(store, loss);
    }
    if (atomic_load(&store->holds) == 0 || store->grace_ms == 0 || !store->keep.entered) {
        return -1;
    }
    int64_t wait_ms = store->grace_ms / LOOKS_IN_GRACE;
    return (int)(wait_ms < LOOK_MIN_MS   ? LOOK_MIN_MS
                 : wait_ms > LOOK_MAX_MS ? LOOK_MAX_MS
                                         : wait_ms);
}

static void *keep(void *argument)
{
    struct jsi_pg_store *store = argument;
    const struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct loss loss = {.lost = 0};
    for (;;) {
        (void)pthread_mutex_lock(&store->keep_lock);
        int stops = store->stopping;
        int sleep_ms = stops ? 0 : turn(store, &loss);
        /* The number may come to mean another file while we sleep. That only wakes us: whoever
         * exchanges the connection wakes us, too. */
        const PGconn *session = store->keep.held != NULL ? store->keep.held : lane->conn;
        int fd = session == NULL ? -1 : PQsocket(session);
        (void)pthread_mutex_unlock(&store->keep_lock);
        if (stops) {
            return NULL;
        }
        struct pollfd looks[2] = {{.fd = store->wake, .events = POLLIN},
                                  {.fd = fd, .events = POLLRDHUP}};
        (void)poll(looks, 2, sleep_ms);
        uint64_t unused;
        (void)!read(store->wake, &unused, sizeof unused);
    }
}

int jsi_pg_watch_fd(void *backend)
{
    const struct jsi_pg_store *store = backend;
    return store->watch_fd;
}

int jsi_pg_node_start(struct jsi_pg_store *store)
{
    if (store->row_mode) {
        return 0; /* nothing to watch */
    }
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    store->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (store->wake < 0 || store->watch_fd < 0) {
        return jobsched_fail(JOBSCHED_EOS, errno, "no event descriptor for the keeper");
    }
    /* The host's signal handlers run on the host's threads. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&store->keeper, NULL, keep, store);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return jobsched_fail(JOBSCHED_EOS, failed, "no thread for the keeper");
    }
    store->keeper_runs = 1;
    return 0;
}

void jsi_pg_node_stop(struct jsi_pg_store *store)
{
    if (store->keeper_runs) {
        (void)atomic_fetch_add(&store->keep_wanted, 1); /* it gives way */
        jsi_pg_keeper_wake(store);
        (void)pthread_mutex_lock(&store->keep_lock);
        (void)atomic_fetch_sub(&store->keep_wanted, 1);
        store->stopping = 1;
        (void)pthread_mutex_unlock(&store->keep_lock);
        jsi_pg_keeper_wake(store);
        (void)pthread_join(store->keeper, NULL);
        store->keeper_runs = 0;
    }
    PQfinish(store->keep.held);
    store->keep.held = NULL;
    if (store->wake >= 0) {
        (void)close(store->wake);
        store->wake = -1;
    }
    if (store->watch_fd >= 0) {
        (void)close(store->watch_fd);
        store->watch_fd = -1;
    }
}
