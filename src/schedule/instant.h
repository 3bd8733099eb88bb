/* instant.h: durations and instants in schedule texts. */
#ifndef JSI_INSTANT_H
#define JSI_INSTANT_H

#include "schedule/syntax.h"
#include "schedule/zone.h"

#define JSI_EVERY_MAX_S (INT64_C(36600) * 86400)

/* "1h30m" in [begin, end): whole seconds from 1 to JSI_EVERY_MAX_S. */
int jsi_duration_seconds(const struct jsi_source *source, size_t begin, size_t end,
                         int64_t *out_seconds);

struct jsi_instant {
    int64_t utc;
    bool is_local;   /* written without "Z" or an offset */
    int64_t nominal; /* the wall clock time that was written */
};

/* YYYY-MM-DDThh:mm[:ss][Z or an offset] in [begin, end). Without a suffix it is local time of the
 * zone: in a gap it means the gap's end, in an overlap the first pass. */
int jsi_instant_parse(const struct jsi_source *source, size_t begin, size_t end,
                      const struct jsi_zone *zone, struct jsi_instant *out_instant);

#endif
