/* pair.c: see pair.h. */
#include "pair.h"

#include "support/proxy.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *pair_scheme = "single";
int64_t pair_lease_ms;

static char lock[512];      /* where the schedulers go */
static char name_space[64]; /* of this test */
static char folder[64];     /* of this program */
static char server_path[256];
static proxy *between;    /* NULL: they go to the server directly */
static sqlite3 *occupant; /* holds the file's write lock while the store is away */
static pid_t child_pid;

int pair_hold(jobsched_run *run, void *user_data)
{
    struct party *party = user_data;
    (void)atomic_fetch_add(&party->calls, 1);
    (void)atomic_fetch_add(&party->inside, 1);
    while (!atomic_load(&party->let_go) &&
           (atomic_load(&party->deaf) || jobsched_run_should_stop(run) == 0)) {
        cf_pause();
    }
    atomic_store(&party->stop_reason, jobsched_run_should_stop(run));
    (void)atomic_fetch_sub(&party->inside, 1);
    return atomic_load(&party->stop_reason) == 0 ? 0 : JOBSCHED_ECANCELED;
}

int pair_tick(jobsched_run *run, void *user_data)
{
    struct party *party = user_data;
    int64_t at_ms = jobsched_run_scheduled_at_ms(run), latest_ms = atomic_load(&party->latest_ms);
    while (at_ms > latest_ms &&
           !atomic_compare_exchange_weak(&party->latest_ms, &latest_ms, at_ms)) {
    }
    (void)atomic_fetch_add(&party->fired, 1);
    return 0;
}

static void observe(const jobsched_event *event, void *user_data)
{
    struct party *party = user_data;
    (void)atomic_fetch_add(&party->gained, event->kind == JOBSCHED_EVENT_LEADER_GAINED);
    (void)atomic_fetch_add(&party->lost, event->kind == JOBSCHED_EVENT_LEADER_LOST);
    (void)atomic_fetch_add(&party->conflicts, event->kind == JOBSCHED_EVENT_JOB_CONFLICT);
    (void)atomic_fetch_add(&party->stood_down, event->kind == JOBSCHED_EVENT_JOB_STOOD_DOWN);
}

void open_party(struct party *party, const char *name, int leader)
{
    static const jobsched_backend *drivers[4];
    drivers[0] = jobsched_backend_sqlite();
    drivers[1] = jobsched_backend_postgresql();
    drivers[2] = jobsched_backend_redis();
    memset(party, 0, sizeof *party);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = lock;
    options.name_space = name_space;
    options.backends = drivers;
    options.node_name = name;
    options.lease_ms = pair_lease_ms;
    options.request_timeout_ms = pair_lease_ms / 3;
    options.leader = leader;
    options.observer = observe;
    options.observer_data = party;
    int64_t until_ms = cf_real_mono_ms() + WAIT_MS;
    int code;
    /* Making a server's schema, or waiting for who does, may take longer than open() may. */
    do {
        code = jobsched_open(&options, &party->s);
        cf_true(cf_real_mono_ms() < until_ms);
        cf_pause();
    } while (code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
    cf_ok(code);
}

void close_party(struct party *party)
{
    atomic_store(&party->let_go, 1);
    cf_ok(jobsched_drain(party->s, WAIT_MS));
    cf_ok(jobsched_close(party->s));
}

void add_job(struct party *party, const char *name, const char *schedule, jobsched_run_fn run,
             uint64_t version)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = schedule;
    spec.run = run;
    spec.user_data = party;
    spec.version = version;
    cf_ok(jobsched_add(party->s, &spec, NULL));
}

