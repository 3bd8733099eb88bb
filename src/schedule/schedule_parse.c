/* schedule_parse.c: the text of a schedule: zone prefix, macros, @every, @at, cron.
 * Screens the bytes before anything looks at them. No clock; no locks. */
#include "schedule/calendar.h"
#include "schedule/instant.h"
#include "schedule/schedule.h"

#include <errno.h>
#include <stdio.h>

#define TEXT_BYTES_DEFAULT 256
/* Beyond this no honest use is known, and list indexes stay small. */
#define TEXT_BYTES_LIMIT 65536

/* What is read from the text, before the schedule is allocated. */
struct parse {
    struct jsi_source source;
    const jobsched_schedule_options *options;
    const jobsched_allocator *allocator;
    struct jsi_zone_cache *cache; /* NULL: none */
    size_t begin, end;            /* of the schedule proper, without blanks around and prefix */
    const struct jsi_zone *zone;
    struct jobsched_schedule *schedule;
};

struct macro {
    const char *name;
    const char *fields;
};

static const struct macro macros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},     {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},        {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"}, {"@every_minute", "* * * * *"}, {"@every_second", "* * * * * *"},
};

static int screen(struct parse *parse, const char *text)
{
    uint64_t limit = parse->options->text_bytes_max;
    if (limit == 0) {
        limit = TEXT_BYTES_DEFAULT;
    }
    size_t length = strnlen(text, (size_t)limit + 1);
    parse->source = (struct jsi_source){.bytes = text, .length = length};
    if (length > limit) {
        parse->source.length = (size_t)limit;
        struct jsi_place place = {"schedule", (size_t)limit, JOBSCHED_SYNTAX_TOO_LONG};
        return jsi_syntax_fail_range(&parse->source, &place, 1, (int64_t)limit,
                                     "the text is longer than %u bytes", (unsigned)limit);
    }
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        if ((byte < 0x20 && byte != '\t') || byte > 0x7e) {
            struct jsi_place place = {"schedule", at, JOBSCHED_SYNTAX_BAD_CHAR};
            return jsi_syntax_fail(&parse->source, &place, "byte 0x%02x is not allowed", byte);
        }
    }
    parse->begin = jsi_skip_blanks(&parse->source, 0, length);
    parse->end = length;
    while (parse->end > parse->begin && jsi_is_blank(text[parse->end - 1])) {
        parse->end--;
    }
    if (parse->begin == parse->end) {
        struct jsi_place place = {"schedule", 0, JOBSCHED_SYNTAX_EMPTY};
        return jsi_syntax_fail(&parse->source, &place, "the text is empty");
    }
    return JOBSCHED_OK;
}

/* Names are parts of letters, digits, '_', '+' and '-' between single slashes, so that
 * none can lead out of the zone directory. */
static bool is_zone_name(const char *name, size_t length)
{
    bool part = false;
    for (size_t at = 0; at < length; at++) {
        char c = name[at];
        if (c == '/') {
            if (!part) {
                return false;
            }
            part = false;
        } else if (jsi_is_letter(c) || jsi_is_digit(c) || c == '_' || c == '+' || c == '-') {
            part = true;
        } else {
            return false;
        }
    }
    return part && length <= JSI_ZONE_NAME_BYTES;
}

/* The tree that counts leap seconds and its twin that does not, and the host's own
 * choice, about which nodes of one cluster could disagree. */
static bool is_refused_name(const char *name)
{
    return strncmp(name, "right/", 6) == 0 || strncmp(name, "posix/", 6) == 0 ||
           strcmp(name, "localtime") == 0 || strcmp(name, "posixrules") == 0;
}

/* What Debian's tzdata no longer holds, nor others that leave out the old links. */
static const char *old_link_hint(const char *name)
{
    static const char *const prefixes[] = {"US/", "Canada/", "Brazil/", "Chile/", "Mexico/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            return "old names like US/Eastern are in the package tzdata-legacy, the new ones are "
                   "like America/New_York";
        }
    }
    return "";
}

