/* trouble.c: see trouble.h. Locks: none, one thread. */
#include "trouble.h"

#include <stdlib.h>

/* MISSED_MS: misfire_after, and room between the decision to claim and the grant; less than the
 * outage. TOLD_MS: instants are cut to milliseconds. */
enum { MISSED_MS = 1000 + 3000, OUTAGE_MS = 4500 /* longer than a lease */, TOLD_MS = 5 };

const check_job trouble_jobs[TROUBLE_JOBS] = {
    {"once-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=once"},
    {"once-1", "@every 1s", 1000, 0, 1, NULL, "misfire=once"},
    {"skip-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=skip"},
    {"skip-1", "@every 1s", 1000, 0, 1, NULL, "misfire=skip"},
    {"all-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=all"},
    {"all-1", "@every 1s", 1000, 0, 1, NULL, "misfire=all"},
    {"long", "*/2 * * * * *", 2000, 0, 600000, "alive", NULL},
};

void trouble_begin(fleet *f, trouble *t)
{
    *t = (trouble){.unknown = false};
    fleet_jobs(f, trouble_jobs, TROUBLE_JOBS);
    f->settings[0] = "lease=3s";
    f->settings[1] = "misfire_after=1s";
    (void)fleet_start(f, -30000);
    t->ready_ms = fleet_now_ms();
    (void)fleet_start(f, 30000);
    fleet_wait_accounted(f, fleet_now_ms() + 1000);
}

size_t trouble_codes(fleet *f, int64_t since_ms, const int *codes)
{
    size_t count = 0;
    fleet_read_log(f);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what != RECORD_EVENT || !JOBSCHED_EVENT_IS_BACKEND_FAILURE(entry->event) ||
            entry->at_us <= since_ms * 1000) {
            continue;
        }
        const int *code = codes;
        while (*code != 0 && *code != entry->code) {
            code++;
        }
        if (*code == 0) {
            fail_msg("n%d tells of %s: %s", (int)entry->node, jobsched_code_name(entry->code),
                     entry->text);
        }
        count++;
    }
    return count;
}

const record *trouble_long_run(const fleet *f)
{
    const record *found = NULL;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (strcmp(entry->job, "long") != 0) {
            continue;
        }
        if (entry->what == RECORD_START && entry->stop_reason == JOBSCHED_STOP_NONE) {
            found = entry;
        } else if (found != NULL && entry->token == found->token &&
                   (entry->what == RECORD_END || entry->what == RECORD_STOP_SEEN)) {
            found = NULL;
        }
    }
    return found;
}

static bool is_open_at(const fleet *f, uint64_t token, int64_t at_us)
{
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if ((entry->what == RECORD_END || entry->what == RECORD_STOP_SEEN) &&
            entry->token == token && strcmp(entry->job, "long") == 0) {
            return entry->at_us > at_us;
        }
    }
    return true;
}

/* The long run, which the store's last renewal may have reached just before the silence, is told
 * that its lease is lost; and it was told of no lease beyond that. */
static void expect_told(fleet *f, const trouble *t)
{
    fleet_read_log(f);
    const record *last = NULL;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        bool begins = entry->what == RECORD_START && strcmp(entry->job, "long") == 0;
        last = begins ? entry : last;
    }
    assert_non_null(last);
    uint64_t token = last->token;
    if (last->stop_reason != JOBSCHED_STOP_NONE || !is_open_at(f, token, t->broken_ms * 1000)) {
        printf("the machine was so slow that the long run was over before the trouble\n");
        return;
    }
    fleet_pattern lost = {.what = RECORD_STOP_SEEN, .node = -1, .job = "long", .token = token};
    record told = fleet_wait_record(f, "the long run is told", FLEET_SOON_MS, &lost);
    assert_int_equal(told.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    int64_t bound_us = (t->silent_ms + TROUBLE_LEASE_MS + TOLD_MS) * 1000;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_ALIVE && entry->token == token &&
            strcmp(entry->job, "long") == 0 && entry->stop_reason == JOBSCHED_STOP_NONE) {
            assert_true(entry->at_us < bound_us && entry->lease_until_us <= bound_us);
        }
    }
}

