-- ask.sql: who is alive, for the readers.

-- The nodes of a namespace that are not known to be dead.
CREATE FUNCTION @S@.living(a_version integer, a_ns text, a_watched uuid[], a_beats bigint[],
    a_stood_ms bigint[]) RETURNS TABLE(o_node uuid, o_now bigint) LANGUAGE plpgsql AS $fn$
DECLARE
    n record;
BEGIN
    PERFORM @S@.check_version(a_version);
    o_now := @S@.now_ms();
    FOR n IN SELECT t.node_id, t.lease_ms FROM @S@.node t WHERE t.name_space = a_ns LOOP
        IF @S@.judge(n.node_id, n.lease_ms, o_now, a_watched, a_beats, a_stood_ms) < n.lease_ms THEN
            o_node := n.node_id;
            RETURN NEXT;
        END IF;
    END LOOP;
    o_node := NULL;
    RETURN NEXT; -- the clock, also where there is nobody
END
$fn$;
