/* zone_file.c: finds and reads zone files. The only I/O of this room; touches neither
 * the process's time zone nor its environment. No locks. */
#include "base/alloc.h"
#include "schedule/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest real one has less than 4 KiB. */
enum { FILE_BYTES_MAX = 65536, FILE_BYTES_MIN = 44, VERSION_BYTES = 32, DIRECTORIES = 3 };

static const char system_directory[] = "/usr/share/zoneinfo";

/* Reads up to size bytes; -1 with errno on failure. */
static ssize_t read_all(int descriptor, unsigned char *bytes, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(descriptor, bytes + used, size - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* The first line of tzdata.zi is "# version 2026f". */
static void read_version(int directory, char out_version[VERSION_BYTES])
{
    static const char mark[] = "# version ";
    unsigned char line[sizeof mark + VERSION_BYTES];
    out_version[0] = '\0';
    int descriptor = openat(directory, "tzdata.zi", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) {
        return;
    }
    ssize_t got = read_all(descriptor, line, sizeof line);
    (void)close(descriptor);
    size_t mark_length = sizeof mark - 1;
    if (got < (ssize_t)mark_length || memcmp(line, mark, mark_length) != 0) {
        return;
    }
    size_t length = 0;
    for (size_t at = mark_length; at < (size_t)got && line[at] > ' ' && line[at] <= '~'; at++) {
        if (length + 1 < VERSION_BYTES) {
            out_version[length++] = (char)line[at];
        }
    }
    out_version[length] = '\0';
}

static enum jsi_zone_result read_descriptor(const jobsched_allocator *allocator, int descriptor,
                                            const char *name, const char *version,
                                            const struct jsi_zone **out_zone)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        return JSI_ZONE_UNREADABLE;
    }
    if (!S_ISREG(status.st_mode)) {
        return JSI_ZONE_UNKNOWN; /* "America" is a directory */
    }
    if (status.st_size < FILE_BYTES_MIN || status.st_size > FILE_BYTES_MAX) {
        return JSI_ZONE_DAMAGED;
    }
    size_t size = (size_t)status.st_size;
    unsigned char *bytes = jsi_new(allocator, size);
    if (bytes == NULL) {
        return JSI_ZONE_NO_MEMORY;
    }
    enum jsi_zone_result result = JSI_ZONE_UNREADABLE;
    ssize_t got = read_all(descriptor, bytes, size);
    if (got >= 0) {
        result = jsi_zone_decode(allocator, bytes, (size_t)got, name, version, out_zone);
    }
    int saved = errno;
    jsi_free(allocator, bytes);
    errno = saved;
    return result;
}

static enum jsi_zone_result read_from(const jobsched_allocator *allocator, int directory,
                                      const char *name, const struct jsi_zone **out_zone)
{
    int descriptor = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) {
        return errno == ENOENT || errno == ENOTDIR ? JSI_ZONE_UNKNOWN : JSI_ZONE_UNREADABLE;
    }
    char version[VERSION_BYTES];
    read_version(directory, version);
    enum jsi_zone_result result = read_descriptor(allocator, descriptor, name, version, out_zone);
    int saved = errno;
    (void)close(descriptor);
    errno = saved;
    return result;
}

enum jsi_zone_result jsi_zone_load(const jobsched_allocator *allocator, const char *directory,
                                   const char *name, const struct jsi_zone **out_zone)
{
    const char *const directories[DIRECTORIES] = {directory, getenv("TZDIR"), system_directory};
    enum jsi_zone_result result = JSI_ZONE_NO_DATA;
    for (int i = 0; i < DIRECTORIES; i++) {
        if (directories[i] == NULL || directories[i][0] == '\0') {
            continue;
        }
        int descriptor = open(directories[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) {
            continue;
        }
        if (descriptor < 0) {
            return JSI_ZONE_UNREADABLE; /* it may be there: another would be the wrong one */
        }
        result = read_from(allocator, descriptor, name, out_zone);
        int saved = errno;
        (void)close(descriptor);
        errno = saved;
        if (result != JSI_ZONE_UNKNOWN) {
            return result;
        }
    }
    return result;
}
