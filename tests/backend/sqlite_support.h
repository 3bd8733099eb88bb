/* sqlite_support.h: what the sqlite: backend's own tests share, on top of the conformance suite's
 * nodes and jobs. Every test has a database file of its own. */
#ifndef SQLITE_SUPPORT_H
#define SQLITE_SUPPORT_H

#include "cf_support.h"

#include <sqlite3.h>

#define SQLITE_PATH_BYTES 256

/* The directory of this program's files, and the database of this test. */
extern char sqlite_directory[];
extern char sqlite_path[SQLITE_PATH_BYTES];

/* Around the whole program. */
int sqlite_make_directory(void **state);
int sqlite_remove_directory(void **state);

/* Before a test; the second puts the shim (sqlite_shim.h) under the store. */
int sqlite_set_up(void **state);
int sqlite_set_up_shim(void **state);
int sqlite_tear_down(void **state);

/* Opens and closes a node at a URL; returns what open answered. */
int sqlite_try_url(struct cf_world *world, const char *url);
int sqlite_try_path(struct cf_world *world, const char *path);

/* Fails unless the last error's message contains the text. */
void sqlite_expect_message(const char *text);

/* Looks at the database, or changes it, past the backend. */
int64_t sqlite_ask(const char *sql);
void sqlite_do(const char *path, const char *sql);

/* The whole file, or -1 where there is none; free the bytes. */
int64_t sqlite_read_file(const char *path, void **out_bytes);
void sqlite_write_file(const char *path, const void *bytes, size_t size);
void sqlite_name(char *out_path, const char *suffix); /* sqlite_path with a suffix */

#endif
