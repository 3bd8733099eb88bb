/* walker.h: a slow and obvious evaluator of cron texts, written apart from the library,
 * and random expressions to compare the two by. */
#ifndef TESTS_UNIT_WALKER_H
#define TESTS_UNIT_WALKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zone in a window of time: offset[i] is in force from start[i] on. */
struct walker_zone {
    int count;
    int64_t start[32];
    int64_t offset[32];
};

extern const struct walker_zone walker_utc;

struct walker {
    char fields[7][64];
    bool second[60], minute[60], hour[24];
    bool interval_like;
    bool gap_runs, overlap_both; /* set by walker_init from interval_like */
    bool remembers, remembered;  /* the answer for remembered_day */
    int64_t remembered_day;
};

/* Takes a valid text of five to seven fields without H and ~. */
void walker_init(struct walker *walker, const char *text);

/* Whether a wall clock time matches, by the text. */
bool walker_matches_local(struct walker *walker, int64_t local);

/* Looks at every second of [from, to): the occurrences, at most limit; returns how many. */
int walker_list(struct walker *walker, const struct walker_zone *zone, int64_t from, int64_t to,
                int64_t *out, int limit);

/* splitmix64. */
uint64_t walker_random(uint64_t *state);

/* A number that differs from run to run. */
uint64_t walker_fresh_seed(void);

/* A random valid text of five to seven fields. */
void walker_expression(uint64_t *state, char *out, size_t size);

#endif
