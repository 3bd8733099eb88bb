/* utf8.c: checks UTF-8.
 * Locks: none. */
#include "utf8.h"

static int are_tails(const unsigned char *at, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0; /* also the NUL at the end, so that nothing behind it is looked at */
        }
    }
    return 1;
}

size_t utf8_step(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    if (at[0] >= 0x20 && at[0] < 0x7f) {
        return 1;
    }
    if (at[0] >= 0xc2 && at[0] <= 0xdf) {
        /* U+0080 to U+009F are control characters. */
        return are_tails(at + 1, 1) && (at[0] != 0xc2 || at[1] >= 0xa0) ? 2 : 0;
    }
    if (at[0] >= 0xe0 && at[0] <= 0xef) {
        int overlong = at[0] == 0xe0 && at[1] < 0xa0;
        int surrogate = at[0] == 0xed && at[1] > 0x9f;

        return are_tails(at + 1, 2) && !overlong && !surrogate ? 3 : 0;
    }
    if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        int overlong = at[0] == 0xf0 && at[1] < 0x90;
        int beyond = at[0] == 0xf4 && at[1] > 0x8f;

        return are_tails(at + 1, 3) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

void utf8_clean(char *text, size_t limit)
{
    size_t at = 0;

    while (text[at] != '\0') {
        size_t step = utf8_step(text + at);

        if (at + (step == 0 ? 1 : step) > limit) {
            text[at] = '\0';
            return;
        }
        if (step == 0) {
            text[at] = '?';
            step = 1;
        }
        at += step;
    }
}
