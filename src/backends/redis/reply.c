/* reply.c: reads hiredis's replies. Locks: none. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t jsi_redis_count(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
}

const redisReply *jsi_redis_at(const redisReply *reply, size_t index)
{
    return index < jsi_redis_count(reply) ? reply->element[index] : NULL;
}

int64_t jsi_redis_int(const redisReply *reply, size_t index)
{
    const redisReply *at = jsi_redis_at(reply, index);
    if (at == NULL) {
        return 0;
    }
    int64_t value = 0;
    if (at->type == REDIS_REPLY_INTEGER) {
        value = at->integer;
    } else if (at->type == REDIS_REPLY_STRING) {
        value = strtoll(at->str, NULL, 10);
    }
    /* No script of ours says more, and sums of what is within never overflow. */
    value = value > JSI_REDIS_EXACT_MAX ? JSI_REDIS_EXACT_MAX : value;
    return value < -JSI_REDIS_EXACT_MAX ? -JSI_REDIS_EXACT_MAX : value;
}

uint64_t jsi_redis_unsigned(const redisReply *reply, size_t index)
{
    const redisReply *at = jsi_redis_at(reply, index);
    if (at == NULL) {
        return 0;
    }
    if (at->type == REDIS_REPLY_INTEGER) {
        return (uint64_t)at->integer;
    }
    return at->type == REDIS_REPLY_STRING ? strtoull(at->str, NULL, 10) : 0;
}

const char *jsi_redis_text(const redisReply *reply, size_t index)
{
    const redisReply *at = jsi_redis_at(reply, index);
    return at != NULL && (at->type == REDIS_REPLY_STRING || at->type == REDIS_REPLY_STATUS)
               ? at->str
               : "";
}

void jsi_redis_copy(const redisReply *reply, size_t index, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s", jsi_redis_text(reply, index));
}
