/* jobs.c: runs entries for the scheduler and follows changes of the crontab.
 * Locks: none. The callback runs on worker threads and touches only its entry, the atomics, and what
 * is written before the start. */
#include "jobs.h"

#include "command.h"
#include "output.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* What a well-behaved program needs to end after SIGTERM. */
#define GRACE_MS 5000

/* user_data of a job. */
typedef struct binding {
    crond *owner;
    crontab_entry *entry; /* held */
} binding;

/* One run, while its command goes on. */
typedef struct job_run {
    const binding *job;
    jobsched_run *run;
    long pid;
} job_run;

static void free_binding(void *user_data)
{
    binding *job = user_data;

    crontab_entry_release(job->entry);
    free(job);
}

static void write_runs_log(const job_run *self, const char *event, const char *outcome)
{
    runs_log_line line = {
        .event = event,
        .job = self->job->entry->name,
        .scheduled_ms = jobsched_run_scheduled_at_ms(self->run),
        .token = jobsched_run_token(self->run),
        .attempt = jobsched_run_attempt(self->run),
        .node = self->job->owner->node,
        .pid = self->pid,
        .outcome = outcome,
    };

    runs_log_write(&line);
}

static void on_started(void *data, pid_t pid)
{
    job_run *self = data;

    self->pid = (long)pid;
    write_runs_log(self, "start", "-");
}

static int on_should_stop(void *data, int64_t *out_grace_ms)
{
    const job_run *self = data;
    crond *owner = self->job->owner;
    int reason = jobsched_run_should_stop(self->run);

    *out_grace_ms = reason == JOBSCHED_STOP_SHUTDOWN ? owner->shutdown_grace_ms : GRACE_MS;
    /* After a lost lease another node may soon run the job. */
    if (reason == JOBSCHED_STOP_LEASE_LOST || atomic_load(&owner->hurry)) {
        return COMMAND_STOP_FAST;
    }
    return reason == JOBSCHED_STOP_NONE ? COMMAND_GO_ON : COMMAND_STOP;
}

enum { VARIABLES = 6, VARIABLE_BYTES = 256 };

/* The entry's settings over elected-crond's environment, and what the run is over both. */
static char **make_environment(const job_run *self, const char *shell)
{
    const binding *job = self->job;
    char text[VARIABLES][VARIABLE_BYTES], shell_variable[4096];
    char *extra[VARIABLES + 2];
    char instant[INSTANT_BYTES];
    int64_t scheduled_ms = jobsched_run_scheduled_at_ms(self->run);

    format_instant(instant, scheduled_ms, 0);
    (void)snprintf(text[0], VARIABLE_BYTES, "JOBSCHED_JOB=%s", job->entry->name);
    (void)snprintf(text[1], VARIABLE_BYTES, "JOBSCHED_TOKEN=%" PRIu64,
                   jobsched_run_token(self->run));
    (void)snprintf(text[2], VARIABLE_BYTES, "JOBSCHED_SCHEDULED_AT=%s", instant);
    (void)snprintf(text[3], VARIABLE_BYTES, "JOBSCHED_SCHEDULED_AT_MS=%" PRId64, scheduled_ms);
    (void)snprintf(text[4], VARIABLE_BYTES, "JOBSCHED_ATTEMPT=%u",
                   (unsigned)jobsched_run_attempt(self->run));
    (void)snprintf(text[5], VARIABLE_BYTES, "JOBSCHED_KIND=%s",
                   jobsched_kind_name(jobsched_run_kind(self->run)));
    for (size_t i = 0; i < VARIABLES; i++) {
        extra[i] = text[i];
    }
    (void)snprintf(shell_variable, sizeof shell_variable, "SHELL=%s", shell);
    extra[VARIABLES] = shell_variable;
    extra[VARIABLES + 1] = NULL;
    return environment_new(job->owner->environment, job->entry->settings, extra);
}

/* The note of the ledger: how it failed and its last words. */
static void note_end(jobsched_run *run, const command_result *result)
{
    char note[256];

    if (result->status == -1) {
        (void)snprintf(note, sizeof note, "%s could not be started: %s", result->what,
                       strerrordesc_np(result->number));
    } else if (WIFSIGNALED(result->status)) {
        const char *name = sigabbrev_np(WTERMSIG(result->status));

        (void)snprintf(note, sizeof note, "killed by signal %d (SIG%s)%s%s",
                       WTERMSIG(result->status), name == NULL ? "?" : name,
                       result->last[0] == '\0' ? "" : ": ", result->last);
    } else if (WEXITSTATUS(result->status) != 0) {
        (void)snprintf(note, sizeof note, "exit status %d%s%s", WEXITSTATUS(result->status),
                       result->last[0] == '\0' ? "" : ": ", result->last);
    } else {
        return;
    }
    utf8_clean(note, 200);
    (void)jobsched_run_note(run, note); /* the run ends as it ends, with or without a note */
}

/* What the ledger keeps as the code: the exit status, or 128 and the signal as shells have it. */
static int result_code(const command_result *result)
{
    int code = result->status == -1          ? JOBSCHED_EOS
               : WIFSIGNALED(result->status) ? 128 + WTERMSIG(result->status)
                                             : WEXITSTATUS(result->status);

    if (code != 0 && result->stopped != COMMAND_GO_ON) {
        return JOBSCHED_ECANCELED;
    }
    return code;
}

