/* test_command.c: one command at a time, without a scheduler: large input and output, long lines,
 * stopping, and what is left of the caller in the child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elected_crond/command.h"
#include "elected_crond/output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A look that is not late comes after 100 ms. */
#define CLOSE_MS 500

/* Where output of commands goes. */
static char output_path[] = "/tmp/test_command.XXXXXX";
static int output_fd;

/* What a command makes when it is ready to be stopped. */
static char ready_path[] = "/tmp/test_command_ready.XXXXXX";

typedef struct asked {
    pid_t pid;
    int stop; /* enum command_stop, told once the command is ready */
    int64_t told_ms, grace_ms;
    unsigned short_looks_wanted; /* told after so many looks that were close to each other */
    int64_t looked_ms;
    unsigned short_looks;
} asked;

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_started(void *data, pid_t pid)
{
    asked *self = data;

    self->pid = pid;
}

static int on_should_stop(void *data, int64_t *out_grace_ms)
{
    asked *self = data;
    int64_t at_ms = now_ms();

    self->short_looks += self->looked_ms > 0 && at_ms - self->looked_ms < CLOSE_MS;
    self->looked_ms = at_ms;
    *out_grace_ms = self->grace_ms;
    if (self->told_ms == 0 && access(ready_path, F_OK) == 0 &&
        self->short_looks >= self->short_looks_wanted) {
        self->told_ms = at_ms;
    }
    return self->told_ms > 0 ? self->stop : COMMAND_GO_ON;
}

static command_result run(const char *text, const char *input, size_t input_bytes, asked *self)
{
    static char path[] = "PATH=/usr/bin:/bin";
    char *environment[] = {path, NULL};
    command request = {.label = "label",
                       .shell = "/bin/sh",
                       .text = text,
                       .input = input,
                       .input_bytes = input_bytes,
                       .environment = environment,
                       .started = on_started,
                       .should_stop = on_should_stop,
                       .data = self};
    command_result result;

    (void)unlink(ready_path);
    command_run(&request, &result);
    return result;
}

/* All that was written since the last call, once the queue is empty; to be freed. */
static char *take_output(size_t *out_bytes)
{
    static off_t taken;
    off_t end;
    char *text;

    output_stop(30000);
    end = lseek(output_fd, 0, SEEK_END);
    text = malloc((size_t)(end - taken) + 1);
    assert_non_null(text);
    assert_int_equal(pread(output_fd, text, (size_t)(end - taken), taken), end - taken);
    text[end - taken] = '\0';
    *out_bytes = (size_t)(end - taken);
    taken = end;
    return text;
}

static int start_output(void **state)
{
    (void)state;
    return output_start(output_fd);
}

/* Takes prefixes away, joins pieces, and checks both: the text as the command wrote it. */
static char *join_lines(const char *text, pid_t pid, size_t *out_bytes)
{
    char whole[64], piece[64];
    char *joined = malloc(strlen(text) + 1);
    size_t used = 0;
    int first = 1;

    assert_non_null(joined);
    (void)snprintf(whole, sizeof whole, "label[%ld]: ", (long)pid);
    (void)snprintf(piece, sizeof piece, "label[%ld]+ ", (long)pid);
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        size_t skip = strlen(whole);

        assert_non_null(end);
        assert_true((size_t)(end - text) <= skip + COMMAND_PIECE_BYTES);
        if (strncmp(text, whole, skip) == 0) {
            if (!first) {
                joined[used++] = '\n';
            }
        } else {
            assert_memory_equal(text, piece, skip);
        }
        first = 0;
        memcpy(joined + used, text + skip, (size_t)(end - text) - skip);
        used += (size_t)(end - text) - skip;
        text = end + 1;
    }
    joined[used] = '\0';
    *out_bytes = used;
    return joined;
}

/* More than any pipe or queue holds, in both directions at once: no deadlock, and every byte comes
 * in order under its prefix. */
static void test_large_input_and_output_pass_through(void **state)
{
    enum { BYTES = 1024 * 1024 };
    asked self = {0};
    char *input = malloc(BYTES), *text, *joined;
    size_t bytes = 0, joined_bytes = 0;
    command_result result;

    (void)state;
    assert_non_null(input);
    /* Lines of 0 to about 5,000 bytes. */
    for (size_t i = 0, until = 0, lines = 0; i < BYTES; i++) {
        input[i] = i == until ? '\n' : (char)('a' + i % 23);
        if (i == until) {
            lines++;
            until += 1 + (lines * 97) % 5000;
        }
    }
    input[BYTES - 1] = 'z';
    result = run("cat", input, BYTES, &self);
    assert_int_equal(result.status, 0);
    text = take_output(&bytes);
    joined = join_lines(text, self.pid, &joined_bytes);
    assert_int_equal(joined_bytes, BYTES);
    assert_memory_equal(joined, input, BYTES);
    free(text);
    free(joined);
    free(input);
}

