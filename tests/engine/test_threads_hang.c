/* Whatever hangs, hangs alone (G11; rivals' bugs 18 and 21): a callback, an observer, a stop
 * callback, the backend, the host's executor. Other jobs go on, drain and close return by their
 * deadlines, and what the hung one holds is freed when it comes back. */
#include "support/events.h"
#include "support/fake_backend.h"
#include "support/live.h"
#include "support/test_memory.h"

#include "engine/internal.h"

#include <stdio.h>

struct scene {
    struct test_memory memory;
    jobsched_allocator allocator;
    struct fake_backend fake;
    jobsched_options options;
    jobsched *s;
    struct gate gate;
    _Atomic int hung_calls, quick_calls, freed;
    _Atomic(jobsched_run *) run;
    enum fake_operation stuck; /* which operation of the backend hangs */
    _Atomic int hang_once;
    _Atomic uint64_t events, dropped;
};

static void scene_init(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    test_memory_init(&scene->memory);
    scene->allocator = test_memory_allocator(&scene->memory);
    fake_backend_init(&scene->fake, NULL);
    gate_init(&scene->gate);
    JOBSCHED_INIT(&scene->options);
    scene->options.lock = scene->fake.url;
    scene->options.backends = fake_backend_drivers();
    scene->options.allocator = &scene->allocator;
    scene->options.request_timeout_ms = 50; /* close waits for two of them and a second */
    scene->options.lease_ms = 10000;
    scene->options.workers = 2;
}

static int hang(jobsched_run *run, void *user_data)
{
    struct scene *scene = user_data;
    atomic_store(&scene->run, run);
    (void)atomic_fetch_add(&scene->hung_calls, 1);
    gate_pass(&scene->gate);
    return jobsched_run_should_stop(run) == JOBSCHED_STOP_LEASE_LOST ? 0 : 1;
}

static int pend(jobsched_run *run, void *user_data)
{
    struct scene *scene = user_data;
    atomic_store(&scene->run, run);
    (void)atomic_fetch_add(&scene->hung_calls, 1);
    return JOBSCHED_PENDING;
}

static int quick(jobsched_run *run, void *user_data)
{
    struct scene *scene = user_data;
    (void)run;
    (void)atomic_fetch_add(&scene->quick_calls, 1);
    return 0;
}

static void hang_on_stop(jobsched_run *run, int reason, void *user_data)
{
    struct scene *scene = user_data;
    (void)run;
    (void)reason;
    gate_pass(&scene->gate);
}

static void on_free(void *user_data)
{
    struct scene *scene = user_data;
    (void)atomic_fetch_add(&scene->freed, 1);
}

static void add(struct scene *scene, const char *name, jobsched_run_fn run)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = "@every 1h";
    spec.run = run;
    spec.user_data = scene;
    spec.user_data_free = on_free;
    assert_equal(jobsched_add(scene->s, &spec, NULL), 0);
}

static void trigger(struct scene *scene, const char *name)
{
    wait_for(jobsched_trigger(scene->s, name, NULL, NULL) == 0);
}

/* Closes in bounded time with something left, opens the gate, and sees all of it freed. */
static void close_with_rest(struct scene *scene, int jobs)
{
    int64_t began_ms = live_mono_ms();
    assert_equal(jobsched_close(scene->s), JOBSCHED_ETIMEDOUT);
    assert_at_most(live_mono_ms() - began_ms, 15000);
    assert_at_most(1, scene->memory.live);
    gate_open(&scene->gate);
    wait_for(scene->memory.live == 0);
    assert_equal(scene->freed, jobs);
    /* What was abandoned is done with the fake when its memory is back. */
    fake_backend_fini(&scene->fake);
}

static void open_and_start(struct scene *scene)
{
    assert_equal(jobsched_open(&scene->options, &scene->s), 0);
    add(scene, "hung", hang);
    add(scene, "quick", quick);
    assert_equal(jobsched_start(scene->s), 0);
}

