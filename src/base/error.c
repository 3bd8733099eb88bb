/* error.c: the thread's last error, and the texts of all tables in the public headers.
 * Thread-local state only; no locks. */
#include "base/error.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local jobsched_error last_error = {.position = -1, .field = ""};

static void record(int code, int system_errno, const char *field, int64_t position,
                   const char *format, va_list arguments) JOBSCHED_PRINTF(5, 0);

static void record(int code, int system_errno, const char *field, int64_t position,
                   const char *format, va_list arguments)
{
    /* Formatted aside first: an argument may point into the message being replaced. */
    char message[JOBSCHED_MESSAGE_BYTES];
    (void)vsnprintf(message, sizeof message, format, arguments); /* cut where too long */
    /* What is told of a value that was wrong, or of a server's answer, may hold anything. */
    jsi_text_clean(message);
    memset(&last_error, 0, sizeof last_error);
    last_error.code = code;
    last_error.system_errno = system_errno;
    last_error.position = position;
    last_error.field = field;
    memcpy(last_error.message, message, strlen(message) + 1); /* no stale bytes for who copies it */
}

int jobsched_fail(int code, int system_errno, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(code, system_errno, "", -1, format, arguments);
    va_end(arguments);
    return code;
}

int jsi_fail_at(int code, const char *field, int64_t position, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(code, 0, field, position, format, arguments);
    va_end(arguments);
    return code;
}

int jsi_fail_range(int code, const char *field, int64_t position, int64_t low, int64_t high,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(code, 0, field, position, format, arguments);
    va_end(arguments);
    last_error.has_range = 1;
    last_error.low = low;
    last_error.high = high;
    return code;
}

int jsi_fail_reason(int code, int reason)
{
    last_error.reason = reason;
    return code;
}

const jobsched_error *jobsched_last_error(void)
{
    return &last_error;
}

const char *jobsched_version(void)
{
    return JOBSCHED_VERSION;
}

const char *jobsched_code_name(int code)
{
    switch (code) {
#define NAME_CASE(name, number, text)                                                              \
    case number:                                                                                   \
        return #name;
        JOBSCHED_ERROR_MAP(NAME_CASE)
#undef NAME_CASE
    default:
        return "UNLISTED";
    }
}

const char *jobsched_code_text(int code)
{
    switch (code) {
#define TEXT_CASE(name, number, text)                                                              \
    case number:                                                                                   \
        return text;
        JOBSCHED_ERROR_MAP(TEXT_CASE)
    default:
        return "a code that is not in the table";
    }
}

const char *jobsched_kind_name(int kind)
{
    switch (kind) {
        JOBSCHED_KIND_MAP(TEXT_CASE)
    default:
        return "unlisted";
    }
}

const char *jobsched_outcome_name(int outcome)
{
    switch (outcome) {
        JOBSCHED_OUTCOME_MAP(TEXT_CASE)
    default:
        return "unlisted";
    }
}

const char *jobsched_stop_reason_name(int reason)
{
    switch (reason) {
        JOBSCHED_STOP_MAP(TEXT_CASE)
    default:
        return "unlisted";
    }
}

const char *jobsched_answer_name(int answer)
{
    switch (answer) {
        JOBSCHED_ANSWER_MAP(TEXT_CASE)
    default:
        return "unlisted";
    }
#undef TEXT_CASE
}

const char *jobsched_event_name(int kind)
{
    switch (kind) {
#define EVENT_CASE(name, number, level, text)                                                      \
    case number:                                                                                   \
        return text;
        JOBSCHED_EVENT_MAP(EVENT_CASE)
#undef EVENT_CASE
    default:
        return "unlisted";
    }
}
