/* test_crontab_bounds.c: the crontab reader of elected-crond, given too much, rubbish, and what is no
 * file. Guards G11: nothing makes it long, large or wrong, and one bad line spoils itself only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "parse.h"

#include "elected_crond/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The blanks before a schedule do not count for its length. */
static void test_an_indented_long_schedule_is_taken(void **state)
{
    char text[512];
    size_t bytes = (size_t)snprintf(text, sizeof text, "%39s0", "");
    crontab *table;

    (void)state;
    while (bytes < 39 + 240) {
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, ",10");
    }
    (void)snprintf(text + bytes, sizeof text - bytes, " * * * * c");
    table = parse(text);
    assert_int_equal(table->finding_count, 0);
    assert_int_equal(table->entry_count, 1);
    crontab_free(table);
}

static void test_long_lines_and_many_lines_are_bounded(void **state)
{
    size_t bytes = 0, most = 512 * 1024;
    char *text = malloc(most);
    crontab *table;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', most);
    memcpy(text, "@daily ", 7);
    memcpy(text + CRONTAB_LINE_BYTES_MAX, "\n@daily ", 8);
    memcpy(text + most - 12, "\n@daily good", 12);
    table = parse_bytes(text, most);
    assert_int_equal(table->entry_count, 2);
    assert_int_equal(strlen(table->entries[0]->command), CRONTAB_LINE_BYTES_MAX - 7);
    assert_string_equal(table->entries[1]->command, "good");
    assert_int_equal(table->finding_count, 1);
    assert_int_equal(table->findings[0].line, 2);
    assert_int_equal(table->findings[0].column, CRONTAB_LINE_BYTES_MAX + 1);
    crontab_free(table);

    while (bytes + 10 < 12000 * 10) {
        memcpy(text + bytes, "@hourly a\n", 10);
        bytes += 10;
    }
    table = parse_bytes(text, bytes);
    assert_int_equal(table->entry_count, CRONTAB_ENTRIES_MAX);
    assert_int_equal(table->finding_count, CRONTAB_FINDINGS_MAX);
    assert_int_equal(table->error_count, 11999 - CRONTAB_ENTRIES_MAX);
    crontab_free(table);

    bytes = 0;
    for (int i = 0; i < SETTINGS_MAX + 1; i++) {
        bytes += (size_t)snprintf(text + bytes, 32, "A%d=1\n", i);
    }
    table = parse_bytes(text, bytes);
    assert_int_equal(table->error_count, 1);
    assert_int_equal(table->findings[0].line, SETTINGS_MAX + 1);
    crontab_free(table);
    free(text);
}

static void test_nul_bytes_spoil_only_their_line(void **state)
{
    crontab *table = parse_bytes("@daily a\0b\n@daily c", 19);

    (void)state;
    assert_int_equal(table->entry_count, 1);
    assert_string_equal(table->entries[0]->command, "c");
    assert_int_equal(table->finding_count, 1);
    assert_int_equal(table->findings[0].column, 9);
    crontab_free(table);
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* What comes of rubbish is always fit for the library and the shell, and the same twice. */
static void check_rubbish(const char *text, size_t bytes)
{
    crontab *table = parse_bytes(text, bytes), *again = parse_bytes(text, bytes);

    assert_int_equal(table->entry_count, again->entry_count);
    for (size_t i = 0; i < table->entry_count; i++) {
        const crontab_entry *entry = table->entries[i];
        size_t length = strlen(entry->name), at = 0;

        assert_true(length >= 1 && length <= 200);
        while (at < length) {
            size_t step = utf8_step(entry->name + at);

            assert_true(step > 0);
            at += step;
        }
        assert_true(entry->command[0] != '\0');
        assert_true(strchr(entry->command, '\n') == NULL);
        assert_true(crontab_entry_same(entry, again->entries[i]));
    }
    for (size_t i = 0; i < table->finding_count; i++) {
        assert_true(table->findings[i].caret <= strlen(table->findings[i].excerpt));
        assert_true(table->findings[i].line >= 1 && table->findings[i].column >= 1);
        assert_null(strchr(table->findings[i].message, '\n'));
    }
    crontab_free(table);
    crontab_free(again);
}

static void test_rubbish_is_survived(void **state)
{
    static const char *const pieces[] = {
        "*",      " ",        "\n",       "\r\n", "%",        "\\",
        "@every", "@at",      "# name: ", "a",    "A=",       "'",
        "\"",     "0",        "5",        "60",   "MON",      "L",
        "from",   "CRON_TZ=", "\t",       "\xff", "\xc3\xa4", "*/5",
        "1-5",    "* * * * ", "@daily ",  "/",    "SHELL=",   "CRON_SECONDS=yes\n"};
    uint64_t seed = 20270101;
    char text[2048];

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t bytes = 0, limit = next_random(&seed) % (sizeof text - 32);

        while (bytes < limit) {
            uint64_t random = next_random(&seed);

            if (round % 3 == 0) {
                text[bytes++] = (char)random;
            } else {
                const char *piece = pieces[random % (sizeof pieces / sizeof *pieces)];

                memcpy(text + bytes, piece, strlen(piece));
                bytes += strlen(piece);
            }
        }
        check_rubbish(text, bytes);
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Whatever the path names, the answer comes at once. */
static void test_only_regular_files_of_some_size_are_read(void **state)
{
    char folder[] = "/tmp/test_crontab.XXXXXX", path[64], message[CRONTAB_MESSAGE_BYTES];
    crontab *table = NULL;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/tab", folder);
    write_file(path, "@daily a\n@daily b");
    assert_int_equal(crontab_read(path, "default", &table, message, sizeof message), 0);
    assert_int_equal(table->entry_count, 2);
    crontab_free(table);
    table = NULL;
    assert_int_equal(truncate(path, CRONTAB_BYTES_MAX + 1), 0);
    assert_int_equal(crontab_read(path, "default", &table, message, sizeof message), -1);
    assert_non_null(strstr(message, "larger"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(crontab_read(path, "default", &table, message, sizeof message), -1);
    assert_non_null(strstr(message, "No such file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(crontab_read(path, "default", &table, message, sizeof message), -1);
    assert_non_null(strstr(message, "regular"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(crontab_read(folder, "default", &table, message, sizeof message), -1);
    assert_non_null(strstr(message, "regular"));
    assert_int_equal(crontab_read("/dev/urandom", "default", &table, message, sizeof message), -1);
    assert_non_null(strstr(message, "regular"));
    assert_null(table);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_indented_long_schedule_is_taken),
        cmocka_unit_test(test_long_lines_and_many_lines_are_bounded),
        cmocka_unit_test(test_nul_bytes_spoil_only_their_line),
        cmocka_unit_test(test_rubbish_is_survived),
        cmocka_unit_test(test_only_regular_files_of_some_size_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
