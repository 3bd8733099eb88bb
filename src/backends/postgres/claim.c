/* claim.c: the election; the deciding is in sql/claim.sql. A batch is one statement, unless it has
 * more jobs than one statement may lock.
 * Locks: the caller owns lane CLAIM. */
#include "store.h"

#include <string.h>

/* The session of lane KEEP may be lost, or the node forgotten, between two looks. More tries than
 * that mean that something else is wrong. */
#define TRIES_MAX 3

static const char statement[] =
    "SELECT * FROM @S@.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, "
    "$16, $17, $18, $19, $20, $21, $22, $23, $24, $25)";

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

#define ADD_COLUMN(lane, items, count, add, member)                                                \
    do {                                                                                           \
        jsi_pg_array_begin(lane);                                                                  \
        for (size_t i_ = 0; i_ < (count); i_++) {                                                  \
            add(lane, (items)[i_].member);                                                         \
        }                                                                                          \
        jsi_pg_array_end(lane);                                                                    \
    } while (0)

static void add_bits(struct jsi_pg_lane *lane, uint64_t value)
{
    jsi_pg_param_int(lane, (int64_t)value);
}

static void add_params(struct jsi_pg_lane *lane, const jobsched_claim *items, size_t count,
                       int64_t grants_max)
{
    const jobsched_backend_config *config = &lane->store->config;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_int(lane, lane->nonce);
    jsi_pg_param_text(lane, config->node_name);
    jsi_pg_param_int(lane, grants_max);
    jsi_pg_history_params(lane);
    jsi_pg_watch_params(lane);
    ADD_COLUMN(lane, items, count, jsi_pg_param_text, job);
    ADD_COLUMN(lane, items, count, jsi_pg_param_text, request);
    ADD_COLUMN(lane, items, count, add_bits, generation);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, scheduled_ms);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, after_ms);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, lease_ms);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, delay_ms);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, skip_first_ms);
    ADD_COLUMN(lane, items, count, add_bits, skip_count);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, skip_outcome);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, kind);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, when_held);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, recover);
    ADD_COLUMN(lane, items, count, jsi_pg_param_int, recover_limit);
}

/* The columns of the answer. */
enum {
    ANSWER,
    TOKEN,
    ATTEMPT,
    MARK,
    LAST_END,
    GRANTED,
    WAIT,
    HOLDER_TOKEN,
    SINCE,
    HOLDER,
    NODE,
    BEAT,
    NOW
};

static void read_answer(struct jsi_pg_lane *lane, int row, jobsched_claim *item, int64_t mono_ms)
{
    item->answer = (int32_t)jsi_pg_int(lane, row, ANSWER);
    item->token = jsi_pg_bits(lane, row, TOKEN);
    item->attempt = (uint32_t)jsi_pg_int(lane, row, ATTEMPT);
    item->mark_ms = jsi_pg_int(lane, row, MARK);
    item->last_end_ms = jsi_pg_ms(lane, row, LAST_END);
    item->granted_ms = jsi_pg_int(lane, row, GRANTED);
    item->wait_ms = jsi_pg_int(lane, row, WAIT);
    item->holder_token = jsi_pg_bits(lane, row, HOLDER_TOKEN);
    item->holder_since_ms = jsi_pg_int(lane, row, SINCE);
    jsi_pg_copy(lane, row, HOLDER, item->holder, sizeof item->holder);
    if (jsi_pg_get(lane, row, BEAT)[0] != '\0') {
        jsi_pg_watch(lane->store, jsi_pg_get(lane, row, NODE), jsi_pg_get(lane, row, BEAT),
                     mono_ms);
    }
}

/* What it is that the server refuses is mended before the next try. */
static int ask(struct jsi_pg_lane *lane, const jobsched_claim *items, size_t count,
               int64_t grants_max, unsigned *out_lates)
{
    int result = 0;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        *out_lates = atomic_load(&lane->store->lates);
        add_params(lane, items, count, grants_max);
        int failed = result = jsi_pg_query(lane, statement, 1);
        if (result == 0 || (result = jsi_pg_mend(lane, result)) != 0) {
            break;
        }
        result = failed; /* recorded by the statement, unless the next try helps */
    }
    return result == 0 ? jsi_pg_expect(lane, count) : result;
}

static int claim(struct jsi_pg_lane *lane, jobsched_call *call, jobsched_claim *items, size_t count,
                 int64_t grants_max)
{
    int granted = 0;
    unsigned lates = 0;
    jsi_pg_asking(lane->store, items, count);
    int result = ask(lane, items, count, grants_max, &lates);
    /* What was seen before the answer came was so at that time or later. */
    int64_t mono_ms = jsi_pg_mono(lane->store);
    for (int i = 0; result == 0 && i < (int)count; i++) {
        read_answer(lane, i, &items[i], mono_ms);
        call->now_ms = jsi_pg_int(lane, i, NOW);
        granted |= items[i].token > 0;
    }
    if (result == 0) {
        jsi_pg_seen(lane, call->now_ms, 0);
    }
    if (granted) {
        jsi_pg_holds(lane->store);
        result = jsi_pg_node_check(lane->store, lates);
    }
    jsi_pg_answered(lane, items, count, result, call->now_ms);
    return result;
}

int jsi_pg_claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        items[i].answer = JOBSCHED_ANSWER_NONE;
        result = check(&items[i]);
    }
    if (result != 0) {
        return result;
    }
    jsi_pg_budget(lane, call->timeout_ms);
    result = jsi_pg_session(lane);
    if (result != 0 || count == 0) {
        return result != 0 ? result : jsi_pg_clock(lane, call);
    }
    size_t chunk = (size_t)atomic_load(&store->chunk);
    uint64_t grants = 0;
    for (size_t done = 0; result == 0 && done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        /* Once all are used up, one must be left to say so: 0 means that there is no bound. */
        int64_t left = call->grants_max == 0       ? 0
                       : call->grants_max > grants ? (int64_t)(call->grants_max - grants)
                                                   : -1;
        result = jsi_pg_part(claim(lane, call, items + done, part, left), done);
        for (size_t i = done; result == 0 && i < done + part; i++) {
            grants += items[i].answer == JOBSCHED_ANSWER_GRANTED && items[i].token > 0;
        }
    }
    return result;
}
