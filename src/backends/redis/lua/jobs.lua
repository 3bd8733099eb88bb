-- jobs.lua: a page of fences, by name. ARGV: 1 for one job alone, its name or the name after which
-- the page begins ('' for the first one), how many.
-- The reply has the page and the last name of it, '' where there are no more.
local alone, after, most = ARGV[at] == '1', ARGV[at + 1], tonumber(ARGV[at + 2])
local names = alone and {after} or
    call('ZRANGEBYLEX', P .. 'names', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, most)

-- What every live node registers of this page, asked for node by node.
local registered = {}
if #names > 0 then
    for _, id in ipairs(call('SMEMBERS', P .. 'nodes')) do
        if not is_silent(id) then
            registered[#registered + 1] = call('HMGET', P .. 'r:' .. id, unpack(names))
        end
    end
end

local function show_last(job, rows)
    local packed = call('ZREVRANGE', P .. 'z:' .. job, 0, 0)[1]
    local last = packed and read_row(packed) or nil
    for _, r in pairs(rows) do
        if r.outcome == 7 and (not last or r.id > last.id) then
            last = r
        end
    end
    return last and {last.outcome, last.sched, last.started, last.finished, last.name} or {}
end

local function show(i, job)
    local f = call('HMGET', P .. 'f:' .. job, 'm', 't', 'g', 'p', 'x', 'e', 'v', 'd', 'y')
    if not f[1] then
        return nil
    end
    local nodes, dissent, running, newest_run = 0, 0, 0, nil
    for _, digests in ipairs(registered) do
        if digests[i] then
            nodes = nodes + 1
            dissent = dissent + (digests[i] ~= f[9] and 1 or 0)
        end
    end
    local rows = open_rows(job)
    for _, r in pairs(rows) do
        if r.outcome == 1 and not is_silent(r.node) then
            running = running + 1
            newest_run = (not newest_run or r.token > newest_run.token) and r or newest_run
        end
    end
    return {job, f[8], f[7], f[3], f[2], f[1], f[6] or '-1', f[4], f[5], nodes, dissent, running,
        call('HLEN', P .. 'w:' .. job), show_last(job, rows),
        newest_run and {newest_run.name, newest_run.started, newest_run.token} or {}}
end

local page = {}
for i, job in ipairs(names) do
    page[#page + 1] = show(i, job)
end
return {now, newest, page, (alone or #names < most) and '' or names[#names]}
