/* explain.h: the parts of an explanation. */
#ifndef JSI_EXPLAIN_H
#define JSI_EXPLAIN_H

#include "schedule/parsed.h"
#include "schedule/writer.h"

/* "1, 5 and 7 to 9", each value by the given function. */
void jsi_explain_values(struct jsi_writer *writer, const struct jsi_values *values,
                        void (*name)(struct jsi_writer *writer, int value));
void jsi_explain_number(struct jsi_writer *writer, int value);

/* " on the last Friday of each month in 2030", behind listed times ("at 03:00") or other
 * ones ("every minute"). */
void jsi_explain_days(struct jsi_writer *writer, const struct jsi_cron *cron,
                      const struct jsi_field_sets *sets, bool listed);

#endif
