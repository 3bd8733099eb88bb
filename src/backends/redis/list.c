/* list.c: lists the jobs and the nodes of the cluster, in parts, so that the server serves others in
 * between; see lua/jobs.lua and lua/nodes.lua. Locks: the caller owns the lane, also while
 * visiting. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#define JOBS_PAGE 50

enum {
    JOB,
    DEFINITION,
    VERSION,
    GENERATION,
    TOKEN,
    MARK,
    LAST_END,
    PAUSED,
    REMOVED,
    NODES,
    DISSENT,
    RUNNING,
    WAITING,
    LAST,
    RUN
};
enum { LAST_OUTCOME, LAST_SCHEDULED, LAST_STARTED, LAST_FINISHED, LAST_NODE };
enum { RUN_NODE, RUN_SINCE, RUN_TOKEN };

struct listing {
    const char *job; /* NULL: all */
    jobsched_job_visit_fn visit;
    void *visit_data;
    char after[JOBSCHED_NAME_BYTES + 1];
    int ended;
};

static int64_t ms_or_none(const redisReply *reply, size_t index)
{
    int64_t value = jsi_redis_int(reply, index);
    return value < 0 ? JOBSCHED_NONE : value;
}

static int show(const struct listing *listing, const redisReply *job)
{
    const redisReply *last = jsi_redis_at(job, LAST), *run = jsi_redis_at(job, RUN);
    int has_last = jsi_redis_count(last) > 0;
    jobsched_job_record record = {
        .job = jsi_redis_text(job, JOB),
        .definition = jsi_redis_text(job, DEFINITION),
        .schedule = "", /* the text is the engine's to read */
        .timezone = "",
        .version = jsi_redis_unsigned(job, VERSION),
        .generation = jsi_redis_unsigned(job, GENERATION),
        .token = jsi_redis_unsigned(job, TOKEN),
        .mark_at_ms = jsi_redis_int(job, MARK),
        .next_at_ms = JOBSCHED_NONE,
        .last_end_at_ms = ms_or_none(job, LAST_END),
        .paused = jsi_redis_int(job, PAUSED) != 0,
        .removed = jsi_redis_int(job, REMOVED) != 0,
        .nodes = jsi_redis_unsigned(job, NODES),
        .dissent = jsi_redis_unsigned(job, DISSENT),
        .running = jsi_redis_unsigned(job, RUNNING),
        .waiting = jsi_redis_unsigned(job, WAITING),
        .has_last = has_last,
        .last_outcome = (int32_t)jsi_redis_int(last, LAST_OUTCOME),
        .last_scheduled_at_ms = jsi_redis_int(last, LAST_SCHEDULED),
        .last_started_at_ms = has_last ? ms_or_none(last, LAST_STARTED) : JOBSCHED_NONE,
        .last_finished_at_ms = has_last ? ms_or_none(last, LAST_FINISHED) : JOBSCHED_NONE,
        .last_node = jsi_redis_text(last, LAST_NODE),
        .running_node = jsi_redis_text(run, RUN_NODE),
        .running_since_at_ms = jsi_redis_int(run, RUN_SINCE),
        .running_token = jsi_redis_unsigned(run, RUN_TOKEN),
    };
    return listing->visit(&record, listing->visit_data);
}

static void add_jobs(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                     size_t count)
{
    (void)first;
    (void)count;
    const struct listing *listing = job->data;
    jsi_redis_add_int(lane, listing->job != NULL);
    jsi_redis_add(lane, listing->job != NULL ? listing->job : listing->after);
    jsi_redis_add_int(lane, JOBS_PAGE);
}

static int take_jobs(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                     const redisReply *reply, size_t first, size_t count)
{
    (void)lane;
    (void)first;
    (void)count;
    struct listing *listing = job->data;
    const redisReply *page = jsi_redis_at(reply, 2);
    if (listing->job != NULL && jsi_redis_count(page) == 0) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0, "job '%s' is not known here", listing->job);
    }
    jsi_redis_copy(reply, 3, listing->after, sizeof listing->after);
    listing->ended = listing->after[0] == '\0';
    size_t shown = listing->job != NULL ? 1 : jsi_redis_count(page);
    for (size_t i = 0; i < shown; i++) {
        if (show(listing, jsi_redis_at(page, i)) != 0) {
            listing->ended = 1;
            break;
        }
    }
    return 0;
}

