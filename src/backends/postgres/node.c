/* node.c: our node in the cluster, and the session that holds its liveness lock.
 *
 * A node is alive while that session lives: the server drops the lock with it. So a kill -9 is seen
 * in milliseconds. But a session can also end under a living owner: pg_terminate_backend, a
 * restarted server, a cut connection. Told before taken (G5) rests on this:
 *
 *   The keeper thread and the engine sleep on the session's socket. They see its end as soon as
 *   their kernel does, and at once the keeper enters again through a new connection. A taker, on the other
 *   hand, grants nothing before the node's grace has passed since somebody first saw the lock free
 *   (by the server's clock, in the node's row). Entering again clears that stamp, in a transaction
 *   that waits for a taker which has the row. So the node either comes back within its grace, and
 *   its runs go on as if nothing had been; or its calls on lane KEEP fail and tell the engine from
 *   when on the runs may be somebody else's: the grace after the session was last known to live,
 *   less a margin. Such a call returns in half of the time that is left until then.
 *
 *   While runs go on here, the keeper thread looks at the socket some times in each grace, so that
 *   "last known to live" is not long ago even where a thread wakes late. Where it does not wake at
 *   all, the run's own question looks (jsi_pg_vouch).
 *
 *   A node that comes back later than its grace may have lost runs that it believes in. So it vouches
 *   for none until the engine has heard of all, and does not trust a grant that was under way.
 *
 *   A restart of the server ends all sessions at once, and their owners need as long as they need
 *   to come back. So takers do not count it as proof (boot() in sql/node.sql), but watch the
 *   heartbeat for a lease; and a node that was told goodbye by the server, and finds nobody there,
 *   keeps its runs for their leases. That nobody is there proves nothing by itself: a firewall, or a
 *   proxy that is gone, refuses as well.
 *
 *   A statement that is not answered in time says nothing about the session, so it is put aside
 *   and not closed, until a new one has taken its place, or may have, or it answers after all: a
 *   server that hangs for some seconds costs no runs.
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
 * Locks: takes keep_lock, never over a call of libpq. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the margin has to cover: rounding, the way of a packet, and a clock that runs faster. */
#define MARGIN_MS    10
#define MARGIN_PARTS 10

/* A call that finds the session lost takes no longer than that, however late it was found. */
#define HURRY_MS 50

/* A shorter grace is not vouched for, or a look would be worth less than what the engine takes off
 * for its margin: then only the keeper thread's calls tell. */
#define VOUCHED_GRACE_MIN_MS 200

/* What part of its time a call gives to the answer to an earlier one. */
#define ANSWER_PARTS 4

/* Between two looks whether lane KEEP is free, or the keeper thread has brought the node back. */
#define NAP_MS 2

static void lock(struct jsi_pg_store *store)
{
    (void)pthread_mutex_lock(&store->keep_lock);
}

static void unlock(struct jsi_pg_store *store)
{
    (void)pthread_mutex_unlock(&store->keep_lock);
}

/* From when on others may be granted this node's runs, if its session ended right after that. */
static int64_t taken_from(const struct jsi_pg_store *store, int64_t alive_ms)
{
    return alive_ms + store->grace_ms - store->grace_ms / MARGIN_PARTS - MARGIN_MS;
}

/* From when on others may be granted this node's runs; JOBSCHED_NONE: not before their leases. */
static int64_t lost_at_locked(const struct jsi_pg_store *store)
{
    const struct jsi_pg_keep *keep = &store->keep;
    if (keep->doubt_ms != JOBSCHED_NONE) {
        return keep->doubt_ms;
    }
    if (keep->lost_ms == JOBSCHED_NONE || keep->was_down) {
        return JOBSCHED_NONE;
    }
    return taken_from(store, keep->lost_ms);
}

/* Until when they are not, by what is known of a session that lives; JOBSCHED_NONE: the same. */
static int64_t kept_until_locked(const struct jsi_pg_store *store)
{
    int is_vouched = store->keep.entered && store->grace_ms >= VOUCHED_GRACE_MIN_MS;
    return is_vouched ? taken_from(store, store->keep.alive_ms) : JOBSCHED_NONE;
}

