/* definition.c: the canonical text of what must be the same on all nodes; the cluster compares it
 * byte by byte. And what can be read out of it about jobs that other nodes register.
 * Locks: takes zones_lock to parse; s->lock must not be held. */
#include "base/hash.h"
#include "engine/internal.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>

/* Of a list of calendars, in their order; 0: there are none. */
static uint64_t fingerprint(const jobsched_calendar *const *calendars)
{
    uint64_t hash = 0;
    for (size_t i = 0; calendars != NULL && calendars[i] != NULL; i++) {
        hash = jsi_mix64(hash ^ jsi_calendar_fingerprint(calendars[i]));
    }
    return hash;
}

/* Returns false when it does not fit. */
static bool write_text(const jobsched_job_spec *spec, char out_text[JOBSCHED_DEFINITION_BYTES + 1])
{
    int length = snprintf(
        out_text, JOBSCHED_DEFINITION_BYTES + 1,
        "schedule=%s\ntimezone=%s\nmisfire=%d,%u,%lld\noverlap=%d\nrecover=%d,%u\njitter=%lld\n"
        "disabled=%d\ndst=%d,%d\ncalendars=%d,%016llx\n",
        spec->schedule, spec->timezone == NULL ? "" : spec->timezone, spec->misfire,
        spec->misfire_limit, (long long)spec->misfire_grace_ms, spec->overlap, spec->recover,
        spec->recover_limit, (long long)spec->jitter_ms, spec->disabled != 0, spec->dst_gap,
        spec->dst_overlap, spec->calendar_policy, (unsigned long long)fingerprint(spec->calendars));
    return length >= 0 && length <= JOBSCHED_DEFINITION_BYTES;
}

int jsi_definition_make(const jobsched *s, jsi_job *job)
{
    char text[JOBSCHED_DEFINITION_BYTES + 1];
    if (!write_text(&job->spec, text)) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "definition of job '%s' is longer than %d bytes",
                             job->spec.name, JOBSCHED_DEFINITION_BYTES);
    }
    job->definition = jsi_strdup(&s->allocator, text);
    return job->definition == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;
}

/* Copies the value of a line; "" where there is no such line, or it does not fit. The value of the
 * first line may be any text that a schedule can be, so it ends where the second key begins. */
static void read_value(const char *text, const char *key, const char *ending, char *out_value,
                       size_t value_bytes)
{
    out_value[0] = '\0';
    const char *at = strstr(text, key);
    const char *end = at == NULL ? NULL : strstr(at + strlen(key), ending);
    if (end == NULL) {
        return;
    }
    at += strlen(key);
    size_t length = (size_t)(end - at);
    if (length < value_bytes) {
        memcpy(out_value, at, length);
        out_value[length] = '\0';
    }
}

void jsi_definition_read(const char *text, jsi_definition *out_definition)
{
    jsi_definition *definition = out_definition;
    char numbers[32];
    memset(definition, 0, sizeof *definition);
    if (strncmp(text, "schedule=", 9) != 0) {
        return; /* not one of ours: another kind of client wrote it */
    }
    read_value(text, "schedule=", "\ntimezone=", definition->schedule, sizeof definition->schedule);
    read_value(text, "\ntimezone=", "\n", definition->timezone, sizeof definition->timezone);
    read_value(text, "\ndisabled=", "\n", numbers, sizeof numbers);
    definition->disabled = strcmp(numbers, "1") == 0;
    read_value(text, "\ndst=", "\n", numbers, sizeof numbers);
    char *comma = strchr(numbers, ',');
    if (comma != NULL) {
        definition->dst_gap = (int32_t)strtol(numbers, NULL, 10);
        definition->dst_overlap = (int32_t)strtol(comma + 1, NULL, 10);
    }
}

/* The numbers of a line, with commas between them; 0 where there is none. */
static void read_numbers(const char *text, const char *key, long long out_numbers[3])
{
    char value[80];
    read_value(text, key, "\n", value, sizeof value);
    char *at = value;
    for (size_t i = 0; i < 3; i++) {
        out_numbers[i] = strtoll(at, &at, 10);
        at += *at == ',';
    }
}

/* Fills a spec with what a text tells, and has the text made of it again: whatever this library
 * does not know, or reads otherwise than it was meant, shows in that. */
