/* crontab.c: from a file to lines, and what comes of them. The parts of a line are reader_split.c,
 * reader_setting.c and reader_entry.c. Runs nothing and waits for nothing.
 * Locks: none; entries are immutable, the counts of their holders atomic. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t skip_blanks(const reader_line *line, size_t at)
{
    while (at < line->bytes && (line->text[at] == ' ' || line->text[at] == '\t')) {
        at++;
    }
    return at;
}

size_t skip_word(const reader_line *line, size_t at)
{
    while (at < line->bytes && line->text[at] != ' ' && line->text[at] != '\t') {
        at++;
    }
    return at;
}

char *reader_copy(reader *state, const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (copy == NULL) {
        state->out_of_memory = 1;
        return NULL;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* The part of the line around the offset, fit for any terminal: one column per byte, so that the
 * caret stands right; so other bytes than printable ASCII become '?'. */
static void make_excerpt(crontab_finding *finding, const reader_line *line, size_t offset)
{
    size_t from = offset > CRONTAB_EXCERPT_BYTES * 3 / 4 ? offset - CRONTAB_EXCERPT_BYTES / 2 : 0;
    size_t count = line->bytes - from;

    if (count > CRONTAB_EXCERPT_BYTES) {
        count = CRONTAB_EXCERPT_BYTES;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)line->text[from + i];

        finding->excerpt[i] = (char)(byte == '\t' ? ' ' : byte);
        if (byte != '\t' && (byte < 0x20 || byte > 0x7e)) {
            finding->excerpt[i] = '?';
        }
    }
    finding->excerpt[count] = '\0';
    finding->caret = offset - from;
}

void reader_find(reader *state, int severity, const reader_line *line, size_t offset,
                 const char *format, ...)
{
    crontab *table = state->table;
    crontab_finding *finding;
    va_list arguments;

    *(severity == CRONTAB_ERROR ? &table->error_count : &table->warning_count) += 1;
    if (table->finding_count == CRONTAB_FINDINGS_MAX) {
        return;
    }
    if (table->finding_count == state->finding_room) {
        size_t room = state->finding_room == 0 ? 8 : state->finding_room * 2;
        crontab_finding *larger = realloc(table->findings, room * sizeof *larger);

        if (larger == NULL) {
            state->out_of_memory = 1;
            return;
        }
        table->findings = larger;
        state->finding_room = room;
    }
    finding = &table->findings[table->finding_count++];
    finding->severity = severity;
    finding->line = line->number;
    finding->column = offset + 1;
    make_excerpt(finding, line, offset > line->bytes ? line->bytes : offset);
    va_start(arguments, format);
    (void)vsnprintf(finding->message, sizeof finding->message, format, arguments);
    va_end(arguments);
}

void crontab_finding_print(FILE *stream, const char *path, const crontab_finding *finding)
{
    fprintf(stream, "%s:%zu:%zu: %s%s\n    %s\n    %*s^\n", path, finding->line, finding->column,
            finding->severity == CRONTAB_WARNING ? "warning: " : "", finding->message,
            finding->excerpt, (int)finding->caret, "");
}

static const char *const comment_words[COMMENTS] = {"name:", "jobsched:"};

static void drop_comment(reader *state, int kind, const char *why)
{
    reader_comment *comment = &state->comments[kind];

    if (comment->line.text != NULL) {
        reader_find(state, CRONTAB_WARNING, &comment->line, comment->at,
                    "this '%s' is not used: %s", comment_words[kind], why);
        comment->line.text = NULL;
    }
}

static void drop_comments(reader *state)
{
    for (int kind = 0; kind < COMMENTS; kind++) {
        drop_comment(state, kind, "no schedule line stands directly below");
    }
}

/* "# name: backup" and "# jobsched: timeout=5m" are about the next entry. Every other comment is only
 * a comment. */
static void read_comment(reader *state, const reader_line *line, size_t at)
{
    size_t from = skip_blanks(line, at + 1);
    size_t end = line->bytes;

    while (end > from && (line->text[end - 1] == ' ' || line->text[end - 1] == '\t')) {
        end--;
    }
    for (int kind = 0; kind < COMMENTS; kind++) {
        size_t bytes = strlen(comment_words[kind]);

        if (end - from >= bytes && memcmp(line->text + from, comment_words[kind], bytes) == 0) {
            reader_comment *comment = &state->comments[kind];

            drop_comment(state, kind, "another one follows");
            comment->line = *line;
            comment->at = skip_blanks(line, from + bytes);
            comment->bytes = end > comment->at ? end - comment->at : 0;
        }
    }
}