int jsi_redis_jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                   void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct listing listing = {.job = job, .visit = visit, .visit_data = visit_data};
    const struct jsi_redis_job page = {
        .script = JSI_SCRIPT_jobs, .add = add_jobs, .take = take_jobs, .data = &listing};
    jobsched_call part = *call;
    int result = 0;
    while (result == 0 && !listing.ended) {
        result = jsi_redis_run(lane, &part, &page);
        part.timeout_ms = jsi_redis_budget_left(lane); /* the call has it as a whole */
    }
    if (result == 0) {
        call->now_ms = part.now_ms;
    }
    return result;
}

/* ---- nodes ---- */

enum { ID, NAME, APP, SINCE, BEAT, OFFSET, NODE_JOBS, NODE_RUNS };

struct nodes {
    redisReply *reply; /* of the first request; ours */
    const char *node;  /* whose jobs are looked through; NULL: the first request */
    char cursor[24];
    uint64_t dissent;
};

static void add_nodes(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                      size_t count)
{
    (void)first;
    (void)count;
    const struct nodes *nodes = job->data;
    jsi_redis_add(lane, nodes->node);
    jsi_redis_add(lane, nodes->cursor);
}

static int take_nodes(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                      const redisReply *reply, size_t first, size_t count)
{
    (void)first;
    (void)count;
    struct nodes *nodes = job->data;
    if (nodes->node == NULL) {
        nodes->reply = lane->reply;
        lane->reply = NULL; /* the lane does not free it */
    } else {
        jsi_redis_copy(reply, 2, nodes->cursor, sizeof nodes->cursor);
        nodes->dissent += jsi_redis_unsigned(reply, 3);
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const redisReply *const *left = a, *const *right = b;
    int order = strcmp(jsi_redis_text(*left, NAME), jsi_redis_text(*right, NAME));
    return order != 0 ? order : strcmp(jsi_redis_text(*left, ID), jsi_redis_text(*right, ID));
}

static int show_node(const redisReply *node, uint64_t dissent, jobsched_node_visit_fn visit,
                     void *visit_data)
{
    jobsched_node_record record = {
        .id = jsi_redis_text(node, ID),
        .name = jsi_redis_text(node, NAME),
        .app_version = jsi_redis_text(node, APP),
        .since_at_ms = jsi_redis_int(node, SINCE),
        .beat_at_ms = jsi_redis_int(node, BEAT),
        .clock_offset_ms = jsi_redis_int(node, OFFSET),
        .jobs = jsi_redis_unsigned(node, NODE_JOBS),
        .runs = jsi_redis_unsigned(node, NODE_RUNS),
        .dissent = dissent,
    };
    return visit(&record, visit_data);
}

int jsi_redis_nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit,
                    void *visit_data)
{
    struct jsi_redis_store *store = backend;
    struct jsi_redis_lane *lane = &store->lanes[JOBSCHED_LANE_ADMIN];
    struct nodes nodes = {.cursor = "0"};
    const struct jsi_redis_job part = {
        .script = JSI_SCRIPT_nodes, .add = add_nodes, .take = take_nodes, .data = &nodes};
    jobsched_call rest = *call;
    int result = jsi_redis_run(lane, &rest, &part);
    const redisReply *list = jsi_redis_at(nodes.reply, 2);
    if (list != NULL && list->elements > 1) {
        qsort(list->element, list->elements, sizeof list->element[0], by_name);
    }
    for (size_t i = 0; result == 0 && i < jsi_redis_count(list); i++) {
        const redisReply *node = jsi_redis_at(list, i);
        nodes.node = jsi_redis_text(node, ID);
        nodes.dissent = 0;
        memcpy(nodes.cursor, "0", 2);
        do {
            rest.timeout_ms = jsi_redis_budget_left(lane); /* the call has it as a whole */
            result = jsi_redis_run(lane, &rest, &part);
        } while (result == 0 && strcmp(nodes.cursor, "0") != 0 && nodes.cursor[0] != '\0');
        if (result == 0 && show_node(node, nodes.dissent, visit, visit_data) != 0) {
            break;
        }
    }
    if (nodes.reply != NULL) {
        freeReplyObject(nodes.reply);
    }
    if (result == 0) {
        call->now_ms = rest.now_ms;
    }
    return result;
}
