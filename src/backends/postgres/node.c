/* node.c: our node in the cluster, and the session that holds its liveness lock.
 *
 * A node is alive while that session lives: the server drops the lock with it. So a kill -9 is seen
 * in milliseconds. But a session can also end under a living owner: pg_terminate_backend, a
 * restarted server, a cut connection. Told before taken (G5) rests on this:
 *
 *   The keeper thread and the engine sleep on the session's socket. They see its end as soon as
 *   their kernel does, and at once enter again through a new connection. A taker, on the other
 *   hand, grants nothing before the node's grace has passed since somebody first saw the lock free
 *   (by the server's clock, in the node's row). Entering again clears that stamp, in a transaction
 *   that waits for a taker which has the row. So the node either comes back within its grace, and
 *   its runs go on as if nothing had been; or its calls on lane KEEP fail and tell the engine from
 *   when on the runs may be somebody else's: the grace after the session was last known to live,
 *   less a margin. Such a call returns in half of the time that is left until then.
 *
 *   While runs go on here, the keeper thread looks at the socket some times in each grace, so that
 *   "last known to live" is not long ago even where a thread wakes late.
 *
 *   A restart of the server ends all sessions at once, and their owners need as long as they need
 *   to come back. So takers do not count it as proof (boot() in sql/node.sql), but watch the
 *   heartbeat for a lease; and a node that finds nobody there keeps its runs for their leases.
 *
 *   A statement that is not answered in time says nothing about the session, so it is put aside
 *   and not closed, until a new one has taken its place or it answers after all: a server that
 *   hangs for some seconds costs no runs.
 *
 *   Who freezes sends nothing: the server ends the idle session after the lease, and others watch
 *   the heartbeat stand still for a lease on their own clocks. By then the owner's own deadline,
 *   counted from when it sent the last good heartbeat, has passed, and its runs have been told.
 *   The same holds for a link that dies silently (keepalives and tcp_user_timeout are a lease).
 *
 *   What is left is a cut that only the server sees, as by a middlebox that resets one side: the
 *   keepalives of our side find it out in a second or two, so the grace must be longer than that
 *   where such boxes are.
 *
 * In row mode there is no such session (its lock_key is 0), and a lost connection means nothing.
 *
 * Locks: keep_lock for all use of lane KEEP. A caller that waits for it makes the keeper give up
 * what it is at, so that the wait is short. */
#include "store.h"

#include <sys/epoll.h>

/* What the margin has to cover: rounding, the way of a packet, and a clock that runs faster. */
#define MARGIN_MS    10
#define MARGIN_PARTS 10

/* A call that finds the session lost takes no longer than that, however late it was found. */
#define HURRY_MS 50

static void lock(struct jsi_pg_store *store)
{
    (void)atomic_fetch_add(&store->keep_wanted, 1);
    jsi_pg_keeper_wake(store);
    (void)pthread_mutex_lock(&store->keep_lock);
    (void)atomic_fetch_sub(&store->keep_wanted, 1);
}

int64_t jsi_pg_node_lost_at(const struct jsi_pg_store *store)
{
    const struct jsi_pg_keep *keep = &store->keep;
    if (keep->lost_ms == JOBSCHED_NONE || keep->was_down) {
        return JOBSCHED_NONE;
    }
    return keep->lost_ms + store->grace_ms - store->grace_ms / MARGIN_PARTS - MARGIN_MS;
}

void jsi_pg_node_lost(struct jsi_pg_store *store)
{
    struct jsi_pg_keep *keep = &store->keep;
    if (keep->entered && keep->held == NULL) {
        keep->entered = 0;
        keep->lost_ms = keep->alive_ms;
        keep->was_down = 0;
        keep->told = 0;
    }
}

int jsi_pg_node_hold(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    if (lane->kind != JOBSCHED_LANE_KEEP || !keep->entered || keep->held != NULL) {
        return 0;
    }
    PQclear(lane->result);
    lane->result = NULL;
    keep->held = lane->conn;
    lane->conn = NULL;
    return 1;
}

/* The session that was put aside may have been answered meanwhile, or have ended. */
static void take_up(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    int left = jsi_pg_drain(keep->held);
    if (left > 0) {
        return;
    }
    PGconn *conn = keep->held;
    keep->held = NULL;
    if (left < 0) {
        PQfinish(conn);
        jsi_pg_node_lost(lane->store);
    } else {
        lane->conn = conn;
    }
}