/* Whether the socket shows no end. An idle session that is sent an error is about to end: the server
 * says so, drops the lock, and closes the socket last, all of which takes a while where it is busy.
 * (Inside TLS that cannot be seen; an alert can.) */
static int looks_alive_locked(const struct jsi_pg_store *store, int idle)
{
    enum { ERROR_MESSAGE = 'E', TLS_ALERT = 0x15 };
    int fd = store->keep.look_fd;
    struct pollfd look = {.fd = fd, .events = POLLIN | POLLRDHUP};
    if (fd < 0 || poll(&look, 1, 0) < 0 || (look.revents & ~POLLIN) != 0) {
        return 0;
    }
    unsigned char first;
    return (look.revents & POLLIN) == 0 || !idle ||
           recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1 ||
           (first != ERROR_MESSAGE && first != TLS_ALERT);
}

static void look_locked(struct jsi_pg_store *store, int idle)
{
    struct jsi_pg_keep *keep = &store->keep;
    int64_t now_ms = jsi_pg_mono(store); /* before the look: it may end right after */
    if (keep->entered && !keep->entering && looks_alive_locked(store, idle) &&
        keep->alive_ms < now_ms) {
        keep->alive_ms = now_ms;
    }
}

void jsi_pg_node_look(struct jsi_pg_store *store, int idle)
{
    lock(store);
    look_locked(store, idle);
    unlock(store);
}

int64_t jsi_pg_vouch(void *backend)
{
    struct jsi_pg_store *store = backend;
    if (store->row_mode) {
        return JOBSCHED_NONE;
    }
    lock(store);
    look_locked(store, !store->keep.busy);
    int64_t lost_at_ms = lost_at_locked(store), kept_until_ms = kept_until_locked(store);
    unlock(store);
    return lost_at_ms < kept_until_ms ? lost_at_ms : kept_until_ms;
}

/* A descriptor of our own, because libpq closes its own when it likes. Whoever has the old number
 * would look at something else. Returns whether there is one. */
static int look_at_locked(struct jsi_pg_store *store, const PGconn *conn)
{
    struct jsi_pg_keep *keep = &store->keep;
    if (keep->look_fd >= 0) {
        (void)close(keep->look_fd);
    }
    keep->look_fd = conn == NULL ? -1 : fcntl(PQsocket(conn), F_DUPFD_CLOEXEC, 0);
    return keep->look_fd >= 0;
}

void jsi_pg_node_lost(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    lock(lane->store);
    if (keep->entered && keep->held == NULL) {
        keep->entered = 0;
        keep->lost_ms = keep->alive_ms;
        keep->said = jsi_pg_is_farewell(lane->notice);
        keep->was_down = 0;
        (void)look_at_locked(lane->store, NULL);
        keep->told = 0;
        /* Where the session was idle for a lease, there is nothing left to defend. */
        keep->recovers = strcmp(lane->notice, "57P05") != 0;
        /* The engine must ask, also when the socket is gone before it has looked. */
        uint64_t one = 1;
        (void)!write(lane->store->lost_fd, &one, sizeof one);
    }
    unlock(lane->store);
}

int jsi_pg_node_hold(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    if (lane->kind != JOBSCHED_LANE_KEEP || !keep->entered || keep->entering ||
        keep->held != NULL) {
        return 0;
    }
    PQclear(lane->result);
    lane->result = NULL;
    lock(lane->store);
    keep->held = lane->conn;
    unlock(lane->store);
    lane->conn = NULL;
    return 1;
}

/* The session that was put aside may have been answered meanwhile, or have ended. A part of the call's
 * time is for that: the answer may be on its way. */
static void take_up(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    int64_t budget_ms = lane->budget_ms;
    lane->budget_ms = budget_ms / ANSWER_PARTS;
    int left;
    do {
        left = jsi_pg_drain(keep->held);
    } while (left > 0 && jsi_pg_wait(lane, PQsocket(keep->held), POLLIN));
    lane->budget_ms = budget_ms;
    if (left > 0) {
        return;
    }
    PGconn *conn = keep->held;
    lock(lane->store);
    keep->held = NULL;
    unlock(lane->store);
    if (left < 0) {
        jsi_pg_node_lost(lane);
        PQfinish(conn);
    } else {
        lane->conn = conn;
    }
}

