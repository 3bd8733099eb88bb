/* schema.c: makes and migrates the store, under a lock that all starters share, in one transaction.
 * Locks: the advisory lock (1785946984, 0) of the database; the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

int jsi_pg_fail_version(const struct jsi_pg_store *store, int64_t version)
{
    return jobsched_fail(JOBSCHED_ESCHEMA, 0,
                         "schema '%s' has version %lld, this library knows versions up to %d%s",
                         store->schema, (long long)version, JSI_PG_VERSION,
                         version > JSI_PG_VERSION ? "; use a newer library" : "");
}

static int read_version(struct jsi_pg_lane *lane, int64_t *out_version)
{
    jsi_pg_params(lane);
    int result = jsi_pg_query(lane, "SELECT version FROM @S@.meta", 0);
    if (result == 0) {
        *out_version = jsi_pg_rows(lane) == 1 ? jsi_pg_int(lane, 0, 0) : 0;
    }
    return result;
}

static void add_ddl(struct jsi_pg_text *text, const char *schema)
{
    for (const char *const *line = jsi_pg_ddl; *line != NULL; line++) {
        jsi_pg_text_expand(text, *line, schema);
    }
}

/* Only where it is missing: the right to make schemas is not needed when somebody has made it. */
static int make_schema(struct jsi_pg_lane *lane)
{
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, lane->store->schema);
    int result = jsi_pg_query(lane, "SELECT 1 FROM pg_namespace WHERE nspname = $1", 0);
    if (result == 0 && jsi_pg_rows(lane) == 0) {
        jsi_pg_params(lane);
        result = jsi_pg_query(lane, "CREATE SCHEMA @S@", 0);
    }
    return result;
}

static int make(struct jsi_pg_lane *lane)
{
    int result = make_schema(lane);
    if (result != 0) {
        return result;
    }
    struct jsi_pg_text ddl = {.allocator = &lane->store->config.allocator};
    add_ddl(&ddl, lane->store->schema);
    if (ddl.failed) {
        result = jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for the schema's text");
    } else {
        result = jsi_pg_script(lane, ddl.bytes);
    }
    jsi_pg_text_free(&ddl);
    if (jsi_pg_is_state(lane, "42P07") || jsi_pg_is_state(lane, "42723")) {
        result = jobsched_fail(JOBSCHED_EREFUSED, 0,
                               "schema '%s' holds tables of another application; choose another "
                               "with 'jobsched_schema=NAME'",
                               lane->store->schema);
    }
    return result;
}

/* What happened stays so if the answer to COMMIT is lost: the next try finds it. */
static int migrate(struct jsi_pg_lane *lane)
{
    int result = jsi_pg_script(lane, "BEGIN; SELECT pg_advisory_xact_lock(1785946984, 0)");
    if (result != 0) {
        return result;
    }
    /* Somebody may have been here since we looked. Not by to_regclass(): this session may remember
     * that the table was not there, as nothing since then has made it look again. */
    jsi_pg_params(lane);
    jsi_pg_param_text(lane, lane->store->schema);
    result = jsi_pg_query(lane,
                          "SELECT EXISTS(SELECT 1 FROM pg_class c JOIN pg_namespace n"
                          " ON n.oid = c.relnamespace WHERE n.nspname = $1"
                          " AND c.relname = 'meta')",
                          0);
    if (result == 0 && !jsi_pg_true(lane, 0, 0)) {
        result = make(lane);
    }
    return result == 0 ? jsi_pg_script(lane, "COMMIT") : result;
}

int jsi_pg_schema(struct jsi_pg_lane *lane, int has_meta)
{
    int result = has_meta ? 0 : migrate(lane);
    int64_t version = 0;
    if (result == 0) {
        result = read_version(lane, &version);
    }
    if (result == 0 && version != JSI_PG_VERSION) {
        result = jsi_pg_fail_version(lane->store, version);
    }
    return result; /* on failure the caller closes the connection, which rolls back */
}

static void copy(const char *text, size_t length, char *out, size_t bytes, size_t *used)
{
    for (size_t i = 0; i < length; i++, (*used)++) {
        if (*used + 1 < bytes) {
            out[*used] = text[i];
            out[*used + 1] = '\0';
        }
    }
}

size_t jobsched_postgresql_ddl(const char *schema, char *out, size_t bytes)
{
    const char *name = schema == NULL ? "jobsched" : schema;
    char text[128];
    size_t used = 0;
    if (bytes > 0) {
        out[0] = '\0';
    }
    int length = snprintf(text, sizeof text, "BEGIN;\nCREATE SCHEMA \"%.63s\";\n", name);
    copy(text, (size_t)length, out, bytes, &used);
    for (const char *const *line = jsi_pg_ddl; *line != NULL; line++) {
        const char *rest = *line;
        for (const char *at; (at = strstr(rest, "@S@")) != NULL; rest = at + 3) {
            copy(rest, (size_t)(at - rest), out, bytes, &used);
            length = snprintf(text, sizeof text, "\"%.63s\"", name);
            copy(text, (size_t)length, out, bytes, &used);
        }
        copy(rest, strlen(rest), out, bytes, &used);
    }
    copy("COMMIT;\n", 8, out, bytes, &used);
    return used;
}
