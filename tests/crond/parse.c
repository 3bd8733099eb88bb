/* parse.c: see parse.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "parse.h"

#include <stdlib.h>
#include <string.h>

crontab *parse_bytes(const char *text, size_t bytes)
{
    /* Without a NUL behind it, so that a sanitizer sees every byte too many that is read. */
    char *copy = malloc(bytes == 0 ? 1 : bytes);
    crontab *table = NULL;

    assert_non_null(copy);
    memcpy(copy, text, bytes);
    assert_int_equal(crontab_parse(copy, bytes, "default", NULL, &table), 0);
    free(copy);
    return table;
}

crontab *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}
