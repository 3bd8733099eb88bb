/* test_single.c: what single: does besides the contract: its stores are separate, it tells of
 * twins in other processes, and it stays quick with many jobs. The contract itself is the
 * business of the conformance suite. */
#include "cf_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/test-single-XXXXXX";

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    (void)data;
    (void)snprintf(out_url, out_bytes, "single:");
    return 0;
}

static jobsched_conformance_subject subject = {.make_url = make_url};

static int set_up(void **state)
{
    subject.driver = jobsched_backend_single();
    (void)setenv("XDG_RUNTIME_DIR", directory, 1);
    return cf_setup(state, &subject);
}

/* Two handles are two stores: what one does is not seen in the other. */
static void test_handles_do_not_see_each_other(void **state)
{
    struct cf_node *a = cf_open(*state, "a"), *b = cf_open(*state, "b");
    struct cf_job job = cf_job(a, "job", 2);
    (void)cf_grant(a, &job, 1);
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(b, &claim);
    cf_answer(claim, UNKNOWN);
    struct cf_row row;
    cf_equal(cf_rows(b, NULL, &row, 1), 0);
    cf_equal(cf_control(b, JOBSCHED_VERB_PAUSE, "job", NULL, NULL), JOBSCHED_ENOTFOUND);
}

/* Its clock is the injected one: nothing is read from elsewhere. */
static void test_clock_is_the_injected_one(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    atomic_store(&node->clock.wall_offset_ms, 10000000);
    struct cf_job job = cf_job(node, "job", 0);
    jobsched_claim claim = cf_at(&job, 3600000);
    claim.after_ms = job.mark_ms;
    cf_ask(node, &claim);
    cf_answer(claim, EARLY);
    atomic_fetch_add(&node->clock.wall_offset_ms, 3600000);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    struct cf_row row;
    int64_t started_ms = cf_newest(node, "job", &row)->record.started_at_ms;
    cf_true(started_ms >= claim.scheduled_ms && started_ms < claim.scheduled_ms + 60000);
}

/* Both spellings of the URL work, and a refusal shows no password. */
static void test_urls(void **state)
{
    struct cf_world *world = *state;
    (void)snprintf(world->url, sizeof world->url, "single://");
    (void)cf_open(world, "node");
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "node", NULL);
    void *backend = NULL;
    node.config.url = "single://user:secret@host/";
    cf_equal(world->driver->open(&node.config, &backend), JOBSCHED_EINVAL);
    cf_true(strstr(jobsched_last_error()->message, "secret") == NULL);
    node.config.url = "single:what";
    cf_equal(world->driver->open(&node.config, &backend), JOBSCHED_EINVAL);
    cf_true(strstr(jobsched_last_error()->message, "'what'") != NULL);
    cf_true(backend == NULL);
}

/* A process that has the namespace open until its parent closes the pipe, looks once more,
 * and exits with the number of warnings it got. */
static pid_t start_twin(struct cf_world *world, int *out_end)
{
    int ready[2], done[2];
    char byte = 0;
    cf_equal(pipe(ready), 0);
    cf_equal(pipe(done), 0);
    pid_t child = cf_fork(world);
    if (child == 0) {
        (void)close(done[1]);
        struct cf_node *node = cf_open(world, "twin");
        struct cf_found found;
        cf_equal(write(ready[1], &byte, 1), 1);
        cf_equal(read(done[0], &byte, 1), 0); /* the end of the pipe */
        cf_equal(cf_reap(node, &found, 1), 0);
        cf_equal(cf_reap(node, &found, 1), 0);
        int notices = atomic_load(&node->notices);
        cf_close(world, node);
        _exit(notices);
    }
    (void)close(ready[1]);
    (void)close(done[0]);
    cf_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    *out_end = done[1];
    return child;
}

