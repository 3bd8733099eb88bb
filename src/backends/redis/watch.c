/* watch.c: since when each node's heartbeat stands still, as seen from here. In memory only,
 * because it is counted on this process's monotonic clock. Scripts get it with each request and
 * judge in the same atomic step in which they act: who is dead is who still has the very heartbeat
 * that was watched, for the whole lease of the run. So a heartbeat that moves while the request is
 * under way saves its owner.
 *
 * Takeover should come a lease after the last heartbeat, not a lease after the first look at it.
 * The server stamps heartbeats with its own clock, so their age is known where that clock can be
 * trusted: where it has run in step with ours, within narrow bounds, since before the heartbeat.
 * A clock that was stepped, or that is slewed faster than clocks drift, is out of step, and then
 * only what we have seen ourselves counts. Looks are not compared with the one before, since many
 * small steps make a large one, but all of a span together: what the server's clock is ahead of ours
 * must be one number for all of them. Of two spans the older one reaches back a lease or more and
 * is followed by the younger one, so that drift does not add up for ever.
 *
 * Where there is no memory for a node, it is never called dead by this. Locks: takes store->lock. */
#include "store.h"

#include <stdio.h>
#include <string.h>

/* How exactly the looks of a span must agree, in parts of the lease: two of them may differ by two
 * round trips and the slack, which is less than the tenth of the lease by which the engine tells a
 * run before its end (G5). The drift is what clocks have that are kept by NTP (200 ppm), over the
 * two leases that a span may last. */
#define ROUND_TRIP_PART   40
#define ROUND_TRIP_MAX_MS 50
#define SLACK_PART        100
#define SLACK_MAX_MS      10
#define DRIFT_PART        2500
#define DRIFT_MAX_MS      20

static int64_t part(int64_t lease_ms, int64_t parts, int64_t max_ms)
{
    return lease_ms / parts > max_ms ? max_ms : lease_ms / parts;
}

static void narrow(struct jsi_redis_span *span, const struct jsi_redis_span *look)
{
    span->low_ms = look->low_ms > span->low_ms ? look->low_ms : span->low_ms;
    span->high_ms = look->high_ms < span->high_ms ? look->high_ms : span->high_ms;
}

void jsi_redis_watch_clock(struct jsi_redis_store *store, int64_t sent_ms, int64_t got_ms,
                           int64_t now_ms)
{
    int64_t lease_ms = store->config.lease_ms;
    int64_t slack_ms =
        part(lease_ms, SLACK_PART, SLACK_MAX_MS) + part(lease_ms, DRIFT_PART, DRIFT_MAX_MS);
    (void)pthread_mutex_lock(&store->lock);
    if (!store->looked || got_ms >= store->look_got_ms) { /* lanes may come out of order */
        /* What the server's clock is ahead of ours lies between these. */
        struct jsi_redis_span look = {
            .from_ms = got_ms, .low_ms = now_ms - got_ms, .high_ms = now_ms - sent_ms};
        struct jsi_redis_span *older = &store->in_step[0], *younger = &store->in_step[1];
        narrow(older, &look);
        narrow(younger, &look); /* it is part of the older one, so it needs no judging */
        /* Within bounds so wide a step would not be seen: the next look is what others are compared
         * with. */
        int is_wide = got_ms - sent_ms > part(lease_ms, ROUND_TRIP_PART, ROUND_TRIP_MAX_MS);
        if (!store->looked || store->look_is_wide || is_wide ||
            older->low_ms > older->high_ms + slack_ms) {
            *older = *younger = look;
        } else if (got_ms - younger->from_ms >= lease_ms) {
            *older = *younger;
            *younger = look;
        }
        store->looked = 1;
        store->look_is_wide = is_wide;
        store->look_got_ms = got_ms;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* Nodes seldom come and go; there are tens of them, so the table is searched from the start. */
static struct jsi_redis_watch *find(struct jsi_redis_store *store, const char *node)
{
    for (size_t i = 0; i < store->watch_count; i++) {
        if (strcmp(store->watches[i].node, node) == 0) {
            return &store->watches[i];
        }
    }
    return NULL;
}

static struct jsi_redis_watch *add(struct jsi_redis_store *store, const char *node)
{
    struct jsi_redis_watch *grown =
        jsi_redis_grow(&store->config.allocator, store->watches, store->watch_count,
                       &store->watch_capacity, sizeof *store->watches);
    if (grown == NULL) {
        return NULL;
    }
    store->watches = grown;
    struct jsi_redis_watch *watch = &grown[store->watch_count++];
    *watch = (struct jsi_redis_watch){.since_ms = 0};
    (void)snprintf(watch->node, sizeof watch->node, "%s", node);
    return watch;
}

void jsi_redis_watch(struct jsi_redis_store *store, const char *node, const char *beat,
                     int64_t age_ms)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_watch *watch = find(store, node);
    if (watch == NULL) {
        watch = add(store, node);
    }
    if (watch != NULL) {
        if (strcmp(watch->beat, beat) != 0) {
            (void)snprintf(watch->beat, sizeof watch->beat, "%s", beat);
            /* The later of when it was, if the clocks can be trusted, and of since when they can. */
            int64_t since_ms = store->look_got_ms - (age_ms < 0 ? 0 : age_ms);
            int64_t from_ms = store->in_step[0].from_ms;
            watch->since_ms = since_ms > from_ms ? since_ms : from_ms;
        }
        watch->round = store->watch_round;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_watch_begin(struct jsi_redis_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->watch_round++;
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_watch_end(struct jsi_redis_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    size_t kept = 0;
    for (size_t i = 0; i < store->watch_count; i++) {
        if (store->watches[i].round == store->watch_round) {
            store->watches[kept++] = store->watches[i];
        }
    }
    store->watch_count = kept;
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_watch_add(struct jsi_redis_lane *lane)
{
    struct jsi_redis_store *store = lane->store;
    /* Before the request is sent: what passes meanwhile does not count for it. */
    int64_t mono_ms = jsi_redis_mono(store);
    (void)pthread_mutex_lock(&store->lock);
    size_t standing = 0;
    for (size_t i = 0; i < store->watch_count; i++) {
        standing += mono_ms > store->watches[i].since_ms;
    }
    jsi_redis_add_unsigned(lane, standing);
    for (size_t i = 0; i < store->watch_count; i++) {
        const struct jsi_redis_watch *watch = &store->watches[i];
        if (mono_ms > watch->since_ms) {
            jsi_redis_add(lane, watch->node);
            jsi_redis_add(lane, watch->beat);
            jsi_redis_add_int(lane, mono_ms - watch->since_ms);
        }
    }
    (void)pthread_mutex_unlock(&store->lock);
}
