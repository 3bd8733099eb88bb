/* syntax.h: how schedule texts are refused. */
#ifndef JSI_SYNTAX_H
#define JSI_SYNTAX_H

#include "base/error.h"

#include <stdbool.h>

/* The caller's text. Only bytes 0x20-0x7E and tabs occur once it was screened. */
struct jsi_source {
    const char *bytes;
    size_t length;
    size_t line; /* where the line begins that messages show; columns count from there */
};

/* Where and what: field is a literal, position an offset into the source. */
struct jsi_place {
    const char *field;
    size_t position;
    int reason; /* JOBSCHED_SYNTAX_... */
};

/* Records "FIELD: WHAT at column N ("TEXT")" and returns EPARSE. */
int jsi_syntax_fail(const struct jsi_source *source, const struct jsi_place *place,
                    const char *format, ...) JOBSCHED_PRINTF(3, 4);

/* The same with the allowed range. */
int jsi_syntax_fail_range(const struct jsi_source *source, const struct jsi_place *place,
                          int64_t low, int64_t high, const char *format, ...) JOBSCHED_PRINTF(5, 6);

/* The same with a hint in the text's stead; hint may be "". */
int jsi_syntax_fail_hint(const struct jsi_source *source, const struct jsi_place *place,
                         int64_t low, int64_t high, const char *hint, const char *format, ...)
    JOBSCHED_PRINTF(6, 7);

/* The same without a range. */
int jsi_syntax_hint(const struct jsi_source *source, const struct jsi_place *place,
                    const char *hint, const char *format, ...) JOBSCHED_PRINTF(4, 5);

static inline bool jsi_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool jsi_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool jsi_is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* The first offset in [begin, end) that holds c, or end. */
size_t jsi_find(const struct jsi_source *source, size_t begin, size_t end, char c);

/* The first offset in [begin, end) that is (not) a blank, or end. */
size_t jsi_skip_blanks(const struct jsi_source *source, size_t begin, size_t end);
size_t jsi_skip_word(const struct jsi_source *source, size_t begin, size_t end);

/* Whether [begin, end) spells the given word. */
bool jsi_is_word(const struct jsi_source *source, size_t begin, size_t end, const char *word);

#endif
