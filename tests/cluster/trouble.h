/* trouble.h: two nodes whose store fails for longer than their lease, whatever the reason: nothing
 * fires meanwhile, a run that goes on is told, and what was missed is treated by each job's policy;
 * nothing is doubled (G1, G5, G8, G9). */
#ifndef CLUSTER_TROUBLE_H
#define CLUSTER_TROUBLE_H

#include "fleet.h"

enum { TROUBLE_LEASE_MS = 3000, TROUBLE_JOBS = 7 };

/* In place of a code. Nobody can tell whether the server works on it: EUNKNOWN or EUNREACHABLE, and
 * every failure is one of them. */
enum { TROUBLE_AWAY = 1 };

/* The last one, "long", goes on until its node leaves. */
extern const check_job trouble_jobs[TROUBLE_JOBS];

typedef struct trouble {
    int64_t ready_ms, broken_ms, silent_ms, cured_ms;
    bool unknown; /* claims may have been written: they are asked again just as they were (G8) */
} trouble;

/* Starts the nodes and waits until all jobs run. */
void trouble_begin(fleet *f, trouble *t);
/* The run of "long" that goes on now, as far as the log was read; NULL: none. */
const record *trouble_long_run(const fleet *f);
/* The caller has broken the store, and set broken_ms. Both nodes have told that it fails,
 * with that code, and the outage goes on for longer than a lease. */
void trouble_endure(fleet *f, trouble *t, int code);
/* The caller has cured it, and set cured_ms before. Drains and judges. */
void trouble_recover(fleet *f, trouble *t);

/* Every failure that any node has told of since then has one of the codes, ended by 0. How many. */
size_t trouble_codes(fleet *f, int64_t since_ms, const int *codes);

#endif
