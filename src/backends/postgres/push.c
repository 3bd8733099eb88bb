/* push.c: LISTEN and NOTIFY, by which nodes hear at once of what others have changed. A hint and no
 * more: what is lost is noticed at the next heartbeat. So both are statements of their own, after those
 * that count: the server's queue of notifications is shared by all applications, and where it is full or
 * broken, whatever wants to use it cannot be committed.
 * Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>

static void warn(struct jsi_pg_store *store)
{
    const jobsched_backend_config *config = &store->config;
    if (atomic_exchange(&store->told_push, 1) != 0 || config->notice == NULL) {
        return;
    }
    char text[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(text, sizeof text,
                   "LISTEN or NOTIFY fails, so what one node changes others notice at their next "
                   "heartbeat only: %.400s",
                   jobsched_last_error()->message);
    config->notice(config->notice_data, JOBSCHED_EVENT_BACKEND_WARNING, text);
}

static int ask(struct jsi_pg_lane *lane, const char *sql)
{
    struct jsi_pg_store *store = lane->store;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, store->config.name_space);
    int result = jsi_pg_query(lane, sql, 0);
    if (result == 0) {
        atomic_store(&store->told_push, 0);
    } else if (lane->conn != NULL) {
        warn(store); /* the server has refused it, and the session goes on */
    }
    return result;
}

int jsi_pg_listen(struct jsi_pg_lane *lane)
{
    int result = ask(lane, "SELECT @S@.listen($1, $2)");
    return lane->conn != NULL ? 0 : result;
}

void jsi_pg_push(struct jsi_pg_lane *lane)
{
    (void)ask(lane, "SELECT @S@.push($1, $2)");
}
