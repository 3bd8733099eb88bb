/* peer_croncpp.cpp: croncpp (https://github.com/mariusbancila/croncpp) as a peer: one header, which
 * uses the local time of the process; run with TZ=UTC. */
#include "bench/peer.h"

#include <croncpp.h>

static void *parse(const char *text)
{
    try {
        return new cron::cronexpr(cron::make_cron(text));
    } catch (const std::exception &) {
        return nullptr;
    }
}

static int64_t next(void *schedule, int64_t after_s)
{
    try {
        std::time_t at = cron::cron_next(*static_cast<cron::cronexpr *>(schedule),
                                         static_cast<std::time_t>(after_s));
        return at == cron::INVALID_TIME ? -1 : static_cast<int64_t>(at);
    } catch (const std::exception &) {
        return -1;
    }
}

static void release(void *schedule)
{
    delete static_cast<cron::cronexpr *>(schedule);
}

extern "C" const struct peer peer_croncpp = {"croncpp", parse, next, release};
