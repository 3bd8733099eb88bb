/* civil.c: the proleptic Gregorian calendar. Pure arithmetic: no libc time functions,
 * which look at the process's time zone. No state, no locks. */
#include "schedule/civil.h"

/* Years are counted from 1 March, so that the leap day is the last day of its year
 * and month lengths follow one linear formula (153 days per five months). */
enum { DAYS_PER_ERA = 146097, YEARS_PER_ERA = 400, DAYS_TO_EPOCH = 719468 };

int64_t jsi_civil_days(int year, int month, int day)
{
    int64_t shifted = (int64_t)year - (month <= 2 ? 1 : 0);
    int64_t era = jsi_floor_div(shifted, YEARS_PER_ERA);
    int64_t year_of_era = shifted - era * YEARS_PER_ERA;
    int64_t month_from_march = (month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH;
}

struct jsi_date jsi_civil_date(int64_t days)
{
    int64_t shifted = days + DAYS_TO_EPOCH;
    int64_t era = jsi_floor_div(shifted, DAYS_PER_ERA);
    int64_t day_of_era = shifted - era * DAYS_PER_ERA;
    /* Takes the leap days out, so that what remains divides by 365. */
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    struct jsi_date date;
    date.day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    date.month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    date.year = (int)(year_of_era + era * YEARS_PER_ERA + (date.month <= 2 ? 1 : 0));
    return date;
}

bool jsi_civil_is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int jsi_civil_month_days(int year, int month)
{
    static const unsigned char lengths[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month] + (month == 2 && jsi_civil_is_leap(year) ? 1 : 0);
}

int jsi_civil_weekday(int64_t days)
{
    /* 1970-01-01 was a Thursday. */
    int64_t shifted = days + 4;
    return (int)(shifted - jsi_floor_div(shifted, 7) * 7);
}
