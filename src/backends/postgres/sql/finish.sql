-- finish.sql: how runs end, and what their nodes report while they go on.

-- The second search is for a run that an earlier try of the same finish has ended. There is no
-- index by token, for which each grant would pay: it looks at the job's 10,000 newest rows. A job
-- that runs seldom gets its ledger pruned by each finish.
CREATE FUNCTION @S@.finish(a_version integer, a_ns text, a_node uuid, a_history_count bigint,
    a_history_age_ms bigint, a_jobs text[], a_tokens bigint[], a_outcomes integer[],
    a_codes integer[], a_notes text[], a_done bigint[], a_total bigint[])
RETURNS TABLE(o_answer integer, o_now bigint) LANGUAGE plpgsql AS $fn$
DECLARE
    v_places bigint[];
    v_prune bigint[];
    v_ended boolean[];
    v_place bigint;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.lock_jobs(a_ns, a_jobs);
    o_now := @S@.now_ms();
    WITH item AS MATERIALIZED (
        SELECT u.*, f.id AS fence, f.last_end_ms
        FROM unnest(a_jobs, a_tokens, a_outcomes, a_codes, a_notes, a_done, a_total)
            WITH ORDINALITY AS u(job, token, outcome, code, note, done, total, place)
        JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job),
    ended AS (
        UPDATE @S@.run r SET outcome = i.outcome, code = i.code, finished_ms = o_now,
            note = i.note, progress_done = i.done, progress_total = i.total
        FROM item i WHERE r.fence = i.fence AND r.outcome = 1 AND r.token = i.token
            AND r.node IS NOT DISTINCT FROM a_node
        RETURNING i.place, r.fence, i.token % 32 = 0 OR i.last_end_ms IS NULL
            OR o_now - i.last_end_ms > 60000 AS prune),
    marked AS (
        UPDATE @S@.fence SET last_end_ms = o_now WHERE id IN (SELECT e.fence FROM ended e))
    SELECT coalesce(array_agg(e.place), '{}'), array_agg(e.fence) FILTER (WHERE e.prune)
        INTO v_places, v_prune FROM ended e;
    PERFORM @S@.prune(f.id, f.seq, o_now, a_history_count, a_history_age_ms)
        FROM @S@.fence f WHERE f.id = ANY (v_prune);
    FOREACH v_place IN ARRAY v_places LOOP
        v_ended[v_place] := true;
    END LOOP;
    FOR v_place IN 1..cardinality(a_jobs) LOOP
        o_answer := 1;
        IF v_ended[v_place] IS NULL THEN
            SELECT CASE WHEN count(*) > 0 THEN 1 ELSE 2 END INTO o_answer
                FROM @S@.fence f JOIN @S@.run r ON r.fence = f.id AND r.seq > f.seq - 10000
                WHERE f.name_space = a_ns AND f.name = a_jobs[v_place]
                AND r.token = a_tokens[v_place] AND r.outcome > 1 AND r.node = a_node
                AND NOT r.taken;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$fn$;

-- The first rows answer the leases, in their order; then come the other nodes of the namespace, so
-- that the caller can watch their heartbeats; and a last one that has the clock and what of the log
-- is on the disk, see hello().
CREATE FUNCTION @S@.renew(a_version integer, a_ns text, a_node uuid, a_clock_offset_ms bigint,
    a_jobs text[], a_tokens bigint[], a_notes text[], a_done bigint[], a_total bigint[])
RETURNS TABLE(o_answer integer, o_node uuid, o_beat bigint, o_now bigint, o_lsn bigint)
LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    o_now := @S@.now_ms();
    UPDATE @S@.node SET beat = beat + 1, seen_ms = o_now, clock_offset_ms = a_clock_offset_ms,
        gone_ms = NULL WHERE node_id = a_node AND (lock_key = 0 OR pid = pg_backend_pid());
    IF NOT FOUND THEN
        IF EXISTS(SELECT 1 FROM @S@.node WHERE node_id = a_node) THEN
            -- This is not the session that holds the lock: somebody shares sessions out.
            RAISE EXCEPTION 'the session is another one' USING ERRCODE = 'JS004';
        END IF;
        RAISE EXCEPTION 'the node is not entered' USING ERRCODE = 'JS003';
    END IF;
    FOR o_answer IN
        SELECT CASE WHEN r.seq IS NULL THEN 2 WHEN r.cancel THEN 3 ELSE 1 END
        FROM unnest(a_jobs, a_tokens) WITH ORDINALITY AS u(job, token, place)
        LEFT JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job
        LEFT JOIN @S@.run r ON r.fence = f.id AND r.outcome = 1 AND r.token = u.token
            AND r.node IS NOT DISTINCT FROM a_node
        ORDER BY u.place
    LOOP
        RETURN NEXT;
    END LOOP;
    -- Whoever holds a row is about to end the run.
    UPDATE @S@.run w SET note = g.note, progress_done = g.done, progress_total = g.total
    FROM (SELECT r.fence, r.seq, u.note, u.done, u.total
        FROM unnest(a_jobs, a_tokens, a_notes, a_done, a_total) AS u(job, token, note, done, total)
        JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job
        JOIN @S@.run r ON r.fence = f.id AND r.outcome = 1 AND r.token = u.token
            AND r.node IS NOT DISTINCT FROM a_node
        WHERE (r.note, r.progress_done, r.progress_total) <> (u.note, u.done, u.total)
        FOR NO KEY UPDATE OF r SKIP LOCKED) g
    WHERE w.fence = g.fence AND w.seq = g.seq;
    o_answer := 0;
    FOR o_node, o_beat IN SELECT n.node_id, n.beat FROM @S@.node n WHERE n.name_space = a_ns
        AND n.node_id <> a_node
    LOOP
        RETURN NEXT;
    END LOOP;
    o_node := NULL;
    o_lsn := (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint;
    RETURN NEXT;
END
$fn$;
