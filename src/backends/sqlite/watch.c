/* watch.c: since when each node's heartbeat stands still, as seen from here. In memory only,
 * because it is counted on this process's monotonic clock. Where there is no memory for a node,
 * it is never called dead by this.
 * Locks: the caller holds store->lock. */
#include "store.h"

/* Nodes seldom come and go; there are tens of them, so the table is searched from the start. */
static struct jsi_sqlite_watch *find(struct jsi_sqlite_store *store, int64_t node)
{
    for (size_t i = 0; i < store->watch_count; i++) {
        if (store->watches[i].node == node) {
            return &store->watches[i];
        }
    }
    return NULL;
}

static struct jsi_sqlite_watch *add(struct jsi_sqlite_store *store, int64_t node)
{
    struct jsi_sqlite_watch *grown =
        jsi_sqlite_grow(&store->config.allocator, store->watches, store->watch_count,
                        &store->watch_capacity, sizeof *store->watches);
    if (grown == NULL) {
        return NULL;
    }
    store->watches = grown;
    struct jsi_sqlite_watch *watch = &grown[store->watch_count++];
    *watch = (struct jsi_sqlite_watch){.node = node};
    return watch;
}

int64_t jsi_sqlite_watch(struct jsi_sqlite_store *store, int64_t node, int64_t beat,
                         int64_t mono_ms)
{
    struct jsi_sqlite_watch *watch = find(store, node);
    int fresh = watch == NULL;
    if (fresh) {
        watch = add(store, node);
        if (watch == NULL) {
            return 0;
        }
    }
    if (fresh || watch->beat != beat) {
        watch->beat = beat;
        watch->since_ms = mono_ms;
    }
    watch->round = store->watch_round;
    return mono_ms - watch->since_ms;
}

void jsi_sqlite_watch_begin(struct jsi_sqlite_store *store)
{
    store->watch_round++;
}

void jsi_sqlite_watch_end(struct jsi_sqlite_store *store)
{
    size_t kept = 0;
    for (size_t i = 0; i < store->watch_count; i++) {
        if (store->watches[i].round == store->watch_round) {
            store->watches[kept++] = store->watches[i];
        }
    }
    store->watch_count = kept;
}
