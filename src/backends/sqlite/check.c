/* check.c: what an operator should know or mend about the file and its place.
 * Locks: none while visiting; store->lock to read which lock file is ours. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/vfs.h>

/* Below the first the store may soon have no space left, below the second it has none to speak of:
 * the log alone takes 4 MiB before it is copied back. */
#define SPACE_LOW   (INT64_C(64) * 1024 * 1024)
#define SPACE_EMPTY (INT64_C(8) * 1024 * 1024)

struct checking {
    jobsched_check_visit_fn visit;
    void *visit_data;
    int ends;
};

static void tell(struct checking *checking, const char *id, int level, const char *message)
{
    const jobsched_check_record record = {.id = id, .level = level, .message = message};
    if (!checking->ends) {
        checking->ends = checking->visit(&record, checking->visit_data) != 0;
    }
}

/* Where locks or the shared memory of the log do not work between machines. */
static const char *network_name(uint64_t type)
{
    static const struct {
        uint64_t type;
        const char *name;
    } known[] = {{0x6969, "nfs"},      {0x517B, "smb"},       {0xFF534D42, "cifs"},
                 {0xFE534D42, "smb2"}, {0x00C36400, "ceph"},  {0x5346414F, "afs"},
                 {0x01021997, "9p"},   {0x47504653, "gpfs"},  {0x0BD00BD0, "lustre"},
                 {0x01161970, "gfs2"}, {0x7461636F, "ocfs2"}, {0x73757245, "coda"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].type == (type & UINT32_MAX)) {
            return known[i].name;
        }
    }
    return NULL;
}

static void check_place(const struct jsi_sqlite_store *store, struct checking *checking)
{
    char message[JOBSCHED_MESSAGE_BYTES];
    struct statfs place;
    if (statfs(store->path, &place) != 0) {
        (void)snprintf(message, sizeof message, "the file system of '%.300s' cannot be looked at",
                       store->path);
        tell(checking, "sqlite.file-system", JOBSCHED_LEVEL_WARNING, message);
        return;
    }
    const char *network = network_name((uint64_t)place.f_type);
    if (network != NULL) {
        (void)snprintf(message, sizeof message,
                       "'%.300s' is on a file system of kind '%s': use it from one host only, or "
                       "put the file on a local disk",
                       store->path, network);
        tell(checking, "sqlite.file-system", JOBSCHED_LEVEL_ERROR, message);
    } else {
        (void)snprintf(message, sizeof message, "'%.300s' is on a local file system", store->path);
        tell(checking, "sqlite.file-system", JOBSCHED_LEVEL_INFO, message);
    }
    int64_t left = (int64_t)place.f_bavail * (int64_t)place.f_bsize;
    (void)snprintf(message, sizeof message, "%" PRId64 " MiB are left for '%.300s'",
                   left / (1024 * 1024), store->path);
    tell(checking, "sqlite.space",
         left < SPACE_EMPTY ? JOBSCHED_LEVEL_ERROR
         : left < SPACE_LOW ? JOBSCHED_LEVEL_WARNING
                            : JOBSCHED_LEVEL_INFO,
         message);
}

static void check_lock_file(struct jsi_sqlite_store *store, struct checking *checking)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_sqlite_live live = store->live;
    (void)pthread_mutex_unlock(&store->lock);
    char message[JOBSCHED_MESSAGE_BYTES];
    int moved = jsi_sqlite_live_moved(store, &live);
    (void)snprintf(message, sizeof message, "the lock file '%.300s' %s", store->live_path,
                   moved ? "was deleted or replaced: leave it alone; nodes take their locks anew "
                           "at their next heartbeat"
                         : "is in its place");
    tell(checking, "sqlite.lock-file", moved ? JOBSCHED_LEVEL_WARNING : JOBSCHED_LEVEL_INFO,
         message);
}

int jsi_sqlite_check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                     void *visit_data)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct checking checking = {.visit = visit, .visit_data = visit_data};
    /* A write that changes nothing: whether the file can be written, and by which tables. */
    int result = jsi_sqlite_begin(lane, call);
    result = result == 0 ? jsi_sqlite_end(lane, call, 0) : result;
    if (result != 0) {
        return result;
    }
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "'%.300s' can be written", store->path);
    tell(&checking, "sqlite.rights", JOBSCHED_LEVEL_INFO, message);
    (void)snprintf(message, sizeof message, "the tables are of version %d, as this library's are",
                   JSI_SQLITE_VERSION);
    tell(&checking, "sqlite.schema", JOBSCHED_LEVEL_INFO, message);
    check_place(store, &checking);
    check_lock_file(store, &checking);
    return 0;
}