static int refuse_zone(const struct jsi_source *source, size_t begin, const char *name,
                       enum jsi_zone_result result)
{
    struct jsi_place place = {"timezone", begin, JOBSCHED_SYNTAX_ZONE};
    int code = JOBSCHED_EPARSE;
    switch (result) {
    case JSI_ZONE_NO_MEMORY:
        return JOBSCHED_ENOMEM;
    case JSI_ZONE_NO_DATA:
        code = jsi_fail_at(JOBSCHED_ENOTFOUND, "timezone", (int64_t)begin,
                           "no time zone data for '%s': install tzdata, or set TZDIR or "
                           "zone_directory to a folder of zone files",
                           name);
        return jsi_fail_reason(code, JOBSCHED_SYNTAX_ZONE);
    case JSI_ZONE_UNREADABLE:
        code =
            jobsched_fail(JOBSCHED_EOS, errno, "the file of time zone '%s' cannot be read", name);
        return jsi_fail_reason(code, JOBSCHED_SYNTAX_ZONE);
    case JSI_ZONE_DAMAGED:
        return jsi_syntax_fail(source, &place, "the file of time zone '%s' is not a zone file",
                               name);
    case JSI_ZONE_LEAP:
        return jsi_syntax_fail(source, &place,
                               "the file of time zone '%s' counts leap seconds, which system "
                               "time does not",
                               name);
    case JSI_ZONE_UNKNOWN:
    case JSI_ZONE_OK:
        break;
    }
    return jsi_syntax_hint(source, &place, old_link_hint(name), "unknown time zone '%s'", name);
}

static int find_zone(struct parse *parse, const struct jsi_source *source, size_t begin, size_t end)
{
    char name[JSI_ZONE_NAME_BYTES + 1];
    int width = (int)(end - begin);
    struct jsi_place place = {"timezone", begin, JOBSCHED_SYNTAX_ZONE};
    if (begin == end) {
        return jsi_syntax_fail(source, &place, "the name of a time zone is missing");
    }
    if (!is_zone_name(source->bytes + begin, end - begin)) {
        return jsi_syntax_fail(source, &place, "'%.*s' is not the name of a time zone", width,
                               source->bytes + begin);
    }
    memcpy(name, source->bytes + begin, end - begin);
    name[end - begin] = '\0';
    if (strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0) {
        return JOBSCHED_OK; /* needs no data */
    }
    if (is_refused_name(name)) {
        return jsi_syntax_fail(source, &place, "'%s' is not the name of a place's time zone", name);
    }
    enum jsi_zone_result result =
        parse->cache != NULL
            ? jsi_zone_cache_find(parse->cache, name, &parse->zone)
            : jsi_zone_load(parse->allocator, parse->options->zone_directory, name, &parse->zone);
    return result == JSI_ZONE_OK ? JOBSCHED_OK : refuse_zone(source, begin, name, result);
}

static bool has_prefix(const struct parse *parse, const char *prefix)
{
    size_t length = strlen(prefix);
    return parse->end - parse->begin >= length &&
           memcmp(parse->source.bytes + parse->begin, prefix, length) == 0;
}

static int parse_zone(struct parse *parse)
{
    const struct jsi_source *source = &parse->source;
    const char *given = parse->options->timezone;
    if (given != NULL && given[0] == '\0') {
        given = NULL;
    }
    size_t name = has_prefix(parse, "TZ=") ? 3 : has_prefix(parse, "CRON_TZ=") ? 8 : 0;
    if (name != 0 && given != NULL) {
        struct jsi_place place = {"timezone", parse->begin, JOBSCHED_SYNTAX_ZONE_TWICE};
        return jsi_syntax_fail(source, &place,
                               "the time zone is given here and beside the schedule");
    }
    if (name != 0) {
        size_t begin = parse->begin + name;
        size_t end = jsi_skip_word(source, begin, parse->end);
        parse->begin = jsi_skip_blanks(source, end, parse->end);
        return find_zone(parse, source, begin, end);
    }
    if (given != NULL) {
        struct jsi_source zone = {.bytes = given,
                                  .length = strnlen(given, JSI_ZONE_NAME_BYTES + 1)};
        return find_zone(parse, &zone, 0, zone.length);
    }
    return JOBSCHED_OK;
}

static int refuse_macro(const struct parse *parse, size_t begin, size_t end, int reason,
                        const char *what)
{
    struct jsi_place place = {"schedule", begin, reason};
    return jsi_syntax_fail(&parse->source, &place, "'%.*s' %s", (int)(end - begin),
                           parse->source.bytes + begin, what);
}