static void entered(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    struct jsi_pg_keep *keep = &store->keep;
    PGconn *before = keep->held;
    lock(store);
    int64_t lost_at_ms = lost_at_locked(store);
    if (keep->entered && before == NULL && kept_until_locked(store) < lost_at_ms) {
        lost_at_ms = kept_until_locked(store); /* it gave its lock up for another one */
    }
    if (lost_at_ms <= jsi_pg_mono(store)) {
        /* Too late: who has taken runs meanwhile does not give them back. */
        keep->doubt_ms = lost_at_ms;
        keep->doubt_ends = 0;
        (void)atomic_fetch_add(&store->lates, 1);
    }
    keep->entered = 1;
    keep->entering = 0;
    keep->entries++;
    keep->held = NULL;
    keep->alive_ms = lane->started_ms;
    keep->lost_ms = JOBSCHED_NONE;
    keep->recovers = 0;
    unlock(store);
    PQfinish(before);
    if (store->watch_fd >= 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
        /* Fails when it is there already. One that is closed leaves by itself. */
        (void)epoll_ctl(store->watch_fd, EPOLL_CTL_ADD, PQsocket(lane->conn), &event);
    }
}

/* While the server is asked to enter the node, and when it may have done so, the lock of the session
 * before says nothing: others look at the one that the row names. */
static void enter_begins(struct jsi_pg_store *store)
{
    lock(store);
    look_locked(store, 0);
    store->keep.entering = !store->row_mode;
    unlock(store);
}

static void enter_fails(struct jsi_pg_lane *lane, int may_have)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    PGconn *before = NULL;
    lock(lane->store);
    if (may_have) {
        before = keep->held;
        keep->held = NULL;
    }
    unlock(lane->store);
    if (before != NULL) {
        jsi_pg_node_lost(lane);
        PQfinish(before);
    }
    jsi_pg_disconnect(lane); /* it may have the lock without the row, or the other way */
    lock(lane->store);
    keep->entering = 0;
    unlock(lane->store);
}

/* A session that cannot be looked at vouches for nothing, so it is as good as none. */
static int look_at(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    lock(store);
    int failed = store->row_mode || look_at_locked(store, lane->conn) ? 0 : errno;
    unlock(store);
    return failed == 0
               ? 0
               : jobsched_fail(JOBSCHED_EUNREACHABLE, failed,
                               "no descriptor to watch the session with '%s'", store->place);
}

int jsi_pg_node_enter(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    const jobsched_backend_config *config = &store->config;
    enter_begins(store);
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_text(lane, config->node_name);
    jsi_pg_param_text(lane, config->app_version == NULL ? "" : config->app_version);
    jsi_pg_param_int(lane, config->lease_ms);
    jsi_pg_param_int(lane, store->grace_ms);
    jsi_pg_param_text(lane, store->row_mode ? "false" : "true");
    jsi_pg_param_int(lane, atomic_load(&store->claim_nonce));
    jsi_pg_param_int(lane, atomic_fetch_add(&store->nonces, 1) + 1);
    int result = jsi_pg_query(
        lane, "SELECT o_now FROM @S@.enter($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", 1);
    int may_have = result == 0 || result == JOBSCHED_EUNKNOWN;
    if (result == 0) {
        result = jsi_pg_say(lane);
    }
    if (result == 0) {
        result = look_at(lane);
    }
    if (result != 0) {
        enter_fails(lane, may_have);
    } else if (!store->row_mode) {
        entered(lane);
        result = jsi_pg_listen(lane);
    }
    return result;
}

int jsi_pg_node_return(struct jsi_pg_lane *lane)
{
    struct jsi_pg_keep *keep = &lane->store->keep;
    /* A new session of this lane is entered before it is used for anything else. */
    int result = jsi_pg_session(lane);
    if (result == 0) {
        return jsi_pg_node_enter(lane);
    }
    if (lane->is_down == JSI_PG_IS_DOWN || (lane->is_down == JSI_PG_IS_REFUSED && keep->said)) {
        lock(lane->store);
        keep->was_down = 1;
        unlock(lane->store);
    }
    return result;
}

