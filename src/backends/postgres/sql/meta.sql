-- meta.sql: says that the store is complete; last, after tables and functions. In a store that there
-- was before it changes nothing: above all, an emptied boot is for hello() to see.

INSERT INTO @S@.boot(value)
SELECT floor(random() * 1e15)::bigint WHERE NOT EXISTS (SELECT 1 FROM @S@.meta);
INSERT INTO @S@.meta(version, epoch, incarnation, quarantine_until_ms, floor_ms)
SELECT 1, 0, s.system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 0, 0
FROM pg_control_system() s WHERE NOT EXISTS (SELECT 1 FROM @S@.meta);
