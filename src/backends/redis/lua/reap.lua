-- reap.lua: ends the runs of dead owners, forgets dead nodes, and tells what waits. ARGV: how many
-- findings at most, where the listing of reruns and of triggers and the sweep of jobs go on, the
-- batch of interrupted runs that this node has been told, how many of it, a number for the next.
local most, rerun_after, trigger_after = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
local sweep_after = ARGV[at + 3]
acknowledge(ARGV[at + 4], tonumber(ARGV[at + 5]))
local left = most
local seen = sights()

local function bury(id)
    local stood = stood_for(id)
    if stood < 0 then
        return
    end
    local held = call('HGETALL', P .. 'h:' .. id)
    for i = 1, #held, 2 do
        local packed = call('HGET', P .. 'o:' .. held[i + 1], held[i])
        local r = packed and read_row(packed)
        if not r or r.outcome ~= 1 or r.node ~= id then
            call('HDEL', P .. 'h:' .. id, held[i])
        elseif r.lease <= stood and left > 0 then
            interrupt(held[i + 1], r)
            left = left - 1
        end
    end
    -- Not before its last run is ended: until then it says who held them.
    local lease = tonumber(call('HGET', P .. 'n:' .. id, 'l') or 0)
    if stood >= lease and call('EXISTS', P .. 'h:' .. id) == 0 then
        untell(id)
        call('DEL', P .. 'n:' .. id, P .. 'r:' .. id)
        call('SREM', P .. 'nodes', id)
    end
end

for i = 1, #seen, 3 do
    bury(seen[i])
end

local found = {}
-- Told until the node says that it heard, so that a lost answer loses nothing; and to this node
-- alone, so that nobody else hears it.
local mine = P .. 't:' .. node
if call('ZCARD', mine) == 0 then
    local untold = call('ZPOPMIN', P .. 'untold', most) -- member and score in turn
    for i = 1, #untold, 2 do
        call('ZADD', mine, untold[i + 1], untold[i])
        call('HSET', P .. 'telling', untold[i + 1], node)
    end
end
for i, packed in ipairs(call('ZRANGE', mine, 0, most - 1)) do
    if i == 1 then
        call('HSET', P .. 'n:' .. node, 'batch', ARGV[at + 6])
    end
    local a = cmsgpack.unpack(packed)
    found[#found + 1] = {1, a[1], a[2], '', a[3], a[4], a[5]}
end

-- Lists after a row, and returns where to go on; '0' where the list has ended. So a thousand that
-- nobody takes do not hide the ones behind them for ever.
local function list(key, where, what, after, limit)
    local last, count = after, 0
    if limit <= 0 then
        return after
    end
    local members = call('ZRANGEBYSCORE', P .. key, '(' .. after, '+inf', 'LIMIT', 0, limit)
    for _, member in ipairs(members) do
        local id, job = string.match(member, '^(%d+):(.*)$')
        local packed = call('HGET', P .. where .. job, id)
        last, count = id, count + 1
        if not packed then
            call('ZREM', P .. key, member)
        elseif call('HGET', P .. 'f:' .. job, 'x') ~= '1' then
            local r = read_row(packed)
            found[#found + 1] = {what, job, r.name, r.request, r.sched, r.token, r.attempt}
        end
    end
    return count < limit and '0' or last
end

-- Half of the rest each, so that neither can crowd out the other.
rerun_after = list('rerun', 'o:', 2, rerun_after, math.floor((most - #found + 1) / 2))
trigger_after = list('wait', 'w:', 3, trigger_after, most - #found)

-- Rows of jobs that do nothing any more grow old as well: some jobs are looked at each time.
local SWEEP_JOBS = 64
local page = call('ZSCAN', P .. 'names', sweep_after, 'COUNT', SWEEP_JOBS)
for i = 1, math.min(#page[2], 8 * SWEEP_JOBS), 2 do
    prune(page[2][i], 0)
end
return {now, newest, found, seen, rerun_after, trigger_after, page[1]}