/* A callback that hangs for ever. */
static void test_hung_callback(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    open_and_start(&scene);
    trigger(&scene, "hung");
    wait_for(scene.hung_calls == 1);
    for (int i = 1; i <= 20; i++) {
        trigger(&scene, "quick");
        wait_for(scene.quick_calls == i);
    }
    int64_t began_ms = live_mono_ms();
    assert_fails(jobsched_drain(scene.s, 500), JOBSCHED_ETIMEDOUT,
                 "runs are left at the drain's deadline (1): 'hung' (token 1)");
    assert_at_most(500, live_mono_ms() - began_ms);
    assert_at_most(live_mono_ms() - began_ms, 10000);
    assert_equal(jobsched_run_should_stop(scene.run), JOBSCHED_STOP_SHUTDOWN);
    close_with_rest(&scene, 2);
    assert_equal(scene.hung_calls, 1);
}

/* A pending run that nobody finishes in time, and somebody finishes after all. */
static void test_pending_for_ever(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    assert_equal(jobsched_open(&scene.options, &scene.s), 0);
    add(&scene, "pending", pend);
    assert_equal(jobsched_start(scene.s), 0);
    trigger(&scene, "pending");
    wait_for(scene.hung_calls == 1);
    assert_fails(jobsched_drain(scene.s, 100), JOBSCHED_ETIMEDOUT, "'pending'");
    assert_equal(jobsched_close(scene.s), JOBSCHED_ETIMEDOUT);
    assert_equal(jobsched_run_should_stop(scene.run), JOBSCHED_STOP_LEASE_LOST);
    assert_equal(scene.freed, 0);
    assert_equal(jobsched_run_finish(scene.run, 0), 0);
    assert_equal(scene.memory.live, 0);
    assert_equal(scene.freed, 1);
    fake_backend_fini(&scene.fake);
}

static void hang_observer(const jobsched_event *event, void *user_data)
{
    struct scene *scene = user_data;
    if (event->kind == JOBSCHED_EVENT_STARTED) {
        gate_pass(&scene->gate);
    }
    (void)atomic_fetch_add(&scene->events, 1);
    if (event->kind == JOBSCHED_EVENT_EVENTS_DROPPED) {
        (void)atomic_fetch_add(&scene->dropped, event->count);
    }
}

/* An observer that hangs: jobs run, close returns. */
static void test_hung_observer(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.options.observer = hang_observer;
    scene.options.observer_data = &scene;
    open_and_start(&scene);
    for (int i = 1; i <= 20; i++) {
        trigger(&scene, "quick");
        wait_for(scene.quick_calls == i);
    }
    assert_equal(jobsched_drain(scene.s, LIVE_BOUND_MS), 0);
    close_with_rest(&scene, 2);
}

/* A slow observer: what does not fit is counted, in the events and in the statistics. */
static void test_slow_observer_loses_counted_events(void **state)
{
    (void)state;
    enum { FLOOD = JSI_EVENTS_MAX + 1000 };
    struct scene scene;
    scene_init(&scene);
    scene.options.observer = hang_observer;
    scene.options.observer_data = &scene;
    open_and_start(&scene);
    wait_for(scene.gate.waiting == 1);
    jobsched_event event = jsi_event(JOBSCHED_EVENT_BACKEND_NOTICE, NULL, NULL);
    for (int i = 0; i < FLOOD; i++) {
        jsi_emit(scene.s, &event);
    }
    jobsched_stats stats;
    JOBSCHED_INIT(&stats);
    assert_equal(jobsched_stats_read(scene.s, &stats), 0);
    assert_at_most(1000, stats.events_dropped);
    gate_open(&scene.gate);
    /* Its own "started", all that fitted, and one that tells of the rest; there may be more by now. */
    wait_for(scene.events >= JSI_EVENTS_MAX + 2);
    wait_for(jobsched_stats_read(scene.s, &stats) == 0 && scene.dropped == stats.events_dropped);
    assert_equal(jobsched_close(scene.s), 0);
    assert_equal(scene.memory.live, 0);
    fake_backend_fini(&scene.fake);
}

/* A stop callback that hangs. */
static void test_hung_on_stop(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    assert_equal(jobsched_open(&scene.options, &scene.s), 0);
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = "job";
    spec.schedule = "@every 1h";
    spec.run = pend;
    spec.on_stop = hang_on_stop;
    spec.user_data = &scene;
    spec.user_data_free = on_free;
    assert_equal(jobsched_add(scene.s, &spec, NULL), 0);
    add(&scene, "quick", quick);
    assert_equal(jobsched_start(scene.s), 0);
    trigger(&scene, "job");
    wait_for(scene.hung_calls == 1);
    wait_for(jobsched_cancel(scene.s, "job", NULL) == 0);
    wait_for(scene.gate.waiting == 1);
    trigger(&scene, "quick");
    wait_for(scene.quick_calls == 1);
    assert_equal(jobsched_run_finish(scene.run, 0), 0);
    assert_equal(jobsched_drain(scene.s, LIVE_BOUND_MS), 0);
    close_with_rest(&scene, 2);
}

