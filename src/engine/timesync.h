/* timesync.h: what this node knows of the backend's clock. */
#ifndef JSI_TIMESYNC_H
#define JSI_TIMESYNC_H

#include <stdbool.h>
#include <stdint.h>

/* The backend's clock minus this node's monotonic clock lies within [low_ms, high_ms]. The low
 * end is what the tick uses: it makes a node late by at most a round trip, and never early. */
typedef struct jsi_timesync {
    int64_t low_ms, high_ms;
    int64_t sampled_at_mono_ms;
    bool contacted; /* false: a guess from the wall clock */
} jsi_timesync;

void jsi_timesync_guess(jsi_timesync *sync, int64_t wall_ms, int64_t mono_ms);

/* A reading of the backend's clock, taken between two instants of the monotonic clock. */
void jsi_timesync_sample(jsi_timesync *sync, int64_t backend_ms, int64_t sent_mono_ms,
                         int64_t received_mono_ms);

static inline int64_t jsi_timesync_now(const jsi_timesync *sync, int64_t mono_ms)
{
    return mono_ms + sync->low_ms;
}

#endif
