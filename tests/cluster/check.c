/* check.c: judges a cluster test. Calls nothing of the library but the names of outcomes.
 * Locks: none. */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

int64_t check_last(const check_job *job, int64_t until_ms)
{
    int64_t rest_ms = (until_ms - job->phase_ms) % job->period_ms;
    return until_ms - (rest_ms < 0 ? rest_ms + job->period_ms : rest_ms);
}

int64_t check_next(const check_job *job, int64_t after_ms)
{
    return check_last(job, after_ms) + job->period_ms;
}

__attribute__((format(printf, 3, 4))) static void fault(check_report *report, uint64_t *counter,
                                                        const char *format, ...)
{
    (*counter)++;
    if (report->problem_count < CHECK_PROBLEMS_MAX) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(report->problems[report->problem_count++], sizeof report->problems[0],
                        format, arguments);
        va_end(arguments);
    }
}

/* ---- one job's share of what was seen ------------------------------------------ */

typedef struct run {
    int64_t start_us, end_us; /* end_us 0: never ended */
    int64_t scheduled_ms;
    uint64_t token;
    int32_t kind, node;
    int64_t told_good_us; /* when it was told last that its lease goes on */
    bool lease_lost;      /* it was told */
    bool lost_at_start;
} run;

typedef struct share {
    const check_job *job;
    run *runs;
    size_t run_count, run_capacity;
    const check_row *rows;
    size_t row_count;
} share;

static int by_name(const void *left, const void *right)
{
    return strcmp(((const share *)left)->job->name, ((const share *)right)->job->name);
}

static share *find_share(share *shares, size_t count, const char *name)
{
    check_job wanted;
    memset(&wanted, 0, sizeof wanted);
    (void)snprintf(wanted.name, sizeof wanted.name, "%s", name);
    share key = {.job = &wanted};
    return bsearch(&key, shares, count, sizeof *shares, by_name);
}

static run *run_of_token(const share *one, uint64_t token)
{
    for (size_t i = one->run_count; i > 0; i--) {
        if (one->runs[i - 1].token == token) {
            return &one->runs[i - 1];
        }
    }
    return NULL;
}

static void add_start(share *one, const record *entry)
{
    if (one->run_count == one->run_capacity) {
        one->run_capacity = one->run_capacity == 0 ? 64 : one->run_capacity * 2;
        one->runs = realloc(one->runs, one->run_capacity * sizeof *one->runs);
        if (one->runs == NULL) {
            abort();
        }
    }
    bool lost = entry->stop_reason == JOBSCHED_STOP_LEASE_LOST;
    one->runs[one->run_count++] = (run){.start_us = entry->at_us,
                                        .scheduled_ms = entry->scheduled_ms,
                                        .token = entry->token,
                                        .kind = entry->kind,
                                        .node = entry->node,
                                        .lease_lost = lost,
                                        .lost_at_start = lost};
}

static void take_record(share *shares, size_t count, const record *entry)
{
    share *one = find_share(shares, count, entry->job);
    if (one == NULL || entry->what == RECORD_EVENT || entry->what == RECORD_REFUSED) {
        return;
    }
    if (entry->what == RECORD_START) {
        add_start(one, entry);
        return;
    }
    run *known = run_of_token(one, entry->token);
    if (known != NULL && entry->what == RECORD_END) {
        known->end_us = entry->at_us;
    } else if (known != NULL && entry->what == RECORD_ALIVE) {
        bool good =
            entry->stop_reason == JOBSCHED_STOP_NONE && entry->lease_until_us > entry->at_us;
        known->told_good_us = good ? entry->at_us : known->told_good_us;
    } else if (known != NULL && entry->stop_reason == JOBSCHED_STOP_LEASE_LOST) {
        known->lease_lost = true;
    }
}

/* ---- what the callbacks saw ---------------------------------------------------- */

static int by_start(const void *left, const void *right)
{
    const run *one = left;
    const run *other = right;
    return (one->start_us > other->start_us) - (one->start_us < other->start_us);
}

static int by_schedule(const void *left, const void *right)
{
    const run *one = left;
    const run *other = right;
    if (one->scheduled_ms != other->scheduled_ms) {
        return one->scheduled_ms > other->scheduled_ms ? 1 : -1;
    }
    return by_start(left, right);
}

static bool asks_for_reruns(const check_job *job)
{
    return job->settings != NULL && strstr(job->settings, "recover=rerun") != NULL;
}