/* Whether the lane has the session that shows the node alive. */
static int is_usable(struct jsi_pg_lane *lane)
{
    if (lane->store->keep.held != NULL && lane->conn == NULL) {
        take_up(lane);
    }
    if (lane->conn != NULL && jsi_pg_is_cut(lane)) {
        jsi_pg_disconnect(lane);
    }
    return lane->conn != NULL;
}

/* The time of a call while it does not have the lane. */
struct patience {
    int64_t limit_ms, started_ms, waited_ms;
};

static int64_t left(const struct jsi_pg_store *store, const struct patience *patience)
{
    int64_t passed_ms = jsi_pg_mono(store) - patience->started_ms;
    passed_ms = patience->waited_ms > passed_ms ? patience->waited_ms : passed_ms;
    return patience->limit_ms > passed_ms ? patience->limit_ms - passed_ms : 0;
}

/* Gives the lock up for a moment. */
static void nap_locked(struct jsi_pg_store *store, struct patience *patience)
{
    unlock(store);
    (void)poll(NULL, 0, NAP_MS);
    patience->waited_ms += NAP_MS;
    lock(store);
}

/* The engine must hear of a loss while there is time to act on it. */
static void hurry_locked(const struct jsi_pg_store *store, struct patience *patience)
{
    int64_t lost_at_ms = lost_at_locked(store), now_ms = jsi_pg_mono(store);
    if (lost_at_ms == JOBSCHED_NONE || (store->keep.told && lost_at_ms <= now_ms)) {
        return;
    }
    int64_t most_ms = (lost_at_ms - now_ms) / 2;
    int64_t limit_ms = now_ms - patience->started_ms + (most_ms > HURRY_MS ? most_ms : HURRY_MS);
    patience->limit_ms = limit_ms < patience->limit_ms ? limit_ms : patience->limit_ms;
}

/* Waits for the lane. Where the node is to be entered again, that is the keeper thread's work, which
 * goes on over as many calls as it takes; then the result is its failure, or that it takes long. One
 * failure says little (a server that is going down ends what is being made): while there is time, the
 * next one may say that nobody is there, or there may be none. */
static int take_locked(struct jsi_pg_store *store, struct patience *patience, unsigned tries)
{
    struct jsi_pg_keep *keep = &store->keep;
    for (;;) {
        int recovers = keep->recovers && store->keeper_runs;
        if (!keep->busy && !recovers) {
            keep->busy = 1;
            return 0;
        }
        if (recovers) {
            hurry_locked(store, patience);
        }
        int64_t left_ms = left(store, patience);
        if (recovers && keep->tries != tries && (keep->was_down || left_ms == 0)) {
            return jobsched_fail(keep->failure, 0, "%s", keep->message);
        }
        if (left_ms == 0) {
            return jobsched_fail(JOBSCHED_EUNREACHABLE, 0, "%s '%s' within %lld ms",
                                 recovers ? "the session was lost, and there is no new one with"
                                          : "other calls have kept the session with",
                                 store->place, (long long)patience->limit_ms);
        }
        nap_locked(store, patience);
    }
}

static void tell(struct jsi_pg_store *store, jobsched_call *call)
{
    if (call != NULL) {
        lock(store);
        call->lost_at_mono_ms = lost_at_locked(store);
        store->keep.told = 1;
        unlock(store);
    }
}

int jsi_pg_keep_try(struct jsi_pg_store *store)
{
    lock(store);
    int is_free = !store->keep.busy;
    store->keep.busy = 1;
    unlock(store);
    return is_free;
}

void jsi_pg_keep_leave(struct jsi_pg_store *store)
{
    lock(store);
    store->keep.busy = 0;
    unlock(store);
}

int jsi_pg_keep_begin(struct jsi_pg_store *store, jobsched_call *call, int64_t timeout_ms)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct jsi_pg_keep *keep = &store->keep;
    struct patience patience = {.limit_ms = timeout_ms, .started_ms = jsi_pg_mono(store)};
    int result;
    if (call != NULL) {
        uint64_t unused;
        (void)!read(store->lost_fd, &unused, sizeof unused); /* fails where there is none */
        lock(store);
        if (keep->doubt_ends) {
            keep->doubt_ms = JOBSCHED_NONE;
            keep->doubt_ends = 0;
        }
        unlock(store);
    }
    for (;;) {
        lock(store);
        result = take_locked(store, &patience, keep->tries);
        unlock(store);
        if (result != 0) {
            break;
        }
        jsi_pg_budget(lane, left(store, &patience));
        keep->began_ms = lane->started_ms;
        if (is_usable(lane)) {
            return 0;
        }
        if (!keep->recovers || !store->keeper_runs) {
            result = jsi_pg_node_return(lane);
            if (result == 0) {
                return 0;
            }
        }
        jsi_pg_keep_leave(store);
        jsi_pg_keeper_wake(store);
        if (result != 0) {
            break;
        }
    }
    tell(store, call);
    return result;
}

