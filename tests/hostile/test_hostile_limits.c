/* test_hostile_limits.c: a host that has run out of what the system gives, on every backend: no
 * descriptors, no threads, at the opening and later; and a host that forks while it runs.
 * Guards G8 (a call that cannot be done says so; nothing is half done), G11 (all comes to an end) and
 * G13 (nothing is left behind, and a child does no harm). */
#include "hostile/hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);

/* How many threads may still be made; -1: any number. */
static _Atomic int creations_left = -1;
static _Atomic int creations_refused;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument)
{
    int left = atomic_load(&creations_left);

    while (left > 0 && !atomic_compare_exchange_weak(&creations_left, &left, left - 1)) {
    }
    if (left == 0) {
        (void)atomic_fetch_add(&creations_refused, 1);
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, function, argument);
}

/* Every failure is told in one line, with its code. */
static void check_told(int code)
{
    const jobsched_error *error = jobsched_last_error();

    assert_true(code < 0);
    assert_equal(error->code, code);
    assert_true(error->message[0] != '\0' && strchr(error->message, '\n') == NULL);
}

static void begin(struct host *host, struct subject *subject, int64_t lease_ms)
{
    jobsched_options options;

    memset(host, 0, sizeof *host);
    host->subject = subject;
    host_options(subject, &options);
    options.lease_ms = lease_ms;
    options.request_timeout_ms = lease_ms / 3;
    assert_equal(jobsched_open(&options, &host->s), 0);
    assert_equal(host_add(host, "job"), 0);
    assert_equal(jobsched_start(host->s), 0);
}

/* Runs the job once more, as soon as that is possible. */
static void run_once(struct host *host)
{
    int calls = atomic_load(&host->calls);

    wait_for(jobsched_trigger(host->s, "job", NULL, NULL) == 0);
    wait_for(host->calls > calls);
}

/* What was asked for under the shortage may still come. */
static void end(struct host *host)
{
    assert_equal(jobsched_drain(host->s, LIVE_BOUND_MS), 0);
    wait_for(host_rows(host, "job", JOBSCHED_OUTCOME_RUNNING) == 0);
    wait_for(jobsched_remove(host->s, "job", NULL) == 0);
    assert_equal(jobsched_close(host->s), 0);
    assert_equal(host->freed, 1);
}

/* ---- descriptors ------------------------------------------------------------------ */

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;

    assert_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
    assert_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* So that as many numbers are free as are given. */
static void leave_descriptors(int count)
{
    int number = 0;

    for (int left = count; left > 0 || fcntl(number, F_GETFD) >= 0; number++) {
        left -= fcntl(number, F_GETFD) < 0;
    }
    limit_descriptors((rlim_t)number);
}

/* With one descriptor more each time, until it can live. */
static void open_with_few(struct subject *subject)
{
    enum { MOST = 60 };
    int entries = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    int few = 0, result = -1;

    while (result != 0) {
        struct host host = {.subject = subject};
        jobsched_options options;

        assert_true(few < MOST);
        host_options(subject, &options);
        leave_descriptors(few++);
        result = jobsched_open(&options, &host.s);
        result = result == 0 ? host_add(&host, "job") : result;
        result = result == 0 ? jobsched_start(host.s) : result;
        limit_descriptors(RLIM_INFINITY);
        if (result != 0) {
            check_told(result);
        }
        if (host.s != NULL) {
            assert_equal(host_add(&host, "other"), 0);
            wait_for(jobsched_start(host.s) == 0);
            run_once(&host);
            wait_for(jobsched_remove(host.s, "other", NULL) == 0); /* once it is known */
            wait_for(jobsched_remove(host.s, "job", NULL) == 0);
            assert_equal(jobsched_close(host.s), 0);
        }
        wait_for(count_entries("/proc/self/fd") <= entries); /* a try to connect may still end */
        wait_for(count_entries("/proc/self/task") <= threads);
    }
    print_message("%s: lives on %d descriptors\n", subject->scheme, few - 1);
}

static void test_few_descriptors_at_the_opening(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        open_with_few(&subjects[i]);
    }
}

