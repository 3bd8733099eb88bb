/* driver.c: the redis: backend as the engine sees it; opens and closes the store.
 * Locks: opening and closing are never concurrent with anything else on the same store. */
#include "store.h"

#include <string.h>

JOBSCHED_API const jobsched_backend *jobsched_backend_redis(void);

static void release(struct jsi_redis_store *store)
{
    jobsched_allocator allocator = store->config.allocator;
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        jsi_redis_disconnect(&store->lanes[i]);
        jsi_redis_text_free(&store->lanes[i].body);
        jsi_redis_text_free(&store->lanes[i].out);
        jsi_redis_lookup_free(&store->lanes[i]);
    }
    jsi_redis_push_close(store);
    jsi_redis_text_free(&store->push.body);
    jsi_redis_text_free(&store->push.out);
    jsi_redis_lookup_free(&store->push);
    (void)pthread_mutex_destroy(&store->lock); /* nobody holds it: calls have ended */
    jsi_redis_known_free(store);
    jsi_redis_free(&allocator, store->watches);
    jsi_redis_free(&allocator, store->meta_key);
    if (store->url != NULL) {
        explicit_bzero(store->url, store->url_bytes);
    }
    jsi_redis_free(&allocator, store->url);
    jsi_redis_free(&allocator, store);
}

static void init_lane(struct jsi_redis_store *store, struct jsi_redis_lane *lane, int kind)
{
    lane->store = store;
    lane->kind = kind;
    lane->fd = -1;
    lane->body.allocator = &store->config.allocator;
    lane->out.allocator = &store->config.allocator;
}

static struct jsi_redis_store *make(const jobsched_backend_config *config)
{
    struct jsi_redis_store *store = jsi_redis_allocate(&config->allocator, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    memset(store, 0, sizeof *store);
    store->config = *config;
    memcpy(store->rerun_after, "0", 2);
    memcpy(store->trigger_after, "0", 2);
    memcpy(store->sweep_after, "0", 2);
    (void)pthread_mutex_init(&store->lock, NULL); /* cannot fail with default attributes */
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        init_lane(store, &store->lanes[i], i);
    }
    init_lane(store, &store->push, JOBSCHED_LANE_KEEP);
    store->push_at_ms = INT64_MIN;
    store->push_delay_ms = 250;
    return store;
}

static struct jsi_redis_lane *first_lane(struct jsi_redis_store *store)
{
    return &store->lanes[store->config.control_only ? JOBSCHED_LANE_ADMIN : JOBSCHED_LANE_CLAIM];
}

/* The first connection also loads the scripts. That of operators is made when it is needed, unless
 * it is the only one. */
static int connect_lanes(struct jsi_redis_store *store)
{
    struct jsi_redis_lane *lane = first_lane(store);
    jsi_redis_budget(lane, store->config.request_timeout_ms);
    int result = jsi_redis_session(lane, 0);
    if (result == 0 && !store->config.control_only) {
        struct jsi_redis_lane *keep = &store->lanes[JOBSCHED_LANE_KEEP];
        jsi_redis_budget(keep, jsi_redis_budget_left(lane));
        result = jsi_redis_session(keep, 0);
    }
    return result;
}

static void add_leave(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                      size_t count)
{
    (void)job;
    (void)first;
    (void)count;
    jsi_redis_add_unsigned(lane, lane->store->told_batch);
    jsi_redis_add_unsigned(lane, lane->store->told_count);
}

static int take_leave(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                      const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)job;
    (void)reply;
    (void)first;
    (void)count;
    return 0;
}

/* Where this fails, others see our heartbeat stand still and do the same. */
static void leave(struct jsi_redis_store *store)
{
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM,
                          .timeout_ms = store->config.request_timeout_ms};
    const struct jsi_redis_job job = {
        .script = JSI_SCRIPT_leave, .writes = 1, .add = add_leave, .take = take_leave};
    /* Only to be forgotten, a handle that has entered no node makes no connection. */
    if (!store->config.control_only || store->lanes[JOBSCHED_LANE_ADMIN].fd >= 0) {
        (void)jsi_redis_run(first_lane(store), &call, &job);
    }
}

/* Nothing is left behind of a node that could not be opened; and the reason is still told. */
static void forget_entry(struct jsi_redis_store *store)
{
    jobsched_error error = *jobsched_last_error();
    leave(store);
    (void)jobsched_fail(error.code, error.system_errno, "%s", error.message);
}

static int redis_open(const jobsched_backend_config *config, void **out_backend)
{
    struct jsi_redis_store *store = make(config);
    if (store == NULL) {
        return JOBSCHED_ENOMEM;
    }
    int result = jsi_redis_url(store);
    if (result == 0) {
        store->meta_key = jsi_redis_key(store, "meta");
        result = store->meta_key == NULL ? JOBSCHED_ENOMEM : 0;
    }
    if (result == 0) {
        result = connect_lanes(store);
        if (result != 0 && first_lane(store)->nonce != 0) {
            forget_entry(store);
        }
    }
    if (result != 0) {
        release(store);
        return result;
    }
    *out_backend = store;
    return 0;
}

static void redis_close(void *backend)
{
    struct jsi_redis_store *store = backend;
    if (store == NULL) {
        return;
    }
    leave(store);
    release(store);
}

static const jobsched_backend driver = {
    .abi = JOBSCHED_BACKEND_ABI,
    .capabilities = JOBSCHED_CAPABILITY_CLUSTER | JOBSCHED_CAPABILITY_DURABLE,
    .scheme = "redis",
    .open = redis_open,
    .close = redis_close,
    .announce = jsi_redis_announce,
    .claim = jsi_redis_claim,
    .finish = jsi_redis_finish,
    .renew = jsi_redis_renew,
    .reap = jsi_redis_reap,
    .control = jsi_redis_control,
    .runs = jsi_redis_runs,
    .find = jsi_redis_find,
    .jobs = jsi_redis_jobs,
    .nodes = jsi_redis_nodes,
    .withdraw = jsi_redis_withdraw,
    .check = jsi_redis_check,
    .watch = jsi_redis_watch_fd,
};

const jobsched_backend *jobsched_backend_redis(void)
{
    return &driver;
}
