/* finish.c: how runs end, and what their nodes report while they go on; see sql/finish.sql.
 * Locks: the caller owns lane CLAIM; lane KEEP is taken by jsi_pg_keep_begin(). */
#include "store.h"

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static int check(const jobsched_finish *item)
{
    if (item->outcome >= JOBSCHED_OUTCOME_SUCCEEDED &&
        item->outcome <= JOBSCHED_OUTCOME_INTERRUPTED) {
        return 0;
    }
    return jobsched_fail(JOBSCHED_EINVAL, 0, "outcome '%d' of job '%s' is outside %d-%d",
                         item->outcome, item->job, JOBSCHED_OUTCOME_SUCCEEDED,
                         JOBSCHED_OUTCOME_INTERRUPTED);
}

/* The columns of both statements, one after the other. */
enum column { JOB, TOKEN, OUTCOME, CODE, NOTE, DONE, TOTAL };

static void add_finish(struct jsi_pg_lane *lane, const jobsched_finish *item, enum column column)
{
    switch (column) {
    case JOB:
        jsi_pg_param_text(lane, item->job);
        break;
    case TOKEN:
        jsi_pg_param_int(lane, (int64_t)item->token);
        break;
    case OUTCOME:
        jsi_pg_param_int(lane, item->outcome);
        break;
    case CODE:
        jsi_pg_param_int(lane, item->code);
        break;
    case NOTE:
        jsi_pg_param_text(lane, text_or_empty(item->note));
        break;
    case DONE:
        jsi_pg_param_int(lane, (int64_t)item->progress_done);
        break;
    case TOTAL:
        jsi_pg_param_int(lane, (int64_t)item->progress_total);
        break;
    }
}

static int finish(struct jsi_pg_lane *lane, jobsched_call *call, jobsched_finish *items,
                  size_t count)
{
    const jobsched_backend_config *config = &lane->store->config;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_history_params(lane);
    for (int column = JOB; column <= TOTAL; column++) {
        jsi_pg_array_begin(lane);
        for (size_t i = 0; i < count; i++) {
            add_finish(lane, &items[i], (enum column)column);
        }
        jsi_pg_array_end(lane);
    }
    int result = jsi_pg_query(
        lane, "SELECT * FROM @S@.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)", 1);
    if (result == 0) {
        result = jsi_pg_expect(lane, count);
    }
    for (int i = 0; result == 0 && i < (int)count; i++) {
        items[i].answer = (int32_t)jsi_pg_int(lane, i, 0);
        call->now_ms = jsi_pg_int(lane, i, 1);
        jsi_pg_ended(lane->store, items[i].job, items[i].token);
    }
    return result;
}

int jsi_pg_finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct jsi_pg_store *store = backend;
    struct jsi_pg_lane *lane = &store->lanes[JOBSCHED_LANE_CLAIM];
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
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
    for (size_t done = 0; result == 0 && done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        result = jsi_pg_part(finish(lane, call, items + done, part), done);
    }
    return result;
}

static void add_renewal(struct jsi_pg_lane *lane, int64_t clock_offset_ms,
                        const jobsched_lease *items, size_t count)
{
    const jobsched_backend_config *config = &lane->store->config;
    jsi_pg_params(lane);
    jsi_pg_param_int(lane, JSI_PG_VERSION);
    jsi_pg_param_text(lane, config->name_space);
    jsi_pg_param_text(lane, config->node_id);
    jsi_pg_param_int(lane, clock_offset_ms);
    for (int column = JOB; column <= TOTAL; column++) {
        if (column == OUTCOME || column == CODE) {
            continue;
        }
        jsi_pg_array_begin(lane);
        for (size_t i = 0; i < count; i++) {
            const jobsched_finish same = {.job = items[i].job,
                                          .note = items[i].note,
                                          .token = items[i].token,
                                          .progress_done = items[i].progress_done,
                                          .progress_total = items[i].progress_total};
            add_finish(lane, &same, (enum column)column);
        }
        jsi_pg_array_end(lane);
    }
}

static int renew(struct jsi_pg_lane *lane, jobsched_call *call, int64_t clock_offset_ms,
                 jobsched_lease *items, size_t count)
{
    static const char statement[] = "SELECT * FROM @S@.renew($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    add_renewal(lane, clock_offset_ms, items, count);
    int result = jsi_pg_query(lane, statement, 1);
    int forgotten = result != 0 && jsi_pg_is_state(lane, "JS003");
    if (forgotten || (result != 0 && jsi_pg_is_state(lane, JSI_PG_OTHER_SERVER))) {
        /* We stood still for so long that somebody took us for dead; or a pooler goes on with a
         * server that has to be told what we hold. */
        result = forgotten ? jsi_pg_node_enter(lane) : jsi_pg_node_return(lane);
        if (result == 0) {
            add_renewal(lane, clock_offset_ms, items, count);
            result = jsi_pg_query(lane, statement, 1);
        }
    }
    int rows = result == 0 ? jsi_pg_rows(lane) : 0;
    if (result == 0 && rows <= (int)count) {
        result = jsi_pg_expect(lane, count + 1);
    }
    if (result != 0) {
        return result;
    }
    for (int i = 0; i < (int)count; i++) {
        items[i].answer = (int32_t)jsi_pg_int(lane, i, 0);
        if (items[i].answer == JOBSCHED_LEASE_GONE) {
            jsi_pg_ended(lane->store, items[i].job, items[i].token);
        }
    }
    int64_t mono_ms = jsi_pg_mono(lane->store);
    jsi_pg_watch_begin(lane->store);
    for (int i = (int)count; i < rows - 1; i++) {
        jsi_pg_watch(lane->store, jsi_pg_get(lane, i, 1), jsi_pg_get(lane, i, 2), mono_ms);
    }
    jsi_pg_watch_end(lane->store);
    call->now_ms = jsi_pg_int(lane, rows - 1, 3);
    jsi_pg_seen(lane, call->now_ms, jsi_pg_int(lane, rows - 1, 4));
    return 0;
}

int jsi_pg_renew(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count)
{
    struct jsi_pg_store *store = backend;
    int result = jsi_pg_keep_begin(store, call, call->timeout_ms);
    if (result != 0) {
        jsi_pg_node_renewed(store, result, 0);
        return result;
    }
    jsi_pg_node_round(store);
    result = renew(&store->lanes[JOBSCHED_LANE_KEEP], call, clock_offset_ms, items, count);
    if (result == 0 && count > 0) {
        jsi_pg_holds(store);
    } else if (result == 0 && atomic_load(&store->holds) > 0) {
        (void)atomic_fetch_sub(&store->holds, 1);
    }
    jsi_pg_node_renewed(store, result, count == JOBSCHED_BATCH_MAX);
    return jsi_pg_keep_end(store, call, result);
}
