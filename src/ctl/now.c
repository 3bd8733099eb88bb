/* now.c: the one place of jobschedctl that reads the machine's clock; the library offers none.
 * No state, no locks. */
#include "ctl/ctl.h"

#include <time.h>

int64_t ctl_now_ms(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
