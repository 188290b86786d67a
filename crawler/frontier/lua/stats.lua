-- Return the counts. Argument: time.
local now = unpack_message(ARGV[3])[1]
local numbers = call('HMGET', totals, 'queued', 'claimed', 'done', 'skipped', 'dead', 'duplicates',
  'hosts', 'bytes', 'version')
for place = 1, 9 do numbers[place] = tonumber(numbers[place] or 0) end
numbers[10] = call('ZCARD', T .. 'later')
numbers[11] = call('ZCARD', T .. 'due')
numbers[12] = call('ZCOUNT', T .. 'leases', '-inf', now)
numbers[13] = call('HGET', totals, 'paused')
return pack_message(numbers)
