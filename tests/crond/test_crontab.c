/* test_crontab.c: the crontab reader of elected-crond, without a scheduler. Tables of lines and what
 * must come of them, with the place of every error. (Rubbish is in test_crontab_bounds.c.)
 * Guards G14 at the door (a job's name is the same on every node) and that a line is run as it was
 * meant or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "parse.h"

#include <stdlib.h>
#include <string.h>

typedef struct good_row {
    const char *text; /* its last entry is looked at */
    const char *schedule, *command, *input;
    const char *why;
} good_row;

static const good_row good_rows[] = {
    {"* * * * * cmd", "* * * * *", "cmd", NULL, "the plain form"},
    {"\t 1\t 2   3 4  5 \t cmd  a  b", "1 2 3 4 5", "cmd  a  b", NULL, "blanks and tabs"},
    {"* * * * * cmd\r\n", "* * * * *", "cmd", NULL, "CRLF"},
    {"\xef\xbb\xbf* * * * * cmd", "* * * * *", "cmd", NULL, "byte order mark"},
    {"@daily cmd x", "@daily", "cmd x", NULL, "macro"},
    {"@every 90s cmd", "@every 90s", "cmd", NULL, "interval"},
    {"@every  1h  from  2024-01-01T00:00:00Z  cmd", "@every 1h from 2024-01-01T00:00:00Z", "cmd",
     NULL, "interval with anchor"},
    {"@every 90s fromage", "@every 90s", "fromage", NULL, "only the word 'from' is an anchor"},
    {"@at 2027-01-01T00:00:00Z cmd", "@at 2027-01-01T00:00:00Z", "cmd", NULL, "one-shot"},
    {"*/5 * * * * * cmd", "*/5 * * * * *", "cmd", NULL, "six: '*' is no command"},
    {"0 0 * * * 5 cmd", "0 0 * * * 5", "cmd", NULL, "six: '5' is no command"},
    {"0 0 3 * * 1-5 cmd", "0 0 3 * * 1-5", "cmd", NULL, "six: a range is no command"},
    {"0 0 3 * * MON-FRI cmd", "0 0 3 * * MON-FRI", "cmd", NULL, "six: names with a dash"},
    {"0 0 3 * * 5L cmd", "0 0 3 * * 5L", "cmd", NULL, "six: last Friday"},
    {"0 0 3 * * MON#1 cmd", "0 0 3 * * MON#1", "cmd", NULL, "six: first Monday"},
    {"0 30 9 * * MON cmd", "0 30 9 * * MON", "cmd", NULL, "six: hour 30 cannot be five"},
    {"* * * * 9 mon cmd", "* * * * 9 mon", "cmd", NULL, "six: no day-of-week 9"},
    {"0 3 * * * mon", "0 3 * * *", "mon", NULL, "five: no command would be left"},
    {"0 3 * * * monitor -x", "0 3 * * *", "monitor -x", NULL, "five: begins like a day"},
    {"0 3 * * * 7z a b", "0 3 * * *", "7z a b", NULL, "five: begins with a digit"},
    {"0 3 * * * [ -x /a ] && /a", "0 3 * * *", "[ -x /a ] && /a", NULL, "five: a test"},
    {"0 3 * * 1-5 . /etc/p; c", "0 3 * * 1-5", ". /etc/p; c", NULL, "five: a dot"},
    {"CRON_SECONDS=no\n* * * * * 7 args", "* * * * *", "7 args", NULL, "told to be five"},
    {"CRON_SECONDS=no\n* * * * * mon x", "* * * * *", "mon x", NULL, "told to be five"},
    {"CRON_SECONDS=yes\n0 0 3 * * mon x", "0 0 3 * * mon", "x", NULL, "told to be six"},
    {"CRON_SECONDS=yes\nCRON_SECONDS=auto\n* * * * * c", "* * * * *", "c", NULL, "back again"},
    {"* * * * * cat%one%two", "* * * * *", "cat", "one\ntwo\n", "input"},
    {"* * * * * cat %", "* * * * *", "cat ", NULL, "empty input is none"},
    {"* * * * * date +\\%F", "* * * * *", "date +%F", NULL, "protected"},
    {"* * * * * a\\b %x", "* * * * *", "a\\b ", "x\n", "other backslashes stay"},
    {"* * * * * a\\\\%x", "* * * * *", "a\\\\", "x\n", "a protected backslash protects nothing"},
    {"* * * * * cat%a\\%b%%c", "* * * * *", "cat", "a%b\n\nc\n", "protected in the input"},
    {"* * * * * cat%a%", "* * * * *", "cat", "a\n", "an end of line is not doubled"},
    {"* * * * * a\\", "* * * * *", "a\\", NULL, "a backslash at the end"},
    {"* * * * * A=1 cmd", "* * * * *", "A=1 cmd", NULL, "an assignment of the shell"},
    {"# c\n\n   # d\n@hourly c", "@hourly", "c", NULL, "comments and blank lines"},
    {"* * * * * a # b", "* * * * *", "a # b", NULL, "no comments behind a command"},
    {"CRON_TZ=UTC\n* * * * * a", "* * * * *", "a", NULL, "the one zone there always is"},
    {"MAILTO=\"\"\n* * * * * a", "* * * * *", "a", NULL, "as everybody writes it"},
};

