/* lane.c: a connection, and the time that it may take.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <poll.h>
#include <unistd.h>

/* Longer than anybody waits; keeps sums of it in range. */
#define BUDGET_MAX_MS 86400000

/* What one poll() takes at most: an injected clock may stand still, so waits are counted. */
#define SLICE_MS 100

int64_t jsi_pg_mono(const struct jsi_pg_store *store)
{
    return store->config.clock.mono_ms(store->config.clock.ctx);
}

void jsi_pg_budget(struct jsi_pg_lane *lane, int64_t timeout_ms)
{
    lane->budget_ms = timeout_ms < 0 ? 0 : timeout_ms > BUDGET_MAX_MS ? BUDGET_MAX_MS : timeout_ms;
    lane->waited_ms = 0;
    lane->started_ms = jsi_pg_mono(lane->store);
}

int64_t jsi_pg_budget_left(const struct jsi_pg_lane *lane)
{
    int64_t passed_ms = jsi_pg_mono(lane->store) - lane->started_ms;
    int64_t left_ms = lane->budget_ms - (lane->waited_ms > passed_ms ? lane->waited_ms : passed_ms);
    return left_ms > 0 ? left_ms : 0;
}

int jsi_pg_wait(struct jsi_pg_lane *lane, int fd, short events)
{
    struct jsi_pg_store *store = lane->store;
    for (;;) {
        int64_t left_ms = jsi_pg_budget_left(lane);
        if (left_ms == 0 || (lane->for_keeper && atomic_load(&store->stopping))) {
            return 0;
        }
        int slice_ms = left_ms < SLICE_MS ? (int)left_ms : SLICE_MS;
        struct pollfd looks[2] = {{.fd = fd, .events = events},
                                  {.fd = lane->for_keeper ? store->wake : -1, .events = POLLIN}};
        int ready = poll(looks, 2, slice_ms);
        if (ready == 0) {
            lane->waited_ms += slice_ms;
        } else if (looks[0].revents != 0) {
            return 1;
        } else if (looks[1].revents != 0) {
            uint64_t unused;
            (void)!read(store->wake, &unused, sizeof unused); /* the keeper looks at all anyway */
        }
    }
}

int jsi_pg_is_hung_up(const PGconn *conn)
{
    struct pollfd look = {.fd = PQsocket(conn), .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0 && look.revents != 0;
}

int jsi_pg_is_cut(struct jsi_pg_lane *lane)
{
    if (PQstatus(lane->conn) != CONNECTION_OK) {
        return 1;
    }
    struct pollfd look = {.fd = PQsocket(lane->conn), .events = POLLIN | POLLRDHUP};
    if (poll(&look, 1, 0) <= 0) {
        return 0;
    }
    /* Perhaps only a notice. */
    if (!PQconsumeInput(lane->conn)) {
        return 1;
    }
    PGnotify *unused = PQnotifies(lane->conn); /* makes libpq read what has come */
    PQfreemem(unused);
    /* The server says why before it closes. */
    return PQstatus(lane->conn) != CONNECTION_OK || lane->notice[0] != '\0' ||
           (look.revents & (POLLRDHUP | POLLHUP)) != 0;
}

void jsi_pg_disconnect(struct jsi_pg_lane *lane)
{
    if (lane->kind == JOBSCHED_LANE_KEEP && lane->conn != NULL) {
        jsi_pg_node_lost(lane);
    }
    PQclear(lane->result);
    lane->result = NULL;
    PQfinish(lane->conn);
    lane->conn = NULL;
}
