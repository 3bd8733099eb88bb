/* fire.c: the only way in which a run comes to be, whatever made it due: claim a batch, start what
 * is granted.
 * Locks: takes s->lock, never over a backend call (but vouch()) or a submit. */
#include "engine/internal.h"

static jobsched_claim question(const jsi_ask *ask)
{
    const jsi_job *job = ask->job;
    bool next = JSI_MUTANT(cut_new_generation) && job->predecessor != NULL;
    uint64_t generation = next ? job->generation + 1 : job->generation;
    return (jobsched_claim){.job = job->name,
                            .request = ask->kind == JOBSCHED_KIND_TRIGGER ? ask->request : NULL,
                            .generation = generation,
                            .scheduled_ms = ask->scheduled_ms,
                            .after_ms = ask->after_ms,
                            .lease_ms = job->lease_ms,
                            .delay_ms =
                                ask->kind == JOBSCHED_KIND_SCHEDULED ? jsi_delay_ms(job) : 0,
                            .skip_first_ms = ask->skip_first_ms,
                            .skip_count = ask->skip_count,
                            .skip_outcome = ask->skip_outcome,
                            .kind = ask->kind,
                            .when_held = ask->when_held,
                            .recover = jsi_policies(job)->recover,
                            .recover_limit = jsi_policies(job)->recover_limit};
}

/* Makes the runs that may be granted before the claim is sent: a grant must never be lost for
 * want of memory. Returns how many there are. */
static size_t make_runs_locked(jobsched *s, uint64_t wanted)
{
    size_t count = 0;
    while (count < wanted && count < JOBSCHED_BATCH_MAX) {
        s->runs[count] = jsi_run_new(s);
        if (s->runs[count] == NULL) {
            break; /* memory may be back in the next round */
        }
        count++;
    }
    return count;
}

/* What waited here, for room or for the backend to come back, may have become a missed occurrence
 * meanwhile. */
static void decide_again_locked(const jobsched *s, jsi_ask *ask, int64_t now_ms)
{
    if (!ask->extra && !ask->unresolved && now_ms - ask->decided_ms > JSI_WINDOW_MS) {
        jsi_decide(s, ask->job, now_ms);
    }
}

/* Whether this node still wants to ask it: a withdrawn job is asked about, and a stopped scheduler
 * asks, only to settle what is unknown. If that was granted after all, somebody must run it, or it
 * would be held for ever. */
static bool is_wanted_locked(const jobsched *s, const jsi_ask *ask)
{
    return ask->unresolved || (!ask->job->withdrawn && s->state == JSI_STARTED);
}

/* Whether it may be sent now: in leader mode only the leader asks, and who wants to lead. */
static bool is_sent_locked(const jobsched *s, const jsi_ask *ask, bool leads)
{
    return is_wanted_locked(s, ask) && (leads || ask->unresolved || ask->job->leads);
}

/* How many asks for runs to send, and how many of them may be granted. More are sent than there is
 * room for: occurrences that other nodes have fired are settled on the way. */
static size_t plan_locked(jobsched *s, bool leads, size_t *out_grants)
{
    double room_ms = jsi_room_ms_locked(s);
    double cost_ms = 0;
    size_t asks = 0, grants = 0;
    for (jsi_link *link = s->ready.next; link != &s->ready && asks < JOBSCHED_BATCH_MAX;
         link = link->next) {
        const jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        if (ask->kind == JOBSCHED_CLAIM_SKIP || !is_sent_locked(s, ask, leads)) {
            continue;
        }
        double with_ms = cost_ms + jsi_cost_ms(s, ask->job);
        /* How many fit, if those that are granted cost what all cost on average. */
        double fit = room_ms * (double)(asks + 1) / with_ms;
        if (fit < 1 || (double)(asks + 1) > fit * (double)s->ask_factor) {
            break;
        }
        cost_ms = with_ms;
        asks++;
        grants = (double)asks < fit ? asks : (size_t)fit;
    }
    *out_grants = grants;
    return asks;
}

