/* schedule.h: what the engine sees of schedules beyond the public functions. */
#ifndef JSI_SCHEDULE_H
#define JSI_SCHEDULE_H

#include <jobsched.h>

struct jsi_zone_cache;

/* jobsched_schedule_parse() with zones out of a cache (see zone.h; NULL: none), on which
 * the caller serialises all calls. zone_directory of the options is that of the cache. */
int jsi_schedule_parse(const char *text, const jobsched_schedule_options *options,
                       struct jsi_zone_cache *cache, jobsched_schedule **out_schedule);

/* The number of occurrences after after_ms and at or before upto_ms, at most limit.
 * *out_last_ms becomes the last one counted; untouched when there is none. Takes time
 * in proportion to the result for cron, and none to speak of for intervals. */
int64_t jsi_schedule_count(const jobsched_schedule *schedule, int64_t after_ms, int64_t upto_ms,
                           int64_t limit, int64_t *out_last_ms);

/* The delay of "@after D", else 0. Such a schedule has no occurrences of its own: it is due
 * that long after the last run ended, anywhere in the cluster, which the fence remembers;
 * jobsched_schedule_next(schedule, end) tells when. previous() has no answer, matches()
 * is always 0, and nothing is counted. */
int64_t jsi_schedule_delay_ms(const jobsched_schedule *schedule);

/* The same for calendars of the same text and zone: whether nodes mean the same calendar. */
uint64_t jsi_calendar_fingerprint(const jobsched_calendar *calendar);

/* The text as it was given to jobsched_schedule_parse(). */
const char *jsi_schedule_text(const jobsched_schedule *schedule);

#endif
