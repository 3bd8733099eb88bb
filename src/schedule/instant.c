/* instant.c: durations and instants in schedule texts. No state, no locks. */
#include "schedule/instant.h"

#include "schedule/civil.h"

struct unit {
    char letter;
    int64_t seconds;
};

/* Largest first: the order in which they must be written. */
static const struct unit units[] = {{'w', 604800}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
enum { UNITS = sizeof units / sizeof units[0] };

static int refuse_duration(const struct jsi_source *source, size_t at, const char *what)
{
    struct jsi_place place = {"duration", at, JOBSCHED_SYNTAX_DURATION};
    return jsi_syntax_fail(source, &place, "%s", what);
}

static int refuse_span(const struct jsi_source *source, size_t at)
{
    struct jsi_place place = {"duration", at, JOBSCHED_SYNTAX_DURATION};
    return jsi_syntax_fail_range(source, &place, 1, JSI_EVERY_MAX_S,
                                 "the span is outside 1s-36600d");
}

/* Reads "NUMBER UNIT" at *at; *unit_from is the largest unit still allowed. */
static int read_part(const struct jsi_source *source, size_t *at, size_t end, int *unit_from,
                     int64_t *out_seconds)
{
    size_t digits = *at;
    int64_t number = 0;
    while (*at < end && jsi_is_digit(source->bytes[*at])) {
        if (*at - digits < 9) {
            number = number * 10 + (source->bytes[*at] - '0');
        }
        (*at)++;
    }
    if (*at == digits) {
        return refuse_duration(source, digits, "a number is missing");
    }
    if (*at - digits > 9) {
        return refuse_span(source, digits);
    }
    if (*at == end) {
        return refuse_duration(source, *at, "a unit (w, d, h, m or s) is missing");
    }
    if (*at + 1 < end && source->bytes[*at] == 'm' && source->bytes[*at + 1] == 's') {
        /* Settings have it, so it is tried here, too. */
        return refuse_duration(source, *at, "'ms' is too fine; the finest unit is s");
    }
    for (int unit = 0; unit < UNITS; unit++) {
        if (source->bytes[*at] != units[unit].letter) {
            continue;
        }
        if (unit < *unit_from) {
            return refuse_duration(source, *at, "units go from large to small, each once");
        }
        *unit_from = unit + 1;
        *out_seconds = number * units[unit].seconds;
        (*at)++;
        return JOBSCHED_OK;
    }
    return refuse_duration(source, *at, "the unit is not one of w, d, h, m, s");
}

int jsi_duration_seconds(const struct jsi_source *source, size_t begin, size_t end,
                         int64_t *out_seconds)
{
    int unit_from = 0;
    int64_t total = 0;
    size_t at = begin;
    if (begin == end) {
        return refuse_duration(source, begin, "a duration is missing");
    }
    while (at < end) {
        int64_t seconds = 0;
        int code = read_part(source, &at, end, &unit_from, &seconds);
        if (code != JOBSCHED_OK) {
            return code;
        }
        /* Five parts of at most 999,999,999 weeks: no overflow. */
        total += seconds;
    }
    if (total < 1 || total > JSI_EVERY_MAX_S) {
        return refuse_span(source, begin);
    }
    *out_seconds = total;
    return JOBSCHED_OK;
}

/* Exactly count digits at *at, moving it behind them. */
static bool digits(const struct jsi_source *source, size_t *at, size_t end, size_t count,
                   int *out_value)
{
    int value = 0;
    if (end - *at < count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char c = source->bytes[*at + i];
        if (!jsi_is_digit(c)) {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    *at += count;
    *out_value = value;
    return true;
}

static bool letter(const struct jsi_source *source, size_t *at, size_t end, char c)
{
    if (*at == end || source->bytes[*at] != c) {
        return false;
    }
    (*at)++;
    return true;
}

/* What an instant says, before the zone is known. */
struct reading {
    int64_t local;
    bool has_offset;
    int64_t offset;
};

static bool read_suffix(const struct jsi_source *source, size_t at, size_t end,
                        struct reading *reading)
{
    int hours;
    int minutes;
    reading->has_offset = at < end;
    reading->offset = 0;
    if (at == end) {
        return true;
    }
    char sign = source->bytes[at++];
    if (sign == 'Z') {
        return at == end;
    }
    if ((sign != '+' && sign != '-') || !digits(source, &at, end, 2, &hours) ||
        !letter(source, &at, end, ':') || !digits(source, &at, end, 2, &minutes) || at != end ||
        hours > 23 || minutes > 59) {
        return false;
    }
    reading->offset = (sign == '-' ? -1 : 1) * (int64_t)(hours * 3600 + minutes * 60);
    return true;
}

static bool read_instant(const struct jsi_source *source, size_t at, size_t end,
                         struct reading *reading)
{
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second = 0;
    if (!digits(source, &at, end, 4, &year) || !letter(source, &at, end, '-') ||
        !digits(source, &at, end, 2, &month) || !letter(source, &at, end, '-') ||
        !digits(source, &at, end, 2, &day) || !letter(source, &at, end, 'T') ||
        !digits(source, &at, end, 2, &hour) || !letter(source, &at, end, ':') ||
        !digits(source, &at, end, 2, &minute)) {
        return false;
    }
    if (at < end && source->bytes[at] == ':') {
        at++;
        if (!digits(source, &at, end, 2, &second)) {
            return false;
        }
    }
    if (month < 1 || month > 12 || day < 1 || day > jsi_civil_month_days(year, month) ||
        hour > 23 || minute > 59 || second > 59) {
        return false;
    }
    reading->local =
        jsi_civil_days(year, month, day) * JSI_DAY_S + hour * 3600 + minute * 60 + second;
    return read_suffix(source, at, end, reading);
}

int jsi_instant_parse(const struct jsi_source *source, size_t begin, size_t end,
                      const struct jsi_zone *zone, struct jsi_instant *out_instant)
{
    struct reading reading;
    struct jsi_place place = {"instant", begin, JOBSCHED_SYNTAX_INSTANT};
    if (begin == end) {
        return jsi_syntax_fail(source, &place, "an instant is missing");
    }
    if (!read_instant(source, begin, end, &reading)) {
        return jsi_syntax_fail(source, &place, "'%.*s' is not an instant like 2027-01-31T08:30:00Z",
                               (int)(end - begin), source->bytes + begin);
    }
    out_instant->is_local = !reading.has_offset;
    out_instant->nominal = reading.local;
    out_instant->utc = reading.has_offset ? reading.local - reading.offset
                                          : jsi_zone_first_at(zone, reading.local);
    return JOBSCHED_OK;
}
