/* writer.h: text into a buffer of the caller, cut where it is too small, as snprintf. */
#ifndef JSI_WRITER_H
#define JSI_WRITER_H

#include <jobsched.h>

#include <stdbool.h>

struct jsi_writer {
    char *out;
    size_t size;
    size_t length; /* of the whole text, also of what was cut */
};

void jsi_write(struct jsi_writer *writer, const char *format, ...) JOBSCHED_PRINTF(2, 3);

/* A set of small numbers, for writing out: member[value - low]. */
enum { JSI_VALUES_MAX = 232 };
struct jsi_values {
    int low, high;
    bool member[JSI_VALUES_MAX];
};

int jsi_values_count(const struct jsi_values *values);

/* The n for which the set is low, low + n, ... up to high, or 0. At least two members. */
int jsi_values_step(const struct jsi_values *values);

/* YYYY-MM-DDThh:mm:ss of a number of local seconds, the year in four digits. */
void jsi_write_local(struct jsi_writer *writer, int64_t local);

struct jsi_cron;
struct jsi_field_sets {
    struct jsi_values second, minute, hour, day, month, weekday, year;
};

/* The plain sets of an expression; the special day forms are not among them. */
void jsi_field_sets(const struct jsi_cron *cron, struct jsi_field_sets *out_sets);

#endif
