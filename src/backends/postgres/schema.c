/* schema.c: makes the store or brings it up to date, under a lock that all starters share, in one
 * transaction. What is executed is what jobsched_schema() prints: statements that do no harm to a
 * store that needs none of them.
 * Locks: the advisory lock (1785946984, 0) of the database; the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

int jsi_pg_fail_version(const struct jsi_pg_store *store, int64_t version)
{
    return jobsched_fail(JOBSCHED_ESCHEMA, 0,
                         "schema '%s' has version %lld, this library knows versions up to %d%s",
                         store->schema, (long long)version, JSI_PG_VERSION,
                         version > JSI_PG_VERSION       ? "; use a newer library"
                         : jsi_pg_step(version) != NULL ? "; 'jobschedctl migrate', or a scheduler "
                                                          "that opens it, brings it up to date"
                                                        : "");
}

/* ---- the statements ---- */

/* Before anything else: nobody else does this, the tables are ours, and of the present version
 * afterwards. Running calls of other nodes have looked at meta first, so whoever has it for himself
 * waits for them, and they for him: tables can be changed without deadlocks. Not by to_regclass():
 * the session may remember that the table was not there. */
static void add_steps(struct jsi_pg_text *text, const char *schema)
{
    char line[200];
    jsi_pg_text_expand(
        text,
        "DO $do$\nDECLARE v integer;\nBEGIN\n"
        "    PERFORM pg_advisory_xact_lock(1785946984, 0);\n"
        "    IF NOT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = "
        "c.relnamespace\n"
        "            WHERE format('\"%s\"', n.nspname) = '@S@' AND c.relname = 'meta') THEN\n"
        "        IF EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = "
        "c.relnamespace\n"
        "                WHERE format('\"%s\"', n.nspname) = '@S@'\n"
        "                AND c.relname IN ('fence', 'run', 'node')) THEN\n"
        "            RAISE EXCEPTION 'the schema holds tables of another application'\n"
        "                USING ERRCODE = '42P07';\n"
        "        END IF;\n"
        "        RETURN;\n"
        "    END IF;\n"
        "    LOCK TABLE @S@.meta IN ACCESS EXCLUSIVE MODE;\n"
        "    SELECT m.version INTO v FROM @S@.meta m;\n",
        schema);
    for (int from = 0; from < JSI_PG_VERSION; from++) {
        const char *step = jsi_pg_step(from);
        if (step != NULL) {
            (void)snprintf(line, sizeof line, "    IF v = %d THEN\n        ", from);
            jsi_pg_text_expand(text, line, schema);
            jsi_pg_text_expand(text, step, schema);
            (void)snprintf(line, sizeof line, "\n        v := %d;\n    END IF;\n", from + 1);
            jsi_pg_text_expand(text, line, schema);
        }
    }
    (void)snprintf(line, sizeof line,
                   "    IF v IS DISTINCT FROM %d THEN\n"
                   "        RAISE EXCEPTION '%%', v USING ERRCODE = 'JS001';\n    END IF;\n",
                   JSI_PG_VERSION);
    jsi_pg_text_expand(text, line, schema);
    jsi_pg_text_expand(text, "    UPDATE @S@.meta SET version = v WHERE version <> v;\nEND $do$;",
                       schema);
}

/* Tables may be there; functions are replaced, as they are those of this library. */
static void add_line(struct jsi_pg_text *text, const char *line, const char *schema)
{
    static const char *const forms[][2] = {
        {"CREATE TABLE ", "CREATE TABLE IF NOT EXISTS "},
        {"CREATE UNLOGGED TABLE ", "CREATE UNLOGGED TABLE IF NOT EXISTS "},
        {"CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "},
        {"CREATE UNIQUE INDEX ", "CREATE UNIQUE INDEX IF NOT EXISTS "},
        {"CREATE FUNCTION ", "CREATE OR REPLACE FUNCTION "},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t length = strlen(forms[i][0]);
        if (strncmp(line, forms[i][0], length) == 0) {
            jsi_pg_text_add(text, forms[i][1], strlen(forms[i][1]));
            line += length;
            break;
        }
    }
    jsi_pg_text_expand(text, line, schema);
}

/* ---- by a node that opens the store ---- */

