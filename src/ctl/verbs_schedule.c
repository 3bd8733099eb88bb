/* verbs_schedule.c: next, prev and explain: what an expression means, without a scheduler.
 * No state, no locks. */
#include "ctl/instant.h"
#include "ctl/occurrence.h"
#include "ctl/text.h"
#include "ctl/trap.h"

#include <stdlib.h>

#define EXPLAIN_COUNT 3

/* ---- next, prev ---- */

static int list_utc(const ctl_request *request, const ctl_subject *subject, int forward)
{
    int64_t at_ms = subject->from_ms;
    char text[CTL_INSTANT_BYTES];

    for (size_t i = 0; i < request->count; i++) {
        at_ms = ctl_subject_step(subject, at_ms, forward);
        if (at_ms == JOBSCHED_NONE) {
            (void)puts("NONE");
            break;
        }
        ctl_instant_utc(at_ms, text);
        (void)puts(text);
    }
    return CTL_OK;
}

static int list_json(const ctl_request *request, const ctl_subject *subject, int forward)
{
    json_t *root = json_object(), *list = json_array();
    int64_t at_ms = subject->from_ms;
    int failed = ctl_subject_json(subject, root);

    failed |= ctl_json_text(root, "direction", forward ? "next" : "prev");
    for (size_t i = 0; i < request->count && !failed; i++) {
        jobsched_occurrence occurrence;

        at_ms = ctl_subject_step(subject, at_ms, forward);
        if (at_ms == JOBSCHED_NONE) {
            break;
        }
        ctl_occurrence_read(subject, at_ms, &occurrence);
        failed |= json_array_append_new(list, ctl_occurrence_json(subject, &occurrence));
    }
    failed |= ctl_json_flag(root, "ended", at_ms == JOBSCHED_NONE);
    failed |= ctl_json_value(root, "occurrences", list);
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

/* Fills a row; returns whether it has a note. */
static int fill_row(const ctl_subject *subject, int64_t at_ms, char cells[4][CTL_NOTE_BYTES])
{
    int64_t distance_ms = at_ms - subject->from_ms;
    jobsched_occurrence occurrence;

    ctl_occurrence_read(subject, at_ms, &occurrence);
    ctl_instant_people(occurrence.local_ms, occurrence.offset_s, cells[0]);
    ctl_instant_utc(at_ms, cells[1]);
    ctl_span_text(distance_ms < 0 ? -distance_ms : distance_ms, cells[2]);
    ctl_occurrence_note(&occurrence, cells[3]);
    return cells[3][0] != '\0';
}

static int has_notes(const ctl_request *request, const ctl_subject *subject, int forward)
{
    int64_t at_ms = subject->from_ms;
    char cells[4][CTL_NOTE_BYTES];

    for (size_t i = 0; i < request->count; i++) {
        at_ms = ctl_subject_step(subject, at_ms, forward);
        if (at_ms == JOBSCHED_NONE) {
            return 0;
        }
        if (fill_row(subject, at_ms, cells)) {
            return 1;
        }
    }
    return 0;
}

static int list_table(const ctl_request *request, const ctl_subject *subject, int forward)
{
    const char *columns[] = {subject->zone, "UTC", forward ? "IN" : "AGO", "NOTE"};
    ctl_table *table = ctl_table_new(columns, has_notes(request, subject, forward) ? 4 : 3);
    int64_t at_ms = subject->from_ms;
    size_t count = 0;
    int result = CTL_OK;

    for (; count < request->count; count++) {
        char text[4][CTL_NOTE_BYTES];
        const char *cells[] = {text[0], text[1], text[2], text[3]};

        at_ms = ctl_subject_step(subject, at_ms, forward);
        if (at_ms == JOBSCHED_NONE) {
            break;
        }
        (void)fill_row(subject, at_ms, text);
        ctl_table_row(table, cells);
    }
    if (count > 0) {
        result = ctl_table_print(table);
    } else {
        ctl_table_free(table);
    }
    if (at_ms == JOBSCHED_NONE) {
        (void)puts(jobsched_schedule_is_never(subject->schedule) ? "NONE: it can never match"
                   : count == 0                                  ? "NONE"
                                                                 : "NONE after that");
    }
    if (subject->is_after && forward && result == CTL_OK) {
        (void)puts("Counted as if the last run ended at the instant asked from, and each further "
                   "run at once.");
    }
    return result;
}

static int run_list(const ctl_request *request, int forward)
{
    ctl_subject subject;
    int result = ctl_subject_open(request, &subject);

    if (result != CTL_OK) {
        return result;
    }
    if (request->json) {
        result = list_json(request, &subject, forward);
    } else if (request->utc) {
        result = list_utc(request, &subject, forward);
    } else {
        result = list_table(request, &subject, forward);
    }
    ctl_subject_close(&subject);
    return result;
}

static int run_next(const ctl_request *request)
{
    return run_list(request, 1);
}

static int run_prev(const ctl_request *request)
{
    return run_list(request, 0);
}

/* ---- explain ---- */

static int explain_json(const ctl_subject *subject, const char *english, const ctl_traps *traps)
{
    json_t *root = json_object(), *warnings = json_array(), *next = json_array();
    int64_t at_ms = subject->from_ms;
    int failed = ctl_subject_json(subject, root);

    failed |= ctl_json_text(root, "english", english);
    for (size_t i = 0; i < traps->count; i++) {
        json_t *warning = json_object();

        failed |= ctl_json_text(warning, "code", traps->items[i].code);
        failed |= ctl_json_number(warning, "position", (int64_t)traps->items[i].position);
        failed |= ctl_json_text(warning, "message", traps->items[i].message);
        failed |= json_array_append_new(warnings, warning);
    }
    for (int i = 0; i < EXPLAIN_COUNT; i++) {
        jobsched_occurrence occurrence;

        at_ms = ctl_subject_step(subject, at_ms, 1);
        if (at_ms == JOBSCHED_NONE) {
            break;
        }
        ctl_occurrence_read(subject, at_ms, &occurrence);
        failed |= json_array_append_new(next, ctl_occurrence_json(subject, &occurrence));
    }
    failed |= ctl_json_value(root, "warnings", warnings);
    failed |= ctl_json_value(root, "next", next);
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static void explain_next(const ctl_subject *subject)
{
    int64_t at_ms = subject->from_ms;
    const char *label = "next:      ";

    for (int i = 0; i < EXPLAIN_COUNT; i++) {
        char cells[4][CTL_NOTE_BYTES];
        int noted;

        at_ms = ctl_subject_step(subject, at_ms, 1);
        if (at_ms == JOBSCHED_NONE) {
            (void)printf("%s%s\n", label, i == 0 ? "NONE" : "NONE after that");
            return;
        }
        noted = fill_row(subject, at_ms, cells);
        (void)printf("%s%s (%s, in %s)%s%s\n", label, cells[0], cells[1], cells[2],
                     noted ? "; " : "", cells[3]);
        label = "           ";
    }
}

static int explain_text(const ctl_subject *subject, const char *english, const char *canonical,
                        const ctl_traps *traps)
{
    const char *version = jobsched_schedule_zone_version(subject->schedule);

    (void)printf("%s%s%s\n", ctl_colour(stdout, CTL_BOLD), english, ctl_colour(stdout, CTL_PLAIN));
    (void)printf("canonical: %s\nzone:      %s", canonical, subject->zone);
    if (version[0] != '\0') {
        (void)fputs(" (", stdout);
        ctl_text_print(stdout, version);
        (void)fputs(")", stdout);
    }
    (void)fputc('\n', stdout);
    if (jobsched_schedule_is_never(subject->schedule)) {
        (void)puts("never:     it can never match");
    } else {
        explain_next(subject);
    }
    for (size_t i = 0; i < traps->count; i++) {
        (void)printf("%swarning%s:   ", ctl_colour(stdout, CTL_YELLOW),
                     ctl_colour(stdout, CTL_PLAIN));
        ctl_text_print(stdout, traps->items[i].message);
        (void)fputc('\n', stdout);
    }
    return CTL_OK;
}

static int run_explain(const ctl_request *request)
{
    ctl_subject subject;
    ctl_traps traps;
    char *english, *canonical;
    int result = ctl_subject_open(request, &subject);

    if (result != CTL_OK) {
        return result;
    }
    english = ctl_subject_written(&subject, jobsched_schedule_explain);
    canonical = ctl_subject_written(&subject, jobsched_schedule_format);
    ctl_traps_find(subject.text, request->key, subject.schedule, subject.from_ms, &traps);
    if (english == NULL || canonical == NULL) {
        result = ctl_fail(NULL, "out of memory");
    } else if (request->json) {
        result = explain_json(&subject, english, &traps);
    } else {
        result = explain_text(&subject, english, canonical, &traps);
    }
    free(english);
    free(canonical);
    ctl_subject_close(&subject);
    return result;
}

const ctl_verb ctl_schedule_verbs[] = {
    {"next", "EXPR", "the next times of a schedule", "zfnkuj", 1, 1, run_next},
    {"prev", "EXPR", "the last times of a schedule", "zfnkuj", 1, 1, run_prev},
    {"explain", "EXPR", "a schedule in plain English", "zfkj", 1, 1, run_explain},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