static bool is_of_schedule(const run *one)
{
    return one->kind == JOBSCHED_KIND_SCHEDULED || one->kind == JOBSCHED_KIND_CATCH_UP;
}

/* G2, G3, G4 and the counts, in the order in which the runs began. */
static void check_order(const share *one, check_report *report)
{
    for (size_t i = 0; i < one->run_count; i++) {
        const run *now = &one->runs[i];
        report->fired += is_of_schedule(now);
        report->catch_ups += now->kind == JOBSCHED_KIND_CATCH_UP;
        report->reruns += now->kind == JOBSCHED_KIND_RERUN;
        report->lease_lost_seen += now->lease_lost;
        report->fired_by[now->node & 255]++;
        if (now->start_us < now->scheduled_ms * 1000) {
            fault(report, &report->early, "early: %s %" PRId64 " by %" PRId64 " us", one->job->name,
                  now->scheduled_ms, now->scheduled_ms * 1000 - now->start_us);
        }
        if (i == 0) {
            continue;
        }
        const run *before = &one->runs[i - 1];
        if (now->token <= before->token && !now->lost_at_start) {
            fault(report, &report->token_faults, "token: %s %" PRIu64 " after %" PRIu64,
                  one->job->name, now->token, before->token);
        }
        /* A run that was killed has no end; one that was told of its lost lease may be late to
         * notice, which is what the token is for. */
        if (before->end_us > now->start_us && !before->lease_lost) {
            fault(report, &report->overlaps, "overlap: %s tokens %" PRIu64 " and %" PRIu64,
                  one->job->name, before->token, now->token);
        }
        if (before->told_good_us > now->start_us && before->token < now->token) {
            fault(report, &report->untold,
                  "untold: %s token %" PRIu64 " was good %" PRId64 " us after the next began",
                  one->job->name, before->token, before->told_good_us - now->start_us);
        }
    }
}

static void sort_runs(share *one, int (*order)(const void *, const void *))
{
    if (one->run_count > 0) { /* qsort(NULL, 0) is not defined */
        qsort(one->runs, one->run_count, sizeof *one->runs, order);
    }
}

/* G1, from the callbacks' own records. */
static void check_twice(share *one, check_report *report)
{
    sort_runs(one, by_schedule);
    for (size_t i = 1; i < one->run_count; i++) {
        const run *now = &one->runs[i];
        const run *before = &one->runs[i - 1];
        if (now->scheduled_ms == before->scheduled_ms &&
            (is_of_schedule(now) ||
             (now->kind == JOBSCHED_KIND_RERUN && !asks_for_reruns(one->job)))) {
            fault(report, &report->twice,
                  "twice: %s %" PRId64 " on n%d and n%d, tokens %" PRIu64 " and %" PRIu64,
                  one->job->name, now->scheduled_ms, (int)before->node, (int)now->node,
                  before->token, now->token);
        }
    }
}

/* ---- what the ledger says ------------------------------------------------------ */

static int by_job_and_instant(const void *left, const void *right)
{
    const check_row *one = left;
    const check_row *other = right;
    int names = strcmp(one->job, other->job);
    if (names != 0) {
        return names;
    }
    /* Triggers are no part of the schedule: they come last. */
    int triggers = (one->request[0] != '\0') - (other->request[0] != '\0');
    if (triggers != 0) {
        return triggers;
    }
    return (one->first_ms > other->first_ms) - (one->first_ms < other->first_ms);
}

/* A row against the callbacks' records: what was skipped never began; what ended well began
 * once under that token, on that node, and ended. */
static void check_witness(const share *one, const check_row *row, check_report *report)
{
    bool granted =
        row->outcome >= JOBSCHED_OUTCOME_RUNNING && row->outcome <= JOBSCHED_OUTCOME_INTERRUPTED;
    uint64_t starts = 0;
    const run *last = NULL;
    for (size_t i = 0; i < one->run_count; i++) {
        if (one->runs[i].scheduled_ms >= row->first_ms &&
            one->runs[i].scheduled_ms <= row->last_ms) {
            starts++;
            last = one->runs[i].token == row->token ? &one->runs[i] : last;
        }
    }
    char name[16] = "";
    if (last != NULL) {
        (void)snprintf(name, sizeof name, "n%d", (int)last->node);
    }
    bool well = row->outcome == JOBSCHED_OUTCOME_SUCCEEDED;
    if ((!granted && starts > 0) || starts > row->attempt ||
        (well && (last == NULL || last->end_us == 0 || strcmp(name, row->node) != 0))) {
        fault(report, &report->ledger_faults,
              "ledger: %s %" PRId64 " is %s by '%s', but %" PRIu64 " starts, the last by '%s'",
              row->job, row->first_ms, jobsched_outcome_name(row->outcome), row->node, starts,
              name);
    }
}

