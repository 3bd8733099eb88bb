/* test_sqlite_open.c: opening a sqlite: store: URLs, places, schema versions, foreign and damaged
 * files, permissions. What is refused is left as it was. */
#include "sqlite_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

/* A URL that is not understood is refused, and the message shows the offending part. */
static void test_bad_urls_are_refused(void **state)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"sqlite:", "path"},
        {"sqlite::memory:", ":memory:"},
        {"sqlite:///", "/"},
        {"sqlite:/tmp/", "/tmp/"},
        {"sqlite:/tmp", "/tmp"},
        {"sqlite://host/tmp/x.db", "host"},
        {"sqlite:/tmp/x.db?mode=ro", "mode=ro"},
        {"sqlite:/tmp/x.db?", "''"},
        {"sqlite:/tmp/x.db?vfs=nosuch", "nosuch"},
        {"sqlite:/tmp/x.db?vfs=shim&cache=shared", "cache=shared"},
        {"sqlite:/tmp/x%", "%"},
        {"sqlite:/tmp/x%2", "%2"},
        {"sqlite:/tmp/x%zz.db", "%zz"},
        {"sqlite:/tmp/x%00.db", "%00"},
        {"postgresql:/tmp/x.db", "sqlite:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print_message("%s\n", rows[i].url);
        cf_equal(sqlite_try_url(*state, rows[i].url), JOBSCHED_EINVAL);
        sqlite_expect_message(rows[i].shown);
        cf_equal(access("/tmp/x.db", F_OK), -1);
    }
}

/* All spellings of a path lead to the same file. */
static void test_spellings_of_a_path(void **state)
{
    struct cf_world *world = *state;
    char url[SQLITE_PATH_BYTES + 32];
    struct cf_node *node = cf_open(world, "a");
    (void)cf_announce(node, "job", "x", 0);
    (void)snprintf(url, sizeof url, "sqlite://%s", sqlite_path);
    cf_equal(sqlite_try_url(world, url), 0);
    (void)snprintf(url, sizeof url, "sqlite:%s/%%2e/%s", sqlite_directory,
                   strrchr(sqlite_path, '/') + 1);
    cf_equal(sqlite_try_url(world, url), 0);
    cf_equal(chdir(sqlite_directory), 0);
    (void)snprintf(url, sizeof url, "sqlite:%s", strrchr(sqlite_path, '/') + 1);
    cf_equal(sqlite_try_url(world, url), 0);
    char link[SQLITE_PATH_BYTES], lock_file[SQLITE_PATH_BYTES];
    sqlite_name(link, ".link");
    cf_equal(symlink(sqlite_path, link), 0);
    cf_equal(sqlite_try_path(world, link), 0);
    sqlite_name(lock_file, ".link-live");
    cf_equal(access(lock_file, F_OK), -1); /* one database, one lock file */
    /* Each of the four has entered this store, and left it. */
    cf_equal(sqlite_ask("SELECT seq FROM sqlite_sequence WHERE name = 'node'"), 5);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
    cf_equal(chdir("/"), 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL)); /* not lost by chdir() */
}

/* A place that does not exist is named, and nothing is made there. */
static void test_missing_directory_is_named(void **state)
{
    char path[SQLITE_PATH_BYTES], directory[SQLITE_PATH_BYTES];
    sqlite_name(directory, ".nosuch");
    sqlite_name(path, ".nosuch/x.db");
    cf_equal(sqlite_try_path(*state, path), JOBSCHED_EUNREACHABLE);
    sqlite_expect_message(directory);
    cf_equal(jobsched_last_error()->system_errno, ENOENT);
    cf_equal(access(directory, F_OK), -1);
    cf_equal(sqlite_try_path(*state, sqlite_directory), JOBSCHED_EINVAL);
    sqlite_expect_message(sqlite_directory);
    /* And why, where that is another reason. */
    cf_equal(sqlite_try_path(*state, "/dev/null/x.db"), JOBSCHED_EUNREACHABLE);
    sqlite_expect_message("/dev/null/x.db");
    sqlite_expect_message(strerror(ENOTDIR));
}

/* G7: who only asks makes no store, so a slip in its name is told. */
static void test_asking_makes_no_store(void **state)
{
    struct cf_node desk = {.backend = NULL};
    const struct cf_settings settings = {.control_only = 1};
    cf_config(&desk, *state, "desk", &settings);
    void *backend = NULL;
    cf_equal(desk.driver->open(&desk.config, &backend), JOBSCHED_ENOTFOUND);
    sqlite_expect_message(sqlite_path);
    cf_equal(access(sqlite_path, F_OK), -1);
    cf_close(*state, cf_open(*state, "node"));
    cf_ok(desk.driver->open(&desk.config, &backend));
    desk.driver->close(backend);
}

