/* fleet.c: real processes of one cluster, and waiting for them. Locks: none, one thread. */
#include "fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 10 };

int64_t fleet_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void nap_ms(int64_t ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&span, NULL);
}

/* ---- setup and teardown --------------------------------------------------------- */

int fleet_setup(void **state)
{
    fleet *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -1;
    }
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/cluster-XXXXXX");
    if (mkdtemp(f->directory) == NULL) {
        free(f);
        return -1;
    }
    (void)snprintf(f->store, sizeof f->store, "%s/store", f->directory);
    (void)snprintf(f->database, sizeof f->database, "%s/jobs.db", f->store);
    (void)snprintf(f->url, sizeof f->url, "sqlite:%s", f->database);
    (void)snprintf(f->log, sizeof f->log, "%s/log", f->directory);
    (void)snprintf(f->jobs_path, sizeof f->jobs_path, "%s/jobs", f->directory);
    (void)signal(SIGPIPE, SIG_IGN); /* a node that is gone is reported by name */
    f->log_fd = open(f->log, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    f->begin_ms = fleet_now_ms();
    *state = f;
    return f->log_fd < 0 || mkdir(f->store, 0755) != 0 ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void shut(fleet_node *node)
{
    (void)close(node->to);
    (void)close(node->from);
    node->pid = 0;
}

int fleet_teardown(void **state)
{
    fleet *f = *state;
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid != 0) {
            (void)kill(f->nodes[i].pid, SIGKILL);
            (void)waitpid(f->nodes[i].pid, NULL, 0);
            shut(&f->nodes[i]);
        }
    }
    (void)close(f->log_fd);
    if (getenv("CLUSTER_KEEP") == NULL) {
        (void)nftw(f->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    free(f->records);
    free(f);
    return 0;
}

void fleet_jobs(fleet *f, const check_job *jobs, size_t count)
{
    assert_true(count <= CHECK_JOBS_MAX);
    FILE *file = fopen(f->jobs_path, "we");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++) {
        const check_job *job = &jobs[i];
        char duration[24] = "hang";
        if (job->duration_ms >= 0) {
            (void)snprintf(duration, sizeof duration, "%lld", (long long)job->duration_ms);
        }
        (void)fprintf(file, "%s\t%s\t%s\tschedule=%s%s%s\n", job->name, duration,
                      job->flags == NULL ? "-" : job->flags, job->schedule,
                      job->settings == NULL ? "" : "\t",
                      job->settings == NULL ? "" : job->settings);
    }
    assert_int_equal(fclose(file), 0);
    f->jobs = jobs;
    f->job_count = count;
}

/* ---- processes ------------------------------------------------------------------ */

