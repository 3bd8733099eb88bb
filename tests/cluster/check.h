/* check.h: the truth about a cluster test, and the judgement on what happened.
 *
 * What should have happened is computed here, from the schedule alone, by arithmetic of our own:
 * all schedules of these tests are grids (an instant is an occurrence if and only if it is
 * phase_ms modulo period_ms). What did happen comes from two witnesses that do not know of each
 * other: the records that the callbacks wrote, and the cluster's ledger. */
#ifndef CLUSTER_CHECK_H
#define CLUSTER_CHECK_H

#include "record.h"

#include <jobsched.h>

#include <stdbool.h>
#include <stdio.h>

enum { CHECK_JOBS_MAX = 2048, CHECK_OUTCOMES = 11, CHECK_PROBLEMS_MAX = 20 };

typedef struct check_job {
    char name[24];
    const char *schedule; /* for the library */
    int64_t period_ms;    /* the same, for us */
    int64_t phase_ms;
    int64_t duration_ms;  /* of the callback; -1: hangs */
    const char *flags;    /* see node.c; NULL: none */
    const char *settings; /* TAB key=value ..., or NULL */
} check_job;

/* The first occurrence after, and the last not after, an instant. */
int64_t check_next(const check_job *job, int64_t after_ms);
int64_t check_last(const check_job *job, int64_t until_ms);

/* A row of the ledger, kept. */
typedef struct check_row {
    char job[24];
    char node[24];
    char request[24]; /* of a trigger */
    int64_t first_ms, last_ms;
    uint64_t count;
    uint64_t token;
    int64_t started_ms;
    uint32_t attempt;
    int32_t kind;
    int32_t outcome;
} check_row;

typedef struct check_input {
    const check_job *jobs;
    size_t job_count;
    const record *records;
    size_t record_count;
    check_row *rows; /* sorted in place */
    size_t row_count;
    int64_t begin_ms; /* before the first node was started */
    int64_t ready_ms; /* when the cluster knew all jobs: what is due later must happen */
    int64_t until_ms; /* up to here all of it */
    int64_t end_ms;   /* after the last node was gone */
} check_input;

typedef struct check_report {
    /* broken promises; all must be 0 */
    uint64_t twice;         /* G1: fired again though it is no rerun */
    uint64_t lost;          /* G9: neither fired nor in the ledger */
    uint64_t token_faults;  /* G2: not larger than the one before */
    uint64_t early;         /* G3 */
    uint64_t overlaps;      /* G4: began before the run before it had ended */
    uint64_t untold;        /* G5: told that its lease goes on after the next run had begun */
    uint64_t ledger_faults; /* G9: not exactly one outcome, no occurrence of the schedule, a wrong
                               count, or a row that the callbacks' records contradict */
    /* what happened */
    uint64_t expected; /* occurrences from ready_ms to until_ms */
    uint64_t fired;    /* starts of scheduled and catch-up runs */
    uint64_t catch_ups, reruns, lease_lost_seen;
    uint64_t outcomes[CHECK_OUTCOMES]; /* occurrences in the ledger */
    uint64_t fired_by[256];            /* per node index */
    int64_t late_us[4];                /* of scheduled runs: median, 95 %, 99 %, largest */
    size_t problem_count;
    char problems[CHECK_PROBLEMS_MAX][160];
} check_report;

void check_run(check_input *input, check_report *out_report);
uint64_t check_faults(const check_report *report);
void check_print(const check_report *report, FILE *out);

#endif
