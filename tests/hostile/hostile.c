/* hostile.c: see hostile.h. */
#include "hostile/hostile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct subject subjects[SUBJECTS_MAX];
size_t subject_count;

static char folder[64];

static void add_subject(const char *scheme, const char *lock)
{
    struct subject *subject = &subjects[subject_count++];

    subject->scheme = scheme;
    (void)snprintf(subject->lock, sizeof subject->lock, "%s", lock);
}

int subjects_set_up(void **state)
{
    char lock[128];

    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/hostile-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(lock, sizeof lock, "sqlite:%s/store.db", folder);
    add_subject("single", "single:");
    add_subject("sqlite", lock);
    if (getenv("JOBSCHED_TEST_POSTGRESQL") != NULL) {
        add_subject("postgresql", getenv("JOBSCHED_TEST_POSTGRESQL"));
    }
    if (getenv("JOBSCHED_TEST_REDIS") != NULL) {
        add_subject("redis", getenv("JOBSCHED_TEST_REDIS"));
    }
    return 0;
}

int subjects_tear_down(void **state)
{
    static const char *const names[] = {"", "-wal", "-shm", "-live"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];

        (void)snprintf(path, sizeof path, "%s/store.db%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

void host_options(struct subject *subject, jobsched_options *out_options)
{
    static const jobsched_backend *drivers[4];

    drivers[0] = jobsched_backend_sqlite();
    drivers[1] = jobsched_backend_postgresql();
    drivers[2] = jobsched_backend_redis();
    (void)snprintf(subject->name_space, sizeof subject->name_space, "hostile %ld.%d",
                   (long)getpid(), subject->lives++);
    JOBSCHED_INIT(out_options);
    out_options->lock = subject->lock;
    out_options->name_space = subject->name_space;
    out_options->backends = drivers;
    out_options->workers = 2;
    out_options->lease_ms = 6000; /* what lacked memory is found again at a beat, a part of it */
    out_options->request_timeout_ms = 2000;
}

static int run_job(jobsched_run *run, void *user_data)
{
    struct host *host = user_data;
    int result = host->body == NULL ? 0 : host->body(host, run);

    (void)atomic_fetch_add(&host->calls, 1);
    return result;
}

static void count_freed(void *user_data)
{
    struct host *host = user_data;

    (void)atomic_fetch_add(&host->freed, 1);
}

int host_add(struct host *host, const char *name)
{
    jobsched_job_spec spec;

    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = "@at 2199-01-01T00:00:00Z";
    spec.run = run_job;
    spec.user_data = host;
    spec.user_data_free = count_freed;
    return jobsched_add(host->s, &spec, NULL);
}

int count_entries(const char *path)
{
    DIR *entries = opendir(path);
    int count = 0;

    while (entries != NULL && readdir(entries) != NULL) {
        count++;
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return count;
}

struct counting {
    const char *job;
    int outcome, count;
};

static int count_row(const jobsched_run_record *record, void *data)
{
    struct counting *counting = data;

    counting->count += strcmp(record->job, counting->job) == 0 &&
                       (counting->outcome < 0 || record->outcome == counting->outcome);
    return 0;
}

int host_rows(struct host *host, const char *job, int outcome)
{
    struct counting counting = {.job = job, .outcome = outcome};

    return jobsched_runs(host->s, job, 1000, count_row, &counting) == 0 ? counting.count : -1;
}
