/* rollout.c: roll-outs of a changed schedule, and what must have come of them (G14). The rolled jobs
 * fire at every even second in odd versions, at every odd one in even versions; a roll-back is
 * a roll-out of the older schedule under the next version. Locks: none, one thread. */
#include "campaign.h"

#include <stdlib.h>

enum { PERIOD_MS = 2000 };

void rollout_jobs(campaign *c)
{
    bool even = c->version % 2 == 1;
    (void)snprintf(c->version_text, sizeof c->version_text, "version=%zu", c->version);
    for (size_t i = 0; i < ROLLED; i++) {
        check_job *job = &c->jobs[STABLE + i];
        *job = (check_job){"",
                           even ? "@every 2s" : "@every 2s from 2020-01-01T00:00:01Z",
                           PERIOD_MS,
                           even ? 0 : 1000,
                           i % 2 == 0 ? 1 : 300,
                           NULL,
                           c->version_text};
        (void)snprintf(job->name, sizeof job->name, "rolled-%zu", i);
    }
    fleet_jobs(c->f, c->jobs, STABLE + ROLLED + TRIGGERED);
    c->f->job_count = STABLE; /* for whoever waits: these are always due */
}

void rollout_step(campaign *c)
{
    if (c->roll_left == 0) {
        if (campaign_random(c, c->only == ROLLOUTS_ONLY ? 60 : 1200) == 0 &&
            c->version + 1 < ROLLOUTS_MAX) {
            c->version++;
            rollout_jobs(c);
            c->rollouts[c->version] = fleet_now_ms();
            c->roll_left = SLOTS;
            memset(c->rolled, 0, sizeof c->rolled);
        }
        return;
    }
    size_t i = campaign_random(c, SLOTS);
    if (campaign_random(c, c->only == ROLLOUTS_ONLY ? 8 : 20) != 0 || c->rolled[i] ||
        c->slots[i].fault >= 0) {
        return;
    }
    /* Some processes crash in between. */
    chaos_replace(c, i, campaign_random(c, 4) == 0 || c->leaving_count > 8);
    c->rolled[i] = true;
    c->roll_left--;
}

static int by_job_and_instant(const void *left, const void *right)
{
    const check_row *one = left;
    const check_row *other = right;
    int names = strcmp(one->job, other->job);
    return names != 0 ? names
                      : (one->first_ms > other->first_ms) - (one->first_ms < other->first_ms);
}

static void complain(rollout_report *out, const char *what, const check_row *row)
{
    if (out->faults++ < 10) {
        printf("  roll-out: %s: %s %lld-%lld\n", what, row->job, (long long)row->first_ms,
               (long long)row->last_ms);
    }
}

/* One job's rows, oldest first. A version may have been replaced before it fired anything. */
static void follow(const campaign *c, const check_row *rows, size_t count, rollout_report *out)
{
    size_t version = 0;
    for (size_t i = 0; i < count; i++) {
        const check_row *row = &rows[i];
        const check_row *before = i == 0 ? NULL : &rows[i - 1];
        size_t parity = row->first_ms % PERIOD_MS == 0 ? 1 : 0;
        out->fired += row->outcome <= JOBSCHED_OUTCOME_INTERRUPTED;
        if ((row->last_ms - row->first_ms) % PERIOD_MS != 0 ||
            row->outcome < JOBSCHED_OUTCOME_SUCCEEDED ||
            (before != NULL && row->first_ms <= before->last_ms)) {
            complain(out, "a row that cannot be", row);
            continue;
        }
        if (before != NULL && version % 2 == parity &&
            row->first_ms == before->last_ms + PERIOD_MS) {
            continue; /* the next one of the schedule in force */
        }
        size_t next = version + 1;
        while (next <= c->version && next % 2 != parity) {
            next++;
        }
        if (next > c->version || c->rollouts[next] > row->first_ms) {
            complain(out, version % 2 == parity ? "a hole" : "a schedule that is not in force",
                     row);
            continue;
        }
        if (before != NULL) {
            out->switches++;
            /* The cut was less than a period before the first of the new ones. With a version
             * between, that fired nothing, nobody knows. */
            int64_t gap_ms = row->first_ms - PERIOD_MS - before->last_ms;
            out->dropped += gap_ms > 0 && next == version + 1 ? (uint64_t)(gap_ms / PERIOD_MS) : 0;
        }
        version = next;
    }
}

void rollout_judge(campaign *c, const check_row *rows, size_t count, rollout_report *out)
{
    check_row *sorted = malloc((count + 1) * sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, rows, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_job_and_instant);
    *out = (rollout_report){.faults = 0};
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && strcmp(sorted[end].job, sorted[i].job) == 0) {
            end++;
        }
        if (strncmp(sorted[i].job, "rolled-", 7) == 0) {
            follow(c, &sorted[i], end - i, out);
        }
        i = end;
    }
    free(sorted);
}
