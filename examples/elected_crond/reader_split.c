/* reader_split.c: where the schedule of a line ends and its command begins.
 * Locks: none.
 *
 * Five fields and a command, or six and a command? In the end the sixth word decides:
 *
 *   1. Nothing but digits and * , - / ? #, beginning with a digit, '*' or '?': a field. No command
 *      has such a name, and taking it for one would run a line far more often than it was meant.
 *   2. Not a day-of-week: a command.
 *   3. A day-of-week that is not a plain word (MON-FRI, 5L, FRI#2): a field.
 *   4. A plain word that is also a day (sun, MON): the command if no other word follows, or if the
 *      six are no schedule; a field if the five are no schedule; else nobody can tell, and the line
 *      is refused rather than guessed.
 *
 * So an ordinary crontab means what it always meant, or is refused. CRON_SECONDS=no or =yes above
 * the line decides without looking. */
#include "reader.h"

#include <jobsched.h>

#include <string.h>

/* One byte more than the library takes lets it say so. */
#define SCHEDULE_BYTES (SCHEDULE_BYTES_MAX + 1)

int reader_schedule_check(const char *text, size_t bytes, const char *zone)
{
    char copy[SCHEDULE_BYTES + 1];
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    int result;

    if (bytes > SCHEDULE_BYTES) {
        bytes = SCHEDULE_BYTES;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    options.key = "any"; /* whether a text is well-formed does not depend on the key */
    result = jobsched_schedule_parse(copy, &options, &schedule);
    if (result == JOBSCHED_OK) {
        jobsched_schedule_free(schedule);
    }
    return result;
}

static int is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Rule 1: shaped like a field, whether it is a good one or not. */
static int looks_like_field(const char *word, size_t bytes)
{
    if (bytes == 0 || (word[0] != '*' && word[0] != '?' && !(word[0] >= '0' && word[0] <= '9'))) {
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (!(word[i] >= '0' && word[i] <= '9') && strchr("*,-/?#", word[i]) == NULL) {
            return 0;
        }
    }
    return 1;
}

static int is_plain_word(const char *word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!is_letter(word[i])) {
            return 0;
        }
    }
    return 1;
}

static int is_day_of_week(const char *word, size_t bytes)
{
    char text[64] = "* * * * ";
    size_t used = strlen(text);

    if (bytes == 0 || bytes >= sizeof text - used) {
        return 0;
    }
    memcpy(text + used, word, bytes);
    return reader_schedule_check(text, used + bytes, NULL) != JOBSCHED_EPARSE;
}

/* Ends of the words from at on; returns how many there are, at most limit. */
static size_t find_words(const reader_line *line, size_t at, size_t *ends, size_t limit)
{
    size_t count = 0;

    while (count < limit && at < line->bytes) {
        at = skip_word(line, at);
        ends[count++] = at;
        at = skip_blanks(line, at);
    }
    return count;
}

/* How many schedule fields the line has: 5 or 6, or 0 with a finding. */
static size_t count_fields(reader *state, const reader_line *line, size_t at, const size_t *ends,
                           size_t words)
{
    const char *text = line->text;
    size_t sixth_at, sixth_bytes;
    int five, six;

    if (state->seconds != SECONDS_AUTO || words < 6) {
        return state->seconds == SECONDS_YES ? 6 : 5;
    }
    sixth_at = skip_blanks(line, ends[4]);
    sixth_bytes = ends[5] - sixth_at;
    if (looks_like_field(text + sixth_at, sixth_bytes)) {
        return 6;
    }
    if (!is_day_of_week(text + sixth_at, sixth_bytes)) {
        return 5;
    }
    if (!is_plain_word(text + sixth_at, sixth_bytes)) {
        return 6;
    }
    five = reader_schedule_check(text + at, ends[4] - at, NULL) != JOBSCHED_EPARSE;
    six = reader_schedule_check(text + at, ends[5] - at, NULL) != JOBSCHED_EPARSE;
    if (skip_blanks(line, ends[5]) == line->bytes || !six) {
        return 5;
    }
    if (!five) {
        return 6;
    }
    reader_find(state, CRONTAB_ERROR, line, sixth_at,
                "'%.*s' may be the day-of-week after five other fields or the command; write "
                "CRON_SECONDS=yes or CRON_SECONDS=no above",
                (int)sixth_bytes, text + sixth_at);
    return 0;
}

static int word_is(const reader_line *line, size_t at, size_t end, const char *word)
{
    return end - at == strlen(word) && memcmp(line->text + at, word, end - at) == 0;
}

/* "@every D", "@every D from I", "@at I" and "@after D" have arguments, other macros none. */
static size_t macro_words(const reader_line *line, size_t at, const size_t *ends, size_t words)
{
    size_t third;

    if (words < 2 || (!word_is(line, at, ends[0], "@every") && !word_is(line, at, ends[0], "@at") &&
                      !word_is(line, at, ends[0], "@after"))) {
        return 1;
    }
    if (words < 3) {
        return 2;
    }
    third = skip_blanks(line, ends[1]);
    if (!word_is(line, third, ends[2], "from")) {
        return 2;
    }
    return words < 4 ? 3 : 4;
}

static int check_command(reader *state, const reader_line *line, size_t at, size_t fields)
{
    size_t end = skip_word(line, at);

    if (at == line->bytes) {
        reader_find(state, CRONTAB_ERROR, line, at, "no command follows the schedule");
        return -1;
    }
    /* A seventh field, most likely a year: running it as a command helps nobody. */
    if (fields > 1 && state->seconds == SECONDS_AUTO &&
        looks_like_field(line->text + at, end - at)) {
        reader_find(state, CRONTAB_ERROR, line, at,
                    "'%.*s' looks like a further schedule field, not like a command; write "
                    "CRON_SECONDS=%s above if it is one",
                    (int)(end - at), line->text + at, fields == 6 ? "yes" : "no");
        return -1;
    }
    return 0;
}

int reader_split(reader *state, const reader_line *line, size_t at, split_line *out_split)
{
    size_t ends[6];
    size_t words = find_words(line, at, ends, 6);
    size_t fields;

    if (words == 0) {
        return -1; /* never: a line of blanks does not come here */
    }
    if (line->text[at] == '@') {
        fields = 1;
        words = macro_words(line, at, ends, words);
    } else {
        fields = count_fields(state, line, at, ends, words);
        if (fields == 0) {
            return -1;
        }
        words = words < fields ? words : fields;
    }
    out_split->schedule_at = at;
    out_split->schedule_end = ends[words - 1];
    out_split->command_at = skip_blanks(line, ends[words - 1]);
    /* With too few fields the library's message about the schedule is the better one. */
    if (fields > 1 && words < fields) {
        return 0;
    }
    return check_command(state, line, out_split->command_at, fields);
}
