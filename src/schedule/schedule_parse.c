/* schedule_parse.c: the text of a schedule: zone prefix, macros, @every, @at, cron.
 * Screens the bytes before anything looks at them. No clock; no locks. */
#include "schedule/instant.h"
#include "schedule/parsed.h"

#define TEXT_BYTES_DEFAULT 256
/* Beyond this no honest use is known, and list indexes stay small. */
#define TEXT_BYTES_LIMIT 65536
#define ZONE_NAME_BYTES  64

/* What is read from the text, before the schedule is allocated. */
struct parse {
    struct jsi_source source;
    const jobsched_schedule_options *options;
    size_t begin, end; /* of the schedule proper, without blanks around and prefix */
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
    return part && length <= ZONE_NAME_BYTES;
}

static int find_zone(struct parse *parse, const struct jsi_source *source, size_t begin, size_t end)
{
    const char *name = source->bytes + begin;
    int width = (int)(end - begin);
    struct jsi_place place = {"timezone", begin, JOBSCHED_SYNTAX_ZONE};
    if (begin == end) {
        return jsi_syntax_fail(source, &place, "the name of a time zone is missing");
    }
    if (!is_zone_name(name, end - begin)) {
        return jsi_syntax_fail(source, &place, "'%.*s' is not the name of a time zone", width,
                               name);
    }
    if (!jsi_is_word(source, begin, end, "UTC") && !jsi_is_word(source, begin, end, "Etc/UTC")) {
        (void)jsi_fail_at(JOBSCHED_ENOTSUP, "timezone", (int64_t)begin,
                          "time zone '%.*s' is not supported yet", width, name);
        return jsi_fail_reason(JOBSCHED_ENOTSUP, JOBSCHED_SYNTAX_ZONE);
    }
    parse->zone = &jsi_zone_utc;
    return JOBSCHED_OK;
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
    parse->zone = &jsi_zone_utc;
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
        struct jsi_source zone = {given, strnlen(given, ZONE_NAME_BYTES + 1)};
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

static int parse_at(struct parse *parse, size_t at)
{
    size_t begin;
    size_t end;
    parse->schedule->kind = JSI_KIND_AT;
    next_word(parse, at, &begin, &end);
    int code = jsi_instant_parse(&parse->source, begin, end, parse->zone, &parse->schedule->anchor);
    return code == JOBSCHED_OK ? expect_end(parse, end) : code;
}

static int parse_macro(struct parse *parse)
{
    const struct jsi_source *source = &parse->source;
    size_t begin = parse->begin;
    size_t end = jsi_skip_word(source, begin, parse->end);
    if (jsi_is_word(source, begin, end, "@every")) {
        return parse_every(parse, end);
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
            struct jsi_source fields = {macros[i].fields, strlen(macros[i].fields)};
            return jsi_cron_parse(&fields, 0, fields.length, NULL, &parse->schedule->cron);
        }
    }
    return refuse_macro(parse, begin, end, JOBSCHED_SYNTAX_MACRO, "is not a known macro");
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
    /* The zone may lack the only date named; the search is bounded. */
    return jsi_parsed_next(schedule, JSI_LOCAL_MIN - 2 * JSI_OFFSET_LIMIT_S) == JSI_NO_TIME;
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

int jobsched_schedule_parse(const char *text, const jobsched_schedule_options *options,
                            jobsched_schedule **out_schedule)
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
    struct parse parse = {.options = &known};
    struct jobsched_schedule parsed;
    memset(&parsed, 0, sizeof parsed);
    parse.schedule = &parsed;
    if (code == JOBSCHED_OK) {
        code = screen(&parse, text);
    }
    if (code == JOBSCHED_OK) {
        code = parse_zone(&parse);
    }
    if (code == JOBSCHED_OK) {
        code = parse_body(&parse);
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    size_t text_bytes = parse.source.length + 1;
    struct jobsched_schedule *schedule = jsi_new(&allocator, sizeof *schedule + text_bytes);
    if (schedule == NULL) {
        return JOBSCHED_ENOMEM;
    }
    *schedule = parsed;
    schedule->allocator = allocator;
    schedule->zone = parse.zone;
    schedule->cron.gap_runs = !schedule->cron.interval_like;
    schedule->cron.overlap_both = schedule->cron.interval_like;
    memcpy(schedule->text, text, text_bytes);
    schedule->never = never_occurs(schedule);
    *out_schedule = schedule;
    return JOBSCHED_OK;
}
