/* rollout_judge.c: whether there are instants of cuts, one for each version that was ever in force,
 * by which the rows of a job are exactly the old schedule's up to the cut and the new one's after it
 * (G9, G14). When the cuts were is known roughly, and versions may follow each other so fast that some
 * have no instant of their own, or were never in force. So all possible cuts are kept in mind; where
 * none is left, something was lost, or fired that was not in force.
 * Locks: none, one thread. */
#include "rollout_judge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSIONS = ROLLED_VERSIONS_MAX + 2 };

/* What is known of one job after a row. */
typedef struct job_state {
    const rollout_cuts *cuts;
    size_t version;          /* the last one */
    bool possible[VERSIONS]; /* this version may be the one that fired it */
    int64_t last_ms;         /* the row's last instant */
} job_state;

void rollout_cuts_init(rollout_cuts *cuts)
{
    for (size_t v = 0; v < VERSIONS; v++) {
        cuts->from_ms[v] = 0;
        cuts->upto_ms[v] = INT64_MAX;
    }
}

void rollout_cuts_begin(rollout_cuts *cuts, size_t v, int64_t now_ms)
{
    for (; v < VERSIONS; v++) {
        cuts->from_ms[v] = now_ms;
    }
}

void rollout_cuts_seen(rollout_cuts *cuts, size_t v, int64_t mark_ms, int64_t upto_ms)
{
    if (mark_ms % (ROLLED_PERIOD_MS / 2) != 0) {
        /* No occurrence, so it is the cut itself. */
        cuts->from_ms[v] = mark_ms;
        upto_ms = mark_ms;
    }
    for (size_t w = v; w > 0 && cuts->upto_ms[w] > upto_ms; w--) {
        cuts->upto_ms[w] = upto_ms;
    }
    for (size_t w = v + 1; w < VERSIONS && cuts->from_ms[w] < mark_ms; w++) {
        cuts->from_ms[w] = mark_ms;
    }
}

static size_t parity_of(int64_t instant_ms)
{
    return instant_ms % ROLLED_PERIOD_MS == 0 ? 1 : 0;
}

/* The first instant of a version after one. */
static int64_t next_of(size_t version, int64_t after_ms)
{
    int64_t phase_ms = version % 2 == 1 ? 0 : ROLLED_PERIOD_MS / 2;
    return (after_ms - phase_ms + ROLLED_PERIOD_MS) / ROLLED_PERIOD_MS * ROLLED_PERIOD_MS +
           phase_ms;
}

static int64_t later(int64_t one_ms, int64_t other_ms)
{
    return one_ms > other_ms ? one_ms : other_ms;
}

static int64_t earlier(int64_t one_ms, int64_t other_ms)
{
    return one_ms < other_ms ? one_ms : other_ms;
}

/* Which versions can have fired the instants from first_ms to last_ms as the next ones after the
 * state's, with every instant in between accounted for; returns whether any can. lossy: also with
 * some that are not.
 *
 * A version that is in force at the state's last instant has its next one a period later, so the next
 * cut is before that; a version that was put in force by a cut and fired nothing was replaced before
 * its first instant after that cut. So what can be the instant of a cut to a version is a range,
 * within what is known of it, up to the bound that is carried along here. */
static bool step(const job_state *state, int64_t first_ms, int64_t last_ms, bool lossy,
                 bool *out_possible)
{
    int64_t bound_ms = INT64_MIN;
    bool any = false;
    for (size_t v = 1; v <= state->version; v++) {
        int64_t from_ms = later(state->last_ms, state->cuts->from_ms[v]);
        int64_t upto_ms = state->cuts->upto_ms[v];
        int64_t cut_ms = later(from_ms, first_ms - ROLLED_PERIOD_MS);
        bool goes_on = state->possible[v] && first_ms == state->last_ms + ROLLED_PERIOD_MS;
        bool begins = cut_ms < bound_ms && cut_ms <= upto_ms && cut_ms < first_ms;
        out_possible[v] = v % 2 == parity_of(first_ms) && (goes_on || begins) &&
                          last_ms <= state->cuts->upto_ms[v + 1];
        any |= out_possible[v];
        if (from_ms < bound_ms && from_ms <= upto_ms && !lossy) {
            bound_ms = later(bound_ms, next_of(v, earlier(bound_ms - 1, upto_ms)));
        }
        if (state->possible[v]) {
            bound_ms = lossy ? INT64_MAX : later(bound_ms, state->last_ms + ROLLED_PERIOD_MS);
        }
    }
    return any;
}

