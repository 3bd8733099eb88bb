/* test_redis_watch.c: how old a heartbeat is taken to be while the server's clock runs as it likes.
 * No server: looks and heartbeats are made up, on a monotonic clock that is a number here. */
#include "redis_support.h"

#include "backends/redis/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 30000, EARLY_MAX_MS = LEASE_MS / 10 };

/* A server whose clock goes at a rate of its own, and is stepped now and then. */
struct world {
    struct jsi_redis_store store;
    double server_ms; /* at mono_ms */
    double rate;
    int64_t mono_ms;
    int64_t beat_mono_ms, beat_server_ms; /* the last heartbeat of the other node */
    unsigned beat;
};

static void *allocate(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *reallocate(void *ctx, void *pointer, size_t size)
{
    (void)ctx;
    return realloc(pointer, size);
}

static void release(void *ctx, void *pointer)
{
    (void)ctx;
    free(pointer);
}

static void begin(struct world *w)
{
    memset(w, 0, sizeof *w);
    (void)pthread_mutex_init(&w->store.lock, NULL);
    w->store.config.lease_ms = LEASE_MS;
    w->store.config.allocator =
        (jobsched_allocator){sizeof(jobsched_allocator), NULL, allocate, reallocate, release};
    w->server_ms = 1.7e12;
    w->rate = 1;
    w->mono_ms = 1000000;
}

static void end(struct world *w)
{
    free(w->store.watches);
    (void)pthread_mutex_destroy(&w->store.lock);
}

static void pass(struct world *w, int64_t ms)
{
    w->mono_ms += ms;
    w->server_ms += (double)ms * w->rate;
}

static void beat(struct world *w)
{
    w->beat++;
    w->beat_mono_ms = w->mono_ms;
    w->beat_server_ms = (int64_t)w->server_ms;
}

/* A request with a round trip of that long, half of it each way, that sees the heartbeat. */
static void look(struct world *w, int64_t trip_ms)
{
    char text[24];
    int64_t sent_ms = w->mono_ms;
    pass(w, trip_ms / 2);
    int64_t now_ms = (int64_t)w->server_ms;
    pass(w, trip_ms - trip_ms / 2);
    jsi_redis_watch_clock(&w->store, sent_ms, w->mono_ms, now_ms);
    (void)snprintf(text, sizeof text, "%u", w->beat);
    jsi_redis_watch(&w->store, "other", text, now_ms - w->beat_server_ms);
}

/* How much earlier than it really was the heartbeat is taken to have been; negative: later. */
static int64_t early_ms(const struct world *w)
{
    return w->beat_mono_ms - w->store.watches[0].since_ms;
}

/* A heartbeat between two looks, then looks until another lease is over. */
static void heartbeat_between_looks(struct world *w, int64_t every_ms)
{
    pass(w, every_ms / 2);
    beat(w);
    pass(w, every_ms - every_ms / 2);
    look(w, 2);
}

/* G10: a clock that only drifts as clocks do is trusted: a heartbeat counts from when it was, though
 * it is seen seconds later, and that for hours. */
static void test_drift_is_trusted(void **state)
{
    (void)state;
    static const double rates[] = {1, 1.0001, 0.9999, 1.0002, 0.9998};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct world w;
        begin(&w);
        w.rate = rates[i];
        look(&w, 2);
        for (int n = 0; n < 1000; n++) {
            heartbeat_between_looks(&w, 10000);
            cf_true(early_ms(&w) >= -20 && early_ms(&w) <= 20);
        }
        end(&w);
    }
}

/* G5: a clock that runs too fast, a little in each look, makes nobody older than it is by more than a
 * tenth of the lease; nor do many small steps. */
