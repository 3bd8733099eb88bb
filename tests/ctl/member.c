/* member.c: one process of the cluster that cluster.sh walks through: "member NAME" registers the
 * jobs, says "ready", and ends when its standard input does. "member NAME older" registers one of
 * them as it was a version ago, "member NAME odd" one whose name and note are the node's name. The
 * lock is that of the environment. */
#include <jobsched.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int succeed(jobsched_run *run, void *user_data)
{
    (void)jobsched_run_note(run, user_data == NULL ? "all well" : user_data);
    return jobsched_run_progress(run, 3, 3);
}

static int fail_with_7(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 7;
}

/* Goes on until it is told to stop. */
static int linger(jobsched_run *run, void *user_data)
{
    (void)user_data;
    while (jobsched_run_should_stop(run) == 0) {
        (void)poll(NULL, 0, 5);
    }
    return JOBSCHED_ECANCELED;
}

static int add(jobsched *s, const char *name, jobsched_run_fn run, uint64_t version, void *data)
{
    jobsched_job_spec spec;

    JOBSCHED_INIT(&spec);
    spec.name = name;
    spec.schedule = version < 3 ? "0 4 1 1 *" : "0 3 1 1 *"; /* nothing is due during the walk */
    spec.timezone = "UTC";
    spec.version = version;
    spec.run = run;
    spec.user_data = data;
    return jobsched_add(s, &spec, NULL);
}

static int add_all(jobsched *s, char *name, const char *kind)
{
    if (strcmp(kind, "older") == 0) {
        return add(s, "nightly", succeed, 2, NULL);
    }
    if (strcmp(kind, "odd") == 0) {
        return add(s, name, succeed, 3, name);
    }
    return add(s, "nightly", succeed, 3, NULL) != 0 ||
           add(s, "broken", fail_with_7, 3, NULL) != 0 ||
           add(s, "lingering", linger, 3, NULL) != 0 ||
           add(s, "odd \x1b[2J'; DROP TABLE", succeed, 3, NULL) == 0;
}

/* Making a server's schema, or waiting for who does, may take longer than open() may. */
static int open_patiently(const jobsched_options *options, jobsched **out_scheduler)
{
    int code = jobsched_open(options, out_scheduler);

    for (int tries = 0; (code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN) && tries < 20;
         tries++) {
        (void)poll(NULL, 0, 100);
        code = jobsched_open(options, out_scheduler);
    }
    return code;
}

int main(int argc, char **argv)
{
    jobsched_options options;
    jobsched *s = NULL;
    char byte;

    if (argc < 2) {
        (void)fputs("member: a name is missing\n", stderr);
        return 2;
    }
    JOBSCHED_INIT(&options);
    options.node_name = argv[1];
    options.app_version = "1.2.3";
    options.lease_ms = 6000;
    options.request_timeout_ms = 2000;
    if (jobsched_set_from_environment(&options) != 0 || open_patiently(&options, &s) != 0 ||
        add_all(s, argv[1], argc > 2 ? argv[2] : "") != 0 || jobsched_start(s) != 0) {
        (void)fprintf(stderr, "member: %s\n", jobsched_last_error()->message);
        return 1;
    }
    (void)puts("ready");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    (void)jobsched_drain(s, 10000);
    return jobsched_close(s) == 0 ? 0 : 1;
}