/* G16: many processes that start at the same time make one schema, and G1 holds from the start. */
static void test_many_starters_make_one_schema(void **state)
{
    struct cf_world *world = *state;
    enum { STARTERS = 8 };
    int gate[2];
    cf_equal(pipe(gate), 0);
    pid_t children[STARTERS];
    for (int i = 0; i < STARTERS; i++) {
        children[i] = cf_fork(world);
        if (children[i] == 0) {
            char byte;
            (void)close(gate[1]);
            (void)!read(gate[0], &byte, 1); /* the end of file opens it for all at once */
            struct cf_node *node = cf_open(world, "starter");
            struct cf_job job = cf_job(node, "job", 0);
            jobsched_claim claim = cf_at(&job, 0);
            cf_ask(node, &claim);
            cf_answer(claim, DONE);
            cf_close(world, node);
            _exit(0);
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < STARTERS; i++) {
        cf_equal(cf_wait(world, children[i]), 0);
    }
    cf_equal(sqlite_ask("PRAGMA user_version"), 2);
    cf_equal(sqlite_ask("PRAGMA application_id"), 0x6a736368);
    cf_equal(sqlite_ask("SELECT count(*) FROM fence"), 1);
    cf_equal(sqlite_ask("SELECT generation FROM fence"), 1);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 0);
    cf_equal(sqlite_ask("SELECT count(*) FROM pragma_integrity_check WHERE "
                        "integrity_check <> 'ok'"),
             0);
}

/* Between the questions that a starter asks of a new file, another one makes the file its own. */
static int make_meanwhile(unsigned event, void *made, void *statement, void *text)
{
    (void)event;
    (void)statement;
    int *done = made;
    if (strcmp(text, "PRAGMA user_version") == 0 && !*done) {
        sqlite3 *other = NULL;
        *done = 1;
        if (sqlite3_open(sqlite_path, &other) == SQLITE_OK) {
            /* It may be refused: whoever reads in a transaction keeps it out. */
            (void)sqlite3_exec(other,
                               "BEGIN IMMEDIATE; PRAGMA application_id = 0x6a736368;"
                               "CREATE TABLE fence(id INTEGER PRIMARY KEY); COMMIT",
                               NULL, NULL, NULL);
        }
        (void)sqlite3_close(other);
    }
    return 0;
}

static int made_meanwhile;

static int watch_connection(sqlite3 *db, char **error, const struct sqlite3_api_routines *api)
{
    (void)error;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, make_meanwhile, &made_meanwhile);
}

/* G16: a starter that comes while another makes the schema does not take the file for that of another
 * application, though some of its questions are answered before and some after. */
static void test_file_made_meanwhile_is_not_foreign(void **state)
{
    made_meanwhile = 0;
    cf_equal(sqlite3_auto_extension((void (*)(void))watch_connection), SQLITE_OK);
    int code = sqlite_try_path(*state, sqlite_path);
    cf_equal(sqlite3_cancel_auto_extension((void (*)(void))watch_connection), 1);
    cf_equal(made_meanwhile, 1);
    cf_equal(code, 0);
}

static void expect_refusal(struct cf_world *world, int code)
{
    void *before = NULL, *after = NULL;
    int64_t size = sqlite_read_file(sqlite_path, &before);
    cf_true(size >= 0);
    cf_equal(sqlite_try_path(world, sqlite_path), code);
    sqlite_expect_message(sqlite_path);
    cf_equal(sqlite_read_file(sqlite_path, &after), size);
    cf_equal(memcmp(before, after, (size_t)size), 0);
    free(before);
    free(after);
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    cf_equal(access(lock_file, F_OK), -1);
}

/* G16: a newer schema is refused with both versions named. */
static void test_newer_schema_is_refused(void **state)
{
    sqlite_do(sqlite_path, "PRAGMA application_id = 0x6a736368; PRAGMA user_version = 7;"
                           "CREATE TABLE fence(x)");
    expect_refusal(*state, JOBSCHED_ESCHEMA);
    sqlite_expect_message("version 7");
    sqlite_expect_message("up to 2");
}

/* Another application's database is not touched. */
static void test_foreign_database_is_refused(void **state)
{
    sqlite_do(sqlite_path, "CREATE TABLE customer(name)");
    expect_refusal(*state, JOBSCHED_EREFUSED);
    (void)unlink(sqlite_path);
    sqlite_do(sqlite_path, "PRAGMA application_id = 99");
    expect_refusal(*state, JOBSCHED_EREFUSED);
    (void)unlink(sqlite_path);
    sqlite_do(sqlite_path, "PRAGMA user_version = 3");
    expect_refusal(*state, JOBSCHED_EREFUSED);
}

