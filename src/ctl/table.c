/* table.c: tables for people, by libsmartcols. No locks. */
#include "ctl/output.h"

#include <libsmartcols/libsmartcols.h>

#include <stdlib.h>

struct ctl_table {
    struct libscols_table *table;
    size_t column_count;
    int failed;
};

ctl_table *ctl_table_new(const char *const *columns, size_t column_count)
{
    ctl_table *made = calloc(1, sizeof *made);

    if (made == NULL) {
        return NULL;
    }
    made->column_count = column_count;
    made->table = scols_new_table();
    made->failed = made->table == NULL;
    for (size_t i = 0; i < column_count && !made->failed; i++) {
        struct libscols_column *column = scols_table_new_column(made->table, columns[i], 0, 0);

        made->failed = column == NULL;
        if (!made->failed) {
            (void)scols_cell_set_color(scols_column_get_header(column), "bold");
        }
    }
    if (!made->failed) {
        /* The cells are escaped already (ctl_text_cell), and would be once more. */
        (void)scols_table_enable_noencoding(made->table, 1);
        /* Cut to a terminal's width it would be another table there than in a pipe. */
        (void)scols_table_set_termforce(made->table, SCOLS_TERMFORCE_NEVER);
        (void)scols_table_enable_colors(made->table, ctl_colour(stdout, CTL_BOLD)[0] != '\0');
    }
    return made;
}

void ctl_table_row(ctl_table *table, const char *const *cells)
{
    struct libscols_line *line;

    if (table == NULL || table->failed) {
        return;
    }
    line = scols_table_new_line(table->table, NULL);
    table->failed = line == NULL;
    for (size_t i = 0; i < table->column_count && !table->failed; i++) {
        table->failed = scols_line_set_data(line, i, cells[i]) != 0;
    }
}

void ctl_table_free(ctl_table *table)
{
    if (table != NULL) {
        scols_unref_table(table->table);
        free(table);
    }
}

int ctl_table_print(ctl_table *table)
{
    int failed = table == NULL || table->failed || scols_print_table(table->table) != 0;

    ctl_table_free(table);
    return failed ? ctl_fail(NULL, "out of memory") : CTL_OK;
}
