-- renew.lua: one heartbeat per node, and whether its runs are still its own. ARGV: clock offset, 1
-- in the first part of a call, then items: job, token, note, done, total.
local KEPT, GONE, CANCEL = 1, 2, 3

local function renew_one(i)
    local job, token = ARGV[i], ARGV[i + 1]
    for id, r in pairs(open_rows(job)) do
        if r.outcome == 1 and r.node == node and str(r.token) == token then
            renew_lock(job, r)
            if r.note ~= ARGV[i + 2] or r.done ~= ARGV[i + 3] or r.total ~= ARGV[i + 4] then
                r.note, r.done, r.total = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
                call('HSET', P .. 'o:' .. job, id, pack_row(r))
            end
            return r.cancel == 1 and CANCEL or KEPT
        end
    end
    return GONE
end

local seen, registered = {}, -1
if ARGV[at + 1] == '1' then
    beat()
    call('HSET', P .. 'n:' .. node, 'offset', ARGV[at])
    call('PEXPIRE', P .. 'r:' .. node, REGISTERED_MS)
    registered = call('HLEN', P .. 'r:' .. node)
    seen = sights()
end
local answers = {}
for i = at + 2, #ARGV, 5 do
    answers[#answers + 1] = renew_one(i)
end
return {now, newest, answers, seen, registered}