static void test_good_lines_become_entries(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_rows / sizeof *good_rows; i++) {
        const good_row *row = &good_rows[i];
        crontab *table;
        const crontab_entry *entry;

        print_message("%s: %s\n", row->why, row->text);
        table = parse(row->text);
        for (size_t j = 0; j < table->finding_count; j++) {
            print_message("%s\n", table->findings[j].message);
        }
        assert_int_equal(table->error_count, 0);
        assert_int_equal(table->warning_count, 0);
        assert_int_equal(table->entry_count, 1);
        entry = table->entries[0];
        assert_string_equal(entry->schedule, row->schedule);
        assert_string_equal(entry->command, row->command);
        if (row->input == NULL) {
            assert_null(entry->input);
        } else {
            assert_string_equal(entry->input, row->input);
            assert_int_equal(entry->input_bytes, strlen(row->input));
        }
        crontab_free(table);
    }
}

typedef struct bad_row {
    const char *text; /* one finding, and one entry where usable is 1 */
    size_t line, column;
    int severity;
    size_t usable;
    const char *part; /* of the message */
} bad_row;

#define E CRONTAB_ERROR
#define W CRONTAB_WARNING

static const bad_row bad_rows[] = {
    {"60 * * * * c", 1, 1, E, 0, "60"},
    {"\n\n  * 24 * * * c", 3, 5, E, 0, "24"},
    {"* * 0 * * c\n* * * * * d", 1, 5, E, 1, "0"},
    {"*/90 * * * * c", 1, 3, E, 0, "@every"},
    {"TZ=UTC 0 0 * * * c", 1, 4, E, 0, "line of its own"},
    {"CRON_TZ=UTC 0 0 * * * c", 1, 9, E, 0, "line of its own"},
    {"CRON_TZ=UTC\nTZ=UTC 0 0 * * * c", 2, 4, E, 0, "line of its own"},
    {"* * * *", 1, 8, E, 0, ""},
    {"* * * * *", 1, 10, E, 0, "no command"},
    {"* * * * *   \t", 1, 14, E, 0, "no command"},
    {"@daily", 1, 7, E, 0, "no command"},
    {"@reboot c", 1, 1, E, 0, "reboot"},
    {"@dayly c", 1, 1, E, 0, ""},
    {"@every 5x c", 1, 9, E, 0, ""},
    {"@every 5s", 1, 10, E, 0, "no command"},
    {"@at tomorrow c", 1, 5, E, 0, ""},
    {"0 0 31 2 * c", 1, 1, E, 0, "never"},
    {"CRON_TZ=America/New_York\n@at 1970-01-01T00:00:00Z c", 2, 1, E, 0, "never"},
    {"# name: a\n# jobsched: allow_never=maybe\n0 0 31 2 * c", 2, 13, E, 0, "maybe"},
    {"61 * * * * * c", 1, 1, E, 0, "61"},
    {"* * * * * 8 c", 1, 11, E, 0, "0-7"},
    {"0 0 1 1 * 5", 1, 12, E, 0, "no command"},
    {"0 3 9 1 * sun -x", 1, 11, E, 0, "CRON_SECONDS"},
    {"0 0 3 1 1 * 2027 c", 1, 13, E, 0, "2027"},
    {"* * * * * %x", 1, 11, E, 0, "no command"},
    {"A='b\n* * * * * c", 1, 3, E, 1, "quote"},
    {"A=\"b\" c\n* * * * * c", 1, 6, E, 1, "quote"},
    {"CRON_SECONDS=maybe\n* * * * * c", 1, 14, E, 1, "auto"},
    {"9A=b", 1, 5, E, 0, "field"},
    {"A B=c", 1, 6, E, 0, "field"},
    {"MAILTO=root\n* * * * * c", 1, 1, W, 1, "mail"},
    {"SHELL=bash\n* * * * * c", 1, 7, W, 1, "/bin/sh"},
    {"SHELL=\n* * * * * c", 1, 7, W, 1, "/bin/sh"},
    {"# name: a\n\n* * * * * c", 1, 9, W, 1, "not used"},
    {"# name: a\nB=1\n* * * * * c", 1, 9, W, 1, "not used"},
    {"# name: a\n# name: b\n* * * * * c", 1, 9, W, 1, "not used"},
    {"* * * * * c\n# name: a", 2, 9, W, 1, "not used"},
    {"# name:\n* * * * * c", 1, 8, E, 0, "1 to 200"},
    {"# name: a\tb\n* * * * * c", 1, 10, E, 0, "control"},
    {"# name: a\xc3\n* * * * * c", 1, 10, E, 0, "UTF-8"},
    {"# name: a\n* * * * * c\n# name: a\n* * * * * d", 3, 9, E, 1, "line 2"},
    {"# jobsched: timeout=5m\n\n* * * * * c", 1, 13, W, 1, "not used"},
    {"# jobsched: timeout=5m nosuch=1\n* * * * * c", 1, 24, E, 0, "nosuch"},
    {"# jobsched: timeout=soon\n* * * * * c", 1, 13, E, 0, "soon"},
    {"# jobsched:  overlap\n* * * * * c", 1, 14, E, 0, "KEY=VALUE"},
    {"# jobsched: name=x\n* * * * * c", 1, 13, E, 0, "not set here"},
};

