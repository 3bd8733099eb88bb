-- control.sql: the operator's verbs, and the check inside an application's transaction. A verb acts
-- in the same place as the claim, so that once PAUSE has answered no later claim is granted (G6).

-- Before the first verb of a connection: verbs of the handle come from here now. Waits for one that
-- an older connection has under way; later ones are refused.
CREATE FUNCTION @S@.command(a_version integer, a_handle uuid, a_nonce bigint, OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    o_now := @S@.now_ms();
    INSERT INTO @S@.commander AS h (handle, nonce, at_ms) VALUES (a_handle, a_nonce, o_now)
    ON CONFLICT (handle) DO UPDATE SET nonce = excluded.nonce, at_ms = excluded.at_ms
        WHERE h.nonce < excluded.nonce;
END
$fn$;

-- o_refused: 0, or 1 no such job, 2 removed, 3 paused, 4 too many waiting (triggers).
CREATE FUNCTION @S@.control(a_version integer, a_ns text, a_handle uuid, a_nonce bigint,
    a_verb integer, a_job text, a_request text, a_watched uuid[], a_beats bigint[],
    a_stood_ms bigint[],
    OUT o_refused integer, OUT o_changed boolean, OUT o_token bigint, OUT o_running boolean,
    OUT o_since_ms bigint, OUT o_run_token bigint, OUT o_node text, OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    f record;
    r record;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM 1 FROM @S@.commander h WHERE h.handle = a_handle AND h.nonce = a_nonce FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the handle has a newer session' USING ERRCODE = '55JS6';
    END IF;
    PERFORM pg_advisory_xact_lock(@S@.job_key(a_ns, a_job));
    o_now := @S@.now_ms();
    o_refused := 0;
    o_changed := false;
    o_running := false;
    SELECT * INTO f FROM @S@.fence WHERE name_space = a_ns AND name = a_job;
    IF NOT FOUND THEN
        o_refused := 1;
        RETURN;
    ELSIF f.removed AND a_verb <> 5 THEN
        o_refused := 2;
        RETURN;
    END IF;
    o_token := f.token;
    -- First, so that a verb neither names nor cancels a run whose owner is dead.
    FOR r IN SELECT * FROM @S@.run h WHERE h.fence = f.id AND h.outcome = 1 ORDER BY h.token LOOP
        CONTINUE WHEN @S@.judge(r.node, r.lease_ms, o_now, a_watched, a_beats, a_stood_ms)
            >= r.lease_ms AND @S@.interrupt(f.id, r.seq, o_now, NULL);
        o_running := true;
        o_run_token := r.token;
        o_since_ms := r.started_ms;
        o_node := r.node_name;
    END LOOP;
    CASE a_verb
    WHEN 1 THEN
        UPDATE @S@.fence SET paused = true WHERE id = f.id AND NOT paused;
        o_changed := FOUND;
    WHEN 2 THEN
        UPDATE @S@.fence SET paused = false WHERE id = f.id AND paused;
        o_changed := FOUND;
    WHEN 3 THEN
        IF EXISTS(SELECT 1 FROM @S@.run w WHERE w.fence = f.id AND w.request = a_request) THEN
            RETURN; -- an earlier try of this call has added it
        ELSIF f.paused THEN
            o_refused := 3;
            RETURN;
        ELSIF (SELECT count(*) FROM @S@.run w WHERE w.fence = f.id AND w.outcome = 0) >= 10000 THEN
            o_refused := 4;
            RETURN;
        END IF;
        UPDATE @S@.fence SET seq = seq + 1 WHERE id = f.id;
        INSERT INTO @S@.run(fence, seq, kind, outcome, scheduled_ms, last_ms, request)
            VALUES (f.id, f.seq + 1, 2, 0, o_now, o_now, a_request);
        o_changed := true;
    WHEN 4 THEN
        UPDATE @S@.run SET cancel = true WHERE fence = f.id AND outcome = 1 AND NOT cancel;
        o_changed := FOUND;
    WHEN 5 THEN
        -- Nothing of a removed job will be granted, so nothing of it waits any more.
        UPDATE @S@.fence SET removed = true WHERE id = f.id AND NOT removed;
        o_changed := FOUND;
        UPDATE @S@.run SET outcome = 4, finished_ms = o_now, note = 'the job was removed'
            WHERE fence = f.id AND outcome = 0;
        UPDATE @S@.run SET recover = 0 WHERE fence = f.id AND outcome = 7 AND recover = 1
            AND attempt <= recover_limit AND NOT cancel;
    END CASE;
END
$fn$;

-- For applications: raises unless the token is that of a run which goes on, and makes that so
-- until the transaction ends: nobody can take the run over before. So what the transaction writes
-- in this database happens under a valid token or not at all. It locks the row of the run and not
-- the fence, so that the job's claims, renewals and its own finish do not wait for the transaction.
CREATE FUNCTION @S@.assert_token(a_name_space text, a_job text, a_token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM 1 FROM @S@.run r JOIN @S@.fence f ON f.id = r.fence
        WHERE f.name_space = a_name_space AND f.name = a_job AND r.outcome = 1
        AND r.token = a_token FOR KEY SHARE OF r;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'token % of job ''%'' is not valid any more', a_token, a_job
            USING ERRCODE = 'JS002';
    END IF;
END
$fn$;
