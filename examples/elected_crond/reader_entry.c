/* reader_entry.c: makes an entry of a schedule line: checks the schedule, applies the rules for '%',
 * and gives the job its name.
 * Locks: none; the count of an entry's holders is atomic. */
#include "reader.h"
#include "utf8.h"

#include <jobsched.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SLOTS 32768 /* a power of two, at least three times CRONTAB_ENTRIES_MAX */
#define SLUG_BYTES 32

_Static_assert(NAME_SLOTS >= 3 * CRONTAB_ENTRIES_MAX, "a full table of names makes searches long");

typedef struct held_entry {
    crontab_entry entry;
    atomic_size_t holders;
} held_entry;

crontab_entry *crontab_entry_hold(crontab_entry *entry)
{
    atomic_fetch_add_explicit(&((held_entry *)entry)->holders, 1, memory_order_relaxed);
    return entry;
}

void crontab_entry_release(crontab_entry *entry)
{
    held_entry *held = (held_entry *)entry;

    if (entry == NULL || atomic_fetch_sub_explicit(&held->holders, 1, memory_order_acq_rel) != 1) {
        return;
    }
    free(entry->name);
    free(entry->schedule);
    free(entry->zone);
    free(entry->command);
    free(entry->options);
    free(entry->input);
    setting_release(entry->settings);
    free(held);
}

static int same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

int crontab_entry_same(const crontab_entry *a, const crontab_entry *b)
{
    return same_text(a->name, b->name) && same_text(a->schedule, b->schedule) &&
           same_text(a->zone, b->zone) && same_text(a->command, b->command) &&
           same_text(a->input, b->input) && same_text(a->options, b->options) &&
           setting_digest(a->settings) == setting_digest(b->settings);
}

int crontab_entry_schedule(const crontab_entry *entry, const char *name_space,
                           jobsched_schedule **out_schedule)
{
    char key[2 * JOBSCHED_NAME_BYTES + 2]; /* as of a registered job */
    jobsched_schedule_options options;
    jobsched_schedule *schedule;
    jobsched_job_spec spec;
    int result;

    JOBSCHED_INIT(&spec);
    JOBSCHED_INIT(&options);
    result = crontab_entry_options(entry, &spec);
    (void)snprintf(key, sizeof key, "%s/%s", name_space, entry->name);
    options.timezone = entry->zone;
    options.key = key;
    options.dst_gap = spec.dst_gap;
    options.dst_overlap = spec.dst_overlap;
    if (result == JOBSCHED_OK) {
        result = jobsched_schedule_parse(entry->schedule, &options, &schedule);
    }
    if (result != JOBSCHED_OK) {
        return result;
    }
    if (jobsched_schedule_is_never(schedule) && !spec.allow_never) {
        jobsched_schedule_free(schedule);
        return JOBSCHED_ENEVER;
    }
    *out_schedule = schedule;
    return JOBSCHED_OK;
}

/* In the command a backslash protects the next byte, and is taken away before '%' only; the first
 * unprotected '%' ends the command. As cron does. */
static size_t read_command(reader *state, const reader_line *line, size_t at, crontab_entry *entry)
{
    char *to = reader_copy(state, line->text + at, line->bytes - at);
    size_t used = 0;

    entry->command = to;
    if (to == NULL) {
        return line->bytes;
    }
    for (; at < line->bytes && line->text[at] != '%'; at++) {
        if (line->text[at] == '\\' && at + 1 < line->bytes) {
            if (line->text[at + 1] != '%') {
                to[used++] = '\\';
            }
            at++;
        }
        to[used++] = line->text[at];
    }
    to[used] = '\0';
    return at;
}

/* In the input '%' is a line's end and "\%" a '%'. The last line gets an end too. */
static void read_input(reader *state, const reader_line *line, size_t at, crontab_entry *entry)
{
    size_t used = 0;
    char *to = malloc(line->bytes - at + 2);

    entry->input = to;
    if (to == NULL) {
        state->out_of_memory = 1;
        return;
    }
    for (; at < line->bytes; at++) {
        char c = line->text[at];

        if (c == '\\' && at + 1 < line->bytes && line->text[at + 1] == '%') {
            at++;
            c = '%';
        } else if (c == '%') {
            c = '\n';
        }
        to[used++] = c;
    }
    if (used > 0 && to[used - 1] != '\n') {
        to[used++] = '\n';
    }
    to[used] = '\0';
    entry->input_bytes = used;
}