/* Refuses anything but blanks from the offset on. */
static int expect_end(const struct parse *parse, size_t at)
{
    size_t rest = jsi_skip_blanks(&parse->source, at, parse->end);
    if (rest < parse->end) {
        return refuse_macro(parse, rest, parse->end, JOBSCHED_SYNTAX_MACRO, "is one word too many");
    }
    return JOBSCHED_OK;
}

/* The word behind the offset; an absent one lies at the end of the text. */
static void next_word(const struct parse *parse, size_t at, size_t *out_begin, size_t *out_end)
{
    *out_begin = jsi_skip_blanks(&parse->source, at, parse->end);
    *out_end = jsi_skip_word(&parse->source, *out_begin, parse->end);
    if (*out_begin == parse->end) {
        *out_begin = parse->source.length;
        *out_end = parse->source.length;
    }
}

static int parse_every(struct parse *parse, size_t at)
{
    const struct jsi_source *source = &parse->source;
    struct jobsched_schedule *schedule = parse->schedule;
    size_t begin;
    size_t end;
    schedule->kind = JSI_KIND_EVERY;
    next_word(parse, at, &begin, &end);
    int code = jsi_duration_seconds(source, begin, end, &schedule->step);
    if (code != JOBSCHED_OK) {
        return code;
    }
    next_word(parse, end, &begin, &end);
    if (!jsi_is_word(source, begin, end, "from")) {
        return expect_end(parse, begin);
    }
    next_word(parse, end, &begin, &end);
    code = jsi_instant_parse(source, begin, end, parse->zone, &schedule->anchor);
    return code == JOBSCHED_OK ? expect_end(parse, end) : code;
}

static int parse_after(struct parse *parse, size_t at)
{
    size_t begin;
    size_t end;
    parse->schedule->kind = JSI_KIND_AFTER;
    next_word(parse, at, &begin, &end);
    int code = jsi_duration_seconds(&parse->source, begin, end, &parse->schedule->step);
    return code == JOBSCHED_OK ? expect_end(parse, end) : code;
}

static int parse_at(struct parse *parse, size_t at)
{
    size_t begin;
    size_t end;
    parse->schedule->kind = JSI_KIND_AT;
    next_word(parse, at, &begin, &end);
    int code = jsi_instant_parse(&parse->source, begin, end, parse->zone, &parse->schedule->anchor);
    return code == JOBSCHED_OK ? expect_end(parse, end) : code;
}

static bool is_word_in_any_case(const struct parse *parse, size_t begin, size_t end,
                                const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i < length && end - begin == length; i++) {
        char c = parse->source.bytes[begin + i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i]) {
            return false;
        }
    }
    return end - begin == length;
}

/* Macros are case-sensitive; what differs in nothing else is plain enough for a hint. */
static int refuse_unknown(const struct parse *parse, size_t begin, size_t end)
{
    static const char *const words[] = {"@every", "@after", "@at"};
    struct jsi_place place = {"schedule", begin, JOBSCHED_SYNTAX_MACRO};
    const char *meant = NULL;
    char hint[64] = "";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        meant = is_word_in_any_case(parse, begin, end, words[i]) ? words[i] : meant;
    }
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++) {
        meant = is_word_in_any_case(parse, begin, end, macros[i].name) ? macros[i].name : meant;
    }
    if (meant != NULL) {
        (void)snprintf(hint, sizeof hint, "write \"%s\"", meant);
    }
    return jsi_syntax_hint(&parse->source, &place, hint, "'%.*s' is not a known macro",
                           (int)(end - begin), parse->source.bytes + begin);
}

static int parse_macro(struct parse *parse)
{
    const struct jsi_source *source = &parse->source;
    size_t begin = parse->begin;
    size_t end = jsi_skip_word(source, begin, parse->end);
    if (jsi_is_word(source, begin, end, "@every")) {
        return parse_every(parse, end);
    }
    if (jsi_is_word(source, begin, end, "@after")) {
        return parse_after(parse, end);
    }
    if (jsi_is_word(source, begin, end, "@at")) {
        return parse_at(parse, end);
    }
    if (jsi_is_word(source, begin, end, "@reboot")) {
        return refuse_macro(parse, begin, end, JOBSCHED_SYNTAX_NOT_TIME, "is not a time schedule");
    }
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++) {
        if (jsi_is_word(source, begin, end, macros[i].name)) {
            int code = expect_end(parse, end);
            if (code != JOBSCHED_OK) {
                return code;
            }
            struct jsi_source fields = {.bytes = macros[i].fields,
                                        .length = strlen(macros[i].fields)};
            return jsi_cron_parse(&fields, 0, fields.length, NULL, &parse->schedule->cron);
        }
    }
    return refuse_unknown(parse, begin, end);
}

