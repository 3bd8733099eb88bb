-- claim.lua: the election. The mark in the fence, read and moved in one step, makes it one.
-- ARGV: node name, grants_max, number of the call, then items of 14: job, request, generation,
-- scheduled, after, lease, delay, first, count, skip outcome, kind, when held, recover, limit.
local GRANTED, HELD, DONE, MOVED, EARLY, PAUSED, STALE, REMOVED, UNKNOWN, FULL, BUSY =
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local TRIGGER, RERUN, SKIP = 2, 3, 100
local name, grants_max, number = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
-- The bound counts over all parts of a call.
local granted = own[3] == number and tonumber(own[4]) or 0
local beaten = false

-- A grant is a heartbeat, also when it is repeated: the engine counts the lease from when it asked
-- last.
local function beat_once()
    if not beaten then
        beat()
        beaten = true
    end
end

local function answer(f, what, wait)
    return {what, f.mark, f.last_end, 0, 0, 0, wait or 0}
end

local function answer_granted(f, r)
    return {GRANTED, f.mark, f.last_end, r.token, r.attempt, r.sched, 0}
end

local function answer_held(f, c, r)
    local wait = math.min(math.max(math.floor(c.lease / 20), 20), 1000)
    local a = answer(f, HELD, wait)
    a[8], a[9], a[10] = r.token, r.started, r.name
    if r.node ~= '' then
        a[11], a[12], a[13] = sight_of(r.node)
    end
    return a
end

local function move_mark(f, c, id)
    f.mark = c.sched
    f.newest = id
    call('HSET', P .. 'f:' .. c.job, 'm', c.sched, 's', id)
end

-- A ledger row for occurrences that do not run, with the mark moved behind them.
local function skip(f, c, outcome, first, count, note)
    local r = new_row(c.kind == SKIP and 0 or c.kind, outcome, first, c.sched)
    r.count, r.finished, r.note = count, now, note or ''
    file_row(c.job, r)
    move_mark(f, c, r.id)
end

-- An occurrence, or a range of them, of a paused job: extends a paused range that directly
-- precedes it.
local function skip_paused(f, c)
    local ranged = c.kind == SKIP
    local first, count = ranged and c.first or c.sched, ranged and c.count or 1
    local z = P .. 'z:' .. c.job
    local packed = f.newest > 0 and call('ZRANGEBYSCORE', z, f.newest, f.newest)[1]
    local r = packed and read_row(packed)
    if not r or r.outcome ~= 9 or r.last ~= f.mark then
        skip(f, c, 9, first, count)
        return
    end
    r.last, r.count, r.finished = c.sched, r.count + count, now
    call('ZREM', z, packed)
    call('ZADD', z, r.id, pack_row(r))
    move_mark(f, c, r.id)
end

-- Whether an occurrence that the mark has not come to yet is in the ledger already: of a run that
-- its owner has asserted after a loss of data.
local function has_row(c, rows)
    for _, r in pairs(rows) do
        if r.sched == c.sched and r.kind ~= TRIGGER then
            return true
        end
    end
    for _, packed in ipairs(call('ZREVRANGE', P .. 'z:' .. c.job, 0, 63)) do
        local r = read_row(packed)
        if r.sched == c.sched and r.kind ~= TRIGGER then
            return true
        end
    end
    return false
end

-- What has a place on the schedule; nil: go on.
local function rule_schedule(f, c, rows)
    if c.sched <= f.mark then
        return answer(f, DONE)
    end
    if f.mark ~= c.after then
        return answer(f, MOVED)
    end
    if c.delay > 0 then
        local r = holder_of(c.job, rows, false)
        if r then
            return answer_held(f, c, r)
        end
        f.last_end = interrupted[c.job] and now or f.last_end
        if c.sched < math.max(f.mark, f.last_end) + c.delay then
            return answer(f, MOVED)
        end
    end
    if c.sched > now then
        return answer(f, EARLY, c.sched - now)
    end
    if f.paused then
        skip_paused(f, c)
        return answer(f, PAUSED)
    end
    if c.kind == SKIP then
        skip(f, c, c.skip_outcome, c.first, c.count)
        return {GRANTED, f.mark, f.last_end, 0, 0, c.sched, 0}
    end
    if c.sched <= floor and has_row(c, rows) then
        f.mark = c.sched
        call('HSET', P .. 'f:' .. c.job, 'm', c.sched)
        return answer(f, DONE)
    end
    if c.sched <= floor and c.recover ~= 1 then
        skip(f, c, 10, c.sched, 1, 'unknown: the store lost what it knew of this occurrence')
        return answer(f, DONE)
    end
end

-- A trigger that waits is not granted.
local function end_waiting(c, row, outcome, note)
    local id = str(row.id)
    row.outcome, row.finished, row.note = outcome, now, note or ''
    call('HDEL', P .. 'w:' .. c.job, id)
    call('ZREM', P .. 'wait', id .. ':' .. c.job)
    file_row(c.job, row)
end

local function skip_overlap(f, c, row)
    if c.kind ~= TRIGGER then
        skip(f, c, 8, c.sched, 1)
    else
        end_waiting(c, row, 8)
    end
end

