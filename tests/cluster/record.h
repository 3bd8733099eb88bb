/* record.h: one line of the log that cluster nodes write and tests read. The log is a file that
 * every process appends to with one write() per record, so that a kill -9 loses nothing that was
 * written before it. */
#ifndef CLUSTER_RECORD_H
#define CLUSTER_RECORD_H

#include <stdint.h>

#define RECORD_MAGIC INT32_C(0x6a736c67)

enum record_what {
    RECORD_START = 1,     /* the callback was entered; stop_reason: what it was told then */
    RECORD_END = 2,       /* the callback is about to return */
    RECORD_STOP_SEEN = 3, /* the callback saw another stop reason */
    RECORD_ALIVE = 4,     /* what the callback was told: stop_reason, and its lease until then */
    RECORD_EVENT = 5,     /* the observer was told */
    RECORD_REFUSED = 6    /* what the callback wrote outside was refused, for its token */
};

/* Instants are CLOCK_REALTIME of the machine, never shifted by the node's offset. */
typedef struct record {
    int64_t at_us;
    int64_t scheduled_ms;
    int64_t last_ms;        /* EVENT: end of a range */
    int64_t lease_until_us; /* ALIVE */
    uint64_t token;
    uint64_t count; /* EVENT */
    int32_t magic;
    int32_t what;
    int32_t kind; /* enum jobsched_kind */
    int32_t attempt;
    int32_t pid;
    int32_t node;  /* index of the node in its test */
    int32_t event; /* enum jobsched_event_kind */
    int32_t outcome;
    int32_t stop_reason;
    int32_t code;
    char job[24];
    char text[80]; /* EVENT: beginning of the message */
} record;

_Static_assert(sizeof(record) == 192, "a record has no padding, and its size is the file format");

#endif
