/* request.c: commands in the form of the protocol: "*3\r\n$3\r\nSET\r\n...". Failures of memory are
 * told by jsi_redis_send(). Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

void jsi_redis_begin(struct jsi_redis_lane *lane)
{
    jsi_redis_text_clear(&lane->body);
    lane->arguments = 0;
}

static void add_length(struct jsi_redis_text *text, char kind, size_t length)
{
    char line[32];
    int bytes = snprintf(line, sizeof line, "%c%zu\r\n", kind, length);
    jsi_redis_text_add(text, line, (size_t)bytes);
}

void jsi_redis_add_bytes(struct jsi_redis_lane *lane, const char *bytes, size_t length)
{
    add_length(&lane->body, '$', length);
    jsi_redis_text_add(&lane->body, bytes, length);
    jsi_redis_text_add(&lane->body, "\r\n", 2);
    lane->arguments++;
}

void jsi_redis_add(struct jsi_redis_lane *lane, const char *text)
{
    jsi_redis_add_bytes(lane, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
}

void jsi_redis_add_int(struct jsi_redis_lane *lane, int64_t value)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
    jsi_redis_add_bytes(lane, digits, (size_t)length);
}

void jsi_redis_add_unsigned(struct jsi_redis_lane *lane, uint64_t value)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    jsi_redis_add_bytes(lane, digits, (size_t)length);
}

void jsi_redis_add_exact(struct jsi_redis_lane *lane, int64_t value)
{
    /* 2^53 ms are 285,000 years: what lies beyond is as far away as the bound. */
    value = value > JSI_REDIS_EXACT_MAX ? JSI_REDIS_EXACT_MAX : value;
    jsi_redis_add_int(lane, value < -JSI_REDIS_EXACT_MAX ? -JSI_REDIS_EXACT_MAX : value);
}

void jsi_redis_end(struct jsi_redis_lane *lane)
{
    add_length(&lane->out, '*', lane->arguments);
    jsi_redis_text_add(&lane->out, lane->body.bytes, lane->body.used);
    lane->out.failed |= lane->body.failed;
}

int jsi_redis_ask(struct jsi_redis_lane *lane, ...)
{
    jsi_redis_text_clear(&lane->out);
    jsi_redis_begin(lane);
    va_list words;
    va_start(words, lane);
    for (const char *word = va_arg(words, const char *); word != NULL;
         word = va_arg(words, const char *)) {
        jsi_redis_add(lane, word);
    }
    va_end(words);
    jsi_redis_end(lane);
    int result = jsi_redis_send(lane);
    return result == 0 ? jsi_redis_receive(lane) : result;
}
