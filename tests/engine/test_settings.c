/* Options and job specs (G11): each key from text, from the environment and from struct fields; each
 * bad value is an error that names the key and the allowed range and changes nothing; names byte by
 * byte; structs of older and newer callers. */
#include "support/typed.h"

#include "engine/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- keys ------------------------------------------------------------------------ */

struct key_case {
    const char *key, *value;
    int64_t expected; /* of the field; low, high: what an error must name */
    int64_t low, high;
    size_t offset, bytes;
};

#define OPTION(member) offsetof(jobsched_options, member), sizeof(((jobsched_options *)0)->member)
#define SPEC(member)   offsetof(jobsched_job_spec, member), sizeof(((jobsched_job_spec *)0)->member)

static const struct key_case option_cases[] = {
    {"lease", "1m30s", 90000, 300, 3600000, OPTION(lease_ms)},
    {"lease", "300ms", 300, 300, 3600000, OPTION(lease_ms)},
    {"lease", "1h", 3600000, 300, 3600000, OPTION(lease_ms)},
    {"request_timeout", "1ms", 1, 1, 3600000, OPTION(request_timeout_ms)},
    {"misfire_after", "2w", 1209600000, 1, JSI_SPAN_MAX_MS, OPTION(misfire_after_ms)},
    {"workers", "1024", 1024, 1, 1024, OPTION(workers)},
    {"history_count", "10000000", 10000000, 1, 10000000, OPTION(history_count)},
    {"history_age", "1s", 1000, 1000, JSI_SPAN_MAX_MS, OPTION(history_age_ms)},
    {"control_only", "yes", 1, 0, 0, OPTION(control_only)},
    {"leader", "on", 1, 0, 0, OPTION(leader)},
};

static const struct key_case spec_cases[] = {
    {"version", "9223372036854775807", INT64_MAX, 0, INT64_MAX, SPEC(version)},
    {"version", "0", 0, 0, INT64_MAX, SPEC(version)},
    {"misfire", "once", 0, 0, 0, SPEC(misfire)},
    {"misfire", "skip", 1, 0, 0, SPEC(misfire)},
    {"misfire", "all", 2, 0, 0, SPEC(misfire)},
    {"misfire_limit", "10000", 10000, 1, 10000, SPEC(misfire_limit)},
    {"misfire_grace", "1h", 3600000, 1, JSI_SPAN_MAX_MS, SPEC(misfire_grace_ms)},
    {"overlap", "skip", 0, 0, 0, SPEC(overlap)},
    {"overlap", "queue", 1, 0, 0, SPEC(overlap)},
    {"overlap", "allow", 2, 0, 0, SPEC(overlap)},
    {"recover", "leave", 0, 0, 0, SPEC(recover)},
    {"recover", "rerun", 1, 0, 0, SPEC(recover)},
    {"recover_limit", "100", 100, 1, 100, SPEC(recover_limit)},
    {"attempts", "1000", 1000, 1, 1000, SPEC(attempts)},
    {"backoff", "5s", 5000, 1, JSI_SPAN_MAX_MS, SPEC(backoff_ms)},
    {"backoff_max", "5m", 300000, 1, JSI_SPAN_MAX_MS, SPEC(backoff_max_ms)},
    {"timeout", "7d", 604800000, 1, JSI_SPAN_MAX_MS, SPEC(timeout_ms)},
    {"jitter", "0s", 0, 0, JSI_SPAN_MAX_MS, SPEC(jitter_ms)},
    {"lease", "30s", 30000, 300, 3600000, SPEC(lease_ms)},
    {"enabled", "no", 1, 0, 0, SPEC(disabled)},
    {"enabled", "yes", 0, 0, 0, SPEC(disabled)},
    {"allow_never", "on", 1, 0, 0, SPEC(allow_never)},
    {"allow_never", "0", 0, 0, 0, SPEC(allow_never)},
};

static int64_t read_field(const void *record, const struct key_case *row)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    if (row->bytes == sizeof narrow) {
        memcpy(&narrow, (const char *)record + row->offset, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)record + row->offset, sizeof wide);
    return wide;
}

