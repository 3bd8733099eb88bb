/* settings.c: options and job specs from text, with the names that docs/settings.md lists; and
 * the resolved options of a scheduler. One table per struct makes text keys, environment names,
 * and limits. No state, no locks. */
#include "base/text.h"
#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { TEXT, SPAN, NUMBER, CHOICE, FLAG };

typedef struct setting_entry {
    const char *key;
    enum kind kind;
    size_t offset;
    size_t bytes; /* of the field */
    int64_t low, high;
    const char *const *choices; /* CHOICE: texts by value, ended by NULL. FLAG: inverted if set */
} setting_entry;

#define FIELD(type, member) offsetof(type, member), sizeof(((type *)0)->member)

static const setting_entry option_settings[] = {
    {"lock", TEXT, FIELD(jobsched_options, lock), 0, 0, NULL},
    {"namespace", TEXT, FIELD(jobsched_options, name_space), 0, 0, NULL},
    {"node_name", TEXT, FIELD(jobsched_options, node_name), 0, 0, NULL},
    {"zone_directory", TEXT, FIELD(jobsched_options, zone_directory), 0, 0, NULL},
    {"app_version", TEXT, FIELD(jobsched_options, app_version), 0, 0, NULL},
    {"lease", SPAN, FIELD(jobsched_options, lease_ms), JSI_LEASE_MIN_MS, JSI_LEASE_MAX_MS, NULL},
    {"request_timeout", SPAN, FIELD(jobsched_options, request_timeout_ms), 1, JSI_LEASE_MAX_MS,
     NULL},
    {"misfire_after", SPAN, FIELD(jobsched_options, misfire_after_ms), 1, JSI_SPAN_MAX_MS, NULL},
    {"workers", NUMBER, FIELD(jobsched_options, workers), 1, JSI_WORKERS_MAX, NULL},
    {"history_count", NUMBER, FIELD(jobsched_options, history_count), 1, JSI_HISTORY_COUNT_MAX,
     NULL},
    {"history_age", SPAN, FIELD(jobsched_options, history_age_ms), 1000, JSI_SPAN_MAX_MS, NULL},
    {"control_only", FLAG, FIELD(jobsched_options, control_only), 0, 1, NULL},
    {"leader", FLAG, FIELD(jobsched_options, leader), 0, 1, NULL},
    {"overrides", TEXT, FIELD(jobsched_options, overrides), 0, 0, NULL},
};

static const char *const misfires[] = {"once", "skip", "all", NULL};
static const char *const overlaps[] = {"skip", "queue", "allow", NULL};
static const char *const gaps[] = {"default", "run-after", "skip", NULL};
static const char *const passes[] = {"default", "first", "both", NULL};
static const char *const moves[] = {"skip", "next", "next-day", "previous-day", NULL};
static const char *const recovers[] = {"leave", "rerun", NULL};
static const char *const inverted[] = {NULL};

static const setting_entry job_settings[] = {
    {"name", TEXT, FIELD(jobsched_job_spec, name), 0, 0, NULL},
    {"schedule", TEXT, FIELD(jobsched_job_spec, schedule), 0, 0, NULL},
    {"timezone", TEXT, FIELD(jobsched_job_spec, timezone), 0, 0, NULL},
    {"version", NUMBER, FIELD(jobsched_job_spec, version), 0, INT64_MAX, NULL},
    {"misfire", CHOICE, FIELD(jobsched_job_spec, misfire), 0, 0, misfires},
    {"misfire_limit", NUMBER, FIELD(jobsched_job_spec, misfire_limit), 1, JSI_MISFIRE_LIMIT_MAX,
     NULL},
    {"misfire_grace", SPAN, FIELD(jobsched_job_spec, misfire_grace_ms), 1, JSI_SPAN_MAX_MS, NULL},
    {"overlap", CHOICE, FIELD(jobsched_job_spec, overlap), 0, 0, overlaps},
    {"recover", CHOICE, FIELD(jobsched_job_spec, recover), 0, 0, recovers},
    {"recover_limit", NUMBER, FIELD(jobsched_job_spec, recover_limit), 1, JSI_RECOVER_LIMIT_MAX,
     NULL},
    {"attempts", NUMBER, FIELD(jobsched_job_spec, attempts), 1, JSI_ATTEMPTS_MAX, NULL},
    {"backoff", SPAN, FIELD(jobsched_job_spec, backoff_ms), 1, JSI_SPAN_MAX_MS, NULL},
    {"backoff_max", SPAN, FIELD(jobsched_job_spec, backoff_max_ms), 1, JSI_SPAN_MAX_MS, NULL},
    {"timeout", SPAN, FIELD(jobsched_job_spec, timeout_ms), 1, JSI_SPAN_MAX_MS, NULL},
    {"jitter", SPAN, FIELD(jobsched_job_spec, jitter_ms), 0, JSI_SPAN_MAX_MS, NULL},
    {"lease", SPAN, FIELD(jobsched_job_spec, lease_ms), JSI_LEASE_MIN_MS, JSI_LEASE_MAX_MS, NULL},
    {"dst_gap", CHOICE, FIELD(jobsched_job_spec, dst_gap), 0, 0, gaps},
    {"dst_overlap", CHOICE, FIELD(jobsched_job_spec, dst_overlap), 0, 0, passes},
    {"calendar_policy", CHOICE, FIELD(jobsched_job_spec, calendar_policy), 0, 0, moves},
    {"enabled", FLAG, FIELD(jobsched_job_spec, disabled), 0, 1, inverted},
    {"allow_never", FLAG, FIELD(jobsched_job_spec, allow_never), 0, 1, NULL},
};

