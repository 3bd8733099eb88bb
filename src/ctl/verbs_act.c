/* verbs_act.c: pause, resume, trigger, cancel and remove: they act on the job in the whole cluster,
 * and say what was achieved, never more. No locks. */
#include "ctl/cluster.h"
#include "ctl/record.h"
#include "ctl/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define WAIT_DEFAULT_MS 60000
#define TRIGGER_INTENT  "trigger"

/* What one verb says. */
typedef struct ctl_act {
    const char *intent;  /* "would pause" */
    const char *done;    /* "paused" */
    const char *already; /* when nothing changed */
    int is_destructive;
    int (*perform)(jobsched *cluster, const char *job, jobsched_control_result *out_result);
} ctl_act;

static const ctl_act pausing = {"pause", "paused", "was paused already", 0, jobsched_pause};
static const ctl_act resuming = {"resume", "resumed", "was not paused", 0, jobsched_resume};
static const ctl_act cancelling = {"cancel the runs of", "told to stop", "has no run to cancel", 0,
                                   jobsched_cancel};
static const ctl_act removing = {"remove", "removed", "was removed already", 1, jobsched_remove};

static void print_running(const ctl_request *request, const jobsched_control_result *result)
{
    char since[64];

    if (!result->running) {
        return;
    }
    ctl_when(request->zone, result->since_at_ms, since, sizeof since);
    (void)fputs("  a run goes on at ", stdout);
    ctl_text_print(stdout, result->node);
    (void)printf(" since %s (token %" PRIu64 ")\n", since, result->run_token);
}

static int put_result(json_t *root, const ctl_request *request,
                      const jobsched_control_result *result)
{
    json_t *running;
    int failed = ctl_json_text(root, "verb", request->verb->name);

    failed |= ctl_json_text(root, "job", request->arguments[0]);
    failed |= ctl_json_flag(root, "changed", result->changed);
    failed |= ctl_json_token(root, "token", result->token);
    if (!result->running) {
        return failed | ctl_json_text(root, "running", NULL);
    }
    running = json_object();
    failed |= ctl_json_text(running, "node", result->node);
    failed |= ctl_json_instant(running, "since", result->since_at_ms);
    failed |= ctl_json_token(running, "token", result->run_token);
    return failed | ctl_json_value(root, "running", running);
}

