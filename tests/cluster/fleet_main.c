/* fleet_main.c: runs the tests of a program on one backend or on several beside each other: they
 * mostly wait, and so they wait together. Locks: none, one thread. */
#include "fleet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct share {
    const char *backend;
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

static bool begin(share *one, const char *pattern, const struct CMUnitTest *tests, size_t count)
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
        int status = run_here(pattern, one->backend, tests, count);
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
    (void)printf("== %s\n", one->backend);
    rewind(one->output);
    for (size_t got; (got = fread(block, 1, sizeof block, one->output)) > 0;) {
        (void)fwrite(block, 1, got, stdout);
    }
    (void)fclose(one->output);
    if (status != 0) {
        (void)printf("== %s: status %d, signal %d\n", one->backend, WEXITSTATUS(status),
                     WTERMSIG(status));
    }
    return status == 0 ? 0 : 1;
}

int fleet_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    static char list[512];
    share shares[SERVER_KINDS];
    size_t known = 0;
    const char *pattern = argc > 1 ? argv[1] : "*";
    const char *wanted = argc > 2 ? argv[2] : "sqlite";
    if (strchr(wanted, ',') == NULL) {
        return run_here(pattern, wanted, tests, count);
    }
    (void)snprintf(list, sizeof list, "%s", wanted);
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word != NULL && known < SERVER_KINDS;
         word = strtok_r(NULL, ",", &rest)) {
        shares[known] = (share){.backend = word};
        if (!begin(&shares[known], pattern, tests, count)) {
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
