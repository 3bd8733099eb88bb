/* occurrence.c: asks the library about one expression and words the answers. No state, no locks. */
#include "ctl/occurrence.h"

#include "ctl/instant.h"

#include <stdlib.h>
#include <string.h>

typedef struct flag_word {
    uint32_t flag;
    const char *name; /* in JSON */
} flag_word;

static const flag_word flag_words[] = {
    {JOBSCHED_OCCURRENCE_SHIFTED, "shifted"},     {JOBSCHED_OCCURRENCE_MERGED, "merged"},
    {JOBSCHED_OCCURRENCE_REPEATS, "repeats"},     {JOBSCHED_OCCURRENCE_SECOND_PASS, "second-pass"},
    {JOBSCHED_OCCURRENCE_AFTER_GAP, "after-gap"}, {JOBSCHED_OCCURRENCE_MOVED, "moved"},
};

/* A zone given with --zone is not in the expression, so its error is shown on its own. */
static int refuse(const ctl_request *request)
{
    const jobsched_error *error = jobsched_last_error();

    if (error->code == JOBSCHED_EPARSE && error->reason == JOBSCHED_SYNTAX_ZONE &&
        request->zone != NULL && request->zone[0] != '\0') {
        return ctl_refuse(request, request->zone, error);
    }
    if (error->code == JOBSCHED_EPARSE) {
        return ctl_refuse(request, request->arguments[0], error);
    }
    return ctl_fail(request, "%s", error->message);
}

int ctl_subject_open(const ctl_request *request, ctl_subject *out_subject)
{
    ctl_subject subject = {.text = request->arguments[0]};
    jobsched_schedule_options options;
    char message[CTL_NOTE_BYTES];
    int64_t first_ms;

    JOBSCHED_INIT(&options);
    options.timezone = request->zone;
    options.key = request->key;
    if (jobsched_schedule_parse(subject.text, &options, &subject.schedule) != JOBSCHED_OK) {
        return refuse(request);
    }
    subject.zone = jobsched_schedule_zone(subject.schedule);
    if (ctl_instant_read(request->from == NULL ? "now" : request->from, subject.zone,
                         &subject.from_ms, message, sizeof message) != 0) {
        jobsched_schedule_free(subject.schedule);
        return ctl_usage(request, "--from: %s", message);
    }
    first_ms = jobsched_schedule_next(subject.schedule, subject.from_ms);
    subject.is_after =
        first_ms != JOBSCHED_NONE && !jobsched_schedule_matches(subject.schedule, first_ms);
    *out_subject = subject;
    return CTL_OK;
}

void ctl_subject_close(ctl_subject *subject)
{
    jobsched_schedule_free(subject->schedule);
    subject->schedule = NULL;
}

int64_t ctl_subject_step(const ctl_subject *subject, int64_t at_ms, int forward)
{
    return forward ? jobsched_schedule_next(subject->schedule, at_ms)
                   : jobsched_schedule_previous(subject->schedule, at_ms);
}

void ctl_occurrence_read(const ctl_subject *subject, int64_t at_ms,
                         jobsched_occurrence *out_occurrence)
{
    JOBSCHED_INIT(out_occurrence);
    if (jobsched_schedule_occurrence(subject->schedule, at_ms, out_occurrence) == JOBSCHED_OK) {
        return;
    }
    out_occurrence->at_ms = at_ms;
    out_occurrence->offset_s = ctl_zone_offset(subject->zone, at_ms);
    out_occurrence->local_ms = at_ms + out_occurrence->offset_s * INT64_C(1000);
    out_occurrence->nominal_local_ms = out_occurrence->local_ms;
}