/* The last error names the key, the value, and the range where there is one. */
static void check_error(const struct key_case *row, const char *value)
{
    const jobsched_error *error = jobsched_last_error();
    char quoted[128];
    assert_equal(error->code, JOBSCHED_EINVAL);
    assert_string_equal(error->field, row->key);
    (void)snprintf(quoted, sizeof quoted, "setting '%s': '%s'", row->key,
                   value[0] == '\xff' ? "?" : value); /* what no terminal should get */
    if (strstr(error->message, quoted) == NULL) {
        fail_msg("'%s' is not in '%s'", quoted, error->message);
    }
    if (row->high != 0) {
        assert_equal(error->has_range, 1);
        assert_equal(error->low, row->low);
        assert_equal(error->high, row->high);
    }
}

/* The value below the low end or above the high end, as text. */
static void try_bad(const struct key_case *row, int (*set)(void *, const char *, const char *),
                    void *record, size_t bytes)
{
    static const char *const always[] = {
        "",     " ",   "x",   "-1", "+1",   "1.5",       "1 s", "99999999999999999999",
        "0x10", "1e3", "one", "NO", "yes ", "once,skip", "\xff"};
    static char before[sizeof(jobsched_options) + sizeof(jobsched_job_spec)];
    memcpy(before, record, bytes);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        assert_equal(set(record, row->key, always[i]), JOBSCHED_EINVAL);
        check_error(row, always[i]);
        assert_memory_equal(record, before, bytes);
    }
    char text[64];
    bool span = strchr("smhdw", row->value[strlen(row->value) - 1]) != NULL && row->high != 0;
    if (row->high != 0 && row->low > 0) {
        (void)snprintf(text, sizeof text, span ? "%lldms" : "%lld", (long long)row->low - 1);
        assert_equal(set(record, row->key, text), JOBSCHED_EINVAL);
        check_error(row, text);
    }
    if (row->high != 0 && row->high < INT64_MAX) {
        /* Not as milliseconds: nine digits are the most that a number may have. */
        (void)snprintf(text, sizeof text, span ? "%llds" : "%lld",
                       (long long)(span ? row->high / 1000 : row->high) + 1);
        assert_equal(set(record, row->key, text), JOBSCHED_EINVAL);
        check_error(row, text);
    }
    assert_memory_equal(record, before, bytes);
}

static int set_option(void *record, const char *key, const char *value)
{
    return jobsched_set(record, key, value);
}

static int set_spec(void *record, const char *key, const char *value)
{
    return jobsched_job_set(record, key, value);
}

static void test_each_option_from_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof option_cases / sizeof option_cases[0]; i++) {
        const struct key_case *row = &option_cases[i];
        jobsched_options options;
        JOBSCHED_INIT(&options);
        assert_equal(jobsched_set(&options, row->key, row->value), 0);
        assert_equal(read_field(&options, row), row->expected);
        try_bad(row, set_option, &options, sizeof options);
    }
}

static void test_each_spec_field_from_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spec_cases / sizeof spec_cases[0]; i++) {
        const struct key_case *row = &spec_cases[i];
        jobsched_job_spec spec;
        JOBSCHED_INIT(&spec);
        assert_equal(jobsched_job_set(&spec, row->key, row->value), 0);
        assert_equal(read_field(&spec, row), row->expected);
        try_bad(row, set_spec, &spec, sizeof spec);
    }
}

static void test_texts_are_borrowed(void **state)
{
    (void)state;
    jobsched_options options;
    jobsched_job_spec spec;
    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&spec);
    static const char text[] = "text";
    static const char *const option_keys[] = {"lock", "namespace", "node_name", "app_version"};
    static const char *const spec_keys[] = {"name", "schedule", "timezone"};
    for (size_t i = 0; i < 4; i++) {
        assert_equal(jobsched_set(&options, option_keys[i], text), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_equal(jobsched_job_set(&spec, spec_keys[i], text), 0);
    }
    assert_ptr_equal(options.lock, text);
    assert_ptr_equal(options.name_space, text);
    assert_ptr_equal(options.node_name, text);
    assert_ptr_equal(options.app_version, text);
    assert_ptr_equal(spec.name, text);
    assert_ptr_equal(spec.schedule, text);
    assert_ptr_equal(spec.timezone, text);
}