static int read_version(struct jsi_pg_lane *lane, int64_t *out_version)
{
    jsi_pg_params(lane);
    int result = jsi_pg_query(lane, "SELECT version FROM @S@.meta", 0);
    if (result == 0) {
        *out_version = jsi_pg_rows(lane) == 1 ? jsi_pg_int(lane, 0, 0) : 0;
    }
    return result;
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

/* What happened stays so if the answer to COMMIT is lost: the next try finds it. */
static int migrate(struct jsi_pg_lane *lane, int has_meta)
{
    const struct jsi_pg_store *store = lane->store;
    struct jsi_pg_text text = {.allocator = &store->config.allocator};
    int result = jsi_pg_script(lane, "BEGIN; SELECT pg_advisory_xact_lock(1785946984, 0)");
    if (result == 0 && !has_meta) {
        result = make_schema(lane);
    }
    if (result != 0) {
        return result;
    }
    add_steps(&text, store->schema);
    for (const char *const *line = jsi_pg_ddl; *line != NULL; line++) {
        add_line(&text, *line, store->schema);
    }
    if (text.failed) {
        result = jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for the schema's text");
    } else {
        result = jsi_pg_script(lane, text.bytes);
    }
    jsi_pg_text_free(&text);
    if (jsi_pg_is_state(lane, "42P07")) {
        result = jobsched_fail(JOBSCHED_EREFUSED, 0,
                               "schema '%s' holds tables of another application; choose another "
                               "with 'jobsched_schema=NAME'",
                               store->schema);
    }
    return result == 0 ? jsi_pg_script(lane, "COMMIT") : result;
}

int jsi_pg_schema(struct jsi_pg_lane *lane, int has_meta)
{
    if (!has_meta && lane->store->config.control_only) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0,
                             "there is no schema '%s' of jobsched in this database; a scheduler "
                             "makes it when it opens it",
                             lane->store->schema);
    }
    int64_t version = 0;
    int result = has_meta ? read_version(lane, &version) : 0;
    int older = result == 0 && (!has_meta || jsi_pg_step(version) != NULL);
    if (older && !lane->store->config.control_only) {
        result = migrate(lane, has_meta);
        if (result == 0) {
            result = read_version(lane, &version);
        }
    }
    if (result == 0 && version != JSI_PG_VERSION) {
        result = jsi_pg_fail_version(lane->store, version);
    }
    return result; /* on failure the caller closes the connection, which rolls back */
}

/* ---- for administrators ---- */

/* There is no handle here, so no allocator: room for the URL and the longest statement. What is
 * asked for last can grow in its place, which is all that growing texts need. */
struct room {
    size_t used, last;
    char bytes[65536];
};

static void *take(void *ctx, size_t size)
{
    struct room *room = ctx;
    if (size > sizeof room->bytes - room->used) {
        return NULL;
    }
    room->last = room->used;
    room->used += (size + 15) / 16 * 16;
    room->used = room->used > sizeof room->bytes ? sizeof room->bytes : room->used;
    return room->bytes + room->last;
}

static void *retake(void *ctx, void *pointer, size_t size)
{
    struct room *room = ctx;
    if (pointer == NULL) {
        return take(ctx, size);
    }
    if (pointer != room->bytes + room->last) {
        return NULL;
    }
    room->used = room->last;
    return take(ctx, size);
}

static void give(void *ctx, void *pointer)
{
    (void)ctx;
    (void)pointer; /* all of it goes at the end */
}

/* A statement ends with a line that ends with ';', outside the body of a function. */
static int visit_ddl(struct jsi_pg_text *text, const char *schema, jobsched_text_visit_fn visit,
                     void *visit_data)
{
    int in_body = 0, stopped = 0;
    for (const char *const *line = jsi_pg_ddl; *line != NULL && !stopped; line++) {
        size_t length = strlen(*line);
        add_line(text, *line, schema);
        for (const char *at = *line; (at = strstr(at, "$fn$")) != NULL; at += 4) {
            in_body = !in_body;
        }
        if (in_body || length < 2 || (*line)[length - 2] != ';') {
            continue;
        }
        if (text->failed) {
            return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a statement");
        }
        text->bytes[--text->used] = '\0'; /* the end of the line */
        stopped = visit(text->bytes, visit_data) != 0;
        jsi_pg_text_clear(text);
    }
    return stopped;
}

int jsi_pg_schema_text(const char *url, jobsched_text_visit_fn visit, void *visit_data)
{
    struct room room = {.used = 0};
    struct jsi_pg_store store = {.config.url = url,
                                 .config.allocator = {.struct_size = sizeof(jobsched_allocator),
                                                      .ctx = &room,
                                                      .allocate = take,
                                                      .reallocate = retake,
                                                      .release = give}};
    struct jsi_pg_text text = {.allocator = &store.config.allocator};
    int result = jsi_pg_url(&store);
    if (result == 0) {
        jsi_pg_text_expand(&text, "CREATE SCHEMA IF NOT EXISTS @S@;", store.schema);
        result = text.failed ? jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a statement") : 0;
    }
    if (result != 0) {
        return result;
    }
    int stopped = visit("BEGIN;", visit_data) != 0 || visit(text.bytes, visit_data) != 0;
    jsi_pg_text_clear(&text);
    add_steps(&text, store.schema);
    if (text.failed) {
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for a statement");
    }
    stopped = stopped || visit(text.bytes, visit_data) != 0;
    jsi_pg_text_clear(&text);
    result = stopped ? 0 : visit_ddl(&text, store.schema, visit, visit_data);
    if (result == 0 && !stopped) {
        (void)visit("COMMIT;", visit_data); /* the last one */
    }
    return result < 0 ? result : 0;
}
