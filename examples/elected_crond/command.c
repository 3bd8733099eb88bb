/* command.c: the life of one command, on the worker's thread.
 * Locks: none. */
#include "command.h"

#include "output.h"
#include "spawn.h"
#include "watcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS        100   /* how often should_stop is asked */
#define LOOK_BLIND_MS  20    /* how often the end is looked for where there is no pid_fd */
#define ABANDON_MS     100   /* after SIGKILL: who still holds the output left the group */
#define LINGER_TELL_MS 10000 /* after the shell's end: then the log says what the run waits for */

typedef struct running {
    const command *request;
    command_result *result;
    spawned child;
    size_t input_done;
    int ended; /* the shell is dead, not yet reaped: its number stays ours */
    int64_t ended_ms, term_ms, kill_ms;
    int killed, lingering_told;
    char chunk[16384]; /* read and not yet cut into lines */
    size_t chunk_at, chunk_bytes;
    char line[COMMAND_PIECE_BYTES];
    size_t line_bytes;
    int continued; /* the line's beginning was a piece of its own */
} running;

static int64_t mono_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void keep_last(running *run)
{
    size_t bytes = run->line_bytes < COMMAND_LAST_BYTES ? run->line_bytes : COMMAND_LAST_BYTES;

    if (bytes > 0) {
        memcpy(run->result->last, run->line, bytes);
        run->result->last[bytes] = '\0';
    }
}

/* Hands the line or piece on. 0: the queue is full, nothing was done. */
static int emit(running *run, int whole)
{
    char record[OUTPUT_RECORD_BYTES];
    int used = snprintf(record, sizeof record - COMMAND_PIECE_BYTES - 1, "%s[%ld]%c ",
                        run->request->label, (long)run->child.pid, run->continued ? '+' : ':');

    memcpy(record + used, run->line, run->line_bytes);
    record[(size_t)used + run->line_bytes] = '\n';
    if (!output_offer(record, (size_t)used + run->line_bytes + 1)) {
        return 0;
    }
    keep_last(run);
    run->line_bytes = 0;
    run->continued = !whole;
    return 1;
}

/* Cuts the chunk into lines. Stops early when the queue is full. */
static void cut(running *run)
{
    while (run->chunk_at < run->chunk_bytes) {
        char byte = run->chunk[run->chunk_at];

        if (byte == '\n' || run->line_bytes == COMMAND_PIECE_BYTES) {
            if (!emit(run, byte == '\n')) {
                return;
            }
        }
        if (byte != '\n') {
            run->line[run->line_bytes++] = byte;
        }
        run->chunk_at++;
    }
    run->chunk_at = run->chunk_bytes = 0;
}

static void read_output(running *run)
{
    ssize_t got = read(run->child.output_fd, run->chunk, sizeof run->chunk);

    if (got > 0) {
        run->chunk_bytes = (size_t)got;
        cut(run);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_one(&run->child.output_fd);
    }
}

static void write_input(running *run)
{
    const command *request = run->request;
    ssize_t put = write(run->child.input_fd, request->input + run->input_done,
                        request->input_bytes - run->input_done);

    if (put > 0) {
        run->input_done += (size_t)put;
    }
    /* A command need not read what it is given. */
    if (run->input_done == request->input_bytes || (put < 0 && errno != EAGAIN && errno != EINTR)) {
        close_one(&run->child.input_fd);
    }
}

static void look_for_end(running *run)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    if (!run->ended &&
        waitid(P_PID, (id_t)run->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == run->child.pid) {
        run->ended = 1;
        run->ended_ms = mono_ms();
        close_one(&run->child.input_fd);
    }
}

/* SIGCONT, as a stopped process would keep SIGTERM for later. */
static void signal_group(const running *run, int number)
{
    (void)kill(-run->child.pid, number);
    (void)kill(-run->child.pid, SIGCONT);
}

