/* cf_race.c: many processes that ask for the same occurrences, and many threads in one. */
#include "cf_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSES = 4, JOBS = 5, OCCURRENCES_MAX = 5000, RETRIES_MAX = 2000 };

/* What the processes saw, in memory that they share. */
struct cell {
    _Atomic uint32_t grants, skips;
    _Atomic uint64_t token;
    _Atomic int64_t granted_at_ms;
};

struct board {
    _Atomic int64_t mark_ms[JOBS];
    _Atomic int ready;
    struct cell cells[JOBS][OCCURRENCES_MAX + 1];
};

static const char *const job_names[JOBS] = {"wait-1", "wait-2", "allow-1", "allow-2", "skip"};
static const int when_held[JOBS] = {JOBSCHED_HELD_WAIT, JOBSCHED_HELD_WAIT, JOBSCHED_HELD_ALLOW,
                                    JOBSCHED_HELD_ALLOW, JOBSCHED_HELD_SKIP};

/* A store under pressure may be busy: what promised nothing, or is unknown, is asked again. */
static bool is_passing(int code)
{
    return code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN;
}

static void end_runs(struct cf_node *node, jobsched_finish *items, size_t count)
{
    for (int tries = 0; count > 0; tries++) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int code = node->driver->finish(node->backend, &call, items, count);
        if (!is_passing(code)) {
            cf_ok(code);
            break;
        }
        cf_true(tries < RETRIES_MAX);
        cf_pause();
    }
    for (size_t i = 0; i < count; i++) {
        cf_equal(items[i].answer, JOBSCHED_LEASE_KEPT);
    }
}

/* Notes the answers; returns how many of the claims are settled, keeping the others in front. */
static size_t note_answers(struct board *board, int64_t k, const jobsched_call *call,
                           jobsched_claim *claims, int *jobs, size_t count, jobsched_finish *ends,
                           size_t *out_ends)
{
    size_t left = 0;
    *out_ends = 0;
    for (size_t i = 0; i < count; i++) {
        struct cell *cell = &board->cells[jobs[i]][k];
        const jobsched_claim *claim = &claims[i];
        bool skipped =
            claim->answer == JOBSCHED_ANSWER_HELD && claim->when_held == JOBSCHED_HELD_SKIP;
        if (claim->answer == JOBSCHED_ANSWER_GRANTED) {
            atomic_fetch_add(&cell->grants, 1);
            atomic_store(&cell->token, claim->token);
            atomic_store(&cell->granted_at_ms, call->now_ms);
            ends[(*out_ends)++] = (jobsched_finish){.job = claim->job,
                                                    .note = "",
                                                    .token = claim->token,
                                                    .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        } else if (skipped) {
            atomic_fetch_add(&cell->skips, 1);
        } else if (claim->answer == JOBSCHED_ANSWER_HELD ||
                   claim->answer == JOBSCHED_ANSWER_EARLY ||
                   claim->answer == JOBSCHED_ANSWER_BUSY) {
            claims[left] = *claim;
            jobs[left++] = jobs[i];
        } else {
            cf_answer(*claim, DONE); /* somebody else was first */
        }
    }
    return left;
}

static void settle_occurrence(struct cf_node *node, struct board *board, const struct cf_job *jobs,
                              int64_t k)
{
    jobsched_claim claims[JOBS];
    jobsched_finish ends[JOBS];
    int of[JOBS];
    size_t left = JOBS, end_count = 0;
    for (int j = 0; j < JOBS; j++) {
        claims[j] = cf_at(&jobs[j], k);
        claims[j].when_held = when_held[j];
        of[j] = j;
    }
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (left > 0) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int code = node->driver->claim(node->backend, &call, claims, left);
        if (is_passing(code)) {
            cf_pause();
            continue;
        }
        cf_ok(code);
        left = note_answers(board, k, &call, claims, of, left, ends, &end_count);
        end_runs(node, ends, end_count);
        if (left > 0) {
            cf_pause();
        }
    }
}

/* Who comes late to the making of a store may wait for long, amid others that claim all the time. */
static void open_racer(struct cf_world *world, struct cf_node *node, const char *name)
{
    int64_t deadline_ms = cf_real_mono_ms() + 3 * CF_POLL_MS;
    int code;
    cf_config(node, world, name, NULL);
    while (is_passing(code = node->driver->open(&node->config, &node->backend))) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    cf_ok(code);
}

