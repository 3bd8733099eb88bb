/* backend.c: see backend.h. */
#include "fuzz/backend.h"

#include <jobsched.h>

#include <string.h>

enum { ITEMS = 3, RUNS_LIMIT = 3 };

/* Time passes by being looked at. */
static int64_t clock_ms;

static int64_t tell_ms(void *ctx)
{
    (void)ctx;
    return ++clock_ms;
}

void fuzz_pass_ms(int64_t span_ms)
{
    clock_ms += span_ms;
}

const void *fuzz_store;

static void *allocate(void *ctx, size_t size)
{
    void *block = malloc(size);

    (void)ctx;
    fuzz_store = fuzz_store == NULL ? block : fuzz_store;
    return block;
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

static void check_line(const char *text)
{
    CHECK(text[0] != '\0');
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        CHECK(*at >= 0x20 && *at != 0x7f);
        CHECK(*at != 0xc2 || at[1] >= 0xa0);
    }
}

static void check_notice(void *notice_data, int kind, const char *message)
{
    (void)notice_data;
    CHECK(kind == JOBSCHED_EVENT_BACKEND_NOTICE || kind == JOBSCHED_EVENT_BACKEND_WARNING ||
          kind == JOBSCHED_EVENT_BACKEND_MAY_HAVE_LOST || kind == JOBSCHED_EVENT_NOT_ALONE);
    CHECK(message[0] != '\0'); /* the engine cleans what it passes on */
}

void fuzz_check_error(int code)
{
    const jobsched_error *error = jobsched_last_error();

    CHECK(code >= JOBSCHED_ELEASELOST && code < 0);
    CHECK(error->code == code);
    check_line(error->message);
}

int fuzz_part(struct fuzz_input *input, struct fuzz_input *out_part)
{
    const uint8_t *end = input->size == 0 ? NULL : memchr(input->data, FUZZ_SEPARATOR, input->size);

    *out_part = *input;
    if (end != NULL) {
        out_part->size = (size_t)(end - input->data);
    }
    input->data += out_part->size + (end != NULL);
    input->size -= out_part->size + (end != NULL);
    return out_part->data != NULL && (out_part->size > 0 || end != NULL);
}

/* What visitors are asked to do, and what they have seen. */
struct visits {
    size_t seen, stop_at;
    size_t most; /* 0: as many as the server says, which is the one to count */
    int stopped;
};

static int count_visit(struct visits *visits)
{
    CHECK(!visits->stopped);
    visits->seen++;
    CHECK(visits->most == 0 || visits->seen <= visits->most);
    visits->stopped = visits->seen == visits->stop_at;
    return visits->stopped;
}

static int on_finding(const jobsched_finding *finding, void *data)
{
    CHECK(finding->job != NULL && finding->node != NULL && finding->request != NULL);
    return count_visit(data);
}

static int on_run(const jobsched_run_record *record, void *data)
{
    CHECK(record->job != NULL && record->node != NULL && record->note != NULL);
    return count_visit(data);
}

static int on_job(const jobsched_job_record *record, void *data)
{
    CHECK(record->job != NULL && record->definition != NULL && record->schedule != NULL);
    CHECK(record->timezone != NULL && record->last_node != NULL && record->running_node != NULL);
    return count_visit(data);
}

static int on_node(const jobsched_node_record *record, void *data)
{
    CHECK(record->id != NULL && record->name != NULL && record->app_version != NULL);
    return count_visit(data);
}

static int on_check(const jobsched_check_record *record, void *data)
{
    CHECK(record->id != NULL && record->message != NULL);
    return count_visit(data);
}

static int claim(const jobsched_backend *driver, void *backend, jobsched_call *call)
{
    jobsched_claim items[ITEMS];
    int result;

    memset(items, 0, sizeof items);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].job = i == 0 ? "a" : "b";
        items[i].scheduled_ms = 1000;
        items[i].lease_ms = 30000;
        items[i].kind = i == 0   ? JOBSCHED_KIND_SCHEDULED
                        : i == 1 ? JOBSCHED_KIND_TRIGGER
                                 : JOBSCHED_CLAIM_SKIP;
        items[i].request = i == 1 ? "request" : NULL;
        items[i].skip_outcome = JOBSCHED_OUTCOME_SKIPPED_MISFIRE;
    }
    result = driver->claim(backend, call, items, ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        CHECK(memchr(items[i].holder, '\0', sizeof items[i].holder) != NULL);
    }
    return result;
}

static int end_runs(const jobsched_backend *driver, void *backend, jobsched_call *call, int finish)
{
    jobsched_finish ends[ITEMS];
    jobsched_lease leases[ITEMS];

    memset(ends, 0, sizeof ends);
    memset(leases, 0, sizeof leases);
    for (size_t i = 0; i < ITEMS; i++) {
        ends[i].job = leases[i].job = i == 0 ? "a" : "b";
        ends[i].note = leases[i].note = "";
        ends[i].token = leases[i].token = i + 1;
        ends[i].outcome = JOBSCHED_OUTCOME_SUCCEEDED;
    }
    return finish ? driver->finish(backend, call, ends, ITEMS)
                  : driver->renew(backend, call, 5, leases, ITEMS);
}

