/* node.c: one process of a cluster test. Public API only; the wall clock is injected and wrong by
 * as much as the test wants.
 *
 *   cluster_node --url URL --namespace NAME --index N --offset MS --log FILE --jobs FILE
 *                [--backend LIBRARY] [--set KEY=VALUE]... [--announced] [--patient | --once]
 *                [--no-override] [--sink FILE]
 *
 * A line of the jobs file: name, TAB, duration in ms or "hang", TAB, flags ("-", or of "ignore",
 * "alive" and "first", with commas), then settings of jobsched_job_set as TAB key=value.
 * Commands on stdin, each answered by a line on stdout: "stop", "drain MS", "leave MS" (the same,
 * and runs that would go on for long end by themselves), "exit". When stdin ends the test is gone,
 * and so is the process.
 * --announced: "ready" only when the cluster knows every job. A store that does not answer in time
 * is asked again; --patient: also one that cannot be opened; --once: not at all. --no-override:
 * even root obeys the permissions of files from here on. --sink: what the jobs write to; it knows for
 * each job the largest token that it has seen, and refuses smaller ones, as docs/guarantees.md
 * advises.
 * Locks: none; records are written with one write() each. */
#include "record.h"

#include <jobsched/backend.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* LONG_MS: a run beyond it is not waited for by a node that leaves. */
enum { SLICE_MS = 20, JOBS_MAX = 4096, LINE_BYTES = 512, LONG_MS = 10000 };

typedef struct work {
    char name[24];
    int64_t duration_ms; /* -1: hangs */
    bool ignores;        /* does not stop when asked to */
    bool tells_alive;
    size_t place; /* in the sink */
} work;

static struct {
    int log_fd;
    int32_t index;
    int64_t offset_ms;
    work works[JOBS_MAX];
    size_t count;
    _Atomic uint64_t *sink; /* shared by all processes; NULL: none */
    atomic_bool leaving;
} node = {.log_fd = -1};