void trouble_endure(fleet *f, trouble *t, int code)
{
    for (int i = 0; i < 2; i++) {
        fleet_pattern failed = {.what = RECORD_EVENT,
                                .event = FLEET_ANY_FAILURE,
                                .node = i,
                                .code = code == TROUBLE_AWAY ? 0 : code,
                                .after_us = t->broken_ms * 1000};
        record event =
            fleet_wait_record(f, "a node tells that the store fails", FLEET_SOON_MS, &failed);
        printf("n%d: %s: %s\n", i, jobsched_event_name(event.event), event.text);
    }
    t->silent_ms = fleet_now_ms();
    expect_told(f, t);
    fleet_wait_until(t->silent_ms + OUTAGE_MS);
    if (code == TROUBLE_AWAY) {
        static const int away[] = {JOBSCHED_EUNKNOWN, JOBSCHED_EUNREACHABLE, 0};
        assert_true(trouble_codes(f, t->broken_ms, away) >= 2);
    }
}

/* Nothing can be granted meanwhile. What was granted before may begin a little later, but not after
 * its lease, unless it knows. granted_ms: by the store's clock. */
static void judge_start(const trouble *t, const record *entry, int64_t granted_ms)
{
    int64_t at_ms = entry->at_us / 1000;
    bool amid = at_ms > t->silent_ms && at_ms < t->cured_ms;
    bool late = at_ms > t->silent_ms + TROUBLE_LEASE_MS + TOLD_MS &&
                entry->stop_reason == JOBSCHED_STOP_NONE;
    if (amid && (entry->scheduled_ms > t->silent_ms || late)) {
        fail_msg("'%s' begins %lld ms into the silence, due %lld ms into it: kind %d, token %llu",
                 entry->job, (long long)(at_ms - t->silent_ms),
                 (long long)(entry->scheduled_ms - t->silent_ms), (int)entry->kind,
                 (unsigned long long)entry->token);
    }
    /* What is later than misfire_after is missed, also when it was due before the trouble. */
    if (!t->unknown && strncmp(entry->job, "skip", 4) == 0) {
        assert_true(granted_ms - entry->scheduled_ms < MISSED_MS);
    }
}

static void judge_starts(fleet *f, trouble *t)
{
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        /* A request that took too long, for whatever reason, leaves a claim unknown. */
        t->unknown |= entry->what == RECORD_EVENT && entry->code == JOBSCHED_EUNKNOWN &&
                      JOBSCHED_EVENT_IS_BACKEND_FAILURE(entry->event);
    }
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        int64_t granted_ms = entry->at_us / 1000;
        for (size_t j = 0; j < count && entry->what == RECORD_START; j++) {
            if (rows[j].token == entry->token && strcmp(rows[j].job, entry->job) == 0) {
                granted_ms = rows[j].started_ms;
            }
        }
        if (entry->what == RECORD_START) {
            judge_start(t, entry, granted_ms);
        }
    }
    free(rows);
}

void trouble_recover(fleet *f, trouble *t)
{
    for (int i = 0; i < 2; i++) {
        fleet_pattern back = {.what = RECORD_EVENT,
                              .event = JOBSCHED_EVENT_BACKEND_RECOVERED,
                              .node = i,
                              .after_us = t->cured_ms * 1000};
        (void)fleet_wait_record(f, "a node tells that the store is back", FLEET_SOON_MS, &back);
    }
    int64_t until_ms = fleet_now_ms() + 2000;
    fleet_wait_accounted(f, until_ms);
    fleet_drain_all(f);
    check_report report;
    fleet_check_clean(f, t->ready_ms, until_ms, &report);
    judge_starts(f, t);

    for (int i = 0; i < 2; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "all-%d", i);
        fleet_tally all = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(all.starts[JOBSCHED_KIND_CATCH_UP] >= 2);
        assert_int_equal(all.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
        (void)snprintf(name, sizeof name, "once-%d", i);
        fleet_tally once = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(once.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= 2);
        /* One more where it is asked for again as it was before the latest was known. */
        assert_true(once.starts[JOBSCHED_KIND_CATCH_UP] <= (t->unknown ? 2U : 1U));
        (void)snprintf(name, sizeof name, "skip-%d", i);
        fleet_tally skip = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(skip.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= 2);
        assert_int_equal(skip.starts[JOBSCHED_KIND_CATCH_UP], 0);
    }
}
