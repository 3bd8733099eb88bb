/* spawn.c: fork and exec. Between the two only async-signal-safe calls, as other threads may hold
 * any lock. Needs descriptors 0 to 2 to be open in the process.
 * Locks: none. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum pipe_end { READING = 0, WRITING = 1 };

typedef struct pipes {
    int input[2], output[2], go[2], status[2];
} pipes;

enum failed_step { STEP_DIRECTORY = 1, STEP_SHELL = 2 };

typedef struct failure {
    int step;
    int number; /* errno */
} failure;

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void close_all(pipes *all)
{
    for (int end = READING; end <= WRITING; end++) {
        close_one(&all->input[end]);
        close_one(&all->output[end]);
        close_one(&all->go[end]);
        close_one(&all->status[end]);
    }
}

static int open_pipes(pipes *all, int has_input)
{
    memset(all, -1, sizeof *all);
    if (has_input) {
        if (pipe2(all->input, O_CLOEXEC) != 0) {
            return -1;
        }
    } else {
        all->input[READING] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (all->input[READING] < 0) {
            return -1;
        }
    }
    if (pipe2(all->output, O_CLOEXEC) != 0 || pipe2(all->go, O_CLOEXEC) != 0 ||
        pipe2(all->status, O_CLOEXEC) != 0) {
        return -1;
    }
    /* Only our ends: programs do not expect their standard input to be without patience. */
    if (fcntl(all->output[READING], F_SETFL, O_NONBLOCK) != 0 ||
        (has_input && fcntl(all->input[WRITING], F_SETFL, O_NONBLOCK) != 0)) {
        return -1;
    }
    return 0;
}

static void default_signals(void)
{
    struct sigaction action;
    sigset_t none;

    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &action, NULL); /* refused for SIGKILL and SIGSTOP, rightly */
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void fail_child(int fd, int step)
{
    failure told = {step, errno};

    if (write(fd, &told, sizeof told) < 0) {
        _exit(126);
    }
    _exit(127);
}

static void run_child(const spawn_request *request, char *const *words, pipes *all, pid_t parent)
{
    char go = 0;
    ssize_t got;

    (void)setpgid(0, 0);
    /* The second look finds a parent that died before the first call. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(127);
    }
    (void)close(all->go[WRITING]);
    do {
        got = read(all->go[READING], &go, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) {
        _exit(127);
    }
    if (dup2(all->input[READING], 0) < 0 || dup2(all->output[WRITING], 1) < 0 ||
        dup2(all->output[WRITING], 2) < 0) {
        _exit(127);
    }
    /* Refused by kernels before 5.11; ours are close-on-exec anyway, inherited ones then stay. */
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    default_signals();
    if (request->directory != NULL && chdir(request->directory) != 0) {
        fail_child(all->status[WRITING], STEP_DIRECTORY);
    }
    (void)execve(request->shell, words, request->environment);
    fail_child(all->status[WRITING], STEP_SHELL);
}

int spawn_prepare(const spawn_request *request, spawned *out_spawned)
{
    const char *slash = strrchr(request->shell, '/');
    char shell_name[32], dash_c[] = "-c";
    char *words[4] = {shell_name, dash_c, NULL, NULL};
    pid_t parent = getpid(), pid;
    pipes all;

    (void)strncpy(shell_name, slash == NULL ? request->shell : slash + 1, sizeof shell_name - 1);
    shell_name[sizeof shell_name - 1] = '\0';
    /* execve() takes what it never writes to as char *. */
    memcpy(&words[2], &request->command, sizeof words[2]);
    if (open_pipes(&all, request->has_input) != 0) {
        int number = errno;

        close_all(&all);
        errno = number;
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        run_child(request, words, &all, parent);
    }
    if (pid < 0) {
        int number = errno;

        close_all(&all);
        errno = number;
        return -1;
    }
    /* Here too, so that it is done whoever comes first. */
    (void)setpgid(pid, pid);
    out_spawned->pid = pid;
    out_spawned->pid_fd = pidfd_open(pid, 0);
    out_spawned->input_fd = all.input[WRITING];
    out_spawned->output_fd = all.output[READING];
    out_spawned->go_fd = all.go[WRITING];
    out_spawned->status_fd = all.status[READING];
    (void)close(all.input[READING]);
    (void)close(all.output[WRITING]);
    (void)close(all.go[READING]);
    (void)close(all.status[WRITING]);
    return 0;
}

int spawn_go(spawned *child, const char **out_what)
{
    failure told;
    ssize_t got;

    do {
        got = write(child->go_fd, "g", 1);
    } while (got < 0 && errno == EINTR);
    close_one(&child->go_fd);
    do {
        got = read(child->status_fd, &told, sizeof told);
    } while (got < 0 && errno == EINTR);
    close_one(&child->status_fd);
    if (got != (ssize_t)sizeof told) {
        return 0; /* closed by exec, or by a death that wait will tell about */
    }
    *out_what = told.step == STEP_DIRECTORY ? "the folder HOME" : "the shell";
    errno = told.number;
    return -1;
}
