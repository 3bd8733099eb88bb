/* claim.c: the election. One transaction decides all items of a call, in their order. What makes
 * it an election is the mark in the fence, read and moved while nobody else can write.
 * Locks: the database's write lock is held throughout. */
#include "store.h"

/* When to ask again while another run holds the job: a part of the lease, so that a dead
 * holder is found soon after its lease, within bounds that suit both ends. */
#define HELD_WAIT_PART   20
#define HELD_WAIT_MIN_MS 20
#define HELD_WAIT_MAX_MS 1000

/* One claim on its way through the rules of backend.h. */
struct attempt {
    struct jsi_sqlite_lane *lane;
    jobsched_claim *item;
    struct jsi_fence fence;
    int64_t row;     /* TRIGGER and RERUN: the ledger row that exists already */
    uint32_t grants; /* that this row has had */
    int64_t instant; /* of the occurrence */
    int full;        /* the call has granted as many runs as it may */
};

/* Each rule answers the claim, or leaves it to the next one. */
enum { NEXT = 0, ANSWERED = 1 };

static int answer(struct attempt *attempt, int what)
{
    attempt->item->answer = what;
    return ANSWERED;
}

static int answer_granted(struct attempt *attempt, uint64_t token, uint32_t grants)
{
    attempt->item->token = token;
    attempt->item->attempt = grants;
    attempt->item->granted_ms = attempt->instant;
    return answer(attempt, JOBSCHED_ANSWER_GRANTED);
}

static int is_scheduled(const jobsched_claim *item)
{
    return item->kind == JOBSCHED_KIND_SCHEDULED || item->kind == JOBSCHED_KIND_CATCH_UP;
}

/* ---- rows ---- */

/* Adds a ledger row for a range; RUNNING makes it a run of ours. */
static int add_row(struct attempt *attempt, int outcome, int64_t first_ms, uint64_t count)
{
    struct jsi_sqlite_lane *lane = attempt->lane;
    const jobsched_claim *item = attempt->item;
    int runs = outcome == JOBSCHED_OUTCOME_RUNNING;
    struct jsi_query query;
    jsi_query_open(&query, lane, JSI_SQL_RUN_ADD);
    jsi_query_int(&query, attempt->fence.id);
    jsi_query_int(&query, ++attempt->fence.seq);
    jsi_query_int(&query, item->kind == JOBSCHED_CLAIM_SKIP ? JOBSCHED_KIND_SCHEDULED : item->kind);
    jsi_query_int(&query, outcome);
    jsi_query_int(&query, first_ms);
    jsi_query_int(&query, item->scheduled_ms);
    jsi_query_uint(&query, count);
    jsi_query_uint(&query, runs ? attempt->fence.token : 0);
    jsi_query_int(&query, runs ? 1 : 0);
    jsi_query_int(&query, runs ? lane->node : 0);
    jsi_query_text(&query, runs ? lane->store->config.node_name : "");
    if (runs) {
        jsi_query_int(&query, lane->now_ms);
        jsi_query_null(&query);
    } else {
        jsi_query_null(&query);
        jsi_query_int(&query, lane->now_ms);
    }
    jsi_query_int(&query, item->lease_ms);
    jsi_query_int(&query, runs ? item->recover : JOBSCHED_RECOVER_LEAVE);
    jsi_query_int(&query, runs ? (int64_t)item->recover_limit : 0);
    jsi_query_null(&query);
    return jsi_query_run(&query);
}

static int grant_row(struct attempt *attempt)
{
    const jobsched_claim *item = attempt->item;
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_GRANT);
    jsi_query_int(&query, attempt->row);
    jsi_query_int(&query, item->kind);
    jsi_query_uint(&query, attempt->fence.token);
    jsi_query_int(&query, (int64_t)attempt->grants + 1);
    jsi_query_int(&query, attempt->lane->node);
    jsi_query_text(&query, attempt->lane->store->config.node_name);
    jsi_query_int(&query, attempt->lane->now_ms);
    jsi_query_int(&query, item->lease_ms);
    jsi_query_int(&query, item->recover);
    jsi_query_int(&query, (int64_t)item->recover_limit);
    return jsi_query_run(&query);
}

/* Writes the fence with the mark at this occurrence, and prunes now and then. */
static int store_fence(struct attempt *attempt, int moves_mark)
{
    struct jsi_fence *fence = &attempt->fence;
    if (moves_mark && fence->mark_ms < attempt->item->scheduled_ms) {
        fence->mark_ms = attempt->item->scheduled_ms;
    }
    int result = jsi_fence_store(attempt->lane, fence);
    if (result == 0 && fence->seq % JSI_PRUNE_EVERY == 0) {
        result = jsi_fence_prune(attempt->lane, fence->id, fence->seq);
    }
    attempt->item->mark_ms = fence->mark_ms;
    return result;
}

