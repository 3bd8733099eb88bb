/* walk.c: see the header. Days are walked one by one: slow and obvious. */
#include "sim/walk.h"

#include <stdio.h>

enum { MINUTE_MS = 60000, HOUR_MS = 3600000, DAY_MS = 86400000, DAYS_MAX = 366 * 9 };

/* Counted by hand from the beginning of 1970; a year at a time. */
static void date_of(int64_t day, int *out_month, int *out_day)
{
    static const int lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = 1970;
    for (;;) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        if (day < (leap ? 366 : 365)) {
            break;
        }
        day -= leap ? 366 : 365;
        year++;
    }
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int month = 0;
    while (day >= lengths[month] + (month == 1 && leap)) {
        day -= lengths[month] + (month == 1 && leap);
        month++;
    }
    *out_month = month + 1;
    *out_day = (int)day + 1;
}

static bool day_matches(const struct walk *walk, int64_t day)
{
    bool by_weekday = walk->by_weekday && ((walk->weekdays >> ((day + 4) % 7)) & 1) != 0;
    if (walk->by_weekday && !walk->by_day) {
        return by_weekday; /* no month is restricted together with a weekday here */
    }
    if (!walk->by_day) {
        return true;
    }
    int month, day_of_month;
    date_of(day, &month, &day_of_month);
    return (((walk->days >> day_of_month) & 1) != 0 && ((walk->months >> month) & 1) != 0) ||
           by_weekday;
}

static int64_t cron_next(const struct walk *walk, int64_t after_ms)
{
    int64_t minute_ms = after_ms - after_ms % MINUTE_MS + MINUTE_MS;
    int64_t day = minute_ms / DAY_MS;
    int64_t minute = minute_ms % DAY_MS / MINUTE_MS;
    for (int64_t last = day + DAYS_MAX; day < last; day++, minute = 0) {
        if (!day_matches(walk, day)) {
            continue;
        }
        for (int64_t hour = minute / 60; hour < 24; hour++) {
            if (((walk->hours >> hour) & 1) == 0) {
                continue;
            }
            for (int64_t m = hour * 60 < minute ? minute - hour * 60 : 0; m < 60; m++) {
                if (((walk->minutes >> m) & 1) != 0) {
                    return day * DAY_MS + hour * HOUR_MS + m * MINUTE_MS;
                }
            }
        }
    }
    return WALK_NEVER;
}

int64_t walk_next(const struct walk *walk, int64_t after_ms)
{
    switch (walk->kind) {
    case WALK_EVERY:
        return ((after_ms - walk->phase_ms) / walk->step_ms + 1) * walk->step_ms + walk->phase_ms;
    case WALK_AT:
        return walk->phase_ms > after_ms ? walk->phase_ms : WALK_NEVER;
    case WALK_AFTER:
    case WALK_OFF:
        return WALK_NEVER;
    default:
        return cron_next(walk, after_ms);
    }
}

uint64_t walk_count(const struct walk *walk, int64_t after_ms, int64_t upto_ms, uint64_t limit)
{
    if (walk->kind == WALK_EVERY) {
        int64_t first_ms = walk_next(walk, after_ms);
        return first_ms > upto_ms ? 0 : (uint64_t)((upto_ms - first_ms) / walk->step_ms + 1);
    }
    uint64_t count = 0;
    for (int64_t at_ms = walk_next(walk, after_ms); at_ms <= upto_ms && count < limit;
         at_ms = walk_next(walk, at_ms)) {
        count++;
    }
    return count;
}

/* "*", a single value, or a list. */
static size_t field(char *out, size_t bytes, uint64_t mask, bool restricted, int low, int high)
{
    size_t length = 0;
    bool all = true;
    for (int value = low; value <= high; value++) {
        all = all && ((mask >> value) & 1) != 0;
    }
    if (!restricted || all) {
        return (size_t)snprintf(out, bytes, "* ");
    }
    for (int value = low; value <= high; value++) {
        if (((mask >> value) & 1) != 0 && length < bytes) {
            length += (size_t)snprintf(out + length, bytes - length, "%d,", value);
        }
    }
    out[length - 1] = ' ';
    return length;
}

void walk_text(const struct walk *walk, char *out_text, size_t text_bytes)
{
    if (walk->kind == WALK_AFTER || walk->kind == WALK_EVERY) {
        int length = snprintf(out_text, text_bytes, "@%s %llds",
                              walk->kind == WALK_AFTER ? "after" : "every",
                              (long long)(walk->step_ms / 1000));
        if (walk->kind == WALK_EVERY && walk->phase_ms != 0) {
            (void)snprintf(out_text + length, text_bytes - (size_t)length,
                           " from 1970-01-01T00:%02lld:%02lldZ",
                           (long long)(walk->phase_ms / MINUTE_MS),
                           (long long)(walk->phase_ms % MINUTE_MS / 1000));
        }
        return;
    }
    if (walk->kind == WALK_AT) {
        /* Always within the first year of a world, which begins in 2027. */
        int year = walk->phase_ms < INT64_C(1830297600000) ? 2027 : 2028;
        int64_t second = walk->phase_ms / 1000;
        int month, day;
        date_of(second / 86400, &month, &day);
        (void)snprintf(out_text, text_bytes, "@at %d-%02d-%02dT%02lld:%02lld:%02lldZ", year, month,
                       day, (long long)(second % 86400 / 3600), (long long)(second % 3600 / 60),
                       (long long)(second % 60));
        return;
    }
    size_t at = field(out_text, text_bytes, walk->minutes, true, 0, 59);
    at += field(out_text + at, text_bytes - at, walk->hours, true, 0, 23);
    at += field(out_text + at, text_bytes - at, walk->days, walk->by_day, 1, 31);
    at += field(out_text + at, text_bytes - at, walk->months, walk->by_day, 1, 12);
    at += field(out_text + at, text_bytes - at, walk->weekdays, walk->by_weekday, 0, 6);
    out_text[at - 1] = '\0';
}