static void test_no_descriptors_later(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        int entries = count_entries("/proc/self/fd");
        struct host host;

        begin(&host, &subjects[i], 6000);
        leave_descriptors(0);
        for (int round = 0; round < 5; round++) {
            int results[] = {jobsched_trigger(host.s, "job", NULL, NULL),
                             jobsched_pause(host.s, "job", NULL),
                             jobsched_resume(host.s, "job", NULL)};

            for (size_t j = 0; j < sizeof results / sizeof results[0]; j++) {
                /* Before it was announced there is no such job. */
                assert_true(results[j] == 0 || results[j] == JOBSCHED_ENOTFOUND ||
                            results[j] == JOBSCHED_EUNREACHABLE || results[j] == JOBSCHED_EOS ||
                            results[j] == JOBSCHED_EUNKNOWN);
            }
        }
        limit_descriptors(RLIM_INFINITY);
        wait_for(jobsched_resume(host.s, "job", NULL) == 0);
        run_once(&host);
        end(&host);
        wait_for(count_entries("/proc/self/fd") <= entries); /* a try to connect may still end */
    }
}

/* ---- threads ---------------------------------------------------------------------- */

static void start_with_few_threads(struct subject *subject)
{
    enum { MOST = 40 };
    int entries = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");

    for (int few = 0, refused = 1; refused != 0; few++) {
        struct host host = {.subject = subject};
        jobsched_options options;
        int result;

        assert_true(few < MOST);
        host_options(subject, &options);
        atomic_store(&creations_refused, 0);
        atomic_store(&creations_left, few);
        result = jobsched_open(&options, &host.s);
        result = result == 0 ? host_add(&host, "job") : result;
        result = result == 0 ? jobsched_start(host.s) : result;
        atomic_store(&creations_left, -1);
        refused = atomic_load(&creations_refused);
        if (result != 0) {
            check_told(result);
            assert_true(refused > 0);
        }
        if (host.s != NULL) {
            wait_for(jobsched_start(host.s) == 0);
            run_once(&host);
            end(&host);
        }
        wait_for(count_entries("/proc/self/fd") <= entries); /* a try to connect may still end */
        wait_for(count_entries("/proc/self/task") <= threads);
    }
}

static void test_few_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        start_with_few_threads(&subjects[i]);
    }
}

/* ---- fork ------------------------------------------------------------------------- */

/* In the child: whatever is called is refused, and takes nothing of the parent's down. */
static int be_a_child(struct host *host)
{
    const int results[] = {jobsched_trigger(host->s, "job", NULL, NULL),
                           jobsched_pause(host->s, "job", NULL),
                           jobsched_remove(host->s, "job", NULL),
                           host_add(host, "child"),
                           jobsched_drain(host->s, 10),
                           jobsched_close(host->s)};

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i] != JOBSCHED_EFORK) {
            return (int)i + 1;
        }
    }
    /* Its copies of the connections go with it, as those of any child that does not exec. */
    for (int fd = 3; fd < 256; fd++) {
        (void)close(fd);
    }
    return 0;
}

static struct gate gate;

static int wait_inside(struct host *host, jobsched_run *run)
{
    (void)host;
    gate_pass(&gate);
    return jobsched_run_should_stop(run) == JOBSCHED_STOP_NONE ? 0 : 99;
}

static void test_a_fork_while_a_run_goes_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        struct host host;

        gate_init(&gate);
        begin(&host, &subjects[i], 30000);
        host.body = wait_inside;
        wait_for(jobsched_trigger(host.s, "job", NULL, NULL) == 0);
        wait_for(gate.waiting == 1);
        for (int children = 0; children < 3; children++) {
            int status = 0;
            pid_t child = fork();

            if (child == 0) {
                _exit(be_a_child(&host));
            }
            assert_equal(waitpid(child, &status, 0), child);
            assert_true(WIFEXITED(status));
            assert_equal(WEXITSTATUS(status), 0);
        }
        gate_open(&gate);
        wait_for(host.calls == 1);
        host.body = NULL;
        run_once(&host);
        wait_for(host_rows(&host, "job", JOBSCHED_OUTCOME_SUCCEEDED) == 2);
        end(&host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_descriptors_at_the_opening),
        cmocka_unit_test(test_no_descriptors_later),
        cmocka_unit_test(test_few_threads),
        cmocka_unit_test(test_a_fork_while_a_run_goes_on),
    };

    return cmocka_run_group_tests(tests, subjects_set_up, subjects_tear_down) ? 1 : 0;
}
