/* arguments.c: reads the options of a verb. One table names them all; each verb says which it takes.
 * No state but getopt's, no locks. */
#include "ctl/ctl.h"
#include "ctl/output.h"
#include "ctl/text.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum value_kind { VALUE_FLAG, VALUE_TEXT, VALUE_COUNT, VALUE_SPAN };

typedef struct ctl_option {
    char letter;
    enum value_kind kind;
    const char *name;
    const char *value; /* as shown to people; NULL: it has none */
    const char *help;
    size_t offset; /* in ctl_request */
} ctl_option;

static const ctl_option all_options[] = {
    {'z', VALUE_TEXT, "zone", "ZONE", "time zone; without it that of the text, else UTC",
     offsetof(ctl_request, zone)},
    {'f', VALUE_TEXT, "from", "TIME", "instant to count from; now unless given",
     offsetof(ctl_request, from)},
    {'n', VALUE_COUNT, "count", "N", "how many, 1 to 100000; 5 unless given",
     offsetof(ctl_request, count)},
    {'k', VALUE_TEXT, "key", "KEY", "picks the values of H and ~; for a job NAMESPACE/NAME",
     offsetof(ctl_request, key)},
    {'l', VALUE_TEXT, "lock", "URL", "the lock backend; $JOBSCHED_LOCK unless given",
     offsetof(ctl_request, lock)},
    {'L', VALUE_TEXT, "lock-file", "FILE", "the first line of FILE is the lock backend's URL",
     offsetof(ctl_request, lock_file)},
    {'N', VALUE_TEXT, "namespace", "NAME", "namespace of the jobs; 'default' unless given",
     offsetof(ctl_request, name_space)},
    {'a', VALUE_FLAG, "all", NULL, "removed jobs and the library's own, too",
     offsetof(ctl_request, all)},
    {'w', VALUE_SPAN, "watch", "SPAN", "again and again, each SPAN, as 2s",
     offsetof(ctl_request, watch_ms)},
    {'r', VALUE_TEXT, "request", "ID", "a repeated request of the same id fires once",
     offsetof(ctl_request, request_id)},
    {'W', VALUE_FLAG, "wait", NULL, "wait for the end of the run, whose outcome is the status",
     offsetof(ctl_request, wait)},
    {'t', VALUE_SPAN, "timeout", "SPAN", "how long to wait; 1m unless given",
     offsetof(ctl_request, timeout_ms)},
    {'d', VALUE_FLAG, "dry-run", NULL, "say what would be done, and do nothing",
     offsetof(ctl_request, dry_run)},
    {'y', VALUE_FLAG, "yes", NULL, "ask for no confirmation", offsetof(ctl_request, yes)},
    {'p', VALUE_FLAG, "print-sql", NULL, "print the statements, and execute none",
     offsetof(ctl_request, print_sql)},
    {'u', VALUE_FLAG, "utc", NULL, "one instant per line in UTC, and nothing else",
     offsetof(ctl_request, utc)},
    {'s', VALUE_FLAG, "strict", NULL, "warnings fail too", offsetof(ctl_request, strict)},
    {'j', VALUE_FLAG, "json", NULL, "JSON", offsetof(ctl_request, json)},
    {'h', VALUE_FLAG, "help", NULL, "this help", 0},
};
#define OPTION_COUNT  (sizeof all_options / sizeof all_options[0])
#define LETTERS_BYTES (2 * OPTION_COUNT + 3)

/* What next_word() returns beside what getopt does. */
#define OPERAND 1

static int takes(const ctl_verb *verb, const ctl_option *option)
{
    return option->letter == 'h' || strchr(verb->options, option->letter) != NULL;
}

static int read_count(const char *text, size_t *out_count)
{
    size_t count = 0;
    size_t length = strlen(text);

    for (size_t i = 0; i < length && i < 7; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        count = count * 10 + (size_t)(text[i] - '0');
    }
    if (length == 0 || length > 6 || count < 1 || count > CTL_COUNT_MAX) {
        return -1;
    }
    *out_count = count;
    return 0;
}

/* word is the one that getopt was at: optind may be behind it already, or not. */
static int refuse_option(const ctl_request *request, int found, const char *word)
{
    if (found == ':') {
        return ctl_usage(request, "option '%s' needs a value", word);
    }
    if (optopt != 0 && strncmp(word, "--", 2) != 0) {
        return ctl_usage(request, "unknown option '-%c'", optopt);
    }
    return ctl_usage(request, "unknown option '%s'", word);
}

/* By the library's own reading of durations, so that both agree. */
static int read_span(const char *text, int64_t *out_span_ms)
{
    jobsched_options options;

    JOBSCHED_INIT(&options);
    if (jobsched_set(&options, "history_age", text) != JOBSCHED_OK) {
        return -1;
    }
    *out_span_ms = options.history_age_ms;
    return 0;
}

