-- withdraw.lua: jobs that the node registers no more. Items: job.
for i = at, #ARGV do
    call('HDEL', P .. 'r:' .. node, ARGV[i])
end
return {now, newest}
