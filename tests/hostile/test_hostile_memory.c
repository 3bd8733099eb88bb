/* test_hostile_memory.c: a whole life of a scheduler on each backend, with every request for memory
 * refused in turn, through the allocator that the host gave: open, add, start, trigger, run, control,
 * drain, close, with the threads and servers of production.
 * Guards G1, G8, G9 and G11: nothing crashes or leaks; each call says that memory is short or does
 * what it says; what was triggered runs once and is accounted for when memory is back.
 * (tests/engine/test_memory.c does the same for the engine with a virtual clock and every policy,
 * tests/backend/cf_memory.c for each operation of each backend.) */
#include "hostile/hostile.h"

#include <stdio.h>
#include <string.h>

/* Calls again while memory is short. A call may also be told that the backend lacked it. */
#define insist(call)                                                                               \
    do {                                                                                           \
        int code_ = JOBSCHED_ENOMEM;                                                               \
        int64_t until_ms_ = live_mono_ms() + LIVE_BOUND_MS;                                        \
        while (code_ != 0 && live_mono_ms() < until_ms_) {                                         \
            code_ = (call);                                                                        \
            if (code_ != 0 && code_ != JOBSCHED_ENOMEM && code_ != JOBSCHED_EUNKNOWN &&            \
                code_ != JOBSCHED_EUNREACHABLE && code_ != JOBSCHED_ENOTFOUND) {                   \
                print_error("%s: %s\n", #call, jobsched_last_error()->message);                    \
                _fail(__FILE__, __LINE__);                                                         \
            }                                                                                      \
            if (code_ == JOBSCHED_ENOTFOUND) {                                                     \
                live_pause(); /* it is being announced */                                          \
            }                                                                                      \
        }                                                                                          \
        assert_equal(code_, 0);                                                                    \
    } while (0)

static int note_it(struct host *host, jobsched_run *run)
{
    (void)host;
    (void)jobsched_run_note(run, "a note");
    return 0;
}

static void observe(const jobsched_event *event, void *data)
{
    if (getenv("HOSTILE_SHOW") != NULL) {
        print_message("    %s %s: %s\n", jobsched_event_name(event->kind), event->job,
                      event->message);
    }
    (void)atomic_fetch_add((_Atomic int *)data, event->kind != 0);
}

/* Returns how many requests for memory it took. */
static int64_t live(struct subject *subject, struct test_memory *memory)
{
    struct host host = {.subject = subject, .body = note_it};
    jobsched_allocator allocator = test_memory_allocator(memory);
    _Atomic int events = 0;
    jobsched_options options;
    char request[JOBSCHED_REQUEST_BYTES];

    host_options(subject, &options);
    options.allocator = &allocator;
    options.observer = observe;
    options.observer_data = (void *)&events;
    insist(jobsched_open(&options, &host.s));
    insist(host_add(&host, "job"));
    insist(jobsched_start(host.s));
    (void)snprintf(request, sizeof request, "once-%s", jobsched_node_id(host.s));
    insist(jobsched_trigger(host.s, "job", request, NULL));
    wait_for(host.calls > 0);
    insist(jobsched_pause(host.s, "job", NULL));
    insist(jobsched_resume(host.s, "job", NULL));
    insist(jobsched_trigger(host.s, "job", request, NULL)); /* known already: nothing comes of it */
    insist(jobsched_cancel(host.s, "job", NULL));
    wait_for(host_rows(&host, "job", JOBSCHED_OUTCOME_SUCCEEDED) > 0 ||
             atomic_load(&memory->failed) > 0);
    if (jobsched_drain(host.s, LIVE_BOUND_MS) != 0) {
        print_error("request %lld refused: %s\n", (long long)atomic_load(&memory->fail_at),
                    jobsched_last_error()->message);
        fail();
    }
    atomic_store(&memory->fail_at, -1);
    wait_for(host_rows(&host, "job", -1) >= 0); /* a busy machine may not answer at once */
    wait_for(host_rows(&host, "job", JOBSCHED_OUTCOME_SUCCEEDED) == 1);
    wait_for(host_rows(&host, "job", -1) == 1);
    insist(jobsched_remove(host.s, "job", NULL)); /* the next life begins anew */
    assert_equal(jobsched_close(host.s), 0);
    assert_equal(host.calls, 1);
    assert_equal(host.freed, 1);
    assert_equal(memory->live, 0);
    return memory->asked;
}

static void sweep(struct subject *subject)
{
    struct test_memory memory;
    int64_t needed = INT64_MAX;

    /* One request after the other, until a life is not hit. */
    for (int64_t at = 0; at < needed; at++) {
        test_memory_init(&memory);
        atomic_store(&memory.fail_at, at);
        needed = live(subject, &memory);
        if (atomic_load(&memory.failed) == 0) {
            print_message("%s: %lld requests for memory, each was refused once\n", subject->scheme,
                          (long long)at);
            break;
        }
    }
}

static void test_each_request_is_refused_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        sweep(&subjects[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_request_is_refused_once)};

    return cmocka_run_group_tests(tests, subjects_set_up, subjects_tear_down) ? 1 : 0;
}