/* Whether the last version can be in force at end_ms, and all accounted for until then. */
static bool can_end(const job_state *state, int64_t end_ms)
{
    if (state->last_ms > end_ms) {
        return state->possible[state->version];
    }
    bool possible[VERSIONS] = {false};
    int64_t next_ms = next_of(state->version, end_ms);
    (void)step(state, next_ms, next_ms, false, possible);
    return possible[state->version];
}

static void complain(rollout_report *out, const char *what, const check_row *row)
{
    if (out->faults++ < 10) {
        printf("  roll-out: %s: %s %lld-%lld, %s by '%s'\n", what, row->job,
               (long long)row->first_ms, (long long)row->last_ms,
               jobsched_outcome_name(row->outcome), row->node);
    }
}

/* One row behind others of its job. */
static void follow(job_state *state, const check_row *row, rollout_report *out)
{
    job_state next = {.cuts = state->cuts, .version = state->version, .last_ms = row->last_ms};
    if (step(state, row->first_ms, row->last_ms, false, next.possible)) {
        out->switches += parity_of(state->last_ms) != parity_of(row->first_ms);
    } else if (step(state, row->first_ms, row->last_ms, true, next.possible)) {
        int64_t gap_ms = row->first_ms - ROLLED_PERIOD_MS - state->last_ms;
        out->lost += gap_ms > ROLLED_PERIOD_MS ? (uint64_t)(gap_ms / ROLLED_PERIOD_MS) : 1;
        complain(out, "instants before it are lost", row);
    } else {
        bool hole = parity_of(state->last_ms) == parity_of(row->first_ms);
        complain(out, hole ? "a hole before it" : "its schedule is not in force", row);
        for (size_t v = 1; v <= state->version; v++) {
            next.possible[v] = v % 2 == parity_of(row->first_ms);
        }
    }
    *state = next;
}

static void judge_job(const rollout_history *history, const check_row *rows, size_t count,
                      rollout_report *out)
{
    size_t job = (size_t)strtoul(rows->job + strlen(ROLLED_NAME), NULL, 10);
    job_state state = {.version = history->version, .last_ms = INT64_MIN};
    if (job >= history->job_count) {
        complain(out, "a job that is unknown", rows);
        return;
    }
    state.cuts = &history->cuts[job];
    for (size_t i = 0; i < count; i++) {
        const check_row *row = &rows[i];
        out->fired += row->outcome <= JOBSCHED_OUTCOME_INTERRUPTED;
        if ((row->last_ms - row->first_ms) % ROLLED_PERIOD_MS != 0 ||
            row->first_ms % (ROLLED_PERIOD_MS / 2) != 0 || row->last_ms < row->first_ms ||
            row->outcome < JOBSCHED_OUTCOME_SUCCEEDED || row->first_ms <= state.last_ms) {
            complain(out, "a row that cannot be", row);
        } else if (state.last_ms != INT64_MIN) {
            follow(&state, row, out);
        } else {
            if (parity_of(row->first_ms) != 1 || row->first_ms > next_of(1, history->ready_ms)) {
                complain(out, "not the first instant of the first version", row);
            }
            state.possible[1] = true;
            state.last_ms = row->last_ms;
        }
    }
    /* What was due at the very end may still have been under way. */
    if (!can_end(&state, history->until_ms - 2 * ROLLED_PERIOD_MS)) {
        complain(out, "nothing of the last version at the end", &rows[count - 1]);
    }
}

static int by_job_and_instant(const void *left, const void *right)
{
    const check_row *one = left;
    const check_row *other = right;
    int names = strcmp(one->job, other->job);
    return names != 0 ? names
                      : (one->first_ms > other->first_ms) - (one->first_ms < other->first_ms);
}

void rollout_judge(const rollout_history *history, const check_row *rows, size_t count,
                   rollout_report *out)
{
    check_row *sorted = malloc((count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        abort();
    }
    memcpy(sorted, rows, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_job_and_instant);
    *out = (rollout_report){.faults = 0};
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && strcmp(sorted[end].job, sorted[i].job) == 0) {
            end++;
        }
        if (strncmp(sorted[i].job, ROLLED_NAME, strlen(ROLLED_NAME)) == 0) {
            judge_job(history, &sorted[i], end - i, out);
        }
        i = end;
    }
    free(sorted);
}
