-- reap.sql: ends the runs of dead owners, forgets dead nodes, and tells what waits.
-- What is told as newly interrupted leaves its list in the same transaction, so that nobody else
-- is told. o_found: 0 a node and its heartbeat, else enum jobsched_found. The last row has 0 and no
-- node; its id says where the sweep goes on.

-- Interrupts the runs of one owner, as far as their jobs' locks are free. Returns how many.
CREATE FUNCTION @S@.bury_runs(a_ns text, a_node uuid, a_lease_ms bigint, a_limit bigint)
RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    r record;
    v_count bigint := 0;
BEGIN
    FOR r IN SELECT w.fence, w.seq, f.name FROM @S@.run w JOIN @S@.fence f ON f.id = w.fence
        WHERE w.outcome = 1 AND w.node = a_node AND w.lease_ms <= a_lease_ms
        AND f.name_space = a_ns LIMIT a_limit
    LOOP
        IF pg_try_advisory_xact_lock(@S@.job_key(a_ns, r.name))
            AND @S@.interrupt(r.fence, r.seq, @S@.now_ms(), NULL) THEN
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END
$fn$;

CREATE FUNCTION @S@.bury(a_ns text, a_node uuid, a_watched uuid[], a_beats bigint[],
    a_stood_ms bigint[], a_limit bigint) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    n record;
    v_left bigint := a_limit;
    v_judged bigint;
