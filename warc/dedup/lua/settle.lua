-- Turn claims into originals, all or none; return the indexes (from 1) of lost claims.
-- ARGV: name, data about the caller, expiry of the heartbeat in milliseconds, a value for each payload.
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local lost = {}
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  -- The value may be set already: the call is repeated after a lost connection.
  if held ~= ARGV[i + 2] and not is_free(held) then lost[#lost + 1] = i - 1 end
end
if #lost == 0 then
  for i = 2, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 2]) end
end
return lost