static void stop_if_asked(running *run, int64_t now_ms)
{
    const command *request = run->request;
    int64_t grace_ms = 0;
    int asked = request->should_stop(request->data, &grace_ms);

    if (asked != COMMAND_GO_ON && run->result->stopped == COMMAND_GO_ON) {
        signal_group(run, SIGTERM);
        run->term_ms = now_ms;
        run->kill_ms = now_ms + grace_ms;
    }
    if (asked == COMMAND_STOP_FAST && run->result->stopped != COMMAND_STOP_FAST) {
        run->kill_ms =
            run->kill_ms < now_ms + COMMAND_FAST_MS ? run->kill_ms : now_ms + COMMAND_FAST_MS;
    }
    run->result->stopped = asked > run->result->stopped ? asked : run->result->stopped;
    if (run->result->stopped != COMMAND_GO_ON && !run->killed && now_ms >= run->kill_ms) {
        signal_group(run, SIGKILL);
        run->killed = 1;
        run->kill_ms = now_ms;
    }
}

/* The shell has ended and somebody still holds its output. */
static void linger(running *run, int64_t now_ms)
{
    if (run->killed && now_ms >= run->kill_ms + ABANDON_MS) {
        close_one(&run->child.output_fd);
    } else if (!run->lingering_told && now_ms >= run->ended_ms + LINGER_TELL_MS) {
        run->lingering_told = 1;
        log_message(LOG_WARNING, "command.lingers",
                    "the shell of '%s' has ended, but processes in the background hold its output; "
                    "the run lasts until they end",
                    run->request->label);
    }
}

static void wait_for_something(running *run)
{
    struct pollfd fds[3] = {
        {.fd = run->child.output_fd, .events = POLLIN},
        {.fd = run->child.input_fd, .events = POLLOUT},
        {.fd = run->ended ? -1 : run->child.pid_fd, .events = POLLIN},
    };
    int blind = run->child.pid_fd < 0 && !run->ended;

    if (run->chunk_bytes > 0) {
        output_wait(LOOK_BLIND_MS);
        cut(run);
        fds[0].fd = -1;
    }
    if (poll(fds, 3, run->chunk_bytes > 0 ? 0 : blind ? LOOK_BLIND_MS : LOOK_MS) < 0) {
        return;
    }
    if (fds[0].fd >= 0 && fds[0].revents != 0) {
        read_output(run);
    }
    if (fds[1].fd >= 0 && fds[1].revents != 0) {
        write_input(run);
    }
    look_for_end(run);
}

static void run_to_end(running *run)
{
    while (!run->ended || run->child.output_fd >= 0 || run->chunk_bytes > 0) {
        int64_t now_ms = mono_ms();

        stop_if_asked(run, now_ms);
        if (run->ended && run->child.output_fd >= 0) {
            linger(run, now_ms);
        }
        /* With nobody reading, what is left of the output must not keep a stopped run. */
        if (run->killed && run->ended && now_ms >= run->kill_ms + ABANDON_MS) {
            run->chunk_bytes = 0;
            close_one(&run->child.output_fd);
            return;
        }
        wait_for_something(run);
    }
    /* The end of the output is not the end of a line. */
    while (run->line_bytes > 0 && !emit(run, 1) && !run->killed) {
        stop_if_asked(run, mono_ms());
        output_wait(LOOK_BLIND_MS);
    }
}

void command_run(const command *request, command_result *out_result)
{
    spawn_request spawn = {request->shell, request->text, request->directory, request->environment,
                           request->input_bytes > 0};
    const char *what = "a process";
    running run;

    memset(out_result, 0, sizeof *out_result);
    memset(&run, 0, sizeof run);
    run.request = request;
    run.result = out_result;
    out_result->status = -1;
    if (spawn_prepare(&spawn, &run.child) != 0) {
        out_result->number = errno;
        (void)snprintf(out_result->what, sizeof out_result->what, "%s", what);
        return;
    }
    (void)watcher_add(run.child.pid); /* without it only what the shell started would be left */
    request->started(request->data, run.child.pid);
    if (spawn_go(&run.child, &what) != 0) {
        out_result->number = errno;
        (void)snprintf(out_result->what, sizeof out_result->what, "%s", what);
    }
    run_to_end(&run);
    (void)watcher_remove(run.child.pid); /* before the number is free for others */
    (void)waitpid(run.child.pid, &out_result->status, 0);
    if (out_result->number != 0) {
        out_result->status = -1;
    }
    close_one(&run.child.pid_fd);
}