static void test_flags_have_eight_words(void **state)
{
    (void)state;
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    for (int i = 0; i < 4; i++) {
        jobsched_job_spec spec;
        JOBSCHED_INIT(&spec);
        assert_equal(jobsched_job_set(&spec, "allow_never", yes[i]), 0);
        assert_equal(spec.allow_never, 1);
        assert_equal(jobsched_job_set(&spec, "allow_never", no[i]), 0);
        assert_equal(spec.allow_never, 0);
        assert_equal(jobsched_job_set(&spec, "enabled", no[i]), 0);
        assert_equal(spec.disabled, 1);
        assert_equal(jobsched_job_set(&spec, "enabled", yes[i]), 0);
        assert_equal(spec.disabled, 0);
    }
}

static void test_unknown_keys_are_named(void **state)
{
    (void)state;
    jobsched_options options;
    jobsched_job_spec spec;
    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&spec);
    static const char *const keys[] = {"", "leases", "LEASE", "lease ", "schedule"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_fails(jobsched_set(&options, keys[i], "1"), JOBSCHED_EINVAL,
                     "there is no setting '");
        assert_non_null(strstr(jobsched_last_error()->message, keys[i]));
    }
    assert_fails(jobsched_job_set(&spec, "workers", "1"), JOBSCHED_EINVAL, "'workers'");
    assert_fails(jobsched_set(NULL, "lease", "1s"), JOBSCHED_EINVAL, "options");
    assert_fails(jobsched_job_set(NULL, "lease", "1s"), JOBSCHED_EINVAL, "spec");
    assert_fails(jobsched_set(&options, NULL, "1s"), JOBSCHED_EINVAL, "key");
    assert_fails(jobsched_set(&options, "lease", NULL), JOBSCHED_EINVAL, "value");
}

/* ---- the environment --------------------------------------------------------------- */

static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } all[] = {{"JOBSCHED_LOCK", "sqlite:/tmp/x"}, {"JOBSCHED_NAMESPACE", "shop"},
               {"JOBSCHED_NODE_NAME", "left"},     {"JOBSCHED_APP_VERSION", "v7"},
               {"JOBSCHED_LEASE", "20s"},          {"JOBSCHED_REQUEST_TIMEOUT", "250ms"},
               {"JOBSCHED_MISFIRE_AFTER", "1m"},   {"JOBSCHED_WORKERS", "9"},
               {"JOBSCHED_HISTORY_COUNT", "77"},   {"JOBSCHED_HISTORY_AGE", "8d"},
               {"JOBSCHED_LEADER", "yes"},         {"JOBSCHED_OVERRIDES", "/etc/x"},
               {"JOBSCHED_CONTROL_ONLY", "true"}};
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.workers = 3;
    assert_equal(jobsched_set_from_environment(&options), 0); /* none is set: nothing changes */
    assert_equal(options.workers, 3);
    assert_null(options.lock);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_equal(setenv(all[i].name, all[i].value, 1), 0);
    }
    assert_equal(jobsched_set_from_environment(&options), 0);
    assert_string_equal(options.lock, "sqlite:/tmp/x");
    assert_string_equal(options.name_space, "shop");
    assert_string_equal(options.node_name, "left");
    assert_string_equal(options.app_version, "v7");
    assert_equal(options.lease_ms, 20000);
    assert_equal(options.request_timeout_ms, 250);
    assert_equal(options.misfire_after_ms, 60000);
    assert_equal(options.workers, 9);
    assert_equal(options.leader, 1);
    assert_equal(options.control_only, 1);
    assert_string_equal(options.overrides, "/etc/x");
    assert_equal(options.history_count, 77);
    assert_equal(options.history_age_ms, 691200000);
    assert_equal(setenv("JOBSCHED_LEASE", "20", 1), 0);
    assert_fails(jobsched_set_from_environment(&options), JOBSCHED_EINVAL, "'lease': '20'");
    assert_fails(jobsched_set_from_environment(NULL), JOBSCHED_EINVAL, "options");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_equal(unsetenv(all[i].name), 0);
    }
}

/* ---- struct fields ------------------------------------------------------------------- */

static void refuse_open(const jobsched_options *options, const char *field, const char *text)
{
    jobsched *s = (jobsched *)&s;
    jobsched *untouched = s;
    assert_fails(jobsched_open(options, &s), JOBSCHED_EINVAL, text);
    assert_string_equal(jobsched_last_error()->field, field);
    assert_ptr_equal(s, untouched);
}

