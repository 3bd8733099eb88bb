/* known.c: what this node knows of its jobs and runs, to say it again to a store that has forgotten
 * it; see lua/assert.lua. In memory only. Where there is no memory for something it is not known,
 * and a store that forgets it as well treats it as lost: never the other way round.
 *
 * Slots stay where they are: a place in a list that is being said again, part by part, stays good
 * while others come and go. Locks: all take store->lock. */
#include "store.h"

#include <string.h>

#define BUCKETS_FIRST 64

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct jsi_redis_known *find(const struct jsi_redis_store *store, const char *job)
{
    if (store->bucket_count == 0) {
        return NULL;
    }
    uint64_t hash = hash_of(job);
    struct jsi_redis_known *at = store->buckets[hash & (store->bucket_count - 1)];
    while (at != NULL && (at->hash != hash || strcmp(at->name, job) != 0)) {
        at = at->next;
    }
    return at;
}

/* Makes room in the buckets; returns 0 when there are none at all. */
static int grow_buckets(struct jsi_redis_store *store)
{
    if (store->known_count < store->bucket_count) {
        return 1;
    }
    size_t count = store->bucket_count == 0 ? BUCKETS_FIRST : store->bucket_count * 2;
    struct jsi_redis_known **buckets =
        jsi_redis_allocate(&store->config.allocator, count * sizeof *buckets);
    if (buckets == NULL) {
        return store->bucket_count > 0; /* longer chains, then */
    }
    memset(buckets, 0, count * sizeof *buckets);
    for (size_t i = 0; i < store->known_slots; i++) {
        struct jsi_redis_known *known = store->known[i];
        if (known != NULL) {
            known->next = buckets[known->hash & (count - 1)];
            buckets[known->hash & (count - 1)] = known;
        }
    }
    jsi_redis_free(&store->config.allocator, store->buckets);
    store->buckets = buckets;
    store->bucket_count = count;
    return 1;
}

static struct jsi_redis_known *add(struct jsi_redis_store *store, const char *job)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    size_t bytes = strlen(job) + 1;
    if (!grow_buckets(store)) {
        return NULL;
    }
    size_t slot = store->known_free;
    while (slot < store->known_slots && store->known[slot] != NULL) {
        slot++;
    }
    if (slot == store->known_slots) {
        struct jsi_redis_known **grown =
            jsi_redis_grow(allocator, store->known, store->known_slots, &store->known_capacity,
                           sizeof *store->known);
        if (grown == NULL) {
            return NULL;
        }
        store->known = grown;
    }
    struct jsi_redis_known *known = jsi_redis_allocate(allocator, sizeof *known + bytes);
    if (known == NULL) {
        return NULL;
    }
    *known = (struct jsi_redis_known){.hash = hash_of(job), .slot = slot};
    memcpy(known->name, job, bytes);
    store->known[slot] = known;
    store->known_slots += slot == store->known_slots;
    store->known_free = slot + 1;
    store->known_count++;
    struct jsi_redis_known **bucket = &store->buckets[known->hash & (store->bucket_count - 1)];
    known->next = *bucket;
    *bucket = known;
    return known;
}

static void drop(struct jsi_redis_store *store, struct jsi_redis_known *known)
{
    struct jsi_redis_known **at = &store->buckets[known->hash & (store->bucket_count - 1)];
    while (*at != known) {
        at = &(*at)->next;
    }
    *at = known->next;
    store->known[known->slot] = NULL;
    store->known_free = known->slot < store->known_free ? known->slot : store->known_free;
    store->known_count--;
    jsi_redis_free(&store->config.allocator, known->definition);
    jsi_redis_free(&store->config.allocator, known);
}

/* Whether the definition could be kept. */
static int keep_definition(struct jsi_redis_store *store, struct jsi_redis_known *known,
                           const char *definition)
{
    if (known->definition != NULL && strcmp(known->definition, definition) == 0) {
        return 1;
    }
    size_t bytes = strlen(definition) + 1;
    char *copy = jsi_redis_allocate(&store->config.allocator, bytes);
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, definition, bytes);
    jsi_redis_free(&store->config.allocator, known->definition);
    known->definition = copy;
    known->mark_ms = INT64_MIN; /* that of another schedule is none of this one's */
    return 1;
}

static void learn_flags(struct jsi_redis_known *known, int paused, int removed, int64_t id)
{
    if (id >= known->flags_id) {
        known->paused = paused;
        known->removed = removed;
        known->flags_id = id;
    }
}

