/* call.c: a script over the items of a call: in parts, which go out in one write, and what is done
 * when the server refuses a part. It refuses before it changes anything:
 *   NOSCRIPT  it has forgotten the scripts: they are loaded, and the part is asked again.
 *   LOST      the store is not the one that we entered, or is in a new epoch: we enter again, which
 *             raises the epoch and begins a quarantine where data was lost, and ask again.
 *   NODE      somebody has forgotten our node, or this connection: we enter again.
 *   OLD       a newer connection of this lane has entered: this one is given up.
 * A store that a lane enters for the first time, or in a new epoch, or that has forgotten the node, is
 * first told what the node knows: its jobs and its runs (known.c).
 * Locks: the caller owns the lane; takes store->lock for moments. */
#include "store.h"

#include <string.h>

/* More would be a store that is emptied over and over. */
#define TRIES_MAX 4

enum verdict { DONE, AGAIN_LOAD, AGAIN_ENTER, FAILED };

static void add_part(struct jsi_redis_lane *lane, const struct jsi_redis_job *job, size_t first,
                     size_t count)
{
    const struct jsi_redis_store *store = lane->store;
    const jobsched_backend_config *config = &store->config;
    int64_t keep = config->history_count > INT32_MAX ? INT32_MAX : (int64_t)config->history_count;
    jsi_redis_begin(lane);
    jsi_redis_add(lane, "EVALSHA");
    jsi_redis_add(lane, store->sha[job->script]);
    jsi_redis_add(lane, "1");
    jsi_redis_add(lane, store->meta_key);
    jsi_redis_add(lane, config->node_id);
    jsi_redis_add_int(lane, lane->kind);
    jsi_redis_add_unsigned(lane, lane->nonce);
    jsi_redis_add(lane, lane->stamp);
    jsi_redis_add_int(lane, keep);
    jsi_redis_add_exact(lane, config->history_age_ms <= 0 ? JSI_REDIS_EXACT_MAX / 2
                                                          : config->history_age_ms);
    jsi_redis_watch_add(lane);
    job->add(lane, job, first, count);
    jsi_redis_end(lane);
}

static size_t part_of(const struct jsi_redis_job *job, size_t first)
{
    size_t left = job->count - first;
    return left < JSI_REDIS_CHUNK ? left : JSI_REDIS_CHUNK;
}

static enum verdict judge_error(struct jsi_redis_lane *lane, int *out_result)
{
    const char *text = lane->reply->str;
    if (strncmp(text, "NOSCRIPT", 8) == 0) {
        return AGAIN_LOAD;
    }
    *out_result = jsi_redis_fail_reply(lane, text);
    return FAILED;
}

/* One reply; the words are those of lua/common.lua. */
static enum verdict judge(struct jsi_redis_lane *lane, int *out_result)
{
    const redisReply *reply = lane->reply;
    if (reply->type == REDIS_REPLY_ERROR) {
        return judge_error(lane, out_result);
    }
    const redisReply *head = jsi_redis_at(reply, 0);
    if (head != NULL && head->type == REDIS_REPLY_INTEGER) {
        return DONE;
    }
    const char *word = jsi_redis_text(reply, 0);
    if (strcmp(word, "NODE") == 0) {
        jsi_redis_assert_again(lane); /* what it registers may be gone as well */
        return AGAIN_ENTER;
    }
    if (strcmp(word, "LOST") == 0 || strcmp(word, "OLD") == 0) {
        return AGAIN_ENTER;
    }
    *out_result = strcmp(word, "VERSION") == 0
                      ? jsi_redis_fail_version(lane, jsi_redis_text(reply, 1))
                      : jsi_redis_fail_form(lane, "a script's reply is not as expected");
    return FAILED;
}

