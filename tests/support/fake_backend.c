/* fake_backend.c: see the header. Locks: fake->mutex, never over the inner call or a hook. */
#include "support/fake_backend.h"

#include "support/test_clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t real_ms(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t real_wall(void *ctx)
{
    (void)ctx;
    return real_ms(CLOCK_REALTIME);
}

static int64_t real_mono(void *ctx)
{
    (void)ctx;
    return real_ms(CLOCK_MONOTONIC);
}

void fake_backend_init(struct fake_backend *fake, const jobsched_clock *clock)
{
    memset(fake, 0, sizeof *fake);
    (void)pthread_mutex_init(&fake->mutex, NULL);
    fake->clock = clock != NULL ? *clock
                                : (jobsched_clock){.struct_size = sizeof(jobsched_clock),
                                                   .wall_ms = real_wall,
                                                   .mono_ms = real_mono};
    atomic_init(&fake->lost_at_mono_ms, JOBSCHED_NONE);
    atomic_init(&fake->watch_fd, -1);
    atomic_init(&fake->ended_mono_ms, JOBSCHED_NONE);
    fake->asked = calloc(FAKE_ASKED_MAX, sizeof *fake->asked);
    (void)snprintf(fake->url, sizeof fake->url, "fake:%llu", (unsigned long long)(uintptr_t)fake);
}

void fake_backend_fini(struct fake_backend *fake)
{
    free(fake->asked);
    (void)pthread_mutex_destroy(&fake->mutex);
}

void fake_backend_fail(struct fake_backend *fake, enum fake_operation operation, int code,
                       int calls, bool lose)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->failures_left[operation] = calls;
    fake->failure_code[operation] = code;
    fake->loses_reply[operation] = lose;
    (void)pthread_mutex_unlock(&fake->mutex);
}

void fake_backend_find(struct fake_backend *fake, const jobsched_finding *finding)
{
    (void)pthread_mutex_lock(&fake->mutex);
    if (fake->finding_count < FAKE_FINDINGS_MAX) {
        fake->findings[fake->finding_count++] = *finding;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}

uint64_t fake_backend_calls(struct fake_backend *fake, enum fake_operation operation)
{
    return atomic_load(&fake->calls[operation]);
}

/* What is to happen to one call. */
struct fate {
    int code; /* 0: it succeeds */
    bool happens;
};

static struct fate begin(struct fake_backend *fake, enum fake_operation operation, void *items,
                         size_t count)
{
    (void)atomic_fetch_add(&fake->calls[operation], 1);
    (void)atomic_fetch_add(&fake->items[operation], count);
    if (count > atomic_load(&fake->largest[operation])) {
        atomic_store(&fake->largest[operation], count);
    }
    if (fake->before != NULL) {
        fake->before(fake, operation, items, count);
    }
    struct fate fate = {.code = 0, .happens = true};
    (void)pthread_mutex_lock(&fake->mutex);
    if (fake->failures_left[operation] > 0) {
        if (fake->failures_left[operation] != FAKE_FOR_EVER) {
            fake->failures_left[operation]--;
        }
        fate.code = fake->failure_code[operation];
        fate.happens = fake->loses_reply[operation];
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return fate;
}

static int end(struct fake_backend *fake, enum fake_operation operation, void *items, size_t count,
               struct fate fate, int inner_code)
{
    if (fate.code == 0 && inner_code == 0 && fake->after != NULL) {
        fake->after(fake, operation, items, count);
    }
    return fate.code != 0 ? jobsched_fail(fate.code, EIO, "the script says so") : inner_code;
}

static int end_keep(struct fake_backend *fake, enum fake_operation operation, jobsched_call *call,
                    void *items, size_t count, struct fate fate, int inner_code)
{
    int code = end(fake, operation, items, count, fate, inner_code);
    if (code != 0) {
        call->lost_at_mono_ms = atomic_load(&fake->lost_at_mono_ms);
    }
    return code;
}

static int open_fake(const jobsched_backend_config *config, void **out_backend)
{
    struct fake_backend *fake =
        (struct fake_backend *)(uintptr_t)strtoull(strchr(config->url, ':') + 1, NULL, 10);
    struct fate fate = begin(fake, FAKE_OPEN, NULL, 0);
    if (fate.code != 0) {
        return jobsched_fail(fate.code, EIO, "the script says so");
    }
    jobsched_backend_config inner = *config;
    inner.url = "single:";
    inner.clock = fake->clock;
    int code = jobsched_backend_single()->open(&inner, &fake->inner);
    if (code == 0) {
        *out_backend = fake;
    }
    return code;
}

static void close_fake(void *backend)
{
    struct fake_backend *fake = backend;
    if (fake != NULL) {
        (void)begin(fake, FAKE_CLOSE, NULL, 0);
        jobsched_backend_single()->close(fake->inner);
        fake->inner = NULL;
    }
}

static int announce(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_ANNOUNCE, items, count);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->announce(fake->inner, call, items, count);
    }
    return end(fake, FAKE_ANNOUNCE, items, count, fate, code);
}

static void note_asked(struct fake_backend *fake, const jobsched_claim *items, size_t count,
                       bool replied)
{
    (void)pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < count && fake->asked_count < FAKE_ASKED_MAX; i++) {
        struct fake_asked *asked = &fake->asked[fake->asked_count++];
        (void)snprintf(asked->job, sizeof asked->job, "%s", items[i].job);
        (void)snprintf(asked->request, sizeof asked->request, "%s",
                       items[i].request == NULL ? "" : items[i].request);
        asked->claim = items[i];
        asked->claim.job = asked->claim.request = NULL;
        asked->replied = replied;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}

