/* store.c: see store.h. */
#include "bench/store.h"

#include "bench/bench.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

static void die(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, jobsched_last_error()->message);
    exit(1);
}

int64_t store_mono_ms(void *ctx)
{
    (void)ctx;
    return bench_now_ns() / 1000000;
}

int64_t store_wall_ms(void *ctx)
{
    struct timespec now;

    (void)ctx;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *allocate(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *reallocate(void *ctx, void *pointer, size_t size)
{
    (void)ctx;
    return realloc(pointer, size);
}

static void release(void *ctx, void *pointer)
{
    (void)ctx;
    free(pointer);
}

static void notice(void *notice_data, int kind, const char *message)
{
    (void)notice_data;
    (void)kind;
    (void)message;
}

void store_scheme(const char *url, char *out_scheme, size_t bytes)
{
    size_t length = strcspn(url, ":");

    (void)snprintf(out_scheme, bytes, "%.*s", (int)length, url);
}

static const jobsched_backend *find(const char *url)
{
    char scheme[32], name[128];
    const jobsched_backend *(*get)(void) = NULL;
    void *library, *address;

    store_scheme(url, scheme, sizeof scheme);
    if (strcmp(scheme, "single") == 0) {
        return jobsched_backend_single();
    }
    (void)snprintf(name, sizeof name, "%s/libjobsched-%s.so", BENCH_LIBRARIES, scheme);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    (void)snprintf(name, sizeof name, "jobsched_backend_%s", scheme);
    address = dlsym(library, name);
    if (address == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    memcpy(&get, &address, sizeof get); /* ISO C has no cast from void * to a function */
    return get();
}

void store_open(store_node *node, const char *url, const char *name_space, int64_t lease_ms)
{
    static unsigned opened;

    memset(node, 0, sizeof *node);
    node->driver = find(url);
    (void)snprintf(node->id, sizeof node->id, "%016llx%08x%08x", (unsigned long long)bench_now_ns(),
                   (unsigned)getpid(), ++opened);
    node->config = (jobsched_backend_config){
        .url = url,
        .name_space = name_space,
        .node_id = node->id,
        .node_name = "bench",
        .app_version = "",
        .lease_ms = lease_ms,
        .request_timeout_ms = TIMEOUT_MS,
        .history_count = 10,
        .history_age_ms = 86400000,
        .allocator = {sizeof(jobsched_allocator), NULL, allocate, reallocate, release},
        .clock = {sizeof(jobsched_clock), NULL, store_wall_ms, store_mono_ms},
        .notice = notice,
    };
    if (node->driver->open(&node->config, &node->backend) != 0) {
        die("open");
    }
}

void store_close(store_node *node)
{
    node->driver->close(node->backend);
    node->backend = NULL;
}

static jobsched_call call_of(int lane)
{
    return (jobsched_call){
        .lane = lane, .timeout_ms = TIMEOUT_MS, .lost_at_mono_ms = JOBSCHED_NONE};
}

void store_announce(store_node *node, store_job *jobs, size_t count)
{
    static jobsched_announcement items[JOBSCHED_BATCH_MAX];

    for (size_t from = 0; from < count; from += JOBSCHED_BATCH_MAX) {
        size_t part = count - from < JOBSCHED_BATCH_MAX ? count - from : JOBSCHED_BATCH_MAX;
        jobsched_call call = call_of(JOBSCHED_LANE_CLAIM);

        for (size_t i = 0; i < part; i++) {
            (void)snprintf(jobs[from + i].name, sizeof jobs[0].name, "job%zu", from + i);
            items[i] = (jobsched_announcement){.job = jobs[from + i].name,
                                               .definition = "schedule=@every 1ms\n"};
        }
        if (node->driver->announce(node->backend, &call, items, part) != 0) {
            die("announce");
        }
        for (size_t i = 0; i < part; i++) {
            jobs[from + i].generation = items[i].generation;
            jobs[from + i].mark_ms = items[i].mark_ms;
        }
    }
}

jobsched_claim store_claim(const store_job *job)
{
    return (jobsched_claim){.job = job->name,
                            .generation = job->generation,
                            .scheduled_ms = job->mark_ms + 1,
                            .after_ms = job->mark_ms,
                            .lease_ms = 0,
                            .kind = JOBSCHED_KIND_SCHEDULED,
                            .when_held = JOBSCHED_HELD_WAIT};
}

size_t store_ask(store_node *node, store_job *jobs, jobsched_claim *claims, size_t count,
                 size_t batch)
{
    size_t granted = 0;

    for (size_t from = 0; from < count; from += batch) {
        size_t part = count - from < batch ? count - from : batch;
        jobsched_call call = call_of(JOBSCHED_LANE_CLAIM);

        for (size_t i = 0; i < part; i++) {
            claims[from + i] = store_claim(&jobs[from + i]);
            claims[from + i].lease_ms = node->config.lease_ms;
        }
        if (node->driver->claim(node->backend, &call, claims + from, part) != 0) {
            die("claim");
        }
        for (size_t i = from; i < from + part; i++) {
            if (claims[i].answer == JOBSCHED_ANSWER_GRANTED) {
                granted++;
                jobs[i].mark_ms = claims[i].granted_ms;
                jobs[i].token = claims[i].token;
            } else if (claims[i].answer == JOBSCHED_ANSWER_MOVED ||
                       claims[i].answer == JOBSCHED_ANSWER_DONE) {
                jobs[i].mark_ms = claims[i].mark_ms;
            }
        }
    }
    return granted;
}

void store_finish(store_node *node, const store_job *jobs, size_t count, size_t batch)
{
    static jobsched_finish items[JOBSCHED_BATCH_MAX];

    for (size_t from = 0; from < count; from += batch) {
        size_t part = count - from < batch ? count - from : batch;
        jobsched_call call = call_of(JOBSCHED_LANE_CLAIM);

        for (size_t i = 0; i < part; i++) {
            items[i] = (jobsched_finish){.job = jobs[from + i].name,
                                         .note = "",
                                         .token = jobs[from + i].token,
                                         .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        if (node->driver->finish(node->backend, &call, items, part) != 0) {
            die("finish");
        }
    }
}

void store_renew(store_node *node, const store_job *jobs, size_t count)
{
    static jobsched_lease items[JOBSCHED_BATCH_MAX];
    size_t from = 0;

    do {
        size_t part = count - from < JOBSCHED_BATCH_MAX ? count - from : JOBSCHED_BATCH_MAX;
        jobsched_call call = call_of(JOBSCHED_LANE_KEEP);

        for (size_t i = 0; i < part; i++) {
            items[i] = (jobsched_lease){
                .job = jobs[from + i].name, .note = "", .token = jobs[from + i].token};
        }
        if (node->driver->renew(node->backend, &call, 0, items, part) != 0) {
            die("renew");
        }
        from += part;
    } while (from < count);
}

static int ignore(const jobsched_finding *finding, void *visit_data)
{
    (void)finding;
    (void)visit_data;
    return 0;
}

void store_reap(store_node *node)
{
    jobsched_call call = call_of(JOBSCHED_LANE_KEEP);

    if (node->driver->reap(node->backend, &call, ignore, NULL) != 0) {
        die("reap");
    }
}