typedef struct slow_reader {
    int fd; /* of a pipe, never blocks */
    char *text;
    size_t bytes, room;
} slow_reader;

static void on_slow_started(void *data, pid_t pid)
{
    (void)data;
    (void)pid;
}

/* Reads once per look: the only reader is much slower than the command. */
static int read_once(void *data, int64_t *out_grace_ms)
{
    slow_reader *self = data;
    ssize_t got = read(self->fd, self->text + self->bytes, self->room - self->bytes);

    *out_grace_ms = 0;
    self->bytes += got > 0 ? (size_t)got : 0;
    return COMMAND_GO_ON;
}

/* With standard output full for most of the time the command waits, and no line is lost. */
static void test_slow_reader_gets_every_line(void **state)
{
    enum { LINES = 100000 };
    static const char last[] = ": 100000\n";
    static char path[] = "PATH=/usr/bin:/bin";
    char *environment[] = {path, NULL}, *at;
    int ends[2];
    int64_t grace_ms, until_ms;
    slow_reader self = {.room = (size_t)LINES * 40};
    command request = {.label = "label",
                       .shell = "/bin/sh",
                       .text = "seq 1 100000",
                       .environment = environment,
                       .started = on_slow_started,
                       .should_stop = read_once,
                       .data = &self};
    command_result result;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    self.fd = ends[0];
    self.text = calloc(1, self.room + 1);
    assert_non_null(self.text);
    assert_int_equal(output_start(ends[1]), 0);
    command_run(&request, &result);
    assert_int_equal(result.status, 0);
    until_ms = now_ms() + 60000;
    while (strstr(self.text + (self.bytes < 100 ? 0 : self.bytes - 100), last) == NULL) {
        assert_true(now_ms() < until_ms);
        (void)read_once(&self, &grace_ms);
    }
    output_stop(30000);
    at = self.text;
    for (long line = 1; line <= LINES; line++) {
        char *end = strchr(at, '\n'), *number = strchr(at, ' ');

        assert_true(end != NULL && number != NULL && number < end);
        assert_int_equal(strtol(number, NULL, 10), line);
        at = end + 1;
    }
    free(self.text);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_input_need_not_be_read(void **state)
{
    enum { BYTES = 512 * 1024 };
    asked self = {0};
    char *input = calloc(1, BYTES), *text;
    size_t bytes;

    (void)state;
    assert_non_null(input);
    assert_int_equal(run("exec 0<&-; echo done", input, BYTES, &self).status, 0);
    assert_int_equal(run("head -c 10 >/dev/null; exit 0", input, BYTES, &self).status, 0);
    text = take_output(&bytes);
    assert_non_null(strstr(text, "]: done\n"));
    free(text);
    free(input);
}

static void test_last_line_is_kept(void **state)
{
    asked self = {0};
    command_result result = run("echo one; echo two >&2; printf three; exit 4", NULL, 0, &self);
    size_t bytes;
    char *text;

    (void)state;
    assert_int_equal(WEXITSTATUS(result.status), 4);
    assert_string_equal(result.last, "three");
    result = run("echo four; echo; exit 4", NULL, 0, &self);
    assert_string_equal(result.last, "four");
    text = take_output(&bytes);
    assert_non_null(strstr(text, "]: one\n"));
    assert_non_null(strstr(text, "]: three\n"));
    free(text);
}

/* The run lasts as long as somebody holds its output, and no longer. */
static void test_background_processes_belong_to_the_run(void **state)
{
    asked self = {0};
    size_t bytes;
    char *text;
    int64_t begun_ms;

    (void)state;
    assert_int_equal(run("(sleep 0.3; echo late) & exit 0", NULL, 0, &self).status, 0);
    begun_ms = now_ms();
    assert_int_equal(run("sleep 60 >/dev/null 2>&1 & exit 0", NULL, 0, &self).status, 0);
    assert_true(now_ms() - begun_ms < 50000);
    (void)kill(-self.pid, SIGKILL);
    text = take_output(&bytes);
    assert_non_null(strstr(text, "]: late\n"));
    free(text);
}

/* Runs a command that makes ready_path, for which "%s" stands. */
static command_result run_until_told(const char *format, asked *self, int64_t *out_spent_ms)
{
    char text[512];
    size_t head = strcspn(format, "%");
    command_result result;

    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)head, format, ready_path, format + head + 2);
    result = run(text, NULL, 0, self);
    assert_true(self->told_ms > 0);
    *out_spent_ms = now_ms() - self->told_ms;
    return result;
}