static void test_bad_option_fields_are_refused(void **state)
{
    (void)state;
    jobsched_options options;
#define REFUSED(member, value, field, text)                                                        \
    JOBSCHED_INIT(&options);                                                                       \
    options.member = (value);                                                                      \
    refuse_open(&options, field, text)
    REFUSED(lease_ms, 299, "lease", "299 ms is outside 300-3600000 ms");
    REFUSED(lease_ms, 3600001, "lease", "3600001 ms is outside 300-3600000 ms");
    REFUSED(lease_ms, -1, "lease", "-1 ms is outside");
    REFUSED(request_timeout_ms, -5, "request_timeout", "-5 ms is outside");
    REFUSED(request_timeout_ms, 10001, "request_timeout", "more than a third of the lease");
    REFUSED(misfire_after_ms, -1, "misfire_after", "-1 ms is outside");
    REFUSED(misfire_after_ms, JSI_SPAN_MAX_MS + 1, "misfire_after", "is outside");
    REFUSED(workers, 1025, "workers", "1025 is outside 1-1024");
    REFUSED(history_count, 10000001, "history_count", "10000001 is outside");
    REFUSED(history_age_ms, 999, "history_age", "999 ms is outside");
    REFUSED(name_space, "", "namespace", "namespace name is empty; allowed are 1-200 bytes");
    REFUSED(name_space, "a\tb", "namespace", "byte 1");
    REFUSED(node_name, "\x80", "node_name", "node name has a byte that is not UTF-8");
    REFUSED(app_version, "1\n", "app_version", "app_version has a control character at byte 1");
#undef REFUSED
    assert_fails(jobsched_open(NULL, NULL), JOBSCHED_EINVAL, "out_scheduler");
}

/* Injected functions must all be there. */
static void test_half_set_hooks_are_refused(void **state)
{
    (void)state;
    jobsched_options options;
    jobsched_allocator allocator;
    jobsched_clock clock;
    jobsched_executor executor;
    JOBSCHED_INIT(&options);
    JOBSCHED_INIT(&allocator);
    JOBSCHED_INIT(&clock);
    JOBSCHED_INIT(&executor);
    options.allocator = &allocator;
    refuse_open(&options, "allocator", "lacks a function");
    options.allocator = NULL;
    options.clock = &clock;
    refuse_open(&options, "clock", "lacks a function");
    options.clock = NULL;
    options.executor = &executor;
    refuse_open(&options, "executor", "lacks submit");
}

static int body(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static void test_bad_spec_fields_are_refused(void **state)
{
    (void)state;
    jobsched *s = NULL;
    jobsched_job_spec spec;
    assert_equal(jobsched_open(NULL, &s), 0);
#define REFUSED(member, value, field_name, text)                                                   \
    JOBSCHED_INIT(&spec);                                                                          \
    spec.name = "job";                                                                             \
    spec.schedule = "@hourly";                                                                     \
    spec.run = body;                                                                               \
    spec.member = (value);                                                                         \
    assert_fails(jobsched_add(s, &spec, NULL), JOBSCHED_EINVAL, text);                             \
    assert_string_equal(jobsched_last_error()->field, field_name)
    REFUSED(name, NULL, "job", "job name is empty");
    REFUSED(name, "", "job", "job name is empty");
    REFUSED(schedule, NULL, "schedule", "'job' has no schedule");
    REFUSED(run, NULL, "run", "'job' has no run");
    REFUSED(misfire, 3, "misfire", "misfire 3 is outside 0-2");
    REFUSED(misfire, -1, "misfire", "misfire -1 is outside 0-2");
    REFUSED(overlap, 3, "overlap", "overlap 3 is outside 0-2");
    REFUSED(recover, 2, "recover", "recover 2 is outside 0-1");
    REFUSED(misfire_limit, 10001, "misfire_limit", "10001 is outside 0-10000");
    REFUSED(recover_limit, 101, "recover_limit", "101 is outside 0-100");
    REFUSED(attempts, 1001, "attempts", "1001 is outside 0-1000");
    REFUSED(misfire_grace_ms, -1, "misfire_grace", "-1 ms is outside");
    REFUSED(backoff_ms, -1, "backoff", "-1 ms is outside");
    REFUSED(backoff_max_ms, JSI_SPAN_MAX_MS + 1, "backoff_max", "ms is outside");
    REFUSED(timeout_ms, -1, "timeout", "-1 ms is outside");
    REFUSED(jitter_ms, -1, "jitter", "-1 ms is outside");
    REFUSED(lease_ms, 299, "lease", "lease of 299 ms is outside 300-3600000 ms");
    REFUSED(lease_ms, -1, "lease", "lease of -1 ms is outside");
#undef REFUSED
    assert_fails(jobsched_add(s, NULL, NULL), JOBSCHED_EINVAL, "spec");
    assert_equal(s->jobs.count, 0);
    assert_equal(jobsched_close(s), 0);
}

/* ---- names --------------------------------------------------------------------------- */

/* Each byte alone: printable ASCII is a name, nothing else is. */
static void test_names_byte_by_byte(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const char name[] = {(char)byte, '\0'};
        const char second[] = {'a', (char)byte, '\0'};
        bool allowed = byte >= 0x20 && byte < 0x7F;
        assert_equal(jsi_name_check("job", name), allowed ? 0 : JOBSCHED_EINVAL);
        assert_equal(jsi_name_check("job", second), allowed ? 0 : JOBSCHED_EINVAL);
        if (!allowed) {
            assert_equal(jobsched_last_error()->position, 1);
            const char *what = byte < 0x80 ? "a control character" : "a byte that is not UTF-8";
            assert_non_null(strstr(jobsched_last_error()->message, what));
        }
    }
}

