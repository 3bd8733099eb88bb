/* vectors.h: reads tests/data/cron-cases.tsv. */
#ifndef TESTS_UNIT_VECTORS_H
#define TESTS_UNIT_VECTORS_H

#include <stdbool.h>
#include <stdint.h>

enum { VECTOR_INSTANTS_MAX = 16 };

struct vector {
    char id[64];
    char expression[512];
    char zone[80]; /* "" when none is given */
    char seed[64]; /* "" when there is none */
    int64_t start; /* seconds */
    bool refused;
    long position; /* of the error; -1 when the row does not say */
    bool ends;     /* nothing follows the last of expected */
    int count;     /* of expected */
    int64_t expected[VECTOR_INSTANTS_MAX];
};

/* Calls visit for each row; returns the number of rows, or -1 when the file cannot be
 * read or a row is not understood. */
int vectors_visit(const char *path, void (*visit)(const struct vector *vector, void *data),
                  void *data);

/* YYYY-MM-DDThh:mm:ssZ to seconds, by counting days one by one. */
bool vectors_instant(const char *text, int64_t *out);

#endif
