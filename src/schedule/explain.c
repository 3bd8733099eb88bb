/* explain.c: a schedule in plain English, for people only. No state, no locks. */
#include "schedule/explain.h"

#include <stdio.h>

enum { TIMES_MAX = 8 };

void jsi_explain_values(struct jsi_writer *writer, const struct jsi_values *values,
                        void (*name)(struct jsi_writer *writer, int value))
{
    int size = values->high - values->low + 1;
    int left = 0; /* parts still to come: a run of at least three is one part */
    for (int pass = 0; pass < 2; pass++) {
        int parts = 0;
        for (int i = 0; i < size; i++) {
            if (!values->member[i]) {
                continue;
            }
            int last = i;
            while (last + 1 < size && values->member[last + 1]) {
                last++;
            }
            bool run = last - i >= 2;
            if (pass == 1) {
                jsi_write(writer, "%s", parts == 0 ? "" : parts + 1 == left ? " and " : ", ");
                name(writer, values->low + i);
                if (run) {
                    jsi_write(writer, " to ");
                    name(writer, values->low + last);
                }
            }
            parts++;
            i = run ? last : i;
        }
        left = parts;
    }
}

void jsi_explain_number(struct jsi_writer *writer, int value)
{
    jsi_write(writer, "%d", value);
}

/* "at 03:00, 09:00 and 15:00": short enough to list. */
static void write_times(struct jsi_writer *writer, const struct jsi_cron *cron, int count)
{
    int written = 0;
    jsi_write(writer, "at ");
    for (uint64_t hours = cron->hours; hours != 0; hours &= hours - 1) {
        for (uint64_t minutes = cron->minutes; minutes != 0; minutes &= minutes - 1) {
            for (uint64_t seconds = cron->seconds; seconds != 0; seconds &= seconds - 1) {
                jsi_write(writer, "%s", written == 0 ? "" : written + 1 == count ? " and " : ", ");
                jsi_write(writer, "%02d:%02d", __builtin_ctzll(hours), __builtin_ctzll(minutes));
                if (cron->seconds != 1) {
                    jsi_write(writer, ":%02d", __builtin_ctzll(seconds));
                }
                written++;
            }
        }
    }
}

/* "every 5 minutes", where the set really recurs evenly. */
static bool write_even(struct jsi_writer *writer, const struct jsi_values *values, const char *unit)
{
    int step = jsi_values_step(values);
    if (step == 0 || (values->high + 1) % step != 0) {
        return false;
    }
    if (step == 1) {
        jsi_write(writer, "every %s", unit);
    } else {
        jsi_write(writer, "every %d %ss", step, unit);
    }
    return true;
}

static void write_at(struct jsi_writer *writer, const struct jsi_values *values, const char *unit)
{
    jsi_write(writer, "at %s%s ", unit, jsi_values_count(values) > 1 ? "s" : "");
    jsi_explain_values(writer, values, jsi_explain_number);
}

/* "of every 2nd minute": which minutes of an hour, evenly, some seconds belong to. */
static bool write_of_even_minutes(struct jsi_writer *writer, const struct jsi_cron *cron,
                                  const struct jsi_field_sets *sets)
{
    int step = jsi_values_step(&sets->minute);
    if (cron->seconds == 1 || step <= 1 || (sets->minute.high + 1) % step != 0) {
        return false;
    }
    if (jsi_values_step(&sets->second) == 1) {
        jsi_write(writer, "every second");
    } else {
        write_at(writer, &sets->second, "second");
    }
    jsi_write(writer, " of every %d%s minute", step, step == 2 ? "nd" : step == 3 ? "rd" : "th");
    return true;
}

/* Second, minute and hour, when there are too many to list. Returns whether the text
 * says by itself that it holds all day. */
