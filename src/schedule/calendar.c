/* calendar.c: the rules of a calendar: their text and their answer. The count of
 * references is atomic; all else is immutable, so there are no locks. */
#include "schedule/calendar.h"
#include "base/hash.h"
#include "schedule/schedule.h"

enum { CALENDAR_BYTES_MAX = 65536, SECONDS_PER_MINUTE = 60 };

/* One rule's text. The source ends with the rule, so that "end of text" means it. */
struct rule_reader {
    struct jsi_source source;
    size_t at;
    struct jsi_calendar_rule *rule;
};

static int refuse(const struct rule_reader *reader, size_t at, int reason, const char *what)
{
    struct jsi_place place = {"calendar", at, reason};
    return jsi_syntax_fail(&reader->source, &place, "%s", what);
}

static bool fixed_digits(const struct rule_reader *reader, size_t at, size_t count, int *out_value)
{
    int value = 0;
    if (at + count > reader->source.length) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char c = reader->source.bytes[at + i];
        if (!jsi_is_digit(c)) {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    *out_value = value;
    return true;
}

static char byte_at(const struct rule_reader *reader, size_t at)
{
    return at < reader->source.length ? reader->source.bytes[at] : '\0';
}

/* YYYY-MM-DD in [at, at + 10). */
static bool read_date(const struct rule_reader *reader, size_t at, int64_t *out_days)
{
    int year;
    int month;
    int day;
    if (!fixed_digits(reader, at, 4, &year) || byte_at(reader, at + 4) != '-' ||
        !fixed_digits(reader, at + 5, 2, &month) || byte_at(reader, at + 7) != '-' ||
        !fixed_digits(reader, at + 8, 2, &day) || month < 1 || month > 12 || day < 1 ||
        day > jsi_civil_month_days(year, month)) {
        return false;
    }
    *out_days = jsi_civil_days(year, month, day);
    return true;
}

/* MM-DD in [at, at + 5); 29 February counts in leap years only. */
static bool read_year_day(const struct rule_reader *reader, size_t at, int64_t *out_number)
{
    int month;
    int day;
    if (!fixed_digits(reader, at, 2, &month) || byte_at(reader, at + 2) != '-' ||
        !fixed_digits(reader, at + 3, 2, &day) || month < 1 || month > 12 || day < 1 ||
        day > jsi_civil_month_days(2000, month)) {
        return false;
    }
    *out_number = month * 100 + day;
    return true;
}

/* hh:mm in [at, at + 5); 24:00 is the end of the day. */
static bool read_time(const struct rule_reader *reader, size_t at, int64_t *out_second)
{
    int hour;
    int minute;
    if (!fixed_digits(reader, at, 2, &hour) || byte_at(reader, at + 2) != ':' ||
        !fixed_digits(reader, at + 3, 2, &minute) || minute > 59 || hour > 24 ||
        (hour == 24 && minute != 0)) {
        return false;
    }
    *out_second = hour * 3600 + minute * SECONDS_PER_MINUTE;
    return true;
}

/* One value, or two with ".." between them. */
static int read_span(struct rule_reader *reader,
                     bool (*read)(const struct rule_reader *reader, size_t at, int64_t *out),
                     size_t length, const char *what)
{
    struct jsi_calendar_rule *rule = reader->rule;
    if (!read(reader, reader->at, &rule->first)) {
        return refuse(reader, reader->at, JOBSCHED_SYNTAX_INSTANT, what);
    }
    rule->last = rule->first;
    reader->at += length;
    if (byte_at(reader, reader->at) == '.' && byte_at(reader, reader->at + 1) == '.') {
        reader->at += 2;
        if (!read(reader, reader->at, &rule->last)) {
            return refuse(reader, reader->at, JOBSCHED_SYNTAX_INSTANT, what);
        }
        reader->at += length;
    }
    return JOBSCHED_OK;
}

static int read_digits(struct rule_reader *reader)
{
    struct jsi_calendar_rule *rule = reader->rule;
    size_t begin = reader->at;
    int code;
    if (byte_at(reader, begin + 2) == ':') {
        rule->kind = JSI_RULE_TIMES;
        code = read_span(reader, read_time, 5, "a time like 08:30 is missing");
        if (code == JOBSCHED_OK && (rule->first == rule->last || rule->first == JSI_DAY_S)) {
            code = refuse(reader, begin, JOBSCHED_SYNTAX_REVERSED,
                          "a window of time has two different ends, like 22:00..06:00");
        }
        return code;
    }
    if (byte_at(reader, begin + 2) == '-') {
        rule->kind = JSI_RULE_YEAR_DAYS;
        return read_span(reader, read_year_day, 5, "a day of the year like 12-25 is missing");
    }
    rule->kind = JSI_RULE_DATES;
    code = read_span(reader, read_date, 10, "a date like 2027-12-25 is missing");
    if (code == JOBSCHED_OK && rule->last < rule->first) {
        code = refuse(reader, begin, JOBSCHED_SYNTAX_REVERSED, "the range ends before its start");
    }
    return code;
}

/* Takes the day-of-week field of a cron expression: "SAT,SUN", "MON-FRI". */
static int read_weekdays(struct rule_reader *reader)
{
    struct jsi_calendar_rule *rule = reader->rule;
    size_t end = jsi_skip_word(&reader->source, reader->at, reader->source.length);
    uint8_t weekdays = 0;
    int code = jsi_cron_parse_weekdays(&reader->source, reader->at, end, &weekdays);
    if (code != JOBSCHED_OK) {
        return code;
    }
    rule->kind = JSI_RULE_WEEKDAYS;
    rule->first = weekdays;
    reader->at = end;
    return JOBSCHED_OK;
}

static int read_what(struct rule_reader *reader)
{
    struct jsi_source *source = &reader->source;
    size_t end = jsi_skip_word(source, reader->at, source->length);
    if (reader->at == end) {
        return refuse(reader, end, JOBSCHED_SYNTAX_SYNTAX, "what to exclude or include is missing");
    }
    if (jsi_is_word(source, reader->at, end, "all")) {
        reader->rule->kind = JSI_RULE_ALL;
        reader->at = end;
        return JOBSCHED_OK;
    }
    if (jsi_is_word(source, reader->at, end, "cron")) {
        reader->rule->kind = JSI_RULE_CRON;
        reader->at = source->length;
        return jsi_cron_parse(source, end, source->length, NULL, &reader->rule->cron);
    }
    return jsi_is_digit(source->bytes[reader->at]) ? read_digits(reader) : read_weekdays(reader);
}

/* A line, without a comment: [begin, end). A blank one is no rule. */
static int read_rule(const char *text, size_t begin, size_t end, struct jobsched_calendar *calendar)
{
    struct rule_reader reader = {.source = {text, end, begin},
                                 .rule = &calendar->rules[calendar->count]};
    while (reader.source.length > begin && jsi_is_blank(text[reader.source.length - 1])) {
        reader.source.length--;
    }
    size_t word = jsi_skip_blanks(&reader.source, begin, reader.source.length);
    size_t word_end = jsi_skip_word(&reader.source, word, reader.source.length);
    if (word == word_end) {
        return JOBSCHED_OK;
    }
    reader.rule->include = jsi_is_word(&reader.source, word, word_end, "include");
    if (!reader.rule->include && !jsi_is_word(&reader.source, word, word_end, "exclude")) {
        return refuse(&reader, word, JOBSCHED_SYNTAX_NAME,
                      "a rule begins with 'exclude' or 'include'");
    }
    reader.at = jsi_skip_blanks(&reader.source, word_end, reader.source.length);
    int code = read_what(&reader);
    reader.at = jsi_skip_blanks(&reader.source, reader.at, reader.source.length);
    if (code == JOBSCHED_OK && reader.at < reader.source.length) {
        code = refuse(&reader, reader.at, JOBSCHED_SYNTAX_SYNTAX, "something unexpected follows");
    }
    calendar->count += code == JOBSCHED_OK ? 1 : 0;
    return code;
}

static bool is_line_end(char c)
{
    return c == '\n' || c == ';';
}

static int read_rules(const char *text, size_t length, struct jobsched_calendar *calendar)
{
    for (size_t begin = 0; begin <= length;) {
        size_t end = begin;
        size_t comment = SIZE_MAX;
        while (end < length && !(text[end] == '\n' || (text[end] == ';' && comment == SIZE_MAX))) {
            unsigned char byte = (unsigned char)text[end];
            if (byte == '#' && comment == SIZE_MAX &&
                (end == begin || jsi_is_blank(text[end - 1]))) {
                comment = end;
            }
            if (comment == SIZE_MAX && ((byte < 0x20 && byte != '\t') || byte > 0x7e)) {
                struct jsi_source source = {text, end, begin};
                struct jsi_place place = {"calendar", end, JOBSCHED_SYNTAX_BAD_CHAR};
                return jsi_syntax_fail(&source, &place, "byte 0x%02x is not allowed", byte);
            }
            end++;
        }
        int code = read_rule(text, begin, comment < end ? comment : end, calendar);
        if (code != JOBSCHED_OK) {
            return code;
        }
        begin = end + 1;
    }
    return JOBSCHED_OK;
}

/* At most one rule per line. */
static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t at = 0; at < length; at++) {
        lines += is_line_end(text[at]) ? 1 : 0;
    }
    return lines;
}