static int64_t clock_us(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t shifted_wall_ms(void *ctx)
{
    (void)ctx;
    return clock_us(CLOCK_REALTIME) / 1000 + node.offset_ms;
}

static int64_t plain_mono_ms(void *ctx)
{
    (void)ctx;
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

/* ---- the log ------------------------------------------------------------------ */

static void copy_text(char *out, size_t bytes, const char *text)
{
    size_t length = strnlen(text, bytes - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

static record new_record(int what, const char *job)
{
    record entry = {.at_us = clock_us(CLOCK_REALTIME),
                    .magic = RECORD_MAGIC,
                    .what = what,
                    .pid = (int32_t)getpid(),
                    .node = node.index};
    copy_text(entry.job, sizeof entry.job, job);
    return entry;
}

static void write_record(const record *entry)
{
    if (write(node.log_fd, entry, sizeof *entry) != (ssize_t)sizeof *entry) {
        /* Without its log the test would blame the library for what nobody wrote down. */
        perror("cluster_node: log");
        abort();
    }
}

static record run_record(int what, const jobsched_run *run, const work *job, int reason)
{
    record entry = new_record(what, job->name);
    entry.scheduled_ms = jobsched_run_scheduled_at_ms(run);
    entry.last_ms = entry.scheduled_ms;
    entry.token = jobsched_run_token(run);
    entry.kind = jobsched_run_kind(run);
    entry.attempt = (int32_t)jobsched_run_attempt(run);
    entry.stop_reason = reason;
    return entry;
}

static void write_run(int what, const jobsched_run *run, const work *job, int reason, int code)
{
    record entry = run_record(what, run, job, reason);
    entry.code = code;
    write_record(&entry);
}

/* The first and the last record of a run: what it was told, asked after the instant that is written
 * down. So, wherever this process is frozen meanwhile, a run that began or ended after its lease
 * says that it knew. */
static void write_asked(int what, const jobsched_run *run, const work *job, int *reason, int code)
{
    int64_t now_us = clock_us(CLOCK_REALTIME);
    int seen = jobsched_run_should_stop(run);
    if (what == RECORD_END && seen != *reason) {
        write_run(RECORD_STOP_SEEN, run, job, seen, 0);
    }
    *reason = seen;
    record entry = run_record(what, run, job, seen);
    entry.at_us = now_us;
    entry.code = code;
    write_record(&entry);
}

/* What the run was told at an instant that is from before the question: however long this process
 * is frozen on the way, the record claims nothing that was not so. */
static void write_alive(const jobsched_run *run, const work *job, int reason, int64_t asked_us)
{
    record entry = run_record(RECORD_ALIVE, run, job, reason);
    entry.at_us = asked_us;
    entry.lease_until_us = asked_us + jobsched_run_lease_left_ms(run) * 1000;
    write_record(&entry);
}

static void observe(const jobsched_event *event, void *user_data)
{
    (void)user_data;
    switch (event->kind) {
    case JOBSCHED_EVENT_STARTED:
    case JOBSCHED_EVENT_STOPPED:
    case JOBSCHED_EVENT_GRANTED:
    case JOBSCHED_EVENT_RUN_STARTED:
    case JOBSCHED_EVENT_RUN_FINISHED:
    case JOBSCHED_EVENT_ELSEWHERE:
        return; /* many, and the records of the callbacks say the same */
    default:
        break;
    }
    record entry = new_record(RECORD_EVENT, event->job);
    entry.scheduled_ms = event->scheduled_at_ms;
    entry.last_ms = event->last_at_ms;
    entry.token = event->token;
    entry.count = event->count;
    entry.kind = event->run_kind;
    entry.attempt = (int32_t)event->attempt;
    entry.event = event->kind;
    entry.outcome = event->outcome;
    entry.stop_reason = event->stop_reason;
    entry.code = event->code;
    copy_text(entry.text, sizeof entry.text, event->message);
    write_record(&entry);
}

/* ---- the job ------------------------------------------------------------------ */

static void nap_ms(int64_t ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&span, NULL);
}

/* What the job does outside: refused once somebody with a larger token was there. */
static void write_effect(const jobsched_run *run, const work *job)
{
    if (node.sink == NULL) {
        return;
    }
    uint64_t token = jobsched_run_token(run);
    uint64_t seen = atomic_load(&node.sink[job->place]);
    while (seen < token && !atomic_compare_exchange_weak(&node.sink[job->place], &seen, token)) {
        /* somebody else was quicker: look again */
    }
    if (seen > token) {
        write_run(RECORD_REFUSED, run, job, JOBSCHED_STOP_NONE, 0);
    }
}

static bool may_end_now(const work *job)
{
    return !job->ignores && (job->duration_ms < 0 || job->duration_ms > LONG_MS) &&
           atomic_load(&node.leaving);
}

static int do_work(jobsched_run *run, void *user_data)
{
    const work *job = user_data;
    int reason = JOBSCHED_STOP_NONE;
    write_asked(RECORD_START, run, job, &reason, 0);
    int64_t begun_ms = plain_mono_ms(NULL);
    bool stops = false;
    while (!stops) {
        int64_t now_ms = plain_mono_ms(NULL);
        int64_t left_ms = job->duration_ms < 0 ? SLICE_MS : begun_ms + job->duration_ms - now_ms;
        if (left_ms <= 0 || may_end_now(job)) {
            break;
        }
        nap_ms(left_ms < SLICE_MS ? left_ms : SLICE_MS);
        int64_t asked_us = clock_us(CLOCK_REALTIME);
        int seen = jobsched_run_should_stop(run);
        if (seen != reason) {
            reason = seen;
            write_run(RECORD_STOP_SEEN, run, job, reason, 0);
        }
        stops = seen != JOBSCHED_STOP_NONE && !job->ignores;
        if (job->tells_alive) {
            write_alive(run, job, reason, asked_us);
        }
    }
    int code = stops ? JOBSCHED_ECANCELED : JOBSCHED_OK;
    write_effect(run, job);
    write_asked(RECORD_END, run, job, &reason, code);
    return code;
}

/* ---- setting up --------------------------------------------------------------- */

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "cluster_node %d: %s: %s\n", (int)node.index, what,
                  jobsched_last_error()->message);
    exit(2);
}

static void add_line(jobsched *scheduler, char *line)
{
    char *rest = NULL;
    const char *name = strtok_r(line, "\t\n", &rest);
    const char *duration = strtok_r(NULL, "\t\n", &rest);
    const char *flags = strtok_r(NULL, "\t\n", &rest);
    if (flags == NULL || node.count == JOBS_MAX) {
        die("bad line in the jobs file");
    }
    work *job = &node.works[node.count++];
    copy_text(job->name, sizeof job->name, name);
    job->duration_ms = strcmp(duration, "hang") == 0 ? -1 : strtoll(duration, NULL, 10);
    job->ignores = strstr(flags, "ignore") != NULL;
    job->tells_alive = strstr(flags, "alive") != NULL;
    if (strstr(flags, "first") != NULL && node.index != 0) {
        job->duration_ms = 1; /* only the first node takes that long */
    }
    job->place = node.count - 1;
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = job->name;
    spec.run = do_work;
    spec.user_data = job;
    for (char *setting; (setting = strtok_r(NULL, "\t\n", &rest)) != NULL;) {
        char *value = strchr(setting, '=');
        if (value == NULL) {
            die("a setting without '='");
        }
        *value++ = '\0';
        if (jobsched_job_set(&spec, setting, value) != 0) {
            die("job setting");
        }
    }
    if (jobsched_add(scheduler, &spec, NULL) != 0) {
        die("add");
    }
}

static void add_jobs(jobsched *scheduler, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        die("cannot open the jobs file");
    }
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        add_line(scheduler, line);
    }
    (void)fclose(file);
}