static void write_recurring(struct jsi_writer *writer, const struct jsi_cron *cron,
                            const struct jsi_field_sets *sets)
{
    bool whole_minute = cron->seconds == 1;
    bool all_minutes = jsi_values_step(&sets->minute) == 1;
    bool all_hours = jsi_values_step(&sets->hour) == 1;
    if (whole_minute && jsi_values_count(&sets->minute) == 1 &&
        write_even(writer, &sets->hour, "hour")) {
        if (cron->minutes != 1) {
            jsi_write(writer, " ");
            write_at(writer, &sets->minute, "minute");
        }
        return;
    }
    bool both = write_of_even_minutes(writer, cron, sets);
    if (!whole_minute && !both) {
        if (!write_even(writer, &sets->second, "second")) {
            write_at(writer, &sets->second, "second");
            jsi_write(writer, "%s", all_minutes ? " of every minute" : "");
        }
    }
    if ((whole_minute || !all_minutes) && !both) {
        jsi_write(writer, "%s", whole_minute ? "" : ", ");
        if (!write_even(writer, &sets->minute, "minute")) {
            write_at(writer, &sets->minute, "minute");
            jsi_write(writer, "%s", all_hours ? " of every hour" : "");
        }
    }
    if (!all_hours) {
        jsi_write(writer, ", in hour%s ", jsi_values_count(&sets->hour) > 1 ? "s" : "");
        jsi_explain_values(writer, &sets->hour, jsi_explain_number);
    }
}

static void write_cron(struct jsi_writer *writer, const struct jsi_cron *cron)
{
    struct jsi_field_sets sets;
    jsi_field_sets(cron, &sets);
    int count = jsi_values_count(&sets.second) * jsi_values_count(&sets.minute) *
                jsi_values_count(&sets.hour);
    bool listed = count <= TIMES_MAX;
    if (listed) {
        write_times(writer, cron, count);
    } else {
        write_recurring(writer, cron, &sets);
    }
    jsi_explain_days(writer, cron, &sets, listed);
}

static void write_span(struct jsi_writer *writer, int64_t seconds)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = {{"day", 86400}, {"hour", 3600}, {"minute", 60}, {"second", 1}};
    bool first = true;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        int64_t count = seconds / units[i].seconds;
        seconds -= count * units[i].seconds;
        if (count > 0) {
            jsi_write(writer, "%s%lld %s%s", first ? "" : " ", (long long)count, units[i].name,
                      count > 1 ? "s" : "");
            first = false;
        }
    }
}

static void write_every(struct jsi_writer *writer, const struct jobsched_schedule *schedule)
{
    jsi_write(writer, "every ");
    write_span(writer, schedule->step);
    jsi_write(writer, " of elapsed time, counted from ");
    jsi_write_local(writer, schedule->anchor.utc);
    jsi_write(writer, "Z");
}

static void write_at_instant(struct jsi_writer *writer, const struct jobsched_schedule *schedule)
{
    int64_t at = schedule->anchor.utc;
    const struct jsi_zone *zone = schedule->zone;
    jsi_write(writer, "once, at ");
    jsi_write_local(writer, at + zone->segments[jsi_zone_find(zone, at)].offset);
}

/* Why nothing ever comes, which is not the same for each kind. */
static const char *never_reason(const struct jobsched_schedule *schedule)
{
    if (schedule->kind == JSI_KIND_AT && !jsi_parsed_at_exists(schedule)) {
        return "outside the years 1970 to 2199";
    }
    if (jsi_parsed_raw_next(schedule, JSI_LOCAL_MIN - 2 * JSI_OFFSET_LIMIT_S) != JSI_NO_TIME) {
        return "calendars exclude all of it";
    }
    return "no such date";
}

size_t jobsched_schedule_explain(const jobsched_schedule *schedule, char *out_text, size_t size)
{
    struct jsi_writer writer = {out_text, out_text != NULL ? size : 0, 0};
    if (schedule == NULL) {
        return 0;
    }
    switch (schedule->kind) {
    case JSI_KIND_CRON:
        write_cron(&writer, &schedule->cron);
        break;
    case JSI_KIND_EVERY:
        write_every(&writer, schedule);
        break;
    case JSI_KIND_AFTER:
        write_span(&writer, schedule->step);
        jsi_write(&writer, " after the end of the run before");
        break;
    case JSI_KIND_AT:
        write_at_instant(&writer, schedule);
        break;
    }
    if (schedule->kind == JSI_KIND_CRON || schedule->kind == JSI_KIND_AT) {
        jsi_write(&writer, ", %s", schedule->zone->name);
    }
    if (schedule->never) {
        jsi_write(&writer, " (never: %s)", never_reason(schedule));
    }
    return writer.length;
}
