/* elected_crond.c: cron for a cluster. Runs the lines of an ordinary crontab, each occurrence on one
 * of the processes that share the lock. See docs/elected-crond.1.
 *
 * The main thread waits for signals, which are blocked everywhere else; commands run on the workers
 * of the library (jobs.c, command.c). Locks: none. */
#include "elected_crond/crontab.h"
#include "elected_crond/jobs.h"
#include "elected_crond/lock_url.h"
#include "elected_crond/options.h"
#include "elected_crond/output.h"
#include "elected_crond/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* For what commands wrote last, when its reader is slow. */
#define OUTPUT_END_MS 2000

static void print_findings(const crontab *table, const char *path)
{
    size_t dropped = table->error_count + table->warning_count - table->finding_count;

    for (size_t i = 0; i < table->finding_count; i++) {
        crontab_finding_print(stderr, path, &table->findings[i]);
    }
    if (dropped > 0) {
        fprintf(stderr, "%s: %zu more findings\n", path, dropped);
    }
}

static void print_job(const crontab_entry *entry, const char *name_space)
{
    jobsched_schedule *schedule;
    char next[INSTANT_BYTES] = "-";

    if (crontab_entry_schedule(entry, name_space, &schedule) == JOBSCHED_OK) {
        int64_t at_ms = jobsched_schedule_next(schedule, wall_ms());

        if (at_ms != JOBSCHED_NONE) {
            format_instant(next, at_ms, 0);
        }
        jobsched_schedule_free(schedule);
    }
    printf("%-40s %-20s  %s\n", entry->name, next, entry->schedule);
}

static int check(const char *path, const char *name_space)
{
    char message[CRONTAB_MESSAGE_BYTES];
    crontab *table;
    int result;

    if (crontab_read(path, name_space, &table, message, sizeof message) != 0) {
        fprintf(stderr, "elected-crond: '%s' %s\n", path, message);
        return CROND_FAILED;
    }
    print_findings(table, path);
    if (table->entry_count > 0) {
        printf("%-40s %-20s  %s\n", "JOB", "NEXT", "SCHEDULE");
    }
    for (size_t i = 0; i < table->entry_count; i++) {
        print_job(table->entries[i], name_space);
    }
    printf("%zu jobs, %zu errors, %zu warnings\n", table->entry_count, table->error_count,
           table->warning_count);
    result = table->error_count == 0 ? CROND_OK : CROND_USAGE;
    crontab_free(table);
    return result;
}

/* The one that the scheduler has. */
static const char *name_space_of(const crond_options *options)
{
    jobsched_options settings;

    JOBSCHED_INIT(&settings);
    (void)jobsched_set_from_environment(&settings); /* open_scheduler() tells its errors */
    if (options->name_space != NULL) {
        return options->name_space;
    }
    return settings.name_space != NULL ? settings.name_space : "default";
}

static void on_event(const jobsched_event *event, void *unused)
{
    log_record record;

    (void)unused;
    log_begin(&record, event->level, event->at_ms, jobsched_event_name(event->kind));
    if (event->job[0] != '\0') {
        log_text(&record, "job", event->job);
    }
    if (event->scheduled_at_ms != JOBSCHED_NONE) {
        log_instant(&record, "scheduled", event->scheduled_at_ms);
    }
    if (event->kind == JOBSCHED_EVENT_SKIPPED && event->count > 1) {
        log_instant(&record, "last", event->last_at_ms);
    }
    if (event->count > 0 &&
        (event->kind == JOBSCHED_EVENT_SKIPPED || event->kind == JOBSCHED_EVENT_EVENTS_DROPPED)) {
        log_number(&record, "count", (int64_t)event->count);
    }
    if (event->token != 0) {
        log_number(&record, "token", (int64_t)event->token);
    }
    if (event->kind == JOBSCHED_EVENT_RUN_FINISHED || event->kind == JOBSCHED_EVENT_SKIPPED ||
        event->kind == JOBSCHED_EVENT_FINISH_REFUSED) {
        log_text(&record, "outcome", jobsched_outcome_name(event->outcome));
    }
    if (event->code != 0) {
        log_number(&record, "code", event->code);
    }
    if (event->stop_reason != 0) {
        log_text(&record, "reason", jobsched_stop_reason_name(event->stop_reason));
    }
    if (event->node[0] != '\0') {
        log_text(&record, "other", event->node);
    }
    if (event->message[0] != '\0') {
        log_text(&record, "message", event->message);
    }
    log_end(&record);
}

