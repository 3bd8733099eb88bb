/* override.c: settings of jobs that operators change without a build: "job.NAME.KEY = VALUE", from
 * calls or from a file that is read at open. They are applied when the job is registered, so what
 * the cluster sees is an edited definition like any other.
 * Locks: s->lock guards the list; entries are never changed nor freed before the scheduler is, so
 * a spec may borrow their texts. */
#include "engine/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

typedef struct jsi_override {
    jsi_link link; /* in s->overrides, oldest first */
    const char *key, *value;
    char job[]; /* followed by what key and value point to */
} jsi_override;

/* Splits "job.NAME.KEY"; NAME may hold dots, no KEY does. */
static int split(const char *key, char out_job[JOBSCHED_NAME_BYTES + 1], const char **out_key)
{
    static const char prefix[] = "job.";
    *out_key = "";
    const char *name = key + sizeof prefix - 1;
    const char *dot = strncmp(key, prefix, sizeof prefix - 1) == 0 ? strrchr(name, '.') : NULL;
    if (dot == NULL || dot == name || dot[1] == '\0') {
        return jsi_fail_at(JOBSCHED_EINVAL, "", 0, "setting '%s' is not of the form 'job.NAME.KEY'",
                           key);
    }
    size_t length = (size_t)(dot - name);
    if (length > JOBSCHED_NAME_BYTES) {
        return jsi_fail_range(JOBSCHED_EINVAL, "job", JOBSCHED_NAME_BYTES, 1, JOBSCHED_NAME_BYTES,
                              "the job's name in setting '%s' is longer than %d bytes", key,
                              JOBSCHED_NAME_BYTES);
    }
    memcpy(out_job, name, length);
    out_job[length] = '\0';
    *out_key = dot + 1;
    int failed = jsi_name_check("job", out_job);
    return failed != 0 ? failed : jsi_reserved_check(out_job);
}

/* Whether the value is one for that key; a schedule and a zone, each on its own. */
static int check_value(jobsched *s, const char *job, const char *key, const char *value)
{
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    if (strcmp(key, "name") == 0) {
        return jsi_fail_at(JOBSCHED_EINVAL, "name", 0,
                           "a job's name is its identity and cannot be overridden");
    }
    int failed = jobsched_job_set(&spec, key, value);
    if (failed != 0 || (spec.schedule == NULL && spec.timezone == NULL)) {
        return failed;
    }
    spec.name = job;
    spec.allow_never = 1;
    if (spec.schedule == NULL) {
        spec.schedule = "* * * * *";
    }
    jobsched_schedule *schedule;
    failed = jsi_spec_parse(s, &spec, &schedule);
    if (failed == 0) {
        jobsched_schedule_free(schedule);
    }
    return failed;
}

static int add(jobsched *s, const char *job, const char *key, const char *value)
{
    size_t job_bytes = strlen(job) + 1, key_bytes = strlen(key) + 1;
    size_t value_bytes = strlen(value) + 1;
    jsi_override *item = jsi_new(&s->allocator, sizeof *item + job_bytes + key_bytes + value_bytes);
    if (item == NULL) {
        return JOBSCHED_ENOMEM;
    }
    memcpy(item->job, job, job_bytes);
    item->key = memcpy(item->job + job_bytes, key, key_bytes);
    item->value = memcpy(item->job + job_bytes + key_bytes, value, value_bytes);
    (void)pthread_mutex_lock(&s->lock);
    bool registered = jsi_map_find(&s->jobs, job) != NULL;
    bool full = s->override_count >= JSI_OVERRIDES_MAX;
    if (!registered && !full) {
        jsi_list_append(&s->overrides, &item->link);
        s->override_count++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (registered || full) {
        jsi_free(&s->allocator, item);
        return registered
                   ? jobsched_fail(JOBSCHED_ESTATE, 0,
                                   "job '%s' is registered already: it is overridden before", job)
                   : jsi_fail_range(JOBSCHED_EINVAL, "", -1, 0, JSI_OVERRIDES_MAX,
                                    "there are more than %d overrides", JSI_OVERRIDES_MAX);
    }
    return JOBSCHED_OK;
}

int jobsched_override(jobsched *scheduler, const char *key, const char *value)
{
    jobsched *s = scheduler;
    char job[JOBSCHED_NAME_BYTES + 1];
    const char *setting = "";
    if (key == NULL || value == NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "key or value of an override is NULL");
    }
    int failed = jsi_enter(s);
    failed = failed != 0 ? failed : split(key, job, &setting);
    failed = failed != 0 ? failed : check_value(s, job, setting, value);
    return failed != 0 ? failed : add(s, job, setting, value);
}

