/* runs.c: reads the ledger, newest first; see lua/runs.lua and lua/find.lua. A page over all jobs is
 * put together here, from parts of which each looks through some jobs: so that the server serves
 * others in between, however many there are. Rows that are filed meanwhile may be missing.
 * Locks: the caller owns the lane, also while visiting. */
#include "store.h"

#include <stdio.h>
#include <string.h>

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

/* A row that is kept until the page is whole. */
struct row {
    int64_t id;
    jobsched_run_record record; /* its texts point behind it */
    char texts[];
};

struct reading {
    const char *job; /* NULL: all */
    const jobsched_allocator *allocator;
    struct row *rows[PAGE_ROWS]; /* newest first */
    size_t count, wanted;
    char before[24];                     /* id of the last row of the page before */
    char after[JOBSCHED_NAME_BYTES + 1]; /* the last job that was looked at; "": all were */
};

static int64_t ms_or_none(const redisReply *row, size_t index)
{
    int64_t value = jsi_redis_int(row, index);
    return value < 0 ? JOBSCHED_NONE : value;
}

/* Its texts are those of the reply. */
static jobsched_run_record record_of(const redisReply *row)
{
    return (jobsched_run_record){
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
}

static const char *move_text(char **at, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = *at;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

static struct row *copy_row(const jobsched_allocator *allocator, const redisReply *reply)
{
    jobsched_run_record record = record_of(reply);
    size_t bytes =
        strlen(record.job) + strlen(record.node) + strlen(record.note) + strlen(record.request) + 4;
    struct row *row = jsi_redis_allocate(allocator, sizeof *row + bytes);
    if (row != NULL) {
        char *at = row->texts;
        row->id = jsi_redis_int(reply, ID);
        record.job = move_text(&at, record.job);
        record.node = move_text(&at, record.node);
        record.note = move_text(&at, record.note);
        record.request = move_text(&at, record.request);
        row->record = record;
    }
    return row;
}

/* Puts a row in its place; the oldest falls out of a full page. Takes the row. */
static void insert(struct reading *reading, struct row *row)
{
    size_t at = reading->count;
    while (at > 0 && reading->rows[at - 1]->id < row->id) {
        at--;
    }
    if (at == reading->wanted) {
        jsi_redis_free(reading->allocator, row);
        return;
    }
    if (reading->count == reading->wanted) {
        jsi_redis_free(reading->allocator, reading->rows[--reading->count]);
    }
    memmove(&reading->rows[at + 1], &reading->rows[at],
            (reading->count - at) * sizeof reading->rows[0]);
    reading->rows[at] = row;
    reading->count++;
}

static void forget(struct reading *reading)
{
    while (reading->count > 0) {
        jsi_redis_free(reading->allocator, reading->rows[--reading->count]);
    }
}

static void add(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                size_t count)
{
    (void)first;
    (void)count;
    const struct reading *reading = job->data;
    int full = reading->count == reading->wanted;
    jsi_redis_add_int(lane, reading->job != NULL);
    jsi_redis_add(lane, reading->job != NULL ? reading->job : reading->after);
    jsi_redis_add(lane, reading->before);
    jsi_redis_add_int(lane, full ? reading->rows[reading->count - 1]->id : 0);
    jsi_redis_add_unsigned(lane, reading->wanted);
}

static int take(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)first;
    (void)count;
    struct reading *reading = job->data;
    const redisReply *rows = jsi_redis_at(reply, 2);
    for (size_t i = 0; i < jsi_redis_count(rows); i++) {
        struct row *row = copy_row(reading->allocator, jsi_redis_at(rows, i));
        if (row == NULL) {
            return JOBSCHED_ENOMEM;
        }
        insert(reading, row);
    }
    jsi_redis_copy(reply, 3, reading->after, sizeof reading->after);
    return 0;
}

/* Reads one page, in parts; the call has its time as a whole. */
static int read_page(struct jsi_redis_lane *lane, jobsched_call *part, struct reading *reading)
{
    const struct jsi_redis_job job = {
        .script = JSI_SCRIPT_runs, .add = add, .take = take, .data = reading};
    int result;
    reading->after[0] = '\0';
    do {
        result = jsi_redis_run(lane, part, &job);
        part->timeout_ms = jsi_redis_budget_left(lane);
    } while (result == 0 && reading->after[0] != '\0');
    return result;
}

int jsi_redis_runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                   jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct reading reading = {.job = job, .allocator = &store->config.allocator, .before = "+inf"};
    uint64_t left = limit == 0 ? RUNS_DEFAULT : limit;
    jobsched_call part = *call;
    int result = 0, ended = 0;
    while (result == 0 && !ended && left > 0) {
        reading.wanted = left < PAGE_ROWS ? (size_t)left : PAGE_ROWS;
        result = read_page(lane, &part, &reading);
        ended = reading.count < reading.wanted;
        for (size_t i = 0; result == 0 && i < reading.count; i++) {
            (void)snprintf(reading.before, sizeof reading.before, "%lld",
                           (long long)reading.rows[i]->id);
            left--;
            if (visit(&reading.rows[i]->record, visit_data) != 0) {
                ended = 1;
                break;
            }
        }
        forget(&reading);
    }
    if (result == 0) {
        call->now_ms = part.now_ms;
    }
    return result;
}

/* ---- one row ---- */

struct finding {
    const char *job, *request;
    jobsched_run_visit_fn visit;
    void *visit_data;
};

static void add_find(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                     size_t count)
{
    (void)first;
    (void)count;
    const struct finding *finding = job->data;
    jsi_redis_add(lane, finding->job);
    jsi_redis_add(lane, finding->request);
}

static int take_find(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                     const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)first;
    (void)count;
    const struct finding *finding = job->data;
    const redisReply *row = jsi_redis_at(jsi_redis_at(reply, 2), 0);
    if (row == NULL) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' has no trigger '%s' in the ledger",
                             finding->job, finding->request);
    }
    jobsched_run_record record = record_of(row);
    (void)finding->visit(&record, finding->visit_data);
    return 0;
}

int jsi_redis_find(void *backend, jobsched_call *call, const char *job, const char *request,
                   jobsched_run_visit_fn visit, void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct finding finding = {
        .job = job, .request = request, .visit = visit, .visit_data = visit_data};
    const struct jsi_redis_job one = {
        .script = JSI_SCRIPT_find, .add = add_find, .take = take_find, .data = &finding};
    return jsi_redis_run(&store->lanes[JOBSCHED_LANE_ADMIN], call, &one);
}
