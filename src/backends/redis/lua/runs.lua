-- runs.lua: a part of a page of the ledger: the newest rows of some jobs. ARGV: 1 for one job alone,
-- its name or the name after which the part begins ('' for the first one), only rows before this id
-- ('+inf': from the newest) and after that one, how many.
-- The reply has the rows, newest first, and the last name, '' where there are no more jobs. The
-- asker puts parts together, and asks for rows after the least that it still has use for: so the
-- server never looks through all jobs, or through more than ROWS_MAX rows, at once.
local JOBS, ROWS_MAX = 100, 1000
local alone, after, before = ARGV[at] == '1', ARGV[at + 1], ARGV[at + 2]
local least, most = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
local limit = before == '+inf' and math.huge or tonumber(before)
local names = alone and {after} or
    call('ZRANGEBYLEX', P .. 'names', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, JOBS)
local page, looked = {}, 0

local function by_age(a, b)
    return a.id > b.id
end

local function cut()
    table.sort(page, by_age)
    for i = #page, most + 1, -1 do
        page[i] = nil
    end
    least = #page == most and page[most].id or least
end

local function add(job, r)
    looked = looked + 1
    if r.id < limit and r.id > least then
        r.job = job
        page[#page + 1] = r
    end
end

-- There may be thousands that wait: their ids alone tell which ones are wanted.
local function add_waiting(job)
    local key = P .. 'w:' .. job
    local ids = {}
    if call('HLEN', key) == 0 then
        return
    end
    for _, id in ipairs(call('HKEYS', key)) do
        local number = tonumber(id)
        if number < limit and number > least then
            ids[#ids + 1] = number
        end
    end
    table.sort(ids)
    for i = #ids, math.max(#ids - most + 1, 1), -1 do
        add(job, read_row(call('HGET', key, str(ids[i]))))
    end
end

local upper = before == '+inf' and before or '(' .. before
local last = ''
for i, job in ipairs(names) do
    local newest_row = tonumber(call('HGET', P .. 'f:' .. job, 's') or 0)
    if newest_row > least or newest_row == 0 then
        for _, packed in ipairs(call('ZREVRANGEBYSCORE', P .. 'z:' .. job, upper,
            '(' .. str(least), 'LIMIT', 0, most)) do
            add(job, read_row(packed))
        end
        for _, r in pairs(open_rows(job)) do
            add(job, r)
        end
        add_waiting(job)
        cut()
    end
    if looked >= ROWS_MAX or i == JOBS then
        last = job
        break
    end
end
cut()
local shown = {}
for i, r in ipairs(page) do
    shown[i] = show_row(r.job, r)
end
return {now, newest, shown, alone and '' or last}
