/* driver.c: the sqlite: backend as the engine sees it; opens and closes the store.
 *
 * For processes of one host that share a local file system. A process must hold one copy of the
 * SQLite library only: two copies drop each other's locks. A process that is stopped (SIGSTOP)
 * in the millisecond in which it writes keeps the write lock, and everybody's calls fail until
 * it goes on or is killed: SQLite has no remedy for that.
 *
 * Locks: opening and closing are never concurrent with anything else on the same store. */
#include "store.h"

#include <stdatomic.h>
#include <unistd.h>

/* How many handles are open (low half), and in which process (high half).
 *
 * The one writable global of this library, because what it guards is global as well: SQLite
 * keeps one table of POSIX locks per process. A child that was forked while a handle was open
 * inherits that table but none of the locks, and whatever it opens believes that it holds them.
 * The next process to close then deletes the write-ahead log under the child, and both go on
 * with a database of their own: occurrences fire twice. Only exec empties the table. An atomic
 * and not a mutex, because a mutex may be held by another thread at the fork. */
static _Atomic uint64_t sqlite_handles;

/* Counts a handle in, or refuses it. */
static int handle_enter(void)
{
    uint64_t process = (uint64_t)getpid() << 32;
    uint64_t handles = atomic_load(&sqlite_handles);
    uint64_t next;
    do {
        uint64_t count = handles & UINT32_MAX;
        if (count > 0 && handles - count != process) {
            return jobsched_fail(JOBSCHED_EFORK, 0,
                                 "process %ld was forked while a sqlite: handle was open; open it "
                                 "in the parent only after forking, or exec",
                                 (long)getpid());
        }
        next = process | (count + 1);
    } while (!atomic_compare_exchange_weak(&sqlite_handles, &handles, next));
    return 0;
}

/* A handle of the parent is not counted out by its child: the child has the table for good. */
static void handle_leave(void)
{
    uint64_t process = (uint64_t)getpid() << 32;
    uint64_t handles = atomic_load(&sqlite_handles);
    while ((handles & UINT32_MAX) > 0 && handles >> 32 == process >> 32 &&
           !atomic_compare_exchange_weak(&sqlite_handles, &handles, handles - 1)) {
    }
}

static void release(struct jsi_sqlite_store *store)
{
    jobsched_allocator allocator = store->config.allocator;
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        jsi_sqlite_disconnect(&store->lanes[i]);
    }
    jsi_sqlite_live_close(&store->live);
    jsi_sqlite_live_close(&store->former);
    (void)pthread_mutex_destroy(&store->lock); /* nobody holds it: calls have ended */
    jsi_sqlite_free(&allocator, store->watches);
    jsi_sqlite_free(&allocator, store->live_path);
    jsi_sqlite_free(&allocator, store->vfs);
    jsi_sqlite_free(&allocator, store->path);
    jsi_sqlite_free(&allocator, store);
}

/* One connection first: it may have to create the file and its tables. */
static int open_files(struct jsi_sqlite_store *store)
{
    int creates = !store->config.control_only;
    static const int order[] = {JOBSCHED_LANE_ADMIN, JOBSCHED_LANE_KEEP, JOBSCHED_LANE_CLAIM};
    int64_t left_ms = store->config.request_timeout_ms;
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        struct jsi_sqlite_lane *lane = &store->lanes[order[i]];
        jsi_sqlite_budget(lane, left_ms);
        int result = jsi_sqlite_connect(lane, creates && i == 0);
        if (result != 0) {
            return result;
        }
        left_ms = jsi_sqlite_budget_left(lane);
    }
    /* The name that SQLite uses, with symbolic links resolved, so that two names of one database
     * lead to one lock file. */
    const char *name = sqlite3_db_filename(store->lanes[JOBSCHED_LANE_ADMIN].db, "main");
    store->live_path = jsi_sqlite_join(&store->config.allocator, name, "-live");
    if (store->live_path == NULL) {
        return JOBSCHED_ENOMEM;
    }
    return jsi_sqlite_live_open(store, &store->live);
}

/* An empty write: beginning it on this lane makes our node row. */
static int enter(struct jsi_sqlite_store *store)
{
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = jsi_sqlite_budget_left(lane)};
    int result = jsi_sqlite_begin(lane, &call);
    return result == 0 ? jsi_sqlite_end(lane, &call, 0) : result;
}

