-- Keep or forget an order. Arguments: kind, key, value (nil: forget). Answers the new version; 0 when
-- there was nothing to forget.
local kind, key, value = unpack(unpack_message(ARGV[3]), 1, 3)
if value then
  call('HSET', T .. 'o:' .. kind, key, value)
elseif call('HDEL', T .. 'o:' .. kind, key) == 0 then
  return 0
end
return call('HINCRBY', totals, 'version', 1)