/* A job that the cluster knows can be resumed, which changes nothing: it is not paused. */
static void await_announced(jobsched *scheduler)
{
    for (size_t i = 0; i < node.count; i++) {
        while (jobsched_resume(scheduler, node.works[i].name, NULL) != 0) {
            nap_ms(SLICE_MS);
        }
    }
}

static void drop_override(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0) {
        die("capget");
    }
    const uint32_t unwanted = (1U << CAP_DAC_OVERRIDE) | (1U << CAP_DAC_READ_SEARCH);
    data[0].effective &= ~unwanted;
    data[0].permitted &= ~unwanted;
    if (syscall(SYS_capset, &header, data) != 0) {
        die("capset");
    }
}

static const jobsched_backend *load_backend(const char *path, const char *url)
{
    char name[64];
    (void)snprintf(name, sizeof name, "jobsched_backend_%.*s", (int)strcspn(url, ":"), url);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library == NULL ? NULL : dlsym(library, name);
    const jobsched_backend *(*driver)(void) = NULL;
    if (address == NULL) {
        (void)fprintf(stderr, "cluster_node: %s\n", dlerror());
        exit(2);
    }
    memcpy(&driver, &address, sizeof driver); /* ISO C has no cast from void * to a function */
    return driver();
}

typedef struct arguments {
    const char *jobs, *backend;
    bool announced, patient, once, override;
} arguments;

static void set_option(jobsched_options *options, char *setting)
{
    char *value = strchr(setting, '=');
    if (value == NULL) {
        die("--set without '='");
    }
    *value++ = '\0';
    if (jobsched_set(options, setting, value) != 0) {
        die("--set");
    }
}

static void map_sink(const char *path)
{
    const size_t bytes = JOBS_MAX * sizeof *node.sink;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        die("--sink");
    }
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
        die("--sink");
    }
    (void)close(fd);
    node.sink = address;
}

