/* timesync.c: what this node knows of the backend's clock. Pure. */
#include "engine/timesync.h"

/* Clocks of machines drift apart by less than 500 parts per million (NTP's own limit). */
enum { DRIFT_PARTS = 2000 };

void jsi_timesync_guess(jsi_timesync *sync, int64_t wall_ms, int64_t mono_ms)
{
    *sync = (jsi_timesync){.low_ms = wall_ms - mono_ms,
                           .high_ms = wall_ms - mono_ms,
                           .sampled_at_mono_ms = mono_ms,
                           .contacted = false};
}

void jsi_timesync_sample(jsi_timesync *sync, int64_t backend_ms, int64_t sent_mono_ms,
                         int64_t received_mono_ms)
{
    /* The reading happened at some instant within the round trip. Both clocks are cut to whole
     * milliseconds, hence the 1 on the high side. */
    int64_t low = backend_ms - received_mono_ms;
    int64_t high = backend_ms - sent_mono_ms + 1;
    if (sync->contacted) {
        int64_t drift = (received_mono_ms - sync->sampled_at_mono_ms) / DRIFT_PARTS + 1;
        int64_t known_low = sync->low_ms - drift;
        int64_t known_high = sync->high_ms + drift;
        /* Disjoint: one of the clocks was stepped, so what was known is void. */
        if (known_low <= high && low <= known_high) {
            low = low > known_low ? low : known_low;
            high = high < known_high ? high : known_high;
        }
    }
    *sync = (jsi_timesync){
        .low_ms = low, .high_ms = high, .sampled_at_mono_ms = received_mono_ms, .contacted = true};
}
