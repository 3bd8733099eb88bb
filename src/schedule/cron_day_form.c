/* cron_day_form.c: the special forms of the two day fields. No state, no locks. */
#include "schedule/cron_element.h"

int jsi_element_refuse(const struct jsi_element_reader *reader, int reason, const char *what)
{
    struct jsi_place place = {reader->rule->name, reader->begin, reason};
    return jsi_syntax_fail(reader->source, &place, "'%.*s' %s", (int)(reader->end - reader->begin),
                           reader->source->bytes + reader->begin, what);
}

/* Whether all is digits, dashes and the letters of the day forms, some in lower case. Behind
 * the name of a day an "l" is meant as one too. */
const char *jsi_element_capitals(const struct jsi_element_reader *reader, size_t begin, size_t end)
{
    const char *bytes = reader->source->bytes;
    bool weekday = reader->rule->field == JSI_WEEKDAY;
    bool small = false;
    if (!weekday && reader->rule->field != JSI_DAY) {
        return "";
    }
    if (weekday && end - begin == 4 && bytes[begin + 3] == 'l') {
        int value;
        return jsi_element_name(reader, begin, begin + 3, &value) ? "L is a capital letter" : "";
    }
    for (size_t at = begin; at < end; at++) {
        char c = bytes[at];
        bool letter = c == 'l' || (!weekday && c == 'w');
        small = small || letter;
        if (!letter && !jsi_is_digit(c) && c != '-' && c != 'L' && (weekday || c != 'W')) {
            return "";
        }
    }
    return !small ? "" : weekday ? "L is a capital letter" : "L and W are capital letters";
}

static int refuse_day_form(const struct jsi_element_reader *reader)
{
    const struct jsi_source *source = reader->source;
    const char *hint = jsi_element_capitals(reader, reader->begin, reader->end);
    if (reader->rule->field == JSI_WEEKDAY &&
        jsi_is_word(source, reader->begin, reader->end, "L")) {
        hint = "for the last Saturday of the month use \"6L\"";
    }
    if (hint[0] != '\0') {
        struct jsi_place place = {reader->rule->name, reader->begin, JOBSCHED_SYNTAX_DAY_SPEC};
        return jsi_syntax_hint(source, &place, hint, "'%.*s' is not a day form",
                               (int)(reader->end - reader->begin), source->bytes + reader->begin);
    }
    if (reader->rule->field == JSI_DAY) {
        return jsi_element_refuse(reader, JOBSCHED_SYNTAX_DAY_SPEC,
                                  "is not one of L, L-n, LW, L-nW, nW");
    }
    return jsi_element_refuse(reader, JOBSCHED_SYNTAX_DAY_SPEC,
                              "is not a day, nor one of dL, d#n, d#L");
}

/* A value of a special form, in the range given. */
static int form_value(const struct jsi_element_reader *reader, size_t begin, size_t end, int high,
                      int *out_value)
{
    int value;
    if (!jsi_element_number(reader->source, begin, end, &value)) {
        return refuse_day_form(reader);
    }
    if (value < 1 || value > high) {
        struct jsi_place place = {reader->rule->name, begin, JOBSCHED_SYNTAX_RANGE};
        return jsi_syntax_fail_range(reader->source, &place, 1, high, "value %.*s is outside 1-%d",
                                     (int)(end - begin), reader->source->bytes + begin, high);
    }
    *out_value = value;
    return JOBSCHED_OK;
}

/* L, L-n, LW, L-nW, nW. */
static int day_of_month_form(const struct jsi_element_reader *reader,
                             struct jsi_element *out_element)
{
    const char *bytes = reader->source->bytes;
    size_t begin = reader->begin;
    size_t end = reader->end;
    bool weekday = bytes[end - 1] == 'W';
    if (weekday) {
        end--;
    }
    if (begin == end) {
        return refuse_day_form(reader);
    }
    if (bytes[begin] != 'L') {
        out_element->form = JSI_FORM_WEEKDAY_NEAR;
        return weekday ? form_value(reader, begin, end, 31, &out_element->low)
                       : refuse_day_form(reader);
    }
    out_element->form = weekday ? JSI_FORM_WEEKDAY_FROM_END : JSI_FORM_FROM_END;
    if (end - begin == 1) {
        out_element->low = 0;
        return JOBSCHED_OK;
    }
    if (bytes[begin + 1] != '-') {
        return refuse_day_form(reader);
    }
    return form_value(reader, begin + 2, end, 30, &out_element->low);
}

