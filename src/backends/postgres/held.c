/* held.c: what the node says to a server that may have forgotten it (a promoted standby, a restored
 * backup): the runs that it holds, see sql/held.sql. It says it when it enters, before lane KEEP is
 * used for anything else, and lane CLAIM waits for that: so no run is told that it is gone, or
 * ended in vain, because the server did not know of it yet.
 * Locks: the caller has lane KEEP. */
#include "store.h"

#include <string.h>

enum column {
    JOB,
    REQUEST,
    TOKEN,
    SCHEDULED,
    AFTER,
    STARTED,
    LEASE,
    ATTEMPT,
    KIND,
    RECOVER,
    LIMIT,
    COLUMNS
};

static void add_grant(struct jsi_pg_lane *lane, const struct jsi_pg_grant *grant, int column)
{
    const int64_t numbers[COLUMNS] = {
        [TOKEN] = (int64_t)grant->token,
        [SCHEDULED] = grant->scheduled_ms,
        [AFTER] = grant->after_ms,
        [STARTED] = grant->started_ms,
        [LEASE] = grant->lease_ms,
        [ATTEMPT] = grant->attempt,
        [KIND] = grant->kind,
        [RECOVER] = grant->recover,
        [LIMIT] = grant->recover_limit,
    };
    if (column == JOB || column == REQUEST) {
        jsi_pg_param_text(lane, column == JOB ? grant->job : grant->request);
    } else {
        jsi_pg_param_int(lane, numbers[column]);
    }
}

static int hold_again(struct jsi_pg_lane *lane, struct jsi_pg_grant *const *grants, size_t count)
{
    const jobsched_backend_config *config = &lane->store->config;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_text(lane, config->node_name);
    for (int column = 0; column < COLUMNS; column++) {
        jsi_pg_array_begin(lane);
        for (size_t i = 0; i < count; i++) {
            add_grant(lane, grants[i], column);
        }
        jsi_pg_array_end(lane);
    }
    return jsi_pg_query(lane,
                        "SELECT o_now FROM @S@.hold_again($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
                        "$11, $12, $13, $14, $15)",
                        1);
}

static int hold_all(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    size_t count, chunk = (size_t)atomic_load(&store->chunk);
    struct jsi_pg_grant **grants = jsi_pg_known_grants(store, &count);
    int result = grants == NULL && count > 0 ? JOBSCHED_ENOMEM : 0;
    for (size_t done = 0; result == 0 && done < count; done += chunk) {
        result = hold_again(lane, grants + done, count - done < chunk ? count - done : chunk);
    }
    for (size_t i = 0; grants != NULL && i < count; i++) {
        jsi_pg_free(&store->config.allocator, grants[i]);
    }
    jsi_pg_free(&store->config.allocator, grants);
    return result;
}

/* Each round ends up to a chunk of runs, until there are none behind the last. */
static int let_go(struct jsi_pg_lane *lane, int *out_left)
{
    const jobsched_backend_config *config = &lane->store->config;
    int64_t after = 0;
    *out_left = 0;
    for (;;) {
        jsi_pg_params(lane);
        jsi_pg_param_int(lane, JSI_PG_VERSION);
        jsi_pg_param_text(lane, config->name_space);
        jsi_pg_param_text(lane, config->node_id);
        if (!jsi_pg_known_all_params(lane)) {
            return 0; /* one that we do not remember may go on */
        }
        jsi_pg_param_int(lane, after);
        jsi_pg_param_int(lane, atomic_load(&lane->store->chunk));
        int result = jsi_pg_query(
            lane, "SELECT o_last, o_left FROM @S@.let_go($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            1);
        if (result != 0 || jsi_pg_get(lane, 0, 0)[0] == '\0') {
            return result;
        }
        after = jsi_pg_int(lane, 0, 0);
        *out_left |= jsi_pg_int(lane, 0, 1) > 0;
    }
}

int jsi_pg_say(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    unsigned unsaid = atomic_load(&store->unsaid); /* before the copy that is said is made */
    int64_t said = atomic_load(&store->said);
    int left = 0;
    if (said == lane->epoch) {
        return 0;
    }
    int result = said < 0 ? 0 : hold_all(lane); /* who has just come holds nothing */
    if (result == 0 && said >= 0) {
        result = let_go(lane, &left);
    }
    /* What is left waits for somebody's transaction: nothing else of this node's does. The next call
     * of lane CLAIM says it again. */
    if (result == 0 && !left) {
        jsi_pg_said(lane, unsaid);
    }
    return result;
}