/* ---- the rules ---- */

/* The engine counts the lease from when it asked last, so a repeated grant is a heartbeat too. */
static int grant_again(struct attempt *attempt, uint64_t token, uint32_t grants)
{
    int result = jsi_sqlite_node_beat(attempt->lane);
    return result == 0 ? answer_granted(attempt, token, grants) : result;
}

/* An answer that was lost is given again. */
static int rule_mine(struct attempt *attempt)
{
    const jobsched_claim *item = attempt->item;
    int rerun = item->kind == JOBSCHED_KIND_RERUN;
    if (!rerun && !is_scheduled(item)) {
        return NEXT; /* a skipped range has no run; a trigger is known by its request */
    }
    if (!rerun && item->scheduled_ms > attempt->fence.mark_ms) {
        return NEXT; /* its grant would have moved the mark; spares the winner a look */
    }
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_MINE);
    jsi_query_int(&query, attempt->fence.id);
    jsi_query_int(&query, item->scheduled_ms);
    jsi_query_int(&query, attempt->lane->node);
    jsi_query_int(&query, rerun ? JOBSCHED_KIND_RERUN : JOBSCHED_KIND_SCHEDULED);
    jsi_query_int(&query, rerun ? JOBSCHED_KIND_RERUN : JOBSCHED_KIND_CATCH_UP);
    int result = jsi_query_row(&query);
    uint64_t token = result == 1 ? jsi_query_get_uint(&query, 0) : 0;
    uint32_t grants = result == 1 ? (uint32_t)jsi_query_get_uint(&query, 1) : 0;
    jsi_query_close(&query);
    return result == 1 ? grant_again(attempt, token, grants) : result;
}

/* Whatever else was to become of them: a pause is why the occurrences do not run. */
static int rule_pause(struct attempt *attempt)
{
    const jobsched_claim *item = attempt->item;
    int is_range = item->kind == JOBSCHED_CLAIM_SKIP;
    int64_t first_ms = is_range ? item->skip_first_ms : item->scheduled_ms;
    uint64_t count = is_range ? item->skip_count : 1;
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_NEWEST);
    jsi_query_int(&query, attempt->fence.id);
    int result = jsi_query_row(&query);
    int64_t row = 0;
    if (result == 1 && jsi_query_get_int(&query, 1) == JOBSCHED_OUTCOME_SKIPPED_PAUSED &&
        jsi_query_get_int(&query, 2) == attempt->fence.mark_ms) {
        row = jsi_query_get_int(&query, 0);
    }
    jsi_query_close(&query);
    if (result < 0) {
        return result;
    }
    if (row == 0) {
        result = add_row(attempt, JOBSCHED_OUTCOME_SKIPPED_PAUSED, first_ms, count);
    } else {
        jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_EXTEND);
        jsi_query_int(&query, row);
        jsi_query_int(&query, item->scheduled_ms);
        jsi_query_int(&query, attempt->lane->now_ms);
        jsi_query_uint(&query, count);
        result = jsi_query_run(&query);
    }
    if (result == 0) {
        result = store_fence(attempt, 1);
    }
    return result == 0 ? answer(attempt, JOBSCHED_ANSWER_PAUSED) : result;
}

static int answer_held(struct attempt *attempt, const struct jsi_holder *holder)
{
    jobsched_claim *item = attempt->item;
    int64_t wait_ms = item->lease_ms / HELD_WAIT_PART;
    wait_ms = wait_ms < HELD_WAIT_MIN_MS ? HELD_WAIT_MIN_MS : wait_ms;
    item->wait_ms = wait_ms > HELD_WAIT_MAX_MS ? HELD_WAIT_MAX_MS : wait_ms;
    item->holder_token = holder->token;
    item->holder_since_ms = holder->since_ms;
    memcpy(item->holder, holder->node, sizeof item->holder);
    return answer(attempt, JOBSCHED_ANSWER_HELD);
}

