-- common.lua: what every script but enter.lua begins with. A script is one atomic step.
--
-- Keys, all with the namespace's hash tag ("{jobsched:NAMESPACE}:" is P):
--   meta      hash: version, born (changes when the store was made anew), epoch (high part of
--             tokens), id (of the newest ledger row), run (identity of the server); of the latest
--             loss of data: what, lost_at, kept (the id that was left), began (the id that it went
--             on with), former (the born before), quarantine, floor (nothing is known up to it)
--             and doubt (a floor if somebody in pending does not come back)
--   pending   set of nodes that might know more than the store
--   names     sorted set of all job names, all with score 0: in the order of their bytes
--   f:JOB     fence: m mark, t token, g generation, p paused, x removed, e last end, s newest row,
--             v version and d text of the definition, y their digest, c id of the latest change by
--             an operator or an edit, a 1 while it is only what a node has asserted after a loss;
--             wv wy wn wc who waits to replace the definition: see announce.lua
--   l:JOB     lock: "NODE:TOKEN", expires with the lease
--   o:JOB     hash of open rows (running, or to be rerun) by id
--   w:JOB     hash of waiting rows by id; apart, because there may be thousands
--   z:JOB     sorted set of the other rows: the ledger, bounded
--   q:JOB     hash: request of a trigger -> id of its row; goes with the row
--   nodes     set of node ids
--   n:NODE    node: b beat, at, l lease, nm name, c0 to c2 the nonces of its connections, ...
--   h:NODE    hash: id of a run that it holds -> job
--   r:NODE    hash: job that it registers -> digest of its definition; expires
--   wait, rerun   sorted sets of "ID:JOB": what reap lists
--   untold    sorted set, by id, of interrupted runs that nobody was told of yet
--   t:NODE    the same, of those that this node is being told of; telling  hash: id -> that node
--   e:NODE:LANE  set of rows that the node says are its own, while it says so; expires
--   hint      no key but the channel on which changes are told
--
-- Numbers are doubles here: tokens, marks and ids stay below 2^53, and what may not (versions,
-- progress) is kept as text. Never put them into text with "..": that has 14 digits.
--
-- ARGV: 1 node, 2 lane, 3 nonce, 4 born and epoch, 5 rows to keep, 6 their age, 7 how many nodes are
-- watched, then of each: node, beat, for how long that has stood.
-- The reply is {now, id, ...}, or one word: what was wrong, and nothing was changed.
local call = redis.call
local P = string.sub(KEYS[1], 1, -5)
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local node = ARGV[1]
local meta = call('HMGET', KEYS[1], 'version', 'born', 'epoch', 'id', 'quarantine', 'floor',
    'doubt')
-- In a new epoch every connection enters again, and shows what its node knows of the one before.
if not meta[1] or meta[2] .. ':' .. meta[3] ~= ARGV[4] then
    return {'LOST'}
end
if meta[1] ~= '1' then
    return {'VERSION', meta[1]}
end
local own = call('HMGET', P .. 'n:' .. node, 'b', 'c' .. ARGV[2], 'call', 'granted')
if not own[1] or not own[2] then
    return {'NODE'}
end
if own[2] ~= ARGV[3] then
    return {'OLD'}
end
local epoch, newest = tonumber(meta[3]), tonumber(meta[4])
local quarantine, floor = tonumber(meta[5]), tonumber(meta[6])
local keep, age = tonumber(ARGV[5]), tonumber(ARGV[6])
local watch = {}
local at = 8 + 3 * tonumber(ARGV[7])
for i = 8, at - 3, 3 do
    watch[ARGV[i]] = {beat = ARGV[i + 1], stood = tonumber(ARGV[i + 2])}
end

local EPOCH = 68719476736 -- 2^36 tokens of a job in one epoch
-- 2^20 definitions of a job in one store, which 16 bits name, in one epoch.
local GENERATIONS, STORES = 1048576, 65536
local QUARANTINE_MAX = 3600000
local REGISTERED_MS = 86400000 -- of a node that nobody buries; heartbeats prolong it
if quarantine > now + QUARANTINE_MAX then
    quarantine = 0 -- the server's clock has gone back
end

-- The time in which those who may know more come back is over.
local doubt = tonumber(meta[7] or 0)
if doubt > 0 and now >= quarantine then
    if call('SCARD', P .. 'pending') > 0 then
        floor = math.max(floor, doubt)
    end
    call('HSET', KEYS[1], 'floor', floor, 'doubt', 0)
    call('DEL', P .. 'pending')
end

local function str(number)
    return string.format('%.0f', number)
end

