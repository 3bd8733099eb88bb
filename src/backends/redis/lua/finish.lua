-- finish.lua: how runs end. Items: job, token, note, done, total, outcome, code.
local KEPT, GONE = 1, 2
local ENDED_WINDOW = 200 -- how many of a job's newest rows are searched for a repeated finish

-- Not taken from us: an earlier try of this finish has ended it.
local function is_ended(job, token, rows)
    for _, r in pairs(rows) do
        if r.outcome == 7 and r.node == node and r.taken == 0 and str(r.token) == token then
            return true
        end
    end
    for _, packed in ipairs(call('ZREVRANGE', P .. 'z:' .. job, 0, ENDED_WINDOW - 1)) do
        local r = read_row(packed)
        if r.node == node and r.taken == 0 and r.token > 0 and str(r.token) == token then
            return true
        end
    end
    return false
end

local function finish_one(i)
    local job, token = ARGV[i], ARGV[i + 1]
    local rows = open_rows(job)
    for _, r in pairs(rows) do
        if r.outcome == 1 and r.node == node and str(r.token) == token then
            r.note, r.done, r.total = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
            r.outcome, r.code = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
            end_run(job, r)
            return KEPT
        end
    end
    return is_ended(job, token, rows) and KEPT or GONE
end

local answers = {}
for i = at, #ARGV, 7 do
    answers[#answers + 1] = finish_one(i)
end
return {now, newest, answers}