static jobsched_announcement announce_amid(struct cf_node *node, const char *job)
{
    int64_t deadline_ms = cf_real_mono_ms() + 3 * CF_POLL_MS;
    jobsched_announcement item;
    int code;
    do {
        cf_true(cf_real_mono_ms() < deadline_ms);
        item = (jobsched_announcement){.job = job, .definition = "every 1 ms"};
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        code = node->driver->announce(node->backend, &call, &item, 1);
    } while (is_passing(code));
    cf_ok(code);
    return item;
}

static void race(struct cf_world *world, struct board *board, int64_t occurrences, int process)
{
    static struct cf_node own;
    struct cf_node *node = &own;
    char name[32];
    (void)snprintf(name, sizeof name, "racer-%d", process);
    /* All of them make the store and its schema at the same moment. */
    atomic_fetch_add(&board->ready, 1);
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (atomic_load(&board->ready) < PROCESSES) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    open_racer(world, node, name);
    struct cf_job jobs[JOBS];
    for (int j = 0; j < JOBS; j++) {
        jobsched_announcement item = announce_amid(node, job_names[j]);
        /* The first of them makes the fence; a later one may see it moved on already. */
        int64_t none = 0;
        (void)atomic_compare_exchange_strong(&board->mark_ms[j], &none, item.mark_ms);
        jobs[j] = (struct cf_job){job_names[j], item.generation, item.mark_ms};
    }
    for (int j = 0; j < JOBS; j++) {
        jobs[j].mark_ms = atomic_load(&board->mark_ms[j]);
    }
    for (int64_t k = 1; k <= occurrences; k++) {
        settle_occurrence(node, board, jobs, k);
    }
    node->driver->close(node->backend);
}

static void check_cells(struct board *board, int64_t occurrences)
{
    for (int j = 0; j < JOBS; j++) {
        uint64_t last = 0;
        for (int64_t k = 1; k <= occurrences; k++) {
            struct cell *cell = &board->cells[j][k];
            if (atomic_load(&cell->grants) + atomic_load(&cell->skips) != 1) {
                print_error("occurrence %lld of %s\n", (long long)k, job_names[j]);
            }
            cf_equal(atomic_load(&cell->grants) + atomic_load(&cell->skips), 1); /* G1, G9 */
            if (atomic_load(&cell->grants) == 1) {
                cf_true(atomic_load(&cell->token) > last); /* G2 */
                last = atomic_load(&cell->token);
                int64_t due_ms = atomic_load(&board->mark_ms[j]) + k;
                cf_true(atomic_load(&cell->granted_at_ms) >= due_ms); /* G3 */
            } else {
                cf_equal(when_held[j], JOBSCHED_HELD_SKIP);
            }
        }
    }
}

static void check_ledger(struct cf_node *node, struct board *board, int64_t occurrences)
{
    struct cf_row *rows = calloc((size_t)occurrences, sizeof *rows);
    cf_true(rows != NULL);
    for (int j = 0; j < JOBS; j++) {
        cf_equal(cf_rows(node, job_names[j], rows, (size_t)occurrences), occurrences);
        for (int64_t i = 0; i < occurrences; i++) {
            const jobsched_run_record *record = &rows[occurrences - 1 - i].record;
            const struct cell *cell = &board->cells[j][i + 1];
            cf_equal(record->scheduled_at_ms, atomic_load(&board->mark_ms[j]) + i + 1);
            cf_equal(record->outcome, atomic_load(&cell->grants) == 1
                                          ? JOBSCHED_OUTCOME_SUCCEEDED
                                          : JOBSCHED_OUTCOME_SKIPPED_OVERLAP);
            cf_equal(record->token, atomic_load(&cell->token));
            if (i > 0 && when_held[j] == JOBSCHED_HELD_WAIT) { /* G4 */
                const jobsched_run_record *before = &rows[occurrences - i].record;
                cf_true(record->started_at_ms >= before->finished_at_ms);
            }
        }
    }
    free(rows);
}

