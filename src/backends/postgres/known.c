/* known.c: what this node knows and a server that has forgotten it has to be told: the runs that go
 * on here, claims whose outcome is not known, and what was last seen of the server's clock and log.
 * In memory only. Where there is no memory for something, that is remembered, and nothing is
 * concluded from what is missing. Locks: all take store->lock. */
#include "store.h"

#include <stdio.h>
#include <string.h>

#define BUCKETS_FIRST 64

/* The server's clock is told by several connections, whose answers overtake each other by less than
 * that. What is told beyond is a clock that was set back. */
#define OVERTAKE_MS 10000

static uint64_t hash_of(const char *job, uint64_t token)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ token; /* FNV-1a */
    for (; *job != '\0'; job++) {
        hash = (hash ^ (unsigned char)*job) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct jsi_pg_grant **find(const struct jsi_pg_store *store, const char *job, uint64_t token)
{
    if (store->grant_buckets == 0) {
        return NULL;
    }
    uint64_t hash = hash_of(job, token);
    struct jsi_pg_grant **at = &store->grants[hash & (store->grant_buckets - 1)];
    while (*at != NULL &&
           ((*at)->hash != hash || (*at)->token != token || strcmp((*at)->job, job) != 0)) {
        at = &(*at)->next;
    }
    return *at == NULL ? NULL : at;
}

/* Returns 0 when there are no buckets at all. */
static int grow_buckets(struct jsi_pg_store *store)
{
    if (store->grant_count < store->grant_buckets) {
        return 1;
    }
    size_t count = store->grant_buckets == 0 ? BUCKETS_FIRST : store->grant_buckets * 2;
    struct jsi_pg_grant **buckets =
        jsi_pg_allocate(&store->config.allocator, count * sizeof *buckets);
    if (buckets == NULL) {
        return store->grant_buckets > 0; /* longer chains, then */
    }
    memset(buckets, 0, count * sizeof *buckets);
    for (size_t i = 0; i < store->grant_buckets; i++) {
        while (store->grants[i] != NULL) {
            struct jsi_pg_grant *grant = store->grants[i];
            store->grants[i] = grant->next;
            grant->next = buckets[grant->hash & (count - 1)];
            buckets[grant->hash & (count - 1)] = grant;
        }
    }
    jsi_pg_free(&store->config.allocator, store->grants);
    store->grants = buckets;
    store->grant_buckets = count;
    return 1;
}

static struct jsi_pg_grant *make_grant(const jobsched_allocator *allocator, const char *job,
                                       const char *request)
{
    size_t job_bytes = strlen(job) + 1;
    size_t request_bytes = request == NULL ? 0 : strlen(request) + 1;
    struct jsi_pg_grant *grant =
        jsi_pg_allocate(allocator, sizeof *grant + job_bytes + request_bytes);
    if (grant == NULL) {
        return NULL;
    }
    *grant = (struct jsi_pg_grant){.next = NULL};
    memcpy(grant->job, job, job_bytes);
    if (request != NULL) {
        memcpy(grant->job + job_bytes, request, request_bytes);
        grant->request = grant->job + job_bytes;
    }
    return grant;
}

static void add_grant(struct jsi_pg_store *store, const jobsched_claim *item, int64_t now_ms)
{
    if (find(store, item->job, item->token) != NULL) {
        return; /* granted again */
    }
    struct jsi_pg_grant *grant = NULL;
    if (grow_buckets(store)) {
        grant = make_grant(&store->config.allocator, item->job,
                           item->kind == JOBSCHED_KIND_TRIGGER ? item->request : NULL);
    }
    if (grant == NULL) {
        store->is_incomplete = 1;
        return;
    }
    grant->hash = hash_of(item->job, item->token);
    grant->token = item->token;
    grant->scheduled_ms = item->granted_ms;
    grant->after_ms = item->after_ms;
    grant->started_ms = now_ms;
    grant->lease_ms = item->lease_ms;
    grant->attempt = item->attempt;
    grant->recover_limit = item->recover_limit;
    grant->kind = item->kind;
    grant->recover = item->recover;
    struct jsi_pg_grant **bucket = &store->grants[grant->hash & (store->grant_buckets - 1)];
    grant->next = *bucket;
    *bucket = grant;
    store->grant_count++;
}

static const char *request_of(const jobsched_claim *item)
{
    return item->kind == JOBSCHED_KIND_TRIGGER ? item->request : NULL;
}

static struct jsi_pg_asked *find_asked(const struct jsi_pg_store *store, const jobsched_claim *item)
{
    const char *request = request_of(item);
    for (size_t i = 0; i < store->asked_count; i++) {
        struct jsi_pg_asked *asked = &store->asked[i];
        int same = (request == NULL) == (asked->request == NULL) &&
                   (request == NULL ? asked->scheduled_ms == item->scheduled_ms
                                    : strcmp(asked->request, request) == 0);
        if (same && strcmp(asked->job, item->job) == 0) {
            return asked;
        }
    }
    return NULL;
}

static void add_asked(struct jsi_pg_store *store, const jobsched_claim *item)
{
    if (item->kind == JOBSCHED_CLAIM_SKIP || find_asked(store, item) != NULL) {
        return;
    }
    const jobsched_allocator *allocator = &store->config.allocator;
    struct jsi_pg_asked *grown = jsi_pg_grow(allocator, store->asked, store->asked_count,
                                             &store->asked_capacity, sizeof *store->asked);
    const char *request = request_of(item);
    size_t job_bytes = strlen(item->job) + 1;
    size_t request_bytes = request == NULL ? 0 : strlen(request) + 1;
    char *text = grown == NULL ? NULL : jsi_pg_allocate(allocator, job_bytes + request_bytes);
    store->asked = grown == NULL ? store->asked : grown;
    if (text == NULL) {
        store->is_incomplete = 1;
        return;
    }
    struct jsi_pg_asked *asked = &store->asked[store->asked_count++];
    *asked = (struct jsi_pg_asked){.scheduled_ms = item->scheduled_ms, .job = text};
    memcpy(text, item->job, job_bytes);
    if (request != NULL) {
        memcpy(text + job_bytes, request, request_bytes);
        asked->request = text + job_bytes;
    }
}

static void drop_asked(struct jsi_pg_store *store, const jobsched_claim *item)
{
    struct jsi_pg_asked *asked = find_asked(store, item);
    if (asked != NULL) {
        jsi_pg_free(&store->config.allocator, asked->job);
        *asked = store->asked[--store->asked_count];
    }
}

void jsi_pg_asking(struct jsi_pg_store *store, const jobsched_claim *items, size_t count)
{
    (void)pthread_mutex_lock(&store->lock);
    store->asking = items;
    store->asking_count = count;
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_answered(const struct jsi_pg_lane *lane, const jobsched_claim *items, size_t count,
                     int result, int64_t now_ms)
{
    struct jsi_pg_store *store = lane->store;
    int granted = 0;
    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < count; i++) {
        if (result == JOBSCHED_EUNKNOWN) {
            add_asked(store, &items[i]);
        } else if (result == 0) {
            if (items[i].answer == JOBSCHED_ANSWER_GRANTED && items[i].token > 0) {
                add_grant(store, &items[i], now_ms);
                granted = 1;
            }
            if (items[i].answer != JOBSCHED_ANSWER_BUSY) {
                drop_asked(store, &items[i]);
            }
        }
    }
    store->asking = NULL;
    store->asking_count = 0;
    if (granted && lane->epoch != atomic_load(&store->epoch)) {
        atomic_store(&store->said, lane->epoch); /* another server has not been told of these */
        (void)atomic_fetch_add(&store->unsaid, 1);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_said(const struct jsi_pg_lane *lane, unsigned unsaid)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    if (atomic_load(&store->unsaid) == unsaid) {
        atomic_store(&store->said, lane->epoch);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_ended(struct jsi_pg_store *store, const char *job, uint64_t token)
{
    (void)pthread_mutex_lock(&store->lock);
    struct jsi_pg_grant **at = find(store, job, token);
    if (at != NULL) {
        struct jsi_pg_grant *grant = *at;
        *at = grant->next;
        store->grant_count--;
        jsi_pg_free(&store->config.allocator, grant);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void jsi_pg_seen(const struct jsi_pg_lane *lane, int64_t now_ms, int64_t lsn)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    if (lane->epoch == atomic_load(&store->epoch)) {
        int is_set_back =
            store->seen_ms > INT64_MIN + OVERTAKE_MS && now_ms < store->seen_ms - OVERTAKE_MS;
        if (now_ms > store->seen_ms || is_set_back) {
            store->seen_ms = now_ms;
        }
        store->lsn = lsn > store->lsn ? lsn : store->lsn;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

int64_t jsi_pg_known_lsn(const struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    int64_t lsn = lane->epoch == atomic_load(&store->epoch) ? store->lsn : 0;
    (void)pthread_mutex_unlock(&store->lock);
    return lsn;
}

static int64_t longest_lease_locked(const struct jsi_pg_store *store)
{
    int64_t longest_ms = store->config.lease_ms;
    for (size_t i = 0; i < store->grant_buckets; i++) {
        for (const struct jsi_pg_grant *at = store->grants[i]; at != NULL; at = at->next) {
            longest_ms = at->lease_ms > longest_ms ? at->lease_ms : longest_ms;
        }
    }
    return longest_ms;
}

void jsi_pg_known_params(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    jsi_pg_param_int(lane, longest_lease_locked(store));
    jsi_pg_param_int(lane, store->seen_ms);
    jsi_pg_param_int(lane, atomic_load(&store->epoch));
    jsi_pg_param_text(lane, store->incarnation[0] == '\0' ? NULL : store->incarnation);
    jsi_pg_param_int(lane, store->lsn);
    (void)pthread_mutex_unlock(&store->lock);
}

int64_t jsi_pg_known_server(struct jsi_pg_lane *lane, int64_t epoch, const char *incarnation,
                            int64_t lsn, int64_t now_ms)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    int64_t before = atomic_load(&store->epoch);
    if (epoch < before) {
        before = -2;
    } else {
        lane->epoch = epoch;
        if (epoch > before) {
            atomic_store(&store->epoch, epoch);
            (void)snprintf(store->incarnation, sizeof store->incarnation, "%s", incarnation);
            store->lsn = lsn;
            store->seen_ms = now_ms;
        }
        store->lsn = lsn > store->lsn ? lsn : store->lsn;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return before;
}

struct jsi_pg_grant **jsi_pg_known_grants(struct jsi_pg_store *store, size_t *out_count)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    (void)pthread_mutex_lock(&store->lock);
    size_t done = 0;
    *out_count = store->grant_count;
    struct jsi_pg_grant **copies =
        *out_count == 0 ? NULL : jsi_pg_allocate(allocator, *out_count * sizeof *copies);
    for (size_t i = 0; copies != NULL && i < store->grant_buckets; i++) {
        for (const struct jsi_pg_grant *at = store->grants[i]; at != NULL; at = at->next) {
            struct jsi_pg_grant *copy = make_grant(allocator, at->job, at->request);
            if (copy == NULL) {
                break;
            }
            const char *request = copy->request;
            *copy = *at; /* but for what lies behind */
            copy->request = request;
            copies[done++] = copy;
        }
    }
    if (copies != NULL && done < *out_count) {
        while (done > 0) {
            jsi_pg_free(allocator, copies[--done]);
        }
        jsi_pg_free(allocator, copies);
        copies = NULL;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return copies;
}

static void add_held_locked(struct jsi_pg_lane *lane, int column)
{
    const struct jsi_pg_store *store = lane->store;
    jsi_pg_array_begin(lane);
    for (size_t i = 0; i < store->grant_buckets; i++) {
        for (const struct jsi_pg_grant *at = store->grants[i]; at != NULL; at = at->next) {
            if (column == 0) {
                jsi_pg_param_text(lane, at->job);
            } else {
                jsi_pg_param_int(lane, (int64_t)at->token);
            }
        }
    }
    jsi_pg_array_end(lane);
}

static void add_asked_param(struct jsi_pg_lane *lane, int column, const char *job,
                            const char *request, int64_t scheduled_ms)
{
    if (column == 2) {
        jsi_pg_param_int(lane, scheduled_ms);
    } else {
        jsi_pg_param_text(lane, column == 0 ? job : request);
    }
}

int jsi_pg_known_all_params(struct jsi_pg_lane *lane)
{
    struct jsi_pg_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    add_held_locked(lane, 0);
    add_held_locked(lane, 1);
    for (int column = 0; column < 3; column++) {
        jsi_pg_array_begin(lane);
        for (size_t i = 0; i < store->asked_count; i++) {
            const struct jsi_pg_asked *asked = &store->asked[i];
            add_asked_param(lane, column, asked->job, asked->request, asked->scheduled_ms);
        }
        for (size_t i = 0; i < store->asking_count; i++) {
            const jobsched_claim *item = &store->asking[i];
            add_asked_param(lane, column, item->job, request_of(item), item->scheduled_ms);
        }
        jsi_pg_array_end(lane);
    }
    int is_all = !store->is_incomplete;
    (void)pthread_mutex_unlock(&store->lock);
    return is_all;
}

void jsi_pg_known_free(struct jsi_pg_store *store)
{
    const jobsched_allocator *allocator = &store->config.allocator;
    for (size_t i = 0; i < store->grant_buckets; i++) {
        while (store->grants[i] != NULL) {
            struct jsi_pg_grant *grant = store->grants[i];
            store->grants[i] = grant->next;
            jsi_pg_free(allocator, grant);
        }
    }
    jsi_pg_free(allocator, store->grants);
    for (size_t i = 0; i < store->asked_count; i++) {
        jsi_pg_free(allocator, store->asked[i].job);
    }
    jsi_pg_free(allocator, store->asked);
}
