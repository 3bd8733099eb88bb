/* count.h: counts what is really asked of a store. On postgresql: and redis: a proxy on a unix socket
 * reads along; on sqlite: the client library tells of its statements. */
#ifndef TESTS_BENCH_COUNT_H
#define TESTS_BENCH_COUNT_H

#include <stddef.h>
#include <stdint.h>

enum { COUNT_URL_BYTES = 512 };

/* trips: how often something was sent after an answer had come; on sqlite: transactions.
 * requests: commands (redis:), executed statements (the others). */
typedef struct count_totals {
    uint64_t trips, requests;
} count_totals;

/* From here on what is asked through the URL that is written to out_url is counted. The URL must name
 * a unix socket ("host=/folder", "socket=/path"), or a file. Whatever fails ends the program. */
void count_begin(const char *url, char *out_url);
count_totals count_read(void);
void count_end(void);

#endif