void jsi_redis_know_announced(struct jsi_redis_store *store, const jobsched_announcement *item,
                              int64_t id)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_known *known = find(store, item->job);
    known = known == NULL ? add(store, item->job) : known;
    if (known != NULL && !keep_definition(store, known, item->definition)) {
        drop(store, known);
        known = NULL;
    }
    if (known != NULL) {
        known->version = item->version;
        known->generation = item->generation;
        known->renumbered = 0;
        known->mark_ms = item->mark_ms > known->mark_ms ? item->mark_ms : known->mark_ms;
        known->in_force = item->in_force;
        learn_flags(known, item->paused, item->removed, id);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* In whichever slot is free: there are as many as runs go on here. */
static struct jsi_redis_grant *add_grant(struct jsi_redis_store *store, const char *job)
{
    size_t slot = 0;
    while (slot < store->grant_slots && store->grants[slot].job != NULL) {
        slot++;
    }
    struct jsi_redis_grant *grown =
        slot < store->grant_slots
            ? store->grants
            : jsi_redis_grow(&store->config.allocator, store->grants, store->grant_slots,
                             &store->grant_capacity, sizeof *store->grants);
    size_t bytes = strlen(job) + 1;
    char *name = grown == NULL ? NULL : jsi_redis_allocate(&store->config.allocator, bytes);
    store->grants = grown == NULL ? store->grants : grown;
    if (name == NULL) {
        return NULL;
    }
    memcpy(name, job, bytes);
    store->grant_slots += slot == store->grant_slots;
    store->grants[slot] = (struct jsi_redis_grant){.job = name};
    return &store->grants[slot];
}

static struct jsi_redis_grant *find_grant(struct jsi_redis_store *store, const char *job,
                                          uint64_t token)
{
    for (size_t i = 0; i < store->grant_slots; i++) {
        struct jsi_redis_grant *grant = &store->grants[i];
        if (grant->job != NULL && grant->token == token && strcmp(grant->job, job) == 0) {
            return grant;
        }
    }
    return NULL;
}

static void know_grant(struct jsi_redis_store *store, const jobsched_claim *item, int64_t now_ms)
{
    if (item->token == 0 || find_grant(store, item->job, item->token) != NULL) {
        return; /* nothing runs; or granted again */
    }
    struct jsi_redis_grant *grant = add_grant(store, item->job);
    if (grant != NULL) {
        grant->token = item->token;
        grant->scheduled_ms = item->granted_ms;
        grant->started_ms = now_ms;
        grant->lease_ms = item->lease_ms;
        grant->attempt = item->attempt;
        grant->kind = item->kind;
        grant->recover = item->recover;
        grant->limit = item->recover_limit;
        if (item->kind == JOBSCHED_KIND_TRIGGER) {
            (void)memccpy(grant->request, item->request, '\0', sizeof grant->request - 1);
        }
    }
}

void jsi_redis_know_claimed(struct jsi_redis_store *store, const jobsched_claim *item, int64_t id,
                            int64_t now_ms)
{
    (void)pthread_mutex_lock(&store->lock);
    store->lease_max_ms =
        item->lease_ms > store->lease_max_ms ? item->lease_ms : store->lease_max_ms;
    struct jsi_redis_known *known = find(store, item->job);
    if (known != NULL && item->answer != JOBSCHED_ANSWER_UNKNOWN) {
        known->mark_ms = item->mark_ms > known->mark_ms ? item->mark_ms : known->mark_ms;
    }
    if (item->answer == JOBSCHED_ANSWER_GRANTED) {
        store->mark_ms = item->mark_ms > store->mark_ms ? item->mark_ms : store->mark_ms;
        know_grant(store, item, now_ms);
    }
    if (known != NULL && item->answer == JOBSCHED_ANSWER_PAUSED) {
        learn_flags(known, 1, 0, id);
    } else if (known != NULL && item->answer == JOBSCHED_ANSWER_REMOVED) {
        learn_flags(known, known->paused, 1, id);
    } else if (known != NULL && item->answer == JOBSCHED_ANSWER_STALE) {
        known->in_force = 0;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_know_ended(struct jsi_redis_store *store, const char *job, uint64_t token)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_grant *grant = find_grant(store, job, token);
    if (grant != NULL) {
        jsi_redis_free(&store->config.allocator, grant->job);
        grant->job = NULL;
        while (store->grant_slots > 0 && store->grants[store->grant_slots - 1].job == NULL) {
            store->grant_slots--;
        }
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_know_withdrawn(struct jsi_redis_store *store, const char *job)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_known *known = find(store, job);
    if (known != NULL) {
        drop(store, known);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_know_commanded(struct jsi_redis_store *store, const jobsched_command *command,
                              int64_t id)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_known *known = find(store, command->job);
    if (known != NULL && command->verb == JOBSCHED_VERB_REMOVE) {
        learn_flags(known, known->paused, 1, id);
    } else if (known != NULL &&
               (command->verb == JOBSCHED_VERB_PAUSE || command->verb == JOBSCHED_VERB_RESUME)) {
        learn_flags(known, command->verb == JOBSCHED_VERB_PAUSE, 0, id);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_know_renumbered(struct jsi_redis_store *store, const char *job, uint64_t generation)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_redis_known *known = find(store, job);
    if (known != NULL) {
        known->renumbered = generation;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

uint64_t jsi_redis_known_generation(struct jsi_redis_store *store, const char *job,
                                    uint64_t generation)
{
    (void)pthread_mutex_lock(&store->lock);
    const struct jsi_redis_known *known = find(store, job);
    /* Where another definition is in force the generation is that one's, and the new number that
     * of ours. */
    if (known != NULL && known->in_force && known->renumbered != 0 &&
        known->generation == generation) {
        generation = known->renumbered;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return generation;
}

size_t jsi_redis_known_jobs(struct jsi_redis_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    size_t count = store->known_count;
    (void)pthread_mutex_unlock(&store->lock);
    return count;
}

void jsi_redis_known_slots(struct jsi_redis_store *store, size_t *out_jobs, size_t *out_grants)
{
    (void)pthread_mutex_lock(&store->lock);
    *out_jobs = store->known_slots;
    *out_grants = store->grant_slots;
    (void)pthread_mutex_unlock(&store->lock);
}

static void add_fence(struct jsi_redis_lane *lane, const struct jsi_redis_known *known)
{
    jsi_redis_add(lane, "F");
    jsi_redis_add(lane, known->name);
    jsi_redis_add_unsigned(lane, known->version);
    jsi_redis_add(lane, known->definition);
    jsi_redis_add_unsigned(lane, known->renumbered != 0 ? known->renumbered : known->generation);
    jsi_redis_add_exact(lane, known->mark_ms);
    jsi_redis_add_int(lane, known->in_force != 0);
    jsi_redis_add_int(lane, 1);
    jsi_redis_add_int(lane, known->paused != 0);
    jsi_redis_add_int(lane, known->removed != 0);
    jsi_redis_add_exact(lane, known->flags_id);
}

static void add_run(struct jsi_redis_lane *lane, const struct jsi_redis_grant *grant)
{
    jsi_redis_add(lane, "G");
    jsi_redis_add(lane, grant->job);
    jsi_redis_add_unsigned(lane, grant->token);
    jsi_redis_add_exact(lane, grant->scheduled_ms);
    jsi_redis_add_int(lane, grant->kind);
    jsi_redis_add_unsigned(lane, grant->attempt);
    jsi_redis_add_exact(lane, grant->lease_ms < 1 ? 1 : grant->lease_ms);
    jsi_redis_add_int(lane, grant->recover);
    jsi_redis_add_unsigned(lane, grant->limit);
    jsi_redis_add_exact(lane, grant->started_ms);
    jsi_redis_add(lane, grant->request);
}

void jsi_redis_known_add(struct jsi_redis_lane *lane, size_t jobs, size_t first, size_t count)
{
    struct jsi_redis_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = first; i < first + count; i++) {
        if (i < jobs && i < store->known_slots && store->known[i] != NULL) {
            add_fence(lane, store->known[i]);
        } else if (i >= jobs && i - jobs < store->grant_slots &&
                   store->grants[i - jobs].job != NULL) {
            add_run(lane, &store->grants[i - jobs]);
        }
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_redis_known_free(struct jsi_redis_store *store)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    for (size_t i = 0; i < store->known_slots; i++) {
        if (store->known[i] != NULL) {
            jsi_redis_free(allocator, store->known[i]->definition);
            jsi_redis_free(allocator, store->known[i]);
        }
    }
    for (size_t i = 0; i < store->grant_slots; i++) {
        jsi_redis_free(allocator, store->grants[i].job);
    }
    jsi_redis_free(allocator, store->known);
    jsi_redis_free(allocator, store->buckets);
    jsi_redis_free(allocator, store->grants);
}
