/* reader_setting.c: the NAME=value lines of a crontab, by cron's rules.
 * Locks: none. */
#include "reader.h"

#include <jobsched.h>

#include <string.h>

typedef struct assignment {
    size_t name_at, name_end;
    size_t value_at, value_end;
} assignment;

static int is_name(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];

        if (c != '_' && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') &&
            !(i > 0 && c >= '0' && c <= '9')) {
            return 0;
        }
    }
    return bytes > 0;
}

static int is_quote(char c)
{
    return c == '\'' || c == '"';
}

/* A setting is a word, blanks, and '=': that no schedule can begin so keeps the two apart. */
static int find_assignment(const reader_line *line, size_t at, assignment *out)
{
    const char *text = line->text;
    size_t end = at;

    if (is_quote(text[at])) {
        const char *close = memchr(text + at + 1, text[at], line->bytes - at - 1);

        if (close == NULL) {
            return 0;
        }
        out->name_at = at + 1;
        out->name_end = (size_t)(close - text);
        end = out->name_end + 1;
    } else {
        while (end < line->bytes && text[end] != '=' && text[end] != ' ' && text[end] != '\t') {
            end++;
        }
        out->name_at = at;
        out->name_end = end;
    }
    end = skip_blanks(line, end);
    if (end == line->bytes || text[end] != '=' ||
        !is_name(text + out->name_at, out->name_end - out->name_at)) {
        return 0;
    }
    out->value_at = skip_blanks(line, end + 1);
    out->value_end = line->bytes;
    while (out->value_end > out->value_at &&
           (text[out->value_end - 1] == ' ' || text[out->value_end - 1] == '\t')) {
        out->value_end--;
    }
    return 1;
}

/* Quotes count only around the whole value. */
static int strip_quotes(reader *state, const reader_line *line, assignment *found)
{
    const char *text = line->text;
    const char *close;

    if (found->value_at == found->value_end || !is_quote(text[found->value_at])) {
        return 0;
    }
    close = memchr(text + found->value_at + 1, text[found->value_at],
                   found->value_end - found->value_at - 1);
    if (close == NULL) {
        reader_find(state, CRONTAB_ERROR, line, found->value_at,
                    "the value begins with a quote that is not closed");
        return -1;
    }
    if (close != text + found->value_end - 1) {
        reader_find(state, CRONTAB_ERROR, line, (size_t)(close - text) + 1,
                    "text follows the closing quote");
        return -1;
    }
    found->value_at += 1;
    found->value_end -= 1;
    return 0;
}

static int name_is(const reader_line *line, const assignment *found, const char *name)
{
    size_t bytes = found->name_end - found->name_at;

    return strlen(name) == bytes && memcmp(line->text + found->name_at, name, bytes) == 0;
}

static void set_seconds(reader *state, const reader_line *line, const assignment *found)
{
    static const char *const words[] = {"auto", "no", "yes"};
    size_t bytes = found->value_end - found->value_at;

    for (int mode = SECONDS_AUTO; mode <= SECONDS_YES; mode++) {
        if (strlen(words[mode]) == bytes &&
            memcmp(words[mode], line->text + found->value_at, bytes) == 0) {
            state->seconds = mode;
            return;
        }
    }
    reader_find(state, CRONTAB_ERROR, line, found->value_at,
                "CRON_SECONDS is not one of 'auto', 'no', 'yes'");
}

/* "TZ=UTC 0 0 * * * command" is a prefix in other languages; here it would be a value, and the job
 * lost without a word. */
static int holds_line(const reader_line *line, const assignment *found)
{
    for (size_t at = found->value_at; at < found->value_end; at++) {
        if (line->text[at] == ' ' || line->text[at] == '\t') {
            return 1;
        }
    }
    return 0;
}

/* CRON_TZ is for the schedules; TZ, which commands see too, stands in for it. A zone that cannot be
 * used is told once, here, and the lines that follow are refused: in UTC they would run at another
 * time than meant. */
static void set_zone(reader *state, const reader_line *line, const assignment *found)
{
    static const char any[] = "* * * * *";
    static const char alone[] = "a time zone stands on a line of its own, above the schedules";
    const char *zone = setting_value(state->settings, "CRON_TZ");

    if (zone == NULL || zone[0] == '\0') {
        zone = setting_value(state->settings, "TZ");
    }
    zone = zone == NULL || zone[0] == '\0' ? state->default_zone : zone;
    if (zone != NULL && state->zone != NULL && strcmp(zone, state->zone) == 0) {
        if (holds_line(line, found)) {
            reader_find(state, CRONTAB_ERROR, line, found->value_at, "%s", alone);
        }
        return; /* TZ changed below CRON_TZ, or the same again */
    }
    state->zone = zone;
    state->bad_zone = 0;
    if (state->zone != NULL && reader_schedule_check(any, sizeof any - 1, state->zone) != 0) {
        state->bad_zone = line->number;
        reader_find(state, CRONTAB_ERROR, line, found->value_at, "%s",
                    holds_line(line, found) ? alone : jobsched_last_error()->message);
    }
}

static void put_setting(reader *state, const reader_line *line, const assignment *found)
{
    setting *top;

    if (setting_count(state->settings) >= SETTINGS_MAX) {
        reader_find(state, CRONTAB_ERROR, line, found->name_at, "more than %d settings in force",
                    SETTINGS_MAX);
        return;
    }
    top =
        setting_push(state->settings, line->text + found->name_at, found->name_end - found->name_at,
                     line->text + found->value_at, found->value_end - found->value_at);
    if (top == NULL) {
        state->out_of_memory = 1;
        return;
    }
    state->settings = top;
}

int reader_setting(reader *state, const reader_line *line, size_t at)
{
    assignment found;

    if (!find_assignment(line, at, &found)) {
        return 0;
    }
    if (strip_quotes(state, line, &found) != 0) {
        return 1;
    }
    if (name_is(line, &found, "CRON_SECONDS")) {
        set_seconds(state, line, &found);
        return 1;
    }
    put_setting(state, line, &found);
    if (name_is(line, &found, "CRON_TZ") || name_is(line, &found, "TZ")) {
        set_zone(state, line, &found);
    } else if (name_is(line, &found, "MAILTO") && found.value_at != found.value_end) {
        reader_find(state, CRONTAB_WARNING, line, found.name_at,
                    "no mail is sent: output goes to standard output");
    } else if (name_is(line, &found, "SHELL") &&
               (found.value_at == found.value_end || line->text[found.value_at] != '/')) {
        reader_find(state, CRONTAB_WARNING, line, found.value_at,
                    "SHELL is not an absolute path; '/bin/sh' is used");
    }
    return 1;
}
