/* reader.h: what the parts of the crontab reader share; nobody else includes it. */
#ifndef ELECTED_CROND_READER_H
#define ELECTED_CROND_READER_H

#include "crontab.h"

/* The library refuses longer texts of schedules. */
#define SCHEDULE_BYTES_MAX 256

enum seconds_mode {
    SECONDS_AUTO = 0, /* each line is looked at */
    SECONDS_NO = 1,   /* always five fields */
    SECONDS_YES = 2   /* always six */
};

/* One line, without its end. Not terminated by NUL. */
typedef struct reader_line {
    const char *text;
    size_t bytes;
    size_t number;
} reader_line;

/* Comments that say something about the entry below them. */
enum comment_kind {
    COMMENT_NAME = 0,    /* "# name: ..." */
    COMMENT_OPTIONS = 1, /* "# jobsched: ..." */
    COMMENTS = 2
};

typedef struct reader_comment {
    reader_line line; /* text is NULL when there is none */
    size_t at, bytes; /* of what it says */
} reader_comment;

typedef struct reader {
    crontab *table;
    const char *name_space; /* borrowed */
    size_t entry_room, finding_room;
    setting *settings;        /* in force; the reader holds it */
    int seconds;              /* enum seconds_mode */
    const char *zone;         /* in force; borrowed from settings or from the caller; NULL: UTC */
    const char *default_zone; /* where none is set */
    size_t bad_zone;          /* line that set a time zone that cannot be used; 0: none */
    reader_comment comments[COMMENTS]; /* above the next line */
    size_t *name_slots;                /* index of an entry plus 1, by hash of its name; 0: free */
    size_t *copies;                    /* by entry: how many further ones were found equal to it */
    int out_of_memory;
} reader;

/* Where the parts of an entry's line are: offsets in the line. */
typedef struct split_line {
    size_t schedule_at, schedule_end;
    size_t command_at;
} split_line;

/* Notes a finding at an offset of the line. */
void reader_find(reader *state, int severity, const reader_line *line, size_t offset,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* NAME=value: 1 when the line is one (also a faulty one, which becomes a finding), else 0. */
int reader_setting(reader *state, const reader_line *line, size_t at);

/* Finds schedule and command; 0, or -1 with a finding. */
int reader_split(reader *state, const reader_line *line, size_t at, split_line *out_split);

/* What "# jobsched:" above says, its parts one blank apart: a copy, or NULL with a finding. */
char *reader_options(reader *state);

/* A schedule line: an entry or findings. */
void reader_entry(reader *state, const reader_line *line, size_t at);

/* Whether text is well-formed as a schedule, for any name: 0, or the library's code with the detail in
 * jobsched_last_error(). Whether a time comes of it is for crontab_entry_schedule() to say. */
int reader_schedule_check(const char *text, size_t bytes, const char *zone);

/* Offset of the first byte from at on that is not (skip_blanks) or is (skip_word) blank. */
size_t skip_blanks(const reader_line *line, size_t at);
size_t skip_word(const reader_line *line, size_t at);

/* A copy ended by NUL, or NULL with out_of_memory set. */
char *reader_copy(reader *state, const char *text, size_t bytes);

#endif
