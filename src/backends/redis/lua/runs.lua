-- runs.lua: one page of the ledger, newest first. ARGV: job or '' with 1 for all jobs, only rows
-- before this id ('+inf': from the newest), how many.
local all, before, most = ARGV[at + 1] == '1', ARGV[at + 2], tonumber(ARGV[at + 3])
local limit = before == '+inf' and math.huge or tonumber(before)
local jobs = all and call('SMEMBERS', P .. 'jobs') or {ARGV[at]}
local page = {}

local function by_age(a, b)
    return a.id > b.id
end

-- Keeps the newest; returns the id below which nothing is needed.
local least = 0
local function cut()
    table.sort(page, by_age)
    for i = #page, most + 1, -1 do
        page[i] = nil
    end
    least = #page == most and page[most].id or 0
end

local function add(job, r)
    if r.id < limit and r.id > least then
        r.job = job
        page[#page + 1] = r
    end
end

local upper = before == '+inf' and before or '(' .. before
for _, job in ipairs(jobs) do
    for _, packed in ipairs(call('ZREVRANGEBYSCORE', P .. 'z:' .. job, upper, '(' .. str(least),
        'LIMIT', 0, most)) do
        add(job, read_row(packed))
    end
    for _, where in ipairs({'o:', 'w:'}) do
        for _, r in pairs(rows_in(P .. where .. job)) do
            add(job, r)
        end
    end
    if #page >= 2 * most then
        cut()
    end
end
cut()
local shown = {}
for i, r in ipairs(page) do
    shown[i] = {r.job, r.name, r.note, r.request, r.sched, r.last, r.count, r.token, r.started,
        r.finished, r.done, r.total, r.attempt, r.kind, r.outcome, r.code, r.id}
end
return {now, newest, shown}