/* G9: the rows, laid end to end, are the schedule: no hole, no second outcome, nothing else. */
static void check_rows(const check_input *input, const share *one, check_report *report)
{
    const check_job *job = one->job;
    int64_t at_ms = 0; /* the last instant accounted for */
    for (size_t i = 0; i < one->row_count; i++) {
        const check_row *row = &one->rows[i];
        int64_t due_ms = i == 0 ? check_next(job, row->first_ms - 1) : check_next(job, at_ms);
        if (row->first_ms != due_ms || check_last(job, row->last_ms) != row->last_ms ||
            row->last_ms < row->first_ms) {
            fault(report, &report->ledger_faults,
                  "ledger: %s row %" PRId64 "-%" PRId64 " where %" PRId64 " was due", job->name,
                  row->first_ms, row->last_ms, due_ms);
        }
        uint64_t count = (uint64_t)((row->last_ms - row->first_ms) / job->period_ms + 1);
        if (row->count != count || row->outcome < JOBSCHED_OUTCOME_SUCCEEDED ||
            row->outcome >= CHECK_OUTCOMES) {
            fault(report, &report->ledger_faults,
                  "ledger: %s row %" PRId64 " counts %" PRIu64 " of %" PRIu64 ", outcome %s",
                  job->name, row->first_ms, row->count, count, jobsched_outcome_name(row->outcome));
        } else {
            report->outcomes[row->outcome] += row->count;
        }
        check_witness(one, row, report);
        at_ms = row->last_ms > at_ms ? row->last_ms : at_ms;
    }
    int64_t first_ms = one->row_count == 0 ? JOBSCHED_NONE : one->rows[0].first_ms;
    if (one->row_count == 0 || first_ms <= input->begin_ms ||
        first_ms > check_next(job, input->ready_ms) || at_ms < check_last(job, input->until_ms) ||
        at_ms > input->end_ms) {
        fault(report, &report->ledger_faults,
              "ledger: %s covers %" PRId64 " to %" PRId64 ", not %" PRId64 " to %" PRId64,
              job->name, first_ms, at_ms, check_next(job, input->ready_ms),
              check_last(job, input->until_ms));
    }
}

/* The computed set against both witnesses. */
static void check_lost(const check_input *input, const share *one, check_report *report)
{
    size_t row = 0;
    size_t at = 0; /* runs are sorted by instant now */
    for (int64_t due_ms = check_next(one->job, input->ready_ms); due_ms <= input->until_ms;
         due_ms = check_next(one->job, due_ms)) {
        report->expected++;
        while (row < one->row_count && one->rows[row].last_ms < due_ms) {
            row++;
        }
        while (at < one->run_count && one->runs[at].scheduled_ms < due_ms) {
            at++;
        }
        bool kept = row < one->row_count && one->rows[row].first_ms <= due_ms;
        bool began = at < one->run_count && one->runs[at].scheduled_ms == due_ms;
        if (!kept && !began) {
            fault(report, &report->lost, "lost: %s %" PRId64, one->job->name, due_ms);
        } else if (began && !kept) {
            fault(report, &report->ledger_faults, "ledger: %s %" PRId64 " began, but has no row",
                  one->job->name, due_ms);
        }
    }
    for (at = 0; at < one->run_count; at++) {
        int64_t scheduled_ms = one->runs[at].scheduled_ms;
        if (one->runs[at].kind != JOBSCHED_KIND_TRIGGER &&
            check_last(one->job, scheduled_ms) != scheduled_ms) {
            fault(report, &report->ledger_faults, "ran: %s %" PRId64 " is not on the schedule",
                  one->job->name, scheduled_ms);
        }
    }
}

/* ---- lateness ------------------------------------------------------------------ */

static int by_number(const void *left, const void *right)
{
    int64_t one = *(const int64_t *)left;
    int64_t other = *(const int64_t *)right;
    return (one > other) - (one < other);
}

