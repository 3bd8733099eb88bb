/* replace.h: how a definition of ours takes the place of another one: see replace.c. Included by
 * internal.h, which has what is named here.
 *
 * Functions whose name ends in _locked need s->lock held. */
#ifndef JSI_REPLACE_H
#define JSI_REPLACE_H

#include <jobsched/backend.h>

#include <stdbool.h>

struct jsi_job;

/* The definition in force that a job's own is to replace. Until it has, the job acts under this one
 * (replace.c): what is due by it must not be lost. */
typedef struct jsi_predecessor {
    jobsched_job_spec spec;      /* its policies; no texts */
    jobsched_schedule *schedule; /* NULL: it is not understood here, and why_not tells why */
    int64_t delay_ms;            /* of "@after D"; else 0 */
    bool outdated;               /* zones were reloaded: it is to be made again */
    bool unread; /* a file could not be read, for a reason that may pass: not understood yet */
    char why_not[JOBSCHED_MESSAGE_BYTES];
} jsi_predecessor;

/* What a job acts under: its own definition's, or its predecessor's. */
const jobsched_job_spec *jsi_policies(const struct jsi_job *job);
const jobsched_schedule *jsi_schedule(const struct jsi_job *job);
int64_t jsi_delay_ms(const struct jsi_job *job);

/* Puts a job in s->unannounced. */
void jsi_announce_locked(jobsched *s, struct jsi_job *job);
/* How the job's own definition is to be announced. */
void jsi_replace_fill_locked(const jobsched *s, const struct jsi_job *job,
                             jobsched_announcement *item);
/* The announcement was answered: another definition is in force still. */
void jsi_replace_pending_locked(jobsched *s, struct jsi_job *job,
                                const jobsched_announcement *item);
/* The job acts under the definition in force, of this generation, until nothing is due by it. Takes
 * over the predecessor; NULL: there was no memory for it. One that is unread counts only after
 * JSI_SETTLE_WAIT_MS. */
void jsi_replace_settle_locked(jobsched *s, struct jsi_job *job, jsi_predecessor *predecessor,
                               uint64_t generation, int64_t mark_ms, int64_t last_end_ms);
/* jsi_job_rearm_locked(), while it does and next_ms is known. */
void jsi_replace_rearm_locked(jobsched *s, struct jsi_job *job);
/* Nothing is due by the predecessor before this instant, whatever its schedule says. */
void jsi_replace_undue_locked(jobsched *s, struct jsi_job *job, int64_t next_ms);
/* The job acts under its own definition again, or under none. */
void jsi_replace_end_locked(jobsched *s, struct jsi_job *job);
/* The same, and its own has taken the predecessor's place. */
void jsi_replace_done_locked(jobsched *s, struct jsi_job *job);
/* As jsi_look_locked, but in a moment: nothing may go round and round without a pause. */
void jsi_look_later_locked(jobsched *s, struct jsi_job *job);
/* Part of jsi_look(): what was put off, and what waits here for others to claim it. */
void jsi_replace_look_locked(jobsched *s);
int64_t jsi_replace_look_next_locked(const jobsched *s);

#endif
