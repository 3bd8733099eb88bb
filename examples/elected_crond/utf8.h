/* utf8.h: text that may go into names and notes. */
#ifndef ELECTED_CROND_UTF8_H
#define ELECTED_CROND_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins here, which text must end with NUL for; 0 when it is ill-formed
 * or a control character, also at the end. */
size_t utf8_step(const char *text);

/* Puts '?' for every byte that does not belong to a proper character, and cuts after at most
 * limit bytes, never inside a character. */
void utf8_clean(char *text, size_t limit);

#endif
