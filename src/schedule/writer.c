/* writer.c: text into a buffer of the caller. No state, no locks. */
#include "schedule/writer.h"

#include "schedule/cron.h"

#include <stdarg.h>
#include <stdio.h>

void jsi_write(struct jsi_writer *writer, const char *format, ...)
{
    bool room = writer->length < writer->size;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(room ? writer->out + writer->length : NULL,
                            room ? writer->size - writer->length : 0, format, arguments);
    va_end(arguments);
    writer->length += written > 0 ? (size_t)written : 0;
}

int jsi_values_count(const struct jsi_values *values)
{
    int count = 0;
    for (int i = 0; i <= values->high - values->low; i++) {
        count += values->member[i] ? 1 : 0;
    }
    return count;
}

int jsi_values_step(const struct jsi_values *values)
{
    int size = values->high - values->low + 1;
    int step = 1;
    while (step < size && !values->member[step]) {
        step++;
    }
    if (step == size || !values->member[0]) {
        return 0;
    }
    for (int i = 0; i < size; i++) {
        if (values->member[i] != (i % step == 0)) {
            return 0;
        }
    }
    return step;
}

void jsi_write_local(struct jsi_writer *writer, int64_t local)
{
    int64_t days = jsi_floor_div(local, JSI_DAY_S);
    int second = (int)(local - days * JSI_DAY_S);
    struct jsi_date date = jsi_civil_date(days);
    jsi_write(writer, "%04d-%02d-%02dT%02d:%02d:%02d", date.year, date.month, date.day,
              second / 3600, second / 60 % 60, second % 60);
}

static void take(struct jsi_values *values, int low, int high, uint64_t bits)
{
    values->low = low;
    values->high = high;
    for (int value = low; value <= high; value++) {
        values->member[value - low] = ((bits >> value) & 1) != 0;
    }
}

void jsi_field_sets(const struct jsi_cron *cron, struct jsi_field_sets *out_sets)
{
    memset(out_sets, 0, sizeof *out_sets);
    take(&out_sets->second, 0, 59, cron->seconds);
    take(&out_sets->minute, 0, 59, cron->minutes);
    take(&out_sets->hour, 0, 23, cron->hours);
    take(&out_sets->day, 1, 31, cron->days);
    take(&out_sets->month, 1, 12, cron->months);
    take(&out_sets->weekday, 0, 6, cron->weekdays);
    out_sets->year.low = JSI_YEAR_MIN;
    out_sets->year.high = JSI_YEAR_MAX;
    for (int year = JSI_YEAR_MIN; year <= JSI_YEAR_MAX; year++) {
        out_sets->year.member[year - JSI_YEAR_MIN] = jsi_cron_has_year(cron, year);
    }
}