/* Queued runs are late by design, so they do not count. */
static void measure(const check_input *input, const share *shares, check_report *report)
{
    int64_t *late_us = malloc((report->fired + 1) * sizeof *late_us);
    size_t count = 0;
    if (late_us == NULL) {
        abort();
    }
    for (size_t i = 0; i < input->job_count; i++) {
        const char *settings = shares[i].job->settings;
        bool queues = settings != NULL && strstr(settings, "overlap=queue") != NULL;
        for (size_t j = 0; !queues && j < shares[i].run_count; j++) {
            const run *one = &shares[i].runs[j];
            if (one->kind == JOBSCHED_KIND_SCHEDULED) {
                late_us[count++] = one->start_us - one->scheduled_ms * 1000;
            }
        }
    }
    qsort(late_us, count, sizeof *late_us, by_number);
    if (count > 0) {
        report->late_us[0] = late_us[count / 2];
        report->late_us[1] = late_us[count * 95 / 100];
        report->late_us[2] = late_us[count * 99 / 100];
        report->late_us[3] = late_us[count - 1];
    }
    free(late_us);
}

/* ---- all ----------------------------------------------------------------------- */

static void give_rows(const check_input *input, share *shares, check_report *report)
{
    if (input->row_count > 0) {
        qsort(input->rows, input->row_count, sizeof *input->rows, by_job_and_instant);
    }
    for (size_t i = 0; i < input->row_count;) {
        size_t end = i;
        while (end < input->row_count && strcmp(input->rows[end].job, input->rows[i].job) == 0) {
            end++;
        }
        share *one = find_share(shares, input->job_count, input->rows[i].job);
        if (one == NULL) {
            fault(report, &report->ledger_faults, "ledger: job '%s' is unknown",
                  input->rows[i].job);
        } else {
            one->rows = &input->rows[i];
            while (i + one->row_count < end && input->rows[i + one->row_count].request[0] == '\0') {
                one->row_count++;
            }
        }
        i = end;
    }
}

void check_run(check_input *input, check_report *out_report)
{
    memset(out_report, 0, sizeof *out_report);
    share *shares = calloc(input->job_count, sizeof *shares);
    if (shares == NULL) {
        abort();
    }
    for (size_t i = 0; i < input->job_count; i++) {
        shares[i].job = &input->jobs[i];
    }
    qsort(shares, input->job_count, sizeof *shares, by_name);
    for (size_t i = 0; i < input->record_count; i++) {
        take_record(shares, input->job_count, &input->records[i]);
    }
    give_rows(input, shares, out_report);
    for (size_t i = 0; i < input->job_count; i++) {
        sort_runs(&shares[i], by_start);
        check_order(&shares[i], out_report);
        check_twice(&shares[i], out_report);
        check_rows(input, &shares[i], out_report);
        check_lost(input, &shares[i], out_report);
    }
    measure(input, shares, out_report);
    for (size_t i = 0; i < input->job_count; i++) {
        free(shares[i].runs);
    }
    free(shares);
}

uint64_t check_faults(const check_report *report)
{
    return report->twice + report->untold + report->lost + report->token_faults + report->early +
           report->overlaps + report->ledger_faults;
}

void check_print(const check_report *report, FILE *out)
{
    (void)fprintf(out,
                  "expected %" PRIu64 ", fired %" PRIu64 " (catch-up %" PRIu64 ", reruns %" PRIu64
                  " besides)\n"
                  "twice %" PRIu64 ", lost %" PRIu64 ", early %" PRIu64 ", overlaps %" PRIu64
                  ", token faults %" PRIu64 ", untold %" PRIu64 ", ledger faults %" PRIu64 "\n",
                  report->expected, report->fired, report->catch_ups, report->reruns, report->twice,
                  report->lost, report->early, report->overlaps, report->token_faults,
                  report->untold, report->ledger_faults);
    (void)fprintf(out, "ledger:");
    for (int i = 0; i < CHECK_OUTCOMES; i++) {
        if (report->outcomes[i] > 0) {
            (void)fprintf(out, " %s %" PRIu64, jobsched_outcome_name(i), report->outcomes[i]);
        }
    }
    (void)fprintf(out, "\nby node:");
    for (int i = 0; i < 256; i++) {
        if (report->fired_by[i] > 0) {
            (void)fprintf(out, " n%d %" PRIu64, i, report->fired_by[i]);
        }
    }
    (void)fprintf(out, "\nlate (ms): median %.1f, 95 %% %.1f, 99 %% %.1f, largest %.1f\n",
                  (double)report->late_us[0] / 1000, (double)report->late_us[1] / 1000,
                  (double)report->late_us[2] / 1000, (double)report->late_us[3] / 1000);
    for (size_t i = 0; i < report->problem_count; i++) {
        (void)fprintf(out, "  %s\n", report->problems[i]);
    }
}