static int claim(void *backend, jobsched_call *call, jobsched_claim *items, size_t count)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_CLAIM, items, count);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->claim(fake->inner, call, items, count);
    }
    code = end(fake, FAKE_CLAIM, items, count, fate, code);
    note_asked(fake, items, count, code == 0);
    if (fate.code != 0) {
        /* What a caller must not look at after a failure is made to hurt. */
        for (size_t i = 0; i < count; i++) {
            items[i].answer = JOBSCHED_ANSWER_GRANTED;
            items[i].token = UINT64_MAX;
            items[i].mark_ms = JOBSCHED_NONE;
        }
    }
    return code;
}

static int finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_FINISH, items, count);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->finish(fake->inner, call, items, count);
    }
    return end(fake, FAKE_FINISH, items, count, fate, code);
}

static int renew(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count)
{
    struct fake_backend *fake = backend;
    atomic_store(&fake->published_offset_ms, clock_offset_ms);
    struct fate fate = begin(fake, FAKE_RENEW, items, count);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->renew(fake->inner, call, clock_offset_ms, items, count);
    }
    return end_keep(fake, FAKE_RENEW, call, items, count, fate, code);
}

static int reap(void *backend, jobsched_call *call,
                int (*visit)(const jobsched_finding *finding, void *visit_data), void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_REAP, NULL, 0);
    int code = 0;
    if (fate.happens) {
        (void)pthread_mutex_lock(&fake->mutex);
        jobsched_finding findings[FAKE_FINDINGS_MAX];
        size_t count = fake->finding_count;
        memcpy(findings, fake->findings, count * sizeof findings[0]);
        fake->finding_count = 0;
        (void)pthread_mutex_unlock(&fake->mutex);
        int ends = 0;
        for (size_t i = 0; i < count && !ends; i++) {
            ends = visit(&findings[i], visit_data);
        }
        code = jobsched_backend_single()->reap(fake->inner, call, visit, visit_data);
    }
    return end_keep(fake, FAKE_REAP, call, NULL, 0, fate, code);
}

static int control(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_CONTROL, NULL, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->control(fake->inner, call, command, out_result);
    }
    return end(fake, FAKE_CONTROL, NULL, 0, fate, code);
}

static int runs(void *backend, jobsched_call *call, const char *job, uint64_t limit,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_RUNS, NULL, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->runs(fake->inner, call, job, limit, visit, visit_data);
    }
    return end(fake, FAKE_RUNS, NULL, 0, fate, code);
}

static int find(void *backend, jobsched_call *call, const char *job, const char *request,
                jobsched_run_visit_fn visit, void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_FIND, NULL, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->find(fake->inner, call, job, request, visit, visit_data);
    }
    return end(fake, FAKE_FIND, NULL, 0, fate, code);
}

static int jobs(void *backend, jobsched_call *call, const char *job, jobsched_job_visit_fn visit,
                void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_JOBS, (void *)(uintptr_t)job, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->jobs(fake->inner, call, job, visit, visit_data);
    }
    return end(fake, FAKE_JOBS, NULL, 0, fate, code);
}

static int nodes(void *backend, jobsched_call *call, jobsched_node_visit_fn visit, void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_NODES, NULL, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->nodes(fake->inner, call, visit, visit_data);
    }
    return end(fake, FAKE_NODES, NULL, 0, fate, code);
}

static int withdraw(void *backend, jobsched_call *call, const char *const *names, size_t count)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_WITHDRAW, NULL, count);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->withdraw(fake->inner, call, names, count);
    }
    return end(fake, FAKE_WITHDRAW, NULL, count, fate, code);
}

static int check(void *backend, jobsched_call *call, jobsched_check_visit_fn visit,
                 void *visit_data)
{
    struct fake_backend *fake = backend;
    struct fate fate = begin(fake, FAKE_CHECK, NULL, 0);
    int code = 0;
    if (fate.happens) {
        code = jobsched_backend_single()->check(fake->inner, call, visit, visit_data);
    }
    return end(fake, FAKE_CHECK, NULL, 0, fate, code);
}

static int watch(void *backend)
{
    struct fake_backend *fake = backend;
    return atomic_load(&fake->watch_fd);
}

static int64_t vouch(void *backend)
{
    struct fake_backend *fake = backend;
    (void)atomic_fetch_add(&fake->vouch_calls, 1);
    if (fake->vouch_hook != NULL) {
        fake->vouch_hook(fake);
    }
    int64_t grace_ms = atomic_load(&fake->vouch_grace_ms);
    int64_t ended_ms = atomic_load(&fake->ended_mono_ms);
    int64_t now_ms = fake->clock.mono_ms(fake->clock.ctx);
    return grace_ms == 0 ? JOBSCHED_NONE : (ended_ms < now_ms ? ended_ms : now_ms) + grace_ms;
}

const jobsched_backend *const *fake_backend_drivers(void)
{
    static const jobsched_backend driver = {.abi = JOBSCHED_BACKEND_ABI,
                                            .capabilities = JOBSCHED_CAPABILITY_CLUSTER,
                                            .scheme = "fake",
                                            .open = open_fake,
                                            .close = close_fake,
                                            .announce = announce,
                                            .claim = claim,
                                            .finish = finish,
                                            .renew = renew,
                                            .reap = reap,
                                            .control = control,
                                            .runs = runs,
                                            .find = find,
                                            .jobs = jobs,
                                            .nodes = nodes,
                                            .withdraw = withdraw,
                                            .check = check,
                                            .watch = watch,
                                            .vouch = vouch};
    static const jobsched_backend *const drivers[] = {&driver, NULL};
    return drivers;
}
