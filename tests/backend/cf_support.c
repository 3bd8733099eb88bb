/* cf_support.c: nodes, clocks, calls and children for the conformance tests. */
#include "cf_support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In a forked child there is no test to fail: it ends, and its parent sees that. */
static bool in_child;

static void give_up(const char *file, int line)
{
    if (in_child) {
        (void)fprintf(stderr, "child: %s:%d\n", file, line);
        _exit(70);
    }
    _fail(file, line);
}

void cf_equal_at(int64_t actual, int64_t expected, const char *actual_text,
                 const char *expected_text, const char *file, int line)
{
    if (actual != expected) {
        print_error("%s is %lld, not %s (%lld)\n", actual_text, (long long)actual, expected_text,
                    (long long)expected);
        give_up(file, line);
    }
}

void cf_true_at(int condition, const char *text, const char *file, int line)
{
    if (!condition) {
        print_error("not so: %s\n", text);
        give_up(file, line);
    }
}

void cf_ok_at(int code, const char *text, const char *file, int line)
{
    if (code != JOBSCHED_OK) {
        print_error("%s: %s: %s\n", text, jobsched_code_name(code), jobsched_last_error()->message);
        give_up(file, line);
    }
}

void cf_answer_at(int answer, int expected, const char *file, int line)
{
    if (answer != expected) {
        print_error("the answer is '%s', not '%s'\n", jobsched_answer_name(answer),
                    jobsched_answer_name(expected));
        give_up(file, line);
    }
}

static int64_t read_ms(clockid_t id)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t cf_real_mono_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

static int64_t wall_ms(void *ctx)
{
    struct cf_clock *clock = ctx;
    return read_ms(CLOCK_REALTIME) + atomic_load(&clock->wall_offset_ms);
}

static int64_t mono_ms(void *ctx)
{
    struct cf_clock *clock = ctx;
    return read_ms(CLOCK_MONOTONIC) + atomic_load(&clock->mono_offset_ms);
}

void cf_pause(void)
{
    (void)poll(NULL, 0, 1);
}

static void *plain_allocate(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *plain_reallocate(void *ctx, void *pointer, size_t size)
{
    (void)ctx;
    return realloc(pointer, size);
}

static void plain_release(void *ctx, void *pointer)
{
    (void)ctx;
    free(pointer);
}

static void count_notice(void *notice_data, int kind, const char *message)
{
    struct cf_node *node = notice_data;
    (void)message;
    atomic_fetch_add(&node->losses, kind == JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST);
    atomic_fetch_add(&node->warnings, kind == JOBSCHED_EVENT_BACKEND_WARNING);
    atomic_fetch_add(&node->notices, 1);
}

static uint64_t random_number(void)
{
    uint64_t number = 0;
    cf_equal(getrandom(&number, sizeof number, 0), sizeof number);
    return number;
}

int cf_setup(void **state, const jobsched_conformance_subject *subject)
{
    struct cf_world *world = calloc(1, sizeof *world);
    if (world == NULL) {
        return -1;
    }
    world->subject = subject;
    world->driver = subject->driver;
    if (subject->make_url(subject->data, world->url, sizeof world->url) != 0) {
        free(world);
        return -1;
    }
    /* Nobody else has this namespace, also when the store outlives the suite. */
    (void)snprintf(world->name_space, sizeof world->name_space, "conformance-%016llx",
                   (unsigned long long)random_number());
    *state = world;
    return 0;
}

int cf_teardown(void **state)
{
    struct cf_world *world = *state;
    for (size_t i = 0; i < CF_CHILDREN_MAX; i++) {
        if (world->children[i] > 0) {
            cf_kill(world, world->children[i]);
        }
    }
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] != NULL) {
            cf_close(world, world->nodes[i]);
        }
    }
    free(world);
    return 0;
}

