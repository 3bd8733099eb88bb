/* hello.c: two jobs; each fires once in the cluster, however many copies of this you start. */
#include <jobsched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int hello(jobsched_run *run, void *user_data)
{
    (void)user_data;
    printf("%s from process %d\n", jobsched_run_job(run), (int)getpid());
    return fflush(stdout); /* 0 is success */
}

int main(void)
{
    jobsched_options options = {sizeof options, .lock = getenv("JOBSCHED_LOCK")};
    jobsched_job_spec job = {sizeof job, .name = "tick", .schedule = "@every 2s", .run = hello};
    jobsched *scheduler = NULL;
    int failed = jobsched_open(&options, &scheduler) || jobsched_add(scheduler, &job, NULL);

    job.name = "report";
    job.schedule = "*/5 * * * *";
    if (failed || jobsched_add(scheduler, &job, NULL) || jobsched_start(scheduler)) {
        fprintf(stderr, "%s\n", jobsched_last_error()->message);
        return 1;
    }
    sleep(60);
    jobsched_drain(scheduler, 10000); /* lets what runs end */
    return jobsched_close(scheduler) != JOBSCHED_OK;
}