static char *read_schedule(reader *state, const reader_line *line, const split_line *split)
{
    char *text = reader_copy(state, line->text + split->schedule_at,
                             split->schedule_end - split->schedule_at);
    size_t used = 0;

    for (size_t at = 0; text != NULL && text[at] != '\0'; at++) {
        int blank = text[at] == ' ' || text[at] == '\t';

        if (!blank) {
            text[used++] = text[at];
        } else if (text[used - 1] != ' ') {
            text[used++] = ' ';
        }
    }
    if (text != NULL) {
        text[used] = '\0';
    }
    return text;
}

static size_t name_slot(const reader *state, const char *name)
{
    size_t slot = (size_t)setting_hash(SETTING_HASH_START, name, strlen(name)) & (NAME_SLOTS - 1);

    while (state->name_slots[slot] != 0 &&
           strcmp(state->table->entries[state->name_slots[slot] - 1]->name, name) != 0) {
        slot = (slot + 1) & (NAME_SLOTS - 1);
    }
    return slot;
}

/* The name from the comment above: a copy, or NULL with a finding. */
static char *given_name(reader *state)
{
    const reader_comment *comment = &state->comments[COMMENT_NAME];
    const reader_line *line = &comment->line;
    char *name;

    if (comment->bytes == 0 || comment->bytes > JOBSCHED_NAME_BYTES) {
        reader_find(state, CRONTAB_ERROR, line, comment->at,
                    "a job's name has 1 to %d bytes, this one %zu", JOBSCHED_NAME_BYTES,
                    comment->bytes);
        return NULL;
    }
    name = reader_copy(state, line->text + comment->at, comment->bytes);
    for (size_t at = 0, step; name != NULL && name[at] != '\0'; at += step) {
        step = utf8_step(name + at);
        if (step == 0) {
            reader_find(state, CRONTAB_ERROR, line, comment->at + at,
                        "a job's name is UTF-8 without control characters");
            free(name);
            return NULL;
        }
    }
    if (name != NULL && state->name_slots[name_slot(state, name)] != 0) {
        const crontab_entry *other =
            state->table->entries[state->name_slots[name_slot(state, name)] - 1];

        reader_find(state, CRONTAB_ERROR, line, comment->at, "the name '%s' is that of line %zu",
                    name, other->line);
        free(name);
        return NULL;
    }
    return name;
}

/* A word that tells people which line a job is: the base name of the command. */
static void make_slug(const char *command, char slug[SLUG_BYTES + 1])
{
    size_t bytes = strcspn(command, " \t;&|<>()");
    size_t from = 0, used = 0;

    for (size_t i = 0; i + 1 < bytes; i++) {
        from = command[i] == '/' ? i + 1 : from;
    }
    for (size_t i = from; i < bytes && used < SLUG_BYTES; i++) {
        char c = command[i];
        int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_';

        if (plain || used > 0) {
            slug[used++] = plain ? c : '-';
        }
    }
    slug[used] = '\0';
    if (used == 0) {
        memcpy(slug, "job", 4);
    }
}

/* The same line gives the same name on every node and after every edit elsewhere in the file. This
 * is published behaviour: a change here would make every unnamed job another job. */
static char *derived_name(reader *state, const crontab_entry *entry)
{
    char slug[SLUG_BYTES + 1], name[SLUG_BYTES + 64];
    uint64_t digest = setting_digest(entry->settings);
    uint64_t hash = setting_hash(SETTING_HASH_START, entry->schedule, strlen(entry->schedule) + 1);
    size_t first;

    hash = setting_hash(hash, entry->command, strlen(entry->command) + 1);
    hash = setting_hash(hash, entry->input == NULL ? "" : entry->input, entry->input_bytes);
    for (unsigned shift = 0; shift < 64; shift += 8) {
        unsigned char byte = (unsigned char)(digest >> shift);

        hash = setting_hash(hash, &byte, 1);
    }
    make_slug(entry->command, slug);
    (void)snprintf(name, sizeof name, "%s-%012" PRIx64, slug, hash >> 16);
    first = state->name_slots[name_slot(state, name)];
    while (state->name_slots[name_slot(state, name)] != 0) {
        (void)snprintf(name, sizeof name, "%s-%012" PRIx64 "#%zu", slug, hash >> 16,
                       ++state->copies[first - 1] + 1);
    }
    return reader_copy(state, name, strlen(name));
}

static int make_room(reader *state, const reader_line *line, size_t at)
{
    crontab *table = state->table;

    if (state->name_slots == NULL) {
        state->name_slots = calloc(NAME_SLOTS, sizeof *state->name_slots);
        state->copies = calloc(CRONTAB_ENTRIES_MAX, sizeof *state->copies);
        if (state->name_slots == NULL || state->copies == NULL) {
            state->out_of_memory = 1;
            return -1;
        }
    }
    if (table->entry_count == CRONTAB_ENTRIES_MAX) {
        reader_find(state, CRONTAB_ERROR, line, at, "more than %d jobs", CRONTAB_ENTRIES_MAX);
        return -1;
    }
    if (table->entry_count == state->entry_room) {
        size_t room = state->entry_room == 0 ? 16 : state->entry_room * 2;
        crontab_entry **larger = realloc(table->entries, room * sizeof *larger);

        if (larger == NULL) {
            state->out_of_memory = 1;
            return -1;
        }
        table->entries = larger;
        state->entry_room = room;
    }
    return 0;
}

