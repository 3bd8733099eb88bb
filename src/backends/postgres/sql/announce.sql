-- announce.sql: which definition of a job is in force. Changes nothing else: neither pauses, nor
-- marks of known jobs whose definition stands, nor runs (G7).

CREATE FUNCTION @S@.announce(a_version integer, a_ns text, a_jobs text[], a_definitions text[],
    a_versions numeric[])
RETURNS TABLE(o_generation bigint, o_mark_ms bigint, o_last_end_ms bigint, o_in_force boolean,
    o_paused boolean, o_removed boolean, o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    c record;
    f record;
    d record;
    v_now bigint;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.lock_jobs(a_ns, a_jobs);
    v_now := @S@.now_ms();
    FOR c IN SELECT * FROM unnest(a_jobs, a_definitions, a_versions)
        AS u(job, definition, version)
    LOOP
        SELECT * INTO f FROM @S@.fence WHERE name_space = a_ns AND name = c.job;
        IF NOT FOUND THEN
            -- A job may have been known before its fence was lost: tokens start in the epoch.
            INSERT INTO @S@.fence(name_space, name, mark_ms, token, seq, generation, paused,
                removed)
            SELECT a_ns, c.job, v_now, m.epoch << 40, 0, 1, false, false FROM @S@.meta m
            RETURNING * INTO f;
            INSERT INTO @S@.definition(fence, version, text)
                VALUES (f.id, c.version, c.definition);
            o_in_force := true;
        ELSE
            SELECT t.version, t.text INTO d FROM @S@.definition t WHERE t.fence = f.id;
            o_in_force := d.version IS NULL OR c.version >= d.version;
            IF d.version IS NULL OR c.version > d.version
                OR (c.version = d.version AND c.definition <> d.text) THEN
                -- The new schedule is not asked about the past.
                UPDATE @S@.fence SET generation = generation + 1,
                    mark_ms = greatest(mark_ms, v_now),
                    removed = removed AND d.version IS NOT NULL AND c.version = d.version
                    WHERE id = f.id RETURNING * INTO f;
                INSERT INTO @S@.definition(fence, version, text)
                    VALUES (f.id, c.version, c.definition)
                ON CONFLICT (fence) DO UPDATE SET version = excluded.version,
                    text = excluded.text;
            END IF;
        END IF;
        o_generation := f.generation;
        o_mark_ms := f.mark_ms;
        o_last_end_ms := f.last_end_ms;
        o_paused := f.paused;
        o_removed := f.removed;
        o_now := v_now;
        RETURN NEXT;
    END LOOP;
END
$fn$;
