/* loss_support.c: see loss_support.h. */
#include "loss_support.h"

const char *loss_directory;

int loss_set_up(void **state)
{
    loss_directory = redis_directory;
    return redis_set_up(state);
}

jobsched_claim loss_claim(const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = cf_at(job, k);
    claim.lease_ms = LOSS_LEASE_MS;
    return claim;
}

int64_t loss_sit_out(struct cf_node *node, jobsched_claim *claim)
{
    int64_t began_ms = cf_real_mono_ms();
    int code;
    do {
        cf_true(cf_real_mono_ms() < began_ms + CF_POLL_MS);
        code = redis_claim(node, claim, CF_TIMEOUT_MS);
        if (code != JOBSCHED_EUNREACHABLE) {
            cf_ok(code);
        }
        cf_pause();
    } while (code != 0 || claim->answer == JOBSCHED_ANSWER_BUSY);
    return cf_real_mono_ms() - began_ms;
}

void loss_wait_out(struct cf_node *node, jobsched_claim *claim)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    int code;
    while ((code = redis_claim(node, claim, CF_TIMEOUT_MS)) != 0) {
        cf_equal(code, JOBSCHED_EUNREACHABLE);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    if (claim->answer == JOBSCHED_ANSWER_BUSY) {
        (void)redis_ask_in(loss_directory, "HSET {jobsched:%s}:meta quarantine 1",
                           node->name_space);
        (void)loss_sit_out(node, claim);
    }
}

jobsched_claim loss_grant(struct cf_node *node, const struct cf_job *job, int64_t k)
{
    jobsched_claim claim = loss_claim(job, k);
    cf_ask(node, &claim);
    cf_answer(claim, GRANTED);
    return claim;
}

void loss_end(struct cf_node *node, const jobsched_claim *run)
{
    cf_equal(cf_finish(node, run->job, run->token, JOBSCHED_OUTCOME_SUCCEEDED),
             JOBSCHED_LEASE_KEPT);
}

int64_t loss_later(struct cf_node *node)
{
    cf_wait_until(node, cf_now(node) + 1);
    return cf_now(node);
}

jobsched_claim loss_of_now(struct cf_node *node, const struct cf_job *job)
{
    jobsched_claim probe = loss_claim(job, 0); /* answered DONE, with the mark */
    loss_wait_out(node, &probe);
    cf_wait_until(node, probe.mark_ms + 2);
    jobsched_claim claim = probe;
    claim.after_ms = probe.mark_ms;
    claim.scheduled_ms = loss_later(node);
    return claim;
}
