-- announce.lua: which definition of a job is in force. Items: job, version, definition.
-- Changes neither pauses, nor marks of known jobs whose definition stands, nor runs (G7).
local function is_larger(a, b) -- versions have 64 bits
    return #a > #b or (#a == #b and a > b)
end

local function announce_one(job, version, definition)
    local key = P .. 'f:' .. job
    local f = fence(job)
    if not f then
        -- Generations of a forgotten store are not given out again.
        local mark, gen = math.max(now, floor), epoch * 1048576 + 1
        call('HSET', key, 'm', mark, 't', 0, 'g', gen, 'p', 0, 'x', 0, 's', 0, 'v', version, 'd',
            definition)
        call('SADD', P .. 'jobs', job)
        return {gen, mark, -1, 1, 0, 0}
    end
    local stored = call('HMGET', key, 'v', 'd')
    local larger = is_larger(version, stored[1])
    local smaller = is_larger(stored[1], version)
    if larger or (not smaller and stored[2] ~= definition) then
        f.gen = call('HINCRBY', key, 'g', 1)
        f.mark = math.max(f.mark, now) -- the new schedule is not asked about the past
        f.removed = f.removed and not larger
        call('HSET', key, 'm', f.mark, 'x', f.removed and 1 or 0, 'v', version, 'd', definition)
    end
    return {tonumber(f.gen), f.mark, f.last_end, smaller and 0 or 1, f.paused and 1 or 0,
        f.removed and 1 or 0}
end

local answers = {}
for i = at, #ARGV, 3 do
    answers[#answers + 1] = announce_one(ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
return {now, newest, answers}
