/* cron_days.c: which days of a month a cron expression means. Bit arithmetic over one
 * month at a time; no state, no locks. */
#include "schedule/cron.h"

/* Rotates a set of weekdays so that bit 0 stands for the given weekday. */
static uint32_t rotate(uint32_t weekdays, int first)
{
    return ((weekdays >> first) | (weekdays << (7 - first))) & 0x7f;
}

/* The weekday nearest to a day, never leaving the month: Saturday to Friday, Sunday to
 * Monday, but the 1st goes forward and the last day goes back. */
static int nearest_weekday(int day, int first_weekday, int length)
{
    int weekday = (first_weekday + day - 1) % 7;
    if (weekday == 6) {
        return day > 1 ? day - 1 : day + 2;
    }
    if (weekday == 0) {
        return day < length ? day + 1 : day - 2;
    }
    return day;
}

static uint32_t special_days(const struct jsi_cron *cron, int first_weekday, int length)
{
    uint32_t mask = 0;
    for (uint32_t rest = cron->from_end; rest != 0; rest &= rest - 1) {
        int day = length - __builtin_ctz(rest);
        mask |= day >= 1 ? UINT32_C(1) << day : 0;
    }
    for (uint32_t rest = cron->weekday_from_end; rest != 0; rest &= rest - 1) {
        int day = length - __builtin_ctz(rest);
        mask |= day >= 1 ? UINT32_C(1) << nearest_weekday(day, first_weekday, length) : 0;
    }
    for (uint32_t rest = cron->weekday_near; rest != 0; rest &= rest - 1) {
        int day = __builtin_ctz(rest);
        mask |= day <= length ? UINT32_C(1) << nearest_weekday(day, first_weekday, length) : 0;
    }
    return mask;
}

static uint32_t weekday_days(const struct jsi_cron *cron, int first_weekday, int length)
{
    /* One week's pattern, repeated every seven bits from day 1 on. */
    uint64_t mask = (uint64_t)rotate(cron->weekdays, first_weekday) * UINT64_C(0x10204081) << 1;
    for (int week = 0; week < 5; week++) {
        mask |= (uint64_t)rotate(cron->nth[week], first_weekday) << (7 * week + 1);
    }
    int last_week = length - 6;
    mask |= (uint64_t)rotate(cron->last, (first_weekday + last_week - 1) % 7) << last_week;
    return (uint32_t)mask;
}

uint32_t jsi_cron_month_mask(const struct jsi_cron *cron, int first_weekday, int length)
{
    uint32_t in_month = (uint32_t)((UINT64_C(2) << length) - 2);
    uint32_t by_day = cron->days;
    if ((cron->from_end | cron->weekday_from_end | cron->weekday_near) != 0) {
        by_day |= special_days(cron, first_weekday, length);
    }
    if (cron->any_weekday) {
        return by_day & in_month;
    }
    uint32_t by_weekday = weekday_days(cron, first_weekday, length);
    if (cron->any_day) {
        return by_weekday & in_month;
    }
    /* POSIX: two restricted day fields are alternatives. '+' makes both necessary. */
    return (cron->both ? by_day & by_weekday : by_day | by_weekday) & in_month;
}

bool jsi_cron_has_year(const struct jsi_cron *cron, int year)
{
    int bit = year - JSI_YEAR_MIN;
    return bit >= 0 && bit < JSI_YEARS && ((cron->years[bit / 64] >> (bit % 64)) & 1) != 0;
}

bool jsi_cron_has_no_day(const struct jsi_cron *cron)
{
    bool seen[2][7] = {{false}};
    for (int year = JSI_YEAR_MIN; year <= JSI_YEAR_MAX; year++) {
        if (!jsi_cron_has_year(cron, year)) {
            continue;
        }
        int first = jsi_civil_weekday(jsi_civil_days(year, 1, 1));
        bool *kind = &seen[jsi_civil_is_leap(year) ? 1 : 0][first];
        if (*kind) {
            continue;
        }
        *kind = true;
        for (int month = 1; month <= 12; month++) {
            int length = jsi_civil_month_days(year, month);
            if (((cron->months >> month) & 1) != 0 &&
                jsi_cron_month_mask(cron, first, length) != 0) {
                return false;
            }
            first = (first + length) % 7;
        }
    }
    return true;
}
