/* test_sqlite_live.c: who is alive on a sqlite: store: the lock file, the heartbeat, and what
 * happens when either of them is disturbed. */
#include "sqlite_support.h"

#include "sqlite_shim.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static jobsched_claim ask(struct cf_node *node, const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    cf_ask(node, &claim);
    return claim;
}

static void pass_lease(struct cf_node *node)
{
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS);
}

/* Whether the byte of a node row is locked, as seen through a file of our own. */
static int is_locked(int64_t row)
{
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    int fd = open(lock_file, O_RDWR | O_CLOEXEC);
    cf_true(fd >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row, .l_len = 1};
    int result = fcntl(fd, F_OFD_GETLK, &lock);
    (void)close(fd);
    cf_equal(result, 0);
    return lock.l_type != F_UNLCK;
}

/* G4: two nodes of one process are two nodes: neither takes the other for dead, and closing one
 * drops nothing of the other. */
static void test_two_nodes_of_one_process(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    struct cf_job job = cf_job(a, "job", 3);
    jobsched_claim run = cf_grant(a, &job, 1);
    cf_answer(ask(b, &job, 2), HELD);
    cf_answer(ask(a, &job, 2), HELD); /* nor itself: its own lock does not look held to it */
    struct cf_found found;
    cf_equal(cf_reap(a, &found, 1), 0);
    cf_equal(cf_reap(b, &found, 1), 0);
    cf_close(world, cf_open(world, "c"));
    cf_answer(ask(b, &job, 2), HELD);
    cf_equal(cf_renew(a, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_close(world, a);
    cf_answer(ask(b, &job, 2), GRANTED);
}

/* G10, G15: closing with a run under way hands the job over at once, and the run is told. */
static void test_close_hands_over_at_once(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    struct cf_job job = cf_job(a, "job", 3);
    jobsched_claim run = cf_at(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 1;
    cf_ask(a, &run);
    cf_answer(run, GRANTED);
    cf_close(world, a);
    struct cf_row row;
    cf_newest(b, "job", &row);
    cf_equal(row.record.outcome, JOBSCHED_OUTCOME_INTERRUPTED);
    assert_string_equal(row.note, "closed before the callback returned");
    struct cf_found found[4];
    cf_equal(cf_reap(b, found, 4), 2);
    cf_equal(found[0].finding.found, JOBSCHED_FOUND_INTERRUPTED);
    assert_string_equal(found[0].node, "a");
    cf_equal(found[1].finding.found, JOBSCHED_FOUND_RERUN);
    cf_equal(cf_reap(b, found, 4), 1); /* the rerun still waits; the interruption was told */
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
}

/* G10: an owner that stands still while its process lives (its lock is held) is dead after a
 * whole lease on our monotonic clock, and not before. G5: when it comes back, it is told. */
static void test_frozen_owner_is_dead_after_its_lease(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *frozen = cf_open(world, "frozen"), *node = cf_open(world, "node");
    struct cf_job job = cf_job(frozen, "job", 4);
    jobsched_claim run = cf_grant(frozen, &job, 1);
    int64_t row = sqlite_ask("SELECT id FROM node WHERE name = 'frozen'");
    /* However late we come: the watch begins with our first look. */
    pass_lease(node);
    cf_answer(ask(node, &job, 2), HELD);
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS - 60000);
    cf_answer(ask(node, &job, 2), HELD);
    /* A heartbeat begins it anew. */
    cf_equal(cf_renew(frozen, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_answer(ask(node, &job, 2), HELD);
    atomic_fetch_add(&node->clock.mono_offset_ms, CF_LEASE_MS - 60000);
    cf_answer(ask(node, &job, 2), HELD);
    atomic_fetch_add(&node->clock.mono_offset_ms, 60000);
    cf_true(is_locked(row));
    jobsched_claim next = ask(node, &job, 2);
    cf_answer(next, GRANTED);
    cf_true(next.token > run.token);

    struct cf_found found[2];
    cf_equal(cf_reap(node, found, 2), 1);
    assert_string_equal(found[0].node, "frozen");
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1); /* forgotten as well */
    cf_equal(cf_renew(frozen, "job", run.token), JOBSCHED_LEASE_GONE);
    cf_equal(cf_finish(frozen, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_GONE);
    /* It has come back as the node it was, and is no more dead than others. */
    cf_equal(sqlite_ask("SELECT id FROM node WHERE name = 'frozen'"), row);
    cf_equal(cf_finish(node, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_answer(ask(frozen, &job, 3), GRANTED);
    cf_answer(ask(node, &job, 4), HELD);
}

/* Reaping sees a frozen owner without any claim, and only runs whose own lease has passed. */
static void test_reap_judges_each_run_by_its_own_lease(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *frozen = cf_open(world, "frozen"), *node = cf_open(world, "node");
    struct cf_job brief = cf_job(frozen, "brief", 1), lasting = cf_job(frozen, "lasting", 1);
    jobsched_claim run = cf_at(&brief, 1);
    run.lease_ms = 60000;
    cf_ask(frozen, &run);
    cf_answer(run, GRANTED);
    (void)cf_grant(frozen, &lasting, 1);
    struct cf_found found[2];
    cf_equal(cf_reap(node, found, 2), 0);
    atomic_fetch_add(&node->clock.mono_offset_ms, 60000);
    cf_equal(cf_reap(node, found, 2), 1);
    assert_string_equal(found[0].job, "brief");
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 2);
    pass_lease(node);
    cf_equal(cf_reap(node, found, 2), 1);
    assert_string_equal(found[0].job, "lasting");
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
}

/* Leases are never judged by wall clocks: a jump of a day kills nobody (G10), and a jump back
 * grants nothing again (G1). */
static void test_wall_clock_jump_kills_nobody(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    struct cf_job job = cf_job(a, "job", 2);
    jobsched_claim run = cf_grant(a, &job, 1);
    struct cf_found found;
    static const int64_t jumps[] = {86400000, -86400000};
    for (int i = 0; i < 2; i++) {
        sqlite_shim_clock(jumps[i]);
        jobsched_claim again = ask(b, &job, 1), next = ask(b, &job, 2);
        cf_answer(again, DONE);
        cf_equal(next.answer, i == 0 ? JOBSCHED_ANSWER_HELD : JOBSCHED_ANSWER_EARLY);
        cf_equal(cf_reap(b, &found, 1), 0);
    }
    cf_equal(cf_renew(a, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* A lock file that was deleted and made anew proves nothing about who holds the old one; each
 * node takes its lock anew at its next heartbeat, and tells. */
static void test_deleted_lock_file_kills_nobody(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a");
    struct cf_job job = cf_job(a, "job", 3);
    jobsched_claim run = cf_grant(a, &job, 1);
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    cf_equal(unlink(lock_file), 0);
    struct cf_node *b = cf_open(world, "b");
    int64_t row = sqlite_ask("SELECT id FROM node WHERE name = 'a'");
    cf_true(!is_locked(row));
    cf_answer(ask(b, &job, 2), HELD);
    struct cf_found found;
    cf_equal(cf_reap(b, &found, 1), 0);
    cf_equal(atomic_load(&a->notices), 0);
    cf_equal(cf_renew(a, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(atomic_load(&a->warnings), 1);
    cf_true(is_locked(row));
    struct stat status;
    cf_equal(stat(lock_file, &status), 0);
    cf_equal(sqlite_ask("SELECT lock_ino FROM node WHERE name = 'a'"), status.st_ino);
    cf_answer(ask(b, &job, 2), HELD);
    cf_equal(cf_renew(a, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(atomic_load(&a->warnings), 1);
}

static struct cf_job read_job(int end)
{
    struct cf_job job;
    cf_equal(read(end, &job, sizeof job), sizeof job);
    job.name = "job"; /* the pointer was the child's */
    return job;
}

/* And once taken anew, the lock proves a death again. */
static void test_lock_taken_anew_proves_death(void **state)
{
    struct cf_world *world = *state;
    int ends[2], go[2];
    cf_equal(pipe(ends), 0);
    cf_equal(pipe(go), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        char byte;
        struct cf_node *a = cf_open(world, "a");
        struct cf_job job = cf_job(a, "job", 3);
        jobsched_claim run = cf_grant(a, &job, 1);
        cf_equal(write(ends[1], &job, sizeof job), sizeof job);
        cf_equal(read(go[0], &byte, 1), 1);
        char lock_file[SQLITE_PATH_BYTES];
        sqlite_name(lock_file, "-live");
        cf_equal(unlink(lock_file), 0);
        cf_equal(cf_renew(a, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(write(ends[1], "x", 1), 1);
        for (;;) {
            (void)pause();
        }
    }
    char byte;
    (void)close(ends[1]);
    struct cf_job job = read_job(ends[0]);
    struct cf_node *b = cf_open(world, "b");
    cf_equal(write(go[1], "x", 1), 1);
    cf_equal(read(ends[0], &byte, 1), 1);
    (void)close(ends[0]);
    (void)close(go[0]);
    (void)close(go[1]);
    cf_answer(ask(b, &job, 2), HELD); /* we hold the old file: no proof either way */
    (void)cf_now(b);                  /* our heartbeat finds the new one */
    cf_answer(ask(b, &job, 2), HELD);
    cf_kill(world, child);
    cf_answer(ask(b, &job, 2), GRANTED);
}

/* Forks a child whose node holds occurrence 1, and which has forked on: the grandchild keeps the
 * node's lock. Returns the child; the grandchild dies with the write end of the pipe. */
static pid_t start_family(struct cf_world *world, struct cf_job *out_job, int *out_leash)
{
    int ready[2], leash[2];
    cf_equal(pipe(ready), 0);
    cf_equal(pipe(leash), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        (void)close(leash[1]);
        struct cf_node *a = cf_open(world, "a");
        struct cf_job job = cf_job(a, "job", 3);
        (void)cf_grant(a, &job, 1);
        cf_equal(write(ready[1], &job, sizeof job), sizeof job);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            char byte;
            cf_equal(write(ready[1], "x", 1), 1);
            (void)!read(leash[0], &byte, 1);
            _exit(0);
        }
        for (;;) {
            (void)pause();
        }
    }
    char byte;
    (void)close(ready[1]);
    (void)close(leash[0]);
    *out_job = read_job(ready[0]);
    cf_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    *out_leash = leash[1];
    return child;
}

/* A forked child that outlives the owner keeps its lock. That must delay the takeover, by the
 * lease at most, and never prevent it. */
static void test_forked_child_only_delays(void **state)
{
    struct cf_world *world = *state;
    struct cf_job job;
    int leash;
    pid_t child = start_family(world, &job, &leash);
    struct cf_node *b = cf_open(world, "b");
    cf_kill(world, child);
    cf_answer(ask(b, &job, 2), HELD);
    pass_lease(b);
    cf_answer(ask(b, &job, 2), GRANTED);
    (void)close(leash);
}

/* G16: dead nodes leave neither rows nor files behind. */
static void test_dead_nodes_leave_nothing(void **state)
{
    struct cf_world *world = *state;
    for (int i = 0; i < 10; i++) {
        pid_t child = cf_fork(world);
        if (child == 0) {
            (void)cf_open(world, "mayfly");
            (void)raise(SIGKILL);
        }
        cf_equal(cf_wait(world, child), -1);
    }
    struct cf_node *node = cf_open(world, "node");
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 11);
    struct cf_found found;
    cf_equal(cf_reap(node, &found, 1), 0);
    cf_equal(sqlite_ask("SELECT count(*) FROM node"), 1);
    struct stat status;
    char lock_file[SQLITE_PATH_BYTES];
    sqlite_name(lock_file, "-live");
    cf_equal(stat(lock_file, &status), 0);
    cf_equal(status.st_size, 0);
}

/* ---- fork ---- */

/* This program again, as 'outsider': opens the URL, claims occurrence k of the job, and exits with
 * the answer. The parts are what cf_at() needs. */
static int outsider(const char *url, const char *name_space, const char *mark, const char *k)
{
    struct cf_world world = {.driver = jobsched_backend_sqlite()};
    struct cf_node node = {.backend = NULL};
    (void)snprintf(world.url, sizeof world.url, "%s", url);
    (void)snprintf(world.name_space, sizeof world.name_space, "%s", name_space);
    cf_config(&node, &world, "outsider", NULL);
    if (world.driver->open(&node.config, &node.backend) != JOBSCHED_OK) {
        return 99;
    }
    struct cf_job job = {.name = "job", .generation = 1, .mark_ms = strtoll(mark, NULL, 10)};
    jobsched_claim claim = cf_at(&job, strtoll(k, NULL, 10));
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    int code = world.driver->claim(node.backend, &call, &claim, 1);
    world.driver->close(node.backend);
    return code == JOBSCHED_OK ? claim.answer : 98;
}

/* Not /proc/self/exe, which is another program under valgrind. */
static char program_path[PATH_MAX];

static void exec_outsider(const struct cf_world *world, const struct cf_job *job, const char *k)
{
    char mark[32];
    (void)snprintf(mark, sizeof mark, "%lld", (long long)job->mark_ms);
    (void)execl(program_path, program_path, "outsider", world->url, world->name_space, mark, k,
                (char *)NULL);
    _exit(97);
}

/* G1: SQLite's locks do not pass through fork but its list of them does, so a forked child that
 * opened a store would work on a log which others delete: it is refused, for good. One that calls
 * exec is not. */
static void test_forked_child_is_refused_unless_it_execs(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *a = cf_open(world, "a");
    struct cf_job job = cf_job(a, "job", 4);
    int go[2];
    cf_equal(pipe(go), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        char byte;
        (void)close(go[1]);
        cf_equal(sqlite_try_url(world, world->url), JOBSCHED_EFORK);
        cf_true(strstr(jobsched_last_error()->message, "was forked while a sqlite: handle") !=
                NULL);
        cf_equal(sqlite_try_path(world, "/tmp/jobsched-no-such/other.db"), JOBSCHED_EFORK);
        cf_equal(read(go[0], &byte, 1), 0); /* until the parent has closed */
        cf_equal(sqlite_try_url(world, world->url), JOBSCHED_EFORK);
        _exit(0);
    }
    pid_t execs = cf_fork(world);
    if (execs == 0) {
        exec_outsider(world, &job, "1");
    }
    cf_equal(cf_wait(world, execs), JOBSCHED_ANSWER_GRANTED);
    cf_close(world, a);
    (void)close(go[0]);
    (void)close(go[1]);
    cf_equal(cf_wait(world, child), 0);
    /* Nothing of the parent is left: whoever is forked now opens as ever, and sees the grant. */
    pid_t later = cf_fork(world);
    if (later == 0) {
        struct cf_node *b = cf_open(world, "b");
        cf_equal(cf_mark(b, &job), 1);
        (void)cf_grant(b, &job, 2);
        _exit(0);
    }
    cf_equal(cf_wait(world, later), 0);
    struct cf_node *c = cf_open(world, "c");
    cf_answer(ask(c, &job, 2), DONE);
    cf_answer(ask(c, &job, 3), GRANTED);
}

/* ---- lanes at the same time ---- */

enum { ROUNDS = 150 };

struct worker {
    struct cf_node *node;
    struct cf_job job;
    _Atomic int *stop;
    int failures; /* read after the join */
    int done;
};

static void *claim_and_finish(void *data)
{
    struct worker *worker = data;
    const jobsched_backend *driver = worker->node->driver;
    for (int64_t k = 1; k <= ROUNDS; k++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        jobsched_claim claim = cf_at(&worker->job, k);
        worker->failures += driver->claim(worker->node->backend, &call, &claim, 1) != 0 ||
                            claim.answer != JOBSCHED_ANSWER_GRANTED;
        jobsched_finish finish = {.job = worker->job.name,
                                  .note = "",
                                  .token = claim.token,
                                  .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        call = cf_call(JOBSCHED_LANE_CLAIM);
        worker->failures += driver->finish(worker->node->backend, &call, &finish, 1) != 0 ||
                            finish.answer != JOBSCHED_LEASE_KEPT;
        worker->done++;
    }
    return NULL;
}

static int ignore_finding(const jobsched_finding *finding, void *data)
{
    (void)finding;
    (void)data;
    return 0;
}

static void *keep(void *data)
{
    struct worker *worker = data;
    const jobsched_backend *driver = worker->node->driver;
    while (!atomic_load(worker->stop)) {
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        worker->failures += driver->renew(worker->node->backend, &call, 0, NULL, 0) != 0;
        call = cf_call(JOBSCHED_LANE_KEEP);
        worker->failures += driver->reap(worker->node->backend, &call, ignore_finding, NULL) != 0;
        worker->done++;
        cf_pause();
    }
    return NULL;
}

static int ignore_run(const jobsched_run_record *record, void *data)
{
    (void)record;
    (void)data;
    return 0;
}

static void *administer(void *data)
{
    struct worker *worker = data;
    const jobsched_backend *driver = worker->node->driver;
    const jobsched_command command = {.verb = JOBSCHED_VERB_RESUME, .job = worker->job.name};
    while (!atomic_load(worker->stop)) {
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        worker->failures += driver->control(worker->node->backend, &call, &command, NULL) != 0;
        call = cf_call(JOBSCHED_LANE_ADMIN);
        worker->failures +=
            driver->runs(worker->node->backend, &call, NULL, 10, ignore_run, NULL) != 0;
        worker->done++;
        cf_pause();
    }
    return NULL;
}

/* Lanes of one node and of another in the same process work at the same time; none fails, and
 * none is starved. (The thread sanitizer looks at this one too.) */
static void test_lanes_at_the_same_time(void **state)
{
    struct cf_world *world = *state;
    static void *(*const bodies[])(void *) = {claim_and_finish, keep, administer};
    static const char *const names[] = {"job-a", "job-b"};
    _Atomic int stop = 0;
    struct worker workers[2][3];
    pthread_t threads[2][3];
    for (int n = 0; n < 2; n++) {
        struct cf_node *node = cf_open(world, names[n]);
        struct cf_job job = cf_job(node, names[n], ROUNDS);
        for (int i = 0; i < 3; i++) {
            workers[n][i] = (struct worker){.node = node, .job = job, .stop = &stop};
        }
    }
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 3; i++) {
            cf_equal(pthread_create(&threads[n][i], NULL, bodies[i], &workers[n][i]), 0);
        }
    }
    (void)pthread_join(threads[0][0], NULL);
    (void)pthread_join(threads[1][0], NULL);
    atomic_store(&stop, 1);
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 3; i++) {
            if (i > 0) {
                (void)pthread_join(threads[n][i], NULL);
            }
            cf_equal(workers[n][i].failures, 0);
            cf_true(workers[n][i].done > 5);
        }
        cf_equal(workers[n][0].done, ROUNDS);
    }
}

int main(int argc, char **argv)
{
    if (realpath(argv[0], program_path) == NULL) {
        return 2;
    }
    if (argc == 6 && strcmp(argv[1], "outsider") == 0) {
        return outsider(argv[2], argv[3], argv[4], argv[5]);
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_set_up, sqlite_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_two_nodes_of_one_process),
        TEST(test_close_hands_over_at_once),
        TEST(test_frozen_owner_is_dead_after_its_lease),
        TEST(test_reap_judges_each_run_by_its_own_lease),
        cmocka_unit_test_setup_teardown(test_wall_clock_jump_kills_nobody, sqlite_set_up_shim,
                                        sqlite_tear_down),
        TEST(test_deleted_lock_file_kills_nobody),
        TEST(test_lock_taken_anew_proves_death),
        TEST(test_forked_child_only_delays),
        TEST(test_dead_nodes_leave_nothing),
        TEST(test_forked_child_is_refused_unless_it_execs),
        TEST(test_lanes_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, sqlite_make_directory, sqlite_remove_directory) ? 1 : 0;
}