/* Fills the batch with what is to be asked. Closing a range needs no worker. */
static size_t gather_locked(jobsched *s, size_t *out_run_count)
{
    int64_t now_ms = jsi_now_locked(s);
    /* Once stopped, only claims whose outcome is unknown are left (jsi_ask_drop_due_locked). */
    if (s->state != JSI_STARTED && s->state != JSI_STOPPED) {
        return 0;
    }
    if (!jsi_keep_may_claim_locked(s)) {
        return 0; /* what would be granted now could be passed on before its lease ends (G5) */
    }
    for (jsi_link *link = s->ready.next; link != &s->ready; link = link->next) {
        decide_again_locked(s, JSI_CONTAINER(link, jsi_ask, link), now_ms);
    }
    bool leads = jsi_leads_locked(s);
    size_t grants;
    size_t reach = plan_locked(s, leads, &grants);
    *out_run_count = make_runs_locked(s, grants);
    reach = *out_run_count > 0 ? reach : 0;
    size_t asked = 0; /* for runs */
    size_t count = 0;
    jsi_link *link = s->ready.next;
    while (link != &s->ready && count < JOBSCHED_BATCH_MAX) {
        jsi_ask *ask = JSI_CONTAINER(link, jsi_ask, link);
        link = link->next;
        bool runs = ask->kind != JOBSCHED_CLAIM_SKIP;
        if ((runs && asked == reach) || !is_sent_locked(s, ask, leads)) {
            continue;
        }
        asked += runs;
        jsi_list_remove(&ask->link);
        if (ask->extra) {
            ask->job->references++; /* this batch's */
        } else {
            ask->job->phase = JSI_JOB_CLAIMING; /* the ask's reference becomes this batch's */
        }
        s->batch[count] = ask;
        s->claims[count++] = question(ask);
    }
    return count;
}

/* An ask with its reference to the job goes back to a list, or is forgotten. Returns the job whose
 * reference is to be released once the lock is dropped, or NULL. */
static jsi_job *return_ask_locked(jobsched *s, jsi_ask *ask, jsi_link *list)
{
    bool wanted = is_wanted_locked(s, ask);
    if (wanted) {
        jsi_list_prepend(list, &ask->link);
    }
    if (!ask->extra) {
        ask->job->phase = wanted ? JSI_JOB_READY : JSI_JOB_IDLE;
    }
    if (wanted) {
        return NULL;
    }
    jsi_job *job = ask->job;
    (void)jsi_ask_drop_locked(s, ask);
    return job;
}

/* Where nothing is known of any item, each is asked again exactly as it was, before anything else
 * happens to it (G8). Every other failure promises that nothing was changed, so the occurrence is
 * as due as before, or is missed by the next try. */
static void put_back(jobsched *s, size_t count, int code)
{
    for (size_t i = count; i > 0; i--) {
        jsi_ask *ask = s->batch[i - 1];
        (void)pthread_mutex_lock(&s->lock);
        ask->unresolved =
            (ask->unresolved || code == JOBSCHED_EUNKNOWN) && !JSI_MUTANT(unknown_is_lost);
        if (ask->extra) {
            ask->job->references--; /* this batch's; the ask has its own */
        }
        jsi_job *unwanted = return_ask_locked(s, ask, &s->ready);
        (void)pthread_mutex_unlock(&s->lock);
        if (unwanted != NULL) {
            jsi_job_release(s, unwanted);
        }
    }
    (void)pthread_mutex_lock(&s->lock);
    jsi_rest_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
}

/* An ask that is answered and needs no more. */
static void drop_extra_locked(jobsched *s, jsi_ask *ask)
{
    jsi_job *job = jsi_ask_drop_locked(s, ask);
    job->references--; /* never the last: the batch holds one, too */
}

/* It stays due, here as for other nodes: there was no room for it. Or it stays unknown: a grant of
 * an earlier claim whose answer was lost, and for which there is less room now; or somebody was
 * deciding about it just now. */
static void keep_locked(jsi_ask *ask, bool unresolved, jsi_link *kept)
{
    ask->unresolved = unresolved;
    if (!ask->extra) {
        ask->job->references++; /* the ask's again */
    }
    jsi_list_append(kept, &ask->link);
}

/* Somebody decides about it this instant, and whether we hold it already is not known yet. */
static void wait_unknown_locked(jobsched *s, jsi_ask *ask, const jobsched_claim *claim)
{
    keep_locked(ask, true, &s->held);
    if (!ask->extra) {
        ask->job->phase = JSI_JOB_READY;
    }
    ask->not_before_mono_ms = jsi_mono(s) + (claim->wait_ms > 0 ? claim->wait_ms : 1);
    jsi_wake_tick_locked(s);
}

