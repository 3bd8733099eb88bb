/* verbs_crontab.c: lint: everything that is wrong with a crontab, or likely not meant. Read by the
 * reader of elected-crond; traps are found by trap.c. No state, no locks. */
#include "ctl/instant.h"
#include "ctl/output.h"
#include "ctl/text.h"
#include "ctl/trap.h"

#include "elected_crond/crontab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct lint_finding {
    size_t line, column; /* from 1; column 0: the whole line */
    int severity;        /* enum crontab_severity */
    const char *code;
    char excerpt[CRONTAB_EXCERPT_BYTES + 1];
    size_t caret;
    char message[CRONTAB_MESSAGE_BYTES];
} lint_finding;

typedef struct lint {
    const ctl_request *request;
    const char *path;
    const char *zone; /* of lines that none is set for; NULL: UTC */
    char *text;
    size_t bytes;
    int64_t from_ms;
    crontab *table;
    lint_finding *findings;
    size_t count, room;
    size_t errors, warnings, not_shown;
    size_t *lines; /* where each begins, and the end of the text behind the last */
    size_t line_count;
    size_t seconds_line; /* the first that says how many fields there are; 0: none */
    int six_told;        /* six-fields is told once: the remedy is for the whole file */
} lint;

/* ---- Reading ---- */

