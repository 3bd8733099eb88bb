/* reap.c: ends the runs of dead owners, forgets dead nodes, and tells what waits; see lua/reap.lua.
 *
 * What is told of interrupted runs is taken off the common list in the same step, so that nobody else
 * is told it, and kept for this node until its next call says what was heard. So a reply that gets
 * lost is told again, and what a visitor did not want to hear, too; and what a dead node may not
 * have heard is told to another.
 *
 * Locks: the caller owns the lane, also while visiting. */
#include "store.h"

enum { FOUND, JOB, NODE, REQUEST, SCHEDULED, TOKEN, ATTEMPT };

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
    struct jsi_redis_store *store = lane->store;
    jsi_redis_add_int(lane, JOBSCHED_BATCH_MAX);
    jsi_redis_add(lane, store->rerun_after);
    jsi_redis_add(lane, store->trigger_after);
    jsi_redis_add(lane, store->sweep_after);
    jsi_redis_add_unsigned(lane, store->told_batch);
    jsi_redis_add_unsigned(lane, store->told_count);
    jsi_redis_add_unsigned(lane, ++store->batch);
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
    store->told_batch = store->batch;
    store->told_count = 0;
    /* Interrupted ones come first. */
    while (store->told_count < told && jsi_redis_int(jsi_redis_at(found, store->told_count),
                                                     FOUND) == JOBSCHED_FOUND_INTERRUPTED) {
        store->told_count++;
    }
    return 0;
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