/* A fixed delay has no occurrence before the last run has ended, and that end says when. */
static int rule_delay(struct attempt *attempt)
{
    jobsched_claim *item = attempt->item;
    struct jsi_holder holder;
    int result = jsi_fence_holder(attempt->lane, attempt->fence.id, 0, &holder);
    if (result == 1) {
        return answer_held(attempt, &holder);
    }
    if (result == 0) {
        /* Holders found dead count as ended now. */
        result = jsi_fence_read(attempt->lane, item->job, &attempt->fence);
    }
    if (result < 0) {
        return result;
    }
    int64_t from_ms = attempt->fence.mark_ms;
    int64_t end_ms = attempt->fence.last_end_ms;
    item->last_end_ms = end_ms;
    from_ms = end_ms != JOBSCHED_NONE && end_ms > from_ms ? end_ms : from_ms;
    return item->scheduled_ms >= from_ms + item->delay_ms ? NEXT
                                                          : answer(attempt, JOBSCHED_ANSWER_MOVED);
}

/* What has a place on the schedule: SCHEDULED, CATCH_UP, SKIP. */
static int rule_schedule(struct attempt *attempt)
{
    jobsched_claim *item = attempt->item;
    const struct jsi_fence *fence = &attempt->fence;
#ifndef JOBSCHED_TEST_NO_MARK
    /* This is the election. Tests build it out, to show that they would notice. */
    if (item->scheduled_ms <= fence->mark_ms) {
        return answer(attempt, JOBSCHED_ANSWER_DONE);
    }
    if (fence->mark_ms != item->after_ms) {
        return answer(attempt, JOBSCHED_ANSWER_MOVED);
    }
#endif
    if (item->delay_ms > 0) {
        int result = rule_delay(attempt);
        if (result != NEXT) {
            return result;
        }
    }
    if (item->scheduled_ms > attempt->lane->now_ms) {
        item->wait_ms = item->scheduled_ms - attempt->lane->now_ms;
        return answer(attempt, JOBSCHED_ANSWER_EARLY);
    }
    if (fence->paused) {
        return rule_pause(attempt);
    }
    if (item->kind == JOBSCHED_CLAIM_SKIP) {
        int result = add_row(attempt, item->skip_outcome, item->skip_first_ms, item->skip_count);
        if (result == 0) {
            result = store_fence(attempt, 1);
        }
        return result == 0 ? answer_granted(attempt, 0, 0) : result;
    }
    return NEXT;
}

static int rule_trigger(struct attempt *attempt)
{
    const jobsched_claim *item = attempt->item;
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_REQUEST);
    jsi_query_int(&query, attempt->fence.id);
    jsi_query_text(&query, item->request);
    int result = jsi_query_row(&query);
    if (result == 1) {
        int64_t outcome = jsi_query_get_int(&query, 1);
        attempt->row = jsi_query_get_int(&query, 0);
        attempt->instant = jsi_query_get_int(&query, 6);
        if (outcome == JOBSCHED_OUTCOME_RUNNING &&
            jsi_query_get_int(&query, 2) == JOBSCHED_KIND_TRIGGER &&
            jsi_query_get_int(&query, 3) == attempt->lane->node) {
            result = grant_again(attempt, jsi_query_get_uint(&query, 4),
                                 (uint32_t)jsi_query_get_uint(&query, 5));
        } else {
            result =
                outcome == JOBSCHED_OUTCOME_WAITING ? NEXT : answer(attempt, JOBSCHED_ANSWER_DONE);
        }
    } else if (result == 0) {
        result = answer(attempt, JOBSCHED_ANSWER_DONE);
    }
    jsi_query_close(&query);
    return result;
}

static int rule_rerun(struct attempt *attempt)
{
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_RERUN);
    jsi_query_int(&query, attempt->fence.id);
    jsi_query_int(&query, attempt->item->scheduled_ms);
    int result = jsi_query_row(&query);
    if (result == 1) {
        attempt->row = jsi_query_get_int(&query, 0);
        attempt->grants = (uint32_t)jsi_query_get_uint(&query, 1);
        result = NEXT;
    } else if (result == 0) {
        result = answer(attempt, JOBSCHED_ANSWER_DONE);
    }
    jsi_query_close(&query);
    return result;
}

/* A skipped occurrence gets its row at once; a skipped trigger has one. */
static int skip_overlap(struct attempt *attempt)
{
    if (attempt->item->kind != JOBSCHED_KIND_TRIGGER) {
        int result =
            add_row(attempt, JOBSCHED_OUTCOME_SKIPPED_OVERLAP, attempt->item->scheduled_ms, 1);
        return result == 0 ? store_fence(attempt, 1) : result;
    }
    struct jsi_query query;
    jsi_query_open(&query, attempt->lane, JSI_SQL_RUN_OVERLAP);
    jsi_query_int(&query, attempt->row);
    jsi_query_int(&query, attempt->lane->now_ms);
    return jsi_query_run(&query);
}

