/* load.h: many jobs of all sorts on several nodes whose clocks are wrong, and the judgement. */
#ifndef CLUSTER_LOAD_H
#define CLUSTER_LOAD_H

#include "fleet.h"

typedef struct load_plan {
    size_t jobs;
    size_t nodes;        /* their clocks are off by -90 s to +90 s */
    int64_t seconds;     /* for which all that is due is expected */
    size_t churn;        /* how often one further process starts and stops meanwhile */
    const char *workers; /* "workers=N" for each node */
    const char *setting; /* of all jobs, in place of what they have; NULL: they keep it */
} load_plan;

/* Runs the plan and judges it. The caller decides what faults it wanted. */
void load_run(fleet *f, const load_plan *plan, check_report *out_report);

/* Occurrences per second of this many jobs, so that a plan can be made for a number of them. */
double load_rate(size_t jobs);

#endif
