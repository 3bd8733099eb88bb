/* format.c: canonical text of a schedule: parsed again, it means the same instants. In
 * the time fields it keeps to the kind that decides what DST does: a fixed-time schedule
 * is written as lists only, an interval-like one has a '*', '-' or '/'. No locks. */
#include "schedule/parsed.h"
#include "schedule/writer.h"

#include <stdio.h>

enum { FIELD_BYTES = 256 };

/* Comma lists begin with nothing, then go on with a comma. */
static const char *comma(const struct jsi_writer *writer)
{
    return writer->length == 0 ? "" : ",";
}

static void write_list(struct jsi_writer *writer, const struct jsi_values *values)
{
    for (int value = values->low; value <= values->high; value++) {
        if (values->member[value - values->low]) {
            jsi_write(writer, "%s%d", comma(writer), value);
        }
    }
}

/* The next member above index that is not yet written, or the size of the set. */
static int next_open(const struct jsi_values *values, const bool *done, int index)
{
    int size = values->high - values->low + 1;
    do {
        index++;
    } while (index < size && (!values->member[index] || done[index]));
    return index;
}

/* Ranges and steps of at least three values, from the smallest value on. */
static void write_ranges(struct jsi_writer *writer, const struct jsi_values *values)
{
    bool done[JSI_VALUES_MAX] = {false};
    int size = values->high - values->low + 1;
    for (int first = next_open(values, done, -1); first < size;
         first = next_open(values, done, first)) {
        int second = next_open(values, done, first);
        int step = second < size ? second - first : 1;
        int last = first;
        int count = 1;
        while (last + step < size && values->member[last + step] && !done[last + step]) {
            last += step;
            count++;
        }
        done[first] = true;
        if (count < 3) {
            jsi_write(writer, "%s%d", comma(writer), values->low + first);
            continue;
        }
        for (int i = first; i <= last; i += step) {
            done[i] = true;
        }
        jsi_write(writer, "%s%d-%d", comma(writer), values->low + first, values->low + last);
        if (step > 1) {
            jsi_write(writer, "/%d", step);
        }
    }
}

/* star: whether "*" may stand for the full set (in day fields it lifts a restriction). */
static void write_compressed(struct jsi_writer *writer, const struct jsi_values *values, bool star)
{
    int step = jsi_values_step(values);
    if (step == 1 && star) {
        jsi_write(writer, "*");
    } else if (step > 1 && (star || jsi_values_count(values) > 2)) {
        jsi_write(writer, "*/%d", step);
    } else {
        write_ranges(writer, values);
    }
}

/* One of second, minute and hour. */
static void time_field(const struct jsi_cron *cron, const struct jsi_values *values, char *out)
{
    struct jsi_writer writer = {out, FIELD_BYTES, 0};
    if (cron->interval_like) {
        write_compressed(&writer, values, true);
    } else {
        write_list(&writer, values);
    }
}

/* "5" becomes "5-5": the one way to say that a plain value is interval-like. */
static void mark_interval(const struct jsi_values *hours, char *out)
{
    struct jsi_writer writer = {out, FIELD_BYTES, 0};
    bool first = true;
    for (int hour = 0; hour <= hours->high; hour++) {
        if (hours->member[hour]) {
            jsi_write(&writer, "%s%d", comma(&writer), hour);
            if (first) {
                jsi_write(&writer, "-%d", hour);
            }
            first = false;
        }
    }
}

static bool has_mark(const char *field)
{
    return strpbrk(field, "*-/") != NULL;
}

static void day_field(const struct jsi_cron *cron, const struct jsi_values *values, char *out)
{
    struct jsi_writer writer = {out, FIELD_BYTES, 0};
    if (cron->any_day) {
        jsi_write(&writer, "*");
        return;
    }
    write_compressed(&writer, values, false);
    for (int n = 0; n <= 30; n++) {
        if (((cron->from_end >> n) & 1) != 0) {
            jsi_write(&writer, n == 0 ? "%sL" : "%sL-%d", comma(&writer), n);
        }
    }
    for (int n = 0; n <= 30; n++) {
        if (((cron->weekday_from_end >> n) & 1) != 0) {
            jsi_write(&writer, n == 0 ? "%sLW" : "%sL-%dW", comma(&writer), n);
        }
    }
    for (int n = 1; n <= 31; n++) {
        if (((cron->weekday_near >> n) & 1) != 0) {
            jsi_write(&writer, "%s%dW", comma(&writer), n);
        }
    }
}

