/* params.c: the parameters of the next statement, as text. Locks: the caller owns the lane. */
#include "store.h"

#include <stdio.h>
#include <string.h>

void jsi_pg_params(struct jsi_pg_lane *lane)
{
    jsi_pg_text_clear(&lane->values);
    lane->param_count = 0;
    lane->in_array = 0;
}

static void begin(struct jsi_pg_lane *lane)
{
    if (lane->param_count < JSI_PG_PARAMS_MAX) { /* the statements are ours: none has more */
        lane->offsets[lane->param_count++] = lane->values.used;
    }
}

static void end(struct jsi_pg_lane *lane)
{
    jsi_pg_text_add(&lane->values, "\0", 1);
}

/* Before each element but the first. */
static void separate(struct jsi_pg_lane *lane)
{
    if (lane->in_array++ > 1) {
        jsi_pg_text_add(&lane->values, ",", 1);
    }
}

static void add_plain(struct jsi_pg_lane *lane, const char *digits)
{
    if (lane->in_array) {
        separate(lane);
        jsi_pg_text_add(&lane->values, digits, strlen(digits));
    } else {
        begin(lane);
        jsi_pg_text_add(&lane->values, digits, strlen(digits));
        end(lane);
    }
}

void jsi_pg_param_int(struct jsi_pg_lane *lane, int64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%lld", (long long)value);
    add_plain(lane, digits);
}

void jsi_pg_param_unsigned(struct jsi_pg_lane *lane, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    add_plain(lane, digits);
}

/* The length of the UTF-8 sequence at a place as PostgreSQL takes it (RFC 3629), or 0. */
static size_t sequence(const unsigned char *at)
{
    if (at[0] < 0x80) {
        return 1;
    }
    size_t length = at[0] >= 0xc2 && at[0] <= 0xdf   ? 2
                    : at[0] >= 0xe0 && at[0] <= 0xef ? 3
                    : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                     : 0;
    for (size_t i = 1; i < length; i++) { /* stops at the end: zero is no continuation */
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) {
        return 0;
    }
    return length;
}

static void add_text(struct jsi_pg_lane *lane, const char *text, int quoted)
{
    while (*text != '\0') {
        size_t length = sequence((const unsigned char *)text);
        if (length == 0) {
            jsi_pg_text_add(&lane->values, "?", 1);
            length = 1;
        } else {
            if (quoted && (*text == '"' || *text == '\\')) {
                jsi_pg_text_add(&lane->values, "\\", 1);
            }
            jsi_pg_text_add(&lane->values, text, length);
        }
        text += length;
    }
}

void jsi_pg_param_text(struct jsi_pg_lane *lane, const char *text)
{
    if (!lane->in_array) {
        begin(lane);
        if (text == NULL) {
            lane->offsets[lane->param_count - 1] = SIZE_MAX;
            return;
        }
        add_text(lane, text, 0);
        end(lane);
    } else if (text == NULL) {
        add_plain(lane, "NULL");
    } else {
        separate(lane);
        jsi_pg_text_add(&lane->values, "\"", 1);
        add_text(lane, text, 1);
        jsi_pg_text_add(&lane->values, "\"", 1);
    }
}

void jsi_pg_array_begin(struct jsi_pg_lane *lane)
{
    begin(lane);
    jsi_pg_text_add(&lane->values, "{", 1);
    lane->in_array = 1;
}

void jsi_pg_array_end(struct jsi_pg_lane *lane)
{
    lane->in_array = 0;
    jsi_pg_text_add(&lane->values, "}", 1);
    end(lane);
}

void jsi_pg_history_params(struct jsi_pg_lane *lane)
{
    const jobsched_backend_config *config = &lane->store->config;
    /* Halved, because the server adds and subtracts them. */
    jsi_pg_param_int(lane, config->history_count > INT64_MAX / 2 ? INT64_MAX / 2
                                                                 : (int64_t)config->history_count);
    jsi_pg_param_int(lane, config->history_age_ms <= 0 ? INT64_MAX / 2 : config->history_age_ms);
}
