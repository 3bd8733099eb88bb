/* crontab.h: reads a crontab into entries and findings. */
#ifndef ELECTED_CROND_CRONTAB_H
#define ELECTED_CROND_CRONTAB_H

#include "setting.h"

#include <jobsched.h>

#include <stdio.h>

/* Bounds, so that rubbish (a core dump, a log) costs little. No honest crontab is near them. */
#define CRONTAB_BYTES_MAX      (1024 * 1024)
#define CRONTAB_LINE_BYTES_MAX 16384
#define CRONTAB_ENTRIES_MAX    10000
#define CRONTAB_FINDINGS_MAX   200 /* further ones are counted */
#define CRONTAB_MESSAGE_BYTES  512
#define CRONTAB_EXCERPT_BYTES  80

/* One line to run. Immutable but for the atomic count of holders. */
typedef struct crontab_entry crontab_entry;
struct crontab_entry {
    char *name;     /* the job's identity in the cluster */
    char *schedule; /* its parts one blank apart */
    char *zone;     /* of the schedule; NULL: UTC */
    char *command;  /* for SHELL -c */
    char *options;  /* KEY=VALUE for jobsched_job_set(), one blank apart; NULL: none */
    char *input;    /* for its standard input; NULL: none */
    size_t input_bytes;
    setting *settings;
    size_t line;
    size_t column; /* where the schedule begins, counted from 1 */
};

crontab_entry *crontab_entry_hold(crontab_entry *entry);
void crontab_entry_release(crontab_entry *entry);

/* Whether two entries of one name do the same: 1 or 0. */
int crontab_entry_same(const crontab_entry *a, const crontab_entry *b);

/* Sets what the comment above the line says. 0 or a code of the library. */
int crontab_entry_options(const crontab_entry *entry, jobsched_job_spec *spec);

/* The schedule exactly as the job of this namespace has it: H and ~ pick by namespace and name, and
 * the zone and the options decide, too. 0 or a code of the library; JOBSCHED_ENEVER: no time comes
 * of it, and the options do not allow that. */
int crontab_entry_schedule(const crontab_entry *entry, const char *name_space,
                           jobsched_schedule **out_schedule);

enum crontab_severity {
    CRONTAB_ERROR = 1,  /* the line is not used */
    CRONTAB_WARNING = 2 /* the line is used, though perhaps not as it was meant */
};

typedef struct crontab_finding {
    int severity;
    size_t line, column; /* counted from 1, in bytes; column 0: the whole line */
    size_t caret;        /* offset in excerpt */
    char excerpt[CRONTAB_EXCERPT_BYTES + 1];
    char message[CRONTAB_MESSAGE_BYTES];
} crontab_finding;

typedef struct crontab {
    crontab_entry **entries;
    size_t entry_count;
    crontab_finding *findings;
    size_t finding_count;
    size_t error_count, warning_count; /* also of findings that were not kept */
} crontab;

/* Reads a whole crontab from memory for jobs of this namespace. A bad line becomes a finding and does
 * not touch the others. zone: of lines that none is set for, one that can be used; NULL: UTC.
 * -1: out of memory, *out_table is untouched. */
int crontab_parse(const char *text, size_t bytes, const char *name_space, const char *zone,
                  crontab **out_table);

/* Reads a file, which must be a regular one of at most CRONTAB_BYTES_MAX bytes. On -1 message tells
 * why in one line, without the path. */
int crontab_read(const char *path, const char *name_space, crontab **out_table, char *message,
                 size_t message_bytes);
void crontab_free(crontab *table);

/* PATH:LINE:COLUMN: message, with the line and a caret below. */
void crontab_finding_print(FILE *stream, const char *path, const crontab_finding *finding);

#endif
