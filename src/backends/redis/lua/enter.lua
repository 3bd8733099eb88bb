-- enter.lua: makes the store where there is none, notices lost data, and enters a node's
-- connection. ARGV: 1 node, 2 lane, 3 nonce, 4 the born that we know or '', 5 epoch and 6 id that
-- we know, 7 a new born, 8 the longest lease that we know of, 9 name, 10 application version, 11 the
-- server's run id, 12 the latest mark that we know, 13 whether the server loses nothing in a crash,
-- 14 whether this handle only asks and commands, 15 for how long at least the server has run, 16
-- whether to look first whether the user has the rights.
-- The reply is {now, id, born, epoch, what was lost, floor}: 1 everything, 2 the latest part, 3
-- perhaps something.
local call = redis.call
local P = string.sub(KEYS[1], 1, -5)
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local node, lane, nonce, known = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local known_epoch, known_id = tonumber(ARGV[5]), tonumber(ARGV[6])
local lease, known_mark = tonumber(ARGV[8]), tonumber(ARGV[12])
local CONTROL_MS = 600000 -- a handle that only commands is forgotten then, and enters again

-- A right that is missing in the middle of a script would leave half of it done. So all commands are
-- tried once, on keys that are gone afterwards.
local function missing_right()
    local tries = {
        {'SET', 'k', 1, 'PX', 1000}, {'GET', 'k'}, {'PEXPIRE', 'k', 1000}, {'EXISTS', 'k'}, {'DEL', 'k'},
        {'HSET', 'h', 'a', 1}, {'HGET', 'h', 'a'}, {'HMGET', 'h', 'a'}, {'HGETALL', 'h'},
        {'HEXISTS', 'h', 'a'}, {'HLEN', 'h'}, {'HKEYS', 'h'}, {'HINCRBY', 'h', 'a', 1},
        {'HSCAN', 'h', 0}, {'HDEL', 'h', 'a'},
        {'SADD', 's', 'a'}, {'SMEMBERS', 's'}, {'SCARD', 's'}, {'SISMEMBER', 's', 'a'},
        {'SUNIONSTORE', 's', P .. 'probe:s'}, {'SREM', 's', 'a'},
        {'ZADD', 'z', 0, 'a', 0, 'b', 0, 'c'}, {'ZCARD', 'z'}, {'ZCOUNT', 'z', 0, 0},
        {'ZRANGE', 'z', 0, 0}, {'ZRANGEBYSCORE', 'z', 0, 0}, {'ZRANGEBYLEX', 'z', '-', '+'},
        {'ZREVRANGE', 'z', 0, 0}, {'ZREVRANGEBYSCORE', 'z', 0, 0}, {'ZSCAN', 'z', 0},
        {'ZREMRANGEBYRANK', 'z', 0, 0}, {'ZPOPMIN', 'z'}, {'ZREM', 'z', 'c'}}
    for _, words in ipairs(tries) do
        local key = P .. 'probe:' .. words[2]
        local answer = redis.pcall(words[1], key, unpack(words, 3))
        if type(answer) == 'table' and answer.err then
            redis.pcall('PEXPIRE', key, 1000)
            return words[1], answer
        end
    end
end

if ARGV[16] == '1' then
    local command, answer = missing_right()
    if command and string.find(answer.err, "can't ", 1, true) then
        return {'RIGHTS', command, answer.err}
    end
    if command then
        return answer
    end
end
local meta = call('HMGET', KEYS[1], 'version', 'born', 'epoch', 'id', 'quarantine', 'floor', 'run',
    'began', 'former', 'what', 'lost_at', 'kept', 'doubt')
if meta[1] and meta[1] ~= '1' then
    return {'VERSION', meta[1]}
end
local n = P .. 'n:' .. node
local before = call('HGET', n, 'c' .. lane)
if before and tonumber(before) >= nonce then
    return {'OLD'}
end
local born, epoch = meta[2] or ARGV[7], tonumber(meta[3] or 0)
local id, lost = tonumber(meta[4] or 0), 0
local quarantine, floor = tonumber(meta[5] or 0), tonumber(meta[6] or 0)
local began, former, what = tonumber(meta[8] or 0), meta[9] or '', tonumber(meta[10] or 0)
local lost_at, kept, doubt = tonumber(meta[11] or 0), tonumber(meta[12] or 0), tonumber(meta[13] or 0)
if known ~= '' and known ~= born and (epoch <= known_epoch or known ~= former) then
    lost = 1
elseif known == born and (known_id > id or (known_epoch < epoch and known_id > began)) then
    -- We have seen a row that was not there any more when this epoch began.
    lost = 2
elseif meta[7] and meta[7] ~= ARGV[11] and ARGV[13] ~= '1' then
    lost = 3
end
local changed = not meta[1] or lost > 0 or meta[7] ~= ARGV[11]
if lost > 0 then
    kept = id
    epoch = math.max(epoch, known_epoch) + 1
    quarantine = math.max(quarantine, now + lease)
    id = math.max(id, known_id)
    began, what, lost_at = id, lost, now
    if lost == 1 then
        former = known
    end
    if lost < 3 then
        floor = math.max(floor, now, known_mark)
    else
        -- Unless everybody who was there comes back and misses nothing, what was due before the
        -- server came up may have been granted, too: common.lua decides when the time is over.
        doubt = math.max(doubt, now - tonumber(ARGV[15]))
        call('SUNIONSTORE', P .. 'pending', P .. 'pending', P .. 'nodes')
    end
elseif known ~= '' and known_epoch < epoch and now < quarantine then
    -- Others may have longer leases than whoever noticed, and know of later marks.
    changed = true
    quarantine = math.max(quarantine, lost_at + lease)
    if what < 3 then
        floor = math.max(floor, known_mark)
    end
end
if known ~= '' then
    call('SREM', P .. 'pending', node)
end
if changed then
    call('HSET', KEYS[1], 'version', 1, 'born', born, 'epoch', epoch, 'id', id, 'quarantine',
        quarantine, 'floor', floor, 'run', ARGV[11], 'began', began, 'former', former, 'what', what,
        'lost_at', lost_at, 'kept', kept, 'doubt', doubt)
end
if call('HEXISTS', n, 'b') == 0 then
    -- The beat begins where none has been, so that nobody takes it for one that stood still.
    call('HSET', n, 'b', now, 'at', now, 'started', now)
    if ARGV[14] ~= '1' then
        call('SADD', P .. 'nodes', node)
    end
end
call('HSET', n, 'c' .. lane, nonce, 'l', lease, 'nm', ARGV[9], 'app', ARGV[10])
if ARGV[14] == '1' then
    call('PEXPIRE', n, CONTROL_MS)
end
return {now, id, born, epoch, lost, floor}
