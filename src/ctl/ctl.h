/* ctl.h: what the parts of jobschedctl share: the table of verbs, what a command line asks for,
 * and how a program ends. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <jobsched.h>

/* Exit statuses; the man page lists them. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1, /* also: lint found errors */
    CTL_USAGE = 2,  /* also: a bad expression */
    CTL_NOT_FOUND = 3,
    CTL_REFUSED = 4,
    CTL_UNREACHABLE = 5,
    CTL_UNHEALTHY = 6,
    CTL_TIMED_OUT = 7
};

/* Bounds one answer: more lines than anybody reads, in well under a second. */
#define CTL_COUNT_DEFAULT 5
#define CTL_COUNT_MAX     100000

/* A command line, read. Texts are borrowed from argv. */
typedef struct ctl_request {
    const struct ctl_verb *verb; /* NULL: it is not known which */
    const char *zone;            /* NULL: none given */
    const char *key;             /* NULL: none given */
    const char *name_space;      /* NULL: none given */
    const char *from;            /* NULL: now */
    const char *lock;            /* NULL: none given */
    const char *lock_file;       /* NULL: none given */
    const char *request_id;      /* NULL: a fresh one */
    size_t count;
    int64_t watch_ms;   /* 0: once */
    int64_t timeout_ms; /* 0: not given */
    int utc, json, strict, all, wait, dry_run, yes, print_sql;
    size_t argument_count;
    char *const *arguments;
} ctl_request;

/* One verb. Each group of verbs is a table in a file of its own, ended by a NULL name. */
typedef struct ctl_verb {
    const char *name;
    const char *arguments; /* as shown to people */
    const char *summary;
    const char *options; /* letters of the options it takes, from the table in arguments.c */
    size_t arguments_min, arguments_max;
    int (*perform)(const ctl_request *request); /* returns enum ctl_exit */
} ctl_verb;

extern const ctl_verb ctl_schedule_verbs[];
extern const ctl_verb ctl_crontab_verbs[];
extern const ctl_verb ctl_read_verbs[];
extern const ctl_verb ctl_act_verbs[];
extern const ctl_verb ctl_store_verbs[];
extern const ctl_verb ctl_general_verbs[];

/* The verb of that name, or NULL. */
const ctl_verb *ctl_verb_find(const char *name);

/* All verbs one by one, in the order of the help: NULL behind the last. */
const ctl_verb *ctl_verb_at(size_t index);

/* argv[0] is the verb; operands are moved to the front of the rest. CTL_OK, or CTL_USAGE with a
 * message. *out_help: only help is asked for. */
int ctl_arguments_read(const ctl_verb *verb, int argc, char **argv, ctl_request *out_request,
                       int *out_help);

/* The options of a verb, one line each, to standard output. */
void ctl_arguments_print(const ctl_verb *verb);

/* Milliseconds since 1970, by the machine's clock. */
int64_t ctl_now_ms(void);

#endif
