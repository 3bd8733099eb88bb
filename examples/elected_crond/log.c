/* log.c: the log on standard error and the runs log. One write per line, so that lines of several
 * threads and processes do not mix.
 * Locks: none; the settings are written before there are threads, and what changes is atomic. */
#include "output.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int log_least = LOG_INFO;
static const char *log_node = "";
static int runs_fd = -1;
static atomic_int runs_broken;

int64_t wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void format_instant(char text[INSTANT_BYTES], int64_t at_ms, int with_ms)
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;
    size_t used = 0;

    if (at_ms >= 0 && gmtime_r(&seconds, &parts) != NULL) {
        used = strftime(text, INSTANT_BYTES - 8, "%Y-%m-%dT%H:%M:%S", &parts);
    }
    if (used == 0) {
        (void)snprintf(text, INSTANT_BYTES, "%" PRId64, at_ms);
    } else if (with_ms) {
        (void)snprintf(text + used, INSTANT_BYTES - used, ".%03dZ", (int)(at_ms % 1000));
    } else {
        (void)snprintf(text + used, INSTANT_BYTES - used, "Z");
    }
}

static int write_line(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);

        if (put > 0) {
            text += put;
            bytes -= (size_t)put;
        } else if (put == 0 || errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

void log_setup(int least_level, const char *node)
{
    log_least = least_level;
    log_node = node;
}

static void log_raw(log_record *record, const char *text)
{
    size_t room = sizeof record->text - 2 - record->used; /* for a quote and the line's end */
    size_t bytes = strlen(text);

    bytes = bytes < room ? bytes : room;
    memcpy(record->text + record->used, text, bytes);
    record->used += bytes;
}

void log_begin(log_record *record, int level, int64_t at_ms, const char *event)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    char instant[INSTANT_BYTES];

    record->level = level;
    record->used = 0;
    format_instant(instant, at_ms, 1);
    log_raw(record, "time=");
    log_raw(record, instant);
    log_raw(record, " level=");
    log_raw(record, level >= LOG_DEBUG && level <= LOG_ERROR ? levels[level] : "error");
    log_raw(record, " event=");
    log_raw(record, event);
    if (log_node[0] != '\0') {
        log_text(record, "node", log_node);
    }
}

/* Always in quotes, so that a line can be taken apart without knowing what is in it; bytes that are
 * no printable UTF-8 as numbers, so that it can be shown on any terminal. */
void log_text(log_record *record, const char *name, const char *value)
{
    log_raw(record, " ");
    log_raw(record, name);
    log_raw(record, "=\"");
    for (size_t step; *value != '\0' && record->used < sizeof record->text - 8; value += step) {
        char escaped[8];

        step = utf8_step(value);
        if (step == 0) {
            (void)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)*value);
            step = 1;
        } else {
            (void)snprintf(escaped, sizeof escaped, "%s%.*s",
                           *value == '"' || *value == '\\' ? "\\" : "", (int)step, value);
        }
        log_raw(record, escaped);
    }
    record->text[record->used++] = '"';
}

void log_number(log_record *record, const char *name, int64_t value)
{
    char text[80];

    (void)snprintf(text, sizeof text, " %.40s=%" PRId64, name, value);
    log_raw(record, text);
}

void log_instant(log_record *record, const char *name, int64_t at_ms)
{
    char instant[INSTANT_BYTES];

    format_instant(instant, at_ms, 1);
    log_raw(record, " ");
    log_raw(record, name);
    log_raw(record, "=");
    log_raw(record, instant);
}

void log_end(log_record *record)
{
    if (record->level >= log_least) {
        record->text[record->used++] = '\n';
        /* A line of the log that cannot be written has nowhere to be told. */
        (void)write_line(STDERR_FILENO, record->text, record->used);
    }
}

void log_message(int level, const char *event, const char *format, ...)
{
    char message[1024];
    log_record record;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    log_begin(&record, level, wall_ms(), event);
    log_text(&record, "message", message);
    log_end(&record);
}

int runs_log_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

    if (fd < 0) {
        return -1;
    }
    runs_fd = fd;
    return 0;
}

void runs_log_write(const runs_log_line *line)
{
    char text[1024];
    int bytes;

    if (runs_fd < 0) {
        return;
    }
    bytes = snprintf(text, sizeof text,
                     "%s\t%s\t%" PRId64 "\t%" PRIu64 "\t%u\t%s\t%ld\t%" PRId64 "\t%s\n",
                     line->event, line->job, line->scheduled_ms, line->token, line->attempt,
                     line->node, line->pid, wall_ms(), line->outcome);
    if (bytes < 0 || (size_t)bytes >= sizeof text) {
        return;
    }
    if (write_line(runs_fd, text, (size_t)bytes) == 0) {
        atomic_store(&runs_broken, 0);
    } else if (atomic_exchange(&runs_broken, 1) == 0) { /* told once, not for every line */
        log_message(LOG_ERROR, "runs-log.lost", "the runs log cannot be written: %s",
                    strerror(errno));
    }
}
