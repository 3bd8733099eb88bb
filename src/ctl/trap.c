/* trap.c: traps that are seen in the text of a cron expression. What a field means is asked of the
 * library, by parsing probes; the text is only cut at blanks and commas here. No state, no locks. */
#include "ctl/trap.h"

#include "ctl/instant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PROBE_BYTES 320
#define DAY_MS      INT64_C(86400000)

/* 2024-01-01T00:00:00Z. */
#define PROBE_YEAR_MS INT64_C(1704067200000)

void ctl_trap_add(ctl_search *search, const char *code, size_t position, const char *format, ...)
{
    ctl_traps *traps = search->traps;
    va_list arguments;

    if (traps->count == CTL_TRAPS_MAX) {
        return;
    }
    traps->items[traps->count].code = code;
    traps->items[traps->count].position = position;
    va_start(arguments, format);
    (void)vsnprintf(traps->items[traps->count].message, CTL_TRAP_MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    traps->count++;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Finds the fields; 0 when the text is no cron expression. */
static int find_fields(ctl_search *search)
{
    ctl_field words[CTL_FIELDS + 1];
    size_t count = 0, at = 0, bytes = strlen(search->text);

    while (at < bytes) {
        size_t begin;

        while (at < bytes && is_blank(search->text[at])) {
            at++;
        }
        begin = at;
        while (at < bytes && !is_blank(search->text[at])) {
            at++;
        }
        if (at == begin || (count == 0 && memchr(search->text + begin, '=', at - begin) != NULL)) {
            continue; /* CRON_TZ=... */
        }
        if (count == CTL_FIELDS || search->text[begin] == '@') {
            return 0;
        }
        words[count++] = (ctl_field){begin, at - begin};
    }
    if (count < 5) {
        return 0;
    }
    memset(search->fields, 0, sizeof search->fields);
    for (size_t i = 0; i < count; i++) {
        search->fields[count == 5 ? i + 1 : i] = words[i];
    }
    return 1;
}

/* The element that begins at *at; 0 behind the last. */
static int next_element(const ctl_search *search, int field, size_t *at, ctl_field *out_element)
{
    const ctl_field *whole = &search->fields[field];
    size_t end = whole->at + whole->bytes;
    size_t begin = *at;

    if (begin == whole->at && field == CTL_WEEKDAY && whole->bytes > 0 &&
        search->text[begin] == '+') {
        begin++;
    }
    if (begin >= end) {
        return 0;
    }
    *at = begin;
    while (*at < end && search->text[*at] != ',') {
        (*at)++;
    }
    *out_element = (ctl_field){begin, *at - begin};
    (*at)++;
    return 1;
}

static int element_is(const ctl_search *search, const ctl_field *element, const char *text)
{
    return strlen(text) == element->bytes &&
           memcmp(search->text + element->at, text, element->bytes) == 0;
}

/* Only "*", "*" "/1" and "?" lift the restriction, also inside a list. */
static int restricts(const ctl_search *search, int field)
{
    size_t at = search->fields[field].at;
    ctl_field element;

    while (next_element(search, field, &at, &element)) {
        if (element_is(search, &element, "*") || element_is(search, &element, "*/1") ||
            element_is(search, &element, "?")) {
            return 0;
        }
    }
    return 1;
}

/* A decimal number that fills the text; -1 when it is none, or a large one. */
static int number(const char *text, size_t bytes)
{
    int value = 0;

    if (bytes == 0 || bytes > 4) {
        return -1;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* The n of a star with a step; 0 for anything else. */
static int star_step(const ctl_search *search, const ctl_field *element)
{
    const char *text = search->text + element->at;
    int step = element->bytes > 2 && text[0] == '*' && text[1] == '/'
                   ? number(text + 2, element->bytes - 2)
                   : 0;

    return step < 0 ? 0 : step;
}

/* ---- What a field means ---- */

/* A schedule of one field of the expression with others around it, or NULL. */
static jobsched_schedule *probe(const ctl_search *search, int field, const char *before,
                                const char *after)
{
    char text[PROBE_BYTES];
    jobsched_schedule_options options;
    jobsched_schedule *schedule;

    (void)snprintf(text, sizeof text, "%s%.*s%s", before, (int)search->fields[field].bytes,
                   search->text + search->fields[field].at, after);
    JOBSCHED_INIT(&options);
    options.key = search->key;
    options.text_bytes_max = PROBE_BYTES;
    return jobsched_schedule_parse(text, &options, &schedule) == JOBSCHED_OK ? schedule : NULL;
}

void ctl_search_hours(const ctl_search *search, int out_members[24])
{
    jobsched_schedule *schedule = probe(search, CTL_HOUR, "0 ", " * * *");

    for (int hour = 0; hour < 24; hour++) {
        int64_t at_ms = PROBE_YEAR_MS + hour * INT64_C(3600000);

        out_members[hour] = schedule == NULL || jobsched_schedule_matches(schedule, at_ms);
    }
    jobsched_schedule_free(schedule);
}

void ctl_search_months(const ctl_search *search, int out_members[12])
{
    static const int lengths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    jobsched_schedule *schedule = probe(search, CTL_MONTH, "0 0 1 ", " *");
    int64_t at_ms = PROBE_YEAR_MS;

    for (int month = 0; month < 12; month++) {
        out_members[month] = schedule == NULL || jobsched_schedule_matches(schedule, at_ms);
        at_ms += lengths[month] * DAY_MS;
    }
    jobsched_schedule_free(schedule);
}

/* ---- Day of month and day of week ---- */

static void find_day_rule(ctl_search *search)
{
    const ctl_field *day = &search->fields[CTL_DAY], *weekday = &search->fields[CTL_WEEKDAY];
    const char *code = "or-rule";
    size_t at = day->at, position = weekday->at;
    ctl_field element;

    if (!restricts(search, CTL_DAY) || !restricts(search, CTL_WEEKDAY) ||
        search->text[weekday->at] == '+') {
        return;
    }
    while (next_element(search, CTL_DAY, &at, &element)) {
        if (element_is(search, &element, "1-31")) {
            ctl_trap_add(search, "full-range", element.at,
                         "day-of-month '1-31' is not '*': with a weekday either counts, so this is "
                         "every day");
            return;
        }
        if (star_step(search, &element) > 1) {
            code = "step-with-weekday";
            position = element.at;
        }
    }
    at = weekday->at;
    while (next_element(search, CTL_WEEKDAY, &at, &element)) {
        if (star_step(search, &element) > 1) {
            code = "step-with-weekday";
            position = element.at;
        }
    }
    if (strcmp(code, "or-rule") != 0) {
        ctl_trap_add(search, code, position,
                     "a day that satisfies day-of-month '%.*s' or day-of-week '%.*s' counts, while "
                     "crond asks for both here; for both write '+%.*s'",
                     (int)day->bytes, search->text + day->at, (int)weekday->bytes,
                     search->text + weekday->at, (int)weekday->bytes, search->text + weekday->at);
    } else {
        ctl_trap_add(
            search, code, position,
            "a day that satisfies either day-of-month '%.*s' or day-of-week '%.*s' counts; "
            "for both write '+%.*s'",
            (int)day->bytes, search->text + day->at, (int)weekday->bytes,
            search->text + weekday->at, (int)weekday->bytes, search->text + weekday->at);
    }
}

/* ---- Days that not every month has ---- */

/* Whether the first occurrences, on four different days, are all on 29 February. */
static int only_leap_days(const ctl_search *search)
{
    int64_t at_ms = search->from_ms;
    char date[CTL_INSTANT_BYTES]; /* years have four digits */
    int found = 0;

    for (int i = 0; i < 4; i++) {
        jobsched_occurrence occurrence;

        at_ms = jobsched_schedule_next(search->schedule, at_ms);
        JOBSCHED_INIT(&occurrence);
        if (at_ms == JOBSCHED_NONE ||
            jobsched_schedule_occurrence(search->schedule, at_ms, &occurrence) != JOBSCHED_OK) {
            break;
        }
        ctl_instant_date(occurrence.nominal_local_ms, date);
        if (strcmp(date + 4, "-02-29") != 0) {
            return 0;
        }
        found = 1;
        at_ms += DAY_MS;
    }
    return found;
}

/* The days that a month must have for "31", "31W", "L-30" or "L-30W" to be one; -1 for anything
 * else. */
static int day_needed(const ctl_search *search, const ctl_field *element)
{
    const char *text = search->text + element->at;
    size_t bytes = element->bytes;
    int days;

    if (bytes > 0 && text[bytes - 1] == 'W') {
        bytes--;
    }
    if (bytes < 3 || text[0] != 'L' || text[1] != '-') {
        return number(text, bytes);
    }
    days = number(text + 2, bytes - 2);
    return days < 0 ? days : days + 1;
}

static void add_short_month(ctl_search *search, const ctl_field *element, int lack, int months)
{
    const char *text = search->text + element->at;
    int is_weekday = text[element->bytes - 1] == 'W';

    ctl_trap_add(search, "short-month", element->at,
                 "day %.*s is missing in %d of its %d months, and nothing makes up for it%s",
                 (int)element->bytes, text, lack, months,
                 text[0] == 'L' ? ""
                 : is_weekday   ? "; 'LW' is the last weekday of every month"
                                : "; 'L' is the last day of every month");
}

static void find_short_months(ctl_search *search)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    size_t at = search->fields[CTL_DAY].at;
    ctl_field element;
    int months[12];

    if (only_leap_days(search)) {
        ctl_trap_add(search, "leap-day", search->fields[CTL_DAY].at,
                     "this is 29 February: it fires in leap years only");
        return;
    }
    ctl_search_months(search, months);
    while (next_element(search, CTL_DAY, &at, &element)) {
        int day = day_needed(search, &element);
        int have = 0, lack = 0;

        for (int month = 0; month < 12; month++) {
            have += months[month] && lengths[month] >= day;
            lack += months[month] && lengths[month] < day;
        }
        if (day > 28 && lack > 0 && have > 0) {
            add_short_month(search, &element, lack, have + lack);
        }
    }
}

/* ---- Steps that do not divide their field ---- */

static void add_uneven(ctl_search *search, int field, const ctl_field *element, int step)
{
    static const struct {
        const char *name, *unit, *whole;
        char letter;
        int size;
    } kinds[] = {{"second", "seconds", "minute", 's', 60},
                 {"minute", "minutes", "hour", 'm', 60},
                 {"hour", "hours", "day", 'h', 24}};
    int last = (kinds[field].size - 1) / step * step;

    if (last == 0) {
        return; /* once in the whole */
    }
    ctl_trap_add(search, "uneven-step", element->at,
                 "%s '%.*s' is not every %d %s: each %s begins anew, %d %s after %d; for even "
                 "distances write '@every %d%c'",
                 kinds[field].name, (int)element->bytes, search->text + element->at, step,
                 kinds[field].unit, kinds[field].whole, kinds[field].size - last,
                 kinds[field].size - last == 1 ? kinds[field].name : kinds[field].unit, last, step,
                 kinds[field].letter);
}

static void find_uneven_steps(ctl_search *search)
{
    static const int sizes[] = {60, 60, 24, 31, 12, 7};

    for (int field = CTL_SECOND; field <= CTL_WEEKDAY; field++) {
        size_t at = search->fields[field].at;
        ctl_field element;

        while (search->fields[field].bytes > 0 && next_element(search, field, &at, &element)) {
            int step = star_step(search, &element);

            if (step < 2 || (field != CTL_DAY && sizes[field] % step == 0)) {
                continue;
            }
            if (field <= CTL_HOUR) {
                add_uneven(search, field, &element, step);
            } else if (field == CTL_DAY && step < 16) {
                ctl_trap_add(search, "uneven-step", element.at,
                             "day-of-month '%.*s' begins anew on the 1st of each month, however "
                             "long the month before was; for even distances write '@every %dd'",
                             (int)element.bytes, search->text + element.at, step);
            } else if (field == CTL_MONTH && step < 12) {
                ctl_trap_add(search, "uneven-step", element.at,
                             "month '%.*s' begins anew each January", (int)element.bytes,
                             search->text + element.at);
            } else if (field == CTL_WEEKDAY && step < 7) {
                ctl_trap_add(search, "uneven-step", element.at,
                             "day-of-week '%.*s' begins anew each Sunday", (int)element.bytes,
                             search->text + element.at);
            }
        }
    }
}

void ctl_traps_find(const char *text, const char *key, const jobsched_schedule *schedule,
                    int64_t from_ms, ctl_traps *out_traps)
{
    ctl_search search = {
        .text = text, .key = key, .schedule = schedule, .from_ms = from_ms, .traps = out_traps};

    out_traps->count = 0;
    if (jobsched_schedule_is_never(schedule)) {
        return;
    }
    if (find_fields(&search)) {
        find_uneven_steps(&search);
        find_day_rule(&search);
        find_short_months(&search);
    }
    ctl_traps_clock(&search);
}
