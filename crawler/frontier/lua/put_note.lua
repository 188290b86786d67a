-- Store or delete a note. Arguments: time, kind, key, value (nil: delete), expiry (nil: never), whether an
-- unexpired note with another value is kept. Returns 0 if it is.
local now, kind, key, value, until_ms, is_claim = unpack(unpack_message(ARGV[3]), 1, 6)
local notes, ends, member = T .. 't:' .. kind, T .. 'ends', pack_message({ kind, key })
local held = is_claim and call('HGET', notes, key)
if held then
  local held_ms, other = unpack(unpack_message(held), 1, 2)
  if other ~= value and (held_ms == 0 or held_ms > now) then return 0 end
end
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