static void weekday_field(const struct jsi_cron *cron, const struct jsi_values *values, char *out)
{
    struct jsi_writer writer = {out, FIELD_BYTES, 0};
    if (cron->any_weekday) {
        jsi_write(&writer, "*");
        return;
    }
    write_compressed(&writer, values, false);
    for (int week = 1; week <= 5; week++) {
        for (int day = 0; day < 7; day++) {
            if (((cron->nth[week - 1] >> day) & 1) != 0) {
                jsi_write(&writer, "%s%d#%d", comma(&writer), day, week);
            }
        }
    }
    for (int day = 0; day < 7; day++) {
        if (((cron->last >> day) & 1) != 0) {
            jsi_write(&writer, "%s%dL", comma(&writer), day);
        }
    }
}

static void write_cron(struct jsi_writer *writer, const struct jsi_cron *cron)
{
    struct jsi_field_sets sets;
    char second[FIELD_BYTES];
    char minute[FIELD_BYTES];
    char hour[FIELD_BYTES];
    char day[FIELD_BYTES];
    char weekday[FIELD_BYTES];
    char month[FIELD_BYTES];
    jsi_field_sets(cron, &sets);
    time_field(cron, &sets.second, second);
    time_field(cron, &sets.minute, minute);
    time_field(cron, &sets.hour, hour);
    if (cron->interval_like && !has_mark(second) && !has_mark(minute) && !has_mark(hour)) {
        mark_interval(&sets.hour, hour);
    }
    day_field(cron, &sets.day, day);
    weekday_field(cron, &sets.weekday, weekday);
    struct jsi_writer months = {month, sizeof month, 0};
    write_compressed(&months, &sets.month, true);
    bool all_years = jsi_values_step(&sets.year) == 1;
    if (!all_years || cron->seconds != 1) {
        jsi_write(writer, "%s ", second);
    }
    bool plus = cron->both && !cron->any_day && !cron->any_weekday;
    jsi_write(writer, "%s %s %s %s %s%s", minute, hour, day, month, plus ? "+" : "", weekday);
    if (!all_years) {
        char year[5 * JSI_YEARS];
        struct jsi_writer years = {year, sizeof year, 0};
        write_compressed(&years, &sets.year, true);
        jsi_write(writer, " %s", year);
    }
}

static void write_duration(struct jsi_writer *writer, int64_t seconds)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'w', 604800}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        int64_t count = seconds / units[i].seconds;
        seconds -= count * units[i].seconds;
        if (count > 0) {
            jsi_write(writer, "%lld%c", (long long)count, units[i].letter);
        }
    }
}

static void write_every(struct jsi_writer *writer, const struct jobsched_schedule *schedule)
{
    jsi_write(writer, "@every ");
    write_duration(writer, schedule->step);
    /* Any point of the grid would do: the first one from 1970 on. */
    int64_t anchor = schedule->anchor.utc;
    int64_t phase = anchor - jsi_floor_div(anchor, schedule->step) * schedule->step;
    if (phase != 0) {
        jsi_write(writer, " from ");
        jsi_write_local(writer, phase);
        jsi_write(writer, "Z");
    }
}

size_t jobsched_schedule_format(const jobsched_schedule *schedule, char *out_text, size_t size)
{
    struct jsi_writer writer = {out_text, out_text != NULL ? size : 0, 0};
    if (schedule == NULL) {
        return 0;
    }
    if (schedule->zone != &jsi_zone_utc) {
        jsi_write(&writer, "CRON_TZ=%s ", schedule->zone->name);
    }
    switch (schedule->kind) {
    case JSI_KIND_CRON:
        write_cron(&writer, &schedule->cron);
        break;
    case JSI_KIND_EVERY:
        write_every(&writer, schedule);
        break;
    case JSI_KIND_AFTER:
        jsi_write(&writer, "@after ");
        write_duration(&writer, schedule->step);
        break;
    case JSI_KIND_AT:
        jsi_write(&writer, "@at ");
        jsi_write_local(&writer, schedule->anchor.utc);
        jsi_write(&writer, "Z");
        break;
    }
    return writer.length;
}
