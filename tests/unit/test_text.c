/* test_text.c: texts from elsewhere, made fit for terminals and logs.
 * Guards G13 (a good guest): whatever a store or a setting holds, no message of the library has a
 * control character or a byte that is no UTF-8. Tables, then every sequence of two bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"

#include <jobsched/backend.h>

#include <stdio.h>
#include <string.h>

static void test_texts_are_cleaned(void **state)
{
    static const struct {
        const char *given, *clean;
    } rows[] = {
        {"", ""},
        {"plain 'text'", "plain 'text'"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x95\xb0",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x95\xb0"},
        {"\x1b[31mred\x07", "?[31mred?"},
        {"two\nlines\r\n\ttab\x7f", "two?lines???tab?"},
        {"\xc2\x9b"
         "31m \xc2\xa0",
         "?31m \xc2\xa0"}, /* the C1 form of ESC [ */
        {"cut \xe2\x82", "cut ??"},
        {"\xff\xfe\x80", "???"},
        {"\xc0\xaf\xe0\x80\xaf", "?????"}, /* longer than need be */
        {"\xed\xa0\x80", "???"},           /* a surrogate */
        {"\xf4\x90\x80\x80", "????"},      /* beyond the last code point */
        {"\xe2\x82 x", "?? x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];

        (void)snprintf(text, sizeof text, "%s", rows[i].given);
        jsi_text_clean(text);
        assert_string_equal(text, rows[i].clean);
    }
}

/* What was cleaned is clean, and nothing printable is taken from it. */
static void test_all_pairs_of_bytes(void **state)
{
    (void)state;
    for (int pair = 0; pair < 65536; pair++) {
        char text[4] = {(char)(pair >> 8), (char)(pair & 255), 'x', '\0'}, again[4];

        jsi_text_clean(text);
        memcpy(again, text, sizeof again);
        jsi_text_clean(again);
        assert_string_equal(text, again);
        for (const char *at = text; *at != '\0'; at++) {
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
        }
        if (pair >> 8 != 0 && (pair & 255) != 0) {
            assert_int_equal(text[strlen(text) - 1], 'x');
        }
    }
}

static void test_errors_are_one_clean_line(void **state)
{
    char longest[2 * JOBSCHED_MESSAGE_BYTES];

    (void)state;
    assert_int_equal(jobsched_fail(JOBSCHED_EINVAL, 0, "value '%s'", "a\n\x1b]0;title\x07"),
                     JOBSCHED_EINVAL);
    assert_string_equal(jobsched_last_error()->message, "value 'a??]0;title?'");
    /* Cut in the middle of a character: the rest of it is no UTF-8. */
    for (size_t i = 0; i < sizeof longest - 1; i++) {
        longest[i] = i % 2 == 0 ? '\xc3' : '\xbc';
    }
    longest[sizeof longest - 1] = '\0';
    (void)jobsched_fail(JOBSCHED_EINVAL, 0, "%s", longest);
    assert_int_equal(strlen(jobsched_last_error()->message), JOBSCHED_MESSAGE_BYTES - 1);
    assert_int_equal(jobsched_last_error()->message[JOBSCHED_MESSAGE_BYTES - 2], '?');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_cleaned),
        cmocka_unit_test(test_all_pairs_of_bytes),
        cmocka_unit_test(test_errors_are_one_clean_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
