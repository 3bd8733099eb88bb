/* fuzz_crontab.c: any bytes as a crontab. Entries are complete and their schedules are ones that the
 * library takes; findings point into the text. */
#include "fuzz/fuzz.h"

#include "elected_crond/crontab.h"

#include <jobsched.h>

#include <string.h>

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t lines = 1;

    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    return lines;
}

static void check_entry(const crontab_entry *entry, size_t lines)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule = NULL;

    CHECK(entry->name != NULL && entry->name[0] != '\0');
    CHECK(strlen(entry->name) <= JOBSCHED_NAME_BYTES);
    CHECK(entry->command != NULL && entry->command[0] != '\0');
    CHECK(entry->line >= 1 && entry->line <= lines && entry->column >= 1);
    CHECK((entry->input == NULL) == (entry->input_bytes == 0));
    JOBSCHED_INIT(&options);
    options.timezone = entry->zone;
    options.key = entry->name;
    CHECK(jobsched_schedule_parse(entry->schedule, &options, &schedule) == JOBSCHED_OK);
    CHECK(!jobsched_schedule_is_never(schedule));
    jobsched_schedule_free(schedule);
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

    CHECK(crontab_parse((const char *)data, size, &table) == 0);
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
