/* text.h: values in settings. */
#ifndef JSI_TEXT_H
#define JSI_TEXT_H

#include <stdint.h>

/* "500ms", "30s", "5m", "1h30m", "7d": numbers of at most nine digits with units w, d,
 * h, m, s, ms, each at most once, from large to small. "0s" is allowed.
 * EINVAL  with the position; out_ms is untouched. */
int jsi_duration_parse(const char *text, int64_t *out_ms);

#endif
