/* A good guest (G13, G11): a forked child is refused by every call, no descriptor leaks, threads that
 * cannot be created leave everything as it was, user data is freed exactly once. */
#include "support/fake_backend.h"
#include "support/live.h"
#include "support/test_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- thread creation, by the linker's --wrap ------------------------------------- */

static _Atomic int creations_left = -1; /* until one fails; negative: none fails */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *arg), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *arg), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *arg), void *arg)
{
    int left = atomic_load(&creations_left);
    if (left == 0) {
        return EAGAIN;
    }
    if (left > 0) {
        atomic_store(&creations_left, left - 1);
    }
    return __real_pthread_create(thread, attributes, body, arg);
}

/* ---- helpers ---------------------------------------------------------------------- */

struct guest {
    _Atomic int calls, freed;
    struct gate gate;
    bool waits;
    _Atomic(jobsched_run *) run;
};

static int body(jobsched_run *run, void *user_data)
{
    struct guest *guest = user_data;
    atomic_store(&guest->run, run);
    (void)atomic_fetch_add(&guest->calls, 1);
    if (guest->waits) {
        gate_pass(&guest->gate);
    }
    return 0;
}

static void on_free(void *user_data)
{
    struct guest *guest = user_data;
    (void)atomic_fetch_add(&guest->freed, 1);
}

static jobsched_job_spec spec_of(struct guest *guest, const char *name)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = "@every 1h";
    spec.run = body;
    spec.user_data = guest;
    spec.user_data_free = on_free;
    return spec;
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

static int visit_none(const jobsched_run_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

/* ---- fork --------------------------------------------------------------------------- */

/* In the child: each public call on the handles of the parent. Returns the number of the first
 * that was not refused, or 0. */
static int try_everything(jobsched *s, jobsched_run *run, struct guest *guest)
{
    jobsched_job_spec spec = spec_of(guest, "child");
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    int64_t next_ms = 0;
    const int results[] = {jobsched_add(s, &spec, NULL),
                           jobsched_withdraw(s, "job"),
                           jobsched_start(s),
                           jobsched_stop(s),
                           jobsched_drain(s, 100),
                           jobsched_wakeup(s),
                           jobsched_zones_reload(s),
                           jobsched_pause(s, "job", NULL),
                           jobsched_resume(s, "job", NULL),
                           jobsched_trigger(s, "job", NULL, NULL),
                           jobsched_cancel(s, "job", NULL),
                           jobsched_remove(s, "job", NULL),
                           jobsched_next_run(s, "job", &next_ms),
                           jobsched_stats_read(s, &stats),
                           jobsched_runs(s, NULL, 0, visit_none, NULL),
                           jobsched_run_note(run, "child"),
                           jobsched_run_progress(run, 1, 2),
                           jobsched_run_finish(run, 0),
                           jobsched_close(s)};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i] != JOBSCHED_EFORK) {
            return (int)i + 1;
        }
    }
    return strstr(jobsched_last_error()->message, "belongs to process") == NULL ? 99 : 0;
}

static void test_forked_child_is_refused(void **state)
{
    (void)state;
    struct guest guest = {.waits = true};
    jobsched *s = NULL;
    gate_init(&guest.gate);
    assert_equal(jobsched_open(NULL, &s), 0);
    jobsched_job_spec spec = spec_of(&guest, "job");
    assert_equal(jobsched_add(s, &spec, NULL), 0);
    assert_equal(jobsched_start(s), 0);
    wait_for(jobsched_trigger(s, "job", NULL, NULL) == 0);
    wait_for(guest.calls == 1);
    pid_t child = fork();
    if (child == 0) {
        _exit(try_everything(s, atomic_load(&guest.run), &guest));
    }
    int status = 0;
    assert_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_equal(WEXITSTATUS(status), 0);
    /* The parent is not disturbed, nor is a child that opens its own; the latter is true of
     * single: only. */
    gate_open(&guest.gate);
    assert_equal(jobsched_drain(s, LIVE_BOUND_MS), 0);
    assert_equal(jobsched_close(s), 0);
    assert_equal(guest.freed, 1);
}

/* ---- descriptors ---------------------------------------------------------------------- */