/* Each row has exactly one finding, at exactly that place. */
static void test_bad_lines_are_told_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        const bad_row *row = &bad_rows[i];
        crontab *table = parse(row->text);

        print_message("%s\n", row->text);
        assert_int_equal(table->finding_count, 1);
        print_message("    %s\n", table->findings[0].message);
        assert_int_equal(table->findings[0].severity, row->severity);
        assert_int_equal(table->findings[0].line, row->line);
        assert_int_equal(table->findings[0].column, row->column);
        assert_non_null(strstr(table->findings[0].message, row->part));
        assert_int_equal(table->entry_count, row->usable);
        assert_int_equal(table->error_count, row->severity == E ? 1 : 0);
        crontab_free(table);
    }
}

/* H picks 28 for one name and 31 for another, of which February has one: each line is judged as the job
 * that it becomes, so that what the check accepts the scheduler takes, and nothing else. The picks
 * are published (docs/schedules.md), so these rows hold for ever. */
static void test_never_is_judged_by_the_jobs_own_picks(void **state)
{
    static const struct {
        const char *name, *name_space;
        size_t usable;
    } rows[] = {{"a", "default", 0}, {"c", "default", 1}, {"e", "default", 0}, {"e", "other", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        crontab *table = NULL;

        (void)snprintf(text, sizeof text, "# name: %s\n0 0 H(28-31) 2 * c", rows[i].name);
        assert_int_equal(crontab_parse(text, strlen(text), rows[i].name_space, NULL, &table), 0);
        print_message("%s of %s: %zu\n", rows[i].name, rows[i].name_space, table->entry_count);
        assert_int_equal(table->entry_count, rows[i].usable);
        assert_int_equal(table->finding_count, 1 - rows[i].usable);
        if (rows[i].usable == 0) {
            assert_int_equal(table->findings[0].line, 2);
            assert_non_null(strstr(table->findings[0].message, "namespace"));
        }
        crontab_free(table);
    }
}

/* What a zone lacks: the span of schedules is one of local years. */
static void test_a_line_is_judged_in_its_zone(void **state)
{
    crontab *table = parse("CRON_TZ=Europe/London\n@at 1969-12-31T23:00:00Z c");

    (void)state;
    assert_int_equal(table->entry_count, 1); /* there it is 1970 already */
    assert_int_equal(table->finding_count, 0);
    crontab_free(table);
    /* The zone that is given is that of the lines without one, until a line sets another. */
    static const char text[] =
        "@at 1970-01-01T00:00:00Z a\nCRON_TZ=UTC\n@at 1970-01-01T00:00:00Z b\n"
        "CRON_TZ=\n@at 1970-01-01T00:00:00Z c";
    assert_int_equal(crontab_parse(text, sizeof text - 1, "default", "America/New_York", &table),
                     0);
    assert_int_equal(table->entry_count, 1); /* there it is 1969 still */
    assert_int_equal(table->entries[0]->line, 3);
    assert_int_equal(table->finding_count, 2);
    crontab_free(table);
    table = parse("# jobsched: allow_never=yes\n0 0 31 2 * c");
    assert_int_equal(table->entry_count, 1); /* parked on purpose, as the library has it */
    assert_int_equal(table->finding_count, 0);
    crontab_free(table);
}

/* The printed form has the caret under the place, whatever bytes the line has. */
static void test_caret_stands_under_the_place(void **state)
{
    static const char expected[] = "tab:1:8: ";
    char *text = NULL, *caret_line;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    crontab *table = parse("\t* * * 13 * \xc3\xa4\x01");

    (void)state;
    assert_non_null(stream);
    assert_int_equal(table->finding_count, 1);
    crontab_finding_print(stream, "tab", &table->findings[0]);
    assert_int_equal(fclose(stream), 0);
    assert_memory_equal(text, expected, sizeof expected - 1);
    caret_line = strchr(text, '\n') + 1;
    assert_memory_equal(caret_line, "     * * * 13 * ???\n", 20);
    caret_line = strchr(caret_line, '\n') + 1;
    assert_string_equal(caret_line, "           ^\n");
    free(text);
    crontab_free(table);
}

typedef struct setting_row {
    const char *line;
    const char *name, *value;
} setting_row;

static const setting_row setting_rows[] = {
    {"A=b", "A", "b"},
    {"A = b", "A", "b"},
    {"  A\t=\tb \t", "A", "b"},
    {"A=b c", "A", "b c"},
    {"A=' b '", "A", " b "},
    {"A = \" b \" ", "A", " b "},
    {"A=\"it's\"", "A", "it's"},
    {"A=b\"c\"", "A", "b\"c\""},
    {"A=$HOME/x", "A", "$HOME/x"},
    {"A=", "A", ""},
    {"A=''", "A", ""},
    {"'A' = b", "A", "b"},
    {"_a1=b=c", "_a1", "b=c"},
    {"A=100%", "A", "100%"},
    {"A=b\r\n", "A", "b"},
};

static void test_settings_follow_the_rules_of_cron(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof setting_rows / sizeof *setting_rows; i++) {
        char text[128];
        crontab *table;

        (void)snprintf(text, sizeof text, "%s\n@daily c\n", setting_rows[i].line);
        print_message("%s", text);
        table = parse(text);
        assert_int_equal(table->finding_count, 0);
        assert_int_equal(table->entry_count, 1);
        assert_string_equal(setting_value(table->entries[0]->settings, setting_rows[i].name),
                            setting_rows[i].value);
        crontab_free(table);
    }
}

