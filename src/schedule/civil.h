/* civil.h: the proleptic Gregorian calendar in whole days and seconds. No zones here:
 * a "local" number counts seconds since 1970-01-01T00:00:00 on some wall clock. */
#ifndef JSI_CIVIL_H
#define JSI_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

/* The supported span (cron-dialect section 5), in local years, both included. */
#define JSI_YEAR_MIN     1970
#define JSI_YEAR_MAX     2199
#define JSI_YEARS        (JSI_YEAR_MAX - JSI_YEAR_MIN + 1)
#define JSI_DAY_S        86400
#define JSI_LOCAL_MIN    INT64_C(0)
#define JSI_LOCAL_MAX    INT64_C(7258118399) /* 2199-12-31T23:59:59 */
#define JSI_NO_TIME      INT64_MAX           /* "none", larger than any instant */
#define JSI_NO_TIME_PAST INT64_MIN           /* "none" of a backward search */

struct jsi_date {
    int year;
    int month; /* 1-12 */
    int day;   /* 1-31 */
};

/* Days since 1970-01-01; the date must exist. */
int64_t jsi_civil_days(int year, int month, int day);

/* The reverse. Defined for years -30,000 to 30,000 or so: callers clamp. */
struct jsi_date jsi_civil_date(int64_t days);

bool jsi_civil_is_leap(int year);
int jsi_civil_month_days(int year, int month);

/* 0 is Sunday. */
int jsi_civil_weekday(int64_t days);

/* Division that rounds towards minus infinity; divisor > 0. */
static inline int64_t jsi_floor_div(int64_t value, int64_t divisor)
{
    int64_t quotient = value / divisor;
    return value % divisor < 0 ? quotient - 1 : quotient;
}

#endif
