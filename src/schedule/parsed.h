/* parsed.h: the inside of a schedule; for this room only. */
#ifndef JSI_PARSED_H
#define JSI_PARSED_H

#include "base/alloc.h"
#include "schedule/cron.h"
#include "schedule/instant.h"

enum jsi_schedule_kind { JSI_KIND_CRON, JSI_KIND_EVERY, JSI_KIND_AT, JSI_KIND_AFTER };

/* Immutable after parsing. */
struct jobsched_schedule {
    jobsched_allocator allocator;
    enum jsi_schedule_kind kind;
    bool never;                /* no occurrence at all */
    struct jsi_cron cron;      /* CRON */
    int64_t step;              /* EVERY, AFTER: seconds */
    struct jsi_instant anchor; /* EVERY: a point of the grid; AT: the instant */
    const struct jsi_zone *zone;
    int calendar_policy; /* enum jobsched_calendar_policy */
    size_t calendar_count;
    struct jobsched_calendar **calendars; /* behind the struct */
    char *text;                           /* as given; behind the calendars */
};

/* In seconds: the first occurrence after (JSI_NO_TIME), the last before
 * (JSI_NO_TIME_PAST); the raw ones know nothing of calendars. */
int64_t jsi_parsed_next(const struct jobsched_schedule *schedule, int64_t after);
int64_t jsi_parsed_previous(const struct jobsched_schedule *schedule, int64_t before);
int64_t jsi_parsed_raw_next(const struct jobsched_schedule *schedule, int64_t after);
int64_t jsi_parsed_raw_previous(const struct jobsched_schedule *schedule, int64_t before);

/* Whether the instant of "@at" lies in the supported span. */
bool jsi_parsed_at_exists(const struct jobsched_schedule *schedule);

/* The wall clock time that the schedule names for a raw occurrence. */
int64_t jsi_parsed_nominal(const struct jobsched_schedule *schedule, int64_t raw);

/* A zone by its name, with the error recorded where there is none; see jsi_zone_load. */
int jsi_zone_by_name(const char *name, const char *directory, const jobsched_allocator *allocator,
                     const struct jsi_zone **out_zone);

#endif
