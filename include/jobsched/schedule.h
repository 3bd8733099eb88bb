/* jobsched/schedule.h: schedules and calendars, also without a scheduler.
 * Included by <jobsched.h>. */
#ifndef JOBSCHED_SCHEDULE_H
#define JOBSCHED_SCHEDULE_H

#include <jobsched/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Schedules, without a scheduler ------------------------------------- */

/* An immutable parsed schedule; may be used by many threads at once. */
typedef struct jobsched_schedule jobsched_schedule;

/* A list of days and times that are excluded from schedules. Immutable; may be used by
 * many schedules and threads at once. */
typedef struct jobsched_calendar jobsched_calendar;

typedef struct jobsched_calendar_options {
    size_t struct_size;
    const char *timezone;                /* of dates and times; NULL: that of each schedule */
    const jobsched_allocator *allocator; /* NULL: malloc */
    const char *zone_directory;          /* as for schedules */
} jobsched_calendar_options;

/* Parses rules, one per line or separated by ';': "exclude WHAT" or "include WHAT", where
 * WHAT is all, a date (2027-12-25), a range of dates (2027-12-24..2027-12-26), days of
 * every year (12-25, 12-24..01-06), weekdays (SAT,SUN), a window of time (22:00..06:00) or
 * "cron" and a cron expression (the minutes at which it matches). '#' begins a comment.
 * Later rules win; what no rule names is included.
 * EPARSE  jobsched_last_error() has reason, field and position. */
JOBSCHED_API int jobsched_calendar_parse(const char *text, const jobsched_calendar_options *options,
                                         jobsched_calendar **out_calendar);

/* Schedules that use the calendar go on using it. */
JOBSCHED_API void jobsched_calendar_free(jobsched_calendar *calendar);

/* Whether an instant is included: 1 or 0. Without a zone of its own the calendar is read
 * in UTC. */
JOBSCHED_API int jobsched_calendar_includes(const jobsched_calendar *calendar, int64_t at_ms);

/* What becomes of an occurrence that a calendar excludes. A move never reaches the
 * occurrence before or after it: that one then stands for both. */
enum jobsched_calendar_policy {
    JOBSCHED_CALENDAR_SKIP = 0,        /* default: nothing */
    JOBSCHED_CALENDAR_NEXT = 1,        /* it fires at the first included instant after it */
    JOBSCHED_CALENDAR_NEXT_DAY = 2,    /* at the same time on the next included day */
    JOBSCHED_CALENDAR_PREVIOUS_DAY = 3 /* at the same time on the included day before */
};

/* What becomes of a wall clock time that a change of the clocks leaves out. The default
 * depends on the cron text: a schedule whose second, minute or hour has a '*', a range
 * or a step follows elapsed time (SKIP), any other fires once a day (RUN_AFTER). */
enum jobsched_dst_gap {
    JOBSCHED_DST_GAP_DEFAULT = 0,
    JOBSCHED_DST_GAP_RUN_AFTER = 1, /* it fires once, when the clock jumps */
    JOBSCHED_DST_GAP_SKIP = 2
};

/* And of one that comes twice. By default BOTH for a schedule that follows elapsed
 * time, FIRST for any other. */
enum jobsched_dst_overlap {
    JOBSCHED_DST_OVERLAP_DEFAULT = 0,
    JOBSCHED_DST_OVERLAP_FIRST = 1,
    JOBSCHED_DST_OVERLAP_BOTH = 2
};

typedef struct jobsched_schedule_options {
    size_t struct_size;
    const char *timezone;                /* NULL: the prefix in the text, else UTC */
    const char *key;                     /* picks the values of H and ~; NULL: those are refused */
    const jobsched_allocator *allocator; /* NULL: malloc */
    uint64_t text_bytes_max;             /* 0: 256 */
    const char *zone_directory;          /* zone files are looked for here first, then in TZDIR and
                                            /usr/share/zoneinfo; NULL: only there */
    int32_t dst_gap;                     /* enum jobsched_dst_gap */
    int32_t dst_overlap;                 /* enum jobsched_dst_overlap */
    const jobsched_calendar *const *calendars; /* all must include an instant; ended by NULL; kept
                                                  alive as long as needed. NULL: none */
    int32_t calendar_policy;                   /* enum jobsched_calendar_policy */
    int32_t reserved;
} jobsched_schedule_options;

