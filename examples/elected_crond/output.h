/* output.h: the three streams of elected-crond: output of commands, log, and runs log. */
#ifndef ELECTED_CROND_OUTPUT_H
#define ELECTED_CROND_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

/* ---- Output of commands: standard output -------------------------------- */

/* Longest record. Not more than PIPE_BUF, so that records of several processes on one pipe do not
 * mix. */
#define OUTPUT_RECORD_BYTES 4096

/* Standard output may be a pipe that nobody reads, and a worker that hangs in write() could not
 * tell its command to stop. So workers only queue, and one thread writes. Starts that thread;
 * 0, or an error number. */
int output_start(int fd);

/* Queues one record, a whole line with its end, behind all earlier ones. 0 when the queue is full:
 * nothing was queued, wait with output_wait(). */
int output_offer(const char *record, size_t bytes);

/* Waits until there may be room again, at most so long. */
void output_wait(int milliseconds);

/* Waits until all is written, at most so long, and ends the thread. */
void output_stop(int milliseconds);

/* ---- Log: standard error ------------------------------------------------ */

enum log_level { LOG_DEBUG = 0, LOG_INFO = 1, LOG_WARNING = 2, LOG_ERROR = 3 };

/* A line in the making: name=value pairs after time, level and event. */
typedef struct log_record {
    int level;
    size_t used;
    char text[2048];
} log_record;

/* Lower levels are not written. node goes into every line; borrowed. To be called before the
 * process has threads. */
void log_setup(int least_level, const char *node);

void log_begin(log_record *record, int level, int64_t at_ms, const char *event);
void log_text(log_record *record, const char *name, const char *value);
void log_number(log_record *record, const char *name, int64_t value);
void log_instant(log_record *record, const char *name, int64_t at_ms);
void log_end(log_record *record);

/* One line with a message, at the present time. */
void log_message(int level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Present time in milliseconds, by this machine's clock. */
int64_t wall_ms(void);

/* "2027-01-01T00:00:00Z", with milliseconds if asked for. */
#define INSTANT_BYTES 40
void format_instant(char text[INSTANT_BYTES], int64_t at_ms, int with_ms);

/* ---- Runs log ----------------------------------------------------------- */

/* Opens the file that gets a line per start and per end of a command. -1 with errno set. */
int runs_log_open(const char *path);

typedef struct runs_log_line {
    const char *event; /* "start" or "end" */
    const char *job;
    int64_t scheduled_ms;
    uint64_t token;
    unsigned attempt;
    const char *node;
    long pid;
    const char *outcome;
} runs_log_line;

/* Appends one line, tabs between: event, job, scheduled ms, token, attempt, node, pid of the
 * command, present time in ms, outcome. Nothing without an open file. From any thread. */
void runs_log_write(const runs_log_line *line);

#endif
