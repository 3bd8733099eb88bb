/* url.c: the URL of a sqlite: store.
 *
 *   sqlite:/absolute/path.db    sqlite:///absolute/path.db    sqlite:relative.db
 *
 * %XX stands for a byte ('%', '?' and, for the pedantic, others must be written so). A relative
 * path counts from the working directory at open. After '?' only vfs=NAME may follow: the name
 * of a registered SQLite VFS. No I/O but getcwd(). Locks: none. */
#include "store.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

static int digit_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    return -1;
}

/* Decodes length bytes of text. */
static int decode(const jobsched_allocator *allocator, const char *text, size_t length,
                  char **out_text)
{
    char *decoded = jsi_sqlite_allocate(allocator, length + 1);
    if (decoded == NULL) {
        return JOBSCHED_ENOMEM;
    }
    size_t used = 0;
    for (size_t at = 0; at < length; at++) {
        char byte = text[at];
        if (byte == '%') {
            int high = -1;
            int low = -1;
            if (length - at > 2) {
                high = digit_of(text[at + 1]);
                low = digit_of(text[at + 2]);
            }
            if (high < 0 || low < 0 || (high == 0 && low == 0)) {
                jsi_sqlite_free(allocator, decoded);
                return jobsched_fail(JOBSCHED_EINVAL, 0,
                                     "'%.*s' in the lock URL is not a '%%' with two hexadecimal "
                                     "digits from 01 to FF",
                                     (int)(length - at > 3 ? 3 : length - at), text + at);
            }
            byte = (char)(high * 16 + low);
            at += 2;
        }
        decoded[used++] = byte;
    }
    decoded[used] = '\0';
    *out_text = decoded;
    return JOBSCHED_OK;
}

static int check_path(const char *path)
{
    if (path[0] == '\0') {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "the lock URL 'sqlite:' lacks a path");
    }
    if (strcmp(path, ":memory:") == 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "':memory:' cannot be seen by another process; use 'single:'");
    }
    if (path[strlen(path) - 1] == '/') {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "'%s' names a directory, not a file", path);
    }
    return JOBSCHED_OK;
}

/* Makes the path absolute, so that a later chdir() changes nothing, and so that SQLite cannot
 * take it for a URI. Takes over path. */
static int absolute(const jobsched_allocator *allocator, char *path, char **out_path)
{
    if (path[0] == '/') {
        *out_path = path;
        return JOBSCHED_OK;
    }
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof directory - 1) == NULL) {
        int system_errno = errno;
        jsi_sqlite_free(allocator, path);
        return jobsched_fail(JOBSCHED_EUNREACHABLE, system_errno,
                             "the working directory cannot be told");
    }
    size_t used = strlen(directory);
    directory[used] = '/';
    directory[used + 1] = '\0';
    *out_path = jsi_sqlite_join(allocator, directory, path);
    jsi_sqlite_free(allocator, path);
    return *out_path == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;
}

/* options points behind '?'. */
static int parse_options(const jobsched_allocator *allocator, const char *options, char **out_vfs)
{
    if (strncmp(options, "vfs=", 4) != 0 || strchr(options, '&') != NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "option '%s' of the lock URL is unknown; 'vfs=NAME' is the only one",
                             options);
    }
    char *vfs = NULL;
    int result = decode(allocator, options + 4, strlen(options + 4), &vfs);
    if (result != 0) {
        return result;
    }
    if (sqlite3_vfs_find(vfs) == NULL) {
        result = jobsched_fail(JOBSCHED_EINVAL, 0, "no SQLite VFS '%s' is registered", vfs);
        jsi_sqlite_free(allocator, vfs);
        return result;
    }
    *out_vfs = vfs;
    return JOBSCHED_OK;
}

int jsi_sqlite_url(const jobsched_allocator *allocator, const char *url, char **out_path,
                   char **out_vfs)
{
    static const char scheme[] = "sqlite:";
    if (url == NULL || strncmp(url, scheme, sizeof scheme - 1) != 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "the lock URL does not begin with 'sqlite:'");
    }
    const char *text = url + sizeof scheme - 1;
    if (text[0] == '/' && text[1] == '/') {
        if (text[2] != '/') {
            return jobsched_fail(JOBSCHED_EINVAL, 0,
                                 "'%s' names a host; a path takes one slash or three", text);
        }
        text += 2;
    }
    size_t length = strcspn(text, "?");
    char *path = NULL;
    int result = decode(allocator, text, length, &path);
    if (result != 0) {
        return result;
    }
    result = check_path(path);
    char *vfs = NULL;
    if (result == 0 && text[length] == '?') {
        result = parse_options(allocator, text + length + 1, &vfs);
    }
    if (result != 0) {
        jsi_sqlite_free(allocator, path);
        return result;
    }
    result = absolute(allocator, path, out_path);
    if (result != 0) {
        jsi_sqlite_free(allocator, vfs);
        return result;
    }
    *out_vfs = vfs;
    return JOBSCHED_OK;
}
