/* driver.c: the postgresql: backend as the engine sees it; opens and closes the store.
 * Locks: opening and closing are never concurrent with anything else on the same store. */
#include "store.h"

#include <string.h>

JOBSCHED_API const jobsched_backend *jobsched_backend_postgresql(void);

static void release(struct jsi_pg_store *store)
{
    jobsched_allocator allocator = store->config.allocator;
    jsi_pg_node_stop(store);
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        jsi_pg_connect_abandon(&store->lanes[i]);
        jsi_pg_disconnect(&store->lanes[i]);
        jsi_pg_text_free(&store->lanes[i].sql);
        jsi_pg_text_free(&store->lanes[i].values);
    }
    (void)pthread_mutex_destroy(&store->keep_lock); /* nobody holds them: calls have ended */
    (void)pthread_mutex_destroy(&store->lock);
    jsi_pg_known_free(store);
    jsi_pg_free(&allocator, store->watches);
    jsi_pg_free(&allocator, store->url);
    jsi_pg_free(&allocator, store);
}

static struct jsi_pg_store *make(const jobsched_backend_config *config)
{
    struct jsi_pg_store *store = jsi_pg_allocate(&config->allocator, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    memset(store, 0, sizeof *store);
    store->config = *config;
    store->wake = -1;
    store->watch_fd = -1;
    store->lost_fd = -1;
    store->keep.lost_ms = JOBSCHED_NONE;
    store->keep.doubt_ms = JOBSCHED_NONE;
    store->keep.look_fd = -1;
    atomic_store(&store->epoch, -1);
    atomic_store(&store->said, -1);
    (void)pthread_mutex_init(&store->keep_lock, NULL); /* cannot fail with default attributes */
    (void)pthread_mutex_init(&store->lock, NULL);
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        struct jsi_pg_lane *lane = &store->lanes[i];
        lane->store = store;
        lane->kind = i;
        lane->sql.allocator = &store->config.allocator;
        lane->values.allocator = &store->config.allocator;
    }
    return store;
}

/* The lane of operators gets its connection when it is first needed. */
static int connect_lanes(struct jsi_pg_store *store)
{
    int asks_only = store->config.control_only;
    struct jsi_pg_lane *lane = &store->lanes[asks_only ? JOBSCHED_LANE_ADMIN : JOBSCHED_LANE_CLAIM];
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    int result = jsi_pg_session_first(lane);
    if (result != 0 || asks_only) {
        return result;
    }
    result = jsi_pg_node_start(store);
    if (result == 0) {
        result = jsi_pg_keep_begin(store, NULL, jsi_pg_budget_left(lane));
    }
    return result == 0 ? jsi_pg_keep_end(store, NULL, 0) : result;
}

static int postgresql_open(const jobsched_backend_config *config, void **out_backend)
{
    if (!PQisthreadsafe()) {
        return jobsched_fail(JOBSCHED_ENOTSUP, 0, "libpq was built without support for threads");
    }
    struct jsi_pg_store *store = make(config);
    if (store == NULL) {
        return JOBSCHED_ENOMEM;
    }
    int result = jsi_pg_url(store);
    if (result == 0) {
        result = connect_lanes(store);
    }
    if (result != 0) {
        release(store);
        return result;
    }
    *out_backend = store;
    return 0;
}

/* A pooler may keep the sessions for others, with what we have set and locked in them. */
static void reset(struct jsi_pg_store *store)
{
    for (int i = 0; i < JOBSCHED_LANE_COUNT && atomic_load(&store->pooled); i++) {
        struct jsi_pg_lane *lane = &store->lanes[i];
        jsi_pg_budget(lane, store->config.request_timeout_ms);
        if (!store->row_mode && lane->conn != NULL && !jsi_pg_is_cut(lane)) {
            (void)jsi_pg_script(lane, "DISCARD ALL");
        }
    }
}

static void leave(struct jsi_pg_store *store)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    /* Where this fails, others find our session gone and do the same. */
    if (jsi_pg_session(lane) == 0) {
        jsi_pg_params(lane);
        jsi_pg_param_int(lane, JSI_PG_VERSION);
        jsi_pg_param_text(lane, store->config.name_space);
        jsi_pg_param_text(lane, store->config.node_id);
        (void)jsi_pg_query(lane, "SELECT @S@.leave($1, $2, $3)", 1);
    }
}

/* The row of a handle that made control calls. Where there is none, one that comes late is refused.
 * Not worth a new connection: where this fails, the nodes' reap finds it in an hour. */
static void forget_commands(struct jsi_pg_store *store)
{
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jsi_pg_budget(lane, store->config.request_timeout_ms);
    if (lane->commands && lane->conn != NULL && !jsi_pg_is_cut(lane)) {
        jsi_pg_params(lane);
        jsi_pg_param_text(lane, store->config.node_id);
        (void)jsi_pg_query(lane, "DELETE FROM @S@.commander WHERE handle = $1", 1);
    }
}

static void postgresql_close(void *backend)
{
    struct jsi_pg_store *store = backend;
    if (store == NULL) {
        return;
    }
    jsi_pg_node_stop(store);
    if (store->config.control_only) {
        forget_commands(store);
    } else {
        leave(store);
    }
    reset(store);
    release(store);
}

static const jobsched_backend driver = {
    .abi = JOBSCHED_BACKEND_ABI,
    .capabilities = JOBSCHED_CAPABILITY_CLUSTER | JOBSCHED_CAPABILITY_DURABLE,
    .scheme = "postgresql",
    .open = postgresql_open,
    .close = postgresql_close,
    .announce = jsi_pg_announce,
    .claim = jsi_pg_claim,
    .finish = jsi_pg_finish,
    .renew = jsi_pg_renew,
    .reap = jsi_pg_reap,
    .control = jsi_pg_control,
    .runs = jsi_pg_runs,
    .find = jsi_pg_find,
    .jobs = jsi_pg_jobs,
    .nodes = jsi_pg_nodes,
    .withdraw = jsi_pg_withdraw,
    .check = jsi_pg_check,
    .watch = jsi_pg_watch_fd,
    .schema = jsi_pg_schema_text,
    .vouch = jsi_pg_vouch,
};

const jobsched_backend *jobsched_backend_postgresql(void)
{
    return &driver;
}
