/* main.c: jobschedctl, the operator's command line: finds the verb and calls it. The verbs are in one
 * file per group. No locks. */
#include "ctl/ctl.h"
#include "ctl/output.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static const ctl_verb *const groups[] = {
    ctl_schedule_verbs, ctl_crontab_verbs, ctl_read_verbs,
    ctl_act_verbs,      ctl_store_verbs,   ctl_general_verbs,
};
#define GROUP_COUNT (sizeof groups / sizeof groups[0])

const ctl_verb *ctl_verb_at(size_t index)
{
    for (size_t group = 0; group < GROUP_COUNT; group++) {
        for (const ctl_verb *verb = groups[group]; verb->name != NULL; verb++) {
            if (index-- == 0) {
                return verb;
            }
        }
    }
    return NULL;
}

const ctl_verb *ctl_verb_find(const char *name)
{
    const ctl_verb *verb;

    for (size_t i = 0; (verb = ctl_verb_at(i)) != NULL; i++) {
        if (strcmp(verb->name, name) == 0) {
            return verb;
        }
    }
    return NULL;
}

/* The forms that every program knows. */
static const char *verb_name(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return "help";
    }
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 ? "version" : word;
}

/* No verb tells which options there are. */
static int refuse_verb(int argc, char *const *argv)
{
    ctl_request request = {.verb = NULL};

    for (int i = 2; i < argc; i++) {
        request.json |= strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0;
    }
    return ctl_usage(&request, "unknown verb '%s'", argv[1]);
}

static int run(int argc, char **argv)
{
    const ctl_verb *verb;
    ctl_request request;
    int help_asked = 0;
    int result;

    if (argc < 2) {
        return ctl_usage(NULL, "a verb is missing");
    }
    verb = ctl_verb_find(verb_name(argv[1]));
    if (verb == NULL) {
        return refuse_verb(argc, argv);
    }
    result = ctl_arguments_read(verb, argc - 1, argv + 1, &request, &help_asked);
    if (result == CTL_OK && help_asked) {
        verb = ctl_verb_find("help");
        request.arguments = argv + 1;
        request.argument_count = 1;
    }
    return result == CTL_OK ? verb->perform(&request) : result;
}

int main(int argc, char **argv)
{
    int result;

    /* Only which characters there are: numbers and messages are the same in every locale. */
    (void)setlocale(LC_CTYPE, "");
    result = run(argc, argv);
    /* What could not be written was not said. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return result == CTL_OK ? ctl_fail(NULL, "standard output cannot be written") : result;
    }
    return result;
}