int jsi_override_apply(jobsched *s, jobsched_job_spec *spec)
{
    int failed = JOBSCHED_OK;
    spec->struct_size = sizeof *spec; /* the copy has all fields, whatever the caller knew */
    (void)pthread_mutex_lock(&s->lock);
    for (jsi_link *link = s->overrides.next; failed == 0 && link != &s->overrides;
         link = link->next) {
        const jsi_override *item = JSI_CONTAINER(link, jsi_override, link);
        if (spec->name != NULL && strcmp(item->job, spec->name) == 0) {
            failed = jobsched_job_set(spec, item->key, item->value);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return failed;
}

/* Each name is told once, by its first override. */
static bool is_first(const jobsched *s, const jsi_override *item)
{
    for (const jsi_link *link = s->overrides.next; link != &item->link; link = link->next) {
        if (strcmp(JSI_CONTAINER(link, jsi_override, link)->job, item->job) == 0) {
            return false;
        }
    }
    return true;
}

void jsi_override_tell_unknown_locked(jobsched *s)
{
    for (jsi_link *link = s->overrides.next; link != &s->overrides; link = link->next) {
        const jsi_override *item = JSI_CONTAINER(link, jsi_override, link);
        if (jsi_map_find(&s->jobs, item->job) == NULL && is_first(s, item)) {
            jobsched_event event = jsi_event(JOBSCHED_EVENT_OVERRIDE_UNKNOWN, NULL, NULL);
            event.job = item->job;
            event.message = "settings override this job, but no job of that name is registered";
            jsi_emit_locked(s, &event);
        }
    }
}

void jsi_overrides_fini(jobsched *s)
{
    for (jsi_link *link; (link = jsi_list_take(&s->overrides)) != NULL;) {
        jsi_free(&s->allocator, JSI_CONTAINER(link, jsi_override, link));
    }
}

/* ---- the file -------------------------------------------------------------- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && is_blank(text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

static int fail_line(const char *path, size_t line)
{
    jobsched_error why = *jobsched_last_error();
    if (why.has_range) {
        return jsi_fail_range(why.code, why.field, why.position, why.low, why.high,
                              "overrides '%s', line %zu: %s", path, line, why.message);
    }
    return jsi_fail_at(why.code, why.field, why.position, "overrides '%s', line %zu: %s", path,
                       line, why.message);
}

static int read_line(jobsched *s, const char *path, size_t number, char *text)
{
    char *line = trim(text);
    if (line[0] == '\0' || line[0] == '#') {
        return JOBSCHED_OK;
    }
    char *equals = strchr(line, '=');
    int failed;
    if (equals == NULL) {
        failed = jsi_fail_at(JOBSCHED_EINVAL, "", 0, "'%s' is not of the form 'KEY = VALUE'", line);
    } else {
        *equals = '\0';
        failed = jobsched_override(s, trim(line), trim(equals + 1));
    }
    return failed == 0 ? JOBSCHED_OK : fail_line(path, number);
}

/* Reads all of it, with a final NUL. */
static int slurp(const jobsched *s, const char *path, char **out_text, size_t *out_length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return jobsched_fail(JOBSCHED_EOS, errno, "overrides '%s' cannot be opened", path);
    }
    char *text = jsi_new(&s->allocator, JSI_OVERRIDES_BYTES_MAX + 2);
    ssize_t got = text == NULL ? 0 : 1;
    size_t length = 0;
    while (got > 0 && length <= JSI_OVERRIDES_BYTES_MAX) {
        got = read(fd, text + length, JSI_OVERRIDES_BYTES_MAX + 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    int system_errno = errno;
    (void)close(fd); /* nothing was written */
    int failed = text == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;
    if (got < 0) {
        failed = jobsched_fail(JOBSCHED_EOS, system_errno, "overrides '%s' cannot be read", path);
    } else if (length > JSI_OVERRIDES_BYTES_MAX) {
        failed = jsi_fail_range(JOBSCHED_EINVAL, "overrides", -1, 0, JSI_OVERRIDES_BYTES_MAX,
                                "overrides '%s' are longer than %d bytes", path,
                                JSI_OVERRIDES_BYTES_MAX);
    }
    if (failed != 0) {
        jsi_free(&s->allocator, text);
        return failed;
    }
    text[length] = '\0';
    *out_text = text;
    *out_length = length;
    return JOBSCHED_OK;
}

int jsi_overrides_read(jobsched *s)
{
    const char *path = s->settings.overrides;
    if (path == NULL) {
        return JOBSCHED_OK;
    }
    char *text = NULL;
    size_t length = 0;
    int failed = slurp(s, path, &text, &length);
    size_t number = 0;
    for (char *line = text; failed == 0 && line < text + length;) {
        char *end = memchr(line, '\n', (size_t)(text + length - line));
        end = end == NULL ? text + length : end;
        *end = '\0';
        number++;
        if (strlen(line) != (size_t)(end - line)) {
            (void)jsi_fail_at(JOBSCHED_EINVAL, "", (int64_t)strlen(line), "a NUL byte");
            failed = fail_line(path, number);
        } else {
            failed = read_line(s, path, number, line);
        }
        line = end + 1;
    }
    jsi_free(&s->allocator, text);
    return failed;
}
