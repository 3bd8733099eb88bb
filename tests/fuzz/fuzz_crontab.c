/* fuzz_crontab.c: any bytes as a crontab. Entries are complete and jobs that a scheduler takes; findings
 * point into the text. */
#include "fuzz/fuzz.h"

#include "elected_crond/crontab.h"

#include <jobsched.h>

#include <string.h>

#define NAME_SPACE "fuzz"

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t lines = 1;

    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    return lines;
}

static int run_nothing(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

/* Every job of a crontab that was accepted is one that the scheduler takes. */
static void check_registration(const crontab_entry *entry)
{
    static jobsched *scheduler;
    jobsched_job_spec spec;

    if (scheduler == NULL) {
        jobsched_options options;

        JOBSCHED_INIT(&options);
        options.lock = "single:";
        options.name_space = NAME_SPACE;
        CHECK(jobsched_open(&options, &scheduler) == JOBSCHED_OK);
    }
    JOBSCHED_INIT(&spec);
    CHECK(crontab_entry_options(entry, &spec) == JOBSCHED_OK);
    spec.name = entry->name;
    spec.schedule = entry->schedule;
    spec.timezone = entry->zone;
    spec.run = run_nothing;
    CHECK(jobsched_add(scheduler, &spec, NULL) == JOBSCHED_OK);
    CHECK(jobsched_withdraw(scheduler, entry->name) == JOBSCHED_OK);
}

static void check_entry(const crontab_entry *entry, size_t lines)
{
    CHECK(entry->name != NULL && entry->name[0] != '\0');
    CHECK(strlen(entry->name) <= JOBSCHED_NAME_BYTES);
    CHECK(entry->command != NULL && entry->command[0] != '\0');
    CHECK(entry->line >= 1 && entry->line <= lines && entry->column >= 1);
    CHECK((entry->input == NULL) == (entry->input_bytes == 0));
    check_registration(entry);
}

static void check_finding(const crontab_finding *finding, size_t lines)
{
    CHECK(finding->severity == CRONTAB_ERROR || finding->severity == CRONTAB_WARNING);
    CHECK(finding->line >= 1 && finding->line <= lines);
    CHECK(finding->message[0] != '\0');
    CHECK(strlen(finding->excerpt) <= CRONTAB_EXCERPT_BYTES);
    CHECK(finding->caret <= strlen(finding->excerpt));
    for (const char *at = finding->excerpt; *at != '\0'; at++) {
        CHECK(*at >= ' ' && *at <= '~');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crontab *table = NULL;
    size_t lines = count_lines(data, size);

    CHECK(crontab_parse((const char *)data, size, NAME_SPACE, NULL, &table) == 0);
    CHECK(table->error_count + table->warning_count >= table->finding_count);
    for (size_t i = 0; i < table->entry_count; i++) {
        check_entry(table->entries[i], lines);
    }
    for (size_t i = 0; i < table->finding_count; i++) {
        check_finding(&table->findings[i], lines);
    }
    crontab_free(table);
    return 0;
}