static void parse(int argc, char **argv, jobsched_options *options, arguments *out)
{
    static const struct option known[] = {
        {"url", required_argument, NULL, 'u'},     {"namespace", required_argument, NULL, 'n'},
        {"index", required_argument, NULL, 'i'},   {"offset", required_argument, NULL, 'o'},
        {"log", required_argument, NULL, 'l'},     {"jobs", required_argument, NULL, 'j'},
        {"backend", required_argument, NULL, 'b'}, {"set", required_argument, NULL, 's'},
        {"announced", no_argument, NULL, 'a'},     {"patient", no_argument, NULL, 'w'},
        {"once", no_argument, NULL, '1'},          {"no-override", no_argument, NULL, 'p'},
        {"sink", required_argument, NULL, 'k'},    {NULL, 0, NULL, 0}};
    static char name[16];
    *out = (arguments){.override = true};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'u':
            options->lock = optarg;
            break;
        case 'n':
            options->name_space = optarg;
            break;
        case 'i':
            node.index = (int32_t)strtol(optarg, NULL, 10);
            (void)snprintf(name, sizeof name, "n%d", (int)node.index);
            options->node_name = name;
            break;
        case 'o':
            node.offset_ms = strtoll(optarg, NULL, 10);
            break;
        case 'l':
            node.log_fd = open(optarg, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
            break;
        case 'j':
            out->jobs = optarg;
            break;
        case 'b':
            out->backend = optarg;
            break;
        case 's':
            set_option(options, optarg);
            break;
        case 'a':
            out->announced = true;
            break;
        case 'w':
            out->patient = true;
            break;
        case '1':
            out->once = true;
            break;
        case 'p':
            out->override = false;
            break;
        case 'k':
            map_sink(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (out->jobs == NULL || node.log_fd < 0) {
        die("--jobs and --log are needed");
    }
}

/* ---- commands ----------------------------------------------------------------- */

static void say(const char *what, int code, int64_t ms)
{
    (void)printf("%s %d %lld %s\n", what, code, (long long)ms,
                 code == 0 ? "" : jobsched_last_error()->message);
    (void)fflush(stdout);
}

static void obey(jobsched *scheduler)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin) != NULL) {
        int64_t begun_ms = plain_mono_ms(NULL);
        if (strncmp(line, "drain ", 6) == 0) {
            int code = jobsched_drain(scheduler, strtoll(line + 6, NULL, 10));
            say("drained", code, plain_mono_ms(NULL) - begun_ms);
        } else if (strncmp(line, "leave ", 6) == 0) {
            atomic_store(&node.leaving, true);
            int code = jobsched_drain(scheduler, strtoll(line + 6, NULL, 10));
            say("drained", code, plain_mono_ms(NULL) - begun_ms);
        } else if (strcmp(line, "stop\n") == 0) {
            say("stopped", jobsched_stop(scheduler), 0);
        } else if (strcmp(line, "exit\n") == 0) {
            int code = jobsched_close(scheduler);
            say("closed", code, plain_mono_ms(NULL) - begun_ms);
            return;
        } else {
            die("unknown command");
        }
    }
    _exit(3); /* nobody is left to tell us to stop */
}

int main(int argc, char **argv)
{
    jobsched_options options;
    arguments given;
    JOBSCHED_INIT(&options);
    parse(argc, argv, &options, &given);
    /* What a host does that lives with limits on the size of files. */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (!given.override) {
        drop_override();
    }
    jobsched_clock clock = {
        .struct_size = sizeof clock, .wall_ms = shifted_wall_ms, .mono_ms = plain_mono_ms};
    options.clock = &clock;
    options.observer = observe;
    const jobsched_backend *drivers[2] = {NULL, NULL};
    if (given.backend != NULL) {
        drivers[0] = load_backend(given.backend, options.lock);
        options.backends = drivers;
    }
    jobsched *scheduler = NULL;
    int code = jobsched_open(&options, &scheduler);
    /* A machine that is busy may need longer than a request may take. */
    for (int tries = 0; (!given.once && tries < 100 &&
                         (code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN)) ||
                        (given.patient && code != 0 && code != JOBSCHED_EINVAL);
         tries++) {
        nap_ms(SLICE_MS);
        code = jobsched_open(&options, &scheduler);
    }
    if (code != 0) {
        say("refused", code, 0);
        return 0;
    }
    add_jobs(scheduler, given.jobs);
    if (jobsched_start(scheduler) != 0) {
        die("start");
    }
    if (given.announced) {
        await_announced(scheduler);
    }
    say("ready", 0, 0);
    obey(scheduler);
    return 0;
}