/* Parses cron text (5, 6 or 7 fields, macros), "@every D [from I]", "@at I" or "@after D"
 * (D after the end of the last run, wherever it was: as there are no occurrences without
 * runs, jobsched_schedule_next() then takes its argument for that end, and the backward
 * questions have no answer); docs/schedules.md has the whole language. The text is copied.
 * A schedule that is well-formed but can never match is accepted here: see
 * jobsched_schedule_is_never().
 * EPARSE  jobsched_last_error() has reason, field, position and allowed range. */
JOBSCHED_API int jobsched_schedule_parse(const char *text, const jobsched_schedule_options *options,
                                         jobsched_schedule **out_schedule);
JOBSCHED_API void jobsched_schedule_free(jobsched_schedule *schedule);

/* The first occurrence strictly after, or the last strictly before, an instant;
 * JOBSCHED_NONE when there is none between the years 1970 and 2199. Bounded,
 * allocates nothing, reads no clock. */
JOBSCHED_API int64_t jobsched_schedule_next(const jobsched_schedule *schedule, int64_t after_ms);
JOBSCHED_API int64_t jobsched_schedule_previous(const jobsched_schedule *schedule,
                                                int64_t before_ms);

/* Whether the instant is an occurrence: 1 or 0. */
JOBSCHED_API int jobsched_schedule_matches(const jobsched_schedule *schedule, int64_t at_ms);

/* Whether the schedule has no occurrence at all: 1 or 0. Known since parsing. With calendars 0 is
 * no promise: a search that found none within its bound has proved nothing. */
JOBSCHED_API int jobsched_schedule_is_never(const jobsched_schedule *schedule);

/* Canonical text: parsed again with the same gap and overlap policy (and with a
 * text_bytes_max that allows for its length), it means the same instants. Picks of H and
 * ~ are resolved. Returns the length of the whole text, of which as much as fits is
 * written, ended by NUL, as snprintf does. */
JOBSCHED_API size_t jobsched_schedule_format(const jobsched_schedule *schedule, char *out_text,
                                             size_t size);

/* The same in plain English: "at 03:00 on the last Friday of each month, Europe/Berlin".
 * The wording may change with any release. */
JOBSCHED_API size_t jobsched_schedule_explain(const jobsched_schedule *schedule, char *out_text,
                                              size_t size);

/* What a change of the clocks did to an occurrence (bits). */
enum jobsched_occurrence_flag {
    JOBSCHED_OCCURRENCE_SHIFTED = 1,     /* its wall clock time does not exist: it fires when the
                                            clock jumps */
    JOBSCHED_OCCURRENCE_MERGED = 2,      /* more than one wall clock time fires here, once */
    JOBSCHED_OCCURRENCE_REPEATS = 4,     /* its wall clock time comes again; that is suppressed */
    JOBSCHED_OCCURRENCE_SECOND_PASS = 8, /* its wall clock time came before */
    JOBSCHED_OCCURRENCE_AFTER_GAP = 16,  /* wall clock times since the occurrence before this one
                                            do not exist; they are suppressed */
    JOBSCHED_OCCURRENCE_MOVED = 32       /* by a calendar; nominal_local_ms is what was excluded */
};

/* "Local" numbers are what the wall clock shows, counted as if it were UTC. */
typedef struct jobsched_occurrence {
    size_t struct_size;
    int64_t at_ms;
    int64_t nominal_local_ms; /* the wall clock time that the schedule names */
    int64_t local_ms;         /* the wall clock time at at_ms; differs when SHIFTED */
    int32_t offset_s;         /* of the zone at at_ms, seconds east of UTC */
    uint32_t flags;           /* enum jobsched_occurrence_flag */
} jobsched_occurrence;

/* Tells what there is to know of the occurrence at an instant.
 * ENOTFOUND  the instant is no occurrence. */
JOBSCHED_API int jobsched_schedule_occurrence(const jobsched_schedule *schedule, int64_t at_ms,
                                              jobsched_occurrence *out_occurrence);

/* The time zone, and the version of the zone data it was read from, like "2026f" ("" for
 * UTC and where the files do not tell). Valid as long as the schedule. */
JOBSCHED_API const char *jobsched_schedule_zone(const jobsched_schedule *schedule);
JOBSCHED_API const char *jobsched_schedule_zone_version(const jobsched_schedule *schedule);

/* From this instant on the zone data says nothing, and the last known offset is used;
 * JOBSCHED_NONE (the rule) when the data has no end. */
JOBSCHED_API int64_t jobsched_schedule_uncertain_after(const jobsched_schedule *schedule);

#ifdef __cplusplus
}
#endif

#endif
