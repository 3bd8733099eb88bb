/* fleet.c: the processes of one cluster. What they say in their log: fleet_log.c. Locks: none, one
 * thread. */
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

int64_t fleet_mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void fleet_nap_ms(int64_t ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&span, NULL);
}

/* ---- setup and teardown --------------------------------------------------------- */

static const char *chosen = "sqlite";

void fleet_choose(const char *backend)
{
    chosen = backend;
}

int fleet_setup_with(void **state, const char *settings)
{
    fleet *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -1;
    }
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/cluster-XXXXXX");
    /* The server may be another user, who has to get at its own folder. */
    if (mkdtemp(f->directory) == NULL || chmod(f->directory, 0755) != 0) {
        free(f);
        return -1;
    }
    char store[96];
    (void)snprintf(store, sizeof store, "%s/store", f->directory);
    (void)snprintf(f->name_space, sizeof f->name_space, "cluster test %ld %s", (long)getpid(),
                   f->directory + strlen("/tmp/cluster-"));
    (void)snprintf(f->log, sizeof f->log, "%s/log", f->directory);
    (void)snprintf(f->errors, sizeof f->errors, "%s/stderr", f->directory);
    (void)snprintf(f->jobs_path, sizeof f->jobs_path, "%s/jobs", f->directory);
    (void)signal(SIGPIPE, SIG_IGN); /* a node that is gone is reported by name */
    f->log_fd = open(f->log, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    f->begin_ms = fleet_now_ms();
    *state = f;
    bool made = strchr(chosen, ':') != NULL
                    ? server_borrow(&f->server, chosen)
                    : server_make(&f->server, server_kind_of(chosen), store, settings);
    return made && f->log_fd >= 0 ? 0 : -1;
}

int fleet_setup(void **state)
{
    return fleet_setup_with(state, "");
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

/* G13: a library says nothing on stderr. What a sanitizer says comes out here, too. */
static int print_errors(const fleet *f)
{
    char block[4096];
    size_t all = 0;
    FILE *file = fopen(f->errors, "re");
    for (size_t got; file != NULL && (got = fread(block, 1, sizeof block, file)) > 0; all += got) {
        (void)fwrite(block, 1, got, stdout);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (all > 0) {
        printf("\nthe above was written to stderr by the nodes\n");
    }
    return all == 0 ? 0 : -1;
}

int fleet_teardown(void **state)
{
    fleet *f = *state;
    int result = 0;
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid != 0) {
            (void)kill(f->nodes[i].pid, SIGKILL);
            (void)waitpid(f->nodes[i].pid, NULL, 0);
            shut(&f->nodes[i]);
        }
    }
    (void)close(f->log_fd);
    result = print_errors(f);
    server_remove(&f->server);
    if (getenv("CLUSTER_KEEP") == NULL) {
        (void)nftw(f->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    free(f->records);
    free(f);
    return result;
}

void fleet_jobs(fleet *f, const check_job *jobs, size_t count)
{
    assert_true(count <= CHECK_JOBS_MAX);
    char path[128]; /* a node that starts just now reads the old one or the new one */
    (void)snprintf(path, sizeof path, "%s.new", f->jobs_path);
    FILE *file = fopen(path, "we");
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
    assert_int_equal(rename(path, f->jobs_path), 0);
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
    const char *argv[40] = {CLUSTER_NODE,  "--url",       f->url == NULL ? f->server.url : f->url,
                            "--namespace", f->name_space, "--index",
                            number,        "--offset",    offset,
                            "--log",       f->log,        "--jobs",
                            f->jobs_path};
    size_t count = 13;
    if (f->backend != NULL) {
        argv[count++] = "--backend";
        argv[count++] = f->backend;
    }
    argv[count++] = "--set";
    argv[count++] = "history_count=1000000";
    for (size_t i = 0; f->settings[i] != NULL; i++) {
        argv[count++] = "--set";
        argv[count++] = f->settings[i];
    }
    if (flags & FLEET_ANNOUNCED) {
        argv[count++] = "--announced";
    }
    if (flags & FLEET_PATIENT) {
        argv[count++] = "--patient";
    }
    if (flags & FLEET_ONCE) {
        argv[count++] = "--once";
    }
    if (f->sink[0] != '\0') {
        argv[count++] = "--sink";
        argv[count++] = f->sink;
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
        (void)dup2(open(f->errors, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), STDERR_FILENO);
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
    int64_t until_ms = fleet_mono_ms() + timeout_ms;
    node->used = 0;
    for (;;) {
        struct pollfd waits = {.fd = node->from, .events = POLLIN};
        int64_t left_ms = until_ms - fleet_mono_ms();
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

void fleet_stop(const fleet_node *node)
{
    fleet_signal(node, SIGSTOP);
    assert_int_equal(waitpid(node->pid, NULL, WUNTRACED), node->pid);
}

void fleet_freeze(fleet *f, const fleet_node *node)
{
    if (f->server.kind != SERVER_SQLITE) {
        fleet_stop(node);
        return;
    }
    /* A process that is frozen inside its transaction holds the store's write lock until it is
     * thawed or killed: a limit of SQLite, and not what is tested here. */
    for (int tries = 0; tries < 100; tries++) {
        fleet_stop(node);
        void *lock = fleet_lock_store(f, 300);
        if (lock != NULL) {
            fleet_unlock_store(lock);
            return;
        }
        fleet_signal(node, SIGCONT);
        fleet_nap_ms(POLL_MS);
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

/* Another reason than that one may come first: that the store did not answer in time. */
void fleet_expect_refusal(fleet *f, int code, const char *word)
{
    for (int64_t until_ms = fleet_mono_ms() + FLEET_SOON_MS;;) {
        int got = 0;
        fleet_node *late = fleet_spawn(f, 0, FLEET_ONCE);
        const char *said = fleet_await(late, "", FLEET_SOON_MS);
        printf("%s\n", said);
        (void)sscanf(said, "refused %d ", &got);
        bool right = got == code && (word == NULL || strstr(said, word) != NULL);
        bool slow = got == JOBSCHED_EUNREACHABLE || got == JOBSCHED_EUNKNOWN;
        if (!right && (!slow || fleet_mono_ms() >= until_ms)) {
            fail_msg("a newcomer is not refused with %d and '%s': %s", code,
                     word == NULL ? "" : word, said);
        }
        fleet_gone(late);
        if (right) {
            return;
        }
    }
}

void fleet_drain(fleet_node *node)
{
    fleet_send(node, "leave 30000");
    (void)fleet_await(node, "drained 0 ", FLEET_SOON_MS);
    fleet_leave(node);
}

void fleet_drain_all(fleet *f)
{
    for (size_t i = 0; i < f->node_count; i++) {
        if (f->nodes[i].pid != 0) {
            fleet_send(&f->nodes[i], "leave 30000");
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

/* ---- the store, from outside ---------------------------------------------------- */

void *fleet_lock_store(fleet *f, int wait_ms)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(f->server.database, &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_OK);
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