static void read_line(reader *state, const reader_line *line)
{
    size_t at = skip_blanks(line, 0);
    const char *nul = line->bytes == 0 ? NULL : memchr(line->text, '\0', line->bytes);

    if (nul != NULL) {
        drop_comments(state);
        reader_find(state, CRONTAB_ERROR, line, (size_t)(nul - line->text),
                    "the line holds a NUL byte");
    } else if (line->bytes > CRONTAB_LINE_BYTES_MAX) {
        drop_comments(state);
        reader_find(state, CRONTAB_ERROR, line, CRONTAB_LINE_BYTES_MAX,
                    "the line is longer than %d bytes", CRONTAB_LINE_BYTES_MAX);
    } else if (at == line->bytes) {
        drop_comments(state);
    } else if (line->text[at] == '#') {
        read_comment(state, line, at);
    } else if (reader_setting(state, line, at)) {
        drop_comments(state);
    } else {
        reader_entry(state, line, at);
        for (int kind = 0; kind < COMMENTS; kind++) {
            state->comments[kind].line.text = NULL;
        }
    }
}

static void read_lines(reader *state, const char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
    size_t at = bytes >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    size_t number = 0;

    while (at < bytes && !state->out_of_memory) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t next = end == NULL ? bytes : (size_t)(end - text) + 1;
        reader_line line = {text + at, (end == NULL ? bytes : next - 1) - at, ++number};

        if (line.bytes > 0 && line.text[line.bytes - 1] == '\r') {
            line.bytes--;
        }
        read_line(state, &line);
        at = next;
    }
    drop_comments(state);
}

int crontab_parse(const char *text, size_t bytes, const char *name_space, const char *zone,
                  crontab **out_table)
{
    reader state;

    memset(&state, 0, sizeof state);
    state.name_space = name_space;
    state.zone = state.default_zone = zone;
    state.table = calloc(1, sizeof *state.table);
    if (state.table == NULL) {
        return -1;
    }
    read_lines(&state, text, bytes);
    setting_release(state.settings);
    free(state.name_slots);
    free(state.copies);
    if (state.out_of_memory) {
        crontab_free(state.table);
        return -1;
    }
    *out_table = state.table;
    return 0;
}

void crontab_free(crontab *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->entry_count; i++) {
        crontab_entry_release(table->entries[i]);
    }
    free(table->entries);
    free(table->findings);
    free(table);
}

/* Without O_NONBLOCK opening a FIFO would wait for a writer. */
static int open_regular(const char *path, size_t *out_bytes, char *message, size_t message_bytes)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &status) != 0) {
        (void)snprintf(message, message_bytes, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        (void)snprintf(message, message_bytes, "is not a regular file");
    } else if (status.st_size > CRONTAB_BYTES_MAX) {
        (void)snprintf(message, message_bytes, "is larger than %d bytes", CRONTAB_BYTES_MAX);
    } else {
        *out_bytes = (size_t)status.st_size;
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* Files under /proc tell a size of 0 and others may grow meanwhile, so the size is only trusted to
 * be too large. */
static int read_all(int fd, char *text, size_t *out_bytes, char *message, size_t message_bytes)
{
    size_t bytes = 0;

    while (bytes <= CRONTAB_BYTES_MAX) {
        ssize_t got = read(fd, text + bytes, CRONTAB_BYTES_MAX + 1 - bytes);

        if (got == 0) {
            *out_bytes = bytes;
            return 0;
        }
        if (got < 0 && errno != EINTR) {
            (void)snprintf(message, message_bytes, "cannot be read: %s", strerror(errno));
            return -1;
        }
        bytes += got < 0 ? 0 : (size_t)got;
    }
    (void)snprintf(message, message_bytes, "is larger than %d bytes", CRONTAB_BYTES_MAX);
    return -1;
}

int crontab_read(const char *path, const char *name_space, crontab **out_table, char *message,
                 size_t message_bytes)
{
    size_t bytes = 0;
    int result = -1;
    int fd = open_regular(path, &bytes, message, message_bytes);
    char *text;

    if (fd < 0) {
        return -1;
    }
    text = malloc(CRONTAB_BYTES_MAX + 1);
    if (text == NULL) {
        (void)snprintf(message, message_bytes, "cannot be read: out of memory");
    } else if (read_all(fd, text, &bytes, message, message_bytes) == 0) {
        result = crontab_parse(text, bytes, name_space, NULL, out_table);
        if (result != 0) {
            (void)snprintf(message, message_bytes, "cannot be read: out of memory");
        }
    }
    free(text);
    (void)close(fd);
    return result;
}