enum {
    OPTION_SETTINGS = sizeof option_settings / sizeof option_settings[0],
    JOB_SETTINGS = sizeof job_settings / sizeof job_settings[0]
};

/* ---- values ---------------------------------------------------------------- */

static int parse_number(const setting_entry *setting, const char *value, int64_t *out_number)
{
    int64_t number = 0;
    size_t digits = strspn(value, "0123456789");
    bool fits = digits > 0 && value[digits] == '\0';
    for (size_t i = 0; fits && i < digits; i++) {
        int64_t digit = value[i] - '0';
        fits = number <= (setting->high - digit) / 10;
        number = fits ? number * 10 + digit : number;
    }
    if (!fits || number < setting->low) {
        return jsi_fail_range(JOBSCHED_EINVAL, setting->key, 0, setting->low, setting->high,
                              "setting '%s': '%s' is not a whole number within %lld-%lld",
                              setting->key, value, (long long)setting->low,
                              (long long)setting->high);
    }
    *out_number = number;
    return JOBSCHED_OK;
}

static int parse_span(const setting_entry *setting, const char *value, int64_t *out_number)
{
    int64_t span_ms;
    if (jsi_duration_parse(value, &span_ms) != 0) {
        return jsi_fail_range(
            JOBSCHED_EINVAL, setting->key, 0, setting->low, setting->high,
            "setting '%s': '%s' is not a duration such as 500ms, 30s, 5m or 1h30m", setting->key,
            value);
    }
    if (span_ms < setting->low || span_ms > setting->high) {
        return jsi_fail_range(JOBSCHED_EINVAL, setting->key, 0, setting->low, setting->high,
                              "setting '%s': '%s' is outside %lldms-%lldms", setting->key, value,
                              (long long)setting->low, (long long)setting->high);
    }
    *out_number = span_ms;
    return JOBSCHED_OK;
}

static int parse_choice(const setting_entry *setting, const char *value, int64_t *out_number)
{
    char allowed[120] = "";
    size_t length = 0;
    for (size_t i = 0; setting->choices[i] != NULL; i++) {
        if (strcmp(setting->choices[i], value) == 0) {
            *out_number = (int64_t)i;
            return JOBSCHED_OK;
        }
        int added = snprintf(allowed + length, sizeof allowed - length, "%s%s", i > 0 ? ", " : "",
                             setting->choices[i]);
        length += added > 0 ? (size_t)added : 0;
    }
    return jsi_fail_at(JOBSCHED_EINVAL, setting->key, 0, "setting '%s': '%s' is not one of: %s",
                       setting->key, value, allowed);
}

static int parse_flag(const setting_entry *setting, const char *value, int64_t *out_number)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        bool is_yes = strcmp(value, yes[i]) == 0;
        if (is_yes || strcmp(value, no[i]) == 0) {
            *out_number = is_yes != (setting->choices == inverted);
            return JOBSCHED_OK;
        }
    }
    return jsi_fail_at(JOBSCHED_EINVAL, setting->key, 0,
                       "setting '%s': '%s' is not one of: yes, no, true, false, on, off, 1, 0",
                       setting->key, value);
}

static int set_field(void *record, size_t record_bytes, const setting_entry *setting,
                     const char *value)
{
    if (setting->offset + setting->bytes > record_bytes) {
        return jsi_fail_at(JOBSCHED_EINVAL, setting->key, -1,
                           "setting '%s' is newer than the header this program was compiled with",
                           setting->key);
    }
    char *field = (char *)record + setting->offset;
    if (setting->kind == TEXT) {
        memcpy(field, &value, sizeof value);
        return JOBSCHED_OK;
    }
    static int (*const parsers[])(const setting_entry *, const char *, int64_t *) = {
        [SPAN] = parse_span, [NUMBER] = parse_number, [CHOICE] = parse_choice, [FLAG] = parse_flag};
    int64_t number;
    int failed = parsers[setting->kind](setting, value, &number);
    if (failed == 0 && setting->bytes == sizeof(int32_t)) {
        int32_t narrow = (int32_t)number; /* the tables' limits fit */
        memcpy(field, &narrow, sizeof narrow);
    } else if (failed == 0) {
        memcpy(field, &number, sizeof number);
    }
    return failed;
}

