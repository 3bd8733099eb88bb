-- assert.lua: what a node knows, said again to a store that may have forgotten it; nothing that the
-- store knows better is changed. ARGV: 1 in the last part, then items, each begun by what it is:
--   F job, version, definition, generation, mark, in force, registered here, paused, removed, and
--     as of which row that was so
--   G job, token, scheduled, kind, attempt, lease, recover, limit, started, request: a run of ours
-- The reply has, of jobs that are in force under another number but with the very definition, that
-- number: somebody has announced it before us.
-- Runs that others may have been granted meanwhile are not ours any more: after the quarantine none
-- is taken that the store does not have.
local ENDED_WINDOW = 200 -- how many of a job's newest rows are searched for a run that has ended
local loss = call('HMGET', KEYS[1], 'kept', 'what')
local kept, all_lost = tonumber(loss[1] or 0), loss[2] == '1'
local mine = P .. 'e:' .. node .. ':' .. ARGV[2] -- lanes do this at the same time
local name = call('HGET', P .. 'n:' .. node, 'nm') or ''
local i = at + 1
local renumbered = {}

local function assert_fence()
    local job, version, definition = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local gen, mark, flags_id = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 10])
    local key, digest = P .. 'f:' .. job, digest_of(version, definition)
    local f = fence(job)
    if ARGV[i + 7] == '1' then
        call('HSET', P .. 'r:' .. node, job, digest)
    end
    if ARGV[i + 6] == '1' and not f then
        -- Its own generation, or those who have not noticed would stand down.
        call('HSET', key, 'm', mark, 't', 0, 'g', str(gen), 'p', 0, 'x', 0, 's', 0, 'v', version,
            'd', definition, 'y', digest, 'a', 1)
        call('ZADD', P .. 'names', 0, job)
    elseif ARGV[i + 6] == '1' and gen > tonumber(f.gen) and
        gen < epoch * GENERATIONS * STORES and
        (not all_lost or call('HGET', key, 'a') == '1') then
        -- An edit that was forgotten. After a loss of everything, what somebody has announced since
        -- is newer than what anybody remembers.
        call('HSET', key, 'm', math.max(f.mark, mark), 'g', str(gen), 'v', version, 'd',
            definition, 'y', digest)
    end
    f = fence(job)
    if f and tonumber(f.gen) ~= gen and call('HGET', key, 'y') == digest then
        renumbered[#renumbered + 1] = {job, f.gen}
    end
    if f and flags_id > kept and flags_id > tonumber(call('HGET', key, 'c') or 0) then
        call('HSET', key, 'p', ARGV[i + 8], 'x', ARGV[i + 9], 'c', str(flags_id))
    end
end

local function has_ended(job, token)
    for _, packed in ipairs(call('ZREVRANGE', P .. 'z:' .. job, 0, ENDED_WINDOW - 1)) do
        local r = read_row(packed)
        if r.node == node and r.token == token then
            return true
        end
    end
    return false
end

-- The row from which the run was granted, as it was before; a new one where there is none.
local function row_before(job, kind, sched, request, rows)
    if kind == 2 then
        local id = call('HGET', P .. 'q:' .. job, request)
        local packed = id and call('HGET', P .. 'w:' .. job, id)
        if packed then
            call('HDEL', P .. 'w:' .. job, id)
            call('ZREM', P .. 'wait', id .. ':' .. job)
            return read_row(packed)
        end
    elseif kind == 3 then
        for _, r in pairs(rows) do
            if r.outcome == 7 and r.sched == sched then
                call('ZREM', P .. 'rerun', str(r.id) .. ':' .. job)
                return r
            end
        end
    end
    return new_row(kind, 1, sched, sched)
end

local function assert_run()
    local job, token, sched = ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
    local rows = open_rows(job)
    local r
    for _, row in pairs(rows) do
        r = row.node == node and row.token == token and row or r
    end
    if not r then
        if now >= quarantine or token >= epoch * EPOCH or has_ended(job, token) then
            return
        end
        r = row_before(job, tonumber(ARGV[i + 4]), sched, ARGV[i + 10], rows)
        r.kind, r.outcome, r.token, r.attempt = tonumber(ARGV[i + 4]), 1, token, tonumber(ARGV[i + 5])
        r.node, r.name, r.started, r.finished = node, name, tonumber(ARGV[i + 9]), -1
        r.sched, r.last, r.lease = sched, sched, tonumber(ARGV[i + 6])
        r.recover, r.limit, r.request = tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8]), ARGV[i + 10]
        local id = str(r.id)
        call('HSET', P .. 'o:' .. job, id, pack_row(r))
        call('HSET', P .. 'h:' .. node, id, job)
        if r.request ~= '' then
            call('HSET', P .. 'q:' .. job, r.request, id)
        end
        local f = fence(job)
        if f then
            call('HSET', P .. 'f:' .. job, 's', str(math.max(f.newest, r.id)))
        end
        renew_lock(job, r)
    end
    call('SADD', mine, str(r.id))
end

while i <= #ARGV do
    if ARGV[i] == 'F' then
        assert_fence()
    else
        assert_run()
    end
    i = i + 11
end
call('PEXPIRE', P .. 'r:' .. node, REGISTERED_MS)
call('PEXPIRE', mine, QUARANTINE_MAX)
if ARGV[at] == '1' then
    -- A run that the store has as ours and we do not: that it ended is what was forgotten.
    local held = call('HGETALL', P .. 'h:' .. node)
    for h = 1, #held, 2 do
        local packed = call('SISMEMBER', mine, held[h]) == 0 and
            call('HGET', P .. 'o:' .. held[h + 1], held[h])
        local r = packed and read_row(packed)
        if r and r.outcome == 1 and r.node == node and r.token < epoch * EPOCH then
            r.outcome, r.note = 7, 'unknown: the store lost how it ended'
            end_run(held[h + 1], r)
        end
    end
    call('DEL', mine)
end
return {now, newest, renumbered}
