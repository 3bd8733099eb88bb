/* test_clock.c: the clock that leases are measured with when none is injected. Guards G5: time that
 * a suspended machine sleeps through counts, because other machines' leases go on meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the machine has "slept", in seconds. */
#define SLEPT "100000"

static int64_t read_ms(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether the clock, read in between, is within two readings of CLOCK_BOOTTIME. */
static int follows_boottime(void)
{
    jobsched_clock clock;
    if (jsi_clock_init(&clock, NULL) != 0) {
        return 0;
    }
    int64_t from_ms = read_ms(CLOCK_BOOTTIME);
    int64_t read = clock.mono_ms(clock.ctx);
    return from_ms <= read && read <= read_ms(CLOCK_BOOTTIME);
}

static int write_file(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int written = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    if (fd >= 0) {
        (void)close(fd);
    }
    return written;
}

/* Looks from a machine that has slept, where the kernel lets us make one (a time namespace holds for
 * children). Returns 1 where it does not. */
static int look_after_sleep(void)
{
    static const char offset[] = "boottime " SLEPT " 0\n";
    int made = unshare(CLONE_NEWTIME) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWTIME) == 0;
    if (!made || !write_file("/proc/self/timens_offsets", offset, sizeof offset - 1)) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        int slept = read_ms(CLOCK_BOOTTIME) - read_ms(CLOCK_MONOTONIC) > 50000000;
        _exit(slept && follows_boottime() ? 0 : 2);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 3;
}

static void test_time_asleep_counts(void **state)
{
    (void)state;
    assert_true(follows_boottime());
    pid_t child = fork();
    if (child == 0) {
        _exit(look_after_sleep());
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_in_range(WEXITSTATUS(status), 0, 1);
    printf("a machine that has slept: %s\n", WEXITSTATUS(status) == 0 ? "seen" : "not to be had");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_asleep_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
