/* record.h: what the library tells of jobs, runs, nodes and checks, as JSON and as words. */
#ifndef CTL_RECORD_H
#define CTL_RECORD_H

#include "ctl/output.h"

/* NULL when out of memory. */
json_t *ctl_job_json(const jobsched_job_record *job);
json_t *ctl_run_json(const jobsched_run_record *run);
json_t *ctl_node_json(const jobsched_node_record *node);
json_t *ctl_check_json(const jobsched_check_record *check);

/* Whether no live node registers the job, or none as it is in force, so that nobody runs it. */
int ctl_job_is_orphaned(const jobsched_job_record *job);

/* One word: removed, paused, running, waiting, orphaned or idle. */
const char *ctl_job_state(const jobsched_job_record *job);

/* "info", "warning" or "error". */
const char *ctl_level_name(int level);

/* An instant for people, in a zone (NULL: UTC); "-" for JOBSCHED_NONE. */
void ctl_when(const char *zone, int64_t at_ms, char out_text[], size_t bytes);

/* How long from one instant to another: "3m 2s"; "-" where one is JOBSCHED_NONE, "0s" when it is
 * over. */
void ctl_how_long(int64_t from_ms, int64_t until_ms, char out_text[], size_t bytes);

#endif
