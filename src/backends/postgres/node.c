/* node.c: our node in the cluster: the session that holds its liveness lock, and the keeper thread
 * that watches it.
 *
 * A node is alive while the session of its lane KEEP lives: the server drops the lock with it. So a
 * kill -9 is seen in milliseconds. But a session can also end under a living owner:
 * pg_terminate_backend, a restarted server, a cut connection. Told before taken (G5) rests on this:
 *
 *   The keeper sleeps on the session's socket. It sees the end of the session as soon as its
 *   kernel does, and at once enters again through a new connection. A taker, on the other hand,
 *   grants nothing before the node's grace has passed since somebody first saw the lock free (by
 *   the server's clock, in the node's row). Entering again clears that stamp, in a transaction
 *   that waits for a taker which has the row. So the node either comes back within its grace, and
 *   its runs go on as if nothing had been; or it was away for longer than the grace.
 *
 *   Who freezes sends nothing: the server ends the idle session after the lease, and others watch
 *   the heartbeat stand still for a lease on their own clocks. By then the owner's own deadline,
 *   counted from when it sent the last good heartbeat, has passed, and its runs have been told.
 *   The same holds for a link that dies silently (keepalives and tcp_user_timeout are a lease).
 *
 *   What is left: a session that is ended by force while the owner lives and cannot connect anew
 *   within its grace (no connection slots, changed rights, a firewall that resets). Its runs may
 *   then be taken up to a lease before it knows. The contract has no way yet to tell the engine
 *   at once; the keeper's notice is the only sign. A grace as long as the lease closes this gap.
 *
 * An end by idle_session_timeout is not answered by the keeper: nobody has renewed for a lease, so
 * nothing is ours to defend; the next call enters again.
 *
 * Locks: keep_lock for all use of lane KEEP. A caller that waits for it makes the keeper give up
 * what it is at, so that the wait is short. */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between two tries of the keeper to come back: 20 ms, doubling up to a part of the grace, because
 * the first taker may be back before us; and no load for a server that starts up. */
#define RETRY_FIRST_MS   20
#define RETRY_MAX_MS     1000
#define RETRIES_IN_GRACE 5

static void wake(const struct jsi_pg_store *store)
{
    uint64_t one = 1;
    (void)!write(store->wake, &one, sizeof one); /* fails only when it is awake already */
}

static void keep_lock(struct jsi_pg_store *store)
{
    (void)atomic_fetch_add(&store->keep_wanted, 1);
    wake(store);
    (void)pthread_mutex_lock(&store->keep_lock);
    (void)atomic_fetch_sub(&store->keep_wanted, 1);
}

int jsi_pg_node_enter(struct jsi_pg_lane *lane)
{
    const struct jsi_pg_store *store = lane->store;
    const jobsched_backend_config *config = &store->config;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_text(lane, config->node_name);
    jsi_pg_param_text(lane, config->app_version == NULL ? "" : config->app_version);
    jsi_pg_param_int(lane, config->lease_ms);
    jsi_pg_param_int(lane, store->grace_ms);
    int result = jsi_pg_query(lane, "SELECT o_now FROM @S@.enter($1, $2, $3, $4, $5, $6, $7)", 1);
    if (result != 0) {
        jsi_pg_disconnect(lane); /* it may have the lock without the row, or the other way */
    }
    return result;
}

/* A new session of this lane is entered before it is used for anything else. */
static int ready(struct jsi_pg_lane *lane)
{
    if (lane->conn != NULL && !jsi_pg_is_cut(lane)) {
        return 0;
    }
    int result = jsi_pg_session(lane);
    return result == 0 ? jsi_pg_node_enter(lane) : result;
}

int jsi_pg_keep_begin(struct jsi_pg_store *store, jobsched_call *call)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    keep_lock(store);
    jsi_pg_budget(lane, call->timeout_ms);
    int result = ready(lane);
    if (result != 0) {
        jsi_pg_keep_end(store);
    }
    return result;
}

void jsi_pg_keep_end(struct jsi_pg_store *store)
{
    (void)pthread_mutex_unlock(&store->keep_lock);
    wake(store); /* there may be another connection to watch */
}

int jsi_pg_node_enter_for(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    jobsched_call call = {.lane = JOBSCHED_LANE_KEEP, .timeout_ms = jsi_pg_budget_left(lane)};
    int64_t before_ms = jsi_pg_mono(store);
    int result = jsi_pg_keep_begin(store, &call);
    if (result != 0) {
        return result;
    }
    /* The session may be there and the row gone: only the server knows. */
    result = jsi_pg_node_enter(&store->lanes[JOBSCHED_LANE_KEEP]);
    jsi_pg_keep_end(store);
    int64_t passed_ms = jsi_pg_mono(store) - before_ms;
    lane->waited_ms += passed_ms > 0 ? passed_ms : 0;
    return result;
}

/* ---- the keeper ---- */

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

/* One look at lane KEEP; returns for how long to sleep, -1 for until something happens. */
static int look(struct jsi_pg_store *store, struct loss *loss)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    if (lane->conn != NULL && jsi_pg_is_cut(lane)) {
        int idle = strcmp(lane->notice, "57P05") == 0;
        jsi_pg_disconnect(lane);
        *loss = (struct loss){.lost = !idle, .since_ms = jsi_pg_mono(store)};
    } else if (lane->conn != NULL) {
        loss->lost = 0; /* a call was faster */
    }
    if (!loss->lost) {
        return -1;
    }
    lane->for_keeper = 1;
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    int result = ready(lane);
    lane->for_keeper = 0;
    if (result == 0) {
        loss->lost = 0;
        tell_back(store, jsi_pg_mono(store) - loss->since_ms);
        return -1;
    }
    int64_t most_ms = store->grace_ms / RETRIES_IN_GRACE;
    most_ms = most_ms > RETRY_MAX_MS ? RETRY_MAX_MS : most_ms;
    most_ms = most_ms < RETRY_FIRST_MS ? RETRY_FIRST_MS : most_ms;
    loss->retry_ms = loss->retry_ms == 0 ? RETRY_FIRST_MS : loss->retry_ms * 2;
    loss->retry_ms = loss->retry_ms > most_ms ? (int)most_ms : loss->retry_ms;
    return loss->retry_ms;
}

static void *keep(void *argument)
{
    struct jsi_pg_store *store = argument;
    const struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct loss loss = {.lost = 0};
    for (;;) {
        (void)pthread_mutex_lock(&store->keep_lock);
        int stops = store->stopping;
        int sleep_ms = stops ? 0 : look(store, &loss);
        /* The number may come to mean another file while we sleep. That only wakes us: whoever
         * exchanges the connection wakes us, too. */
        int fd = lane->conn == NULL ? -1 : PQsocket(lane->conn);
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

int jsi_pg_node_start(struct jsi_pg_store *store)
{
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->wake < 0) {
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
        keep_lock(store);
        store->stopping = 1;
        (void)pthread_mutex_unlock(&store->keep_lock);
        wake(store);
        (void)pthread_join(store->keeper, NULL);
        store->keeper_runs = 0;
    }
    if (store->wake >= 0) {
        (void)close(store->wake);
        store->wake = -1;
    }
}
