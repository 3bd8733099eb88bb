-- held.sql: what a node says to a server that may have forgotten it, after hello() has noticed.

-- Fails when the node is not entered from this session. Its row cannot go away until the
-- transaction ends.
CREATE FUNCTION @S@.check_here(a_node uuid) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM 1 FROM @S@.node WHERE node_id = a_node AND (lock_key = 0 OR pid = pg_backend_pid())
        FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the node is not entered' USING ERRCODE = 'JS003';
    END IF;
END
$fn$;

-- Runs that the node holds: those that the server has forgotten are rows again. Not once it may
-- have been granted to others: then they are not the node's any more.
-- The mark follows where it is still the one that the claim was computed from. Else occurrences
-- between are forgotten, too; then it stays, and claim_one() knows that rows may lie beyond it.
CREATE FUNCTION @S@.hold_again(a_version integer, a_ns text, a_node uuid, a_node_name text,
    a_jobs text[], a_requests text[], a_tokens bigint[], a_scheduled_ms bigint[],
    a_after_ms bigint[], a_started_ms bigint[], a_lease_ms bigint[], a_attempts integer[],
    a_kinds integer[], a_recover integer[], a_limits bigint[], OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    c record;
    v_first bigint;
    v_until bigint;
    v_seq bigint;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.check_here(a_node);
    PERFORM @S@.lock_jobs(a_ns, a_jobs);
    SELECT m.epoch << 40, m.quarantine_until_ms INTO v_first, v_until FROM @S@.meta m;
    o_now := @S@.now_ms();
    FOR c IN SELECT u.*, f.id FROM unnest(a_jobs, a_requests, a_tokens, a_scheduled_ms, a_after_ms,
            a_started_ms, a_lease_ms, a_attempts, a_kinds, a_recover, a_limits)
        AS u(job, request, token, scheduled_ms, after_ms, started_ms, lease_ms, attempt, kind,
            recover, recover_limit)
        JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job
        WHERE o_now < v_until AND u.token < v_first AND NOT EXISTS(SELECT 1 FROM @S@.run w
            WHERE w.fence = f.id AND (w.token = u.token OR (w.outcome = 1 AND w.token >= v_first)))
        ORDER BY u.token
    LOOP
        SELECT w.seq INTO v_seq FROM @S@.run w WHERE w.fence = c.id
            AND ((c.kind = 2 AND w.request = c.request AND w.outcome = 0)
                OR (c.kind = 3 AND w.scheduled_ms = c.scheduled_ms AND w.outcome = 7)) LIMIT 1;
        IF v_seq IS NULL THEN
            CONTINUE WHEN EXISTS(SELECT 1 FROM @S@.run w WHERE w.fence = c.id
                AND w.request = c.request); -- it has ended
            UPDATE @S@.fence SET seq = seq + 1, mark_ms = CASE WHEN c.kind <= 1
                AND mark_ms = c.after_ms THEN greatest(mark_ms, c.scheduled_ms) ELSE mark_ms END
                WHERE id = c.id RETURNING seq INTO v_seq;
            INSERT INTO @S@.run(fence, seq, kind, outcome, scheduled_ms, last_ms, request)
                VALUES (c.id, v_seq, c.kind, 1, c.scheduled_ms, c.scheduled_ms, c.request);
        END IF;
        UPDATE @S@.run SET outcome = 1, kind = c.kind, token = c.token, attempt = c.attempt,
            node = a_node, node_name = a_node_name, started_ms = c.started_ms,
            lease_ms = c.lease_ms, recover = c.recover, recover_limit = c.recover_limit,
            finished_ms = NULL, cancel = false, taken = false, code = 0, note = ''
            WHERE fence = c.id AND seq = v_seq;
    END LOOP;
END
$fn$;

-- Runs that the server has as the node's and the node does not hold: how they ended is what was
-- forgotten. Those that it has asked for and has no answer about (a_asked, with the request of a
-- trigger) are left to the repetition. At most a_limit of them, after a_after; o_last: the last
-- one, NULL when there are no more. o_left: how many of them could not be ended, because a
-- transaction relies on their tokens (assert_token): to be asked for again.
CREATE FUNCTION @S@.let_go(a_version integer, a_ns text, a_node uuid, a_jobs text[],
    a_tokens bigint[], a_asked text[], a_asked_requests text[], a_asked_ms bigint[],
    a_after bigint, a_limit bigint, OUT o_last bigint, OUT o_left bigint, OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    c record;
    v_jobs text[];
    v_runs bigint[];
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.check_here(a_node);
    SELECT array_agg(t.name), array_agg(t.id), max(t.id) INTO v_jobs, v_runs, o_last FROM (
        SELECT f.name, r.id FROM @S@.run r JOIN @S@.fence f ON f.id = r.fence
        WHERE r.outcome = 1 AND r.node = a_node AND f.name_space = a_ns AND r.id > a_after
        AND r.token < (SELECT m.epoch << 40 FROM @S@.meta m)
        AND NOT EXISTS(SELECT 1 FROM unnest(a_jobs, a_tokens) AS h(job, token)
            WHERE h.job = f.name AND h.token = r.token)
        AND NOT EXISTS(SELECT 1 FROM unnest(a_asked, a_asked_requests, a_asked_ms)
            AS q(job, request, scheduled_ms) WHERE q.job = f.name AND CASE WHEN q.request IS NULL
            THEN q.scheduled_ms = r.scheduled_ms ELSE q.request = r.request END)
        ORDER BY r.id LIMIT a_limit) t;
    PERFORM @S@.lock_jobs(a_ns, v_jobs);
    o_now := @S@.now_ms();
    o_left := 0;
    FOR c IN SELECT r.fence, r.seq FROM @S@.run r WHERE r.id = ANY (v_runs) AND r.outcome = 1 LOOP
        IF NOT @S@.interrupt(c.fence, c.seq, o_now,
            'unknown: the server is another one and has forgotten how this run ended') THEN
            o_left := o_left + 1;
        END IF;
    END LOOP;
END
$fn$;
