/* cron_parse.c: cron text to bit sets. The rule for the position of an error is in
 * docs/schedules.md: elements are read from left to right, and what is wrong with a
 * value points at the value's first byte. No state, no locks. */
#include "schedule/cron_element.h"

#define MONTH_NAMES "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
#define DAY_NAMES   "SUNMONTUEWEDTHUFRISAT"

/* size is the number of distinct values: 7 is another name of Sunday. hash_high bounds
 * plain H and ~: days 29 to 31 would lose months. */
static const struct jsi_field_rule rules[JSI_FIELDS] = {
    {"second", "", JSI_SECOND, 0, 59, 60, 59, 's'},
    {"minute", "", JSI_MINUTE, 0, 59, 60, 59, 'm'},
    {"hour", "", JSI_HOUR, 0, 23, 24, 23, 'h'},
    {"day-of-month", "", JSI_DAY, 1, 31, 31, 28, 'd'},
    {"month", MONTH_NAMES, JSI_MONTH, 1, 12, 12, 12, 0},
    {"day-of-week", DAY_NAMES, JSI_WEEKDAY, 0, 7, 7, 6, 'd'},
    {"year", "", JSI_YEAR, JSI_YEAR_MIN, JSI_YEAR_MAX, JSI_YEARS, JSI_YEAR_MAX, 0},
};

/* Takes the values of one element into the set of its field. */
static void add_value(struct jsi_cron *cron, enum jsi_field field, int value)
{
    switch (field) {
    case JSI_SECOND:
        cron->seconds |= UINT64_C(1) << value;
        break;
    case JSI_MINUTE:
        cron->minutes |= UINT64_C(1) << value;
        break;
    case JSI_HOUR:
        cron->hours |= UINT32_C(1) << value;
        break;
    case JSI_DAY:
        cron->days |= UINT32_C(1) << value;
        break;
    case JSI_MONTH:
        cron->months = (uint16_t)(cron->months | (1U << value));
        break;
    case JSI_WEEKDAY:
        cron->weekdays = (uint8_t)(cron->weekdays | (1U << (value % 7)));
        break;
    case JSI_YEAR:
    case JSI_FIELDS:
        cron->years[(value - JSI_YEAR_MIN) / 64] |= UINT64_C(1) << ((value - JSI_YEAR_MIN) % 64);
        break;
    }
}

/* Steps through a range; one whose end lies before its start goes on through the end
 * of the field ("22-2", "FRI-MON"). At most as many turns as the field has values. */
static void add_range(struct jsi_cron *cron, const struct jsi_field_rule *rule,
                      const struct jsi_element *element)
{
    int low = element->low;
    int high = element->high;
    if (rule->field == JSI_WEEKDAY && low == 7 && high != 7) {
        low = 0;
    }
    if (high < low) {
        high += rule->size;
    }
    for (int value = low; value <= high; value += element->step) {
        int past = value - rule->high;
        bool wraps = past > 0 && rule->field != JSI_WEEKDAY;
        add_value(cron, rule->field, wraps ? rule->low + past - 1 : value);
    }
}

static void add_element(struct jsi_cron *cron, const struct jsi_field_rule *rule,
                        const struct jsi_element *element)
{
    uint8_t weekday = (uint8_t)(1U << (element->low % 7));
    switch (element->form) {
    case JSI_FORM_ANY:
        cron->any_day = cron->any_day || rule->field == JSI_DAY;
        cron->any_weekday = cron->any_weekday || rule->field == JSI_WEEKDAY;
        add_range(cron, rule, element);
        break;
    case JSI_FORM_RANGE:
        add_range(cron, rule, element);
        break;
    case JSI_FORM_FROM_END:
        cron->from_end |= UINT32_C(1) << element->low;
        break;
    case JSI_FORM_WEEKDAY_FROM_END:
        cron->weekday_from_end |= UINT32_C(1) << element->low;
        break;
    case JSI_FORM_WEEKDAY_NEAR:
        cron->weekday_near |= UINT32_C(1) << element->low;
        break;
    case JSI_FORM_NTH:
        cron->nth[element->nth - 1] = (uint8_t)(cron->nth[element->nth - 1] | weekday);
        break;
    case JSI_FORM_LAST:
        cron->last = (uint8_t)(cron->last | weekday);
        break;
    }
    if (rule->field <= JSI_HOUR && element->interval_like) {
        cron->interval_like = true;
    }
}