-- Tells those who listen that something changed. It only saves them time, so a user who may not
-- publish is no reason to fail.
local hinted, denied = false, 0
local function hint(what)
    if not hinted then
        local told = redis.pcall('PUBLISH', P .. 'hint', what)
        denied = type(told) == 'table' and told.err and 1 or 0
        hinted = true
    end
end

local function digest_of(version, definition)
    return string.sub(redis.sha1hex(version .. ':' .. definition), 1, 16)
end

-- Two stores that count from the start, one of them lost, do not give two definitions the same.
local function next_generation(gen)
    local store = tonumber(string.sub(redis.sha1hex(meta[2]), 1, 4), 16)
    return math.max(gen, (epoch * STORES + store) * GENERATIONS) + 1
end

local function new_id()
    newest = call('HINCRBY', KEYS[1], 'id', 1)
    return newest
end

local function pack_row(r)
    return cmsgpack.pack({r.id, r.kind, r.outcome, r.sched, r.last, r.count, r.token, r.attempt,
        r.node, r.name, r.started, r.finished, r.lease, r.recover, r.limit, r.request, r.note,
        r.done, r.total, r.code, r.cancel, r.taken})
end

local function read_row(packed)
    local a = cmsgpack.unpack(packed)
    return {id = a[1], kind = a[2], outcome = a[3], sched = a[4], last = a[5], count = a[6],
        token = a[7], attempt = a[8], node = a[9], name = a[10], started = a[11],
        finished = a[12], lease = a[13], recover = a[14], limit = a[15], request = a[16],
        note = a[17], done = a[18], total = a[19], code = a[20], cancel = a[21], taken = a[22]}
end

local function new_row(kind, outcome, sched, last)
    return {id = new_id(), kind = kind, outcome = outcome, sched = sched, last = last, count = 1,
        token = 0, attempt = 0, node = '', name = '', started = -1, finished = -1, lease = 0,
        recover = 0, limit = 0, request = '', note = '', done = '0', total = '0', code = 0,
        cancel = 0, taken = 0}
end

local function fence(job)
    local f = call('HMGET', P .. 'f:' .. job, 'm', 't', 'g', 'p', 'x', 'e', 's')
    if not f[1] then
        return nil
    end
    return {mark = tonumber(f[1]), token = tonumber(f[2]), gen = f[3], paused = f[4] == '1',
        removed = f[5] == '1', last_end = tonumber(f[6] or -1), newest = tonumber(f[7])}
end

local function rows_in(key)
    local flat = call('HGETALL', key)
    local rows = {}
    for i = 1, #flat, 2 do
        rows[flat[i]] = read_row(flat[i + 1])
    end
    return rows
end

local function open_rows(job)
    return rows_in(P .. 'o:' .. job)
end

-- ---- the ledger and its bounds ----

local function prune(job, rows)
    local z = P .. 'z:' .. job
    local beyond, drop = rows - keep, 0
    -- The first alone says mostly that there is nothing to do.
    local oldest = call('ZRANGE', z, 0, 0)
    local function stays(i, r)
        return (i > beyond and r.finished >= now - age) or
            (r.taken == 1 and (call('ZCOUNT', P .. 'untold', r.id, r.id) > 0 or
                call('HEXISTS', P .. 'telling', str(r.id)) == 1))
    end
    if not oldest[1] or stays(1, read_row(oldest[1])) then
        return
    end
    for i, packed in ipairs(call('ZRANGE', z, 0, 63)) do
        local r = read_row(packed)
        if stays(i, r) then
            break
        end
        drop = i
        if r.request ~= '' then
            call('HDEL', P .. 'q:' .. job, r.request)
        end
    end
    if drop > 0 then
        call('ZREMRANGEBYRANK', z, 0, drop - 1)
    end
end

local function file_row(job, r)
    local z = P .. 'z:' .. job
    call('ZADD', z, r.id, pack_row(r))
    local rows = call('ZCARD', z)
    if rows % 16 == 0 or rows > keep + 16 then
        prune(job, rows)
    end
end

-- As readers get it.
local function show_row(job, r)
    return {job, r.name, r.note, r.request, r.sched, r.last, r.count, r.token, r.started,
        r.finished, r.done, r.total, r.attempt, r.kind, r.outcome, r.code, r.id}
end

local function can_rerun(r)
    return r.outcome == 7 and r.recover == 1 and r.attempt <= r.limit and r.cancel == 0
end

-- ---- runs ----

local function owner_of(r)
    return r.node .. ':' .. str(r.token)
end

local function release(job, r)
    local lock = P .. 'l:' .. job
    if call('GET', lock) == owner_of(r) then
        call('DEL', lock)
    end
end