static int read_spec(const jsi_job *job, const char *text, jsi_definition *definition,
                     jobsched_job_spec *out_spec)
{
    char again[JOBSCHED_DEFINITION_BYTES + 1];
    long long numbers[3];
    jobsched_job_spec *spec = out_spec;
    jsi_definition_read(text, definition);
    JOBSCHED_INIT(spec);
    spec->name = job->name;
    spec->run = job->spec.run;
    spec->allow_never = 1;
    spec->schedule = definition->schedule;
    spec->timezone = definition->timezone[0] == '\0' ? NULL : definition->timezone;
    spec->disabled = definition->disabled;
    spec->dst_gap = definition->dst_gap;
    spec->dst_overlap = definition->dst_overlap;
    read_numbers(text, "\nmisfire=", numbers);
    spec->misfire = (int32_t)numbers[0];
    spec->misfire_limit = (uint32_t)numbers[1];
    spec->misfire_grace_ms = numbers[2];
    read_numbers(text, "\noverlap=", numbers);
    spec->overlap = (int32_t)numbers[0];
    read_numbers(text, "\nrecover=", numbers);
    spec->recover = (int32_t)numbers[0];
    spec->recover_limit = (uint32_t)numbers[1];
    read_numbers(text, "\njitter=", numbers);
    spec->jitter_ms = numbers[0];
    read_numbers(text, "\ncalendars=", numbers);
    spec->calendar_policy = (int32_t)numbers[0];
    bool same = write_text(spec, again) && strcmp(again, text) == 0;
    if (!same) {
        spec->calendars = job->spec.calendars;
        same = write_text(spec, again) && strcmp(again, text) == 0;
    }
    if (!same) {
        return jobsched_fail(JOBSCHED_EPARSE, 0,
                             "it has calendars that are not given here, or was written by another "
                             "kind of client");
    }
    return jsi_spec_check(spec);
}

int jsi_definition_understand(jobsched *s, const jsi_job *job, const char *text,
                              jsi_predecessor **out_predecessor)
{
    jsi_predecessor *made = jsi_new(&s->allocator, sizeof *made);
    if (made == NULL) {
        return JOBSCHED_ENOMEM;
    }
    jsi_definition definition;
    int failed = read_spec(job, text, &definition, &made->spec);
    failed = failed != 0 ? failed : jsi_spec_parse(s, &made->spec, &made->schedule);
    if (failed == JOBSCHED_ENOMEM) {
        jsi_free(&s->allocator, made);
        return failed;
    }
    if (failed != 0) {
        made->unread = failed == JOBSCHED_EOS;
        (void)snprintf(made->why_not, sizeof made->why_not, "%s", jobsched_last_error()->message);
    } else {
        made->delay_ms = jsi_schedule_delay_ms(made->schedule);
    }
    /* Only the policies are kept. */
    made->spec.schedule = made->spec.timezone = NULL;
    made->spec.calendars = NULL;
    *out_predecessor = made;
    return JOBSCHED_OK;
}

static int64_t after(const jobsched_schedule *schedule, const jobsched_job_record *record)
{
    int64_t from_ms = record->mark_at_ms;
    if (jsi_schedule_delay_ms(schedule) > 0 && record->last_end_at_ms != JOBSCHED_NONE &&
        record->last_end_at_ms > from_ms) {
        from_ms = record->last_end_at_ms;
    }
    return jobsched_schedule_next(schedule, from_ms);
}

int64_t jsi_definition_next(jobsched *s, const jsi_definition *definition,
                            const jobsched_job_record *record)
{
    if (record->paused || record->removed || definition->disabled ||
        definition->schedule[0] == '\0') {
        return JOBSCHED_NONE;
    }
    int64_t next_ms = JOBSCHED_NONE;
    bool known = false;
    (void)pthread_mutex_lock(&s->lock);
    const jsi_job *job = jsi_map_find(&s->jobs, record->job);
    if (job != NULL && strcmp(job->definition, record->definition) == 0) {
        known = true; /* with its calendars */
        next_ms = after(job->schedule, record);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (known) {
        return next_ms;
    }
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = record->job;
    spec.schedule = definition->schedule;
    spec.timezone = definition->timezone[0] == '\0' ? NULL : definition->timezone;
    spec.dst_gap = definition->dst_gap;
    spec.dst_overlap = definition->dst_overlap;
    spec.allow_never = 1;
    jobsched_schedule *schedule;
    if (jsi_spec_parse(s, &spec, &schedule) != 0) {
        return JOBSCHED_NONE; /* a newer library's words, or a zone that is not installed here */
    }
    next_ms = after(schedule, record);
    jobsched_schedule_free(schedule);
    return next_ms;
}
