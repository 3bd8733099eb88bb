/* text.c: values in settings, and texts that come from elsewhere. No state, no locks. */
#include "base/text.h"

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

size_t jsi_utf8_length(const char *text)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if ((at[0] & forms[i].mask) != forms[i].lead) {
            continue;
        }
        uint32_t point = at[0] & (unsigned char)~forms[i].mask;
        for (size_t j = 1; j <= i; j++) {
            if ((at[j] & 0xC0) != 0x80) {
                return 0;
            }
            point = point << 6 | (at[j] & 0x3FU);
        }
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        return point < forms[i].least || point > 0x10FFFF || surrogate ? 0 : i + 1;
    }
    return 0;
}

void jsi_text_clean(char *text)
{
    char *out = text;
    while (*text != '\0') {
        const unsigned char *at = (const unsigned char *)text;
        size_t length = jsi_utf8_length(text);
        bool control =
            at[0] < 0x20 || at[0] == 0x7F || (length == 2 && at[0] == 0xC2 && at[1] < 0xA0);
        if (length == 0 || control) {
            *out++ = '?';
            text += length == 0 ? 1 : length;
        } else {
            memmove(out, text, length);
            out += length;
            text += length;
        }
    }
    *out = '\0';
}
