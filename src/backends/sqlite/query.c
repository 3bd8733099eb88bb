/* query.c: one use of a prepared statement. Statements are prepared at their first use and kept
 * with the lane. Locks: none; the caller owns the lane. */
#include "store.h"

static const char *const texts[JSI_SQL_COUNT] = {
#define TEXT_OF(name, text) text,
    JSI_SQL_MAP(TEXT_OF)
#undef TEXT_OF
};

void jsi_query_open(struct jsi_query *query, struct jsi_sqlite_lane *lane, enum jsi_sql sql)
{
    *query = (struct jsi_query){.lane = lane};
    if (lane->statements[sql] == NULL) {
        query->result = sqlite3_prepare_v3(lane->db, texts[sql], -1, SQLITE_PREPARE_PERSISTENT,
                                           &lane->statements[sql], NULL);
    }
    query->statement = lane->statements[sql];
}

static void note_result(struct jsi_query *query, int result)
{
    if (query->result == SQLITE_OK) {
        query->result = result;
    }
}

void jsi_query_int(struct jsi_query *query, int64_t value)
{
    query->at++;
    if (query->statement != NULL) {
        note_result(query, sqlite3_bind_int64(query->statement, query->at, value));
    }
}

void jsi_query_uint(struct jsi_query *query, uint64_t value)
{
    jsi_query_int(query, (int64_t)value);
}

void jsi_query_text(struct jsi_query *query, const char *text)
{
    query->at++;
    if (query->statement != NULL) {
        note_result(query, sqlite3_bind_text(query->statement, query->at, text, -1, SQLITE_STATIC));
    }
}

void jsi_query_null(struct jsi_query *query)
{
    query->at++;
    if (query->statement != NULL) {
        note_result(query, sqlite3_bind_null(query->statement, query->at));
    }
}

int jsi_query_row(struct jsi_query *query)
{
    if (query->result != SQLITE_OK) {
        return jsi_sqlite_fail(query->lane, query->result);
    }
    int result = sqlite3_step(query->statement);
    if (result == SQLITE_ROW) {
        return 1;
    }
    return result == SQLITE_DONE ? 0 : jsi_sqlite_fail(query->lane, result);
}

void jsi_query_close(struct jsi_query *query)
{
    if (query->statement != NULL) {
        (void)sqlite3_reset(query->statement); /* repeats the result that step has given */
    }
}

int jsi_query_run(struct jsi_query *query)
{
    int result;
    do {
        result = jsi_query_row(query);
    } while (result > 0);
    jsi_query_close(query);
    return result;
}

int64_t jsi_query_get_int(const struct jsi_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

uint64_t jsi_query_get_uint(const struct jsi_query *query, int column)
{
    return (uint64_t)sqlite3_column_int64(query->statement, column);
}

int64_t jsi_query_get_ms(const struct jsi_query *query, int column)
{
    if (sqlite3_column_type(query->statement, column) == SQLITE_NULL) {
        return JOBSCHED_NONE;
    }
    return sqlite3_column_int64(query->statement, column);
}

const char *jsi_query_get_text(const struct jsi_query *query, int column)
{
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    return text == NULL ? "" : (const char *)text;
}

void jsi_query_copy_text(const struct jsi_query *query, int column, char *target, size_t size)
{
    const char *text = jsi_query_get_text(query, column);
    size_t length = strnlen(text, size - 1);
    memcpy(target, text, length);
    target[length] = '\0';
}

void jsi_query_forget(struct jsi_sqlite_lane *lane)
{
    for (int i = 0; i < JSI_SQL_COUNT; i++) {
        (void)sqlite3_finalize(lane->statements[i]); /* repeats the statement's last result */
        lane->statements[i] = NULL;
    }
}
