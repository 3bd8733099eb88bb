/* lane.c: connections and transactions. The clock of the store is the one of SQLite's VFS, read
 * inside the transaction; no clock of the operating system is read here.
 *
 * Safe against: somebody who holds the write lock for long (the call fails within its time, with
 * nothing changed), a failing disk (rolled back; the next call opens a new connection), and a
 * database file that is replaced under us (the next call works on the new one, as a node that
 * has just come). A file that vanished is not made again by a running node: whoever removed it
 * may be about to put a backup there.
 *
 * Locks: store->lock for the epoch and our node's id, never while calling SQLite. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A commit that fills the log to this many pages copies it into the database. The keeper's lane
 * leaves that to the others for longer: its calls are the ones that must not be late. */
#define CHECKPOINT_PAGES      1000
#define CHECKPOINT_PAGES_KEEP 4000

/* What a log that grew in a busy hour is cut to. */
#define LOG_BYTES (16 * 1024 * 1024)

/* Between two looks at a lock: less than a transaction takes; and after how many looks the lock
 * counts as stuck (about half a second). */
#define WAIT_US       200
#define WAIT_TRIES    1500
#define WAIT_STUCK_US 2000

/* Longer than anybody waits; keeps sums of it in range. */
#define BUDGET_MAX_MS 86400000

/* Milliseconds from the Julian epoch, which SQLite counts from, to 1970. */
#define JULIAN_1970_MS 210866760000000

static int64_t mono_ms(const struct jsi_sqlite_lane *lane)
{
    const jobsched_clock *clock = &lane->store->config.clock;
    return clock->mono_ms(clock->ctx);
}

static sqlite3_vfs *vfs_of(const struct jsi_sqlite_lane *lane)
{
    sqlite3_vfs *vfs = NULL;
    (void)sqlite3_file_control(lane->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
    return vfs;
}

void jsi_sqlite_budget(struct jsi_sqlite_lane *lane, int64_t timeout_ms)
{
    lane->budget_ms = timeout_ms < 0 ? 0 : timeout_ms > BUDGET_MAX_MS ? BUDGET_MAX_MS : timeout_ms;
    lane->slept_us = 0;
    lane->started_ms = mono_ms(lane);
}

int64_t jsi_sqlite_budget_left(const struct jsi_sqlite_lane *lane)
{
    /* What was slept counts as well as the clock: an injected clock may stand still. */
    int64_t passed_ms = mono_ms(lane) - lane->started_ms;
    int64_t slept_ms = lane->slept_us / 1000;
    int64_t left_ms = lane->budget_ms - (slept_ms > passed_ms ? slept_ms : passed_ms);
    return left_ms > 0 ? left_ms : 0;
}

int jsi_sqlite_pause(struct jsi_sqlite_lane *lane, int tries)
{
    /* Spread, so that waiters do not come in step, and slower for who waits for something that
     * is stuck. Not slower early, because whoever looks less often comes last. */
    unsigned char random = 0;
    sqlite3_randomness(1, &random);
    int wait_us = WAIT_US + random + (tries < WAIT_TRIES ? 0 : WAIT_STUCK_US);
    if (jsi_sqlite_budget_left(lane) * 1000 < wait_us) {
        return 0;
    }
    sqlite3_vfs *vfs = vfs_of(lane);
    (void)vfs->xSleep(vfs, wait_us); /* returns what was slept */
    lane->slept_us += wait_us;
    return 1;
}

/* SQLite's write lock knows no queue: whoever asks again at once gets it again, and those who
 * wait only look now and then. So a waiter says that it waits, and who comes anew lets one of
 * them go first. (Four processes claiming without a pause: a heartbeat took 60 ms on average and
 * 700 ms at worst, now 3 ms and 40 ms.) */
static void wait_openly(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    if (lane->waits) {
        return;
    }
    lane->waits = 1;
    (void)pthread_mutex_lock(&store->lock);
    if (store->waiting++ == 0) {
        jsi_sqlite_live_wait(&store->live, 1);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

static void wait_no_more(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    if (!lane->waits) {
        return;
    }
    lane->waits = 0;
    (void)pthread_mutex_lock(&store->lock);
    if (--store->waiting == 0) {
        jsi_sqlite_live_wait(&store->live, 0);
        jsi_sqlite_live_wait(&store->former, 0); /* it may have been the one when we began */
    }
    (void)pthread_mutex_unlock(&store->lock);
}

static void give_way(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    int waited = store->waiting > 0 || jsi_sqlite_live_waited(&store->live);
    (void)pthread_mutex_unlock(&store->lock);
    if (waited) {
        (void)jsi_sqlite_pause(lane, 0); /* where no time is left, the attempt tells */
    }
}

static int busy(void *data, int tries)
{
    struct jsi_sqlite_lane *lane = data;
    wait_openly(lane);
    return jsi_sqlite_pause(lane, tries);
}

static int64_t store_clock(const struct jsi_sqlite_lane *lane)
{
    sqlite3_vfs *vfs = vfs_of(lane);
    sqlite3_int64 julian_ms = 0;
    if (vfs->iVersion >= 2 && vfs->xCurrentTimeInt64 != NULL) {
        (void)vfs->xCurrentTimeInt64(vfs, &julian_ms);
    } else {
        double julian_days = 0;
        (void)vfs->xCurrentTime(vfs, &julian_days);
        julian_ms = (sqlite3_int64)(julian_days * 86400000.0);
    }
    return julian_ms - JULIAN_1970_MS;
}

/* SQLite says the same for a missing file as for a missing permission, and would make a file
 * where the directory allows it. */
static int check_place(const struct jsi_sqlite_store *store, int create)
{
    struct stat status;
    if (stat(store->path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) {
            return jobsched_fail(JOBSCHED_EINVAL, EISDIR, "'%s' is a directory, not a file",
                                 store->path);
        }
        return 0;
    }
    int system_errno = errno;
    if (system_errno != ENOENT) {
        return jsi_sqlite_fail_file(system_errno, "look at", store->path);
    }
    if (!create && store->config.control_only) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, ENOENT,
                             "'%s' does not exist; a scheduler makes it when it opens it",
                             store->path);
    }
    if (!create) {
        return jobsched_fail(JOBSCHED_EDATALOST, ENOENT,
                             "'%s' was removed while in use; put it back, or restart to begin "
                             "with an empty one",
                             store->path);
    }
    const char *slash = strrchr(store->path, '/');
    int length = slash == store->path ? 1 : (int)(slash - store->path);
    char *directory = jsi_sqlite_join(&store->config.allocator, store->path, "");
    if (directory == NULL) {
        return JOBSCHED_ENOMEM;
    }
    directory[length] = '\0';
    int result = 0;
    if (stat(directory, &status) != 0) {
        result = errno == ENOENT || errno == ENOTDIR
                     ? jobsched_fail(JOBSCHED_EUNREACHABLE, errno,
                                     "the directory '%s' does not exist", directory)
                     : jsi_sqlite_fail_file(errno, "look at the directory", directory);
    } else if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0) {
        result = jsi_sqlite_fail_file(errno, "create", store->path);
    }
    jsi_sqlite_free(&store->config.allocator, directory);
    return result;
}

