/* announce.c: which definition of a job is in force, and who registers it; see lua/announce.lua.
 * Locks: the caller owns the lane. */
#include "store.h"

enum { GENERATION, MARK, LAST_END, IN_FORCE, PAUSED, REMOVED, CONFLICT, PENDING };

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    const jobsched_announcement *items = job->data;
    for (size_t i = first; i < first + count; i++) {
        jsi_redis_add(lane, items[i].job);
        jsi_redis_add_unsigned(lane, items[i].version);
        jsi_redis_add(lane, items[i].definition);
        jsi_redis_add_int(lane, items[i].replace);
        jsi_redis_add_unsigned(lane, items[i].replaces);
        jsi_redis_add_exact(lane, items[i].after_ms);
        jsi_redis_add_exact(lane, items[i].before_ms);
    }
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    jobsched_announcement *items = job->data;
    const redisReply *answers = jsi_redis_at(reply, 2);
    if (jsi_redis_count(answers) != count) {
        return jsi_redis_fail_form(lane, "announcements without an answer each");
    }
    for (size_t i = 0; i < count; i++) {
        const redisReply *answer = jsi_redis_at(answers, i);
        jobsched_announcement *item = &items[first + i];
        int64_t last_end_ms = jsi_redis_int(answer, LAST_END);
        item->generation = jsi_redis_unsigned(answer, GENERATION);
        item->mark_ms = jsi_redis_int(answer, MARK);
        item->last_end_ms = last_end_ms < 0 ? JOBSCHED_NONE : last_end_ms;
        item->pending =
            jsi_redis_int(answer, PENDING) != 0 && item->replace != JOBSCHED_REPLACE_ANYWAY;
        item->in_force = jsi_redis_int(answer, IN_FORCE) != 0 && !item->pending;
        item->paused = jsi_redis_int(answer, PAUSED) != 0;
        item->removed = jsi_redis_int(answer, REMOVED) != 0;
        item->conflict = jsi_redis_int(answer, CONFLICT) != 0;
        jsi_redis_know_announced(lane->store, item, jsi_redis_int(reply, 1));
        jsi_redis_look_at_mark(lane->store, item->job, item->mark_ms, jsi_redis_int(reply, 0));
    }
    if (jsi_redis_int(reply, 3) != 0) {
        jsi_redis_push_denied(lane->store, "publish");
    }
    return 0;
}

int jsi_redis_announce(void *backend, jobsched_call *call, jobsched_announcement *items,
                       size_t count)
{
    struct jsi_redis_store *store = backend;
    const struct jsi_redis_job job = {.script = JSI_SCRIPT_announce,
                                      .writes = 1,
                                      .count = count,
                                      .add = add,
                                      .take = take,
                                      .data = items};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_CLAIM], call, &job);
}

static void add_withdrawn(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                          size_t first, size_t count)
{
    const char *const *names = job->data;
    for (size_t i = first; i < first + count; i++) {
        jsi_redis_add(lane, names[i]);
    }
}

static int take_withdrawn(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                          const redisReply *reply, size_t first, size_t count)
{
    const char *const *names = job->data;
    (void)reply;
    for (size_t i = first; i < first + count; i++) {
        jsi_redis_know_withdrawn(lane->store, names[i]);
    }
    return 0;
}

int jsi_redis_withdraw(void *backend, jobsched_call *call, const char *const *jobs, size_t count)
{
    struct jsi_redis_store *store = backend;
    union {
        const char *const *names;
        void *data;
    } items = {.names = jobs}; /* job.data has no const, and is not written to here */
    const struct jsi_redis_job job = {.script = JSI_SCRIPT_withdraw,
                                      .writes = 1,
                                      .count = count,
                                      .add = add_withdrawn,
                                      .take = take_withdrawn,
                                      .data = items.data};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_CLAIM], call, &job);
}