static int print_json(json_t *root, int failed)
{
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

/* ---- before ---- */

typedef struct ctl_outlook {
    int removed, paused;
} ctl_outlook;

static int look(const jobsched_job_record *job, void *user_data)
{
    ctl_outlook *outlook = user_data;

    outlook->removed = job->removed;
    outlook->paused = job->paused;
    return 0;
}

/* Says what would be done; the job must be there, as for the deed itself: what is removed can be
 * removed again. */
static int rehearse(const ctl_request *request, jobsched *cluster, const char *intent)
{
    ctl_outlook outlook = {.removed = 0};

    if (jobsched_jobs(cluster, request->arguments[0], look, &outlook) != JOBSCHED_OK) {
        return ctl_library(request);
    }
    if (outlook.removed && strcmp(intent, removing.intent) != 0) {
        (void)ctl_fail(request, "job '%s' is removed", request->arguments[0]);
        return CTL_NOT_FOUND;
    }
    if (outlook.paused && strcmp(intent, TRIGGER_INTENT) == 0) {
        (void)ctl_fail(request, "job '%s' is paused; resume it first", request->arguments[0]);
        return CTL_REFUSED;
    }
    if (request->json) {
        json_t *root = json_object();
        int failed = ctl_json_text(root, "verb", request->verb->name);

        failed |= ctl_json_text(root, "job", request->arguments[0]);
        failed |= ctl_json_flag(root, "dry_run", 1);
        return print_json(root, failed);
    }
    (void)printf("would %s '", intent);
    ctl_text_print(stdout, request->arguments[0]);
    (void)puts("'");
    return CTL_OK;
}

/* Asks on a terminal only: a script has decided already. */
static int is_confirmed(const ctl_request *request, const ctl_act *act)
{
    char answer[16];

    if (!act->is_destructive || request->yes || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        return 1;
    }
    (void)fprintf(stderr, "%s '", act->intent);
    ctl_text_print(stderr, request->arguments[0]);
    (void)fputs("' from the whole cluster? [y/N] ", stderr);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* ---- pause, resume, cancel, remove ---- */

static int perform(const ctl_request *request, jobsched *cluster, const ctl_act *act)
{
    jobsched_control_result result;

    JOBSCHED_INIT(&result);
    if (act->perform(cluster, request->arguments[0], &result) != JOBSCHED_OK) {
        return ctl_library(request);
    }
    if (request->json) {
        json_t *root = json_object();

        return print_json(root, put_result(root, request, &result));
    }
    (void)fputc('\'', stdout);
    ctl_text_print(stdout, request->arguments[0]);
    (void)printf("' %s", result.changed ? act->done : act->already);
    if (act == &pausing) {
        (void)printf("; no later run has a token above %" PRIu64 " until it is resumed",
                     result.token);
    }
    (void)fputc('\n', stdout);
    print_running(request, &result);
    return CTL_OK;
}

static int run_act(const ctl_request *request, const ctl_act *act)
{
    jobsched *cluster = NULL;
    int result = ctl_cluster_open(request, &cluster);

    if (result == CTL_OK && request->dry_run) {
        result = rehearse(request, cluster, act->intent);
    } else if (result == CTL_OK && !is_confirmed(request, act)) {
        (void)ctl_fail(request, "not confirmed: nothing was done");
        result = CTL_REFUSED;
    } else if (result == CTL_OK) {
        result = perform(request, cluster, act);
    }
    (void)jobsched_close(cluster);
    return result;
}

static int run_pause(const ctl_request *request)
{
    return run_act(request, &pausing);
}

static int run_resume(const ctl_request *request)
{
    return run_act(request, &resuming);
}

static int run_cancel(const ctl_request *request)
{
    return run_act(request, &cancelling);
}

static int run_remove(const ctl_request *request)
{
    return run_act(request, &removing);
}

/* ---- trigger ---- */

typedef struct ctl_awaited {
    json_t *run;
    int outcome, code;
} ctl_awaited;

static int see_end(const jobsched_run_record *run, void *user_data)
{
    ctl_awaited *awaited = user_data;

    awaited->outcome = run->outcome;
    awaited->code = run->code;
    awaited->run = ctl_run_json(run);
    return 0;
}

/* The request id is told first: who loses patience can ask again with it. */
static int wait_for_end(const ctl_request *request, jobsched *cluster, const char *id, json_t *root)
{
    ctl_awaited awaited = {.run = NULL};
    int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : WAIT_DEFAULT_MS;
    int result;

    (void)fflush(stdout);
    if (jobsched_wait(cluster, request->arguments[0], id, timeout_ms, see_end, &awaited) !=
        JOBSCHED_OK) {
        json_decref(root);
        return ctl_library(request);
    }
    result = awaited.outcome == JOBSCHED_OUTCOME_SUCCEEDED ? CTL_OK : CTL_FAILED;
    if (request->json) {
        int printed = print_json(root, ctl_json_value(root, "run", awaited.run));

        return printed == CTL_OK ? result : printed;
    }
    json_decref(awaited.run);
    (void)printf("ended: %s", jobsched_outcome_name(awaited.outcome));
    if (awaited.code != 0) {
        (void)printf(" (code %d)", awaited.code);
    }
    (void)fputc('\n', stdout);
    return result;
}

static int trigger(const ctl_request *request, jobsched *cluster)
{
    const char *id = request->request_id != NULL ? request->request_id : jobsched_node_id(cluster);
    jobsched_control_result result;
    json_t *root = NULL;

    JOBSCHED_INIT(&result);
    if (jobsched_trigger(cluster, request->arguments[0], id, &result) != JOBSCHED_OK) {
        return ctl_library(request);
    }
    if (request->json) {
        int failed;

        root = json_object();
        failed = put_result(root, request, &result) | ctl_json_text(root, "request", id);
        if (failed || !request->wait) {
            return print_json(root, failed);
        }
    } else {
        (void)fputc('\'', stdout);
        ctl_text_print(stdout, request->arguments[0]);
        (void)printf("' %s, request '", result.changed ? "triggered" : "was triggered already");
        ctl_text_print(stdout, id);
        (void)puts("'");
        print_running(request, &result);
    }
    return request->wait ? wait_for_end(request, cluster, id, root) : CTL_OK;
}

static int run_trigger(const ctl_request *request)
{
    jobsched *cluster = NULL;
    int result = ctl_cluster_open(request, &cluster);

    if (result == CTL_OK) {
        result = request->dry_run ? rehearse(request, cluster, TRIGGER_INTENT)
                                  : trigger(request, cluster);
    }
    (void)jobsched_close(cluster);
    return result;
}

const ctl_verb ctl_act_verbs[] = {
    {"pause", "JOB", "grant no occurrence of the job any more", "lLNdzj", 1, 1, run_pause},
    {"resume", "JOB", "end a pause; nothing is replayed", "lLNdzj", 1, 1, run_resume},
    {"trigger", "JOB", "fire the job once, now", "lLNrWtdzj", 1, 1, run_trigger},
    {"cancel", "JOB", "ask the runs of the job to stop", "lLNdzj", 1, 1, run_cancel},
    {"remove", "JOB", "take the job out of the cluster", "lLNydzj", 1, 1, run_remove},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
