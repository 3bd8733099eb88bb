-- find.lua: the row of a trigger. ARGV: job, request. The reply has none where there is none.
local job = ARGV[at]
local id = call('HGET', P .. 'q:' .. job, ARGV[at + 1])
if not id then
    return {now, newest, {}}
end
local packed = call('HGET', P .. 'w:' .. job, id) or call('HGET', P .. 'o:' .. job, id) or
    call('ZRANGEBYSCORE', P .. 'z:' .. job, id, id)[1]
return {now, newest, packed and {show_row(job, read_row(packed))} or {}}