/* The table in force after a reload, or at the start. -1: nothing was changed. */
static int load(crond *self, const char *path, int reload)
{
    const char *kept = reload ? "; the jobs stay as they were" : "";
    char message[CRONTAB_MESSAGE_BYTES];
    jobs_change change;
    log_record record;
    crontab *table;
    size_t errors, warnings;

    if (crontab_read(path, self->name_space, &table, message, sizeof message) != 0) {
        log_message(LOG_ERROR, "crontab.unreadable", "'%s' %s%s", path, message, kept);
        return -1;
    }
    print_findings(table, path);
    errors = table->error_count;
    warnings = table->warning_count;
    if (table->entry_count == 0 && errors > 0) {
        log_message(LOG_ERROR, "crontab.unusable", "'%s' has no usable line%s", path, kept);
        crontab_free(table);
        return -2;
    }
    if (jobs_apply(self, table, path, &change) != 0) {
        log_message(LOG_ERROR, "crontab.unreadable", "out of memory%s", kept);
        crontab_free(table);
        return -1;
    }
    log_begin(&record, errors + change.refused > 0 ? LOG_WARNING : LOG_INFO, wall_ms(),
              reload ? "crontab.reloaded" : "crontab.loaded");
    log_text(&record, "file", path);
    log_number(&record, "jobs", (int64_t)(table->entry_count - change.refused));
    log_number(&record, "added", (int64_t)change.added);
    log_number(&record, "changed", (int64_t)change.changed);
    log_number(&record, "removed", (int64_t)change.removed);
    log_number(&record, "unchanged", (int64_t)change.unchanged);
    log_number(&record, "errors", (int64_t)(errors + change.refused));
    log_number(&record, "warnings", (int64_t)warnings);
    log_end(&record);
    return 0;
}

/* As cron does, though only where nobody has set them. The library's own variables stay out: the
 * lock's URL may hold a password. */
static char **base_environment(void)
{
    char home[4096] = "", user[256] = "";
    char *none[] = {NULL}, *extra[3] = {NULL, NULL, NULL};
    const struct passwd *entry = getpwuid(geteuid());
    size_t count = 0;

    if (entry != NULL && getenv("HOME") == NULL) {
        (void)snprintf(home, sizeof home, "HOME=%s", entry->pw_dir);
        extra[count++] = home;
    }
    if (entry != NULL && getenv("LOGNAME") == NULL) {
        (void)snprintf(user, sizeof user, "LOGNAME=%s", entry->pw_name);
        extra[count++] = user;
    }
    return environment_new(environ == NULL ? none : environ, NULL, extra);
}

/* Blocked before any thread exists, so in all. The dispositions are set, as a parent may have left
 * them ignored: nohup SIGHUP, a shell's background SIGINT, others SIGCHLD, without which no exit
 * status comes. SIGPIPE is ignored: a command that does not read its input is no reason to die. */
static int take_signals(void)
{
    static const int defaults[] = {SIGHUP, SIGINT, SIGTERM, SIGCHLD};
    struct sigaction action;
    sigset_t ours;

    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        (void)sigaction(defaults[i], &action, NULL);
    }
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGHUP);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
    return signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The next signal, 0 for none: only after the descriptor was readable. */
