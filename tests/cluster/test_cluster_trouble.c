/* test_cluster_trouble.c: a store that cannot be used for a while: G5, G8, G9.
 * Nothing fires meanwhile, errors are told, running jobs are told that their lease is lost, and
 * once the trouble is over what was missed is treated by each job's policy; nothing is doubled. */
#include "trouble.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the kinds ------------------------------------------------------------------ */

/* A foreign process sits in a transaction for longer than any request may take. */
static void test_locked_store_is_waited_for(void **state)
{
    fleet *f = *state;
    trouble t;
    trouble_begin(f, &t);
    t.broken_ms = fleet_now_ms();
    void *lock = fleet_lock_store(f, 30000);
    assert_non_null(lock);
    trouble_endure(f, &t, JOBSCHED_EUNREACHABLE);
    t.cured_ms = fleet_now_ms();
    fleet_unlock_store(lock);
    trouble_recover(f, &t);
}

/* Nobody may enter the folder any more. A process that starts meanwhile is refused in words. */
static void test_forbidden_store_is_waited_for(void **state)
{
    fleet *f = *state;
    trouble t;
    f->no_override = true;
    trouble_begin(f, &t);
    t.broken_ms = fleet_now_ms();
    assert_int_equal(chmod(f->server.directory, 0), 0);
    trouble_endure(f, &t, JOBSCHED_EACCESS);
    fleet_expect_refusal(f, JOBSCHED_EACCESS, f->server.database);
    t.cured_ms = fleet_now_ms();
    assert_int_equal(chmod(f->server.directory, 0755), 0);
    trouble_recover(f, &t);
}

/* A store that can be read and not written: nobody can begin to use it; who already does is not
 * disturbed, since the permission was checked when the files were opened. */
static void test_read_only_store_is_refused(void **state)
{
    fleet *f = *state;
    f->no_override = true;
    fleet_jobs(f, trouble_jobs, TROUBLE_JOBS - 1);
    (void)fleet_start(f, 0);
    int64_t ready_ms = fleet_now_ms();
    char path[200];
    static const char *const endings[] = {"", "-wal", "-shm", "-live"};
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s%s", f->server.database, endings[i]);
        assert_int_equal(chmod(path, 0444), 0);
    }
    assert_int_equal(chmod(f->server.directory, 0555), 0);
    fleet_expect_refusal(f, JOBSCHED_EACCESS, NULL);
    int64_t until_ms = fleet_now_ms() + 1000;
    fleet_wait_accounted(f, until_ms);
    assert_int_equal(chmod(f->server.directory, 0755), 0);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s%s", f->server.database, endings[i]);
        assert_int_equal(chmod(path, 0644), 0);
    }
    (void)fleet_start(f, 0);
    until_ms = fleet_now_ms() + 1000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, ready_ms, until_ms, &report);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_SUCCEEDED], report.fired);
}

/* ---- no space ------------------------------------------------------------------- */

/* A small file system of our own where we may mount one; else a bound on the size of the nodes'
 * files, which is a write that fails, too, though with another error. */
static bool mounted;

static bool mount_small(const fleet *f)
{
    if (getenv("CLUSTER_NO_MOUNT") != NULL) {
        return false;
    }
    return mount("tmpfs", f->server.directory, "tmpfs", 0, "size=8m,mode=0755") == 0;
}

static void bound_files(const fleet *f, rlim_t bytes)
{
    for (int i = 0; i < 2; i++) {
        struct rlimit now;
        assert_int_equal(prlimit(f->nodes[i].pid, RLIMIT_FSIZE, NULL, &now), 0);
        now.rlim_cur = bytes < now.rlim_max ? bytes : now.rlim_max;
        assert_int_equal(prlimit(f->nodes[i].pid, RLIMIT_FSIZE, &now, NULL), 0);
    }
}

static void fill_up(const fleet *f, const char *path)
{
    if (!mounted) {
        struct stat status;
        char log[200];
        (void)snprintf(log, sizeof log, "%s-wal", f->server.database);
        assert_int_equal(stat(log, &status), 0);
        /* The nodes' log of runs is the smaller file and must go on growing. */
        bound_files(f, (rlim_t)status.st_size);
        return;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    char block[4096];
    memset(block, 'x', sizeof block);
    while (write(fd, block, sizeof block) > 0) {
        /* to the last block */
    }
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(close(fd), 0);
}

static void test_full_file_system_is_waited_for(void **state)
{
    fleet *f = *state;
    trouble t;
    char filler[120];
    (void)snprintf(filler, sizeof filler, "%s/filler", f->server.directory);
    mounted = mount_small(f);
    printf("%s\n", mounted ? "a tmpfs of 8 MiB" : "no mount allowed: RLIMIT_FSIZE");
    trouble_begin(f, &t);
    t.broken_ms = fleet_now_ms();
    fill_up(f, filler);
    t.unknown = !mounted; /* SQLite does not tell why a commit failed */
    trouble_endure(f, &t, mounted ? JOBSCHED_EFULL : TROUBLE_AWAY);
    t.cured_ms = fleet_now_ms();
    if (mounted) {
        assert_int_equal(unlink(filler), 0);
    } else {
        bound_files(f, RLIM_INFINITY);
    }
    trouble_recover(f, &t);
}

static int teardown(void **state)
{
    fleet *f = *state;
    (void)chmod(f->server.directory, 0755);
    if (mounted) {
        (void)umount2(f->server.directory, MNT_DETACH);
        mounted = false;
    }
    return fleet_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_locked_store_is_waited_for, fleet_setup, teardown),
        cmocka_unit_test_setup_teardown(test_forbidden_store_is_waited_for, fleet_setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_only_store_is_refused, fleet_setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_file_system_is_waited_for, fleet_setup, teardown),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
