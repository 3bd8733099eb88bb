/* walker.c: a slow and obvious evaluator of cron texts. It interprets the text anew for
 * every date and shares nothing with the library. */
#include "unit/walker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

const struct walker_zone walker_utc = {1, {INT64_MIN / 4}, {0}};

static const int lows[7] = {0, 0, 0, 1, 1, 0, 1970};
static const int highs[7] = {59, 59, 23, 31, 12, 7, 2199};
static const int sizes[7] = {60, 60, 24, 31, 12, 7, 230};
static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const day_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static bool leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int length_of(int year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month - 1] + (month == 2 && leap(year) ? 1 : 0);
}

struct date {
    int year, month, day, weekday;
};

/* Counts years and months from 1970 on. */
static struct date date_of(int64_t days)
{
    struct date date = {1970, 1, 1, (int)((days + 4) % 7)};
    while (days >= (leap(date.year) ? 366 : 365)) {
        days -= leap(date.year) ? 366 : 365;
        date.year++;
    }
    while (days >= length_of(date.year, date.month)) {
        days -= length_of(date.year, date.month);
        date.month++;
    }
    date.day += (int)days;
    return date;
}

static int number_at(int field, const char **at)
{
    if (**at >= '0' && **at <= '9') {
        return (int)strtol(*at, (char **)(uintptr_t)at, 10);
    }
    for (int i = 0; i < 12; i++) {
        const char *name = field == 4 ? month_names[i] : i < 7 ? day_names[i] : "";
        if (name[0] != '\0' && strncasecmp(*at, name, 3) == 0) {
            *at += 3;
            return lows[field] + i;
        }
    }
    abort();
}

/* Walks the values of one plain element and compares each with the wanted one. */
static bool item_holds(int field, const char *text, int wanted)
{
    const char *at = text;
    int low = lows[field];
    int high = highs[field];
    bool ranged = false;
    if (*at == '*') {
        at++;
    } else {
        low = number_at(field, &at);
        high = low;
        if (*at == '-') {
            at++;
            ranged = true;
            high = number_at(field, &at);
        } else if (*at == '/') {
            high = highs[field];
        }
        /* A leading 7 is 0; only "7" and "7-7" are Sunday alone. */
        if (field == 5 && low == 7 && !(high == 7 && (ranged || *at == '\0'))) {
            low = 0;
        }
    }
    int step = *at == '/' ? atoi(at + 1) : 1;
    int turns = (high >= low ? high - low : high - low + sizes[field]) / step;
    for (int turn = 0; turn <= turns; turn++) {
        int value = low + turn * step;
        if (field != 5 && value > highs[field]) {
            value -= sizes[field];
        }
        if (value == wanted || (field == 5 && value % 7 == wanted % 7)) {
            return true;
        }
    }
    return false;
}

/* The weekday (Monday to Friday) nearest to a day, within the month. */
static int nearest(const struct date *date, int day)
{
    int length = length_of(date->year, date->month);
    for (int distance = 0; distance < 4; distance++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            int candidate = day + sign * distance;
            /* On both sides at the same distance: Friday for Saturday, Monday for Sunday,
             * which is the only one of the two that is no weekend day. */
            int weekday = (date->weekday + candidate - date->day + 70) % 7;
            if (candidate >= 1 && candidate <= length && weekday != 0 && weekday != 6) {
                return candidate;
            }
        }
    }
    abort();
}

static bool day_element_holds(const char *text, const struct date *date)
{
    int length = length_of(date->year, date->month);
    bool weekday = text[strlen(text) - 1] == 'W';
    if (text[0] == '?') {
        return true;
    }
    if (text[0] != 'L' && !weekday) {
        return item_holds(3, text, date->day);
    }
    int day = text[0] == 'L' ? length - (text[1] == '-' ? atoi(text + 2) : 0) : atoi(text);
    if (day < 1 || day > length) {
        return false;
    }
    return date->day == (weekday ? nearest(date, day) : day);
}

static bool weekday_element_holds(const char *text, const struct date *date)
{
    const char *at = text;
    const char *hash = strchr(text, '#');
    bool last = text[strlen(text) - 1] == 'L';
    if (text[0] == '?') {
        return true;
    }
    if (hash == NULL && !last) {
        return item_holds(5, text, date->weekday);
    }
    if (number_at(5, &at) % 7 != date->weekday) {
        return false;
    }
    if (last) {
        return date->day + 7 > length_of(date->year, date->month);
    }
    return (date->day - 1) / 7 == atoi(hash + 1) - 1;
}

