/* schema.c: makes and migrates the store, under a lock that all starters share, in one transaction.
 * Locks: the advisory lock (1785946984, 0) of the database; the caller owns the lane. */
#include "store.h"

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
    if (!has_meta && lane->store->config.control_only) {
        return jobsched_fail(JOBSCHED_ENOTFOUND, 0,
                             "there is no schema '%s' of jobsched in this database; a scheduler "
                             "makes it when it opens it",
                             lane->store->schema);
    }
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
        jsi_pg_text_expand(text, *line, schema);
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
    if (result == 0 && visit("BEGIN;", visit_data) == 0 && visit(text.bytes, visit_data) == 0) {
        jsi_pg_text_clear(&text);
        result = visit_ddl(&text, store.schema, visit, visit_data);
        if (result == 0) {
            (void)visit("COMMIT;", visit_data); /* the last one */
        }
    }
    return result < 0 ? result : 0;
}
