/* error.c: what SQLite's results mean to the engine. Records errors and nothing else.
 * Locks: none. */
#include "store.h"

#include <errno.h>
#include <string.h>

static int is_full(int result, int system_errno)
{
    if ((result & 0xff) == SQLITE_FULL) {
        return 1;
    }
    /* A quota shows as a plain write error. Where syncing fails the page cache has already taken
     * the data, so that is another matter. */
    return (result == SQLITE_IOERR_WRITE || result == SQLITE_IOERR_SHMSIZE ||
            (result & 0xff) == SQLITE_CANTOPEN) &&
           (system_errno == ENOSPC || system_errno == EDQUOT);
}

static int fail_cannot_open(const struct jsi_sqlite_store *store, int system_errno)
{
    char buffer[128];
    switch (system_errno) {
    case EACCES:
    case EPERM:
    case EROFS:
        return jobsched_fail(JOBSCHED_EACCESS, system_errno,
                             "no permission to open '%s' or the files beside it", store->path);
    case ENOENT:
    case ENOTDIR:
        return jobsched_fail(JOBSCHED_EUNREACHABLE, system_errno,
                             "'%s' or a file beside it does not exist", store->path);
    default:
        return jobsched_fail(JOBSCHED_EUNREACHABLE, system_errno,
                             "'%s' or a file beside it cannot be opened: %s", store->path,
                             system_errno == 0 ? "SQLite does not say why"
                                               : strerror_r(system_errno, buffer, sizeof buffer));
    }
}

static int fail_busy(const struct jsi_sqlite_lane *lane)
{
    return jobsched_fail(JOBSCHED_EUNREACHABLE, 0,
                         "'%s' is locked by another process for longer than %lld ms",
                         lane->store->path, (long long)lane->budget_ms);
}

int jsi_sqlite_fail(struct jsi_sqlite_lane *lane, int result)
{
    const char *path = lane->store->path;
    const char *text = lane->db == NULL ? sqlite3_errstr(result) : sqlite3_errmsg(lane->db);
    int system_errno = lane->db == NULL ? 0 : sqlite3_system_errno(lane->db);
    if (is_full(result, system_errno)) {
        return jobsched_fail(JOBSCHED_EFULL, system_errno, "no space left to write '%s'", path);
    }
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return fail_busy(lane);
    case SQLITE_NOMEM:
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory to work on '%s'", path);
    case SQLITE_CANTOPEN:
        lane->broken = 1;
        return fail_cannot_open(lane->store, system_errno);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        lane->broken = 1;
        return jobsched_fail(JOBSCHED_EACCESS, system_errno, "'%s' cannot be written: %s", path,
                             text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        lane->broken = 1;
        return jobsched_fail(JOBSCHED_EDATALOST, system_errno,
                             "'%s' is damaged, or is not a database: %s", path, text);
    case SQLITE_IOERR:
        lane->broken = 1;
        return jobsched_fail(JOBSCHED_EUNREACHABLE, system_errno,
                             "'%s' cannot be read or written: %s", path, text);
    case SQLITE_ERROR:
        /* A statement that does not fit the tables it finds. */
        lane->broken = 1;
        return jobsched_fail(JOBSCHED_ESCHEMA, 0,
                             "the tables in '%s' are not those of version %d: %s", path,
                             JSI_SQLITE_VERSION, text);
    default:
        lane->broken = 1;
        return jobsched_fail(JOBSCHED_EINTERNAL, system_errno, "'%s' answers %s (%d)", path, text,
                             result);
    }
}

int jsi_sqlite_fail_commit(struct jsi_sqlite_lane *lane, int result)
{
    int system_errno = sqlite3_system_errno(lane->db);
    int kind = result & 0xff;
    if (kind == SQLITE_BUSY || kind == SQLITE_READONLY || is_full(result, system_errno)) {
        return jsi_sqlite_fail(lane, result);
    }
    /* The frames may be in the write-ahead log, whole: then this process takes them for undone,
     * and whoever recovers the log after a crash takes them for done. */
    lane->broken = 1;
    return jobsched_fail(JOBSCHED_EUNKNOWN, system_errno,
                         "'%s' may or may not have been written: %s", lane->store->path,
                         sqlite3_errmsg(lane->db));
}

int jsi_sqlite_fail_file(int system_errno, const char *what, const char *path)
{
    int code = JOBSCHED_EUNREACHABLE;
    if (system_errno == EACCES || system_errno == EPERM || system_errno == EROFS) {
        code = JOBSCHED_EACCESS;
    } else if (system_errno == ENOSPC || system_errno == EDQUOT) {
        code = JOBSCHED_EFULL;
    }
    char buffer[128];
    return jobsched_fail(code, system_errno, "cannot %s '%s': %s", what, path,
                         strerror_r(system_errno, buffer, sizeof buffer));
}