static _Noreturn void become_node(const fleet *f, int index, int64_t offset_ms, unsigned flags)
{
    char number[16];
    char offset[24];
    (void)snprintf(number, sizeof number, "%d", index);
    (void)snprintf(offset, sizeof offset, "%lld", (long long)offset_ms);
    const char *argv[32] = {CLUSTER_NODE, "--url",  f->url,      "--namespace", "cluster test",
                            "--index",    number,   "--offset",  offset,        "--log",
                            f->log,       "--jobs", f->jobs_path};
    size_t count = 13;
    if (f->backend != NULL) {
        argv[count++] = "--backend";
        argv[count++] = f->backend;
    }
    for (size_t i = 0; f->settings[i] != NULL; i++) {
        argv[count++] = "--set";
        argv[count++] = f->settings[i];
    }
    if (flags & FLEET_ANNOUNCED) {
        argv[count++] = "--announced";
    }
    if (f->no_override) {
        argv[count++] = "--no-override";
    }
    /* A test that dies must not leave processes behind, frozen ones least of all. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execv(CLUSTER_NODE, (char *const *)argv);
    perror(CLUSTER_NODE);
    _exit(127);
}

fleet_node *fleet_spawn(fleet *f, int64_t offset_ms, unsigned flags)
{
    assert_true(f->node_count < FLEET_NODES_MAX);
    fleet_node *node = &f->nodes[f->node_count];
    int to[2];
    int from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(to[0], STDIN_FILENO);
        (void)dup2(from[1], STDOUT_FILENO);
        become_node(f, (int)f->node_count, offset_ms, flags);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    *node = (fleet_node){.pid = pid, .index = (int)f->node_count, .to = to[1], .from = from[0]};
    f->node_count++;
    return node;
}

fleet_node *fleet_start(fleet *f, int64_t offset_ms)
{
    fleet_node *node = fleet_spawn(f, offset_ms, FLEET_ANNOUNCED);
    (void)fleet_await(node, "ready", FLEET_SOON_MS);
    return node;
}

void fleet_send(fleet_node *node, const char *command)
{
    size_t length = strlen(command);
    if (write(node->to, command, length) != (ssize_t)length || write(node->to, "\n", 1) != 1) {
        fail_msg("node %d does not read: %s", node->index, strerror(errno));
    }
}

const char *fleet_await(fleet_node *node, const char *begin, int64_t timeout_ms)
{
    int64_t until_ms = mono_ms() + timeout_ms;
    node->used = 0;
    for (;;) {
        struct pollfd waits = {.fd = node->from, .events = POLLIN};
        int64_t left_ms = until_ms - mono_ms();
        if (left_ms <= 0) {
            fail_msg("node %d did not say '%s' within %lld ms", node->index, begin,
                     (long long)timeout_ms);
        }
        if (poll(&waits, 1, (int)left_ms) <= 0) {
            continue;
        }
        char byte;
        if (read(node->from, &byte, 1) != 1) {
            fail_msg("node %d ended before it said '%s'", node->index, begin);
        }
        if (byte != '\n' && node->used < sizeof node->line - 1) {
            node->line[node->used++] = byte;
        }
        if (byte == '\n') {
            break;
        }
    }
    node->line[node->used] = '\0';
    if (strncmp(node->line, begin, strlen(begin)) != 0) {
        fail_msg("node %d said '%s', not '%s'", node->index, node->line, begin);
    }
    return node->line;
}

void fleet_signal(const fleet_node *node, int number)
{
    assert_int_equal(kill(node->pid, number), 0);
}

void fleet_freeze(fleet *f, const fleet_node *node)
{
    /* A process that is frozen inside its transaction holds the store's write lock until it is
     * thawed or killed: a limit of SQLite, and not what is tested here. */
    for (int tries = 0; tries < 100; tries++) {
        fleet_signal(node, SIGSTOP);
        assert_int_equal(waitpid(node->pid, NULL, WUNTRACED), node->pid);
        void *lock = fleet_lock_store(f, 300);
        if (lock != NULL) {
            fleet_unlock_store(lock);
            return;
        }
        fleet_signal(node, SIGCONT);
        nap_ms(POLL_MS);
    }
    fail_msg("node %d was inside a transaction a hundred times", node->index);
}

void fleet_kill(fleet_node *node)
{
    fleet_signal(node, SIGKILL);
    assert_int_equal(waitpid(node->pid, NULL, 0), node->pid);
    shut(node);
}

void fleet_leave(fleet_node *node)
{
    fleet_send(node, "exit");
    (void)fleet_await(node, "closed", FLEET_SOON_MS);
    fleet_gone(node);
}

void fleet_gone(fleet_node *node)
{
    int status = 0;
    assert_int_equal(waitpid(node->pid, &status, 0), node->pid);
    if (status != 0) {
        fail_msg("node %d ended with status %d, signal %d", node->index, WEXITSTATUS(status),
                 WTERMSIG(status));
    }
    shut(node);
}

static void send_drain(const fleet *f, fleet_node *node)
{
    char command[32];
    (void)snprintf(command, sizeof command, "drain %lld",
                   (long long)(f->drain_ms == 0 ? 30000 : f->drain_ms));
    fleet_send(node, command);
}

void fleet_drain(fleet *f, fleet_node *node)
{
    send_drain(f, node);
    (void)fleet_await(node, "drained 0 ", FLEET_SOON_MS);
    fleet_leave(node);
}

void fleet_drain_all(fleet *f)
{
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid != 0) {
            send_drain(f, &f->nodes[i]);
        }
    }
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid != 0) {
            (void)fleet_await(&f->nodes[i], "drained 0 ", FLEET_SOON_MS);
            fleet_leave(&f->nodes[i]);
        }
    }
}

fleet_node *fleet_by_pid(fleet *f, pid_t pid)
{
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid == pid) {
            return &f->nodes[i];
        }
    }
    fail_msg("no node has process id %d", (int)pid);
    return NULL;
}

/* ---- the log -------------------------------------------------------------------- */

