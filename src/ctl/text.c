/* text.c: text of any origin, made fit for terminals and for JSON. No state, no locks. */
#include "ctl/text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

/* "\U0010ffff" with NUL, and four bytes of UTF-8. */
#define SHOWN_BYTES 12

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

/* Beyond ASCII what is printed is what the locale's characters are taken for by the C library, and
 * tables count columns by: main() has set it. */
static int is_shown(uint32_t number)
{
    if (number < 0x80) {
        return !is_acting(number);
    }
    return !is_acting(number) && strcmp(nl_langinfo(CODESET), "UTF-8") == 0 &&
           iswprint((wint_t)number);
}

/* Writes the first character of a text as it is shown, with NUL; returns its length in the text. */
static size_t show(const char *text, char out_shown[SHOWN_BYTES])
{
    uint32_t number = 0;
    size_t length = decode((const unsigned char *)text, &number);

    if (length == 0 || (number < 0x80 && !is_shown(number))) {
        (void)snprintf(out_shown, SHOWN_BYTES, "\\x%02x", (unsigned char)text[0]);
        return 1;
    }
    if (is_shown(number)) {
        memcpy(out_shown, text, length);
        out_shown[length] = '\0';
    } else {
        (void)snprintf(out_shown, SHOWN_BYTES, number > 0xffff ? "\\U%08" PRIx32 : "\\u%04" PRIx32,
                       number);
    }
    return length;
}

void ctl_text_print(FILE *stream, const char *text)
{
    char shown[SHOWN_BYTES];

    while (*text != '\0') {
        text += show(text, shown);
        (void)fputs(shown, stream);
    }
}

char *ctl_text_cell(const char *text, char *out_cell, size_t bytes)
{
    char shown[SHOWN_BYTES];
    size_t used = 0;

    while (*text != '\0') {
        text += show(text, shown);
        if (used + strlen(shown) >= bytes) {
            break;
        }
        memcpy(out_cell + used, shown, strlen(shown));
        used += strlen(shown);
    }
    out_cell[used] = '\0';
    return out_cell;
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