/* A file that is no database, and one whose pages are damaged, are told from an empty one. */
static void test_damaged_file_is_data_lost(void **state)
{
    struct cf_world *world = *state;
    char text[8192];
    memset(text, 'x', sizeof text);
    sqlite_write_file(sqlite_path, text, sizeof text);
    expect_refusal(world, JOBSCHED_EDATALOST);
    (void)unlink(sqlite_path);

    cf_close(world, cf_open(world, "a"));
    void *bytes = NULL;
    int64_t size = sqlite_read_file(sqlite_path, &bytes);
    cf_true(size > 4096);
    memset((char *)bytes + 108, 0xff, 3000); /* behind the header of the first page */
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    cf_equal(unlink(lock_file), 0);
    sqlite_write_file(sqlite_path, bytes, (size_t)size);
    free(bytes);
    expect_refusal(world, JOBSCHED_EDATALOST);

    sqlite_write_file(sqlite_path, "", 0);
    cf_equal(sqlite_try_path(world, sqlite_path), 0); /* somebody touched it: ours */
}

/* Runs the attempt as somebody who is not root, and returns its code; its message is recorded
 * here too. */
static int try_as_nobody(struct cf_world *world)
{
    jobsched_error error;
    int ends[2];
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
            _exit(3);
        }
        int code = sqlite_try_path(world, sqlite_path);
        error = *jobsched_last_error();
        error.code = code;
        _exit(write(ends[1], &error, sizeof error) == (ssize_t)sizeof error ? 0 : 4);
    }
    (void)close(ends[1]);
    ssize_t got = read(ends[0], &error, sizeof error);
    (void)close(ends[0]);
    cf_equal(cf_wait(world, child), 0);
    cf_equal(got, sizeof error);
    return error.code == 0 ? 0 : jobsched_fail(error.code, error.system_errno, "%s", error.message);
}

/* G8: what may not be read or written is an error of its own, told at open. */
static void test_missing_permission_is_denied_access(void **state)
{
    struct cf_world *world = *state;
    char directory[SQLITE_PATH_BYTES];
    sqlite_name(directory, ".d");
    cf_equal(mkdir(directory, 0755), 0);
    (void)snprintf(sqlite_path, sizeof sqlite_path, "%.240s/x.db", directory);

    if (geteuid() != 0) {
        cf_equal(chmod(directory, 0555), 0);
    }
    cf_equal(try_as_nobody(world), JOBSCHED_EACCESS); /* may not create */
    sqlite_expect_message(sqlite_path);
    cf_equal(access(sqlite_path, F_OK), -1);
    if (geteuid() != 0) {
        cf_equal(chmod(directory, 0755), 0);
    }

    cf_close(world, cf_open(world, "root"));
    sqlite_do(sqlite_path, "PRAGMA user_version"); /* it is there */
    cf_equal(sqlite_try_path(world, sqlite_path), 0);
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    cf_equal(chmod(sqlite_path, 0444), 0);
    cf_equal(chmod(directory, 0777), 0);
    cf_equal(try_as_nobody(world), JOBSCHED_EACCESS); /* may read only */
    sqlite_expect_message(sqlite_path);
    cf_equal(chmod(sqlite_path, 0), 0);
    cf_equal(try_as_nobody(world), JOBSCHED_EACCESS); /* may not even read */
    cf_equal(chmod(sqlite_path, 0666), 0);
    cf_equal(chmod(lock_file, 0444), 0);
    cf_equal(try_as_nobody(world), JOBSCHED_EACCESS); /* may not lock */
    sqlite_expect_message(lock_file);
    cf_equal(chmod(lock_file, 0666), 0);
    cf_equal(try_as_nobody(world), 0);
    cf_equal(chmod(directory, 0555), 0);
    if (geteuid() == 0) {
        cf_equal(chown(sqlite_path, NOBODY, NOBODY), 0);
    }
    cf_equal(try_as_nobody(world), JOBSCHED_EACCESS); /* may not make the log beside it */
    cf_equal(chmod(directory, 0755), 0);
}

static void expect_claim(struct cf_node *node, const struct cf_job *job, int code)
{
    jobsched_claim claim = cf_at(job, 1);
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_equal(node->driver->claim(node->backend, &call, &claim, 1), code);
}

/* G8: a permission that is taken away while running denies access; it does not look as if the
 * data were lost, and given back, the same node goes on. */