static const char *outcome_of(const job_run *self, int code)
{
    switch (jobsched_run_should_stop(self->run)) {
    case JOBSCHED_STOP_LEASE_LOST:
        return jobsched_outcome_name(JOBSCHED_OUTCOME_LEASE_LOST);
    case JOBSCHED_STOP_TIMED_OUT:
        return jobsched_outcome_name(code == 0 ? JOBSCHED_OUTCOME_SUCCEEDED
                                               : JOBSCHED_OUTCOME_TIMED_OUT);
    default:
        return jobsched_outcome_name(code == 0                    ? JOBSCHED_OUTCOME_SUCCEEDED
                                     : code == JOBSCHED_ECANCELED ? JOBSCHED_OUTCOME_CANCELLED
                                                                  : JOBSCHED_OUTCOME_FAILED);
    }
}

static int run_entry(jobsched_run *run, void *user_data)
{
    const binding *job = user_data;
    const crontab_entry *entry = job->entry;
    const char *shell = setting_value(entry->settings, "SHELL");
    job_run self = {job, run, 0};
    command_result result;
    int code;
    command request = {
        .label = entry->name,
        .text = entry->command,
        /* Only where the crontab says so: in a container the folder one starts in is meant. */
        .directory = setting_value(entry->settings, "HOME"),
        .input = entry->input,
        .input_bytes = entry->input_bytes,
        .started = on_started,
        .should_stop = on_should_stop,
        .data = &self,
    };
    char **environment;

    request.shell = shell != NULL && shell[0] == '/' ? shell : "/bin/sh";
    environment = make_environment(&self, request.shell);
    if (environment == NULL) {
        (void)jobsched_run_note(run, "out of memory");
        return JOBSCHED_ENOMEM;
    }
    request.environment = environment;
    command_run(&request, &result);
    environment_free(environment);
    if (result.stopped != COMMAND_GO_ON && atomic_load(&job->owner->hurry)) {
        atomic_fetch_add(&job->owner->hurried, 1);
    }
    note_end(run, &result);
    code = result_code(&result);
    write_runs_log(&self, "end", outcome_of(&self, code));
    return code;
}

static int add_entry(crond *self, crontab_entry *entry)
{
    binding *job = malloc(sizeof *job);
    jobsched_job_spec spec;
    int result;

    if (job == NULL) {
        return JOBSCHED_ENOMEM;
    }
    job->owner = self;
    job->entry = crontab_entry_hold(entry);
    JOBSCHED_INIT(&spec);
    spec.name = entry->name;
    spec.schedule = entry->schedule;
    spec.timezone = entry->zone;
    spec.run = run_entry;
    spec.user_data = job;
    spec.user_data_free = free_binding;
    result = crontab_entry_options(entry, &spec);
    if (result == JOBSCHED_OK) {
        result = jobsched_add(self->scheduler, &spec, NULL);
    }
    if (result != JOBSCHED_OK) {
        free_binding(job);
    }
    return result;
}

static int by_name(const void *a, const void *b)
{
    const crontab_entry *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

/* Sorted, so that two tables are compared without comparing each with each. The order of lines
 * means nothing any more. */
static void sort_entries(crontab *table)
{
    if (table->entry_count > 1) {
        qsort(table->entries, table->entry_count, sizeof *table->entries, by_name);
    }
}

/* Index of the same name in the table, or its entry_count. */
static size_t find_entry(const crontab *table, crontab_entry *entry)
{
    crontab_entry **found = NULL;

    if (table != NULL && table->entry_count > 0) {
        found = bsearch(&entry, table->entries, table->entry_count, sizeof entry, by_name);
    }
    return found == NULL ? (table == NULL ? 0 : table->entry_count)
                         : (size_t)(found - table->entries);
}

/* All that leaves goes first, so that a changed job is added under a free name. A run that goes on
 * keeps its binding, and with it the old entry. */
static void withdraw_old(crond *self, crontab *fresh, jobs_change *change)
{
    for (size_t i = 0; self->table != NULL && i < self->table->entry_count; i++) {
        crontab_entry *entry = self->table->entries[i];
        size_t at = find_entry(fresh, entry);
        int stays = at < fresh->entry_count && crontab_entry_same(entry, fresh->entries[at]);

        if (stays || !self->installed[i]) {
            continue;
        }
        (void)jobsched_withdraw(self->scheduler, entry->name); /* it is there: we added it */
        self->installed[i] = 0;
        change->removed += at < fresh->entry_count ? 0 : 1;
    }
}

static void add_new(crond *self, crontab *fresh, unsigned char *installed, const char *path,
                    jobs_change *change)
{
    for (size_t i = 0; i < fresh->entry_count; i++) {
        crontab_entry *entry = fresh->entries[i];
        size_t at = find_entry(self->table, entry);
        int known = self->table != NULL && at < self->table->entry_count;

        if (known && self->installed[at]) {
            change->unchanged += 1;
            installed[i] = 1;
        } else if (add_entry(self, entry) == JOBSCHED_OK) {
            *(known ? &change->changed : &change->added) += 1;
            installed[i] = 1;
        } else {
            change->refused += 1;
            fprintf(stderr, "%s:%zu:%zu: %s\n", path, entry->line, entry->column,
                    jobsched_last_error()->message);
        }
    }
}

int jobs_apply(crond *self, crontab *fresh, const char *path, jobs_change *out_change)
{
    jobs_change change = {0};
    unsigned char *installed = calloc(fresh->entry_count + 1, 1);

    if (installed == NULL) {
        return -1;
    }
    sort_entries(fresh);
    withdraw_old(self, fresh, &change);
    add_new(self, fresh, installed, path, &change);
    crontab_free(self->table);
    free(self->installed);
    self->table = fresh;
    self->installed = installed;
    *out_change = change;
    return 0;
}
