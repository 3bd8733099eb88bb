-- announce.lua: which definition of a job is in force. Items: job, version, definition, then enum
-- jobsched_replace and its conditions: generation, mark, and before when.
-- Changes neither pauses, nor marks of known jobs whose definition stands, nor runs (G7).
local function is_larger(a, b) -- versions have 64 bits
    return #a > #b or (#a == #b and a > b)
end

-- Nothing may be due under the definition that goes, and a removal that came after the node asked
-- holds.
local function may_replace(f, replace, generation, after, before)
    if replace == '2' then
        return not f.removed and tonumber(f.gen) == tonumber(generation) and
            f.mark == tonumber(after) and now < tonumber(before)
    end
    return f.removed or replace == '0'
end

-- Of who waits to replace a definition, the largest version above 0, the text's digest, who came with
-- that first, and whether another node came with another text.
local function note_waiting(key, version, digest)
    local w = call('HMGET', key, 'wv', 'wy', 'wn', 'wc')
    if version == '0' or (w[1] and is_larger(w[1], version)) then
        return
    end
    if w[1] ~= version then
        call('HSET', key, 'wv', version, 'wy', digest, 'wn', node, 'wc', 0)
    elseif w[2] ~= digest then
        if w[3] == node then
            call('HSET', key, 'wy', digest)
        else
            call('HSET', key, 'wc', 1)
        end
    end
end

-- Whether others wait with another text of this version: they stand down, and say so.
local function end_waiting(key, version, digest)
    local w = call('HMGET', key, 'wv', 'wy', 'wn', 'wc')
    if not w[1] or is_larger(w[1], version) then
        return false
    end
    call('HDEL', key, 'wv', 'wy', 'wn', 'wc')
    return w[1] == version and (w[4] == '1' or (w[2] ~= digest and w[3] ~= node))
end

local function announce_one(job, version, definition, ...)
    local key = P .. 'f:' .. job
    local f = fence(job)
    local digest = digest_of(version, definition)
    call('HSET', P .. 'r:' .. node, job, digest)
    if not f then
        local mark, gen = math.max(now, floor), next_generation(0)
        call('HSET', key, 'm', mark, 't', 0, 'g', gen, 'p', 0, 'x', 0, 's', 0, 'v', version, 'd',
            definition, 'y', digest)
        call('ZADD', P .. 'names', 0, job)
        return {gen, mark, -1, 1, 0, 0, 0, 0}
    end
    local stored = call('HMGET', key, 'v', 'd')
    local larger = is_larger(version, stored[1])
    local smaller = is_larger(stored[1], version)
    local conflict = false
    local replaces = larger or (not smaller and stored[2] ~= definition)
    local pending = replaces and not may_replace(f, ...)
    if pending then
        note_waiting(key, version, digest)
    elseif replaces then
        conflict = end_waiting(key, version, digest) or (not larger and version ~= '0')
        f.gen = next_generation(tonumber(f.gen))
        f.mark = math.max(f.mark, now) -- the new schedule is not asked about the past
        f.removed = f.removed and not larger
        call('HSET', key, 'm', f.mark, 'g', f.gen, 'x', f.removed and 1 or 0, 'v', version, 'd',
            definition, 'y', digest, 'a', 0, 'c', new_id())
        hint('definition')
    end
    return {tonumber(f.gen), f.mark, f.last_end, (smaller or pending) and 0 or 1,
        f.paused and 1 or 0, f.removed and 1 or 0, conflict and 1 or 0, pending and 1 or 0}
end

local answers = {}
for i = at, #ARGV, 7 do
    answers[#answers + 1] = announce_one(unpack(ARGV, i, i + 6))
end
call('PEXPIRE', P .. 'r:' .. node, REGISTERED_MS)
return {now, newest, answers, denied}