/* G1, G2, G3, G4: processes that race for every occurrence, from the making of the store on. */
static void race_of_processes(void **state)
{
    struct cf_world *world = *state;
    int64_t occurrences = world->subject->race_occurrences;
    occurrences = occurrences == 0 ? 300 : occurrences;
    occurrences = occurrences > OCCURRENCES_MAX ? OCCURRENCES_MAX : occurrences;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cf_true(board != MAP_FAILED);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = cf_fork(world);
        if (children[i] == 0) {
            race(world, board, occurrences, i);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        cf_equal(cf_wait(world, children[i]), 0);
    }
    check_cells(board, occurrences);
    struct cf_node *node = cf_open(world, "reader");
    check_ledger(node, board, occurrences);
    (void)munmap(board, sizeof *board);
}

enum { LANE_RUNS = 250, LANE_ROUNDS = 100 };

/* Three lanes of one handle. Threads only count; the test's own thread asserts. */
struct lanes {
    struct cf_node *node;
    struct cf_job job;
    pthread_barrier_t start;
    _Atomic uint64_t token;     /* of the run that goes on */
    _Atomic uint64_t rounds[3]; /* that each lane has made */
    _Atomic int stop;
    int granted, paused, wrong_answers, wrong_codes[3];
    uint64_t listed;
};

/* Goes on until the others have had their share, so that all three are at it together. */
static void keep_claiming(struct lanes *lanes)
{
    struct cf_node *node = lanes->node;
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (cf_real_mono_ms() < deadline_ms && (atomic_load(&lanes->rounds[1]) < LANE_ROUNDS ||
                                               atomic_load(&lanes->rounds[2]) < LANE_ROUNDS)) {
        jobsched_claim claim = cf_at(&lanes->job, LANE_RUNS);
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        lanes->wrong_codes[0] += node->driver->claim(node->backend, &call, &claim, 1) != 0;
        /* BUSY: the admin lane was at the job in this instant. */
        lanes->wrong_answers +=
            claim.answer != JOBSCHED_ANSWER_DONE && claim.answer != JOBSCHED_ANSWER_BUSY;
    }
}

static void *claim_lane(void *arg)
{
    struct lanes *lanes = arg;
    struct cf_node *node = lanes->node;
    (void)pthread_barrier_wait(&lanes->start);
    for (int64_t k = 1; k <= LANE_RUNS; k++) {
        jobsched_claim claim = cf_at(&lanes->job, k);
        claim.when_held = JOBSCHED_HELD_ALLOW;
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        lanes->wrong_codes[0] += node->driver->claim(node->backend, &call, &claim, 1) != 0;
        atomic_fetch_add(&lanes->rounds[0], 1);
        if (claim.answer == JOBSCHED_ANSWER_BUSY) {
            k--; /* the admin lane was at the job in this instant */
            continue;
        }
        if (claim.answer == JOBSCHED_ANSWER_PAUSED) {
            lanes->paused++;
            continue;
        }
        lanes->granted += claim.answer == JOBSCHED_ANSWER_GRANTED;
        lanes->wrong_answers += claim.answer != JOBSCHED_ANSWER_GRANTED;
        atomic_store(&lanes->token, claim.token);
        jobsched_finish end = {.job = "job",
                               .note = "done",
                               .token = claim.token,
                               .outcome = JOBSCHED_OUTCOME_SUCCEEDED};
        call = cf_call(JOBSCHED_LANE_CLAIM);
        lanes->wrong_codes[0] += node->driver->finish(node->backend, &call, &end, 1) != 0;
        lanes->wrong_answers += end.answer != JOBSCHED_LEASE_KEPT;
    }
    keep_claiming(lanes);
    atomic_store(&lanes->stop, 1);
    return NULL;
}

static int count_finding(const jobsched_finding *finding, void *visit_data)
{
    struct lanes *lanes = visit_data;
    lanes->wrong_answers +=
        finding->found == JOBSCHED_FOUND_TRIGGER && strcmp(finding->request, "lanes") != 0;
    return 0;
}

