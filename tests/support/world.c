/* world.c: see the header. */
#include "support/world.h"

#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>

void world_init(struct world *world, const char *lock)
{
    memset(world, 0, sizeof *world);
    test_clock_init(&world->clock, WORLD_BEGIN_MS);
    test_memory_init(&world->memory);
    event_log_init(&world->events);
    world->node_clock = test_clock_of_node(&world->clock);
    world->allocator = test_memory_allocator(&world->memory);
    jobsched_clock backend_clock = test_clock_of_backend(&world->clock);
    fake_backend_init(&world->fake, &backend_clock);
    JOBSCHED_INIT(&world->options);
    world->options.lock = strcmp(lock, "fake:") == 0 ? world->fake.url : lock;
    world->options.backends = fake_backend_drivers();
    world->options.clock = &world->node_clock;
    world->options.allocator = &world->allocator;
    world->options.observer = event_log_observe;
    world->options.observer_data = &world->events;
    world->options.node_name = "this-node";
    world->options.name_space = "test";
    world->options.history_count = 1000000;
}

void world_open(struct world *world)
{
    assert_equal(jobsched_open(&world->options, &world->s), 0);
}

void world_start(struct world *world)
{
    (void)pthread_mutex_lock(&world->s->lock);
    world->s->state = JSI_STARTED;
    world->s->keep_now = true;
    (void)pthread_mutex_unlock(&world->s->lock);
}

void world_begin(struct world *world, const char *lock)
{
    world_init(world, lock);
    world_open(world);
    world_start(world);
}

static int body(jobsched_run *run, void *user_data)
{
    struct world_job *job = user_data;
    struct world *world = job->world;
    if (world->call_count == world->call_capacity) {
        world->call_capacity = world->call_capacity == 0 ? 256 : world->call_capacity * 2;
        world->calls = realloc(world->calls, world->call_capacity * sizeof *world->calls);
        if (world->calls == NULL) {
            abort();
        }
    }
    world->calls[world->call_count++] =
        (struct world_call){.job = job,
                            .scheduled_ms = jobsched_run_scheduled_at_ms(run),
                            .at_backend_ms = world_now(world),
                            .token = jobsched_run_token(run),
                            .attempt = jobsched_run_attempt(run),
                            .kind = jobsched_run_kind(run)};
    job->calls++;
    int result = job->body != NULL ? job->body(job, run) : job->result;
    if (result == JOBSCHED_PENDING) {
        job->pending = run;
    }
    return result;
}

static void on_stop(jobsched_run *run, int reason, void *user_data)
{
    struct world_job *job = user_data;
    (void)run;
    job->stopped++;
    job->stop_reason = reason;
}

static void on_free(void *user_data)
{
    ((struct world_job *)user_data)->freed++;
}

jobsched_job_spec world_spec(struct world *world, struct world_job *job, const char *name,
                             const char *schedule)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    job->world = world;
    job->name = name;
    spec.name = name;
    spec.schedule = schedule;
    spec.run = body;
    spec.on_stop = on_stop;
    spec.user_data = job;
    spec.user_data_free = on_free;
    return spec;
}

