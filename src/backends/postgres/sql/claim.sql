-- claim.sql: the election. One call decides all items, in their order, each under the advisory
-- lock of its job; what makes it an election is the mark in the fence, moved by compare-and-set.
-- Nothing here waits for another session's work: a lock that is taken makes the answer BUSY.
-- The numbers are those of enum jobsched_answer, _kind, _outcome and _when_held.
--
-- claim() takes all locks in one statement and reads all fences in the next, which sees what was
-- committed before the locks were had. (A scalar subquery looks for holders, where EXISTS would be
-- planned as a scan of all running runs. mine: NULL when nobody holds the job.) From that it
-- answers what needs no more looking (refusals, and first grants of jobs that nobody holds), and
-- writes all of these grants in one statement. claim_one() knows all the rules, and is asked about
-- the rest. (It alone would do; the short way makes a batch several times cheaper.)

CREATE FUNCTION @S@.claim(a_version integer, a_ns text, a_node uuid, a_nonce bigint,
    a_node_name text, a_grants_max bigint, a_history_count bigint, a_history_age_ms bigint,
    a_watched uuid[], a_beats bigint[], a_stood_ms bigint[], a_jobs text[], a_requests text[],
    a_generations bigint[], a_scheduled_ms bigint[], a_after_ms bigint[], a_lease_ms bigint[],
    a_delay_ms bigint[], a_skip_first_ms bigint[], a_skip_count bigint[],
    a_skip_outcome integer[], a_kind integer[], a_when_held integer[], a_recover integer[],
    a_recover_limit bigint[])
