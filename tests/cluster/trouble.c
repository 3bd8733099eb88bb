/* trouble.c: see trouble.h. Locks: none, one thread. */
#include "trouble.h"

/* MISSED_MS: misfire_after, and slack for a claim that was decided just before. TOLD_MS: for a
 * callback that looks every 20 ms. */
enum { MISSED_MS = 1000 + 1000, OUTAGE_MS = 4500 /* longer than a lease */, TOLD_MS = 1500 };

const check_job trouble_jobs[TROUBLE_JOBS] = {
    {"once-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=once"},
    {"once-1", "@every 1s", 1000, 0, 1, NULL, "misfire=once"},
    {"skip-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=skip"},
    {"skip-1", "@every 1s", 1000, 0, 1, NULL, "misfire=skip"},
    {"all-0", "* * * * * *", 1000, 0, 1, NULL, "misfire=all"},
    {"all-1", "@every 1s", 1000, 0, 1, NULL, "misfire=all"},
    {"long", "*/2 * * * * *", 2000, 0, 60000, "alive", NULL},
};

void trouble_begin(fleet *f, trouble *t)
{
    *t = (trouble){.unknown = false};
    fleet_jobs(f, trouble_jobs, TROUBLE_JOBS);
    f->settings[0] = "lease=3s";
    f->settings[1] = "misfire_after=1s";
    f->drain_ms = 6000;
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

void trouble_endure(fleet *f, trouble *t, int code)
{
    for (int i = 0; i < 2; i++) {
        fleet_pattern failed = {.what = RECORD_EVENT,
                                .event = FLEET_ANY_FAILURE,
                                .node = i,
                                .after_us = t->broken_ms * 1000};
        record event =
            fleet_wait_record(f, "a node tells that the store fails", FLEET_SOON_MS, &failed);
        printf("n%d: %s: %s\n", i, jobsched_event_name(event.event), event.text);
        assert_true(code == TROUBLE_AWAY || event.code == code);
    }
    t->silent_ms = fleet_now_ms();
    fleet_pattern lost = {
        .what = RECORD_STOP_SEEN, .node = -1, .job = "long", .after_us = t->broken_ms * 1000};
    record told = fleet_wait_record(f, "the long run is told", FLEET_SOON_MS, &lost);
    assert_int_equal(told.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    assert_true(told.at_us < (t->broken_ms + TROUBLE_LEASE_MS) * 1000 + TOLD_MS * 1000);
    fleet_wait_until(t->silent_ms + OUTAGE_MS);
    if (code == TROUBLE_AWAY) {
        static const int away[] = {JOBSCHED_EUNKNOWN, JOBSCHED_EUNREACHABLE, 0};
        assert_true(trouble_codes(f, t->broken_ms, away) >= 2);
    }
}

/* Nothing can be granted meanwhile. What was granted before may begin a little later, but not after
 * its lease. */
static void judge_start(const trouble *t, const record *entry)
{
    int64_t at_ms = entry->at_us / 1000;
    bool amid = at_ms > t->silent_ms && at_ms < t->cured_ms;
    int64_t leased_ms = t->silent_ms + TROUBLE_LEASE_MS + TOLD_MS / 2;
    if (amid && (entry->scheduled_ms > t->silent_ms || at_ms > leased_ms)) {
        fail_msg("'%s' begins %lld ms into the silence, due %lld ms into it: kind %d, token %llu",
                 entry->job, (long long)(at_ms - t->silent_ms),
                 (long long)(entry->scheduled_ms - t->silent_ms), (int)entry->kind,
                 (unsigned long long)entry->token);
    }
    /* What is later than misfire_after is missed, also when it was due before the trouble. */
    if (!t->unknown && strncmp(entry->job, "skip", 4) == 0) {
        assert_true(at_ms - entry->scheduled_ms < MISSED_MS);
    }
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

    for (size_t i = 0; i < f->record_count; i++) {
        if (f->records[i].what == RECORD_START) {
            judge_start(t, &f->records[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "all-%d", i);
        fleet_tally all = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(all.starts[JOBSCHED_KIND_CATCH_UP] >= 2);
        assert_int_equal(all.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
        (void)snprintf(name, sizeof name, "once-%d", i);
        fleet_tally once = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(once.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= 2);
        assert_true(once.starts[JOBSCHED_KIND_CATCH_UP] <= 1);
        (void)snprintf(name, sizeof name, "skip-%d", i);
        fleet_tally skip = fleet_tell(f, name, t->silent_ms, t->cured_ms);
        assert_true(skip.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE] >= 2);
        assert_int_equal(skip.starts[JOBSCHED_KIND_CATCH_UP], 0);
    }
}