static int set_by_key(void *record, size_t record_bytes, const setting_entry *settings,
                      size_t count, const char *key, const char *value)
{
    if (key == NULL || value == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "key or value of a setting is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].key, key) == 0) {
            return set_field(record, record_bytes, &settings[i], value);
        }
    }
    return jsi_fail_at(JOBSCHED_EINVAL, "", 0, "there is no setting '%s'", key);
}

int jobsched_set(jobsched_options *options, const char *key, const char *value)
{
    if (options == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "options is NULL");
    }
    return set_by_key(options, options->struct_size, option_settings, OPTION_SETTINGS, key, value);
}

int jobsched_job_set(jobsched_job_spec *spec, const char *key, const char *value)
{
    if (spec == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "spec is NULL");
    }
    return set_by_key(spec, spec->struct_size, job_settings, JOB_SETTINGS, key, value);
}

int jobsched_set_from_environment(jobsched_options *options)
{
    if (options == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "options is NULL");
    }
    for (size_t i = 0; i < OPTION_SETTINGS; i++) {
        char name[64] = "JOBSCHED_";
        size_t length = strlen(name);
        for (const char *at = option_settings[i].key; *at != '\0'; at++) {
            name[length++] = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
        }
        name[length] = '\0';
        const char *value = getenv(name);
        int failed = value == NULL
                         ? 0
                         : set_field(options, options->struct_size, &option_settings[i], value);
        if (failed != 0) {
            return failed;
        }
    }
    return JOBSCHED_OK;
}

/* ---- the resolved options ---------------------------------------------------- */

/* What people call the field that has this name: not all are names. */
static const char *noun_of(const char *field)
{
    static const struct {
        const char *field, *noun;
    } nouns[] = {{"job", "job name"},
                 {"namespace", "namespace name"},
                 {"node_name", "node name"},
                 {"request", "request id"}};
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++) {
        if (strcmp(nouns[i].field, field) == 0) {
            return nouns[i].noun;
        }
    }
    return field;
}

int jsi_name_check(const char *field, const char *name)
{
    const char *noun = noun_of(field);
    if (name == NULL || name[0] == '\0') {
        return jsi_fail_range(JOBSCHED_EINVAL, field, 0, 1, JOBSCHED_NAME_BYTES,
                              "%s is empty; allowed are 1-%d bytes", noun, JOBSCHED_NAME_BYTES);
    }
    for (size_t i = 0; name[i] != '\0';) {
        const unsigned char *at = (const unsigned char *)&name[i];
        size_t length = jsi_utf8_length(&name[i]);
        /* C0, DEL, and the C1 controls (U+0080 to U+009F). */
        bool control = *at < 0x20 || *at == 0x7F || (length == 2 && at[0] == 0xC2 && at[1] < 0xA0);
        if (length == 0 || control) {
            return jsi_fail_at(JOBSCHED_EINVAL, field, (int64_t)i,
                               "%s has %s at byte %zu; allowed is UTF-8 without control characters",
                               noun, control ? "a control character" : "a byte that is not UTF-8",
                               i);
        }
        i += length;
        if (i > JOBSCHED_NAME_BYTES) {
            return jsi_fail_range(JOBSCHED_EINVAL, field, JOBSCHED_NAME_BYTES, 1,
                                  JOBSCHED_NAME_BYTES,
                                  "%s is longer than %d bytes; allowed are 1-%d bytes", noun,
                                  JOBSCHED_NAME_BYTES, JOBSCHED_NAME_BYTES);
        }
    }
    return JOBSCHED_OK;
}

static int pick(const setting_entry *setting, int64_t given, int64_t otherwise, int64_t *out_value)
{
    if (given == 0) {
        *out_value = otherwise;
        return JOBSCHED_OK;
    }
    if (given < setting->low || given > setting->high) {
        const char *unit = setting->kind == SPAN ? " ms" : "";
        return jsi_fail_range(JOBSCHED_EINVAL, setting->key, -1, setting->low, setting->high,
                              "option '%s': %lld%s is outside %lld-%lld%s", setting->key,
                              (long long)given, unit, (long long)setting->low,
                              (long long)setting->high, unit);
    }
    *out_value = given;
    return JOBSCHED_OK;
}