void cf_config(struct cf_node *node, const struct cf_world *world, const char *name,
               const struct cf_settings *settings)
{
    static const struct cf_settings usual;
    const struct cf_settings *chosen = settings == NULL ? &usual : settings;
    node->driver = world->driver;
    (void)snprintf(node->url, sizeof node->url, "%s", world->url);
    (void)snprintf(node->name_space, sizeof node->name_space, "%s",
                   chosen->name_space == NULL ? world->name_space : chosen->name_space);
    (void)snprintf(node->name, sizeof node->name, "%s", name);
    (void)snprintf(node->id, sizeof node->id, "%016llx%016llx", (unsigned long long)random_number(),
                   (unsigned long long)random_number());
    jobsched_backend_config *config = &node->config;
    config->url = node->url;
    config->name_space = node->name_space;
    config->node_id = node->id;
    config->node_name = node->name;
    config->app_version = "1.0";
    config->lease_ms = CF_LEASE_MS;
    config->request_timeout_ms = CF_TIMEOUT_MS;
    config->history_count = chosen->history_count == 0 ? 100000 : chosen->history_count;
    config->history_age_ms = chosen->history_age_ms == 0 ? 86400000 : chosen->history_age_ms;
    config->allocator = (jobsched_allocator){.struct_size = sizeof(jobsched_allocator),
                                             .allocate = plain_allocate,
                                             .reallocate = plain_reallocate,
                                             .release = plain_release};
    if (chosen->allocator != NULL) {
        config->allocator = *chosen->allocator;
    }
    config->clock = (jobsched_clock){.struct_size = sizeof(jobsched_clock),
                                     .ctx = &node->clock,
                                     .wall_ms = wall_ms,
                                     .mono_ms = mono_ms};
    config->control_only = chosen->control_only;
    config->notice = count_notice;
    config->notice_data = node;
}

struct cf_node *cf_open_with(struct cf_world *world, const char *name,
                             const struct cf_settings *settings)
{
    struct cf_node *node = calloc(1, sizeof *node);
    cf_true(node != NULL);
    cf_config(node, world, name, settings);
    int code = node->driver->open(&node->config, &node->backend);
    if (code != JOBSCHED_OK) {
        free(node);
    }
    cf_ok(code);
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] == NULL) {
            world->nodes[i] = node;
            return node;
        }
    }
    fail_msg("a test opened more than %d nodes", CF_NODES_MAX);
    return NULL;
}

struct cf_node *cf_open(struct cf_world *world, const char *name)
{
    return cf_open_with(world, name, NULL);
}

void cf_close(struct cf_world *world, struct cf_node *node)
{
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] == node) {
            world->nodes[i] = NULL;
        }
    }
    node->driver->close(node->backend);
    free(node);
}

jobsched_call cf_call(int lane)
{
    return (jobsched_call){.lane = lane, .timeout_ms = CF_TIMEOUT_MS};
}

int64_t cf_now(struct cf_node *node)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->renew(node->backend, &call, 0, NULL, 0));
    return call.now_ms;
}

void cf_wait_until(struct cf_node *node, int64_t instant_ms)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (cf_now(node) < instant_ms) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

jobsched_announcement cf_announce(struct cf_node *node, const char *job, const char *definition,
                                  uint64_t version)
{
    jobsched_announcement item = {.job = job, .definition = definition, .version = version};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, &item, 1));
    cf_true(call.now_ms > 0);
    return item;
}

struct cf_job cf_job(struct cf_node *node, const char *name, int64_t due)
{
    jobsched_announcement item = cf_announce(node, name, "every 1 ms", 0);
    if (due > 0) {
        cf_wait_until(node, item.mark_ms + due);
    }
    return (struct cf_job){.name = name, .generation = item.generation, .mark_ms = item.mark_ms};
}

jobsched_claim cf_at(const struct cf_job *job, int64_t k)
{
    return (jobsched_claim){.job = job->name,
                            .generation = job->generation,
                            .scheduled_ms = job->mark_ms + k,
                            .after_ms = job->mark_ms + k - 1,
                            .lease_ms = CF_LEASE_MS,
                            .kind = JOBSCHED_KIND_SCHEDULED,
                            .when_held = JOBSCHED_HELD_WAIT,
                            .recover = JOBSCHED_RECOVER_LEAVE};
}

jobsched_claim cf_range(const struct cf_job *job, int64_t first, int64_t last, int32_t outcome)
{
    jobsched_claim claim = cf_at(job, last);
    claim.kind = JOBSCHED_CLAIM_SKIP;
    claim.after_ms = job->mark_ms + first - 1;
    claim.skip_first_ms = job->mark_ms + first;
    claim.skip_count = (uint64_t)(last - first + 1);
    claim.skip_outcome = outcome;
    return claim;
}

void cf_ask(struct cf_node *node, jobsched_claim *claim)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    for (;;) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claim, 1));
        cf_true(call.now_ms > 0);
        cf_true(claim->answer != JOBSCHED_ANSWER_NONE);
        if (claim->answer != JOBSCHED_ANSWER_BUSY) {
            return;
        }
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

jobsched_claim cf_grant_at(struct cf_node *node, const struct cf_job *job, int64_t k,
                           const char *file, int line)
{
    jobsched_claim claim = cf_at(job, k);
    cf_ask(node, &claim);
    if (claim.answer == JOBSCHED_ANSWER_MOVED) {
        claim.after_ms = claim.mark_ms;
        cf_ask(node, &claim);
    }
    cf_answer_at(claim.answer, JOBSCHED_ANSWER_GRANTED, file, line);
    return claim;
}