static void test_names_in_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int allowed;
        const char *why;
    } rows[] = {
        {"t\xC3\xA4glich", 1, "two bytes"},
        {"\xE2\x82\xAC", 1, "three"},
        {"\xF0\x9F\x95\x90", 1, "four"},
        {"\xC2\xA0", 1, "the first after the C1 controls"},
        {"\xC2\x9F", 0, "the last C1 control"},
        {"\xC2\x80", 0, "the first"},
        {"\xC0\x80", 0, "an overlong NUL"},
        {"\xC1\xBF", 0, "overlong"},
        {"\xE0\x9F\xBF", 0, "overlong, three bytes"},
        {"\xE0\xA0\x80", 1, "the least of three bytes"},
        {"\xED\x9F\xBF", 1, "before the surrogates"},
        {"\xED\xA0\x80", 0, "a surrogate"},
        {"\xED\xBF\xBF", 0, "the last surrogate"},
        {"\xEE\x80\x80", 1, "after them"},
        {"\xF0\x8F\xBF\xBF", 0, "overlong, four bytes"},
        {"\xF4\x8F\xBF\xBF", 1, "the last code point"},
        {"\xF4\x90\x80\x80", 0, "beyond it"},
        {"\xF8\x88\x80\x80\x80", 0, "five bytes"},
        {"\xE2\x82", 0, "cut off"},
        {"\xE2\x82z", 0, "cut off by a letter"},
        {"\xF0\x9F\x95", 0, "cut off after three of four"},
        {"\x80", 0, "begins in the middle"},
        {"a\x1F", 0, "the last C0 control"},
        {"a\x7F", 0, "DEL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((jsi_name_check("job", rows[i].name) == 0) != rows[i].allowed) {
            fail_msg("row %zu: %s", i, rows[i].why);
        }
    }
}

static void test_names_have_a_length(void **state)
{
    (void)state;
    char name[JOBSCHED_NAME_BYTES + 3];
    memset(name, 'n', sizeof name);
    name[JOBSCHED_NAME_BYTES] = '\0';
    assert_equal(jsi_name_check("job", name), 0);
    name[JOBSCHED_NAME_BYTES] = 'n';
    name[JOBSCHED_NAME_BYTES + 1] = '\0';
    assert_fails(jsi_name_check("job", name), JOBSCHED_EINVAL, "longer than 200 bytes");
    memcpy(name + JOBSCHED_NAME_BYTES - 1, "\xC3\xA4", 3); /* the last one does not fit whole */
    assert_fails(jsi_name_check("job", name), JOBSCHED_EINVAL, "longer than 200 bytes");
    assert_fails(jsi_name_check("job", ""), JOBSCHED_EINVAL,
                 "job name is empty; allowed are 1-200 bytes");
    assert_equal(jobsched_last_error()->has_range, 1);
    assert_fails(jsi_name_check("namespace", NULL), JOBSCHED_EINVAL, "namespace name is empty");
}

/* ---- struct_size --------------------------------------------------------------------- */

/* A caller compiled with an older, shorter header: what it does not know is default. One with a
 * newer header: fine while its new fields are zero, refused as soon as one is used. */
