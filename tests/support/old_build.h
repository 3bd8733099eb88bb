/* old_build.h: an older definition of a job in a world's store, and what becomes of it when this
 * node's takes its place. For the test's own thread. */
#ifndef SUPPORT_OLD_BUILD_H
#define SUPPORT_OLD_BUILD_H

#include "support/world.h"

/* Opens a world whose store can be told to fail; the spec of its job, named "job". */
jobsched_job_spec old_build_begin(struct world *world, struct world_job *job, const char *schedule);

/* Starts it with that job, and lets it go as far as it goes at this instant. */
void old_build_start(struct world *world, const jobsched_job_spec *spec);

/* The job as the engine has it; NULL: it does not. */
const jsi_job *old_build_job(struct world *world);

/* The definition text that a spec makes. */
void old_build_text(struct world *world, const jobsched_job_spec *spec,
                    char out_text[JOBSCHED_DEFINITION_BYTES + 1]);

/* Announces a text as another node does, past this scheduler and at once. */
jobsched_announcement old_build_announce(struct world *world, const char *text, uint64_t version);

/* The same with the text of a spec. */
jobsched_announcement old_build_put(struct world *world, const jobsched_job_spec *spec);

/* Closes the next occurrence of the job as another node does, past this scheduler. */
void old_build_skip(struct world *world, uint64_t generation, int64_t after_ms,
                    int64_t scheduled_ms);

/* G9, G14: the ledger names each occurrence of the old schedule in (WORLD_BEGIN_MS, cut_ms] and each
 * of the new one in (cut_ms, now] once, and no other instant. */
void old_build_check(struct world *world, const char *old_schedule, const char *new_schedule,
                     int64_t cut_ms);

#endif