void world_add(struct world *world, const jobsched_job_spec *spec)
{
    if (jobsched_add(world->s, spec, NULL) != 0) {
        fail_msg("add '%s': %s", spec->name, jobsched_last_error()->message);
    }
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int64_t world_settle(struct world *world)
{
    jobsched *s = world->s;
    for (int pass = 0; pass < 1000000; pass++) {
        int64_t elect_ms = JOBSCHED_NONE;
        bool more = false;
        s->tick_again = false;
        s->elect_again = false;
        int64_t tick_ms = jsi_tick(s);
        more = jsi_elect(s, &elect_ms) || more;
        for (uint32_t i = 0; i < s->settings.workers; i++) {
            more = jsi_work(s) || more;
        }
        int64_t keep_ms = jsi_keep(s);
        while (jsi_deliver(s)) {
            more = true;
        }
        /* While the elector rests, being woken is no reason to call it. */
        bool rests = jsi_mono(s) < s->retry_at_mono_ms;
        if (!more && !s->tick_again && (!s->elect_again || rests) && !s->keep_now) {
            return earlier(tick_ms, earlier(elect_ms, keep_ms));
        }
    }
    fail_msg("the steps never come to rest");
    return 0;
}

void world_run(struct world *world, int64_t span_ms)
{
    int64_t until_ms = test_clock_mono(&world->clock) + span_ms;
    for (;;) {
        int64_t next_ms = world_settle(world);
        int64_t now_ms = test_clock_mono(&world->clock);
        if (now_ms >= until_ms) {
            return;
        }
        next_ms = next_ms <= now_ms ? now_ms + 1 : earlier(next_ms, until_ms);
        test_clock_advance(&world->clock, next_ms - now_ms);
    }
}

void world_jump(struct world *world, int64_t span_ms)
{
    test_clock_advance(&world->clock, span_ms);
    (void)world_settle(world);
}

int64_t world_now(struct world *world)
{
    return test_clock_backend(&world->clock);
}

void world_close(struct world *world)
{
    if (world->s != NULL) {
        assert_equal(jobsched_close(world->s), 0);
        world->s = NULL;
    }
    assert_equal(world->memory.live, 0);
    event_log_fini(&world->events);
    fake_backend_fini(&world->fake);
    free(world->calls);
}

size_t world_calls_of(const struct world *world, const char *name, int kind)
{
    size_t count = 0;
    for (size_t i = 0; i < world->call_count; i++) {
        count += strcmp(world->calls[i].job->name, name) == 0 &&
                 (kind < 0 || world->calls[i].kind == kind);
    }
    return count;
}

/* ---- the ledger ----------------------------------------------------------- */

static int take_row(const jobsched_run_record *record, void *user_data)
{
    struct world_ledger *ledger = user_data;
    if (ledger->count == WORLD_ROWS_MAX) {
        return 1;
    }
    jobsched_run_record *row = &ledger->rows[ledger->count++];
    *row = *record;
    row->job = row->node = row->note = row->request = NULL;
    return 0;
}

static int by_scheduled(const void *left, const void *right)
{
    const jobsched_run_record *one = left;
    const jobsched_run_record *other = right;
    return (one->scheduled_at_ms > other->scheduled_at_ms) -
           (one->scheduled_at_ms < other->scheduled_at_ms);
}

struct world_ledger world_ledger_read(struct world *world, const char *job)
{
    struct world_ledger ledger = {.rows = calloc(WORLD_ROWS_MAX, sizeof(jobsched_run_record))};
    assert_non_null(ledger.rows);
    assert_equal(jobsched_runs(world->s, job, WORLD_ROWS_MAX, take_row, &ledger), 0);
    qsort(ledger.rows, ledger.count, sizeof ledger.rows[0], by_scheduled);
    return ledger;
}

void world_ledger_free(struct world_ledger *ledger)
{
    free(ledger->rows);
    ledger->rows = NULL;
}

uint64_t world_ledger_sum(const struct world_ledger *ledger, int outcome)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        sum += ledger->rows[i].outcome == outcome ? ledger->rows[i].count : 0;
    }
    return sum;
}

void world_check_accounted(struct world *world, const char *job, const char *schedule_text,
                           int64_t after_ms, int64_t upto_ms)
{
    jobsched_schedule *schedule = NULL;
    assert_equal(jobsched_schedule_parse(schedule_text, NULL, &schedule), 0);
    struct world_ledger ledger = world_ledger_read(world, job);
    int64_t mark_ms = after_ms;
    for (size_t i = 0; i < ledger.count; i++) {
        const jobsched_run_record *row = &ledger.rows[i];
        if (row->kind == JOBSCHED_KIND_TRIGGER) {
            continue;
        }
        int64_t last_ms = 0;
        assert_equal(row->scheduled_at_ms, jobsched_schedule_next(schedule, mark_ms));
        assert_equal(jsi_schedule_count(schedule, mark_ms, row->last_at_ms, INT64_MAX, &last_ms),
                     row->count);
        assert_equal(last_ms, row->last_at_ms);
        assert_true(row->outcome != JOBSCHED_OUTCOME_WAITING);
        mark_ms = row->last_at_ms;
    }
    int64_t next_ms = jobsched_schedule_next(schedule, mark_ms);
    if (next_ms <= upto_ms) {
        fail_msg("occurrence %lld of '%s' is not in the ledger", (long long)next_ms, job);
    }
    world_ledger_free(&ledger);
    jobsched_schedule_free(schedule);
}
