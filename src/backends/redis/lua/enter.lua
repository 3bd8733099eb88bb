-- enter.lua: makes the store where there is none, notices lost data, and enters a node's
-- connection. ARGV: 1 node, 2 lane, 3 nonce, 4 the born that we know or '', 5 epoch and 6 id that
-- we know, 7 a new born, 8 lease, 9 name, 10 application version, 11 the server's run id, 12 the
-- latest mark that we know, 13 whether the server loses nothing in a crash.
-- The reply is {now, id, born, epoch, what was lost}: 1 everything, 2 the latest part, 3 perhaps
-- something.
local call = redis.call
local P = string.sub(KEYS[1], 1, -5)
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local node, lane, nonce, known = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local known_epoch, known_id = tonumber(ARGV[5]), tonumber(ARGV[6])
local lease, known_mark = tonumber(ARGV[8]), tonumber(ARGV[12])
local meta = call('HMGET', KEYS[1], 'version', 'born', 'epoch', 'id', 'quarantine', 'floor', 'run',
    'began')
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
local began = tonumber(meta[8] or 0)
if known ~= '' and known ~= born and epoch <= known_epoch then
    lost = 1
elseif known == born and (known_id > id or (known_epoch < epoch and known_id > began)) then
    -- We have seen a row that was not there any more when this epoch began.
    lost = 2
elseif meta[7] and meta[7] ~= ARGV[11] and ARGV[13] ~= '1' then
    lost = 3
end
if lost > 0 then
    epoch = math.max(epoch, known_epoch) + 1
    quarantine = math.max(quarantine, now + lease)
    id = math.max(id, known_id)
    began = id
    if lost < 3 then
        floor = math.max(floor, now, known_mark)
    end
end
if not meta[1] or lost > 0 or meta[7] ~= ARGV[11] then
    call('HSET', KEYS[1], 'version', 1, 'born', born, 'epoch', epoch, 'id', id, 'quarantine',
        quarantine, 'floor', floor, 'run', ARGV[11], 'began', began)
end
if call('HEXISTS', n, 'b') == 0 then
    -- The beat begins where none has been, so that nobody takes it for one that stood still.
    call('HSET', n, 'b', now, 'at', now, 'started', now)
    call('SADD', P .. 'nodes', node)
end
call('HSET', n, 'c' .. lane, nonce, 'l', lease, 'nm', ARGV[9], 'app', ARGV[10])
return {now, id, born, epoch, lost}