static int announce(const jobsched_backend *driver, void *backend, jobsched_call *call, int choice)
{
    jobsched_announcement items[ITEMS];
    int result;

    memset(items, 0, sizeof items);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].job = i == 0 ? "a" : "b";
        items[i].definition = "schedule=@daily\n";
        items[i].replace = (choice + (int)i) % 3;
        items[i].replaces = 1;
        items[i].after_ms = 1000;
        items[i].before_ms = choice % 2 == 0 ? JOBSCHED_NONE : 2000;
    }
    result = driver->announce(backend, call, items, ITEMS);
    for (size_t i = 0; result == 0 && i < ITEMS; i++) {
        CHECK(items[i].pending == 0 || items[i].pending == 1);
        CHECK(!items[i].pending || !items[i].in_force);
        CHECK(!items[i].pending || items[i].replace != JOBSCHED_REPLACE_ANYWAY);
    }
    return result;
}

static int control(const jobsched_backend *driver, void *backend, jobsched_call *call, int verb)
{
    const jobsched_command command = {.verb = verb, .job = "a", .request = "request"};
    jobsched_control_result result;
    int code;

    JOBSCHED_INIT(&result);
    code = driver->control(backend, call, &command, &result);
    CHECK(memchr(result.node, '\0', sizeof result.node) != NULL);
    return code;
}

static int read_store(const jobsched_backend *driver, void *backend, jobsched_call *call, int what,
                      struct visits *visits)
{
    /* In SQL the limits are a part of the statement. */
    int sql = strcmp(driver->scheme, "postgresql") == 0;

    switch (what) {
    case 0:
        visits->most = sql ? 0 : RUNS_LIMIT;
        return driver->runs(backend, call, "a", RUNS_LIMIT, on_run, visits);
    case 1:
        visits->most = 1;
        return driver->find == NULL ? 0
                                    : driver->find(backend, call, "a", "request", on_run, visits);
    case 2:
        return driver->jobs == NULL ? 0 : driver->jobs(backend, call, NULL, on_job, visits);
    case 3:
        visits->most = sql ? 0 : 1;
        return driver->jobs == NULL ? 0 : driver->jobs(backend, call, "a", on_job, visits);
    case 4:
        return driver->nodes == NULL ? 0 : driver->nodes(backend, call, on_node, visits);
    default:
        return driver->check == NULL ? 0 : driver->check(backend, call, on_check, visits);
    }
}

static int operate(const jobsched_backend *driver, void *backend, uint8_t choice)
{
    static const char *const names[] = {"a", "b"};
    struct visits visits = {.stop_at = choice / 16};
    jobsched_call call = {.timeout_ms = 1000, .lost_at_mono_ms = JOBSCHED_NONE};
    int what = choice % 16;

    call.grants_max = choice / 64;
    switch (what) {
    case 0:
        return announce(driver, backend, &call, choice / 16);
    case 1:
        return claim(driver, backend, &call);
    case 2:
        return end_runs(driver, backend, &call, 1);
    case 3:
        call.lane = JOBSCHED_LANE_KEEP;
        return end_runs(driver, backend, &call, 0);
    case 4:
        call.lane = JOBSCHED_LANE_KEEP;
        visits.most = strcmp(driver->scheme, "postgresql") == 0 ? 0 : JOBSCHED_BATCH_MAX;
        return driver->reap(backend, &call, on_finding, &visits);
    case 5:
        return driver->withdraw == NULL ? 0 : driver->withdraw(backend, &call, names, 2);
    case 6:
    case 7:
    case 8:
    case 9:
        call.lane = JOBSCHED_LANE_ADMIN;
        return control(driver, backend, &call,
                       what < 9 ? what - 5 : JOBSCHED_VERB_CANCEL + choice / 16 % 2);
    default:
        call.lane = JOBSCHED_LANE_ADMIN;
        return read_store(driver, backend, &call, what - 10, &visits);
    }
}

int fuzz_backend(const jobsched_backend *driver, const char *url, struct fuzz_input *input)
{
    uint8_t choices[FUZZ_OPERATIONS];
    void *backend = NULL;
    const jobsched_backend_config config = {
        .url = url,
        .name_space = "fuzz",
        .node_id = "0123456789abcdef0123456789abcdef",
        .node_name = "node",
        .app_version = "1",
        .lease_ms = 30000,
        .request_timeout_ms = 1000,
        .history_count = 10,
        .history_age_ms = 1000,
        .allocator = {.struct_size = sizeof(jobsched_allocator),
                      .allocate = allocate,
                      .reallocate = reallocate,
                      .release = release},
        .clock = {.struct_size = sizeof(jobsched_clock), .wall_ms = tell_ms, .mono_ms = tell_ms},
        .notice = check_notice,
    };
    int result;

    for (size_t i = 0; i < FUZZ_OPERATIONS; i++) {
        choices[i] = fuzz_byte(input);
    }
    clock_ms = 1000000;
    fuzz_store = NULL;
    result = driver->open(&config, &backend);
    CHECK((result == 0) == (backend != NULL));
    if (result != 0) {
        fuzz_check_error(result);
        return 0;
    }
    for (size_t i = 0; i < FUZZ_OPERATIONS; i++) {
        result = operate(driver, backend, choices[i]);
        if (result != 0) {
            fuzz_check_error(result);
        }
        if (driver->watch != NULL) {
            (void)driver->watch(backend);
        }
    }
    driver->close(backend);
    return 1;
}
