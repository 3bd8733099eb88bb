/* rollout.c: roll-outs of a changed schedule; a roll-back is a roll-out of the older schedule under
 * the next version. What must have come of them: rollout_judge.c. Locks: none, one thread. */
#include "campaign.h"

void rollout_jobs(campaign *c)
{
    bool even = c->version % 2 == 1;
    (void)snprintf(c->version_text, sizeof c->version_text, "version=%zu", c->version);
    for (size_t i = 0; i < ROLLED; i++) {
        check_job *job = &c->jobs[STABLE + i];
        *job = (check_job){"",
                           even ? "@every 2s" : "@every 2s from 2020-01-01T00:00:01Z",
                           ROLLED_PERIOD_MS,
                           even ? 0 : ROLLED_PERIOD_MS / 2,
                           i % 2 == 0 ? 1 : 300,
                           NULL,
                           c->version_text};
        (void)snprintf(job->name, sizeof job->name, ROLLED_NAME "%zu", i);
    }
    fleet_jobs(c->f, c->jobs, STABLE + ROLLED + TRIGGERED);
    c->f->job_count = STABLE; /* for whoever waits: these are always due */
}

/* Now and then just before an instant, so that it comes due while the new ones take over; and, where
 * roll-outs are all there is, when all of the old ones have crashed and some instants have come due
 * since. */
static void begin(campaign *c)
{
    c->version++;
    for (size_t i = 0; i < ROLLED; i++) {
        rollout_cuts_begin(&c->cuts[i], c->version, fleet_now_ms());
    }
    rollout_jobs(c); /* which a process that was started before may read */
    c->roll_left = SLOTS;
    memset(c->rolled, 0, sizeof c->rolled);
    c->roll_from_ms = fleet_mono_ms();
    uint64_t way = c->only == ROLLOUTS_ONLY ? campaign_random(c, 5) : campaign_random(c, 3);
    if (way == 4) {
        chaos_fell(c);
        c->roll_from_ms += (int64_t)campaign_random(c, 4000);
    } else if (way >= 2) {
        c->roll_from_ms += 1150 - fleet_now_ms() % 1000 - (int64_t)campaign_random(c, 300);
    }
}

void rollout_step(campaign *c)
{
    bool only = c->only == ROLLOUTS_ONLY;
    if (c->roll_left == 0) {
        if (campaign_random(c, only ? 60 : 1200) == 0 && c->version + 1 < ROLLOUTS_MAX) {
            begin(c);
        }
        return;
    }
    size_t i = campaign_random(c, SLOTS);
    bool turn = c->roll_left == SLOTS ? fleet_mono_ms() >= c->roll_from_ms
                                      : campaign_random(c, only ? 8 : 20) == 0;
    if (!turn || c->rolled[i] || c->slots[i].fault >= 0) {
        return;
    }
    /* Some processes crash in between. */
    chaos_replace(c, i, campaign_random(c, 4) == 0 || c->leaving_count > 8);
    c->rolled[i] = true;
    c->roll_left--;
}

void rollout_finish(campaign *c)
{
    for (size_t i = 0; i < SLOTS && c->roll_left > 0; i++) {
        if (!c->rolled[i]) {
            chaos_replace(c, i, false);
            c->roll_left--;
        }
    }
}

struct look {
    size_t version;
    int64_t mark_ms;
};

static int take_job(const jobsched_job_record *told, void *user_data)
{
    *(struct look *)user_data =
        (struct look){.version = (size_t)told->version, .mark_ms = told->mark_at_ms};
    return 0;
}

void rollout_observe(campaign *c)
{
    size_t i = c->observed++ % ROLLED;
    struct look look = {0, 0};
    if (jobsched_jobs(c->control, c->jobs[STABLE + i].name, take_job, &look) == 0) {
        assert_true(look.version >= 1 && look.version <= c->version);
        rollout_cuts_seen(&c->cuts[i], look.version, look.mark_ms, fleet_now_ms());
    }
}