static bool field_holds(const struct walker *walker, int field, int value, const struct date *date)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", walker->fields[field]);
    char *rest = copy[0] == '+' ? copy + 1 : copy;
    for (char *part = strsep(&rest, ","); part != NULL; part = strsep(&rest, ",")) {
        bool holds = field == 3   ? day_element_holds(part, date)
                     : field == 5 ? weekday_element_holds(part, date)
                                  : item_holds(field, part, value);
        if (holds) {
            return true;
        }
    }
    return false;
}

/* Whether a day field has an element that means "any day". */
static bool lifted(const char *field)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", field[0] == '+' ? field + 1 : field);
    char *rest = copy;
    for (char *part = strsep(&rest, ","); part != NULL; part = strsep(&rest, ",")) {
        if (strcmp(part, "*") == 0 || strcmp(part, "?") == 0 ||
            (strncmp(part, "*/", 2) == 0 && atoi(part + 2) == 1)) {
            return true;
        }
    }
    return false;
}

static bool day_holds(const struct walker *walker, const struct date *date)
{
    if (!field_holds(walker, 4, date->month, date) || !field_holds(walker, 6, date->year, date)) {
        return false;
    }
    bool any_day = lifted(walker->fields[3]);
    bool any_weekday = lifted(walker->fields[5]);
    bool day = any_day || field_holds(walker, 3, 0, date);
    bool weekday = any_weekday || field_holds(walker, 5, 0, date);
    bool either = !any_day && !any_weekday && walker->fields[5][0] != '+';
    return either ? day || weekday : day && weekday;
}

void walker_init(struct walker *walker, const char *text)
{
    char copy[512];
    char words[8][64];
    int count = 0;
    memset(walker, 0, sizeof *walker);
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    for (char *part = strsep(&rest, " \t"); part != NULL; part = strsep(&rest, " \t")) {
        if (part[0] != '\0' && count < 8) {
            (void)snprintf(words[count++], sizeof words[0], "%s", part);
        }
    }
    (void)snprintf(walker->fields[0], sizeof walker->fields[0], "0");
    (void)snprintf(walker->fields[6], sizeof walker->fields[6], "*");
    for (int i = 0; i < count; i++) {
        memcpy(walker->fields[count == 5 ? i + 1 : i], words[i], sizeof words[i]);
    }
    for (int value = 0; value < 60; value++) {
        walker->second[value] = field_holds(walker, 0, value, NULL);
        walker->minute[value] = field_holds(walker, 1, value, NULL);
        if (value < 24) {
            walker->hour[value] = field_holds(walker, 2, value, NULL);
        }
    }
    for (int field = 0; field < 3; field++) {
        walker->interval_like =
            walker->interval_like || strpbrk(walker->fields[field], "*-/") != NULL;
    }
    walker->gap_runs = !walker->interval_like;
    walker->overlap_both = walker->interval_like;
}

/* The last date asked about is remembered: most questions are about one day. */
static bool local_day_holds(struct walker *walker, int64_t days)
{
    if (!walker->remembers || walker->remembered_day != days) {
        struct date date = date_of(days);
        walker->remembers = true;
        walker->remembered_day = days;
        walker->remembered = day_holds(walker, &date);
    }
    return walker->remembered;
}

bool walker_matches_local(struct walker *walker, int64_t local)
{
    if (local < 0 || local > INT64_C(7258118399)) {
        return false;
    }
    int second = (int)(local % 86400);
    if (!walker->second[second % 60] || !walker->minute[second / 60 % 60] ||
        !walker->hour[second / 3600]) {
        return false;
    }
    return local_day_holds(walker, local / 86400);
}

/* Whether the zone's clock had shown this time, or a later one, before a segment. */
static bool reached_before(const struct walker_zone *zone, int segment, int64_t local)
{
    for (int i = 0; i < segment; i++) {
        if (zone->start[i + 1] + zone->offset[i] > local) {
            return true;
        }
    }
    return false;
}

static bool gap_fires(struct walker *walker, const struct walker_zone *zone, int segment)
{
    if (segment == 0 || !walker->gap_runs) {
        return false;
    }
    int64_t begin = zone->start[segment] + zone->offset[segment - 1];
    int64_t end = zone->start[segment] + zone->offset[segment];
    if (end - begin >= 86400) {
        return false;
    }
    for (int64_t local = begin; local < end; local++) {
        if (!reached_before(zone, segment, local) && walker_matches_local(walker, local)) {
            return true;
        }
    }
    return false;
}