int cf_finish(struct cf_node *node, const char *job, uint64_t token, int outcome)
{
    jobsched_finish item = {.job = job, .note = "", .token = token, .outcome = outcome};
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->finish(node->backend, &call, &item, 1));
    return item.answer;
}

int cf_renew(struct cf_node *node, const char *job, uint64_t token)
{
    jobsched_lease item = {.job = job, .note = "", .token = token};
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->renew(node->backend, &call, 0, &item, 1));
    return item.answer;
}

int cf_control(struct cf_node *node, int verb, const char *job, const char *request,
               jobsched_control_result *out_result)
{
    jobsched_control_result ignored;
    jobsched_control_result *result = out_result == NULL ? &ignored : out_result;
    JOBSCHED_INIT(result);
    jobsched_command command = {.verb = verb, .job = job, .request = request};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    return node->driver->control(node->backend, &call, &command, result);
}

static const char *keep(char *into, size_t bytes, const char *text)
{
    (void)snprintf(into, bytes, "%s", text);
    return into;
}

struct reading {
    struct cf_row *rows;
    struct cf_found *found;
    size_t count, capacity;
};

static int keep_row(const jobsched_run_record *record, void *user_data)
{
    struct reading *reading = user_data;
    if (reading->count < reading->capacity) {
        struct cf_row *row = &reading->rows[reading->count];
        row->record = *record;
        row->record.job = keep(row->job, sizeof row->job, record->job);
        row->record.node = keep(row->node, sizeof row->node, record->node);
        row->record.note = keep(row->note, sizeof row->note, record->note);
        row->record.request = keep(row->request, sizeof row->request, record->request);
    }
    reading->count++;
    return 0;
}

size_t cf_rows(struct cf_node *node, const char *job, struct cf_row *rows, size_t capacity)
{
    struct reading reading = {.rows = rows, .capacity = capacity};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->runs(node->backend, &call, job, capacity + 1, keep_row, &reading));
    cf_true(reading.count <= capacity);
    return reading.count;
}

static int keep_found(const jobsched_finding *finding, void *visit_data)
{
    struct reading *reading = visit_data;
    if (reading->count < reading->capacity) {
        struct cf_found *found = &reading->found[reading->count];
        found->finding = *finding;
        found->finding.job = keep(found->job, sizeof found->job, finding->job);
        found->finding.node =
            keep(found->node, sizeof found->node, finding->node == NULL ? "" : finding->node);
        found->finding.request = keep(found->request, sizeof found->request,
                                      finding->request == NULL ? "" : finding->request);
    }
    reading->count++;
    return 0;
}

size_t cf_reap(struct cf_node *node, struct cf_found *found, size_t capacity)
{
    struct reading reading = {.found = found, .capacity = capacity};
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    cf_ok(node->driver->reap(node->backend, &call, keep_found, &reading));
    cf_true(reading.count <= capacity);
    return reading.count;
}

struct cf_row *cf_newest(struct cf_node *node, const char *job, struct cf_row *row)
{
    struct reading reading = {.rows = row, .capacity = 1};
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(node->driver->runs(node->backend, &call, job, 1, keep_row, &reading));
    cf_equal(reading.count, 1);
    return row;
}

uint64_t cf_mark(struct cf_node *node, const struct cf_job *job)
{
    /* A claim of the mark's past changes nothing and tells the mark. */
    jobsched_claim claim = cf_at(job, 0);
    cf_ask(node, &claim);
    cf_answer(claim, DONE);
    return (uint64_t)(claim.mark_ms - job->mark_ms);
}

pid_t cf_fork(struct cf_world *world)
{
    pid_t child = fork();
    cf_true(child >= 0);
    if (child == 0) {
        in_child = true;
        /* The parent's handles are not to be used, but a leak checker must find them. */
        static struct cf_node *parents[CF_NODES_MAX];
        memcpy(parents, world->nodes, sizeof parents);
        memset(world->nodes, 0, sizeof world->nodes);
        memset(world->children, 0, sizeof world->children);
    } else {
        for (size_t i = 0; i < CF_CHILDREN_MAX; i++) {
            if (world->children[i] == 0) {
                world->children[i] = child;
                return child;
            }
        }
        (void)kill(child, SIGKILL);
        fail_msg("a test forked more than %d children", CF_CHILDREN_MAX);
    }
    return child;
}

int cf_wait(struct cf_world *world, pid_t child)
{
    int status = 0;
    pid_t waited = waitpid(child, &status, 0);
    for (size_t i = 0; i < CF_CHILDREN_MAX; i++) {
        if (world->children[i] == child) {
            world->children[i] = 0;
        }
    }
    return waited == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void cf_kill(struct cf_world *world, pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)cf_wait(world, child);
}
