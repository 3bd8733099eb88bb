/* options.c: see the header. */
#include "sim/options.h"

#include "base/mutant.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const mixes[] = {"dense", "sparse", "year"};
static const char *const kinds[] = {
#define NAME_OF(name, text) text,
    SIM_TROUBLE_MAP(NAME_OF)
#undef NAME_OF
};

static void usage(void)
{
    (void)fprintf(stderr,
                  "sim [--seed N | --seeds A..B] [--mix dense|sparse|year] [--nodes N] [--jobs N]\n"
                  "    [--hours N | --years N] [--only KIND,...] [--without KIND,...]\n"
                  "    [--drop EPISODE,...] [--keep EPISODE,...] [--without-jobs NUMBER,...]\n"
                  "    [--mutant NAME] [--shrink] [--stop] [--verbose] [--trace]\n"
                  "kinds of trouble:");
    for (int i = 0; i < SIM_TROUBLES; i++) {
        (void)fprintf(stderr, " %s", kinds[i]);
    }
    (void)fprintf(stderr, "\n");
}

static bool parse_number(const char *text, uint64_t *out_number)
{
    char *end;
    *out_number = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool parse_seeds(const char *text, uint64_t *out_first, uint64_t *out_last)
{
    char *end;
    *out_first = strtoull(text, &end, 10);
    return end != text && strncmp(end, "..", 2) == 0 && parse_number(end + 2, out_last);
}

/* Calls take with each part of a list. */
static bool each_part(const char *list, bool (*take)(const char *part, void *data), void *data)
{
    char copy[4096];
    (void)snprintf(copy, sizeof copy, "%s", list);
    char *rest = NULL;
    for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        if (!take(part, data)) {
            (void)fprintf(stderr, "sim: '%s' is unknown\n", part);
            return false;
        }
    }
    return true;
}

static bool take_kind(const char *part, void *data)
{
    for (int i = 0; i < SIM_TROUBLES; i++) {
        if (strcmp(part, kinds[i]) == 0) {
            *(uint32_t *)data |= UINT32_C(1) << i;
            return true;
        }
    }
    return strcmp(part, "none") == 0;
}

struct marks {
    char *marks;
    size_t count;
    char mark;
};

static bool take_mark(const char *part, void *data)
{
    struct marks *marks = data;
    uint64_t number;
    if (!parse_number(part, &number) || number >= marks->count) {
        return false;
    }
    marks->marks[number] = marks->mark;
    return true;
}

static bool parse_marks(const char *list, char *marks, size_t count, char mark)
{
    struct marks data = {marks, count, mark};
    if (mark == '0') {
        memset(marks, '1', count);
    }
    return each_part(list, take_mark, &data);
}

static bool parse_mix(const char *text, enum sim_mix *out_mix)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, mixes[i]) == 0) {
            *out_mix = (enum sim_mix)i;
            return true;
        }
    }
    return false;
}

static bool set_mutant(const char *name)
{
#ifdef JOBSCHED_MUTATIONS
    return jsi_mutant_choose(name);
#else
    (void)name;
    (void)fprintf(stderr, "sim: mutants are in the program sim_mutants\n");
    return false;
#endif
}

static bool take_option(struct sim_options *options, int option, const char *value)
{
    uint64_t number = 0;
    uint32_t some = 0;
    switch (option) {
    case 's':
        options->last_seed = 0;
        return parse_number(value, &options->first_seed) &&
               (options->last_seed = options->first_seed, true);
    case 'S':
        return parse_seeds(value, &options->first_seed, &options->last_seed);
    case 'm':
        return parse_mix(value, &options->config.mix);
    case 'n':
        options->config.nodes = parse_number(value, &number) ? (int)number : -1;
        return options->config.nodes > 0 && options->config.nodes <= SIM_NODES_MAX;
    case 'j':
        options->config.jobs = parse_number(value, &number) ? (int)number : -1;
        return options->config.jobs > 0 && options->config.jobs <= MODEL_JOBS_MAX;
    case 'h':
    case 'y':
        options->config.horizon_ms = option == 'h' ? 3600000 : INT64_C(31536000000);
        return parse_number(value, &number) && number > 0 &&
               (options->config.horizon_ms *= (int64_t)number, true);
    case 'o':
    case 'w':
        if (!each_part(value, take_kind, &some)) {
            return false;
        }
        if (option == 'o') {
            options->config.pool = options->config.troubles = some;
        }
        options->config.troubles &= option == 'w' ? ~some : some;
        return true;
    case 'd':
    case 'k':
        options->config.dropped = options->dropped;
        return parse_marks(value, options->dropped, SIM_EPISODES_MAX, option == 'd' ? '1' : '0');
    case 'J':
        options->config.without = options->without;
        return parse_marks(value, options->without, MODEL_JOBS_MAX, '1');
    case 'M':
        options->mutant = value;
        return set_mutant(value);
    default:
        return false;
    }
}

