/* sqlite_support.c: see sqlite_support.h. */
#include "sqlite_support.h"

#include "sqlite_shim.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char sqlite_directory[] = "/tmp/test-sqlite-XXXXXX";
char sqlite_path[SQLITE_PATH_BYTES];

static const char *options = "";
static unsigned made;

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    (void)data;
    (void)snprintf(sqlite_path, sizeof sqlite_path, "%s/%u.db", sqlite_directory, ++made);
    (void)snprintf(out_url, out_bytes, "sqlite:%s%s", sqlite_path, options);
    return 0;
}

static jobsched_conformance_subject subject = {.make_url = make_url};

int sqlite_make_directory(void **state)
{
    (void)state;
    /* Others may look in, because some tests become another user. */
    return mkdtemp(sqlite_directory) == NULL || chmod(sqlite_directory, 0755) != 0 ||
                   sqlite_shim_register() != 0
               ? -1
               : 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

int sqlite_remove_directory(void **state)
{
    (void)state;
    return nftw(sqlite_directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int sqlite_set_up(void **state)
{
    options = "";
    subject.driver = jobsched_backend_sqlite();
    return cf_setup(state, &subject);
}

int sqlite_set_up_shim(void **state)
{
    options = "?vfs=shim";
    subject.driver = jobsched_backend_sqlite();
    return cf_setup(state, &subject);
}

int sqlite_tear_down(void **state)
{
    sqlite_shim_fail_writes(SQLITE_OK, 0);
    sqlite_shim_fail_syncs(SQLITE_OK, 0);
    sqlite_shim_clock(0);
    return cf_teardown(state);
}

int sqlite_try_url(struct cf_world *world, const char *url)
{
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "try", NULL);
    node.config.url = url;
    void *const untouched = &node;
    void *backend = untouched;
    int code = world->driver->open(&node.config, &backend);
    if (code == JOBSCHED_OK) {
        world->driver->close(backend);
    } else {
        cf_true(backend == untouched);
        cf_equal(jobsched_last_error()->code, code);
    }
    return code;
}

int sqlite_try_path(struct cf_world *world, const char *path)
{
    char url[SQLITE_PATH_BYTES + 16];
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    return sqlite_try_url(world, url);
}

void sqlite_expect_message(const char *text)
{
    if (strstr(jobsched_last_error()->message, text) == NULL) {
        fail_msg("'%s' is not in the message: %s", text, jobsched_last_error()->message);
    }
}

int64_t sqlite_ask(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t value = INT64_MIN;
    if (sqlite3_open_v2(sqlite_path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    if (value == INT64_MIN) {
        fail_msg("no answer to: %s", sql);
    }
    return value;
}

void sqlite_do(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    int result = sqlite3_open(path, &db);
    if (result == SQLITE_OK) {
        result = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    (void)sqlite3_close(db);
    cf_equal(result, SQLITE_OK);
}

int64_t sqlite_read_file(const char *path, void **out_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return -1;
    }
    size_t capacity = 1 << 24;
    *out_bytes = malloc(capacity);
    size_t size = *out_bytes == NULL ? 0 : fread(*out_bytes, 1, capacity, file);
    (void)fclose(file);
    cf_true(size < capacity);
    return (int64_t)size;
}

void sqlite_write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    cf_true(file != NULL);
    size_t written = fwrite(bytes, 1, size, file);
    cf_equal(fclose(file), 0);
    cf_equal(written, size);
}

void sqlite_name(char *out_path, const char *suffix)
{
    (void)snprintf(out_path, SQLITE_PATH_BYTES, "%.240s%s", sqlite_path, suffix);
}
