/* test_log.c: lines of elected-crond's log, with values that mean to look like something else.
 * Guards that a value can neither end its line, nor its quotes, nor reach a terminal as anything but
 * text: whatever bytes it has, one line comes out, and the value can be read back from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elected_crond/output.h"
#include "elected_crond/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One record with this value, as it was written. */
static void write_record(const char *value, char *out_line, size_t bytes)
{
    int ends[2], kept = dup(STDERR_FILENO);
    log_record record;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    log_begin(&record, LOG_ERROR, 0, "test");
    log_text(&record, "value", value);
    log_number(&record, "number", 5);
    log_end(&record);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    (void)close(ends[1]);
    got = read(ends[0], out_line, bytes - 1);
    assert_true(got > 0);
    out_line[got] = '\0';
    (void)close(ends[0]);
}

/* What stands in the quotes behind value=, with its escapes undone; returns what follows it. */
static const char *read_back(const char *line, char *out_value)
{
    const char *at = strstr(line, " value=\"");

    assert_non_null(at);
    for (at += strlen(" value=\""); *at != '"'; at++) {
        assert_true(*at != '\0');
        if (*at == '\\' && at[1] == 'x') {
            char digits[3] = {at[2], at[3], '\0'};

            *out_value++ = (char)strtol(digits, NULL, 16);
            at += 3;
        } else {
            at += *at == '\\';
            *out_value++ = *at;
        }
    }
    *out_value = '\0';
    return at + 1;
}

static void check_value(const char *value)
{
    char line[8192], back[4096];
    const char *rest;

    write_record(value, line, sizeof line);
    rest = read_back(line, back);
    assert_string_equal(back, value);
    assert_string_equal(rest, " number=5\n");
    for (const char *at = line; *at != '\n'; at += utf8_step(at)) {
        assert_true(utf8_step(at) > 0); /* printable UTF-8 */
    }
}

static void test_every_byte_is_text(void **state)
{
    (void)state;
    for (int first = 1; first < 256; first++) {
        char value[8] = {'a', (char)first, 'b', '\0'};

        check_value(value);
        (void)snprintf(value, sizeof value, "\xc2%c", first);
        check_value(value);
    }
}

static void test_words_stay_values(void **state)
{
    static const char *const values[] = {
        "",
        "\"",
        "\\",
        "\\\"",
        "\\x41",
        "\" level=error event=\"forged",
        "a\nb\r\nc",
        "\x1b]0;title\x07\x1b[2J",
        "gr\xc3\xbc\xc3\x9f \xf0\x9f\x95\xb0",
        "cut \xe2\x82",
    };

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        check_value(values[i]);
    }
}

/* A value that is too long is cut; its quote and the end of the line are there. */
static void test_long_values_are_cut(void **state)
{
    static char value[20000];
    char line[20100], back[20000];

    (void)state;
    memset(value, '\x01', sizeof value - 1);
    write_record(value, line, sizeof line);
    (void)read_back(line, back);
    assert_true(strlen(back) > 100 && strncmp(back, value, strlen(back)) == 0);
    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_ptr_equal(strchr(line, '\n'), &line[strlen(line) - 1]);
}

/* A runs log that cannot be written is told, but not with every line of it. */
static void test_lost_runs_log_is_told_once(void **state)
{
    const runs_log_line line = {"start", "job", 0, 1, 1, "node", 7, "-"};
    char told[2048];
    int ends[2], kept = dup(STDERR_FILENO);
    ssize_t got;

    (void)state;
    assert_int_equal(runs_log_open("/dev/full"), 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    runs_log_write(&line);
    runs_log_write(&line);
    log_message(LOG_ERROR, "end", "all");
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    (void)close(ends[1]);
    got = read(ends[0], told, sizeof told - 1);
    assert_true(got > 0);
    told[got] = '\0';
    (void)close(ends[0]);
    assert_non_null(strstr(told, "event=runs-log.lost"));
    assert_non_null(strstr(told, "cannot be written: "));
    assert_null(strstr(strstr(told, "runs-log.lost") + 1, "runs-log.lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_text),
        cmocka_unit_test(test_words_stay_values),
        cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_lost_runs_log_is_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
