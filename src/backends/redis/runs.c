/* runs.c: reads the ledger, page by page, newest first; see lua/runs.lua.
 * Locks: the caller owns the lane, also while visiting. */
#include "store.h"

#include <stdio.h>

#define RUNS_DEFAULT 100
#define PAGE_ROWS    200

enum {
    JOB,
    NODE,
    NOTE,
    REQUEST,
    SCHEDULED,
    LAST,
    COUNT,
    TOKEN,
    STARTED,
    FINISHED,
    DONE,
    TOTAL,
    ATTEMPT,
    KIND,
    OUTCOME,
    CODE,
    ID
};

struct reading {
    const char *job;
    uint64_t left;
    jobsched_run_visit_fn visit;
    void *visit_data;
    char before[24]; /* id of the last row that was read */
    size_t wanted;   /* rows of this page */
    int ended;
};

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    (void)first;
    (void)count;
    const struct reading *reading = job->data;
    jsi_redis_add(lane, reading->job);
    jsi_redis_add_int(lane, reading->job == NULL);
    jsi_redis_add(lane, reading->before);
    jsi_redis_add_unsigned(lane, reading->wanted);
}

static int64_t ms_or_none(const redisReply *row, size_t index)
{
    int64_t value = jsi_redis_int(row, index);
    return value < 0 ? JOBSCHED_NONE : value;
}

static int show(const struct reading *reading, const redisReply *row)
{
    jobsched_run_record record = {
        .job = jsi_redis_text(row, JOB),
        .node = jsi_redis_text(row, NODE),
        .note = jsi_redis_text(row, NOTE),
        .request = jsi_redis_text(row, REQUEST),
        .scheduled_at_ms = jsi_redis_int(row, SCHEDULED),
        .last_at_ms = jsi_redis_int(row, LAST),
        .count = jsi_redis_unsigned(row, COUNT),
        .token = jsi_redis_unsigned(row, TOKEN),
        .started_at_ms = ms_or_none(row, STARTED),
        .finished_at_ms = ms_or_none(row, FINISHED),
        .progress_done = jsi_redis_unsigned(row, DONE),
        .progress_total = jsi_redis_unsigned(row, TOTAL),
        .attempt = (uint32_t)jsi_redis_int(row, ATTEMPT),
        .kind = (int32_t)jsi_redis_int(row, KIND),
        .outcome = (int32_t)jsi_redis_int(row, OUTCOME),
        .code = (int32_t)jsi_redis_int(row, CODE),
    };
    return reading->visit(&record, reading->visit_data);
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)first;
    (void)count;
    struct reading *reading = job->data;
    const redisReply *rows = jsi_redis_at(reply, 2);
    size_t got = jsi_redis_count(rows);
    reading->ended = got < reading->wanted;
    got = got < reading->wanted ? got : reading->wanted; /* whatever a server sends */
    for (size_t i = 0; i < got; i++) {
        const redisReply *row = jsi_redis_at(rows, i);
        (void)snprintf(reading->before, sizeof reading->before, "%lld",
                       (long long)jsi_redis_int(row, ID));
        reading->left--;
        if (show(reading, row) != 0) {
            reading->ended = 1;
            break;
        }
    }
    return 0;
}

int jsi_redis_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                   jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct reading reading = {.job = job,
                              .left = limit == 0 ? RUNS_DEFAULT : limit,
                              .visit = visit,
                              .visit_data = visit_data,
                              .before = "+inf"};
    const struct jsi_redis_job page = {
        .script = JSI_SCRIPT_runs, .add = add, .take = take, .data = &reading};
    jobsched_call part = *call;
    int result = 0;
    while (result == 0 && !reading.ended && reading.left > 0) {
        reading.wanted = reading.left < PAGE_ROWS ? (size_t)reading.left : PAGE_ROWS;
        result = jsi_redis_run(lane, &part, &page);
        part.timeout_ms = jsi_redis_budget_left(lane); /* the call has it as a whole */
    }
    if (result == 0) {
        call->now_ms = part.now_ms;
    }
    return result;
}