static void account(fleet *f, const record *entry)
{
    bool began = entry->what == RECORD_START;
    bool skipped = entry->what == RECORD_EVENT && entry->event == JOBSCHED_EVENT_SKIPPED;
    for (size_t i = 0; (began || skipped) && i < f->job_count; i++) {
        if (strcmp(f->jobs[i].name, entry->job) == 0 && entry->last_ms > f->accounted_ms[i]) {
            f->accounted_ms[i] = entry->last_ms;
        }
    }
}

void fleet_read_log(fleet *f)
{
    for (;;) {
        if (f->record_capacity - f->record_count < 1024) {
            f->record_capacity = f->record_capacity * 2 + 4096;
            f->records = realloc(f->records, f->record_capacity * sizeof(record));
            assert_non_null(f->records);
        }
        record *end = &f->records[f->record_count];
        off_t offset = (off_t)(f->record_count * sizeof(record));
        ssize_t got = pread(f->log_fd, end, 1024 * sizeof(record), offset);
        size_t count = got < 0 ? 0 : (size_t)got / sizeof(record);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(end[i].magic, RECORD_MAGIC);
            account(f, &end[i]);
        }
        f->record_count += count;
        if (count == 0) {
            return;
        }
    }
}

void fleet_wait(fleet *f, const char *what, int64_t timeout_ms, fleet_condition_fn condition,
                void *data)
{
    int64_t until_ms = mono_ms() + timeout_ms;
    for (;;) {
        fleet_read_log(f);
        if (condition(f, data)) {
            return;
        }
        if (mono_ms() >= until_ms) {
            fail_msg("not within %lld ms: %s", (long long)timeout_ms, what);
        }
        nap_ms(POLL_MS);
    }
}

static bool is_accounted(fleet *f, void *data)
{
    int64_t until_ms = *(const int64_t *)data;
    for (size_t i = 0; i < f->job_count; i++) {
        if (f->accounted_ms[i] < check_last(&f->jobs[i], until_ms)) {
            return false;
        }
    }
    return true;
}

void fleet_wait_accounted(fleet *f, int64_t until_ms)
{
    int64_t left_ms = until_ms - fleet_now_ms();
    fleet_wait(f, "every job has begun or skipped its last instant",
               (left_ms > 0 ? left_ms : 0) + FLEET_SOON_MS, is_accounted, &until_ms);
}

void fleet_wait_until(int64_t at_ms)
{
    for (int64_t left_ms; (left_ms = at_ms - fleet_now_ms()) > 0;) {
        nap_ms(left_ms < POLL_MS ? left_ms : POLL_MS);
    }
}

static bool fits(const record *entry, const fleet_pattern *pattern)
{
    return (pattern->what == 0 || entry->what == pattern->what) &&
           (pattern->event == 0 || entry->event == pattern->event) &&
           (pattern->node < 0 || entry->node == pattern->node) &&
           (pattern->job == NULL || strcmp(entry->job, pattern->job) == 0) &&
           entry->at_us > pattern->after_us;
}

const record *fleet_find(fleet *f, const fleet_pattern *pattern)
{
    for (size_t i = 0; i < f->record_count; i++) {
        if (fits(&f->records[i], pattern)) {
            return &f->records[i];
        }
    }
    return NULL;
}

size_t fleet_count(fleet *f, const fleet_pattern *pattern)
{
    size_t count = 0;
    for (size_t i = 0; i < f->record_count; i++) {
        count += fits(&f->records[i], pattern);
    }
    return count;
}

static bool is_found(fleet *f, void *data)
{
    return fleet_find(f, data) != NULL;
}

record fleet_wait_record(fleet *f, const char *what, int64_t timeout_ms,
                         const fleet_pattern *pattern)
{
    fleet_pattern copy = *pattern;
    fleet_wait(f, what, timeout_ms, is_found, &copy);
    return *fleet_find(f, pattern);
}

/* ---- the ledger ----------------------------------------------------------------- */

typedef struct listing {
    check_row *rows;
    size_t count, capacity;
} listing;

static int keep_row(const jobsched_run_record *from, void *user_data)
{
    listing *all = user_data;
    if (all->count == all->capacity) {
        all->capacity = all->capacity * 2 + 1024;
        all->rows = realloc(all->rows, all->capacity * sizeof *all->rows);
        if (all->rows == NULL) {
            abort();
        }
    }
    check_row *row = &all->rows[all->count++];
    *row = (check_row){.first_ms = from->scheduled_at_ms,
                       .last_ms = from->last_at_ms,
                       .count = from->count,
                       .token = from->token,
                       .started_ms = from->started_at_ms,
                       .attempt = from->attempt,
                       .kind = from->kind,
                       .outcome = from->outcome};
    (void)snprintf(row->job, sizeof row->job, "%s", from->job);
    (void)snprintf(row->node, sizeof row->node, "%s", from->node);
    return 0;
}