local function grant(f, c, row)
    local token = math.max(f.token, epoch * EPOCH) + 1
    if token >= 9007199254740992 then
        return answer(f, BUSY, 60000) -- no larger token can be told from this one
    end
    local value = node .. ':' .. str(token)
    local lock = P .. 'l:' .. c.job
    if not call('SET', lock, value, 'NX', 'PX', c.lease) and c.held ~= 2 then
        -- A lock that no run of ours explains. It is honoured while it lives.
        if c.held == 0 and c.kind ~= RERUN then
            skip_overlap(f, c, row)
        end
        return answer_held(f, c, {token = 0, started = 0, name = '', node = ''})
    end
    beat_once()
    local r = row or new_row(c.kind, 1, c.sched, c.sched)
    local id = str(r.id)
    if row then
        new_id() -- the row is older: so that it shows when a store has lost this grant
    end
    if row and row.outcome == 0 then
        call('HDEL', P .. 'w:' .. c.job, id)
        call('ZREM', P .. 'wait', id .. ':' .. c.job)
    elseif row then
        call('ZREM', P .. 'rerun', id .. ':' .. c.job)
    end
    r.kind, r.outcome, r.token, r.attempt = c.kind, 1, token, r.attempt + 1
    r.node, r.name, r.started, r.finished = node, name, now, -1
    r.lease, r.recover, r.limit, r.cancel, r.taken = c.lease, c.recover, c.limit, 0, 0
    r.code, r.note, r.done, r.total = 0, '', '0', '0'
    call('HSET', P .. 'o:' .. c.job, id, pack_row(r))
    call('HSET', P .. 'h:' .. node, id, c.job)
    f.token = token
    if row then
        call('HSET', P .. 'f:' .. c.job, 't', token)
    else
        f.mark = c.sched
        call('HSET', P .. 'f:' .. c.job, 'm', c.sched, 't', token, 's', id)
    end
    granted = granted + 1
    return answer_granted(f, r)
end

-- A run of ours that is exactly this occurrence: its answer was lost.
local function find_mine(f, c, rows)
    if c.kind == SKIP or (c.kind ~= RERUN and c.sched > f.mark) then
        return nil
    end
    for _, r in pairs(rows) do
        if r.outcome == 1 and r.node == node and r.sched == c.sched and
            (r.kind == RERUN) == (c.kind == RERUN) and r.kind ~= TRIGGER then
            return r
        end
    end
end

local function find_rerun(c, rows)
    local found
    for _, r in pairs(rows) do
        if r.sched == c.sched and can_rerun(r) and (not found or r.id < found.id) then
            found = r
        end
    end
    return found
end

-- The rules, in the order of backend.h.
local function decide(c)
    local f = fence(c.job)
    if not f then
        return {UNKNOWN, 0, -1, 0, 0, 0, 0}
    end
    local rows = open_rows(c.job)
    local row, mine
    if c.kind == TRIGGER then
        local id = call('HGET', P .. 'q:' .. c.job, c.request)
        local packed = id and call('HGET', P .. 'w:' .. c.job, id)
        row = packed and read_row(packed) or nil
        local run = id and rows[id]
        if run and run.outcome == 1 and run.kind == TRIGGER and run.node == node then
            mine = run
        end
    else
        mine = find_mine(f, c, rows)
    end
    if mine then
        granted = granted + 1
        beat_once()
        renew_lock(c.job, mine)
        return answer_granted(f, mine)
    end
    if f.removed then
        return answer(f, REMOVED)
    end
    if f.gen ~= c.gen then
        return answer(f, STALE)
    end
    local refusal
    if c.kind ~= TRIGGER and c.kind ~= RERUN then
        if now < quarantine and c.sched > f.mark and c.sched <= now then
            return answer(f, BUSY, quarantine - now)
        end
        refusal = rule_schedule(f, c, rows)
    else
        if c.kind == RERUN then
            row = find_rerun(c, rows)
        end
        refusal = not row and answer(f, DONE) or f.paused and answer(f, PAUSED) or
            now < quarantine and answer(f, BUSY, quarantine - now)
        if not refusal and c.kind == TRIGGER and row.sched <= floor and c.recover ~= 1 then
            -- It waits, or its grant is what was forgotten.
            end_waiting(c, row, 10, 'unknown: the store lost what it knew of this trigger')
            refusal = answer(f, DONE)
        end
    end
    if refusal then
        return refusal
    end
    if c.held ~= 2 then
        local r = holder_of(c.job, rows, false)
        if r then
            if c.held == 0 and c.kind ~= RERUN then
                skip_overlap(f, c, row)
            end
            return answer_held(f, c, r)
        end
        f.last_end = interrupted[c.job] and now or f.last_end
    end
    if grants_max > 0 and granted >= grants_max then
        return answer(f, FULL)
    end
    return grant(f, c, row)
end

local answers = {}
for i = at + 3, #ARGV, 14 do
    answers[#answers + 1] = decide({job = ARGV[i], request = ARGV[i + 1], gen = ARGV[i + 2],
        sched = tonumber(ARGV[i + 3]), after = tonumber(ARGV[i + 4]),
        lease = tonumber(ARGV[i + 5]), delay = tonumber(ARGV[i + 6]),
        first = tonumber(ARGV[i + 7]), count = tonumber(ARGV[i + 8]),
        skip_outcome = tonumber(ARGV[i + 9]), kind = tonumber(ARGV[i + 10]),
        held = tonumber(ARGV[i + 11]), recover = tonumber(ARGV[i + 12]),
        limit = tonumber(ARGV[i + 13])})
end
if grants_max > 0 then
    call('HSET', P .. 'n:' .. node, 'call', number, 'granted', granted)
end
return {now, newest, answers}
