/* cron.h: one parsed cron expression as bit sets, and searches over it. */
#ifndef JSI_CRON_H
#define JSI_CRON_H

#include "schedule/civil.h"
#include "schedule/syntax.h"
#include "schedule/zone.h"

enum jsi_field {
    JSI_SECOND,
    JSI_MINUTE,
    JSI_HOUR,
    JSI_DAY,
    JSI_MONTH,
    JSI_WEEKDAY,
    JSI_YEAR,
    JSI_FIELDS
};

/* Sets by bit. All special day forms are sets too, so the struct has a fixed size
 * and a search allocates nothing. */
struct jsi_cron {
    uint64_t seconds, minutes; /* bits 0-59 */
    uint64_t years[4];         /* bit 0 of the first is JSI_YEAR_MIN */
    uint32_t hours;            /* bits 0-23 */
    uint32_t days;             /* bits 1-31 */
    uint32_t from_end;         /* bit n: L-n; bit 0: L */
    uint32_t weekday_from_end; /* bit n: L-nW; bit 0: LW */
    uint32_t weekday_near;     /* bit n: nW */
    uint16_t months;           /* bits 1-12 */
    uint8_t weekdays;          /* bits 0-6, 0 is Sunday */
    uint8_t nth[5];            /* weekdays of d#1 to d#5 */
    uint8_t last;              /* weekdays of dL and d#L */
    bool any_day;              /* the day-of-month field does not restrict */
    bool any_weekday;          /* the day-of-week field does not restrict */
    bool both;                 /* '+': a day must satisfy both fields, not either */
    bool interval_like;        /* by its text (section 6): decides what DST does */
    bool gap_runs;             /* a time inside a gap fires at the gap's end */
    bool overlap_both;         /* a time that comes twice fires at both passes */
};

/* Parses five to seven fields between the offsets begin and end of the source. key
 * may be NULL or empty: there is none. */
int jsi_cron_parse(const struct jsi_source *source, size_t begin, size_t end, const char *key,
                   struct jsi_cron *out_cron);

/* A day-of-week field with plain days only ("SAT,SUN", "MON-FRI"); sets the weekdays. */
int jsi_cron_parse_weekdays(const struct jsi_source *source, size_t begin, size_t end,
                            uint8_t *out_weekdays);

/* The days of a month that match, as bits 1-31; first_weekday is that of its day 1. */
uint32_t jsi_cron_month_mask(const struct jsi_cron *cron, int first_weekday, int length);

/* Whether no day of the supported years matches; looks at the 14 kinds of years only. */
bool jsi_cron_has_no_day(const struct jsi_cron *cron);

bool jsi_cron_has_year(const struct jsi_cron *cron, int year);

/* The nearest matching wall clock time at or after (JSI_NO_TIME: none), and at or
 * before (JSI_NO_TIME_PAST: none). At most JSI_YEARS * 12 steps of a month each. */
int64_t jsi_cron_local_next(const struct jsi_cron *cron, int64_t local);
int64_t jsi_cron_local_previous(const struct jsi_cron *cron, int64_t local);

/* The first occurrence strictly after, and the last strictly before, a UTC second. */
int64_t jsi_cron_next(const struct jsi_cron *cron, const struct jsi_zone *zone, int64_t after);
int64_t jsi_cron_previous(const struct jsi_cron *cron, const struct jsi_zone *zone, int64_t before);

/* The value H or ~ picks for one element of a list (section 7): stable for ever. */
uint64_t jsi_cron_pick(const char *key, enum jsi_field field, size_t element);

#endif