/* Before a loss is told there is time for the keeper thread to make it undone, or to find out that the
 * server is down. */
static void await_keeper(struct jsi_pg_store *store, int64_t left_ms)
{
    struct jsi_pg_keep *keep = &store->keep;
    struct patience patience = {.limit_ms = left_ms, .started_ms = jsi_pg_mono(store)};
    lock(store);
    while (keep->recovers && store->keeper_runs && !keep->was_down) {
        hurry_locked(store, &patience);
        if (left(store, &patience) == 0) {
            break;
        }
        nap_locked(store, &patience);
    }
    unlock(store);
}

int jsi_pg_keep_end(struct jsi_pg_store *store, jobsched_call *call, int result)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    struct jsi_pg_keep *keep = &store->keep;
    if (result != 0) {
        int64_t left_ms = jsi_pg_budget_left(lane);
        jsi_pg_keep_leave(store);
        jsi_pg_keeper_wake(store);
        if (call != NULL) {
            await_keeper(store, left_ms);
        }
        tell(store, call);
        return result;
    }
    if (lane->conn != NULL) {
        lock(store); /* it has answered something since then */
        keep->alive_ms = keep->alive_ms < keep->began_ms ? keep->began_ms : keep->alive_ms;
        unlock(store);
        for (PGnotify *push; (push = PQnotifies(lane->conn)) != NULL;) {
            PQfreemem(push); /* that there was one is all it says */
        }
    }
    jsi_pg_keep_leave(store);
    jsi_pg_keeper_wake(store); /* there may be another connection to watch */
    return result;
}

void jsi_pg_node_round(struct jsi_pg_store *store)
{
    lock(store);
    if (!store->keep.amid_round) {
        store->keep.round_entries = store->keep.entries;
    }
    unlock(store);
}

void jsi_pg_node_renewed(struct jsi_pg_store *store, int result, int full)
{
    struct jsi_pg_keep *keep = &store->keep;
    lock(store);
    keep->amid_round = result == 0 && full;
    keep->doubt_ends |= result == 0 && !full && keep->round_entries == keep->entries;
    unlock(store);
}

int jsi_pg_node_check(struct jsi_pg_store *store, unsigned lates)
{
    const struct jsi_pg_keep *keep = &store->keep;
    lock(store);
    look_locked(store, !keep->busy);
    int64_t until_ms = keep->entered ? kept_until_locked(store) : lost_at_locked(store);
    unlock(store);
    if (atomic_load(&store->lates) == lates && jsi_pg_mono(store) < until_ms) {
        return 0;
    }
    return jobsched_fail(JOBSCHED_EUNKNOWN, 0,
                         "the session with '%s' that shows this node alive was lost before a grant "
                         "was heard of",
                         store->place);
}

int jsi_pg_node_enter_for(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    int64_t before_ms = jsi_pg_mono(store);
    int result = jsi_pg_keep_begin(store, NULL, jsi_pg_budget_left(lane));
    if (result != 0) {
        return result;
    }
    struct jsi_pg_lane *keep = &store->lanes[JOBSCHED_LANE_KEEP];
    if (keep->epoch != lane->epoch || keep->is_stale) {
        jsi_pg_disconnect(keep); /* that one is still with another server */
        result = jsi_pg_node_return(keep);
    } else {
        /* The session may be there and the row gone: only the server knows. */
        result = jsi_pg_node_enter(keep);
    }
    (void)jsi_pg_keep_end(store, NULL, result);
    int64_t passed_ms = jsi_pg_mono(store) - before_ms;
    lane->waited_ms += passed_ms > 0 ? passed_ms : 0;
    return result;
}
