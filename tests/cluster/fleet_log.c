/* fleet_log.c: what the processes of a cluster have written down, in their log and in the ledger,
 * waiting for it, and the judgement. Locks: none, one thread. */
#include "fleet.h"

#include <stdlib.h>
#include <unistd.h>

enum { POLL_MS = 10 };

/* ---- the log -------------------------------------------------------------------- */

static void account(fleet *f, const record *entry)
{
    bool began = entry->what == RECORD_START;
    bool skipped = entry->what == RECORD_EVENT && entry->event == JOBSCHED_EVENT_SKIPPED;
    for (size_t i = 0; (began || skipped) && i < f->job_count; i++) {
        if (strcmp(f->jobs[i].name, entry->job) == 0 && entry->last_ms > f->accounted_ms[i]) {
            f->accounted_ms[i] = entry->last_ms;
        }
    }
}

void fleet_read_log(fleet *f)
{
    for (;;) {
        if (f->record_capacity - f->record_count < 1024) {
            f->record_capacity = f->record_capacity * 2 + 4096;
            f->records = realloc(f->records, f->record_capacity * sizeof(record));
            assert_non_null(f->records);
        }
        record *end = &f->records[f->record_count];
        off_t offset = (off_t)(f->record_count * sizeof(record));
        ssize_t got = pread(f->log_fd, end, 1024 * sizeof(record), offset);
        size_t count = got < 0 ? 0 : (size_t)got / sizeof(record);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(end[i].magic, RECORD_MAGIC);
            account(f, &end[i]);
        }
        f->record_count += count;
        if (count == 0) {
            return;
        }
    }
}

void fleet_wait(fleet *f, const char *what, int64_t timeout_ms, fleet_condition_fn condition,
                void *data)
{
    int64_t until_ms = fleet_mono_ms() + timeout_ms;
    for (;;) {
        fleet_read_log(f);
        if (condition(f, data)) {
            return;
        }
        if (fleet_mono_ms() >= until_ms) {
            fail_msg("not within %lld ms: %s", (long long)timeout_ms, what);
        }
        fleet_nap_ms(POLL_MS);
    }
}

static bool is_accounted(fleet *f, void *data)
{
    int64_t until_ms = *(const int64_t *)data;
    for (size_t i = 0; i < f->job_count; i++) {
        if (f->accounted_ms[i] < check_last(&f->jobs[i], until_ms)) {
            return false;
        }
    }
    return true;
}

void fleet_wait_accounted(fleet *f, int64_t until_ms)
{
    int64_t left_ms = until_ms - fleet_now_ms();
    fleet_wait(f, "every job has begun or skipped its last instant",
               (left_ms > 0 ? left_ms : 0) + FLEET_SOON_MS, is_accounted, &until_ms);
}

void fleet_wait_until(int64_t at_ms)
{
    for (int64_t left_ms; (left_ms = at_ms - fleet_now_ms()) > 0;) {
        fleet_nap_ms(left_ms < POLL_MS ? left_ms : POLL_MS);
    }
}

static bool fits(const record *entry, const fleet_pattern *pattern)
{
    return (pattern->what == 0 || entry->what == pattern->what) &&
           (pattern->event == 0 || entry->event == pattern->event ||
            (pattern->event == FLEET_ANY_FAILURE &&
             JOBSCHED_EVENT_IS_BACKEND_FAILURE(entry->event))) &&
           (pattern->node < 0 || entry->node == pattern->node) &&
           (pattern->code == 0 || entry->code == pattern->code) &&
           (pattern->token == 0 || entry->token == pattern->token) &&
           (pattern->job == NULL || strcmp(entry->job, pattern->job) == 0) &&
           entry->at_us > pattern->after_us;
}

const record *fleet_find(fleet *f, const fleet_pattern *pattern)
{
    for (size_t i = 0; i < f->record_count; i++) {
        if (fits(&f->records[i], pattern)) {
            return &f->records[i];
        }
    }
    return NULL;
}

size_t fleet_count(fleet *f, const fleet_pattern *pattern)
{
    size_t count = 0;
    for (size_t i = 0; i < f->record_count; i++) {
        count += fits(&f->records[i], pattern);
    }
    return count;
}

static bool is_found(fleet *f, void *data)
{
    return fleet_find(f, data) != NULL;
}

record fleet_wait_record(fleet *f, const char *what, int64_t timeout_ms,
                         const fleet_pattern *pattern)
{
    fleet_pattern copy = *pattern;
    fleet_wait(f, what, timeout_ms, is_found, &copy);
    return *fleet_find(f, pattern);
}

/* ---- the ledger ----------------------------------------------------------------- */

typedef struct listing {
    check_row *rows;
    size_t count, capacity;
} listing;

