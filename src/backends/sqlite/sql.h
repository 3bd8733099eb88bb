/* sql.h: every statement of the sqlite: backend in one table, which makes the enum and the
 * texts. Outcomes are literals here because partial indexes are only used when the statement
 * repeats the index's condition literally; store.h asserts what they stand for. */
#ifndef JSI_SQLITE_SQL_H
#define JSI_SQLITE_SQL_H

/* The columns of a node row that tell whether its node is alive. */
#define JSI_SQL_ALIVE "n.id, n.beat, n.lock_dev, n.lock_ino"

/* What a run must be to be run again. The indexes run_rerun and PRUNE rely on it. */
#define JSI_SQL_RERUN(r)                                                                           \
    r "outcome = 7 AND " r "recover = 1 AND "                                                      \
      "" r "attempt <= " r "recover_limit AND " r "cancel = 0"

#define JSI_SQL_FOUND                                                                              \
    "r.id, r.fence, r.node, r.outcome, r.taken, r.cancel, r.note, r.progress_done, "               \
    "r.progress_total, f.last_end_ms, f.seq FROM fence f"

#define JSI_SQL_RECORD                                                                             \
    "f.name, r.node_name, r.note, r.request, r.scheduled_ms, r.last_ms, r.count, r.token, "        \
    "r.started_ms, r.finished_ms, r.progress_done, r.progress_total, r.attempt, r.kind, "          \
    "r.outcome, r.code"

#define JSI_SQL_JOB                                                                                \
    "f.id, f.name, d.text, d.version, f.generation, f.token, f.mark_ms, f.last_end_ms, "           \
    "f.paused, f.removed FROM fence f JOIN definition d ON d.fence = f.id"

