/* finish.c: how runs end, and what their nodes report while they go on; see lua/finish.lua and
 * lua/renew.lua. Locks: the caller owns the lane; watch.c takes store->lock. */
#include "store.h"

static void add_finish(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                       size_t count)
{
    const jobsched_finish *items = job->data;
    for (size_t i = first; i < first + count; i++) {
        jsi_redis_add(lane, items[i].job);
        jsi_redis_add_unsigned(lane, items[i].token);
        jsi_redis_add(lane, items[i].note);
        jsi_redis_add_unsigned(lane, items[i].progress_done);
        jsi_redis_add_unsigned(lane, items[i].progress_total);
        jsi_redis_add_int(lane, items[i].outcome);
        jsi_redis_add_int(lane, items[i].code);
    }
}

static int take_finish(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                       const redisReply *reply, size_t first, size_t count)
{
    jobsched_finish *items = job->data;
    const redisReply *answers = jsi_redis_at(reply, 2);
    if (jsi_redis_count(answers) != count) {
        return jsi_redis_fail_form(lane, "ends without an answer each");
    }
    for (size_t i = 0; i < count; i++) {
        items[first + i].answer = (int32_t)jsi_redis_int(answers, i);
        jsi_redis_know_ended(lane->store, items[first + i].job, items[first + i].token);
    }
    return 0;
}

int jsi_redis_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct jsi_redis_store *store = backend;
    for (size_t i = 0; i < count; i++) {
        if (items[i].outcome < JOBSCHED_OUTCOME_SUCCEEDED ||
            items[i].outcome > JOBSCHED_OUTCOME_INTERRUPTED) {
            return jobsched_fail(JOBSCHED_EINVAL, 0, "outcome '%d' of job '%s' is outside %d-%d",
                                 items[i].outcome, items[i].job, JOBSCHED_OUTCOME_SUCCEEDED,
                                 JOBSCHED_OUTCOME_INTERRUPTED);
        }
    }
    const struct jsi_redis_job job = {.script = JSI_SCRIPT_finish,
                                      .writes = 1,
                                      .count = count,
                                      .add = add_finish,
                                      .take = take_finish,
                                      .data = items};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_CLAIM], call, &job);
}

/* A whole renewal. */
struct leases {
    jobsched_lease *items;
    int64_t clock_offset_ms;
};

static void add_renew(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                      size_t count)
{
    const struct leases *leases = job->data;
    jsi_redis_add_int(lane, leases->clock_offset_ms);
    jsi_redis_add_int(lane, first == 0);
    for (size_t i = first; i < first + count; i++) {
        const jobsched_lease *item = &leases->items[i];
        jsi_redis_add(lane, item->job);
        jsi_redis_add_unsigned(lane, item->token);
        jsi_redis_add(lane, item->note);
        jsi_redis_add_unsigned(lane, item->progress_done);
        jsi_redis_add_unsigned(lane, item->progress_total);
    }
}

void jsi_redis_take_sights(struct jsi_redis_store *store, const redisReply *sights)
{
    jsi_redis_watch_begin(store);
    for (size_t i = 0; i + 2 < jsi_redis_count(sights); i += 3) {
        jsi_redis_watch(store, jsi_redis_text(sights, i), jsi_redis_text(sights, i + 1),
                        jsi_redis_int(sights, i + 2));
    }
    jsi_redis_watch_end(store);
}

static int take_renew(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                      const redisReply *reply, size_t first, size_t count)
{
    const struct leases *leases = job->data;
    const redisReply *answers = jsi_redis_at(reply, 2);
    if (jsi_redis_count(answers) != count) {
        return jsi_redis_fail_form(lane, "renewals without an answer each");
    }
    for (size_t i = 0; i < count; i++) {
        jobsched_lease *item = &leases->items[first + i];
        item->answer = (int32_t)jsi_redis_int(answers, i);
        if (item->answer == JOBSCHED_LEASE_GONE) {
            jsi_redis_know_ended(lane->store, item->job, item->token);
        }
    }
    if (first == 0) {
        /* The store has forgotten what this node registers: it is told with the next request. */
        if ((uint64_t)jsi_redis_int(reply, 4) < jsi_redis_known_jobs(lane->store)) {
            jsi_redis_assert_again(lane);
        }
        /* Looked at as often as possible: a heartbeat counts as standing from the first look. */
        jsi_redis_take_sights(lane->store, jsi_redis_at(reply, 3));
    }
    return 0;
}

int jsi_redis_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms,
                    jobsched_lease *items, size_t count)
{
    struct jsi_redis_store *store = backend;
    struct leases leases = {.items = items, .clock_offset_ms = clock_offset_ms};
    const struct jsi_redis_job job = {.script = JSI_SCRIPT_renew,
                                      .writes = 1,
                                      .count = count,
                                      .add = add_renew,
                                      .take = take_renew,
                                      .data = &leases};
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_KEEP];
    jsi_redis_push_drain(store);
    int result = jsi_redis_run(lane, call, &job);
    if (result == 0) {
        jsi_redis_push_tend(store, jsi_redis_budget_left(lane));
    }
    return result;
}
