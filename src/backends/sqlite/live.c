/* live.c: the lock file, by which the operating system tells who is alive.
 *
 * There is one file beside the database, '<path>-live'. Each node holds an exclusive lock on the
 * byte whose offset is the id of its node row, so the kernel frees it at any kind of death. One
 * byte each in one file, not a file each: nothing is left behind by nodes that die, and ids are
 * never used twice. The locks are OFD locks: they belong to the open file and not to the process,
 * so several nodes can live in one process, and closing an unrelated descriptor of the file does
 * not drop them. Descriptors of the database itself are never opened here: closing one would
 * drop SQLite's locks.
 *
 * A child that was forked and does not exec shares the lock and keeps it while it lives. Then
 * the lock proves nothing, and the heartbeat decides.
 *
 * A lock on a file that somebody deleted and made anew proves nothing about nodes that hold the
 * old one. So each node row says which file its lock is on, and a node that finds another file
 * under the name takes its lock there (see node.c).
 *
 * Byte 0 is no node's: whoever waits for the database's write lock holds a shared lock there, see
 * lane.c.
 *
 * Locks: none of its own; callers hold store->lock where the file may be exchanged. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAITING_BYTE 0

#define LIVE_MODE (S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)

/* Whoever may write the database must be able to lock. So the file gets the database's mode, and
 * its owner when we are root, which is what SQLite does for its own files. */
static void adopt_mode(const struct jsi_sqlite_store *store, int fd)
{
    struct stat database;
    if (stat(store->path, &database) != 0) {
        return;
    }
    /* Where these are refused the file stays usable for us, and others are told EACCESS. */
    (void)fchmod(fd, database.st_mode & LIVE_MODE);
    if (geteuid() == 0 && fchown(fd, database.st_uid, database.st_gid) != 0) {
        return;
    }
}

int jsi_sqlite_live_open(struct jsi_sqlite_store *store, struct jsi_sqlite_live *out_live)
{
    const char *path = store->live_path;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0) {
        adopt_mode(store, fd);
    } else if (errno == EEXIST) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    }
    if (fd < 0) {
        return jsi_sqlite_fail_file(errno, "open the lock file", path);
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        int system_errno = errno;
        (void)close(fd);
        return jsi_sqlite_fail_file(system_errno, "look at the lock file", path);
    }
    *out_live = (struct jsi_sqlite_live){
        .fd = fd, .dev = (int64_t)status.st_dev, .ino = (int64_t)status.st_ino};
    return 0;
}

void jsi_sqlite_live_close(struct jsi_sqlite_live *live)
{
    if (live->fd >= 0) {
        (void)close(live->fd); /* nothing was written */
        live->fd = -1;
    }
}

static int lock_byte(const struct jsi_sqlite_live *live, int command, short type, int64_t node,
                     struct flock *out_lock)
{
    *out_lock =
        (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)node, .l_len = 1};
    return fcntl(live->fd, command, out_lock);
}

int jsi_sqlite_live_lock(struct jsi_sqlite_store *store, const struct jsi_sqlite_live *live,
                         int64_t node)
{
    struct flock lock;
    if (lock_byte(live, F_OFD_SETLK, F_WRLCK, node, &lock) == 0) {
        return 1;
    }
    if (errno == EAGAIN || errno == EACCES) {
        return 0;
    }
    return jsi_sqlite_fail_file(errno, "lock a byte of", store->live_path);
}

void jsi_sqlite_live_unlock(const struct jsi_sqlite_live *live, int64_t node)
{
    struct flock lock;
    (void)lock_byte(live, F_OFD_SETLK, F_UNLCK, node, &lock); /* else closing frees it */
}

int jsi_sqlite_live_free(const struct jsi_sqlite_live *live, int64_t node, int64_t dev, int64_t ino)
{
    if (live->fd < 0 || live->dev != dev || live->ino != ino) {
        return 0;
    }
    struct flock lock;
    return lock_byte(live, F_OFD_GETLK, F_WRLCK, node, &lock) == 0 && lock.l_type == F_UNLCK;
}

void jsi_sqlite_live_wait(const struct jsi_sqlite_live *live, int waits)
{
    struct flock lock;
    if (live->fd >= 0) {
        /* A courtesy only: where it fails, others do not give way. */
        (void)lock_byte(live, F_OFD_SETLK, waits ? F_RDLCK : F_UNLCK, WAITING_BYTE, &lock);
    }
}

int jsi_sqlite_live_waited(const struct jsi_sqlite_live *live)
{
    struct flock lock;
    return live->fd >= 0 && lock_byte(live, F_OFD_GETLK, F_WRLCK, WAITING_BYTE, &lock) == 0 &&
           lock.l_type != F_UNLCK;
}

int jsi_sqlite_live_moved(const struct jsi_sqlite_store *store, const struct jsi_sqlite_live *live)
{
    struct stat status;
    if (stat(store->live_path, &status) != 0) {
        return errno == ENOENT;
    }
    return (int64_t)status.st_dev != live->dev || (int64_t)status.st_ino != live->ino;
}
