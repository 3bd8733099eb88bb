/* options.c: the command line, and the file that it names for the lock. Changes nothing.
 * Locks: none. */
#include "options.h"

#include "lock_url.h"
#include "output.h"

#include <jobsched.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_SECONDS     25
#define DRAIN_SECONDS_MAX 86400

static const char help[] =
    "Usage: elected-crond --lock URL [options] FILE\n"
    "       elected-crond --check FILE\n"
    "Runs the lines of a crontab, each once, however many elected-crond share the lock.\n"
    "\n"
    "  -l, --lock URL        lock backend, for example sqlite:/var/lib/app/jobs.db; else the\n"
    "                        environment variable JOBSCHED_LOCK\n"
    "  -L, --lock-file FILE  the first line of FILE is the lock's URL, for one with a password\n"
    "  -n, --node NAME       name of this process for people (host name and process id)\n"
    "      --namespace NAME  separates users of one backend (default)\n"
    "      --lease TIME      how long a run is ours without a sign of life (30s)\n"
    "  -w, --workers COUNT   commands that run here at once (4)\n"
    "  -d, --drain SECONDS   how long SIGTERM waits for commands to end (25)\n"
    "      --runs-log FILE   append a line per start and end of a command\n"
    "  -c, --check           only read FILE, tell what is wrong, list its jobs\n"
    "  -q, --quiet           log warnings and errors only\n"
    "  -v, --verbose         log everything\n"
    "  -h, --help            show this\n"
    "  -V, --version         show the version\n"
    "\n"
    "SIGHUP reads FILE again. SIGTERM and SIGINT let commands end, a second one kills them.\n"
    "Exit status: 0 done, 1 failed or runs were left, 2 wrong use or bad lines.\n"
    "See elected-crond(1).\n";

enum long_only { OPTION_NAMESPACE = 256, OPTION_LEASE, OPTION_RUNS_LOG };

static int wrong_use(const char *message, const char *value)
{
    fprintf(stderr, "elected-crond: %s%s%s%s\nTry 'elected-crond --help'.\n", message,
            value == NULL ? "" : " '", value == NULL ? "" : value, value == NULL ? "" : "'");
    return CROND_USAGE;
}

static int read_drain(const char *text, int64_t *out_ms)
{
    char *end = NULL;
    long seconds;

    errno = 0;
    seconds = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || seconds < 0 || seconds > DRAIN_SECONDS_MAX) {
        fprintf(stderr, "elected-crond: drain '%s' is not a number of seconds in 0-%d\n", text,
                DRAIN_SECONDS_MAX);
        return CROND_USAGE;
    }
    *out_ms = (int64_t)seconds * 1000;
    return -1;
}

static int take_option(int option, const char *value, crond_options *options)
{
    switch (option) {
    case 'l':
        options->lock = value;
        return -1;
    case 'L':
        options->lock_file = value;
        return -1;
    case 'n':
        options->node = value;
        return -1;
    case OPTION_NAMESPACE:
        options->name_space = value;
        return -1;
    case OPTION_LEASE:
        options->lease = value;
        return -1;
    case 'w':
        options->workers = value;
        return -1;
    case OPTION_RUNS_LOG:
        options->runs_log = value;
        return -1;
    case 'd':
        return read_drain(value, &options->drain_ms);
    case 'c':
        options->check = 1;
        return -1;
    case 'q':
        options->least_level = LOG_WARNING;
        return -1;
    case 'v':
        options->least_level = LOG_DEBUG;
        return -1;
    case 'h':
        fputs(help, stdout);
        return CROND_OK;
    case 'V':
        printf("elected-crond %s (jobsched %s)\n", JOBSCHED_VERSION, jobsched_version());
        return CROND_OK;
    default: /* getopt has told what is wrong */
        return wrong_use("wrong use", NULL);
    }
}

static int read_lock_file(crond_options *options)
{
    FILE *file = fopen(options->lock_file, "re");
    int failed = file == NULL || (fgets(options->line, sizeof options->line, file) == NULL);
    size_t length = failed ? 0 : strcspn(options->line, "\r\n");

    if (file == NULL || ferror(file)) {
        fprintf(stderr, "elected-crond: '%s' cannot be read: %s\n", options->lock_file,
                strerror(errno));
        length = 0;
    } else if (length == 0) {
        fprintf(stderr, "elected-crond: the first line of '%s' is empty\n", options->lock_file);
    } else if (length == sizeof options->line - 1) {
        fprintf(stderr, "elected-crond: the first line of '%s' is longer than %zu bytes\n",
                options->lock_file, sizeof options->line - 2);
        length = 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    options->line[length] = '\0';
    options->lock = options->line;
    return length > 0 ? -1 : CROND_USAGE;
}

/* Everybody on the machine can read a command line, for as long as the process lives. */
static int find_lock(crond_options *options)
{
    if (options->lock != NULL && options->lock_file != NULL) {
        return wrong_use("either --lock or --lock-file, not both", NULL);
    }
    if (options->lock_file != NULL) {
        return read_lock_file(options);
    }
    if (options->lock != NULL && lock_url_may_hold_password(options->lock)) {
        return wrong_use("everybody on this machine can read a password on the command line; put "
                         "the lock's URL into JOBSCHED_LOCK or a --lock-file",
                         NULL);
    }
    options->lock = options->lock != NULL ? options->lock : getenv("JOBSCHED_LOCK");
    if (options->lock == NULL || options->lock[0] == '\0') {
        return wrong_use("no lock is given: use --lock, --lock-file or JOBSCHED_LOCK", NULL);
    }
    return -1;
}

int options_read(int argc, char **argv, crond_options *out_options)
{
    static const struct option names[] = {
        {"lock", required_argument, NULL, 'l'},
        {"lock-file", required_argument, NULL, 'L'},
        {"node", required_argument, NULL, 'n'},
        {"namespace", required_argument, NULL, OPTION_NAMESPACE},
        {"lease", required_argument, NULL, OPTION_LEASE},
        {"workers", required_argument, NULL, 'w'},
        {"drain", required_argument, NULL, 'd'},
        {"runs-log", required_argument, NULL, OPTION_RUNS_LOG},
        {"check", no_argument, NULL, 'c'},
        {"quiet", no_argument, NULL, 'q'},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    crond_options options = {.drain_ms = DRAIN_SECONDS * 1000, .least_level = LOG_INFO};
    int option;

    while ((option = getopt_long(argc, argv, "l:L:n:w:d:cqvhV", names, NULL)) != -1) {
        int leave = take_option(option, optarg, &options);

        if (leave >= 0) {
            return leave;
        }
    }
    if (optind == argc) {
        return wrong_use("no crontab is given", NULL);
    }
    if (optind + 1 < argc) {
        return wrong_use("more than one crontab is given:", argv[optind + 1]);
    }
    options.file = argv[optind];
    *out_options = options;
    return options.check ? -1 : find_lock(out_options);
}