static int pick_numbers(jsi_settings *settings, const jobsched_options *options)
{
    struct {
        const char *key;
        int64_t given, otherwise;
        int64_t value;
    } table[] = {
        {"lease", options->lease_ms, JSI_LEASE_DEFAULT_MS, 0},
        {"misfire_after", options->misfire_after_ms, JSI_MISFIRE_AFTER_DEFAULT_MS, 0},
        {"workers", options->workers, JSI_WORKERS_DEFAULT, 0},
        {"history_count", options->history_count, JSI_HISTORY_COUNT_DEFAULT, 0},
        {"history_age", options->history_age_ms, JSI_HISTORY_AGE_DEFAULT_MS, 0},
        {"request_timeout", options->request_timeout_ms, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (size_t j = 0; j < OPTION_SETTINGS; j++) {
            if (strcmp(option_settings[j].key, table[i].key) == 0) {
                int failed =
                    pick(&option_settings[j], table[i].given, table[i].otherwise, &table[i].value);
                if (failed != 0) {
                    return failed;
                }
            }
        }
    }
    settings->lease_ms = table[0].value;
    settings->misfire_after_ms = table[1].value;
    settings->workers = (uint32_t)table[2].value;
    settings->history_count = (uint32_t)table[3].value;
    settings->history_age_ms = table[4].value;
    settings->request_timeout_ms = table[5].value;
    settings->control_only = options->control_only != 0;
    settings->leader = options->leader != 0 && !settings->control_only;
    if (settings->request_timeout_ms == 0) {
        int64_t part_ms = settings->lease_ms / JSI_REQUESTS_PER_LEASE;
        settings->request_timeout_ms =
            part_ms < JSI_REQUEST_TIMEOUT_MAX_MS ? part_ms : JSI_REQUEST_TIMEOUT_MAX_MS;
    }
    if (settings->request_timeout_ms > settings->lease_ms / JSI_BEATS_PER_LEASE) {
        return jsi_fail_range(JOBSCHED_EINVAL, "request_timeout", -1, 1,
                              settings->lease_ms / JSI_BEATS_PER_LEASE,
                              "option 'request_timeout': %lld ms is more than a third of the lease",
                              (long long)settings->request_timeout_ms);
    }
    return JOBSCHED_OK;
}

static int pick_texts(jsi_settings *settings, const jobsched_options *options,
                      const jobsched_allocator *allocator)
{
    char node_name[JOBSCHED_NAME_BYTES + 1];
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || jsi_name_check("host", host) != 0) {
        memcpy(host, "localhost", sizeof "localhost");
    }
    (void)snprintf(node_name, sizeof node_name, "%s:%ld", host, (long)getpid());
    const char *lock = options->lock == NULL ? "single:" : options->lock;
    const char *name_space = options->name_space == NULL ? "default" : options->name_space;
    const char *node = options->node_name == NULL ? node_name : options->node_name;
    const char *version = options->app_version == NULL ? "" : options->app_version;
    int failed = jsi_name_check("namespace", name_space);
    failed = failed != 0 ? failed : jsi_name_check("node_name", node);
    failed = failed != 0 || version[0] == '\0' ? failed : jsi_name_check("app_version", version);
    if (failed != 0) {
        return failed;
    }
    settings->lock = jsi_strdup(allocator, lock);
    settings->name_space = jsi_strdup(allocator, name_space);
    settings->node_name = jsi_strdup(allocator, node);
    settings->app_version = jsi_strdup(allocator, version);
    settings->zone_directory = jsi_strdup(allocator, options->zone_directory);
    settings->overrides = jsi_strdup(allocator, options->overrides);
    if ((options->zone_directory != NULL && settings->zone_directory == NULL) ||
        (options->overrides != NULL && settings->overrides == NULL)) {
        return JOBSCHED_ENOMEM;
    }
    return settings->lock == NULL || settings->name_space == NULL || settings->node_name == NULL ||
                   settings->app_version == NULL
               ? JOBSCHED_ENOMEM
               : JOBSCHED_OK;
}

int jsi_settings_init(jsi_settings *out_settings, const jobsched_options *options,
                      const jobsched_allocator *allocator)
{
    jsi_settings settings = {0};
    int failed = pick_numbers(&settings, options);
    failed = failed != 0 ? failed : pick_texts(&settings, options, allocator);
    if (failed != 0) {
        jsi_settings_fini(&settings, allocator);
        return failed;
    }
    *out_settings = settings;
    return JOBSCHED_OK;
}

void jsi_settings_fini(jsi_settings *settings, const jobsched_allocator *allocator)
{
    jsi_free(allocator, settings->lock);
    jsi_free(allocator, settings->name_space);
    jsi_free(allocator, settings->node_name);
    jsi_free(allocator, settings->app_version);
    jsi_free(allocator, settings->zone_directory);
    jsi_free(allocator, settings->overrides);
    *settings = (jsi_settings){0};
}
