/* hello.c: two jobs; each fires once in the whole cluster, however many copies of this you start. */
#include <jobsched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int hello(jobsched_run *run, void *user_data)
{
    (void)user_data;
    printf("%s, run by process %ld\n", jobsched_run_job(run), (long)getpid());
    return fflush(stdout); /* 0 is success */
}

static int add(jobsched *scheduler, const char *name, const char *schedule)
{
    jobsched_job_spec job;

    JOBSCHED_INIT(&job);
    job.name = name;
    job.schedule = schedule;
    job.run = hello;
    return jobsched_add(scheduler, &job, NULL);
}

int main(void)
{
    jobsched_options options;
    jobsched *scheduler;
    sigset_t stop;
    int number;

    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    JOBSCHED_INIT(&options);
    options.lock = getenv("JOBSCHED_LOCK"); /* such as sqlite:/tmp/hello.db */
    if (jobsched_open(&options, &scheduler) || add(scheduler, "tick", "@every 2s") ||
        add(scheduler, "report", "*/5 * * * *") || jobsched_start(scheduler)) {
        fprintf(stderr, "%s\n", jobsched_last_error()->message);
        return 1;
    }
    sigwait(&stop, &number);
    jobsched_drain(scheduler, 10000);
    return jobsched_close(scheduler) != JOBSCHED_OK;
}