static void test_descriptors_are_given_back(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct guest guest = {0};
        int before = count_entries("/proc/self/fd");
        jobsched *s = NULL;
        assert_equal(jobsched_open(NULL, &s), 0);
        jobsched_job_spec spec = spec_of(&guest, "job");
        assert_equal(jobsched_add(s, &spec, NULL), 0);
        assert_equal(jobsched_start(s), 0);
        for (int fd = 3; fd < 256; fd++) {
            int flags = fcntl(fd, F_GETFD);
            /* The test driver may have left us some; none of ours goes to a child. */
            if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
                char path[64], target[256];
                (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t length = readlink(path, target, sizeof target - 1);
                target[length > 0 ? length : 0] = '\0';
                assert_null(strstr(target, "jobsched"));
            }
        }
        wait_for(jobsched_trigger(s, "job", NULL, NULL) == 0);
        wait_for(guest.calls == 1);
        assert_equal(jobsched_close(s), 0);
        assert_equal(count_entries("/proc/self/fd"), before);
    }
}

/* ---- threads that cannot be created ------------------------------------------------------ */

/* At each thread in turn: start says so, has granted nothing, leaves no thread, and works once
 * threads can be had again. */
static void test_failed_thread_creation_starts_nothing(void **state)
{
    (void)state;
    enum { WORKERS = 2, THREADS = WORKERS + 4 };
    for (int failing = 0; failing <= THREADS; failing++) {
        struct guest guest = {0};
        struct test_memory memory;
        struct fake_backend fake;
        test_memory_init(&memory);
        fake_backend_init(&fake, NULL);
        jobsched_allocator allocator = test_memory_allocator(&memory);
        jobsched_options options;
        JOBSCHED_INIT(&options);
        options.lock = fake.url;
        options.backends = fake_backend_drivers();
        options.allocator = &allocator;
        options.workers = WORKERS;
        jobsched *s = NULL;
        assert_equal(jobsched_open(&options, &s), 0);
        jobsched_job_spec spec = spec_of(&guest, "job");
        assert_equal(jobsched_add(s, &spec, NULL), 0);
        int threads = count_entries("/proc/self/task");
        atomic_store(&creations_left, failing);
        int code = jobsched_start(s);
        atomic_store(&creations_left, -1);
        if (failing < THREADS) {
            assert_equal(code, JOBSCHED_EOS);
            assert_equal(jobsched_last_error()->system_errno, EAGAIN);
            assert_non_null(strstr(jobsched_last_error()->message, "'jobsched-"));
            wait_for(count_entries("/proc/self/task") <= threads); /* listed a little longer */
            assert_equal(fake.calls[FAKE_ANNOUNCE], 0);
            code = jobsched_start(s);
        }
        assert_equal(code, 0);
        wait_for(jobsched_trigger(s, "job", NULL, NULL) == 0);
        wait_for(guest.calls == 1);
        assert_equal(jobsched_drain(s, LIVE_BOUND_MS), 0);
        assert_equal(jobsched_close(s), 0);
        assert_equal(guest.calls, 1);
        assert_equal(memory.live, 0);
        fake_backend_fini(&fake);
    }
}

/* ---- user data ----------------------------------------------------------------------------- */

/* Freed once, after the last run: not when the job is withdrawn while it runs, and never when the
 * registration was refused. */
static void test_user_data_is_freed_once(void **state)
{
    (void)state;
    struct guest guest = {.waits = true};
    struct guest refused = {0};
    jobsched *s = NULL;
    gate_init(&guest.gate);
    assert_equal(jobsched_open(NULL, &s), 0);
    jobsched_job_spec spec = spec_of(&guest, "job");
    assert_equal(jobsched_add(s, &spec, NULL), 0);
    spec = spec_of(&refused, "job");
    assert_fails(jobsched_add(s, &spec, NULL), JOBSCHED_EEXIST, "'job'");
    spec = spec_of(&refused, "bad");
    spec.schedule = "* * * * 8";
    assert_equal(jobsched_add(s, &spec, NULL), JOBSCHED_EPARSE);
    spec.schedule = NULL;
    assert_fails(jobsched_add(s, &spec, NULL), JOBSCHED_EINVAL, "schedule");
    assert_equal(jobsched_start(s), 0);
    wait_for(jobsched_trigger(s, "job", NULL, NULL) == 0);
    wait_for(guest.gate.waiting == 1);
    assert_equal(jobsched_withdraw(s, "job"), 0);
    assert_equal(guest.freed, 0);
    assert_string_equal(jobsched_run_job(guest.run), "job"); /* still whole */
    gate_open(&guest.gate);
    wait_for(guest.freed == 1);
    assert_equal(jobsched_close(s), 0);
    assert_equal(guest.freed, 1);
    assert_equal(refused.freed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forked_child_is_refused),
        cmocka_unit_test(test_descriptors_are_given_back),
        cmocka_unit_test(test_failed_thread_creation_starts_nothing),
        cmocka_unit_test(test_user_data_is_freed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
