/* test_sqlite_check.c: what doctor finds in a sqlite: store, each finding by its id and level (issue
 * 5). The linker puts a file system of ours in place of statfs(). */
#include "checks.h"
#include "sqlite_support.h"

#include <errno.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MIB (INT64_C(1024) * 1024)

/* What the wrapped call says. left_bytes -1: what the real one says. */
static struct {
    int64_t left_bytes;
    unsigned long type; /* 0: what the real one says */
    int error;          /* 0: none */
} place;

int __real_statfs(const char *path, struct statfs *out_place);
int __wrap_statfs(const char *path, struct statfs *out_place);

int __wrap_statfs(const char *path, struct statfs *out_place)
{
    int result = __real_statfs(path, out_place);
    if (place.error != 0) {
        errno = place.error;
        return -1;
    }
    if (place.left_bytes >= 0) {
        out_place->f_bsize = 1024;
        out_place->f_bavail = (__fsblkcnt_t)(place.left_bytes / 1024);
    }
    if (place.type != 0) {
        out_place->f_type = (__fsword_t)place.type;
    }
    return result;
}

static int set_up(void **state)
{
    memset(&place, 0, sizeof place);
    place.left_bytes = 1024 * MIB;
    return sqlite_set_up(state);
}

/* Where nothing is wrong, each thing that is looked at says so. */
static void test_all_is_well(void **state)
{
    struct checks checks;
    checks_read(cf_open(*state, "node"), &checks);
    checks_expect(&checks, "1 sqlite.rights: '");
    checks_expect(&checks, "1 sqlite.schema: the tables are of version ");
    checks_expect(&checks, "1 sqlite.file-system: '");
    checks_expect(&checks, "1 sqlite.space: 1024 MiB are left for '");
    checks_expect(&checks, "1 sqlite.lock-file: the lock file '");
    checks_contain(&checks, sqlite_path);
    cf_equal(checks.count, 5);
    cf_equal(checks.level, JOBSCHED_LEVEL_INFO);
}

/* G10: who deletes or replaces the lock file makes nodes look dead, until they take their locks
 * anew. */
static void test_lock_file_that_moved(void **state)
{
    struct checks checks;
    char live[SQLITE_PATH_BYTES], moved[SQLITE_PATH_BYTES];
    struct cf_node *node = cf_open(*state, "node");
    sqlite_name(live, "-live");
    sqlite_name(moved, "-moved");
    cf_equal(rename(live, moved), 0);
    checks_read(node, &checks);
    checks_expect(&checks, "2 sqlite.lock-file: the lock file '");
    checks_contain(&checks, "was deleted or replaced");
    sqlite_write_file(live, "", 0);
    checks_read(node, &checks);
    checks_expect(&checks, "2 sqlite.lock-file: ");
    cf_equal(rename(moved, live), 0);
    checks_read(node, &checks);
    checks_expect(&checks, "1 sqlite.lock-file: ");
}

/* Locks do not work between the machines of a network file system. */
static void test_network_file_systems(void **state)
{
    static const struct {
        unsigned long type;
        const char *name;
    } kinds[] = {{0x6969, "'nfs'"}, {0xFF534D42, "'cifs'"}, {0x01021997, "'9p'"}};
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        place.type = kinds[i].type;
        checks_read(node, &checks);
        checks_expect(&checks, "3 sqlite.file-system: '");
        checks_contain(&checks, kinds[i].name);
        cf_equal(checks.count, 5);
    }
    place.type = 0xEF53; /* ext4 */
    checks_read(node, &checks);
    checks_expect(&checks, "1 sqlite.file-system: '");
    place.error = EIO;
    checks_read(node, &checks);
    checks_expect(&checks, "2 sqlite.file-system: the file system of '");
}

/* G8: without space nothing is granted any more, so that is told before. */
static void test_little_space(void **state)
{
    static const struct {
        int64_t left_bytes;
        const char *found;
    } rows[] = {{64 * MIB, "1 sqlite.space: 64 MiB are left for '"},
                {64 * MIB - 1, "2 sqlite.space: 63 MiB are left for '"},
                {8 * MIB, "2 sqlite.space: 8 MiB are left for '"},
                {8 * MIB - 1, "3 sqlite.space: 7 MiB are left for '"},
                {0, "3 sqlite.space: 0 MiB are left for '"}};
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        place.left_bytes = rows[i].left_bytes;
        checks_read(node, &checks);
        checks_expect(&checks, rows[i].found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, sqlite_tear_down)
        TEST(test_all_is_well),
        TEST(test_lock_file_that_moved),
        TEST(test_network_file_systems),
        TEST(test_little_space),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