static int ignore_job(const jobsched_job_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

void wait_for_job(struct party *party, const char *job)
{
    wait_until(jobsched_jobs(party->s, job, ignore_job, NULL) == 0);
}

int keep_outcome(const jobsched_run_record *record, void *user_data)
{
    *(int *)user_data = record->outcome;
    return 0;
}

/* ---- the store ------------------------------------------------------------- */

static int is(const char *scheme)
{
    return strcmp(pair_scheme, scheme) == 0;
}

/* The server's socket is in the URL that tests/servers.cmake gives: after "host=", a folder, or
 * after "socket=". */
static int find_server(const char *url)
{
    const char *key = is("redis") ? "socket=" : "host=";
    const char *at = url == NULL ? NULL : strstr(url, key);
    if (at == NULL) {
        (void)fprintf(stderr, "no server of %s: is given to test\n", pair_scheme);
        return -1;
    }
    at += strlen(key);
    (void)snprintf(server_path, sizeof server_path, "%.*s%s", (int)strcspn(at, "&"), at,
                   is("redis") ? "" : "/.s.PGSQL.5432");
    return 0;
}

static int find_store(void)
{
    const char *url =
        is("redis") ? getenv("JOBSCHED_TEST_REDIS") : getenv("JOBSCHED_TEST_POSTGRESQL");
    if (is("single")) {
        (void)snprintf(lock, sizeof lock, "single:");
    } else if (is("sqlite")) {
        (void)snprintf(lock, sizeof lock, "sqlite:%s/store.db", folder);
    } else if (find_server(url) != 0) {
        return -1;
    } else {
        (void)snprintf(lock, sizeof lock, "%s", url);
    }
    return 0;
}

static void start_proxy(void)
{
    char listen_at[128];
    (void)snprintf(listen_at, sizeof listen_at, "%s/%s", folder,
                   is("redis") ? "redis.sock" : ".s.PGSQL.5432");
    (void)unlink(listen_at);
    between = proxy_start(listen_at, server_path);
    cf_true(between != NULL);
}

void pair_go_through_proxy(void)
{
    if (is("single") || is("sqlite")) {
        return;
    }
    start_proxy();
    (void)snprintf(lock, sizeof lock,
                   is("redis") ? "redis://?socket=%s/redis.sock"
                               : "postgresql:///postgres?host=%s&user=postgres",
                   folder);
}

void pair_store_away(void)
{
    if (between != NULL) {
        proxy_stop(between); /* what was sent is answered, and nobody listens */
        between = NULL;
        return;
    }
    cf_equal(sqlite3_open(lock + strlen("sqlite:"), &occupant), SQLITE_OK);
    wait_until(sqlite3_exec(occupant, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
}

void pair_store_back(void)
{
    if (!is("sqlite")) {
        start_proxy();
        return;
    }
    cf_equal(sqlite3_exec(occupant, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(occupant);
    occupant = NULL;
}

void pair_lose_answer(const char *text)
{
    proxy_trap(between, text, PROXY_CUT_BEFORE_REPLY);
}

/* ---- the program ----------------------------------------------------------- */

pid_t pair_fork(void)
{
    child_pid = fork();
    cf_true(child_pid >= 0);
    return child_pid;
}

void pair_kill(pid_t child)
{
    int status;
    (void)kill(child, SIGKILL);
    cf_true(waitpid(child, &status, 0) == child);
    child_pid = 0;
}

int pair_set_up(void **state)
{
    static unsigned made;
    (void)state;
    pair_lease_ms = 18000;
    (void)snprintf(name_space, sizeof name_space, "pair %ld.%u", (long)getpid(), made++);
    return find_store();
}

int pair_tear_down(void **state)
{
    (void)state;
    if (child_pid > 0) {
        pair_kill(child_pid);
    }
    proxy_stop(between);
    between = NULL;
    (void)sqlite3_close(occupant);
    occupant = NULL;
    return 0;
}

int pair_main(int argc, char **argv, int (*run)(void))
{
    static const char *const names[] = {"store.db",      "store.db-wal", "store.db-shm",
                                        "store.db-live", "redis.sock",   ".s.PGSQL.5432"};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s single|sqlite|postgresql|redis\n", argv[0]);
        return 2;
    }
    pair_scheme = argv[1];
    (void)snprintf(folder, sizeof folder, "/tmp/pair-XXXXXX");
    if (mkdtemp(folder) == NULL || find_store() != 0) {
        return 1;
    }
    int failures = run();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    return failures == 0 ? 0 : 1;
}
