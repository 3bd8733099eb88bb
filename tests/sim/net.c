/* net.c: the way of a request to the server and of its answer back, with everything that can happen
 * on the way. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/* A request that goes on without its client: all that it names is copied. */
struct message {
    struct model_handle *handle;
    struct sim_request request;
    jobsched_call call;
    jobsched_control_result result;
    jobsched_command command;
    void *items;
    char *texts[2 * JOBSCHED_BATCH_MAX];
    size_t text_count;
};

static const char *keep(struct message *message, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    char *copy = strdup(text);
    if (copy == NULL || message->text_count == 2 * (size_t)JOBSCHED_BATCH_MAX) {
        abort();
    }
    message->texts[message->text_count++] = copy;
    return copy;
}

static void *copy_items(const struct sim_request *request, size_t bytes)
{
    void *copy = malloc(request->count * bytes + 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, request->items, request->count * bytes);
    return copy;
}

static bool copy_request(struct message *message, const struct sim_request *request)
{
    size_t count = request->count;
    switch (request->operation) {
    case SIM_ANNOUNCE: {
        jobsched_announcement *items = copy_items(request, sizeof *items);
        for (size_t i = 0; i < count; i++) {
            items[i].job = keep(message, items[i].job);
            items[i].definition = keep(message, items[i].definition);
        }
        message->items = items;
        return true;
    }
    case SIM_CLAIM: {
        jobsched_claim *items = copy_items(request, sizeof *items);
        for (size_t i = 0; i < count; i++) {
            items[i].job = keep(message, items[i].job);
            items[i].request = keep(message, items[i].request);
        }
        message->items = items;
        return true;
    }
    case SIM_FINISH: {
        jobsched_finish *items = copy_items(request, sizeof *items);
        for (size_t i = 0; i < count; i++) {
            items[i].job = keep(message, items[i].job);
        }
        message->items = items;
        return true;
    }
    case SIM_RENEW: {
        jobsched_lease *items = copy_items(request, sizeof *items);
        for (size_t i = 0; i < count; i++) {
            items[i].job = keep(message, items[i].job);
        }
        message->items = items;
        return true;
    }
    case SIM_CONTROL_CALL:
        message->command = *(const jobsched_command *)request->items;
        message->command.job = keep(message, message->command.job);
        message->command.request = keep(message, message->command.request);
        message->items = NULL;
        return true;
    default:
        return false; /* reads change nothing that is worth a copy */
    }
}

static void drop(struct message *message)
{
    for (size_t i = 0; i < message->text_count; i++) {
        free(message->texts[i]);
    }
    free(message->items);
    free(message);
}

static struct message *message_of(struct sim_node *node, const struct sim_request *request)
{
    struct message *message = calloc(1, sizeof *message);
    if (message == NULL) {
        abort();
    }
    message->handle = node->handle;
    message->request = *request;
    message->call = *request->call;
    message->request.call = &message->call;
    JOBSCHED_INIT(&message->result);
    if (!copy_request(message, request)) {
        drop(message);
        return NULL;
    }
    message->request.items =
        request->operation == SIM_CONTROL_CALL ? (void *)&message->command : message->items;
    message->request.result = &message->result;
    return message;
}

void sim_detach(struct sim_node *node, const struct sim_request *request, int64_t arrives_ms)
{
    struct message *message = message_of(node, request);
    if (message != NULL) {
        sim_push(node->world, (struct sim_event){
                                  .at_ms = arrives_ms, .kind = SIM_EVENT_MESSAGE, .data = message});
    }
}

/* A store refuses what an older connection of the same lane sent, once a newer one has spoken, and
 * what comes after the session's end, where it has sessions. */
