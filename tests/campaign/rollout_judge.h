/* rollout_judge.h: what must have come of roll-outs of a changed schedule. Knows nothing but rows of
 * the ledger, when each version was first started anywhere, and what was seen in force when. */
#ifndef CAMPAIGN_ROLLOUT_JUDGE_H
#define CAMPAIGN_ROLLOUT_JUDGE_H

#include "check.h"

/* A rolled job fires every two seconds: at the even ones in odd versions, at the odd ones in even. */
#define ROLLED_NAME "rolled-"
enum { ROLLED_PERIOD_MS = 2000, ROLLED_VERSIONS_MAX = 1000 };

/* What is known of one job's cuts: of each version v from 1 on, the first instant at which it, or a
 * later one, can have been put in force, and the last one. */
typedef struct rollout_cuts {
    int64_t from_ms[ROLLED_VERSIONS_MAX + 2];
    int64_t upto_ms[ROLLED_VERSIONS_MAX + 2];
} rollout_cuts;

typedef struct rollout_history {
    const rollout_cuts *cuts; /* of job "rolled-0" and so on */
    size_t job_count;
    size_t version;   /* the last one, at most ROLLED_VERSIONS_MAX */
    int64_t ready_ms; /* version 1 was in force by then */
    int64_t until_ms; /* by then all was due, and the last version in force */
} rollout_history;

typedef struct rollout_report {
    uint64_t faults; /* instants of two schedules, of an older one, holes, and the lost ones */
    uint64_t lost;   /* instants of the schedule in force that are in no row */
    uint64_t fired, switches;
} rollout_report;

/* Nothing is known yet. */
void rollout_cuts_init(rollout_cuts *cuts);
/* Version v is started somewhere for the first time. */
void rollout_cuts_begin(rollout_cuts *cuts, size_t v, int64_t now_ms);
/* Version v was seen in force at an instant not after this one, with a mark. (Not before it, for that
 * matters: the instant of a cut is read before others can see the cut.) */
void rollout_cuts_seen(rollout_cuts *cuts, size_t v, int64_t mark_ms, int64_t upto_ms);

/* Of all rolled jobs. Prints the first ten faults. */
void rollout_judge(const rollout_history *history, const check_row *rows, size_t count,
                   rollout_report *out);

#endif
