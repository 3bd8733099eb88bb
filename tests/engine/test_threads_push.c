/* The backend's descriptor, with real threads (G6, G11): what comes through it is looked at at
 * once; a flood, or a descriptor that stays readable or hung up, is no busy loop and hides nothing. */
#include "support/events.h"
#include "support/fake_backend.h"
#include "support/live.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ROUNDS_MAX: in QUIET_MS. */
enum { QUIET_MS = 600, ROUNDS_MAX = 25 };

struct site {
    struct fake_backend fake;
    jobsched *s;
    int push_fd;
    _Atomic bool drains; /* a renewal takes away what was readable, as the contract says */
    struct gate gate;
    _Atomic int stop_reason;
};

static void before(struct fake_backend *fake, enum fake_operation operation, void *items,
                   size_t count)
{
    struct site *site = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == FAKE_RENEW && atomic_load(&site->drains)) {
        uint64_t value;
        ssize_t got = read(site->push_fd, &value, sizeof value);
        (void)got;
    }
}

static int body(jobsched_run *run, void *user_data)
{
    struct site *site = user_data;
    gate_pass(&site->gate);
    int64_t until_ms = live_mono_ms() + LIVE_BOUND_MS;
    while (jobsched_run_should_stop(run) == 0 && live_mono_ms() < until_ms) {
        live_pause();
    }
    atomic_store(&site->stop_reason, jobsched_run_should_stop(run));
    return JOBSCHED_ECANCELED;
}

/* A lease so long that no beat comes by itself while a test lasts. */
static void open_site(struct site *site, int push_fd)
{
    memset(site, 0, sizeof *site);
    fake_backend_init(&site->fake, NULL);
    gate_init(&site->gate);
    site->push_fd = push_fd;
    site->fake.hook_data = site;
    site->fake.before = before;
    atomic_store(&site->drains, true);
    atomic_store(&site->fake.watch_fd, push_fd);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = site->fake.url;
    options.backends = fake_backend_drivers();
    options.lease_ms = 3600000;
    assert_equal(jobsched_open(&options, &site->s), 0);
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = "job";
    spec.schedule = "@at 2100-01-01T00:00:00Z";
    spec.run = body;
    spec.user_data = site;
    assert_equal(jobsched_add(site->s, &spec, NULL), 0);
    assert_equal(jobsched_start(site->s), 0);
    wait_for(fake_backend_calls(&site->fake, FAKE_ANNOUNCE) == 1);
    wait_for(fake_backend_calls(&site->fake, FAKE_REAP) > 0); /* the first beat */
}

static void close_site(struct site *site)
{
    gate_open(&site->gate);
    assert_equal(jobsched_close(site->s), 0);
    fake_backend_fini(&site->fake);
    (void)close(site->push_fd);
}

static int make_push(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(fd >= 0);
    return fd;
}

static void push(const struct site *site)
{
    uint64_t one = 1;
    ssize_t written = write(site->push_fd, &one, sizeof one);
    (void)written;
}

static uint64_t renewals_within(struct site *site, int64_t span_ms)
{
    uint64_t from = fake_backend_calls(&site->fake, FAKE_RENEW);
    int64_t until_ms = live_mono_ms() + span_ms;
    while (live_mono_ms() < until_ms) {
        live_pause();
    }
    return fake_backend_calls(&site->fake, FAKE_RENEW) - from;
}

/* There is a round at least, for which a busy machine may take longer, and no more of them than the
 * time that it takes has room for. */
static void expect_few_rounds(struct site *site, bool floods)
{
    int64_t began_ms = live_mono_ms();
    uint64_t from = fake_backend_calls(&site->fake, FAKE_RENEW);
    uint64_t rounds = 0;
    while (live_mono_ms() - began_ms < QUIET_MS ||
           (rounds == 0 && live_mono_ms() - began_ms < LIVE_BOUND_MS)) {
        if (floods) {
            push(site);
        }
        live_pause();
        rounds = fake_backend_calls(&site->fake, FAKE_RENEW) - from;
    }
    rounds = fake_backend_calls(&site->fake, FAKE_RENEW) - from;
    assert_true(rounds >= 1);
    assert_at_most((int64_t)rounds * QUIET_MS, ROUNDS_MAX * (live_mono_ms() - began_ms));
}

/* G6: a push is answered by a renewal and a reap, though the next beat is 20 minutes away; and
 * without a push there is none. */
static void test_push_is_answered_at_once(void **state)
{
    (void)state;
    struct site site;
    open_site(&site, make_push());
    wait_for(renewals_within(&site, 100) == 0); /* once all have begun */
    uint64_t renewed = fake_backend_calls(&site.fake, FAKE_RENEW);
    uint64_t reaped = fake_backend_calls(&site.fake, FAKE_REAP);
    push(&site);
    wait_for(fake_backend_calls(&site.fake, FAKE_RENEW) > renewed);
    wait_for(fake_backend_calls(&site.fake, FAKE_REAP) > reaped);
    close_site(&site);
}

/* G6: a cancellation from elsewhere reaches the callback by push, within a flood of others, too. */
static void test_cancel_comes_by_push(void **state)
{
    (void)state;
    struct site site;
    open_site(&site, make_push());
    assert_equal(jobsched_trigger(site.s, "job", NULL, NULL), 0);
    gate_open(&site.gate);
    wait_for(atomic_load(&site.gate.passed) == 1);
    /* As another node does it: in the store, past this scheduler. */
    jobsched_command command = {.verb = JOBSCHED_VERB_CANCEL, .job = "job"};
    jobsched_call call = {.lane = JOBSCHED_LANE_ADMIN, .timeout_ms = 1000};
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    assert_equal(jobsched_backend_single()->control(site.fake.inner, &call, &command, &result), 0);
    assert_equal(result.running, 1);
    push(&site);
    wait_for(atomic_load(&site.stop_reason) == JOBSCHED_STOP_CANCELLED);
    close_site(&site);
}

/* G11: a flood of pushes makes a few rounds a second, and the keeper goes on. */
static void test_flood_is_no_busy_loop(void **state)
{
    (void)state;
    struct site site;
    open_site(&site, make_push());
    expect_few_rounds(&site, true);
    close_site(&site);
}

/* G11: nor does one that stays readable after the call spin, nor one that is hung up, nor one that
 * is no descriptor at all. */
static void test_stuck_descriptor_does_not_spin(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct site site;
        int ends[2];
        assert_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        open_site(&site, ends[0]);
        atomic_store(&site.drains, false);
        if (kind == 0) {
            assert_equal(write(ends[1], "x", 1), 1);
        } else if (kind == 1) {
            assert_equal(close(ends[1]), 0);
        } else {
            atomic_store(&site.fake.watch_fd, 1000000);
            assert_equal(jobsched_wakeup(site.s), 0);
        }
        expect_few_rounds(&site, false);
        assert_equal(jobsched_trigger(site.s, "job", NULL, NULL), 0); /* all else goes on */
        wait_for(atomic_load(&site.gate.waiting) == 1);
        assert_equal(jobsched_cancel(site.s, "job", NULL), 0);
        gate_open(&site.gate);
        wait_for(atomic_load(&site.stop_reason) == JOBSCHED_STOP_CANCELLED);
        if (kind != 1) {
            (void)close(ends[1]);
        }
        close_site(&site);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_is_answered_at_once),
        cmocka_unit_test(test_cancel_comes_by_push),
        cmocka_unit_test(test_flood_is_no_busy_loop),
        cmocka_unit_test(test_stuck_descriptor_does_not_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 1 : 0;
}