static int next_signal(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

typedef struct drainer {
    jobsched *scheduler;
    int64_t timeout_ms;
    int done_fd;
    int result;
    char message[JOBSCHED_MESSAGE_BYTES];
} drainer;

static void *drain(void *argument)
{
    drainer *self = argument;
    uint64_t one = 1;

    self->result = jobsched_drain(self->scheduler, self->timeout_ms);
    if (self->result != JOBSCHED_OK) {
        (void)snprintf(self->message, sizeof self->message, "%s", jobsched_last_error()->message);
    }
    while (write(self->done_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    return NULL;
}

/* Drains on a thread of its own while this one listens for the second signal. */
static int shut_down(crond *self, int signals, int64_t drain_ms)
{
    drainer work = {.scheduler = self->scheduler, .timeout_ms = drain_ms};
    struct pollfd fds[2] = {{.fd = signals, .events = POLLIN}, {.events = POLLIN}};
    pthread_t thread;
    int closed;

    work.done_fd = fds[1].fd = eventfd(0, EFD_CLOEXEC);
    if (work.done_fd < 0 || pthread_create(&thread, NULL, drain, &work) != 0) {
        log_message(LOG_ERROR, "crond.failed", "no thread to drain with: %s", strerror(errno));
        atomic_store(&self->hurry, 1);
        work.result = jobsched_drain(self->scheduler, 2000);
    } else {
        while (fds[1].revents == 0) {
            int number = poll(fds, 2, -1) > 0 && fds[0].revents != 0 ? next_signal(signals) : 0;

            if ((number == SIGTERM || number == SIGINT) && !atomic_load(&self->hurry)) {
                log_message(LOG_WARNING, "crond.hurries",
                            "second signal: commands are stopped now");
                atomic_store(&self->hurry, 1);
            }
        }
        (void)pthread_join(thread, NULL);
    }
    if (work.done_fd >= 0) {
        (void)close(work.done_fd);
    }
    if (work.result != JOBSCHED_OK) {
        log_message(LOG_ERROR, "crond.left-runs", "%s", work.message);
    }
    closed = jobsched_close(self->scheduler);
    if (closed != JOBSCHED_OK && work.result == JOBSCHED_OK) {
        log_message(LOG_ERROR, "crond.left-runs", "%s", jobsched_last_error()->message);
    }
    return work.result == JOBSCHED_OK && closed == JOBSCHED_OK && atomic_load(&self->hurried) == 0
               ? CROND_OK
               : CROND_FAILED;
}

static void wait_for_end(crond *self, int signals, const char *path)
{
    for (;;) {
        struct pollfd fd = {.fd = signals, .events = POLLIN};
        int number = poll(&fd, 1, -1) > 0 ? next_signal(signals) : 0;

        if (number == SIGHUP) {
            (void)load(self, path, 1); /* it has told what is wrong */
        } else if (number == SIGTERM || number == SIGINT) {
            log_message(LOG_INFO, "crond.stopping", "SIG%s: no further command is started",
                        sigabbrev_np(number));
            return;
        }
    }
}

static int open_scheduler(const crond_options *options, crond *self)
{
    jobsched_options settings;
    const char *failed = NULL;

    JOBSCHED_INIT(&settings);
    if (jobsched_set_from_environment(&settings) != JOBSCHED_OK) {
        failed = "the environment";
    }
    settings.lock = options->lock;
    settings.node_name = self->node;
    settings.name_space = options->name_space != NULL ? options->name_space : settings.name_space;
    settings.observer = on_event;
    if (options->lease != NULL && jobsched_set(&settings, "lease", options->lease) != JOBSCHED_OK) {
        failed = "--lease";
    }
    if (options->workers != NULL &&
        jobsched_set(&settings, "workers", options->workers) != JOBSCHED_OK) {
        failed = "--workers";
    }
    if (failed != NULL) {
        fprintf(stderr, "elected-crond: %s: %s\n", failed, jobsched_last_error()->message);
        return CROND_USAGE;
    }
    if (jobsched_open(&settings, &self->scheduler) != JOBSCHED_OK) {
        log_message(LOG_ERROR, "crond.failed", "%s", jobsched_last_error()->message);
        return CROND_FAILED;
    }
    return CROND_OK;
}

static int serve(const crond_options *options, crond *self, int signals)
{
    char lock[256];
    int result = open_scheduler(options, self);

    if (result != CROND_OK) {
        return result;
    }
    result = load(self, options->file, 0);
    if (result != 0 || jobsched_start(self->scheduler) != JOBSCHED_OK) {
        if (result == 0) {
            log_message(LOG_ERROR, "crond.failed", "%s", jobsched_last_error()->message);
        }
        (void)jobsched_close(self->scheduler);
        return result == -2 ? CROND_USAGE : CROND_FAILED;
    }
    lock_url_redact(options->lock, lock, sizeof lock);
    log_message(LOG_INFO, "crond.ready", "process %ld elects with '%s'", (long)getpid(), lock);
    wait_for_end(self, signals, options->file);
    return shut_down(self, signals, options->drain_ms);
}

/* Descriptors 0 to 2 are open from here on, so that no pipe gets one of these numbers. */
static void open_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

/* The library asks runs to stop in the last fifth of a drain, at most 5 s. SIGKILL comes early enough
 * in it for the end to be recorded, also by a machine that is busy. */
static int64_t shutdown_grace_ms(int64_t drain_ms)
{
    int64_t final_ms = drain_ms / 5 < 5000 ? drain_ms / 5 : 5000;

    return final_ms - final_ms / 2;
}

int main(int argc, char **argv)
{
    /* Runs that were left behind may use these to the very end. */
    static crond self;
    static char name[160];
    char host[128] = "";
    crond_options options;
    int leave, signals;

    open_standard_streams();
    leave = options_read(argc, argv, &options);
    if (leave >= 0) {
        return leave;
    }
    if (options.check) {
        return check(options.file, name_space_of(&options));
    }
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "%s:%ld", host, (long)getpid());
    self.name_space = name_space_of(&options);
    self.node = options.node != NULL ? options.node : name;
    log_setup(options.least_level, self.node);
    self.shutdown_grace_ms = shutdown_grace_ms(options.drain_ms);
    self.environment = base_environment();
    signals = take_signals();
    if (self.environment == NULL || signals < 0 || watcher_start() != 0) {
        log_message(LOG_ERROR, "crond.failed", "cannot start: %s", strerror(errno));
        return CROND_FAILED;
    }
    if (options.runs_log != NULL && runs_log_open(options.runs_log) != 0) {
        log_message(LOG_ERROR, "crond.failed", "the runs log '%s' cannot be opened: %s",
                    options.runs_log, strerror(errno));
        return CROND_FAILED;
    }
    errno = output_start(STDOUT_FILENO);
    if (errno != 0) {
        log_message(LOG_ERROR, "crond.failed", "cannot start: %s", strerror(errno));
        return CROND_FAILED;
    }
    leave = serve(&options, &self, signals);
    output_stop(OUTPUT_END_MS);
    watcher_stop();
    /* Not exit(): a run that was left behind may be anywhere. */
    (void)fflush(NULL);
    _exit(leave);
}
