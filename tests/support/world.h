/* world.h: one scheduler without threads, in a world where only the test moves time. The steps of
 * the engine (jsi_tick, jsi_elect, jsi_keep, jsi_work, jsi_deliver) are called by the test, so
 * everything happens in a known order.
 *
 * Everything that was opened is closed by world_close(), which also checks that all memory came
 * back. For the test's own thread. */
#ifndef SUPPORT_WORLD_H
#define SUPPORT_WORLD_H

#include "support/events.h"
#include "support/fake_backend.h"
#include "support/test_clock.h"
#include "support/test_memory.h"
#include "support/typed.h"

#include "engine/internal.h"

/* 2027-01-15T08:00:00Z, a Friday: where every world begins. */
#define WORLD_BEGIN_MS INT64_C(1800000000000)

struct world;
struct world_job;
typedef int (*world_body_fn)(struct world_job *job, jobsched_run *run);

/* A job whose callback is noted in the world's log. */
struct world_job {
    struct world *world;
    const char *name;
    world_body_fn body; /* NULL: returns result */
    int result;
    void *data;
    jobsched_run *pending; /* the last run that was given JOBSCHED_PENDING */
    int calls;
    int freed; /* calls of user_data_free */
    int stopped;
    int stop_reason; /* of the last on_stop */
};

/* One call of a callback. */
struct world_call {
    struct world_job *job;
    int64_t scheduled_ms;
    int64_t at_backend_ms; /* when it was called, by the backend's clock */
    uint64_t token;
    uint32_t attempt;
    int kind;
};

struct world {
    struct test_clock clock;
    jobsched_clock node_clock;
    struct test_memory memory;
    jobsched_allocator allocator;
    struct fake_backend fake;
    struct event_log events;
    jobsched_options options; /* may be changed before world_open() */
    jobsched *s;
    struct world_call *calls;
    size_t call_count, call_capacity;
};

/* lock: "fake:" for the scripted backend, else the URL of a real one. */
void world_init(struct world *world, const char *lock);
void world_open(struct world *world);

/* As jobsched_start(), but for the threads. */
void world_start(struct world *world);

/* world_init, world_open and world_start. */
void world_begin(struct world *world, const char *lock);

/* A spec that calls the job. */
jobsched_job_spec world_spec(struct world *world, struct world_job *job, const char *name,
                             const char *schedule);
void world_add(struct world *world, const jobsched_job_spec *spec);

/* Calls all steps until none has anything left to do at this instant. Returns the monotonic
 * instant at which one of them wants to be called again. */
int64_t world_settle(struct world *world);

/* Lets time pass, stopping at each instant at which a step wants to be called. */
void world_run(struct world *world, int64_t span_ms);

/* Lets time pass while the process is frozen, then settles. */
void world_jump(struct world *world, int64_t span_ms);

int64_t world_now(struct world *world); /* the backend's clock */

/* Closes and checks that nothing leaked. */
void world_close(struct world *world);

/* Calls that the job had, of one kind (-1: any). */
size_t world_calls_of(const struct world *world, const char *name, int kind);

/* ---- the ledger ----------------------------------------------------------- */

enum { WORLD_ROWS_MAX = 20000 };

struct world_ledger {
    jobsched_run_record *rows; /* oldest first; texts are not valid */
    size_t count;
};

/* To be freed with world_ledger_free(). */
struct world_ledger world_ledger_read(struct world *world, const char *job);
void world_ledger_free(struct world_ledger *ledger);

/* Occurrences (not rows) that ended in an outcome. */
uint64_t world_ledger_sum(const struct world_ledger *ledger, int outcome);

/* G9: the rows that are no triggers name each occurrence of the schedule in (after, upto] exactly
 * once, and no other instant; ranges count right. */
void world_check_accounted(struct world *world, const char *job, const char *schedule,
                           int64_t after_ms, int64_t upto_ms);

#endif
