/* occurrence.h: a parsed expression with what the verbs ask of it. */
#ifndef CTL_OCCURRENCE_H
#define CTL_OCCURRENCE_H

#include "ctl/output.h"

#define CTL_NOTE_BYTES 256

/* An expression with the instant to count from. */
typedef struct ctl_subject {
    const char *text;
    jobsched_schedule *schedule;
    const char *zone; /* the schedule's */
    int64_t from_ms;
    int is_after; /* "@after": has no occurrences without runs */
} ctl_subject;

/* Parses the request's expression and --from. CTL_OK, or a status with the message said. */
int ctl_subject_open(const ctl_request *request, ctl_subject *out_subject);
void ctl_subject_close(ctl_subject *subject);

/* The next occurrence after (forward) or the last before an instant; JOBSCHED_NONE: none. */
int64_t ctl_subject_step(const ctl_subject *subject, int64_t at_ms, int forward);

/* What there is to know of an occurrence that ctl_subject_step() gave. */
void ctl_occurrence_read(const ctl_subject *subject, int64_t at_ms,
                         jobsched_occurrence *out_occurrence);

/* What a change of the clocks did to it; "" when nothing. */
void ctl_occurrence_note(const jobsched_occurrence *occurrence, char out_text[CTL_NOTE_BYTES]);

/* NULL when out of memory. */
json_t *ctl_occurrence_json(const ctl_subject *subject, const jobsched_occurrence *occurrence);

/* The members that every answer about an expression has. 0 or -1. */
int ctl_subject_json(const ctl_subject *subject, json_t *object);

/* The canonical text or the explanation, to be released with free(); NULL: out of memory. */
char *ctl_subject_written(const ctl_subject *subject,
                          size_t (*write)(const jobsched_schedule *, char *, size_t));

#endif
