/* explain_days.c: days, months and years in plain English. No state, no locks. */
#include "schedule/explain.h"

static void write_weekday(struct jsi_writer *writer, int value)
{
    static const char *const names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
    jsi_write(writer, "%s", names[value % 7]);
}

static void write_month(struct jsi_writer *writer, int value)
{
    static const char *const names[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
    jsi_write(writer, "%s", names[value - 1]);
}

/* Parts of "a, b and c" whose number is not known in advance are joined by " and ". */
static void join(struct jsi_writer *writer, bool *first)
{
    jsi_write(writer, "%s", *first ? "" : " and ");
    *first = false;
}

static void write_before_last(struct jsi_writer *writer, int days)
{
    if (days == 0) {
        jsi_write(writer, "the last day");
    } else {
        jsi_write(writer, "the day %d day%s before the last", days, days > 1 ? "s" : "");
    }
}

static void write_days(struct jsi_writer *writer, const struct jsi_cron *cron,
                       const struct jsi_values *days)
{
    bool first = true;
    int count = jsi_values_count(days);
    if (count > 0) {
        join(writer, &first);
        jsi_write(writer, "day%s ", count > 1 ? "s" : "");
        jsi_explain_values(writer, days, jsi_explain_number);
    }
    for (uint32_t rest = cron->from_end; rest != 0; rest &= rest - 1) {
        join(writer, &first);
        write_before_last(writer, __builtin_ctz(rest));
    }
    for (uint32_t rest = cron->weekday_from_end; rest != 0; rest &= rest - 1) {
        join(writer, &first);
        if (__builtin_ctz(rest) == 0) {
            jsi_write(writer, "the last weekday (Monday to Friday)");
        } else {
            jsi_write(writer, "the weekday nearest to ");
            write_before_last(writer, __builtin_ctz(rest));
        }
    }
    for (uint32_t rest = cron->weekday_near; rest != 0; rest &= rest - 1) {
        join(writer, &first);
        jsi_write(writer, "the weekday nearest to day %d", __builtin_ctz(rest));
    }
}

static bool has_numbered_weekday(const struct jsi_cron *cron)
{
    uint32_t any = cron->last;
    for (int week = 0; week < 5; week++) {
        any |= cron->nth[week];
    }
    return any != 0;
}

static void write_weekdays(struct jsi_writer *writer, const struct jsi_cron *cron,
                           const struct jsi_values *weekdays)
{
    static const char *const ordinals[] = {"first", "second", "third", "fourth", "fifth"};
    bool first = true;
    /* Written from Monday on, so that a weekend is "Saturday and Sunday". */
    struct jsi_values week = {.low = 1, .high = 7};
    memcpy(week.member, weekdays->member + 1, 6 * sizeof week.member[0]);
    week.member[6] = weekdays->member[0];
    if (jsi_values_count(&week) > 0) {
        join(writer, &first);
        jsi_explain_values(writer, &week, write_weekday);
    }
    for (int nth = 0; nth <= 5; nth++) {
        uint32_t set = nth < 5 ? cron->nth[nth] : cron->last;
        for (uint32_t rest = set; rest != 0; rest &= rest - 1) {
            join(writer, &first);
            jsi_write(writer, "the %s ", nth < 5 ? ordinals[nth] : "last");
            write_weekday(writer, __builtin_ctz(rest));
        }
    }
}

/* Behind a day of the month: "of each month", "of March"; else "in March" or nothing. */
static void write_months(struct jsi_writer *writer, const struct jsi_values *months, bool of)
{
    bool all = jsi_values_step(months) == 1;
    if (all && of) {
        jsi_write(writer, " of each month");
    } else if (!all) {
        jsi_write(writer, "%s", of ? " of " : " in ");
        jsi_explain_values(writer, months, write_month);
    }
}

void jsi_explain_days(struct jsi_writer *writer, const struct jsi_cron *cron,
                      const struct jsi_field_sets *sets, bool listed)
{
    bool of = false;
    const char *on = listed ? " on " : ", on ";
    if (cron->any_day && cron->any_weekday) {
        jsi_write(writer, "%s", listed ? " every day" : "");
    } else if (cron->any_weekday) {
        jsi_write(writer, "%s", on);
        write_days(writer, cron, &sets->day);
        of = true;
    } else if (cron->any_day) {
        jsi_write(writer, "%s", on);
        write_weekdays(writer, cron, &sets->weekday);
        of = has_numbered_weekday(cron);
    } else {
        jsi_write(writer, "%s", on);
        write_days(writer, cron, &sets->day);
        jsi_write(writer, " of the month %s ", cron->both ? "if that is" : "or on");
        write_weekdays(writer, cron, &sets->weekday);
    }
    write_months(writer, &sets->month, of);
    if (jsi_values_step(&sets->year) != 1) {
        jsi_write(writer, " in ");
        jsi_explain_values(writer, &sets->year, jsi_explain_number);
    }
}
