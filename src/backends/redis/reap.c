/* reap.c: ends the runs of dead owners, forgets dead nodes, and tells what waits; see lua/reap.lua.
 *
 * What is told of interrupted runs is taken off the list in the same step, so that nobody else is
 * told it. What a visitor does not want to hear is put back. Where the reply gets lost, nobody was
 * told; the ledger still says it.
 *
 * Locks: the caller owns the lane, also while visiting. */
#include "store.h"

#include <string.h>

enum { FOUND, JOB, NODE, REQUEST, SCHEDULED, TOKEN, ATTEMPT, PACKED, ROW };

struct reaping {
    int (*visit)(const jobsched_finding *finding, void *visit_data);
    void *visit_data;
};

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    (void)job;
    (void)first;
    (void)count;
    jsi_redis_add_int(lane, JOBSCHED_BATCH_MAX);
    jsi_redis_add(lane, lane->store->rerun_after);
    jsi_redis_add(lane, lane->store->trigger_after);
    jsi_redis_add(lane, lane->store->sweep_after);
}

/* Returns how many were told. */
static size_t tell(const struct reaping *reaping, const redisReply *found)
{
    for (size_t i = 0; i < jsi_redis_count(found); i++) {
        const redisReply *at = jsi_redis_at(found, i);
        jobsched_finding finding = {.found = (int32_t)jsi_redis_int(at, FOUND),
                                    .attempt = (uint32_t)jsi_redis_int(at, ATTEMPT),
                                    .job = jsi_redis_text(at, JOB),
                                    .node = jsi_redis_text(at, NODE),
                                    .request = jsi_redis_text(at, REQUEST),
                                    .scheduled_ms = jsi_redis_int(at, SCHEDULED),
                                    .token = jsi_redis_unsigned(at, TOKEN)};
        if (reaping->visit(&finding, reaping->visit_data) != 0) {
            return i + 1;
        }
    }
    return jsi_redis_count(found);
}

/* Puts back what was not told; on the same connection, as one plain command. */
static int put_back(struct jsi_redis_lane *lane, const redisReply *found, size_t first)
{
    size_t count = 0;
    jsi_redis_text_clear(&lane->out);
    jsi_redis_begin(lane);
    jsi_redis_add(lane, "ZADD");
    /* "{jobsched:NAMESPACE}:meta" without its last word. */
    char key[JOBSCHED_NAME_BYTES * 3 + 64];
    size_t length = strlen(lane->store->meta_key) - strlen("meta");
    if (length + sizeof "untold" > sizeof key) {
        return 0;
    }
    memcpy(key, lane->store->meta_key, length);
    memcpy(key + length, "untold", sizeof "untold");
    jsi_redis_add(lane, key);
    for (size_t i = first; i < jsi_redis_count(found); i++) {
        const redisReply *finding = jsi_redis_at(found, i);
        const redisReply *packed = jsi_redis_at(finding, PACKED);
        if (packed != NULL && packed->type == REDIS_REPLY_STRING) {
            jsi_redis_add(lane, jsi_redis_text(finding, ROW));
            jsi_redis_add_bytes(lane, packed->str, (size_t)packed->len);
            count++;
        }
    }
    if (count == 0) {
        return 0;
    }
    jsi_redis_end(lane);
    int result = jsi_redis_send(lane);
    result = result == 0 ? jsi_redis_receive(lane) : result;
    if (result == 0 && lane->reply->type == REDIS_REPLY_ERROR) {
        result = jsi_redis_fail_reply(lane, lane->reply->str);
    }
    if (result != 0) {
        /* Not what the failure says by itself: the reaping has been done. */
        return jobsched_fail(JOBSCHED_EUNKNOWN, 0, "%zu findings could not be put back", count);
    }
    return 0;
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    (void)first;
    (void)count;
    struct jsi_redis_store *store = lane->store;
    jsi_redis_take_sights(store, jsi_redis_at(reply, 3));
    jsi_redis_copy(reply, 4, store->rerun_after, sizeof store->rerun_after);
    jsi_redis_copy(reply, 5, store->trigger_after, sizeof store->trigger_after);
    jsi_redis_copy(reply, 6, store->sweep_after, sizeof store->sweep_after);
    const redisReply *found = jsi_redis_at(reply, 2);
    size_t told = tell(job->data, found);
    return told < jsi_redis_count(found) ? put_back(lane, found, told) : 0;
}

int jsi_redis_reap(void *backend, jobsched_call *call,
                   int (*visit)(const jobsched_finding *finding, void *visit_data),
                   void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct reaping reaping = {.visit = visit, .visit_data = visit_data};
    const struct jsi_redis_job job = {
        .script = JSI_SCRIPT_reap, .writes = 1, .add = add, .take = take, .data = &reaping};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_KEEP], call, &job);
}