static void test_slewed_clock_is_not_trusted(void **state)
{
    (void)state;
    static const double rates[] = {1.001, 1.01, 1.05, 1.1, 1.5, 3, 10};
    static const int64_t gaps[] = {20, 50, 100, 1000, 5000, 15000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
            struct world w;
            begin(&w);
            for (int n = 0; n < 100; n++) {
                pass(&w, gaps[g]);
                look(&w, 2);
            }
            w.rate = rates[i];
            for (int n = 0; n < 100; n++) {
                beat(&w);
                /* Nobody sees it for a while: our looks are of other jobs. */
                unsigned seen = w.beat--;
                for (int64_t left_ms = LEASE_MS / 2; left_ms > 0; left_ms -= gaps[g]) {
                    pass(&w, gaps[g]);
                    look(&w, 2);
                }
                w.beat = seen;
                look(&w, 2);
                cf_true(early_ms(&w) <= EARLY_MAX_MS);
            }
            end(&w);
        }
    }
}

/* The same, whatever the clock does: rates and steps at random, looks and heartbeats at random. */
static void test_no_clock_makes_a_heartbeat_too_old(void **state)
{
    (void)state;
    unsigned short seed[3] = {7, 11, 13};
    int64_t credited = 0;
    for (int run = 0; run < 300; run++) {
        struct world w;
        begin(&w);
        double wildness = pow(10, -5 + 5 * erand48(seed));
        for (int n = 0; n < 2000; n++) {
            if (nrand48(seed) % 20 == 0) {
                w.rate = 1 + wildness * (2 * erand48(seed) - 1);
            }
            if (nrand48(seed) % 50 == 0) {
                w.server_ms += 20 * (2 * erand48(seed) - 1);
            }
            if (nrand48(seed) % 500 == 0) {
                w.server_ms += 2.0 * LEASE_MS * (2 * erand48(seed) - 1);
            }
            pass(&w, (int64_t)(pow(10, 4 * erand48(seed))));
            if (nrand48(seed) % 3 == 0) {
                beat(&w);
            } else {
                look(&w, nrand48(seed) % 10 == 0 ? 200 : nrand48(seed) % 40);
                cf_true(early_ms(&w) <= EARLY_MAX_MS);
                credited += early_ms(&w) > -5;
            }
        }
        end(&w);
    }
    cf_true(credited > 10000); /* it is not that nothing is trusted */
}

/* Steps of a second each way, and a step in one of two lanes' answers that comes out of order. */
static void test_step_is_not_trusted(void **state)
{
    (void)state;
    static const double steps[] = {1000, -1000, 86400000, -86400000, 100, -100};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct world w;
        begin(&w);
        for (int n = 0; n < 20; n++) {
            heartbeat_between_looks(&w, 5000);
        }
        int64_t before_ms = w.mono_ms;
        pass(&w, 2000);
        beat(&w);
        w.server_ms += steps[i];
        pass(&w, 2000);
        look(&w, 2);
        cf_equal(w.store.watches[0].since_ms, w.mono_ms); /* seen now, for the first time */
        cf_true(w.store.in_step[0].from_ms > before_ms);
        heartbeat_between_looks(&w, 5000);
        cf_true(early_ms(&w) >= -20 && early_ms(&w) <= 20); /* in step again */
        end(&w);
    }
}

/* G5: a step that fits into the bounds of a round trip which took long. What comes after is not
 * compared with that look, but with the next one. */
static void test_step_after_a_long_round_trip_is_not_trusted(void **state)
{
    (void)state;
    static const double steps[] = {8000, -8000, 4000, 0};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct world w;
        begin(&w);
        heartbeat_between_looks(&w, 5000);
        look(&w, 20000);
        pass(&w, 9000);
        beat(&w);
        pass(&w, 100);
        w.server_ms += steps[i];
        look(&w, 2);
        cf_equal(w.store.watches[0].since_ms, w.mono_ms); /* seen now, for the first time */
        heartbeat_between_looks(&w, 5000);
        cf_true(early_ms(&w) >= -20 && early_ms(&w) <= 20); /* in step again */
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drift_is_trusted),
        cmocka_unit_test(test_slewed_clock_is_not_trusted),
        cmocka_unit_test(test_no_clock_makes_a_heartbeat_too_old),
        cmocka_unit_test(test_step_is_not_trusted),
        cmocka_unit_test(test_step_after_a_long_round_trip_is_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
