/* claim.c: the election; see lua/claim.lua, which has its rules.
 * Locks: the caller owns the lane; takes store->lock for moments. */
#include "store.h"

/* As the script gives them; what is behind WAIT is there for HELD only. */
enum {
    ANSWER,
    MARK,
    LAST_END,
    TOKEN,
    ATTEMPT,
    GRANTED,
    WAIT,
    HOLDER_TOKEN,
    HOLDER_SINCE,
    HOLDER_NAME,
    HOLDER_NODE,
    HOLDER_BEAT,
    HOLDER_AGE
};

/* The whole call. */
struct claims {
    jobsched_claim *items;
    uint64_t grants_max, number;
};

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    const struct claims *claims = job->data;
    jsi_redis_add(lane, lane->store->config.node_name);
    jsi_redis_add_unsigned(lane, claims->grants_max);
    jsi_redis_add_unsigned(lane, claims->number);
    for (size_t i = first; i < first + count; i++) {
        const jobsched_claim *item = &claims->items[i];
        jsi_redis_add(lane, item->job);
        jsi_redis_add(lane, item->request);
        jsi_redis_add_unsigned(
            lane, jsi_redis_known_generation(lane->store, item->job, item->generation));
        jsi_redis_add_exact(lane, item->scheduled_ms);
        jsi_redis_add_exact(lane, item->after_ms);
        jsi_redis_add_exact(lane, item->lease_ms < 1 ? 1 : item->lease_ms);
        jsi_redis_add_exact(lane, item->delay_ms);
        jsi_redis_add_exact(lane, item->skip_first_ms);
        jsi_redis_add_exact(lane,
                            item->skip_count > INT64_MAX ? INT64_MAX : (int64_t)item->skip_count);
        jsi_redis_add_int(lane, item->skip_outcome);
        jsi_redis_add_int(lane, item->kind);
        jsi_redis_add_int(lane, item->when_held);
        jsi_redis_add_int(lane, item->recover);
        jsi_redis_add_unsigned(lane, item->recover_limit);
    }
}

static void take_one(struct jsi_redis_store *store, jobsched_claim *item, const redisReply *reply,
                     const redisReply *answer)
{
    int64_t now_ms = jsi_redis_int(reply, 0);
    int64_t last_end_ms = jsi_redis_int(answer, LAST_END);
    item->answer = (int32_t)jsi_redis_int(answer, ANSWER);
    item->mark_ms = jsi_redis_int(answer, MARK);
    item->last_end_ms = last_end_ms < 0 ? JOBSCHED_NONE : last_end_ms;
    item->token = jsi_redis_unsigned(answer, TOKEN);
    item->attempt = (uint32_t)jsi_redis_int(answer, ATTEMPT);
    item->granted_ms = jsi_redis_int(answer, GRANTED);
    item->wait_ms = jsi_redis_int(answer, WAIT);
    item->holder_token = jsi_redis_unsigned(answer, HOLDER_TOKEN);
    item->holder_since_ms = jsi_redis_int(answer, HOLDER_SINCE);
    jsi_redis_copy(answer, HOLDER_NAME, item->holder, sizeof item->holder);
    if (jsi_redis_count(answer) > HOLDER_AGE) {
        jsi_redis_watch(store, jsi_redis_text(answer, HOLDER_NODE),
                        jsi_redis_text(answer, HOLDER_BEAT), jsi_redis_int(answer, HOLDER_AGE));
    }
    jsi_redis_know_claimed(store, item, jsi_redis_int(reply, 1), now_ms);
    jsi_redis_look_at_mark(store, item->job, item->mark_ms, now_ms);
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    const struct claims *claims = job->data;
    const redisReply *answers = jsi_redis_at(reply, 2);
    if (jsi_redis_count(answers) != count) {
        return jsi_redis_fail_form(lane, "claims without an answer each");
    }
    for (size_t i = 0; i < count; i++) {
        take_one(lane->store, &claims->items[first + i], reply, jsi_redis_at(answers, i));
    }
    return 0;
}

static int check(const jobsched_claim *item)
{
    switch (item->kind) {
    case JOBSCHED_KIND_SCHEDULED:
    case JOBSCHED_KIND_CATCH_UP:
    case JOBSCHED_KIND_RERUN:
    case JOBSCHED_CLAIM_SKIP:
        return 0;
    case JOBSCHED_KIND_TRIGGER:
        return item->request != NULL
                   ? 0
                   : jobsched_fail(JOBSCHED_EINVAL, 0, "a trigger of job '%s' lacks its request",
                                   item->job);
    default:
        return jobsched_fail(JOBSCHED_EINVAL, 0, "kind '%d' of a claim is unknown", item->kind);
    }
}

int jsi_redis_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct jsi_redis_store *store = backend;
    for (size_t i = 0; i < count; i++) {
        items[i].answer = JOBSCHED_ANSWER_NONE;
        int result = check(&items[i]);
        if (result != 0) {
            return result;
        }
    }
    struct claims claims = {
        .items = items, .grants_max = call->grants_max, .number = ++store->claim_number};
    const struct jsi_redis_job job = {.script = JSI_SCRIPT_claim,
                                      .writes = 1,
                                      .count = count,
                                      .add = add,
                                      .take = take,
                                      .data = &claims};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_CLAIM], call, &job);
}