/* Into text, which has room for one byte more than is allowed. */
static int read_text(lint *state)
{
    int is_input = strcmp(state->request->arguments[0], "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(state->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t got = -1;

    while (fd >= 0 && state->bytes <= CRONTAB_BYTES_MAX) {
        got = read(fd, state->text + state->bytes, CRONTAB_BYTES_MAX + 1 - state->bytes);
        if (got > 0) {
            state->bytes += (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            break;
        }
    }
    if (got < 0) {
        (void)ctl_fail(state->request, "'%s' cannot be read: %s", state->path, strerror(errno));
    }
    if (!is_input && fd >= 0) {
        (void)close(fd);
    }
    if (got >= 0 && state->bytes > CRONTAB_BYTES_MAX) {
        got = -1;
        (void)ctl_fail(state->request, "'%s' is larger than %d bytes", state->path,
                       CRONTAB_BYTES_MAX);
    }
    return got < 0 ? CTL_FAILED : CTL_OK;
}

static int is_seconds_line(const char *text, size_t bytes)
{
    static const char name[] = "CRON_SECONDS";
    size_t at = 0;

    while (at < bytes &&
           (text[at] == ' ' || text[at] == '\t' || text[at] == '\'' || text[at] == '"')) {
        at++;
    }
    return bytes - at >= sizeof name && memcmp(text + at, name, sizeof name - 1) == 0;
}

/* Lines as the reader counts them: a byte order mark is no part of the first. */
static int index_lines(lint *state)
{
    size_t at = state->bytes >= 3 && memcmp(state->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t room = 2;

    for (size_t i = at; i < state->bytes; i++) {
        room += state->text[i] == '\n';
    }
    state->lines = malloc(room * sizeof *state->lines);
    if (state->lines == NULL) {
        return -1;
    }
    while (at < state->bytes) {
        const char *end = memchr(state->text + at, '\n', state->bytes - at);
        size_t next = end == NULL ? state->bytes : (size_t)(end - state->text) + 1;

        state->lines[state->line_count++] = at;
        if (state->seconds_line == 0 && is_seconds_line(state->text + at, next - at)) {
            state->seconds_line = state->line_count;
        }
        at = next;
    }
    state->lines[state->line_count] = state->bytes;
    return 0;
}

static const char *find_line(const lint *state, size_t number, size_t *out_bytes)
{
    const char *line;

    if (number < 1 || number > state->line_count) {
        *out_bytes = 0;
        return state->text;
    }
    line = state->text + state->lines[number - 1];
    *out_bytes = state->lines[number] - state->lines[number - 1];
    if (*out_bytes > 0 && line[*out_bytes - 1] == '\n') {
        *out_bytes -= 1;
    }
    return line;
}

/* ---- Findings ---- */

static lint_finding *add_finding(lint *state)
{
    if (state->count == state->room) {
        size_t room = state->room == 0 ? 16 : state->room * 2;
        lint_finding *larger = realloc(state->findings, room * sizeof *larger);

        if (larger == NULL) {
            return NULL;
        }
        state->findings = larger;
        state->room = room;
    }
    memset(&state->findings[state->count], 0, sizeof *state->findings);
    return &state->findings[state->count++];
}

static int copy_findings(lint *state)
{
    for (size_t i = 0; i < state->table->finding_count; i++) {
        const crontab_finding *from = &state->table->findings[i];
        lint_finding *to = add_finding(state);

        if (to == NULL) {
            return -1;
        }
        to->line = from->line;
        to->column = from->column;
        to->severity = from->severity;
        to->code = "crontab";
        to->caret = from->caret;
        memcpy(to->excerpt, from->excerpt, sizeof to->excerpt);
        memcpy(to->message, from->message, sizeof to->message);
    }
    state->errors = state->table->error_count;
    state->warnings = state->table->warning_count;
    state->not_shown = state->errors + state->warnings - state->table->finding_count;
    return 0;
}

static int add_warning(lint *state, const crontab_entry *entry, const ctl_trap *trap)
{
    lint_finding *finding;
    size_t bytes, offset = entry->column - 1 + trap->position;
    const char *line = find_line(state, entry->line, &bytes);
    size_t from = offset > CRONTAB_EXCERPT_BYTES * 3 / 4 ? offset - CRONTAB_EXCERPT_BYTES / 2 : 0;

    state->warnings++;
    if (state->count >= (size_t)CRONTAB_FINDINGS_MAX * 5) {
        state->not_shown++;
        return 0;
    }
    finding = add_finding(state);
    if (finding == NULL) {
        return -1;
    }
    bytes = bytes > from ? bytes - from : 0;
    bytes = bytes < CRONTAB_EXCERPT_BYTES ? bytes : CRONTAB_EXCERPT_BYTES;
    memcpy(finding->excerpt, line + from, bytes);
    finding->excerpt[bytes] = '\0';
    finding->excerpt[strcspn(finding->excerpt, "\r")] = '\0';
    finding->line = entry->line;
    finding->column = offset + 1;
    finding->severity = CRONTAB_WARNING;
    finding->code = trap->code;
    finding->caret = offset - from;
    memcpy(finding->message, trap->message, sizeof trap->message);
    return 0;
}

static int compare(const void *a, const void *b)
{
    const lint_finding *x = a, *y = b;

    if (x->line != y->line) {
        return x->line < y->line ? -1 : 1;
    }
    if (x->column != y->column) {
        return x->column < y->column ? -1 : 1;
    }
    return strcmp(x->message, y->message);
}

/* ---- Entries ---- */

static size_t count_fields(const char *schedule)
{
    size_t count = schedule[0] != '\0' && schedule[0] != '@';

    for (const char *at = schedule; *at != '\0' && count > 0; at++) {
        count += *at == ' '; /* the reader leaves one blank between fields */
    }
    return count;
}

static int check_six_fields(lint *state, const crontab_entry *entry)
{
    ctl_trap trap = {.code = "six-fields", .position = 0};

    if (state->six_told || count_fields(entry->schedule) != 6 ||
        (state->seconds_line != 0 && state->seconds_line < entry->line)) {
        return 0;
    }
    state->six_told = 1;
    (void)snprintf(trap.message, sizeof trap.message,
                   "six fields, of which the first is the second; other crons read five and take "
                   "the sixth for the command; CRON_SECONDS=yes above says that it is meant");
    return add_warning(state, entry, &trap);
}

/* The schedule as it stands in the file, so that positions are those of the line. */
static char *raw_schedule(const lint *state, const crontab_entry *entry)
{
    size_t bytes, at = entry->column - 1, words = 1;
    const char *line = find_line(state, entry->line, &bytes);
    size_t end = at;

    for (const char *c = entry->schedule; *c != '\0'; c++) {
        words += *c == ' ';
    }
    while (words-- > 0) {
        while (end < bytes && (line[end] == ' ' || line[end] == '\t')) {
            end++;
        }
        while (end < bytes && line[end] != ' ' && line[end] != '\t') {
            end++;
        }
    }
    return strndup(line + at, end - at);
}

static int check_entry(lint *state, const crontab_entry *entry)
{
    const char *name_space = state->request->name_space;
    char *raw = raw_schedule(state, entry);
    char key[2 * JOBSCHED_NAME_BYTES + 2]; /* as of a registered job */
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    ctl_traps traps;
    int result = raw == NULL ? -1 : check_six_fields(state, entry);

    (void)snprintf(key, sizeof key, "%s/%s", name_space == NULL ? "default" : name_space,
                   entry->name);
    JOBSCHED_INIT(&options);
    options.timezone = entry->zone;
    options.key = key;
    /* The reader has accepted it, so what is refused here is memory, or zone data that went. */
    if (result == 0 && jobsched_schedule_parse(raw, &options, &schedule) == JOBSCHED_OK) {
        ctl_traps_find(raw, key, schedule, state->from_ms, &traps);
        jobsched_schedule_free(schedule);
        for (size_t i = 0; i < traps.count && result == 0; i++) {
            result = add_warning(state, entry, &traps.items[i]);
        }
    }
    free(raw);
    return result;
}

/* ---- Answers ---- */

static void print_text(const lint *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const lint_finding *finding = &state->findings[i];
        int is_error = finding->severity == CRONTAB_ERROR;

        ctl_text_print(stdout, state->path);
        (void)printf(":%zu:%zu: %s%s:%s ", finding->line, finding->column,
                     ctl_colour(stdout, is_error ? CTL_RED : CTL_YELLOW),
                     is_error ? "error" : "warning", ctl_colour(stdout, CTL_PLAIN));
        ctl_text_print(stdout, finding->message);
        (void)printf("\n    ");
        ctl_text_excerpt(stdout, finding->excerpt, strlen(finding->excerpt));
        (void)printf("\n    %*s%s^%s\n", (int)finding->caret, "", ctl_colour(stdout, CTL_GREEN),
                     ctl_colour(stdout, CTL_PLAIN));
    }
    if (state->not_shown > 0) {
        (void)printf("%zu further findings are not shown\n", state->not_shown);
    }
    ctl_text_print(stdout, state->path);
    (void)printf(": %zu job%s, %zu error%s, %zu warning%s\n", state->table->entry_count,
                 state->table->entry_count == 1 ? "" : "s", state->errors,
                 state->errors == 1 ? "" : "s", state->warnings, state->warnings == 1 ? "" : "s");
}

static int print_json(const lint *state)
{
    json_t *root = json_object(), *list = json_array();
    int failed = ctl_json_text(root, "file", state->path);

    failed |= ctl_json_number(root, "jobs", (int64_t)state->table->entry_count);
    failed |= ctl_json_number(root, "errors", (int64_t)state->errors);
    failed |= ctl_json_number(root, "warnings", (int64_t)state->warnings);
    failed |= ctl_json_number(root, "not_shown", (int64_t)state->not_shown);
    for (size_t i = 0; i < state->count; i++) {
        const lint_finding *finding = &state->findings[i];
        json_t *item = json_object();

        failed |= ctl_json_number(item, "line", (int64_t)finding->line);
        failed |= ctl_json_number(item, "column", (int64_t)finding->column);
        failed |= ctl_json_text(item, "severity",
                                finding->severity == CRONTAB_ERROR ? "error" : "warning");
        failed |= ctl_json_text(item, "code", finding->code);
        failed |= ctl_json_text(item, "message", finding->message);
        failed |= json_array_append_new(list, item);
    }
    failed |= ctl_json_value(root, "findings", list);
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static int check_zone(const ctl_request *request)
{
    jobsched_schedule_options options;
    jobsched_schedule *schedule;

    JOBSCHED_INIT(&options);
    options.timezone = request->zone;
    if (jobsched_schedule_parse("* * * * *", &options, &schedule) != JOBSCHED_OK) {
        return jobsched_last_error()->code == JOBSCHED_EPARSE
                   ? ctl_refuse(request, request->zone, jobsched_last_error())
                   : ctl_fail(request, "%s", jobsched_last_error()->message);
    }
    jobsched_schedule_free(schedule);
    return CTL_OK;
}

static int check_text(lint *state)
{
    int failed =
        index_lines(state) != 0 ||
        crontab_parse(state->text, state->bytes,
                      state->request->name_space == NULL ? "default" : state->request->name_space,
                      state->zone, &state->table) != 0 ||
        copy_findings(state) != 0;
    int result = CTL_OK;

    for (size_t i = 0; !failed && i < state->table->entry_count; i++) {
        failed = check_entry(state, state->table->entries[i]) != 0;
    }
    if (failed) {
        return ctl_fail(NULL, "out of memory");
    }
    if (state->count > 1) {
        qsort(state->findings, state->count, sizeof *state->findings, compare);
    }
    if (state->request->json) {
        result = print_json(state);
    } else {
        print_text(state);
    }
    if (state->errors > 0 || (state->request->strict && state->warnings > 0)) {
        result = CTL_FAILED;
    }
    return result;
}

static int run_lint(const ctl_request *request)
{
    lint state = {.request = request, .path = request->arguments[0]};
    char message[CRONTAB_MESSAGE_BYTES];
    int result = request->zone == NULL ? CTL_OK : check_zone(request);
    char *text;

    if (result != CTL_OK) {
        return result;
    }
    if (request->name_space != NULL &&
        (request->name_space[0] == '\0' || strlen(request->name_space) > JOBSCHED_NAME_BYTES)) {
        return ctl_usage(request, "namespace '%.40s' is not 1 to %d bytes long",
                         request->name_space, JOBSCHED_NAME_BYTES);
    }
    if (ctl_instant_read(request->from == NULL ? "now" : request->from, request->zone,
                         &state.from_ms, message, sizeof message) != 0) {
        return ctl_usage(request, "--from: %s", message);
    }
    state.zone = request->zone == NULL || request->zone[0] == '\0' ? NULL : request->zone;
    if (strcmp(state.path, "-") == 0) {
        state.path = "(standard input)";
    }
    text = malloc(CRONTAB_BYTES_MAX + 1);
    if (text == NULL) {
        return ctl_fail(NULL, "out of memory");
    }
    state.text = text;
    result = read_text(&state);
    if (result == CTL_OK) {
        result = check_text(&state);
    }
    crontab_free(state.table);
    free(state.findings);
    free(state.lines);
    free(text);
    return result;
}

const ctl_verb ctl_crontab_verbs[] = {
    {"lint", "FILE", "everything wrong with a crontab; - is standard input", "zNfsj", 1, 1,
     run_lint},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
