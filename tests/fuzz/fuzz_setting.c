/* fuzz_setting.c: any text as settings, "KEY=VALUE" line by line, each given to the options and to the
 * spec of a job. What is accepted one by one must be accepted as a whole: such a job is taken by a
 * scheduler, unless it is its texts (name, schedule, zone) that are wrong, and such options open. */
#include "fuzz/backend.h"

#include <jobsched.h>

#include <string.h>

static int run_nothing(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static void check_job(jobsched_job_spec *spec)
{
    static jobsched *scheduler;
    int code;

    if (scheduler == NULL) {
        jobsched_options options;

        JOBSCHED_INIT(&options);
        options.lock = "single:";
        options.name_space = "fuzz";
        CHECK(jobsched_open(&options, &scheduler) == JOBSCHED_OK);
    }
    spec->run = run_nothing;
    code = jobsched_add(scheduler, spec, NULL);
    if (code == JOBSCHED_OK) {
        CHECK(jobsched_withdraw(scheduler, spec->name) == JOBSCHED_OK);
        return;
    }
    fuzz_check_error(code);
    spec->name = "job";
    spec->schedule = "@daily";
    spec->timezone = NULL;
    CHECK(jobsched_add(scheduler, spec, NULL) == JOBSCHED_OK);
    CHECK(jobsched_withdraw(scheduler, "job") == JOBSCHED_OK);
}

static void check_options(jobsched_options *options)
{
    jobsched *scheduler = NULL;
    int code;

    options->lock = "single:";
    code = jobsched_open(options, &scheduler);
    if (code != JOBSCHED_OK) {
        fuzz_check_error(code);
        options->name_space = options->node_name = options->app_version = NULL;
        options->overrides = NULL;       /* a file that there is not */
        options->request_timeout_ms = 0; /* the one number that is bounded by another, the lease */
        CHECK(jobsched_open(options, &scheduler) == JOBSCHED_OK);
    }
    CHECK(jobsched_close(scheduler) == JOBSCHED_OK);
}

/* Returns whether it was accepted. */
static int set(jobsched_options *options, jobsched_job_spec *spec, const char *key,
               const char *value)
{
    int code =
        options != NULL ? jobsched_set(options, key, value) : jobsched_job_set(spec, key, value);

    if (code != JOBSCHED_OK) {
        CHECK(code == JOBSCHED_EINVAL);
        fuzz_check_error(code);
    }
    return code == JOBSCHED_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_input input = {data, size};
    char *text = fuzz_text(&input), *rest = text, *key;
    jobsched_options options;
    jobsched_job_spec spec;
    int options_set = 0, spec_set = 0;

    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&spec);
    while ((key = strsep(&rest, "\n")) != NULL) {
        char *value = strchr(key, '=');

        if (value != NULL) {
            *value++ = '\0';
            options_set |= set(&options, NULL, key, value);
            spec_set |= set(NULL, &spec, key, value);
        }
    }
    if (spec_set) {
        check_job(&spec);
    }
    if (options_set) {
        check_options(&options);
    }
    free(text);
    return 0;
}
