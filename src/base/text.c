/* text.c: values in settings. No state, no locks. */
#include "base/text.h"

#include "base/error.h"

#include <stdio.h>

struct unit {
    const char *name;
    int64_t ms;
};

/* Largest first: the order in which they must be written. */
static const struct unit units[] = {{"w", 604800000}, {"d", 86400000}, {"h", 3600000},
                                    {"m", 60000},     {"s", 1000},     {"ms", 1}};
enum { UNITS = sizeof units / sizeof units[0], DIGITS_MAX = 9 };

static int refuse(const char *text, size_t position, const char *what)
{
    return jsi_fail_at(JOBSCHED_EINVAL, "duration", (int64_t)position,
                       "'%.60s' is not a duration like 500ms, 30s or 1h30m: %s", text, what);
}

int jsi_duration_parse(const char *text, int64_t *out_ms)
{
    int64_t total = 0;
    size_t unit_from = 0;
    size_t at = 0;
    /* Every turn uses up at least one unit, so there are at most six. */
    do {
        size_t begin = at;
        int64_t number = 0;
        while (text[at] >= '0' && text[at] <= '9' && at - begin < DIGITS_MAX) {
            number = number * 10 + (text[at] - '0');
            at++;
        }
        if (at == begin) {
            return refuse(text, at, "a number is missing");
        }
        if (text[at] >= '0' && text[at] <= '9') {
            return refuse(text, begin, "a number has more than nine digits");
        }
        size_t length = 0;
        while (length < 3 && text[at + length] >= 'a' && text[at + length] <= 'z') {
            length++;
        }
        size_t unit = 0;
        while (unit < UNITS && (strlen(units[unit].name) != length ||
                                memcmp(units[unit].name, text + at, length) != 0)) {
            unit++;
        }
        if (unit == UNITS) {
            return refuse(text, at, "the unit is not one of w, d, h, m, s, ms");
        }
        if (unit < unit_from) {
            return refuse(text, at, "units go from large to small, each once");
        }
        unit_from = unit + 1;
        total += number * units[unit].ms;
        at += length;
    } while (text[at] != '\0');
    *out_ms = total;
    return JOBSCHED_OK;
}
