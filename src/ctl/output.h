/* output.h: how jobschedctl says things: messages, colour, tables and JSON. */
#ifndef CTL_OUTPUT_H
#define CTL_OUTPUT_H

#include "ctl/ctl.h"

#include <jansson.h>
#include <stdio.h>

/* A message on standard error, with everything in it made fit for a terminal; with --json an object
 * on standard output too. Return CTL_USAGE (with a hint at the help of the request's verb, or of all
 * when there is none) and CTL_FAILED. NULL for the request: nothing on standard output, as where
 * that is what failed, or memory for it. */
int ctl_usage(const ctl_request *request, const char *format, ...) JOBSCHED_PRINTF(2, 3);
int ctl_fail(const ctl_request *request, const char *format, ...) JOBSCHED_PRINTF(2, 3);

/* The same for the last failure of a call of the library. Returns the status that it stands for. */
int ctl_library(const ctl_request *request);

/* Whether the stream is a terminal that knows escape sequences. */
int ctl_is_terminal(FILE *stream);

/* Begin and end of colour, or "" where the stream is no such terminal or NO_COLOR is set. */
enum ctl_colour { CTL_PLAIN, CTL_BOLD, CTL_RED, CTL_YELLOW, CTL_GREEN };
const char *ctl_colour(FILE *stream, int colour);

/* A refused text on standard error: the text, a caret below the byte at the position, the message.
 * With --json the same as an object on standard output too. Returns CTL_USAGE. */
int ctl_refuse(const ctl_request *request, const char *text, const jobsched_error *error);

/* Prints an object and releases it. CTL_OK, or CTL_FAILED (also for NULL: out of memory). */
int ctl_json_print(json_t *object);

/* Sets a member; a text is made UTF-8 first, NULL becomes null. Failures are found by
 * ctl_json_print() through ctl_json_set's result: -1 when out of memory. */
int ctl_json_text(json_t *object, const char *name, const char *text);
int ctl_json_number(json_t *object, const char *name, int64_t number);
int ctl_json_flag(json_t *object, const char *name, int flag);
int ctl_json_value(json_t *object, const char *name, json_t *value); /* takes the value over */

/* Two members: NAME, a text in UTC, and NAME_ms; both null for JOBSCHED_NONE. */
int ctl_json_instant(json_t *object, const char *name, int64_t at_ms);

/* A number that need not fit into a double, so it is a text. */
int ctl_json_token(json_t *object, const char *name, uint64_t token);

/* A table for people, of cells that ctl_text_cell() has made. Any call may fail for want of memory, which
 * ctl_table_print() reports: the calls between take a table that failed. */
typedef struct ctl_table ctl_table;
ctl_table *ctl_table_new(const char *const *columns, size_t column_count);
void ctl_table_row(ctl_table *table, const char *const *cells);
int ctl_table_print(ctl_table *table); /* and releases it; CTL_OK or CTL_FAILED */
void ctl_table_free(ctl_table *table);

#endif
