/* text.c: text of any origin, made fit for terminals and for JSON. No state, no locks. */
#include "ctl/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The length of the character that begins here, 1 to 4, with its number; 0 when it is ill-formed.
 * The text ends with NUL, which no continuation byte is. */
static size_t decode(const unsigned char *text, uint32_t *out_number)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0x80             ? 1
                    : (text[0] & 0xe0) == 0xc0 ? 2
                    : (text[0] & 0xf0) == 0xe0 ? 3
                    : (text[0] & 0xf8) == 0xf0 ? 4
                                               : 0;
    uint32_t number = length == 1 ? text[0] : length == 0 ? 0 : text[0] & (0x7fu >> length);

    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        number = number << 6 | (text[i] & 0x3fu);
    }
    if (length > 1 && (number < smallest[length] || number > 0x10ffff ||
                       (number >= 0xd800 && number <= 0xdfff))) {
        return 0;
    }
    *out_number = number;
    return length;
}

/* Characters that act on what is around them instead of being shown. */
static int is_acting(uint32_t number)
{
    return number < 0x20 || (number >= 0x7f && number < 0xa0) || number == 0x061c ||
           number == 0x200e || number == 0x200f || (number >= 0x2028 && number <= 0x202e) ||
           (number >= 0x2066 && number <= 0x2069);
}

void ctl_text_print(FILE *stream, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        uint32_t number = 0;
        size_t length = decode(at, &number);

        if (length > 0 && !is_acting(number)) {
            (void)fwrite(at, 1, length, stream);
            at += length;
            continue;
        }
        for (size_t i = 0; i < (length == 0 ? 1 : length); i++) {
            (void)fprintf(stream, "\\x%02x", at[i]);
        }
        at += length == 0 ? 1 : length;
    }
}

void ctl_text_excerpt(FILE *stream, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < CTL_EXCERPT_BYTES; i++) {
        unsigned char byte = (unsigned char)text[i];

        (void)fputc(byte == '\t' ? ' ' : byte < 0x20 || byte > 0x7e ? '?' : byte, stream);
    }
}

char *ctl_text_utf8(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    size_t used = 0;

    while (copy != NULL && *text != '\0') {
        uint32_t number = 0;
        size_t length = decode((const unsigned char *)text, &number);

        /* JSON may hold DEL as it is, but a terminal should not get it. */
        if (length == 0 || number == 0x7f) {
            copy[used++] = '?';
            text++;
            continue;
        }
        memcpy(copy + used, text, length);
        used += length;
        text += length;
    }
    if (copy != NULL) {
        copy[used] = '\0';
    }
    return copy;
}

char *ctl_text_cell(const char *text, char *out_cell, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;

    for (; *text != '\0' && used + 5 <= bytes; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= 0x20 && byte <= 0x7e && byte != '\\') {
            out_cell[used++] = (char)byte;
            continue;
        }
        out_cell[used++] = '\\';
        out_cell[used++] = 'x';
        out_cell[used++] = digits[byte >> 4];
        out_cell[used++] = digits[byte & 15];
    }
    out_cell[used] = '\0';
    return out_cell;
}