static void hang_backend(struct fake_backend *fake, enum fake_operation operation, void *items,
                         size_t count)
{
    struct scene *scene = fake->hook_data;
    (void)items;
    (void)count;
    if (operation == scene->stuck && atomic_exchange(&scene->hang_once, 0)) {
        gate_pass(&scene->gate);
    }
}

/* A backend that keeps a call far beyond its deadline, in each operation, before and after it took
 * effect: close returns, and what comes of the call when it ends at last is tidied up. */
static void test_hung_backend(void **state)
{
    (void)state;
    static const enum fake_operation operations[] = {FAKE_ANNOUNCE, FAKE_CLAIM, FAKE_FINISH,
                                                     FAKE_RENEW, FAKE_REAP};
    for (size_t i = 0; i < 2 * sizeof operations / sizeof operations[0]; i++) {
        struct scene scene;
        scene_init(&scene);
        scene.stuck = operations[i / 2];
        scene.fake.hook_data = &scene;
        *(i % 2 ? &scene.fake.after : &scene.fake.before) = hang_backend;
        assert_equal(jobsched_open(&scene.options, &scene.s), 0);
        add(&scene, "quick", quick);
        if (scene.stuck == FAKE_ANNOUNCE) {
            atomic_store(&scene.hang_once, 1);
            assert_equal(jobsched_start(scene.s), 0);
        } else {
            assert_equal(jobsched_start(scene.s), 0);
            wait_for(scene.fake.calls[FAKE_REAP] > 0);
            trigger(&scene, "quick");
            wait_for(scene.fake.calls[FAKE_FINISH] == 1);
            atomic_store(&scene.hang_once, 1);
            trigger(&scene, "quick");
            wait_for(jobsched_cancel(scene.s, "quick", NULL) == 0); /* wakes the keeper */
        }
        wait_for(scene.gate.waiting == 1);
        close_with_rest(&scene, 1);
        assert_null(scene.fake.inner); /* closed, once, at the end */
        assert_equal(scene.fake.calls[FAKE_CLOSE], 1);
    }
}

struct host {
    pthread_mutex_t mutex;
    void (*work[16])(void *arg);
    void *args[16];
    _Atomic int count;
};

static int keep_work(void *ctx, void (*work)(void *arg), void *arg)
{
    struct host *host = ctx;
    (void)pthread_mutex_lock(&host->mutex);
    int index = atomic_load(&host->count);
    host->work[index] = work;
    host->args[index] = arg;
    atomic_store(&host->count, index + 1);
    (void)pthread_mutex_unlock(&host->mutex);
    return 0;
}

/* A host whose pool comes to the work only after the scheduler was closed. */
static void test_host_runs_after_close(void **state)
{
    (void)state;
    struct scene scene;
    struct host host = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    scene_init(&scene);
    jobsched_executor executor;
    JOBSCHED_INIT(&executor);
    executor.ctx = &host;
    executor.submit = keep_work;
    executor.capacity = 8;
    scene.options.executor = &executor;
    open_and_start(&scene);
    trigger(&scene, "quick");
    wait_for(host.count == 1);
    assert_equal(jobsched_close(scene.s), JOBSCHED_ETIMEDOUT);
    assert_at_most(1, scene.memory.live);
    host.work[0](host.args[0]);
    assert_equal(scene.quick_calls, 0); /* too late to begin */
    wait_for(scene.memory.live == 0);   /* a thread that was late may have it for a moment more */
    assert_equal(scene.freed, 2);
    fake_backend_fini(&scene.fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hung_callback),
        cmocka_unit_test(test_pending_for_ever),
        cmocka_unit_test(test_hung_observer),
        cmocka_unit_test(test_slow_observer_loses_counted_events),
        cmocka_unit_test(test_hung_on_stop),
        cmocka_unit_test(test_hung_backend),
        cmocka_unit_test(test_host_runs_after_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