static int parse_body(struct parse *parse)
{
    const char *bytes = parse->source.bytes;
    if (parse->begin < parse->end && bytes[parse->begin] == '@') {
        return parse_macro(parse);
    }
    return jsi_cron_parse(&parse->source, parse->begin, parse->end, parse->options->key,
                          &parse->schedule->cron);
}

static bool never_occurs(const struct jobsched_schedule *schedule)
{
    if (schedule->kind == JSI_KIND_CRON && jsi_cron_has_no_day(&schedule->cron)) {
        return true;
    }
    /* The zone may lack the only date named, and calendars may exclude all; the search is
     * bounded, and one that gave up has shown nothing. */
    const int64_t start = JSI_LOCAL_MIN - 2 * JSI_OFFSET_LIMIT_S;
    bool gave_up = false;
    int64_t first = schedule->calendar_count == 0 ? jsi_parsed_raw_next(schedule, start)
                                                  : jsi_calendars_next(schedule, start, &gave_up);
    return first == JSI_NO_TIME && !gave_up;
}

/* Fills the options that the caller's library knew; the rest stays zero. */
static int take_options(const jobsched_schedule_options *given, jobsched_schedule_options *out)
{
    memset(out, 0, sizeof *out);
    if (given == NULL) {
        return JOBSCHED_OK;
    }
    if (given->struct_size < sizeof given->struct_size) {
        return jsi_fail_at(JOBSCHED_EINVAL, "options", -1,
                           "options were not set up with JOBSCHED_INIT");
    }
    size_t size = given->struct_size < sizeof *out ? given->struct_size : sizeof *out;
    memcpy(out, given, size);
    if (out->text_bytes_max > TEXT_BYTES_LIMIT) {
        return jsi_fail_range(JOBSCHED_EINVAL, "text_bytes_max", -1, 0, TEXT_BYTES_LIMIT,
                              "text_bytes_max is outside 0-%d", TEXT_BYTES_LIMIT);
    }
    return JOBSCHED_OK;
}

/* The policy of section 6, unless the options choose. */
static int set_dst(struct jsi_cron *cron, const jobsched_schedule_options *options)
{
    if (options->dst_gap < JOBSCHED_DST_GAP_DEFAULT || options->dst_gap > JOBSCHED_DST_GAP_SKIP) {
        return jsi_fail_range(JOBSCHED_EINVAL, "dst_gap", -1, JOBSCHED_DST_GAP_DEFAULT,
                              JOBSCHED_DST_GAP_SKIP, "dst_gap '%d' is outside 0-2",
                              options->dst_gap);
    }
    if (options->dst_overlap < JOBSCHED_DST_OVERLAP_DEFAULT ||
        options->dst_overlap > JOBSCHED_DST_OVERLAP_BOTH) {
        return jsi_fail_range(JOBSCHED_EINVAL, "dst_overlap", -1, JOBSCHED_DST_OVERLAP_DEFAULT,
                              JOBSCHED_DST_OVERLAP_BOTH, "dst_overlap '%d' is outside 0-2",
                              options->dst_overlap);
    }
    cron->gap_runs = options->dst_gap == JOBSCHED_DST_GAP_DEFAULT
                         ? !cron->interval_like
                         : options->dst_gap == JOBSCHED_DST_GAP_RUN_AFTER;
    cron->overlap_both = options->dst_overlap == JOBSCHED_DST_OVERLAP_DEFAULT
                             ? cron->interval_like
                             : options->dst_overlap == JOBSCHED_DST_OVERLAP_BOTH;
    return JOBSCHED_OK;
}

/* Reads everything into *parsed and parse->zone, which holds a reference. */
static int parse_text(struct parse *parse, const char *text, struct jobsched_schedule *parsed)
{
    memset(parsed, 0, sizeof *parsed);
    parse->schedule = parsed;
    parse->zone = &jsi_zone_utc;
    int code = screen(parse, text);
    if (code == JOBSCHED_OK) {
        code = parse_zone(parse);
    }
    if (code == JOBSCHED_OK) {
        code = parse_body(parse);
    }
    return code == JOBSCHED_OK ? set_dst(&parsed->cron, parse->options) : code;
}

