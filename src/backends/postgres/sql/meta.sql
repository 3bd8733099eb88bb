-- meta.sql: says that the store is complete; last, after tables and functions.

INSERT INTO @S@.boot(value) VALUES (floor(random() * 1e15)::bigint);
INSERT INTO @S@.meta(version, epoch, incarnation, quarantine_until_ms, floor_ms)
SELECT 1, 0, s.system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 0, 0
FROM pg_control_system() s;