void sim_message_arrive(struct sim_world *world, void *data, bool arrives)
{
    struct message *message = data;
    struct model_handle *handle = message->handle;
    bool alive = world->model.grace_ms < 0 || !sim_process_is_over(world, handle->number);
    if (arrives && alive && !handle->left && message->request.epoch == world->model.now.epoch &&
        message->request.nonce >= handle->nonce_seen[message->call.lane]) {
        sim_note(world, "late", (uint64_t)message->request.operation, handle->number, 0);
        sim_perform(handle, &message->request);
    }
    drop(message);
}

/* ---- the trip ---------------------------------------------------------------------- */

/* Every place at which a process can die: it does when its count is up. */
static bool step(struct sim_node *node)
{
    node->world->steps++;
    if (node->crash_in > 0 && --node->crash_in == 0) {
        node->crashes = true;
    }
    if (node->freeze_in > 0 && --node->freeze_in == 0) {
        sim_node_freeze(node, node->freeze_ms);
    }
    return !node->crashes;
}

static void wait_for(struct sim_node *node, enum sim_wait what, int64_t span_ms)
{
    struct sim_thread *thread = &node->threads[node->running];
    thread->wait = what;
    thread->ticket++;
    sim_push(node->world, (struct sim_event){.at_ms = node->world->now_ms + span_ms,
                                             .kind = SIM_EVENT_RESUME,
                                             .a = (int)node->running,
                                             .b = thread->ticket,
                                             .number = node->number});
    fiber_yield();
    thread->wait = SIM_FREE;
}

/* Yields for good: the process is dead, and its threads are never entered again. */
static void die(void)
{
    fiber_yield();
    abort();
}

