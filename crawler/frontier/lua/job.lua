-- Return the counts of a job. Argument: its name.
local job = call('HGET', T .. 'jobs', unpack_message(ARGV[3])[1])
if not job then return {} end
return call('HMGET', T .. 'j' .. job, 'queued', 'claimed', 'done', 'skipped', 'dead', 'bytes', 'began')
