/* schema.c: creates and migrates the tables, and recognizes files that are not ours. A file that
 * is refused is left as it was. Locks: the database's write lock while migrating. */
#include "store.h"

/* Step n leads from version n to n + 1. A step that has been released is never changed; add
 * another one and raise JSI_SQLITE_VERSION.
 *
 * fence       one row per job. It is rewritten by each claim, so what is large and seldom
 *             changes is kept apart, in definition. seq numbers the job's ledger rows.
 * node        AUTOINCREMENT, because an id is also the node's byte in the lock file and must not
 *             come to mean another node.
 * run         the ledger; a row with outcome 1 is a holder. taken: somebody else ended it.
 * untold      interrupted runs that no reap has reported yet. Apart from run, because a rerun
 *             reuses the row.
 * registration  which node registers which job, and how. A node that was forgotten for its silence
 *             keeps them until its lock is free. */
static const char *const steps[] = {
    "CREATE TABLE fence(id INTEGER PRIMARY KEY, name_space TEXT NOT NULL, name TEXT NOT NULL,"
    " mark_ms INTEGER NOT NULL, token INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, paused INTEGER NOT NULL, removed INTEGER NOT NULL,"
    " last_end_ms INTEGER, UNIQUE(name_space, name));"

    "CREATE TABLE definition(fence INTEGER PRIMARY KEY, version INTEGER NOT NULL,"
    " text TEXT NOT NULL);"

    "CREATE TABLE node(id INTEGER PRIMARY KEY AUTOINCREMENT, node_id TEXT NOT NULL,"
    " name_space TEXT NOT NULL, name TEXT NOT NULL, app_version TEXT NOT NULL,"
    " started_ms INTEGER NOT NULL, lease_ms INTEGER NOT NULL, beat INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL, clock_offset_ms INTEGER NOT NULL, lock_dev INTEGER NOT NULL,"
    " lock_ino INTEGER NOT NULL);"

    "CREATE TABLE run(id INTEGER PRIMARY KEY, fence INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " kind INTEGER NOT NULL, outcome INTEGER NOT NULL, scheduled_ms INTEGER NOT NULL,"
    " last_ms INTEGER NOT NULL, count INTEGER NOT NULL, token INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, node INTEGER NOT NULL, node_name TEXT NOT NULL,"
    " started_ms INTEGER, finished_ms INTEGER, lease_ms INTEGER NOT NULL,"
    " recover INTEGER NOT NULL, recover_limit INTEGER NOT NULL,"
    " cancel INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0,"
    " code INTEGER NOT NULL DEFAULT 0, progress_done INTEGER NOT NULL DEFAULT 0,"
    " progress_total INTEGER NOT NULL DEFAULT 0, request TEXT, note TEXT NOT NULL DEFAULT '');"
    "CREATE UNIQUE INDEX run_seq ON run(fence, seq);"
    "CREATE UNIQUE INDEX run_request ON run(fence, request) WHERE request IS NOT NULL;"
    "CREATE INDEX run_holder ON run(fence, scheduled_ms, token) WHERE outcome = 1;"
    "CREATE INDEX run_owner ON run(node, lease_ms) WHERE outcome = 1;"
    "CREATE INDEX run_waiting ON run(fence) WHERE outcome = 0;"
    "CREATE INDEX run_rerun ON run(fence, scheduled_ms) WHERE " JSI_SQL_RERUN(
        "") ";"

            "CREATE TABLE untold(id INTEGER PRIMARY KEY, fence INTEGER NOT NULL,"
            " scheduled_ms INTEGER NOT NULL, token INTEGER NOT NULL, attempt INTEGER NOT NULL,"
            " node_name TEXT NOT NULL);"
            "CREATE INDEX untold_fence ON untold(fence);",

    "CREATE TABLE registration(node INTEGER NOT NULL, fence INTEGER NOT NULL,"
    " version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY(node, fence)) WITHOUT ROWID;"
    "CREATE INDEX registration_fence ON registration(fence);",
};

_Static_assert(sizeof steps / sizeof steps[0] == JSI_SQLITE_VERSION,
               "one step leads to each version");

/* Asks for one integer. Not through query.c: these must work before there are tables. */
static int ask(struct jsi_sqlite_lane *lane, const char *sql, int64_t *out_value)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(lane->db, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) {
            *out_value = sqlite3_column_int64(statement, 0);
            result = SQLITE_OK;
        }
    }
    int failed = result == SQLITE_OK ? 0 : jsi_sqlite_fail(lane, result);
    (void)sqlite3_finalize(statement); /* repeats the result of step */
    return failed;
}

