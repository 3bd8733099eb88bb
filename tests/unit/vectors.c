/* vectors.c: reads tests/data/cron-cases.tsv. */
#include "unit/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vectors_instant(const char *text, int64_t *out)
{
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &year, &month, &day, &hour, &minute, &second) !=
        6) {
        return false;
    }
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t days = 0;
    for (int y = 1970; y < year; y++) {
        days += (y % 4 == 0 && y % 100 != 0) || y % 400 == 0 ? 366 : 365;
    }
    for (int m = 1; m < month; m++) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        days += lengths[m - 1] + (m == 2 && leap ? 1 : 0);
    }
    *out = (days + day - 1) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

/* Undoes \t, \s and \n. */
static bool unescape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char c = *at;
        if (c == '\\') {
            at++;
            c = *at == 't' ? '\t' : *at == 's' ? ' ' : *at == 'n' ? '\n' : '\0';
        }
        if (c == '\0' || used + 1 >= size) {
            return false;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static bool read_expected(char *text, struct vector *vector)
{
    vector->refused = strcmp(text, "ERROR") == 0;
    vector->ends = strcmp(text, "NONE") == 0;
    vector->count = 0;
    if (vector->refused || vector->ends) {
        return true;
    }
    char *rest = text;
    for (char *part = strsep(&rest, ";"); part != NULL; part = strsep(&rest, ";")) {
        if (vector->count == VECTOR_INSTANTS_MAX ||
            !vectors_instant(part, &vector->expected[vector->count++])) {
            return false;
        }
    }
    return true;
}

static bool read_row(char *line, struct vector *vector)
{
    char *columns[6];
    char *rest = line;
    for (int i = 0; i < 6; i++) {
        columns[i] = strsep(&rest, "\t");
        if (columns[i] == NULL) {
            return false;
        }
    }
    memset(vector, 0, sizeof *vector);
    (void)snprintf(vector->id, sizeof vector->id, "%s", columns[0]);
    (void)snprintf(vector->zone, sizeof vector->zone, "%s",
                   strcmp(columns[2], "-") == 0 ? "" : columns[2]);
    vector->position = -1;
    const char *position = strstr(columns[5], "errpos=");
    if (position != NULL) {
        vector->position = strtol(position + 7, NULL, 10);
    }
    const char *seed = strstr(columns[5], "seed=");
    if (seed != NULL) {
        (void)snprintf(vector->seed, sizeof vector->seed, "%.*s", (int)strcspn(seed + 5, " "),
                       seed + 5);
    }
    return unescape(columns[1], vector->expression, sizeof vector->expression) &&
           vectors_instant(columns[3], &vector->start) && read_expected(columns[4], vector);
}

int vectors_visit(const char *path, void (*visit)(const struct vector *vector, void *data),
                  void *data)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return -1;
    }
    char *line = NULL;
    size_t capacity = 0;
    int rows = 0;
    ssize_t length = getline(&line, &capacity, file);
    for (; length >= 0; length = getline(&line, &capacity, file)) {
        if (length > 0 && line[length - 1] == '\n') {
            line[length - 1] = '\0';
        }
        if (line[0] == '#' || line[0] == '\0' || strncmp(line, "id\t", 3) == 0) {
            continue;
        }
        struct vector vector;
        if (!read_row(line, &vector)) {
            (void)fprintf(stderr, "row not understood: %s\n", line);
            rows = -1;
            break;
        }
        visit(&vector, data);
        rows++;
    }
    free(line);
    (void)fclose(file);
    return rows;
}
