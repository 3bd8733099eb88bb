/* text.h: values in settings, and texts that come from elsewhere. */
#ifndef JSI_TEXT_H
#define JSI_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* "500ms", "30s", "5m", "1h30m", "7d": numbers of at most nine digits with units w, d,
 * h, m, s, ms, each at most once, from large to small. "0s" is allowed.
 * EINVAL  with the position; out_ms is untouched. */
int jsi_duration_parse(const char *text, int64_t *out_ms);

/* The length of the UTF-8 sequence (RFC 3629) that the text begins with; 0: it is none. */
size_t jsi_utf8_length(const char *text);

/* Makes a text fit for any terminal or log, in place: '?' takes the place of control characters (C0,
 * DEL, C1) and of each byte that is no UTF-8. It never gets longer. */
void jsi_text_clean(char *text);

#endif
