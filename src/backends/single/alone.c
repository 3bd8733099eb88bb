/* alone.c: tells when another process of the same application uses single: with the same
 * namespace, since that is how jobs come to run twice. A hint and never an error: whatever
 * fails here is ignored.
 *
 * Every handle holds a shared lock on one byte of a lock file; which byte follows from the
 * process, so the handles of one process share theirs. A lock on any other byte belongs to
 * another process. Open-file-description locks, because those of POSIX vanish as soon as
 * any handle of the process closes the file. The file stays: removing it would race with
 * others that open it. A forked child that goes on without exec keeps its parent's lock.
 *
 * A handle that only asks belongs to an operator's program, so it is nobody's twin: it looks into all
 * lock files of the user for one that two processes hold.
 *
 * Locks: none; each function runs before other calls, on lane KEEP, or after all calls. */
#include "store.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PID_BITS 22 /* Linux gives out no larger process ids */

/* Added to a path by the kernel when a deploy replaced the program's file. */
#define DELETED_SUFFIX " (deleted)"

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* The namespace, and the program's path: other applications with that namespace are no twin. */
static uint64_t identity_hash(const char *name_space)
{
    uint64_t hash = hash_bytes(UINT64_C(14695981039346656037), name_space, strlen(name_space) + 1);
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    size_t bytes = length > 0 ? (size_t)length : 0;
    size_t suffix = sizeof DELETED_SUFFIX - 1;
    if (bytes > suffix && memcmp(path + bytes - suffix, DELETED_SUFFIX, suffix) == 0) {
        bytes -= suffix;
    }
    return hash_bytes(hash, path, bytes);
}

/* Containers may share the runtime directory, so the process id alone is not enough. */
static int64_t own_byte(void)
{
    struct stat status;
    int64_t space = stat("/proc/self/ns/pid", &status) == 0 ? (int64_t)(uint32_t)status.st_ino : 0;
    return (space << PID_BITS) | ((int64_t)getpid() & ((INT64_C(1) << PID_BITS) - 1));
}

static const char *directory_of_files(void)
{
    const char *directory = secure_getenv("XDG_RUNTIME_DIR");
    return directory == NULL || directory[0] != '/' ? "/tmp" : directory;
}

/* What the names of all files of this user begin with. */
static void print_prefix(char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "jobsched-single-%lu-", (unsigned long)geteuid());
}

static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0) {
        return -1;
    }
    /* In /tmp somebody else may have made a file, a fifo or a device of that name. */
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int open_lock_file(const char *name_space)
{
    char path[PATH_MAX], prefix[64];
    print_prefix(prefix, sizeof prefix);
    int length = snprintf(path, sizeof path, "%s/%s%016llx.lock", directory_of_files(), prefix,
                          (unsigned long long)identity_hash(name_space));
    return length < 0 || (size_t)length >= sizeof path ? -1 : open_file(path, O_RDWR | O_CREAT);
}

/* A length of 0 reaches to the end of the file, however far. */
static int others_hold(int fd, int64_t from, int64_t length)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int jsi_single_alone_others(const struct store *store)
{
    if (store->lock_fd < 0) {
        return -1;
    }
    int64_t own = own_byte();
    return others_hold(store->lock_fd, own + 1, 0) ||
           (own > 0 && others_hold(store->lock_fd, 0, own));
}

/* The process that holds a byte of the range; 0: none. */
static int64_t holder_of(int fd, int64_t from, int64_t length, int64_t *out_byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
        return 0;
    }
    *out_byte = lock.l_start;
    return lock.l_start & ((INT64_C(1) << PID_BITS) - 1);
}

static int is_shared(const char *path, int64_t out_pids[2])
{
    int64_t first = 0, other = 0;
    int fd = open_file(path, O_RDONLY);
    if (fd < 0) {
        return 0;
    }
    out_pids[0] = holder_of(fd, 0, 0, &first);
    out_pids[1] = out_pids[0] == 0 ? 0 : holder_of(fd, first + 1, 0, &other);
    if (out_pids[0] != 0 && out_pids[1] == 0 && first > 0) {
        out_pids[1] = holder_of(fd, 0, first, &other);
    }
    (void)close(fd);
    return out_pids[1] != 0;
}

int jsi_single_alone_pair(int64_t out_pids[2])
{
    enum { FILES_MAX = 10000 }; /* names in a folder that others write to as well */
    char path[PATH_MAX], prefix[64];
    print_prefix(prefix, sizeof prefix);
    DIR *listing = opendir(directory_of_files());
    if (listing == NULL) {
        return -1;
    }
    int found = 0;
    const struct dirent *entry;
    for (int i = 0; !found && i < FILES_MAX && (entry = readdir(listing)) != NULL; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", directory_of_files(), entry->d_name);
        if (length > 0 && (size_t)length < sizeof path &&
            strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            found = is_shared(path, out_pids);
        }
    }
    (void)closedir(listing);
    return found;
}

void jsi_single_alone_check(struct store *store)
{
    if (store->warned || store->config.notice == NULL || jsi_single_alone_others(store) <= 0) {
        return;
    }
    store->warned = 1;
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message,
                   "another process of this application uses 'single:' with namespace '%s': each "
                   "of them runs every job; use a lock backend that they can share",
                   store->config.name_space);
    store->config.notice(store->config.notice_data, JOBSCHED_EVENT_NOT_ALONE, message);
}

void jsi_single_alone_enter(struct store *store)
{
    store->lock_fd = store->config.control_only ? -1 : open_lock_file(store->config.name_space);
    if (store->lock_fd < 0) {
        return;
    }
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = own_byte(), .l_len = 1};
    if (fcntl(store->lock_fd, F_OFD_SETLK, &lock) != 0) {
        jsi_single_alone_leave(store);
        return;
    }
    jsi_single_alone_check(store); /* after the own lock, so that of two at least one sees */
}

void jsi_single_alone_leave(struct store *store)
{
    if (store->lock_fd >= 0) {
        (void)close(store->lock_fd);
        store->lock_fd = -1;
    }
}