bool sim_options_parse(struct sim_options *out_options, int argc, char **argv)
{
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},    {"seeds", required_argument, NULL, 'S'},
        {"mix", required_argument, NULL, 'm'},     {"nodes", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'},    {"hours", required_argument, NULL, 'h'},
        {"years", required_argument, NULL, 'y'},   {"only", required_argument, NULL, 'o'},
        {"without", required_argument, NULL, 'w'}, {"drop", required_argument, NULL, 'd'},
        {"keep", required_argument, NULL, 'k'},    {"without-jobs", required_argument, NULL, 'J'},
        {"mutant", required_argument, NULL, 'M'},  {"shrink", no_argument, NULL, 'x'},
        {"stop", no_argument, NULL, 'q'},          {"verbose", no_argument, NULL, 'v'},
        {"trace", no_argument, NULL, 't'},         {NULL, 0, NULL, 0}};
    memset(out_options, 0, sizeof *out_options);
    memset(out_options->dropped, '0', SIM_EPISODES_MAX);
    memset(out_options->without, '0', MODEL_JOBS_MAX);
    out_options->first_seed = out_options->last_seed = 1;
    out_options->config.pool = out_options->config.troubles = SIM_ALL_TROUBLES;
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        out_options->shrinks = out_options->shrinks || option == 'x';
        out_options->stops = out_options->stops || option == 'q';
        out_options->verbose = out_options->verbose || option == 'v';
        out_options->trace = out_options->trace || option == 't';
        if (strchr("xqvt", option) == NULL && !take_option(out_options, option, optarg)) {
            usage();
            return false;
        }
    }
    if (optind < argc) {
        usage();
        return false;
    }
    return true;
}

static void print_list(FILE *out, const char *name, const char *marks, size_t count)
{
    const char *before = name;
    for (size_t i = 0; marks != NULL && i < count; i++) {
        if (marks[i] == '1') {
            (void)fprintf(out, "%s%zu", before, i);
            before = ",";
        }
    }
}

static void print_kept(FILE *out, const char *dropped)
{
    size_t last = 0;
    for (size_t i = 0; i < SIM_EPISODES_MAX; i++) {
        last = dropped[i] != '1' ? i : last;
    }
    if (last < SIM_EPISODES_MAX - 1) {
        char kept[SIM_EPISODES_MAX];
        for (size_t i = 0; i < SIM_EPISODES_MAX; i++) {
            kept[i] = dropped[i] == '1' ? '0' : '1';
        }
        print_list(out, " --keep ", kept, SIM_EPISODES_MAX);
    } else {
        print_list(out, " --drop ", dropped, SIM_EPISODES_MAX);
    }
}

static void print_kinds(FILE *out, const char *name, uint32_t some)
{
    const char *before = name;
    for (int i = 0; i < SIM_TROUBLES; i++) {
        if (((some >> i) & 1) != 0) {
            (void)fprintf(out, "%s%s", before, kinds[i]);
            before = ",";
        }
    }
}

void sim_options_print(const struct sim_options *options, const struct sim_config *config,
                       FILE *out)
{
    if (config->mix != SIM_DENSE) {
        (void)fprintf(out, " --mix %s", mixes[config->mix]);
    }
    if (config->nodes > 0) {
        (void)fprintf(out, " --nodes %d", config->nodes);
    }
    if (config->jobs > 0) {
        (void)fprintf(out, " --jobs %d", config->jobs);
    }
    if (config->horizon_ms > 0) {
        (void)fprintf(out, " --hours %" PRId64, config->horizon_ms / 3600000);
    }
    if (config->pool != SIM_ALL_TROUBLES) {
        print_kinds(out, " --only ", config->pool);
    }
    print_kinds(out, " --without ", config->pool & ~config->troubles);
    if (config->pool == 0) {
        (void)fprintf(out, " --only none");
    }
    if (config->dropped != NULL) {
        print_kept(out, config->dropped);
    }
    print_list(out, " --without-jobs ", config->without, MODEL_JOBS_MAX);
    if (options->mutant != NULL) {
        (void)fprintf(out, " --mutant %s", options->mutant);
    }
}
