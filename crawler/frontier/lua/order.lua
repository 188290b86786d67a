-- Store or delete an order. Arguments: kind, key, value (nil: delete). Returns the new version; 0 if there
-- was no order to delete.
local kind, key, value = unpack(unpack_message(ARGV[3]), 1, 3)
if value then
  call('HSET', T .. 'o:' .. kind, key, value)
elseif call('HDEL', T .. 'o:' .. kind, key) == 0 then
  return 0
end
return call('HINCRBY', totals, 'version', 1)