RETURNS TABLE(o_answer integer, o_token bigint, o_attempt integer, o_mark_ms bigint,
    o_last_end_ms bigint, o_granted_ms bigint, o_wait_ms bigint, o_holder_token bigint,
    o_since_ms bigint, o_holder text, o_holder_node uuid, o_holder_beat bigint, o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    c record;
    v_locked boolean[];
    v_quarantine bigint;
    v_lost_at bigint;
    v_waits boolean;
    v_floor bigint;
    v_grants bigint := 0;
    v_places bigint[] := '{}';
    v_fences bigint[] := '{}';
    v_tokens bigint[] := '{}';
    v_count bigint := 0;
    v_written bigint;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.check_node(a_node, a_nonce);
    SELECT m.quarantine_until_ms, m.lost_at_ms, m.floor_ms INTO v_quarantine, v_lost_at, v_floor
        FROM @S@.meta m;
    SELECT array_agg(pg_try_advisory_xact_lock(@S@.job_key(a_ns, u.job)) ORDER BY u.place)
        INTO v_locked FROM unnest(a_jobs) WITH ORDINALITY AS u(job, place);
    -- After the locks, so that no run is granted before the last one ended.
    o_now := @S@.now_ms();
    IF v_lost_at > o_now + 10000 THEN
        PERFORM @S@.set_back(o_now);
    END IF;
    v_waits := v_quarantine > o_now
        OR o_now - v_lost_at < (SELECT max(l) FROM unnest(a_lease_ms) AS l);
    FOR c IN SELECT u.*, count(*) OVER (PARTITION BY u.job) AS times, f.id, f.mark_ms, f.token,
        f.last_end_ms, f.generation AS stored, f.paused, f.removed, (SELECT bool_or(h.node = a_node)
            FROM @S@.run h WHERE h.fence = f.id AND h.outcome = 1) AS mine
        FROM unnest(v_locked, a_jobs, a_requests, a_generations, a_scheduled_ms, a_after_ms,
            a_lease_ms, a_delay_ms, a_skip_first_ms, a_skip_count, a_skip_outcome, a_kind,
            a_when_held, a_recover, a_recover_limit) WITH ORDINALITY
        AS u(locked, job, request, generation, scheduled_ms, after_ms, lease_ms, delay_ms,
            skip_first_ms, skip_count, skip_outcome, kind, when_held, recover, recover_limit, place)
        LEFT JOIN @S@.fence f ON f.name_space = a_ns AND f.name = u.job
        ORDER BY u.place
    LOOP
        o_answer := 0;
        o_token := 0;
        o_attempt := 0;
        o_mark_ms := coalesce(c.mark_ms, 0);
        o_last_end_ms := c.last_end_ms;
        o_granted_ms := 0;
        o_wait_ms := 0;
        o_holder_token := 0;
        o_since_ms := 0;
        o_holder := NULL;
        o_holder_node := NULL;
        o_holder_beat := NULL;
        IF NOT c.locked THEN
            o_answer := 11;
            o_wait_ms := 10 + floor(random() * 40)::bigint;
        ELSIF c.times = 1 AND c.kind <= 1 AND NOT c.removed AND c.stored = c.generation
            AND NOT v_waits THEN
            IF c.scheduled_ms <= c.mark_ms THEN
                o_answer := CASE WHEN c.mine THEN 0 ELSE 3 END; -- mine: perhaps just this
            ELSIF c.mark_ms <> c.after_ms THEN
                o_answer := 4;
            ELSIF c.delay_ms > 0 AND c.mine IS NOT NULL THEN
                NULL;
            ELSIF c.delay_ms > 0
                AND c.scheduled_ms < greatest(c.mark_ms, c.last_end_ms) + c.delay_ms THEN
                o_answer := 4;
            ELSIF c.scheduled_ms > o_now THEN
                o_answer := 5;
                o_wait_ms := c.scheduled_ms - o_now;
            ELSIF c.paused OR (c.mine IS NOT NULL AND c.when_held <> 2)
                OR c.scheduled_ms <= v_floor THEN
                NULL;
            ELSIF a_grants_max <> 0 AND v_grants >= a_grants_max THEN
                o_answer := 10;
            ELSE
                o_answer := 1;
                o_token := c.token + 1;
                o_attempt := 1;
                o_mark_ms := c.scheduled_ms;
                o_granted_ms := c.scheduled_ms;
                v_grants := v_grants + 1;
                v_count := v_count + 1;
                v_places[v_count] := c.place;
                v_fences[v_count] := c.id;
                v_tokens[v_count] := c.token;
            END IF;
        END IF;
        IF o_answer = 0 THEN
            SELECT * INTO o_answer, o_token, o_attempt, o_mark_ms, o_last_end_ms, o_granted_ms,
                o_wait_ms, o_holder_token, o_since_ms, o_holder, o_holder_node, o_holder_beat
                FROM @S@.claim_one(a_ns, a_node, a_node_name,
                    a_grants_max <> 0 AND v_grants >= a_grants_max, v_quarantine,
                    v_lost_at, v_floor,
                    a_history_count, a_history_age_ms, a_watched, a_beats, a_stood_ms, c.job,
                    c.request, c.generation, c.scheduled_ms, c.after_ms, c.lease_ms, c.delay_ms,
                    c.skip_first_ms, c.skip_count, c.skip_outcome, c.kind, c.when_held,
                    c.recover, c.recover_limit);
            IF o_token > 0 THEN
                v_grants := v_grants + 1;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF v_count > 0 THEN
        v_written := @S@.grant_first(a_node, a_node_name, o_now, a_history_count,
            a_history_age_ms, v_fences, v_tokens,
            ARRAY(SELECT a_scheduled_ms[p] FROM unnest(v_places) AS p),
            ARRAY(SELECT a_after_ms[p] FROM unnest(v_places) AS p),
            ARRAY(SELECT a_kind[p] FROM unnest(v_places) AS p),
            ARRAY(SELECT a_lease_ms[p] FROM unnest(v_places) AS p),
            ARRAY(SELECT a_recover[p] FROM unnest(v_places) AS p),
            ARRAY(SELECT a_recover_limit[p] FROM unnest(v_places) AS p));
        IF v_written <> v_count THEN
            -- Past its lock: a node has found another server here (hello()), or by hand.
            RAISE EXCEPTION 'a fence changed under the lock of its job' USING ERRCODE = '40001';
        END IF;
    END IF;
    IF v_grants > 0 THEN
        PERFORM @S@.beat(a_node, o_now); -- last, because a renewal waits for it until the commit
    END IF;
END
$fn$;

-- First grants of scheduled occurrences: moves the marks from where they were read, with the tokens
-- after those that were read, which are told; and adds the runs. Returns how many it were.
CREATE FUNCTION @S@.grant_first(a_node uuid, a_node_name text, a_now_ms bigint,
    a_history_count bigint, a_history_age_ms bigint, a_fences bigint[], a_tokens bigint[],
    a_scheduled_ms bigint[], a_after_ms bigint[], a_kind integer[], a_lease_ms bigint[],
    a_recover integer[], a_recover_limit bigint[]) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_written bigint;
BEGIN
    WITH moved AS (
        UPDATE @S@.fence f SET mark_ms = u.scheduled_ms, token = f.token + 1, seq = f.seq + 1
        FROM unnest(a_fences, a_tokens, a_scheduled_ms, a_after_ms, a_kind, a_lease_ms, a_recover,
            a_recover_limit) AS u(fence, token, scheduled_ms, after_ms, kind, lease_ms, recover,
            recover_limit)
        WHERE f.id = u.fence AND f.token = u.token AND f.mark_ms = u.after_ms
        RETURNING f.id, f.seq, f.token, u.scheduled_ms, u.kind, u.lease_ms, u.recover,
            u.recover_limit)
    INSERT INTO @S@.run(fence, seq, kind, outcome, scheduled_ms, last_ms, token, attempt, node,
        node_name, started_ms, lease_ms, recover, recover_limit)
    SELECT m.id, m.seq, m.kind, 1, m.scheduled_ms, m.scheduled_ms, m.token, 1, a_node,
        a_node_name, a_now_ms, m.lease_ms, m.recover, m.recover_limit FROM moved m;
    GET DIAGNOSTICS v_written = ROW_COUNT;
    PERFORM @S@.prune(f.id, f.seq, a_now_ms, a_history_count, a_history_age_ms)
        FROM @S@.fence f WHERE f.id = ANY (a_fences) AND f.seq % 32 = 0;
    RETURN v_written;
END
$fn$;

-- One claim by all rules, in the order of backend.h. The job's lock is held.
CREATE FUNCTION @S@.claim_one(a_ns text, a_node uuid, a_node_name text, a_full boolean,
    a_quarantine bigint, a_lost_at bigint, a_floor bigint, a_history_count bigint,
    a_history_age_ms bigint, a_watched uuid[], a_beats bigint[], a_stood_ms bigint[],
    c_job text, c_request text, c_generation bigint,
    c_scheduled_ms bigint, c_after_ms bigint, c_lease_ms bigint, c_delay_ms bigint,
    c_skip_first_ms bigint, c_skip_count bigint, c_skip_outcome integer, c_kind integer,
    c_when_held integer, c_recover integer, c_recover_limit bigint, OUT o_answer integer,
    OUT o_token bigint, OUT o_attempt integer, OUT o_mark_ms bigint, OUT o_last_end_ms bigint,
    OUT o_granted_ms bigint, OUT o_wait_ms bigint, OUT o_holder_token bigint,
    OUT o_since_ms bigint, OUT o_holder text, OUT o_holder_node uuid, OUT o_holder_beat bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    f record;
    r record;
    v_now bigint;
    v_seq bigint;
    v_had integer := 0;
    v_instant bigint := c_scheduled_ms;
    v_count bigint := c_skip_count;
    v_scheduled boolean;
BEGIN
    o_token := 0;
    o_mark_ms := 0;
    o_wait_ms := 0;
    -- After the lock, so that a run is never granted before the last one ended.
    v_now := @S@.now_ms();
    SELECT t.id, t.mark_ms, t.token, t.seq, t.generation, t.paused, t.removed,
        t.last_end_ms, EXISTS(SELECT 1 FROM @S@.run h WHERE h.fence = t.id
        AND h.outcome = 1) AS held
        INTO f FROM @S@.fence t WHERE t.name_space = a_ns AND t.name = c_job;
    IF NOT FOUND THEN
        o_answer := 9;
        RETURN;
    END IF;
    o_mark_ms := f.mark_ms;
    o_last_end_ms := f.last_end_ms;
    v_scheduled := c_kind IN (0, 1, 100);

    -- An answer that was lost is given again.
    IF c_kind = 2 THEN
        SELECT w.seq, w.outcome, w.kind, w.node, w.token, w.attempt, w.scheduled_ms INTO r
            FROM @S@.run w WHERE w.fence = f.id AND w.request = c_request;
        IF FOUND THEN
            v_instant := r.scheduled_ms;
            IF r.outcome = 1 AND r.kind = 2 AND r.node = a_node THEN
                o_answer := 1;
                o_token := r.token;
                o_attempt := r.attempt;
                o_granted_ms := v_instant;
                RETURN;
            ELSIF r.outcome = 0 THEN
                v_seq := r.seq;
            END IF;
        END IF;
    ELSIF f.held AND (c_kind = 3 OR (c_kind <= 1 AND c_scheduled_ms <= f.mark_ms)) THEN
        SELECT w.token, w.attempt INTO r FROM @S@.run w WHERE w.fence = f.id
            AND w.outcome = 1 AND w.scheduled_ms = c_scheduled_ms
            AND w.node IS NOT DISTINCT FROM a_node AND w.kind <> 2
            AND (w.kind = 3) = (c_kind = 3);
        IF FOUND THEN
            o_answer := 1;
            o_token := r.token;
            o_attempt := r.attempt;
            o_granted_ms := v_instant;
            RETURN;
        END IF;
    END IF;

    IF f.removed THEN
        o_answer := 8;
        RETURN;
    ELSIF f.generation <> c_generation THEN
        o_answer := 7;
        RETURN;
    ELSIF a_quarantine > v_now OR (a_lost_at > 0 AND v_now - a_lost_at < c_lease_ms) THEN
        -- A forgotten run of this job has a lease like this one, whatever others have.
        o_answer := 11;
        o_wait_ms := least(greatest(a_quarantine - v_now, c_lease_ms - (v_now - a_lost_at)), 1000);
        RETURN;
    END IF;

    IF v_scheduled THEN
        IF c_scheduled_ms <= f.mark_ms THEN
            o_answer := 3;
            RETURN;
        ELSIF f.mark_ms <> c_after_ms THEN
            o_answer := 4;
            RETURN;
        END IF;
        IF c_delay_ms > 0 THEN
            -- A fixed delay has no occurrence before the last run has ended, and that end says
            -- when. Holders found dead count as ended now.
            SELECT * INTO o_holder_token, o_since_ms, o_holder, o_holder_node, o_holder_beat,
                o_wait_ms FROM @S@.find_holder(f.id, a_node, c_lease_ms, v_now, a_watched,
                a_beats, a_stood_ms);
            IF o_holder_node IS NOT NULL THEN
                o_answer := 2;
                RETURN;
            END IF;
            f.held := false;
            SELECT t.last_end_ms INTO o_last_end_ms FROM @S@.fence t WHERE t.id = f.id;
            IF c_scheduled_ms < greatest(f.mark_ms, o_last_end_ms) + c_delay_ms THEN
                o_answer := 4;
                RETURN;
            END IF;
        END IF;
        IF c_scheduled_ms > v_now THEN
            o_answer := 5;
            o_wait_ms := c_scheduled_ms - v_now;
            RETURN;
        ELSIF f.mark_ms < a_floor THEN
            -- Runs that were said again (hold_again()) may lie beyond a mark that was forgotten.
            v_count := v_count - (SELECT count(*) FROM @S@.run w WHERE w.fence = f.id
                AND w.scheduled_ms > CASE c_kind WHEN 100 THEN f.mark_ms ELSE c_scheduled_ms - 1 END
                AND w.scheduled_ms <= c_scheduled_ms
                AND w.kind IN (0, 1, 3) AND w.outcome BETWEEN 1 AND 7);
            IF v_count <= 0 AND (c_kind = 100 OR v_count < c_skip_count) THEN
                UPDATE @S@.fence SET mark_ms = c_scheduled_ms WHERE id = f.id;
                o_answer := CASE WHEN c_kind = 100 THEN 1 ELSE 3 END;
                o_mark_ms := c_scheduled_ms;
                o_granted_ms := v_instant;
                RETURN;
            END IF;
        END IF;
        IF f.paused THEN
            IF c_kind = 100 THEN
                PERFORM @S@.add_range(f.id, 9, '', f.mark_ms, c_skip_first_ms, c_scheduled_ms,
                    v_count, 0, v_now, a_history_count, a_history_age_ms);
            ELSE
                PERFORM @S@.add_range(f.id, 9, '', f.mark_ms, c_scheduled_ms, c_scheduled_ms, 1,
                    c_kind, v_now, a_history_count, a_history_age_ms);
            END IF;
            o_answer := 6;
            o_mark_ms := c_scheduled_ms;
            RETURN;
        ELSIF c_kind = 100 THEN
            PERFORM @S@.add_skipped(f.id, c_skip_outcome, c_skip_first_ms, c_scheduled_ms,
                v_count, 0, v_now, a_history_count, a_history_age_ms);
            o_answer := 1;
            o_mark_ms := c_scheduled_ms;
            o_granted_ms := v_instant;
            RETURN;
        ELSIF c_scheduled_ms <= a_floor AND c_recover <> 1 THEN
            -- At least once is for those who asked for it.
            PERFORM @S@.add_range(f.id, 10,
                'unknown: the server is another one and may have forgotten this run', f.mark_ms,
                c_scheduled_ms, c_scheduled_ms, 1, c_kind, v_now, a_history_count,
                a_history_age_ms);
            o_answer := 3;
            o_mark_ms := c_scheduled_ms;
            RETURN;
        END IF;
    ELSIF c_kind = 3 THEN
        SELECT w.seq, w.attempt INTO r FROM @S@.run w WHERE w.fence = f.id
            AND w.scheduled_ms = c_scheduled_ms AND w.outcome = 7 AND w.recover = 1
            AND w.attempt <= w.recover_limit AND NOT w.cancel ORDER BY w.seq LIMIT 1;
        IF NOT FOUND THEN
            o_answer := 3;
            RETURN;
        END IF;
        v_seq := r.seq;
        v_had := r.attempt;
    ELSIF v_seq IS NULL THEN
        o_answer := 3;
        RETURN;
    ELSIF v_instant <= a_floor AND c_recover <> 1 THEN
        -- It waits, or its grant is what was forgotten.
        UPDATE @S@.run SET outcome = 10, finished_ms = v_now,
            note = 'unknown: the server is another one and may have forgotten this run'
            WHERE fence = f.id AND seq = v_seq;
        o_answer := 3;
        RETURN;
    END IF;
    IF f.paused THEN
        o_answer := 6;
        RETURN;
    END IF;

    IF f.held AND c_when_held <> 2 THEN
        SELECT * INTO o_holder_token, o_since_ms, o_holder, o_holder_node, o_holder_beat,
            o_wait_ms FROM @S@.find_holder(f.id, a_node, c_lease_ms, v_now, a_watched, a_beats,
            a_stood_ms);
        IF o_holder_node IS NOT NULL THEN
            IF c_when_held = 0 AND v_scheduled THEN
                PERFORM @S@.add_skipped(f.id, 8, c_scheduled_ms, c_scheduled_ms, 1,
                    c_kind, v_now, a_history_count, a_history_age_ms);
                o_mark_ms := c_scheduled_ms;
            ELSIF c_when_held = 0 AND c_kind = 2 THEN
                UPDATE @S@.run SET outcome = 8, finished_ms = v_now
                    WHERE fence = f.id AND seq = v_seq;
            END IF;
            o_answer := 2;
            RETURN;
        END IF;
    END IF;
    IF a_full THEN
        o_answer := 10;
        RETURN;
    END IF;

    o_token := f.token + 1;
    o_attempt := v_had + 1;
    o_granted_ms := v_instant;
    IF v_scheduled THEN
        WITH moved AS (
            UPDATE @S@.fence SET mark_ms = c_scheduled_ms, token = o_token, seq = f.seq + 1
                WHERE id = f.id AND mark_ms = f.mark_ms AND token = f.token
                RETURNING id)
        INSERT INTO @S@.run(fence, seq, kind, outcome, scheduled_ms, last_ms, token,
            attempt, node, node_name, started_ms, lease_ms, recover, recover_limit)
        SELECT m.id, f.seq + 1, c_kind, 1, c_scheduled_ms, c_scheduled_ms, o_token, 1,
            a_node, a_node_name, v_now, c_lease_ms, c_recover, c_recover_limit
            FROM moved m;
    ELSE
        WITH moved AS (
            UPDATE @S@.fence SET token = o_token WHERE id = f.id AND token = f.token
                RETURNING id)
        UPDATE @S@.run w SET outcome = 1, kind = c_kind, token = o_token,
            attempt = o_attempt, node = a_node, node_name = a_node_name,
            started_ms = v_now, lease_ms = c_lease_ms, recover = c_recover,
            recover_limit = c_recover_limit, finished_ms = NULL, cancel = false,
            taken = false, code = 0, note = '', progress_done = 0, progress_total = 0
            FROM moved m WHERE w.fence = m.id AND w.seq = v_seq;
    END IF;
    IF NOT FOUND THEN
        -- The same as in claim().
        RAISE EXCEPTION 'the fence of job ''%'' changed under its lock', c_job
            USING ERRCODE = '40001';
    END IF;
    o_answer := 1;
    IF v_scheduled THEN
        o_mark_ms := c_scheduled_ms;
        IF (f.seq + 1) % 32 = 0 THEN
            PERFORM @S@.prune(f.id, f.seq + 1, v_now, a_history_count, a_history_age_ms);
        END IF;
    END IF;
END
$fn$;

-- The live holder of a job with the smallest token, if there is one; makes dead ones INTERRUPTED.
-- o_wait_ms: when to ask again. A part of the lease, so that a dead holder is found soon after its
-- lease, within bounds that suit both ends; or what is left of its grace.
CREATE FUNCTION @S@.find_holder(a_fence bigint, a_node uuid, a_lease_ms bigint, a_now_ms bigint,
    a_watched uuid[], a_beats bigint[], a_stood_ms bigint[], OUT o_token bigint,
    OUT o_since_ms bigint, OUT o_name text, OUT o_node uuid, OUT o_beat bigint,
    OUT o_wait_ms bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    r record;
    v_judged bigint;
    v_wait bigint := greatest(20, least(1000, a_lease_ms / 20));
BEGIN
    FOR r IN SELECT h.seq, h.token, h.node, h.node_name, h.started_ms, h.lease_ms
        FROM @S@.run h WHERE h.fence = a_fence AND h.outcome = 1 ORDER BY h.token
    LOOP
        IF r.node <> a_node THEN
            v_judged := @S@.judge(r.node, r.lease_ms, a_now_ms, a_watched, a_beats, a_stood_ms);
            CONTINUE WHEN v_judged >= r.lease_ms
                AND @S@.interrupt(a_fence, r.seq, a_now_ms, NULL);
            v_wait := CASE WHEN v_judged < 0 THEN least(v_wait, -v_judged) ELSE v_wait END;
        END IF;
        IF o_node IS NULL THEN
            o_token := r.token;
            o_since_ms := r.started_ms;
            o_name := r.node_name;
            o_node := r.node;
        END IF;
    END LOOP;
    o_wait_ms := 0;
    IF o_node IS NOT NULL THEN
        SELECT n.beat INTO o_beat FROM @S@.node n WHERE n.node_id = o_node;
        o_wait_ms := v_wait;
    END IF;
END
$fn$;

-- A ledger row for occurrences that do not run, with the mark moved behind them.
CREATE FUNCTION @S@.add_skipped(a_fence bigint, a_outcome integer, a_first_ms bigint,
    a_last_ms bigint, a_count bigint, a_kind integer, a_now_ms bigint, a_history_count bigint,
    a_history_age_ms bigint) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    v_seq bigint;
BEGIN
    UPDATE @S@.fence SET mark_ms = a_last_ms, seq = seq + 1 WHERE id = a_fence
        RETURNING seq INTO v_seq;
    INSERT INTO @S@.run(fence, seq, kind, outcome, scheduled_ms, last_ms, count, finished_ms)
        VALUES (a_fence, v_seq, a_kind, a_outcome, a_first_ms, a_last_ms, a_count, a_now_ms);
    IF v_seq % 32 = 0 THEN
        PERFORM @S@.prune(a_fence, v_seq, a_now_ms, a_history_count, a_history_age_ms);
    END IF;
END
$fn$;

-- The same for a paused job, and for what may have been forgotten: extends a range of the same kind
-- that directly precedes it.
CREATE FUNCTION @S@.add_range(a_fence bigint, a_outcome integer, a_note text, a_mark_ms bigint,
    a_first_ms bigint, a_last_ms bigint, a_count bigint, a_kind integer, a_now_ms bigint,
    a_history_count bigint, a_history_age_ms bigint) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    UPDATE @S@.run SET last_ms = a_last_ms, count = count + a_count, finished_ms = a_now_ms
        WHERE fence = a_fence AND outcome = a_outcome AND note = a_note AND last_ms = a_mark_ms
        AND seq = (SELECT max(seq) FROM @S@.run WHERE fence = a_fence);
    IF FOUND THEN
        UPDATE @S@.fence SET mark_ms = a_last_ms WHERE id = a_fence;
        RETURN;
    END IF;
    PERFORM @S@.add_skipped(a_fence, a_outcome, a_first_ms, a_last_ms, a_count, a_kind, a_now_ms,
        a_history_count, a_history_age_ms);
    IF a_note <> '' THEN
        UPDATE @S@.run SET note = a_note WHERE fence = a_fence
            AND seq = (SELECT max(seq) FROM @S@.run WHERE fence = a_fence);
    END IF;
END
$fn$;
