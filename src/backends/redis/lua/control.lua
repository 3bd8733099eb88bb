-- control.lua: the operator's verbs. ARGV: verb, job, request.
-- The reply has 0, changed, token, running, since, run token, node of the newest run; or why not:
-- 1 not known, 2 removed, 3 paused, 4 too many wait.
local WAITING_MAX = 10000
local PAUSE, RESUME, TRIGGER, CANCEL, REMOVE = 1, 2, 3, 4, 5
local verb, job, request = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
local key, open, waiting = P .. 'f:' .. job, P .. 'o:' .. job, P .. 'w:' .. job
local f = fence(job)
if not f then
    return {now, newest, 1}
end
if f.removed and verb ~= REMOVE then
    return {now, newest, 2}
end
local rows = open_rows(job)
-- First, so that a verb neither names nor cancels a run whose owner is dead.
local r = holder_of(job, rows, true)
local changed = 0

local function set_paused(paused)
    if f.paused ~= paused then
        -- Its own number, so that it shows when a store has lost it.
        call('HSET', key, 'p', paused and 1 or 0, 'c', new_id())
        changed = 1
    end
end

local function add_waiting()
    local row = new_row(2, 0, now, now)
    local id = str(row.id)
    row.request = request
    call('HSET', waiting, id, pack_row(row))
    call('HSET', P .. 'q:' .. job, request, id)
    call('ZADD', P .. 'wait', row.id, id .. ':' .. job)
    call('HSET', key, 's', id)
    changed = 1
end

local function cancel_runs()
    for id, row in pairs(rows) do
        if row.outcome == 1 and row.cancel == 0 then
            row.cancel = 1
            call('HSET', open, id, pack_row(row))
            changed = 1
        end
    end
end

-- Nothing of a removed job will be granted, so nothing of it waits any more.
local function remove_job()
    changed = 1
    call('HSET', key, 'x', 1, 'c', new_id())
    for id, row in pairs(rows) do
        if row.outcome == 7 then
            row.recover = 0
            call('HDEL', open, id)
            call('ZREM', P .. 'rerun', id .. ':' .. job)
            file_row(job, row)
        end
    end
    for id, row in pairs(rows_in(waiting)) do
        row.outcome, row.finished, row.note = 4, now, 'the job was removed'
        call('ZREM', P .. 'wait', id .. ':' .. job)
        file_row(job, row)
    end
    call('DEL', waiting)
end

if verb == PAUSE then
    set_paused(true)
elseif verb == RESUME then
    set_paused(false)
elseif verb == TRIGGER then
    if call('HEXISTS', P .. 'q:' .. job, request) == 0 then
        if f.paused then
            return {now, newest, 3}
        end
        if call('HLEN', waiting) >= WAITING_MAX then
            return {now, newest, 4}
        end
        add_waiting()
    end
elseif verb == CANCEL then
    cancel_runs()
elseif not f.removed then
    remove_job()
end
if changed == 1 then
    hint('control')
end
if not r then
    return {now, newest, 0, changed, f.token, 0, 0, 0, '', denied}
end
return {now, newest, 0, changed, f.token, 1, r.started, r.token, r.name, denied}