BEGIN
    FOR n IN SELECT t.node_id, t.lease_ms, least(t.lease_ms, (SELECT min(r.lease_ms)
        FROM @S@.run r WHERE r.outcome = 1 AND r.node = t.node_id)) AS shortest
        FROM @S@.node t WHERE t.name_space = a_ns AND t.node_id <> a_node
    LOOP
        v_judged := @S@.judge(n.node_id, n.shortest, @S@.now_ms(), a_watched, a_beats, a_stood_ms);
        CONTINUE WHEN v_judged <= 0;
        v_left := v_left - @S@.bury_runs(a_ns, n.node_id, v_judged, v_left);
        -- Not before its last run is ended: until then its row says who held them.
        IF v_judged >= n.lease_ms THEN
            DELETE FROM @S@.node WHERE node_id = (SELECT d.node_id FROM @S@.node d
                WHERE d.node_id = n.node_id AND NOT EXISTS(SELECT 1 FROM @S@.run r
                    WHERE r.outcome = 1 AND r.node = n.node_id) FOR UPDATE SKIP LOCKED);
            IF FOUND THEN
                INSERT INTO @S@.left_node(node_id, at_ms) VALUES (n.node_id, @S@.now_ms())
                    ON CONFLICT (node_id) DO UPDATE SET at_ms = excluded.at_ms;
            END IF;
        END IF;
    END LOOP;
    -- What one of those that left more than an hour ago registered.
    WITH left_long AS (
        DELETE FROM @S@.left_node WHERE node_id = (SELECT t.node_id FROM @S@.left_node t
            WHERE t.at_ms < @S@.now_ms() - 3600000 LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING node_id)
    DELETE FROM @S@.registration g USING left_long t WHERE g.node_id = t.node_id;
    DELETE FROM @S@.commander WHERE handle IN (SELECT h.handle FROM @S@.commander h
        WHERE h.at_ms < @S@.now_ms() - 3600000 LIMIT 100 FOR UPDATE SKIP LOCKED);
    -- Runs whose node row is gone.
    FOR n IN SELECT DISTINCT r.node FROM @S@.run r JOIN @S@.fence f ON f.id = r.fence
        WHERE r.outcome = 1 AND f.name_space = a_ns
        AND NOT EXISTS(SELECT 1 FROM @S@.node t WHERE t.node_id = r.node)
    LOOP
        v_left := v_left - @S@.bury_runs(a_ns, n.node, 9223372036854775807, v_left);
    END LOOP;
END
$fn$;

-- Drops rows of the ledger that are too old, whosever job they are of: looks at the 256 rows that
-- come after one, by age of their making. Returns where to go on: at the start again once the rows
-- are all ended and young.
CREATE FUNCTION @S@.sweep(a_ns text, a_after bigint, a_before_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $fn$
DECLARE
    v_last bigint;
    v_young boolean;
BEGIN
    SELECT max(w.id), bool_and(w.finished_ms >= a_before_ms) INTO v_last, v_young FROM (
        SELECT r.id, coalesce(r.finished_ms, 0) AS finished_ms FROM @S@.run r
            WHERE r.id > a_after ORDER BY r.id LIMIT 256) w;
    DELETE FROM @S@.run d USING (
        SELECT w.fence, w.seq FROM @S@.run w JOIN @S@.fence f ON f.id = w.fence
        WHERE w.id > a_after AND w.id <= v_last AND f.name_space = a_ns AND w.outcome >= 2
        AND w.finished_ms < a_before_ms
        AND NOT (w.outcome = 7 AND w.recover = 1 AND w.attempt <= w.recover_limit
            AND NOT w.cancel)
        AND NOT EXISTS(SELECT 1 FROM @S@.untold u WHERE u.fence = w.fence AND u.token = w.token)
        FOR UPDATE OF w SKIP LOCKED) g
    WHERE d.fence = g.fence AND d.seq = g.seq;
    RETURN CASE WHEN v_last IS NULL OR v_young THEN 0 ELSE v_last END;
END
$fn$;

CREATE FUNCTION @S@.reap(a_version integer, a_ns text, a_node uuid, a_watched uuid[],
    a_beats bigint[], a_stood_ms bigint[], a_limit bigint, a_rerun_after bigint,
    a_trigger_after bigint, a_sweep_after bigint, a_age_ms bigint)
RETURNS TABLE(o_found integer, o_id bigint, o_job text, o_node text, o_request text,
    o_scheduled_ms bigint, o_token bigint, o_attempt integer, o_beat bigint, o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    v_left bigint;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.bury(a_ns, a_node, a_watched, a_beats, a_stood_ms, a_limit);
    o_now := @S@.now_ms();
    o_found := 0;
    FOR o_node, o_beat IN SELECT n.node_id, n.beat FROM @S@.node n WHERE n.name_space = a_ns
        AND n.node_id <> a_node
    LOOP
        RETURN NEXT;
    END LOOP;
    v_left := a_limit;
    o_found := 1;
    FOR o_id, o_job, o_node, o_scheduled_ms, o_token, o_attempt IN
        WITH told AS (
            DELETE FROM @S@.untold WHERE id IN (SELECT u.id FROM @S@.untold u
                JOIN @S@.fence f ON f.id = u.fence WHERE f.name_space = a_ns ORDER BY u.id
                LIMIT a_limit FOR UPDATE OF u SKIP LOCKED)
            RETURNING *)
        SELECT t.id, f.name, t.node_name, t.scheduled_ms, t.token, t.attempt FROM told t
            JOIN @S@.fence f ON f.id = t.fence ORDER BY t.id
    LOOP
        v_left := v_left - 1;
        RETURN NEXT;
    END LOOP;
    -- Half of the rest each, so that neither can crowd out the other.
    o_found := 2;
    FOR o_id, o_job, o_node, o_scheduled_ms, o_token, o_attempt IN
        SELECT r.id, f.name, r.node_name, r.scheduled_ms, r.token, r.attempt FROM @S@.run r
            JOIN @S@.fence f ON f.id = r.fence
            WHERE f.name_space = a_ns AND NOT f.removed AND r.id > a_rerun_after
            AND r.outcome = 7 AND r.recover = 1 AND r.attempt <= r.recover_limit AND NOT r.cancel
            ORDER BY r.id LIMIT (v_left + 1) / 2
    LOOP
        v_left := v_left - 1;
        RETURN NEXT;
    END LOOP;
    o_found := 3;
    o_node := NULL;
    FOR o_id, o_job, o_request, o_scheduled_ms, o_token, o_attempt IN
        SELECT r.id, f.name, r.request, r.scheduled_ms, r.token, r.attempt FROM @S@.run r
            JOIN @S@.fence f ON f.id = r.fence
            WHERE f.name_space = a_ns AND NOT f.removed AND r.id > a_trigger_after
            AND r.outcome = 0 ORDER BY r.id LIMIT v_left
    LOOP
        RETURN NEXT;
    END LOOP;
    o_found := 0;
    o_id := @S@.sweep(a_ns, a_sweep_after, o_now - a_age_ms);
    RETURN NEXT;
END
$fn$;

-- Puts back on the list what a visitor did not want to hear.
CREATE FUNCTION @S@.untell(a_version integer, a_ns text, a_jobs text[], a_scheduled_ms bigint[],
    a_tokens bigint[], a_attempts integer[], a_nodes text[], OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    INSERT INTO @S@.untold(fence, scheduled_ms, token, attempt, node_name)
    SELECT f.id, u.scheduled_ms, u.token, u.attempt, u.node
        FROM unnest(a_jobs, a_scheduled_ms, a_tokens, a_attempts, a_nodes)
            AS u(job, scheduled_ms, token, attempt, node)
        JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job;
    o_now := @S@.now_ms();
END
$fn$;
