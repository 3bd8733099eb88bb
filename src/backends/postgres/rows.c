/* rows.c: values of the last statement's result, which are text. Locks: the caller owns the lane. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

int jsi_pg_rows(const struct jsi_pg_lane *lane)
{
    return PQntuples(lane->result);
}

/* A function that somebody has replaced may give fewer columns, or no row. */
static int is_there(const PGresult *result, int row, int column)
{
    return row < PQntuples(result) && column < PQnfields(result);
}

const char *jsi_pg_value(const PGresult *result, int row, int column)
{
    return is_there(result, row, column) ? PQgetvalue(result, row, column) : "";
}

const char *jsi_pg_get(const struct jsi_pg_lane *lane, int row, int column)
{
    return jsi_pg_value(lane->result, row, column);
}

int64_t jsi_pg_int(const struct jsi_pg_lane *lane, int row, int column)
{
    return strtoll(jsi_pg_get(lane, row, column), NULL, 10);
}

uint64_t jsi_pg_bits(const struct jsi_pg_lane *lane, int row, int column)
{
    return (uint64_t)jsi_pg_int(lane, row, column);
}

uint64_t jsi_pg_unsigned(const struct jsi_pg_lane *lane, int row, int column)
{
    return strtoull(jsi_pg_get(lane, row, column), NULL, 10);
}

int64_t jsi_pg_ms(const struct jsi_pg_lane *lane, int row, int column)
{
    int null = !is_there(lane->result, row, column) || PQgetisnull(lane->result, row, column);
    return null ? JOBSCHED_NONE : jsi_pg_int(lane, row, column);
}

int64_t jsi_pg_span(const struct jsi_pg_lane *lane, int row, int from_column, int until_column)
{
    int64_t from = jsi_pg_int(lane, row, from_column);
    int64_t until = jsi_pg_int(lane, row, until_column);
    if (from < 0 && until > INT64_MAX + from) {
        return INT64_MAX;
    }
    return from > 0 && until < INT64_MIN + from ? INT64_MIN : until - from;
}

int jsi_pg_true(const struct jsi_pg_lane *lane, int row, int column)
{
    return jsi_pg_get(lane, row, column)[0] == 't';
}

void jsi_pg_copy(const struct jsi_pg_lane *lane, int row, int column, char *out, size_t bytes)
{
    const char *text = jsi_pg_get(lane, row, column);
    size_t length = strnlen(text, bytes - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}
