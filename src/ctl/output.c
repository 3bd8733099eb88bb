/* output.c: messages, colour and JSON. Writes to standard output and standard error; no state, no
 * locks. */
#include "ctl/output.h"

#include "ctl/instant.h"
#include "ctl/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ctl_is_terminal(FILE *stream)
{
    const char *terminal = getenv("TERM");

    return terminal != NULL && strcmp(terminal, "dumb") != 0 && isatty(fileno(stream));
}

const char *ctl_colour(FILE *stream, int colour)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[1;31m", "\033[33m", "\033[32m"};
    const char *no_colour = getenv("NO_COLOR");

    if ((no_colour != NULL && no_colour[0] != '\0') || !ctl_is_terminal(stream)) {
        return "";
    }
    return codes[colour];
}

static const char *reason_name(int reason)
{
#define NAME(name, number, text)                                                                   \
    case number:                                                                                   \
        return #name;
    switch (reason) {
        JOBSCHED_SYNTAX_MAP(NAME)
    default:
        return "UNKNOWN";
    }
#undef NAME
}

static int refuse_json(const char *text, const jobsched_error *error)
{
    json_t *root = json_object(), *detail = json_object();
    int is_syntax = error->code == JOBSCHED_EPARSE;
    int failed = ctl_json_text(detail, "text", text);

    failed |= ctl_json_text(detail, "code", jobsched_code_name(error->code));
    failed |= ctl_json_text(detail, "reason", is_syntax ? reason_name(error->reason) : NULL);
    failed |= ctl_json_text(detail, "field", is_syntax ? error->field : NULL);
    failed |= ctl_json_text(detail, "message", error->message);
    if (error->position >= 0) {
        failed |= ctl_json_number(detail, "position", error->position);
    }
    if (error->has_range) {
        failed |= ctl_json_number(detail, "low", error->low);
        failed |= ctl_json_number(detail, "high", error->high);
    }
    failed |= ctl_json_value(root, "error", detail);
    if (failed) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static void say_error(const ctl_request *request, const jobsched_error *error)
{
    (void)fputs("jobschedctl: ", stderr);
    ctl_text_print(stderr, error->message);
    (void)fputc('\n', stderr);
    if (request != NULL && request->json) {
        (void)refuse_json(NULL, error); /* the status tells already */
    }
}

static void say(const ctl_request *request, int code, const char *format, va_list arguments)
    JOBSCHED_PRINTF(3, 0);

static void say(const ctl_request *request, int code, const char *format, va_list arguments)
{
    jobsched_error error = {.code = code, .position = -1};

    (void)vsnprintf(error.message, sizeof error.message, format, arguments);
    say_error(request, &error);
}

static int status_of(int code)
{
    switch (code) {
    case JOBSCHED_EINVAL:
    case JOBSCHED_EPARSE:
    case JOBSCHED_ENOBACKEND:
        return CTL_USAGE;
    case JOBSCHED_ENOTFOUND:
        return CTL_NOT_FOUND;
    case JOBSCHED_ESTATE:
    case JOBSCHED_EREFUSED:
    case JOBSCHED_EACCESS:
    case JOBSCHED_ENOTSUP:
        return CTL_REFUSED;
    case JOBSCHED_EUNREACHABLE:
    case JOBSCHED_EUNKNOWN:
        return CTL_UNREACHABLE;
    case JOBSCHED_ESCHEMA:
    case JOBSCHED_EDATALOST:
    case JOBSCHED_EFULL:
        return CTL_UNHEALTHY;
    case JOBSCHED_ETIMEDOUT:
        return CTL_TIMED_OUT;
    default:
        return CTL_FAILED;
    }
}

int ctl_library(const ctl_request *request)
{
    /* The detail is the library's until its next failure, so it is copied. */
    jobsched_error copy = *jobsched_last_error();

    say_error(request, &copy);
    return status_of(copy.code);
}

int ctl_usage(const ctl_request *request, const char *format, ...)
{
    const char *verb = request == NULL || request->verb == NULL ? NULL : request->verb->name;
    va_list arguments;

    va_start(arguments, format);
    say(request, JOBSCHED_EINVAL, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "Try 'jobschedctl help%s%s'.\n", verb == NULL ? "" : " ",
                  verb == NULL ? "" : verb);
    return CTL_USAGE;
}

int ctl_fail(const ctl_request *request, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(request, JOBSCHED_EOS, format, arguments);
    va_end(arguments);
    return CTL_FAILED;
}

int ctl_refuse(const ctl_request *request, const char *text, const jobsched_error *error)
{
    /* The detail is the library's until its next failure, so it is copied. */
    jobsched_error copy = *error;
    size_t length = strlen(text);
    size_t position = copy.position < 0 ? 0 : (size_t)copy.position;

    ctl_text_excerpt(stderr, text, length);
    if (copy.position >= 0 && position <= length && position < CTL_EXCERPT_BYTES) {
        (void)fprintf(stderr, "\n%*s%s^%s", (int)position, "", ctl_colour(stderr, CTL_GREEN),
                      ctl_colour(stderr, CTL_PLAIN));
    }
    (void)fputs("\njobschedctl: ", stderr);
    ctl_text_print(stderr, copy.message);
    (void)fputc('\n', stderr);
    if (request->json) {
        (void)refuse_json(text, &copy); /* the status tells already */
    }
    return CTL_USAGE;
}

int ctl_json_value(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value);
}

int ctl_json_text(json_t *object, const char *name, const char *text)
{
    char *copy;
    int result;

    if (text == NULL) {
        return json_object_set_new(object, name, json_null());
    }
    copy = ctl_text_utf8(text);
    result = copy == NULL ? -1 : json_object_set_new(object, name, json_string(copy));
    free(copy);
    return result;
}

int ctl_json_number(json_t *object, const char *name, int64_t number)
{
    return json_object_set_new(object, name, json_integer(number));
}

int ctl_json_flag(json_t *object, const char *name, int flag)
{
    return json_object_set_new(object, name, json_boolean(flag));
}

int ctl_json_instant(json_t *object, const char *name, int64_t at_ms)
{
    char key[64], text[CTL_INSTANT_BYTES];

    (void)snprintf(key, sizeof key, "%s_ms", name);
    if (at_ms == JOBSCHED_NONE) {
        return json_object_set_new(object, name, json_null()) |
               json_object_set_new(object, key, json_null());
    }
    ctl_instant_utc(at_ms, text);
    return ctl_json_text(object, name, text) | ctl_json_number(object, key, at_ms);
}

int ctl_json_token(json_t *object, const char *name, uint64_t token)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, token);
    return ctl_json_text(object, name, text);
}

int ctl_json_print(json_t *object)
{
    /* In ASCII, so that no locale and no terminal can make something else of it. */
    int failed = object == NULL || json_dumpf(object, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);

    json_decref(object);
    if (failed) {
        return ferror(stdout) ? CTL_FAILED : ctl_fail(NULL, "out of memory");
    }
    (void)fputc('\n', stdout);
    return CTL_OK;
}
