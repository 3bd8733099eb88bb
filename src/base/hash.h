/* hash.h: two small, published hash functions. Not for adversaries. */
#ifndef JSI_HASH_H
#define JSI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define JSI_FNV1A64_INIT UINT64_C(0xcbf29ce484222325)

/* FNV-1a, 64 bits, continued from a state. */
static inline uint64_t jsi_fnv1a64(uint64_t state, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) {
        state = (state ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return state;
}

/* One step of splitmix64: spreads close inputs over all bits. */
static inline uint64_t jsi_mix64(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

#endif