-- The lock vanishes when the server's clock steps forward: then it is taken again, because the
-- run is still ours.
local function renew_lock(job, r)
    local lock, value = P .. 'l:' .. job, owner_of(r)
    if call('GET', lock) == value then
        call('PEXPIRE', lock, r.lease)
    else
        call('SET', lock, value, 'NX', 'PX', r.lease)
    end
end

-- A run has ended in r.outcome.
local function end_run(job, r)
    local id = str(r.id)
    r.finished = now
    if call('HEXISTS', P .. 'f:' .. job, 'm') == 1 then -- not of a run that outlived its fence
        call('HSET', P .. 'f:' .. job, 'e', now)
    end
    call('HDEL', P .. 'h:' .. r.node, id)
    release(job, r)
    if can_rerun(r) then
        call('HSET', P .. 'o:' .. job, id, pack_row(r))
        call('ZADD', P .. 'rerun', r.id, id .. ':' .. job)
    else
        call('HDEL', P .. 'o:' .. job, id)
        file_row(job, r)
    end
end

local UNTOLD_MAX = 100000 -- beyond that the oldest are told by the ledger alone
local interrupted = {} -- jobs whose last run has ended in this script
local function interrupt(job, r, note)
    r.outcome = 7
    r.taken = 1
    r.note = note or r.note
    local packed = cmsgpack.pack({job, r.name, r.sched, r.token, r.attempt})
    call('ZADD', P .. 'untold', r.id, packed)
    if call('ZCARD', P .. 'untold') > UNTOLD_MAX then
        call('ZPOPMIN', P .. 'untold')
    end
    end_run(job, r)
    interrupted[job] = true
end

-- What a node was being told of, and has not said to have heard, is told to somebody else.
local function untell(id)
    local mine = P .. 't:' .. id
    local told = call('ZRANGE', mine, 0, -1, 'WITHSCORES')
    for i = 1, #told, 2 do
        call('ZADD', P .. 'untold', told[i + 1], told[i])
        call('HDEL', P .. 'telling', told[i + 1])
    end
    call('DEL', mine)
end

-- The node says that it has been told the first count findings of a batch: they are told.
local function acknowledge(batch, count)
    local mine = P .. 't:' .. node
    if count <= 0 or call('HGET', P .. 'n:' .. node, 'batch') ~= batch then
        return
    end
    local told = call('ZRANGE', mine, 0, count - 1, 'WITHSCORES')
    for i = 2, #told, 2 do
        call('HDEL', P .. 'telling', told[i])
    end
    call('ZREMRANGEBYRANK', mine, 0, count - 1)
    call('HDEL', P .. 'n:' .. node, 'batch')
end

-- ---- who is alive ----

local beats = {}
local function beat_of(id)
    if not beats[id] then
        beats[id] = call('HMGET', P .. 'n:' .. id, 'b', 'at')
    end
    return beats[id][1] or '0'
end

-- What the asker needs to watch the node: id, beat, age of the beat.
local function sight_of(id)
    local beat = beat_of(id)
    return id, beat, now - tonumber(beats[id][2] or now)
end

-- A heartbeat that stood still, on the asker's own clock, for the whole lease.
local function stood_for(id)
    local seen = watch[id]
    if id == node or not seen or seen.beat ~= beat_of(id) then
        return -1
    end
    return seen.stood
end

-- The live holder of a job that has the smallest token (or the largest); dead ones are made
-- INTERRUPTED on the way.
local function holder_of(job, rows, largest)
    local found
    for id, r in pairs(rows) do
        if r.outcome == 1 then
            if stood_for(r.node) >= r.lease then
                interrupt(job, r)
                rows[id] = nil
            elseif not found or (r.token > found.token) == largest then
                found = r
            end
        end
    end
    return found
end

-- For lists alone, by the server's clock: a node that has not been heard for two leases is gone, also
-- where nobody is left to bury it.
local silent = {}
local function is_silent(id)
    if silent[id] == nil then
        local n = call('HMGET', P .. 'n:' .. id, 'at', 'l')
        silent[id] = not n[1] or now - n[1] > 2 * tonumber(n[2] or 0)
    end
    return silent[id]
end

local function beat()
    call('HINCRBY', P .. 'n:' .. node, 'b', 1)
    call('HSET', P .. 'n:' .. node, 'at', now)
end

-- Of all nodes; flat.
local function sights()
    local seen = {}
    for _, id in ipairs(call('SMEMBERS', P .. 'nodes')) do
        local a, b, c = sight_of(id)
        seen[#seen + 1] = a
        seen[#seen + 1] = b
        seen[#seen + 1] = c
    end
    return seen
end