/* d#n and d#L. */
static int nth_form(const struct jsi_element_reader *reader, size_t hash,
                    struct jsi_element *out_element)
{
    int code = jsi_element_value(reader, reader->begin, hash, &out_element->low);
    if (code != JOBSCHED_OK) {
        return code;
    }
    if (jsi_is_word(reader->source, hash + 1, reader->end, "L")) {
        out_element->form = JSI_FORM_LAST;
        return JOBSCHED_OK;
    }
    if (!jsi_element_number(reader->source, hash + 1, reader->end, &out_element->nth) ||
        out_element->nth < 1 || out_element->nth > 5) {
        struct jsi_place place = {reader->rule->name, hash + 1, JOBSCHED_SYNTAX_NTH};
        return jsi_syntax_fail_hint(
            reader->source, &place, 1, 5,
            jsi_is_word(reader->source, hash + 1, reader->end, "l") ? "L is a capital letter" : "",
            "occurrence '%.*s' is not 1-5 or L", (int)(reader->end - hash - 1),
            reader->source->bytes + hash + 1);
    }
    out_element->form = JSI_FORM_NTH;
    return JOBSCHED_OK;
}

/* Whether the bytes are letters only: such a word is a name, right or wrong. */
static bool is_word(const struct jsi_source *source, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at++) {
        if (!jsi_is_letter(source->bytes[at])) {
            return false;
        }
    }
    return begin < end;
}

/* Of a step "2L" is no day form but a bad number. */
static bool holds_form_letter(const struct jsi_element_reader *reader)
{
    size_t end = jsi_find(reader->source, reader->begin, reader->end, '/');
    return jsi_find(reader->source, reader->begin, end, 'L') < end ||
           jsi_find(reader->source, reader->begin, end, 'W') < end;
}

/* Whether the byte is one of those that join the parts of an element. */
static bool joins(char c)
{
    return c == '-' || c == '~' || c == '/' || c == '(';
}

static bool is_plain_last(const struct jsi_element_reader *reader)
{
    const char *bytes = reader->source->bytes;
    for (size_t at = reader->begin; at < reader->end; at++) {
        if (joins(bytes[at])) {
            return false;
        }
    }
    return bytes[reader->end - 1] == 'L' && reader->end - reader->begin > 1;
}

/* Whether L or W stands where a name would: "W" and "LW" do, "We" is a misspelt name. */
static bool is_form_word(const struct jsi_source *source, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at++) {
        if (source->bytes[at] != 'L' && source->bytes[at] != 'W') {
            return false;
        }
    }
    return begin < end && end - begin < 3;
}

/* In day-of-month every L or W is a special form, but for words like JUL and those
 * that begin or end a range of names, which are names in the wrong field. */
static bool is_day_of_month_form(const struct jsi_element_reader *reader)
{
    const struct jsi_source *source = reader->source;
    if (!holds_form_letter(reader)) {
        return false;
    }
    size_t dash = jsi_find(source, reader->begin, reader->end, '-');
    size_t last = dash < reader->end ? dash + 1 : reader->begin;
    size_t last_end = jsi_find(source, last, reader->end, '/');
    bool named = last_end - last > 2 && is_word(source, last, last_end);
    return !named;
}

static int day_of_week_form(const struct jsi_element_reader *reader,
                            struct jsi_element *out_element, bool *out_known)
{
    const struct jsi_source *source = reader->source;
    size_t hash = jsi_find(source, reader->begin, reader->end, '#');
    *out_known = true;
    if (hash < reader->end) {
        return nth_form(reader, hash, out_element);
    }
    if (is_plain_last(reader)) {
        out_element->form = JSI_FORM_LAST;
        return jsi_element_value(reader, reader->begin, reader->end - 1, &out_element->low);
    }
    size_t slash = jsi_find(source, reader->begin, reader->end, '/');
    for (size_t at = reader->begin; at < slash; at++) {
        size_t word = at;
        while (at < slash && jsi_is_letter(source->bytes[at])) {
            at++;
        }
        if (is_form_word(source, word, at)) {
            return refuse_day_form(reader);
        }
    }
    *out_known = false;
    return JOBSCHED_OK;
}

int jsi_element_day_form(const struct jsi_element_reader *reader, struct jsi_element *out_element,
                         bool *out_known)
{
    *out_known = true;
    if (reader->source->bytes[reader->begin] == '?') {
        if (reader->begin != reader->field_begin || reader->end != reader->field_end ||
            reader->end - reader->begin != 1) {
            return jsi_element_refuse(reader, JOBSCHED_SYNTAX_DAY_SPEC,
                                      "is not allowed: '?' stands alone in its field");
        }
        out_element->form = JSI_FORM_ANY;
        out_element->low = reader->rule->low;
        out_element->high = reader->rule->high;
        return JOBSCHED_OK;
    }
    if (reader->rule->field == JSI_WEEKDAY) {
        return day_of_week_form(reader, out_element, out_known);
    }
    if (is_day_of_month_form(reader)) {
        return day_of_month_form(reader, out_element);
    }
    *out_known = false;
    return JOBSCHED_OK;
}