/* Applies one answer. Returns the run that was granted, or NULL. */
static jobsched_run *settle_locked(jobsched *s, jsi_ask *ask, const jobsched_claim *claim,
                                   jobsched_run *spare, int64_t sent_mono_ms, jsi_link *kept)
{
    if (claim->answer == JOBSCHED_ANSWER_FULL) {
        keep_locked(ask, false, kept); /* which also settles that we do not hold it */
        return NULL;
    }
    if (claim->answer == JOBSCHED_ANSWER_BUSY && ask->unresolved) {
        wait_unknown_locked(s, ask, claim);
        return NULL;
    }
    /* Where this node may have been taken for dead since, the grant may be somebody else's by now:
     * the repetition tells (G5). */
    if (claim->answer == JOBSCHED_ANSWER_GRANTED && ask->kind != JOBSCHED_CLAIM_SKIP &&
        (spare == NULL || jsi_keep_is_doubtful_locked(s, sent_mono_ms)) &&
        !jsi_run_is_active_locked(s, ask, claim->token)) {
        keep_locked(ask, true, kept);
        return NULL;
    }
    bool used = jsi_answer_locked(s, ask, claim, spare, sent_mono_ms);
    if (ask->extra && ask->not_before_mono_ms == JOBSCHED_NONE) {
        drop_extra_locked(s, ask);
    }
    return used ? spare : NULL;
}

/* Reaches further while room is left over, and less far once claims come back for want of it. */
static void learn_reach_locked(jobsched *s, bool any_kept, bool room_left)
{
    if (any_kept) {
        s->ask_factor = s->ask_factor > 1 ? s->ask_factor / 2 : 1;
    } else if (room_left && s->ask_factor < JOBSCHED_BATCH_MAX) {
        s->ask_factor *= 2;
    }
}

/* Applies all answers in their order and starts what was granted. Returns how many runs were
 * used. */
static size_t settle(jobsched *s, size_t count, size_t run_count, int64_t sent_mono_ms)
{
    jsi_link kept;
    jsi_list_init(&kept);
    size_t used = 0;
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        jsi_ask *ask = s->batch[i];
        jsi_job *job = ask->job;
        /* The backend grants no more than there are runs. */
        jobsched_run *spare = used < run_count ? s->runs[used] : NULL;
        jobsched_run *run = settle_locked(s, ask, &s->claims[i], spare, sent_mono_ms, &kept);
        (void)pthread_mutex_unlock(&s->lock);
        if (run != NULL) {
            used++;
        }
        if (run != NULL && !job->leads) {
            jsi_run_submit(s, run);
        }
        jsi_job_release(s, job);
        (void)pthread_mutex_lock(&s->lock);
    }
    learn_reach_locked(s, !jsi_list_is_empty(&kept), used < run_count);
    for (jsi_link *link; (link = kept.previous) != &kept;) {
        jsi_list_remove(link);
        jsi_job *unwanted = return_ask_locked(s, JSI_CONTAINER(link, jsi_ask, link), &s->ready);
        if (unwanted != NULL) {
            (void)pthread_mutex_unlock(&s->lock);
            jsi_job_release(s, unwanted);
            (void)pthread_mutex_lock(&s->lock);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return used;
}

/* Only in test builds: an error is taken for an answer. */
static void mistake_error(jobsched *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        jobsched_claim *claim = &s->claims[i];
        claim->answer = JSI_MUTANT(error_is_won) ? JOBSCHED_ANSWER_GRANTED : JOBSCHED_ANSWER_DONE;
        claim->mark_ms = claim->granted_ms = claim->scheduled_ms;
    }
}

size_t jsi_fire(jobsched *s)
{
    size_t run_count = 0;
    (void)pthread_mutex_lock(&s->lock);
    size_t count = gather_locked(s, &run_count);
    s->claiming = count;
    (void)pthread_mutex_unlock(&s->lock);
    size_t used = 0;
    if (count > 0) {
        /* The lease is counted from here: from before the request was sent (G5). */
        int64_t sent_mono_ms = jsi_mono(s);
        int failed = jsi_backend_claim(s, s->claims, count, run_count);
        (void)pthread_mutex_lock(&s->lock);
        s->stats.claim_requests++;
        (void)pthread_mutex_unlock(&s->lock);
        if (JSI_MUTANT(lease_from_reply)) {
            sent_mono_ms = jsi_mono(s);
        }
        if (failed == JOBSCHED_EUNKNOWN &&
            (JSI_MUTANT(error_is_won) || JSI_MUTANT(error_is_lost))) {
            mistake_error(s, count);
            failed = JOBSCHED_OK;
        }
        if (failed != 0) {
            put_back(s, count, failed);
        }
        used = failed == 0 ? settle(s, count, run_count, sent_mono_ms) : 0;
        (void)pthread_mutex_lock(&s->lock);
        s->claiming = 0;
        (void)pthread_cond_broadcast(&s->idle_cond);
        (void)pthread_mutex_unlock(&s->lock);
    }
    for (size_t i = used; i < run_count; i++) {
        jsi_run_release(s, s->runs[i]);
    }
    return count;
}
