/* instant.c: instants and spans as text, by arithmetic on the proleptic Gregorian calendar; local
 * times are resolved by the library. No state, no locks. */
#include "ctl/instant.h"

#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)

typedef struct civil {
    int64_t year;
    int month, day, hour, minute, second, weekday; /* Sunday is 0 */
} civil;

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/* Years begin in March here, so that the leap day is the last of its year; 400 years are one
 * period of 146,097 days, and 1 March 0000 is 719,468 days before 1970. */
static int64_t days_of(int64_t year, int month, int day)
{
    int64_t shifted = month > 2 ? year : year - 1;
    int64_t era = floor_divide(shifted, 400);
    int64_t of_era = shifted - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static civil civil_of(int64_t local_ms)
{
    int64_t days = floor_divide(local_ms, DAY_MS);
    int64_t seconds = (local_ms - days * DAY_MS) / 1000;
    int64_t from_march = days + 719468;
    int64_t era = floor_divide(from_march, 146097);
    int64_t of_era = from_march - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    civil result;

    result.day = (int)(of_year - (153 * month + 2) / 5 + 1);
    result.month = (int)(month < 10 ? month + 3 : month - 9);
    result.year = era * 400 + year + (result.month <= 2);
    result.hour = (int)(seconds / 3600);
    result.minute = (int)(seconds / 60 % 60);
    result.second = (int)(seconds % 60);
    result.weekday = (int)(days + 4 - 7 * floor_divide(days + 4, 7));
    return result;
}

void ctl_instant_wall(int64_t local_ms, char out_text[CTL_INSTANT_BYTES])
{
    civil at = civil_of(local_ms);

    (void)snprintf(out_text, CTL_INSTANT_BYTES, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d", at.year,
                   at.month, at.day, at.hour, at.minute, at.second);
}

void ctl_instant_utc(int64_t at_ms, char out_text[CTL_INSTANT_BYTES])
{
    char wall[CTL_INSTANT_BYTES];

    ctl_instant_wall(at_ms, wall);
    (void)snprintf(out_text, CTL_INSTANT_BYTES, "%.46sZ", wall);
}

static void offset_text(int32_t offset_s, char text[16])
{
    int32_t size = offset_s < 0 ? -offset_s : offset_s;
    int used = snprintf(text, 16, "%c%02d:%02d", offset_s < 0 ? '-' : '+', (int)(size / 3600 % 100),
                        (int)(size / 60 % 60));

    if (size % 60 != 0 && used > 0) {
        (void)snprintf(text + used, 16 - (size_t)used, ":%02d", (int)(size % 60));
    }
}

void ctl_instant_local(int64_t local_ms, int32_t offset_s, char out_text[CTL_INSTANT_BYTES])
{
    char wall[CTL_INSTANT_BYTES], offset[16];

    ctl_instant_wall(local_ms, wall);
    offset_text(offset_s, offset);
    (void)snprintf(out_text, CTL_INSTANT_BYTES, "%.30s%s", wall, offset);
}

void ctl_instant_people(int64_t local_ms, int32_t offset_s, char out_text[CTL_INSTANT_BYTES])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    civil at = civil_of(local_ms);
    char offset[16];

    offset_text(offset_s, offset);
    (void)snprintf(out_text, CTL_INSTANT_BYTES, "%s %04" PRId64 "-%02d-%02d %02d:%02d:%02d %s",
                   days[at.weekday], at.year, at.month, at.day, at.hour, at.minute, at.second,
                   offset);
}

void ctl_instant_date(int64_t local_ms, char out_text[CTL_INSTANT_BYTES])
{
    civil at = civil_of(local_ms);

    (void)snprintf(out_text, CTL_INSTANT_BYTES, "%04" PRId64 "-%02d-%02d", at.year, at.month,
                   at.day);
}

void ctl_instant_time(int64_t local_ms, char out_text[CTL_INSTANT_BYTES])
{
    civil at = civil_of(local_ms);

    if (at.second == 0) {
        (void)snprintf(out_text, CTL_INSTANT_BYTES, "%02d:%02d", at.hour, at.minute);
    } else {
        (void)snprintf(out_text, CTL_INSTANT_BYTES, "%02d:%02d:%02d", at.hour, at.minute,
                       at.second);
    }
}

void ctl_span_text(int64_t span_ms, char out_text[CTL_INSTANT_BYTES])
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    int64_t seconds = span_ms / 1000;
    int unit = 0;

    while (unit < 3 && seconds < units[unit].seconds) {
        unit++;
    }
    int64_t first = seconds / units[unit].seconds;
    int64_t second = unit == 3 ? 0 : seconds % units[unit].seconds / units[unit + 1].seconds;
    if (second == 0) {
        (void)snprintf(out_text, CTL_INSTANT_BYTES, "%" PRId64 "%c", first, units[unit].letter);
    } else {
        (void)snprintf(out_text, CTL_INSTANT_BYTES, "%" PRId64 "%c %" PRId64 "%c", first,
                       units[unit].letter, second, units[unit + 1].letter);
    }
}

/* ---- Reading ---- */

