/* verbs_store.c: migrate and doctor: the store itself. No locks. */
#include "ctl/cluster.h"
#include "ctl/record.h"
#include "ctl/text.h"

#include <string.h>

/* ---- migrate ---- */

static int print_statement(const char *text, void *user_data)
{
    size_t length = strlen(text);

    (void)user_data;
    (void)fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n') {
        (void)fputc('\n', stdout);
    }
    return 0;
}

static int add_statement(const char *text, void *user_data)
{
    return json_array_append_new(user_data, json_string(text));
}

static int print_schema(const ctl_request *request, const char *url)
{
    json_t *list, *root;

    if (!request->json) {
        return jobsched_schema(url, print_statement, NULL) == JOBSCHED_OK ? CTL_OK
                                                                          : ctl_library(request);
    }
    list = json_array();
    if (list != NULL && jobsched_schema(url, add_statement, list) != JOBSCHED_OK) {
        json_decref(list);
        return ctl_library(request);
    }
    root = json_object();
    if (ctl_json_value(root, "statements", list) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static int run_migrate(const ctl_request *request)
{
    char url[CTL_URL_BYTES];
    jobsched *cluster = NULL;
    int result = ctl_cluster_url(request, url);
    json_t *root;

    if (result != CTL_OK) {
        return result;
    }
    if (request->print_sql || request->dry_run) {
        return print_schema(request, url);
    }
    if (ctl_cluster_open_url(request, url, 1, &cluster) != JOBSCHED_OK) {
        return ctl_library(request);
    }
    (void)jobsched_close(cluster);
    if (!request->json) {
        (void)puts("the schema is there and up to date");
        return CTL_OK;
    }
    root = json_object();
    if (ctl_json_flag(root, "up_to_date", 1) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

/* ---- doctor ---- */

typedef struct ctl_examination {
    const ctl_request *request;
    json_t *list;
    size_t warnings, errors;
    int failed;
} ctl_examination;

static int see(const jobsched_check_record *check, void *user_data)
{
    static const int colours[] = {CTL_GREEN, CTL_GREEN, CTL_YELLOW, CTL_RED};
    static const char *const words[] = {"ok", "ok", "warning", "ERROR"};
    ctl_examination *examination = user_data;
    int level = check->level < 0 || check->level > JOBSCHED_LEVEL_ERROR ? JOBSCHED_LEVEL_ERROR
                                                                        : check->level;

    examination->warnings += level == JOBSCHED_LEVEL_WARNING;
    examination->errors += level == JOBSCHED_LEVEL_ERROR;
    if (examination->request->json) {
        examination->failed |= json_array_append_new(examination->list, ctl_check_json(check));
        return examination->failed;
    }
    (void)printf("%s%-7s%s ", ctl_colour(stdout, colours[level]), words[level],
                 ctl_colour(stdout, CTL_PLAIN));
    ctl_text_print(stdout, check->id);
    (void)fputs(": ", stdout);
    ctl_text_print(stdout, check->message);
    (void)fputc('\n', stdout);
    return 0;
}

/* Why the store cannot be had, so that who reads ids alone knows where to look. */
static const char *reach_id(int code)
{
    switch (code) {
    case JOBSCHED_EACCESS:
        return "lock.rights";
    case JOBSCHED_ESCHEMA:
    case JOBSCHED_ENOTFOUND: /* there is none yet */
        return "lock.schema";
    case JOBSCHED_EREFUSED:
        return "lock.refused";
    default:
        return "lock.reachable";
    }
}

/* Whether the store can be had at all is the first finding. */
static void see_reach(ctl_examination *examination, int code)
{
    jobsched_check_record check = {
        .id = reach_id(code), .level = JOBSCHED_LEVEL_INFO, .message = "the lock backend answers"};
    char message[JOBSCHED_MESSAGE_BYTES];

    if (code != JOBSCHED_OK) {
        (void)snprintf(message, sizeof message, "%s", jobsched_last_error()->message);
        check.level = JOBSCHED_LEVEL_ERROR;
        check.message = message;
    }
    (void)see(&check, examination);
}

static int conclude(ctl_examination *examination)
{
    const ctl_request *request = examination->request;
    int is_healthy = examination->errors == 0 && (examination->warnings == 0 || !request->strict);
    int result = CTL_OK;

    if (request->json) {
        json_t *root = json_object();
        int failed = examination->failed | ctl_json_flag(root, "healthy", is_healthy);

        failed |= ctl_json_number(root, "errors", (int64_t)examination->errors);
        failed |= ctl_json_number(root, "warnings", (int64_t)examination->warnings);
        failed |= ctl_json_value(root, "checks", examination->list);
        if (failed) {
            json_decref(root);
            root = NULL;
        }
        result = ctl_json_print(root);
    } else {
        (void)printf("%zu errors, %zu warnings\n", examination->errors, examination->warnings);
    }
    return result != CTL_OK ? result : is_healthy ? CTL_OK : CTL_UNHEALTHY;
}

static int run_doctor(const ctl_request *request)
{
    ctl_examination examination = {.request = request};
    char url[CTL_URL_BYTES];
    jobsched *cluster = NULL;
    int result = ctl_cluster_url(request, url);
    int code;

    if (result != CTL_OK) {
        return result;
    }
    if (request->json) {
        examination.list = json_array();
        examination.failed = examination.list == NULL;
    }
    code = ctl_cluster_open_url(request, url, 0, &cluster);
    see_reach(&examination, code);
    if (code == JOBSCHED_OK) {
        code = jobsched_check(cluster, see, &examination);
        if (code != JOBSCHED_OK) {
            json_decref(examination.list);
            result = ctl_library(request);
            (void)jobsched_close(cluster);
            return result;
        }
        (void)jobsched_close(cluster);
        return conclude(&examination);
    }
    result = conclude(&examination);
    return code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN ? CTL_UNREACHABLE : result;
}

const ctl_verb ctl_store_verbs[] = {
    {"migrate", "", "create the schema, or bring it up to date", "lLNpdj", 0, 0, run_migrate},
    {"doctor", "", "what is wrong with the store or the cluster", "lLNsj", 0, 0, run_doctor},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