static int rule_holder(struct attempt *attempt)
{
    jobsched_claim *item = attempt->item;
    if (item->when_held == JOBSCHED_HELD_ALLOW) {
        return NEXT;
    }
    struct jsi_holder holder;
    int result = jsi_fence_holder(attempt->lane, attempt->fence.id, 0, &holder);
    if (result != 1) {
        return result;
    }
    if (item->when_held == JOBSCHED_HELD_SKIP && item->kind != JOBSCHED_KIND_RERUN) {
        result = skip_overlap(attempt);
        if (result != 0) {
            return result;
        }
    }
    return answer_held(attempt, &holder);
}

static int grant(struct attempt *attempt)
{
    /* First, because it may change the id under which the run is recorded. */
    int result = jsi_sqlite_node_beat(attempt->lane);
    if (result != 0) {
        return result;
    }
    attempt->fence.token++;
    if (attempt->row == 0) {
        result = add_row(attempt, JOBSCHED_OUTCOME_RUNNING, attempt->item->scheduled_ms, 1);
    } else {
        result = grant_row(attempt);
    }
    if (result == 0) {
        result = store_fence(attempt, is_scheduled(attempt->item));
    }
    return result == 0 ? answer_granted(attempt, attempt->fence.token, attempt->grants + 1)
                       : result;
}

/* The rules, in the order of backend.h. */
static int decide(struct attempt *attempt)
{
    const struct jsi_fence *fence = &attempt->fence;
    const jobsched_claim *item = attempt->item;
    int trigger = item->kind == JOBSCHED_KIND_TRIGGER;
    int scheduled = is_scheduled(item) || item->kind == JOBSCHED_CLAIM_SKIP;
    /* A trigger's row is looked up before the tombstone because it may be a run of ours; what
     * that says otherwise counts after it. */
    int result = trigger ? rule_trigger(attempt) : rule_mine(attempt);
    if (result < 0 || item->answer == JOBSCHED_ANSWER_GRANTED) {
        return result;
    }
    if (fence->removed) {
        return answer(attempt, JOBSCHED_ANSWER_REMOVED);
    }
    if (fence->generation != item->generation) {
        return answer(attempt, JOBSCHED_ANSWER_STALE);
    }
    if (scheduled) {
        result = rule_schedule(attempt);
    } else if (!trigger) {
        result = rule_rerun(attempt);
    }
    if (result == NEXT && !scheduled && fence->paused) {
        result = answer(attempt, JOBSCHED_ANSWER_PAUSED);
    }
    if (result == NEXT) {
        result = rule_holder(attempt);
    }
    if (result == NEXT && attempt->full) {
        result = answer(attempt, JOBSCHED_ANSWER_FULL);
    }
    return result == NEXT ? grant(attempt) : result;
}

static int check_kind(const jobsched_claim *item)
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

static int claim_one(struct jsi_sqlite_lane *lane, jobsched_claim *item, int full)
{
    item->answer = JOBSCHED_ANSWER_NONE;
    item->token = 0;
    item->attempt = 0;
    item->mark_ms = 0;
    item->last_end_ms = JOBSCHED_NONE;
    item->granted_ms = 0;
    item->wait_ms = 0;
    item->holder_token = 0;
    item->holder_since_ms = 0;
    item->holder[0] = '\0';
    int result = check_kind(item);
    if (result != 0) {
        return result;
    }
    struct attempt attempt = {
        .lane = lane, .item = item, .instant = item->scheduled_ms, .full = full};
    result = jsi_fence_read(lane, item->job, &attempt.fence);
    if (result <= 0) {
        item->answer = JOBSCHED_ANSWER_UNKNOWN;
        return result;
    }
    item->mark_ms = attempt.fence.mark_ms;
    item->last_end_ms = attempt.fence.last_end_ms;
    result = decide(&attempt);
    return result < 0 ? result : 0;
}

int jsi_sqlite_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct jsi_sqlite_store *store = backend;
    struct jsi_sqlite_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = jsi_sqlite_begin(lane, call);
    if (result != 0) {
        return result;
    }
    uint64_t grants = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        int full = call->grants_max > 0 && grants >= call->grants_max;
        result = claim_one(lane, &items[i], full);
        grants += items[i].answer == JOBSCHED_ANSWER_GRANTED && items[i].token > 0;
    }
    return jsi_sqlite_end(lane, call, result);
}