/* "A replica existed and no locker was set" is how jobs get run twice: both are told, once. */
static void test_twin_process_is_told_of(void **state)
{
    struct cf_world *world = *state;
    int end = -1;
    pid_t twin = start_twin(world, &end);
    struct cf_node *node = cf_open(world, "node"), *second = cf_open(world, "second");
    struct cf_settings elsewhere = {.name_space = "another namespace"};
    struct cf_node *other = cf_open_with(world, "other", &elsewhere);
    struct cf_found found;
    for (int i = 0; i < 3; i++) {
        cf_equal(cf_reap(node, &found, 1), 0);
        cf_equal(cf_reap(other, &found, 1), 0);
    }
    cf_equal(atomic_load(&node->notices), 1);
    cf_equal(atomic_load(&second->notices), 1);
    cf_equal(atomic_load(&other->notices), 0);
    (void)close(end);
    cf_equal(cf_wait(world, twin), 1);
    struct cf_node *later = cf_open(world, "later"); /* two handles of this process remain */
    cf_equal(cf_reap(later, &found, 1), 0);
    cf_equal(atomic_load(&later->notices), 0);
}

struct seen {
    int level, names_pids;
};

static int keep_alone(const jobsched_check_record *record, void *visit_data)
{
    struct seen *seen = visit_data;
    if (strcmp(record->id, "single.alone") == 0) {
        seen->level = record->level;
        seen->names_pids = strncmp(record->message, "processes ", 10) == 0;
    }
    return 0;
}

/* What an operator's program, which is another one, finds: two processes of an application, and no
 * twins where there is one. It leaves no lock file. */
static void test_operators_see_twins(void **state)
{
    struct cf_world *world = *state;
    const struct cf_settings settings = {.name_space = "an operator's", .control_only = 1};
    struct seen seen = {.level = -1};
    int end = -1;
    struct cf_node *node = cf_open(world, "node"), *asks = cf_open_with(world, "asks", &settings);
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    cf_ok(asks->driver->check(asks->backend, &call, keep_alone, &seen));
    cf_equal(seen.level, JOBSCHED_LEVEL_INFO);
    pid_t twin = start_twin(world, &end);
    cf_ok(asks->driver->check(asks->backend, &call, keep_alone, &seen));
    cf_equal(seen.level, JOBSCHED_LEVEL_ERROR);
    cf_true(seen.names_pids);
    (void)close(end);
    cf_equal(cf_wait(world, twin), 1);
    cf_close(world, node);
}

/* Handles of one process are no twins, in whatever order they are closed. */
static void test_own_handles_are_no_twins(void **state)
{
    struct cf_world *world = *state;
    struct cf_found found;
    struct cf_node *a = cf_open(world, "a"), *b = cf_open(world, "b");
    cf_close(world, a);
    struct cf_node *c = cf_open(world, "c");
    cf_equal(cf_reap(b, &found, 1), 0);
    cf_equal(cf_reap(c, &found, 1), 0);
    cf_equal(atomic_load(&b->notices) + atomic_load(&c->notices), 0);
    /* Closing the first handle must not have dropped the lock of the others. */
    pid_t child = cf_fork(world);
    if (child == 0) {
        struct cf_node *node = cf_open(world, "twin");
        int notices = atomic_load(&node->notices);
        cf_close(world, node);
        _exit(notices);
    }
    cf_equal(cf_wait(world, child), 1);
}

static void find_lock_file(char *out_path, size_t bytes)
{
    DIR *listing = opendir(directory);
    cf_true(listing != NULL);
    int found = 0;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strncmp(entry->d_name, "jobsched-single-", 16) == 0) {
            (void)snprintf(out_path, bytes, "%s/%s", directory, entry->d_name);
            found++;
        }
    }
    (void)closedir(listing);
    cf_equal(found, 1);
}

static void empty_directory(void)
{
    DIR *listing = opendir(directory);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        (void)remove(path);
    }
    (void)closedir(listing);
}

/* G13: the lock file is private, is not inherited, and is a hint only: nothing that lies in
 * its place is followed, waited for or an error. */
