-- leave.lua: a node closes. Its runs become interrupted at once. ARGV: the batch that it has been told,
-- and how many of it.
acknowledge(ARGV[at], tonumber(ARGV[at + 1]))
untell(node)
local held = call('HGETALL', P .. 'h:' .. node)
for i = 1, #held, 2 do
    local packed = call('HGET', P .. 'o:' .. held[i + 1], held[i])
    local r = packed and read_row(packed)
    if r and r.outcome == 1 and r.node == node then
        interrupt(held[i + 1], r, 'closed before the callback returned')
        hint('interrupted') -- so that somebody looks now and not at the next heartbeat
    end
end
call('DEL', P .. 'n:' .. node, P .. 'h:' .. node, P .. 'r:' .. node)
call('SREM', P .. 'nodes', node)
return {now, newest}
