/* sqlite_shim.h: a SQLite VFS between the backend and the real one, whose disk and clock do what
 * a test says. Named "shim": "sqlite:/path?vfs=shim". */
#ifndef SQLITE_SHIM_H
#define SQLITE_SHIM_H

#include <stdint.h>

/* Registers the VFS. Call once per process. */
int sqlite_shim_register(void);

/* From now on writes (or syncs) answer this SQLite result; 0: they work. The first `after` of
 * them still work. */
void sqlite_shim_fail_writes(int result, int after);
void sqlite_shim_fail_syncs(int result, int after);

/* Moves the store's clock. */
void sqlite_shim_clock(int64_t offset_ms);

#endif
