/* redis_fake.h: a server that is none: it answers what a test wants to be answered. It has a thread of
 * its own, which asserts nothing. */
#ifndef REDIS_FAKE_H
#define REDIS_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

/* Answers "INFO" with info, "SCRIPT" with a digest, and everything else with other; all in the
 * protocol's form but for info, which becomes a text. An info that begins with '-' is sent as it is. */
struct redis_fake {
    char path[108];
    const char *info, *other;
    pthread_t thread;
    int listener;
    _Atomic int stops;
};

int redis_fake_start(struct redis_fake *fake, const char *path, const char *info,
                     const char *other);
void redis_fake_stop(struct redis_fake *fake);

#endif
