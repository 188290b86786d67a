-- Store or delete a note. Arguments: time, kind, key, value (nil: delete), expiry (nil: never).
local now, kind, key, value, until_ms = unpack(unpack_message(ARGV[3]), 1, 5)
local notes, ends, member = T .. 't:' .. kind, T .. 'ends', pack_message({ kind, key })
if value then
  call('HSET', notes, key, pack_message({ until_ms or 0, value }))
else
  call('HDEL', notes, key)
end
if value and until_ms then
  call('ZADD', ends, until_ms, member)
else
  call('ZREM', ends, member)
end
-- Delete some expired notes.
for _, over in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 10)) do
  local old = unpack_message(over)
  if over ~= member then call('HDEL', T .. 't:' .. old[1], old[2]) end
  if over ~= member then call('ZREM', ends, over) end
end
return 1
