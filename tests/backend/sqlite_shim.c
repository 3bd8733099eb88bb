/* sqlite_shim.c: see sqlite_shim.h. Any thread. */
#include "backend/sqlite_shim.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic int write_result, sync_result, writes_left, syncs_left;
static _Atomic int64_t clock_offset_ms;

/* The real file's object follows this one in memory. */
struct shim_file {
    sqlite3_file base;
    sqlite3_file *real;
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct shim_file *)file)->real;
}

/* The result that was ordered, once `left` has been used up; else 0. */
static int ordered(_Atomic int *result, _Atomic int *left)
{
    int wanted = atomic_load(result);
    if (wanted == SQLITE_OK || atomic_fetch_sub(left, 1) > 0) {
        return SQLITE_OK;
    }
    return wanted;
}

static int shim_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods == NULL ? SQLITE_OK : real->pMethods->xClose(real);
}

static int shim_read(sqlite3_file *file, void *data, int count, sqlite3_int64 offset)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xRead(real, data, count, offset);
}

static int shim_write(sqlite3_file *file, const void *data, int count, sqlite3_int64 offset)
{
    sqlite3_file *real = real_of(file);
    int result = ordered(&write_result, &writes_left);
    return result != SQLITE_OK ? result : real->pMethods->xWrite(real, data, count, offset);
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xTruncate(real, size);
}

static int shim_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *real = real_of(file);
    int result = ordered(&sync_result, &syncs_left);
    return result != SQLITE_OK ? result : real->pMethods->xSync(real, flags);
}

static int shim_file_size(sqlite3_file *file, sqlite3_int64 *out_size)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xFileSize(real, out_size);
}

static int shim_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xLock(real, level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xUnlock(real, level);
}

static int shim_check_reserved(sqlite3_file *file, int *out_result)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xCheckReservedLock(real, out_result);
}

static int shim_control(sqlite3_file *file, int operation, void *argument)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xFileControl(real, operation, argument);
}

static int shim_sector(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xSectorSize(real);
}

static int shim_characteristics(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xDeviceCharacteristics(real);
}

static int shim_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xShmMap(real, page, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xShmLock(real, offset, count, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    real->pMethods->xShmBarrier(real);
}

static int shim_shm_unmap(sqlite3_file *file, int remove)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xShmUnmap(real, remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_file_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_reserved,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_characteristics,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

static sqlite3_vfs *real_vfs(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags)
{
    struct shim_file *shim = (struct shim_file *)file;
    shim->real = (sqlite3_file *)(void *)(shim + 1);
    shim->base.pMethods = NULL;
    int result = real_vfs(vfs)->xOpen(real_vfs(vfs), name, shim->real, flags, out_flags);
    if (shim->real->pMethods != NULL) {
        shim->base.pMethods = &methods;
    }
    return result;
}

static int shim_now(sqlite3_vfs *vfs, sqlite3_int64 *out_julian_ms)
{
    int result = real_vfs(vfs)->xCurrentTimeInt64(real_vfs(vfs), out_julian_ms);
    *out_julian_ms += atomic_load(&clock_offset_ms);
    return result;
}

static sqlite3_vfs shim_vfs;

int sqlite_shim_register(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    if (real == NULL) {
        return -1;
    }
    /* What is not replaced works on the real VFS's own data, so it must not use the object. */
    shim_vfs = *real;
    shim_vfs.pNext = NULL;
    shim_vfs.zName = "shim";
    shim_vfs.pAppData = real;
    shim_vfs.szOsFile = (int)sizeof(struct shim_file) + real->szOsFile;
    shim_vfs.xOpen = shim_open;
    shim_vfs.xCurrentTimeInt64 = shim_now;
    return sqlite3_vfs_register(&shim_vfs, 0) == SQLITE_OK ? 0 : -1;
}

void sqlite_shim_fail_writes(int result, int after)
{
    atomic_store(&writes_left, after);
    atomic_store(&write_result, result);
}

void sqlite_shim_fail_syncs(int result, int after)
{
    atomic_store(&syncs_left, after);
    atomic_store(&sync_result, result);
}

void sqlite_shim_clock(int64_t offset_ms)
{
    atomic_store(&clock_offset_ms, offset_ms);
}
