/* checks.h: what a backend finds in its store, for the tests of doctor's findings (issue 5). */
#ifndef TESTS_BACKEND_CHECKS_H
#define TESTS_BACKEND_CHECKS_H

#include "cf_support.h"

struct checks {
    char text[8192]; /* "LEVEL ID: MESSAGE\n" for each */
    int level;       /* the highest */
    int count;
};

/* Asks the node's backend. */
void checks_read(struct cf_node *node, struct checks *out_checks);

/* Fails unless a finding begins with the text, as "3 redis.eviction: 'maxmemory-policy' is". */
void checks_expect(const struct checks *checks, const char *text);

/* Asks until one does, as where a server has to hear of its settings first. */
void checks_await(struct cf_node *node, struct checks *out_checks, const char *text);

/* Fails unless a finding has the text anywhere. */
void checks_contain(const struct checks *checks, const char *text);

#endif