static int open_store(const jobsched_backend_config *config, void **out_backend)
{
    char *path = NULL, *vfs = NULL;
    int result = jsi_sqlite_url(&config->allocator, config->url, &path, &vfs);
    if (result != 0) {
        return result;
    }
    struct jsi_sqlite_store *store = jsi_sqlite_allocate(&config->allocator, sizeof *store);
    if (store == NULL) {
        jsi_sqlite_free(&config->allocator, path);
        jsi_sqlite_free(&config->allocator, vfs);
        return JOBSCHED_ENOMEM;
    }
    memset(store, 0, sizeof *store);
    store->config = *config;
    store->path = path;
    store->vfs = vfs;
    store->live.fd = -1;
    store->former.fd = -1;
    (void)pthread_mutex_init(&store->lock, NULL); /* cannot fail with default attributes */
    for (int i = 0; i < JOBSCHED_LANE_COUNT; i++) {
        store->lanes[i].store = store;
        store->lanes[i].kind = i;
        store->lanes[i].relocked.fd = -1;
    }
    result = open_files(store);
    if (result == 0 && !config->control_only) {
        result = enter(store);
    }
    if (result != 0) {
        release(store);
        return result;
    }
    *out_backend = store;
    return 0;
}

static int sqlite_open(const jobsched_backend_config *config, void **out_backend)
{
    if (!sqlite3_threadsafe()) {
        return jobsched_fail(JOBSCHED_ENOTSUP, 0,
                             "the SQLite library was built without support for threads");
    }
    int result = handle_enter();
    if (result != 0) {
        return result;
    }
    result = open_store(config, out_backend);
    if (result != 0) {
        handle_leave();
    }
    return result;
}

static int end_own_runs(struct jsi_sqlite_lane *lane)
{
    for (;;) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_OWNED);
        jsi_query_int(&query, lane->node);
        jsi_query_int(&query, INT64_MAX);
        jsi_query_int(&query, 1);
        int result = jsi_query_row(&query);
        int64_t run = result == 1 ? jsi_query_get_int(&query, 0) : 0;
        jsi_query_close(&query);
        if (result == 1) {
            result = jsi_fence_interrupt(lane, run, "closed before the callback returned");
        } else {
            return result;
        }
        if (result != 0) {
            return result;
        }
    }
}

static int leave(struct jsi_sqlite_store *store)
{
    /* On the lane that does not make a node row where there is none. */
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN,
                          .timeout_ms = store->config.request_timeout_ms};
    int result = jsi_sqlite_begin(lane, &call);
    if (result != 0) {
        return result;
    }
    result = end_own_runs(lane);
    if (result == 0) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_NODE_DROP);
        jsi_query_int(&query, lane->node);
        result = jsi_query_run(&query);
    }
    if (result == 0) {
        result = jsi_sqlite_unregister(lane, lane->node);
    }
    return jsi_sqlite_end(lane, &call, result);
}

static void sqlite_close(void *backend)
{
    struct jsi_sqlite_store *store = backend;
    if (store == NULL) {
        return;
    }
    if (!store->config.control_only) {
        /* Where it fails, others find our lock free and do the same. */
        (void)leave(store);
        /* Said aloud, because a forked child may keep the file open. */
        jsi_sqlite_live_unlock(&store->live, store->node);
    }
    release(store);
    handle_leave();
}

static const jobsched_backend driver = {
    .abi = JOBSCHED_BACKEND_ABI,
    .capabilities = JOBSCHED_CAPABILITY_CLUSTER | JOBSCHED_CAPABILITY_DURABLE,
    .scheme = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .announce = jsi_sqlite_announce,
    .claim = jsi_sqlite_claim,
    .finish = jsi_sqlite_finish,
    .renew = jsi_sqlite_renew,
    .reap = jsi_sqlite_reap,
    .control = jsi_sqlite_control,
    .runs = jsi_sqlite_runs,
    .find = jsi_sqlite_find,
    .jobs = jsi_sqlite_jobs,
    .nodes = jsi_sqlite_nodes,
    .withdraw = jsi_sqlite_withdraw,
    .check = jsi_sqlite_check,
};

const jobsched_backend *jobsched_backend_sqlite(void)
{
    return &driver;
}
