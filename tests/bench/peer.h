/* peer.h: other cron libraries, where the user has them; see docs/testing.md. Each has one source of
 * its own that includes it, so that none of them is needed. */
#ifndef TESTS_BENCH_PEER_H
#define TESTS_BENCH_PEER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Expressions have six fields, and all is UTC. parse gives NULL for what the peer refuses; next gives
 * -1 for none. */
struct peer {
    const char *name;
    void *(*parse)(const char *text);
    int64_t (*next)(void *schedule, int64_t after_s);
    void (*release)(void *schedule);
};

extern const struct peer peer_ccronexpr;
extern const struct peer peer_croncpp;

#ifdef __cplusplus
}
#endif

#endif