static void test_older_and_newer_callers(void **state)
{
    (void)state;
    struct newer {
        jobsched_options options;
        int64_t invented;
    } newer;
    jobsched *s = NULL;
    memset(&newer, 0, sizeof newer);
    newer.options.struct_size = sizeof newer;
    newer.options.workers = 2;
    assert_equal(jobsched_open(&newer.options, &s), 0);
    assert_equal(s->settings.workers, 2);
    assert_equal(jobsched_close(s), 0);
    newer.invented = 1;
    assert_fails(jobsched_open(&newer.options, &s), JOBSCHED_EINVAL,
                 "options uses a field that is newer than this library");

    jobsched_options older;
    memset(&older, 0xFF, sizeof older); /* what lies behind the short struct is not its own */
    memset(&older, 0, offsetof(jobsched_options, misfire_after_ms));
    older.struct_size = offsetof(jobsched_options, misfire_after_ms);
    older.lease_ms = 6000;
    assert_equal(jobsched_open(&older, &s), 0);
    assert_equal(s->settings.lease_ms, 6000);
    assert_equal(s->settings.misfire_after_ms, JSI_MISFIRE_AFTER_DEFAULT_MS);
    assert_equal(s->settings.workers, JSI_WORKERS_DEFAULT);
    assert_fails(jobsched_set(&older, "workers", "3"), JOBSCHED_EINVAL,
                 "'workers' is newer than the header");
    assert_equal(jobsched_set(&older, "lease", "7s"), 0);

    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        jobsched_options options;
        jobsched_job_spec spec;
        jobsched_stats stats;
        jobsched_control_result result;
        memset(&options, 0, sizeof options);
        memset(&spec, 0, sizeof spec);
        options.struct_size = spec.struct_size = stats.struct_size = result.struct_size = sizes[i];
        jobsched *none = NULL;
        assert_fails(jobsched_open(&options, &none), JOBSCHED_EINVAL, "JOBSCHED_INIT");
        assert_fails(jobsched_add(s, &spec, NULL), JOBSCHED_EINVAL, "JOBSCHED_INIT");
        assert_fails(jobsched_stats_read(s, &stats), JOBSCHED_EINVAL, "JOBSCHED_INIT");
        assert_fails(jobsched_pause(s, "job", &result), JOBSCHED_EINVAL, "JOBSCHED_INIT");
    }
    assert_equal(jobsched_close(s), 0);
}

/* Structs that the library fills: an older caller's memory is not written beyond its size, a newer
 * one's extra fields stay. */
static void test_filled_structs_keep_to_their_size(void **state)
{
    (void)state;
    jobsched *s = NULL;
    struct newer {
        jobsched_stats stats;
        int64_t invented;
    } newer;
    assert_equal(jobsched_open(NULL, &s), 0);
    memset(&newer, 0x5A, sizeof newer);
    newer.stats.struct_size = sizeof newer;
    assert_equal(jobsched_stats_read(s, &newer.stats), 0);
    assert_equal(newer.stats.struct_size, sizeof newer);
    assert_equal(newer.stats.jobs, 0);
    assert_equal(newer.invented, INT64_C(0x5A5A5A5A5A5A5A5A));
    memset(&newer, 0x5A, sizeof newer);
    newer.stats.struct_size = offsetof(jobsched_stats, granted);
    assert_equal(jobsched_stats_read(s, &newer.stats), 0);
    assert_equal(newer.stats.runs_active, 0);
    assert_equal(newer.stats.granted, INT64_C(0x5A5A5A5A5A5A5A5A));
    assert_equal(newer.stats.struct_size, offsetof(jobsched_stats, granted));
    assert_equal(jobsched_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_option_from_text),
        cmocka_unit_test(test_each_spec_field_from_text),
        cmocka_unit_test(test_texts_are_borrowed),
        cmocka_unit_test(test_flags_have_eight_words),
        cmocka_unit_test(test_unknown_keys_are_named),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_bad_option_fields_are_refused),
        cmocka_unit_test(test_half_set_hooks_are_refused),
        cmocka_unit_test(test_bad_spec_fields_are_refused),
        cmocka_unit_test(test_names_byte_by_byte),
        cmocka_unit_test(test_names_in_utf8),
        cmocka_unit_test(test_names_have_a_length),
        cmocka_unit_test(test_older_and_newer_callers),
        cmocka_unit_test(test_filled_structs_keep_to_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
