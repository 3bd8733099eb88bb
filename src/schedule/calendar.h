/* calendar.h: named exclusions, and what they make of occurrences. */
#ifndef JSI_CALENDAR_H
#define JSI_CALENDAR_H

#include "schedule/parsed.h"

enum jsi_rule_kind {
    JSI_RULE_ALL,
    JSI_RULE_DATES,     /* first and last are days since 1970 */
    JSI_RULE_YEAR_DAYS, /* first and last are month * 100 + day; last < first wraps */
    JSI_RULE_WEEKDAYS,  /* first is a set, bit 0 is Sunday */
    JSI_RULE_TIMES,     /* from first to before last, seconds of the day; may cross midnight */
    JSI_RULE_CRON       /* the minutes at which it matches */
};

struct jsi_calendar_rule {
    bool include;
    enum jsi_rule_kind kind;
    int64_t first, last;
    struct jsi_cron cron;
};

/* Immutable but for the count of references. */
struct jobsched_calendar {
    jobsched_allocator allocator;
    atomic_uint references;
    const struct jsi_zone *zone; /* NULL: that of each schedule */
    uint64_t fingerprint;        /* of the text and the zone */
    size_t count;
    struct jsi_calendar_rule rules[];
};

struct jobsched_calendar *jsi_calendar_retain(const struct jobsched_calendar *calendar);
void jsi_calendar_release(struct jobsched_calendar *calendar);

/* Whether a wall clock time is included. *out_whole_day (may be NULL) tells whether the
 * answer is the same for the whole day; *inout_budget (may be NULL) is lowered by the number
 * of rules that were looked at. */
bool jsi_calendar_includes_local(const struct jobsched_calendar *calendar, int64_t local,
                                 bool *out_whole_day, int64_t *inout_budget);

/* As jsi_parsed_next and jsi_parsed_previous, with the calendars' exclusions. *out_gave_up
 * (may be NULL) tells a search that was cut short from one that found that there is none. */
int64_t jsi_calendars_next(const struct jobsched_schedule *schedule, int64_t after,
                           bool *out_gave_up);
int64_t jsi_calendars_previous(const struct jobsched_schedule *schedule, int64_t before);

/* The occurrence without calendars that made this one: itself, or the one it was moved
 * from; JSI_NO_TIME when at is none. */
int64_t jsi_calendars_origin(const struct jobsched_schedule *schedule, int64_t at);

#endif