void ctl_occurrence_note(const jobsched_occurrence *occurrence, char out_text[CTL_NOTE_BYTES])
{
    char nominal[CTL_INSTANT_BYTES];
    uint32_t flags = occurrence->flags;

    ctl_instant_time(occurrence->nominal_local_ms, nominal);
    out_text[0] = '\0';
    if (flags & JOBSCHED_OCCURRENCE_SHIFTED) {
        (void)snprintf(out_text, CTL_NOTE_BYTES, "%s does not exist this day: %s", nominal,
                       flags & JOBSCHED_OCCURRENCE_MERGED ? "it and others fire here, once"
                                                          : "it fires when the clock jumps");
    } else if (flags & JOBSCHED_OCCURRENCE_MOVED) {
        (void)snprintf(out_text, CTL_NOTE_BYTES, "moved from %s by a calendar", nominal);
    } else if (flags & JOBSCHED_OCCURRENCE_REPEATS) {
        (void)snprintf(out_text, CTL_NOTE_BYTES, "%s comes twice this day: the second is left out",
                       nominal);
    } else if (flags & JOBSCHED_OCCURRENCE_SECOND_PASS) {
        (void)snprintf(out_text, CTL_NOTE_BYTES, "%s for the second time this day", nominal);
    }
    if (flags & JOBSCHED_OCCURRENCE_AFTER_GAP) {
        size_t used = strlen(out_text);

        (void)snprintf(out_text + used, CTL_NOTE_BYTES - used,
                       "%stimes before it do not exist and are left out", used == 0 ? "" : "; ");
    }
}

json_t *ctl_occurrence_json(const ctl_subject *subject, const jobsched_occurrence *occurrence)
{
    json_t *object = json_object(), *flags = json_array();
    char text[CTL_INSTANT_BYTES];
    int failed;

    ctl_instant_utc(occurrence->at_ms, text);
    failed = ctl_json_text(object, "utc", text);
    failed |= ctl_json_number(object, "at_ms", occurrence->at_ms);
    ctl_instant_local(occurrence->local_ms, occurrence->offset_s, text);
    failed |= ctl_json_text(object, "local", text);
    ctl_instant_wall(occurrence->nominal_local_ms, text);
    failed |= ctl_json_text(object, "nominal_local", text);
    failed |= ctl_json_number(object, "offset_s", occurrence->offset_s);
    failed |= ctl_json_number(object, "distance_ms", occurrence->at_ms - subject->from_ms);
    for (size_t i = 0; i < sizeof flag_words / sizeof flag_words[0]; i++) {
        if (occurrence->flags & flag_words[i].flag) {
            failed |= json_array_append_new(flags, json_string(flag_words[i].name));
        }
    }
    failed |= ctl_json_value(object, "flags", flags);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

char *ctl_subject_written(const ctl_subject *subject,
                          size_t (*write)(const jobsched_schedule *, char *, size_t))
{
    size_t length = write(subject->schedule, NULL, 0);
    char *text = malloc(length + 1);

    if (text != NULL) {
        (void)write(subject->schedule, text, length + 1);
    }
    return text;
}

int ctl_subject_json(const ctl_subject *subject, json_t *object)
{
    char *canonical = ctl_subject_written(subject, jobsched_schedule_format);
    const char *version = jobsched_schedule_zone_version(subject->schedule);
    int64_t uncertain_ms = jobsched_schedule_uncertain_after(subject->schedule);
    char text[CTL_INSTANT_BYTES];
    int failed = canonical == NULL;

    failed |= ctl_json_text(object, "expression", subject->text);
    failed |= ctl_json_text(object, "canonical", canonical);
    failed |= ctl_json_text(object, "zone", subject->zone);
    failed |= ctl_json_text(object, "zone_version", version[0] == '\0' ? NULL : version);
    ctl_instant_utc(uncertain_ms == JOBSCHED_NONE ? 0 : uncertain_ms, text);
    failed |= ctl_json_text(object, "zone_data_ends", uncertain_ms == JOBSCHED_NONE ? NULL : text);
    ctl_instant_utc(subject->from_ms, text);
    failed |= ctl_json_text(object, "from", text);
    failed |= ctl_json_flag(object, "never", jobsched_schedule_is_never(subject->schedule));
    free(canonical);
    return failed ? -1 : 0;
}
