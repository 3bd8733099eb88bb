/* peer_ccronexpr.c: ccronexpr (https://github.com/staticlibs/ccronexpr) as a peer. It is compiled by
 * the user's copy, with CRON_USE_LOCAL_TIME unset: UTC. */
#include "bench/peer.h"

#include <ccronexpr.h>

#include <stdlib.h>
#include <string.h>

static void *parse(const char *text)
{
    const char *error = NULL;
    cron_expr *schedule = malloc(sizeof *schedule);

    if (schedule != NULL) {
        memset(schedule, 0, sizeof *schedule);
        cron_parse_expr(text, schedule, &error);
    }
    if (error != NULL) {
        free(schedule);
        return NULL;
    }
    return schedule;
}

static int64_t next(void *schedule, int64_t after_s)
{
    time_t at = cron_next(schedule, (time_t)after_s);

    return at == (time_t)-1 ? -1 : (int64_t)at;
}

const struct peer peer_ccronexpr = {"ccronexpr", parse, next, free};
