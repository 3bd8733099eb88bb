/* arguments.c: reads the options of a verb. One table names them all; each verb says which it takes.
 * No state but getopt's, no locks. */
#include "ctl/ctl.h"
#include "ctl/output.h"
#include "ctl/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ctl_option {
    char letter;
    const char *name;
    const char *value; /* as shown to people; NULL: it has none */
    const char *help;
} ctl_option;

static const ctl_option all_options[] = {
    {'z', "zone", "ZONE", "time zone; without it that of the text, else UTC"},
    {'f', "from", "TIME", "instant to count from; now unless given"},
    {'n', "count", "N", "how many, 1 to 100000; 5 unless given"},
    {'k', "key", "KEY", "picks the values of H and ~; for a job NAMESPACE/NAME"},
    {'N', "namespace", "NAME", "namespace of the jobs, for H and ~; 'default' unless given"},
    {'u', "utc", NULL, "one instant per line in UTC, and nothing else"},
    {'s', "strict", NULL, "warnings fail too"},
    {'j', "json", NULL, "JSON"},
    {'h', "help", NULL, "this help"},
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

static int apply(ctl_request *request, int letter, const char *value)
{
    switch (letter) {
    case 'z':
        request->zone = value;
        return CTL_OK;
    case 'f':
        request->from = value;
        return CTL_OK;
    case 'k':
        request->key = value;
        return CTL_OK;
    case 'N':
        request->name_space = value;
        return CTL_OK;
    case 'u':
        request->utc = 1;
        return CTL_OK;
    case 's':
        request->strict = 1;
        return CTL_OK;
    case 'j':
        request->json = 1;
        return CTL_OK;
    default:
        if (read_count(value, &request->count) != 0) {
            return ctl_usage(request, "count '%s' is outside 1 to %d", value, CTL_COUNT_MAX);
        }
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
