/* reader_options.c: "# jobsched: KEY=VALUE ..." above a line: settings of its job, checked by the
 * library.
 * Locks: none. */
#include "reader.h"

#include <jobsched.h>

#include <stdlib.h>
#include <string.h>

/* Longest part; no setting of a job comes near. */
#define OPTION_BYTES 80

/* Only numbers and choices, so nothing of the text is needed later. */
int crontab_entry_options(const crontab_entry *entry, jobsched_job_spec *spec)
{
    char *copy = strdup(entry->options == NULL ? "" : entry->options), *rest = copy, *word;
    int result = copy == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;

    while (result == JOBSCHED_OK && (word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');

        if (value != NULL) {
            *value = '\0';
            result = jobsched_job_set(spec, word, value + 1);
        }
    }
    free(copy);
    return result;
}

/* What the line itself says. */
static int is_of_the_line(const char *key)
{
    return strcmp(key, "name") == 0 || strcmp(key, "schedule") == 0 || strcmp(key, "timezone") == 0;
}

static int check_option(reader *state, const reader_line *line, size_t at, size_t end)
{
    char part[OPTION_BYTES + 1] = "";
    jobsched_job_spec scratch;
    char *value;

    if (end - at <= OPTION_BYTES) {
        memcpy(part, line->text + at, end - at);
        part[end - at] = '\0';
    }
    value = strchr(part, '=');
    if (value == NULL || value == part) {
        reader_find(state, CRONTAB_ERROR, line, at,
                    "a setting of a job is KEY=VALUE, of at most %d bytes", OPTION_BYTES);
        return -1;
    }
    *value = '\0';
    JOBSCHED_INIT(&scratch);
    if (is_of_the_line(part)) {
        reader_find(state, CRONTAB_ERROR, line, at, "'%s' is not set here", part);
        return -1;
    }
    if (jobsched_job_set(&scratch, part, value + 1) != JOBSCHED_OK) {
        reader_find(state, CRONTAB_ERROR, line, at, "%s", jobsched_last_error()->message);
        return -1;
    }
    return 0;
}

char *reader_options(reader *state)
{
    const reader_comment *comment = &state->comments[COMMENT_OPTIONS];
    /* Without the blanks at the end of the line. */
    reader_line line = {comment->line.text, comment->at + comment->bytes, comment->line.number};
    char *options = reader_copy(state, line.text + comment->at, comment->bytes);
    size_t used = 0;
    int failed = 0;

    for (size_t at = comment->at; options != NULL && at < line.bytes;) {
        size_t end = skip_word(&line, at);

        failed |= check_option(state, &line, at, end);
        if (used > 0) {
            options[used++] = ' ';
        }
        memcpy(options + used, line.text + at, end - at);
        used += end - at;
        at = skip_blanks(&line, end);
    }
    if (options != NULL) {
        options[used] = '\0';
    }
    if (failed) {
        free(options);
        return NULL;
    }
    return options;
}
