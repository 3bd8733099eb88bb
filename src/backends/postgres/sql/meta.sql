-- meta.sql: says that the store is complete; last, after tables and functions. In a store that there
-- was before it changes nothing: above all, an emptied boot is for hello() to see.

INSERT INTO @S@.boot(value)
SELECT floor(random() * 1e15)::bigint WHERE NOT EXISTS (SELECT 1 FROM @S@.meta);
INSERT INTO @S@.meta(version, epoch, incarnation, lost_at_ms, quarantine_until_ms, floor_ms)
SELECT 1, 0, @S@.incarnation(), 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM @S@.meta);
