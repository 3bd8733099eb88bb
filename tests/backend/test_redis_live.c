/* test_redis_live.c: owners that die, locks that vanish, connections and answers that get lost. */
#include "redis_support.h"

#include "backends/redis/store.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A machine that stands still for some seconds does not make a lease end. */
enum { LEASE_MS = 60000 };

static struct jsi_redis_lane *lane_of(struct cf_node *node, int kind)
{
    struct jsi_redis_store *store = node->backend;
    return &store->lanes[kind];
}

static void key_of(const struct cf_world *world, char *out, const char *rest)
{
    (void)snprintf(out, REDIS_TEXT_BYTES, "{jobsched:%s}:%s", world->name_space, rest);
}

static jobsched_claim short_claim(const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    claim.lease_ms = LEASE_MS;
    return claim;
}

/* A process that holds occurrence 1 of "job" and beats until it is killed. out_beat_ms, in memory that
 * is shared, is when the last beat that was answered had begun. */
static pid_t start_owner(struct cf_world *world, struct cf_job *out_job, int64_t lease_ms,
                         _Atomic int64_t *out_beat_ms)
{
    int ends[2];
    cf_equal(pipe(ends), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *node = redis_open(world, "owner", lease_ms);
        struct cf_job job = cf_job(node, "job", 1);
        jobsched_claim run = cf_at(&job, 1);
        run.lease_ms = lease_ms;
        int64_t began_ms = cf_real_mono_ms();
        cf_ask(node, &run);
        cf_answer(run, GRANTED);
        atomic_store(out_beat_ms, began_ms);
        cf_equal(write(ends[1], &job, sizeof job), sizeof job);
        for (;;) {
            began_ms = cf_real_mono_ms();
            (void)cf_now(node);
            atomic_store(out_beat_ms, began_ms);
            (void)poll(NULL, 0, (int)lease_ms / 8);
        }
    }
    (void)close(ends[1]);
    cf_equal(read(ends[0], out_job, sizeof *out_job), sizeof *out_job);
    (void)close(ends[0]);
    out_job->name = "job";
    return child;
}