static int take_options(const jobsched_calendar_options *given, jobsched_calendar_options *out)
{
    memset(out, 0, sizeof *out);
    if (given == NULL) {
        return JOBSCHED_OK;
    }
    if (given->struct_size < sizeof given->struct_size) {
        return jsi_fail_at(JOBSCHED_EINVAL, "options", -1,
                           "options were not set up with JOBSCHED_INIT");
    }
    memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
    return JOBSCHED_OK;
}

uint64_t jsi_calendar_fingerprint(const jobsched_calendar *calendar)
{
    return calendar->fingerprint;
}

int jobsched_calendar_parse(const char *text, const jobsched_calendar_options *options,
                            jobsched_calendar **out_calendar)
{
    jobsched_calendar_options known;
    jobsched_allocator allocator;
    if (text == NULL || out_calendar == NULL) {
        return jsi_fail_at(JOBSCHED_EINVAL, "", -1, "text or out_calendar is NULL");
    }
    int code = take_options(options, &known);
    if (code == JOBSCHED_OK) {
        code = jsi_alloc_init(&allocator, known.allocator);
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    size_t length = strnlen(text, CALENDAR_BYTES_MAX + 1);
    if (length > CALENDAR_BYTES_MAX) {
        code =
            jsi_fail_range(JOBSCHED_EPARSE, "calendar", CALENDAR_BYTES_MAX, 0, CALENDAR_BYTES_MAX,
                           "calendar: the text is longer than %d bytes", CALENDAR_BYTES_MAX);
        return jsi_fail_reason(code, JOBSCHED_SYNTAX_TOO_LONG);
    }
    const struct jsi_zone *zone = NULL;
    if (known.timezone != NULL && known.timezone[0] != '\0') {
        code = jsi_zone_by_name(known.timezone, known.zone_directory, &allocator, &zone);
        if (code != JOBSCHED_OK) {
            return code;
        }
    }
    size_t rules = count_lines(text, length);
    struct jobsched_calendar *calendar =
        jsi_new(&allocator, sizeof *calendar + rules * sizeof calendar->rules[0]);
    if (calendar == NULL) {
        jsi_zone_release(zone);
        return JOBSCHED_ENOMEM;
    }
    calendar->allocator = allocator;
    calendar->zone = zone;
    atomic_init(&calendar->references, 1);
    code = read_rules(text, length, calendar);
    if (code != JOBSCHED_OK) {
        jsi_calendar_release(calendar);
        return code;
    }
    calendar->fingerprint = jsi_fnv1a64(JSI_FNV1A64_INIT, text, length);
    if (zone != NULL) {
        calendar->fingerprint =
            jsi_fnv1a64(calendar->fingerprint, zone->name, strlen(zone->name) + 1);
    }
    *out_calendar = calendar;
    return JOBSCHED_OK;
}

struct jobsched_calendar *jsi_calendar_retain(const struct jobsched_calendar *calendar)
{
    struct jobsched_calendar *counted = (struct jobsched_calendar *)(uintptr_t)calendar;
    (void)atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void jsi_calendar_release(struct jobsched_calendar *calendar)
{
    if (calendar != NULL &&
        atomic_fetch_sub_explicit(&calendar->references, 1, memory_order_acq_rel) == 1) {
        jobsched_allocator allocator = calendar->allocator;
        jsi_zone_release(calendar->zone);
        jsi_free(&allocator, calendar);
    }
}

void jobsched_calendar_free(jobsched_calendar *calendar)
{
    jsi_calendar_release(calendar);
}
