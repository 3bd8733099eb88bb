/* redis_support.h: what the redis: backend's own tests share, on top of the conformance suite's
 * nodes and jobs. Every test has a private server of its own, in a folder of its own. */
#ifndef REDIS_SUPPORT_H
#define REDIS_SUPPORT_H

#include "cf_support.h"

#include <hiredis/hiredis.h>

#define REDIS_TEXT_BYTES 512

/* The folder of this test's server (redis.sh). */
extern char redis_directory[64];

/* Notices that nodes opened by redis_open() were told: how many, and the texts one after another. */
extern int redis_notice_count;
extern char redis_notices[4096];

int redis_set_up(void **state); /* starts the server without settings */
int redis_tear_down(void **state);

/* redis.sh; returns its exit status. Settings are words, as "maxmemory=1mb". */
int redis_script(const char *command, const char *directory, const char *settings);

/* Restarts this test's server with other settings. */
void redis_restart(const char *how, const char *settings);

/* Opens a node with a lease and a request timeout, at the test's URL with more behind it. */
struct cf_node *redis_open_at(struct cf_world *world, const char *name, const char *url,
                              int64_t lease_ms, int64_t timeout_ms);
struct cf_node *redis_open(struct cf_world *world, const char *name, int64_t lease_ms);

/* Opens and closes a node at a URL; returns what open answered, after checking that the failure
 * is told in one line that names something. */
int redis_try_url(struct cf_world *world, const char *url, int64_t timeout_ms);

/* Fails unless the last error's message contains the text. */
void redis_expect_message(const char *text);
void redis_expect_no_message(const char *text);

/* One command, past the backend, to the server in a folder; %b and others as in hiredis. The
 * integer that it answers, or the length of the text, or the count of elements; -1 for nil. */
int64_t redis_ask(const char *format, ...);
int64_t redis_ask_in(const char *directory, const char *format, ...);
void redis_text(char *out, size_t bytes, const char *format, ...);

/* How many keys of the test's namespace there are, apart from those that expire. */
int64_t redis_keys(void);

/* A TCP port that nobody listened on just now. */
int redis_free_port(void);

/* Claims occurrence k once, without the suite's patience. */
int redis_claim(struct cf_node *node, jobsched_claim *claim, int64_t timeout_ms);

#endif
