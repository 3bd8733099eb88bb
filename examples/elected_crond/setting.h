/* setting.h: the NAME=value lines in force for an entry, and the environment of its command. */
#ifndef ELECTED_CROND_SETTING_H
#define ELECTED_CROND_SETTING_H

#include <stddef.h>
#include <stdint.h>

/* Most settings that may be in force at once: the environment of a command is made by comparing
 * each with each. */
#define SETTINGS_MAX 256

/* A chain, newest first. Entries share its tail, so a file costs memory in proportion to its size
 * however its lines are mixed. Immutable but for the count of holders, which is atomic: the last
 * holder may be a worker thread. NULL is the empty chain. */
typedef struct setting setting;

/* Puts a setting on top; the caller's hold on older passes to the result. NULL when out of memory,
 * and older is still the caller's. */
setting *setting_push(setting *older, const char *name, size_t name_bytes, const char *value,
                      size_t value_bytes);
setting *setting_hold(setting *top);
void setting_release(setting *top);

/* The value in force, or NULL. Borrowed. */
const char *setting_value(const setting *top, const char *name);

/* How many different names are set. */
size_t setting_count(const setting *top);

/* Depends on the settings in force that a command can see, not on their order in the file. */
uint64_t setting_digest(const setting *top);

/* FNV-1a, 64 bits; start with SETTING_HASH_START. Part of the published job names: never changed. */
#define SETTING_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t setting_hash(uint64_t hash, const void *bytes, size_t count);

/* The environment for a command, ended by NULL, to be released with environment_free(): inherited
 * variables but JOBSCHED_..., which may hold the lock's password; over them the settings, over them
 * extra ("NAME=value", ended by NULL). PATH gets a value if nothing sets it. NULL: out of memory. */
char **environment_new(char *const *inherited, const setting *top, char *const *extra);
void environment_free(char **environment);

#endif