static _Atomic int64_t *share_beat(void)
{
    _Atomic int64_t *beat_ms =
        mmap(NULL, sizeof *beat_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cf_true(beat_ms != MAP_FAILED);
    return beat_ms;
}

/* G10, G5: after kill -9 the job is taken over a lease after its last beat; and as long as the owner
 * beats, not at all. */
static void test_takeover_within_the_lease(void **state)
{
    enum { OWN_LEASE_MS = 8000, SLACK_MS = 7000 };
    struct cf_world *world = *state;
    struct cf_job job;
    _Atomic int64_t *beat_ms = share_beat();
    pid_t owner = start_owner(world, &job, OWN_LEASE_MS, beat_ms);
    struct cf_node *other = redis_open(world, "other", OWN_LEASE_MS);
    jobsched_claim next = cf_at(&job, 2);
    next.lease_ms = OWN_LEASE_MS;
    int64_t until_ms = cf_real_mono_ms() + OWN_LEASE_MS * 9 / 8;
    do { /* longer than a lease it beats */
        (void)cf_now(other);
        cf_ask(other, &next);
        cf_answer(next, HELD);
        (void)poll(NULL, 0, 20);
    } while (cf_real_mono_ms() < until_ms);
    int64_t killed_ms = cf_real_mono_ms();
    cf_kill(world, owner);
    while (next.answer == JOBSCHED_ANSWER_HELD) {
        cf_true(cf_real_mono_ms() < killed_ms + CF_POLL_MS);
        (void)cf_now(other);
        cf_ask(other, &next);
        (void)poll(NULL, 0, 5);
    }
    int64_t taken_ms = cf_real_mono_ms();
    cf_answer(next, GRANTED);
    print_message("taken over %lld ms after the last beat, of a lease of %d\n",
                  (long long)(taken_ms - atomic_load(beat_ms)), OWN_LEASE_MS);
    cf_true(taken_ms - killed_ms <= OWN_LEASE_MS + SLACK_MS);
    /* Less by what looks may take a beat to be older. */
    cf_true(taken_ms >= atomic_load(beat_ms) + OWN_LEASE_MS - OWN_LEASE_MS / 10);
    (void)munmap(beat_ms, sizeof *beat_ms);
}

/* G5: a lock that vanishes, as all do when the server's clock steps forward, frees nothing while
 * the owner's heartbeat moves; and the owner takes it again. */
static void test_vanished_lock_frees_nothing(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = redis_open(world, "owner", LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LEASE_MS);
    struct cf_job job = cf_job(owner, "job", 3);
    jobsched_claim run = short_claim(&job, 1);
    cf_ask(owner, &run);
    cf_answer(run, GRANTED);
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "l:job");
    cf_true(redis_ask("PTTL %s", key) > 0);
    for (int i = 0; i < 3; i++) {
        cf_equal(redis_ask("DEL %s", key), 1);
        jobsched_claim next = short_claim(&job, 2);
        cf_ask(other, &next);
        cf_answer(next, HELD);
        cf_equal(next.holder_token, run.token);
        cf_equal(redis_ask("EXISTS %s", key), 0);
        cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_equal(redis_ask("EXISTS %s", key), 1);
    }
    cf_equal(cf_finish(owner, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(redis_ask("EXISTS %s", key), 0);
    /* Rivals' bug 10: a lock of somebody else is neither taken over nor deleted. */
    (void)redis_ask("SET %s somebody:9 PX 300000", key);
    jobsched_claim next = short_claim(&job, 2);
    cf_ask(other, &next);
    cf_answer(next, HELD);
    cf_equal(redis_ask("DEL %s", key), 1);
    cf_ask(other, &next);
    cf_answer(next, GRANTED);
    (void)redis_ask("SET %s somebody:9 PX 300000", key);
    cf_equal(cf_renew(other, "job", next.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_finish(other, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(redis_ask("EXISTS %s", key), 1);
}

/* G4, G9: a lock that no run explains holds its job as a run does: who would skip skips, and the
 * ledger says so; who waits changes nothing, and so does a rerun; who may overlap is granted. */
static void test_lock_that_no_run_explains_holds(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", LEASE_MS);
    struct cf_job job = cf_job(node, "job", 5);
    struct cf_row rows[8];
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "l:job");
    jobsched_claim run = short_claim(&job, 1);
    run.recover = JOBSCHED_RECOVER_RERUN;
    run.recover_limit = 1;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_INTERRUPTED), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "asked", NULL));
    (void)redis_ask("SET %s somebody:9 PX 300000", key);

    jobsched_claim waits = short_claim(&job, 2); /* HELD_WAIT */
    cf_ask(node, &waits);
    cf_answer(waits, HELD);
    cf_equal(waits.holder_token, 0);
    cf_equal(waits.mark_ms, job.mark_ms + 1);
    cf_equal(cf_rows(node, "job", rows, 8), 2);

    jobsched_claim rerun = run;
    rerun.kind = JOBSCHED_KIND_RERUN;
    rerun.after_ms = 0;
    rerun.when_held = JOBSCHED_HELD_SKIP;
    cf_ask(node, &rerun);
    cf_answer(rerun, HELD);
    cf_equal(cf_rows(node, "job", rows, 8), 2);

    jobsched_claim skips = short_claim(&job, 2);
    skips.when_held = JOBSCHED_HELD_SKIP;
    cf_ask(node, &skips);
    cf_answer(skips, HELD);
    cf_equal(skips.mark_ms, job.mark_ms + 2);
    cf_equal(cf_rows(node, "job", rows, 8), 3);
    cf_equal(rows[0].record.outcome, JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
    cf_equal(rows[0].record.scheduled_at_ms, job.mark_ms + 2);

    jobsched_claim asked = {.job = "job",
                            .request = "asked",
                            .generation = job.generation,
                            .lease_ms = LEASE_MS,
                            .kind = JOBSCHED_KIND_TRIGGER,
                            .when_held = JOBSCHED_HELD_SKIP};
    cf_ask(node, &asked);
    cf_answer(asked, HELD);
    cf_ask(node, &asked);
    cf_answer(asked, DONE); /* it is skipped, not waiting any more */

    jobsched_claim beside = short_claim(&job, 3);
    beside.when_held = JOBSCHED_HELD_ALLOW;
    cf_ask(node, &beside);
    cf_answer(beside, GRANTED);
    cf_equal(cf_finish(node, "job", beside.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    cf_equal(redis_ask("DEL %s", key), 1); /* nobody took it away */
    cf_ask(node, &rerun);
    cf_answer(rerun, GRANTED);
}

/* The owner beats at occurrence k, and nobody looks for most of a lease. Returns whether the job was
 * taken over sooner than a lease after the first look. */
static bool is_taken_by_age(struct cf_node *owner, struct cf_node *other, const struct cf_job *job,
                            int64_t k, int64_t lease_ms)
{
    (void)cf_now(other);
    int64_t before_ms = cf_real_mono_ms();
    jobsched_claim run = cf_at(job, k), next = cf_at(job, k + 1);
    run.lease_ms = next.lease_ms = lease_ms;
    cf_ask(owner, &run);
    cf_answer(run, GRANTED);
    int64_t after_ms = cf_real_mono_ms();
    while (cf_real_mono_ms() < after_ms + lease_ms * 3 / 4) {
        cf_pause();
    }
    int64_t first_ms = cf_real_mono_ms();
    do {
        cf_true(cf_real_mono_ms() < after_ms + CF_POLL_MS);
        cf_ask(other, &next);
    } while (next.answer == JOBSCHED_ANSWER_HELD);
    int64_t now_ms = cf_real_mono_ms();
    cf_answer(next, GRANTED);
    cf_true(now_ms >= before_ms + lease_ms - lease_ms / 10);
    cf_equal(cf_finish(other, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
    return now_ms < first_ms + lease_ms * 7 / 8;
}

/* G10: a lease counts from the heartbeat, not from when somebody first saw it, as long as the
 * server's clock runs in step with ours. That is not known where a round trip takes long, as it may
 * on a busy machine; but not each time. */
static void test_age_of_a_heartbeat_counts(void **state)
{
    enum { OWN_LEASE_MS = 4000, TRIES = 6 };
    struct cf_world *world = *state;
    struct cf_node *owner = redis_open(world, "owner", OWN_LEASE_MS);
    struct cf_node *other = redis_open(world, "other", OWN_LEASE_MS);
    struct cf_job job = cf_job(owner, "job", 2 * TRIES);
    bool taken = false;
    for (int64_t k = 1; k < 2 * TRIES && !taken; k += 2) {
        taken = is_taken_by_age(owner, other, &job, k, OWN_LEASE_MS);
    }
    cf_true(taken);
}

/* G5: the server's own clock decides nothing about who is dead: a heartbeat whose stamp is old by
 * that clock still has to be watched for a lease, unless the clocks have run in step. */
static void test_stepped_clock_kills_nobody(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *owner = redis_open(world, "owner", LEASE_MS);
    struct cf_node *other = redis_open(world, "other", LEASE_MS);
    struct cf_job job = cf_job(owner, "job", 3);
    jobsched_claim run = short_claim(&job, 1);
    cf_ask(owner, &run);
    cf_answer(run, GRANTED);
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "n:");
    (void)snprintf(key + strlen(key), sizeof key - strlen(key), "%s", owner->id);
    /* As if the clock had gone an hour forward since the heartbeat. */
    (void)redis_ask("HINCRBY %s at -3600000", key);
    atomic_fetch_add(&other->clock.mono_offset_ms, 40 * LEASE_MS);
    for (int i = 0; i < 2; i++) {
        jobsched_claim next = short_claim(&job, 2);
        cf_ask(other, &next);
        cf_answer(next, HELD);
    }
    cf_equal(cf_renew(owner, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* G8: connections that the server has cut are made anew without a word. */
static void test_client_kill_is_survived(void **state)
{
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 6);
    for (int64_t k = 1; k <= 5; k++) {
        (void)redis_ask("CLIENT KILL TYPE normal SKIPME yes");
        jobsched_claim run = cf_grant(node, &job, k);
        (void)redis_ask("CLIENT KILL TYPE normal SKIPME yes");
        cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
        cf_ok(cf_control(node, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
        (void)redis_ask("CLIENT KILL TYPE normal SKIPME yes");
        cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
        cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
    }
}

static pid_t server_of_test(void)
{
    char pid[32] = "";
    char path[128];
    (void)snprintf(path, sizeof path, "%s/pid", redis_directory);
    FILE *file = fopen(path, "r");
    cf_true(file != NULL && fgets(pid, sizeof pid, file) != NULL);
    (void)fclose(file);
    return (pid_t)strtol(pid, NULL, 10);
}

/* G8, G1, G11: an answer that does not come in time leaves the outcome unknown, within the time of
 * the call, be it that the server (which is frozen) has the request or not; asking again settles it
 * with one grant and one row. */
static void test_lost_answer_is_granted_again(void **state)
{
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    pid_t server = server_of_test();
    cf_equal(kill(server, SIGSTOP), 0);
    jobsched_claim run = cf_at(&job, 1);
    int64_t before_ms = cf_real_mono_ms();
    int first = redis_claim(node, &run, 200);
    int64_t took_ms = cf_real_mono_ms() - before_ms;
    int second = redis_claim(node, &run, 50);
    cf_equal(kill(server, SIGCONT), 0);
    cf_equal(first, JOBSCHED_EUNKNOWN);
    cf_true(took_ms >= 190 && took_ms < CF_TIMEOUT_MS / 2);
    cf_equal(second, JOBSCHED_EUNREACHABLE); /* not sent at all, so nothing is unknown */
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_equal(run.attempt, 1);
    jobsched_claim again = cf_at(&job, 1);
    cf_ask(node, &again);
    cf_answer(again, GRANTED);
    cf_equal(again.token, run.token);
    struct cf_row row;
    cf_equal(cf_rows(node, "job", &row, 1), 1);
    cf_equal(row.record.token, run.token);
}

/* Sends bytes as they are and returns the first line of the answer. */
static void send_raw(const char *bytes, size_t length, char *out, size_t out_bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/redis.sock", redis_directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cf_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    cf_equal(write(fd, bytes, length), length);
    ssize_t count = read(fd, out, out_bytes - 1);
    (void)close(fd);
    cf_true(count > 0);
    out[count] = '\0';
}

/* G6: what an older connection has asked is refused when it arrives late: here a claim after a
 * newer pause and resume, and a resume after a newer pause. */
static void test_late_requests_are_refused(void **state)
{
    static const int kinds[] = {JOBSCHED_LANE_CLAIM, JOBSCHED_LANE_ADMIN};
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 5);
    char answer[512];
    for (size_t i = 0; i < 2; i++) {
        struct jsi_redis_lane *lane = lane_of(node, kinds[i]);
        if (kinds[i] == JOBSCHED_LANE_CLAIM) {
            (void)cf_grant(node, &job, 1);
        } else {
            cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
        }
        size_t length = lane->out.used;
        char *late = malloc(length);
        cf_true(late != NULL);
        memcpy(late, lane->out.bytes, length);
        send_raw(late, length, answer, sizeof answer);
        cf_true(strstr(answer, "OLD") == NULL); /* as long as there is no newer one, it counts */
        (void)redis_ask("CLIENT KILL TYPE normal SKIPME yes");
        if (kinds[i] == JOBSCHED_LANE_CLAIM) {
            (void)cf_grant(node, &job, 1);
        } else {
            cf_ok(cf_control(node, JOBSCHED_VERB_PAUSE, "job", NULL, NULL));
        }
        send_raw(late, length, answer, sizeof answer);
        free(late);
        cf_true(strstr(answer, "OLD") != NULL);
    }
    cf_equal(cf_announce(node, "job", "every 1 ms", 0).paused, 1);
}

/* G8: scripts that the server has forgotten are loaded again, also for a batch of several parts. */
static void test_forgotten_scripts_are_loaded(void **state)
{
    enum { MANY = 700 };
    static char names[MANY][16];
    static jobsched_announcement items[MANY];
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%d", i);
        items[i] = (jobsched_announcement){.job = names[i], .definition = "d"};
    }
    (void)redis_ask("SCRIPT FLUSH");
    jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
    cf_ok(node->driver->announce(node->backend, &call, items, MANY));
    for (int i = 0; i < MANY; i++) {
        cf_true(items[i].mark_ms > 0 && items[i].in_force);
    }
    (void)redis_ask("SCRIPT FLUSH");
    (void)cf_now(node);
}

/* G7: a node whose record was deleted by hand enters again, and its run is still its own. */
static void test_forgotten_node_enters_again(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *node = redis_open(world, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_grant(node, &job, 1);
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "n:");
    (void)snprintf(key + strlen(key), sizeof key - strlen(key), "%s", node->id);
    cf_equal(redis_ask("DEL %s", key), 1);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
    cf_equal(cf_grant(node, &job, 1).token, run.token);
    cf_equal(cf_finish(node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

/* Issue 4: errors have classes, and what promises that nothing was changed keeps it. */
static void test_errors_have_classes(void **state)
{
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    struct cf_job job = cf_job(node, "job", 3);
    jobsched_claim run = cf_at(&job, 1);
    (void)redis_ask("CONFIG SET maxmemory 1");
    cf_equal(redis_claim(node, &run, CF_TIMEOUT_MS), JOBSCHED_EFULL);
    redis_expect_message("maxmemory");
    (void)redis_ask("CONFIG SET maxmemory 0");
    (void)redis_ask("CONFIG SET min-replicas-to-write 3");
    cf_equal(redis_claim(node, &run, CF_TIMEOUT_MS), JOBSCHED_EUNREACHABLE);
    (void)redis_ask("CONFIG SET min-replicas-to-write 0");
    (void)redis_ask("REPLICAOF 127.0.0.1 1");
    cf_equal(redis_claim(node, &run, CF_TIMEOUT_MS), JOBSCHED_EREFUSED);
    (void)redis_ask("REPLICAOF NO ONE");
    (void)redis_ask("ACL SETUSER default -evalsha");
    cf_equal(redis_claim(node, &run, CF_TIMEOUT_MS), JOBSCHED_EACCESS);
    (void)redis_ask("ACL SETUSER default +evalsha");
    struct cf_row row;
    cf_equal(cf_rows(node, NULL, &row, 1), 0);
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
}

/* G13: a server that goes away raises no SIGPIPE in whatever thread of the host asks. */
static void test_no_sigpipe(void **state)
{
    struct cf_node *node = redis_open(*state, "node", CF_LEASE_MS);
    (void)cf_job(node, "job", 0);
    cf_ok(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL));
    (void)signal(SIGPIPE, SIG_DFL);
    cf_equal(redis_script("kill", redis_directory, ""), 0);
    struct jsi_redis_lane *lane = lane_of(node, JOBSCHED_LANE_ADMIN);
    jsi_redis_budget(lane, 1000);
    cf_true(jsi_redis_send(lane) != 0); /* as if the end had come after the look at the socket */
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_control(node, JOBSCHED_VERB_RESUME, "job", NULL, NULL), JOBSCHED_EUNREACHABLE);
    }
    cf_equal(redis_script("start", redis_directory, ""), 0);
}

static int64_t rows_of(const struct cf_world *world, const char *job)
{
    char key[REDIS_TEXT_BYTES], rest[64];
    (void)snprintf(rest, sizeof rest, "z:%s", job);
    key_of(world, key, rest);
    return redis_ask("ZCARD %s", key);
}

/* Of each of the jobs below. JOBSCHED_TEST_FIRES says how many in all: 20,000 unless set. */
static int64_t fires_of_a_job(int jobs)
{
    const char *wanted = getenv("JOBSCHED_TEST_FIRES");
    int64_t fires = wanted == NULL ? 20000 : strtoll(wanted, NULL, 10);
    return fires / jobs < 100 ? 100 : fires / jobs;
}

static int64_t bytes_of_all(void)
{
    return redis_ask("EVAL %s 0",
                     "local sum = 0 for _, key in ipairs(redis.call('KEYS', '*')) do "
                     "sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end return sum");
}

/* G16: whatever is fired, keys, rows and bytes are bounded: each key is there for a job or a node. */
static void test_keys_are_bounded(void **state)
{
    enum { JOBS = 20, KEEP = 50 };
    const int64_t fires = fires_of_a_job(JOBS);
    static char names[JOBS][8];
    static jobsched_claim claims[JOBS];
    static jobsched_finish ends[JOBS];
    struct cf_world *world = *state;
    struct cf_settings settings = {.history_count = KEEP};
    struct cf_node *node = cf_open_with(world, "node", &settings);
    struct cf_job jobs[JOBS];
    for (int j = 0; j < JOBS; j++) {
        (void)snprintf(names[j], sizeof names[j], "j%d", j);
        jobs[j] = cf_job(node, names[j], j + 1 == JOBS ? fires : 0);
    }
    int64_t keys = 0, bytes = 0;
    for (int64_t k = 1; k <= fires; k++) {
        for (int j = 0; j < JOBS; j++) {
            claims[j] = cf_at(&jobs[j], k);
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, claims, JOBS));
        for (int j = 0; j < JOBS; j++) {
            cf_answer(claims[j], GRANTED);
            ends[j] = (jobsched_finish){.job = names[j],
                                        .note = "a note",
                                        .token = claims[j].token,
                                        .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        }
        call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->finish(node->backend, &call, ends, JOBS));
        if (k % 50 == 0) { /* triggers leave nothing behind either */
            char request[32];
            (void)snprintf(request, sizeof request, "r%lld", (long long)k);
            cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, names[0], request, NULL));
            jobsched_claim run = cf_at(&jobs[0], 0);
            run.kind = JOBSCHED_KIND_TRIGGER;
            run.request = request;
            cf_ask(node, &run);
            cf_answer(run, GRANTED);
            (void)cf_finish(node, names[0], run.token, JOBSCHED_OUTCOME_SUCCEEDED);
        }
        if (k == fires / 10) {
            keys = redis_keys();
            bytes = bytes_of_all();
        }
    }
    cf_equal(redis_keys(), keys);
    printf("%lld bytes after a tenth of %lld fires, %lld after all\n", (long long)bytes,
           (long long)fires * JOBS, (long long)bytes_of_all());
    cf_true(bytes_of_all() < bytes + bytes / 2);
    cf_true(keys <= 3 * JOBS + 10);
    for (int j = 0; j < JOBS; j++) {
        cf_true(rows_of(world, names[j]) <= KEEP + 17);
        cf_true(rows_of(world, names[j]) >= KEEP);
    }
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "q:j0");
    cf_true(redis_ask("HLEN %s", key) <= 3); /* only of rows that are still there */
}

/* G16: nodes that die leave nothing behind either. */
static void test_dead_nodes_are_forgotten(void **state)
{
    struct cf_world *world = *state;
    enum { OWN_LEASE_MS = 1500 };
    struct cf_job job;
    _Atomic int64_t *beat_ms = share_beat();
    pid_t owner = start_owner(world, &job, OWN_LEASE_MS, beat_ms);
    struct cf_node *other = redis_open(world, "other", OWN_LEASE_MS);
    char key[REDIS_TEXT_BYTES];
    key_of(world, key, "nodes");
    cf_equal(redis_ask("SCARD %s", key), 2);
    cf_kill(world, owner);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (redis_ask("SCARD %s", key) != 1) {
        struct cf_found found[2];
        cf_true(cf_real_mono_ms() < deadline_ms);
        (void)cf_reap(other, found, 2);
        (void)poll(NULL, 0, 20);
    }
    cf_close(world, other);
    cf_equal(redis_ask("EXISTS %s", key), 0);
    key_of(world, key, "n:*");
    cf_equal(redis_ask("KEYS %s", key), 0);
    key_of(world, key, "h:*");
    cf_equal(redis_ask("KEYS %s", key), 0);
    (void)munmap(beat_ms, sizeof *beat_ms);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_takeover_within_the_lease),
        REDIS_TEST(test_vanished_lock_frees_nothing),
        REDIS_TEST(test_lock_that_no_run_explains_holds),
        REDIS_TEST(test_age_of_a_heartbeat_counts),
        REDIS_TEST(test_stepped_clock_kills_nobody),
        REDIS_TEST(test_client_kill_is_survived),
        REDIS_TEST(test_lost_answer_is_granted_again),
        REDIS_TEST(test_late_requests_are_refused),
        REDIS_TEST(test_forgotten_scripts_are_loaded),
        REDIS_TEST(test_forgotten_node_enters_again),
        REDIS_TEST(test_errors_have_classes),
        REDIS_TEST(test_no_sigpipe),
        REDIS_TEST(test_keys_are_bounded),
        REDIS_TEST(test_dead_nodes_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
