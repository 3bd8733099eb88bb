/* posix_tz.h: the POSIX TZ string at the end of a zone file, which rules the time after
 * its last transition. */
#ifndef JSI_POSIX_TZ_H
#define JSI_POSIX_TZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jsi_rule_form {
    JSI_RULE_JULIAN,    /* Jn: 1-365, 29 February is never counted */
    JSI_RULE_DAY,       /* n: 0-365 */
    JSI_RULE_MONTH_WEEK /* Mm.w.d: week 5 is the last */
};

struct jsi_tz_rule {
    enum jsi_rule_form form;
    int day; /* of the year, or of the week (0 is Sunday) */
    int month, week;
    int32_t time; /* seconds from the day's midnight, may be negative */
};

struct jsi_posix_tz {
    bool has_dst;
    int32_t offset;     /* seconds east of UTC, standard time */
    int32_t dst_offset; /* also east; may be smaller than offset (Dublin) */
    struct jsi_tz_rule start, end;
};

/* Whether the text is a TZ string of the kind that zone files hold. */
bool jsi_posix_tz_parse(const char *text, size_t length, struct jsi_posix_tz *out_tz);

/* The UTC seconds at which daylight saving starts and ends by the rules of a year. */
int64_t jsi_posix_tz_start(const struct jsi_posix_tz *tz, int year);
int64_t jsi_posix_tz_end(const struct jsi_posix_tz *tz, int year);

#endif
