/* loss_support.h: what tests of stores that forget share. */
#ifndef LOSS_SUPPORT_H
#define LOSS_SUPPORT_H

#include "redis_support.h"

/* LOSS_LEASE_MS: a machine that stands still for some seconds does not make it end. LOSS_BRIEF_MS:
 * of those that are waited for. */
enum { LOSS_LEASE_MS = 60000, LOSS_BRIEF_MS = 600 };

/* The folder of the server that is asked; the test's, unless it says otherwise. */
extern const char *loss_directory;

int loss_set_up(void **state);

/* Occurrence k with the lease of these tests. */
jobsched_claim loss_claim(const struct cf_job *job, int64_t k);

/* Asks until there is another answer than BUSY, also of a server that loads its data still; returns
 * how long that took. */
int64_t loss_sit_out(struct cf_node *node, jobsched_claim *claim);

/* The same, as if the time were over in which others could come back. */
void loss_wait_out(struct cf_node *node, jobsched_claim *claim);

jobsched_claim loss_grant(struct cf_node *node, const struct cf_job *job, int64_t k);
void loss_end(struct cf_node *node, const jobsched_claim *run);

/* An instant that is over, and later than a loss that the node has noticed: what was due in the
 * very millisecond of that is unknown, too. */
int64_t loss_later(struct cf_node *node);

/* The occurrence of this instant, from the mark that is told. */
jobsched_claim loss_of_now(struct cf_node *node, const struct cf_job *job);

#endif
