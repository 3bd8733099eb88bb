-- control.lua: the operator's verbs. ARGV: verb, job, request.
-- The reply has 0, changed, token, running, since, run token, node of the newest run; or why not:
-- 1 not known, 2 removed, 3 paused.
local PAUSE, RESUME, TRIGGER, CANCEL, REMOVE = 1, 2, 3, 4, 5
local verb, job, request = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
local key, open = P .. 'f:' .. job, P .. 'o:' .. job
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
        call('HSET', key, 'p', paused and 1 or 0)
        changed = 1
    end
end

local function add_waiting()
    local row = new_row(2, 0, now, now)
    local id = str(row.id)
    row.request = request
    call('HSET', open, id, pack_row(row))
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
    call('HSET', key, 'x', 1)
    for id, row in pairs(rows) do
        local waits, again = row.outcome == 0, row.outcome == 7
        if waits then
            row.outcome, row.finished, row.note = 4, now, 'the job was removed'
        elseif again then
            row.recover = 0
        end
        if waits or again then
            call('HDEL', open, id)
            call('ZREM', P .. (waits and 'wait' or 'rerun'), id .. ':' .. job)
            file_row(job, row)
        end
    end
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
        add_waiting()
    end
elseif verb == CANCEL then
    cancel_runs()
elseif not f.removed then
    remove_job()
end
if not r then
    return {now, newest, 0, changed, f.token, 0}
end
return {now, newest, 0, changed, f.token, 1, r.started, r.token, r.name}