static int keep_row(const jobsched_run_record *from, void *user_data)
{
    listing *all = user_data;
    if (all->count == all->capacity) {
        all->capacity = all->capacity * 2 + 1024;
        all->rows = realloc(all->rows, all->capacity * sizeof *all->rows);
        if (all->rows == NULL) {
            abort();
        }
    }
    check_row *row = &all->rows[all->count++];
    *row = (check_row){.first_ms = from->scheduled_at_ms,
                       .last_ms = from->last_at_ms,
                       .count = from->count,
                       .token = from->token,
                       .started_ms = from->started_at_ms,
                       .attempt = from->attempt,
                       .kind = from->kind,
                       .outcome = from->outcome};
    (void)snprintf(row->job, sizeof row->job, "%s", from->job);
    (void)snprintf(row->node, sizeof row->node, "%s", from->node);
    (void)snprintf(row->request, sizeof row->request, "%s", from->request);
    return 0;
}

void fleet_be_patient(jobsched_options *options)
{
    options->lease_ms = 90000;
    options->request_timeout_ms = 30000;
}

static jobsched *open_reader(fleet *f)
{
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = f->server.url;
    options.name_space = f->name_space;
    options.node_name = "reader";
    options.history_count = FLEET_HISTORY; /* a reader prunes like any node */
    fleet_be_patient(&options);
    jobsched *reader = NULL;
    if (jobsched_open(&options, &reader) != 0) {
        fail_msg("the ledger cannot be opened: %s", jobsched_last_error()->message);
    }
    return reader;
}

check_row *fleet_ledger(fleet *f, size_t *out_count)
{
    jobsched *reader = open_reader(f);
    listing all = {NULL, 0, 0};
    for (size_t i = 0; i < f->job_count; i++) {
        if (jobsched_runs(reader, f->jobs[i].name, 10000000, keep_row, &all) != 0) {
            fail_msg("the ledger cannot be read: %s", jobsched_last_error()->message);
        }
    }
    assert_int_equal(jobsched_close(reader), 0);
    *out_count = all.count;
    return all.rows;
}

check_row fleet_row(fleet *f, const char *job, int64_t scheduled_ms)
{
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    check_row found = {.outcome = -1};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].job, job) == 0 && rows[i].first_ms <= scheduled_ms &&
            rows[i].last_ms >= scheduled_ms) {
            found = rows[i];
        }
    }
    free(rows);
    return found;
}

fleet_tally fleet_tell(fleet *f, const char *job, int64_t from_ms, int64_t to_ms)
{
    fleet_tally tally = {{0}, {0}};
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    const check_job *truth = NULL;
    for (size_t i = 0; i < f->job_count; i++) {
        truth = strcmp(f->jobs[i].name, job) == 0 ? &f->jobs[i] : truth;
    }
    assert_non_null(truth);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].job, job) != 0 || rows[i].outcome >= CHECK_OUTCOMES) {
            continue;
        }
        int64_t first_ms = rows[i].first_ms > from_ms ? rows[i].first_ms : from_ms;
        int64_t last_ms = rows[i].last_ms < to_ms ? rows[i].last_ms : to_ms;
        for (int64_t at_ms = check_next(truth, first_ms - 1); at_ms <= last_ms;
             at_ms = check_next(truth, at_ms)) {
            tally.outcomes[rows[i].outcome]++;
        }
    }
    free(rows);
    fleet_read_log(f);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_START && strcmp(entry->job, job) == 0 &&
            entry->scheduled_ms >= from_ms && entry->scheduled_ms <= to_ms) {
            tally.starts[entry->kind & 3]++;
        }
    }
    return tally;
}

void fleet_without_mark(fleet *f)
{
    f->backend = server_nomark_library(&f->server);
    if (f->backend == NULL) {
        assert_int_equal(jobsched_close(open_reader(f)), 0); /* it makes the schema */
        assert_true(server_drop_mark(&f->server));
    }
}

/* ---- the verdict ---------------------------------------------------------------- */

void fleet_check(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report)
{
    fleet_read_log(f);
    check_input input = {.jobs = f->jobs,
                         .job_count = f->job_count,
                         .records = f->records,
                         .record_count = f->record_count,
                         .begin_ms = f->begin_ms,
                         .ready_ms = ready_ms,
                         .until_ms = until_ms,
                         .end_ms = fleet_now_ms()};
    input.rows = fleet_ledger(f, &input.row_count);
    check_run(&input, out_report);
    free(input.rows);
    check_print(out_report, stdout);
    (void)fflush(stdout);
}

void fleet_check_clean(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report)
{
    fleet_check(f, ready_ms, until_ms, out_report);
    if (check_faults(out_report) != 0) {
        fail_msg("%llu promises were broken; see above",
                 (unsigned long long)check_faults(out_report));
    }
    assert_true(out_report->expected > 0);
    fleet_pattern dropped = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_EVENTS_DROPPED, .node = -1};
    assert_int_equal(fleet_count(f, &dropped), 0);
}