static int configure(struct jsi_sqlite_lane *lane)
{
    (void)sqlite3_extended_result_codes(lane->db, 1);
    (void)sqlite3_busy_handler(lane->db, busy, lane);
    /* Against a file made to harm whoever opens it. Versions that lack one refuse it. */
    (void)sqlite3_db_config(lane->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    (void)sqlite3_db_config(lane->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    (void)sqlite3_db_config(lane->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)NULL);
    int keep = lane->kind == JOBSCHED_LANE_KEEP;
    char sql[256];
    /* A grant must outlast a power cut that follows its answer, so claims wait for the disk. A
     * heartbeat that is lost in one has lost its process too. */
    (void)sqlite3_snprintf(sizeof sql, sql,
                           "PRAGMA synchronous = %s; PRAGMA wal_autocheckpoint = %d; "
                           "PRAGMA journal_size_limit = %d; PRAGMA temp_store = MEMORY; "
                           "PRAGMA cell_size_check = ON; PRAGMA foreign_keys = OFF",
                           keep ? "NORMAL" : "FULL",
                           keep ? CHECKPOINT_PAGES_KEEP : CHECKPOINT_PAGES, LOG_BYTES);
    int result = sqlite3_exec(lane->db, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? 0 : jsi_sqlite_fail(lane, result);
}

int jsi_sqlite_connect(struct jsi_sqlite_lane *lane, int create)
{
    const struct jsi_sqlite_store *store = lane->store;
    int result = check_place(store, create);
    if (result != 0) {
        return result;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                (create ? SQLITE_OPEN_CREATE : 0);
    result = sqlite3_open_v2(store->path, &lane->db, flags, store->vfs);
    if (result != SQLITE_OK) {
        result = jsi_sqlite_fail(lane, result);
    } else if (sqlite3_db_readonly(lane->db, "main") == 1) {
        /* Before anything is read: reading makes a log index with the mode of the database, and
         * a read-only one would stay in the way when the permission is given. */
        result = jobsched_fail(JOBSCHED_EACCESS, 0, "no permission to write '%s'", store->path);
    } else {
        result = configure(lane);
    }
    if (result == 0) {
        result = jsi_sqlite_schema(lane);
    }
    wait_no_more(lane);
    if (result != 0) {
        jsi_sqlite_disconnect(lane);
        return result;
    }
    lane->broken = 0;
    return 0;
}

void jsi_sqlite_disconnect(struct jsi_sqlite_lane *lane)
{
    jsi_query_forget(lane);
    (void)sqlite3_close(lane->db); /* cannot be busy: all statements are gone */
    lane->db = NULL;
}

/* Replaces the connection where that is needed. */
static int ready(struct jsi_sqlite_lane *lane)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    unsigned epoch = store->epoch;
    (void)pthread_mutex_unlock(&store->lock);
    if (lane->db != NULL && !lane->broken && lane->epoch == epoch) {
        return 0;
    }
    jsi_sqlite_disconnect(lane);
    int result = jsi_sqlite_connect(lane, 0);
    if (result == 0 && lane->epoch != epoch) {
        lane->epoch = epoch;
        lane->check_node = 1;
    }
    return result;
}

/* A grant that is written into a file which nobody else will ever open is worth nothing. */
static int check_moved(struct jsi_sqlite_lane *lane)
{
    int moved = 0;
    int result = sqlite3_file_control(lane->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (result != SQLITE_OK || !moved) {
        return 0; /* a VFS that cannot tell is believed */
    }
    struct jsi_sqlite_store *store = lane->store;
    /* SQLite says "moved" also when it may not look, and then the file may well be there. */
    result = check_place(store, 0);
    if (result != 0 && result != JOBSCHED_EDATALOST) {
        return result;
    }
    (void)pthread_mutex_lock(&store->lock);
    if (lane->epoch == store->epoch) {
        store->epoch++; /* for all lanes */
    }
    (void)pthread_mutex_unlock(&store->lock);
    return jobsched_fail(JOBSCHED_EDATALOST, 0, "'%s' was removed or replaced while in use",
                         store->path);
}

/* Makes sure that our node row exists in the store that this lane works on. */
static int check_node(struct jsi_sqlite_lane *lane)
{
    if (lane->node != 0 && !lane->check_node) {
        return 0;
    }
    int result = 0;
    if (lane->node != 0) {
        struct jsi_query query;
        jsi_query_open(&query, lane, JSI_SQL_NODE_MINE);
        jsi_query_int(&query, lane->node);
        jsi_query_text(&query, lane->store->config.node_id);
        result = jsi_query_row(&query);
        jsi_query_close(&query);
    }
    if (result == 0) {
        return jsi_sqlite_node_enter(lane, 0);
    }
    return result < 0 ? result : 0;
}

static int begun(struct jsi_sqlite_lane *lane, int writes)
{
    struct jsi_sqlite_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    lane->node = store->node;
    (void)pthread_mutex_unlock(&store->lock);
    lane->entered = 0;
    lane->beaten = 0;
    lane->verdict_count = 0;
    lane->relocked.fd = -1;
    lane->mono_ms = mono_ms(lane);
    lane->now_ms = store_clock(lane);
    int result = check_moved(lane);
    if (result == 0) {
        result = jsi_sqlite_schema_check(lane);
    }
    if (result == 0 && writes && lane->kind != JOBSCHED_LANE_ADMIN) {
        result = check_node(lane);
    }
    return result;
}

static int begin(struct jsi_sqlite_lane *lane, jobsched_call *call, enum jsi_sql sql)
{
    jsi_sqlite_budget(lane, call->timeout_ms);
    int result = ready(lane);
    if (result != 0) {
        return result;
    }
    if (sql == JSI_SQL_BEGIN) {
        give_way(lane);
    }
    struct jsi_query query;
    jsi_query_open(&query, lane, sql);
    result = jsi_query_run(&query);
    wait_no_more(lane);
    if (result != 0) {
        return result;
    }
    result = begun(lane, sql == JSI_SQL_BEGIN);
    return result == 0 ? 0 : jsi_sqlite_end(lane, call, result);
}

int jsi_sqlite_begin(struct jsi_sqlite_lane *lane, jobsched_call *call)
{
    return begin(lane, call, JSI_SQL_BEGIN);
}

int jsi_sqlite_begin_read(struct jsi_sqlite_lane *lane, jobsched_call *call)
{
    return begin(lane, call, JSI_SQL_BEGIN_READ);
}

static int commit(struct jsi_sqlite_lane *lane)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_COMMIT);
    int result = query.result == SQLITE_OK ? sqlite3_step(query.statement) : query.result;
    int code = result == SQLITE_DONE ? 0 : jsi_sqlite_fail_commit(lane, result);
    jsi_query_close(&query);
    return code;
}

int jsi_sqlite_end(struct jsi_sqlite_lane *lane, jobsched_call *call, int result)
{
    if (result == 0) {
        result = commit(lane);
    }
    if (!sqlite3_get_autocommit(lane->db)) {
        /* Not through query.c, which would record a second error. Where it fails, the connection
         * is of no use, and closing it rolls back. */
        if (sqlite3_exec(lane->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK) {
            lane->broken = 1;
        }
    }
    /* An outcome that is not known may be that our row exists: keep its lock. */
    jsi_sqlite_node_settle(lane, result == 0 || result == JOBSCHED_EUNKNOWN);
    if (result == 0) {
        lane->check_node = 0;
        call->now_ms = lane->now_ms;
    }
    return result;
}
