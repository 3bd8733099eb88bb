/* walk.h: the checker's own idea of schedules: interval grids and simple cron in UTC, by arithmetic
 * and plain search. Shares no code with src/schedule. */
#ifndef SIM_WALK_H
#define SIM_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_NEVER INT64_MAX

enum walk_kind {
    WALK_EVERY, /* step_ms, phase_ms */
    WALK_CRON,  /* masks */
    WALK_AT,    /* phase_ms is the instant */
    WALK_AFTER, /* step_ms is the delay: no grid */
    WALK_OFF    /* never: the job is disabled */
};

struct walk {
    enum walk_kind kind;
    int64_t step_ms, phase_ms;
    uint64_t minutes;
    uint32_t hours, days, months, weekdays; /* bit n: value n; all bits: not restricted */
    bool by_day, by_weekday;                /* restricted */
};

/* The first instant after, or the last at or before. */
int64_t walk_next(const struct walk *walk, int64_t after_ms);

/* How many instants there are after after_ms and at or before upto_ms, at most limit. */
uint64_t walk_count(const struct walk *walk, int64_t after_ms, int64_t upto_ms, uint64_t limit);

/* The schedule as text for jobsched. */
void walk_text(const struct walk *walk, char *out_text, size_t text_bytes);

#endif