static void test_lock_file_is_private_and_optional(void **state)
{
    struct cf_world *world = *state;
    char path[512] = "", victim[512];
    empty_directory();
    struct cf_node *node = cf_open(world, "node");
    find_lock_file(path, sizeof path);
    struct stat status;
    cf_equal(stat(path, &status), 0);
    cf_equal(status.st_mode & 07777, 0600);
    cf_equal(status.st_size, 0);
    cf_close(world, node);
    (void)snprintf(victim, sizeof victim, "%s/victim", directory);
    for (int kind = 0; kind < 4; kind++) {
        (void)remove(path);
        cf_equal(kind == 0   ? symlink(victim, path)
                 : kind == 1 ? mkfifo(path, 0600)
                 : kind == 2 ? mkdir(path, 0700)
                             : setenv("XDG_RUNTIME_DIR", "/nonexistent", 1),
                 0);
        node = cf_open(world, "node");
        cf_true(cf_now(node) > 0);
        cf_equal(atomic_load(&node->notices), 0);
        cf_close(world, node);
        cf_true(access(victim, F_OK) != 0);
        (void)remove(path);
    }
}

/* G11: claims stay quick with very many jobs. The bound is some hundred times what it takes. */
static void test_many_jobs_stay_quick(void **state)
{
    enum { JOBS = 100000, BATCH = JOBSCHED_BATCH_MAX };
    struct cf_node *node = cf_open(*state, "node");
    char(*names)[16] = calloc(JOBS, sizeof *names);
    jobsched_claim *claims = calloc(JOBS, sizeof *claims);
    static jobsched_announcement items[BATCH];
    cf_true(names != NULL && claims != NULL);
    int64_t started_ms = cf_real_mono_ms(), granted = 0;
    for (int from = 0; from < JOBS; from += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            (void)snprintf(names[from + i], sizeof *names, "job-%d", from + i);
            items[i] = (jobsched_announcement){.job = names[from + i], .definition = "d"};
        }
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->announce(node->backend, &call, items, BATCH));
        for (int i = 0; i < BATCH; i++) {
            struct cf_job job = {items[i].job, items[i].generation, items[i].mark_ms};
            claims[from + i] = cf_at(&job, 1);
        }
    }
    cf_wait_until(node, items[BATCH - 1].mark_ms + 1);
    for (int from = 0; from < JOBS; from += BATCH) {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        cf_ok(node->driver->claim(node->backend, &call, &claims[from], BATCH));
        for (int i = 0; i < BATCH; i++) {
            granted += claims[from + i].answer == JOBSCHED_ANSWER_GRANTED;
        }
    }
    int64_t took_ms = cf_real_mono_ms() - started_ms;
    print_message("%d jobs announced and granted in %lld ms\n", JOBS, (long long)took_ms);
    cf_equal(granted, JOBS);
    cf_true(took_ms < 30000);
    free(names);
    free(claims);
}

/* G16: triggers of a job that nobody runs are bounded; a request that is known still succeeds. */
static void test_waiting_triggers_are_bounded(void **state)
{
    struct cf_node *node = cf_open(*state, "node");
    struct cf_job job = cf_job(node, "job", 0);
    (void)cf_job(node, "calm", 0);
    char request[32];
    for (int i = 0; i < JOBSCHED_WAITING_MAX; i++) {
        (void)snprintf(request, sizeof request, "%d", i);
        cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", request, NULL));
    }
    cf_equal(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "more", NULL), JOBSCHED_EREFUSED);
    cf_true(strstr(jobsched_last_error()->message, "'job' has 10000 waiting triggers") != NULL);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", request, NULL));
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "calm", "more", NULL));
    jobsched_claim run = cf_at(&job, 0);
    run.kind = JOBSCHED_KIND_TRIGGER;
    run.request = request;
    cf_ask(node, &run);
    cf_answer(run, GRANTED);
    cf_ok(cf_control(node, JOBSCHED_VERB_TRIGGER, "job", "more", NULL));
}

int main(void)
{
    if (mkdtemp(directory) == NULL) {
        return 2;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, cf_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_handles_do_not_see_each_other),
        TEST(test_clock_is_the_injected_one),
        TEST(test_urls),
        TEST(test_twin_process_is_told_of),
        TEST(test_operators_see_twins),
        TEST(test_own_handles_are_no_twins),
        TEST(test_lock_file_is_private_and_optional),
        TEST(test_many_jobs_stay_quick),
        TEST(test_waiting_triggers_are_bounded),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    empty_directory();
    (void)rmdir(directory);
    return failures != 0 ? 1 : 0;
}
