/* cron_pick.c: the value that H and ~ pick. Published in docs/schedules.md: changing it
 * would move schedules of every user. No state, no locks. */
#include "schedule/cron.h"

static uint64_t fnv1a(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* One step of splitmix64: spreads the few bits in which short keys differ. */
static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t jsi_cron_pick(const char *key, enum jsi_field field, size_t element)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = key; *at != '\0'; at++) {
        hash = fnv1a(hash, (unsigned char)*at);
    }
    hash = fnv1a(hash, 0);
    hash = fnv1a(hash, (unsigned char)field);
    hash = fnv1a(hash, (unsigned char)(element & 0xff));
    return mix(hash);
}
