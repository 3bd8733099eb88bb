/* cron_element.c: one element of a comma list: values, ranges, steps, H and ~.
 * No state, no locks. */
#include "schedule/cron_element.h"

#include <stdio.h>

static bool numbers(const struct jsi_source *source, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at++) {
        if (!jsi_is_digit(source->bytes[at])) {
            return false;
        }
    }
    return begin < end;
}

bool jsi_element_number(const struct jsi_source *source, size_t begin, size_t end, int *out_value)
{
    if (!numbers(source, begin, end)) {
        return false;
    }
    /* Nine digits fit an int; longer ones are refused before they could wrap. */
    if (end - begin > 9) {
        *out_value = INT32_MAX;
        return true;
    }
    int value = 0;
    for (size_t at = begin; at < end; at++) {
        value = value * 10 + (source->bytes[at] - '0');
    }
    *out_value = value;
    return true;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* The value of a three-letter name, or -1. */
static int name_value(const struct jsi_element_reader *reader, size_t begin, size_t end)
{
    const char *names = reader->rule->names;
    const char *word = reader->source->bytes + begin;
    if (end - begin != 3) {
        return -1;
    }
    for (int i = 0; names[3 * i] != '\0'; i++) {
        if (upper(word[0]) == names[3 * i] && upper(word[1]) == names[3 * i + 1] &&
            upper(word[2]) == names[3 * i + 2]) {
            return reader->rule->low + i;
        }
    }
    return -1;
}

bool jsi_element_name(const struct jsi_element_reader *reader, size_t begin, size_t end,
                      int *out_value)
{
    *out_value = name_value(reader, begin, end);
    return *out_value >= 0;
}

static int refuse_value(const struct jsi_element_reader *reader, size_t begin, size_t end)
{
    const struct jsi_source *source = reader->source;
    const struct jsi_field_rule *rule = reader->rule;
    struct jsi_place place = {rule->name, begin, JOBSCHED_SYNTAX_SYNTAX};
    if (begin == end) {
        return jsi_syntax_fail(source, &place, "a value is missing");
    }
    int width = (int)(end - begin);
    if (source->bytes[begin] == '?') {
        bool day_field = rule->field == JSI_DAY || rule->field == JSI_WEEKDAY;
        place.position = day_field ? reader->begin : begin; /* a day form is its element */
        place.reason = JOBSCHED_SYNTAX_DAY_SPEC;
        return jsi_syntax_fail(source, &place, "'?' is not allowed in this field");
    }
    const char *hint = jsi_element_capitals(reader, begin, end);
    if (jsi_is_letter(source->bytes[begin])) {
        place.reason = JOBSCHED_SYNTAX_NAME;
        return jsi_syntax_hint(source, &place, hint, "'%.*s' is not a name of this field", width,
                               source->bytes + begin);
    }
    return jsi_syntax_hint(source, &place, hint, "'%.*s' is not a value", width,
                           source->bytes + begin);
}

int jsi_element_value(const struct jsi_element_reader *reader, size_t begin, size_t end,
                      int *out_value)
{
    const struct jsi_field_rule *rule = reader->rule;
    int value;
    if (!jsi_element_number(reader->source, begin, end, &value)) {
        value = name_value(reader, begin, end);
        if (value < 0) {
            return refuse_value(reader, begin, end);
        }
    }
    if (value < rule->low || value > rule->high) {
        struct jsi_place place = {rule->name, begin, JOBSCHED_SYNTAX_RANGE};
        const char *hint = rule->field == JSI_HOUR && value == 24 ? "for midnight use 0" : "";
        return jsi_syntax_fail_hint(reader->source, &place, rule->low, rule->high, hint,
                                    "value %.*s is outside %d-%d", (int)(end - begin),
                                    reader->source->bytes + begin, rule->low, rule->high);
    }
    *out_value = value;
    return JOBSCHED_OK;
}

/* "/STEP" at slash, up to the end of the element. */
static int parse_step(const struct jsi_element_reader *reader, size_t slash, bool hint_every,
                      int *out_step)
{
    const struct jsi_source *source = reader->source;
    const struct jsi_field_rule *rule = reader->rule;
    size_t begin = slash + 1;
    size_t end = jsi_find(source, begin, reader->end, '/');
    struct jsi_place place = {rule->name, begin, JOBSCHED_SYNTAX_STEP};
    int step;
    int width = (int)(end - begin);
    if (begin == end) {
        return jsi_syntax_fail_range(source, &place, 1, rule->size, "a step is missing");
    }
    if (!jsi_element_number(source, begin, end, &step)) {
        return jsi_syntax_fail_range(source, &place, 1, rule->size, "step '%.*s' is not a number",
                                     width, source->bytes + begin);
    }
    if (step == 0) {
        return jsi_syntax_fail_range(source, &place, 1, rule->size, "step 0 is outside 1-%d",
                                     rule->size);
    }
    if (step > rule->size) {
        static const char *const units[] = {"seconds", "minutes", "hours", "days"};
        char hint[96] = "";
        if (hint_every && rule->unit != 0 && width <= 9) {
            const char *unit = units[rule->field < 3 ? rule->field : 3];
            (void)snprintf(hint, sizeof hint, "for every %d %s use \"@every %d%c\"", step, unit,
                           step, rule->unit);
        }
        return jsi_syntax_fail_hint(source, &place, 1, rule->size, hint,
                                    "step %.*s is larger than the field (%d values)", width,
                                    source->bytes + begin, rule->size);
    }
    if (end < reader->end) {
        place = (struct jsi_place){rule->name, end, JOBSCHED_SYNTAX_SYNTAX};
        return jsi_syntax_fail(source, &place, "a second step is not allowed");
    }
    *out_step = step;
    return JOBSCHED_OK;
}

/* "V-V" with the dash given. */
static int parse_range(const struct jsi_element_reader *reader, size_t begin, size_t dash,
                       size_t end, struct jsi_element *out_element)
{
    const struct jsi_source *source = reader->source;
    int code = jsi_element_value(reader, begin, dash, &out_element->low);
    if (code != JOBSCHED_OK) {
        return code;
    }
    size_t second = jsi_find(source, dash + 1, end, '-');
    if (second == dash + 1) {
        return refuse_value(reader, second, second);
    }
    code = jsi_element_value(reader, dash + 1, second, &out_element->high);
    if (code == JOBSCHED_OK && second < end) {
        struct jsi_place place = {reader->rule->name, second, JOBSCHED_SYNTAX_SYNTAX};
        code = jsi_syntax_fail(source, &place, "a second '-' is not allowed");
    }
    return code;
}

static int refuse_reversed(const struct jsi_element_reader *reader, size_t begin,
                           const struct jsi_element *element)
{
    struct jsi_place place = {reader->rule->name, begin, JOBSCHED_SYNTAX_REVERSED};
    return jsi_syntax_fail(reader->source, &place, "the range ends at %d, before its start %d",
                           element->high, element->low);
}

static int parse_item(const struct jsi_element_reader *reader, struct jsi_element *out_element)
{
    const struct jsi_source *source = reader->source;
    const struct jsi_field_rule *rule = reader->rule;
    size_t begin = reader->begin;
    size_t slash = jsi_find(source, begin, reader->end, '/');
    size_t dash = jsi_find(source, begin, slash, '-');
    bool star = slash - begin == 1 && source->bytes[begin] == '*';
    int code = JOBSCHED_OK;
    if (star) {
        out_element->low = rule->low;
        out_element->high = rule->high;
    } else if (dash < slash) {
        code = parse_range(reader, begin, dash, slash, out_element);
        if (code == JOBSCHED_OK && rule->field == JSI_YEAR &&
            out_element->high < out_element->low) {
            code = refuse_reversed(reader, begin, out_element);
        }
    } else {
        code = jsi_element_value(reader, begin, slash, &out_element->low);
        out_element->high = slash < reader->end ? rule->high : out_element->low;
        if (rule->field == JSI_WEEKDAY && slash < reader->end && out_element->low == 7) {
            out_element->low = 0; /* a leading 7 counts as 0: "7/2" begins on Sunday */
        }
    }
    if (code == JOBSCHED_OK && slash < reader->end) {
        code = parse_step(reader, slash, star || out_element->low == 0, &out_element->step);
    }
    out_element->form = star && out_element->step == 1 ? JSI_FORM_ANY : JSI_FORM_RANGE;
    out_element->interval_like = star || dash < slash || slash < reader->end;
    return code;
}

/* A leading 7 counts as 0 where a value is picked, as in "7-2" and "7/2". */
static void lead_with_sunday(const struct jsi_element_reader *reader, struct jsi_element *element)
{
    if (reader->rule->field == JSI_WEEKDAY && element->low == 7 && element->high != 7) {
        element->low = 0;
    }
}

/* "(V-V)" after H; leaves out_after behind the parenthesis. */
static int parse_hash_range(const struct jsi_element_reader *reader, size_t open,
                            struct jsi_element *out_element, size_t *out_after)
{
    const struct jsi_source *source = reader->source;
    size_t close = jsi_find(source, open, reader->end, ')');
    size_t dash = jsi_find(source, open, close, '-');
    if (dash == close) {
        struct jsi_place place = {reader->rule->name, open + 1, JOBSCHED_SYNTAX_SYNTAX};
        return jsi_syntax_fail(source, &place, "a range is missing in H(...)");
    }
    int code = parse_range(reader, open + 1, dash, close, out_element);
    if (code != JOBSCHED_OK) {
        return code;
    }
    if (close == reader->end) {
        struct jsi_place place = {reader->rule->name, close, JOBSCHED_SYNTAX_SYNTAX};
        return jsi_syntax_fail(source, &place, "a closing parenthesis is missing");
    }
    lead_with_sunday(reader, out_element);
    if (out_element->high < out_element->low) {
        return refuse_reversed(reader, open + 1, out_element);
    }
    *out_after = close + 1;
    return JOBSCHED_OK;
}

/* "[V]~[V]" up to the slash or end. */
static int parse_tilde_range(const struct jsi_element_reader *reader, size_t tilde, size_t end,
                             struct jsi_element *out_element)
{
    const struct jsi_field_rule *rule = reader->rule;
    bool open_start = tilde == reader->begin;
    bool open_end = tilde + 1 == end;
    int code = JOBSCHED_OK;
    out_element->low = rule->low;
    out_element->high = open_start ? rule->hash_high : rule->high;
    if (rule->field == JSI_WEEKDAY && open_end) {
        out_element->high = rule->hash_high; /* 7 is Sunday again */
    }
    if (!open_start) {
        code = jsi_element_value(reader, reader->begin, tilde, &out_element->low);
    }
    if (code == JOBSCHED_OK && !open_end) {
        code = jsi_element_value(reader, tilde + 1, end, &out_element->high);
    }
    lead_with_sunday(reader, out_element);
    if (code == JOBSCHED_OK && out_element->high < out_element->low) {
        code = refuse_reversed(reader, reader->begin, out_element);
    }
    return code;
}

/* Turns the range of an H or ~ into the value or values picked for the key. */
static int pick(const struct jsi_element_reader *reader, bool stepped,
                struct jsi_element *out_element)
{
    if (reader->key == NULL || reader->key[0] == '\0') {
        return jsi_element_refuse(reader, JOBSCHED_SYNTAX_NO_KEY,
                                  "needs a job's name to pick a value by");
    }
    uint64_t number = jsi_cron_pick(reader->key, reader->rule->field, reader->index);
    int size = out_element->high - out_element->low + 1;
    int span = stepped && out_element->step < size ? out_element->step : size;
    out_element->low += (int)(number % (uint64_t)span);
    if (!stepped) {
        out_element->high = out_element->low;
    }
    out_element->form = JSI_FORM_RANGE;
    out_element->interval_like = stepped;
    return JOBSCHED_OK;
}

static int parse_hash(const struct jsi_element_reader *reader, size_t tilde,
                      struct jsi_element *out_element)
{
    const struct jsi_source *source = reader->source;
    const struct jsi_field_rule *rule = reader->rule;
    if (rule->field == JSI_YEAR) {
        return jsi_element_refuse(reader, JOBSCHED_SYNTAX_SYNTAX, "is not allowed in this field");
    }
    size_t slash = jsi_find(source, reader->begin, reader->end, '/');
    size_t after = slash;
    int code = JOBSCHED_OK;
    if (tilde < slash) {
        code = parse_tilde_range(reader, tilde, slash, out_element);
    } else {
        after = reader->begin + 1;
        out_element->low = rule->low;
        out_element->high = rule->hash_high;
        if (after < reader->end && source->bytes[after] == '(') {
            code = parse_hash_range(reader, after, out_element, &after);
        }
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    if (after < reader->end && source->bytes[after] != '/') {
        struct jsi_place place = {rule->name, after, JOBSCHED_SYNTAX_SYNTAX};
        return jsi_syntax_fail(source, &place, "'%c' is unexpected", source->bytes[after]);
    }
    bool stepped = after < reader->end;
    if (stepped) {
        code = parse_step(reader, after, false, &out_element->step);
    }
    return code == JOBSCHED_OK ? pick(reader, stepped, out_element) : code;
}

/* H is a hash when it stands alone or before a parenthesis or a step; else it is the
 * beginning of some word. */
static bool is_hash(const struct jsi_element_reader *reader)
{
    const char *bytes = reader->source->bytes + reader->begin;
    return bytes[0] == 'H' &&
           (reader->end - reader->begin == 1 || bytes[1] == '(' || bytes[1] == '/');
}

int jsi_element_parse(const struct jsi_element_reader *reader, struct jsi_element *out_element)
{
    *out_element = (struct jsi_element){.step = 1};
    if (reader->begin == reader->end) {
        return refuse_value(reader, reader->begin, reader->end);
    }
    bool day_field = reader->rule->field == JSI_DAY || reader->rule->field == JSI_WEEKDAY;
    if (day_field) {
        bool known = false;
        int code = jsi_element_day_form(reader, out_element, &known);
        if (code != JOBSCHED_OK || known) {
            return code;
        }
    }
    size_t slash = jsi_find(reader->source, reader->begin, reader->end, '/');
    size_t tilde = jsi_find(reader->source, reader->begin, slash, '~');
    if (is_hash(reader)) {
        return parse_hash(reader, slash, out_element); /* a '~' in "H(1~5)" is none */
    }
    if (tilde < slash) {
        return parse_hash(reader, tilde, out_element);
    }
    return parse_item(reader, out_element);
}