static void test_permission_taken_away_is_denied_access(void **state)
{
    struct cf_world *world = *state;
    char directory[SQLITE_PATH_BYTES];
    sqlite_name(directory, ".d");
    cf_equal(mkdir(directory, 0777), 0);
    cf_equal(chmod(directory, 0777), 0); /* whatever the umask */
    (void)snprintf(sqlite_path, sizeof sqlite_path, "%.240s/x.db", directory);
    (void)snprintf(world->url, sizeof world->url, "sqlite:%s", sqlite_path);
    int to_child[2], to_parent[2];
    cf_equal(pipe(to_child), 0);
    cf_equal(pipe(to_parent), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        char byte;
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
            _exit(3);
        }
        struct cf_node *node = cf_open(world, "node");
        struct cf_job job = cf_job(node, "job", 1);
        cf_equal(write(to_parent[1], "x", 1), 1);
        cf_equal(read(to_child[0], &byte, 1), 1);
        expect_claim(node, &job, JOBSCHED_EACCESS);
        expect_claim(node, &job, JOBSCHED_EACCESS);
        cf_equal(write(to_parent[1], "x", 1), 1);
        cf_equal(read(to_child[0], &byte, 1), 1);
        expect_claim(node, &job, JOBSCHED_OK);
        cf_close(world, node);
        _exit(0);
    }
    (void)close(to_parent[1]);
    char byte;
    ssize_t first = read(to_parent[0], &byte, 1);
    (void)chmod(directory, 0);
    (void)!write(to_child[1], "x", 1);
    ssize_t second = read(to_parent[0], &byte, 1);
    (void)chmod(directory, 0777);
    (void)!write(to_child[1], "x", 1);
    cf_equal(cf_wait(world, child), 0);
    cf_equal(first + second, 2);
    (void)close(to_parent[0]);
    (void)close(to_child[0]);
    (void)close(to_child[1]);
}

/* Whoever may write the database may lock, and nobody else. G13: no descriptor of the store
 * leaks into programs that the application starts. */
static void test_files_are_private_to_whom_they_should_be(void **state)
{
    struct cf_world *world = *state;
    static const mode_t modes[] = {0600, 0660, 0644};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char lock_file[SQLITE_PATH_BYTES];
        sqlite_name(lock_file, "-live");
        (void)unlink(lock_file);
        sqlite_write_file(sqlite_path, "", 0);
        cf_equal(chmod(sqlite_path, modes[i]), 0);
        struct cf_node *node = cf_open(world, "a");
        struct stat status;
        cf_equal(stat(lock_file, &status), 0);
        cf_equal(status.st_mode & 0777, modes[i]);
        int descriptors = 0;
        for (int fd = 3; fd < 256; fd++) {
            char link[64], target[SQLITE_PATH_BYTES] = "";
            (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            if (readlink(link, target, sizeof target - 1) > 0 &&
                strncmp(target, sqlite_path, strlen(sqlite_path)) == 0) {
                descriptors++;
                cf_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
            }
        }
        cf_true(descriptors >= 3); /* database, log, lock file */
        cf_close(world, node);
    }
}

/* G16: a newer library that migrates the store under us stops us, and a roll-back of it (here:
 * of the number) lets us go on. */
static void test_migration_under_us_is_noticed(void **state)
{
    struct cf_node *node = cf_open(*state, "a");
    struct cf_job job = cf_job(node, "job", 2);
    sqlite_do(sqlite_path, "PRAGMA user_version = 9");
    jobsched_claim claim = cf_at(&job, 1);
    for (int i = 0; i < 2; i++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_equal(node->driver->claim(node->backend, &call, &claim, 1), JOBSCHED_ESCHEMA);
        sqlite_expect_message("version 9");
        call = cf_call(JOBSCHED_LANE_KEEP);
        cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0), JOBSCHED_ESCHEMA);
        cf_equal(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_ESCHEMA);
    }
    sqlite_do(sqlite_path, "PRAGMA user_version = 2");
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(cf_renew(node, "job", claim.token), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bad_urls_are_refused),
        TEST(test_spellings_of_a_path),
        TEST(test_missing_directory_is_named),
        TEST(test_asking_makes_no_store),
        TEST(test_many_starters_make_one_schema),
        TEST(test_file_made_meanwhile_is_not_foreign),
        TEST(test_newer_schema_is_refused),
        TEST(test_foreign_database_is_refused),
        TEST(test_damaged_file_is_data_lost),
        TEST(test_missing_permission_is_denied_access),
        TEST(test_permission_taken_away_is_denied_access),
        TEST(test_files_are_private_to_whom_they_should_be),
        TEST(test_migration_under_us_is_noticed),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