static const char *find_variable(char **environment, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; environment[i] != NULL; i++) {
        if (strncmp(environment[i], name, strlen(name)) == 0 &&
            environment[i][strlen(name)] == '=') {
            assert_null(found); /* no name twice */
            found = environment[i] + strlen(name) + 1;
        }
    }
    return found;
}

/* A setting holds for the lines below it, the last of a name counts, and the lock's URL, which may
 * hold a password, reaches no command. */
static void test_environment_is_layered(void **state)
{
    char inherited_a[] = "A=inherited", inherited_b[] = "B=inherited",
         lock[] = "JOBSCHED_LOCK=secret", extra_c[] = "C=extra";
    char *inherited[] = {inherited_a, inherited_b, lock, NULL};
    char *extra[] = {extra_c, NULL};
    crontab *table = parse("A=1\n@daily x\nA=2\nC=no\n@daily y\n");
    char **first = environment_new(inherited, table->entries[0]->settings, extra);
    char **second = environment_new(inherited, table->entries[1]->settings, extra);

    (void)state;
    assert_string_equal(find_variable(first, "A"), "1");
    assert_string_equal(find_variable(second, "A"), "2");
    assert_string_equal(find_variable(first, "B"), "inherited");
    assert_string_equal(find_variable(second, "C"), "extra");
    assert_string_equal(find_variable(first, "PATH"), "/usr/bin:/bin");
    assert_null(find_variable(first, "JOBSCHED_LOCK"));
    environment_free(first);
    environment_free(second);
    crontab_free(table);
}

/* The names are published: a change makes every unnamed job of every user another job. */
static void test_derived_names_never_change(void **state)
{
    crontab *table = parse("@daily /usr/bin/backup --all\n"
                           "*/5  *  * * * /usr/bin/backup --all\n"
                           "A=1\n"
                           "@daily /usr/bin/backup --all\n"
                           "@daily cat%in\n"
                           "@daily $x; y\n"
                           "@daily  (a)\n");
    static const char *const names[] = {"backup-bb22ee98bade", "backup-1271be1380b6",
                                        "backup-42601add87e6", "cat-d89dc1f5c5f6",
                                        "x-2b8a2b563d04",      "job-a25e6500f21c"};

    (void)state;
    assert_int_equal(table->entry_count, sizeof names / sizeof *names);
    for (size_t i = 0; i < table->entry_count; i++) {
        print_message("%s\n", table->entries[i]->name);
        assert_string_equal(table->entries[i]->name, names[i]);
    }
    crontab_free(table);
}

