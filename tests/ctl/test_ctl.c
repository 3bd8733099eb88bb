/* test_ctl.c: jobschedctl as a program. Every row of cron-cases.tsv through next and prev with --utc,
 * with the carets of the refused ones (G12 as the operator sees it); then hostile text in every
 * place that takes text, of which no byte may reach a terminal raw. */
#include "ctl/process.h"
#include "unit/vectors.h"

#include <jansson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct tally {
    const char *zones;
    int accepted, refused, failed;
};

static struct output output;

static void complain(struct tally *tally, const struct vector *vector, const char *what,
                     const char *wanted)
{
    tally->failed++;
    print_error("%s: '%s': %s: wanted\n%s\ngot status %d and\n%s%s", vector->id, vector->expression,
                what, wanted, output.status, output.out, output.err);
}

static void write_instant(int64_t seconds, char *text, size_t size)
{
    int64_t days = seconds / 86400 - (seconds % 86400 < 0), rest = seconds - days * 86400;
    int year = 1970, month = 0;
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    for (;; year++) {
        int length = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
        if (days < length) {
            break;
        }
        days -= length;
    }
    for (;; month++) {
        int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        int length = lengths[month] + (month == 1 && leap);
        if (days < length) {
            break;
        }
        days -= length;
    }
    (void)snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02dZ", year, month + 1, (int)days + 1,
                   (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
}

static void ask(const struct vector *vector, const struct tally *tally, const char *verb,
                const char *from, int count)
{
    char number[16];
    const char *arguments[16] = {verb, "--utc", "--from", from, "--count", number};
    int used = 6;

    (void)snprintf(number, sizeof number, "%d", count);
    if (vector->zone[0] != '\0') {
        arguments[used++] = "--zone";
        arguments[used++] = vector->zone;
    }
    if (vector->seed[0] != '\0') {
        arguments[used++] = "--key";
        arguments[used++] = vector->seed;
    }
    arguments[used++] = "--"; /* texts may begin with anything */
    arguments[used] = vector->expression;
    assert_int_equal(process_run(JOBSCHEDCTL, tally->zones, arguments, &output), 0);
}

/* The text, the caret, the message: each a line. */
static void check_refusal(const struct vector *vector, struct tally *tally)
{
    const char *caret = strchr(output.err, '\n');
    size_t column = caret == NULL ? 0 : strspn(caret + 1, " ");

    tally->refused++;
    if (output.status != 2 || output.out_bytes != 0 || caret == NULL ||
        strncmp(caret + 1 + column, "^\njobschedctl: ", 15) != 0) {
        complain(tally, vector, "refusal", "status 2 and a caret");
    } else if (vector->position >= 0 && column != (size_t)vector->position) {
        char wanted[32];

        (void)snprintf(wanted, sizeof wanted, "column %ld", vector->position);
        complain(tally, vector, "caret", wanted);
    }
}

static void check_vector(const struct vector *vector, void *data)
{
    struct tally *tally = data;
    char from[32], wanted[VECTOR_INSTANTS_MAX * 32] = "", backward[VECTOR_INSTANTS_MAX * 32] = "";
    char line[32];

    write_instant(vector->start, from, sizeof from);
    ask(vector, tally, "next", from, vector->ends ? 1 : vector->count > 0 ? vector->count : 1);
    if (vector->refused) {
        check_refusal(vector, tally);
        return;
    }
    tally->accepted++;
    for (int i = 0; i < vector->count; i++) {
        write_instant(vector->expected[i], line, sizeof line);
        (void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s\n", line);
        write_instant(vector->expected[vector->count - 1 - i], line, sizeof line);
        (void)snprintf(backward + strlen(backward), sizeof backward - strlen(backward), "%s\n",
                       line);
    }
    if (vector->ends) {
        (void)snprintf(wanted, sizeof wanted, "NONE\n");
    }
    if (output.status != 0 || strcmp(output.out, wanted) != 0 || output.err_bytes != 0) {
        complain(tally, vector, "next", wanted);
    }
    if (vector->count > 0) {
        write_instant(vector->expected[vector->count - 1] + 1, from, sizeof from);
        ask(vector, tally, "prev", from, vector->count);
        if (output.status != 0 || strcmp(output.out, backward) != 0) {
            complain(tally, vector, "prev", backward);
        }
    }
}

static void check_vectors(const char *zones)
{
    struct tally tally = {.zones = zones};

    assert_int_equal(vectors_visit(TESTS_DATA "/cron-cases.tsv", check_vector, &tally), 308);
    print_message("%d accepted, %d refused, %d failed\n", tally.accepted, tally.refused,
                  tally.failed);
    assert_int_equal(tally.accepted + tally.refused, 308);
    assert_int_equal(tally.failed, 0);
}

static void test_vectors_hold_through_the_program_with_slim_zones(void **state)
{
    (void)state;
    check_vectors(TESTS_DATA "/zoneinfo-slim");
}

static void test_vectors_hold_through_the_program_with_fat_zones(void **state)
{
    (void)state;
    check_vectors(TESTS_DATA "/zoneinfo-fat");
}

/* ---- Hostile text ---- */

static const char *const hostile[] = {
    "\033[2J\033]0;title\007", /* escape sequences */
    "\x9b"
    "31m", /* C1, as a byte */
    "\xc2\x9b"
    "31m",               /* C1, as UTF-8 */
    "a\rb\bc\vd\fe\x7f", /* what moves the cursor */
    "\xe2\x80\xae"
    "evil",                         /* right-to-left override */
    "\xff\xfe\xc0\x80\xed\xa0\x80", /* not UTF-8 */
    "\xf0\x9f\x98",                 /* cut */
    "0 0 * * \x1b",
    "two\nlines",
};

/* Whether a terminal is shown text and nothing else. */
static int is_harmless(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];

        if ((byte < 0x20 && byte != '\n') || byte == 0x7f || byte >= 0x80) {
            print_error("byte 0x%02x at %zu of: %s\n", byte, i, text);
            return 0;
        }
    }
    return 1;
}

