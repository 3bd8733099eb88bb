/* control.c: control calls in the midst of it, and what they promised (G6). What was not answered is
 * asked again, with the same request id. Locks: none, one thread. */
#include "campaign.h"

#include <stdlib.h>

enum { RUNS, PAUSE, UNSURE };

static int64_t now_us(void)
{
    return fleet_now_ms() * 1000;
}

void control_begin(campaign *c)
{
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = c->f->server.url;
    options.name_space = c->f->name_space;
    options.node_name = "control";
    options.lease_ms = LEASE_MS;
    options.control_only = 1;
    options.history_count = FLEET_HISTORY;
    for (int tries = 0; jobsched_open(&options, &c->control) != 0; tries++) {
        if (tries == 100) {
            fail_msg("no control: %s", jobsched_last_error()->message);
        }
        fleet_nap_ms(50);
    }
}

static const char *paused_job(campaign *c, size_t i)
{
    return c->jobs[STABLE - PAUSED + i].name;
}

static void resume(campaign *c, size_t i)
{
    if (c->pause_state[i] == PAUSE) {
        c->pauses[c->pause_open[i]].to_us = now_us() - 1000; /* asked for, so perhaps done */
    }
    int code = jobsched_resume(c->control, paused_job(c, i), NULL);
    c->control_failures += code != 0;
    c->pause_state[i] = code == 0 ? RUNS : UNSURE;
}

static void pause_one(campaign *c, size_t i)
{
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    if (c->pause_count == PAUSES_MAX) {
        return;
    }
    int code = jobsched_pause(c->control, paused_job(c, i), &result);
    c->control_failures += code != 0;
    if (code != 0) {
        c->pause_state[i] = code == JOBSCHED_ENOTFOUND ? RUNS : UNSURE;
        return;
    }
    c->pause_state[i] = PAUSE;
    c->pause_until_ms[i] = fleet_mono_ms() + 300 + (int64_t)campaign_random(c, 4000);
    c->pause_open[i] = c->pause_count;
    paused *kept = &c->pauses[c->pause_count++];
    *kept = (paused){.token = result.token, .from_us = now_us() + 1000, .to_us = INT64_MAX};
    memcpy(kept->job, paused_job(c, i), sizeof kept->job);
}

/* Its job is in the request's name. */
static void trigger(campaign *c)
{
    char job[24];
    if (!c->request_pending) {
        if (c->request_count == REQUESTS_MAX) {
            return;
        }
        (void)snprintf(c->requests[c->request_count], sizeof c->requests[0], "%zu:%zu",
                       c->request_count % TRIGGERED, c->request_count);
        c->request_count++;
    }
    const char *request = c->requests[c->request_count - 1];
    (void)snprintf(job, sizeof job, "triggered-%c", request[0]);
    int code = jobsched_trigger(c->control, job, request, NULL);
    c->control_failures += code != 0;
    c->request_pending = code != 0;
}

void control_step(campaign *c)
{
    size_t i = campaign_random(c, PAUSED);
    switch (campaign_random(c, 100)) {
    case 0:
        if (c->pause_state[i] == RUNS) {
            pause_one(c, i);
        } else if (c->pause_state[i] == UNSURE || fleet_mono_ms() >= c->pause_until_ms[i]) {
            resume(c, i);
        }
        break;
    case 1:
        trigger(c);
        break;
    case 2:
        /* One of the long ones. */
        c->cancels += jobsched_cancel(c->control, "long-07", NULL) == 0;
        break;
    default:
        break;
    }
}

void control_heal(campaign *c)
{
    for (int64_t until_ms = fleet_mono_ms() + FLEET_SOON_MS; fleet_mono_ms() < until_ms;) {
        bool done = !c->request_pending;
        if (c->request_pending) {
            trigger(c);
        }
        for (size_t i = 0; i < PAUSED; i++) {
            if (c->pause_state[i] != RUNS) {
                resume(c, i);
            }
            done = done && c->pause_state[i] == RUNS;
        }
        if (done) {
            return;
        }
        fleet_nap_ms(50);
    }
    fail_msg("control calls are not answered: %s", jobsched_last_error()->message);
}

static void judge_pauses(const campaign *c, control_report *out)
{
    const fleet *f = c->f;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what != RECORD_START) {
            continue;
        }
        for (size_t j = 0; j < c->pause_count; j++) {
            const paused *one = &c->pauses[j];
            if (entry->at_us > one->from_us && entry->at_us < one->to_us &&
                entry->token > one->token && strcmp(entry->job, one->job) == 0 &&
                out->pause_faults++ < 10) {
                printf("  pause: %s began under token %llu, paused at %llu\n", one->job,
                       (unsigned long long)entry->token, (unsigned long long)one->token);
            }
        }
    }
}

static int by_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Each request has one row, which has ended. */
static void judge_triggers(campaign *c, const check_row *rows, size_t count, control_report *out)
{
    qsort(c->requests, c->request_count, sizeof c->requests[0], by_text);
    size_t *seen = calloc(c->request_count + 1, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < count; i++) {
        const check_row *row = &rows[i];
        if (row->request[0] == '\0') {
            continue;
        }
        char key[16] = "";
        (void)snprintf(key, sizeof key, "%s", row->request);
        char(*found)[16] = bsearch(key, c->requests, c->request_count, sizeof key, by_text);
        bool ended = row->outcome >= JOBSCHED_OUTCOME_SUCCEEDED;
        if (found != NULL) {
            seen[found - c->requests]++;
        }
        if ((found == NULL || !ended) && out->trigger_faults++ < 10) {
            printf("  trigger: %s of %s is %s\n", row->request, row->job,
                   jobsched_outcome_name(row->outcome));
        }
    }
    for (size_t i = 0; i < c->request_count; i++) {
        if (seen[i] != 1 && out->trigger_faults++ < 10) {
            printf("  trigger: %s has %zu rows\n", c->requests[i], seen[i]);
        }
    }
    free(seen);
}

void control_judge(campaign *c, const check_row *rows, size_t count, control_report *out)
{
    *out = (control_report){.pauses = c->pause_count, .triggers = c->request_count};
    judge_pauses(c, out);
    judge_triggers(c, rows, count, out);
    for (size_t i = 0; i < count; i++) {
        out->cancelled += rows[i].outcome == JOBSCHED_OUTCOME_CANCELLED;
    }
}