/* Handed over with the blanks in front, so that the column in the library's message is that of the
 * line; not with so many that the text gets too long by them. */
static int check_schedule(reader *state, const reader_line *line, const split_line *split)
{
    size_t from = split->schedule_end <= SCHEDULE_BYTES_MAX ? 0 : split->schedule_at;
    int result = reader_schedule_check(line->text + from, split->schedule_end - from, NULL);
    const jobsched_error *error = jobsched_last_error();

    if (result == JOBSCHED_OK) {
        return 0;
    }
    if (result == JOBSCHED_ENOMEM) {
        state->out_of_memory = 1;
    } else {
        size_t offset = error->position < 0 ? split->schedule_at : from + (size_t)error->position;

        reader_find(state, CRONTAB_ERROR, line, offset < line->bytes ? offset : line->bytes, "%s",
                    error->message);
    }
    return -1;
}

static void fill_entry(reader *state, const reader_line *line, const split_line *split,
                       crontab_entry *entry)
{
    size_t percent;

    entry->line = line->number;
    entry->column = split->schedule_at + 1;
    entry->settings = setting_hold(state->settings);
    entry->zone = state->zone == NULL ? NULL : reader_copy(state, state->zone, strlen(state->zone));
    entry->schedule = read_schedule(state, line, split);
    percent = read_command(state, line, split->command_at, entry);
    if (percent + 1 < line->bytes) {
        read_input(state, line, percent + 1, entry);
    }
    if (state->comments[COMMENT_OPTIONS].line.text != NULL) {
        entry->options = reader_options(state);
        if (entry->options == NULL) {
            return;
        }
    }
    if (entry->command != NULL && entry->command[0] == '\0') {
        reader_find(state, CRONTAB_ERROR, line, split->command_at,
                    "no command stands before the '%%'");
    } else if (!state->out_of_memory) {
        entry->name = state->comments[COMMENT_NAME].line.text != NULL ? given_name(state)
                                                                      : derived_name(state, entry);
    }
}

/* The entry is whole: only now its name and its zone tell whether a time comes of the schedule. H may
 * pick a day that the month lacks, and a zone may lack the one instant that is named. */
static int check_times(reader *state, const reader_line *line, const split_line *split,
                       const crontab_entry *entry)
{
    jobsched_schedule *schedule;
    int result = crontab_entry_schedule(entry, state->name_space, &schedule);

    if (result == JOBSCHED_OK) {
        jobsched_schedule_free(schedule);
        return 0;
    }
    if (result == JOBSCHED_ENOMEM) {
        state->out_of_memory = 1;
    } else if (result == JOBSCHED_ENEVER && strpbrk(entry->schedule, "H~") != NULL) {
        reader_find(state, CRONTAB_ERROR, line, split->schedule_at,
                    "%s with what is picked for job '%s' of namespace '%s'",
                    jobsched_code_text(result), entry->name, state->name_space);
    } else {
        reader_find(state, CRONTAB_ERROR, line, split->schedule_at, "%s",
                    result == JOBSCHED_ENEVER ? jobsched_code_text(result)
                                              : jobsched_last_error()->message);
    }
    return -1;
}

void reader_entry(reader *state, const reader_line *line, size_t at)
{
    split_line split;
    held_entry *held;

    if (reader_split(state, line, at, &split) != 0 || check_schedule(state, line, &split) != 0) {
        return;
    }
    if (state->bad_zone != 0) {
        reader_find(state, CRONTAB_ERROR, line, at,
                    "the time zone of line %zu cannot be used, so this line is not",
                    state->bad_zone);
        return;
    }
    if (make_room(state, line, at) != 0) {
        return;
    }
    held = calloc(1, sizeof *held);
    if (held == NULL) {
        state->out_of_memory = 1;
        return;
    }
    atomic_init(&held->holders, 1);
    fill_entry(state, line, &split, &held->entry);
    if (held->entry.name == NULL || check_times(state, line, &split, &held->entry) != 0) {
        crontab_entry_release(&held->entry);
        return;
    }
    state->name_slots[name_slot(state, held->entry.name)] = state->table->entry_count + 1;
    state->table->entries[state->table->entry_count++] = &held->entry;
}
