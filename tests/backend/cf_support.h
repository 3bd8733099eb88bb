/* cf_support.h: what the conformance tests share. Tests see nodes, jobs and instants; only
 * this file's functions fill in the calls of the vtable.
 * Every function that asserts may be called on the test's own thread only. */
#ifndef CF_SUPPORT_H
#define CF_SUPPORT_H

#include "conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <cmocka.h>

#define CF_NODES_MAX    16
#define CF_CHILDREN_MAX 8
#define CF_TIMEOUT_MS   20000   /* of a call: more than a machine stands still */
#define CF_LEASE_MS     3600000 /* so long that no test sees it pass but by moving a clock */
#define CF_POLL_MS      60000   /* bound of every wait for a condition */

/* A test, and which capabilities the driver must have for it to make sense. */
struct cf_test {
    const char *name;
    CMUnitTestFunction run;
    uint32_t needs;
};

extern const struct cf_test cf_open_tests[], cf_announce_tests[], cf_claim_tests[], cf_held_tests[],
    cf_run_tests[], cf_control_tests[], cf_trigger_tests[], cf_ledger_tests[], cf_names_tests[],
    cf_dead_tests[], cf_delay_tests[], cf_durable_tests[], cf_race_tests[], cf_memory_tests[],
    cf_list_tests[], cf_replace_tests[];

/* A clock that follows the real one at a distance that the test chooses. */
struct cf_clock {
    _Atomic int64_t wall_offset_ms, mono_offset_ms;
};

/* One open handle. */
struct cf_node {
    const jobsched_backend *driver;
    void *backend;
    struct cf_clock clock;
    jobsched_backend_config config;
    char url[JOBSCHED_CONFORMANCE_URL_BYTES];
    char name_space[JOBSCHED_NAME_BYTES + 1];
    char id[33];
    char name[JOBSCHED_NAME_BYTES + 1];
    _Atomic int notices, losses, warnings; /* of all kinds; BACKEND_MAY_HAVE_LOST; _WARNING */
};

/* The state of one test. */
struct cf_world {
    const jobsched_conformance_subject *subject;
    const jobsched_backend *driver;
    char url[JOBSCHED_CONFORMANCE_URL_BYTES];
    char name_space[JOBSCHED_NAME_BYTES + 1];
    struct cf_node *nodes[CF_NODES_MAX];
    pid_t children[CF_CHILDREN_MAX];
};

/* Departures from the usual settings; zero and NULL mean the usual. */
struct cf_settings {
    const char *name_space;
    uint64_t history_count;
    int64_t history_age_ms;
    int32_t control_only;
    const jobsched_allocator *allocator;
};

/* A job as its announcer knows it. Occurrence k lies k milliseconds after the mark. */
struct cf_job {
    const char *name;
    uint64_t generation;
    int64_t mark_ms;
};

struct cf_row {
    jobsched_run_record record; /* its texts point into the arrays below */
    char job[JOBSCHED_NAME_BYTES + 1], node[JOBSCHED_NAME_BYTES + 1];
    char note[JOBSCHED_NOTE_BYTES + 1], request[JOBSCHED_REQUEST_BYTES + 1];
};

struct cf_found {
    jobsched_finding finding; /* its texts point into the arrays below */
    char job[JOBSCHED_NAME_BYTES + 1], node[JOBSCHED_NAME_BYTES + 1];
    char request[JOBSCHED_REQUEST_BYTES + 1];
};

/* Typed comparison that prints decimal values. */
#define cf_equal(actual, expected)                                                                 \
    cf_equal_at((int64_t)(actual), (int64_t)(expected), #actual, #expected, __FILE__, __LINE__)
#define cf_true(condition) cf_true_at((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define cf_ok(call)        cf_ok_at((call), #call, __FILE__, __LINE__)
#define cf_answer(item, expected)                                                                  \
    cf_answer_at((item).answer, JOBSCHED_ANSWER_##expected, __FILE__, __LINE__)
void cf_equal_at(int64_t actual, int64_t expected, const char *actual_text,
                 const char *expected_text, const char *file, int line);
void cf_true_at(int condition, const char *text, const char *file, int line);
void cf_ok_at(int code, const char *text, const char *file, int line);
void cf_answer_at(int answer, int expected, const char *file, int line);

int cf_setup(void **state, const jobsched_conformance_subject *subject);
int cf_teardown(void **state);

/* Nodes. */
void cf_config(struct cf_node *node, const struct cf_world *world, const char *name,
               const struct cf_settings *settings);
struct cf_node *cf_open(struct cf_world *world, const char *name);
struct cf_node *cf_open_with(struct cf_world *world, const char *name,
                             const struct cf_settings *settings);
void cf_close(struct cf_world *world, struct cf_node *node);
jobsched_call cf_call(int lane);

/* The backend's clock, and a wait until it shows the instant at least. */
int64_t cf_now(struct cf_node *node);
void cf_wait_until(struct cf_node *node, int64_t instant_ms);
int64_t cf_real_mono_ms(void);
void cf_pause(void); /* between two looks at a condition */

/* Announcements. The second waits until occurrences 1 to due of the job are due. */
jobsched_announcement cf_announce(struct cf_node *node, const char *job, const char *definition,
                                  uint64_t version);
struct cf_job cf_job(struct cf_node *node, const char *name, int64_t due);

/* Claims: a SCHEDULED claim of occurrence k, computed from the mark k - 1, with HELD_WAIT; the
 * test may change it before cf_ask() puts it to the node. cf_grant() does both, from wherever
 * the mark is, and fails unless it is granted. */
jobsched_claim cf_at(const struct cf_job *job, int64_t k);
jobsched_claim cf_range(const struct cf_job *job, int64_t first, int64_t last, int32_t outcome);
void cf_ask(struct cf_node *node, jobsched_claim *claim);
#define cf_grant(node, job, k) cf_grant_at((node), (job), (k), __FILE__, __LINE__)
jobsched_claim cf_grant_at(struct cf_node *node, const struct cf_job *job, int64_t k,
                           const char *file, int line);

int cf_finish(struct cf_node *node, const char *job, uint64_t token, int outcome);
int cf_renew(struct cf_node *node, const char *job, uint64_t token);
int cf_control(struct cf_node *node, int verb, const char *job, const char *request,
               jobsched_control_result *out_result);

/* Copies of what was read or found; they fail when there is more than capacity. */
size_t cf_rows(struct cf_node *node, const char *job, struct cf_row *rows, size_t capacity);
size_t cf_reap(struct cf_node *node, struct cf_found *found, size_t capacity);

/* The newest row of the job; fails when there is none. */
struct cf_row *cf_newest(struct cf_node *node, const char *job, struct cf_row *row);
uint64_t cf_mark(struct cf_node *node, const struct cf_job *job); /* occurrence k of the mark */

/* Children. cf_fork() is fork(), with the child noted for the teardown. Fork before opening
 * nodes, so that no child keeps a handle of its parent alive. A child ends by _exit(); a check
 * that fails in it ends it with status 70. */
pid_t cf_fork(struct cf_world *world);
void cf_kill(struct cf_world *world, pid_t child);
int cf_wait(struct cf_world *world, pid_t child); /* exit status, or -1 */

#endif
