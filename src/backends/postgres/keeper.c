/* keeper.c: the keeper thread, which watches the session that shows the node alive, and enters the
 * node again when it has ended; see node.c for why.
 *
 * An end by idle_session_timeout is not answered: nobody has renewed for a lease, so nothing is
 * ours to defend; the next call enters again.
 *
 * Locks: takes keep_lock, never over a call of libpq; lane KEEP by turns with the callers. */
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

/* Looks at the session without taking anything from it: what comes is for the engine. */
static void look(struct jsi_pg_store *store)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct jsi_pg_keep *keep = &store->keep;
    PGconn *session = keep->held != NULL ? keep->held : lane->conn;
    if (session == NULL) {
        return;
    }
    if (!jsi_pg_is_hung_up(session)) {
        jsi_pg_node_look(store, keep->held == NULL);
    } else if (session == keep->held) {
        (void)pthread_mutex_lock(&store->keep_lock);
        keep->held = NULL;
        (void)pthread_mutex_unlock(&store->keep_lock);
        jsi_pg_node_lost(lane);
        PQfinish(session);
    } else {
        (void)jsi_pg_is_cut(lane); /* reads what the server said at last */
        jsi_pg_disconnect(lane);
    }
}

/* One try. */
static int come_back(struct jsi_pg_store *store)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct jsi_pg_keep *keep = &store->keep;
    lane->for_keeper = 1;
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    int result = jsi_pg_node_return(lane);
    lane->for_keeper = 0;
    if (result == 0) {
        return 1;
    }
    (void)pthread_mutex_lock(&store->keep_lock);
    keep->tries++;
    keep->failure = result;
    (void)snprintf(keep->message, sizeof keep->message, "%s", jobsched_last_error()->message);
    (void)pthread_mutex_unlock(&store->keep_lock);
    return 0;
}

/* What the keeper has in hand while the session is lost. */
struct loss {
    int lost;
    int64_t since_ms; /* monotonic */
    int64_t retry_ms;
};

/* Another number for each node and try: they have all lost the same server. (FNV-1a) */
static int64_t jitter(const struct jsi_pg_store *store)
{
    uint32_t hash = UINT32_C(2166136261) ^ store->keep.tries;
    for (const char *at = store->config.node_id; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT32_C(16777619);
    }
    return hash >> 8;
}

/* Has the lane. Returns for how long to sleep then, -1 for until something happens. */
static int turn(struct jsi_pg_store *store, struct loss *loss)
{
    look(store);
    if (store->keep.recovers) {
        if (!loss->lost) {
            *loss = (struct loss){.lost = 1, .since_ms = jsi_pg_mono(store)};
        }
        if (!come_back(store)) {
            int64_t most_ms = store->grace_ms / RETRIES_IN_GRACE;
            most_ms = most_ms > RETRY_MAX_MS ? RETRY_MAX_MS : most_ms;
            most_ms = most_ms < RETRY_FIRST_MS ? RETRY_FIRST_MS : most_ms;
            loss->retry_ms = loss->retry_ms == 0 ? RETRY_FIRST_MS : loss->retry_ms * 2;
            loss->retry_ms = loss->retry_ms > most_ms ? most_ms : loss->retry_ms;
            return (int)(loss->retry_ms - jitter(store) % (loss->retry_ms / 2));
        }
        tell_back(store, jsi_pg_mono(store) - loss->since_ms);
    }
    loss->lost = 0;
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
    while (!atomic_load(&store->stopping)) {
        int sleep_ms = -1, fd = -1; /* who has the lane wakes us at the end */
        if (jsi_pg_keep_try(store)) {
            sleep_ms = turn(store, &loss);
            /* The number may come to mean another file while we sleep. That only wakes us: whoever
             * exchanges the connection wakes us, too. */
            const PGconn *session = store->keep.held != NULL ? store->keep.held : lane->conn;
            fd = session == NULL ? -1 : PQsocket(session);
            jsi_pg_keep_leave(store);
        }
        struct pollfd looks[2] = {{.fd = store->wake, .events = POLLIN},
                                  {.fd = fd, .events = POLLRDHUP}};
        (void)poll(looks, 2, sleep_ms);
        uint64_t unused;
        (void)!read(store->wake, &unused, sizeof unused);
    }
    return NULL;
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
    store->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (store->wake < 0 || store->watch_fd < 0 || store->lost_fd < 0 ||
        epoll_ctl(store->watch_fd, EPOLL_CTL_ADD, store->lost_fd, &event) != 0) {
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
        atomic_store(&store->stopping, 1);
        jsi_pg_keeper_wake(store);
        (void)pthread_join(store->keeper, NULL);
        store->keeper_runs = 0;
    }
    PQfinish(store->keep.held);
    store->keep.held = NULL;
    int *const all[] = {&store->wake, &store->watch_fd, &store->lost_fd, &store->keep.look_fd};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (*all[i] >= 0) {
            (void)close(*all[i]);
            *all[i] = -1;
        }
    }
}
