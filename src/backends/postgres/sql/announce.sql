-- announce.sql: which definition of a job is in force. Changes nothing else: neither pauses, nor
-- marks of known jobs whose definition stands, nor runs (G7). a_replace: enum jobsched_replace.

CREATE FUNCTION @S@.announce(a_version integer, a_ns text, a_node uuid, a_nonce bigint,
    a_jobs text[], a_definitions text[], a_hashes bigint[], a_versions numeric[],
    a_replace integer[], a_replaces bigint[], a_after_ms bigint[], a_before_ms bigint[])
RETURNS TABLE(o_generation bigint, o_mark_ms bigint, o_last_end_ms bigint, o_in_force boolean,
    o_paused boolean, o_removed boolean, o_conflict boolean, o_now bigint,
    o_pending boolean, o_changed boolean)
LANGUAGE plpgsql AS $fn$
DECLARE
    c record;
    f record;
    d record;
    v_now bigint;
    v_replaces boolean;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.check_node(a_node, a_nonce);
    PERFORM @S@.lock_jobs(a_ns, a_jobs);
    v_now := @S@.now_ms();
    FOR c IN SELECT * FROM unnest(a_jobs, a_definitions, a_hashes, a_versions, a_replace,
        a_replaces, a_after_ms, a_before_ms)
        AS u(job, definition, hash, version, replace, replaces, after_ms, before_ms)
    LOOP
        o_conflict := false;
        o_pending := false;
        o_changed := false;
        SELECT * INTO f FROM @S@.fence WHERE name_space = a_ns AND name = c.job;
        IF NOT FOUND THEN
            -- A job may have been known before its fence was lost: tokens start in the epoch.
            INSERT INTO @S@.fence(name_space, name, mark_ms, token, seq, generation, paused,
                removed)
            SELECT a_ns, c.job, v_now, m.epoch << 40, 0, 1, false, false FROM @S@.meta m
            RETURNING * INTO f;
            INSERT INTO @S@.definition(fence, version, hash, text)
                VALUES (f.id, c.version, c.hash, c.definition);
            o_in_force := true;
        ELSE
            SELECT t.version, t.text INTO d FROM @S@.definition t WHERE t.fence = f.id;
            o_in_force := d.version IS NULL OR c.version >= d.version;
            v_replaces := d.version IS NULL OR c.version > d.version
                OR (c.version = d.version AND c.definition <> d.text);
            -- Nothing may be due under the definition that goes, and a removal that came after the
            -- node asked holds.
            o_pending := v_replaces AND d.version IS NOT NULL AND CASE c.replace
                WHEN 0 THEN false
                WHEN 2 THEN f.removed OR f.generation <> c.replaces OR f.mark_ms <> c.after_ms
                    OR v_now >= c.before_ms
                ELSE NOT f.removed END;
            IF o_pending THEN
                o_in_force := false;
            ELSIF v_replaces THEN
                -- The new schedule is not asked about the past.
                UPDATE @S@.fence SET generation = generation + 1,
                    mark_ms = greatest(mark_ms, v_now),
                    removed = removed AND d.version IS NOT NULL AND c.version = d.version
                    WHERE id = f.id RETURNING * INTO f;
                INSERT INTO @S@.definition(fence, version, hash, text)
                    VALUES (f.id, c.version, c.hash, c.definition)
                ON CONFLICT (fence) DO UPDATE SET version = excluded.version,
                    hash = excluded.hash, text = excluded.text;
                o_changed := true;
                -- Others that asked for another text under this version stand down, and say so.
                o_conflict := c.version > 0 AND (coalesce(c.version = d.version, false) OR EXISTS(
                    SELECT 1 FROM @S@.registration x WHERE x.fence = f.id AND x.node_id <> a_node
                        AND x.version = c.version AND x.hash <> c.hash));
            END IF;
        END IF;
        INSERT INTO @S@.registration AS g (fence, node_id, version, hash)
            VALUES (f.id, a_node, c.version, c.hash)
        ON CONFLICT (fence, node_id) DO UPDATE SET version = excluded.version,
            hash = excluded.hash WHERE (g.version, g.hash) <> (excluded.version, excluded.hash);
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

CREATE FUNCTION @S@.withdraw(a_version integer, a_ns text, a_node uuid, a_jobs text[],
    OUT o_now bigint) LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    DELETE FROM @S@.registration WHERE node_id = a_node AND fence IN (
        SELECT f.id FROM @S@.fence f WHERE f.name_space = a_ns AND f.name = ANY (a_jobs));
    o_now := @S@.now_ms();
END
$fn$;
