/* setting.c: chains of settings and the environment made of them. No I/O.
 * Locks: none; chains are immutable, the counts of their holders atomic. */
#include "setting.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PATH "PATH=/usr/bin:/bin"

struct setting {
    atomic_size_t holders;
    setting *older;
    size_t count;    /* different names from here down */
    uint64_t digest; /* of those a command can see */
    size_t name_bytes;
    char text[]; /* NAME=value */
};

uint64_t setting_hash(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ from[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Mail is never sent, so MAILTO must not change the identity of a job. */
static uint64_t digest_of(const setting *one)
{
    if (one->name_bytes == 6 && memcmp(one->text, "MAILTO", 6) == 0) {
        return 0;
    }
    return setting_hash(SETTING_HASH_START, one->text, strlen(one->text));
}

static const setting *find(const setting *top, const char *name, size_t name_bytes)
{
    for (const setting *one = top; one != NULL; one = one->older) {
        if (one->name_bytes == name_bytes && memcmp(one->text, name, name_bytes) == 0) {
            return one;
        }
    }
    return NULL;
}

setting *setting_push(setting *older, const char *name, size_t name_bytes, const char *value,
                      size_t value_bytes)
{
    const setting *hidden = find(older, name, name_bytes);
    setting *one = malloc(sizeof *one + name_bytes + value_bytes + 2);

    if (one == NULL) {
        return NULL;
    }
    atomic_init(&one->holders, 1);
    one->older = older;
    one->name_bytes = name_bytes;
    memcpy(one->text, name, name_bytes);
    one->text[name_bytes] = '=';
    memcpy(one->text + name_bytes + 1, value, value_bytes);
    one->text[name_bytes + 1 + value_bytes] = '\0';
    one->count = setting_count(older) + (hidden == NULL ? 1 : 0);
    /* A sum, so that neither the order of lines nor a setting that was replaced counts. */
    one->digest = setting_digest(older) + digest_of(one);
    if (hidden != NULL) {
        one->digest -= digest_of(hidden);
    }
    return one;
}

setting *setting_hold(setting *top)
{
    if (top != NULL) {
        atomic_fetch_add_explicit(&top->holders, 1, memory_order_relaxed);
    }
    return top;
}

void setting_release(setting *top)
{
    while (top != NULL && atomic_fetch_sub_explicit(&top->holders, 1, memory_order_acq_rel) == 1) {
        setting *older = top->older;

        free(top);
        top = older;
    }
}

const char *setting_value(const setting *top, const char *name)
{
    const setting *one = find(top, name, strlen(name));

    return one == NULL ? NULL : one->text + one->name_bytes + 1;
}

size_t setting_count(const setting *top)
{
    return top == NULL ? 0 : top->count;
}

uint64_t setting_digest(const setting *top)
{
    return top == NULL ? 0 : top->digest;
}

static int has_name(char *const *list, size_t count, const char *item)
{
    size_t name_bytes = strcspn(item, "=");

    for (size_t i = 0; i < count; i++) {
        if (strncmp(list[i], item, name_bytes) == 0 && list[i][name_bytes] == '=') {
            return 1;
        }
    }
    return 0;
}

static int append(char **list, size_t *count, const char *item)
{
    if (!has_name(list, *count, item)) {
        list[*count] = strdup(item);
        if (list[*count] == NULL) {
            return -1;
        }
        *count += 1;
    }
    return 0;
}

static size_t length_of(char *const *list)
{
    size_t count = 0;

    while (list[count] != NULL) {
        count++;
    }
    return count;
}

char **environment_new(char *const *inherited, const setting *top, char *const *extra)
{
    size_t count = 0;
    int failed = 0;
    size_t most = length_of(extra) + length_of(inherited) + 2;

    for (const setting *one = top; one != NULL; one = one->older) {
        most++;
    }

    char **list = calloc(most, sizeof *list);

    if (list == NULL) {
        return NULL;
    }
    /* The first of a name stays, so what comes over the others goes in first. */
    for (size_t i = 0; extra[i] != NULL; i++) {
        failed |= append(list, &count, extra[i]);
    }
    for (const setting *one = top; one != NULL; one = one->older) {
        failed |= append(list, &count, one->text);
    }
    for (size_t i = 0; inherited[i] != NULL; i++) {
        if (strncmp(inherited[i], "JOBSCHED_", 9) != 0 && strchr(inherited[i], '=') != NULL) {
            failed |= append(list, &count, inherited[i]);
        }
    }
    failed |= append(list, &count, DEFAULT_PATH);
    if (failed) {
        environment_free(list);
        return NULL;
    }
    return list;
}

void environment_free(char **environment)
{
    if (environment == NULL) {
        return;
    }
    for (size_t i = 0; environment[i] != NULL; i++) {
        free(environment[i]);
    }
    free(environment);
}