int walker_list(struct walker *walker, const struct walker_zone *zone, int64_t from, int64_t to,
                int64_t *out, int limit)
{
    int count = 0;
    int segment = 0;
    for (int64_t utc = from; utc < to && count < limit; utc++) {
        while (segment + 1 < zone->count && zone->start[segment + 1] <= utc) {
            segment++;
        }
        int64_t local = utc + zone->offset[segment];
        bool fires = walker_matches_local(walker, local) &&
                     (walker->overlap_both || !reached_before(zone, segment, local));
        if (!fires && utc == zone->start[segment]) {
            fires = gap_fires(walker, zone, segment);
        }
        if (fires) {
            out[count++] = utc;
        }
        if (zone->count == 1 && local >= 0 && local % 86400 == 0 &&
            !local_day_holds(walker, local / 86400)) {
            utc += 86399; /* a whole day without a match, and no transition in it */
        }
    }
    return count;
}

uint64_t walker_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = *state;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t walker_fresh_seed(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = (uint64_t)now.tv_sec * 1000003U + (uint64_t)now.tv_nsec + (uint64_t)getpid();
    return walker_random(&state);
}

static int between(uint64_t *state, int low, int high)
{
    return low + (int)(walker_random(state) % (uint64_t)(high - low + 1));
}

static void value_text(uint64_t *state, int field, char *out, size_t size)
{
    int low = lows[field];
    int high = field == 6 ? 2060 : highs[field];
    if (field == 4 && between(state, 0, 2) == 0) {
        (void)snprintf(out, size, "%s", month_names[between(state, 0, 11)]);
    } else if (field == 5 && between(state, 0, 2) == 0) {
        (void)snprintf(out, size, "%s", day_names[between(state, 0, 6)]);
    } else {
        int width = between(state, 0, 5) == 0 ? 2 : 1;
        (void)snprintf(out, size, "%0*d", width, between(state, low, high));
    }
}

static void element_text(uint64_t *state, int field, char *out, size_t size)
{
    char a[8];
    char b[8];
    value_text(state, field, a, sizeof a);
    value_text(state, field, b, sizeof b);
    int step = between(state, 1, between(state, 0, 1) == 0 ? 3 : sizes[field]);
    int form = between(state, 0, field == 3 || field == 5 ? 10 : 6);
    int n = between(state, 1, 30);
    if (field == 6 && (form == 2 || form == 4) && atoi(a) > atoi(b)) {
        form = 0; /* a reversed range of years is refused */
    }
    if (form < 2) {
        (void)snprintf(out, size, "%s", a);
    } else if (form == 2) {
        (void)snprintf(out, size, "%s-%s", a, b);
    } else if (form == 3) {
        (void)snprintf(out, size, "%s/%d", a, step);
    } else if (form == 4) {
        (void)snprintf(out, size, "%s-%s/%d", a, b, step);
    } else if (form == 5) {
        (void)snprintf(out, size, "*/%d", step);
    } else if (form == 6) {
        (void)snprintf(out, size, "*");
    } else if (field == 3 && form == 7) {
        (void)snprintf(out, size, n % 2 == 0 ? "L" : "LW");
    } else if (field == 3 && form == 8) {
        (void)snprintf(out, size, "L-%d", n);
    } else if (field == 3 && form == 9) {
        (void)snprintf(out, size, "L-%dW", n);
    } else if (field == 3) {
        (void)snprintf(out, size, "%dW", n);
    } else if (form < 9) {
        (void)snprintf(out, size, "%s#%d", a, between(state, 1, 5));
    } else {
        (void)snprintf(out, size, "%s%s", a, form == 9 ? "#L" : "L");
    }
}

static void field_text(uint64_t *state, int field, char *out, size_t size)
{
    out[0] = '\0';
    int count = between(state, 0, 3) == 0 ? between(state, 2, 3) : 1;
    if (field >= 3 && between(state, 0, 9) < 4) {
        (void)snprintf(out, size, field < 6 && field != 4 && between(state, 0, 1) == 0 ? "?" : "*");
        return;
    }
    size_t used = 0;
    if (field == 5 && between(state, 0, 3) == 0) {
        out[used++] = '+';
    }
    for (int i = 0; i < count; i++) {
        char element[24];
        element_text(state, field, element, sizeof element);
        used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "" : ",", element);
    }
}

void walker_expression(uint64_t *state, char *out, size_t size)
{
    int count = between(state, 5, 7);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        char field[96];
        field_text(state, count == 5 ? i + 1 : i, field, sizeof field);
        used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "" : " ", field);
    }
}