static void entered(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    struct jsi_pg_keep *keep = &store->keep;
    PQfinish(keep->held);
    *keep = (struct jsi_pg_keep){.entered = 1,
                                 .alive_ms = lane->started_ms,
                                 .lost_ms = JOBSCHED_NONE,
                                 .began_ms = keep->began_ms};
    if (store->watch_fd >= 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
        /* Fails when it is there already. One that is closed leaves by itself. */
        (void)epoll_ctl(store->watch_fd, EPOLL_CTL_ADD, PQsocket(lane->conn), &event);
    }
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
    jsi_pg_param_text(lane, store->row_mode ? "false" : "true");
    int result =
        jsi_pg_query(lane, "SELECT o_now FROM @S@.enter($1, $2, $3, $4, $5, $6, $7, $8)", 1);
    if (result != 0) {
        jsi_pg_disconnect(lane); /* it may have the lock without the row, or the other way */
    } else if (!store->row_mode) {
        entered(lane);
    }
    return result;
}

/* The engine must hear of a loss while there is time to act on it. */
static void hurry(struct jsi_pg_lane *lane)
{
    const struct jsi_pg_store *store = lane->store;
    int64_t lost_at_ms = jsi_pg_node_lost_at(store), now_ms = jsi_pg_mono(store);
    if (lost_at_ms == JOBSCHED_NONE || (store->keep.told && lost_at_ms <= now_ms)) {
        return;
    }
    int64_t left_ms = (lost_at_ms - now_ms) / 2;
    int64_t budget_ms = now_ms - lane->started_ms + (left_ms > HURRY_MS ? left_ms : HURRY_MS);
    lane->budget_ms = budget_ms < lane->budget_ms ? budget_ms : lane->budget_ms;
}

int jsi_pg_node_ready(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    if (keep->held != NULL && lane->conn == NULL) {
        take_up(lane);
    }
    if (lane->conn != NULL && !jsi_pg_is_cut(lane)) {
        return 0;
    }
    if (lane->conn != NULL) {
        jsi_pg_disconnect(lane);
    }
    hurry(lane);
    /* A new session of this lane is entered before it is used for anything else. */
    int result = jsi_pg_session(lane);
    if (result == 0) {
        return jsi_pg_node_enter(lane);
    }
    if (keep->lost_ms != JOBSCHED_NONE && lane->is_down) {
        keep->was_down = 1;
    }
    return result;
}

static void leave(struct jsi_pg_store *store)
{
    (void)pthread_mutex_unlock(&store->keep_lock);
    jsi_pg_keeper_wake(store); /* there may be another connection to watch */
}

static void tell(struct jsi_pg_store *store, jobsched_call *call)
{
    if (call != NULL) {
        call->lost_at_mono_ms = jsi_pg_node_lost_at(store);
        store->keep.told = 1;
    }
}

int jsi_pg_keep_begin(struct jsi_pg_store *store, jobsched_call *call, int64_t timeout_ms)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    lock(store);
    jsi_pg_budget(lane, timeout_ms);
    store->keep.began_ms = lane->started_ms;
    int result = jsi_pg_node_ready(lane);
    if (result != 0) {
        tell(store, call);
        leave(store);
    }
    return result;
}

int jsi_pg_keep_end(struct jsi_pg_store *store, jobsched_call *call, int result)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    if (result != 0) {
        tell(store, call);
    } else if (lane->conn != NULL) {
        if (store->keep.alive_ms < store->keep.began_ms) {
            store->keep.alive_ms = store->keep.began_ms; /* it has answered something since */
        }
        for (PGnotify *push; (push = PQnotifies(lane->conn)) != NULL;) {
            PQfreemem(push); /* that there was one is all it says */
        }
    }
    leave(store);
    return result;
}

int jsi_pg_node_enter_for(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    int64_t before_ms = jsi_pg_mono(store);
    int result = jsi_pg_keep_begin(store, NULL, jsi_pg_budget_left(lane));
    if (result != 0) {
        return result;
    }
    /* The session may be there and the row gone: only the server knows. */
    result = jsi_pg_node_enter(&store->lanes[JOBSCHED_LANE_KEEP]);
    (void)jsi_pg_keep_end(store, NULL, result);
    int64_t passed_ms = jsi_pg_mono(store) - before_ms;
    lane->waited_ms += passed_ms > 0 ? passed_ms : 0;
    return result;
}