static int execute(struct jsi_sqlite_lane *lane, const char *sql)
{
    int result = sqlite3_exec(lane->db, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? 0 : jsi_sqlite_fail(lane, result);
}

static int refuse_version(const struct jsi_sqlite_lane *lane, int64_t version)
{
    return jobsched_fail(JOBSCHED_ESCHEMA, 0,
                         "'%s' holds schema version %lld, this library knows versions up to %d; "
                         "use a newer library",
                         lane->store->path, (long long)version, JSI_SQLITE_VERSION);
}

/* Which version the file has: 0 for an empty one. */
static int identify(struct jsi_sqlite_lane *lane, int64_t *out_version)
{
    int64_t application = 0, version = 0, objects = 0;
    int result = ask(lane, "PRAGMA application_id", &application);
    if (result == 0) {
        result = ask(lane, "PRAGMA user_version", &version);
    }
    if (result == 0) {
        result = ask(lane, "SELECT count(*) FROM sqlite_master", &objects);
    }
    if (result != 0) {
        return result;
    }
    if (application != JSI_SQLITE_APPLICATION &&
        (application != 0 || version != 0 || objects != 0)) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0,
                             "'%s' is the database of another application; nothing was changed",
                             lane->store->path);
    }
    if (version > JSI_SQLITE_VERSION || version < 0) {
        return refuse_version(lane, version);
    }
    *out_version = version;
    return 0;
}

/* The same outside of a transaction: in one of its own, because the three answers of a file that
 * another starter makes meanwhile could each be of another moment, and then look foreign. */
static int identify_now(struct jsi_sqlite_lane *lane, int64_t *out_version)
{
    int result = execute(lane, "BEGIN");
    if (result != 0) {
        return result;
    }
    result = identify(lane, out_version);
    /* Nothing was written; where it fails, closing the connection ends it as well. */
    (void)sqlite3_exec(lane->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

static int is_wal(struct jsi_sqlite_lane *lane, const char *sql, int *out_wal)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(lane->db, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) {
            const unsigned char *mode = sqlite3_column_text(statement, 0);
            *out_wal = mode != NULL && strcmp((const char *)mode, "wal") == 0;
            result = SQLITE_OK;
        }
    }
    (void)sqlite3_finalize(statement); /* repeats the result of step */
    return result;
}

/* SQLite does not ask the busy handler while it changes the journal mode, so we wait here. */
static int make_wal(struct jsi_sqlite_lane *lane)
{
    for (int tries = 0;; tries++) {
        int wal = 0;
        int result = is_wal(lane, "PRAGMA journal_mode = WAL", &wal);
        int kind = result & 0xff;
        if (result == SQLITE_OK && wal) {
            return 0;
        }
        if (result == SQLITE_OK) {
            return jobsched_fail(JOBSCHED_EREFUSED, 0,
                                 "the file system of '%s' cannot hold a write-ahead log; put the "
                                 "file on a local disk",
                                 lane->store->path);
        }
        if ((kind != SQLITE_BUSY && kind != SQLITE_LOCKED && kind != SQLITE_PROTOCOL) ||
            !jsi_sqlite_pause(lane, tries)) {
            return jsi_sqlite_fail(lane, result);
        }
    }
}

static int migrate(struct jsi_sqlite_lane *lane)
{
    int result = execute(lane, "BEGIN IMMEDIATE");
    if (result != 0) {
        return result;
    }
    /* Somebody may have been here since we looked. */
    int64_t version = 0;
    result = identify(lane, &version);
    if (result == 0 && version == 0) {
        char sql[64];
        (void)sqlite3_snprintf(sizeof sql, sql, "PRAGMA application_id = %d",
                               JSI_SQLITE_APPLICATION);
        result = execute(lane, sql);
    }
    for (; result == 0 && version < JSI_SQLITE_VERSION; version++) {
        char sql[64];
        (void)sqlite3_snprintf(sizeof sql, sql, "PRAGMA user_version = %d", (int)version + 1);
        result = execute(lane, steps[version]);
        if (result == 0) {
            result = execute(lane, sql);
        }
    }
    if (result == 0) {
        result = execute(lane, "COMMIT");
    }
    if (result != 0 && !sqlite3_get_autocommit(lane->db)) {
        /* Its failure adds nothing: closing the connection rolls back as well. */
        (void)sqlite3_exec(lane->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return result;
}

int jsi_sqlite_schema(struct jsi_sqlite_lane *lane)
{
    int64_t version = 0;
    int result = identify_now(lane, &version);
    if (result == 0) {
        result = make_wal(lane);
    }
    if (result == 0 && version < JSI_SQLITE_VERSION) {
        result = migrate(lane);
    }
    return result;
}

int jsi_sqlite_schema_check(struct jsi_sqlite_lane *lane)
{
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_VERSION);
    int result = jsi_query_row(&query);
    int64_t version = result == 1 ? jsi_query_get_int(&query, 0) : JSI_SQLITE_VERSION;
    jsi_query_close(&query);
    if (result < 0) {
        return result;
    }
    if (version != JSI_SQLITE_VERSION) {
        lane->broken = 1; /* the next call looks at the file anew */
        return version > JSI_SQLITE_VERSION
                   ? refuse_version(lane, version)
                   : jobsched_fail(JOBSCHED_EDATALOST, 0,
                                   "'%s' holds schema version %lld, it had version %d",
                                   lane->store->path, (long long)version, JSI_SQLITE_VERSION);
    }
    return 0;
}
