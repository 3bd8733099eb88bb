/* process.c: runs jobschedctl and keeps what it printed. Standard output and error are files in
 * memory, so that no pipe can fill up. */
#include "ctl/process.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 };

static size_t read_back(int fd, char *text)
{
    ssize_t got = fd < 0 ? 0 : pread(fd, text, OUTPUT_BYTES, 0);
    size_t bytes = got < 0 ? 0 : (size_t)got;

    text[bytes] = '\0';
    return bytes;
}

static int start(const char *program, const char *zones, const char *const *arguments, int out,
                 int err, pid_t *pid)
{
    /* An ill-chosen TZ must not matter; sanitizers report through the exit status. */
    char tzdir[512];
    char *environment[] = {(char *)"TZ=Pacific/Apia", (char *)"LC_ALL=C",
                           zones == NULL ? NULL : tzdir, NULL};
    char *argv[ARGUMENTS_MAX + 2] = {(char *)program};
    posix_spawn_file_actions_t actions;
    int result;

    (void)snprintf(tzdir, sizeof tzdir, "TZDIR=%s", zones == NULL ? "" : zones);
    for (int i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++) {
        argv[i + 1] = (char *)arguments[i];
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    result = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0) != 0 ||
             posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) != 0 ||
             posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO) != 0 ||
             posix_spawn(pid, program, &actions, NULL, argv, environment) != 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    return result ? -1 : 0;
}

int process_run(const char *program, const char *zones, const char *const *arguments,
                struct output *output)
{
    int out = memfd_create("stdout", MFD_CLOEXEC);
    int err = memfd_create("stderr", MFD_CLOEXEC);
    int status = 0, result = -1;
    pid_t pid;

    if (out >= 0 && err >= 0 && start(program, zones, arguments, out, err, &pid) == 0 &&
        waitpid(pid, &status, 0) == pid) {
        output->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        output->out_bytes = read_back(out, output->out);
        output->err_bytes = read_back(err, output->err);
        result = 0;
    }
    if (out >= 0) {
        (void)close(out);
    }
    if (err >= 0) {
        (void)close(err);
    }
    return result;
}
