/* What a node knows of the backend's clock (timesync.c, G3): the estimate is never ahead of the
 * backend, is late by at most a round trip, tightens with better samples, and follows steps of
 * either clock. */
#include "support/typed.h"

#include "engine/timesync.h"

#include "base/hash.h"

enum { BASE_MS = 1000000 };

/* Never early: whatever the way of the reply, the estimate is at or behind the backend. */
static void test_estimate_is_never_ahead(void **state)
{
    (void)state;
    uint64_t seed = 7;
    jsi_timesync sync;
    jsi_timesync_guess(&sync, BASE_MS + 500, BASE_MS);
    assert_equal(jsi_timesync_now(&sync, BASE_MS + 3), BASE_MS + 503);
    int64_t mono_ms = BASE_MS;
    const int64_t offset_ms = 90000; /* the backend minus the monotonic clock */
    for (int i = 0; i < 20000; i++) {
        seed = jsi_mix64(seed);
        int64_t there_ms = (int64_t)(seed % 40);
        int64_t back_ms = (int64_t)(seed / 64 % 40);
        jsi_timesync_sample(&sync, mono_ms + there_ms + offset_ms, mono_ms,
                            mono_ms + there_ms + back_ms);
        mono_ms += there_ms + back_ms;
        assert_at_most(jsi_timesync_now(&sync, mono_ms), mono_ms + offset_ms);
        assert_at_most(mono_ms + offset_ms - jsi_timesync_now(&sync, mono_ms), back_ms + 1);
        assert_at_most(mono_ms + offset_ms, mono_ms + sync.high_ms + 1);
        mono_ms += (int64_t)(seed / 4096 % 5000);
    }
}

/* A slow reply says little and does not spoil what a quick one said. */
static void test_slow_sample_keeps_what_is_known(void **state)
{
    (void)state;
    jsi_timesync sync;
    jsi_timesync_guess(&sync, 0, 0);
    jsi_timesync_sample(&sync, BASE_MS + 1, BASE_MS, BASE_MS + 1);
    int64_t low_ms = sync.low_ms;
    jsi_timesync_sample(&sync, BASE_MS + 100, BASE_MS + 10, BASE_MS + 2010);
    assert_at_most(low_ms - sync.low_ms, 2); /* the drift of two seconds */
    assert_true(sync.contacted);
}

/* The guess from the wall clock counts for nothing once the backend has spoken. */
static void test_first_sample_replaces_guess(void **state)
{
    (void)state;
    jsi_timesync sync;
    jsi_timesync_guess(&sync, BASE_MS + 90000, BASE_MS);
    jsi_timesync_sample(&sync, BASE_MS + 2, BASE_MS, BASE_MS + 4);
    assert_equal(sync.low_ms, -2);
    assert_equal(sync.high_ms, 3);
}

/* The rivals' bug 11: after a step of the backend's clock what was known is void, both ways. */
static void test_steps_are_followed_at_once(void **state)
{
    (void)state;
    static const int64_t steps_ms[] = {3600000, -3600000, 5000, -5000};
    for (size_t i = 0; i < sizeof steps_ms / sizeof steps_ms[0]; i++) {
        jsi_timesync sync;
        jsi_timesync_guess(&sync, 0, 0);
        jsi_timesync_sample(&sync, BASE_MS, BASE_MS, BASE_MS);
        jsi_timesync_sample(&sync, BASE_MS + 10 + steps_ms[i], BASE_MS + 10, BASE_MS + 10);
        assert_equal(jsi_timesync_now(&sync, BASE_MS + 10), BASE_MS + 10 + steps_ms[i]);
    }
}

/* Samples of the two lanes may be applied in either order. */
static void test_older_sample_after_newer_is_harmless(void **state)
{
    (void)state;
    jsi_timesync sync;
    jsi_timesync_guess(&sync, 0, 0);
    jsi_timesync_sample(&sync, BASE_MS + 100, BASE_MS + 90, BASE_MS + 110);
    jsi_timesync_sample(&sync, BASE_MS + 50, BASE_MS + 45, BASE_MS + 60);
    assert_at_most(sync.low_ms, 0);
    assert_at_most(-10, sync.low_ms);
    assert_at_most(0, sync.high_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_is_never_ahead),
        cmocka_unit_test(test_slow_sample_keeps_what_is_known),
        cmocka_unit_test(test_first_sample_replaces_guess),
        cmocka_unit_test(test_steps_are_followed_at_once),
        cmocka_unit_test(test_older_sample_after_newer_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
