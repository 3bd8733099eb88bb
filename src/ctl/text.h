/* text.h: text of any origin, made fit for terminals and for JSON. */
#ifndef CTL_TEXT_H
#define CTL_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Prints text so that no byte of it can act on a terminal: control characters (C1 and those that
 * change the direction of writing too) and bytes that are not UTF-8 become \xNN or \uNNNN, and so
 * does what the terminal's character set does not have. */
void ctl_text_print(FILE *stream, const char *text);

/* Prints at most this many bytes of a text, one column per byte: a tab is a blank, and what is not
 * printable ASCII is '?'; so a caret can be put below. */
#define CTL_EXCERPT_BYTES 1024
void ctl_text_excerpt(FILE *stream, const char *text, size_t bytes);

/* Writes what ctl_text_print() prints, cut between characters to fit and ended by NUL. Returns
 * out_cell. */
char *ctl_text_cell(const char *text, char *out_cell, size_t bytes);

/* A copy that is UTF-8 whatever text was ('?' for bytes that are not), to be released with free();
 * NULL when out of memory. */
char *ctl_text_utf8(const char *text);

#endif
