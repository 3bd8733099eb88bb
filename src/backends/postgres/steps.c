/* steps.c: from one version of the tables to the next. A step that has been released is never changed;
 * add another one, raise JSI_PG_VERSION, and make sql/tables.sql what the step leads to. Functions
 * need no step: all of them are replaced. No I/O. Locks: none. */
#include "store.h"

const char *jsi_pg_step(int64_t from)
{
    /* Statements with @S@ for the quoted schema, inside a block of PL/pgSQL. */
    static const char *const steps[JSI_PG_VERSION] = {
        NULL, /* there was no version 0 */
    };
    return from >= 0 && from < JSI_PG_VERSION ? steps[from] : NULL;
}