/* Reads exactly count digits. */
static int digits(const char **at, int count, int low, int high, int *out_value)
{
    int value = 0;

    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9') {
            return 0;
        }
        value = value * 10 + (**at - '0');
    }
    *out_value = value;
    return value >= low && value <= high;
}

static int literal(const char **at, char c)
{
    if (**at != c) {
        return 0;
    }
    (*at)++;
    return 1;
}

static int days_in_month(int year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return lengths[month - 1] + (month == 2 && leap);
}

/* Sub-second digits behind the dot: milliseconds, rounded down as the library does. */
static int fraction(const char **at, int64_t *out_ms)
{
    int count = 0;
    int64_t unit = 100;

    *out_ms = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++, count++) {
        *out_ms += (**at - '0') * unit;
        unit /= 10;
    }
    return count > 0;
}

/* The date and time of day as if they were UTC; *at is left behind them. */
static int read_wall(const char **at, int64_t *out_ms)
{
    int year, month, day, hour, minute, second = 0;
    int64_t part_ms = 0;

    if (!digits(at, 4, 1, 9999, &year) || !literal(at, '-') || !digits(at, 2, 1, 12, &month) ||
        !literal(at, '-') || !digits(at, 2, 1, days_in_month(year, month), &day) ||
        !literal(at, 'T') || !digits(at, 2, 0, 23, &hour) || !literal(at, ':') ||
        !digits(at, 2, 0, 59, &minute)) {
        return 0;
    }
    if (literal(at, ':') && !digits(at, 2, 0, 59, &second)) {
        return 0;
    }
    if (literal(at, '.') && !fraction(at, &part_ms)) {
        return 0;
    }
    *out_ms = days_of(year, month, day) * DAY_MS +
              (hour * INT64_C(3600) + minute * 60 + second) * 1000 + part_ms;
    return 1;
}

static int read_offset(const char **at, int64_t *out_ms)
{
    int sign = **at == '-' ? -1 : 1;
    int hours, minutes;

    *out_ms = 0;
    if (literal(at, 'Z')) {
        return 1;
    }
    if ((!literal(at, '+') && !literal(at, '-')) || !digits(at, 2, 0, 23, &hours) ||
        !literal(at, ':') || !digits(at, 2, 0, 59, &minutes)) {
        return 0;
    }
    *out_ms = sign * (hours * INT64_C(3600) + minutes * 60) * 1000;
    return 1;
}

/* Gaps and overlaps are the library's business. */
static int resolve(const char *text, const char *zone, int64_t *out_at_ms)
{
    char expression[CTL_INSTANT_BYTES + 8];
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    int64_t at_ms;

    (void)snprintf(expression, sizeof expression, "@at %.40s", text);
    JOBSCHED_INIT(&options);
    options.timezone = zone;
    if (jobsched_schedule_parse(expression, &options, &schedule) != JOBSCHED_OK) {
        return -1;
    }
    at_ms = jobsched_schedule_next(schedule, INT64_MIN);
    jobsched_schedule_free(schedule);
    if (at_ms == JOBSCHED_NONE) {
        return -1;
    }
    *out_at_ms = at_ms;
    return 0;
}

int ctl_instant_read(const char *text, const char *zone, int64_t *out_at_ms, char message[],
                     size_t message_bytes)
{
    const char *at = text;
    int64_t wall_ms, offset_ms;

    if (strcmp(text, "now") == 0) {
        *out_at_ms = ctl_now_ms();
        return 0;
    }
    if (!read_wall(&at, &wall_ms)) {
        (void)snprintf(message, message_bytes,
                       "'%.64s' is not an instant like 2027-01-31T08:30:00Z, "
                       "2027-01-31T08:30:00+01:00, 2027-01-31T08:30 or now",
                       text);
        return -1;
    }
    if (*at == '\0') {
        if (resolve(text, zone, out_at_ms) == 0) {
            return 0;
        }
        (void)snprintf(message, message_bytes,
                       "'%.64s' is not a local time of the years 1970 to 2199 on a whole second",
                       text);
        return -1;
    }
    if (!read_offset(&at, &offset_ms) || *at != '\0') {
        (void)snprintf(message, message_bytes,
                       "'%.64s': what follows the time is neither Z nor an offset like +01:00",
                       text);
        return -1;
    }
    *out_at_ms = wall_ms - offset_ms;
    return 0;
}

int32_t ctl_zone_offset(const char *zone, int64_t at_ms)
{
    char text[CTL_INSTANT_BYTES], expression[CTL_INSTANT_BYTES + 8];
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    jobsched_occurrence occurrence;
    int32_t offset_s = 0;

    ctl_instant_utc(at_ms, text);
    (void)snprintf(expression, sizeof expression, "@at %s", text);
    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&occurrence);
    options.timezone = zone;
    if (jobsched_schedule_parse(expression, &options, &schedule) == JOBSCHED_OK) {
        if (jobsched_schedule_occurrence(schedule, floor_divide(at_ms, 1000) * 1000, &occurrence) ==
            JOBSCHED_OK) {
            offset_s = occurrence.offset_s;
        }
        jobsched_schedule_free(schedule);
    }
    return offset_s;
}
