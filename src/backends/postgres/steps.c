/* steps.c: from one version of the tables to the next. A step that has been released is never changed;
 * add another one, raise JSI_PG_VERSION, and make sql/tables.sql what the step leads to.
 * Functions are replaced after the steps and need none, as long as they keep their parameters and
 * columns. One whose columns (OUT, RETURNS TABLE) change cannot be replaced (42P13), and one whose
 * parameters change would come beside the old one: the step drops the old one first, by its old
 * parameters. Not all of them in one go: what an administrator has granted on a function goes with
 * it, above all on assert_token, which applications call and whose signature therefore stays.
 * No I/O. Locks: none. */
#include "store.h"

const char *jsi_pg_step(int64_t from)
{
    /* Statements with @S@ for the quoted schema, inside a block of PL/pgSQL. */
    static const char *const steps[JSI_PG_VERSION] = {
        NULL, /* there was no version 0 */
    };
    return from >= 0 && from < JSI_PG_VERSION ? steps[from] : NULL;
}
