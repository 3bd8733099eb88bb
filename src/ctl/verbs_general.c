/* verbs_general.c: help and version. No state, no locks. */
#include "ctl/output.h"

static int print_verb(const ctl_verb *verb)
{
    (void)printf("usage: jobschedctl %s [OPTION]...%s%s\n\n%s%s%s\n\n", verb->name,
                 verb->arguments[0] == '\0' ? "" : " ", verb->arguments,
                 ctl_colour(stdout, CTL_BOLD), verb->summary, ctl_colour(stdout, CTL_PLAIN));
    ctl_arguments_print(verb);
    return CTL_OK;
}

static int help_json(void)
{
    json_t *root = json_object(), *list = json_array();
    const ctl_verb *verb;
    int failed = 0;

    for (size_t i = 0; (verb = ctl_verb_at(i)) != NULL; i++) {
        json_t *item = json_object();

        failed |= ctl_json_text(item, "name", verb->name);
        failed |= ctl_json_text(item, "arguments", verb->arguments);
        failed |= ctl_json_text(item, "summary", verb->summary);
        failed |= json_array_append_new(list, item);
    }
    failed |= ctl_json_value(root, "verbs", list);
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static int run_help(const ctl_request *request)
{
    const ctl_verb *verb;

    if (request->argument_count == 1) {
        verb = ctl_verb_find(request->arguments[0]);
        if (verb == NULL) {
            ctl_request unknown = *request;

            unknown.verb = NULL; /* the hint is the help of all */
            return ctl_usage(&unknown, "unknown verb '%s'", request->arguments[0]);
        }
        return print_verb(verb);
    }
    if (request->json) {
        return help_json();
    }
    (void)printf("usage: jobschedctl VERB [OPTION]... [ARGUMENT]\n\n");
    for (size_t i = 0; (verb = ctl_verb_at(i)) != NULL; i++) {
        (void)printf("  %-8s %-7s %s\n", verb->name, verb->arguments, verb->summary);
    }
    (void)printf("\n'jobschedctl help VERB' shows its options, jobschedctl(1) everything.\n");
    return CTL_OK;
}

static int run_version(const ctl_request *request)
{
    json_t *root;

    if (!request->json) {
        (void)printf("jobschedctl %s, library %s\n", JOBSCHED_VERSION, jobsched_version());
        return CTL_OK;
    }
    root = json_object();
    if (ctl_json_text(root, "version", JOBSCHED_VERSION) != 0 ||
        ctl_json_text(root, "library", jobsched_version()) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

const ctl_verb ctl_general_verbs[] = {
    {"help", "[VERB]", "all verbs, or the options of one", "j", 0, 1, run_help},
    {"version", "", "the versions of program and library", "j", 0, 0, run_version},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