/* G5 and G11: SIGTERM to the whole group, then SIGKILL when the grace is over, or soon if the lease
 * is lost; and it does not matter who ignores what or left the group with the output in hand. */
static void test_stopping_reaches_everybody(void **state)
{
    enum { BOUND_MS = 30000 };
    static const char deaf[] = "trap '' TERM; (trap '' TERM; : > %s; sleep 100) & sleep 100; true";
    asked polite = {.stop = COMMAND_STOP, .grace_ms = 60000};
    asked patient = {.stop = COMMAND_STOP, .grace_ms = 300};
    asked fast = {.stop = COMMAND_STOP_FAST, .grace_ms = 60000};
    asked away = {.stop = COMMAND_STOP_FAST};
    int64_t spent_ms;
    command_result result = run_until_told(": > %s; sleep 100 & wait", &polite, &spent_ms);

    (void)state;
    assert_int_equal(WTERMSIG(result.status), SIGTERM);
    assert_int_equal(result.stopped, COMMAND_STOP);
    assert_true(spent_ms < BOUND_MS);
    result = run_until_told(deaf, &patient, &spent_ms);
    assert_int_equal(WTERMSIG(result.status), SIGKILL);
    assert_true(spent_ms >= 300 && spent_ms < BOUND_MS);
    result = run_until_told(deaf, &fast, &spent_ms);
    assert_int_equal(WTERMSIG(result.status), SIGKILL);
    assert_int_equal(result.stopped, COMMAND_STOP_FAST);
    assert_true(spent_ms >= COMMAND_FAST_MS && spent_ms < BOUND_MS);
    result =
        run_until_told("setsid sh -c ': > %s; exec sleep 60' & sleep 60; true", &away, &spent_ms);
    assert_int_equal(result.stopped, COMMAND_STOP_FAST);
    assert_true(spent_ms < BOUND_MS);
}

/* G5: asked often enough, also while the command is silent. */
static void test_should_stop_is_asked_all_the_time(void **state)
{
    asked self = {.stop = COMMAND_STOP, .short_looks_wanted = 5};
    int64_t spent_ms;

    (void)state;
    (void)run_until_told(": > %s; exec sleep 60", &self, &spent_ms);
    assert_true(self.short_looks >= 5);
}

static void test_what_cannot_start_is_told(void **state)
{
    asked self = {0};
    char *environment[] = {NULL};
    command request = {.label = "x",
                       .shell = "/nonexistent/sh",
                       .text = "true",
                       .environment = environment,
                       .started = on_started,
                       .should_stop = on_should_stop,
                       .data = &self};
    command_result result;

    (void)state;
    command_run(&request, &result);
    assert_int_equal(result.status, -1);
    assert_string_equal(result.what, "the shell");
    assert_int_equal(result.number, 2);
    request.shell = "/bin/sh";
    request.directory = "/nonexistent";
    command_run(&request, &result);
    assert_int_equal(result.status, -1);
    assert_string_equal(result.what, "the folder HOME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_large_input_and_output_pass_through, start_output),
        cmocka_unit_test(test_slow_reader_gets_every_line),
        cmocka_unit_test_setup(test_input_need_not_be_read, start_output),
        cmocka_unit_test_setup(test_last_line_is_kept, start_output),
        cmocka_unit_test_setup(test_background_processes_belong_to_the_run, start_output),
        cmocka_unit_test(test_stopping_reaches_everybody),
        cmocka_unit_test(test_should_stop_is_asked_all_the_time),
        cmocka_unit_test(test_what_cannot_start_is_told),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    output_fd = mkostemp(output_path, O_CLOEXEC);
    if (output_fd < 0 || mkdtemp(ready_path) == NULL || rmdir(ready_path) != 0) {
        return 1;
    }
    (void)unlink(output_path);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);

    (void)unlink(ready_path);
    return failures == 0 ? 0 : 1;
}
