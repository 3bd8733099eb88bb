/* syntax.c: how schedule texts are refused: one wording for all of them.
 * No state but the thread's last error, no locks. */
#include "schedule/syntax.h"

#include <stdarg.h>
#include <stdio.h>

/* Enough of the text to recognise it by; the position says where to look. */
enum { EXCERPT_BYTES = 96, WHAT_BYTES = 256 };

/* Copies the text for a one-line message: blanks become spaces and a long text is cut. */
static void excerpt(const struct jsi_source *source, char *out, size_t size)
{
    const char *line = source->bytes + source->line;
    size_t length = source->length - source->line;
    size_t used = 0;
    while (used < length && used + 4 < size) {
        char c = line[used];
        out[used] = c >= ' ' && c <= '~' ? c : ' ';
        used++;
    }
    out[used] = '\0';
    if (used < length) {
        memcpy(out + used, "...", 4);
    }
}

static int fail(const struct jsi_source *source, const struct jsi_place *place,
                const int64_t *range, const char *hint, const char *format, va_list arguments)
    JOBSCHED_PRINTF(5, 0);

static int fail(const struct jsi_source *source, const struct jsi_place *place,
                const int64_t *range, const char *hint, const char *format, va_list arguments)
{
    char what[WHAT_BYTES];
    char tail[WHAT_BYTES];
    (void)vsnprintf(what, sizeof what, format, arguments);
    if (hint[0] != '\0') {
        (void)snprintf(tail, sizeof tail, "; %s", hint);
    } else if (place->reason == JOBSCHED_SYNTAX_BAD_CHAR || source->length == source->line) {
        tail[0] = '\0';
    } else {
        char text[EXCERPT_BYTES];
        excerpt(source, text, sizeof text);
        (void)snprintf(tail, sizeof tail, " (\"%s\")", text);
    }
    if (range != NULL) {
        (void)jsi_fail_range(JOBSCHED_EPARSE, place->field, (int64_t)place->position, range[0],
                             range[1], "%s: %s at column %zu%s", place->field, what,
                             place->position - source->line + 1, tail);
    } else {
        (void)jsi_fail_at(JOBSCHED_EPARSE, place->field, (int64_t)place->position,
                          "%s: %s at column %zu%s", place->field, what,
                          place->position - source->line + 1, tail);
    }
    return jsi_fail_reason(JOBSCHED_EPARSE, place->reason);
}

int jsi_syntax_fail(const struct jsi_source *source, const struct jsi_place *place,
                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int code = fail(source, place, NULL, "", format, arguments);
    va_end(arguments);
    return code;
}

int jsi_syntax_fail_range(const struct jsi_source *source, const struct jsi_place *place,
                          int64_t low, int64_t high, const char *format, ...)
{
    const int64_t range[2] = {low, high};
    va_list arguments;
    va_start(arguments, format);
    int code = fail(source, place, range, "", format, arguments);
    va_end(arguments);
    return code;
}

int jsi_syntax_fail_hint(const struct jsi_source *source, const struct jsi_place *place,
                         int64_t low, int64_t high, const char *hint, const char *format, ...)
{
    const int64_t range[2] = {low, high};
    va_list arguments;
    va_start(arguments, format);
    int code = fail(source, place, range, hint, format, arguments);
    va_end(arguments);
    return code;
}

int jsi_syntax_hint(const struct jsi_source *source, const struct jsi_place *place,
                    const char *hint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int code = fail(source, place, NULL, hint, format, arguments);
    va_end(arguments);
    return code;
}

size_t jsi_find(const struct jsi_source *source, size_t begin, size_t end, char c)
{
    size_t at = begin;
    while (at < end && source->bytes[at] != c) {
        at++;
    }
    return at;
}

size_t jsi_skip_blanks(const struct jsi_source *source, size_t begin, size_t end)
{
    size_t at = begin;
    while (at < end && jsi_is_blank(source->bytes[at])) {
        at++;
    }
    return at;
}

size_t jsi_skip_word(const struct jsi_source *source, size_t begin, size_t end)
{
    size_t at = begin;
    while (at < end && !jsi_is_blank(source->bytes[at])) {
        at++;
    }
    return at;
}

bool jsi_is_word(const struct jsi_source *source, size_t begin, size_t end, const char *word)
{
    size_t length = strlen(word);
    return end - begin == length && memcmp(source->bytes + begin, word, length) == 0;
}
