/* fleet.h: real processes of one cluster, their log, and waiting for what it says.
 * Functions assert, so they are called on the test's own thread only. */
#ifndef CLUSTER_FLEET_H
#define CLUSTER_FLEET_H

#include "check.h"
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/types.h>

#include <cmocka.h>

enum {
    FLEET_NODES_MAX = 4000,
    FLEET_SETTINGS_MAX = 8,
    FLEET_HISTORY = 1000000, /* rows per job: all of them are judged */
    /* For what should take a moment: generous, since machines of two cores run sanitizers. */
    FLEET_SOON_MS = 60000
};

typedef struct fleet_node {
    pid_t pid; /* 0: gone and reaped */
    int index;
    int to, from; /* its stdin and stdout */
    size_t used;
    char line[1024];
} fleet_node;

typedef struct fleet {
    char directory[64];
    server server;
    char name_space[64];
    char log[96];
    char jobs_path[96];
    char errors[96];     /* what nodes write to stderr, which must be nothing */
    char sink[96];       /* what jobs write to; "": nothing */
    const char *url;     /* of nodes from here on; NULL: the server's */
    const char *backend; /* a library; NULL: found by the URL */
    const char *settings[FLEET_SETTINGS_MAX]; /* key=value for every node, ended by NULL */
    bool no_override;
    const check_job *jobs;
    size_t job_count;
    fleet_node nodes[FLEET_NODES_MAX];
    size_t node_count;
    int64_t begin_ms;
    /* the log as far as it has been read */
    int log_fd;
    record *records;
    size_t record_count, record_capacity;
    int64_t
        accounted_ms[CHECK_JOBS_MAX]; /* per job: its latest instant that began or was skipped */
} fleet;

int64_t fleet_now_ms(void); /* CLOCK_REALTIME */
int64_t fleet_mono_ms(void);
void fleet_nap_ms(int64_t ms);

/* The main function of a cluster test: [PATTERN[,PATTERN]... [BACKEND[,BACKEND]...]]. Several
 * tests, and several backends (sqlite, postgresql, redis), run at the same time, each in a process
 * of its own. */
int fleet_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

/* Where the clusters of this process live from here on: a backend, which gets a private server, or
 * the URL of somebody else's. */
void fleet_choose(const char *backend);

/* cmocka's setup and teardown: *state is a fleet. Teardown kills what is left. */
int fleet_setup(void **state);
int fleet_setup_with(void **state, const char *settings); /* of the server */
int fleet_teardown(void **state);

/* The jobs of every node started from here on. */
void fleet_jobs(fleet *f, const check_job *jobs, size_t count);

/* From here on the store ignores the mark: to show that the judge sees what that does. */
void fleet_without_mark(fleet *f);

enum {
    FLEET_ANNOUNCED = 1, /* "ready" only when the cluster knows every job */
    FLEET_PATIENT = 2,   /* waits for a store that cannot be opened */
    FLEET_ONCE = 4       /* asks a store that does not answer only once */
};

/* Starts a process; does not wait. */
fleet_node *fleet_spawn(fleet *f, int64_t offset_ms, unsigned flags);
/* Starts one and waits until it is ready. */
fleet_node *fleet_start(fleet *f, int64_t offset_ms);
void fleet_send(fleet_node *node, const char *command);
/* Waits for the next line, which must begin like this; returns it. */
const char *fleet_await(fleet_node *node, const char *begin, int64_t timeout_ms);
void fleet_signal(const fleet_node *node, int number);
/* SIGSTOP; stopped when it returns. */
void fleet_stop(const fleet_node *node);
/* The same, but on sqlite: between two transactions of the node. */
void fleet_freeze(fleet *f, const fleet_node *node);
void fleet_kill(fleet_node *node); /* SIGKILL, and gone when it returns */
/* "exit", and waits for status 0. Gone: only that, for one that ends by itself. */
void fleet_leave(fleet_node *node);
void fleet_gone(fleet_node *node);
/* A process that comes now is refused with that code, in words that have this one (NULL: any). */
void fleet_expect_refusal(fleet *f, int code, const char *word);
/* Drains with success, then leaves. Runs that would go on for long end by themselves. All: every
 * node that is left. */
void fleet_drain(fleet_node *node);
void fleet_drain_all(fleet *f);
fleet_node *fleet_by_pid(fleet *f, pid_t pid);

/* Reads what was appended to the log. */
void fleet_read_log(fleet *f);
/* Polls until the condition holds; fails the test, naming what, when it takes too long. */
typedef bool (*fleet_condition_fn)(fleet *f, void *data);
void fleet_wait(fleet *f, const char *what, int64_t timeout_ms, fleet_condition_fn condition,
                void *data);
/* Until every job has begun or skipped its last instant up to this one. */
void fleet_wait_accounted(fleet *f, int64_t until_ms);
/* A wall clock instant to wait for: where the passing of time itself is what is tested. */
void fleet_wait_until(int64_t at_ms);

/* As an event: whatever tells that a call to the store failed. */
#define FLEET_ANY_FAILURE (-1)

/* What to look for in the log. Zero or NULL fits all, and so does node -1. */
typedef struct fleet_pattern {
    int what, event, node, code;
    const char *job;
    int64_t after_us; /* 0: any */
    uint64_t token;
} fleet_pattern;
/* The first record that fits, or NULL. */
const record *fleet_find(fleet *f, const fleet_pattern *pattern);
size_t fleet_count(fleet *f, const fleet_pattern *pattern);
/* Waits for such a record and returns a copy. */
record fleet_wait_record(fleet *f, const char *what, int64_t timeout_ms,
                         const fleet_pattern *pattern);

/* For handles of the test itself: a request may take longer than a machine that is busy needs. */
void fleet_be_patient(jobsched_options *options);

/* All rows of the ledger; free() them. */
check_row *fleet_ledger(fleet *f, size_t *out_count);
/* The ledger's row of one occurrence; outcome -1: none. */
check_row fleet_row(fleet *f, const char *job, int64_t scheduled_ms);

/* What became of one job's occurrences within [from_ms, to_ms]. */
typedef struct fleet_tally {
    uint64_t outcomes[CHECK_OUTCOMES]; /* from the ledger */
    uint64_t starts[4];                /* from the callbacks, by enum jobsched_kind */
} fleet_tally;
fleet_tally fleet_tell(fleet *f, const char *job, int64_t from_ms, int64_t to_ms);

/* For sqlite: only. Takes the store's write lock, as a foreign process that hangs in a transaction would; waits for
 * it at most wait_ms. Returns NULL when somebody else has it. */
void *fleet_lock_store(fleet *f, int wait_ms);
void fleet_unlock_store(void *lock);

/* Judges everything since the fleet was set up; prints the report. */
void fleet_check(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report);
/* The same, and no promise may be broken. */
void fleet_check_clean(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report);

#endif
