/* pooler.c: whether a connection pooler gives each connection a session of its own. Only then do
 * session locks mean something. Found out before anything is set in a session that may be shared
 * with other applications.
 * Locks: the caller owns the lane. */
#include "store.h"

/* In how many rounds two connections are asked who serves them. Where sessions are shared out, the
 * two get the same one in turn; or, with other traffic, another one each time. */
#define ROUNDS 3

int jsi_pg_fail_pooler(const struct jsi_pg_lane *lane)
{
    return jobsched_fail(JOBSCHED_EREFUSED, 0,
                         "'%s:%s' is a connection pooler that shares sessions out, so that session "
                         "locks mean nothing; give the PostgreSQL server itself, set the pooler to "
                         "'pool_mode=session', or add 'jobsched_mode=row' to the lock URL",
                         PQhost(lane->conn), PQport(lane->conn));
}

static int ask(struct jsi_pg_lane *lane, int64_t *out_pid)
{
    jsi_pg_params(lane);
    int result = jsi_pg_query(lane, "SELECT pg_backend_pid()", 0);
    if (result == 0) {
        *out_pid = jsi_pg_int(lane, 0, 0);
    }
    return result;
}

static int compare(struct jsi_pg_lane *lane, int64_t pid, struct jsi_pg_lane *other)
{
    int64_t first_pid = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t other_pid = 0, again_pid = 0;
        int result = ask(other, &other_pid);
        if (result == 0) {
            result = ask(lane, &again_pid);
        }
        if (result != 0) {
            return result;
        }
        first_pid = round == 0 ? other_pid : first_pid;
        if (again_pid != pid || other_pid != first_pid || other_pid == pid) {
            return jsi_pg_fail_pooler(lane);
        }
    }
    return 0;
}

int jsi_pg_pooler(struct jsi_pg_lane *lane, int64_t pid)
{
    struct jsi_pg_lane other = {.store = lane->store,
                                .kind = JOBSCHED_LANE_ADMIN,
                                .sql.allocator = &lane->store->config.allocator,
                                .values.allocator = &lane->store->config.allocator};
    jsi_pg_budget(&other, jsi_pg_budget_left(lane));
    int result = jsi_pg_connect(&other);
    if (result == 0) {
        result = compare(lane, pid, &other);
    }
    jsi_pg_connect_abandon(&other);
    jsi_pg_disconnect(&other);
    jsi_pg_text_free(&other.sql);
    jsi_pg_text_free(&other.values);
    return result;
}
