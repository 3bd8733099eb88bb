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

-- Which server this is. Not the timeline in pg_control: that one changes at the first checkpoint
-- only. What is stored begins with it; see hello().
CREATE FUNCTION @S@.incarnation() RETURNS text LANGUAGE sql VOLATILE AS $fn$
    SELECT s.system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
        FROM pg_control_system() s
$fn$;
CREATE FUNCTION @S@.is_other(a_stored text) RETURNS boolean LANGUAGE sql VOLATILE AS $fn$
    SELECT left(a_stored, length(i)) <> i FROM @S@.incarnation() AS i
$fn$;

-- Row mode has no session of its own to make settings in, so they go with each transaction: as this
-- is evaluated for the first parameter, before the function that it is for. And a pooler may
-- exchange the server under a connection that stays, so whether it is the one that the node has
-- greeted is looked at each time. a_epoch -1: it is about to.
CREATE FUNCTION @S@.tuned(a_version integer, a_wait_ms integer, a_epoch bigint, a_lsn bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $fn$
BEGIN
    PERFORM set_config('lock_timeout', a_wait_ms::text, true);
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF a_epoch >= 0 AND EXISTS(SELECT 1 FROM @S@.meta m WHERE m.epoch <> a_epoch
        OR @S@.is_other(m.incarnation)
        OR (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint < a_lsn) THEN
        RAISE EXCEPTION 'the server is another one' USING ERRCODE = '55JS5';
    END IF;
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

-- Asked on each new connection: whether this is still the server that it was. A promoted standby or
-- a restored backup may have forgotten the last grants, so what is granted from now on gets larger
-- tokens than anything that may have been granted, nothing before the floor is granted without need
-- (see claim_one()), and nothing at all until the leases of forgotten runs are over, whose owners
-- say meanwhile what they hold (hold_again()), or are told GONE.
-- The caller has seen a_epoch (-1: none) and a_incarnation, then the log's position a_lsn (a server
-- that is behind that has been set back, as by a snapshot of its host, although it has kept its
-- identity), and last a_seen_ms on that server's clock: what was due until then may have been
-- granted, although the clock of this one is behind. (A day at most, so that one wrong clock does
-- not stop everything.) a_lease_ms: the longest of its runs. Who comes later brings more of both,
-- as long as nothing is granted.
-- a_nonce: the node a_node claims through this connection from now on. The lock waits for a claim
-- that an older one has under way; later ones are refused (check_node()).
-- o_changed: it is another one, as far as the caller knows. Two copies of one server that are
-- promoted have the same timeline and epoch; a number of its own tells each from the other.
CREATE FUNCTION @S@.hello(a_version integer, a_lease_ms bigint, a_seen_ms bigint, a_epoch bigint,
    a_incarnation text, a_lsn bigint, a_node uuid, a_nonce bigint, OUT o_changed boolean,
    OUT o_epoch bigint, OUT o_incarnation text, OUT o_lsn bigint, OUT o_now bigint,
    OUT o_floor_ms bigint, OUT o_paused bigint, OUT o_jobs bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    m record;
    v_seen bigint;
    v_back boolean := (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint < a_lsn;
BEGIN
    PERFORM @S@.check_version(a_version);
    o_now := @S@.now_ms();
    -- A crash of the host forgets what is not on the disk, and no more.
    o_lsn := (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint;
    v_seen := least(a_seen_ms, o_now + 86400000);
    IF NOT EXISTS(SELECT 1 FROM @S@.boot) THEN
        INSERT INTO @S@.boot(value) VALUES (floor(random() * 1e15)::bigint) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO m FROM @S@.meta;
    IF (a_epoch >= 0 AND a_epoch <> m.epoch) OR @S@.is_other(m.incarnation) OR v_back
        OR a_incarnation <> m.incarnation THEN
        SELECT * INTO m FROM @S@.meta FOR UPDATE;
        IF @S@.is_other(m.incarnation) OR a_epoch > m.epoch
            OR (a_epoch = m.epoch AND (v_back OR a_incarnation <> m.incarnation)) THEN
            -- Nobody else was here first.
            UPDATE @S@.meta SET epoch = greatest(m.epoch, a_epoch) + 1,
                incarnation = @S@.incarnation() || '/' || floor(random() * 1e9)::bigint,
                lost_at_ms = o_now, quarantine_until_ms = o_now + greatest(a_lease_ms,
                    (SELECT max(n.lease_ms) FROM @S@.node n),
                    (SELECT max(r.lease_ms) FROM @S@.run r WHERE r.outcome = 1)),
                floor_ms = greatest(o_now, v_seen, least(m.floor_ms, o_now + 86400000));
            UPDATE @S@.fence
                SET token = greatest(token, (SELECT t.epoch FROM @S@.meta t) << 40);
        ELSIF a_epoch >= 0 AND a_epoch < m.epoch AND o_now < m.quarantine_until_ms THEN
            UPDATE @S@.meta SET floor_ms = greatest(floor_ms, v_seen),
                quarantine_until_ms = greatest(quarantine_until_ms, lost_at_ms + a_lease_ms);
        END IF;
    END IF;
    SELECT t.epoch, t.incarnation, t.floor_ms INTO o_epoch, o_incarnation, o_floor_ms
        FROM @S@.meta t;
    o_changed := m.epoch <> o_epoch OR (a_epoch >= 0 AND a_epoch <> o_epoch);
    IF o_changed THEN
        SELECT count(*) FILTER (WHERE f.paused), count(*) INTO o_paused, o_jobs
            FROM @S@.fence f WHERE NOT f.removed;
    END IF;
    IF a_nonce IS NOT NULL THEN
        PERFORM 1 FROM @S@.node WHERE node_id = a_node FOR UPDATE;
        UPDATE @S@.node SET claim_nonce = a_nonce WHERE node_id = a_node AND claim_nonce < a_nonce;
    END IF;
END
$fn$;

-- The clock was ahead when hello() found another server, and has been set back since: what it then
-- wrote down would stop all jobs until that time comes again. The quarantine begins anew now, and the
-- floor is bounded as one that a caller brings. Does not wait; the caller grants nothing before it
-- has read meta again.
CREATE FUNCTION @S@.set_back(a_now_ms bigint) RETURNS void LANGUAGE sql AS $fn$
    UPDATE @S@.meta SET lost_at_ms = a_now_ms,
        quarantine_until_ms = a_now_ms + (quarantine_until_ms - lost_at_ms),
        floor_ms = least(floor_ms, a_now_ms + 86400000)
        WHERE id = (SELECT m.id FROM @S@.meta m WHERE m.lost_at_ms > a_now_ms + 10000
            FOR UPDATE SKIP LOCKED)
$fn$;

-- Takes a liveness lock for this session, and makes or refreshes the row of its node. Another key
-- each time, so that a session which the server has not yet given up is in nobody's way.
-- a_session false: without, see row mode.
CREATE FUNCTION @S@.enter(a_version integer, a_ns text, a_node uuid, a_name text,
    a_app_version text, a_lease_ms bigint, a_grace_ms bigint, a_session boolean,
    a_claim_nonce bigint, a_nonce bigint, OUT o_now bigint)
LANGUAGE plpgsql AS $fn$
DECLARE
    v_key integer := 0;
BEGIN
    PERFORM @S@.check_version(a_version);
    IF a_session THEN
        PERFORM pg_advisory_unlock_all();
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
        lease_ms, grace_ms, beat, lock_key, pid, boot, claim_nonce, keep_nonce)
    VALUES (a_node, a_ns, a_name, a_app_version, o_now, o_now, a_lease_ms, a_grace_ms,
        floor(random() * 1e12)::bigint, v_key, pg_backend_pid(), @S@.boot(), a_claim_nonce, a_nonce)
    ON CONFLICT (node_id) DO UPDATE SET lock_key = excluded.lock_key, pid = excluded.pid,
        boot = excluded.boot, gone_ms = NULL, beat = n.beat + 1, seen_ms = excluded.seen_ms,
        claim_nonce = greatest(n.claim_nonce, excluded.claim_nonce),
        keep_nonce = excluded.keep_nonce WHERE n.keep_nonce < excluded.keep_nonce;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the node has entered from a newer session' USING ERRCODE = '55JS6';
    END IF;
END
$fn$;

-- Both by themselves: see push.c.
CREATE FUNCTION @S@.listen(a_version integer, a_ns text) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    EXECUTE format('LISTEN %I', @S@.channel(a_ns));
END
$fn$;

CREATE FUNCTION @S@.push(a_version integer, a_ns text) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM @S@.check_version(a_version);
    PERFORM pg_notify(@S@.channel(a_ns), '');
END
$fn$;

-- At the start of what only a living node may do. Fails when the node has to enter (again): its
-- row was forgotten, or the session that held its lock is gone. The row cannot go away until the
-- transaction ends.
-- a_nonce: of the connection that asks. One that was given up, and whose request comes late, is
-- refused from the moment on in which the next one is greeted.
CREATE FUNCTION @S@.check_node(a_node uuid, a_nonce bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $fn$
DECLARE
    v_key integer;
    v_nonce bigint;
BEGIN
    SELECT n.lock_key, n.claim_nonce INTO v_key, v_nonce FROM @S@.node n WHERE n.node_id = a_node
        FOR KEY SHARE;
    IF v_key IS NULL
        OR (v_key <> 0 AND pg_try_advisory_xact_lock_shared(1785946984, v_key)) THEN
        RAISE EXCEPTION 'the node is not entered' USING ERRCODE = 'JS003';
    ELSIF a_nonce <> v_nonce THEN
        RAISE EXCEPTION 'the node has a newer session' USING ERRCODE = '55JS6';
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
    DELETE FROM @S@.commander WHERE handle = a_node;
END
$fn$;
