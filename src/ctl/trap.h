/* trap.h: what is likely not meant in an expression that is well-formed. */
#ifndef CTL_TRAP_H
#define CTL_TRAP_H

#include <jobsched.h>

#define CTL_TRAPS_MAX          16
#define CTL_TRAP_MESSAGE_BYTES 320

typedef struct ctl_trap {
    const char *code; /* stable, for programs; the man page lists them */
    size_t position;  /* byte offset in the expression */
    char message[CTL_TRAP_MESSAGE_BYTES];
} ctl_trap;

typedef struct ctl_traps {
    size_t count;
    ctl_trap items[CTL_TRAPS_MAX];
} ctl_traps;

/* text is the expression that schedule was parsed from; key is the one for H and ~, or NULL. Clock
 * changes are looked for in the three years after from_ms. */
void ctl_traps_find(const char *text, const char *key, const jobsched_schedule *schedule,
                    int64_t from_ms, ctl_traps *out_traps);

/* What the parts of the search share. */
typedef struct ctl_field {
    size_t at, bytes; /* in the text; bytes 0: the field is not there */
} ctl_field;

enum ctl_field_index {
    CTL_SECOND,
    CTL_MINUTE,
    CTL_HOUR,
    CTL_DAY,
    CTL_MONTH,
    CTL_WEEKDAY,
    CTL_YEAR,
    CTL_FIELDS
};

typedef struct ctl_search {
    const char *text;
    const char *key;
    const jobsched_schedule *schedule;
    int64_t from_ms;
    ctl_field fields[CTL_FIELDS];
    ctl_traps *traps;
} ctl_search;

void ctl_trap_add(ctl_search *search, const char *code, size_t position, const char *format, ...)
    JOBSCHED_PRINTF(4, 5);

/* Whether hours, or months, are in their field's set, counted from 0. */
void ctl_search_hours(const ctl_search *search, int out_members[24]);
void ctl_search_months(const ctl_search *search, int out_members[12]);

/* Traps of the clocks: trap_clock.c. */
void ctl_traps_clock(ctl_search *search);

#endif
