/* instant.h: instants and spans as text. Neither the locale nor the time zone of the process has a
 * say in any of it. */
#ifndef CTL_INSTANT_H
#define CTL_INSTANT_H

#include <stddef.h>
#include <stdint.h>

#define CTL_INSTANT_BYTES 48

/* "2027-01-31T08:30:00Z". */
void ctl_instant_utc(int64_t at_ms, char out_text[CTL_INSTANT_BYTES]);

/* "2027-01-31T08:30:00" of what a wall clock shows, without an offset. */
void ctl_instant_wall(int64_t local_ms, char out_text[CTL_INSTANT_BYTES]);

/* "2027-01-31T08:30:00+01:00"; an offset with seconds is shown with them. */
void ctl_instant_local(int64_t local_ms, int32_t offset_s, char out_text[CTL_INSTANT_BYTES]);

/* "Sun 2027-01-31 08:30:00 +01:00", for people. */
void ctl_instant_people(int64_t local_ms, int32_t offset_s, char out_text[CTL_INSTANT_BYTES]);

/* "2027-01-31" and "08:30" (with seconds where there are some) of a wall clock time. */
void ctl_instant_date(int64_t local_ms, char out_text[CTL_INSTANT_BYTES]);
void ctl_instant_time(int64_t local_ms, char out_text[CTL_INSTANT_BYTES]);

/* "3d 4h": the two largest units of a span that is not negative. */
void ctl_span_text(int64_t span_ms, char out_text[CTL_INSTANT_BYTES]);

/* Reads "now", an instant with Z or an offset (years 1 to 9999, fractions of a second are allowed),
 * or a wall clock time of the zone (NULL: UTC), as the library reads that in "@at". 0, or -1 with
 * the reason in one line. */
int ctl_instant_read(const char *text, const char *zone, int64_t *out_at_ms, char message[],
                     size_t message_bytes);

/* The offset of a zone at an instant, in seconds east of UTC; 0 where it cannot be told. */
int32_t ctl_zone_offset(const char *zone, int64_t at_ms);

#endif
