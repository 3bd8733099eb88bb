/* fuzz_override.c: any bytes as a file of overrides, "job.NAME.KEY = VALUE" line by line. The file is
 * accepted if and only if each line, given to jobsched_override() by itself, is; else the error names
 * the first line that is not. A job that is registered then is taken, or refused with a clear error. */
#include "fuzz/backend.h"

#include <jobsched.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int run_nothing(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static jobsched *open_with(const char *path)
{
    jobsched *scheduler = NULL;
    jobsched_options options;

    JOBSCHED_INIT(&options);
    options.lock = "single:";
    options.name_space = "fuzz";
    options.overrides = path;
    if (jobsched_open(&options, &scheduler) != JOBSCHED_OK) {
        fuzz_check_error(jobsched_last_error()->code);
        return NULL;
    }
    return scheduler;
}

/* Both ends without blanks, in place. */
static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t\r");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r", end[-1]) != NULL) {
        *--end = '\0';
    }
    return text;
}

/* Whether one line, without its end, is accepted by itself. */
static int accepts(jobsched *scheduler, char *line, size_t length)
{
    char *equals;
    int code;

    if (memchr(line, '\0', length) != NULL) {
        return 0;
    }
    line = trim(line);
    if (*line == '\0' || *line == '#') {
        return 1;
    }
    equals = strchr(line, '=');
    if (equals == NULL) {
        return 0;
    }
    *equals = '\0';
    code = jobsched_override(scheduler, trim(line), trim(equals + 1));
    if (code != JOBSCHED_OK) {
        fuzz_check_error(code);
    }
    return code == JOBSCHED_OK;
}

/* The first line that is not accepted by itself, from 1; 0 when there is none. */
static size_t first_bad_line(char *text, size_t size)
{
    jobsched *scheduler = open_with(NULL);
    size_t number = 0, bad = 0;
    char *line = text;

    CHECK(scheduler != NULL);
    while (bad == 0 && line < text + size) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));

        end = end == NULL ? text + size : end;
        *end = '\0';
        number++;
        bad = accepts(scheduler, line, (size_t)(end - line)) ? 0 : number;
        line = end + 1;
    }
    CHECK(jobsched_close(scheduler) == JOBSCHED_OK);
    return bad;
}

static void register_job(jobsched *scheduler)
{
    jobsched_job_spec spec;
    int code;

    JOBSCHED_INIT(&spec);
    spec.name = "job";
    spec.schedule = "@daily";
    spec.run = run_nothing;
    code = jobsched_add(scheduler, &spec, NULL);
    if (code != JOBSCHED_OK) {
        fuzz_check_error(code);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_input input = {data, size};
    char *text = fuzz_text(&input), path[32], expected[64];
    int file = memfd_create("overrides", MFD_CLOEXEC);
    jobsched *scheduler;
    size_t bad;

    CHECK(file >= 0 && write(file, text, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    scheduler = open_with(path);
    if (scheduler == NULL) {
        char message[JOBSCHED_MESSAGE_BYTES];

        (void)snprintf(message, sizeof message, "%s", jobsched_last_error()->message);
        bad = first_bad_line(text, size);
        (void)snprintf(expected, sizeof expected, "overrides '%s', line %zu: ", path, bad);
        CHECK(bad > 0 && strncmp(message, expected, strlen(expected)) == 0);
    } else {
        CHECK(first_bad_line(text, size) == 0);
        register_job(scheduler);
        CHECK(jobsched_close(scheduler) == JOBSCHED_OK);
    }
    (void)close(file);
    free(text);
    return 0;
}
