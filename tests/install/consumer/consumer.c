/* consumer.c: a small C99 program as a user writes it, run by check.sh against every way to get the
 * library. Usage: consumer URL. WITH_SQLITE, WITH_POSTGRESQL and WITH_REDIS tell which drivers are
 * linked statically. Succeeds once a job has fired and everything has ended cleanly. */
#include <jobsched.h>
#if defined(WITH_SQLITE) || defined(WITH_POSTGRESQL) || defined(WITH_REDIS)
#define WITH_DRIVERS
#include <jobsched/backend.h>
#endif

#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct wait {
    pthread_mutex_t mutex;
    pthread_cond_t fired;
    uint64_t token;
};

static int job(jobsched_run *run, void *user_data)
{
    struct wait *wait = user_data;
    pthread_mutex_lock(&wait->mutex);
    wait->token = jobsched_run_token(run);
    pthread_cond_signal(&wait->fired);
    pthread_mutex_unlock(&wait->mutex);
    return 0;
}

static int failed(const char *what)
{
    fprintf(stderr, "consumer: %s: %s\n", what, jobsched_last_error()->message);
    return 1;
}

static int wait_for_token(struct wait *wait)
{
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60; /* far more than the second it should take, also under load */
    pthread_mutex_lock(&wait->mutex);
    while (wait->token == 0 && result == 0) {
        result = pthread_cond_timedwait(&wait->fired, &wait->mutex, &until);
    }
    pthread_mutex_unlock(&wait->mutex);
    return result;
}

int main(int argc, char **argv)
{
    struct wait wait = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    jobsched_options options;
    jobsched_job_spec spec;
    jobsched *scheduler = NULL;

    if (argc != 2 || strcmp(jobsched_version(), JOBSCHED_VERSION) != 0) {
        fprintf(stderr, "usage: consumer URL (library %s, header %s)\n", jobsched_version(),
                JOBSCHED_VERSION);
        return 2;
    }
    JOBSCHED_INIT(&options);
    options.lock = argv[1];
#ifdef WITH_DRIVERS
    const jobsched_backend *backends[] = {
#ifdef WITH_SQLITE
        jobsched_backend_sqlite(),
#endif
#ifdef WITH_POSTGRESQL
        jobsched_backend_postgresql(),
#endif
#ifdef WITH_REDIS
        jobsched_backend_redis(),
#endif
        NULL};
    options.backends = backends;
#endif
    if (jobsched_open(&options, &scheduler) != 0) {
        return failed("open");
    }
    JOBSCHED_INIT(&spec);
    spec.name = "tick";
    spec.schedule = "@every 1s";
    spec.run = job;
    spec.user_data = &wait;
    if (jobsched_add(scheduler, &spec, NULL) != 0) {
        return failed("add");
    }
    if (jobsched_start(scheduler) != 0) {
        return failed("start");
    }
    if (wait_for_token(&wait) != 0) {
        fprintf(stderr, "consumer: the job has not fired\n");
        return 1;
    }
    if (jobsched_drain(scheduler, 10000) != 0) {
        return failed("drain");
    }
    if (jobsched_close(scheduler) != 0) {
        return failed("close");
    }
    printf("%s fired, token %llu\n", argv[1], (unsigned long long)wait.token);
    return 0;
}