#define JSI_SQL_MAP(X)                                                                             \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(BEGIN_READ, "BEGIN")                                                                         \
    X(COMMIT, "COMMIT")                                                                            \
    X(VERSION, "PRAGMA user_version")                                                              \
    /* fences */                                                                                   \
    X(FENCE_READ, "SELECT id, mark_ms, token, seq, generation, paused, removed, last_end_ms "      \
                  "FROM fence WHERE name_space = ?1 AND name = ?2")                                \
    X(FENCE_ADD, "INSERT INTO fence(name_space, name, mark_ms, token, seq, generation, paused, "   \
                 "removed) VALUES(?1, ?2, ?3, 0, 0, 1, 0, 0)")                                     \
    X(FENCE_MOVE, "UPDATE fence SET mark_ms = ?2, token = ?3, seq = ?4 WHERE id = ?1")             \
    X(FENCE_REDEFINE,                                                                              \
      "UPDATE fence SET mark_ms = ?2, generation = ?3, removed = ?4 WHERE id = ?1")                \
    X(FENCE_ENDED, "UPDATE fence SET last_end_ms = ?2 WHERE id = ?1")                              \
    X(FENCE_PAUSE, "UPDATE fence SET paused = ?2 WHERE id = ?1")                                   \
    X(FENCE_REMOVE, "UPDATE fence SET removed = 1 WHERE id = ?1")                                  \
    X(DEFINITION_READ, "SELECT version, text FROM definition WHERE fence = ?1")                    \
    X(DEFINITION_PUT,                                                                              \
      "INSERT OR REPLACE INTO definition(fence, version, text) VALUES(?1, ?2, ?3)")                \
    /* nodes */                                                                                    \
    X(NODE_ADD, "INSERT OR IGNORE INTO node(id, node_id, name_space, name, app_version, "          \
                "started_ms, lease_ms, beat, seen_ms, clock_offset_ms, lock_dev, lock_ino) "       \
                "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, 0, ?9, ?10)")                          \
    X(NODE_MINE, "SELECT 1 FROM node WHERE id = ?1 AND node_id = ?2")                              \
    X(NODE_BEAT, "UPDATE node SET beat = beat + 1, seen_ms = ?3 WHERE id = ?1 AND node_id = ?2")   \
    X(NODE_RENEW, "UPDATE node SET clock_offset_ms = ?2, lock_dev = ?3, lock_ino = ?4 "            \
                  "WHERE id = ?1")                                                                 \
    X(NODE_DROP, "DELETE FROM node WHERE id = ?1")                                                 \
    X(NODE_LIST, "SELECT " JSI_SQL_ALIVE ", n.lease_ms FROM node n WHERE n.name_space = ?1")       \
    X(NODES, "SELECT " JSI_SQL_ALIVE ", n.lease_ms, n.node_id, n.name, n.app_version, "            \
             "n.started_ms, n.seen_ms, n.clock_offset_ms, "                                        \
             "(SELECT count(*) FROM registration g WHERE g.node = n.id), "                         \
             "(SELECT count(*) FROM run r INDEXED BY run_owner WHERE r.node = n.id AND "           \
             "r.outcome = 1), "                                                                    \
             "(SELECT count(*) FROM registration g JOIN definition d ON d.fence = g.fence WHERE "  \
             "g.node = n.id AND (g.version <> d.version OR g.text <> d.text)) "                    \
             "FROM node n WHERE n.name_space = ?1 ORDER BY n.name, n.id")                          \
    /* registrations */                                                                            \
    X(REGISTER, "INSERT OR REPLACE INTO registration(node, fence, version, text) "                 \
                "VALUES(?1, ?2, ?3, ?4)")                                                          \
    X(UNREGISTER, "DELETE FROM registration WHERE node = ?1 AND fence = "                          \
                  "(SELECT id FROM fence WHERE name_space = ?2 AND name = ?3)")                    \
    X(UNREGISTER_NODE, "DELETE FROM registration WHERE node = ?1")                                 \
    X(REGISTRANT_AFTER, "SELECT g.node, n.id IS NOT NULL FROM registration g LEFT JOIN node n "    \
                        "ON n.id = g.node WHERE g.node > ?1 ORDER BY g.node LIMIT 1")              \
    X(REGISTERED_ELSE, "SELECT 1 FROM registration WHERE fence = ?1 AND node <> ?2 AND "           \
                       "version = ?3 AND text <> ?4 LIMIT 1")                                      \
    X(REGISTRANTS, "SELECT node, version, text FROM registration WHERE fence = ?1")                \
    /* runs: the election */                                                                       \
    X(RUN_ADD, "INSERT INTO run(fence, seq, kind, outcome, scheduled_ms, last_ms, count, token, "  \
               "attempt, node, node_name, started_ms, finished_ms, lease_ms, recover, "            \
               "recover_limit, request) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "     \
               "?12, ?13, ?14, ?15, ?16, ?17)")                                                    \
    X(RUN_GRANT, "UPDATE run SET outcome = 1, kind = ?2, token = ?3, attempt = ?4, node = ?5, "    \
                 "node_name = ?6, started_ms = ?7, lease_ms = ?8, recover = ?9, "                  \
                 "recover_limit = ?10, finished_ms = NULL, cancel = 0, taken = 0, code = 0, "      \
                 "note = '', progress_done = 0, progress_total = 0 WHERE id = ?1")                 \
    X(RUN_MINE, "SELECT token, attempt FROM run INDEXED BY run_holder WHERE fence = ?1 AND "       \
                "outcome = 1 AND scheduled_ms = ?2 AND node = ?3 AND kind BETWEEN ?4 AND ?5")      \
    X(RUN_REQUEST, "SELECT id, outcome, kind, node, token, attempt, scheduled_ms FROM run "        \
                   "INDEXED BY run_request WHERE fence = ?1 AND request = ?2")                     \
    X(RUN_RERUN, "SELECT id, attempt FROM run INDEXED BY run_rerun WHERE fence = ?1 AND "          \
                 "scheduled_ms = ?2 AND " JSI_SQL_RERUN("") " ORDER BY id LIMIT 1")                \
    X(RUN_HOLDERS, "SELECT r.id, r.token, r.node, r.node_name, r.started_ms, r.lease_ms, "         \
                   "" JSI_SQL_ALIVE " FROM run r INDEXED BY run_holder LEFT JOIN node n "          \
                   "ON n.id = r.node WHERE r.fence = ?1 AND r.outcome = 1")                        \
    X(RUN_NEWEST, "SELECT id, outcome, last_ms FROM run WHERE fence = ?1 ORDER BY seq DESC "       \
                  "LIMIT 1")                                                                       \
    X(RUN_EXTEND, "UPDATE run SET last_ms = ?2, count = count + ?4, finished_ms = ?3 "             \
                  "WHERE id = ?1")                                                                 \
    X(RUN_OVERLAP, "UPDATE run SET outcome = 8, finished_ms = ?2 WHERE id = ?1")                   \
    /* runs: their ends */                                                                         \
    X(RUN_BY_TOKEN, "SELECT " JSI_SQL_FOUND " JOIN run r INDEXED BY run_holder ON "                \
                    "r.fence = f.id AND r.outcome = 1 AND r.token = ?3 "                           \
                    "WHERE f.name_space = ?1 AND f.name = ?2")                                     \
    X(RUN_ENDED, "SELECT " JSI_SQL_FOUND " JOIN run r INDEXED BY run_seq ON r.fence = f.id AND "   \
                 "r.seq > f.seq - ?4 AND r.token = ?3 AND r.outcome > 1 "                          \
                 "WHERE f.name_space = ?1 AND f.name = ?2 ORDER BY r.seq DESC LIMIT 1")            \
    X(RUN_REPORT, "UPDATE run SET note = ?2, progress_done = ?3, progress_total = ?4 "             \
                  "WHERE id = ?1")                                                                 \
    X(RUN_END, "UPDATE run SET outcome = ?2, code = ?3, finished_ms = ?4, note = ?5, "             \
               "progress_done = ?6, progress_total = ?7 WHERE id = ?1")                            \
    X(RUN_TAKE, "UPDATE run SET outcome = 7, taken = 1, finished_ms = ?2 WHERE id = ?1")           \
    X(RUN_TAKE_NOTE, "UPDATE run SET note = ?2 WHERE id = ?1")                                     \
    X(RUN_TOOK, "UPDATE fence SET last_end_ms = ?2 WHERE id = (SELECT fence FROM run "             \
                "WHERE id = ?1)")                                                                  \
    X(RUN_OPEN, "SELECT (SELECT count(*) FROM run INDEXED BY run_holder WHERE fence = ?1 AND "     \
                "outcome = 1) + (SELECT count(*) FROM run INDEXED BY run_waiting WHERE "           \
                "fence = ?1 AND outcome = 0)")                                                     \
    X(RUN_WAITING, "SELECT count(*) FROM run INDEXED BY run_waiting WHERE fence = ?1 AND "         \
                   "outcome = 0")                                                                  \
    X(PRUNE, "DELETE FROM run WHERE id IN (SELECT id FROM (SELECT * FROM run WHERE fence = ?1 "    \
             "ORDER BY seq LIMIT ?4) WHERE outcome >= 2 AND NOT (" JSI_SQL_RERUN(                  \
                 "") ") "                                                                          \
                     "AND (seq <= ?2 OR finished_ms < ?3))")                                       \
    /* runs: the keeper */                                                                         \
    X(OWNERS, "SELECT DISTINCT r.node FROM run r INDEXED BY run_owner JOIN fence f ON "            \
              "f.id = r.fence WHERE r.outcome = 1 AND f.name_space = ?1 AND NOT EXISTS "           \
              "(SELECT 1 FROM node n WHERE n.id = r.node)")                                        \
    X(OWNED, "SELECT id FROM run INDEXED BY run_owner WHERE outcome = 1 AND node = ?1 AND "        \
             "lease_ms <= ?2 LIMIT ?3")                                                            \
    X(UNTOLD_ADD, "INSERT INTO untold(fence, scheduled_ms, token, attempt, node_name) SELECT "     \
                  "fence, scheduled_ms, token, attempt, node_name FROM run WHERE id = ?1")         \
    X(UNTOLD_AGAIN, "INSERT INTO untold(fence, scheduled_ms, token, attempt, node_name) SELECT "   \
                    "id, ?3, ?4, ?5, ?6 FROM fence WHERE name_space = ?1 AND name = ?2")           \
    X(UNTOLD_DROP, "DELETE FROM untold WHERE id = ?1")                                             \
    X(UNTOLD_LIST, "SELECT u.id, f.name, u.node_name, NULL, u.scheduled_ms, u.token, u.attempt "   \
                   "FROM untold u JOIN fence f ON f.id = u.fence WHERE f.name_space = ?1 "         \
                   "AND u.id > ?2 ORDER BY u.id LIMIT ?3")                                         \
    X(RERUN_LIST, "SELECT r.id, f.name, r.node_name, NULL, r.scheduled_ms, r.token, r.attempt "    \
                  "FROM run r INDEXED BY run_rerun JOIN fence f ON f.id = r.fence WHERE "          \
                  "f.name_space = ?1 AND f.removed = 0 AND r.id > ?2 AND " JSI_SQL_RERUN(          \
                      "r.") " ORDER BY r.id LIMIT ?3")                                             \
    X(TRIGGER_LIST, "SELECT r.id, f.name, NULL, r.request, r.scheduled_ms, r.token, r.attempt "    \
                    "FROM run r INDEXED BY run_waiting JOIN fence f ON f.id = r.fence WHERE "      \
                    "f.name_space = ?1 AND f.removed = 0 AND r.id > ?2 AND r.outcome = 0 "         \
                    "ORDER BY r.id LIMIT ?3")                                                      \
    X(SWEEP_WINDOW, "SELECT count(*), max(id) FROM (SELECT id FROM run WHERE id > ?1 "             \
                    "ORDER BY id LIMIT ?2)")                                                       \
    X(SWEEP, "DELETE FROM run WHERE id > ?1 AND id <= ?2 AND outcome >= 2 AND "                    \
             "finished_ms < ?3 AND NOT (" JSI_SQL_RERUN(                                           \
                 "") ") "                                                                          \
                     "AND EXISTS (SELECT 1 FROM fence f WHERE f.id = run.fence AND "               \
                     "f.name_space = ?4) AND NOT EXISTS (SELECT 1 FROM untold u INDEXED BY "       \
                     "untold_fence WHERE u.fence = run.fence AND u.token = run.token)")            \
    /* control and readers */                                                                      \
    X(CANCEL, "UPDATE run SET cancel = 1 WHERE fence = ?1 AND outcome = 1 AND cancel = 0")         \
    X(DROP_WAITING, "UPDATE run SET outcome = 4, finished_ms = ?2, note = 'the job was removed' "  \
                    "WHERE fence = ?1 AND outcome = 0")                                            \
    X(DROP_RERUNS, "UPDATE run SET recover = 0 WHERE fence = ?1 AND " JSI_SQL_RERUN(""))           \
    X(RUNS_OF_JOB, "SELECT " JSI_SQL_RECORD " FROM fence f JOIN run r ON r.fence = f.id "          \
                   "WHERE f.name_space = ?1 AND f.name = ?2 ORDER BY r.seq DESC LIMIT ?3")         \
    X(RUN_OF_REQUEST, "SELECT " JSI_SQL_RECORD " FROM fence f JOIN run r INDEXED BY run_request "  \
                      "ON r.fence = f.id AND r.request = ?3 "                                      \
                      "WHERE f.name_space = ?1 AND f.name = ?2")                                   \
    X(RUN_LAST, "SELECT outcome, scheduled_ms, started_ms, finished_ms, node_name FROM run "       \
                "WHERE fence = ?1 AND outcome > 1 ORDER BY seq DESC LIMIT 1")                      \
    X(JOBS_OF_ALL, "SELECT " JSI_SQL_JOB " WHERE f.name_space = ?1 ORDER BY f.name")               \
    X(JOBS_OF_ONE, "SELECT " JSI_SQL_JOB " WHERE f.name_space = ?1 AND f.name = ?2")               \
    X(RUNS_OF_ALL, "SELECT " JSI_SQL_RECORD " FROM run r CROSS JOIN fence f ON f.id = r.fence "    \
                   "WHERE f.name_space = ?1 ORDER BY r.id DESC LIMIT ?3")

enum jsi_sql {
#define JSI_SQL_ENUM_(name, text) JSI_SQL_##name,
    JSI_SQL_MAP(JSI_SQL_ENUM_)
#undef JSI_SQL_ENUM_
        JSI_SQL_COUNT
};

#endif