static void *keep_lane(void *arg)
{
    /* Counts into a struct of its own, since the other lanes write theirs. */
    struct lanes *lanes = arg;
    struct cf_node *node = lanes->node;
    struct lanes own = {.wrong_answers = 0};
    (void)pthread_barrier_wait(&lanes->start);
    while (!atomic_load(&lanes->stop)) {
        jobsched_lease lease = {
            .job = "job", .note = "renewed", .token = atomic_load(&lanes->token)};
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        lanes->wrong_codes[1] += node->driver->renew(node->backend, &call, 0, &lease, 1) != 0;
        call = cf_call(JOBSCHED_LANE_KEEP);
        lanes->wrong_codes[1] += node->driver->reap(node->backend, &call, count_finding, &own) != 0;
        atomic_fetch_add(&lanes->rounds[1], 1);
    }
    lanes->wrong_codes[1] += own.wrong_answers;
    return NULL;
}

static int count_row(const jobsched_run_record *record, void *user_data)
{
    uint64_t *listed = user_data;
    *listed += strlen(record->job) == 3 && strlen(record->note) < JOBSCHED_NOTE_BYTES;
    return 0;
}

static void *admin_lane(void *arg)
{
    static const int verbs[] = {JOBSCHED_VERB_PAUSE, JOBSCHED_VERB_RESUME, JOBSCHED_VERB_CANCEL,
                                JOBSCHED_VERB_TRIGGER};
    struct lanes *lanes = arg;
    struct cf_node *node = lanes->node;
    (void)pthread_barrier_wait(&lanes->start);
    do { /* ends with RESUME or later, so that the job is not left paused */
        for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
            jobsched_control_result result;
            JOBSCHED_INIT(&result);
            jobsched_command command = {.verb = verbs[i], .job = "job", .request = "lanes"};
            jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
            lanes->wrong_codes[2] +=
                node->driver->control(node->backend, &call, &command, &result) != 0;
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
        lanes->wrong_codes[2] +=
            node->driver->runs(node->backend, &call, NULL, 20, count_row, &lanes->listed) != 0;
        atomic_fetch_add(&lanes->rounds[2], 1);
    } while (!atomic_load(&lanes->stop));
    return NULL;
}

/* G11: the lanes of one handle work at the same time and in each other's presence. */
static void race_of_lanes(void **state)
{
    static struct lanes lanes;
    memset(&lanes, 0, sizeof lanes);
    lanes.node = cf_open(*state, "node");
    lanes.job = cf_job(lanes.node, "job", LANE_RUNS + 1);
    pthread_t threads[3];
    cf_equal(pthread_barrier_init(&lanes.start, NULL, 3), 0);
    cf_equal(pthread_create(&threads[0], NULL, claim_lane, &lanes), 0);
    cf_equal(pthread_create(&threads[1], NULL, keep_lane, &lanes), 0);
    cf_equal(pthread_create(&threads[2], NULL, admin_lane, &lanes), 0);
    for (int i = 0; i < 3; i++) {
        cf_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&lanes.start);
    for (int i = 0; i < 3; i++) {
        cf_equal(lanes.wrong_codes[i], 0);
        cf_true(atomic_load(&lanes.rounds[i]) >= LANE_ROUNDS);
    }
    cf_equal(lanes.wrong_answers, 0);
    cf_equal(lanes.granted + lanes.paused, LANE_RUNS);
    cf_true(lanes.granted > 0 || lanes.paused > 0);
    static struct cf_row rows[LANE_RUNS + 1];
    size_t count = cf_rows(lanes.node, "job", rows, LANE_RUNS + 1);
    int granted = 0;
    uint64_t paused = 0, triggers = 0;
    for (size_t i = 0; i < count; i++) {
        granted += rows[i].record.outcome == JOBSCHED_OUTCOME_SUCCEEDED;
        triggers += rows[i].record.kind == JOBSCHED_KIND_TRIGGER;
        paused +=
            rows[i].record.outcome == JOBSCHED_OUTCOME_SKIPPED_PAUSED ? rows[i].record.count : 0;
    }
    cf_equal(granted, lanes.granted);
    cf_equal(paused, lanes.paused);
    cf_equal(triggers, 1);
}

const struct cf_test cf_race_tests[] = {
    {"race_of_processes", race_of_processes, JOBSCHED_CAPABILITY_CLUSTER},
    {"race_of_lanes", race_of_lanes, 0},
    {NULL, NULL, 0},
};
