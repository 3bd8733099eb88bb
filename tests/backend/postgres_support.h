/* postgres_support.h: what the postgresql: backend's own tests share, on top of the conformance
 * suite's nodes and jobs. Every test has a schema of its own on a private server. */
#ifndef POSTGRES_SUPPORT_H
#define POSTGRES_SUPPORT_H

#include "cf_support.h"

#include <libpq-fe.h>

#define POSTGRES_URL_BYTES 512

/* The folder of the server (postgres.sh), and the schema of this test. */
extern const char *postgres_directory;
extern char postgres_schema[64];

/* More URL parameters for the nodes of this test, as "&jobsched_grace=...". */
extern const char *postgres_options;

int postgres_set_up(void **state);
int postgres_tear_down(void **state);

/* The URL of this test's schema as some user, with more parameters. */
void postgres_url(char *out, size_t bytes, const char *user, const char *options);

/* Opens and closes a node at a URL; returns what open answered. */
int postgres_try_url(struct cf_world *world, const char *url);

/* Fails unless the last error's message contains the text. */
void postgres_expect_message(const char *text);

/* Looks at the database, or changes it, past the backend. The format gets the schema's name for
 * each %s. */
int64_t postgres_ask(const char *format);
void postgres_do(const char *format);
PGconn *postgres_connect(void);
void postgres_disconnect(void); /* the one that the above use; made anew when needed */

/* postgres.sh; returns its exit status. */
int postgres_script(const char *command, const char *directory, const char *argument);

/* Ends the server session that shows a node alive. */
void postgres_terminate(const char *node_name);

#endif
