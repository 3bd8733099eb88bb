-- tables.sql: the tables of a postgresql: store, as JSI_PG_VERSION has them. '@S@' stands for the
-- schema. Who changes them raises that version and adds a step in steps.c, which leads the tables of
-- the version before to the same.
--
-- fence       one row per job, rewritten by each claim: so no index on what a claim changes, and
--             room on the page (HOT). What is large and seldom changes is in definition.
-- run         the ledger; a row with outcome 1 is a holder. taken: somebody else ended it.
--             Plans are made while tables are empty and all indexes look alike. So that a look for
--             a job's holder is never planned as a scan of all of a node's runs, such statements
--             compare the node by IS NOT DISTINCT FROM, from which run_owner's condition does not
--             follow.
-- untold      interrupted runs that no reap has reported yet. Apart from run, because a rerun
--             reuses the row.
-- node        one row per open handle. lock_key: its session holds the advisory lock
--             (1785946984, lock_key); 0: it has none, and only its heartbeat shows it alive (row
--             mode). pid: the process that serves that session. boot: what boot() was then.
--             gone_ms: since when that lock has been seen free. claim_nonce: the connection from
--             which the node claims now; what an older one still has on its way is refused.
--             keep_nonce: the like for entering.
-- commander   the same for control calls: one row per handle that makes any, until it is
--             closed, or for an hour.
-- registration  which node registers which job, as what. left_node: nodes that were forgotten, so
--             that a registration outlasts a node which only seemed dead, though not for ever.
-- boot        unlogged, so that a crash empties it: see boot().
-- meta        one row. incarnation: of the server; another one means that acknowledged writes may
--             be lost, so tokens get another epoch in their high part, see hello(). lost_at_ms:
--             when that was noticed. floor_ms: what was due until then may have been granted
--             already.

CREATE TABLE @S@.meta(
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    version integer NOT NULL,
    epoch bigint NOT NULL,
    incarnation text NOT NULL,
    lost_at_ms bigint NOT NULL,
    quarantine_until_ms bigint NOT NULL,
    floor_ms bigint NOT NULL
);

CREATE UNLOGGED TABLE @S@.boot(
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    value bigint NOT NULL
);

CREATE TABLE @S@.fence(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name_space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    mark_ms bigint NOT NULL,
    token bigint NOT NULL,
    seq bigint NOT NULL,
    generation bigint NOT NULL,
    paused boolean NOT NULL,
    removed boolean NOT NULL,
    last_end_ms bigint,
    UNIQUE (name_space, name)
) WITH (fillfactor = 50);

CREATE TABLE @S@.definition(
    fence bigint PRIMARY KEY,
    version numeric(20, 0) NOT NULL,
    hash bigint NOT NULL,
    text text COLLATE "C" NOT NULL
);

CREATE TABLE @S@.run(
    id bigint GENERATED ALWAYS AS IDENTITY,
    fence bigint NOT NULL,
    seq bigint NOT NULL,
    kind smallint NOT NULL,
    outcome smallint NOT NULL,
    scheduled_ms bigint NOT NULL,
    last_ms bigint NOT NULL,
    count bigint NOT NULL DEFAULT 1,
    token bigint NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    node uuid,
    node_name text COLLATE "C" NOT NULL DEFAULT '',
    started_ms bigint,
    finished_ms bigint,
    lease_ms bigint NOT NULL DEFAULT 0,
    recover smallint NOT NULL DEFAULT 0,
    recover_limit bigint NOT NULL DEFAULT 0,
    cancel boolean NOT NULL DEFAULT false,
    taken boolean NOT NULL DEFAULT false,
    code integer NOT NULL DEFAULT 0,
    progress_done bigint NOT NULL DEFAULT 0,
    progress_total bigint NOT NULL DEFAULT 0,
    request text COLLATE "C",
    note text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (fence, seq)
) WITH (fillfactor = 85);
CREATE INDEX run_newest ON @S@.run(id);
CREATE UNIQUE INDEX run_request ON @S@.run(fence, request) WHERE request IS NOT NULL;
CREATE INDEX run_holder ON @S@.run(fence) WHERE outcome = 1;
CREATE INDEX run_owner ON @S@.run(node, lease_ms) WHERE outcome = 1 AND node IS NOT NULL;
CREATE INDEX run_waiting ON @S@.run(fence) WHERE outcome = 0;
CREATE INDEX run_rerun ON @S@.run(fence, scheduled_ms)
    WHERE outcome = 7 AND recover = 1 AND attempt <= recover_limit AND NOT cancel;

CREATE TABLE @S@.untold(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence bigint NOT NULL,
    scheduled_ms bigint NOT NULL,
    token bigint NOT NULL,
    attempt integer NOT NULL,
    node_name text COLLATE "C" NOT NULL
);

CREATE TABLE @S@.node(
    node_id uuid PRIMARY KEY,
    name_space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    app_version text COLLATE "C" NOT NULL,
    started_ms bigint NOT NULL,
    seen_ms bigint NOT NULL,
    lease_ms bigint NOT NULL,
    grace_ms bigint NOT NULL,
    beat bigint NOT NULL,
    clock_offset_ms bigint NOT NULL DEFAULT 0,
    lock_key integer NOT NULL,
    pid integer NOT NULL,
    boot text NOT NULL,
    claim_nonce bigint NOT NULL,
    keep_nonce bigint NOT NULL,
    gone_ms bigint
) WITH (fillfactor = 50);

CREATE TABLE @S@.commander(
    handle uuid PRIMARY KEY,
    nonce bigint NOT NULL,
    at_ms bigint NOT NULL
);

CREATE TABLE @S@.registration(
    fence bigint NOT NULL,
    node_id uuid NOT NULL,
    version numeric(20, 0) NOT NULL,
    hash bigint NOT NULL,
    PRIMARY KEY (fence, node_id)
);
CREATE INDEX registration_node ON @S@.registration(node_id);

CREATE TABLE @S@.left_node(
    node_id uuid PRIMARY KEY,
    at_ms bigint NOT NULL
);
