-- node.sql: the store's clock, its identity, and who is alive.
--
-- Locks, here and in the other files. Whoever changes a fence or its runs holds the advisory lock
-- of the job until its transaction ends: claim() and reap() try it and never wait; finish(),
-- announce() and leave() wait for several in the order of their keys; control() waits for one. So
-- no two of them can wait for each other. A node row is changed by its node, and by judges that
-- skip it when it is locked. Nobody waits for a lock that an application's transaction may hold
-- (assert_token): run rows are taken with SKIP LOCKED where that matters.

CREATE FUNCTION @S@.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $fn$
    SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint
$fn$;

-- The advisory lock of a job. Names that share a key only make each other busy.
CREATE FUNCTION @S@.job_key(a_ns text, a_job text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $fn$
    SELECT hashtextextended(a_job, hashtextextended(a_ns, 7449370))
$fn$;

-- Waits for the locks of several jobs, always in the same order.
CREATE FUNCTION @S@.lock_jobs(a_ns text, a_jobs text[]) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    v_key bigint;
BEGIN
    FOR v_key IN SELECT DISTINCT @S@.job_key(a_ns, j) AS k FROM unnest(a_jobs) AS j ORDER BY k LOOP
        PERFORM pg_advisory_xact_lock(v_key);
    END LOOP;
END
$fn$;

-- Fails unless the store is of the caller's version.
CREATE FUNCTION @S@.check_version(a_version integer) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    v_version integer;
BEGIN
    SELECT m.version INTO v_version FROM @S@.meta m;
    IF v_version IS DISTINCT FROM a_version THEN
        RAISE EXCEPTION '%', coalesce(v_version, 0) USING ERRCODE = 'JS001';
    END IF;
END
$fn$;

-- Row mode has no session of its own to make settings in, so they go with each transaction: as this
-- is evaluated for the first parameter, before the function that it is for. And a pooler may exchange
-- the server under a connection that stays, so hello() is asked each time.
CREATE FUNCTION @S@.tuned(a_version integer, a_wait_ms integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $fn$
BEGIN
    PERFORM set_config('lock_timeout', a_wait_ms::text, true);
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM @S@.hello(a_version, 0, -1, -1);
    RETURN a_version;
END
$fn$;

-- What control calls are told on, so that nodes need not wait for their next heartbeat.
CREATE FUNCTION @S@.channel(a_ns text) RETURNS text LANGUAGE sql IMMUTABLE AS $fn$
    SELECT 'jobsched_' || md5('@S@' || '/' || a_ns)
$fn$;

-- Another text after each restart of the server, after a crash of one of its processes (which ends
-- all sessions and empties unlogged tables), and on another server. Then the end of a session says
-- nothing about its owner.
CREATE FUNCTION @S@.boot() RETURNS text LANGUAGE sql VOLATILE AS $fn$
    SELECT date_part('epoch', pg_postmaster_start_time())::text || '/'
        || coalesce((SELECT b.value FROM @S@.boot b)::text, '')
$fn$;

-- Asked on each new connection (in row mode: in each transaction): whether this is still the server
-- that it was. A promoted standby or a restored backup may have forgotten the last grants, so what
-- is granted from now on gets larger tokens than anything that may have been granted, nothing before
-- now is granted without need (the floor, see claim_one()), and nothing at all until the leases of
-- forgotten runs are over (their owners are told GONE).
-- o_changed: it is not, as far as the caller knows, who has seen a_epoch (-1: none), and the log's
-- position a_lsn then: a server that is behind that has been set back, as by a snapshot of its host,
-- although it has kept its identity.
CREATE FUNCTION @S@.hello(a_version integer, a_lease_ms bigint, a_epoch bigint, a_lsn bigint,
    OUT o_changed boolean, OUT o_epoch bigint, OUT o_lsn bigint, OUT o_paused bigint,
    OUT o_jobs bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    v_incarnation text;
    v_now bigint := @S@.now_ms();
    v_lease bigint;
    v_back boolean;
BEGIN
    PERFORM @S@.check_version(a_version);
    o_changed := false;
    o_lsn := (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint;
    v_back := o_lsn < a_lsn;
    IF NOT EXISTS(SELECT 1 FROM @S@.boot) THEN
        INSERT INTO @S@.boot(value) VALUES (floor(random() * 1e15)::bigint) ON CONFLICT DO NOTHING;
    END IF;
    -- Not the timeline in pg_control: that one changes at the first checkpoint only.
    SELECT s.system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
        INTO v_incarnation FROM pg_control_system() s;
    IF v_back OR (SELECT m.incarnation FROM @S@.meta m) <> v_incarnation THEN
        PERFORM 1 FROM @S@.meta m WHERE m.incarnation <> v_incarnation
            OR (v_back AND m.epoch = a_epoch) FOR UPDATE;
        IF FOUND THEN -- nobody else was here first
            o_changed := true;
            SELECT greatest(a_lease_ms, (SELECT max(n.lease_ms) FROM @S@.node n),
                (SELECT max(r.lease_ms) FROM @S@.run r WHERE r.outcome = 1)) INTO v_lease;
            UPDATE @S@.meta SET incarnation = v_incarnation, epoch = epoch + 1,
                quarantine_until_ms = v_now + v_lease, floor_ms = v_now;
            UPDATE @S@.fence
                SET token = greatest(token, (SELECT m.epoch FROM @S@.meta m) << 40);
        END IF;
    END IF;
    SELECT m.epoch INTO o_epoch FROM @S@.meta m;
    o_changed := o_changed OR (a_epoch >= 0 AND a_epoch <> o_epoch);
    IF o_changed THEN
        SELECT count(*) FILTER (WHERE f.paused), count(*) INTO o_paused, o_jobs
            FROM @S@.fence f WHERE NOT f.removed;
    END IF;
END
$fn$;

-- Takes a liveness lock for this session, and makes or refreshes the row of its node. Another key
-- each time, so that a session which the server has not yet given up is in nobody's way.
-- a_session false: without, see row mode.
CREATE FUNCTION @S@.enter(a_version integer, a_ns text, a_node uuid, a_name text,
    a_app_version text, a_lease_ms bigint, a_grace_ms bigint, a_session boolean, OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    v_key integer := 0;
BEGIN
    PERFORM @S@.check_version(a_version);
    IF a_session THEN
        PERFORM pg_advisory_unlock_all();
        EXECUTE format('LISTEN %I', @S@.channel(a_ns));
        FOR i IN 1..64 LOOP
            v_key := 1 + floor(random() * 2147483646)::integer;
            EXIT WHEN pg_try_advisory_lock(1785946984, v_key);
            v_key := NULL;
        END LOOP;
    END IF;
    o_now := @S@.now_ms();
    DELETE FROM @S@.left_node WHERE node_id = a_node;
    -- The heartbeat does not begin at zero, so that a node which comes back is seen to move.
    INSERT INTO @S@.node AS n (node_id, name_space, name, app_version, started_ms, seen_ms,
        lease_ms, grace_ms, beat, lock_key, pid, boot)
    VALUES (a_node, a_ns, a_name, a_app_version, o_now, o_now, a_lease_ms, a_grace_ms,
        floor(random() * 1e12)::bigint, v_key, pg_backend_pid(), @S@.boot())
    ON CONFLICT (node_id) DO UPDATE SET lock_key = excluded.lock_key, pid = excluded.pid,
        boot = excluded.boot, gone_ms = NULL, beat = n.beat + 1, seen_ms = excluded.seen_ms;
END
$fn$;

-- At the start of what only a living node may do. Fails when the node has to enter (again): its
-- row was forgotten, or the session that held its lock is gone. The row cannot go away until the
-- transaction ends.
CREATE FUNCTION @S@.check_node(a_node uuid) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    v_key integer;
BEGIN
    SELECT n.lock_key INTO v_key FROM @S@.node n WHERE n.node_id = a_node FOR KEY SHARE;
    IF v_key IS NULL
        OR (v_key <> 0 AND pg_try_advisory_xact_lock_shared(1785946984, v_key)) THEN
        RAISE EXCEPTION 'the node is not entered' USING ERRCODE = 'JS003';
    END IF;
END
$fn$;

-- A heartbeat beside other work. Who holds the row is either this node or a judge that looks.
CREATE FUNCTION @S@.beat(a_node uuid, a_now_ms bigint) RETURNS void LANGUAGE sql AS $fn$
    UPDATE @S@.node SET beat = beat + 1, seen_ms = a_now_ms WHERE node_id =
        (SELECT node_id FROM @S@.node WHERE node_id = a_node FOR NO KEY UPDATE SKIP LOCKED)
$fn$;

-- Judges a node. The result is the lease up to which its runs are those of a dead owner: the
-- largest there is on proof, which is a session that has been gone for the node's grace, and was
-- not ended by a restart of the server, whose owner may need longer to come back; else for
-- how long the asker has watched its heartbeat stand still, if that is a_lease_ms or more; else 0
-- or less: it counts as alive, and minus that many milliseconds are left of its grace.
CREATE FUNCTION @S@.judge(a_node uuid, a_lease_ms bigint, a_now_ms bigint, a_watched uuid[],
    a_beats bigint[], a_stood_ms bigint[]) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    n record;
    l record;
    v_at integer;
    v_stood bigint := 0;
    v_gone boolean;
BEGIN
    SELECT beat, lock_key, boot INTO n FROM @S@.node WHERE node_id = a_node;
    IF NOT FOUND THEN
        RETURN 9223372036854775807;
    END IF;
    v_at := array_position(a_watched, a_node);
    IF v_at IS NOT NULL AND a_beats[v_at] = n.beat AND a_stood_ms[v_at] >= a_lease_ms THEN
        v_stood := a_stood_ms[v_at];
    END IF;
    v_gone := n.lock_key <> 0 AND pg_try_advisory_xact_lock_shared(1785946984, n.lock_key)
        AND n.boot = @S@.boot();
    IF v_stood = 0 AND NOT v_gone THEN
        RETURN 0;
    END IF;
    -- Once more with its row locked: from here on it cannot beat, nor come back, nor be in a claim
    -- (check_node), whose grant is a heartbeat even where beat() had to skip the row.
    SELECT beat, lock_key, gone_ms, grace_ms INTO l FROM @S@.node WHERE node_id = a_node
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR l.beat <> n.beat OR l.lock_key <> n.lock_key THEN
        RETURN 0;
    END IF;
    IF v_gone AND (l.gone_ms IS NULL OR l.gone_ms > a_now_ms) THEN
        UPDATE @S@.node SET gone_ms = a_now_ms WHERE node_id = a_node;
        l.gone_ms := a_now_ms;
    END IF;
    IF v_gone AND a_now_ms - l.gone_ms >= l.grace_ms THEN
        RETURN 9223372036854775807;
    END IF;
    IF v_stood > 0 THEN
        RETURN v_stood;
    END IF;
    RETURN a_now_ms - l.gone_ms - l.grace_ms;
END
$fn$;

-- Makes a run INTERRUPTED and puts it on the list of what reap has to tell. Under the job's lock.
-- False when the run cannot be taken now: a transaction relies on its token (assert_token). Only
-- this is FOR UPDATE, which is what conflicts with that transaction's FOR KEY SHARE.
CREATE FUNCTION @S@.interrupt(a_fence bigint, a_seq bigint, a_now_ms bigint, a_note text)
RETURNS boolean LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM 1 FROM @S@.run WHERE fence = a_fence AND seq = a_seq AND outcome = 1
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @S@.run SET outcome = 7, taken = true, finished_ms = a_now_ms,
        note = coalesce(a_note, note) WHERE fence = a_fence AND seq = a_seq;
    UPDATE @S@.fence SET last_end_ms = a_now_ms WHERE id = a_fence;
    INSERT INTO @S@.untold(fence, scheduled_ms, token, attempt, node_name)
        SELECT fence, scheduled_ms, token, attempt, node_name FROM @S@.run
        WHERE fence = a_fence AND seq = a_seq;
    RETURN true;
END
$fn$;

-- Deletes what the ledger of one job has beyond its bounds, of its 256 oldest rows: more than are
-- added between two prunings (32), so that it shrinks to its bounds however far beyond it is. Rows
-- that go on or wait do not take the place of finished ones.
CREATE FUNCTION @S@.prune(a_fence bigint, a_seq bigint, a_now_ms bigint, a_count bigint,
    a_age_ms bigint) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
    v_open bigint;
BEGIN
    v_open := (SELECT count(*) FROM @S@.run WHERE fence = a_fence AND outcome = 1)
        + (SELECT count(*) FROM @S@.run WHERE fence = a_fence AND outcome = 0);
    DELETE FROM @S@.run d USING (
        SELECT w.fence, w.seq FROM @S@.run w WHERE w.fence = a_fence AND w.seq IN (
            SELECT o.seq FROM @S@.run o WHERE o.fence = a_fence ORDER BY o.seq LIMIT 256)
        AND w.outcome >= 2
        AND NOT (w.outcome = 7 AND w.recover = 1 AND w.attempt <= w.recover_limit AND NOT w.cancel)
        AND (w.seq <= a_seq - a_count - v_open OR w.finished_ms < a_now_ms - a_age_ms)
        FOR UPDATE SKIP LOCKED) g
    WHERE d.fence = g.fence AND d.seq = g.seq;
END
$fn$;

-- Leaves the cluster: the node's runs become interrupted, and its row goes.
CREATE FUNCTION @S@.leave(a_version integer, a_ns text, a_node uuid) RETURNS void
LANGUAGE plpgsql AS $fn$
DECLARE
    v_run record;
    v_left boolean := false;
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM @S@.lock_jobs(a_ns, ARRAY(SELECT f.name FROM @S@.run r JOIN @S@.fence f
        ON f.id = r.fence WHERE r.outcome = 1 AND r.node = a_node));
    FOR v_run IN SELECT fence, seq FROM @S@.run WHERE outcome = 1 AND node = a_node LOOP
        IF NOT @S@.interrupt(v_run.fence, v_run.seq, @S@.now_ms(),
            'closed before the callback returned') THEN
            v_left := true; -- its row says who held it, until somebody can take it
        END IF;
    END LOOP;
    IF NOT v_left THEN
        DELETE FROM @S@.node WHERE node_id = a_node;
    END IF;
    DELETE FROM @S@.registration WHERE node_id = a_node;
END
$fn$;