enum { CALENDARS_MAX = 16 };

/* Ended by NULL; at most CALENDARS_MAX, of which nobody needs so many. */
static int count_calendars(const jobsched_schedule_options *options, size_t *out_count)
{
    size_t count = 0;
    while (options->calendars != NULL && options->calendars[count] != NULL) {
        if (count == CALENDARS_MAX) {
            return jsi_fail_range(JOBSCHED_EINVAL, "calendars", -1, 0, CALENDARS_MAX,
                                  "more than %d calendars", CALENDARS_MAX);
        }
        count++;
    }
    if (options->calendar_policy < JOBSCHED_CALENDAR_SKIP ||
        options->calendar_policy > JOBSCHED_CALENDAR_PREVIOUS_DAY) {
        return jsi_fail_range(JOBSCHED_EINVAL, "calendar_policy", -1, JOBSCHED_CALENDAR_SKIP,
                              JOBSCHED_CALENDAR_PREVIOUS_DAY, "calendar_policy '%d' is outside 0-3",
                              options->calendar_policy);
    }
    *out_count = count;
    return JOBSCHED_OK;
}

/* The one allocation: the struct, the calendars, and the text. */
static int publish(const struct parse *parse, const struct jobsched_schedule *parsed,
                   jobsched_schedule **out_schedule)
{
    size_t calendars = 0;
    int code = count_calendars(parse->options, &calendars);
    if (code != JOBSCHED_OK) {
        return code;
    }
    size_t text_bytes = parse->source.length + 1;
    size_t pointer_bytes = calendars * sizeof(struct jobsched_calendar *);
    struct jobsched_schedule *schedule =
        jsi_new(parse->allocator, sizeof *schedule + pointer_bytes + text_bytes);
    if (schedule == NULL) {
        return JOBSCHED_ENOMEM;
    }
    *schedule = *parsed;
    schedule->allocator = *parse->allocator;
    schedule->zone = parse->zone;
    schedule->calendars = (struct jobsched_calendar **)(void *)(schedule + 1);
    schedule->calendar_policy = parse->options->calendar_policy;
    schedule->calendar_count = calendars;
    for (size_t i = 0; i < calendars; i++) {
        schedule->calendars[i] = jsi_calendar_retain(parse->options->calendars[i]);
    }
    schedule->text = (char *)(schedule + 1) + pointer_bytes;
    memcpy(schedule->text, parse->source.bytes, text_bytes);
    schedule->never = never_occurs(schedule);
    *out_schedule = schedule;
    return JOBSCHED_OK;
}

int jsi_schedule_parse(const char *text, const jobsched_schedule_options *options,
                       struct jsi_zone_cache *cache, jobsched_schedule **out_schedule)
{
    jobsched_schedule_options known;
    jobsched_allocator allocator;
    if (text == NULL || out_schedule == NULL) {
        return jsi_fail_at(JOBSCHED_EINVAL, "", -1, "text or out_schedule is NULL");
    }
    int code = take_options(options, &known);
    if (code == JOBSCHED_OK) {
        code = jsi_alloc_init(&allocator, known.allocator);
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    struct parse parse = {.options = &known, .allocator = &allocator, .cache = cache};
    struct jobsched_schedule parsed;
    code = parse_text(&parse, text, &parsed);
    if (code == JOBSCHED_OK) {
        code = publish(&parse, &parsed, out_schedule);
    }
    if (code != JOBSCHED_OK) {
        jsi_zone_release(parse.zone);
    }
    return code;
}

int jsi_zone_by_name(const char *name, const char *directory, const jobsched_allocator *allocator,
                     const struct jsi_zone **out_zone)
{
    const jobsched_schedule_options options = {.zone_directory = directory};
    struct parse parse = {.options = &options, .allocator = allocator, .zone = &jsi_zone_utc};
    struct jsi_source source = {.bytes = name, .length = strnlen(name, JSI_ZONE_NAME_BYTES + 1)};
    int code = find_zone(&parse, &source, 0, source.length);
    if (code == JOBSCHED_OK) {
        *out_zone = parse.zone;
    }
    return code;
}

int jobsched_schedule_parse(const char *text, const jobsched_schedule_options *options,
                            jobsched_schedule **out_schedule)
{
    return jsi_schedule_parse(text, options, NULL, out_schedule);
}