static void pass(struct sim_node *node, enum sim_wait what, int64_t span_ms)
{
    if (!step(node)) {
        die();
    }
    /* The server works while the process stands still, the process does not. */
    if (what == SIM_REPLY && node->thaw_ms > node->world->now_ms + span_ms) {
        span_ms = node->thaw_ms - node->world->now_ms;
    }
    if (span_ms > 0) {
        wait_for(node, what, span_ms);
    }
    if (node->crashes) {
        die();
    }
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* How long a call may take: a node without its session must know in time whether it gets a new one. */
static int64_t patience(struct sim_node *node, enum sim_lane lane, int64_t sent_ms)
{
    int64_t left_ms = sent_ms + SIM_REQUEST_TIMEOUT_MS - node->world->now_ms;
    if (lane == SIM_KEEP && node->lost_at_ms != JOBSCHED_NONE) {
        int64_t lost_ms = (node->lost_at_ms - sim_mono_ms(node)) / 2;
        left_ms = earlier(left_ms, lost_ms > 0 ? lost_ms : 0);
    }
    return left_ms;
}

static int fail(struct sim_node *node, enum sim_lane lane, jobsched_call *call, int code,
                int64_t span_ms)
{
    sim_trouble_now(node->world);
    node->handle->nonce_sent[lane]++; /* the connection is given up */
    if (!node->threads[node->running].broken) {
        pass(node, SIM_REPLY, span_ms);
    }
    node->threads[node->running].broken = false;
    if (lane == SIM_KEEP) {
        call->lost_at_mono_ms = node->lost_at_ms;
    }
    return jobsched_fail(code, 0, "simulated trouble");
}

static int fail_unknown(struct sim_node *node, enum sim_lane lane, jobsched_call *call,
                        int64_t sent_ms)
{
    return fail(node, lane, call, JOBSCHED_EUNKNOWN, patience(node, lane, sent_ms));
}

static bool strikes(struct sim_world *world, enum sim_trouble kind)
{
    if (world->active[kind] == 0 || !sim_chance(&world->random, world->percent)) {
        return false;
    }
    world->injected[kind]++;
    return true;
}

static int64_t latency(struct sim_world *world)
{
    if (strikes(world, SIM_LATENCY)) {
        return sim_scaled(&world->random, 1, SIM_REQUEST_TIMEOUT_MS);
    }
    return world->base_latency_ms == 0 ? 0 : sim_below(&world->random, world->base_latency_ms + 1);
}

static int arrive(struct sim_node *node, enum sim_lane lane, struct sim_request *request)
{
    struct sim_world *world = node->world;
    struct model_handle *handle = node->handle;
    uint64_t *seen = &handle->nonce_seen[lane];
    *seen = request->nonce > *seen ? request->nonce : *seen;
    node->contact_ms = world->now_ms;
    if (!strikes(world, SIM_DUPLICATE) || request->count == 0) {
        sim_perform(handle, request);
        return request->code;
    }
    struct message *twin = message_of(node, request);
    if (twin == NULL || sim_chance(&world->random, 50)) {
        sim_perform(handle, request);
        if (twin != NULL) {
            sim_perform(handle, &twin->request);
        }
    } else {
        sim_perform(handle, &twin->request);
        sim_perform(handle, request);
    }
    if (twin != NULL) {
        drop(twin);
    }
    return request->code;
}

static bool is_cut(const struct sim_node *node)
{
    return node->world->active[SIM_OUTAGE] > 0 || ((node->world->cut >> node->index) & 1) != 0;
}

int sim_carry(struct sim_node *node, enum sim_lane lane, struct sim_request *request)
{
    static const int codes[] = {JOBSCHED_EUNREACHABLE, JOBSCHED_EACCESS,   JOBSCHED_EREFUSED,
                                JOBSCHED_EFULL,        JOBSCHED_EDATALOST, JOBSCHED_ENOMEM};
    struct sim_world *world = node->world;
    struct sim_thread *thread = &node->threads[node->running];
    struct model_handle *handle = node->handle;
    int64_t sent_ms = world->now_ms;
    request->nonce = handle->nonce_sent[lane];
    request->epoch = world->model.now.epoch;
    thread->request = *request;
    world->requests++;
    if (strikes(world, SIM_ERRORS)) {
        return fail(node, lane, request->call, codes[sim_below(&world->random, 6)],
                    sim_below(&world->random, 50));
    }
    if (is_cut(node)) {
        return sim_chance(&world->random, 30)
                   ? fail(node, lane, request->call, JOBSCHED_EUNREACHABLE, 1)
                   : fail_unknown(node, lane, request->call, sent_ms);
    }
    if (strikes(world, SIM_LOST_REQUEST)) {
        return fail_unknown(node, lane, request->call, sent_ms);
    }
    if (strikes(world, SIM_LATE)) {
        sim_detach(node, request,
                   sent_ms + SIM_REQUEST_TIMEOUT_MS +
                       sim_scaled(&world->random, -900, 3 * SIM_REQUEST_TIMEOUT_MS));
        return fail_unknown(node, lane, request->call, sent_ms);
    }
    int64_t there_ms = latency(world), back_ms = latency(world);
    if (strikes(world, SIM_SLOW_REPLY)) {
        there_ms = 0;
        back_ms = sim_between(&world->random, SIM_REQUEST_TIMEOUT_MS / 2,
                              SIM_REQUEST_TIMEOUT_MS - SIM_NOTICE_MS);
    }
    if (there_ms + back_ms > patience(node, lane, sent_ms)) {
        return fail_unknown(node, lane, request->call, sent_ms);
    }
    pass(node, SIM_REQUEST, there_ms);
    if (thread->broken || is_cut(node) || request->epoch != world->model.now.epoch) {
        return fail_unknown(node, lane, request->call, sent_ms);
    }
    int code = arrive(node, lane, request);
    bool lost = strikes(world, SIM_LOST_REPLY);
    if (!lost) {
        pass(node, SIM_REPLY, back_ms);
        lost = thread->broken;
    }
    /* A process that stood still meanwhile finds the answer, or finds that its time is up. */
    bool late = world->now_ms - sent_ms > SIM_REQUEST_TIMEOUT_MS && sim_chance(&world->random, 50);
    return lost || late ? fail_unknown(node, lane, request->call, sent_ms) : code;
}
