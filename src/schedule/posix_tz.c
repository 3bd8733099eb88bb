/* posix_tz.c: the POSIX TZ string of a zone file. Pure; no state, no locks. */
#include "schedule/posix_tz.h"

#include "schedule/civil.h"
#include "schedule/syntax.h"
#include "schedule/zone.h"

struct cursor {
    const char *at, *end;
};

static bool take(struct cursor *cursor, char c)
{
    if (cursor->at == cursor->end || *cursor->at != c) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool number(struct cursor *cursor, int low, int high, int *out_value)
{
    int value = 0;
    int digits = 0;
    while (cursor->at < cursor->end && jsi_is_digit(*cursor->at) && digits < 4) {
        value = value * 10 + (*cursor->at - '0');
        cursor->at++;
        digits++;
    }
    if (digits == 0 || value < low || value > high) {
        return false;
    }
    *out_value = value;
    return true;
}

/* At least three letters, or anything quoted by < and >. */
static bool name(struct cursor *cursor)
{
    size_t length = 0;
    if (take(cursor, '<')) {
        while (cursor->at < cursor->end && *cursor->at != '>') {
            char c = *cursor->at++;
            if (!jsi_is_letter(c) && !jsi_is_digit(c) && c != '+' && c != '-') {
                return false;
            }
            length++;
        }
        return length > 0 && take(cursor, '>');
    }
    while (cursor->at < cursor->end && jsi_is_letter(*cursor->at)) {
        cursor->at++;
        length++;
    }
    return length >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool time_of(struct cursor *cursor, int hours_max, int32_t *out_seconds)
{
    int hours;
    int minutes = 0;
    int seconds = 0;
    bool negative = take(cursor, '-');
    if (!negative) {
        (void)take(cursor, '+');
    }
    if (!number(cursor, 0, hours_max, &hours)) {
        return false;
    }
    if (take(cursor, ':')) {
        if (!number(cursor, 0, 59, &minutes)) {
            return false;
        }
        if (take(cursor, ':') && !number(cursor, 0, 59, &seconds)) {
            return false;
        }
    }
    int32_t total = hours * 3600 + minutes * 60 + seconds;
    *out_seconds = negative ? -total : total;
    return true;
}

static bool rule_of(struct cursor *cursor, struct jsi_tz_rule *rule)
{
    if (!take(cursor, ',')) {
        return false;
    }
    rule->time = 2 * 3600;
    if (take(cursor, 'M')) {
        rule->form = JSI_RULE_MONTH_WEEK;
        if (!number(cursor, 1, 12, &rule->month) || !take(cursor, '.') ||
            !number(cursor, 1, 5, &rule->week) || !take(cursor, '.') ||
            !number(cursor, 0, 6, &rule->day)) {
            return false;
        }
    } else if (take(cursor, 'J')) {
        rule->form = JSI_RULE_JULIAN;
        if (!number(cursor, 1, 365, &rule->day)) {
            return false;
        }
    } else {
        rule->form = JSI_RULE_DAY;
        if (!number(cursor, 0, 365, &rule->day)) {
            return false;
        }
    }
    return !take(cursor, '/') || time_of(cursor, 167, &rule->time);
}

bool jsi_posix_tz_parse(const char *text, size_t length, struct jsi_posix_tz *out_tz)
{
    struct cursor cursor = {text, text + length};
    struct jsi_posix_tz tz = {.has_dst = false};
    int32_t west;
    /* POSIX counts offsets west of Greenwich. */
    if (!name(&cursor) || !time_of(&cursor, JSI_OFFSET_LIMIT_S / 3600 - 1, &west)) {
        return false;
    }
    tz.offset = -west;
    if (cursor.at < cursor.end) {
        tz.has_dst = true;
        tz.dst_offset = tz.offset + 3600;
        if (!name(&cursor)) {
            return false;
        }
        if (cursor.at < cursor.end && *cursor.at != ',') {
            if (!time_of(&cursor, JSI_OFFSET_LIMIT_S / 3600 - 1, &west)) {
                return false;
            }
            tz.dst_offset = -west;
        }
        if (tz.dst_offset >= JSI_OFFSET_LIMIT_S || !rule_of(&cursor, &tz.start) ||
            !rule_of(&cursor, &tz.end)) {
            return false;
        }
    }
    if (cursor.at != cursor.end) {
        return false;
    }
    *out_tz = tz;
    return true;
}

static int64_t rule_day(const struct jsi_tz_rule *rule, int year)
{
    if (rule->form == JSI_RULE_DAY) {
        return jsi_civil_days(year, 1, 1) + rule->day;
    }
    if (rule->form == JSI_RULE_JULIAN) {
        int leap_day = jsi_civil_is_leap(year) && rule->day >= 60 ? 1 : 0;
        return jsi_civil_days(year, 1, 1) + rule->day - 1 + leap_day;
    }
    int64_t first = jsi_civil_days(year, rule->month, 1);
    int day = 1 + (rule->day - jsi_civil_weekday(first) + 7) % 7 + 7 * (rule->week - 1);
    if (day > jsi_civil_month_days(year, rule->month)) {
        day -= 7;
    }
    return first + day - 1;
}

int64_t jsi_posix_tz_start(const struct jsi_posix_tz *tz, int year)
{
    return rule_day(&tz->start, year) * JSI_DAY_S + tz->start.time - tz->offset;
}

int64_t jsi_posix_tz_end(const struct jsi_posix_tz *tz, int year)
{
    return rule_day(&tz->end, year) * JSI_DAY_S + tz->end.time - tz->dst_offset;
}
