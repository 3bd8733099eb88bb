/* watch.c: since when each node's heartbeat stands still, as seen from here. In memory only,
 * because it is counted on this process's monotonic clock. The server gets it with each claim, and
 * judges: see judge() in sql/node.sql. Where there is no memory for a node, it is never called dead
 * by this. Locks: takes store->lock. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes seldom come and go; there are tens of them, so the table is searched from the start. */
static struct jsi_pg_watch *find(struct jsi_pg_store *store, const char *node)
{
    for (size_t i = 0; i < store->watch_count; i++) {
        if (strcmp(store->watches[i].node, node) == 0) {
            return &store->watches[i];
        }
    }
    return NULL;
}

static struct jsi_pg_watch *add(struct jsi_pg_store *store, const char *node)
{
    struct jsi_pg_watch *grown =
        jsi_pg_grow(&store->config.allocator, store->watches, store->watch_count,
                    &store->watch_capacity, sizeof *store->watches);
    if (grown == NULL) {
        return NULL;
    }
    store->watches = grown;
    struct jsi_pg_watch *watch = &grown[store->watch_count++];
    *watch = (struct jsi_pg_watch){.beat = -1};
    (void)snprintf(watch->node, sizeof watch->node, "%s", node);
    return watch;
}

void jsi_pg_watch(struct jsi_pg_store *store, const char *node, const char *beat_text,
                  int64_t mono_ms)
{
    int64_t beat = strtoll(beat_text, NULL, 10);
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_pg_watch *watch = find(store, node);
    if (watch == NULL) {
        watch = add(store, node);
    }
    if (watch != NULL) {
        if (watch->beat != beat) {
            watch->beat = beat;
            watch->since_ms = mono_ms;
        }
        watch->round = store->watch_round;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_watch_begin(struct jsi_pg_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->watch_round++;
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_watch_end(struct jsi_pg_store *store)
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

void jsi_pg_watch_params(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    /* Before the statement is sent: what passes meanwhile does not count for it. */
    int64_t mono_ms = jsi_pg_mono(store);
    (void)pthread_mutex_lock(&store->lock);
    for (int column = 0; column < 3; column++) {
        jsi_pg_array_begin(lane);
        for (size_t i = 0; i < store->watch_count; i++) {
            const struct jsi_pg_watch *watch = &store->watches[i];
            if (column == 0) {
                jsi_pg_param_text(lane, watch->node);
            } else {
                jsi_pg_param_int(lane, column == 1 ? watch->beat : mono_ms - watch->since_ms);
            }
        }
        jsi_pg_array_end(lane);
    }
    (void)pthread_mutex_unlock(&store->lock);
}
