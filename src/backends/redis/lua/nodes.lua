-- nodes.lua: the nodes that are not known to be dead; or, of one of them, a part of its jobs with how
-- many of those have a definition that is not in force. ARGV: node or '', cursor.
local one = ARGV[at]
if one ~= '' then
    local part = call('HSCAN', P .. 'r:' .. one, ARGV[at + 1], 'COUNT', 200)
    local dissent = 0
    for i = 1, #part[2], 2 do
        if call('HGET', P .. 'f:' .. part[2][i], 'y') ~= part[2][i + 1] then
            dissent = dissent + 1
        end
    end
    return {now, newest, part[1], dissent}
end
local shown = {}
for _, id in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'n:' .. id, 'b', 'nm', 'app', 'started', 'at', 'offset')
    if n[1] and not is_silent(id) then
        shown[#shown + 1] = {id, n[2] or '', n[3] or '', n[4] or '0', n[5] or '0', n[6] or '0',
            call('HLEN', P .. 'r:' .. id), call('HLEN', P .. 'h:' .. id)}
    end
end
return {now, newest, shown}
