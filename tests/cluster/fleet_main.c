/* fleet_main.c: runs the tests of a program on one backend, or several tests on several backends
 * beside each other: they mostly wait, and so they wait together. Locks: none, one thread. */
#include "fleet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARES_MAX = 32 };

typedef struct share {
    const char *pattern, *backend;
    pid_t pid;
    FILE *output;
} share;

static int run_here(const char *pattern, const char *backend, const struct CMUnitTest *tests,
                    size_t count)
{
    if (server_kind_of(backend) < 0) {
        (void)fprintf(stderr, "backend '%s' is unknown or was not built\n", backend);
        return 2;
    }
    fleet_choose(backend);
    cmocka_set_test_filter(pattern);
    return _cmocka_run_group_tests(backend, tests, count, NULL, NULL) != 0 ? 1 : 0;
}

static bool begin(share *one, const struct CMUnitTest *tests, size_t count)
{
    one->output = tmpfile();
    if (one->output == NULL) {
        return false;
    }
    (void)fflush(NULL);
    one->pid = fork();
    if (one->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(fileno(one->output), STDOUT_FILENO);
        (void)dup2(fileno(one->output), STDERR_FILENO);
        int status = run_here(one->pattern, one->backend, tests, count);
        (void)fflush(NULL);
        _exit(status);
    }
    return one->pid > 0;
}

static int end(const share *one)
{
    int status = 0;
    char block[4096];
    (void)waitpid(one->pid, &status, 0);
    (void)printf("== %s on %s\n", one->pattern, one->backend);
    rewind(one->output);
    for (size_t got; (got = fread(block, 1, sizeof block, one->output)) > 0;) {
        (void)fwrite(block, 1, got, stdout);
    }
    (void)fclose(one->output);
    if (status != 0) {
        (void)printf("== %s on %s: status %d, signal %d\n", one->pattern, one->backend,
                     WEXITSTATUS(status), WTERMSIG(status));
    }
    return status == 0 ? 0 : 1;
}

/* Cuts a list at its commas. */
static size_t split(char *list, const char **out, size_t max)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word != NULL && count < max;
         word = strtok_r(NULL, ",", &rest)) {
        out[count++] = word;
    }
    return count;
}

int fleet_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    static share shares[SHARES_MAX];
    static char lists[2][512];
    const char *patterns[SHARES_MAX];
    const char *backends[SERVER_KINDS];
    (void)snprintf(lists[0], sizeof lists[0], "%s", argc > 1 ? argv[1] : "*");
    (void)snprintf(lists[1], sizeof lists[1], "%s", argc > 2 ? argv[2] : "sqlite");
    size_t pattern_count = split(lists[0], patterns, SHARES_MAX);
    size_t backend_count = split(lists[1], backends, SERVER_KINDS);
    if (pattern_count * backend_count == 1) {
        return run_here(patterns[0], backends[0], tests, count);
    }
    size_t known = 0;
    for (size_t i = 0; i < pattern_count * backend_count && known < SHARES_MAX; i++) {
        shares[known] =
            (share){.pattern = patterns[i / backend_count], .backend = backends[i % backend_count]};
        if (!begin(&shares[known], tests, count)) {
            perror("fleet_main");
            return 2;
        }
        known++;
    }
    int status = 0;
    for (size_t i = 0; i < known; i++) {
        status |= end(&shares[i]);
    }
    return status;
}
