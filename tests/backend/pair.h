/* pair.h: whole schedulers with real threads on one store, through the public API, for the tests
 * that hold on every backend. Which one is the program's argument; a test has a namespace of its
 * own. */
#ifndef PAIR_H
#define PAIR_H

#include "cf_support.h"

enum { WAIT_MS = 60000 };

/* Of the schedulers that a test opens; each test begins with one that outlasts a machine's stall,
 * and with requests that do. Where the store is away, requests end in vain: a short one will do. */
extern int64_t pair_lease_ms;

/* One scheduler, and what its job does: a callback goes on until it is let go, or told to stop
 * unless it is deaf. */
struct party {
    jobsched *s;
    _Atomic int calls, inside, stop_reason, let_go, deaf;
    _Atomic int gained, lost, conflicts, stood_down;
    _Atomic uint64_t fired;    /* calls of the job "tick" */
    _Atomic int64_t latest_ms; /* of their instants */
};

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ms_ = cf_real_mono_ms() + WAIT_MS;                                           \
        while (!(condition)) {                                                                     \
            cf_true(cf_real_mono_ms() < until_ms_);                                                \
            cf_pause();                                                                            \
        }                                                                                          \
    } while (0)

/* "single", "sqlite", "postgresql" or "redis". */
extern const char *pair_scheme;

/* The job's callbacks: the first stays, the second just counts. */
int pair_hold(jobsched_run *run, void *user_data);
int pair_tick(jobsched_run *run, void *user_data);

void open_party(struct party *party, const char *name, int leader);
/* Lets the job go, drains and closes. */
void close_party(struct party *party);
void add_job(struct party *party, const char *name, const char *schedule, jobsched_run_fn run,
             uint64_t version);
/* Until the store knows the job. */
void wait_for_job(struct party *party, const char *job);

/* Visits one record: keeps its outcome in an int. */
int keep_outcome(const jobsched_run_record *record, void *user_data);

/* From here on the schedulers that this test opens go to their server through a proxy. */
void pair_go_through_proxy(void);
/* The store cannot be reached, until it can again. Works on all but single:. */
void pair_store_away(void);
void pair_store_back(void);
/* The server gets the next request that contains the text, and its answer is lost. */
void pair_lose_answer(const char *text);

/* A child that the teardown kills if nobody has. Fork before there are threads. */
pid_t pair_fork(void);
void pair_kill(pid_t child);

/* Runs the tests of a group on the backend that the arguments name. */
int pair_main(int argc, char **argv, int (*run)(void));
int pair_set_up(void **state);
int pair_tear_down(void **state);

#endif