check_row *fleet_ledger(fleet *f, size_t *out_count)
{
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = f->url;
    options.name_space = "cluster test";
    options.node_name = "reader";
    jobsched *reader = NULL;
    listing all = {NULL, 0, 0};
    if (jobsched_open(&options, &reader) != 0) {
        fail_msg("the ledger cannot be opened: %s", jobsched_last_error()->message);
    }
    for (size_t i = 0; i < f->job_count; i++) {
        if (jobsched_runs(reader, f->jobs[i].name, 10000000, keep_row, &all) != 0) {
            fail_msg("the ledger cannot be read: %s", jobsched_last_error()->message);
        }
    }
    assert_int_equal(jobsched_close(reader), 0);
    *out_count = all.count;
    return all.rows;
}

check_row fleet_row(fleet *f, const char *job, int64_t scheduled_ms)
{
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    check_row found = {.outcome = -1};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].job, job) == 0 && rows[i].first_ms <= scheduled_ms &&
            rows[i].last_ms >= scheduled_ms) {
            found = rows[i];
        }
    }
    free(rows);
    return found;
}

fleet_tally fleet_tell(fleet *f, const char *job, int64_t from_ms, int64_t to_ms)
{
    fleet_tally tally = {{0}, {0}};
    size_t count;
    check_row *rows = fleet_ledger(f, &count);
    const check_job *truth = NULL;
    for (size_t i = 0; i < f->job_count; i++) {
        truth = strcmp(f->jobs[i].name, job) == 0 ? &f->jobs[i] : truth;
    }
    assert_non_null(truth);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].job, job) != 0 || rows[i].outcome >= CHECK_OUTCOMES) {
            continue;
        }
        int64_t first_ms = rows[i].first_ms > from_ms ? rows[i].first_ms : from_ms;
        int64_t last_ms = rows[i].last_ms < to_ms ? rows[i].last_ms : to_ms;
        for (int64_t at_ms = check_next(truth, first_ms - 1); at_ms <= last_ms;
             at_ms = check_next(truth, at_ms)) {
            tally.outcomes[rows[i].outcome]++;
        }
    }
    free(rows);
    fleet_read_log(f);
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_START && strcmp(entry->job, job) == 0 &&
            entry->scheduled_ms >= from_ms && entry->scheduled_ms <= to_ms) {
            tally.starts[entry->kind & 3]++;
        }
    }
    return tally;
}

/* ---- the store, from outside ---------------------------------------------------- */

void *fleet_lock_store(fleet *f, int wait_ms)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(f->database, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, wait_ms);
    if (sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK) {
        (void)sqlite3_close(db);
        return NULL;
    }
    return db;
}

void fleet_unlock_store(void *lock)
{
    assert_int_equal(sqlite3_exec(lock, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(lock), SQLITE_OK);
}

/* ---- the verdict ---------------------------------------------------------------- */

void fleet_check(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report)
{
    fleet_read_log(f);
    check_input input = {.jobs = f->jobs,
                         .job_count = f->job_count,
                         .records = f->records,
                         .record_count = f->record_count,
                         .begin_ms = f->begin_ms,
                         .ready_ms = ready_ms,
                         .until_ms = until_ms,
                         .end_ms = fleet_now_ms()};
    input.rows = fleet_ledger(f, &input.row_count);
    check_run(&input, out_report);
    free(input.rows);
    check_print(out_report, stdout);
    (void)fflush(stdout);
}

void fleet_check_clean(fleet *f, int64_t ready_ms, int64_t until_ms, check_report *out_report)
{
    fleet_check(f, ready_ms, until_ms, out_report);
    if (check_faults(out_report) != 0) {
        fail_msg("%llu promises were broken; see above",
                 (unsigned long long)check_faults(out_report));
    }
    assert_true(out_report->expected > 0);
    fleet_pattern dropped = {
        .what = RECORD_EVENT, .event = JOBSCHED_EVENT_EVENTS_DROPPED, .node = -1};
    assert_int_equal(fleet_count(f, &dropped), 0);
}