static int parse_field(const struct jsi_source *source, const struct jsi_field_rule *rule,
                       size_t begin, size_t end, const char *key, struct jsi_cron *cron)
{
    if (rule->field == JSI_WEEKDAY && source->bytes[begin] == '+') {
        cron->both = true;
        begin++;
    }
    struct jsi_element_reader reader = {
        .source = source, .rule = rule, .key = key, .field_begin = begin, .field_end = end};
    size_t at = begin;
    for (size_t index = 0; at <= end; index++) {
        reader.begin = at;
        reader.end = jsi_find(source, at, end, ',');
        reader.index = index;
        struct jsi_element element;
        int code = jsi_element_parse(&reader, &element);
        if (code != JOBSCHED_OK) {
            return code;
        }
        add_element(cron, rule, &element);
        at = reader.end + 1;
    }
    return JOBSCHED_OK;
}

/* Finds the words; refuses a wrong number of them. */
static int split(const struct jsi_source *source, size_t begin, size_t end,
                 size_t out_bounds[JSI_FIELDS][2], size_t *out_count)
{
    size_t count = 0;
    size_t at = jsi_skip_blanks(source, begin, end);
    while (at < end) {
        if (count == JSI_FIELDS) {
            struct jsi_place place = {"schedule", at, JOBSCHED_SYNTAX_FIELD_COUNT};
            return jsi_syntax_fail_range(source, &place, 5, 7, "more than seven fields");
        }
        out_bounds[count][0] = at;
        at = jsi_skip_word(source, at, end);
        out_bounds[count][1] = at;
        count++;
        at = jsi_skip_blanks(source, at, end);
    }
    if (count < 5) {
        struct jsi_place place = {"schedule", source->length, JOBSCHED_SYNTAX_FIELD_COUNT};
        return jsi_syntax_fail_range(source, &place, 5, 7,
                                     "%zu field%s where five to seven are needed", count,
                                     count == 1 ? "" : "s");
    }
    *out_count = count;
    return JOBSCHED_OK;
}

int jsi_cron_parse(const struct jsi_source *source, size_t begin, size_t end, const char *key,
                   struct jsi_cron *out_cron)
{
    size_t bounds[JSI_FIELDS][2];
    size_t count = 0;
    int code = split(source, begin, end, bounds, &count);
    if (code != JOBSCHED_OK) {
        return code;
    }
    struct jsi_cron cron;
    memset(&cron, 0, sizeof cron);
    /* Five fields have no second, and only seven have a year. */
    size_t first = count == 5 ? JSI_MINUTE : JSI_SECOND;
    for (size_t i = 0; i < count; i++) {
        code = parse_field(source, &rules[first + i], bounds[i][0], bounds[i][1], key, &cron);
        if (code != JOBSCHED_OK) {
            return code;
        }
    }
    if (count == 5) {
        cron.seconds = 1;
    }
    if (count < 7) {
        cron.years[0] = cron.years[1] = cron.years[2] = UINT64_MAX;
        cron.years[3] = (UINT64_C(1) << (JSI_YEARS - 192)) - 1;
    }
    *out_cron = cron;
    return JOBSCHED_OK;
}

int jsi_cron_parse_weekdays(const struct jsi_source *source, size_t begin, size_t end,
                            uint8_t *out_weekdays)
{
    struct jsi_cron cron;
    memset(&cron, 0, sizeof cron);
    int code = parse_field(source, &rules[JSI_WEEKDAY], begin, end, NULL, &cron);
    bool numbered = cron.last != 0 || cron.both;
    for (int week = 0; week < 5; week++) {
        numbered = numbered || cron.nth[week] != 0;
    }
    if (code == JOBSCHED_OK && numbered) {
        struct jsi_place place = {rules[JSI_WEEKDAY].name, begin, JOBSCHED_SYNTAX_DAY_SPEC};
        code = jsi_syntax_fail(source, &place, "only plain days are allowed here");
    }
    if (code == JOBSCHED_OK) {
        *out_weekdays = cron.weekdays;
    }
    return code;
}