static int apply(ctl_request *request, int letter, const char *value)
{
    const ctl_option *option = all_options;
    void *field;

    while (option->letter != letter) {
        option++;
    }
    field = (char *)request + option->offset;
    switch (option->kind) {
    case VALUE_TEXT:
        memcpy(field, &value, sizeof value);
        return CTL_OK;
    case VALUE_COUNT:
        if (read_count(value, field) != 0) {
            return ctl_usage(request, "count '%s' is outside 1 to %d", value, CTL_COUNT_MAX);
        }
        return CTL_OK;
    case VALUE_SPAN:
        if (read_span(value, field) != 0) {
            return ctl_usage(request,
                             "%s '%s' is no duration of a second or more, such as 5s or 2m",
                             option->name, value);
        }
        return CTL_OK;
    default:
        *(int *)field = 1;
        return CTL_OK;
    }
}

static void make_tables(const ctl_verb *verb, char letters[LETTERS_BYTES],
                        struct option words[OPTION_COUNT + 1])
{
    size_t used = 0, count = 0;

    letters[used++] = '+'; /* operands are found here, not by getopt */
    letters[used++] = ':';
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const ctl_option *option = &all_options[i];

        if (!takes(verb, option)) {
            continue;
        }
        letters[used++] = option->letter;
        if (option->value != NULL) {
            letters[used++] = ':';
        }
        words[count++] =
            (struct option){option->name, option->value == NULL ? no_argument : required_argument,
                            NULL, option->letter};
    }
    letters[used] = '\0';
    memset(&words[count], 0, sizeof words[count]);
}

static int check_arguments(const ctl_verb *verb, const ctl_request *request)
{
    if (request->argument_count < verb->arguments_min) {
        return ctl_usage(request, "%s is missing", verb->arguments);
    }
    if (request->argument_count > verb->arguments_max) {
        if (strcmp(verb->arguments, "EXPR") == 0) {
            return ctl_usage(request, "%zu arguments; put the expression in quotes: '* * * * *'",
                             request->argument_count);
        }
        return ctl_usage(request, "one argument too many: '%s'",
                         request->arguments[verb->arguments_max]);
    }
    return CTL_OK;
}

/* An expression may begin with '-', though never a good one: its error is to be the library's. */
static int is_operand(const char *word, const char *letters)
{
    const char *letter;
    size_t blank = strcspn(word, " \t");

    if (word[0] != '-' || word[1] == '\0') {
        return 1;
    }
    if (strchr("0123456789,*", word[1]) != NULL) {
        return 1;
    }
    if (word[blank] == '\0' || strcspn(word, "=") < blank) {
        return 0;
    }
    letter = word[1] == ':' || word[1] == '+' ? NULL : strchr(letters, word[1]);
    return letter == NULL || letter[1] != ':'; /* else a value stands behind the letter */
}

/* A letter, getopt's '?' and ':', OPERAND, or -1 at the end. */
static int next_word(int argc, char *const *argv, const char *letters, const struct option *words,
                     const char **out_word)
{
    if (optind >= argc) {
        return -1;
    }
    *out_word = argv[optind];
    if (is_operand(*out_word, letters)) {
        optind++;
        return OPERAND;
    }
    return getopt_long(argc, argv, letters, words, NULL);
}

/* Whether --json is given anywhere, since also errors before it are to be printed so. */
static int wants_json(int argc, char *const *argv, const char *letters, const struct option *words)
{
    const char *word;
    int found, wanted = 0;

    optind = 1;
    while ((found = next_word(argc, argv, letters, words, &word)) != -1) {
        wanted |= found == 'j';
    }
    return wanted;
}

int ctl_arguments_read(const ctl_verb *verb, int argc, char **argv, ctl_request *out_request,
                       int *out_help)
{
    char letters[LETTERS_BYTES];
    struct option words[OPTION_COUNT + 1];
    const char *word = NULL;
    size_t count = 0;
    int found;

    memset(out_request, 0, sizeof *out_request);
    out_request->verb = verb;
    out_request->count = CTL_COUNT_DEFAULT;
    *out_help = 0;
    make_tables(verb, letters, words);
    opterr = 0; /* getopt's messages echo what they are given */
    out_request->json = wants_json(argc, argv, letters, words);
    optind = 1;
    while ((found = next_word(argc, argv, letters, words, &word)) != -1) {
        if (found == '?' || found == ':') {
            return refuse_option(out_request, found, word);
        }
        if (found == 'h') {
            *out_help = 1;
            return CTL_OK;
        }
        if (found == OPERAND) {
            argv[1 + count++] = argv[optind - 1]; /* over words that were read */
        } else if (apply(out_request, found, optarg) != CTL_OK) {
            return CTL_USAGE;
        }
    }
    while (optind < argc) {
        argv[1 + count++] = argv[optind++];
    }
    out_request->arguments = argv + 1;
    out_request->argument_count = count;
    return check_arguments(verb, out_request);
}

void ctl_arguments_print(const ctl_verb *verb)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const ctl_option *option = &all_options[i];
        char words[32];

        if (takes(verb, option)) {
            (void)snprintf(words, sizeof words, "--%s%s%s", option->name,
                           option->value == NULL ? "" : " ",
                           option->value == NULL ? "" : option->value);
            (void)printf("  -%c, %-16s %s\n", option->letter, words, option->help);
        }
    }
}