static void assert_same_name(const char *a, const char *b, int same)
{
    crontab *left = parse(a), *right = parse(b);

    print_message("%s against %s\n", a, b);
    assert_int_equal(left->entry_count, 1);
    assert_int_equal(right->entry_count, 1);
    assert_int_equal(strcmp(left->entries[0]->name, right->entries[0]->name) == 0, same);
    crontab_free(left);
    crontab_free(right);
}

/* G14: what does not matter to the job does not make it another one on another node. */
static void test_names_depend_on_what_matters(void **state)
{
    (void)state;
    assert_same_name("@daily a", "# hello\n\n  @daily   a\r\n", 1);
    assert_same_name("A=1\nB=2\n@daily a", "B=2\nA=0\nA=1\n@daily a", 1);
    assert_same_name("MAILTO=''\n@daily a", "@daily a", 1);
    assert_same_name("CRON_SECONDS=no\n* * * * * a", "* * * * * a", 1);
    assert_same_name("@daily a", "@hourly a", 0);
    assert_same_name("@daily a", "@daily a b", 0);
    assert_same_name("@daily a", "@daily a%b", 0);
    assert_same_name("A=1\n@daily a", "A=2\n@daily a", 0);
    assert_same_name("# name: n\n@daily a", "# name: n\n@hourly b", 1);
    assert_same_name("#name: n\n# what it does\n@daily a", "# name:n  \n@daily a", 1);
}

/* They are the job's, but not its identity: editing a timeout does not make another job. */
static void test_settings_of_a_job_are_kept(void **state)
{
    crontab *table = parse("#jobsched:timeout=5m  overlap=allow \n# name: a\n@daily x\n@daily y\n");

    (void)state;
    assert_int_equal(table->finding_count, 0);
    assert_string_equal(table->entries[0]->options, "timeout=5m overlap=allow");
    assert_string_equal(table->entries[0]->name, "a");
    assert_null(table->entries[1]->options);
    crontab_free(table);
    assert_same_name("# jobsched: timeout=5m\n@daily a", "@daily a", 1);
}

static void test_equal_lines_are_numbered(void **state)
{
    crontab *table = parse("@daily a\n@daily b\n@daily a\n@daily a\n");
    size_t bytes;

    (void)state;
    assert_int_equal(table->entry_count, 4);
    bytes = strlen(table->entries[0]->name);
    assert_memory_equal(table->entries[2]->name, table->entries[0]->name, bytes);
    assert_string_equal(table->entries[2]->name + bytes, "#2");
    assert_string_equal(table->entries[3]->name + bytes, "#3");
    crontab_free(table);
}

/* In UTC instead of its zone a line would run at another time than meant. */
static void test_lines_of_an_unusable_zone_are_refused(void **state)
{
    crontab *table = parse("CRON_TZ=Not/AZone\n@daily a\nTZ=UTC\n@daily b\nCRON_TZ=\n@daily c\n");

    (void)state;
    assert_int_equal(table->entry_count, 1);
    assert_string_equal(table->entries[0]->command, "c");
    assert_string_equal(table->entries[0]->zone, "UTC");
    assert_int_equal(table->error_count, 3);
    assert_int_equal(table->findings[0].line, 1);
    assert_int_equal(table->findings[0].column, 9);
    assert_non_null(strstr(table->findings[0].message, "Not/AZone"));
    assert_int_equal(table->findings[2].line, 4);
    crontab_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_lines_become_entries),
        cmocka_unit_test(test_bad_lines_are_told_with_their_place),
        cmocka_unit_test(test_never_is_judged_by_the_jobs_own_picks),
        cmocka_unit_test(test_a_line_is_judged_in_its_zone),
        cmocka_unit_test(test_caret_stands_under_the_place),
        cmocka_unit_test(test_settings_follow_the_rules_of_cron),
        cmocka_unit_test(test_environment_is_layered),
        cmocka_unit_test(test_derived_names_never_change),
        cmocka_unit_test(test_names_depend_on_what_matters),
        cmocka_unit_test(test_settings_of_a_job_are_kept),
        cmocka_unit_test(test_equal_lines_are_numbered),
        cmocka_unit_test(test_lines_of_an_unusable_zone_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