static void note(struct jsi_redis_lane *lane, jobsched_call *call)
{
    struct jsi_redis_store *store = lane->store;
    call->now_ms = jsi_redis_int(lane->reply, 0);
    jsi_redis_watch_clock(store, lane->sent_ms, jsi_redis_mono(store), call->now_ms);
    int64_t id = jsi_redis_int(lane->reply, 1);
    (void)pthread_mutex_lock(&store->lock);
    /* Another lane may have entered a newer store meanwhile. */
    if (strncmp(lane->stamp, store->born, strlen(store->born)) == 0 && id > store->id) {
        store->id = id;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* Sends what is left in parts and takes the replies. *done moves to the first item that is not
 * answered; answered tells whether any part was. */
static enum verdict round_trip(struct jsi_redis_lane *lane, jobsched_call *call,
                               const struct jsi_redis_job *job, size_t *done, int *answered,
                               int *out_result)
{
    size_t parts = 0;
    jsi_redis_text_clear(&lane->out);
    for (size_t first = *done; parts == 0 || first < job->count; parts++) {
        size_t count = part_of(job, first);
        add_part(lane, job, first, count);
        first += count;
    }
    lane->writes = job->writes;
    *out_result = jsi_redis_send(lane);
    enum verdict verdict = *out_result == 0 ? DONE : FAILED;
    for (size_t part = 0; *out_result == 0 && part < parts; part++) {
        int result = jsi_redis_receive(lane);
        if (result != 0) {
            *out_result = result;
            return FAILED;
        }
        if (verdict != DONE) {
            continue; /* the rest is asked again, or was promised nothing */
        }
        verdict = judge(lane, &result);
        if (verdict == DONE) {
            size_t count = part_of(job, *done);
            note(lane, call);
            result = job->take(lane, job, lane->reply, *done, count);
            *done += count;
            /* What take() refuses has changed nothing. */
            *answered |= result == 0;
            verdict = result == 0 ? DONE : FAILED;
        }
        if (verdict == FAILED) {
            *out_result = result;
            if (lane->fd >= 0 && part + 1 < parts) {
                jsi_redis_disconnect(lane); /* with the replies that are still to come */
            }
            return FAILED;
        }
    }
    return verdict;
}

struct assertion {
    size_t jobs, first; /* places of known.c that are jobs; where this batch begins */
    int last;
};

static void add_assertion(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                          size_t first, size_t count)
{
    const struct assertion *assertion = job->data;
    jsi_redis_add_int(lane, assertion->last && first + count == job->count);
    jsi_redis_known_add(lane, assertion->jobs, assertion->first + first, count);
}

void jsi_redis_assert_again(struct jsi_redis_lane *lane)
{
    struct jsi_redis_store *store = lane->store;
    lane->asserted[0] = '\0';
    (void)pthread_mutex_lock(&store->lock);
    store->jobs_asserted[0] = '\0';
    (void)pthread_mutex_unlock(&store->lock);
}

/* How far the lanes have come with the jobs, in the store as this lane has entered it; at least so
 * far, if at is more. What has been told is not told again: neither by the other lanes, nor by a
 * call that goes on where the time of another was over. */
static size_t jobs_told(struct jsi_redis_lane *lane, size_t at)
{
    struct jsi_redis_store *store = lane->store;
    (void)pthread_mutex_lock(&store->lock);
    if (strcmp(store->jobs_asserted, lane->stamp) != 0) {
        memcpy(store->jobs_asserted, lane->stamp, sizeof store->jobs_asserted);
        store->jobs_asserted_at = 0;
    }
    store->jobs_asserted_at = at > store->jobs_asserted_at ? at : store->jobs_asserted_at;
    at = store->jobs_asserted_at;
    (void)pthread_mutex_unlock(&store->lock);
    return at;
}

static int take_assertion(struct jsi_redis_lane *lane, const struct jsi_redis_job *job,
                          const redisReply *reply, size_t first, size_t count)
{
    const struct assertion *assertion = job->data;
    size_t told = assertion->first + first + count;
    (void)jobs_told(lane, told < assertion->jobs ? told : assertion->jobs);
    const redisReply *renumbered = jsi_redis_at(reply, 2);
    for (size_t i = 0; i < jsi_redis_count(renumbered); i++) {
        const redisReply *at = jsi_redis_at(renumbered, i);
        jsi_redis_know_renumbered(lane->store, jsi_redis_text(at, 0), jsi_redis_unsigned(at, 1));
    }
    return 0;
}

/* Tells the store what this node knows: the jobs once, and its runs on every lane before anything
 * else: so what one lane asks never meets a store that another lane has not told yet. */
static enum verdict assert_known(struct jsi_redis_lane *lane, int *out_result)
{
    struct assertion assertion = {.first = 0};
    size_t runs = 0;
    jsi_redis_known_slots(lane->store, &assertion.jobs, &runs);
    size_t total = assertion.jobs + runs;
    enum verdict verdict = DONE;
    jobsched_call call = {.lane = lane->kind};
    assertion.first = jobs_told(lane, 0);
    assertion.first = assertion.first < assertion.jobs ? assertion.first : assertion.jobs;
    do {
        size_t left = total - assertion.first;
        size_t count = left < JOBSCHED_BATCH_MAX ? left : JOBSCHED_BATCH_MAX;
        assertion.last = count == left;
        /* writes is 0: whatever happens to it, nothing of the caller's was done. */
        const struct jsi_redis_job job = {.script = JSI_SCRIPT_assert,
                                          .count = count,
                                          .add = add_assertion,
                                          .take = take_assertion,
                                          .data = &assertion};
        size_t done = 0;
        int answered = 0;
        verdict = round_trip(lane, &call, &job, &done, &answered, out_result);
        assertion.first += count;
    } while (verdict == DONE && assertion.first < total);
    if (verdict == DONE) {
        memcpy(lane->asserted, lane->stamp, sizeof lane->asserted);
    }
    return verdict;
}

/* What promises that nothing was changed must not be said once a part has been done. */
static int as_batch(int result, int answered)
{
    if (!answered || result == JOBSCHED_EUNKNOWN || result == 0) {
        return result;
    }
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)memcpy(message, jobsched_last_error()->message, sizeof message);
    message[sizeof message - 1] = '\0';
    return jobsched_fail(JOBSCHED_EUNKNOWN, jobsched_last_error()->system_errno,
                         "part of a batch was done, then: %.400s", message);
}

int jsi_redis_run(struct jsi_redis_lane *lane, jobsched_call *call, const struct jsi_redis_job *job)
{
    jsi_redis_budget(lane, call->timeout_ms);
    size_t done = 0;
    int answered = 0;
    int again = 0;
    for (int tries = 0;; tries++) {
        int result = jsi_redis_session(lane, again);
        enum verdict verdict = FAILED;
        if (result == 0) {
            verdict = strcmp(lane->asserted, lane->stamp) == 0 ? DONE : assert_known(lane, &result);
        }
        if (result == 0 && verdict == DONE) {
            verdict = round_trip(lane, call, job, &done, &answered, &result);
        }
        if (verdict == DONE) {
            return 0;
        }
        if (verdict == AGAIN_LOAD) {
            result = jsi_redis_load(lane);
        }
        again = verdict == AGAIN_ENTER;
        if (result == 0 && tries == TRIES_MAX) {
            result = jsi_redis_fail_connect(lane, 0, "it forgets this node over and over");
        }
        if (result != 0) {
            return as_batch(result, answered && job->writes);
        }
    }
}