static void check_harmless(const char *const *arguments)
{
    assert_int_equal(process_run(JOBSCHEDCTL, TESTS_DATA "/zoneinfo-slim", arguments, &output), 0);
    assert_in_range(output.status, 0, 2);
    assert_true(is_harmless(output.out, output.out_bytes));
    assert_true(is_harmless(output.err, output.err_bytes));
}

static void test_no_control_byte_of_the_input_is_echoed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        const char *text = hostile[i];
        char option[64];

        (void)snprintf(option, sizeof option, "--%s", text);
        const char *const lines[][8] = {
            {text},
            {"help", text},
            {"next", option},
            {"next", text},
            {"explain", text},
            {"lint", text},
            {"next", "--zone", text, "* * * * *"},
            {"next", "--from", text, "* * * * *"},
            {"next", "--count", text, "* * * * *"},
            {"next", "--key", text, "-n1", "H * * * *"},
            {"next", "* * * * *", text},
            {"lint", "--zone", text, "/dev/null"},
        };
        for (size_t line = 0; line < sizeof lines / sizeof lines[0]; line++) {
            check_harmless(lines[line]);
        }
    }
}

static void test_json_is_json_whatever_the_input_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        const char *const lines[][8] = {
            {"next", "--json", hostile[i]},
            {"explain", "--json", hostile[i]},
            {"next", "--json", "--zone", hostile[i], "* * * * *"},
            {"next", "--json", "--key", hostile[i], "H * * * *"},
        };
        for (size_t line = 0; line < sizeof lines / sizeof lines[0]; line++) {
            json_error_t error;
            json_t *root;

            check_harmless(lines[line]);
            root = json_loads(output.out, 0, &error);
            if (root == NULL) {
                print_error("%s: %s\n", error.text, output.out);
            }
            assert_non_null(root);
            assert_int_equal(output.status == 2, json_object_get(root, "error") != NULL);
            json_decref(root);
        }
    }
}

/* What could not be written was not said. */
static void test_output_that_cannot_be_written_is_a_failure(void **state)
{
    const char *const write[] = {"-c", "exec " JOBSCHEDCTL " next '* * * * *' > /dev/full", NULL};
    const char *const help[] = {"-c", "exec " JOBSCHEDCTL " help > /dev/full", NULL};

    (void)state;
    assert_int_equal(process_run("/bin/sh", NULL, write, &output), 0);
    assert_int_equal(output.status, 1);
    assert_true(output.err_bytes > 0);
    assert_int_equal(process_run("/bin/sh", NULL, help, &output), 0);
    assert_int_equal(output.status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_hold_through_the_program_with_slim_zones),
        cmocka_unit_test(test_vectors_hold_through_the_program_with_fat_zones),
        cmocka_unit_test(test_no_control_byte_of_the_input_is_echoed),
        cmocka_unit_test(test_json_is_json_whatever_the_input_is),
        cmocka_unit_test(test_output_that_cannot_be_written_is_a_failure),
    };
    int failures = cmocka_run_group_tests_name("jobschedctl", tests, NULL, NULL);

    return failures ? 1 : 0;
}
